// SPDX-License-Identifier: MIT
//
// bench/stages/flow_cases.hpp: stages that remember packets, and packets of as many flows for them.
#pragma once

#include "bench/stages/stage_case.hpp"

namespace xdpgpu::bench {

// `rate_limit` and `conntrack`, each with a table of `entries` in which `flows` stand, with packets of the
// first `shown` of them; `ddos` with all of its metrics, of the flows' 256 destinations, and of one that a
// SYN flood of all packets goes to, which it drops: there each packet has to wait for the one before; and a
// firewall of `feed`'s reputation and `filter`'s acl with both tables behind. All that the first two let go
// on is passed: the limits are far. Half of the firewall's packets are its acl's.
std::vector<StageCase> flow_cases(u32 entries, u32 flows, u32 shown, const StageCase& feed,
                                  const StageCase& filter);

// rte_hash (DPDK) with these packets' flows in a table of so many entries; its answer is XG_PASS where it has
// the flow.
Peer rte_hash_peer(std::shared_ptr<const std::vector<StagePacket>> packets, u32 entries);

}  // namespace xdpgpu::bench
