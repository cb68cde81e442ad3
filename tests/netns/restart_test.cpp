// SPDX-License-Identifier: MIT
//
// tests/netns/restart_test.cpp: an attach that goes on from what a dead one, or one that was asked to, left
// in the kernel: the program stays on the interface, and what was decided stays decided.
#include <fmt/format.h>

#include <atomic>
#include <fstream>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

// UDP 7000: sent back, and remembered by flow. UDP 7001: sent back, and inspected each time. Neither is ever
// passed to the host, so whatever of them comes up there has met no program.
std::string bounce(const char* on_failure = "drop", const char* heartbeat = "100ms") {
  return policy(fmt::format(R"("rules": [
    {{"match": {{"proto": "udp", "dst_port": 7000}}, "action": {{"inspect": "cached"}}}},
    {{"match": {{"proto": "udp", "dst_port": 7001}}, "action": {{"inspect": "each"}}}}],
    "on_failure": "{}", "on_overload": "drop", "io": {{"heartbeat": "{}"}},
    "pipelines": {{"cached": [{{"stage": "l2fwd", "cache": true}}], "each": [{{"stage": "l2fwd"}}]}})",
                            on_failure, heartbeat));
}

// A zombie does not.
bool lives(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/stat", process));
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  return !stat.empty() && stat.find(") Z ") == std::string::npos;
}

class Restart : public OnTheWire {
 protected:
  void SetUp() override {
    OnTheWire::SetUp();
    if (IsSkipped()) return;
    // Before Linux 6.3 no driver says whether it transmits for XDP (xdpgpu doctor).
    if (!generic() && !kernel_at_least(6, 3)) GTEST_SKIP() << "this kernel caches no TX here";
  }

  // What stays while processes come and go.
  struct Standing {
    std::uint32_t link;
    unsigned carrier_changes;
    bool operator==(const Standing&) const = default;
  };
  Standing standing() const { return {xdp_link_id(host_port()), host_port().carrier_changes()}; }

  // `flows` flows of UDP 7000 that the kernel remembers from then on.
  std::vector<Frame> decide_flows(std::size_t flows) {
    auto frames = many_flows(7000, flows, 1);
    const Pins& pins = attached_->pins();
    EXPECT_TRUE(eventually([&] {
      Sender(left_port()).send_paced(frames, 2000);
      return pins.flows().size() >= flows;
    })) << pins.summary();
    // Their packets are back before anything is counted.
    EXPECT_TRUE(eventually([&] { return in_user_space() == 0; }));
    return frames;
  }
  std::int64_t in_user_space() const {
    std::int64_t sum = 0;
    for (const auto& queue : attached_->status().at("ports").at(0).at("queues"))
      sum += queue.at("in_user_space").get<std::int64_t>();
    return sum;
  }
  // How many of them come back within a while.
  std::size_t come_back(const std::vector<Frame>& frames, std::uint16_t port) {
    Sniffer left(left_port());
    Sender(left_port()).send_paced(frames, 5000);
    std::size_t back = 0;
    eventually([&] { return (back += left.drain(150ms, 3000ms, udp_to(port)).size()) >= frames.size(); },
               10s);
    return back;
  }
  std::size_t on_host(Sniffer& host) {
    return host
        .drain(50ms, 3000ms,
               [](const Captured& captured) { return udp_to(7000)(captured) || udp_to(7001)(captured); })
        .size();
  }
};
INSTANTIATE_TEST_SUITE_P(Netns, Restart, testing::Values(Config{false, 2, "split"}, Config{true, 1}),
                         config_name);

// Sends UDP 7001 until it goes.
class Load {
 public:
  Load(const Interface& from, std::vector<Frame> frames)
      : thread_([this, sender = Sender(from), frames = std::move(frames)]() mutable {
          while (!stop_) {
            sender.send_paced(frames, 10000);
            sent_ += frames.size();
          }
        }) {}
  ~Load() { end(); }
  std::uint64_t end() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
    return sent_;
  }

 private:
  std::atomic<bool> stop_{false};
  std::uint64_t sent_ = 0;
  std::thread thread_;
};

TEST_P(Restart, BypassStaysOn) {
  const std::string closed = policy(R"("default": "drop")");
  const PingOptions one{.count = 1, .timeout = 200ms};
  const auto passes = [&] { return ping(*left_, "10.9.0.1", one).received == 1; };
  attach(closed);
  ASSERT_EQ(product(*host_, {"bypass", "on", host_port().ifname()}).status, 0);
  attached_->kill_outright();
  // What they leave is theirs until the end.
  const std::unique_ptr<Attached> dead = std::move(attached_);
  EXPECT_TRUE(passes());
  attach(closed);
  EXPECT_TRUE(passes());
  const Outcome kept = product(*host_, {"detach", host_port().ifname(), "--keep"});
  EXPECT_EQ(kept.status, 0) << kept.err;
  EXPECT_NE(kept.out.find("left to the kernel"), std::string::npos) << kept.out;
  EXPECT_EQ(attached_->process().wait(5s), 0);
  EXPECT_TRUE(passes());
  const std::unique_ptr<Attached> gone = std::move(attached_);
  attach(closed);
  EXPECT_TRUE(passes());
  EXPECT_NE(attached_->process().err().find("bypass is still on"), std::string::npos);
  ASSERT_EQ(product(*host_, {"bypass", "off", host_port().ifname()}).status, 0);
  EXPECT_FALSE(passes());
}

TEST_P(Restart, BypassSurvivesTheBrokerAndTheDraining) {
  const std::string closed = policy(R"("default": "drop")");
  const PingOptions one{.count = 1, .timeout = 200ms};
  attach(closed);
  ASSERT_EQ(product(*host_, {"bypass", "on", host_port().ifname()}).status, 0);
  const pid_t data_plane = attached_->data_plane();
  attached_->process().signal(SIGKILL);
  ASSERT_EQ(attached_->process().wait(10s), 128 + SIGKILL);
  ASSERT_TRUE(eventually([&] { return !lives(data_plane); }, 10s)) << "it ends without its other half";
  const std::unique_ptr<Attached> dead = std::move(attached_);
  EXPECT_EQ(ping(*left_, "10.9.0.1", one).received, 1U);

  attach(closed);
  Load load(left_port(), many_flows(7001, 16, 10));
  const auto passed = [&] { return attached_->pins().kernel("pass_bypass"); };
  const auto before = passed();
  ASSERT_TRUE(eventually([&] { return passed() > before + 500; }));
  EXPECT_EQ(product(*host_, {"detach", host_port().ifname(), "--keep"}).status, 0);
  load.end();
  EXPECT_EQ(attached_->pins().kernel("drop_default"), 0U) << "dropped while it drained";
}

TEST_P(Restart, BypassOfOneInterfaceStaysThatInterfaces) {
  const std::string closed = policy(R"("default": "drop")");
  const PingOptions one{.count = 1, .timeout = 200ms};
  attach_both(closed);
  attached_->kill_outright();
  const std::unique_ptr<Attached> dead = std::move(attached_);
  ASSERT_EQ(product(*host_, {"bypass", "on", host_port().ifname()}).status, 0);
  attach_both(closed);
  EXPECT_EQ(ping(*left_, "10.9.0.1", one).received, 1U);
  EXPECT_EQ(ping(*right_, "10.9.1.1", one).received, 0U);
}

// The next attach finds the policy that somebody confirmed.
TEST_P(Restart, WhatNobodyConfirmedIsNotLeft) {
  attach(policy(R"("default": "pass")"));
  const TemporaryFile lockout(policy(R"("default": "drop")"));
  ASSERT_EQ(
      product(*host_, {"policy", "apply", host_port().ifname(), lockout.path(), "--confirm", "60s"}).status,
      0);
  EXPECT_EQ(product(*host_, {"detach", host_port().ifname(), "--keep"}).status, 0);
  EXPECT_EQ(attached_->process().wait(5s), 0);
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1, .timeout = 200ms}).received, 1U);
}

// Under a strict stage, and with no verdict in the kernel.
TEST_P(Restart, OpenConnectionsGoOnUntilAPolicyIsApplied) {
  const std::string strict =
      inspect_all(R"({"stage": "conntrack", "on_invalid": "drop"})", R"("on_failure": "pass")");
  attach(strict);
  std::unique_ptr<Attached> dead;
  const auto restart = [&] {
    attached_->kill_outright();
    dead = std::move(attached_);
    attach(strict);
  };
  EXPECT_EQ(tcp_transfer(*left_, *host_, "10.9.0.1", {.bytes = 4 << 20, .half_way = restart}).problem, "");
  // One that nobody began is let go, and is not once the policy has been applied.
  PacketSpec ack = from_left(1000, 7500, "late");
  ack.protocol = kTcp;
  const auto passed = [&] { return attached_->pins().worker("passed"); };
  const auto before = passed();
  Sender(left_port()).send(build(ack));
  EXPECT_TRUE(eventually([&] { return passed() > before; }));
  const auto is_said = [&] {
    const bool said = attached_->status().at("policy").at("conntrack_loosened").get<bool>();
    const std::string text = product(*host_, {"status", host_port().ifname()}).out;
    EXPECT_EQ(text.find("conntrack is loose") != std::string::npos, said) << text;
    return said;
  };
  EXPECT_TRUE(is_said());
  ASSERT_EQ(attached_->apply(strict).status, 0);
  EXPECT_FALSE(is_said());
  ack.src_port = 1001;
  Sender(left_port()).send(build(ack));
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("dropped") > 0; }));
}

// A backend that does not answer makes a generation of its own, which nobody applied.
TEST_P(Restart, ABackendThatGoesCutsNoOpenConnection) {
  const std::string strict = policy(R"("rules": [
      {"match": {"proto": "udp"}, "action": {"inspect": "balance"}},
      {"match": {"proto": "tcp", "dst_port": 7500}, "action": {"inspect": "track"}}],
    "on_failure": "pass",
    "pipelines": {
      "track": [{"stage": "conntrack", "on_invalid": "drop"}],
      "balance": [{"stage": "load_balance", "backends": [{"name": "one", "mac": "02:00:00:00:00:01", "address": "10.9.0.2"}],
                   "health": {"port": 7100, "interval": "100ms", "timeout": "100ms", "fall": 2}}]})");
  attach(strict);
  attached_->kill_outright();
  const std::unique_ptr<Attached> dead = std::move(attached_);
  attach(strict);
  const Pins& pins = attached_->pins();
  const auto generation = XG_ACTIVE_GENERATION(pins.config().active);
  ASSERT_TRUE(eventually([&] { return XG_ACTIVE_GENERATION(pins.config().active) > generation; }, 10s))
      << attached_->process().err();
  PacketSpec ack = from_left(1000, 7500, "late");
  ack.protocol = kTcp;
  Sender(left_port()).send(build(ack));
  ASSERT_TRUE(eventually([&] { return pins.worker("received") == 1; }));
  EXPECT_TRUE(eventually([&] { return pins.worker("passed") == 1; })) << pins.summary();
}

TEST_P(Restart, AfterADeathDecidedFlowsStayDecided) {
  attach(bounce());
  const auto decided = decide_flows(64);
  const auto generation = XG_ACTIVE_GENERATION(attached_->pins().config().active);
  const auto before = standing();
  ASSERT_NE(before.link, 0U);
  Sniffer host(host_port()), left(left_port());
  Load load(left_port(), many_flows(7001, 16, 10));
  ASSERT_TRUE(eventually([&] { return attached_->pins().worker("transmitted") > 500; }));
  attached_->kill_outright();
  const std::unique_ptr<Attached> dead = std::move(attached_);
  const Pins& pins = dead->pins();

  // Nobody lives: the kernel goes by what it knows, and on_failure decides on the rest.
  // By the sockets, which are gone at once; until the beats are stale, too, flows wait for what they had
  // there.
  ASSERT_TRUE(eventually([&] { return pins.kernel("drop_failure") > 100; })) << pins.summary();
  std::this_thread::sleep_for(150ms);
  const auto known = pins.kernel("tx_flow");
  EXPECT_EQ(come_back(decided, 7000), decided.size());
  EXPECT_EQ(pins.kernel("tx_flow"), known + decided.size()) << pins.summary();

  attach(bounce());
  EXPECT_EQ(standing(), before) << "link and carrier";
  const Json goes_on = attached_->ready().value("goes_on", Json::object());
  EXPECT_TRUE(goes_on.value("same_policy", false))
      << attached_->process().out() << attached_->process().err();
  EXPECT_EQ(XG_ACTIVE_GENERATION(pins.config().active), generation);
  const auto lost = pins.worker("lost_with_worker");
  EXPECT_EQ(goes_on.value("lost_with_workers", std::uint64_t{0}), lost);
  const auto transmitted = pins.worker("transmitted");
  ASSERT_TRUE(eventually([&] { return pins.worker("transmitted") > transmitted + 200; })) << pins.summary();
  const auto sent = load.end();

  // Decided in the kernel still: none of them is inspected again. One that shares its place in the order with
  // a flow of the load would be, as long as a packet of that is in user space.
  ASSERT_TRUE(eventually([&] { return in_user_space() == 0; })) << pins.summary();
  EXPECT_EQ(come_back(decided, 7000), decided.size());
  EXPECT_EQ(pins.kernel("tx_flow"), known + 2 * decided.size()) << pins.summary();

  EXPECT_EQ(attached_->detach().status, 0) << attached_->process().err();
  expect_conserved(pins);
  const auto kernel = pins.kernel_counts();
  const auto worker = pins.worker_counts();
  // What is missing was in the rings when the worker died, and is counted but for what it had counted as
  // sent.
  const auto back = left.drain(100ms, 5000ms, udp_to(7001)).size();
  const auto accounted = back + kernel.at("drop_failure") + kernel.at("drop_overload") +
                         worker.at("lost_with_worker") + worker.at("lost_in_kernel") +
                         worker.at("error_ring_full") + worker.at("error_refused");
  EXPECT_LE(accounted, sent);
  EXPECT_LE(sent - accounted, 2048U) << "more than a TX ring: " << pins.summary();
  EXPECT_LE(lost, 4096U * queues()) << pins.summary();
  EXPECT_EQ(on_host(host), 0U) << "packets met no program";
}

TEST_P(Restart, WhatWasLeftOnPurposeLosesNothing) {
  attach(bounce("drop", "5s"));
  const auto decided = decide_flows(64);
  const auto before = standing();
  Sniffer host(host_port()), left(left_port());
  Load load(left_port(), many_flows(7001, 16, 10));
  ASSERT_TRUE(eventually([&] { return attached_->pins().worker("transmitted") > 500; }));
  const Outcome outcome = product(*host_, {"detach", host_port().ifname(), "--keep", "-o", "json"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(Json::parse(outcome.out, nullptr, false).value("kept", false)) << outcome.out;
  EXPECT_EQ(attached_->process().wait(5s), 0) << attached_->process().err();
  const std::unique_ptr<Attached> gone = std::move(attached_);
  const Pins& pins = gone->pins();
  EXPECT_EQ(come_back(decided, 7000), decided.size());

  attach(bounce("drop", "5s"));
  EXPECT_EQ(standing(), before);
  EXPECT_TRUE(attached_->ready().at("goes_on").at("same_policy").get<bool>());
  EXPECT_EQ(come_back(decided, 7000), decided.size());
  const auto transmitted = pins.worker("transmitted");
  ASSERT_TRUE(eventually([&] { return pins.worker("transmitted") > transmitted + 200; })) << pins.summary();
  const auto sent = load.end();
  EXPECT_EQ(attached_->detach().status, 0) << attached_->process().err();
  expect_conserved(pins);
  const auto worker = pins.worker_counts();
  EXPECT_EQ(worker.at("lost_with_worker"), 0U);
  // To the packet.
  EXPECT_EQ(left.drain(100ms, 5000ms, udp_to(7001)).size() + pins.kernel("drop_failure") +
                pins.kernel("drop_overload") + worker.at("lost_in_kernel") + worker.at("error_ring_full") +
                worker.at("error_refused"),
            sent)
      << pins.summary();
  EXPECT_EQ(on_host(host), 0U) << "packets met no program";
}

TEST_P(Restart, AnotherPolicyDecidesAnew) {
  attach(bounce());
  const auto decided = decide_flows(16);
  const auto generation = XG_ACTIVE_GENERATION(attached_->pins().config().active);
  const auto before = standing();
  attached_->kill_outright();
  const std::unique_ptr<Attached> dead = std::move(attached_);
  Sniffer host(host_port());
  // The one packet finds a worker that lives, however late its beats are on a busy machine.
  attach(bounce("pass", "5s"));
  const Pins& pins = attached_->pins();
  EXPECT_EQ(standing(), before);
  EXPECT_FALSE(attached_->ready().at("goes_on").at("same_policy").get<bool>());
  // The dead one may have decided by the next.
  EXPECT_GT(XG_ACTIVE_GENERATION(pins.config().active), generation + 1);
  EXPECT_EQ(pins.flows().size(), 0U) << "of the new generation";
  const auto known = pins.kernel("tx_flow"), inspected = pins.kernel("inspected");
  EXPECT_EQ(come_back({decided.begin(), decided.begin() + 1}, 7000), 1U);
  EXPECT_EQ(pins.kernel("tx_flow"), known);
  EXPECT_EQ(pins.kernel("inspected"), inspected + 1);
  EXPECT_EQ(attached_->detach().status, 0) << attached_->process().err();
  EXPECT_EQ(on_host(host), 0U);
}

TEST_P(Restart, AnotherLayoutStartsAnewAndSaysSo) {
  attach(bounce());
  decide_flows(16);
  const auto before = standing();
  attached_->kill_outright();
  const std::unique_ptr<Attached> dead = std::move(attached_);
  attach(bounce(), {"--flow-entries", "1024"});
  const std::string said = attached_->process().err();
  for (const std::string& word :
       {host_port().ifname() + " starts anew", std::string("16384"), std::string("1024")})
    EXPECT_NE(said.find(word), std::string::npos) << said;
  EXPECT_FALSE(attached_->ready().contains("goes_on"));
  EXPECT_NE(standing().link, before.link);
  EXPECT_EQ(attached_->pins().flows().size(), 0U);
  EXPECT_EQ(come_back(many_flows(7000, 16, 1), 7000), 16U);
  EXPECT_EQ(attached_->detach().status, 0) << attached_->process().err();
}

TEST_P(Restart, AStartThatFailsLeavesWhatDecides) {
  attach(bounce());
  const auto decided = decide_flows(16);
  const auto before = standing();
  attached_->kill_outright();
  const std::unique_ptr<Attached> dead = std::move(attached_);
  const TemporaryFile file(bounce());
  const Outcome outcome = run_program(
      *host_,
      {product_path(), "attach", host_port().ifname(), "--policy", file.path(), "--mode",
       generic() ? "generic" : "copy", "--queues", std::to_string(queues()), "--device", device_under_test()},
      20s, {.environment = {{"XDPGPU_FAULT", "nonsense"}}});
  EXPECT_EQ(outcome.status, 1) << outcome.out << outcome.err;
  EXPECT_NE(outcome.err.find("XDPGPU_FAULT"), std::string::npos) << outcome.err;
  EXPECT_EQ(standing(), before);
  EXPECT_EQ(come_back(decided, 7000), decided.size());
  const Outcome detach = product(*host_, {"detach", host_port().ifname()});
  EXPECT_EQ(detach.status, 0) << detach.err;
}

}  // namespace
}  // namespace xdpgpu::lab
