// SPDX-License-Identifier: MIT
#include "userspace/dataplane/reject_answer.hpp"

#include <algorithm>
#include <cstring>

#include "maps/encapsulation.h"
#include "userspace/dataplane/answers.hpp"
#include "userspace/dataplane/checksum.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kTcp = 20, kLeastFrame = 60, kEthernet = 14;
constexpr u32 kGre = 47;
constexpr u8 kReset = XG_TCP_RST | XG_TCP_ACK;
// ICMP's types that ask and answer: echo, timestamp, information, address mask.
constexpr u32 kQueries4 = 1u << 0 | 1u << 8 | 0x3fu << 13;

u32 number(const u8* at) noexcept { return xg_host32(xg_load32(at)); }

bool is_error(u8 type, bool v4) noexcept {
  return v4 ? type > 18 || !(kQueries4 >> type & 1) : type < 128 || type == XG_ND_REDIRECT;
}

bool may_be_answered(const u8* frame, u32 length, const xg_packet& packet, bool v4) noexcept {
  if (!(packet.flags & (XG_PKT_IPV4 | XG_PKT_IPV6)) ||
      packet.flags & (XG_PKT_LATER_FRAGMENT | XG_PKT_MALFORMED) || packet.l3_offset < kEthernet ||
      !is_between_hosts(frame, frame + packet.l3_offset, v4))
    return false;
  if (packet.protocol == XG_IPPROTO_TCP) return packet.payload_offset && !(packet.tcp_flags & XG_TCP_RST);
  if (packet.protocol == (v4 ? XG_IPPROTO_ICMP : XG_IPPROTO_ICMPV6))
    return packet.l4_offset && packet.l4_offset < length && !is_error(frame[packet.l4_offset], v4);
  return packet.protocol != XG_IPPROTO_IPIP && packet.protocol != XG_IPPROTO_IPV6 && packet.protocol != kGre;
}

// In the packet's place, without its options and extension headers; the frame's length then.
u32 write_reset(u8* frame, u32 length, const xg_packet& packet, bool v4, Told whom) noexcept {
  const u32 addresses = v4 ? 4 : 16;
  u8* const ip = frame + packet.l3_offset;
  u8* const source = ip + (v4 ? 12 : 8);
  u8* const tcp = ip + (v4 ? 20 : 40);
  std::memmove(tcp, frame + packet.l4_offset, kTcp);
  if (whom == Told::sender) {
    const u32 payload = packet.ip_end - packet.payload_offset;
    const u32 sequence = number(tcp + 4), acknowledged = number(tcp + 8);
    const bool acknowledges = tcp[13] & XG_TCP_ACK;
    xg_store32(tcp + 4, acknowledges ? xg_host32(acknowledged) : 0);
    xg_store32(tcp + 8, xg_host32(sequence + payload + (acknowledges ? 0 : 1)));
    std::swap_ranges(frame, frame + 6, frame + 6);
    std::swap_ranges(source, source + addresses, source + addresses);
    std::swap_ranges(tcp, tcp + 2, tcp + 2);
  }
  tcp[12] = kTcp / 4 << 4;
  tcp[13] = kReset;
  xg_store32(tcp + 16, 0);
  if (v4) {
    const u8 header[12] = {0x45, 0, 0, 20 + kTcp, 0, 0, 0x40, 0, 64, XG_IPPROTO_TCP};
    std::memcpy(ip, header, sizeof(header));
    xg_store16(ip + 10, checksum_of(ones_sum(ip, 20)));
  } else {
    const u8 header[8] = {0x60, 0, 0, 0, 0, kTcp, XG_IPPROTO_TCP, 64};
    std::memcpy(ip, header, sizeof(header));
  }
  const u32 pseudo = u32{ones_sum(source, 2 * addresses)} + xg_host16(kTcp) + xg_host16(XG_IPPROTO_TCP);
  xg_store16(tcp + 16, checksum_of(pseudo + ones_sum(tcp, kTcp)));
  const auto end = static_cast<u32>(tcp + kTcp - frame);
  const u32 frame_bytes = std::max(end, std::min(length, kLeastFrame));
  std::memset(frame + end, 0, frame_bytes - end);
  return frame_bytes;
}

}  // namespace

std::optional<u32> answer_rejected(u8* frame, u32 length, u32 bytes, u32 room, Told whom) noexcept {
  xg_packet packet;
  xg_parse_part(frame, frame + length, bytes, 0, &packet);
  const bool v4 = packet.flags & XG_PKT_IPV4;
  if (!may_be_answered(frame, length, packet, v4)) return std::nullopt;
  if (packet.protocol == XG_IPPROTO_TCP) return write_reset(frame, length, packet, v4, whom);

  const u32 headers = v4 ? kError4 : kError6, l3 = packet.l3_offset;
  const u32 quoted = std::min({packet.ip_end - l3, length - l3, (v4 ? kMostError4 : kMostError6) - headers});
  if (l3 + headers + quoted > room) return std::nullopt;
  u8* const quote = frame + l3 + headers;
  std::memmove(quote, frame + l3, quoted);
  const bool onwards = whom == Told::receiver;
  if (v4)
    write_error4(quote, quoted, {.type = 3, .code = 10, .rest = 0, .onwards = onwards});
  else
    write_error6(quote, quoted, {.type = 1, .code = 1, .rest = 0, .onwards = onwards});
  if (!onwards) std::swap_ranges(frame, frame + 6, frame + 6);
  return l3 + headers + quoted;
}

}  // namespace xdpgpu::dataplane
