// SPDX-License-Identifier: MIT
//
// userspace/policy/kernel_programs.hpp: the programs of a policy that run in XDP itself ("where": "kernel"),
// in the place of a device.
#pragma once

#include <string>
#include <vector>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

bool runs_in_kernel(const Pipeline& pipeline);

// The places of the policy's pipelines that do. In their order they are the programs' numbers
// (XG_RULE_PROGRAM); none has a number where there are more than XG_MAX_PROGRAMS, which parse() refuses.
std::vector<u16> kernel_pipelines(const Policy& policy);

// Their names.
std::vector<std::string> names_in_kernel(const Policy& policy);

// Has rules that inspect by these pipelines go on with their programs instead: in the lines of compiled
// tables, or in a copy of them. As compiled they inspect: whoever decides without the kernel (replay,
// --audit) has a device run the programs.
void lead_to_programs(const xg_policy& header, xg_line* lines, const std::vector<u16>& pipelines);

}  // namespace xdpgpu::policy
