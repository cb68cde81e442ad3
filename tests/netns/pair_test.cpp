// SPDX-License-Identifier: MIT
//
// tests/netns/pair_test.cpp: the way from user space to the stack, a pair of interfaces beside the attached
// one: what somebody does to it, and what the kernel will not take there.
#include <bpf/libbpf.h>
#include <fmt/format.h>

#include <fstream>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr const char* kPass = R"({"stage": "acl", "rules": [], "default": "pass"})";

class WayToTheStack : public OnTheWire {
 protected:
  std::string name(char end) const { return fmt::format("xg{}{}", host_port().ifindex(), end); }
  Interface end_of_pair(char end) const { return {*host_, name(end)}; }
  bool said(const std::string& what) const {
    return attached_->process().err().find(what) != std::string::npos;
  }
  bool answers() const { return ping(*left_, "10.9.0.1", {.count = 1, .timeout = 200ms}).received == 1; }
  void remove_qdisc(char end) const {
    const unsigned ifindex = end_of_pair(end).ifindex();
    host_->run([&] {
      bpf_tc_hook hook{};
      hook.sz = sizeof(hook);
      hook.ifindex = static_cast<int>(ifindex);
      hook.attach_point = static_cast<bpf_tc_attach_point>(BPF_TC_INGRESS | BPF_TC_EGRESS);
      if (bpf_tc_hook_destroy(&hook) != 0) throw Error("there is no qdisc to be taken off");
    });
  }
  void expect_mended(const std::string& what) {
    EXPECT_TRUE(eventually([&] { return answers(); }, 5000ms)) << attached_->pins().summary();
    EXPECT_TRUE(eventually([&] { return said(what); })) << attached_->process().err();
    EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 20, .interval = 2ms}).received, 20U);
    EXPECT_EQ(attached_->status().at("ports").at(0).at("state"), "running");
    expect_conserved(attached_->pins());
  }
  void expect_clean_end() {
    const Outcome end = attached_->detach();
    EXPECT_EQ(end.status, 0) << end.out << end.err;
  }
};
INSTANTIATE_TEST_SUITE_P(Netns, WayToTheStack, kNativeAndGeneric, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, WayToTheStack, kSplit, config_name);

TEST_P(WayToTheStack, SaysWhoseItIs) {
  attach(inspect_all(kPass));
  const Outcome links = run_program(*host_, {"/bin/sh", "-c", "ip link show " + name('w')});
  if (links.status != 0) GTEST_SKIP() << "iproute2 is not here: " << links.err;
  EXPECT_NE(links.out.find("alias xdpgpu: passes packets to the stack of " + host_port().ifname()),
            std::string::npos)
      << links.out;
}

TEST_P(WayToTheStack, IsSetUpAgain) {
  attach(inspect_all(kPass));
  ASSERT_TRUE(eventually([&] { return answers(); }, 5000ms));
  for (const char end : {'w', 'k'}) {
    end_of_pair(end).down();
    expect_mended(fmt::format("its end {} was set down", name(end)));
  }
  expect_clean_end();
}

TEST_P(WayToTheStack, GetsItsProgramBack) {
  attach(inspect_all(kPass));
  ASSERT_TRUE(answers());
  remove_qdisc('k');
  expect_mended(fmt::format("the tc program of its end {} was taken off", name('k')));
  expect_clean_end();
}

// Its sockets go with it: the data plane is started again, with another pair.
TEST_P(WayToTheStack, IsMadeAnew) {
  attach(inspect_all(kPass, R"("on_failure": "drop")"));
  ASSERT_TRUE(answers());
  const unsigned before = end_of_pair('w').ifindex();
  end_of_pair('k').remove();
  expect_mended("by somebody: this data plane ends, and the next one has another pair");
  EXPECT_NE(end_of_pair('w').ifindex(), before);
  const Json life = attached_->status().at("data_plane");
  EXPECT_EQ(life.at("deaths"), 1U);
  EXPECT_NE(life.at("last_death").at("how").get<std::string>().find("its way to the stack was deleted"),
            std::string::npos)
      << life;
  expect_clean_end();
}

// In the midst of traffic: what did not come to the stack did not pass.
TEST_P(WayToTheStack, WhatWasLostWithItDidNotPass) {
  attach(inspect_udp(7000, kPass, R"("on_failure": "drop")"));
  const UdpSocket host(*host_, "10.9.0.1", 7000);
  const auto frames = many_flows(7000, 10, 30);
  std::uint64_t arrived = 0;
  Sender(left_port()).send_paced(frames, 5000);
  arrived += host.drain(300ms).size();
  end_of_pair('w').remove();
  Sender(left_port()).send_paced(frames, 5000);
  EXPECT_TRUE(eventually([&] { return said(" is back, "); }, 10'000ms));
  arrived += host.drain(300ms).size();
  Sender(left_port()).send_paced(frames, 5000);
  const Pins& pins = attached_->pins();
  EXPECT_TRUE(eventually(
      [&] {
        arrived += host.drain(100ms).size();
        return arrived > frames.size() + frames.size() / 2;
      },
      10'000ms))
      << pins.summary();
  expect_conserved(pins);
  arrived += host.drain(300ms).size();
  EXPECT_EQ(pins.worker("passed"), arrived) << pins.summary();
  expect_clean_end();
}

// A burst of more than the pair's other end takes at once.
TEST_P(WayToTheStack, WhatTheKernelRefusesDidNotPass) {
  attach(inspect_udp(7000, kPass));
  const Pins& pins = attached_->pins();
  const auto frames = many_flows(7000, 64, 400);
  EXPECT_TRUE(eventually(
      [&] {
        Sender(left_port()).send(frames);
        return pins.worker("error_refused") > 100;
      },
      10'000ms))
      << pins.summary();
  expect_conserved(pins);
  const auto came = [&] { return end_of_pair('k').counters().rx_packets; };
  EXPECT_TRUE(eventually([&] { return came() >= pins.worker("passed"); }));
  EXPECT_EQ(came(), pins.worker("passed")) << pins.summary();
  const auto refused = pins.worker("error_refused");
  const std::string text = product(*host_, {"status", host_port().ifname()}).out;
  EXPECT_NE(text.find("refused by the kernel behind user space"), std::string::npos) << text;
  const Json report = attached_->status();
  EXPECT_GE(report.at("packets").at("error").get<std::uint64_t>(), refused);
  EXPECT_EQ(report.at("packets").at("refused").get<std::uint64_t>(), refused);
  EXPECT_EQ(report.at("packets").at("in_flight"), 0U);
  expect_clean_end();
}

}  // namespace
}  // namespace xdpgpu::lab
