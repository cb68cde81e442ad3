// SPDX-License-Identifier: MIT
//
// tests/netns/inner_test.cpp: pipelines that go by what is inside of tunnels, on the kernel's own VXLAN: one
// flow of a tunnel is dropped and the other passes, though the NIC and the kernel's flow table see but one.
#include <fmt/format.h>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

using namespace std::chrono_literals;

constexpr const char *kLeft = "10.77.0.2", *kHost = "10.77.0.1";

class Inner : public OnTheWire {
 protected:
  void SetUp() override {
    OnTheWire::SetUp();
    if (IsSkipped()) return;
    // One source port for all that is inside.
    const auto tunnel = [](const Namespace& ns, const Interface& port, const char* remote, const char* local,
                           const char* address) {
      return run_program(
          ns, {"/bin/sh", "-c",
               fmt::format("ip link add vx0 type vxlan id 7 remote {} local {} dev {} dstport 4789 "
                           "srcport 50000 50001 && ip address add {}/24 dev vx0 && ip link set vx0 up",
                           remote, local, port.ifname(), address)});
    };
    const Outcome left = tunnel(*left_, left_port(), "10.9.0.1", "10.9.0.2", kLeft);
    if (left.status != 0) GTEST_SKIP() << "this kernel lacks vxlan: " << left.err;
    const Outcome host = tunnel(*host_, host_port(), "10.9.0.2", "10.9.0.1", kHost);
    ASSERT_EQ(host.status, 0) << host.err;
  }
  void TearDown() override {
    attached_.reset();
    if (host_) run_program(*host_, {"/bin/sh", "-c", "ip link del vx0"});
    OnTheWire::TearDown();
  }

  // VXLAN goes to a pipeline.
  static std::string inside(const std::string& stages, const std::string& inner = "true") {
    return policy(fmt::format(
        R"("rules": [{{"name": "vxlan", "match": {{"proto": "udp", "dst_port": 4789}}, "action": {{"inspect": "p"}}}}],
           "pipelines": {{"p": {{"inner": {}, "stages": [{}]}}}})",
        inner, stages));
  }
};
INSTANTIATE_TEST_SUITE_P(Netns, Inner, kNativeAndGeneric, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, Inner, kSplit, config_name);

constexpr const char* kDropsOnePort =
    R"({"stage": "acl", "default": "pass", "rules": [
         {"name": "no", "match": {"proto": "udp", "dst_port": 7001}, "action": "drop"}]})";

TEST_P(Inner, OneFlowOfATunnelIsDroppedAndTheOtherPasses) {
  attach(inside(kDropsOnePort));
  const UdpSocket yes(*host_, kHost, 7000), no(*host_, kHost, 7001), client(*left_, kLeft, 0);
  for (int i = 0; i < 20; ++i) {
    const std::string question = fmt::format("question {}", i);
    client.send_to(kHost, 7001, "unwanted");
    client.send_to(kHost, 7000, question);
    ASSERT_EQ(yes.receive(2000ms), question);
    yes.send_to(kLeft, client.port(), "answer");
    ASSERT_EQ(client.receive(2000ms), "answer");
  }
  EXPECT_TRUE(no.drain(100ms).empty());
  const Pins& pins = attached_->pins();
  EXPECT_EQ(pins.worker("dropped"), 20U);
  EXPECT_TRUE(pins.flows().empty()) << "no verdict is the tunnel's";
  expect_conserved(pins);
  const Outcome end = attached_->detach();
  EXPECT_EQ(end.status, 0) << end.out << end.err;
  attached_.reset();
}

TEST_P(Inner, WithoutItTheTunnelIsOneFlow) {
  attach(inside(kDropsOnePort, "false"));
  const UdpSocket no(*host_, kHost, 7001), client(*left_, kLeft, 0);
  client.send_to(kHost, 7001, "unseen");
  EXPECT_EQ(no.receive(2000ms), "unseen");
}

// What the host asks through its tunnel is shown to the stage with the headers inside.
TEST_P(Inner, AnswersToWhatTheHostAskedPass) {
  attach(inside(R"({"stage": "conntrack", "on_new": "drop", "on_untracked": "pass"})"));
  const UdpSocket server(*left_, kLeft, 7000), client(*host_, kHost, 7100), stranger(*left_, kLeft, 7002);
  for (int i = 0; i < 5; ++i) {
    stranger.send_to(kHost, 7100, "nobody asked");
    client.send_to(kLeft, 7000, "question");
    ASSERT_EQ(server.receive(2000ms), "question");
    server.send_to(kHost, 7100, "answer");
    ASSERT_EQ(client.receive(2000ms), "answer");
  }
  EXPECT_TRUE(client.drain(100ms).empty()) << "the stranger's";
  EXPECT_EQ(attached_->pins().worker("dropped"), 5U);
}

}  // namespace
}  // namespace xdpgpu::lab
