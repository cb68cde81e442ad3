// SPDX-License-Identifier: MIT
//
// tests/kernel/frame.hpp: frames made of layers, the odd ones included: wrong lengths, extension
// headers, fragments. Lengths are right and checksums 0 (nothing in the kernel program reads them)
// unless a test sets them otherwise.
//
//   auto frame = ethernet({10}) + ipv4({.protocol = 17}, udp(1000, 53) + bytes(20));
#pragma once

#include <arpa/inet.h>

#include <cstring>
#include <string>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::test {

using Frame = std::vector<u8>;

inline Frame operator+(Frame a, const Frame& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
inline Frame be16(u32 value) { return {static_cast<u8>(value >> 8), static_cast<u8>(value)}; }
inline Frame be32(u32 value) { return be16(value >> 16) + be16(value & 0xffff); }
inline Frame bytes(std::size_t count, u8 value = 0x5a) { return Frame(count, value); }

inline Frame address(const std::string& text) {
  Frame out(text.find(':') == std::string::npos ? 4 : 16);
  inet_pton(out.size() == 4 ? AF_INET : AF_INET6, text.c_str(), out.data());
  return out;
}

inline const Frame kDstMac{0x02, 0xaa, 0, 0, 0, 1}, kSrcMac{0x02, 0xbb, 0, 0, 0, 2};

// Ethernet header and tags, ready for an EtherType (the IP layers bring theirs).
inline Frame ethernet(const std::vector<u16>& vlans = {}, const std::vector<u16>& types = {}) {
  Frame out = kDstMac + kSrcMac;
  for (std::size_t i = 0; i < vlans.size(); ++i)
    out = out + be16(i < types.size() ? types[i] : 0x8100u) + be16(vlans[i]);
  return out;
}

struct Ipv4 {
  std::string src = "192.0.2.1", dst = "198.51.100.2";
  u8 protocol = 17;
  u16 id = 0x1234;
  u16 fragment = 0;     // flags and offset, as in the header
  Frame options = {};   // a multiple of 4 bytes
  int total = -1;       // the total length, if it is to be wrong
  int first_byte = -1;  // version and header length, if they are to be wrong
};
inline Frame ipv4(const Ipv4& h, const Frame& payload) {
  const std::size_t header = 20 + h.options.size();
  Frame out = be16(0x0800);
  out.push_back(static_cast<u8>(h.first_byte >= 0 ? h.first_byte : 0x40 | (header / 4)));
  out.push_back(0);
  out = out + be16(h.total >= 0 ? h.total : static_cast<u32>(header + payload.size())) + be16(h.id) +
        be16(h.fragment) + Frame{64, h.protocol, 0, 0} + address(h.src) + address(h.dst) + h.options;
  return out + payload;
}

struct Ipv6 {
  std::string src = "2001:db8::1", dst = "2001:db8::2";
  u8 next = 17;
  u8 hop_limit = 64;
  int length = -1;  // the payload length, if it is to be wrong
};
inline Frame ipv6(const Ipv6& h, const Frame& payload) {
  return be16(0x86dd) + be32(0x60000000) + be16(h.length >= 0 ? h.length : static_cast<u32>(payload.size())) +
         Frame{h.next, h.hop_limit} + address(h.src) + address(h.dst) + payload;
}
// Hop-by-hop, routing or destination options: `units` of 8 bytes behind the first 8.
inline Frame extension(u8 next, u8 units = 0) { return Frame{next, units} + bytes(6 + units * 8u, 0); }
inline Frame authentication(u8 next) { return Frame{next, 4} + bytes(22, 0); }
inline Frame fragment_header(u8 next, u16 offset_and_more, u32 id) {
  return Frame{next, 0} + be16(offset_and_more) + be32(id);
}

inline Frame tcp(u16 src, u16 dst, u8 flags = 0x10, u8 words = 5) {
  return be16(src) + be16(dst) + be32(1) + be32(2) + Frame{static_cast<u8>(words << 4), flags} + be16(1024) +
         be32(0) + bytes(words > 5 ? (words - 5) * 4u : 0, 1);
}
inline Frame udp(u16 src, u16 dst, std::size_t payload = 0, int length = -1) {
  return be16(src) + be16(dst) + be16(length >= 0 ? length : static_cast<u32>(8 + payload)) + be16(0) +
         bytes(payload);
}
inline Frame sctp(u16 src, u16 dst) { return be16(src) + be16(dst) + be32(7) + be32(0); }
inline Frame icmp(u8 type, u8 code, u16 id = 0) {
  return Frame{type, code} + be16(0) + be16(id) + be16(1) + bytes(8);
}

// From kSrcMac; operation 1 asks, 2 answers.
inline Frame arp_packet(u16 operation = 1) {
  return be16(0x0806) + be16(1) + be16(0x0800) + Frame{6, 4} + be16(operation) + kSrcMac +
         address("192.0.2.1") + bytes(6, 0) + address("192.0.2.2") + bytes(18, 0);
}
inline Frame arp(u16 operation = 1) { return ethernet() + arp_packet(operation); }
// To 01:80:c2:00:00:XX, which bridges keep to themselves.
inline Frame to_bridges(u8 last) { return Frame{1, 0x80, 0xc2, 0, 0, last} + kSrcMac; }
inline Frame lacp(u8 subtype = 1) { return to_bridges(2) + be16(0x8809) + Frame{subtype} + bytes(109, 0); }
inline Frame lldp() { return to_bridges(0x0e) + be16(0x88cc) + bytes(46); }
inline Frame stp() { return to_bridges(0) + be16(38) + Frame{0x42, 0x42, 3} + bytes(43, 0); }
// Neighbour discovery, as long as each of its types at least.
inline Frame nd(u8 type, const std::string& src = "fe80::1", u8 hop_limit = 255, u8 code = 0) {
  return ethernet() + ipv6({.src = src, .dst = "ff02::1", .next = 58, .hop_limit = hop_limit},
                           Frame{type, code} + bytes(type == 137 ? 38 : 22, 0));
}

}  // namespace xdpgpu::test
