// SPDX-License-Identifier: MIT
#include "userspace/dataplane/too_long.hpp"

#include <algorithm>
#include <cstring>

#include "maps/encapsulation.h"
#include "userspace/dataplane/answers.hpp"
#include "userspace/dataplane/checksum.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kIcmp = 8;  // bytes of the ICMP header
// An answer's length at most, from its IP header on (RFC 1812, 4.3.2.3; RFC 4443, 2.4).
constexpr u32 kMost4 = 576, kMost6 = 1280;

bool may_be_answered(const u8* frame, u32 length, const xg_metadata& metadata, bool v4) noexcept {
  const u8* const ip = frame + metadata.l3_offset;
  if (metadata.flags & XG_PKT_LATER_FRAGMENT || !is_between_hosts(frame, ip, v4)) return false;
  if (!(metadata.flags & XG_PKT_ICMP)) return true;
  const u8 echo = v4 ? 8 : 128;
  return metadata.l4_offset && metadata.l4_offset < length && frame[metadata.l4_offset] == echo;
}

void swap_macs(u8* frame) noexcept { std::swap_ranges(frame, frame + 6, frame + 6); }

// ip: the packet that is answered. to: 28 bytes right in front of what is quoted of it.
void write4(u8* to, const u8* ip, u32 quoted, u32 mtu) noexcept {
  const u32 total = 20 + kIcmp + quoted;
  const u8 header[20] = {
      0x45, 0, static_cast<u8>(total >> 8), static_cast<u8>(total), 0, 0, 0x40, 0, 64, XG_IPPROTO_ICMP};
  u8 addresses[8];
  std::memcpy(addresses, ip + 16, 4);
  std::memcpy(addresses + 4, ip + 12, 4);
  std::memcpy(to, header, sizeof(header));
  std::memcpy(to + 12, addresses, sizeof(addresses));
  xg_store16(to + 10, checksum_of(ones_sum(to, 20)));
  const u32 next_hop_mtu = std::min(mtu, 0xffffu);
  const u8 icmp[kIcmp] = {
      3, 4, 0, 0, 0, 0, static_cast<u8>(next_hop_mtu >> 8), static_cast<u8>(next_hop_mtu)};
  std::memcpy(to + 20, icmp, sizeof(icmp));
  xg_store16(to + 22, checksum_of(ones_sum(to + 20, kIcmp + quoted)));
}

// Likewise, 48 bytes.
void write6(u8* to, const u8* ip, u32 quoted, u32 mtu) noexcept {
  u8 addresses[32];
  std::memcpy(addresses, ip + 24, 16);
  std::memcpy(addresses + 16, ip + 8, 16);
  xg_store32(to, 0x60);
  xg_store16(to + 4, xg_host16(static_cast<u16>(kIcmp + quoted)));
  to[6] = XG_IPPROTO_ICMPV6;
  to[7] = 64;
  std::memcpy(to + 8, addresses, sizeof(addresses));
  const u8 icmp[4] = {2, 0, 0, 0};
  std::memcpy(to + 40, icmp, sizeof(icmp));
  xg_store32(to + 44, xg_host32(mtu));
  const u32 pseudo =
      u32{ones_sum(to + 8, 32)} + xg_host16(static_cast<u16>(kIcmp + quoted)) + xg_host16(XG_IPPROTO_ICMPV6);
  xg_store16(to + 42, checksum_of(pseudo + ones_sum(to + 40, kIcmp + quoted)));
}

}  // namespace

std::optional<Answer> answer_too_long(u8* frame, u32 length, u32 mtu) noexcept {
  xg_metadata metadata;
  std::memcpy(&metadata, frame - XG_METADATA_SIZE, sizeof(metadata));
  const bool v4 = !(metadata.flags & XG_PKT_IPV6);
  const u32 l3 = metadata.l3_offset;
  if (!may_be_answered(frame, length, metadata, v4)) return std::nullopt;
  const u32 headers = (v4 ? 20 : 40) + kIcmp;
  const xg_inner inner = xg_inner_packet(frame + l3, v4 ? 4 : 6);
  const u32 quoted = std::min({inner.bytes, length - l3, (v4 ? kMost4 : kMost6) - headers});
  std::memmove(frame - headers, frame, l3);
  swap_macs(frame - headers);
  u8* const to = frame - headers + l3;
  if (v4)
    write4(to, frame + l3, quoted, mtu);
  else
    write6(to, frame + l3, quoted, mtu);
  return Answer{headers, l3 + headers + quoted};
}

}  // namespace xdpgpu::dataplane
