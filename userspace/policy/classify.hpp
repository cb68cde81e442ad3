// SPDX-License-Identifier: MIT
//
// userspace/policy/classify.hpp: which rules a packet matches, in plain C++ and without a kernel.
//
// classify walks the compiled tables step by step as the XDP program does (maps/tables.h); `replay`
// without root uses it. match_linear asks the policy's rules one after the other and knows nothing of
// tables: it defines the right answer, and the tests hold both against each other.
#pragma once

#include <vector>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

// What the classifier is given of a packet. Addresses in network order, IPv4 in the first four bytes.
struct PacketFacts {
  u8 family = 0;  // 4, 6; 0: not IP, addresses are not read
  u8 src[16] = {};
  u8 dst[16] = {};
  u32 src_port = XG_PORT_NONE;  // host order
  u32 dst_port = XG_PORT_NONE;
  u32 l4 = XG_L4_OTHER;     // XG_L4_* index; for XG_L4_CONTROL + k see l4_of
  u32 vlan = XG_VLAN_NONE;  // outer id, XG_VLAN_PRIORITY or XG_VLAN_NONE
};

// The L4 index of a packet: `control` is XG_CONTROL_NONE or the control protocol it belongs to, which
// counts only if `control_named` (xg_policy.control_named) has its bit.
u32 l4_of(u8 family, u8 protocol, bool fragment, u8 tcp_flags, u32 control, u32 control_named);

// Compiled rule indexes (management rules first) that match, ascending.
std::vector<u32> classify(const Tables& tables, const PacketFacts& packet);
std::vector<u32> match_linear(const Policy& policy, const PacketFacts& packet);

// 64-rule words that classify looks at for this packet: what a lookup costs beside its fixed part.
u32 words_visited(const Tables& tables, const PacketFacts& packet);

}  // namespace xdpgpu::policy
