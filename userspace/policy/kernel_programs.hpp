// SPDX-License-Identifier: MIT
//
// userspace/policy/kernel_programs.hpp: the programs of a policy that run in XDP itself ("where": "kernel"),
// in the place of a device.
#pragma once

#include <string>
#include <vector>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

// Has rules that inspect by these pipelines go on with their programs instead: in the lines of compiled
// tables, or in a copy of them. As compiled they inspect: whoever decides without the kernel (replay,
// --audit) has a device run the programs.
void lead_to_programs(const xg_policy& header, xg_line* lines, const std::vector<u16>& pipelines);

}  // namespace xdpgpu::policy
