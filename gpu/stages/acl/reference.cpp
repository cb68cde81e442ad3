// SPDX-License-Identifier: MIT
#include <algorithm>

#include "gpu/stages/references.hpp"

namespace xdpgpu::gpu::reference {
namespace {

bool matches(const std::vector<Prefix>& prefixes, std::span<const u8> address) {
  return prefixes.empty() || std::any_of(prefixes.begin(), prefixes.end(),
                                         [&](const Prefix& prefix) { return contains(prefix, address); });
}

bool matches(const std::vector<PortRange>& ranges, const Packet& packet, u32 at) {
  if (ranges.empty()) return true;
  if (packet.ports.empty() || packet.is(XG_PKT_FRAGMENT)) return false;
  const u32 port = packet.ports[at] * 256u + packet.ports[at + 1];
  return std::any_of(ranges.begin(), ranges.end(),
                     [&](const PortRange& range) { return range.first <= port && port <= range.last; });
}

bool matches(const std::vector<u8>& protocols, const Packet& packet) {
  if (protocols.empty()) return true;
  if (packet.src.empty()) return false;
  return std::find(protocols.begin(), protocols.end(), packet.metadata.protocol) != protocols.end();
}

bool matches(const std::optional<TcpFlags>& flags, const Packet& packet) {
  return !flags || (!packet.tcp.empty() && (packet.tcp[13] & flags->mask) == flags->value);
}

bool matches(const std::vector<VlanRange>& vlans, const Packet& packet) {
  return vlans.empty() || std::any_of(vlans.begin(), vlans.end(), [&](const VlanRange& range) {
           return packet.vlan >= range.first && packet.vlan <= range.last;
         });
}

bool matches(const AclRule& rule, const Packet& packet) {
  return matches(rule.src, packet.src) && matches(rule.dst, packet.dst) && matches(rule.protocols, packet) &&
         matches(rule.src_ports, packet, 0) && matches(rule.dst_ports, packet, 2) &&
         matches(rule.tcp_flags, packet) && matches(rule.vlans, packet);
}

class Acl final : public StageWith<AclSettings> {
 public:
  using StageWith::StageWith;
  bool decide(const Packet& packet, const Place& place, xg_result& result) override {
    const u32 stage = place.position;
    Action action = settings().otherwise;
    u32 target = 0;
    u32 number = 0;
    for (std::size_t i = 0; i < settings().rules.size(); i++) {
      if (!matches(settings().rules[i], packet)) continue;
      action = settings().rules[i].action;
      target = settings().rules[i].target;
      number = static_cast<u32>(i) + 1;
      break;
    }
    if (!act(action, target, stage, number, result)) return false;
    set_cache(settings().cache, settings().cache_ttl_ms, packet, XG_REWRITE_NONE, result);
    return true;
  }
  bool may_send() const override {
    return std::any_of(settings().rules.begin(), settings().rules.end(),
                       [](const AclRule& rule) { return sends(rule.action); });
  }
  std::optional<u32> cached_undecided() const override {
    return settings().cache ? std::optional(settings().cache_ttl_ms) : std::nullopt;
  }
};

}  // namespace

std::unique_ptr<Stage> reference_of(const AclSettings& settings, const std::array<u64, 2>&) {
  return std::make_unique<Acl>(settings);
}

}  // namespace xdpgpu::gpu::reference
