// SPDX-License-Identifier: MIT
#include <algorithm>
#include <optional>

#include "gpu/stages/references.hpp"

namespace xdpgpu::gpu::reference {
namespace {

// What stands inside of outer headers.
struct Inner {
  u32 offset = 0;  // of its IP header, in the frame
  u32 bytes = 0;
  u32 family = 0;
  u32 ecn = 0;
};

u32 traffic_class(std::span<const u8> ip) { return ip[0] / 16 == 4 ? ip[1] : (number(ip, 0) >> 4) & 0xff; }

// Where a packet is to begin, whatever stands there; nothing: it has no outer headers of these kinds.
std::optional<u32> inner_offset(const DecapsulateSettings& settings, const Packet& packet) {
  using Type = DecapsulateSettings::Type;
  const u32 l4 = packet.metadata.l4_offset, protocol = packet.metadata.protocol;
  if (settings.type != Type::gue && (protocol == 4 || protocol == 41)) return l4;
  if (settings.type != Type::ipip && protocol == 17 && !packet.ports.empty() &&
      number(packet.ports, 2) == settings.port)
    return l4 + 8;
  return std::nullopt;
}

// The packet inside of well-formed outer headers; nothing: there is none, or not all of it.
std::optional<Inner> inner_packet(const Packet& packet, u32 offset) {
  const u32 l3 = packet.metadata.l3_offset, l4 = packet.metadata.l4_offset;
  const u32 protocol = packet.metadata.protocol;
  if (offset < l3 + 20) return std::nullopt;
  u32 end =
      packet.src.size() == 4 ? l3 + number(packet.frame, l3 + 2) : l3 + 40 + number(packet.frame, l3 + 4);
  const auto four = header(packet, offset, 20), six = header(packet, offset, 40);
  if (four.empty()) return std::nullopt;
  if (protocol == 17) end = std::min(end, l4 + number(packet.frame, l4 + 4));
  Inner inner{offset, 0, four[0] / 16u, traffic_class(four) % 4};
  if (inner.family == 4 && protocol != 41) {
    inner.bytes = number(four, 2);
    const u32 own = four[0] % 16 * 4u;
    if (own < 20 || inner.bytes < own) return std::nullopt;
  } else if (inner.family == 6 && protocol != 4 && !six.empty()) {
    const bool jumbogram = number(six, 4) == 0 && six[6] == 0;
    if (jumbogram) return std::nullopt;
    inner.bytes = 40 + number(six, 4);
  } else {
    return std::nullopt;
  }
  if (inner.offset + inner.bytes > end) return std::nullopt;
  return inner;
}

class Decapsulate final : public StageWith<DecapsulateSettings> {
 public:
  using StageWith::StageWith;
  bool decide(const Packet& packet, const Place& place, xg_result& result) override {
    if (packet.src.empty()) return false;
    if (packet.is(XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT | XG_PKT_TRACKED)) return false;
    const auto offset = inner_offset(settings(), packet);
    if (!offset) return false;
    const auto& addresses = settings().addresses;
    const auto own = std::find_if(addresses.begin(), addresses.end(),
                                  [&](const Prefix& one) { return contains(one, packet.dst); });
    if (own == addresses.end()) return false;
    result.detail = static_cast<u32>(own - addresses.begin());

    const auto drop = [&](u32 why) {
      result.verdict = XG_VERDICT(XG_DROP, 0u, place.position, why);
      return true;
    };
    if (packet.is(XG_PKT_MALFORMED)) return drop(decapsulate_rule::kMalformed);
    const auto inner = inner_packet(packet, *offset);
    if (!inner) return drop(decapsulate_rule::kMalformed);
    // RFC 6040, figure 4: the outer header's CE, by what the inner one says.
    constexpr u32 kNotCapable = 0, kExperienced = 3;
    const u32 l3 = packet.metadata.l3_offset;
    const u32 outer = packet.src.size() == 4 ? packet.frame[l3 + 1] : number(packet.frame, l3) >> 4;
    if (outer % 4 == kExperienced) {
      if (inner->ecn == kNotCapable) return drop(decapsulate_rule::kCongested);
      if (inner->ecn != kExperienced) {
        result.flags |= XG_RES_EDIT;
        place.edit->sets = XG_EDIT_CE;
      }
    }
    result.flags |= XG_RES_ADJUST;
    place.adjust->popped = static_cast<u16>(inner->offset - l3);
    place.adjust->ip_bytes = inner->bytes;
    place.adjust->ether_type = inner->family == 4 ? 0x0800 : 0x86dd;
    return act(settings().action, settings().target, place.position, 0, result);
  }
  bool may_send() const override { return sends(settings().action); }
};

}  // namespace

std::unique_ptr<Stage> reference_of(const DecapsulateSettings& settings, const std::array<u64, 2>&) {
  return std::make_unique<Decapsulate>(settings);
}

}  // namespace xdpgpu::gpu::reference
