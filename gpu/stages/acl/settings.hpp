// SPDX-License-Identifier: MIT
//
// gpu/stages/acl/settings.hpp: what `acl` can be told, and what it does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "gpu/stages/values.hpp"

namespace xdpgpu::gpu {

// `acl`: ordered rules, first match wins. Empty lists match everything; a rule that names addresses or
// protocols matches only packets that have addresses (of that family), one that names ports only packets
// that have ports and are no fragment. TCP flags has a packet that has addresses, XG_PKT_TCP set, protocol 6,
// and is no fragment, if the 20 bytes of its header are in the frame, and in the IP packet; a VLAN one with
// XG_PKT_VLAN set, that of its outer tag: the bytes behind the MAC addresses, if 18 bytes are in the frame.
// `next` ends the stage: the packet goes on to the next one. Verdict's rule: the rule's position + 1; 0:
// `otherwise`. At most 16,384 rules.
struct AclRule {
  std::string name;
  std::vector<Prefix> src, dst;
  std::vector<u8> protocols;
  std::vector<PortRange> src_ports, dst_ports;
  std::optional<TcpFlags> tcp_flags;
  std::vector<VlanRange> vlans;
  using Action = gpu::Action;
  Action action = Action::next;
  u32 target = 0;  // port index, for redirect
};
struct AclSettings {
  std::vector<AclRule> rules;
  Action otherwise = Action::next;  // no rule matched: next, drop or pass
  bool cache = false;               // publish the verdict to the kernel
  u32 cache_ttl_ms = 0;             // 0: while the generation lives
};
inline constexpr u32 kAclMaxRules = 16384;

}  // namespace xdpgpu::gpu
