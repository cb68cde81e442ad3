// SPDX-License-Identifier: MIT
//
// tests/netns/jumbo_test.cpp: frames of several buffers (MTU 9000) by way of user space, seen from the other
// hosts.
#include <fmt/format.h>

#include <algorithm>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr unsigned kMtu = 9000;
constexpr std::size_t kMostPayload = kMtu - 20 - 8;
// Packets/s. A worker that waits some 100 ms for a core on a busy machine still has credit for what came.
constexpr unsigned kRate = 500;
constexpr const char* kPass = R"({"stage": "acl", "rules": [], "default": "pass"})";
constexpr const char* kDrop = R"({"stage": "acl", "rules": [], "default": "drop"})";
constexpr const char* kBounce = R"({"stage": "l2fwd"})";

class Jumbo : public OnTheWire {
 protected:
  void SetUp() override {
    if (!kernel_at_least(6, 7)) GTEST_SKIP() << "frames of several buffers take Linux 6.7";
    OnTheWire::SetUp();
    if (IsSkipped()) return;
    for (const Interface* end : {&host_port(), &left_port(), &host_second(), &right_port()})
      end->set_mtu(kMtu);
  }

  // UDP frames to port 7000 of all lengths up to the longest, of 16 flows.
  std::vector<Frame> long_frames(std::size_t count) const {
    std::vector<Frame> frames;
    frames.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
      PacketSpec spec = from_left(static_cast<std::uint16_t>(1024 + i % 16), 7000, "");
      if (i % 4 == 1) spec.vlans.push_back({static_cast<std::uint16_t>(1 + i)});
      spec.payload = fmt::format("seq {} ", i);
      spec.payload.resize(i % 5 == 4 ? kMostPayload : std::max<std::size_t>(20, i * 617 % kMostPayload),
                          static_cast<char>('a' + i % 26));
      frames.push_back(build(spec));
    }
    return frames;
  }
};
INSTANTIATE_TEST_SUITE_P(Netns, Jumbo, kConfigs, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, Jumbo, kSplit, config_name);

TEST_P(Jumbo, PassReachesTheStack) {
  Sniffer sent(left_port(), Sniffer::Direction::outgoing);
  attach(inspect_all(kPass));
  for (const char* address : {"10.9.0.1", "fd09::1"}) {
    const PingResult result = ping(*left_, address, {.count = 10, .size = 8000, .interval = 2ms});
    EXPECT_EQ(result.received, 10U) << address;
    EXPECT_EQ(result.duplicates, 0U) << address;
  }
  // Packets, not buffers; what the far end's own stack has said meanwhile may be among them.
  const auto passed = attached_->pins().worker("passed");
  EXPECT_GE(passed, 20U);
  EXPECT_LE(passed, sent.drain(50ms).size());
  const TransferResult in = tcp_transfer(*left_, *host_, "10.9.0.1", {.bytes = 4 << 20});
  EXPECT_TRUE(in.intact) << "towards the host: " << in.problem;
  const TransferResult out = tcp_transfer(*host_, *left_, "10.9.0.2", {.bytes = 4 << 20});
  EXPECT_TRUE(out.intact) << "from the host: " << out.problem;
  expect_conserved(attached_->pins());
  const Outcome end = attached_->detach();
  EXPECT_EQ(end.status, 0) << end.out << end.err;  // frames and packets balanced
}

TEST_P(Jumbo, EveryByteComesBack) {
  attach(inspect_udp(7000, kBounce));
  Sniffer left(left_port());
  const auto frames = long_frames(400);
  Sender(left_port()).send_paced(frames, kRate);
  const auto seen = left.take(frames.size(), 5000ms, udp_to(7000));
  std::vector<Frame> wanted;
  wanted.reserve(frames.size());
  for (const Frame& frame : frames) wanted.push_back(with_macs_swapped(frame));
  std::sort(wanted.begin(), wanted.end());
  EXPECT_EQ(seen.size(), frames.size());
  EXPECT_TRUE(sorted_frames(seen) == wanted);
  EXPECT_EQ(attached_->pins().worker("transmitted"), frames.size());
  expect_conserved(attached_->pins());
  const Outcome end = attached_->detach();
  EXPECT_EQ(end.status, 0) << end.out << end.err;
}

TEST_P(Jumbo, DropIsSilence) {
  attach(inspect_udp(7000, kDrop));
  Sniffer left(left_port());
  const auto frames = long_frames(400);
  Sender(left_port()).send_paced(frames, kRate);
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("dropped") == frames.size(); }))
      << attached_->pins().worker("dropped");
  EXPECT_TRUE(left.drain(50ms, 1s, udp_to(7000)).empty());
  expect_conserved(attached_->pins());
  const Outcome end = attached_->detach();
  EXPECT_EQ(end.status, 0) << end.out << end.err;
}

TEST_P(Jumbo, RedirectArrivesWhereTheMtuIsAsLarge) {
  attach_both(inspect_udp(7000, fmt::format(R"({{"stage": "l2fwd", "to": "{}"}})", host_second().ifname())));
  Sniffer right(right_port());
  const auto frames = long_frames(300);
  Sender(left_port()).send_paced(frames, kRate);
  EXPECT_EQ(right.take(frames.size(), 5000ms, udp_to(7000)).size(), frames.size());
  EXPECT_EQ(attached_->pins(0).worker("redirected"), frames.size());
  expect_conserved(attached_->pins(0));
}

TEST_P(Jumbo, WhatIsTooLongForTheOtherPortIsCountedAsSuch) {
  for (const Interface* end : {&host_second(), &right_port()}) end->set_mtu(1500);
  attach_both(inspect_udp(
      7000, fmt::format(R"({{"stage": "l2fwd", "to": "{}", "cache": "60s"}})", host_second().ifname())));
  Sniffer right(right_port());
  PacketSpec spec = from_left(1000, 7000, std::string(kMostPayload, 'x'));
  const Frame longest = build(spec);
  spec.payload = "short";
  const Frame shortest = build(spec);
  Sender(left_port()).send_paced(std::vector<Frame>{shortest, longest, shortest, longest}, 50);
  EXPECT_EQ(right.take(2, 2000ms, udp_to(7000)).size(), 2U);
  EXPECT_TRUE(eventually([&] { return attached_->pins(0).worker("error_too_long") == 2; }));
  EXPECT_EQ(attached_->pins(0).worker("redirected"), 2U);
  EXPECT_EQ(attached_->pins(0).worker("flows_cached"), 0U)
      << "the kernel would lose the long ones without a word";
}

// The kernel's own verdicts: cached while the first packets were in user space.
TEST_P(Jumbo, CachedVerdictsHoldForLongFrames) {
  attach(inspect_udp(7000, R"({"stage": "l2fwd", "cache": "60s"})"));
  Sniffer left(left_port());
  PacketSpec spec = from_left(1000, 7000, std::string(kMostPayload, 'x'));
  const std::vector<Frame> frames(40, build(spec));
  Sender(left_port()).send_paced(frames, 200);
  const auto seen = left.take(frames.size(), 3000ms, udp_to(7000));
  ASSERT_EQ(seen.size(), frames.size());
  for (const Captured& captured : seen) EXPECT_TRUE(captured.frame == with_macs_swapped(frames[0]));
  EXPECT_GT(attached_->pins().kernel("tx_flow"), 20U);
  expect_conserved(attached_->pins());
}

}  // namespace
}  // namespace xdpgpu::lab
