// SPDX-License-Identifier: MIT
//
// tests/netns/mirror_test.cpp: packets that rules mirror go on at once; the kernel drops the rest of a flow
// by what the compute device made of its first packet, and no user-space program touches one.
#include <fmt/format.h>

#include <atomic>
#include <thread>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr const char* kDropCached = R"({"stage": "acl", "rules": [], "default": "drop", "cache": true})";
constexpr const char* kPassCached = R"({"stage": "acl", "rules": [], "default": "pass", "cache": true})";

// UDP to port 7000 is mirrored to these stages, and passes.
std::string mirror_udp(const std::string& stages, const std::string& members = "") {
  return policy(fmt::format(R"("rules": [
      {{"name": "watch", "match": {{"proto": "udp", "dst_port": 7000}}, "action": {{"mirror": "scrub"}}}}],
      "pipelines": {{"scrub": [{}]}}{})",
                            stages, members));
}

class Mirrored : public OnTheWire {
 protected:
  void SetUp() override {
    if (device_under_test().starts_with("vulkan")) GTEST_SKIP() << "Vulkan cannot watch mirrored packets";
    OnTheWire::SetUp();
  }
  void TearDown() override {
    if (host_) OnTheWire::TearDown();
  }
  Json mirror() const { return attached_->status().at("mirror"); }
  std::uint64_t mirror(const char* what) const { return mirror().at(what).get<std::uint64_t>(); }
  bool all_taken() const { return mirror("taken") == mirror("mirrored"); }
};
INSTANTIATE_TEST_SUITE_P(Netns, Mirrored, kConfigs, config_name);

TEST_P(Mirrored, TheKernelDropsTheRestOfEachFlow) {
  attach(mirror_udp(kDropCached));
  const Pins& pins = attached_->pins();
  Sniffer at_host(host_port());
  Sender sender(left_port());
  constexpr std::size_t kFlows = 100, kEach = 50;
  sender.send_paced(many_flows(7000, kFlows, 1), 10000);
  ASSERT_TRUE(eventually([&] { return pins.flows().size() == kFlows; })) << mirror();
  EXPECT_EQ(at_host.take(kFlows, 3000ms, udp_to(7000)).size(), kFlows) << "what was mirrored went on";
  EXPECT_EQ(mirror("mirrored"), kFlows);
  EXPECT_EQ(mirror("overruns"), 0U);
  EXPECT_EQ(mirror("taken"), kFlows);
  EXPECT_EQ(mirror("published"), kFlows);
  EXPECT_EQ(mirror("undecided"), 0U);
  EXPECT_TRUE(mirror().at("device").get<std::string>().starts_with(device_under_test())) << mirror();
  for (const xg_flow_verdict& entry : pins.flows()) {
    EXPECT_EQ(entry.action, XG_DROP);
    EXPECT_EQ(entry.key.mirror, 1);
  }

  sender.send_paced(many_flows(7000, kFlows, kEach), 20000);
  EXPECT_TRUE(eventually([&] { return pins.kernel("drop_flow") == kFlows * kEach; })) << pins.summary();
  EXPECT_TRUE(at_host.drain(100ms, 1000ms, udp_to(7000)).empty());
  EXPECT_EQ(mirror("mirrored"), kFlows);
  EXPECT_EQ(pins.kernel("inspected"), 0U);
  EXPECT_EQ(pins.worker("received"), 0U);
  expect_conserved(pins);

  const Outcome list = product(*host_, {"flows", "list", host_port().ifname(), "-o", "json"});
  EXPECT_EQ(list.status, 0) << list.err;
  const Json flow = Json::parse(list.out).at("flows").at(0);
  EXPECT_EQ(flow.at("mirror"), "scrub");
  EXPECT_EQ(flow.at("action"), "drop");
  EXPECT_LT(flow.at("queue").get<unsigned>(), queues());
  EXPECT_EQ(flow.at("packets"), kEach);
  EXPECT_EQ(flow.at("decided_by"), "stage 1 (acl) otherwise");
  const Outcome status = product(*host_, {"status", host_port().ifname()});
  EXPECT_NE(status.out.find("mirror: flow verdicts published"), std::string::npos) << status.out;
}

// Packets come as fast as they can, in a ring that is too small: every one is accounted for all the same.
TEST_P(Mirrored, AFloodIsAccountedForAndHoldsNobodyUp) {
  attach(mirror_udp(kDropCached, R"(, "io": {"mirror_slots": 64})"));
  const Pins& pins = attached_->pins();
  constexpr std::size_t kFlows = 2000, kEach = 20;
  const auto frames = many_flows(7000, kFlows, kEach);
  Sender(left_port()).send_paced(frames, 1'000'000);
  EXPECT_TRUE(eventually([&] { return all_taken(); })) << mirror();
  const auto seen = pins.kernel("pass_default") + pins.kernel("drop_flow");
  EXPECT_GE(seen, frames.size());
  // What passed was shown or overran; a stray packet of the host's own is neither.
  EXPECT_EQ(mirror("mirrored") + mirror("overruns") + pins.kernel("drop_flow"), frames.size()) << mirror();
  EXPECT_GT(pins.kernel("drop_flow"), 0U);
  EXPECT_EQ(pins.kernel("inspected"), 0U);
  EXPECT_EQ(mirror("undecided") + mirror("unknown_generation"), 0U) << mirror();
  expect_conserved(pins);
}

TEST_P(Mirrored, PoliciesComeAndGo) {
  attach(inspect_udp(8000, kPassCached));
  const Pins& pins = attached_->pins();
  EXPECT_FALSE(attached_->status().contains("mirror"));
  Sender sender(left_port());
  UdpSocket on_host(*host_, "10.9.0.1", 7000);

  ASSERT_EQ(attached_->apply(mirror_udp(kDropCached)).status, 0);
  sender.send(build(from_left(1000, 7000, "first")));
  EXPECT_EQ(on_host.receive(2000ms), "first");
  ASSERT_TRUE(eventually([&] { return pins.flow(1000, 7000).has_value(); })) << mirror();
  sender.send(build(from_left(1000, 7000, "dropped")));
  EXPECT_TRUE(eventually([&] { return pins.kernel("drop_flow") == 1; }));

  // Under another policy the flow is looked at anew, and then no more, as its pipeline has seen enough.
  ASSERT_EQ(attached_->apply(mirror_udp(kPassCached)).status, 0);
  sender.send(build(from_left(1000, 7000, "again")));
  EXPECT_EQ(on_host.receive(2000ms), "again");
  ASSERT_TRUE(eventually([&] { return pins.flow(1000, 7000).has_value(); })) << mirror();
  EXPECT_EQ(pins.flow(1000, 7000)->action, XG_PASS);
  EXPECT_EQ(mirror("mirrored"), 2U);
  sender.send(build(from_left(1000, 7000, "more")));
  EXPECT_EQ(on_host.receive(2000ms), "more");
  EXPECT_EQ(mirror("mirrored"), 2U);

  ASSERT_EQ(attached_->apply(inspect_udp(8000, kPassCached)).status, 0);
  sender.send(build(from_left(1000, 7000, "unseen")));
  EXPECT_EQ(on_host.receive(2000ms), "unseen");
  EXPECT_EQ(mirror("mirrored"), 2U);
  EXPECT_EQ(mirror("unknown_generation"), 0U);
}

TEST_P(Mirrored, SwapsAndTheEndUnderTraffic) {
  attach(mirror_udp(kDropCached, R"(, "io": {"mirror_bytes": 64})"));
  const Pins& pins = attached_->pins();
  std::atomic<bool> stop{false};
  std::thread load([&, sender = Sender(left_port()), frames = many_flows(7000, 500, 2)]() mutable {
    while (!stop) sender.send_paced(frames, 50000);
  });
  for (int i = 0; i < 6; ++i) {
    EXPECT_EQ(attached_->apply(mirror_udp(i % 2 ? kDropCached : kPassCached)).status, 0);
    std::this_thread::sleep_for(100ms);
  }
  const Json before = mirror();
  EXPECT_EQ(before.at("unknown_generation"), 0U)
      << "a policy went before the last packet of it was looked at";
  EXPECT_GT(before.at("published"), 0U);
  const Outcome outcome = attached_->detach();
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  stop = true;
  load.join();
  const std::string out = attached_->process().out();
  const std::string::size_type end = out.find_last_not_of('\n');
  const Json account = Json::parse(out.substr(out.rfind('\n', end) + 1), nullptr, false);
  ASSERT_TRUE(account.is_object()) << out;
  EXPECT_TRUE(account.value("packets_balanced", false)) << account;
  EXPECT_EQ(account.at("mirror").at("taken"), account.at("mirror").at("mirrored"));
  EXPECT_GT(pins.kernel("drop_flow"), 0U);
}

}  // namespace
}  // namespace xdpgpu::lab
