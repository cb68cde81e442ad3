// SPDX-License-Identifier: MIT
//
// tests/netns/death_test.cpp: what dies, and what it opens: nothing. The data plane alone, the broker alone,
// both, and for want of memory.
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "tests/netns/control_socket.hpp"
#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr const char* kPass = R"({"stage": "acl", "rules": [], "default": "pass"})";
constexpr const char* kBounce = R"({"stage": "l2fwd"})";

// Nothing but UDP 7000 is let in, and that is sent back; so no ping is ever answered.
std::string closed(const std::string& more = "") {
  return policy(R"("default": "drop", "on_failure": "drop", "on_overload": "drop",
    "rules": [{"match": {"proto": "udp", "dst_port": 7000}, "action": {"inspect": "p"}}],
    "pipelines": {"p": [{"stage": "l2fwd"}]})" +
                more);
}

// Pings all the time, until it goes.
class Pinging {
 public:
  explicit Pinging(const Namespace& from)
      : thread_([this, &from] {
          while (!stop_) {
            const PingResult result = ping(from, "10.9.0.1", {.count = 5, .interval = 5ms, .timeout = 20ms});
            sent_ += result.sent;
            received_ += result.received;
          }
        }) {}
  ~Pinging() { end(); }
  void end() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  unsigned sent() const { return sent_; }
  unsigned received() const { return received_; }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<unsigned> sent_{0}, received_{0};
  std::thread thread_;
};

class Death : public OnTheWire {
 protected:
  // Of the attach's children; -1: there is none now.
  pid_t child() const {
    try {
      const auto children = but_for_the_compiler(attached_->process().pid());
      return children.size() == 1 ? children.front() : -1;
    } catch (const std::exception&) {
      return -1;  // it went while it was looked at
    }
  }
  Json status() const {
    const Outcome outcome = product(*host_, {"status", host_port().ifname(), "-o", "json"});
    return Json::parse(outcome.out, nullptr, false);
  }
  Json life() const {
    const Json report = status();
    return report.is_object() ? report.value("data_plane", Json::object()) : Json::object();
  }
  // Another one than `before`, which answers.
  bool is_back(pid_t before) {
    return eventually([&] { return child() > 0 && child() != before && life().value("lives", false); }, 30s);
  }
  void kill_it(int signal = SIGKILL) {
    const pid_t before = attached_->data_plane();
    kill(before, signal);
    EXPECT_TRUE(is_back(before)) << attached_->process().err();
  }
  // As often as it takes for it to stay dead.
  void kill_for_good() {
    for (int i = 0; i < 5; ++i) {
      pid_t victim = -1;
      ASSERT_TRUE(eventually([&] { return (victim = child()) > 0; }, 10s)) << attached_->process().err();
      kill(victim, SIGKILL);
      ASSERT_TRUE(eventually([&] { return child() != victim; }, 10s));
    }
    ASSERT_TRUE(eventually([&] { return life().value("state", "") == "dead"; }, 10s)) << life();
  }
  std::string said() const { return attached_->process().err(); }
  bool bounces() {
    Sniffer left(left_port());
    Sender(left_port()).send(build(from_left(1000, 7000, "bounce")));
    return left.take(1, 500ms, with_payload("bounce")).size() == 1;
  }
};
INSTANTIATE_TEST_SUITE_P(Netns, Death, testing::Values(Config{false, 2, "split"}, Config{true, 1}),
                         config_name);

// ---- the data plane alone --------------------------------------------------------------------------

TEST_P(Death, OfTheDataPlaneAnswersNoPing) {
  attach(closed());
  const auto link = xdp_link_id(host_port());
  EXPECT_TRUE(eventually([&] { return bounces(); }));
  for (const int signal : {SIGKILL, SIGSEGV, SIGSYS}) {
    Pinging pinging(*left_);
    kill_it(signal);
    EXPECT_TRUE(eventually([&] { return bounces(); })) << said();
    ASSERT_TRUE(eventually([&] { return pinging.sent() >= 50; }, 10s));
    pinging.end();
    EXPECT_EQ(pinging.received(), 0U) << signal;
  }
  EXPECT_EQ(xdp_link_id(host_port()), link);
  const std::string sentences = said();
  for (const char* word : {"killed by signal 9", "killed by signal 11", "system-call filter", "is back"})
    EXPECT_NE(sentences.find(word), std::string::npos) << sentences;
  EXPECT_EQ(life().value("deaths", 0), 3);
  EXPECT_EQ(attached_->detach().status, 0) << said();
}

TEST_P(Death, OfTheDataPlanePassesWhereThePolicySaysSo) {
  attach(inspect_all(kPass, R"("on_failure": "pass", "io": {"heartbeat": "100ms"})"));
  EXPECT_TRUE(eventually([&] { return ping(*left_, "10.9.0.1", {.count = 1}).received == 1; }));
  kill_for_good();
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 5}).received, 5U);
  EXPECT_GE(attached_->pins().kernel("pass_failure"), 5U);
}

TEST_P(Death, FiveWithinAMinuteAreTheLast) {
  attach(closed());
  Pinging pinging(*left_);
  kill_for_good();
  EXPECT_FALSE(bounces());
  EXPECT_GT(attached_->pins().kernel("drop_failure"), 0U);
  std::this_thread::sleep_for(1500ms);
  EXPECT_EQ(child(), -1) << "it stays dead";
  const std::string& name = host_port().ifname();
  EXPECT_EQ(life().value("deaths", 0), 5);
  EXPECT_NE(life().value("summary", "").find("is dropped (on_failure)"), std::string::npos) << life();
  const Outcome text = product(*host_, {"status", name});
  EXPECT_EQ(text.status, 6) << "dead";
  for (const char* word :
       {"THERE IS NO DATA PLANE", "died 5 times", "killed by signal 9", "detach", "dropped: no live"})
    EXPECT_NE(text.out.find(word), std::string::npos) << text.out;
  EXPECT_NE(said().find("is not started again"), std::string::npos) << said();
  // Whatever else is asked for is refused, with the reason; but for bypass.
  const TemporaryFile file(closed());
  const Outcome apply = product(*host_, {"policy", "apply", name, file.path()});
  EXPECT_EQ(apply.status, 1);
  EXPECT_NE(apply.err.find("has no data plane"), std::string::npos) << apply.err;
  pinging.end();
  EXPECT_EQ(pinging.received(), 0U);
  EXPECT_EQ(product(*host_, {"bypass", "on", name}).status, 0);
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1}).received, 1U);
  EXPECT_EQ(product(*host_, {"bypass", "off", name}).status, 0);
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1, .timeout = 200ms}).received, 0U);
  expect_conserved(attached_->pins());
  const Outcome detach = product(*host_, {"detach", name});
  EXPECT_EQ(detach.status, 0) << detach.out << detach.err;
  EXPECT_EQ(attached_->process().wait(5s), 0) << said();
  EXPECT_EQ(leftovers(*host_, {name, host_second().ifname()}), std::vector<std::string>{});
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1}).received, 1U);
}

TEST_P(Death, OneThatStaysDeadIsLeftToTheNextAttach) {
  attach(closed());
  Pinging pinging(*left_);
  const auto link = xdp_link_id(host_port());
  kill_for_good();
  const Outcome outcome = product(*host_, {"detach", host_port().ifname(), "--keep", "-o", "json"});
  EXPECT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_TRUE(Json::parse(outcome.out, nullptr, false).value("kept", false)) << outcome.out;
  EXPECT_EQ(attached_->process().wait(5s), 0);
  const std::unique_ptr<Attached> dead = std::move(attached_);
  attach(closed());
  EXPECT_EQ(xdp_link_id(host_port()), link);
  EXPECT_TRUE(attached_->ready().contains("goes_on"));
  EXPECT_TRUE(eventually([&] { return bounces(); }));
  pinging.end();
  EXPECT_EQ(pinging.received(), 0U);
}

TEST_P(Death, AnInterruptEndsOneThatStaysDead) {
  attach(closed());
  kill_for_good();
  attached_->process().signal(SIGTERM);
  EXPECT_EQ(attached_->process().wait(5s), 0) << said();
  EXPECT_EQ(leftovers(*host_, {host_port().ifname(), host_second().ifname()}), std::vector<std::string>{});
}

// Losing the terminal is none.
TEST_P(Death, AHangupIsNoOrder) {
  attach(closed());
  attached_->process().signal(SIGHUP);
  EXPECT_EQ(attached_->process().wait(300ms), -1);
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 2, .timeout = 100ms}).received, 0U);
  EXPECT_TRUE(eventually([&] { return bounces(); }));
  EXPECT_EQ(attached_->detach().status, 0);
}

// All threads of the process have come to a stop.
bool is_stopped(pid_t process) {
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator(fmt::format("/proc/{}/task", process), error)) {
    std::ifstream file(task.path() / "stat");
    const std::string stat{std::istreambuf_iterator<char>(file), {}};
    if (stat.find(") T ") == std::string::npos) return false;
  }
  return !error;
}

TEST_P(Death, WhatIsLostIsCountedOnce) {
  attach(inspect_udp(7000, kBounce, R"("on_failure": "drop", "io": {"heartbeat": "5s"})"));
  const Pins& pins = attached_->pins();
  const auto frames = many_flows(7000, 16, 20);
  for (int i = 0; i < 3; ++i) {
    // Stopped, it takes nothing from its rings.
    const pid_t victim = attached_->data_plane();
    kill(victim, SIGSTOP);
    ASSERT_TRUE(eventually([&] { return is_stopped(victim); }));
    const auto before = pins.worker("lost_with_worker"), inspected = pins.kernel("inspected");
    Sender(left_port()).send(frames);
    ASSERT_TRUE(eventually([&] { return pins.kernel("inspected") == inspected + frames.size(); }))
        << pins.summary();
    kill(victim, SIGKILL);
    ASSERT_TRUE(is_back(victim)) << said();
    EXPECT_EQ(pins.worker("lost_with_worker"), before + frames.size()) << pins.summary();
    expect_conserved(pins);
  }
  const Outcome detach = attached_->detach();
  EXPECT_EQ(detach.status, 0) << detach.out << detach.err;
  EXPECT_NE(detach.out.find("\"packets_balanced\":true"), std::string::npos) << detach.out;
}

// XDPGPU_FAULT for the programs that are started while it lives.
class Fault {
 public:
  explicit Fault(const char* fault) { setenv("XDPGPU_FAULT", fault, 1); }
  ~Fault() { unsetenv("XDPGPU_FAULT"); }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
};

std::string content_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The packet of death comes again as soon as it can, and is found in what is kept of each batch.
TEST_P(Death, KeepsTheHeadersOfThePacketsThatItHad) {
  if (device_under_test().starts_with("vulkan")) GTEST_SKIP() << "its frames are the data plane's alone";
  const Fault fault("die:1");
  attach(closed());
  const std::string poison = "poison";
  Sender sender(left_port());
  std::vector<std::string> files;
  for (int i = 1; i <= 5; ++i) {
    const pid_t before = attached_->data_plane();
    sender.send(
        build(from_left(static_cast<std::uint16_t>(2000 + i), 7000, fmt::format("{} {}", poison, i))));
    if (i < 5)
      ASSERT_TRUE(is_back(before)) << said();
    else
      ASSERT_TRUE(eventually([&] { return life().value("state", "") == "dead"; }, 10s)) << said();
    const Json last = life().at("last_death");
    EXPECT_NE(last.at("how").get<std::string>().find("signal 6"), std::string::npos) << last;
    const auto headers = last.value("headers", std::string());
    const std::string path = headers.substr(0, headers.find(' '));
    struct stat info {};
    ASSERT_EQ(stat(path.c_str(), &info), 0) << last << said();
    EXPECT_EQ(info.st_mode & 07777U, 0600U);
    EXPECT_EQ(info.st_uid, 0U);
    const std::string content = content_of(path);
    // pcap's magic, nanoseconds.
    EXPECT_EQ(content.substr(0, 4), "\x4d\x3c\xb2\xa1");
    EXPECT_NE(content.find(fmt::format("{} {}", poison, i)), std::string::npos) << headers;
    EXPECT_EQ(content.find(fmt::format("{} {}", poison, i - 1)), std::string::npos) << "of one that was gone";
    EXPECT_NE(headers.find("(1 packet)"), std::string::npos) << headers;
    EXPECT_NE(said().find(path), std::string::npos) << said();
    files.push_back(path);
  }
  for (const auto& path : files) std::filesystem::remove(path);
}

// ---- what it goes on with --------------------------------------------------------------------------

TEST_P(Death, ThePolicyThatWasAppliedLastGoesOn) {
  attach(policy(R"("default": "pass")"));
  const Pins& pins = attached_->pins();
  // With a list beside it, which is gone by then.
  {
    const TemporaryFile list("203.0.113.0/24\n198.51.100.7\n", ".txt");
    const std::string applied = policy(fmt::format(R"("default": "drop", "lists": {{"bad": {{"file": "{}"}}}},
      "rules": [{{"match": {{"src": "@bad"}}, "action": "drop"}},
                {{"match": {{"proto": "udp", "dst_port": 7000}}, "action": {{"inspect": "p"}}}}],
      "on_failure": "drop", "io": {{"heartbeat": "5s"}}, "pipelines": {{"p": [{{"stage": "l2fwd"}}]}})",
                                                   list.path()));
    ASSERT_EQ(attached_->apply(applied).status, 0);
  }
  const auto show = [&] { return ask(host_port().ifname(), "policy.show").at("result"); };
  const Json before = show();
  const auto generation = XG_ACTIVE_GENERATION(pins.config().active);
  Pinging pinging(*left_);
  kill_it();
  kill_it();
  EXPECT_EQ(show(), before);
  EXPECT_EQ(XG_ACTIVE_GENERATION(pins.config().active), generation) << "flow verdicts count on";
  EXPECT_TRUE(eventually([&] { return bounces(); }));
  pinging.end();
  EXPECT_EQ(pinging.received(), 0U);
}

TEST_P(Death, APolicyThatNobodyConfirmedGivesWay) {
  attach(policy(R"("default": "pass")"));
  const TemporaryFile lockout(policy(R"("default": "drop")"));
  ASSERT_EQ(
      product(*host_, {"policy", "apply", host_port().ifname(), lockout.path(), "--confirm", "600s"}).status,
      0);
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1, .timeout = 200ms}).received, 0U);
  kill_it();
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1}).received, 1U);
  EXPECT_TRUE(eventually([&] { return said().find("is in force again") != std::string::npos; })) << said();
  // One that was confirmed does not.
  ASSERT_EQ(
      product(*host_, {"policy", "apply", host_port().ifname(), lockout.path(), "--confirm", "600s"}).status,
      0);
  ASSERT_EQ(product(*host_, {"policy", "confirm", host_port().ifname()}).status, 0);
  kill_it();
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1, .timeout = 200ms}).received, 0U);
}

TEST_P(Death, BypassAndAuditGoOn) {
  attach(closed(), {"--audit"});
  kill_it();
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1}).received, 1U) << "counted, and passed";
  EXPECT_TRUE(status().at("policy").at("audit").get<bool>());
  ASSERT_EQ(attached_->apply(closed()).status, 0);
  kill_it();
  EXPECT_FALSE(status().at("policy").at("audit").get<bool>());
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1, .timeout = 200ms}).received, 0U);
  ASSERT_EQ(product(*host_, {"bypass", "on", host_port().ifname()}).status, 0);
  kill_it();
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 1}).received, 1U);
  EXPECT_NE(said().find("bypass is still on"), std::string::npos);
}

// ---- the broker, both, and for want of memory ------------------------------------------------------

TEST_P(Death, OfTheBrokerAloneAndOfBothOpensNothing) {
  for (const bool both : {false, true})
    for (const bool passes : {false, true}) {
      SCOPED_TRACE(fmt::format("{}, on_failure {}", both ? "both" : "the broker", passes ? "pass" : "drop"));
      attach(passes ? inspect_all(kPass, R"("on_failure": "pass", "io": {"heartbeat": "100ms"})") : closed());
      const pid_t data_plane = attached_->data_plane();
      Pinging pinging(*left_);
      attached_->process().signal(SIGKILL);
      if (both) kill(data_plane, SIGKILL);
      EXPECT_EQ(attached_->process().wait(5s), 128 + SIGKILL);
      EXPECT_TRUE(
          eventually([&] { return process_name(data_plane).empty() || kill(data_plane, 0) != 0; }, 10s))
          << "it goes on without its broker";
      std::this_thread::sleep_for(200ms);
      const auto dead = std::move(attached_);
      const auto received = pinging.received();
      EXPECT_TRUE(eventually([&] { return pinging.sent() > 100; }, 10s));
      pinging.end();
      EXPECT_NE(xdp_link_id(host_port()), 0U) << "the program stays";
      if (passes) {
        EXPECT_GT(pinging.received(), received);
        EXPECT_GT(dead->pins().kernel("pass_failure"), 0U);
      } else {
        EXPECT_EQ(pinging.received(), 0U);
        EXPECT_FALSE(bounces());
      }
      EXPECT_EQ(product(*host_, {"detach", host_port().ifname()}).status, 0);
    }
}

// A memory control group of the first kind or the second; `path` empty: none can be made here.
struct MemoryGroup {
  MemoryGroup() {
    namespace fs = std::filesystem;
    const std::string name = fmt::format("xdpgpu-test-{}", getpid());
    std::error_code error;
    for (const auto& [root, limit] :
         {std::pair<fs::path, const char*>{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
          {"/sys/fs/cgroup", "memory.max"}}) {
      if (!fs::exists(root / "cgroup.procs", error) || !fs::create_directory(root / name, error)) continue;
      if (fs::exists(root / name / limit, error)) {
        path = root / name;
        limit_file = path / limit;
        return;
      }
      fs::remove(root / name, error);
    }
  }
  ~MemoryGroup() {
    if (path.empty()) return;
    eventually([&] { return rmdir(path.c_str()) == 0; });
  }
  void take(pid_t process) const { std::ofstream(path / "cgroup.procs") << process << std::flush; }
  void limit(const std::string& bytes) const { std::ofstream(limit_file) << bytes << std::flush; }
  std::filesystem::path path, limit_file;
};

TEST_P(Death, ForWantOfMemoryOpensNothing) {
  const MemoryGroup group;
  if (group.path.empty()) GTEST_SKIP() << "no memory control group can be made here";
  attach(closed());
  const pid_t before = attached_->data_plane();
  // Both of them, as in a unit or a container: the kernel is to choose the right one.
  group.take(attached_->process().pid());
  group.take(before);
  group.limit("32M");
  std::string list;
  for (unsigned i = 0; i < 400'000; ++i)
    list += fmt::format("{}.{}.{}.{}/32\n", 16 + i / 65536, i / 256 % 256, i % 256, i * 7 % 256);
  const TemporaryFile file(list, ".txt");
  Pinging pinging(*left_);
  const Outcome outcome = attached_->apply(policy(fmt::format(
      R"("default": "pass", "lists": {{"l": {{"file": "{}"}}}}, "rules": [{{"match": {{"src": "@l"}}, "action": "drop"}}])",
      file.path())));
  EXPECT_NE(outcome.status, 0) << "it was to die of that";
  group.limit(group.limit_file.filename() == "memory.max" ? "max" : "-1");
  EXPECT_EQ(attached_->process().wait(0ms), -1) << "the broker lives: " << said();
  // The compiler goes first, which costs the command alone. The data plane goes instead, or after it: a
  // compiler that is started anew takes of the same memory.
  ASSERT_TRUE(eventually([&] { return child() > 0 && life().value("lives", false); }, 30s)) << said();
  EXPECT_TRUE(eventually([&] { return bounces(); })) << said();
  pinging.end();
  EXPECT_GT(pinging.sent(), 0U);
  EXPECT_EQ(pinging.received(), 0U);
  EXPECT_NE(said().find("killed by signal 9"), std::string::npos) << said();
  EXPECT_EQ(attached_->detach().status, 0);
}

// ---- what else ends an attach ----------------------------------------------------------------------

// That one interface goes opens no other.
TEST_P(Death, OfOneInterfaceOpensNoOther) {
  attach_both(closed());
  Pinging pinging(*left_);
  ASSERT_TRUE(eventually([&] { return pinging.sent() > 10; }));
  const Namespace elsewhere("elsewhere");
  const Interface port = host_second().moved_to(elsewhere);
  EXPECT_EQ(attached_->process().wait(10s), 1) << said();
  const auto sent = pinging.sent();
  ASSERT_TRUE(eventually([&] { return pinging.sent() > sent + 50; }, 10s));
  pinging.end();
  EXPECT_EQ(pinging.received(), 0U);
  EXPECT_NE(said().find("other interfaces keep the program"), std::string::npos) << said();
  EXPECT_EQ(xdp_state(port).mode, XdpAttach::none) << "it is taken off where the interface is now";
  const std::string name = host_second().ifname();
  EXPECT_NE(access(Pins::directory(name).c_str(), F_OK), 0);
  EXPECT_EQ(product(*host_, {"detach", host_port().ifname()}).status, 0);
  port.moved_to(*host_);
}

}  // namespace
}  // namespace xdpgpu::lab
