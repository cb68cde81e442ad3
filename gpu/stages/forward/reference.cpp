// SPDX-License-Identifier: MIT
#include <algorithm>

#include "gpu/stages/references.hpp"

namespace xdpgpu::gpu::reference {
namespace {

// Of the routes whose prefix holds the address the one with the longest; the first one of equals.
const Route* route_to(const ForwardSettings& settings, std::span<const u8> address) {
  const Route* best = nullptr;
  for (const Route& route : settings.routes)
    if (contains(route.prefix, address) && (best == nullptr || route.prefix.length > best->prefix.length))
      best = &route;
  return best;
}

// Multicast, broadcast, reserved, loopback, link-local or unspecified.
bool stays_on_its_link(std::span<const u8> address) {
  if (address.size() == 4)
    return address[0] == 0 || address[0] == 127 || address[0] >= 224 ||
           (address[0] == 169 && address[1] == 254);
  if (address[0] == 0xff || (address[0] == 0xfe && (address[1] & 0xc0) == 0x80)) return true;
  return std::all_of(address.begin(), address.end() - 1, [](u8 byte) { return byte == 0; }) &&
         address[15] <= 1;
}

// RFC 1624, equation 3: HC' = ~(~HC + ~m + m'), in ones' complement arithmetic of 16 bits.
u32 updated_checksum(u32 checksum, u32 old_word, u32 new_word) {
  u32 sum = (~checksum & 0xffffu) + (~old_word & 0xffffu) + new_word;
  while (sum > 0xffffu) sum = (sum & 0xffffu) + (sum >> 16);
  return ~sum & 0xffffu;
}

class Forward final : public StageWith<ForwardSettings> {
 public:
  using StageWith::StageWith;
  bool decide(const Packet& packet, const Place& place, xg_result& result) override {
    if (packet.src.empty()) return false;
    const auto pass = [&](u32 why) {
      result.verdict = XG_VERDICT(XG_PASS, 0u, place.position, why);
      return true;
    };
    if (packet.is(XG_PKT_MALFORMED) || (packet.frame[0] & 1) != 0 || stays_on_its_link(packet.src) ||
        stays_on_its_link(packet.dst))
      return pass(forward_rule::kInvalid);
    if ((packet.metadata.router & XG_ROUTER_ADDRESSED) == 0) return pass(forward_rule::kForeign);

    const Route* route = route_to(settings(), packet.dst);
    if (route == nullptr) {
      if (!act(settings().otherwise, 0, place.position, 0, result)) return false;
      set_cache(settings().cache, settings().cache_ttl_ms, packet, XG_REWRITE_NONE, result);
      return true;
    }
    if (route->next_hop == kRoutePass || route->next_hop == kRouteDrop) {
      result.verdict = route->next_hop == kRoutePass
                           ? XG_VERDICT(XG_PASS, 0u, place.position, forward_rule::kPass)
                           : XG_VERDICT(XG_DROP, 0u, place.position, forward_rule::kDrop);
      set_cache(settings().cache, settings().cache_ttl_ms, packet, XG_REWRITE_NONE, result);
      return true;
    }

    const NextHop& hop = settings().next_hops[route->next_hop];
    const bool v4 = packet.src.size() == 4;
    const auto ip = header(packet, packet.metadata.l3_offset, v4 ? 20 : 40);
    const u32 ttl = v4 ? ip[8] : ip[7];
    const bool options = v4 ? ip[0] != 0x45 : ip[6] == 0;
    const u32 length = v4 ? number(ip, 2) : 40 + number(ip, 4);
    if ((packet.metadata.router & XG_ROUTER_CHECKSUM) == 0) return pass(forward_rule::kChecksum);
    if (ttl <= 1) return pass(forward_rule::kTtl);
    if (options) return pass(forward_rule::kOptions);
    if (length > hop.mtu) return pass(forward_rule::kMtu);

    const u32 position = route->next_hop;
    result.verdict = hop.to_port ? XG_VERDICT(XG_REDIRECT, hop.target, place.position, position + 1)
                                 : XG_VERDICT(XG_TX, 0u, place.position, position + 1);
    set_macs(place, hop.mac, hop.own_source ? std::span<const u8>(hop.source) : packet.frame.first(6),
             result);
    place.edit->sets |= XG_EDIT_TTL;
    place.edit->ttl = static_cast<u8>(ttl - 1);
    if (v4) {
      const u32 updated = updated_checksum(number(ip, 10), number(ip, 8), number(ip, 8) - 256);
      place.edit->l3_checksum = static_cast<u16>(updated >> 8 | (updated & 0xff) << 8);
    }
    result.detail = position;
    const u32 rewrite = place.first_rewrite + position;
    set_cache(settings().cache && rewrite < XG_REWRITE_HALF, settings().cache_ttl_ms, packet, rewrite,
              result);
    return true;
  }
  u32 rewrites() const override {
    return settings().cache ? static_cast<u32>(settings().next_hops.size()) : 0;
  }
  bool may_send() const override { return true; }
};

}  // namespace

std::unique_ptr<Stage> reference_of(const ForwardSettings& settings, const std::array<u64, 2>&) {
  return std::make_unique<Forward>(settings);
}

}  // namespace xdpgpu::gpu::reference
