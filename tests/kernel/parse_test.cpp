// SPDX-License-Identifier: MIT
//
// maps/parse.h as user space compiles it. That the kernel's answer is the same is inspect_test's.
#include "maps/parse.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "tests/kernel/samples.hpp"

namespace xdpgpu::test {
namespace {

xg_packet parse(const u8* data, std::size_t length) {
  // A heap block of just that size: AddressSanitizer sees a read beyond it.
  auto exact = std::make_unique<u8[]>(length);
  std::copy_n(data, length, exact.get());
  xg_packet packet;
  xg_parse(exact.get(), exact.get() + length, 7, &packet);
  return packet;
}
xg_packet parse(const Frame& frame) { return parse(frame.data(), frame.size()); }
u16 be(u16 value) { return __builtin_bswap16(value); }

// What holds for any bytes whatever.
void expect_sane(const xg_packet& p, std::size_t length) {
  EXPECT_LE(p.l3_offset, length);
  EXPECT_LE(p.ip_end, length);
  EXPECT_LE(p.payload_offset, length);
  if (p.l4_offset != 0) {
    EXPECT_GE(p.l4_offset, p.l3_offset + 20);
    EXPECT_LT(p.l4_offset, p.ip_end);
  }
  if (p.payload_offset != 0) {
    EXPECT_LE(p.payload_offset, p.ip_end);
  }
  if ((p.flags & XG_PKT_PORTS) != 0) {
    EXPECT_NE(p.l4_offset, 0);
    EXPECT_LE(p.l4_offset + 4u, p.ip_end);
  }
  if ((p.flags & XG_PKT_LATER_FRAGMENT) != 0) {
    EXPECT_EQ(p.l4_offset, 0);
  }
  EXPECT_EQ(p.malformed != 0, (p.flags & XG_PKT_MALFORMED) != 0);
  EXPECT_LE(p.malformed, XG_MALFORMED_COUNT);
  if (p.malformed != 0) {
    EXPECT_EQ(p.control, XG_CONTROL_NONE);
  }
  EXPECT_EQ(p.key.family == 4, (p.flags & XG_PKT_IPV4) != 0);
  EXPECT_EQ(p.key.family == 6, (p.flags & XG_PKT_IPV6) != 0);
  EXPECT_LT(p.l4_index, XG_L4_CONTROL);
  EXPECT_EQ(p.key.port, 7);
}

TEST(Parse, Udp) {
  const xg_packet p = parse(ethernet() + ipv4({}, udp(1000, 53, 20)) + bytes(6, 0));
  EXPECT_EQ(p.flags, XG_PKT_IPV4 | XG_PKT_UDP | XG_PKT_PORTS);
  EXPECT_EQ(p.l3_offset, 14);
  EXPECT_EQ(p.l4_offset, 34);
  EXPECT_EQ(p.payload_offset, 42);
  EXPECT_EQ(p.ip_end, 62u) << "padding is no payload";
  EXPECT_EQ(p.protocol, 17);
  EXPECT_EQ(p.l4_index, XG_L4_V4 + 17);
  EXPECT_EQ(p.control, XG_CONTROL_NONE);
  EXPECT_EQ(p.key.family, 4);
  EXPECT_EQ(p.key.protocol, 17);
  EXPECT_EQ(p.key.src[0], 0x010200c0u);
  EXPECT_EQ(p.key.dst[0], 0x026433c6u);
  EXPECT_EQ(p.key.src[1] | p.key.src[2] | p.key.src[3], 0u);
  EXPECT_EQ(p.key.src_port, be(1000));
  EXPECT_EQ(p.key.dst_port, be(53));
}

TEST(Parse, Tcp) {
  const xg_packet p =
      parse(ethernet({10, 0}) + ipv6({.next = 60}, extension(6, 1) + tcp(1, 2, 0x12, 8) + bytes(9)));
  EXPECT_EQ(p.flags, XG_PKT_IPV6 | XG_PKT_TCP | XG_PKT_PORTS | XG_PKT_VLAN);
  EXPECT_EQ(p.key.vlan_outer, 10);
  EXPECT_EQ(p.key.vlan_inner, XG_VLAN_PRIORITY);
  EXPECT_EQ(p.l3_offset, 22);
  EXPECT_EQ(p.l4_offset, 22 + 40 + 16);
  EXPECT_EQ(p.payload_offset, p.l4_offset + 32);
  EXPECT_EQ(p.tcp_flags, 0x12);
  EXPECT_EQ(p.l4_index, XG_L4_V6_TCP + 0x12);
  EXPECT_EQ(p.key.protocol, 6) << "the key has the protocol behind the extension headers";
}

TEST(Parse, IcmpEcho) {
  const xg_packet request = parse(ethernet() + ipv4({.protocol = 1}, icmp(8, 0, 0x1234)));
  EXPECT_EQ(request.flags, XG_PKT_IPV4 | XG_PKT_ICMP);
  EXPECT_EQ(request.key.src_port, be(0x0800)) << "type, then code";
  EXPECT_EQ(request.key.dst_port, be(0x1234)) << "the identifier";
  const xg_packet unreachable = parse(ethernet() + ipv4({.protocol = 1}, icmp(3, 1, 0x1234)));
  EXPECT_EQ(unreachable.key.src_port, be(0x0301));
  EXPECT_EQ(unreachable.key.dst_port, 0);
}

TEST(Parse, FragmentsOfADatagramShareAKey) {
  const Frame first = ethernet() + ipv4({.id = 0xbeef, .fragment = 0x2000}, udp(1000, 53, 24, 2000));
  const Frame later = ethernet() + ipv4({.id = 0xbeef, .fragment = 0x2004}, bytes(32));
  const xg_packet a = parse(first), b = parse(later);
  EXPECT_EQ(a.flags, XG_PKT_IPV4 | XG_PKT_UDP | XG_PKT_PORTS | XG_PKT_FRAGMENT);
  EXPECT_EQ(b.flags, XG_PKT_IPV4 | XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT);
  EXPECT_EQ(b.payload_offset, 34);
  EXPECT_EQ(a.fragment_id, 0xbeefu);
  EXPECT_EQ(std::memcmp(&a.key, &b.key, sizeof a.key), 0);
  EXPECT_FALSE(xg_has_flow(&a));
  const Frame first6 = ethernet() + ipv6({.next = 44}, fragment_header(60, 1, 0xabcdef01) + extension(6) +
                                                           tcp(1, 2, 0x02) + bytes(4));
  const Frame later6 = ethernet() + ipv6({.next = 44}, fragment_header(60, 0x28, 0xabcdef01) + bytes(24));
  const xg_packet c = parse(first6), d = parse(later6);
  EXPECT_EQ(c.flags, XG_PKT_IPV6 | XG_PKT_TCP | XG_PKT_PORTS | XG_PKT_FRAGMENT);
  EXPECT_EQ(c.protocol, 6);
  EXPECT_EQ(c.l4_index, XG_L4_V6 + 6) << "fragments have no flags to match";
  EXPECT_EQ(d.protocol, 60);
  EXPECT_EQ(d.fragment_id, 0xabcdef01u);
  EXPECT_EQ(std::memcmp(&c.key, &d.key, sizeof c.key), 0);
  const xg_packet other = parse(ethernet() + ipv4({.id = 0xbef0, .fragment = 0x2004}, bytes(32)));
  EXPECT_NE(std::memcmp(&b.key, &other.key, sizeof b.key), 0);
}

struct Expectation {
  const char* sample;
  u32 flags;
  u16 l4_offset;
  u8 control = XG_CONTROL_NONE;
};
TEST(Parse, Samples) {
  constexpr u32 v4 = XG_PKT_IPV4, v6 = XG_PKT_IPV6, bad = XG_PKT_MALFORMED;
  constexpr u32 udp_ports = XG_PKT_UDP | XG_PKT_PORTS, tcp_ports = XG_PKT_TCP | XG_PKT_PORTS;
  const Expectation expectations[] = {
      {"sctp", v4 | XG_PKT_SCTP | XG_PKT_PORTS, 34},
      {"neighbour solicitation", v6 | XG_PKT_ICMP, 54, XG_CONTROL_ND},
      {"two tags", v6 | udp_ports | XG_PKT_VLAN, 62},
      {"old tag", v4 | udp_ports | XG_PKT_VLAN, 42},
      {"three tags", XG_PKT_VLAN | bad, 0},
      {"ip options", v4 | udp_ports, 74},
      {"ipv6 extensions", v6 | tcp_ports, 14 + 40 + 8 + 24 + 8 + 24},
      {"ipv6 eight extensions", v6 | udp_ports, 14 + 40 + 8 * 8},
      {"ipv6 nine extensions", v6 | bad, 0},
      {"ipv6 no next header", v6, 0},
      {"ipv6 long options", v6 | udp_ports, 14 + 40 + 488},
      {"jumbogram", v6 | udp_ports, 62},
      {"tiny first fragment", v4 | XG_PKT_FRAGMENT | tcp_ports, 34},
      {"beyond 64 KiB", v4 | XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT | bad, 0},
      {"ipv6 atomic fragment", v6 | XG_PKT_FRAGMENT | udp_ports, 62},
      {"two fragment headers", v6 | XG_PKT_FRAGMENT | udp_ports | bad, 70},
      {"gre", v4, 34},
      {"icmpv6 in ipv4", v4, 34},
      {"wrong version", bad, 0},
      {"short header length", bad, 0},
      {"long header length", v4 | bad, 0},
      {"total length too small", v4 | bad, 0},
      {"total length too large", v4 | udp_ports | bad, 34},
      {"total length inside l4", v4 | udp_ports | bad, 34},
      {"udp length too large", v4 | udp_ports | bad, 34},
      {"udp length too small", v4 | udp_ports | bad, 34},
      {"tcp header too small", v4 | tcp_ports | bad, 34},
      {"tcp header too large", v4 | tcp_ports | bad, 34},
      {"hop-by-hop in the middle", v6 | udp_ports | bad, 70},
      {"dhcp", v4 | udp_ports, 34, XG_CONTROL_DHCP},
      {"dhcpv6", v6 | udp_ports, 54, XG_CONTROL_DHCP},
      {"arp", 0, 0, XG_CONTROL_ARP},
      {"lacp", 0, 0, XG_CONTROL_LACP},
      {"lldp", 0, 0, XG_CONTROL_LLDP},
      {"stp", 0, 0, XG_CONTROL_STP},
      {"802.3", 0, 0},
  };
  const auto all = samples();
  for (const auto& e : expectations) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const Sample& s) { return s.name == e.sample; });
    ASSERT_NE(at, all.end()) << e.sample;
    const xg_packet p = parse(at->frame);
    EXPECT_EQ(p.flags, e.flags) << e.sample;
    EXPECT_EQ(p.l4_offset, e.l4_offset) << e.sample;
    EXPECT_EQ(p.control, e.control) << e.sample;
    expect_sane(p, at->frame.size());
  }
}

TEST(Parse, SaysWhichHeaderIsCut) {
  const Frame frame = ethernet({10, 20}) + ipv6({.next = 60}, extension(6, 1) + tcp(1, 2));
  for (u32 length = 0; length < 14 + 8; ++length)
    EXPECT_EQ(parse(frame.data(), length).malformed, XG_MALFORMED_frame) << length;
  for (u32 length = 22; length < 22 + 40; ++length)
    EXPECT_EQ(parse(frame.data(), length).malformed, XG_MALFORMED_ipv6_header) << length;
  EXPECT_EQ(parse(frame.data(), 22 + 40).malformed, XG_MALFORMED_ipv6_length);
  EXPECT_EQ(parse(frame).malformed, XG_MALFORMED_no);
}

TEST(Parse, CutAnywhere) {
  for (const auto& sample : samples()) {
    const xg_packet whole = parse(sample.frame);
    for (std::size_t length = 0; length < sample.frame.size(); ++length) {
      const xg_packet p = parse(sample.frame.data(), length);
      expect_sane(p, length);
      // A jumbogram's length is the frame's: what is cut off it is not missed.
      if (length < whole.ip_end && sample.name != "jumbogram") {
        EXPECT_NE(p.flags & XG_PKT_MALFORMED, 0) << sample.name << " cut to " << length;
      }
      if (HasFailure()) return;
    }
  }
}

// Of a frame of several buffers the first one is enough, as long as the headers stand in it.
TEST(Parse, TheFirstBufferIsEnough) {
  u32 compared = 0;
  for (const auto& sample : samples()) {
    const xg_packet whole = parse(sample.frame);
    if (whole.payload_offset == 0 || (whole.flags & XG_PKT_MALFORMED) != 0) continue;
    const auto length = static_cast<u32>(sample.frame.size());
    for (u32 readable = whole.payload_offset; readable <= length; ++readable, ++compared) {
      const auto exact = std::make_unique<u8[]>(readable);
      std::memcpy(exact.get(), sample.frame.data(), readable);
      xg_packet part;
      xg_parse_part(exact.get(), exact.get() + readable, length, 7, &part);
      // The parser zeroes all of it first, padding too. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
      ASSERT_EQ(std::memcmp(&part, &whole, sizeof(part)), 0)
          << sample.name << ": " << readable << " of " << length << " bytes";
    }
  }
  EXPECT_GT(compared, 100u);
}

// Whoever can read more of a frame than its first buffer comes to the same answer.
TEST(Parse, HeadersEndInTheFirstBuffer) {
  u32 good = 0;
  for (u8 units = 0; units < 20; ++units) {
    const Frame frame = ethernet() + ipv6({.next = 60}, extension(60, 100) + extension(60, 100) +
                                                            extension(17, units) + udp(1000, 53, 6000));
    const u32 l4_offset = 14 + 40 + 2 * 808 + 8 + 8 * units;
    const xg_packet whole = parse(frame);
    EXPECT_EQ((whole.flags & XG_PKT_MALFORMED) != 0, l4_offset > XG_PARSE_REACH) << l4_offset;
    xg_packet part;
    xg_parse_part(frame.data(), frame.data() + XG_FRAME_MAX, static_cast<u32>(frame.size()), 7, &part);
    // As above. NOLINTNEXTLINE(bugprone-suspicious-memory-comparison)
    EXPECT_EQ(std::memcmp(&part, &whole, sizeof(part)), 0) << l4_offset;
    if ((whole.flags & XG_PKT_MALFORMED) != 0) continue;
    EXPECT_EQ(whole.l4_offset, l4_offset);
    EXPECT_LE(whole.payload_offset, XG_FRAME_MAX);
    ++good;
  }
  EXPECT_EQ(good, 3u);
}

TEST(Parse, AnyBytes) {
  const u32 seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto all = samples();
  for (int i = 0; i < 200'000 && !testing::Test::HasFailure(); ++i) {
    Frame frame = all[random() % all.size()].frame;
    for (auto n = random() % 6; n > 0; --n) frame[random() % frame.size()] = static_cast<u8>(random());
    if (random() % 4 == 0) frame.resize(random() % (frame.size() + 8));
    expect_sane(parse(frame), frame.size());
  }
}

}  // namespace
}  // namespace xdpgpu::test
