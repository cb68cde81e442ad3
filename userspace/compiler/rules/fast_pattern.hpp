// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/fast_pattern.hpp: by which of a rule's contents it is found, as Suricata 7 chooses
// it (detect-engine-mpm.c): what the rule says; else of those that have to be there, the ones in the buffers
// that are preferred, of these the longest, of these the one with the most various bytes.
#pragma once

#include "userspace/compiler/rules/rule.hpp"

namespace xdpgpu::rules {

std::optional<Rule::FastPattern> choose_fast_pattern(const std::vector<Buffer>& buffers);

}  // namespace xdpgpu::rules
