// SPDX-License-Identifier: MIT
//
// tests/netns/tuning_test.cpp: the settings of "io" on a real interface: busy polling, the size of the
// frame region, and frames that do not fit.
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr const char* kPass = R"({"stage": "acl", "rules": [], "default": "pass"})";
constexpr const char* kBounce = R"({"stage": "l2fwd"})";

class Tuning : public OnOneWire {
 protected:
  void SetUp() override {
    OnOneWire::SetUp();
    if (!host_) return;
    // What is mounted at /sys shows another namespace's interfaces.
    if (in_sysfs("true").status != 0) GTEST_SKIP() << "no sysfs of the namespace can be mounted";
  }
  // Runs a shell command where /sys is the host's.
  Outcome in_sysfs(const std::string& command) const {
    return run_program(*host_, {"/bin/sh", "-c",
                                fmt::format("exec unshare -m sh -c 'mount -t sysfs sysfs /sys && cd "
                                            "/sys/class/net/{} && {}'",
                                            host_port().ifname(), command)});
  }
  std::string settings() const { return in_sysfs("cat napi_defer_hard_irqs gro_flush_timeout").out; }
  std::string note() const { return run_file(*host_, host_port().ifname(), "busy-poll"); }
  std::string with_io(const std::string& io) const {
    return inspect_udp(7000, kBounce, fmt::format(R"("io": {{{}}})", io));
  }
  void expect_traffic() {
    Sniffer left(left_port());
    const auto frames = many_flows(7000, 16, 25);
    Sender(left_port()).send_paced(frames, 20000);
    EXPECT_EQ(left.take(frames.size(), 5000ms, udp_to(7000)).size(), frames.size());
    expect_conserved(attached_->pins());
  }
  void detach() {
    EXPECT_EQ(attached_->detach().status, 0);
    attached_.reset();
  }
  Json queue() const { return attached_->status().at("ports").at(0).at("queues").at(0); }
  // Frames of the whole process.
  Json frames() const { return attached_->status().at("frames").at("total"); }
};

TEST_F(Tuning, BusyPollingWorksAndIsUndoneAtDetach) {
  EXPECT_EQ(settings(), "0\n0\n");
  attach(with_io(R"("busy_poll": true, "busy_poll_us": 50, "busy_poll_budget": 32)"));
  EXPECT_EQ(settings(), "2\n200000\n");
  EXPECT_EQ(access(note().c_str(), F_OK), 0);
  EXPECT_EQ(queue().at("busy_poll"), true);
  EXPECT_NE(product(*host_, {"status", host_port().ifname()}).out.find("polling the driver"),
            std::string::npos);
  expect_traffic();
  detach();
  EXPECT_EQ(settings(), "0\n0\n");
  EXPECT_NE(access(note().c_str(), F_OK), 0);
}

TEST_F(Tuning, BusyPollingIsUndoneAfterTheDead) {
  attach(with_io(R"("busy_poll": true)"));
  const auto everybody = descendants(attached_->process().pid());
  attached_->process().signal(SIGKILL);
  for (const pid_t pid : everybody) kill(pid, SIGKILL);
  EXPECT_EQ(attached_->process().wait(3s), 137);
  EXPECT_EQ(settings(), "2\n200000\n");
  const Outcome outcome = product(*host_, {"detach", host_port().ifname()});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(settings(), "0\n0\n");
  EXPECT_NE(access(note().c_str(), F_OK), 0);
}

TEST_F(Tuning, AutoPollsWhereTheOperatorHasSetItUpAndChangesNothing) {
  attach(with_io(""));
  EXPECT_EQ(queue().at("busy_poll"), false);
  EXPECT_EQ(settings(), "0\n0\n");
  detach();
  ASSERT_EQ(in_sysfs("echo 5 > napi_defer_hard_irqs && echo 100000 > gro_flush_timeout").status, 0);
  for (const char* io : {R"("busy_poll": "auto")", R"("busy_poll": true)", R"("busy_poll": false)"}) {
    attach(with_io(io));
    EXPECT_EQ(queue().at("busy_poll"), std::string(io).find("false") == std::string::npos) << io;
    expect_traffic();
    detach();
    EXPECT_EQ(settings(), "5\n100000\n") << io;
  }
}

TEST_F(Tuning, BusyPollingNeedsNativeXdp) {
  config_.generic = true;
  try {
    attach(with_io(R"("busy_poll": true)"));
    ADD_FAILURE() << "it was attached";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("io.busy_poll"), std::string::npos) << error.what();
  }
  EXPECT_EQ(settings(), "0\n0\n");
  attach(with_io(R"("busy_poll": "auto")"));
  EXPECT_EQ(queue().at("busy_poll"), false);
}

// 1 Gbit/s for 10 ms: 1,250,000 bytes in the smallest frames, 84 on the wire. Bursts of them are what a line
// rate brings at worst, whatever the MTU.
TEST_F(Tuning, TheBurstFormulaMakesTheRegion) {
  attach(with_io(R"("burst": "10ms", "link_gbps": 1)"));
  EXPECT_EQ(queue().at("frames"), 14881);
  EXPECT_EQ(frames(), 14881);
  const Json burst = attached_->status().at("ports").at(0).at("burst");
  EXPECT_EQ(burst.at("frames_per_queue"), 14881);
  EXPECT_EQ(burst.at("wire_bytes"), 84);
  EXPECT_EQ(burst.at("bytes"), 14881 * 2048);
  const Outcome status = product(*host_, {"status", host_port().ifname()});
  EXPECT_NE(
      status.out.find("io.burst 10ms at 1 Gbit/s in frames of 64 bytes (84 on the wire): 14881 frames a "
                      "queue x 1 queue x 2 KiB = 29.1 MiB"),
      std::string::npos)
      << status.out;
  expect_traffic();
  detach();
  // The speed that veth says it has, 10 Gbit/s.
  attach(with_io(R"("burst": "1ms")"));
  EXPECT_EQ(frames(), 14881);
  detach();
  attach(with_io(R"("burst": "1us", "link_gbps": 1, "ring_size": 512)"));
  EXPECT_EQ(frames(), 512 + 1024);
}

TEST_F(Tuning, ABurstThatNoQueueHoldsIsRefused) {
  try {
    attach(with_io(R"("burst": "1s", "link_gbps": 800)"));
    ADD_FAILURE() << "it was attached";
  } catch (const Error& error) {
    for (const char* words : {"io.burst 1s", "800 Gbit/s", "shorten"})
      EXPECT_NE(std::string(error.what()).find(words), std::string::npos) << error.what();
  }
}

TEST_F(Tuning, AnMtuRaisedWhileAttachedIsSaidOnce) {
  attach(inspect_all(kPass));
  host_port().set_mtu(3000);
  const std::string name = host_port().ifname();
  const auto said = [&] { return attached_->process().err(); };
  EXPECT_TRUE(eventually([&] { return said().find("3000") != std::string::npos; })) << said();
  for (const std::string& words :
       {"MTU of " + name, std::string("1760"), "ip link set " + name + " mtu 1738"})
    EXPECT_NE(said().find(words), std::string::npos) << said();
  std::this_thread::sleep_for(1500ms);
  const std::string all = said();
  EXPECT_EQ(std::count(all.begin(), all.end(), '\n'), 1) << all;
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 2}).received, 2U);
}

}  // namespace
}  // namespace xdpgpu::lab
