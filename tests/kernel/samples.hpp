// SPDX-License-Identifier: MIT
//
// tests/kernel/samples.hpp: one frame of each shape that the parser tells apart.
#pragma once

#include <string>
#include <vector>

#include "tests/kernel/frame.hpp"

namespace xdpgpu::test {

struct Sample {
  std::string name;
  Frame frame;
};

inline std::vector<Sample> samples() {
  return {
      {"udp", ethernet() + ipv4({}, udp(1000, 53, 20))},
      {"tcp with options", ethernet() + ipv4({.protocol = 6}, tcp(1, 2, 0x12, 15) + bytes(7))},
      {"sctp", ethernet() + ipv4({.protocol = 132}, sctp(1, 2) + bytes(16))},
      {"icmp echo", ethernet() + ipv4({.protocol = 1}, icmp(8, 0, 77))},
      {"icmp unreachable", ethernet() + ipv4({.protocol = 1}, icmp(3, 1) + bytes(28))},
      {"icmpv6 echo", ethernet() + ipv6({.next = 58}, icmp(129, 0, 77))},
      {"neighbour solicitation", nd(135)},
      {"one tag", ethernet({10}) + ipv4({}, udp(1000, 53))},
      {"two tags", ethernet({10, 20}, {0x88a8, 0x8100}) + ipv6({}, udp(1000, 53))},
      {"old tag", ethernet({0, 20}, {0x9100, 0x8100}) + ipv4({}, udp(1000, 53))},
      {"three tags", ethernet({1, 2, 3}) + ipv4({}, udp(1000, 53))},
      {"ip options", ethernet() + ipv4({.options = bytes(40, 1)}, udp(1000, 53, 5))},
      {"padding", ethernet() + ipv4({}, udp(1000, 53)) + bytes(18, 0)},
      {"ipv6 udp", ethernet() + ipv6({}, udp(1000, 53, 20))},
      {"ipv6 extensions", ethernet() + ipv6({.next = 0}, extension(43, 2) + extension(60) + extension(51) +
                                                             authentication(6) + tcp(1, 80))},
      {"ipv6 eight extensions",
       ethernet() +
           ipv6({.next = 60}, extension(60) + extension(60) + extension(60) + extension(60) + extension(60) +
                                  extension(60) + extension(60) + extension(17) + udp(1, 2))},
      {"ipv6 nine extensions",
       ethernet() +
           ipv6({.next = 60}, extension(60) + extension(60) + extension(60) + extension(60) + extension(60) +
                                  extension(60) + extension(60) + extension(60) + extension(17) + udp(1, 2))},
      {"ipv6 no next header", ethernet() + ipv6({.next = 59}, {}) + bytes(6, 0)},
      {"ipv6 long options", ethernet() + ipv6({.next = 60}, extension(17, 60) + udp(1, 2))},
      {"jumbogram", ethernet() + ipv6({.next = 0, .length = 0}, extension(17) + udp(1, 2))},
      {"first fragment", ethernet() + ipv4({.fragment = 0x2000}, udp(1000, 53, 24, 2000))},
      {"tiny first fragment", ethernet() + ipv4({.protocol = 6, .fragment = 0x2000}, bytes(8))},
      {"later fragment", ethernet() + ipv4({.fragment = 0x2004}, bytes(32))},
      {"beyond 64 KiB", ethernet() + ipv4({.fragment = 0x1fff}, bytes(32))},
      {"ipv6 first fragment",
       ethernet() + ipv6({.next = 44}, fragment_header(60, 1, 99) + extension(17) + udp(1000, 53, 24, 2000))},
      {"ipv6 later fragment", ethernet() + ipv6({.next = 44}, fragment_header(17, 0x21, 99) + bytes(24))},
      {"ipv6 atomic fragment", ethernet() + ipv6({.next = 44}, fragment_header(17, 0, 99) + udp(1, 2))},
      {"two fragment headers",
       ethernet() + ipv6({.next = 44}, fragment_header(44, 1, 1) + fragment_header(17, 1, 2) + udp(1, 2))},
      {"gre", ethernet() + ipv4({.protocol = 47}, be32(0x0800) + bytes(24))},
      {"icmpv6 in ipv4", ethernet() + ipv4({.protocol = 58}, icmp(135, 0))},
      {"wrong version", ethernet() + ipv4({.first_byte = 0x65}, udp(1, 2))},
      {"short header length", ethernet() + ipv4({.first_byte = 0x44}, udp(1, 2))},
      {"long header length", ethernet() + ipv4({.first_byte = 0x4f}, udp(1, 2))},
      {"total length too small", ethernet() + ipv4({.total = 19}, udp(1, 2))},
      {"total length too large", ethernet() + ipv4({.total = 1000}, udp(1, 2))},
      {"total length inside l4", ethernet() + ipv4({.total = 26}, udp(1, 2, 20))},
      {"udp length too large", ethernet() + ipv4({}, udp(1, 2, 20, 60))},
      {"udp length too small", ethernet() + ipv4({}, udp(1, 2, 20, 7))},
      {"tcp header too small", ethernet() + ipv4({.protocol = 6}, tcp(1, 2, 0x10, 4))},
      {"tcp header too large",
       ethernet() + ipv4({.protocol = 6}, Frame{0, 1, 0, 2} + bytes(8) + Frame{0xf0, 2} + bytes(6))},
      {"hop-by-hop in the middle", ethernet() + ipv6({.next = 60}, extension(0) + extension(17) + udp(1, 2))},
      {"dhcp", ethernet() + ipv4({}, udp(68, 67, 240))},
      {"dhcpv6", ethernet() + ipv6({}, udp(546, 547, 40))},
      {"arp", arp()},
      {"lacp", lacp()},
      {"lldp", lldp()},
      {"stp", stp()},
      {"802.3", ethernet() + be16(46) + bytes(46)},
  };
}

}  // namespace xdpgpu::test
