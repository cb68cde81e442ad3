// SPDX-License-Identifier: MIT
//
// What those are told between whom a packet goes that a rule rejects.
#include "userspace/dataplane/reject_answer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <random>

#include "maps/parse.h"
#include "tests/kernel/frame.hpp"

namespace xdpgpu::dataplane {
namespace {

using namespace xdpgpu::test;  // frames

constexpr u32 kRoom = XG_CHUNK_SIZE - XG_FRAME_DATA;

// The answer to a frame; nothing where there is none, and then the chunk is as before. first: bytes in the
// first buffer, if there are others behind it.
std::optional<Frame> answer_to(const Frame& frame, Told whom = Told::sender, std::size_t first = 0,
                               u32 room = kRoom) {
  alignas(64) u8 chunk[XG_CHUNK_SIZE], before[XG_CHUNK_SIZE];
  std::memset(chunk, 0xa5, sizeof(chunk));
  const std::size_t length = first ? first : frame.size();
  std::copy_n(frame.begin(), length, chunk + XG_FRAME_DATA);
  std::memcpy(before, chunk, sizeof(chunk));
  const auto answer = answer_rejected(chunk + XG_FRAME_DATA, static_cast<u32>(length),
                                      static_cast<u32>(frame.size()), room, whom);
  const u64 end = XG_FRAME_DATA + std::max<std::size_t>(length, answer.value_or(0));
  EXPECT_EQ(std::memcmp(before, chunk, XG_FRAME_DATA), 0) << "in front of the frame";
  EXPECT_EQ(std::memcmp(before + end, chunk + end, XG_CHUNK_SIZE - end), 0) << "behind it";
  if (!answer) {
    EXPECT_EQ(std::memcmp(before, chunk, sizeof(chunk)), 0);
    return std::nullopt;
  }
  EXPECT_LE(*answer, room);
  return Frame(chunk + XG_FRAME_DATA, chunk + XG_FRAME_DATA + *answer);
}

Frame part(const Frame& frame, std::size_t from, std::size_t bytes = ~std::size_t{0}) {
  bytes = std::min(bytes, frame.size() - from);
  return {frame.begin() + static_cast<long>(from), frame.begin() + static_cast<long>(from + bytes)};
}
// 0xffff where the checksum among them is right.
u32 sum_of(const Frame& bytes) {
  u32 sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i++) sum += u32{bytes[i]} << (i % 2 == 0 ? 8 : 0);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}
Frame swapped_macs() { return kSrcMac + kDstMac; }

// A segment, its numbers as they are on the wire.
Frame segment(u8 flags, u32 sequence, u32 acknowledged, std::size_t payload = 0, u8 words = 5) {
  return be16(40000) + be16(80) + be32(sequence) + be32(acknowledged) +
         Frame{static_cast<u8>(words << 4), flags} + be16(1024) + be32(0) +
         bytes(words > 5 ? (words - 5) * 4u : 0, 1) + bytes(payload);
}

// What is said of an IP packet of either family, from its header on: headers are right, and checksums.
struct Said {
  Frame source, destination, behind;  // the IP header
  u8 protocol = 0;
};
Said said(const Frame& ip) {
  Said made;
  const bool v4 = ip[0] >> 4 == 4;
  if (v4) {
    EXPECT_EQ(part(ip, 0, 2), (Frame{0x45, 0}));
    EXPECT_EQ(part(ip, 4, 5), be32(0x4000) + Frame{64}) << "whole, and to stay so";
    EXPECT_EQ(sum_of(part(ip, 0, 20)), 0xffffu);
    made = {part(ip, 12, 4), part(ip, 16, 4), part(ip, 20, (ip[2] << 8 | ip[3]) - 20u), ip[9]};
    EXPECT_GE(ip.size(), std::size_t(ip[2] << 8 | ip[3]));
  } else {
    EXPECT_EQ(part(ip, 0, 4), be32(0x60000000));
    EXPECT_EQ(ip[7], 64);
    made = {part(ip, 8, 16), part(ip, 24, 16), part(ip, 40, std::size_t(ip[4] << 8 | ip[5])), ip[6]};
    EXPECT_GE(ip.size(), 40u + (ip[4] << 8 | ip[5]));
  }
  const Frame pseudo =
      made.source + made.destination + be32(static_cast<u32>(made.behind.size())) + be32(made.protocol);
  EXPECT_EQ(sum_of((made.protocol == 1 ? Frame{} : pseudo) + made.behind), 0xffffu);
  return made;
}

struct Reset {
  Frame source, destination, ports;
  u32 sequence = 0, acknowledged = 0;
};
// To a segment, in a packet of either family, in VLAN 10.
Reset reset_for(const Frame& tcp, bool six, Told whom) {
  const Frame l2 = ethernet({10});
  const auto frame = answer_to(six ? l2 + ipv6({.next = 6}, tcp) : l2 + ipv4({.protocol = 6}, tcp), whom);
  if (!frame) {
    ADD_FAILURE() << "no answer";
    return {};
  }
  EXPECT_EQ(part(*frame, 0, 12), whom == Told::sender ? swapped_macs() : kDstMac + kSrcMac);
  EXPECT_EQ(part(*frame, 12, 6), be16(0x8100) + be16(10) + be16(six ? 0x86dd : 0x0800));
  const Said of = said(part(*frame, 18));
  EXPECT_EQ(of.protocol, 6);
  EXPECT_EQ(of.behind.size(), 20u);
  EXPECT_EQ(part(of.behind, 12, 2), (Frame{0x50, 0x14})) << "no options, RST and ACK";
  EXPECT_EQ(part(of.behind, 18, 2), be16(0));
  const auto number = [&](std::size_t at) {
    return u32{of.behind[at]} << 24 | u32{of.behind[at + 1]} << 16 | u32{of.behind[at + 2]} << 8 |
           of.behind[at + 3];
  };
  return {of.source, of.destination, part(of.behind, 0, 4), number(4), number(8)};
}

constexpr u8 kFin = 1, kSyn = 2, kRst = 4, kPush = 8, kAck = 16;

TEST(RejectAnswer, ResetsHaveTheNumbersThatEitherEndWaitsFor) {
  struct Case {
    const char* what;
    Frame segment;
    u32 sequence, acknowledged;  // of the reset to the sender
    u32 own, others;             // of that to the receiver
  };
  const Case cases[] = {
      {"SYN", segment(kSyn, 1000, 0), 0, 1001, 1000, 0},
      {"SYN with data", segment(kSyn, 1000, 0, 7), 0, 1008, 1000, 0},
      {"SYN with options", segment(kSyn, 1000, 0, 0, 10), 0, 1001, 1000, 0},
      {"SYN with what is no acknowledgement", segment(kSyn, 1000, 77), 0, 1001, 1000, 77},
      {"SYN that wraps", segment(kSyn, 0xffffffff, 0), 0, 0, 0xffffffff, 0},
      {"SYN, ACK", segment(kSyn | kAck, 5000, 1001), 1001, 5000, 5000, 1001},
      {"ACK", segment(kAck, 1001, 5001), 5001, 1001, 1001, 5001},
      {"data", segment(kAck | kPush, 1001, 5001, 33), 5001, 1034, 1001, 5001},
      {"data and options", segment(kAck | kPush, 1001, 5001, 33, 8), 5001, 1034, 1001, 5001},
      {"data of an odd length that wraps", segment(kAck, 0xfffffff0, 5, 33), 5, 17, 0xfffffff0, 5},
      {"FIN", segment(kFin | kAck, 1001, 5001), 5001, 1001, 1001, 5001},
      {"FIN without ACK", segment(kFin, 1001, 0), 0, 1002, 1001, 0},
      {"all zero", segment(0, 0, 0), 0, 1, 0, 0},
  };
  for (const bool six : {false, true}) {
    const Frame left = address(six ? "2001:db8::1" : "192.0.2.1");
    const Frame right = address(six ? "2001:db8::2" : "198.51.100.2");
    for (const Case& one : cases) {
      SCOPED_TRACE(std::string(one.what) + (six ? ", IPv6" : ", IPv4"));
      const Reset back = reset_for(one.segment, six, Told::sender);
      EXPECT_EQ(back.source, right);
      EXPECT_EQ(back.destination, left);
      EXPECT_EQ(back.ports, be16(80) + be16(40000));
      EXPECT_EQ(back.sequence, one.sequence);
      EXPECT_EQ(back.acknowledged, one.acknowledged);
      const Reset on = reset_for(one.segment, six, Told::receiver);
      EXPECT_EQ(on.source, left);
      EXPECT_EQ(on.destination, right);
      EXPECT_EQ(on.ports, be16(40000) + be16(80));
      EXPECT_EQ(on.sequence, one.own);
      EXPECT_EQ(on.acknowledged, one.others);
    }
  }
}

Frame hex(const std::string& digits) {
  Frame out;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    out.push_back(static_cast<u8>(std::strtoul(digits.substr(i, 2).c_str(), nullptr, 16)));
  return out;
}

// What Suricata 7.0.10 sent on a wire, by rejectboth, for these IP packets: back, and on. Of IPv4 from the
// TCP header on, as it sets an identification, and no DF.
TEST(RejectAnswer, ResetsAreSuricatas) {
  struct Case {
    const char *asked, *back, *on;
  };
  const Case cases[] = {
      {"45000028004d0000400665df0a4d00020a4d000975300050000003e800000000500204001dd60000",
       "0050753000000000000003e9501404001dc30000", "75300050000003e800000000501404001dc40000"},
      {"45000028004d0000400665df0a4d00020a4d00097533005000001388000003e9501204000a3a0000",
       "00507533000003e900001388501404000a380000", "7533005000001388000003e9501404000a380000"},
      {"45000049004d0000400665be0a4d00020a4d000975350050000003e90000138950180400f9770000797979797979797979797"
       "979797979797979797979797979797979797979797979",
       "00507535000013890000040a501404000a140000", "75350050000003e900001389501404000a350000"},
      {"6000000000140640fd770000000000000000000000000002fd77000000000000000000000000000975300050000003e800000"
       "0005002040037800000",
       "6000000000140640fd770000000000000000000000000009fd770000000000000000000000000002005075300000000000000"
       "3e950140400376d0000",
       "6000000000140640fd770000000000000000000000000002fd77000000000000000000000000000975300050000003e800000"
       "00050140400376e0000"},
      {"6000000000140640fd770000000000000000000000000002fd770000000000000000000000000009753300500000138800000"
       "3e95012040023e40000",
       "6000000000140640fd770000000000000000000000000009fd77000000000000000000000000000200507533000003e900001"
       "3885014040023e20000",
       "6000000000140640fd770000000000000000000000000002fd770000000000000000000000000009753300500000138800000"
       "3e95014040023e20000"},
      {"6000000000350640fd770000000000000000000000000002fd77000000000000000000000000000975350050000003e900001"
       "3895018040013220000797979797979797979797979797979797979797979797979797979797979797979",
       "6000000000140640fd770000000000000000000000000009fd770000000000000000000000000002005075350000138900000"
       "40a5014040023be0000",
       "6000000000140640fd770000000000000000000000000002fd77000000000000000000000000000975350050000003e900001"
       "3895014040023df0000"},
  };
  for (const auto& [asked, back, on] : cases) {
    const bool v4 = asked[0] == '4';
    const Frame frame = ethernet() + be16(v4 ? 0x0800 : 0x86dd) + hex(asked);
    EXPECT_EQ(part(answer_to(frame, Told::sender).value(), v4 ? 34 : 14, v4 ? 20 : 60), hex(back));
    EXPECT_EQ(part(answer_to(frame, Told::receiver).value(), v4 ? 34 : 14, v4 ? 20 : 60), hex(on));
  }
}

TEST(RejectAnswer, ResetsStandAloneWhateverStoodAroundTheSegment) {
  const Frame plain = answer_to(ethernet() + ipv4({.protocol = 6}, segment(kAck, 1, 2))).value();
  EXPECT_EQ(plain.size(), 54u);
  EXPECT_EQ(answer_to(ethernet() + ipv4({.protocol = 6, .options = Frame(8, 1)}, segment(kAck, 1, 2))),
            plain + bytes(6, 0))
      << "without options, and as long as a frame has to be";
  EXPECT_EQ(answer_to(ethernet() + ipv4({.protocol = 6}, segment(kAck, 1, 2)) + Frame{1, 2, 3, 4, 5, 6}),
            plain + bytes(6, 0))
      << "padding is no data";
  const Frame six = answer_to(ethernet() + ipv6({.next = 6}, segment(kAck, 1, 2))).value();
  EXPECT_EQ(answer_to(ethernet() + ipv6({.next = 0}, extension(60) + extension(6, 1) + segment(kAck, 1, 2))),
            six);
  EXPECT_EQ(answer_to(ethernet({10, 20}) + ipv4({.protocol = 6}, segment(kAck, 1, 2))),
            swapped_macs() + part(ethernet({10, 20}), 12) + part(plain, 12));
}

TEST(RejectAnswer, DataInOtherBuffersCount) {
  const Frame frame = ethernet() + ipv4({.protocol = 6}, segment(kAck, 1000, 5000, 9000));
  const auto answer = answer_to(frame, Told::sender, 1500).value();
  EXPECT_EQ(part(answer, 38, 8), be32(5000) + be32(10000));
  EXPECT_EQ(answer.size(), 60u);
  EXPECT_EQ(answer_to(frame, Told::sender, 54).value().size(), 54u) << "the headers' buffer alone";
  EXPECT_FALSE(answer_to(frame, Told::sender, 53)) << "they do not stand in it";
  const Frame datagram = ethernet() + ipv4({}, udp(1, 2, 9000));
  EXPECT_EQ(answer_to(datagram, Told::sender, 1500).value().size(), 14u + 576u);
  EXPECT_EQ(answer_to(datagram, Told::sender, 42).value().size(), 14u + 28u + 28u) << "what is at hand";
}

TEST(RejectAnswer, AllElseIsToldByIcmp) {
  for (const bool six : {false, true})
    for (const Told whom : {Told::sender, Told::receiver}) {
      SCOPED_TRACE(std::string(six ? "IPv6" : "IPv4") + (whom == Told::sender ? " back" : " on"));
      const Frame left = address(six ? "2001:db8::1" : "192.0.2.1");
      const Frame right = address(six ? "2001:db8::2" : "198.51.100.2");
      const auto both = [&](const Ipv4& four, const Ipv6& header, const Frame& payload) {
        return six ? ethernet({10}) + ipv6(header, payload) : ethernet({10}) + ipv4(four, payload);
      };
      const u8 echo = six ? 128 : 8, icmp_protocol = six ? 58 : 1;
      for (const Frame& asked :
           {both({}, {}, udp(1000, 53, 31)), both({.protocol = 132}, {.next = 132}, sctp(1, 2)),
            both({.protocol = 50}, {.next = 50}, bytes(21)), both({.protocol = 59}, {.next = 59}, {}),
            both({.protocol = icmp_protocol}, {.next = icmp_protocol}, icmp(echo, 0, 7)),
            both({.options = Frame(4, 1)}, {.next = 0}, six ? extension(17) + udp(1, 2) : udp(1, 2)),
            both({.fragment = 0x2000}, {.next = 44},
                 six ? fragment_header(17, 1, 9) + udp(1, 2, 24, 2000) : udp(1, 2, 24, 2000))}) {
        const auto frame = answer_to(asked + bytes(5), whom);
        ASSERT_TRUE(frame);
        EXPECT_EQ(part(*frame, 0, 12), whom == Told::sender ? swapped_macs() : kDstMac + kSrcMac);
        EXPECT_EQ(part(*frame, 12, 6), be16(0x8100) + be16(10) + be16(six ? 0x86dd : 0x0800));
        const Said of = said(part(*frame, 18));
        EXPECT_EQ(of.source, whom == Told::sender ? right : left);
        EXPECT_EQ(of.destination, whom == Told::sender ? left : right);
        EXPECT_EQ(of.protocol, icmp_protocol);
        EXPECT_EQ(part(of.behind, 0, 2), six ? (Frame{1, 1}) : (Frame{3, 10})) << "prohibited";
        EXPECT_EQ(part(of.behind, 4, 4), be32(0));
        EXPECT_EQ(part(of.behind, 8), part(asked, 18)) << "the packet, and not what pads it";
      }
    }
}

TEST(RejectAnswer, QuotesNoMoreThanAnErrorMayHoldNorThanThereIsRoomFor) {
  EXPECT_EQ(answer_to(ethernet() + ipv4({}, udp(1, 2, 1600))).value().size(), 14u + 576u);
  EXPECT_EQ(answer_to(ethernet() + ipv6({}, udp(1, 2, 1600))).value().size(), 14u + 1280u);
  const Frame small = ethernet() + ipv4({}, udp(1, 2, 10));
  EXPECT_TRUE(answer_to(small, Told::sender, 0, static_cast<u32>(small.size()) + 28));
  EXPECT_FALSE(answer_to(small, Told::sender, 0, static_cast<u32>(small.size()) + 27));
  EXPECT_TRUE(answer_to(ethernet() + ipv4({.protocol = 6}, segment(kSyn, 1, 0)), Told::sender, 0, 54));
}

TEST(RejectAnswer, WhatMayNotBeAnsweredIsNot) {
  const auto none = [](const Frame& frame) {
    const bool back = !answer_to(frame, Told::sender), on = !answer_to(frame, Told::receiver);
    EXPECT_EQ(back, on);
    return back;
  };
  const Frame l2 = ethernet();
  EXPECT_TRUE(none(l2 + ipv4({.protocol = 6}, segment(kRst, 1, 0))));
  EXPECT_TRUE(none(l2 + ipv4({.protocol = 6}, segment(kRst | kAck, 1, 2))));
  EXPECT_TRUE(none(l2 + ipv6({.next = 6}, segment(kRst | kAck, 1, 2))));
  for (const u8 type : std::initializer_list<u8>{3, 4, 5, 11, 12, 1, 9, 19, 40, 255})
    EXPECT_TRUE(none(l2 + ipv4({.protocol = 1}, icmp(type, 0) + bytes(28)))) << int{type};
  for (const u8 type : std::initializer_list<u8>{0, 8, 13, 14, 15, 16, 17, 18})
    EXPECT_FALSE(none(l2 + ipv4({.protocol = 1}, icmp(type, 0)))) << int{type};
  for (const u8 type : std::initializer_list<u8>{1, 2, 3, 4, 100, 127, 137})
    EXPECT_TRUE(none(l2 + ipv6({.next = 58}, icmp(type, 0) + bytes(48)))) << int{type};
  for (const u8 type : std::initializer_list<u8>{128, 129, 144})
    EXPECT_FALSE(none(l2 + ipv6({.next = 58}, icmp(type, 0)))) << int{type};
  EXPECT_TRUE(none(l2 + ipv4({.protocol = 1, .fragment = 0x2000}, {}))) << "of which type?";
  EXPECT_TRUE(none(l2 + ipv4({.fragment = 0x2004}, bytes(32)))) << "a later fragment";
  EXPECT_TRUE(none(l2 + ipv4({.protocol = 6, .fragment = 0x0004}, segment(kSyn, 1, 0))));
  EXPECT_TRUE(none(l2 + ipv6({.next = 44}, fragment_header(17, 8 << 3 | 1, 9) + bytes(32))));
  for (const u8 outer : std::initializer_list<u8>{4, 41, 47}) {
    EXPECT_TRUE(none(l2 + ipv4({.protocol = outer}, bytes(40)))) << "may carry another packet";
    EXPECT_TRUE(none(l2 + ipv6({.next = outer}, bytes(40))));
  }
  for (const Frame& payload : {udp(1, 2), segment(kSyn, 1, 0)}) {
    const u8 protocol = payload.size() == 8 ? 17 : 6;
    for (const char* group : {"224.0.0.1", "255.255.255.255", "0.0.0.0", "127.0.0.1"}) {
      EXPECT_TRUE(none(l2 + ipv4({.src = group, .protocol = protocol}, payload))) << group;
      EXPECT_TRUE(none(l2 + ipv4({.dst = group, .protocol = protocol}, payload))) << group;
    }
    for (const char* group : {"ff02::1", "::", "::1"}) {
      EXPECT_TRUE(none(l2 + ipv6({.src = group, .next = protocol}, payload))) << group;
      EXPECT_TRUE(none(l2 + ipv6({.dst = group, .next = protocol}, payload))) << group;
    }
    for (const std::size_t at : {0u, 6u}) {
      Frame group = l2 + ipv4({.protocol = protocol}, payload);
      EXPECT_FALSE(none(group));
      group[at] |= 1;
      EXPECT_TRUE(none(group)) << "a group's MAC address";
    }
  }
  EXPECT_TRUE(none(arp()));
  EXPECT_TRUE(none(lldp()));
  EXPECT_TRUE(none(l2));
  EXPECT_TRUE(none(Frame{}));
}

TEST(RejectAnswer, NothingFollowsWhereLengthsLie) {
  const auto none = [](const Frame& frame) { return !answer_to(frame); };
  const Frame l2 = ethernet();
  EXPECT_TRUE(none(l2 + ipv4({.total = 100}, udp(1, 2))));
  EXPECT_TRUE(none(l2 + ipv4({.total = 19}, udp(1, 2))));
  EXPECT_TRUE(none(l2 + ipv4({.first_byte = 0x44}, udp(1, 2))));
  EXPECT_TRUE(none(l2 + ipv4({.first_byte = 0x4f}, udp(1, 2))));
  EXPECT_TRUE(none(l2 + ipv6({.length = 100}, udp(1, 2))));
  EXPECT_TRUE(none(l2 + ipv4({}, udp(1, 2, 10, 1000))));
  EXPECT_TRUE(none(l2 + ipv4({.protocol = 6}, segment(kSyn, 1, 0, 0, 4) + bytes(4))));
  EXPECT_TRUE(none(l2 + ipv4({.protocol = 6}, part(segment(kSyn, 1, 0, 0, 6), 0, 20)))) << "options cut off";
  EXPECT_TRUE(none(l2 + ipv4({.protocol = 6, .total = 60}, segment(kSyn, 1, 0))));
  for (const Frame& whole : {l2 + ipv4({.protocol = 6}, segment(kSyn, 1, 0)), l2 + ipv4({}, udp(1, 2)),
                             ethernet({5}) + ipv6({.next = 6}, segment(kSyn, 1, 0))}) {
    EXPECT_FALSE(none(whole));
    for (std::size_t length = 0; length < whole.size(); ++length)
      EXPECT_TRUE(none(part(whole, 0, length))) << length;
  }
}

// Whatever stands in a frame: it is answered within its room by a packet that is right, or left as it was.
TEST(RejectAnswer, AnyBytes) {
  std::mt19937_64 random(4711);
  u32 answered = 0, resets = 0;
  for (int i = 0; i < 200'000; i++) {
    const Frame tcp_segment = segment(static_cast<u8>(random()), static_cast<u32>(random()),
                                      static_cast<u32>(random()), random() % 50, 5 + random() % 4);
    Frame frame;
    switch (random() % 6) {
      case 0:
        frame = ethernet() + ipv4({.protocol = 6}, tcp_segment);
        break;
      case 1:
        frame = ethernet({5}) + ipv6({.next = 0}, extension(6) + tcp_segment);
        break;
      case 2:
        frame = ethernet({5, 6}) + ipv4({.options = Frame(4, 1)}, udp(1, 2, random() % 1500));
        break;
      case 3:
        frame = ethernet() + ipv6({}, udp(1, 2, random() % 1500));
        break;
      case 4:
        frame = ethernet() + ipv4({.protocol = 1}, icmp(static_cast<u8>(random() % 20), 0));
        break;
      default:
        frame = ethernet() + bytes(2 + random() % 100);
    }
    for (u64 changes = random() % 3; changes != 0; changes--)
      frame[random() % std::min<std::size_t>(frame.size(), 90)] = static_cast<u8>(random());
    if (random() % 4 == 0) frame.resize(14 + random() % (frame.size() - 13));
    const std::size_t first = random() % 4 ? 0 : 14 + random() % (frame.size() - 13);
    const std::size_t held = first ? first : frame.size();
    const u32 room = random() % 4 ? kRoom : static_cast<u32>(held + random() % 60);
    const auto answer = answer_to(frame, random() % 2 ? Told::sender : Told::receiver, first, room);
    if (!answer) continue;
    ++answered;
    xg_packet packet;
    xg_parse(answer->data(), answer->data() + answer->size(), 0, &packet);
    ASSERT_FALSE(packet.flags & (XG_PKT_MALFORMED | XG_PKT_FRAGMENT));
    const Said of = said(part(*answer, packet.l3_offset));
    ASSERT_FALSE(HasFailure());
    resets += of.protocol == 6;
  }
  EXPECT_GT(answered, 50'000u);
  EXPECT_GT(resets, 10'000u);
}

}  // namespace
}  // namespace xdpgpu::dataplane
