// SPDX-License-Identifier: MIT
//
// bench/stages/flow_cases.hpp: stages that remember packets, and packets of as many flows for them.
#pragma once

#include "bench/stages/stage_case.hpp"

namespace xdpgpu::bench {

// `rate_limit` and `conntrack`, each with a table of `entries` in which the flows of the packets stand, and a
// firewall of `filter`'s acl with both behind it. All that the acl lets go on is passed: the limits are far.
std::vector<StageCase> flow_cases(u32 entries, u32 packets, const StageCase& filter);

}  // namespace xdpgpu::bench
