// SPDX-License-Identifier: MIT
//
// tests/netns/cache_test.cpp: a flow that user space has judged once is handled in the kernel from then
// on, in order, and only as long as its policy stands.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr const char* kPassCached = R"({"stage": "acl", "rules": [], "default": "pass", "cache": true})";
constexpr const char* kDropCached = R"({"stage": "acl", "rules": [], "default": "drop", "cache": true})";
constexpr const char* kBounceCached = R"({"stage": "l2fwd", "cache": true})";
std::string redirect_cached(const Interface& to) {
  return fmt::format(R"({{"stage": "l2fwd", "to": "{}", "cache": true}})", to.ifname());
}

struct Case {
  const char* name;
  std::string stages;
  std::uint8_t action;
  const char* counter;
};

class Cached : public OnTheWire {
 protected:
  std::vector<Case> cases() const {
    std::vector<Case> cases{{"drop", kDropCached, XG_DROP, "drop_flow"},
                            {"pass", kPassCached, XG_PASS, "pass_flow"}};
    if (kernel_transmits()) {
      cases.push_back({"tx", kBounceCached, XG_TX, "tx_flow"});
      cases.push_back({"redirect", redirect_cached(host_second()), XG_REDIRECT, "redirect_flow"});
    }
    return cases;
  }
  // Before Linux 6.3 no driver says whether it transmits for XDP, and a veth does not always: what
  // would be sent is not cached there (xdpgpu doctor).
  bool kernel_transmits() const { return generic() || kernel_at_least(6, 3); }
  // Frames of the probe flow that arrive where `action` sends them.
  std::size_t arrivals(std::uint8_t action, std::size_t expected) {
    Sniffer& sniffer = action == XG_TX ? *at_left_ : action == XG_REDIRECT ? *at_right_ : *at_host_;
    return sniffer.take(expected, action == XG_DROP ? 100ms : 3000ms, udp_to(7000)).size();
  }
  void listen() {
    at_left_.emplace(left_port());
    at_right_.emplace(right_port());
    at_host_.emplace(host_port());
  }
  std::optional<Sniffer> at_left_, at_right_, at_host_;
};
INSTANTIATE_TEST_SUITE_P(Netns, Cached, kConfigs, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, Cached, kSplit, config_name);

TEST_P(Cached, LaterPacketsStayInTheKernel) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    listen();
    attach_both(inspect_udp(7000, one.stages));
    const Pins& pins = attached_->pins();
    Sender sender(left_port());

    sender.send(build(from_left(1000, 7000, "seq 0")));
    ASSERT_TRUE(eventually([&] { return pins.flow(1000, 7000).has_value(); })) << "no verdict was cached";
    const auto entry = *pins.flow(1000, 7000);
    EXPECT_EQ(entry.action, one.action);
    EXPECT_EQ(entry.key.protocol, kUdp);
    EXPECT_EQ(entry.key.family, 4);
    EXPECT_EQ(XG_VERDICT_ACTION(entry.verdict), one.action);
    if (one.action == XG_REDIRECT) {
      EXPECT_EQ(entry.target, 1);
    }
    EXPECT_EQ(pins.worker("flows_cached"), 1U);
    EXPECT_EQ(arrivals(one.action, 1), one.action == XG_DROP ? 0U : 1U);

    // The first packet has left (completed) by now or soon; then nothing more comes to user space.
    std::this_thread::sleep_for(50ms);
    const auto user = pins.worker("received");
    const auto kernel = pins.kernel(one.counter);
    constexpr std::size_t kMore = 500;
    const auto frames = numbered(1000, 7000, kMore);
    sender.send_paced(frames, 20000);
    EXPECT_EQ(arrivals(one.action, kMore), one.action == XG_DROP ? 0U : kMore);
    EXPECT_EQ(pins.kernel(one.counter) - kernel, kMore);
    EXPECT_EQ(pins.worker("received"), user) << "user space still got packets of the cached flow";

    // A neighbour flow that differs in one port is not the flow.
    sender.send(build(from_left(1001, 7000, "seq 0")));
    EXPECT_TRUE(eventually([&] { return pins.worker("received") == user + 1; }));

    const Outcome list = product(*host_, {"flows", "list", host_port().ifname(), "-o", "json"});
    EXPECT_EQ(list.status, 0) << list.err;
    EXPECT_TRUE(Json::accept(list.out)) << list.out;
    EXPECT_NE(list.out.find("10.9.0.2"), std::string::npos) << list.out;
    EXPECT_NE(list.out.find(one.name), std::string::npos) << list.out;

    // Flushed, the flow goes to user space again.
    EXPECT_EQ(product(*host_, {"flows", "flush", host_port().ifname()}).status, 0);
    EXPECT_FALSE(pins.flow(1000, 7000).has_value());
    sender.send(build(from_left(1000, 7000, "seq 0")));
    EXPECT_TRUE(eventually([&] { return pins.worker("received") == user + 2; }));
    expect_conserved(pins);
    attached_.reset();
  }
}

// README's pipeline "web", whose one rule drops port 8080: what no rule drops is remembered, too.
TEST_P(Cached, WhatRunsThroughAllStagesStaysInTheKernel) {
  listen();
  attach_both(R"({"version": 1,
    "rules": [{"name": "web", "match": {"proto": "tcp", "dst_port": [80, "8000-8099"]}, "action": {"inspect": "web"}}],
    "pipelines": {"web": [{"stage": "acl", "rules": [{"match": {"dst_port": 8080}, "action": "drop"}],
                           "cache": "60s"}]}})");
  const Pins& pins = attached_->pins();
  Sender sender(left_port());
  const auto segment = [&](std::uint16_t to, const char* payload) {
    PacketSpec spec = from_left(1000, to, payload);
    spec.protocol = kTcp;
    return build(spec);
  };
  for (const std::uint16_t port : {std::uint16_t{80}, std::uint16_t{8080}}) {
    sender.send(segment(port, "first"));
    ASSERT_TRUE(eventually([&] { return pins.flow(1000, port).has_value(); }))
        << "no verdict was cached for port " << port;
    EXPECT_EQ(pins.flow(1000, port)->action, port == 80 ? XG_PASS : XG_DROP);
  }
  std::this_thread::sleep_for(50ms);
  const auto user = pins.worker("received");
  const auto passed = pins.kernel("pass_flow"), dropped = pins.kernel("drop_flow");
  constexpr std::size_t kMore = 100;
  for (std::size_t i = 0; i < kMore; ++i)
    for (const std::uint16_t port : {std::uint16_t{80}, std::uint16_t{8080}})
      sender.send(segment(port, "later"));
  EXPECT_TRUE(eventually([&] { return pins.kernel("drop_flow") - dropped == kMore; }));
  EXPECT_EQ(pins.kernel("pass_flow") - passed, kMore);
  EXPECT_EQ(pins.worker("received"), user) << "user space still got packets of the cached flows";
  const Outcome list = product(*host_, {"flows", "list", host_port().ifname()});
  EXPECT_EQ(list.status, 0) << list.err;
  EXPECT_NE(list.out.find("end of"), std::string::npos) << list.out;
  expect_conserved(pins);
}

// The stream keeps coming while its verdict moves from user space into the kernel.
TEST_P(Cached, AFlowKeepsItsOrderOnItsWayIntoTheKernel) {
  for (const Case& one : cases()) {
    if (one.action == XG_DROP) continue;
    SCOPED_TRACE(one.name);
    listen();
    attach_both(inspect_udp(7000, one.stages));
    const Pins& pins = attached_->pins();
    // A flow changes hands in a pause that is longer than the way through user space: a millisecond here.
    constexpr std::size_t kFlows = 20, kEach = 250;
    const auto frames = many_flows(7000, kFlows, kEach);
    Sender(left_port()).send_paced(frames, 20000);

    Sniffer& sniffer = one.action == XG_TX ? *at_left_ : one.action == XG_REDIRECT ? *at_right_ : *at_host_;
    const auto seen = sniffer.take(frames.size(), 3000ms, udp_to(7000));
    EXPECT_EQ(sniffer.lost(), 0U);
    EXPECT_EQ(seen.size(), frames.size());
    EXPECT_GT(pins.worker("received"), 0U);
    EXPECT_GT(pins.kernel(one.counter), 0U) << "nothing was handled in the kernel: the test shows nothing";
    for (std::size_t flow = 0; flow < kFlows; ++flow) {
      const auto numbers = sequences(seen, static_cast<std::uint16_t>(20000 + flow));
      EXPECT_TRUE(std::is_sorted(numbers.begin(), numbers.end())) << "flow " << flow << " was reordered";
    }
    attached_.reset();
  }
}

// The rewrite that a stage chose for a flow is what the kernel does to the flow's later packets.
TEST_P(Cached, ALoadBalancedFlowStaysWithItsBackend) {
  if (!kernel_transmits()) GTEST_SKIP() << "this kernel does not say that veth transmits for XDP";
  listen();
  attach_both(inspect_udp(7000, fmt::format(R"({{"stage": "load_balance", "cache": true, "backends": [
      {{"name": "one", "mac": "02:00:00:00:01:01", "to": "{0}"}},
      {{"name": "two", "mac": "02:00:00:00:01:02", "to": "{0}"}}]}})",
                                            host_second().ifname())));
  const Pins& pins = attached_->pins();
  constexpr std::size_t kFlows = 32, kEach = 10;
  const auto first = many_flows(7000, kFlows, 1);
  Sender sender(left_port());
  sender.send_paced(first, 10000);
  ASSERT_TRUE(eventually([&] { return pins.flows().size() == kFlows; })) << pins.flows().size();
  std::this_thread::sleep_for(50ms);
  const auto user = pins.worker("received");
  sender.send_paced(many_flows(7000, kFlows, kEach), 20000);
  const auto seen = at_right_->take(kFlows * (kEach + 1), 3000ms, udp_to(7000));
  EXPECT_EQ(seen.size(), kFlows * (kEach + 1));
  EXPECT_EQ(pins.worker("received"), user);
  EXPECT_EQ(pins.kernel("redirect_flow"), kFlows * kEach);
  std::map<std::uint16_t, std::set<Mac>> backends;
  std::set<Mac> used;
  for (const Captured& captured : seen) {
    const auto packet = parse(captured.frame);
    backends[packet->src_port].insert(packet->dst);
    used.insert(packet->dst);
    EXPECT_EQ(packet->src, host_port().mac()) << "the frame's former destination is its source";
    EXPECT_TRUE(packet->checksums_right);
  }
  for (const auto& [port, macs] : backends) EXPECT_EQ(macs.size(), 1U) << "flow from port " << port;
  EXPECT_EQ(used, (std::set<Mac>{{2, 0, 0, 0, 1, 1}, {2, 0, 0, 0, 1, 2}}));
}

TEST_P(Cached, VerdictsEndWithTheirTime) {
  attach(inspect_udp(7000, R"({"stage": "acl", "rules": [], "default": "drop", "cache": "300ms"})"));
  const Pins& pins = attached_->pins();
  Sender sender(left_port());
  sender.send(build(from_left(1000, 7000, "x")));
  ASSERT_TRUE(eventually([&] { return pins.worker("flows_cached") == 1; }));
  sender.send(build(from_left(1000, 7000, "x")));
  EXPECT_TRUE(eventually([&] { return pins.kernel("drop_flow") == 1; }));
  std::this_thread::sleep_for(350ms);
  sender.send(build(from_left(1000, 7000, "x")));
  EXPECT_TRUE(eventually([&] { return pins.worker("received") == 2; })) << "the verdict outlived its time";
}

TEST_P(Cached, VerdictsEndWithTheirPolicy) {
  attach(inspect_udp(7000, kDropCached));
  const Pins& pins = attached_->pins();
  Sender sender(left_port());
  UdpSocket on_host(*host_, "10.9.0.1", 7000);
  sender.send(build(from_left(1000, 7000, "dropped")));
  ASSERT_TRUE(eventually([&] { return pins.flow(1000, 7000).has_value(); }));
  const auto generation = XG_ACTIVE_GENERATION(pins.config().active);
  const Outcome applied = attached_->apply(inspect_udp(7000, kPassCached));
  ASSERT_EQ(applied.status, 0) << applied.out << applied.err;
  EXPECT_GT(XG_ACTIVE_GENERATION(pins.config().active), generation);
  EXPECT_FALSE(pins.flow(1000, 7000).has_value());
  sender.send(build(from_left(1000, 7000, "passed")));
  EXPECT_EQ(on_host.receive(2000ms), "passed");
}

// Verdicts belong to one direction of one flow; another family, protocol or VLAN is another flow.
TEST_P(Cached, FlowsAreToldApart) {
  attach(inspect_udp(7000, kDropCached));
  const Pins& pins = attached_->pins();
  Sender sender(left_port());
  PacketSpec spec = from_left(1000, 7000, "x");
  std::vector<PacketSpec> specs{spec, spec, spec, spec, spec};
  specs[1].vlans = {{10}};
  specs[2].vlans = {{11}};
  specs[3].vlans = {{10, 0x88a8}, {11}};
  specs[4].src_ip = "fd09::2", specs[4].dst_ip = "fd09::1";
  for (std::size_t i = 0; i < specs.size(); ++i) {
    sender.send(build(specs[i]));
    EXPECT_TRUE(eventually([&] { return pins.worker("received") == i + 1; })) << "packet " << i;
    EXPECT_TRUE(eventually([&] { return pins.flows().size() == i + 1; })) << "packet " << i;
  }
  for (const PacketSpec& one : specs) sender.send(build(one));
  EXPECT_TRUE(eventually([&] { return pins.kernel("drop_flow") == specs.size(); }));
  EXPECT_EQ(pins.worker("received"), specs.size());
}

}  // namespace
}  // namespace xdpgpu::lab
