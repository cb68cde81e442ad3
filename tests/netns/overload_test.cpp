// SPDX-License-Identifier: MIT
//
// tests/netns/overload_test.cpp: what becomes of packets that user space cannot take: by on_failure and
// on_overload, by what is known of their flows, by their rules' priority; what --audit and bypass let go, and
// what passes in any case.
#include <fmt/format.h>
#include <signal.h>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

class Overload : public OnTheWire {
 protected:
  void send(std::uint16_t src_port, std::uint16_t dst_port, std::size_t count = 1) {
    Sender(left_port()).send(numbered(src_port, dst_port, count));
  }
  // Stops the workers until the end of the scope. Returns when the kernel knows.
  class Stopped {
   public:
    explicit Stopped(pid_t pid) : pid_(pid) {
      kill(pid_, SIGSTOP);
      std::this_thread::sleep_for(250ms);  // the heartbeat goes stale
    }
    ~Stopped() { kill(pid_, SIGCONT); }
    Stopped(const Stopped&) = delete;
    Stopped& operator=(const Stopped&) = delete;

   private:
    pid_t pid_;
  };
};
INSTANTIATE_TEST_SUITE_P(Netns, Overload, kNativeAndGeneric, config_name);

constexpr const char* kKnownOrDrop =
    R"("on_failure": {"known": "keep", "new": "drop"}, "io": {"heartbeat": "100ms"})";

// Inspects UDP to 7000 ("kept") and, by a rule ahead, to 7001 ("other": from `least` on), and caches.
std::string two_rules(int least) {
  return policy(fmt::format(R"({},
      "pipelines": {{"look": [{{"stage": "acl", "rules": [], "default": "pass", "cache": true}}]}},
      "rules": [{{"name": "other", "match": {{"proto": "udp", "src_port": "{}-65535", "dst_port": 7001}},
                  "action": {{"inspect": "look"}}}},
                {{"name": "kept", "match": {{"proto": "udp", "dst_port": 7000}}, "action": {{"inspect": "look"}}}}])",
                            kKnownOrDrop, least));
}

TEST_P(Overload, KnownFlowsGoOnWithoutAWorkerAndNewOnesAreDropped) {
  attach(two_rules(1));
  const Pins& pins = attached_->pins();
  const pid_t workers = attached_->data_plane();
  const auto cached = [&] { return pins.flow(1000, 7000) && pins.flow(1001, 7001); };
  const auto learn = [&] {
    send(1000, 7000);
    send(1001, 7001);
    return eventually(cached, 2s);
  };
  const auto while_stopped = [&](std::uint64_t known, std::uint64_t fresh) {
    const auto before = pins.kernel_counts();
    const Stopped stopped(workers);
    send(1000, 7000, 5);  // known
    send(1001, 7001, 3);  // known, until its rule changes
    send(1002, 7000, 2);  // new
    EXPECT_TRUE(eventually([&] {
      return pins.kernel("pass_flow") - before.at("pass_flow") == known &&
             pins.kernel("drop_failure") - before.at("drop_failure") == fresh;
    })) << pins.summary();
  };
  ASSERT_TRUE(learn()) << pins.summary();
  {
    SCOPED_TRACE("the same policy");
    while_stopped(8, 2);
  }
  ASSERT_EQ(attached_->apply(two_rules(2)).status, 0);
  {
    SCOPED_TRACE("a rule has changed");
    EXPECT_FALSE(cached()) << "no verdict is of this policy";
    while_stopped(5, 5);
  }
  ASSERT_EQ(attached_->apply(two_rules(2)).status, 0);
  {
    SCOPED_TRACE("and again");
    while_stopped(5, 5);
  }
  EXPECT_TRUE(eventually(learn)) << "traffic did not come back with the worker: " << pins.summary();
  ASSERT_EQ(product(*host_, {"flows", "flush", host_port().ifname()}).status, 0);
  {
    SCOPED_TRACE("all were forgotten");
    while_stopped(0, 10);
  }
  EXPECT_TRUE(eventually(learn)) << pins.summary();
  expect_conserved(pins);
}

// The ring is full of what came first, but for what is kept for the important.
TEST_P(Overload, ShedsTheLeastImportantFirst) {
  attach(policy(R"("on_overload": "drop", "io": {"heartbeat": "10s", "ring_size": 256},
      "pipelines": {"look": [{"stage": "acl", "rules": [], "default": "drop"}]},
      "rules": [{"name": "bulk", "match": {"proto": "udp", "dst_port": 7000}, "action": {"inspect": "look"}},
                {"name": "calls", "match": {"proto": "udp", "dst_port": 5060}, "priority": 5,
                 "action": {"inspect": "look"}}])"));
  const Pins& pins = attached_->pins();
  const auto bulk = many_flows(7000, 64, 30), calls = many_flows(5060, 40, 1);
  Sender sender(left_port());
  {
    const Stopped stopped(attached_->data_plane());
    sender.send_paced(bulk, 20000);
    EXPECT_TRUE(eventually([&] { return pins.kernel("received") >= bulk.size(); })) << pins.summary();
    EXPECT_GT(pins.kernel("drop_overload"), bulk.size() / 2);
    sender.send(calls);
    EXPECT_TRUE(eventually([&] { return pins.kernel("received") >= bulk.size() + calls.size(); }));
  }
  EXPECT_TRUE(eventually([&] { return pins.worker("dropped") == pins.kernel("inspected"); }))
      << pins.summary();
  const Json rules = attached_->status().at("rules");
  const Json& shed_bulk = rules.at(0).at("shed");
  const Json& shed_calls = rules.at(1).at("shed");
  EXPECT_EQ(rules.at(0).at("name"), "bulk");
  EXPECT_EQ(shed_bulk.at("overload"), pins.kernel("drop_overload"));
  EXPECT_EQ(shed_bulk.at("failure"), 0);
  EXPECT_EQ(shed_calls.at("overload"), 0) << "the important lose nothing: " << rules;
  EXPECT_EQ(rules.at(1).at("packets"), calls.size());
  expect_conserved(pins);
  sender.send(numbered(1000, 7000, 50));
  EXPECT_TRUE(eventually([&] { return pins.worker("dropped") == pins.kernel("inspected"); }));
  EXPECT_EQ(attached_->status().at("rules").at(0).at("shed"), shed_bulk) << "nothing is shed any more";
}

// Nobody is locked out, whatever goes on.
TEST_P(Overload, ManagementSurvivesEverything) {
  const std::string members = R"("default": "drop", "on_failure": "drop", "on_overload": "drop",
      "management": [{"src": "10.9.0.2", "proto": "udp", "dst_port": 22}],
      "pipelines": {"look": [{"stage": "acl", "rules": [], "default": "drop", "cache": true}]},
      "rules": [{"name": "all", "match": {"proto": "udp"}, "action": {"inspect": "look"}}], "io": {"ring_size": 64, )";
  attach(policy(members + R"("heartbeat": "2s"})"));
  const Pins& pins = attached_->pins();
  const auto passes = [&](const char* when) {
    SCOPED_TRACE(when);
    const auto before = pins.kernel("pass_management");
    send(1000, 22, 3);
    EXPECT_TRUE(eventually([&] { return pins.kernel("pass_management") == before + 3; })) << pins.summary();
  };
  passes("policy");
  {
    const Stopped stopped(attached_->data_plane());
    Sender(left_port()).send(many_flows(7000, 64, 20));
    EXPECT_TRUE(eventually([&] { return pins.kernel("drop_overload") > 0; })) << pins.summary();
    passes("overload");
    EXPECT_TRUE(eventually(
        [&] {
          send(1003, 7000);
          return pins.kernel("drop_failure") > 0;
        },
        5s))
        << pins.summary();
    passes("failure");
  }
  const TemporaryFile file(policy(members + R"("heartbeat": "2s"})"));
  ASSERT_EQ(product(*host_, {"policy", "apply", host_port().ifname(), file.path(), "--audit"}).status, 0);
  passes("audit");
}

// What is counted is what is dropped as soon as the policy is applied without it.
TEST_P(Overload, AuditDropsNothing) {
  const std::string text = policy(R"("default": "pass",
      "pipelines": {"look": [{"stage": "acl", "rules": [], "default": "drop"}],
                    "once": [{"stage": "acl", "rules": [], "default": "drop", "cache": true}]},
      "rules": [{"name": "rule", "match": {"proto": "udp", "dst_port": 7001}, "action": "drop"},
                {"name": "cached", "match": {"proto": "udp", "dst_port": 7002}, "action": {"inspect": "once"}},
                {"name": "looked at", "match": {"proto": "udp", "dst_port": 7003}, "action": {"inspect": "look"}}])");
  attach(text, {"--audit"});
  const Pins& pins = attached_->pins();
  EXPECT_EQ(attached_->status().at("policy").at("audit"), true);
  Sniffer at_host(host_port());
  const auto arrive = [&](std::uint16_t port, std::size_t sent) {
    send(1000, port, sent);
    return at_host.take(sent, 3000ms, udp_to(port)).size();
  };
  EXPECT_EQ(arrive(7001, 5), 5U);
  EXPECT_EQ(pins.kernel("would_drop_rule"), 5U);
  EXPECT_EQ(arrive(7003, 4), 4U);
  EXPECT_EQ(pins.worker("would_drop"), 4U);
  EXPECT_EQ(pins.worker("dropped"), 0U);
  EXPECT_EQ(arrive(7002, 1), 1U);
  ASSERT_TRUE(eventually([&] { return pins.flow(1000, 7002).has_value(); })) << pins.summary();
  std::this_thread::sleep_for(50ms);  // the first packet has left by then
  EXPECT_EQ(arrive(7002, 3), 3U);
  EXPECT_EQ(pins.kernel("would_drop_flow"), 3U);
  const Outcome said = product(*host_, {"status", host_port().ifname()});
  EXPECT_NE(said.out.find("audit"), std::string::npos) << said.out;
  EXPECT_NE(said.out.find("passed by --audit: a rule drops"), std::string::npos) << said.out;
  expect_conserved(pins);

  ASSERT_EQ(attached_->apply(text).status, 0);
  EXPECT_EQ(attached_->status().at("policy").at("audit"), false);
  send(1000, 7001);
  send(1000, 7003);
  EXPECT_TRUE(eventually([&] { return pins.kernel("drop_rule") == 1 && pins.worker("dropped") == 1; }))
      << pins.summary();
  EXPECT_EQ(at_host.take(1, 100ms, udp_to(7001)).size(), 0U);
}

TEST_P(Overload, BypassActsAtOnce) {
  attach(policy(R"("default": "drop")"));
  const Pins& pins = attached_->pins();
  const auto counted = [&](const char* reason) {
    const auto before = pins.kernel(reason);
    send(1000, 7000, 5);
    return eventually([&] { return pins.kernel(reason) == before + 5; });
  };
  EXPECT_TRUE(counted("drop_default"));
  ASSERT_EQ(product(*host_, {"bypass", "on", host_port().ifname()}).status, 0);
  EXPECT_TRUE(counted("pass_bypass")) << "from the first packet on";
  ASSERT_EQ(product(*host_, {"bypass", "off", host_port().ifname()}).status, 0);
  EXPECT_TRUE(counted("drop_default"));
}

}  // namespace
}  // namespace xdpgpu::lab
