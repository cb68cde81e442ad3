// SPDX-License-Identifier: MIT
//
// tests/netns/overload_test.cpp: what becomes of packets that user space cannot take: by on_failure and
// on_overload, by what is known of their flows, by their rules' priority.
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

}  // namespace
}  // namespace xdpgpu::lab
