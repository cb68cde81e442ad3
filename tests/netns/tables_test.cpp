// SPDX-License-Identifier: MIT
//
// tests/netns/tables_test.cpp: stages that remember packets, on the wire: limits that hold, connections that
// live while strays are dropped, and what stays known over a change of policy.
#include <fmt/format.h>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr std::uint16_t kPort = 7000;

std::string limited(int pps, int burst, const std::string& more = "") {
  return inspect_udp(kPort,
                     fmt::format(R"({{"stage": "rate_limit", "per": "src", "pps": {}, "burst": {}}},
                                           {{"stage": "l2fwd"}})",
                                 pps, burst),
                     more);
}

class TablesOnTheWire : public OnTheWire {
 protected:
  // How many of `count` packets of one source come back.
  std::uint64_t sent_back(std::size_t count) {
    const Pins& pins = attached_->pins();
    const auto before = pins.worker_counts();
    Sender(left_port()).send(numbered(1000, kPort, count));
    EXPECT_TRUE(eventually([&] {
      const auto now = pins.worker_counts();
      return now.at("transmitted") + now.at("dropped") - before.at("transmitted") - before.at("dropped") ==
             count;
    })) << pins.summary();
    return pins.worker("transmitted") - before.at("transmitted");
  }
};
INSTANTIATE_TEST_SUITE_P(Netns, TablesOnTheWire, kNativeAndGeneric, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, TablesOnTheWire, kSplit, config_name);

TEST_P(TablesOnTheWire, WhatIsKnownOutlivesAPolicyThatKeepsTheStage) {
  attach(limited(1, 40));
  EXPECT_EQ(sent_back(50), 40U);
  EXPECT_LE(sent_back(10), 2U) << "one a second comes back";
  EXPECT_EQ(attached_->apply(limited(1, 40, R"("description": "another policy, the same stage")")).status, 0);
  EXPECT_LE(sent_back(10), 4U) << "the bucket is still empty";
  EXPECT_EQ(attached_->apply(limited(1, 41)).status, 0);
  EXPECT_GE(sent_back(50), 41U) << "another stage, another bucket";
  expect_conserved(attached_->pins());
}

TEST_P(TablesOnTheWire, ConnectionsLiveAndStraysAreDropped) {
  attach(inspect_all(R"({"stage": "conntrack"})"));
  const Pins& pins = attached_->pins();
  const TransferOptions megabyte{.bytes = 1 << 20};
  EXPECT_EQ(tcp_transfer(*left_, *host_, "10.9.0.1", megabyte).problem, "") << "from outside";
  EXPECT_EQ(tcp_transfer(*host_, *left_, "10.9.0.2", megabyte).problem, "") << "the host's own";
  EXPECT_EQ(tcp_transfer(*left_, *host_, "fd09::1", megabyte).problem, "");
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 3}).received, 3);
  EXPECT_EQ(ping(*host_, "10.9.0.2", {.count = 3}).received, 3);
  EXPECT_EQ(pins.worker("dropped"), 0U) << pins.summary();

  PacketSpec stray = from_left(5000, 7100, "");
  stray.protocol = kTcp;
  std::uint64_t dropped = 0;
  const auto is_dropped = [&](std::uint8_t flags) {
    stray.tcp_flags = flags;
    Sender(left_port()).send(build(stray));
    ++dropped;
    return eventually([&] { return pins.worker("dropped") == dropped; });
  };
  EXPECT_TRUE(is_dropped(kSyn | kFin));
  EXPECT_TRUE(is_dropped(0));
  EXPECT_TRUE(is_dropped(kFin | kPsh));
  expect_conserved(pins);

  const Json tables = attached_->status().at("tables");
  ASSERT_EQ(tables.size(), 1U);
  const Json& table = tables.at(0);
  EXPECT_EQ(table.at("pipeline"), "p");
  EXPECT_EQ(table.at("stage"), 1);
  EXPECT_EQ(table.at("kind"), "conntrack");
  EXPECT_EQ(table.at("entries"), 1048576);
  EXPECT_EQ(table.at("packets").at("invalid"), 3);
  EXPECT_GT(table.at("packets").at("established"), 100);
  EXPECT_GE(table.at("occupied"), 5) << "three connections, two sides' echoes";
  EXPECT_EQ(table.at("inserted"), table.at("occupied"));
  EXPECT_LT(table.at("pressure_percent"), 1);
  const std::string text = product(*host_, {"status", host_port().ifname()}).out;
  EXPECT_NE(text.find("pipeline p, stage 1 (conntrack): "), std::string::npos) << text;
}

class LimitOverTime : public OnOneWire {};

TEST_F(LimitOverTime, HoldsItsRateToOneInAHundred) {
  constexpr int kPps = 3000, kBurst = 30, kSeconds = 10;
  attach(limited(kPps, kBurst));
  const Pins& pins = attached_->pins();
  const auto frames = numbered(1000, kPort, 2 * kPps * kSeconds);
  const auto start = std::chrono::steady_clock::now();
  Sender(left_port()).send_paced(frames, 2 * kPps);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  EXPECT_TRUE(eventually([&] {
    return pins.worker("transmitted") + pins.worker("dropped") == frames.size();
  })) << pins.summary();
  const double should = kBurst + kPps * seconds;
  EXPECT_NEAR(static_cast<double>(pins.worker("transmitted")), should, should / 100) << seconds << " s";
  expect_conserved(pins);
}

}  // namespace
}  // namespace xdpgpu::lab
