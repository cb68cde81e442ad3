// SPDX-License-Identifier: MIT
//
// What the sender of a packet is told that does not fit inside of outer headers.
#include "userspace/dataplane/too_long.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "maps/parse.h"
#include "tests/kernel/frame.hpp"

namespace xdpgpu::dataplane {
namespace {

using namespace xdpgpu::test;  // frames

// The answer to a frame; nothing where there is none, and then the chunk is as before.
std::optional<Frame> answer_to(const Frame& frame, u32 mtu) {
  alignas(64) u8 chunk[XG_CHUNK_SIZE] = {}, before[XG_CHUNK_SIZE];
  xg_packet packet;
  xg_parse_part(frame.data(), frame.data() + frame.size(), static_cast<u32>(frame.size()), 0, &packet);
  xg_metadata metadata{};
  xg_metadata_from(&metadata, &packet, 0);
  std::memcpy(chunk + XG_FRAME_DATA - XG_METADATA_SIZE, &metadata, sizeof(metadata));
  std::memcpy(chunk + XG_FRAME_DATA, frame.data(), frame.size());
  std::memcpy(before, chunk, sizeof(chunk));
  const auto answer = answer_too_long(chunk + XG_FRAME_DATA, static_cast<u32>(frame.size()), mtu);
  if (!answer) {
    EXPECT_EQ(std::memcmp(before, chunk, sizeof(chunk)), 0);
    return std::nullopt;
  }
  const u8* const begin = chunk + XG_FRAME_DATA - answer->earlier;
  return Frame(begin, begin + answer->length);
}

Frame hex(const std::string& digits) {
  Frame out;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    out.push_back(static_cast<u8>(std::strtoul(digits.substr(i, 2).c_str(), nullptr, 16)));
  return out;
}

Frame without_ethernet(const Frame& frame, std::size_t bytes) {
  return {frame.begin() + static_cast<long>(bytes), frame.end()};
}

// Made by a program that shares nothing with ours.
TEST(TooLong, TellsTheSenderInWholePackets) {
  const Frame four = ethernet({10}) + ipv4({.protocol = 6}, tcp(40000, 80) + bytes(20));
  EXPECT_EQ(answer_to(four, 1480).value(),
            kSrcMac + kDstMac + be16(0x8100) + be16(10) + be16(0x0800) +
                hex("450000580000400040014e6ec6336402c00002010304fb59000005c8") + without_ethernet(four, 18));
  const Frame six = ethernet() + ipv6({}, udp(1000, 4433, 64));
  EXPECT_EQ(answer_to(six, 1452).value(), kSrcMac + kDstMac + be16(0x86dd) +
                                              hex("6000000000783a4020010db800000000000000000000000220010db800"
                                                  "000000000000000000000102006e62000005ac") +
                                              without_ethernet(six, 14));
}

TEST(TooLong, QuotesNoMoreThanAnErrorMayHold) {
  EXPECT_EQ(answer_to(ethernet() + ipv4({}, udp(1, 2, 1600)), 1480).value().size(), 14u + 576u);
  EXPECT_EQ(answer_to(ethernet() + ipv6({}, udp(1, 2, 1600)), 1452).value().size(), 14u + 1280u);
  EXPECT_EQ(answer_to(ethernet() + ipv4({}, udp(1, 2)) + bytes(18), 1480).value().size(), 14u + 28u + 28u)
      << "padding is not the packet's";
}

TEST(TooLong, AnswersNoErrorsAndNoGroups) {
  const auto none = [](const Frame& frame) { return !answer_to(frame, 1480); };
  EXPECT_TRUE(none(ethernet() + ipv4({.protocol = 1}, icmp(3, 4) + bytes(28))));
  EXPECT_TRUE(none(ethernet() + ipv6({.next = 58}, icmp(2, 0) + bytes(48))));
  EXPECT_FALSE(none(ethernet() + ipv4({.protocol = 1}, icmp(8, 0, 7))));
  EXPECT_FALSE(none(ethernet() + ipv6({.next = 58}, icmp(128, 0, 7))));
  EXPECT_TRUE(none(ethernet() + ipv4({.fragment = 0x2004}, bytes(32)))) << "a later fragment";
  EXPECT_FALSE(none(ethernet() + ipv4({.fragment = 0x2000}, udp(1000, 53, 24, 2000)))) << "the first one";
  for (const char* group : {"224.0.0.1", "255.255.255.255", "0.0.0.0", "127.0.0.1"}) {
    EXPECT_TRUE(none(ethernet() + ipv4({.src = group}, udp(1, 2)))) << group;
    EXPECT_TRUE(none(ethernet() + ipv4({.dst = group}, udp(1, 2)))) << group;
  }
  for (const char* group : {"ff02::1", "::", "::1"})
    EXPECT_TRUE(none(ethernet() + ipv6({.src = group}, udp(1, 2)))) << group;
  Frame broadcast = ethernet() + ipv4({}, udp(1, 2));
  broadcast[0] = 0xff;
  EXPECT_TRUE(none(broadcast));
}

TEST(TooLong, AnswersAreLimited) {
  AnswerLimit limit;
  u64 now = 1'000'000'000'000;
  const auto taken = [&](u32 tries) {
    u32 count = 0;
    for (u32 i = 0; i < tries; ++i) count += limit.take(now) ? 1 : 0;
    return count;
  };
  EXPECT_EQ(taken(1000), 50u);
  now += 3'000'000;
  EXPECT_EQ(taken(1000), 3u);
  now += 3'600'000'000'000;
  EXPECT_EQ(taken(1000), 50u) << "an hour of silence gives no more than a burst";
}

}  // namespace
}  // namespace xdpgpu::dataplane
