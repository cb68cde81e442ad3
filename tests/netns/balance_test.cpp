// SPDX-License-Identifier: MIT
//
// tests/netns/balance_test.cpp: load balancing on the wire while backends come, drain and go.
#include <fmt/format.h>

#include <map>
#include <set>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t kService = 7000;
constexpr std::size_t kFlows = 48;
const Mac kOne{2, 0, 0, 0, 1, 1}, kTwo{2, 0, 0, 0, 1, 2}, kThree{2, 0, 0, 0, 1, 3};

class Balance : public OnOneWire {
 protected:
  // Backends as {"name": "one", "mac": ...02:00:00:00:01:01, more} by number, in this order.
  std::string balance(const std::vector<std::pair<int, std::string>>& backends,
                      const std::string& more) const {
    constexpr std::array kNames{"", "one", "two", "three"};
    std::string all;
    for (const auto& [number, settings] : backends)
      all += fmt::format(R"({}{{"name": "{}", "mac": "02:00:00:00:01:0{}", "to": "{}"{}}})",
                         all.empty() ? "" : ", ", kNames.at(static_cast<std::size_t>(number)), number,
                         host_second().ifname(), settings);
    return inspect_udp(
        kService,
        fmt::format(R"({{"stage": "load_balance", "algorithm": "maglev", "backends": [{}]{}}})", all, more));
  }

  // Where kFlows flows go, by source port, whose packets are sent once.
  std::map<std::uint16_t, Mac> backends_of(std::uint16_t first_port = 20000) {
    std::vector<Frame> frames;
    for (std::size_t flow = 0; flow < kFlows; ++flow)
      frames.push_back(build(from_left(static_cast<std::uint16_t>(first_port + flow), kService, "x")));
    Sniffer at_right(right_port());
    Sender(left_port()).send_paced(frames, 10000);
    std::map<std::uint16_t, Mac> backends;
    for (const Captured& captured : at_right.take(kFlows, 3000ms, [](const Captured& one) {
           const auto packet = parse(one.frame);
           return packet && packet->protocol == kUdp && packet->dst_port == kService;
         })) {
      const auto packet = parse(captured.frame);
      backends[packet->src_port] = packet->dst;
    }
    EXPECT_EQ(backends.size(), kFlows);
    return backends;
  }
  static std::set<Mac> used(const std::map<std::uint16_t, Mac>& backends) {
    std::set<Mac> macs;
    for (const auto& [port, mac] : backends) macs.insert(mac);
    return macs;
  }
};

TEST_F(Balance, AffinityOutlivesAPolicyWithOtherBackends) {
  const std::string affinity = R"(, "affinity": {"idle": "60s"})";
  attach_both(balance({{1, ""}, {2, ""}}, affinity));
  const auto before = backends_of();
  EXPECT_EQ(used(before), (std::set<Mac>{kOne, kTwo}));
  ASSERT_EQ(attached_->apply(balance({{3, R"(, "weight": 9)"}, {2, R"(, "drain": true)"}, {1, ""}}, affinity))
                .status,
            0);
  EXPECT_EQ(backends_of(), before) << "flows stay, those of the backend that drains as well";
  const auto others = used(backends_of(30000));
  EXPECT_FALSE(others.contains(kTwo)) << "it drains";
  EXPECT_TRUE(others.contains(kThree));
  ASSERT_EQ(attached_->apply(balance({{3, ""}, {1, ""}}, affinity)).status, 0);
  const auto after = backends_of();
  for (const auto& [port, mac] : before) {
    if (mac == kOne) {
      EXPECT_EQ(after.at(port), kOne) << port;
    } else {
      EXPECT_NE(after.at(port), kTwo) << port << ": its backend is gone";
    }
  }
  expect_conserved(attached_->pins());
}

TEST_F(Balance, TheKernelSendsAFlowWhereTheTableDoesAndLetsItComeUpInTime) {
  if (!kernel_at_least(6, 3)) GTEST_SKIP() << "this kernel does not say that veth transmits for XDP";
  const std::string affinity = R"(, "affinity": {"idle": "2s"}, "cache": "1s")";
  attach_both(balance({{1, ""}, {2, ""}}, affinity));
  const Pins& pins = attached_->pins();
  const auto before = backends_of();
  ASSERT_TRUE(eventually([&] { return pins.flows().size() == kFlows; })) << pins.flows().size();
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(backends_of(), before);
  EXPECT_GT(pins.kernel("redirect_flow"), kFlows / 2) << "the kernel has sent nothing by itself";
  // The kernel deals with the flows for longer than they would be remembered without being seen.
  const auto received = pins.worker("received");
  for (int i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(400ms);
    EXPECT_EQ(backends_of(), before) << i;
  }
  EXPECT_GE(pins.worker("received"), received + kFlows) << "each flow has come up";
  ASSERT_EQ(attached_->apply(balance({{3, R"(, "weight": 9)"}, {1, ""}, {2, ""}}, affinity)).status, 0);
  EXPECT_EQ(backends_of(), before) << "and is known still";
  expect_conserved(pins);
}

}  // namespace
}  // namespace xdpgpu::lab
