// SPDX-License-Identifier: MIT
#include "userspace/policy/prefix_scan.hpp"

#include <array>

namespace xdpgpu::policy {
namespace {

constexpr u8 kNoDigit = 0xff;

constexpr std::array<u8, 256> kHexDigits = [] {
  std::array<u8, 256> digits{};
  digits.fill(kNoDigit);
  for (u8 i = 0; i < 10; ++i) digits['0' + i] = i;
  for (u8 i = 0; i < 6; ++i) digits['a' + i] = digits['A' + i] = static_cast<u8>(10 + i);
  return digits;
}();

u32 hex_at(const char* at, const char* end) {
  return at == end ? kNoDigit : kHexDigits[static_cast<u8>(*at)];
}
u32 decimal_at(const char* at, const char* end) {
  return at == end ? kNoDigit : u32{static_cast<u8>(*at)} - '0';
}

// One to three digits.
const char* scan_number(const char* at, const char* end, u32 most, u32& value) {
  const char* const first = at;
  value = 0;
  for (; at - first < 3; ++at) {
    const u32 digit = decimal_at(at, end);
    if (digit > 9) break;
    value = value * 10 + digit;
  }
  return at == first || value > most ? nullptr : at;
}

const char* scan4(const char* at, const char* end, u8* address) {
  for (u32 i = 0; i < 4; ++i) {
    if (i != 0) {
      if (at == end || *at != '.') return nullptr;
      ++at;
    }
    u32 octet;
    const char* const behind = scan_number(at, end, 255, octet);
    // A leading zero could mean octal.
    if (behind == nullptr || (*at == '0' && behind - at > 1)) return nullptr;
    address[i] = static_cast<u8>(octet);
    at = behind;
  }
  return at;
}

// RFC 4291, 2.2, forms 1 and 2.
const char* scan6(const char* at, const char* end, u8* address) {
  constexpr u32 kNoGap = ~0u;
  u32 filled = 0, gap = kNoGap;
  if (*at == ':') {
    if (end - at < 2 || at[1] != ':') return nullptr;
    gap = 0;
    at += 2;
  }
  while (true) {
    const char* const first = at;
    u32 group = 0;
    for (; at - first < 4; ++at) {
      const u32 digit = hex_at(at, end);
      if (digit > 15) break;
      group = group << 4 | digit;
    }
    if (at == first) {
      if (gap == filled) break;
      return nullptr;
    }
    if (filled == 16) return nullptr;
    address[filled++] = static_cast<u8>(group >> 8);
    address[filled++] = static_cast<u8>(group);
    if (at == end || *at != ':') break;
    ++at;
    if (at != end && *at == ':') {
      if (gap != kNoGap) return nullptr;
      gap = filled;
      ++at;
    }
  }
  if ((gap == kNoGap) != (filled == 16)) return nullptr;
  if (gap != kNoGap) {
    for (u32 i = 1; i <= filled - gap; ++i) {
      address[16 - i] = address[filled - i];
      address[filled - i] = 0;
    }
  }
  return at;
}

bool has_host_bits(const Prefix& prefix) {
  const u32 bytes = prefix.family == 4 ? 4 : 16;
  u32 at = prefix.length / 8;
  if (at >= bytes) return false;
  u32 seen = prefix.address[at] & (0xffu >> prefix.length % 8);
  while (++at < bytes) seen |= prefix.address[at];
  return seen != 0;
}

// An IPv6 address has a colon within its first five characters, an IPv4 address a dot.
bool looks_like_6(const char* at, const char* end) {
  for (u32 i = 0; i < 5 && at != end; ++i, ++at) {
    if (*at == ':') return true;
    if (*at == '.') return false;
  }
  return false;
}

}  // namespace

const char* scan_prefix(const char* at, const char* end, Prefix& prefix) {
  if (at == end) return nullptr;
  prefix = {};
  const bool six = looks_like_6(at, end);
  prefix.family = six ? 6 : 4;
  prefix.length = six ? 128 : 32;
  at = six ? scan6(at, end, prefix.address) : scan4(at, end, prefix.address);
  if (at == nullptr || at == end || *at != '/') return at;
  u32 length;
  at = scan_number(at + 1, end, prefix.length, length);
  prefix.length = static_cast<u8>(length);
  return at == nullptr || has_host_bits(prefix) ? nullptr : at;
}

}  // namespace xdpgpu::policy
