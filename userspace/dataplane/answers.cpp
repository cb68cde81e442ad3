// SPDX-License-Identifier: MIT
#include "userspace/dataplane/answers.hpp"

#include <cstring>

#include "maps/encapsulation.h"
#include "userspace/dataplane/checksum.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kIcmp = 8;  // bytes of the ICMP header

// The addresses of a quoted packet's header, source first, as the error has them.
template <u32 kBytes>
void write_addresses(u8* to, const u8* quoted, bool onwards) noexcept {
  std::memcpy(to, quoted + (onwards ? 0 : kBytes), kBytes);
  std::memcpy(to + kBytes, quoted + (onwards ? kBytes : 0), kBytes);
}

}  // namespace

void write_error4(u8* quote, u32 quoted, const IcmpError& error) noexcept {
  u8* const to = quote - kError4;
  const u32 total = kError4 + quoted;
  const u8 header[12] = {
      0x45, 0, static_cast<u8>(total >> 8), static_cast<u8>(total), 0, 0, 0x40, 0, 64, XG_IPPROTO_ICMP};
  std::memcpy(to, header, sizeof(header));
  write_addresses<4>(to + 12, quote + 12, error.onwards);
  xg_store16(to + 10, checksum_of(ones_sum(to, 20)));
  const u8 icmp[4] = {error.type, error.code};
  std::memcpy(to + 20, icmp, sizeof(icmp));
  xg_store32(to + 24, xg_host32(error.rest));
  xg_store16(to + 22, checksum_of(ones_sum(to + 20, kIcmp + quoted)));
}

void write_error6(u8* quote, u32 quoted, const IcmpError& error) noexcept {
  u8* const to = quote - kError6;
  xg_store32(to, 0x60);
  xg_store16(to + 4, xg_host16(static_cast<u16>(kIcmp + quoted)));
  to[6] = XG_IPPROTO_ICMPV6;
  to[7] = 64;
  write_addresses<16>(to + 8, quote + 8, error.onwards);
  const u8 icmp[4] = {error.type, error.code};
  std::memcpy(to + 40, icmp, sizeof(icmp));
  xg_store32(to + 44, xg_host32(error.rest));
  const u32 pseudo =
      u32{ones_sum(to + 8, 32)} + xg_host16(static_cast<u16>(kIcmp + quoted)) + xg_host16(XG_IPPROTO_ICMPV6);
  xg_store16(to + 42, checksum_of(pseudo + ones_sum(to + 40, kIcmp + quoted)));
}

}  // namespace xdpgpu::dataplane
