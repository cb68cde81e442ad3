// SPDX-License-Identifier: MIT
//
// tests/netns/overload_test.cpp: what becomes of packets that user space cannot take: by on_failure and
// on_overload, by what is known of their flows.
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

}  // namespace
}  // namespace xdpgpu::lab
