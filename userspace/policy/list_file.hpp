// SPDX-License-Identifier: MIT
//
// userspace/policy/list_file.hpp: the text of a list file: one address or prefix a line, or an intrusion
// detection system's rule (rule_line.hpp); '#' or ';' begins a comment, also behind a prefix; blank lines
// count for nothing.
#pragma once

#include <string_view>
#include <vector>

#include "userspace/policy/reader.hpp"

namespace xdpgpu::policy {

// Appends the prefixes to `into`; reports bad lines under `file`. named_at is the place in the policy
// that names the file.
void read_list_file(Report& report, std::string_view text, const std::string& file, const Place& named_at,
                    std::vector<Prefix>& into);

}  // namespace xdpgpu::policy
