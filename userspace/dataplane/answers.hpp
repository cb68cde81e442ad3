// SPDX-License-Identifier: MIT
//
// userspace/dataplane/answers.hpp: what packets have in common that are written here in answer to others.
#pragma once

#include <algorithm>

#include "maps/packet.h"

namespace xdpgpu::dataplane {

// A checksum of ones' complement sums (ones_sum()), added up.
inline u16 checksum_of(u32 sum) noexcept {
  sum = (sum >> 16) + (sum & 0xffffu);
  sum = (sum >> 16) + (sum & 0xffffu);
  return static_cast<u16>(~sum);
}

// Whether an address is one host's, as far as it can be told from it.
inline bool is_host(const u8* address, bool v4) noexcept {
  if (v4) return address[0] != 0 && address[0] != 127 && address[0] < 224;
  return address[0] != 0xff && std::any_of(address, address + 15, [](u8 byte) { return byte != 0; });
}

// Whether the frame, with its IP header at `ip`, went from one host to another: nobody else is answered (RFC
// 1122, 3.2.2; RFC 4443, 2.4).
inline bool is_between_hosts(const u8* frame, const u8* ip, bool v4) noexcept {
  return !(frame[0] & 1) && !(frame[6] & 1) && is_host(ip + (v4 ? 12 : 8), v4) &&
         is_host(ip + (v4 ? 16 : 24), v4);
}

// An ICMP error's headers in front of what it quotes, ICMPv6's, and the length of both at most, from the IP
// header on (RFC 1812, 4.3.2.3; RFC 4443, 2.4): bytes.
inline constexpr u32 kError4 = 20 + 8, kError6 = 40 + 8;
inline constexpr u32 kMostError4 = 576, kMostError6 = 1280;

struct IcmpError {
  u8 type = 0, code = 0;
  u32 rest = 0;          // of its header: the last four bytes, host order
  bool onwards = false;  // from the quoted packet's source to its destination, else back
};
// Writes them in front of `quoted` bytes of the packet, from its own IP header on.
void write_error4(u8* quote, u32 quoted, const IcmpError& error) noexcept;
void write_error6(u8* quote, u32 quoted, const IcmpError& error) noexcept;

}  // namespace xdpgpu::dataplane
