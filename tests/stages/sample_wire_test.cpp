// SPDX-License-Identifier: MIT
//
// `sample` on the wire: what it chooses is told, counted, and goes its way.
#include <fmt/format.h>

#include <set>
#include <sstream>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

class SampleOnTheWire : public OnTheWire {
 protected:
  // The flows of the events that the process printed.
  std::multiset<std::string> told() const {
    std::multiset<std::string> flows;
    std::istringstream lines(attached_->process().out());
    for (std::string line; std::getline(lines, line);) {
      const Json json = Json::parse(line, nullptr, false);
      if (json.is_object() && json.value("event", "") == "sample.sampled") flows.insert(json.at("flow"));
    }
    return flows;
  }
  Json packets() const { return attached_->status().at("tables").at(0).at("packets"); }
};
INSTANTIATE_TEST_SUITE_P(Netns, SampleOnTheWire, kNativeAndGeneric, config_name);

TEST_P(SampleOnTheWire, FlowsAreToldAndGoOn) {
  attach(inspect_udp(7000, R"({"stage": "sample", "per": "flow", "one_in": 4}, {"stage": "l2fwd"})"));
  const Pins& pins = attached_->pins();
  EXPECT_FALSE(attached_->status().contains("flow_events"));
  constexpr std::size_t kFlows = 400, kEach = 3;
  Sniffer left(left_port());
  Sender(left_port()).send_paced(many_flows(7000, kFlows, kEach), 5000);
  EXPECT_EQ(left.take(kFlows * kEach, 5000ms, udp_to(7000)).size(), kFlows * kEach) << pins.summary();

  const std::size_t chosen = packets().at("sampled").get<std::size_t>() / kEach;
  EXPECT_GT(chosen, 50u) << "of 100 or so";
  EXPECT_LT(chosen, 150u);
  EXPECT_EQ(packets().at("sampled").get<std::size_t>() + packets().at("others").get<std::size_t>(),
            kFlows * kEach);
  EXPECT_TRUE(eventually([&] { return told().size() == chosen; })) << told().size() << " of " << chosen;
  const auto flows = told();
  EXPECT_EQ(std::set<std::string>(flows.begin(), flows.end()).size(), chosen) << "each once";
  for (const std::string& flow : flows)
    EXPECT_TRUE(flow.starts_with("10.9.0.2:") && flow.ends_with(" > 10.9.0.1:7000 udp")) << flow;
  const Json events = attached_->status().at("flow_events");
  EXPECT_EQ(events.at("told"), chosen);
  EXPECT_EQ(events.at("last").size(), std::min<std::size_t>(chosen, 64));
  EXPECT_TRUE(flows.contains(events.at("last").back().at("flow")));
  const std::string text = product(*host_, {"status", host_port().ifname()}).out;
  EXPECT_NE(text.find(fmt::format("events of flows: {}", chosen)), std::string::npos) << text;
  expect_conserved(pins);
}

// Shown to it beside their way.
TEST_P(SampleOnTheWire, WhatIsMirroredIsToldToo) {
  if (device_under_test() != "cpu") GTEST_SKIP() << "only the CPU takes mirrored packets through tables";
  attach(policy(R"("rules": [{"match": {"proto": "udp", "dst_port": 7000}, "action": {"mirror": "p"}}],
                   "pipelines": {"p": [{"stage": "sample", "per": "flow", "one_in": 1}]})"));
  constexpr std::size_t kFlows = 50;
  Sender(left_port()).send_paced(many_flows(7000, kFlows, 2), 2000);
  EXPECT_TRUE(eventually([&] { return told().size() == kFlows; })) << told().size();
  const auto flows = told();
  EXPECT_EQ(std::set<std::string>(flows.begin(), flows.end()).size(), kFlows);
  EXPECT_EQ(attached_->pins().worker("received"), 0u) << "none of them goes through user space";
}

// With the same key the same flows, by another process.
TEST_P(SampleOnTheWire, ARestartChoosesTheSameFlows) {
  const TemporaryFile key("000102030405060708090a0b0c0d0e0f\n");
  const std::string stage = fmt::format(
      R"({{"stage": "sample", "per": "flow", "one_in": 4, "key_file": "{}"}}, {{"stage": "l2fwd"}})",
      key.path());
  std::multiset<std::string> before;
  for (int life = 0; life < 2; life++) {
    attach(inspect_udp(7000, stage));
    Sniffer left(left_port());
    Sender(left_port()).send_paced(many_flows(7000, 200, 1), 5000);
    EXPECT_EQ(left.take(200, 5000ms, udp_to(7000)).size(), 200u);
    const std::size_t chosen = packets().at("sampled").get<std::size_t>();
    EXPECT_TRUE(eventually([&] { return told().size() == chosen; })) << told().size() << " of " << chosen;
    if (life == 0) before = told();
    EXPECT_GT(chosen, 10u);
    EXPECT_EQ(told(), before);
    EXPECT_EQ(attached_->detach().status, 0);
    attached_.reset();
  }
}

}  // namespace
}  // namespace xdpgpu::lab
