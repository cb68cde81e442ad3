// SPDX-License-Identifier: MIT
//
// tests/kernel/encapsulated.hpp: packets, and what they look like inside of outer headers. These were made by
// a program that shares nothing with ours, checksums and the flows' SipHash-1-3 included.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <cstdlib>
#include <ostream>
#include <string>
#include <vector>

#include "maps/flow.h"
#include "tests/kernel/frame.hpp"

namespace xdpgpu::test {

struct Encapsulated {
  u8 outer;  // family
  bool gue;
  u8 inner;           // family
  const char* bytes;  // the outer headers
};

inline const std::vector<Encapsulated>& encapsulated() {
  static const std::vector<Encapsulated> table{
      {4, false, 4, "45b90050000040004004660b0a010234c0a80709"},
      {6, false, 4, "6b909934003c0440fd01000000000000000000000000993420010db8000b00000000000000000009"},
      {4, true, 4,
       "45b90058000040004011"
       "65f60a010234c0a80709"
       "d93417c000440000"},
      {6, true, 4,
       "6b90993400441140fd01000000000000000000000000993420010db8000b00000000000000000009"
       "d93417c000440000"},
      {4, false, 6, "45b9008400004000402965210a0102c5c0a80709"},
      {6, false, 6, "6b9063c500702940fd0100000000000000000000000063c520010db8000b00000000000000000009"},
      {4, true, 6,
       "45b9008c000040004011"
       "65310a0102c5c0a80709"
       "e3c517c000780000"},
      {6, true, 6,
       "6b9063c500781140fd0100000000000000000000000063c520010db8000b00000000000000000009"
       "e3c517c000780000"}};
  return table;
}
inline void PrintTo(const Encapsulated& e, std::ostream* out) {
  *out << "IPv" << +e.inner << " in " << (e.gue ? "GUE over " : "") << "IPv" << +e.outer;
}

// The rewrite that makes these: from 10.1.2.0/24 and fd01::/64, to UDP port 6080, packets of up to 1,400
// bytes.
inline xg_rewrite outer_headers(const Encapsulated& e, u32 generation) {
  xg_rewrite record{};
  record.generation = generation;
  record.flags = XG_REWRITE_DST_MAC | XG_REWRITE_SRC_FROM_DST | XG_REWRITE_ENCAPSULATE;
  const u8 mac[]{2, 1, 2, 3, 4, 5};
  std::copy_n(mac, 6, record.dst_mac);
  record.mtu = 1400;
  record.udp_port = e.gue ? htons(6080) : 0;
  record.spread = e.outer == 4 ? htons(0x00ff) : 0xffff;
  record.outer_family = e.outer;
  const Frame src = address(e.outer == 4 ? "10.1.2.0" : "fd01::");
  const Frame dst = address(e.outer == 4 ? "192.168.7.9" : "2001:db8:b::9");
  std::memcpy(record.outer_src, src.data(), src.size());
  std::memcpy(record.outer_dst, dst.data(), dst.size());
  record.hash_key[0] = 0x0706050403020100;
  record.hash_key[1] = 0x0f0e0d0c0b0a0908;
  return record;
}

// The packet inside, behind these tags; DSCP and ECN are 0xb9.
inline Frame inner_frame(const Encapsulated& e, const std::vector<u16>& tags) {
  const Frame ethernet_header = ethernet(tags);
  Frame frame = e.inner == 4 ? ethernet_header + ipv4({.protocol = 6}, tcp(40000, 80) + bytes(20))
                             : ethernet_header + ipv6({}, udp(1000, 4433, 64));
  const std::size_t ip = ethernet_header.size() + 2;
  if (e.inner == 4) {
    frame[ip + 1] = 0xb9;
  } else {
    frame[ip] = 0x6b;
    frame[ip + 1] = 0x90;
  }
  return frame;
}

// What becomes of inner_frame(), or of one that begins like it. MAC addresses as they were: `moved`.
inline Frame outer_frame(const Encapsulated& e, const Frame& inner, std::size_t tags, bool moved = false) {
  const std::size_t ip = 14 + 4 * tags;
  Frame out = moved ? Frame(inner.begin(), inner.begin() + 12) : Frame{2, 1, 2, 3, 4, 5} + kDstMac;
  out.insert(out.end(), inner.begin() + 12, inner.begin() + static_cast<long>(ip) - 2);
  out = out + be16(e.outer == 4 ? 0x0800 : 0x86dd);
  for (const char* digits = e.bytes; *digits != 0; digits += 2)
    out.push_back(static_cast<u8>(std::strtoul(std::string(digits, 2).c_str(), nullptr, 16)));
  out.insert(out.end(), inner.begin() + static_cast<long>(ip), inner.end());
  return out;
}

}  // namespace xdpgpu::test
