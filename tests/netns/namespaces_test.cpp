// SPDX-License-Identifier: MIT
//
// tests/netns/namespaces_test.cpp: interfaces' names are a network namespace's. What an attach has and leaves
// is found under its interface's name in its own namespace, and by no other's; and it belongs to the
// interface, not to whichever bears its name next.
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

using namespace std::chrono_literals;

const std::string kClosed =
    R"({"version": 1, "description": "closed", "default": "drop", "on_failure": "drop"})";
const std::string kOpen = R"({"version": 1, "description": "open", "default": "pass"})";

// A host in a namespace of its own, whose one port is called as the others' are, and its peer.
class Host {
 public:
  Host(const std::string& name, const std::string& ifname)
      : ns_(name), peer_ns_(name + "'s peer"), wire_(ns_, ifname, peer_ns_, ifname) {
    wire_.address("10.9.0.1/24", "10.9.0.2/24");
    wire_.up();
    wire_.checksums_in_software();
  }
  const Namespace& ns() const { return ns_; }
  const Namespace& peer_ns() const { return peer_ns_; }
  const Interface& port() const { return wire_.a(); }
  const std::string& ifname() const { return wire_.a().ifname(); }
  bool answers() const { return ping(peer_ns_, "10.9.0.1", {.count = 1, .timeout = 300ms}).received == 1; }

 private:
  Namespace ns_, peer_ns_;
  Veth wire_;
};

class Namespaces : public testing::Test {
 protected:
  void SetUp() override {
    if (const std::string reason = why_unavailable(); !reason.empty()) GTEST_SKIP() << reason;
    ifname_ = fmt::format("xg{:x}s", getpid());
    one_.emplace("one", ifname_);
    other_.emplace("other", ifname_);
  }
  void TearDown() override {
    if (!one_ || HasFailure()) return;
    for (auto* host : {&*one_, &*other_}) {
      // What was told to end by a signal may still be about to.
      eventually([&] { return leftovers(host->ns(), {host->ifname()}).empty(); });
      EXPECT_EQ(leftovers(host->ns(), {host->ifname()}), std::vector<std::string>{});
    }
  }
  static std::unique_ptr<Attached> attach(const Host& host, const std::string& policy) {
    return std::make_unique<Attached>(host.ns(), AttachSpec{{host.ifname()}, policy});
  }
  static std::string description_in(const Namespace& ns, const std::string& ifname) {
    const Outcome show = product(ns, {"policy", "show", ifname, "-o", "json"});
    EXPECT_EQ(show.status, 0) << show.err;
    return Json::parse(Json::parse(show.out).at("text").get<std::string>()).value("description", "");
  }

  std::string ifname_;
  std::optional<Host> one_, other_;
};

TEST_F(Namespaces, TheSameNameInTwoIsTwoInterfaces) {
  const auto closed = attach(*one_, kClosed);
  const auto open = attach(*other_, kOpen);
  EXPECT_FALSE(one_->answers());
  EXPECT_TRUE(other_->answers());
  EXPECT_EQ(description_in(one_->ns(), ifname_), "closed");
  EXPECT_EQ(description_in(other_->ns(), ifname_), "open");
  for (const auto& [host, attached] : {std::pair{&*one_, &closed}, std::pair{&*other_, &open}}) {
    const Json status = (*attached)->status();
    EXPECT_EQ(status.at("netns").at("inode"), host->ns().inode());
    EXPECT_EQ(status.at("netns").at("cookie"), host->ns().cookie());
    EXPECT_EQ(status.at("netns").at("initial"), false);
    EXPECT_EQ(status.at("ports").at(0).at("pins"), Pins::directory(host->ns(), ifname_));
    EXPECT_EQ(product(host->ns(), {"flows", "list", ifname_}).status, 0);
  }
  // Asked about all of them, it tells them apart.
  const Outcome all = product(one_->ns(), {"status", "-o", "json"});
  // There may be others on this machine, of which one does not answer, or is not well.
  ASSERT_TRUE(Json::accept(all.out)) << all.status << all.out << all.err;
  std::set<unsigned long> inodes;
  for (const auto& report : Json::parse(all.out))
    if (report.contains("netns")) inodes.insert(report.at("netns").at("inode").get<unsigned long>());
  EXPECT_TRUE(inodes.contains(one_->ns().inode()) && inodes.contains(other_->ns().inode())) << all.out;

  EXPECT_EQ(product(one_->ns(), {"bypass", "on", ifname_}).status, 0);
  EXPECT_TRUE(one_->answers());
  EXPECT_EQ(open->status().at("ports").at(0).at("state"), "running");
  EXPECT_EQ(open->detach().status, 0);
  EXPECT_EQ(closed->status().at("ports").at(0).at("state"), "bypass");
  EXPECT_EQ(product(one_->ns(), {"bypass", "off", ifname_}).status, 0);
  EXPECT_FALSE(one_->answers());
  // There is none any more in the other one, whatever is called so elsewhere.
  const Outcome gone = product(other_->ns(), {"status", ifname_});
  EXPECT_EQ(gone.status, 1);
  EXPECT_NE(gone.err.find("is not attached"), std::string::npos) << gone.err;
  EXPECT_EQ(product(other_->ns(), {"detach", ifname_}).status, 1);
  EXPECT_FALSE(one_->answers());
  EXPECT_EQ(closed->detach().status, 0);
}

TEST_F(Namespaces, WhatAKilledOneLeftIsTakenByNoOther) {
  auto closed = attach(*one_, kClosed);
  const auto program = xdp_state(one_->port()).program_id;
  closed->kill_outright();
  {
    const auto open = attach(*other_, kOpen);
    EXPECT_EQ(xdp_state(one_->port()).program_id, program);
    EXPECT_FALSE(one_->answers()) << "the dead one's policy was to decide";
    EXPECT_EQ(open->detach().status, 0);
  }
  EXPECT_EQ(product(other_->ns(), {"detach", ifname_}).status, 1);
  EXPECT_EQ(xdp_state(one_->port()).program_id, program);
  EXPECT_FALSE(one_->answers());
  EXPECT_TRUE(Pins(one_->ns(), ifname_).kernel_counts().at("received") > 0);
  const std::unique_ptr<Attached> dead = std::move(closed);
  const auto next = attach(*one_, kClosed);
  EXPECT_TRUE(next->ready().contains("goes_on")) << next->ready();
  EXPECT_EQ(next->detach().status, 0);
}

// ---- --netns -----------------------------------------------------------------------------------------

// A name of a namespace as "ip netns" gives it.
class NamedNamespace {
 public:
  explicit NamedNamespace(const Namespace& ns) : name_(fmt::format("xdpgpu-test-{}", getpid())) {
    std::filesystem::create_directories("/run/netns");
    if (const Fd file(open(path().c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600)); !file)
      throw Error("cannot make " + path());
    if (mount(fmt::format("/proc/self/fd/{}", ns.fd()).c_str(), path().c_str(), nullptr, MS_BIND, nullptr) !=
        0)
      throw Error("cannot mount on " + path());
  }
  ~NamedNamespace() {
    umount2(path().c_str(), MNT_DETACH);
    unlink(path().c_str());
  }
  NamedNamespace(const NamedNamespace&) = delete;
  NamedNamespace& operator=(const NamedNamespace&) = delete;
  const std::string& name() const { return name_; }
  std::string path() const { return "/run/netns/" + name_; }

 private:
  std::string name_;
};

// What is to be typed next is told as it has to be typed.
TEST_F(Namespaces, CommandsThatAreToldNameTheirs) {
  const NamedNamespace named(one_->ns());
  const TemporaryFile closed(kClosed);
  const auto outside = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), {"--netns", named.name()});
    return product(other_->ns(), arguments);
  };
  const auto attach = [&] {
    return outside({"attach", ifname_, "--policy", closed.path(), "--mode", "copy", "--device",
                    device_under_test(), "--daemon"});
  };
  const std::string operand = ifname_ + " --netns " + named.name();
  ASSERT_EQ(attach().status, 0);
  EXPECT_EQ(outside({"bypass", "on", ifname_}).status, 0);
  EXPECT_EQ(outside({"detach", ifname_, "--keep"}).status, 0);
  const Outcome again = attach();
  EXPECT_EQ(again.status, 0) << again.err;
  EXPECT_NE(again.err.find("\"xdpgpu bypass off " + operand + "\""), std::string::npos) << again.err;
  EXPECT_EQ(outside({"detach", ifname_}).status, 0);
  one_->port().add_route("0.0.0.0/0", "10.9.0.2");
  const std::string file = fmt::format("/tmp/xdpgpu-first-{}.json", getpid());
  const Outcome init = outside({"policy", "init", file});
  unlink(file.c_str());
  ASSERT_EQ(init.status, 0) << init.err;
  EXPECT_NE(init.out.find("attach " + operand), std::string::npos) << init.out;
}

TEST_F(Namespaces, CommandsReachThemFromOutside) {
  const NamedNamespace named(one_->ns());
  const TemporaryFile closed(kClosed), open(kOpen);
  // From another one, which has an interface of that name itself.
  const auto outside = [&](std::vector<std::string> arguments, const std::string& netns) {
    arguments.insert(arguments.end(), {"--netns", netns});
    return product(other_->ns(), arguments);
  };
  const Outcome attached = outside({"attach", ifname_, "--policy", closed.path(), "--mode", "copy",
                                    "--device", device_under_test(), "--daemon"},
                                   named.name());
  ASSERT_EQ(attached.status, 0) << attached.err;
  EXPECT_FALSE(one_->answers());
  EXPECT_TRUE(other_->answers());
  EXPECT_EQ(xdp_state(other_->port()).mode, XdpAttach::none);
  const Outcome status = outside({"status", ifname_, "-o", "json"}, named.path());
  ASSERT_EQ(status.status, 0) << status.err;
  const std::string process = std::to_string(Json::parse(status.out).at("pid").get<int>());
  const std::vector<std::vector<std::string>> commands{
      {"status"},
      {"flows", "list", ifname_},
      {"flows", "flush", ifname_},
      {"policy", "show", ifname_},
      {"doctor", ifname_},
      {"features"},
      {"policy", "apply", ifname_, open.path(), "--confirm", "60s"},
      {"policy", "confirm", ifname_}};
  for (const auto& command : commands)
    for (const auto& netns : {process, named.name()}) {
      if (netns != process && command.front() == "policy") continue;
      const Outcome outcome = outside(command, netns);
      // Attached as it is, the doctor says so; it has to be about that one.
      EXPECT_TRUE(outcome.status == 0 || command.front() == "doctor") << command.front() << outcome.err;
    }
  EXPECT_TRUE(one_->answers()) << "by the policy that was applied";
  // Without --netns the cure would be about this namespace's interface.
  const Outcome again = outside({"attach", ifname_, "--pass-all", "--mode", "copy"}, named.name());
  EXPECT_EQ(again.status, 1);
  EXPECT_NE(again.err.find(fmt::format("xdpgpu detach {} --netns {}", ifname_, named.name())),
            std::string::npos)
      << again.err;
  // So are the doctor's cures, its own commands and the host's.
  const auto cure = [&](const std::string& netns, const std::string& check) {
    const Outcome said = outside({"doctor", ifname_, "-o", "json"}, netns);
    const Json report = Json::parse(said.out);
    for (const Json& finding : report.at("interfaces").at(ifname_))
      if (finding.at("check") == check) return finding.at("cure").get<std::string>();
    return "nothing about " + check + ": " + said.out;
  };
  EXPECT_EQ(
      cure(named.name(), "xdp program"),
      fmt::format("xdpgpu status {0} --netns {1}, or xdpgpu detach {0} --netns {1}", ifname_, named.name()));
  one_->port().down();
  EXPECT_EQ(cure(named.name(), "state"),
            fmt::format("ip netns exec {} ip link set {} up", named.name(), ifname_));
  EXPECT_EQ(cure(process, "state"), fmt::format("nsenter -t {} -n ip link set {} up", process, ifname_));
  EXPECT_EQ(cure(named.path(), "state"),
            fmt::format("nsenter --net={} ip link set {} up", named.path(), ifname_));
  const Outcome absent = outside({"doctor", "no-such-if", "-o", "json"}, named.name());
  EXPECT_NE(absent.out.find(fmt::format("see \\\"ip netns exec {} ip link\\\"", named.name())),
            std::string::npos)
      << absent.out;
  // They are the shell's to run as they stand, from where the doctor was asked.
  if (run_program(other_->ns(), {"/bin/sh", "-c", "command -v ip"}).status == 0) {
    const Outcome up = run_program(other_->ns(), {"/bin/sh", "-c", cure(process, "state")});
    EXPECT_EQ(up.status, 0) << up.err;
    EXPECT_TRUE(cure(named.name(), "state").empty()) << "it is up";
  }
  EXPECT_EQ(outside({"bypass", "on", ifname_}, process).status, 0);
  const Outcome here = product(other_->ns(), {"status", ifname_});
  EXPECT_EQ(here.status, 1) << "without --netns it is this namespace's interface that is meant";
  const Outcome detach = outside({"detach", ifname_}, named.name());
  EXPECT_EQ(detach.status, 0) << detach.err;
  EXPECT_EQ(xdp_state(one_->port()).mode, XdpAttach::none);

  for (const std::string& wrong : {std::string("no-such-namespace"), std::string("4194999"),
                                   std::string(".."), std::string("/dev/null"), named.path() + "x"}) {
    const Outcome refused = outside({"status", ifname_}, wrong);
    EXPECT_EQ(refused.status, 1) << wrong;
    EXPECT_EQ(std::count(refused.err.begin(), refused.err.end(), '\n'), 1) << refused.err;
    EXPECT_NE(refused.err.find("network namespace"), std::string::npos) << refused.err;
  }
}

// ---- what is gone ------------------------------------------------------------------------------------

TEST_F(Namespaces, WhatIsLeftOfOneThatIsGoneIsRemovedByTheNext) {
  std::string pins, run;
  {
    Host temporary("temporary", ifname_);
    auto attached = attach(temporary, kClosed);
    pins = std::filesystem::path(Pins::directory(temporary.ns(), ifname_)).parent_path();
    run = std::filesystem::path(run_file(temporary.ns(), ifname_, "sock")).parent_path();
    attached->kill_outright();
    // While it is there, what decides in it stays.
    const auto next = attach(*one_, kOpen);
    EXPECT_EQ(next->detach().status, 0);
    EXPECT_NE(xdp_state(temporary.port()).mode, XdpAttach::none);
    EXPECT_EQ(access(pins.c_str(), F_OK), 0);
    attached->leave_what_is_left();  // that is what this test is about
  }
  // The kernel takes namespaces down in its own time.
  EXPECT_TRUE(eventually(
      [&] {
        const auto next = attach(*one_, kOpen);
        next->detach();
        return access(pins.c_str(), F_OK) != 0 && access(run.c_str(), F_OK) != 0;
      },
      20s))
      << pins << " or " << run << " is there";
}

// ---- what bears the name next ------------------------------------------------------------------------

TEST_F(Namespaces, WhatADeadOneLeftBelongsToItsInterfaceAndNotToTheNextOfItsName) {
  auto closed = attach(*one_, kClosed);
  closed->kill_outright();
  const auto program = xdp_state(one_->port()).program_id;
  one_->port().down();  // before Linux 6.2 an interface that is up keeps its name
  const Interface renamed = one_->port().renamed(ifname_ + "2");
  renamed.up();
  {
    const Namespace peer("the next one's peer");
    const Veth next_wire(one_->ns(), ifname_, peer, ifname_);
    next_wire.up();
    {
      const auto next = attach(*one_, kOpen);
      EXPECT_FALSE(next->ready().contains("goes_on")) << "that is the other interface's";
      EXPECT_EQ(xdp_state(renamed).program_id, program) << "it was to decide on";
      EXPECT_EQ(next->detach().status, 0);
    }
    EXPECT_EQ(xdp_state(renamed).program_id, program);
  }
  {
    Attached again(one_->ns(), AttachSpec{{renamed.ifname()}, kClosed});
    EXPECT_TRUE(again.ready().contains("goes_on")) << again.ready();
    EXPECT_EQ(again.detach().status, 0);
  }
  EXPECT_EQ(leftovers(one_->ns(), {renamed.ifname()}), std::vector<std::string>{});
  renamed.down();
  renamed.renamed(ifname_);
  closed.reset();
}

// The BPF filesystem takes no dots in names; VLAN interfaces have them.
TEST_F(Namespaces, ANameWithADotHasPinsToo) {
  const Namespace peer("peer");
  const std::string dotted = fmt::format("xg{:x}.7", getpid());
  const Veth wire(one_->ns(), dotted, peer, "up");
  wire.up();
  {
    Attached attached(one_->ns(), AttachSpec{{dotted}, kOpen});
    EXPECT_EQ(attached.status().at("ports").at(0).at("pins"), Pins::directory(one_->ns(), dotted));
    attached.kill_outright();
    Attached again(one_->ns(), AttachSpec{{dotted}, kOpen});
    EXPECT_TRUE(again.ready().contains("goes_on")) << again.ready();
    EXPECT_EQ(again.detach().status, 0);
  }
  EXPECT_EQ(leftovers(one_->ns(), {ifname_, dotted}), std::vector<std::string>{});
}

}  // namespace
}  // namespace xdpgpu::lab
