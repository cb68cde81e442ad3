// SPDX-License-Identifier: MIT
//
// What the sender of a DNS query is told that is refused.
#include "userspace/dataplane/dns_answer.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "maps/parse.h"
#include "tests/kernel/frame.hpp"

namespace xdpgpu::dataplane {
namespace {

using namespace xdpgpu::test;  // frames

// The answer to a frame; nothing where there is none, and then the chunk is as before.
std::optional<Frame> answer_to(const Frame& frame) {
  alignas(64) u8 chunk[XG_CHUNK_SIZE] = {}, before[XG_CHUNK_SIZE];
  xg_packet packet;
  xg_parse_part(frame.data(), frame.data() + frame.size(), static_cast<u32>(frame.size()), 0, &packet);
  xg_metadata metadata{};
  xg_metadata_from(&metadata, &packet, 0);
  std::memcpy(chunk + XG_FRAME_DATA - XG_METADATA_SIZE, &metadata, sizeof(metadata));
  std::memcpy(chunk + XG_FRAME_DATA, frame.data(), frame.size());
  std::memcpy(before, chunk, sizeof(chunk));
  const auto length = answer_no_such_domain(chunk + XG_FRAME_DATA, static_cast<u32>(frame.size()));
  // In front of the frame and behind it all is as it was.
  EXPECT_EQ(std::memcmp(before, chunk, XG_FRAME_DATA), 0);
  const u64 end = XG_FRAME_DATA + frame.size();
  EXPECT_EQ(std::memcmp(before + end, chunk + end, XG_CHUNK_SIZE - end), 0);
  if (!length) {
    EXPECT_EQ(std::memcmp(before, chunk, sizeof(chunk)), 0);
    return std::nullopt;
  }
  EXPECT_LE(*length, frame.size());
  return Frame(chunk + XG_FRAME_DATA, chunk + XG_FRAME_DATA + *length);
}

const Frame kQuestion = Frame{3, 'A', 'd', 's', 7, 'e', 'x', 'a', 'm', 'p', 'l', 'e', 0} + be16(28) + be16(1);

Frame header(u32 flags, u32 questions = 1, u32 additional = 0) {
  return be16(0x1234) + be16(flags) + be16(questions) + be32(0) + be16(additional);
}
Frame message(const Frame& dns, u16 port = 53, int length = -1) {
  Frame all = udp(4660, port, dns.size(), length);
  all.resize(8);
  return all + dns;
}
Frame query(u32 flags = 0x0100) { return message(header(flags) + kQuestion); }

// Of the pseudo-header and the message: 0xffff where the checksum is right.
u32 sum_of(const Frame& bytes) {
  u32 sum = 0;
  for (std::size_t i = 0; i < bytes.size(); i++) sum += u32{bytes[i]} << (i % 2 == 0 ? 8 : 0);
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}
Frame part(const Frame& frame, std::size_t from, std::size_t bytes) {
  return {frame.begin() + static_cast<long>(from), frame.begin() + static_cast<long>(from + bytes)};
}

TEST(DnsAnswer, SaysThatThereIsNoSuchDomain) {
  const std::size_t bytes = 8 + 12 + kQuestion.size();
  const auto four = answer_to(ethernet({10}) + ipv4({}, query())).value();
  EXPECT_EQ(part(four, 0, 18), kSrcMac + kDstMac + be16(0x8100) + be16(10) + be16(0x0800));
  EXPECT_EQ(part(four, 18, 10),
            (Frame{0x45, 0} + be16(20 + static_cast<u32>(bytes)) + be32(0x4000) + Frame{64, 17}));
  EXPECT_EQ(part(four, 30, 8), address("198.51.100.2") + address("192.0.2.1"));
  EXPECT_EQ(sum_of(part(four, 18, 20)), 0xffffu);
  EXPECT_EQ(part(four, 38, 6), be16(53) + be16(4660) + be16(static_cast<u32>(bytes)));
  EXPECT_EQ(part(four, 46, bytes - 8), header(0x8183) + kQuestion) << "answer, recursion, NXDOMAIN";
  EXPECT_EQ(sum_of(part(four, 30, 8) + be16(17) + be16(static_cast<u32>(bytes)) + part(four, 38, bytes)),
            0xffffu);
  EXPECT_EQ(four.size(), 38 + bytes);

  const auto six = answer_to(ethernet() + ipv6({}, query(0x0030))).value();
  EXPECT_EQ(part(six, 14, 8), be32(0x60000000) + be16(static_cast<u32>(bytes)) + (Frame{17, 64}));
  EXPECT_EQ(part(six, 22, 32), address("2001:db8::2") + address("2001:db8::1"));
  EXPECT_EQ(part(six, 62, bytes - 8), header(0x8093) + kQuestion)
      << "no recursion was wanted; checking is off";
  EXPECT_EQ(sum_of(part(six, 22, 32) + be16(17) + be16(static_cast<u32>(bytes)) + part(six, 54, bytes)),
            0xffffu);
}

TEST(DnsAnswer, HasTheQuestionAlone) {
  const Frame opt = Frame{0} + be16(41) + be16(1232) + be32(0) + be16(0);
  const auto answer =
      answer_to(ethernet() + ipv4({}, message(header(0x0100, 1, 1) + kQuestion + opt))).value();
  EXPECT_EQ(answer, answer_to(ethernet() + ipv4({}, query())).value());
  // Of a short frame what pads it is nobody's.
  const Frame root = Frame{0} + be32(0x00010001);
  const auto padded = answer_to(ethernet() + ipv4({}, message(header(0x0100) + root)) + bytes(7)).value();
  EXPECT_EQ(padded.size(), 60u);
  EXPECT_EQ(padded.back(), 0);
}

TEST(DnsAnswer, IsForQueriesFromOneHostToAnother) {
  const auto none = [](const Frame& frame) { return !answer_to(frame); };
  EXPECT_FALSE(none(ethernet() + ipv4({}, query())));
  EXPECT_TRUE(none(ethernet() + ipv4({}, query(0x8180)))) << "an answer";
  EXPECT_TRUE(none(ethernet() + ipv4({}, query(0x2800)))) << "an update";
  EXPECT_TRUE(none(ethernet() + ipv4({}, message(header(0x0100, 0) + kQuestion))));
  EXPECT_TRUE(none(ethernet() + ipv4({}, message(header(0x0100, 2) + kQuestion))));
  EXPECT_TRUE(none(ethernet() + ipv4({}, message(header(0x0100)))));
  EXPECT_TRUE(none(ethernet() + ipv4({}, message(header(0x0100) + Frame{0xc0, 12} + be32(0x00010001)))));
  Frame cut = header(0x0100) + kQuestion;
  cut.pop_back();
  EXPECT_TRUE(none(ethernet() + ipv4({}, message(cut)) + bytes(20))) << "what pads the frame is no question";
  EXPECT_TRUE(none(ethernet() + ipv4({}, message(header(0x0100) + kQuestion, 53, 8 + 12 + 10))));
  EXPECT_TRUE(none(ethernet() + ipv4({.total = 40}, query())));
  EXPECT_TRUE(none(ethernet() + ipv4({.protocol = 6}, tcp(1, 53) + header(0x0100) + kQuestion)));
  EXPECT_TRUE(none(ethernet() + ipv4({.fragment = 0x2000}, query())));
  EXPECT_TRUE(none(ethernet() + ipv4({.options = Frame(4, 1)}, query())));
  EXPECT_TRUE(none(ethernet() + ipv6({.next = 0}, extension(17) + query())));
  EXPECT_TRUE(none(ethernet() + ipv4({.dst = "224.0.0.251"}, query())));
  EXPECT_TRUE(none(ethernet() + ipv4({.src = "0.0.0.0"}, query())));
  EXPECT_TRUE(none(ethernet() + ipv4({.src = "127.0.0.1"}, query())));
  EXPECT_TRUE(none(ethernet() + ipv6({.dst = "ff02::fb"}, query())));
  EXPECT_TRUE(none(ethernet() + ipv6({.src = "::"}, query())));
  Frame to_all = ethernet() + ipv4({}, query());
  std::fill_n(to_all.begin(), 6, u8{0xff});
  EXPECT_TRUE(none(to_all));
  EXPECT_TRUE(none(arp()));
}

// A name as long as there are, and one that is longer.
TEST(DnsAnswer, TakesNamesUpTo255Bytes) {
  const auto with_name = [](std::size_t labels, u8 last) {
    Frame dns = header(0x0100);
    for (std::size_t i = 0; i < labels; i++) dns = dns + Frame{1, 'a'};
    return ethernet() + ipv4({}, message(dns + Frame{last} + bytes(last, 'b') + Frame{0} + be32(0x00010001)));
  };
  EXPECT_TRUE(answer_to(with_name(126, 1)));
  EXPECT_FALSE(answer_to(with_name(126, 2)));
}

// Whatever stands in a frame: it is answered within its bytes, or left as it was.
TEST(DnsAnswer, AnyBytes) {
  std::mt19937_64 random(4711);
  u32 answered = 0;
  for (int i = 0; i < 200'000; i++) {
    Frame frame = i % 2 == 0 ? ethernet() + ipv4({}, query()) : ethernet({5}) + ipv6({}, query());
    frame = frame + bytes(random() % 30);
    for (u64 changes = random() % 3; changes != 0; changes--)
      frame[random() % frame.size()] = static_cast<u8>(random());
    if (random() % 4 == 0) frame.resize(14 + random() % (frame.size() - 14));
    answered += answer_to(frame).has_value();
  }
  EXPECT_GT(answered, 10'000u);
}

}  // namespace
}  // namespace xdpgpu::dataplane
