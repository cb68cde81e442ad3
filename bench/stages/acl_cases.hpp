// SPDX-License-Identifier: MIT
//
// bench/stages/acl_cases.hpp: rule sets for `acl` and packets for them, from a fixed seed.
#pragma once

#include "bench/stages/stage_case.hpp"

namespace xdpgpu::bench {

// One rule, as plain numbers: what the right answers and other libraries are made of.
struct PlainRule {
  u32 src = 0, src_mask = 0, dst = 0, dst_mask = 0;
  u16 src_first = 0, src_last = 65535, dst_first = 0, dst_last = 65535;
  u8 protocol = 0, protocol_mask = 0;  // mask 0xff: named
  u8 flags = 0, flags_mask = 0;        // only with protocol 6
  u16 vlan = 0, vlan_mask = 0;         // vlan 0: no tag
};

// mixed        like the firewalls' filters that ClassBench (Taylor and Turner, INFOCOM 2005) was made from:
//              nested prefixes of some networks, exact ports and ranges, wildcards, some with TCP flags or a
//              VLAN; packets that meet them
// overlapping  each rule crosses a tenth of every dimension: all meet all
// crossing     of 64 rules half match the packet's source port and half its destination port, none both: each
//              dimension by itself promises a match everywhere
enum class AclShape { mixed, overlapping, crossing };

// A case for each number of rules, held against the first one's.
std::vector<StageCase> acl_cases(AclShape shape, const std::vector<u32>& rules, u32 packets);

// rte_acl (DPDK) by these rules; its answer is 1 + the rule's number, 0: none.
Peer rte_acl_peer(std::shared_ptr<const std::vector<PlainRule>> rules);

}  // namespace xdpgpu::bench
