// SPDX-License-Identifier: MIT
#include "userspace/dataplane/dns_answer.hpp"

#include <algorithm>
#include <cstring>

#include "maps/encapsulation.h"
#include "userspace/dataplane/answers.hpp"
#include "userspace/dataplane/checksum.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kUdp = 8, kDns = 12, kMostName = 255, kLeastFrame = 60;
constexpr u8 kQr = 0x80, kOpcode = 0x78, kRd = 0x01;  // of the header's third byte
constexpr u8 kRa = 0x80, kCd = 0x10, kNxDomain = 3;   // and its fourth one

u32 number(const u8* at) noexcept { return u32{at[0]} << 8 | at[1]; }
void put(u8* at, u32 value) noexcept {
  at[0] = static_cast<u8>(value >> 8);
  at[1] = static_cast<u8>(value);
}

// Where the question ends in a message of `bytes` bytes; 0: it has none to be answered.
u32 question_end(const u8* dns, u32 bytes) noexcept {
  if (bytes < kDns || dns[2] & (kQr | kOpcode) || number(dns + 4) != 1) return 0;
  u32 at = kDns;
  while (at < bytes && dns[at] != 0) {
    if (dns[at] > 63) return 0;
    at += dns[at] + 1u;
  }
  return at + 1 - kDns <= kMostName && at + 5 <= bytes ? at + 5 : 0;
}

}  // namespace

std::optional<u32> answer_no_such_domain(u8* frame, u32 length) noexcept {
  xg_metadata metadata;
  std::memcpy(&metadata, frame - XG_METADATA_SIZE, sizeof(metadata));
  const bool v4 = metadata.flags & XG_PKT_IPV4;
  const u32 l3 = metadata.l3_offset, l4 = l3 + (v4 ? 20 : 40);
  constexpr u32 kNot = XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT | XG_PKT_MALFORMED;
  if (metadata.flags & kNot || !(metadata.flags & (XG_PKT_IPV4 | XG_PKT_IPV6)) || l3 < 14 ||
      metadata.protocol != XG_IPPROTO_UDP || metadata.l4_offset != l4 || l4 + kUdp + kDns > length)
    return std::nullopt;
  u8* const ip = frame + l3;
  u8* const udp = frame + l4;
  u8* const dns = udp + kUdp;
  const u32 said = std::min(v4 ? number(ip + 2) - 20 : number(ip + 4), number(udp + 4));
  if (said < kUdp + kDns || said > length - l4 || !is_between_hosts(frame, ip, v4)) return std::nullopt;
  const u32 message = question_end(dns, said - kUdp);
  if (!message) return std::nullopt;

  const u32 bytes = kUdp + message, addresses = v4 ? 4 : 16;
  u8* const source = ip + (v4 ? 12 : 8);
  std::swap_ranges(frame, frame + 6, frame + 6);
  std::swap_ranges(source, source + addresses, source + addresses);
  std::swap_ranges(udp, udp + 2, udp + 2);
  dns[2] = static_cast<u8>(kQr | (dns[2] & kRd));
  dns[3] = static_cast<u8>(kRa | (dns[3] & kCd) | kNxDomain);
  std::memset(dns + 6, 0, 6);
  put(udp + 4, bytes);
  put(udp + 6, 0);
  if (v4) {
    put(ip + 2, 20 + bytes);
    put(ip + 4, 0);
    put(ip + 6, 0x4000);
    ip[8] = 64;
    put(ip + 10, 0);
    xg_store16(ip + 10, checksum_of(ones_sum(ip, 20)));
  } else {
    put(ip + 4, bytes);
    ip[7] = 64;
  }
  const u32 pseudo =
      u32{ones_sum(source, 2 * addresses)} + xg_host16(static_cast<u16>(bytes)) + xg_host16(XG_IPPROTO_UDP);
  const u16 checksum = checksum_of(pseudo + ones_sum(udp, bytes));
  xg_store16(udp + 6, checksum != 0 ? checksum : u16{0xffff});
  const u32 end = l4 + bytes, frame_bytes = std::max(end, std::min(length, kLeastFrame));
  std::memset(frame + end, 0, frame_bytes - end);
  return frame_bytes;
}

}  // namespace xdpgpu::dataplane
