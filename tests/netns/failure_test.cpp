// SPDX-License-Identifier: MIT
//
// tests/netns/failure_test.cpp: the compute device breaks under traffic (XDPGPU_FAULT): the CPU goes on in
// its place, or, where the policy wants none, the kernel by on_failure.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

// Longer than the CPU device is waited for where it hangs.
constexpr auto kTakenOver = 10'000ms;
constexpr const char* kNoRetry = R"("compute": {"retry": false})";

class Fault {
 public:
  explicit Fault(const std::string& what) { setenv("XDPGPU_FAULT", what.c_str(), 1); }
  ~Fault() { unsetenv("XDPGPU_FAULT"); }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
};

struct Case {
  const char* fault;
  Config config;
};
void PrintTo(const Case& one, std::ostream* out) { *out << one.fault << " " << one.config.mode; }

class DeviceFails : public OnOneWire, public testing::WithParamInterface<Case> {
 protected:
  DeviceFails() { config_ = GetParam().config; }

  std::string degraded() const { return attached_->status().at("devices").at(0).value("degraded", ""); }
};
INSTANTIATE_TEST_SUITE_P(Netns, DeviceFails,
                         testing::Values(Case{"fail", {false, 2, "inline"}},
                                         Case{"refuse", {false, 1, "split"}},
                                         Case{"hang", {true, 1, "inline"}},
                                         Case{"hang", {false, 2, "split"}}),
                         [](const auto& one) {
                           return fmt::format("{}_{}", one.param.fault, config_name({one.param.config, 0}));
                         });

TEST_P(DeviceFails, PacketsGoOn) {
  const Fault fault(fmt::format("{}:20", GetParam().fault));
  const std::string bounce = inspect_udp(7000, R"({"stage": "l2fwd", "cache": true})", kNoRetry);
  attach(bounce);
  const Pins& pins = attached_->pins();
  Sniffer left(left_port());
  // Not more than there is room for while nothing is decided.
  const auto frames = many_flows(7000, 1000, 1);
  Sender(left_port()).send_paced(frames, 5000);
  const auto back = left.take(frames.size(), kTakenOver, udp_to(7000));
  EXPECT_EQ(back.size(), frames.size()) << pins.summary();
  std::uint64_t silence = 0;
  for (std::size_t i = 1; i < back.size(); ++i)
    silence = std::max(silence, back[i].time_ns - std::min(back[i].time_ns, back[i - 1].time_ns));
  fmt::print("{}: 5,000 packets/s came back, after at most {:.1f} ms of silence\n", GetParam().fault,
             static_cast<double>(silence) * 1e-6);
  EXPECT_NE(degraded().find("cpu decides in its place"), std::string::npos);
  const Outcome status = product(*host_, {"status", host_port().ifname()});
  EXPECT_EQ(status.status, 3) << "degraded";
  EXPECT_NE(status.out.find("degraded: device "), std::string::npos) << status.out;

  // The policy is in force again, under a new generation; and another one can be.
  EXPECT_TRUE(eventually([&] { return attached_->status().at("policy").at("generation") == 2; }));
  EXPECT_EQ(attached_->apply(bounce).status, 0);
  Sender(left_port()).send_paced(frames, 5000);
  EXPECT_EQ(left.take(frames.size(), 3000ms, udp_to(7000)).size(), frames.size()) << pins.summary();
  EXPECT_EQ(pins.worker("error_device"), 0U) << pins.summary();
  expect_conserved(pins);
  const Outcome end = attached_->detach();
  EXPECT_EQ(end.status, 0);
  EXPECT_NE(end.err.find("what stages remembered is lost"), std::string::npos) << end.err;
}

// Under a strict stage, which is told of the connection's beginning by a device that is no more.
TEST_P(DeviceFails, OpenConnectionsGoOn) {
  // Behind the handshake's batches, and before the transfer's last one, however many packets are in each.
  const Fault fault(fmt::format("{}:20", GetParam().fault));
  attach(inspect_all(R"({"stage": "conntrack", "on_invalid": "drop"})", kNoRetry));
  const auto result = tcp_transfer(*host_, *left_, "10.9.0.2", {.bytes = 64 << 20});
  EXPECT_EQ(result.problem, "");
  EXPECT_NE(degraded(), "") << "too short to tell";
  EXPECT_TRUE(tcp_connects(*left_, *host_, "10.9.0.1", 7500));
  expect_conserved(attached_->pins());
}

// In the midst of a transfer, whose connection neither of the two then knows the beginning of.
TEST_P(DeviceFails, TheDeviceIsTakenBackWhenItWorksAgain) {
  const Fault fault(fmt::format("{}:20", GetParam().fault));
  attach(inspect_all(R"({"stage": "conntrack", "on_invalid": "drop"})", R"("compute": {"retry": "100ms"})"));
  const auto said = [&](const char* what) {
    return attached_->process().err().find(what) != std::string::npos;
  };
  const auto until_it_is_back = [&] {
    EXPECT_TRUE(eventually([&] { return said("decides again, after "); }, kTakenOver));
  };
  const auto result =
      tcp_transfer(*host_, *left_, "10.9.0.2", {.bytes = 16 << 20, .half_way = until_it_is_back});
  EXPECT_EQ(result.problem, "");
  EXPECT_TRUE(said("cpu decides in its place"));
  EXPECT_EQ(degraded(), "");
  EXPECT_TRUE(tcp_connects(*left_, *host_, "10.9.0.1", 7500));
  const Pins& pins = attached_->pins();
  EXPECT_EQ(pins.worker("error_device"), 0U) << pins.summary();
  expect_conserved(pins);
}

class DeviceFailsOnce : public OnOneWire {};

TEST_F(DeviceFailsOnce, GoesByOnFailureWhereNoStandbyIsWanted) {
  const Fault fault("fail:3");
  attach(
      inspect_udp(7000, R"({"stage": "l2fwd"})",
                  R"("on_failure": "drop", "io": {"heartbeat": "100ms"}, "compute": {"standby": "none"})"));
  const auto& pins = attached_->pins();
  const auto frames = many_flows(7000, 100, 1);
  EXPECT_TRUE(eventually([&] {
    Sender(left_port()).send_paced(frames, 5000);
    return pins.kernel("drop_failure") > 0;
  })) << pins.summary();
  EXPECT_GT(pins.worker("error_device"), 0U) << pins.summary();
  expect_conserved(pins);
}

// Its worker lives and beats; the device's own beat goes stale.
TEST_F(DeviceFailsOnce, GoesByOnFailureWhileTheDeviceIsSilentAndBackWhenItIsReplaced) {
  const Fault fault("hang:1");
  attach(inspect_udp(7000, R"({"stage": "l2fwd"})",
                     R"("on_failure": "drop", "on_overload": "pass", "io": {"heartbeat": "300ms"},
                        "compute": {"retry": false})"));
  const auto& pins = attached_->pins();
  const auto frames = many_flows(7000, 1, 1);
  Sniffer left(left_port());
  const auto first = std::chrono::steady_clock::now();
  const auto goes = [&](auto&& until) {
    while (!until() && std::chrono::steady_clock::now() - first < kTakenOver)
      Sender(left_port()).send_paced(frames, 1000);
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - first).count();
  };
  const double on_failure = goes([&] { return pins.kernel("drop_failure") > 0; });
  const auto kept = pins.kernel("inspected");
  const double back = goes([&] { return pins.kernel("inspected") > kept; });
  fmt::print("a device that hangs: by on_failure after {:.0f} ms (heartbeat 300 ms), back after {:.0f} ms\n",
             on_failure, back);
  EXPECT_GE(on_failure, 300);
  EXPECT_LT(on_failure, 900) << "no sooner than it is replaced";
  EXPECT_LT(back, 10'000) << pins.summary();
  std::this_thread::sleep_for(50ms);
  const auto inspected = pins.kernel("inspected");
  EXPECT_EQ(left.take(inspected, kTakenOver, udp_to(7000)).size(), inspected)
      << "what it had the standby decides";
  EXPECT_EQ(pins.kernel("pass_overload"), 0U) << pins.summary();
  expect_conserved(pins);
}

TEST_F(DeviceFailsOnce, AFaultThatIsNoneIsRefused) {
  const Fault fault("melt:3");
  try {
    attach(inspect_udp(7000, R"({"stage": "l2fwd"})"));
    FAIL() << "it attached";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("\"melt:3\" is no fault"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace xdpgpu::lab
