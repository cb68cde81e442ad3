// SPDX-License-Identifier: MIT
//
// "fragments": "reassemble" in `replay`: verdicts of captured fragments, by whole datagrams.
#include "userspace/control/waiting_fragments.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kernel/frame.hpp"
#include "userspace/control/replay.hpp"

namespace xdpgpu::control {
namespace {

using namespace xdpgpu::test;  // frames

constexpr u64 kSecond = 1'000'000'000;

std::unique_ptr<Replay> opened(const std::string& settings, bool audit = false) {
  auto policy = compiler::compile_policy_anywhere(
      {"p.json",
       R"({"version": 1, "default": "drop", "rules": [{"match": {"proto": "udp"}, "action": {"inspect": "ids"}}],
           "pipelines": {"ids": [{"stage": "signatures", "rules": ["a.rules"]}, {"stage": "l2fwd"}]}, )" +
           settings + "}",
       {{"a.rules", "drop udp any any -> any any (content:\"WORM\"; sid:1;)\n"}}},
      "(capture)");
  EXPECT_TRUE(policy) << policy.error().sentence;
  policy->set_audit(audit);
  auto replay = Replay::open(*policy, {.device = "cpu", .kernel = false});
  EXPECT_TRUE(replay) << replay.error();
  return std::move(*replay);
}

// A datagram of 72 bytes: "WORM" stands at 30, on both sides of the second fragment's beginning.
Frame fragment(u16 id, u32 start, u32 end, bool v6 = false, char fill = 'x') {
  Frame payload = udp(1000, 53, 64);
  std::fill(payload.begin() + 8, payload.end(), static_cast<u8>(fill));
  for (u32 i = 0; i < 4 && fill == 'x'; ++i) payload[30 + i] = static_cast<u8>("WORM"[i]);
  const Frame part(payload.begin() + start, payload.begin() + end);
  const bool more = end < 72;
  if (v6)
    return ethernet() + ipv6({.next = 44}, fragment_header(17, static_cast<u16>(start | more), id) + part);
  return ethernet() + ipv4({.id = id, .fragment = static_cast<u16>(start / 8 | (more ? 0x2000 : 0))}, part);
}

std::vector<PacketVerdict> verdicts(Replay& replay, const std::vector<std::pair<Frame, u64>>& packets) {
  std::vector<PacketVerdict> all;
  const auto take = [&] {
    for (auto& verdict : replay.take()) all.push_back(std::move(verdict));
  };
  for (const auto& [frame, time_ns] : packets) {
    EXPECT_TRUE(replay.feed(frame, static_cast<u32>(frame.size()), kSecond + time_ns));
    take();
  }
  EXPECT_TRUE(replay.finish());
  take();
  EXPECT_EQ(all.size(), packets.size());
  for (std::size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i].number, i + 1) << "in order";
  return all;
}

TEST(ReplayOfFragments, ByWholeDatagrams) {
  for (const bool v6 : {false, true}) {
    const auto replay = opened(R"("fragments": "reassemble")");
    const auto all = verdicts(*replay, {{fragment(1, 0, 32, v6), 0},
                                        {fragment(2, 0, 32, v6, 'y'), 1},
                                        {ethernet() + ipv4({}, udp(1, 2, 20)), 2},
                                        {fragment(1, 56, 72, v6), 3},
                                        {fragment(2, 32, 72, v6, 'y'), 4},
                                        {fragment(1, 32, 56, v6), 5}});
    ASSERT_EQ(all.size(), 6u);
    for (const std::size_t i : {0u, 3u, 5u}) EXPECT_EQ(all[i].action, XG_DROP) << i;
    for (const std::size_t i : {1u, 2u, 4u}) EXPECT_EQ(all[i].action, XG_TX) << i;
    for (std::size_t i = 0; i < 6; ++i)
      EXPECT_EQ(all[i].alerts.size(), i == 5 ? 1u : 0u) << "the datagram is named once";
    EXPECT_EQ(all[0].stage, all[5].stage);
    EXPECT_EQ(all[0].reason, "inspected");
  }
}

TEST(ReplayOfFragments, WithTrackContentGetsThrough) {
  const auto replay = opened(R"("fragments": "track")");
  for (const auto& verdict : verdicts(*replay, {{fragment(1, 0, 32), 0}, {fragment(1, 32, 72), 1}}))
    EXPECT_EQ(verdict.action, XG_TX);
}

TEST(ReplayOfFragments, WhatIsDroppedSaysWhy) {
  const auto replay = opened(R"("fragments": "reassemble")");
  const auto all = verdicts(*replay, {{fragment(1, 0, 32), 0},
                                      {fragment(2, 0, 32), 1},
                                      {fragment(2, 40, 56), 2},
                                      {fragment(2, 48, 72), 3},
                                      {fragment(3, 0, 32, false, 'y'), 2 * kSecond},
                                      {fragment(3, 32, 72, false, 'y'), 2 * kSecond},
                                      {fragment(3, 32, 72, false, 'y'), 2 * kSecond},
                                      {fragment(4, 0, 32), 3 * kSecond}});
  ASSERT_EQ(all.size(), 8u);
  const auto words = [](dataplane::Unassembled why) { return words_of(why); };
  using enum dataplane::Unassembled;
  EXPECT_EQ(all[0].reason, words(timed_out));
  for (const std::size_t i : {1u, 2u, 3u}) EXPECT_EQ(all[i].reason, words(overlapping));
  EXPECT_EQ(all[6].reason, words(repeated));
  EXPECT_EQ(all[7].reason, words(timed_out)) << "at the capture's end";
  for (const std::size_t i : {0u, 1u, 2u, 3u, 6u, 7u}) EXPECT_EQ(all[i].action, XG_DROP) << i;
  for (const std::size_t i : {4u, 5u}) EXPECT_EQ(all[i].action, XG_TX) << i;
}

TEST(ReplayOfFragments, OverlapsGoByThePolicy) {
  const std::vector<std::pair<Frame, u64>> packets{
      {fragment(1, 0, 32, false, 'y'), 0}, {fragment(1, 32, 56, false, 'y'), 1}, {fragment(1, 40, 72), 2}};
  auto replay = opened(R"("fragments": "reassemble", "overlapping_fragments": "first")");
  for (const auto& verdict : verdicts(*replay, packets)) EXPECT_EQ(verdict.action, XG_TX);
  replay = opened(R"("fragments": "reassemble", "overlapping_fragments": "drop")");
  for (const auto& verdict : verdicts(*replay, packets)) EXPECT_EQ(verdict.action, XG_DROP);
}

TEST(ReplayOfFragments, NothingWaitsUnderAudit) {
  const auto replay = opened(R"("fragments": "reassemble")", true);
  for (const auto& verdict : verdicts(*replay, {{fragment(1, 0, 32), 0}, {fragment(1, 40, 72), 1}}))
    EXPECT_EQ(verdict.action, XG_TX);
}

}  // namespace
}  // namespace xdpgpu::control
