// SPDX-License-Identifier: MIT
//
// tests/netns/life_test.cpp: how xdpgpu comes and goes: detach under load, deaths, re-attach, pins.
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "tests/netns/on_the_wire.hpp"
#include "userspace/dataplane/counters.hpp"

namespace xdpgpu::lab {
namespace {

class Life : public OnTheWire {};
INSTANTIATE_TEST_SUITE_P(Netns, Life, kConfigs, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, Life, kSplit, config_name);

constexpr const char* kPass = R"({"stage": "acl", "rules": [], "default": "pass"})";
constexpr const char* kBounce = R"({"stage": "l2fwd"})";

// Sends until it goes.
class Load {
 public:
  Load(const Interface& from, std::vector<Frame> frames, unsigned pps)
      : thread_([this, sender = Sender(from), frames = std::move(frames), pps]() mutable {
          while (!stop_) {
            sender.send_paced(frames, pps);
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

// The last JSON line of a program's output.
Json last_line(const std::string& out) {
  const auto end = out.find_last_not_of('\n');
  const auto start = end == std::string::npos ? 0 : out.rfind('\n', end) + 1;
  const Json line = Json::parse(out.substr(start), nullptr, false);
  return line.is_object() ? line : Json::object();
}

// The account has each counter of the maps under its outcome in the table of counters.
void expect_by_table(const Json& packets, const Pins::Counts& kernel, const Pins::Counts& worker) {
  std::map<xg_outcome, std::uint64_t> sums;
  for (const auto& counter : dataplane::kKernelCounters) sums[counter.outcome] += kernel.at(counter.name);
  for (const auto& counter : dataplane::kWorkerCounters) sums[counter.outcome] += worker.at(counter.name);
  EXPECT_EQ(packets.at("in"), sums[XG_OUTCOME_in] - sums[XG_OUTCOME_again]);
  EXPECT_EQ(packets.at("inspected"), sums[XG_OUTCOME_on]);
  EXPECT_EQ(packets.at("drop"), sums[XG_OUTCOME_drop]);
  EXPECT_EQ(packets.at("pass"), sums[XG_OUTCOME_pass]);
  EXPECT_EQ(packets.at("tx"), sums[XG_OUTCOME_tx]);
  EXPECT_EQ(packets.at("redirect"), sums[XG_OUTCOME_redirect]);
  EXPECT_EQ(packets.at("error"), sums[XG_OUTCOME_error]);
  EXPECT_EQ(packets.at("in"), sums[XG_OUTCOME_drop] + sums[XG_OUTCOME_pass] + sums[XG_OUTCOME_tx] +
                                  sums[XG_OUTCOME_redirect] + sums[XG_OUTCOME_error]);
}

TEST_P(Life, DetachUnderTrafficAccountsForEveryPacket) {
  attach(inspect_udp(7000, kBounce));
  const Pins& pins = attached_->pins();
  Sniffer left(left_port());
  Load load(left_port(), many_flows(7000, 16, 25), 30000);
  std::this_thread::sleep_for(300ms);
  const Outcome outcome = attached_->detach();
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(xdp_state(host_port()).mode, XdpAttach::none);
  load.end();
  const Json account = last_line(attached_->process().out());
  EXPECT_EQ(account.value("event", ""), "end") << account;
  EXPECT_TRUE(account.value("frames_conserved", false)) << account;
  EXPECT_TRUE(account.value("packets_balanced", false)) << account;
  EXPECT_EQ(account.at("packets").at("in"), pins.kernel("received"));
  expect_conserved(pins);
  const auto kernel = pins.kernel_counts(), worker = pins.worker_counts();
  expect_by_table(account.at("packets"), kernel, worker);
  EXPECT_GT(worker.at("transmitted"), 0U);
  // Each packet that was counted as sent back did come back.
  EXPECT_EQ(left.drain(100ms, 5000ms, udp_to(7000)).size(), worker.at("transmitted"));
}

TEST_P(Life, InterruptDetaches) {
  attach(inspect_all(kPass));
  attached_->process().signal(SIGINT);
  EXPECT_EQ(attached_->process().wait(10s), 0) << attached_->process().err();
  EXPECT_EQ(leftovers(*host_, {host_port().ifname(), host_second().ifname()}), std::vector<std::string>{});
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 2}).received, 2U);
}

TEST_P(Life, AStoppedWorkerIsAFailureNotAHole) {
  for (const char* what : {"pass", "drop"}) {
    attach(inspect_all(
        R"({"stage": "acl", "rules": [], "default": "pass"})",
        fmt::format(R"("on_failure": "{}", "on_overload": "pass", "io": {{"heartbeat": "100ms"}})", what)));
    const Pins& pins = attached_->pins();
    const pid_t data_plane = attached_->data_plane();
    kill(data_plane, SIGSTOP);
    std::this_thread::sleep_for(400ms);  // the heartbeat goes stale
    const PingResult result = ping(*left_, "10.9.0.1", {.count = 3, .timeout = 200ms});
    const auto failed = pins.kernel(fmt::format("{}_failure", what));
    kill(data_plane, SIGCONT);
    EXPECT_EQ(result.received, std::string(what) == "pass" ? 3U : 0U) << what;
    EXPECT_EQ(failed, 3U) << what;
    EXPECT_TRUE(eventually([&] {
      return ping(*left_, "10.9.0.1", {.count = 1, .timeout = 200ms}).received == 1;
    })) << "traffic did not come back with the worker";
    attached_.reset();
  }
}

TEST_P(Life, AWorkerMayBeSilentForAsLongAsThePolicySays) {
  attach(inspect_all(R"({"stage": "acl", "rules": [], "default": "pass"})", R"("io": {"heartbeat": "10s"})"));
  const Pins& pins = attached_->pins();
  const pid_t data_plane = attached_->data_plane();
  const auto before = pins.worker("received");
  kill(data_plane, SIGSTOP);
  std::this_thread::sleep_for(400ms);
  const PingResult result = ping(*left_, "10.9.0.1", {.count = 3, .timeout = 200ms});
  const auto failed = pins.kernel("pass_failure");
  kill(data_plane, SIGCONT);
  EXPECT_EQ(result.received, 0U) << "they wait for the worker";
  EXPECT_EQ(failed, 0U);
  EXPECT_TRUE(eventually([&] { return pins.worker("received") >= before + 3; })) << pins.summary();
}

TEST_P(Life, KilledOutrightAttachesAgain) {
  attach(inspect_all(kPass));
  const auto everybody = descendants(attached_->process().pid());
  attached_->process().signal(SIGKILL);
  for (const pid_t pid : everybody) kill(pid, SIGKILL);
  EXPECT_EQ(attached_->process().wait(3s), 137);
  const Outcome status = product(*host_, {"status", host_port().ifname()});
  EXPECT_EQ(status.status, 6) << "status of a dead attach: " << status.out << status.err;
  // Whatever stands there now, a new attach takes over and a detach leaves nothing.
  std::unique_ptr<Attached> dead = std::move(attached_);
  attach(inspect_udp(7000, kBounce));
  Sniffer left(left_port());
  Sender(left_port()).send(build(from_left(1000, 7000, "again")));
  EXPECT_EQ(left.take(1, 2000ms, with_payload("again")).size(), 1U);
  EXPECT_EQ(attached_->detach().status, 0);
  EXPECT_EQ(leftovers(*host_, {host_port().ifname(), host_second().ifname()}), std::vector<std::string>{});
}

TEST_P(Life, DetachCleansUpAfterTheDead) {
  attach(inspect_all(kPass));
  const auto everybody = descendants(attached_->process().pid());
  attached_->process().signal(SIGKILL);
  for (const pid_t pid : everybody) kill(pid, SIGKILL);
  EXPECT_EQ(attached_->process().wait(3s), 137);
  const Outcome outcome = product(*host_, {"detach", host_port().ifname()});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_EQ(leftovers(*host_, {host_port().ifname(), host_second().ifname()}), std::vector<std::string>{});
}

// Under load, over and over (XDPGPU_TEST_KILLS times): the kernel answers by on_failure, and what the dead
// leave the next one takes over.
TEST(Killed, OverAndOver) {
  if (const std::string reason = why_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
  const char* said = std::getenv("XDPGPU_TEST_KILLS");
  const int kills = said != nullptr ? std::atoi(said) : 10;
  const Namespace host("host"), left("left");
  const std::string prefix = fmt::format("xg{:x}", getpid());
  Veth wire(host, prefix + "k", left, prefix + "l");
  wire.address("10.9.0.1/24", "10.9.0.2/24");
  wire.up();
  wire.checksums_in_software();
  std::vector<Frame> frames;
  for (std::uint16_t flow = 0; flow < 64; ++flow)
    frames.push_back(build({.src = wire.b().mac(),
                            .dst = wire.a().mac(),
                            .src_ip = "10.9.0.2",
                            .dst_ip = "10.9.0.1",
                            .src_port = static_cast<std::uint16_t>(20000 + flow),
                            .dst_port = 7000,
                            .payload = "load"}));
  const std::string policy =
      inspect_udp(7000, kBounce, R"("on_failure": "drop", "io": {"heartbeat": "90ms"})");
  // What the dead have left is theirs until the end.
  std::vector<std::unique_ptr<Attached>> dead;
  std::vector<double> answered_ms;
  for (int i = 0; i < kills; ++i) {
    SCOPED_TRACE(i);
    auto attached =
        std::make_unique<Attached>(host, AttachSpec{.interfaces = {wire.a().ifname()}, .policy = policy});
    const Pins& pins = attached->pins();
    Load load(wire.b(), frames, 10000);
    const auto transmitted = pins.worker("transmitted");
    ASSERT_TRUE(eventually([&] { return pins.worker("transmitted") > transmitted + 200; })) << pins.summary();
    const auto everybody = descendants(attached->process().pid());
    // The counts go on from those of the dead whose tables it took over.
    const auto failed = pins.kernel("drop_failure");
    const auto killed = std::chrono::steady_clock::now();
    attached->process().signal(SIGKILL);
    for (const pid_t pid : everybody) kill(pid, SIGKILL);
    ASSERT_TRUE(eventually([&] { return pins.kernel("drop_failure") > failed; })) << pins.summary();
    answered_ms.push_back(
        std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - killed).count());
    load.end();
    // Each packet has one outcome in the kernel, whoever lives behind it.
    EXPECT_TRUE(eventually([&] {
      const auto kernel = pins.kernel_counts();
      return kernel.at("received") == Pins::outcomes(kernel);
    })) << pins.summary();
    if (i % 3 == 2) {
      EXPECT_EQ(product(host, {"detach", wire.a().ifname()}).status, 0);
      EXPECT_EQ(leftovers(host, {wire.a().ifname()}), std::vector<std::string>{});
    }
    dead.push_back(std::move(attached));
  }
  product(host, {"detach", wire.a().ifname()});
  EXPECT_EQ(leftovers(host, {wire.a().ifname()}), std::vector<std::string>{});
  EXPECT_EQ(ping(left, "10.9.0.1", {.count = 2}).received, 2U);
  std::sort(answered_ms.begin(), answered_ms.end());
  if (answered_ms.empty()) return;
  fmt::print(
      "killed {} times; the kernel went by on_failure after {:.0f} ms (median), {:.0f} ms (most), heartbeat "
      "90 ms\n",
      kills, answered_ms[answered_ms.size() / 2], answered_ms.back());
}

// A broker that dies takes the data plane along: nobody holds sockets without supervision.
TEST_P(Life, TheDataPlaneDiesWithItsBroker) {
  attach(inspect_all(kPass));
  const pid_t data_plane = attached_->data_plane();
  attached_->process().signal(SIGKILL);
  EXPECT_EQ(attached_->process().wait(3s), 137);
  EXPECT_TRUE(eventually([&] { return kill(data_plane, 0) != 0; }, 5s)) << "the data plane lives on";
  // What it says of that goes to the system log: who wrote its sentences is dead.
  EXPECT_EQ(product(*host_, {"detach", host_port().ifname()}).status, 0);
}

// ---- an interface that goes ------------------------------------------------------------------------

TEST(Vanished, ADeletedInterfaceEndsTheAttach) {
  if (const std::string reason = why_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
  const Namespace host("host"), left("left");
  const std::string prefix = fmt::format("xg{:x}", getpid()), name = prefix + "v";
  std::optional<Veth> wire;
  wire.emplace(host, name, left, prefix + "w");
  wire->up();
  Attached attached(host, {.interfaces = {name}, .policy = inspect_all(kPass)});
  wire.reset();
  EXPECT_EQ(attached.process().wait(10s), 1);
  const std::string said = attached.process().err();
  EXPECT_NE(said.find(name + " is gone"), std::string::npos) << said;
  EXPECT_EQ(std::count(said.begin(), said.end(), '\n'), 1) << said;
  EXPECT_EQ(leftovers(host, {}), std::vector<std::string>{});
}

// ---- an interface that changes ---------------------------------------------------------------------

class Changes : public OnOneWire {
 protected:
  // Everything is gone and nothing of the name is left.
  static bool nothing_at(const std::string& ifname) {
    return access(Pins::directory(ifname).c_str(), F_OK) != 0 &&
           access(run_file(ifname, "sock").c_str(), F_OK) != 0;
  }
  bool said(const std::string& words) {
    return eventually([&] { return attached_->process().err().find(words) != std::string::npos; }, 5s);
  }
};

TEST_F(Changes, ARenamedInterfaceGoesOnUnderItsNewName) {
  if (!kernel_at_least(6, 2)) GTEST_SKIP() << "before Linux 6.2 an interface that is up keeps its name";
  attach_both(inspect_udp(7000, kBounce));
  const std::string before = host_port().ifname(), now = before + "2";
  Load load(left_port(), many_flows(7000, 16, 25), 5000);
  // Of a dead attach of an interface of that name and another one.
  const std::string orphan = run_file(*host_, before + "3", "sock");
  ASSERT_EQ(symlink((now + ".sock").c_str(), orphan.c_str()), 0);
  std::optional<Interface> port = host_port().renamed(now);
  EXPECT_TRUE(said(fmt::format("{} was renamed: it is {} from now on", before, now)))
      << attached_->process().err();
  EXPECT_TRUE(nothing_at(before));
  const Pins pins(now);
  const auto transmitted = pins.worker("transmitted");
  EXPECT_TRUE(eventually([&] { return pins.worker("transmitted") > transmitted + 100; })) << pins.summary();
  for (const auto& name : {now, host_second().ifname()}) {
    const Outcome status = product(*host_, {"status", name, "-o", "json"});
    ASSERT_EQ(status.status, 0) << status.err;
    const Json ports = Json::parse(status.out).at("ports");
    EXPECT_EQ(ports.at(0).at("interface"), now);
    EXPECT_EQ(ports.at(0).at("pins"), Pins::directory(*host_, now));
  }
  EXPECT_EQ(product(*host_, {"status", before}).status, 1);
  const Outcome dead = product(*host_, {"status", before + "3"});
  EXPECT_NE(dead.err.find("is dead"), std::string::npos) << dead.out << dead.err;
  unlink(orphan.c_str());
  // A policy names it as it is called now.
  EXPECT_EQ(
      product(
          *host_,
          {"policy", "apply", now,
           TemporaryFile(inspect_udp(7000, fmt::format(R"({{"stage": "l2fwd", "to": "{}"}})", now))).path()})
          .status,
      0);
  load.end();
  const Outcome detach = product(*host_, {"detach", now});
  EXPECT_EQ(detach.status, 0) << detach.out << detach.err;
  EXPECT_EQ(attached_->process().wait(5s), 0) << attached_->process().err();
  EXPECT_TRUE(nothing_at(now));
  expect_conserved(pins);
  port->renamed(before);
}

TEST_F(Changes, AnInterfaceThatMovesAwayEndsTheAttach) {
  attach(inspect_udp(7000, kBounce));
  const Pins& pins = attached_->pins();
  Load load(left_port(), many_flows(7000, 16, 25), 5000);
  ASSERT_TRUE(eventually([&] { return pins.worker("transmitted") > 100; })) << pins.summary();
  const Namespace elsewhere("elsewhere");
  const Interface port = host_port().moved_to(elsewhere);
  EXPECT_EQ(attached_->process().wait(10s), 1);
  attached_->process().wait_for_end_of_output(2s);
  load.end();
  const std::string err = attached_->process().err();
  EXPECT_NE(err.find("moved to another network namespace"), std::string::npos) << err;
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
  EXPECT_EQ(xdp_state(port).mode, XdpAttach::none) << "where the interface is now";
  EXPECT_EQ(leftovers(*host_, {host_second().ifname()}), std::vector<std::string>{});
  EXPECT_TRUE(nothing_at(port.ifname()));
  const Json account = last_line(attached_->process().out());
  EXPECT_TRUE(account.value("frames_conserved", false)) << account;
  EXPECT_TRUE(account.value("packets_balanced", false)) << account;
  expect_conserved(pins);
  attached_.reset();
  port.moved_to(*host_);
}

// What its rings hold then has no way out: nobody is told that it was waited for.
TEST_F(Changes, PacketsThatAnInterfaceTakesAwayAreCountedAndNotWaitedFor) {
  attach_both(inspect_udp(7000, fmt::format(R"({{"stage": "l2fwd", "to": "{}"}})", host_second().ifname())));
  host_second().down();
  Sender(left_port()).send(many_flows(7000, 4, 5));
  const Pins& pins = attached_->pins();
  ASSERT_TRUE(eventually([&] { return pins.worker("redirected") >= 20; })) << pins.summary();
  const Namespace elsewhere("elsewhere");
  const Interface second = host_second().moved_to(elsewhere);
  const auto gone = std::chrono::steady_clock::now();
  EXPECT_EQ(attached_->process().wait(10s), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - gone, 2000ms) << "so long others' packets are waited for";
  attached_->process().wait_for_end_of_output(2s);
  const std::string err = attached_->process().err();
  EXPECT_NE(err.find("moved to another network namespace"), std::string::npos) << err;
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
  const Json account = last_line(attached_->process().out());
  EXPECT_TRUE(account.value("frames_conserved", false)) << account;
  EXPECT_TRUE(account.value("packets_balanced", false)) << account;
  EXPECT_EQ(pins.worker("error_refused"), 20u) << pins.summary();
  expect_conserved(pins);
  attached_.reset();
  second.moved_to(*host_);
}

// Away and back before anybody has looked: its sockets are gone all the same.
TEST_F(Changes, AnInterfaceThatMovesAwayAndBackEndsTheAttach) {
  attach(inspect_udp(7000, kBounce));
  const Namespace elsewhere("elsewhere");
  host_port().moved_to(elsewhere).moved_to(*host_);
  EXPECT_EQ(attached_->process().wait(10s), 1);
  EXPECT_EQ(leftovers(*host_, {host_port().ifname(), host_second().ifname()}), std::vector<std::string>{});
}

TEST_F(Changes, AProgramThatIsTakenOffEndsTheAttach) {
  attach(inspect_udp(7000, kBounce));
  const Pins& pins = attached_->pins();
  Load load(left_port(), many_flows(7000, 16, 25), 5000);
  ASSERT_TRUE(eventually([&] { return pins.worker("transmitted") > 100; })) << pins.summary();
  const Fd link(bpf_link_get_fd_by_id(xdp_link_id(host_port())));
  if (!link) GTEST_SKIP() << "libxdp's dispatcher runs it";
  ASSERT_EQ(bpf_link_detach(link.get()), 0);
  EXPECT_EQ(attached_->process().wait(10s), 1);
  attached_->process().wait_for_end_of_output(2s);
  load.end();
  const std::string err = attached_->process().err();
  EXPECT_NE(err.find(host_port().ifname() + " was taken off"), std::string::npos) << err;
  EXPECT_EQ(std::count(err.begin(), err.end(), '\n'), 1) << err;
  EXPECT_EQ(leftovers(*host_, {host_port().ifname(), host_second().ifname()}), std::vector<std::string>{});
  const Json account = last_line(attached_->process().out());
  EXPECT_TRUE(account.value("frames_conserved", false)) << account;
  EXPECT_TRUE(account.value("packets_balanced", false)) << account;
}

TEST_F(Changes, TrafficGoesOnWhenTheLinkIsUpAgain) {
  attach(inspect_udp(7000, kBounce));
  const Pins& pins = attached_->pins();
  const auto bounced = [&] {
    Sniffer left(left_port());
    const auto frames = many_flows(7000, 16, 5);
    Sender(left_port()).send_paced(frames, 5000);
    return left.take(frames.size(), 3000ms, udp_to(7000)).size();
  };
  EXPECT_EQ(bounced(), 80U);
  for (const Interface* end : {&host_port(), &left_port()}) {
    std::optional<Load> load;  // a socket on an interface that is down refuses
    if (end == &host_port()) load.emplace(left_port(), many_flows(7001, 16, 5), 2000);
    end->down();
    std::this_thread::sleep_for(300ms);
    end->up();
    load.reset();
    ASSERT_TRUE(eventually([&] { return host_port().running() && left_port().running(); }));
    const auto transmitted = pins.worker("transmitted");
    EXPECT_EQ(bounced(), 80U) << pins.summary() << attached_->process().err();
    EXPECT_EQ(pins.worker("transmitted"), transmitted + 80) << "counts go on";
  }
  EXPECT_EQ(attached_->detach().status, 0) << attached_->process().err();
  expect_conserved(pins);
}

TEST_F(Changes, AnMtuThatGoesUpOrDownMisjudgesNothing) {
  attach(inspect_udp(7000, kBounce));
  const Pins& pins = attached_->pins();
  Sniffer left(left_port());
  const auto bounced = [&](std::size_t payload) {
    const auto before = pins.worker("transmitted");
    Sender(left_port()).send(build(from_left(1000, 7000, std::string(payload, 'x'))));
    eventually([&] { return pins.worker("transmitted") > before; }, 300ms);
    return left.take(1, 200ms, udp_to(7000)).size() == 1;
  };
  EXPECT_TRUE(bounced(1000));
  host_port().set_mtu(1000);
  EXPECT_TRUE(bounced(900));
  // A veth end takes what its peer sends, and native XDP keeps the peer from sending more than it can have.
  host_port().set_mtu(9000);
  EXPECT_TRUE(said("the MTU of " + host_port().ifname() + " was raised to 9000"))
      << attached_->process().err();
  EXPECT_TRUE(bounced(1400));
  EXPECT_EQ(attached_->detach().status, 0) << attached_->process().err();
  expect_conserved(pins);
}

TEST_F(Changes, QueuesWithoutAWorkerGoByOnFailure) {
  config_.queues = 1;
  const Namespace host("queues"), other("other");
  const std::string prefix = fmt::format("xg{:x}", getpid());
  Veth wire(host, prefix + "q", other, prefix + "p", {.queues = 2});
  // Native XDP wants a receive queue for each that the peer sends by.
  wire.b().set_channels(2, 1);
  wire.a().set_channels(1, 2);
  wire.up();
  Attached attached(host, {.interfaces = {wire.a().ifname()},
                           .policy = inspect_udp(7000, kBounce, R"("on_failure": "drop")")});
  const Pins& pins = attached.pins();
  std::vector<Frame> frames;
  for (std::uint16_t flow = 0; flow < 64; ++flow)
    frames.push_back(build({.src = wire.b().mac(),
                            .dst = wire.a().mac(),
                            .src_ip = "10.9.0.2",
                            .dst_ip = "10.9.0.1",
                            .src_port = static_cast<std::uint16_t>(20000 + flow),
                            .dst_port = 7000,
                            .payload = "flow"}));
  Sender sender(wire.b());
  sender.send_paced(frames, 5000);
  ASSERT_TRUE(eventually([&] { return pins.worker("transmitted") == 64; })) << pins.summary();
  wire.a().set_channels(2, 2);
  wire.b().set_channels(2, 2);
  EXPECT_TRUE(eventually(
      [&] {
        return attached.process().err().find("has 2 receive queues now, and 1 of them") != std::string::npos;
      },
      5s))
      << attached.process().err();
  // Some kernels run no program on a veth's new queue: what is sent there comes up untouched, and is not
  // lost. What meets the program is dropped.
  Sniffer up(wire.a());
  std::size_t past = 0;
  EXPECT_TRUE(eventually([&] {
    sender.send_paced(frames, 5000);
    past += up.drain(20ms, 500ms, udp_to(7000)).size();
    return pins.kernel("drop_failure") + past > 0 && pins.worker("transmitted") > 64;
  })) << pins.summary();
  fmt::print("a veth's new queue: {} by on_failure, {} past XDP\n", pins.kernel("drop_failure"), past);
  EXPECT_EQ(pins.kernel("pass_failure"), 0U);
  EXPECT_TRUE(eventually([&] {
    return pins.kernel("received") == pins.kernel("drop_failure") + pins.kernel("pass_default") +
                                          pins.kernel("pass_control") + pins.worker("received");
  })) << "something that met the program came up; "
      << pins.summary();
  EXPECT_EQ(attached.detach().status, 0) << attached.process().err();
  expect_conserved(pins);
  EXPECT_EQ(leftovers(host, {wire.a().ifname()}), std::vector<std::string>{});
}

TEST_F(Changes, TerminationUnderTrafficAccountsForEveryPacket) {
  attach(inspect_udp(7000, kBounce));
  const Pins& pins = attached_->pins();
  Sniffer left(left_port());
  Load load(left_port(), many_flows(7000, 16, 25), 20000);
  ASSERT_TRUE(eventually([&] { return pins.worker("transmitted") > 500; })) << pins.summary();
  attached_->process().signal(SIGTERM);
  EXPECT_EQ(attached_->process().wait(10s), 0) << attached_->process().err();
  attached_->process().wait_for_end_of_output(2s);
  load.end();
  const Json account = last_line(attached_->process().out());
  EXPECT_TRUE(account.value("frames_conserved", false)) << account;
  EXPECT_TRUE(account.value("packets_balanced", false)) << account;
  expect_conserved(pins);
  EXPECT_EQ(left.drain(100ms, 5000ms, udp_to(7000)).size(), pins.worker("transmitted"));
}

// ---- one wire --------------------------------------------------------------------------------------

class Pinned : public OnOneWire {};

TEST_F(Pinned, EveryMapIsPinnedWithItsTypes) {
  attach(inspect_all(kPass));
  const std::string directory = Pins::directory(host_port().ifname());
  struct stat info {};
  ASSERT_EQ(stat(directory.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0700U);
  const auto maps = pinned_maps(directory);
  std::vector<std::string> names;
  for (const PinInfo& map : maps) {
    names.push_back(map.name);
    // Sockets, devices, programs and inner maps are the kernel's own objects: their values have no names.
    if (map.name == "xsks" || map.name == "tx_ports" || map.name == "policy_lines" ||
        map.name == "policy_rows" || map.name == "user_programs")
      continue;
    EXPECT_NE(map.btf_id, 0U) << map.name;
    EXPECT_NE(map.btf_value_type_id, 0U) << map.name;
    EXPECT_NE(map.btf_key_type_id, 0U) << map.name;
  }
  for (const char* name : {"config", "policy", "queue_state", "order_slots", "flow_verdicts", "flow_stats",
                           "mirror_rings", "mirror_state", "rewrites", "limits", "counters", "rule_counters",
                           "rule_shed", "worker_counters", "queue_metrics"})
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name << " is not pinned";
}

// The numbers and names of a program's maps.
std::map<unsigned, std::string> maps_of(unsigned program) {
  std::map<unsigned, std::string> maps;
  const Fd fd(bpf_prog_get_fd_by_id(program));
  std::array<__u32, 64> ids{};
  bpf_prog_info info{};
  info.nr_map_ids = static_cast<__u32>(ids.size());
  info.map_ids = reinterpret_cast<__u64>(ids.data());
  __u32 size = sizeof(info);
  if (!fd || bpf_obj_get_info_by_fd(fd.get(), &info, &size) != 0) return maps;
  for (__u32 i = 0; i < info.nr_map_ids; ++i) {
    const Fd map(bpf_map_get_fd_by_id(ids[i]));
    bpf_map_info about{};
    size = sizeof(about);
    if (map && bpf_obj_get_info_by_fd(map.get(), &about, &size) == 0) maps[ids[i]] = about.name;
  }
  return maps;
}

// README names those that are not pinned, and those without types.
TEST_F(Pinned, WhatIsWrittenOfTheMapsIsSo) {
  attach(inspect_all(kPass));
  auto maps = maps_of(xdp_state(host_port()).program_id);
  std::set<std::string> unpinned, untyped;
  for (const PinInfo& pin : pinned_maps(Pins::directory(host_port().ifname()))) {
    maps.erase(pin.id);
    if (pin.btf_value_type_id == 0) untyped.insert(pin.name);
  }
  // The kernel cuts names to 15 characters: "xdpgpu_b.rodata".
  for (const auto& [id, name] : maps)
    unpinned.insert(name.find('.') == std::string::npos ? name : name.substr(name.find('.')));
  EXPECT_EQ(unpinned, (std::set<std::string>{"clocks", "fragments", ".rodata"}));
  EXPECT_EQ(untyped,
            (std::set<std::string>{"policy_lines", "policy_rows", "tx_ports", "user_programs", "xsks"}));
  std::ifstream file(XDPGPU_SOURCE_DIR "/README.md");
  if (!file) GTEST_SKIP() << "there is no README on this host";
  std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto start = text.find("## The maps");
  ASSERT_NE(start, std::string::npos);
  text = text.substr(start, text.find("```", start) - start);
  EXPECT_NE(text.find("Every map but three is pinned"), std::string::npos);
  for (const auto* names : {&unpinned, &untyped})
    for (const auto& name : *names) EXPECT_NE(text.find("`" + name + "`"), std::string::npos) << name;
}

TEST_F(Pinned, DaemonAttachesInTheBackground) {
  const TemporaryFile file(inspect_all(kPass));
  const std::vector<std::string> links{host_port().ifname(), host_second().ifname()};
  const Outcome attach = product(*host_, {"attach", host_port().ifname(), "--policy", file.path(), "--mode",
                                          "copy", "--device", device_under_test(), "--daemon"});
  ASSERT_EQ(attach.status, 0) << attach.out << attach.err;
  EXPECT_EQ(xdp_state(host_port()).mode, XdpAttach::native);
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 2}).received, 2U);
  EXPECT_GE(Pins(host_port().ifname()).worker("passed"), 2U);
  const Outcome detach = product(*host_, {"detach", host_port().ifname()});
  EXPECT_EQ(leftovers(*host_, links), std::vector<std::string>{}) << "detach returns when all is undone";
  EXPECT_EQ(detach.status, 0) << detach.out << detach.err;
}

TEST_F(Pinned, OffloadsAreAsBefore) {
  const bool vlan = host_port().feature("rx-vlan-hw-parse"), gro = host_port().feature("rx-gro");
  attach(inspect_all(kPass));
  EXPECT_EQ(attached_->detach().status, 0);
  EXPECT_EQ(host_port().feature("rx-vlan-hw-parse"), vlan);
  EXPECT_EQ(host_port().feature("rx-gro"), gro);
}

}  // namespace
}  // namespace xdpgpu::lab
