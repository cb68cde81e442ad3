// SPDX-License-Identifier: MIT
//
// The rules asked one after the other, straight from the policy: slow, and plainly right.
#include <algorithm>

#include "userspace/policy/classify.hpp"

namespace xdpgpu::policy {
namespace {

// What an L4 index says of its packet.
struct L4 {
  std::optional<u32> protocol, tcp_flags, control;
};
L4 l4_facts(u32 index) {
  if (index >= XG_L4_CONTROL) {
    u32 kind = index - XG_L4_CONTROL;
    L4 facts{{}, {}, kind};
    if (kind == XG_CONTROL_ND) facts.protocol = 58;
    if (kind == XG_CONTROL_DHCP) facts.protocol = 17;
    return facts;
  }
  if (index >= XG_L4_OTHER) return {};
  u32 of_family = index % 512;
  if (of_family >= 256) return {6, of_family - 256, {}};
  return {of_family, {}, {}};
}

bool inside(const Prefix& prefix, u8 family, const u8* address) {
  if (family != prefix.family) return false;
  for (u32 bit = 0; bit < prefix.length; ++bit) {
    u8 mask = static_cast<u8>(0x80u >> (bit % 8));
    if (((prefix.address[bit / 8] ^ address[bit / 8]) & mask) != 0) return false;
  }
  return true;
}

class LinearMatcher {
 public:
  LinearMatcher(const Policy& policy, const PacketFacts& packet) : policy_(policy), packet_(packet) {}

  bool matches(const Match& match, bool reverse) const {
    const u8* src = reverse ? packet_.dst : packet_.src;
    const u8* dst = reverse ? packet_.src : packet_.dst;
    u32 src_port = reverse ? packet_.dst_port : packet_.src_port;
    u32 dst_port = reverse ? packet_.src_port : packet_.dst_port;
    return (!match.family || *match.family == packet_.family) && address(match.src, match.src_lists, src) &&
           address(match.dst, match.dst_lists, dst) && port(match.src_ports, src_port) &&
           port(match.dst_ports, dst_port) && l4(match) && vlan(match.vlans);
  }

 private:
  bool address(const std::vector<Prefix>& prefixes, const std::vector<std::string>& lists,
               const u8* bytes) const {
    auto in = [&](const std::vector<Prefix>& among) {
      return std::any_of(among.begin(), among.end(),
                         [&](const Prefix& prefix) { return inside(prefix, packet_.family, bytes); });
    };
    if (prefixes.empty() && lists.empty()) return true;
    return in(prefixes) || std::any_of(lists.begin(), lists.end(), [&](const std::string& name) {
             return in(policy_.lists.at(name).prefixes);
           });
  }
  static bool port(const std::vector<PortRange>& ranges, u32 port) {
    return ranges.empty() || std::any_of(ranges.begin(), ranges.end(), [&](const PortRange& range) {
             return port >= range.first && port <= range.last;
           });
  }
  bool l4(const Match& match) const {
    L4 facts = l4_facts(packet_.l4);
    if (!match.control.empty() &&
        (!facts.control || std::count(match.control.begin(), match.control.end(), *facts.control) == 0))
      return false;
    if (!match.protocols.empty() &&
        (!facts.protocol || std::count(match.protocols.begin(), match.protocols.end(), *facts.protocol) == 0))
      return false;
    return !match.tcp_flags_mask ||
           (facts.tcp_flags && (*facts.tcp_flags & *match.tcp_flags_mask) == match.tcp_flags_value);
  }
  bool vlan(const std::vector<VlanRange>& vlans) const {
    const u32 id = packet_.vlan == XG_VLAN_NONE ? 0 : packet_.vlan;
    return vlans.empty() || std::any_of(vlans.begin(), vlans.end(), [&](const VlanRange& range) {
             return id >= range.first && id <= range.last;
           });
  }

  const Policy& policy_;
  const PacketFacts& packet_;
};

}  // namespace

std::vector<u32> match_linear(const Policy& policy, const PacketFacts& packet) {
  LinearMatcher matcher(policy, packet);
  std::vector<u32> found;
  u32 rule = 0;
  for (const auto& match : policy.management)
    for (bool reverse : {false, true}) {
      if (matcher.matches(match, reverse)) found.push_back(rule);
      ++rule;
    }
  for (const auto& one : policy.rules) {
    if (matcher.matches(one.match, false)) found.push_back(rule);
    ++rule;
  }
  return found;
}

}  // namespace xdpgpu::policy
