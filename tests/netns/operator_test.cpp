// SPDX-License-Identifier: MIT
//
// tests/netns/operator_test.cpp: what somebody meets who attaches for the first time, sends signals, or
// starts it from where descriptors are closed.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <signal.h>
#include <unistd.h>

#include <fstream>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr const char* kOpen = R"({"version": 1, "default": "pass"})";
constexpr const char* kClosed = R"({"version": 1, "default": "drop", "fragments": "drop"})";

class Operator : public OnOneWire {
 protected:
  bool answers() const { return ping(*left_, "10.9.0.1", {.count = 1, .timeout = 200ms}).received == 1; }
  bool nothing_is_left() const {
    return eventually(
        [&] {
          return leftovers(*host_, {host_port().ifname(), host_second().ifname()}).empty();
        },
        10s);
  }
  std::string name() const { return host_port().ifname(); }
  // Runs a shell's line on the host, with $XG, $IF and $DEV.
  Outcome shell(const std::string& line) const {
    return run_program(
        *host_,
        {"/usr/bin/unshare", "--mount", "/bin/sh", "-c",
         fmt::format("XG={} IF={} DEV={}; {}", product_path(), name(), device_under_test(), line)},
        60s);
  }
  // Likewise, where nobody is logged in.
  Outcome shell_alone(const std::string& line) const { return shell("mount -t tmpfs tmpfs /run && " + line); }
  // Likewise, where /etc is a folder that holds the users, and an empty xdpgpu: the machine's own is not
  // touched.
  Outcome shell_with_etc(const std::string& line) const {
    return shell(
        fmt::format("etc=$(mktemp -d) && cp /etc/passwd /etc/group $etc && mkdir $etc/xdpgpu && mount --bind "
                    "$etc /etc && "
                    "{{ {}; status=$?; umount -l /etc; rm -rf $etc; exit $status; }}",
                    line));
  }
};

// ---- the first policy --------------------------------------------------------------------------------

TEST_F(Operator, WithoutAPolicyAttachRefusesAndSaysHowToGetOne) {
  const Outcome outcome = shell_with_etc("$XG attach $IF --mode copy --device $DEV --daemon");
  EXPECT_EQ(outcome.status, 2) << outcome.out;
  for (const char* words : {"/etc/xdpgpu/policy.json", "policy init", "--pass-all", "--policy"})
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  EXPECT_EQ(xdp_state(host_port()).mode, XdpAttach::none);
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Operator, PassAllIsToBeSaidAndAlone) {
  const TemporaryFile closed(kClosed);
  const Outcome both = product(*host_, {"attach", name(), "--pass-all", "--policy", closed.path()});
  EXPECT_EQ(both.status, 2) << both.out << both.err;
  EXPECT_NE(both.err.find("--pass-all"), std::string::npos) << both.err;
  attached_ = std::make_unique<Attached>(*host_, AttachSpec{.interfaces = {name()}});
  EXPECT_TRUE(answers());
}

TEST_F(Operator, ThePolicyThatEverythingNamesIsTaken) {
  const Outcome outcome = shell_with_etc(fmt::format(
      "echo '{}' > /etc/xdpgpu/policy.json && $XG attach $IF --mode copy --device $DEV --daemon && "
      "$XG policy show $IF -o json && $XG detach $IF > /dev/null",
      kClosed));
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find(R"("file": "/etc/xdpgpu/policy.json")"), std::string::npos) << outcome.out;
  const Outcome wrong =
      shell_with_etc("echo '{' > /etc/xdpgpu/policy.json && $XG attach $IF --mode copy --device $DEV");
  EXPECT_EQ(wrong.status, 2) << wrong.out;
  EXPECT_NE(wrong.err.find("/etc/xdpgpu/policy.json:"), std::string::npos) << wrong.err;
  EXPECT_TRUE(nothing_is_left());
}

// A temporary path where nothing is.
std::string nowhere() { return fmt::format("/tmp/xdpgpu-first-{}.json", getpid()); }

TEST_F(Operator, InitWritesWhatIsCheckedAndNothingTwice) {
  host_port().add_route("0.0.0.0/0", "10.9.0.2");
  const Outcome outcome = shell_with_etc(
      "$XG policy init && $XG policy check /etc/xdpgpu/policy.json && cat /etc/xdpgpu/policy.json && "
      "! $XG policy init");
  ASSERT_EQ(outcome.status, 0) << outcome.out << outcome.err;
  EXPECT_NE(outcome.err.find("is there already"), std::string::npos) << outcome.err;
  const std::string file = nowhere();
  const Outcome json = shell_alone(fmt::format("$XG policy init {} -o json", file));
  std::ifstream in(file);
  const Json policy = Json::parse(in, nullptr, false);
  unlink(file.c_str());
  ASSERT_EQ(json.status, 0) << json.err;
  EXPECT_EQ(Json::parse(json.out).at("uplinks"), Json::array({name()}));
  ASSERT_TRUE(policy.is_object());
  EXPECT_EQ(policy.at("fragments"), "track");
  EXPECT_EQ(policy.at("default"), "drop");
  EXPECT_EQ(policy.at("management").at(0).at("src"), Json::array({"10.9.0.0/24", "fd09::/64"}));
  EXPECT_EQ(policy.at("management").at(0).at("dst_port"), 22);
  const auto described = [](const Json& part) {
    EXPECT_FALSE(part.value("description", "").empty()) << part;
  };
  described(policy);
  for (const char* part : {"management", "lists", "rules"})
    for (const auto& one : policy.at(part)) described(one);
  for (const auto& pipeline : policy.at("pipelines"))
    for (const auto& stage : pipeline) described(stage);
  const Outcome said =
      product(*host_, {"policy", "init", "-", "--management", "192.0.2.0/24", "--management-port", "2222"});
  ASSERT_EQ(said.status, 0) << said.err;
  Json manages = Json::parse(said.out).at("management").at(0);
  manages.erase("description");
  EXPECT_EQ(manages, Json::parse(R"({"src": ["192.0.2.0/24"], "proto": "tcp", "dst_port": 2222})"));
  const Outcome wrong = product(*host_, {"policy", "init", "-", "--management", "192.0.2.1/24"});
  EXPECT_EQ(wrong.status, 2) << wrong.err;
  EXPECT_NE(wrong.err.find("192.0.2.1/24"), std::string::npos) << wrong.err;
}

// What a policy probably does not mean is said where it comes into force, too.
TEST_F(Operator, AttachSaysWhatThePolicyProbablyDoesNotMean) {
  const TemporaryFile closed(kClosed);
  const std::string line = "$XG attach $IF --mode copy --device $DEV --daemon --policy " + closed.path();
  const Outcome text = shell(line + " && $XG detach $IF");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_NE(text.out.find("note: \"default\""), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("management"), std::string::npos) << text.out;
  const Outcome json = shell(line + " -o json && $XG detach $IF > /dev/null");
  EXPECT_EQ(json.status, 0) << json.err;
  const Json ready = Json::parse(json.out.substr(0, json.out.find('\n')), nullptr, false);
  ASSERT_TRUE(ready.is_object()) << json.out;
  EXPECT_EQ(ready.at("notes").size(), 1U) << ready.at("notes");
}

// Who was named manages the host, whatever the default route's side is; and the file may stand behind.
TEST_F(Operator, InitWritesWhoWasNamed) {
  host_port().add_route("0.0.0.0/0", "10.9.0.2");
  const std::string file = nowhere();
  const Outcome named = product(
      *host_, {"policy", "init", "--management", "192.0.2.1", "--management", "198.51.100.0/24", file});
  ASSERT_EQ(named.status, 0) << named.err;
  std::ifstream in(file);
  const Json management = Json::parse(in).at("management").at(0);
  unlink(file.c_str());
  EXPECT_EQ(management.at("src"), Json::array({"192.0.2.1", "198.51.100.0/24"}));
  EXPECT_EQ(management.at("description").get<std::string>().find("default route"), std::string::npos)
      << management;
  const Outcome found = shell_alone("$XG policy init -");
  ASSERT_EQ(found.status, 0) << found.err;
  EXPECT_NE(found.out.find("the default route's side (" + name() + ")"), std::string::npos) << found.out;
}

// A port that the kernel may have given to a client is not let in, and that is said.
TEST_F(Operator, InitNotesPortsThatMayBeAServices) {
  host_port().add_route("0.0.0.0/0", "10.9.0.2");
  const UdpSocket tunnel(*host_, "10.9.0.1", 51820), served(*host_, "10.9.0.1", 5353);
  const Outcome outcome = shell_alone("$XG policy init -");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.err.find("UDP port 51820 may be a service's"), std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.out.find("51820"), std::string::npos) << outcome.out;
  EXPECT_NE(outcome.out.find("5353"), std::string::npos) << outcome.out;
}

// Beside a policy that goes to standard output.
TEST_F(Operator, InitSaysOfStrangersWhereverThePolicyGoes) {
  host_port().add_route("0.0.0.0/0", "10.9.0.2");
  for (const char* address : {"203.0.113.1/24", "100.100.1.1/24", "172.31.1.1/24"})
    host_port().add_address(address);
  const Outcome outcome = shell_alone("$XG policy init -");
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(Json::accept(outcome.out)) << outcome.out;
  EXPECT_NE(outcome.err.find("203.0.113.0/24 may be a network of strangers"), std::string::npos)
      << outcome.err;
  for (const char* own : {"100.100.1.0/24", "172.31.1.0/24"}) {
    EXPECT_NE(outcome.out.find(own), std::string::npos) << outcome.out;
    EXPECT_EQ(outcome.err.find(own), std::string::npos) << outcome.err;
  }
}

TEST_F(Operator, InitWithoutRightsAsksForThem) {
  const Outcome outcome = shell_with_etc(
      "chmod 755 /etc && rmdir /etc/xdpgpu && setpriv --reuid=65534 --clear-groups $XG policy init "
      "--management 192.0.2.1");
  if (outcome.err.find("setpriv") != std::string::npos) GTEST_SKIP() << outcome.err;
  EXPECT_EQ(outcome.status, 1) << outcome.out;
  EXPECT_NE(outcome.err.find("Permission denied; run it as root"), std::string::npos) << outcome.err;
}

TEST_F(Operator, InitAsksWhoManagesAHostThatNobodyIsKnownToManage) {
  const Outcome outcome = shell_alone("$XG policy init " + nowhere());
  EXPECT_EQ(outcome.status, 1) << outcome.out;
  EXPECT_NE(outcome.err.find("--management"), std::string::npos) << outcome.err;
  EXPECT_NE(access(nowhere().c_str(), F_OK), 0) << "nothing half-done";
}

// A server's port that somebody listens at, until the end.
class Listener {
 public:
  Listener(const Namespace& ns, std::uint16_t port)
      : process_(ns, {"/usr/bin/env", "python3", "-c",
                      fmt::format("import socket\n"
                                  "s = socket.create_server(('0.0.0.0', {}), backlog=16)\n"
                                  "print('there', flush=True)\n"
                                  "while True: s.accept()",
                                  port)}) {
    there_ = process_.wait_for([](const std::string& out) { return out.find("there") != out.npos; }, 10s);
  }
  bool there() const { return there_; }

 private:
  Process process_;
  bool there_ = false;
};

// Who is logged in stays so; who only has a connection to the port may be anybody.
TEST_F(Operator, InitLetsInWhoIsLoggedInAndNobodyElse) {
  host_port().add_route("0.0.0.0/0", "10.9.0.2");
  // As <utmp.h> has it: of a process that lives, of one that does not, and of somebody at the console.
  const Outcome outcome = shell_alone(
      "python3 -c '\n"
      "import struct, socket\n"
      "def entry(pid, address):\n"
      "  return struct.pack(\"hi32s4s32s256shhiii16s20x\", 7, pid, b\"pts/0\", b\"0\", b\"op\", b\"\", 0, 0, "
      "0, 0, 0,"
      " address)\n"
      "four = lambda text: socket.inet_aton(text)\n"
      "open(\"/run/utmp\", \"wb\").write(entry(1, four(\"203.0.113.9\")) + entry(4194303, "
      "four(\"203.0.113.10\"))"
      " + entry(1, b\"\") + entry(1, socket.inet_pton(socket.AF_INET6, \"2001:db8::7\")))' && $XG policy "
      "init -");
  if (outcome.err.find("python3") != std::string::npos) GTEST_SKIP() << "there is no python3";
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out).at("management").at(0).at("src"),
            Json::array({"10.9.0.0/24", "fd09::/64", "203.0.113.9", "2001:db8::7"}));
  const Listener management(*host_, 22);
  if (!management.there()) GTEST_SKIP() << "there is no python3";
  const Process stranger(*left_, {"/usr/bin/env", "python3", "-c",
                                  "import socket, time\n"
                                  "s = socket.create_connection((\"10.9.0.1\", 22))\ntime.sleep(20)"});
  std::this_thread::sleep_for(500ms);
  const Outcome with = shell_alone("$XG policy init -");
  ASSERT_EQ(with.status, 0) << with.err;
  EXPECT_EQ(Json::parse(with.out).at("management").at(0).at("src"),
            Json::array({"10.9.0.0/24", "fd09::/64"}));
}

TEST_F(Operator, TheFirstPolicyLetsInWhatIsServedAnsweredAndManaged) {
  host_port().add_route("0.0.0.0/0", "10.9.0.2");
  const std::string file = nowhere();
  Outcome outcome;
  {
    const Listener served(*host_, 8080);
    if (!served.there()) GTEST_SKIP() << "there is no python3";
    outcome = product(*host_, {"policy", "init", file});
  }
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("8080"), std::string::npos) << outcome.out;
  std::ifstream in(file);
  Json first = Json::parse(in);
  unlink(file.c_str());
  first["io"]["heartbeat"] = "5s";  // on a busy host a worker is late, and an answer is sent once
  const TemporaryFile written(first.dump());
  attached_ =
      std::make_unique<Attached>(*host_, AttachSpec{.interfaces = {name()}, .policy_file = written.path()});
  EXPECT_TRUE(answers()) << "ping";
  EXPECT_TRUE(tcp_connects(*left_, *host_, "10.9.0.1", 22)) << "management";
  EXPECT_TRUE(tcp_connects(*left_, *host_, "10.9.0.1", 8080)) << "what it serves";
  EXPECT_FALSE(tcp_connects(*left_, *host_, "10.9.0.1", 8081, 500ms)) << "what it did not";
  EXPECT_TRUE(tcp_transfer(*host_, *left_, "10.9.0.2", {.bytes = 1 << 20}).intact) << "what it asks";
  const UdpSocket asks(*host_, "10.9.0.1", 40000), answerer(*left_, "10.9.0.2", 53);
  answerer.send_to("10.9.0.1", 40000, "unasked");
  EXPECT_FALSE(asks.receive(200ms)) << "nobody asked";
  asks.send_to("10.9.0.2", 53, "question");
  ASSERT_TRUE(answerer.receive(1000ms));
  answerer.send_to("10.9.0.1", 40000, "answer");
  EXPECT_EQ(asks.receive(1000ms), "answer");
  // Whatever becomes of who looks for answers, management and what is served go on.
  kill(attached_->data_plane(), SIGSTOP);
  std::this_thread::sleep_for(300ms);
  EXPECT_TRUE(tcp_connects(*left_, *host_, "10.9.0.1", 22));
  EXPECT_TRUE(tcp_connects(*left_, *host_, "10.9.0.1", 8080));
  kill(attached_->data_plane(), SIGCONT);
}

// ---- signals -----------------------------------------------------------------------------------------

class Signals : public Operator {
 protected:
  void attach_by(const TemporaryFile& policy, std::vector<std::string> more = {}) {
    attached_ = std::make_unique<Attached>(
        *host_, AttachSpec{.interfaces = {name()}, .more = std::move(more), .policy_file = policy.path()});
  }
  std::string said() const { return attached_->process().err(); }
  bool says(const std::string& words) const {
    return eventually([&] { return said().find(words) != std::string::npos; }, 10s);
  }
  // The broker, and the data plane, of an attach in the background.
  std::vector<pid_t> background() const {
    std::vector<pid_t> pids;
    for (const auto& process : processes_in(*host_)) pids.push_back(std::stoi(process));
    return pids;
  }
};

TEST_F(Signals, HangupAppliesTheFileAgainWithItsLists) {
  const TemporaryFile list("192.0.2.1\n", ".txt");
  const TemporaryFile policy(fmt::format(
      R"({{"version": 1, "default": "pass", "lists": {{"bad": {{"file": "{}"}}}},
          "rules": [{{"match": {{"src": "@bad"}}, "action": "drop"}}]}})",
      list.path()));
  attach_by(policy);
  const pid_t data_plane = attached_->data_plane();
  EXPECT_TRUE(answers());
  list.write("10.9.0.2\n");
  attached_->process().signal(SIGHUP);
  EXPECT_TRUE(says("is in force on " + name() + ": generation 2")) << said();
  EXPECT_FALSE(answers());
  policy.write(kOpen);
  // To all of its group, as a terminal sends it; and the data plane takes it for nothing.
  kill(-attached_->process().pid(), SIGHUP);
  kill(data_plane, SIGHUP);
  EXPECT_TRUE(says("generation 3")) << said();
  EXPECT_TRUE(answers());
  EXPECT_EQ(attached_->status().at("policy").at("generation"), 3);
  EXPECT_EQ(attached_->process().wait(0ms), -1);
  EXPECT_EQ(attached_->detach().status, 0) << said();
}

TEST_F(Signals, AHangupWithAnErrorLeavesTheOldPolicyAndSaysSo) {
  const TemporaryFile policy(kClosed);
  attach_by(policy);
  EXPECT_FALSE(answers());
  policy.write("{\"version\": 1,\n \"defualt\": \"pass\"}");
  attached_->process().signal(SIGHUP);
  EXPECT_TRUE(says("SIGHUP: " + policy.path() + " was not applied")) << said();
  EXPECT_NE(said().find(":2:"), std::string::npos) << said();
  EXPECT_NE(said().find("/defualt"), std::string::npos) << said();
  EXPECT_FALSE(answers());
  EXPECT_EQ(attached_->status().at("policy").at("generation"), 1);
  policy.write(kOpen);
  attached_->process().signal(SIGHUP);
  EXPECT_TRUE(says("is in force")) << said();
  EXPECT_TRUE(answers());
  policy.write(kClosed);
  attached_->process().signal(SIGHUP);
  EXPECT_TRUE(says("note: \"default\"")) << said();
}

// What was tried is not in force by a signal.
TEST_F(Signals, AHangupGoesOnAuditing) {
  const TemporaryFile policy(kClosed);
  attach_by(policy, {"--audit"});
  EXPECT_TRUE(answers());
  attached_->process().signal(SIGHUP);
  EXPECT_TRUE(says("drops nothing")) << said();
  EXPECT_TRUE(answers());
  EXPECT_EQ(attached_->apply(kClosed).status, 0);
  EXPECT_FALSE(answers());
  // The file that attach was given, not the one that was applied last.
  policy.write(kOpen);
  attached_->process().signal(SIGHUP);
  EXPECT_TRUE(says("generation 4")) << said();
  EXPECT_TRUE(answers());
}

TEST_F(Signals, AHangupWithoutAFileSaysSo) {
  attached_ = std::make_unique<Attached>(*host_, AttachSpec{.interfaces = {name()}});
  attached_->process().signal(SIGHUP);
  EXPECT_TRUE(says("--pass-all")) << said();
  EXPECT_TRUE(answers());
}

TEST_F(Signals, AHangupWithoutADataPlaneWaitsForTheNextOne) {
  const TemporaryFile policy(R"({"version": 1, "default": "drop", "on_failure": "drop"})");
  attach_by(policy);
  const pid_t before = attached_->data_plane();
  policy.write(kOpen);
  // Stopped, the broker sees both at once.
  attached_->process().signal(SIGSTOP);
  kill(before, SIGKILL);
  attached_->process().signal(SIGHUP);
  attached_->process().signal(SIGCONT);
  EXPECT_TRUE(says("is back")) << said();
  EXPECT_TRUE(says("is in force")) << said();
  EXPECT_TRUE(eventually([&] { return answers(); })) << said();
}

TEST_F(Signals, OthersEndNothing) {
  const TemporaryFile policy(kOpen);
  attach_by(policy);
  const pid_t broker = attached_->process().pid(), data_plane = attached_->data_plane();
  for (const int number : {SIGUSR1, SIGALRM, SIGPIPE, SIGVTALRM, SIGPROF, SIGIO})
    for (const pid_t whom : {broker, data_plane, -broker, -data_plane}) {
      kill(whom, number);
      EXPECT_EQ(attached_->process().wait(20ms), -1) << "signal " << number << " to " << whom;
      EXPECT_EQ(kill(data_plane, 0), 0) << "signal " << number << " to " << whom;
    }
  EXPECT_EQ(attached_->status().at("policy").at("generation"), 1);
  EXPECT_EQ(attached_->data_plane(), data_plane) << "and it is the same one";
  EXPECT_EQ(said(), "");
  EXPECT_TRUE(answers());
  EXPECT_EQ(attached_->detach().status, 0) << said();
}

// SIGUSR2, to the broker, is "detach --keep"; to the data plane it is nothing.
TEST_F(Signals, OneLeavesWhatDecides) {
  const TemporaryFile policy(kClosed);
  attach_by(policy);
  kill(attached_->data_plane(), SIGUSR2);
  EXPECT_EQ(attached_->process().wait(100ms), -1);
  attached_->process().signal(SIGUSR2);
  EXPECT_EQ(attached_->process().wait(10s), 0) << said();
  EXPECT_FALSE(answers()) << "the kernel goes on";
  const std::unique_ptr<Attached> left = std::move(attached_);
  // What an order has left stays where somebody cleans up after those that left by none.
  const Outcome unless = product(*host_, {"detach", name(), "--unless-left"});
  EXPECT_EQ(unless.status, 0) << unless.err;
  EXPECT_NE(unless.out.find("told to leave it"), std::string::npos) << unless.out;
  EXPECT_FALSE(answers());
  attach_by(policy);
  EXPECT_TRUE(attached_->status().at("last_end").value("left", false)) << attached_->status();
  EXPECT_EQ(attached_->status().at("policy").at("generation"), 1) << "it has gone on";
  // An order to undo all stands above it.
  // Stopped, the broker sees both at once.
  for (const int number : {SIGSTOP, SIGUSR2, SIGTERM, SIGCONT}) attached_->process().signal(number);
  EXPECT_EQ(attached_->process().wait(10s), 0) << said();
  EXPECT_TRUE(answers());
  attached_.reset();
  EXPECT_TRUE(nothing_is_left());
  EXPECT_EQ(product(*host_, {"detach", name(), "--unless-left"}).status, 0) << "nothing is left";
}

TEST_F(Signals, WhatAKilledOneLeftWasNotLeftByOrder) {
  const TemporaryFile policy(kClosed);
  attach_by(policy);
  attached_->kill_outright();
  const std::unique_ptr<Attached> dead = std::move(attached_);
  EXPECT_FALSE(answers());
  EXPECT_EQ(product(*host_, {"detach", name(), "--unless-left"}).status, 0);
  EXPECT_TRUE(answers()) << "nobody told a killed one to leave it";
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Signals, OfADaemonAreTheSame) {
  const TemporaryFile policy(kClosed);
  const Outcome outcome = product(*host_, {"attach", name(), "--policy", policy.path(), "--mode", "copy",
                                           "--device", device_under_test(), "--daemon"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  const auto processes = background();
  ASSERT_EQ(processes.size(), 2U) << fmt::format("{}", processes_in(*host_));
  for (const int number : {SIGUSR1, SIGALRM, SIGPIPE})
    for (const pid_t process : processes) {
      kill(process, number);
      kill(-getpgid(process), number);
    }
  EXPECT_FALSE(answers());
  policy.write(kOpen);
  for (const pid_t process : processes) kill(-getpgid(process), SIGHUP);
  EXPECT_TRUE(eventually([&] { return answers(); }, 10s));
  // What is wrong is told to the system log alone.
  policy.write("{");
  for (const pid_t process : processes) kill(process, SIGHUP);
  std::this_thread::sleep_for(500ms);
  EXPECT_TRUE(answers());
  EXPECT_EQ(background(), processes);
  EXPECT_EQ(product(*host_, {"detach", name()}).status, 0);
  EXPECT_TRUE(nothing_is_left());
}

// ---- closed descriptors ------------------------------------------------------------------------------

class ClosedDescriptors : public Operator, public testing::WithParamInterface<unsigned> {
 protected:
  static std::string redirections() {
    std::string text;
    for (unsigned fd = 0; fd < 3; fd++)
      if (GetParam() >> fd & 1) text += fmt::format(" {}{}&-", fd, fd == 0 ? "<" : ">");
    return text;
  }
};
INSTANTIATE_TEST_SUITE_P(EachSubset, ClosedDescriptors, testing::Range(1U, 8U));

TEST_P(ClosedDescriptors, ADaemonLives) {
  const TemporaryFile policy(kOpen);
  const Outcome outcome = shell(fmt::format("$XG attach $IF --policy {} --mode copy --device $DEV --daemon{}",
                                            policy.path(), redirections()));
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  std::this_thread::sleep_for(300ms);
  EXPECT_EQ(processes_in(*host_).size(), 2U) << fmt::format("{}", processes_in(*host_));
  EXPECT_TRUE(answers());
  const Outcome status = product(*host_, {"status", name(), "-o", "json"});
  EXPECT_EQ(status.status, 0) << status.err;
  const Outcome detach = shell("$XG detach $IF" + redirections());
  // What it has to say is written nowhere where standard output is closed, and that is an error as ever.
  EXPECT_EQ(detach.status, GetParam() & 2 ? 1 : 0) << detach.err;
  EXPECT_TRUE(nothing_is_left());
}

TEST_P(ClosedDescriptors, OneInTheForegroundLivesToo) {
  const TemporaryFile policy(kOpen);
  Process process(
      *host_, {"/bin/sh", "-c",
               fmt::format("exec {} attach {} --policy {} --mode copy --device {}{}", product_path(), name(),
                           policy.path(), device_under_test(), redirections())});
  EXPECT_TRUE(eventually([&] { return product(*host_, {"status", name()}).status == 0; }, 20s));
  EXPECT_TRUE(answers());
  process.signal(SIGTERM);
  EXPECT_EQ(process.wait(10s), 0) << process.err();
  EXPECT_TRUE(nothing_is_left());
}

}  // namespace
}  // namespace xdpgpu::lab
