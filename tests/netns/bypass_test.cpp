// SPDX-License-Identifier: MIT
//
// tests/netns/bypass_test.cpp: a bypass that ends by itself, by the clock of the process that has attached,
// whatever becomes of its data plane.
#include <fmt/format.h>
#include <signal.h>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

class TimedBypass : public OnOneWire {
 protected:
  void SetUp() override {
    OnOneWire::SetUp();
    if (!IsSkipped()) attach(policy(R"("default": "drop", "on_failure": "drop")"));
  }
  const std::string& name() const { return host_port().ifname(); }
  Outcome bypass(std::vector<std::string> more) {
    more.insert(more.begin(), "bypass");
    more.insert(more.begin() + 2, name());
    return product(*host_, more);
  }
  bool passes() { return ping(*left_, "10.9.0.1", {.count = 1, .timeout = 200ms}).received == 1; }
  // However it is; a dead one's exit status is 6.
  Json status() const {
    return Json::parse(product(*host_, {"status", name(), "-o", "json"}).out, nullptr, false);
  }
  Json end() const { return status().value("bypass", Json()); }
  std::string state() const { return status().at("ports").at(0).at("state"); }
  // How long it passes from now on.
  std::chrono::milliseconds lasts(std::chrono::milliseconds patience) {
    const auto begin = Clock::now();
    EXPECT_TRUE(eventually([&] { return !passes(); }, patience));
    return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
  }
};

TEST_F(TimedBypass, EndsAtItsTime) {
  EXPECT_FALSE(passes());
  EXPECT_TRUE(end().is_null());
  const Outcome on = bypass({"on", "--for", "2s"});
  ASSERT_EQ(on.status, 0) << on.err;
  EXPECT_NE(on.out.find("UTC (2 s from now)"), std::string::npos) << on.out;
  const Json until = end();
  EXPECT_GE(until.value("ends_in_s", 0), 1) << status();
  EXPECT_LE(until.value("ends_in_s", 0), 2);
  EXPECT_NE(until.value("ends_at", "").find(" UTC"), std::string::npos) << until;
  const Outcome text = product(*host_, {"status", name()});
  EXPECT_EQ(text.status, 5);
  EXPECT_NE(text.out.find("bypass is on, and ends by itself in "), std::string::npos) << text.out;
  EXPECT_TRUE(passes());
  const auto lasted = lasts(5s);
  EXPECT_GT(lasted, 500ms);
  EXPECT_LT(lasted, 4s);
  EXPECT_EQ(state(), "running");
  EXPECT_TRUE(end().is_null());
  EXPECT_TRUE(eventually([&] {
    return attached_->process().err().find("the time of the bypass is over: the policy decides again on " +
                                           name()) != std::string::npos;
  }));
  EXPECT_EQ(product(*host_, {"status", name()}).status, 0);
}

TEST_F(TimedBypass, AgainChangesTheTimeOrTakesItAway) {
  ASSERT_EQ(bypass({"on", "--for", "1h"}).status, 0);
  EXPECT_GT(end().value("ends_in_s", 0), 3500);
  ASSERT_EQ(bypass({"on", "--for", "1s", "-o", "json"}).status, 0);
  EXPECT_LT(lasts(5s), 4s);

  ASSERT_EQ(bypass({"on", "--for", "1s"}).status, 0);
  ASSERT_EQ(bypass({"on"}).status, 0);
  EXPECT_TRUE(end().is_null());
  std::this_thread::sleep_for(2500ms);
  EXPECT_TRUE(passes()) << "without a time it stays";

  ASSERT_EQ(bypass({"on", "--for", "1s"}).status, 0);
  ASSERT_EQ(bypass({"off"}).status, 0);
  EXPECT_FALSE(passes()) << "off is off at once";
  ASSERT_EQ(bypass({"on"}).status, 0);
  std::this_thread::sleep_for(2500ms);
  EXPECT_TRUE(passes()) << "and the time has gone with it";
}

TEST_F(TimedBypass, WhatIsNoTimeChangesNothing) {
  for (const char* time : {"0s", "x", "", "169h", "1d", "-5s", "5 m"}) {
    const Outcome refused = bypass({"on", "--for", time});
    EXPECT_EQ(refused.status, 2) << time << refused.out;
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
  }
  EXPECT_EQ(bypass({"off", "--for", "5s"}).status, 2);
  EXPECT_EQ(state(), "running");
  EXPECT_FALSE(passes());
}

// The next data plane, a stopped one, and none at all: the time is the broker's.
TEST_F(TimedBypass, EndsWhateverBecomesOfTheDataPlane) {
  const pid_t before = attached_->data_plane();
  ASSERT_EQ(bypass({"on", "--for", "4s"}).status, 0);
  const auto begin = Clock::now();
  kill(before, SIGKILL);
  ASSERT_TRUE(
      eventually([&] { return status().value("data_plane", Json::object()).value("lives", false); }, 10s));
  if (Clock::now() - begin < 3s) {
    EXPECT_TRUE(passes());
    EXPECT_GE(end().value("ends_in_s", 0), 1) << "the next one knows of it";
    EXPECT_NE(attached_->process().err().find("it ends by itself in"), std::string::npos);
  }
  (void)lasts(8s);
  EXPECT_GT(Clock::now() - begin, 3500ms);
  EXPECT_LT(Clock::now() - begin, 6s);

  const pid_t stopped = attached_->data_plane();
  kill(stopped, SIGSTOP);
  ASSERT_TRUE(eventually(
      [&] { return status().value("data_plane", Json::object()).value("state", "") == "stopped"; }));
  const Outcome on = bypass({"on", "--for", "2s"});
  EXPECT_EQ(on.status, 0) << on.err;
  EXPECT_GE(end().value("ends_in_s", 0), 1) << status();
  EXPECT_LT(lasts(5s), 4s);
  kill(stopped, SIGCONT);
  EXPECT_TRUE(eventually([&] { return state() == "running"; }));
}

// Nobody would end it.
TEST_F(TimedBypass, WithoutAProcessThatAnswersATimeIsRefused) {
  const pid_t data_plane = attached_->data_plane(), broker = attached_->process().pid();
  kill(broker, SIGSTOP);
  kill(data_plane, SIGSTOP);
  const Outcome refused = bypass({"on", "--for", "5m"});
  EXPECT_EQ(refused.status, 1) << refused.out;
  EXPECT_NE(refused.err.find("nothing was changed, as nobody would end the bypass"), std::string::npos)
      << refused.err;
  kill(data_plane, SIGCONT);
  kill(broker, SIGCONT);
  EXPECT_TRUE(eventually([&] { return status().is_object() && state() == "running"; }));
  EXPECT_FALSE(passes());

  attached_->kill_outright();
  const Outcome dead = bypass({"on", "--for", "5m"});
  EXPECT_EQ(dead.status, 1) << dead.out;
  EXPECT_EQ(attached_->pins().config().state, u32{XG_STATE_RUNNING});
  EXPECT_EQ(bypass({"on"}).status, 0);
  EXPECT_EQ(attached_->pins().config().state, u32{XG_STATE_BYPASS});
}

// What "detach --keep" leaves has nobody who would end it.
TEST_F(TimedBypass, WithATimeGoesWithItsProcess) {
  ASSERT_EQ(bypass({"on", "--for", "1h"}).status, 0);
  EXPECT_TRUE(passes());
  ASSERT_EQ(product(*host_, {"detach", name(), "--keep"}).status, 0);
  EXPECT_FALSE(passes());
  EXPECT_EQ(product(*host_, {"detach", name()}).status, 0);
}

}  // namespace
}  // namespace xdpgpu::lab
