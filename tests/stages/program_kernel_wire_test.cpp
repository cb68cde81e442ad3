// SPDX-License-Identifier: MIT
//
// `program` with "where": "kernel" on the wire: XDP itself runs the program, with the verdicts that a device
// has; its maps are read and written by their pins; policies that run it in the kernel and on a device follow
// each other without a packet lost; and nothing of it is left behind.
#include <fmt/format.h>
#include <net/if.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <set>
#include <thread>

#include "tests/netns/on_the_wire.hpp"
#include "tests/stages/program_object.hpp"

namespace xdpgpu::lab {
namespace {

constexpr const char* kBpftool = "/usr/sbin/bpftool";
bool has_bpftool() { return std::filesystem::exists(kBpftool); }
Outcome bpftool(const Namespace& ns, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), kBpftool);
  return run_program(ns, std::move(arguments));
}
// Programs of a name that the kernel has, of whatever host.
std::size_t loaded(const Namespace& ns, const std::string& name) {
  Outcome listed;
  // It fails where one goes while it looks.
  eventually([&] { return (listed = bpftool(ns, {"-j", "prog", "show"})).status == 0; }, 10s);
  EXPECT_EQ(listed.status, 0) << listed.out << listed.err;
  const Json all = Json::parse(listed.out);
  return static_cast<std::size_t>(
      std::count_if(all.begin(), all.end(), [&](const Json& one) { return one.value("name", "") == name; }));
}

class KernelProgramOnTheWire : public OnTheWire {
 protected:
  std::string stage(const std::string& where) const {
    return fmt::format(R"({{"stage": "program", "object": "{}", "section": "xdp", "where": "{}",
                            "maps": {{"ports": {{"file": "{}"}}}}}})",
                       object_.path(), where, ports_.path());
  }
  std::string text(const std::string& where, const std::string& members = "") const {
    return inspect_all(stage(where), members);
  }
  // Whether UDP to the port comes through.
  bool passes(std::uint16_t port, bool six = false) {
    const std::string to = six ? "fd09::1" : "10.9.0.1";
    UdpSocket server(*host_, to, port);
    UdpSocket client(*left_, six ? "fd09::2" : "10.9.0.2", 0);
    // What it drops nobody counts: it comes through at once, or not at all.
    for (int tries = 0; tries < 3; ++tries) {
      client.send_to(to, port, "hello");
      if (server.receive(300ms) == "hello") return true;
    }
    return false;
  }
  std::uint64_t given() const { return attached_->pins().kernel("program"); }
  std::uint64_t inspected() const { return attached_->pins().kernel("inspected"); }
  std::string pins() const { return Pins::directory(*host_, host_port().ifname()) + "/programs/p/1"; }
  std::size_t programs_loaded() const { return loaded(*host_, name_); }

  // The kernel names programs of all hosts: this one's has a name of its own.
  static std::string renamed(std::string object, const std::string& name) {
    const std::string was = "drop_udp_ports";
    EXPECT_EQ(name.size(), was.size());
    for (std::size_t at = 0; (at = object.find(was, at)) != std::string::npos; at += was.size())
      object.replace(at, was.size(), name);
    return object;
  }
  // A linker has the map's name, "ports", at the end of the program's.
  const std::string name_ = fmt::format("d{:08}ports", getpid());
  const TemporaryFile object_{renamed(tests::udp_ports_object(), name_), ".o"};
  const TemporaryFile ports_{R"([{"key": 5001, "value": 1}, {"key": ["0x8a", "0x13"], "value": ["0x01"]}])"};
};
INSTANTIATE_TEST_SUITE_P(Netns, KernelProgramOnTheWire, kNativeAndGeneric, config_name);

TEST_P(KernelProgramOnTheWire, HasTheVerdictsThatADeviceHas) {
  const auto verdicts = [&] {
    std::vector<bool> all;
    for (const std::uint16_t port : std::array<std::uint16_t, 3>{5001, 5002, 5003})
      for (const bool six : {false, true}) all.push_back(passes(port, six));
    return all;
  };
  attach(text("kernel"));
  const auto in_kernel = verdicts();
  EXPECT_EQ(in_kernel, (std::vector<bool>{false, false, false, false, true, true}));
  EXPECT_TRUE(tcp_connects(*left_, *host_, "10.9.0.1", 5001));
  const TransferResult transfer = tcp_transfer(*left_, *host_, "10.9.0.1", {.bytes = 1 << 20});
  EXPECT_TRUE(transfer.intact) << transfer.problem;
  EXPECT_EQ(inspected(), 0u) << "no device is asked";
  EXPECT_GT(given(), 14u);
  expect_conserved(attached_->pins());
  ASSERT_EQ(attached_->apply(text("device")).status, 0);
  const auto before = given();
  EXPECT_EQ(verdicts(), in_kernel);
  EXPECT_EQ(given(), before);
  EXPECT_GT(inspected(), 0u);
  expect_conserved(attached_->pins());
}

TEST_P(KernelProgramOnTheWire, IsToldOf) {
  const TemporaryFile file(text("kernel"));
  const Outcome checked = product(*host_, {"policy", "check", file.path()});
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_NE(checked.out.find("in the kernel: pipeline p\n"), std::string::npos) << checked.out;
  attach(text("kernel"));
  EXPECT_FALSE(passes(5001));
  const Json shown = Json::parse(product(*host_, {"policy", "show", attached_->ifname(), "-o", "json"}).out);
  EXPECT_NE(shown.dump().find(R"("where":"kernel")"), std::string::npos) << shown;
  const Json status = attached_->status();
  const Json& programs = status.at("programs");
  ASSERT_EQ(programs.size(), 1u);
  EXPECT_EQ(programs[0].at("pipeline"), "p");
  EXPECT_EQ(programs[0].at("where"), "kernel");
  EXPECT_GE(programs[0].at("packets").at("given").get<std::uint64_t>(), 3u);
  EXPECT_GE(status.at("packets").at("program").get<std::uint64_t>(), 3u);
  const Outcome told = product(*host_, {"status", attached_->ifname()});
  EXPECT_NE(told.out.find("pipeline p, stage 1, in the kernel: "), std::string::npos) << told.out;
}

TEST_P(KernelProgramOnTheWire, ItsMapsAreReadAndWrittenByTheirPins) {
  if (!has_bpftool()) GTEST_SKIP() << "no bpftool";
  attach(text("kernel"));
  const Outcome dumped = bpftool(*host_, {"-j", "map", "dump", "pinned", pins() + "/ports"});
  ASSERT_EQ(dumped.status, 0) << dumped.out << dumped.err;
  EXPECT_EQ(Json::parse(dumped.out).size(), 2u) << dumped.out;
  EXPECT_TRUE(passes(5003));
  const Outcome updated =
      bpftool(*host_, {"map", "update", "pinned", pins() + "/ports", "key", "0x8b", "0x13", "value", "0x01"});
  ASSERT_EQ(updated.status, 0) << updated.out << updated.err;
  EXPECT_FALSE(passes(5003)) << "the next packet goes by it";
  const Outcome deleted =
      bpftool(*host_, {"map", "delete", "pinned", pins() + "/ports", "key", "0x89", "0x13"});
  ASSERT_EQ(deleted.status, 0) << deleted.out << deleted.err;
  EXPECT_TRUE(passes(5001));
  // The same program with the same first contents goes on with what is there.
  ASSERT_EQ(attached_->apply(text("kernel", R"("description": "another one")")).status, 0);
  EXPECT_FALSE(passes(5003));
  EXPECT_TRUE(passes(5001));
  EXPECT_EQ(Json::parse(bpftool(*host_, {"-j", "map", "dump", "pinned", pins() + "/ports"}).out).size(), 2u);
  // Others begin anew, and the maps at the pins are theirs.
  ports_.write(R"([{"key": 5001, "value": 1}])");
  ASSERT_EQ(attached_->apply(text("kernel")).status, 0);
  EXPECT_TRUE(passes(5003));
  EXPECT_FALSE(passes(5001));
  EXPECT_EQ(Json::parse(bpftool(*host_, {"-j", "map", "dump", "pinned", pins() + "/ports"}).out).size(), 1u);
}

TEST_P(KernelProgramOnTheWire, OnlyThePolicyInForceHasOneLoaded) {
  if (!has_bpftool()) GTEST_SKIP() << "no bpftool";
  attach(text("kernel"));
  EXPECT_TRUE(eventually([&] { return programs_loaded() == 1; }, 10s));
  ports_.write(R"([{"key": 5003, "value": 1}])");
  ASSERT_EQ(attached_->apply(text("kernel")).status, 0);
  EXPECT_TRUE(eventually([&] { return programs_loaded() == 1; }, 10s));
  ASSERT_EQ(attached_->apply(text("device")).status, 0);
  EXPECT_TRUE(eventually([&] { return programs_loaded() == 0; }, 10s));
  ASSERT_EQ(attached_->apply(text("kernel")).status, 0);
  EXPECT_TRUE(eventually([&] { return programs_loaded() == 1; }, 10s));
  EXPECT_FALSE(passes(5003));
  attached_->detach();
  EXPECT_TRUE(eventually([&] { return programs_loaded() == 0; }, 10s));
  EXPECT_FALSE(std::filesystem::exists(Pins::directory(*host_, host_port().ifname())));
}

TEST_P(KernelProgramOnTheWire, PoliciesThatHaveItHereAndThereLoseNoPacket) {
  attach(text("kernel"));
  UdpSocket server(*host_, "10.9.0.1", 6000);
  const UdpSocket client(*left_, "10.9.0.2", 0);
  std::atomic<bool> through{false};
  std::set<std::string> received;
  std::size_t sent = 0;
  std::thread load([&] {
    while (!through) {
      client.send_to("10.9.0.1", 6000, fmt::format("packet {}", sent++));
      while (const auto one = server.receive(0ms)) received.insert(*one);
      std::this_thread::sleep_for(300us);
    }
  });
  std::vector<int> applied;
  applied.reserve(6);
  for (int i = 0; i < 6; ++i)
    applied.push_back(attached_->apply(text(i % 2 == 0 ? "device" : "kernel")).status);
  through = true;
  load.join();
  for (const std::string& one : server.drain(500ms)) received.insert(one);
  EXPECT_EQ(applied, std::vector<int>(6, 0));
  EXPECT_GT(sent, 100u);
  EXPECT_EQ(received.size(), sent) << attached_->pins().summary();
  EXPECT_EQ(attached_->pins().kernel("error_program"), 0u);
  expect_conserved(attached_->pins());
}

// The data plane's death is nothing to it.
TEST_P(KernelProgramOnTheWire, GoesOnWithoutADataPlane) {
  if (!has_bpftool()) GTEST_SKIP() << "no bpftool";
  attach(text("kernel", R"("on_failure": "drop")"));
  EXPECT_TRUE(passes(5003));
  const pid_t before = attached_->data_plane();
  kill(before, SIGKILL);
  EXPECT_TRUE(passes(5003));
  EXPECT_FALSE(passes(5001));
  ASSERT_TRUE(eventually(
      [&] {
        const auto now = but_for_the_compiler(attached_->process().pid());
        return now.size() == 1 && now.front() != before &&
               product(*host_, {"status", attached_->ifname()}).status == 0;
      },
      30s));
  EXPECT_TRUE(passes(5003));
  EXPECT_FALSE(passes(5001));
  EXPECT_TRUE(eventually([&] { return programs_loaded() == 1; }, 10s));
  EXPECT_EQ(attached_->pins().kernel("error_program"), 0u);
}

// Nor is the whole attach's: the next one takes the XDP program's place, and the policy's own goes on.
TEST_P(KernelProgramOnTheWire, GoesOnIntoTheNextAttach) {
  if (!has_bpftool()) GTEST_SKIP() << "no bpftool";
  attach(text("kernel"));
  EXPECT_TRUE(passes(5003));
  attached_->kill_outright();
  EXPECT_TRUE(passes(5003));
  EXPECT_FALSE(passes(5001));
  attached_->leave_what_is_left();
  attached_.reset();
  attach(text("kernel"));
  EXPECT_TRUE(passes(5003));
  EXPECT_FALSE(passes(5001));
  EXPECT_TRUE(eventually([&] { return programs_loaded() == 1; }, 10s));
  EXPECT_EQ(attached_->pins().kernel("error_program"), 0u);
  EXPECT_TRUE(std::filesystem::exists(pins() + "/ports"));
}

// Nothing is dropped, and only a device can say what would be.
TEST_P(KernelProgramOnTheWire, AnAuditHasADeviceRunIt) {
  if (!has_bpftool()) GTEST_SKIP() << "no bpftool";
  attach(text("kernel"), {"--audit"});
  EXPECT_TRUE(passes(5001));
  EXPECT_TRUE(passes(5003));
  EXPECT_EQ(given(), 0u);
  EXPECT_GT(attached_->pins().worker("would_drop"), 0u);
  EXPECT_TRUE(eventually([&] { return programs_loaded() == 0; }, 10s));
}

TEST_P(KernelProgramOnTheWire, WhatCannotBeIsRefused) {
  const auto expect_refused = [&](const std::string& policy_text, const std::string& why) {
    const TemporaryFile file(policy_text);
    const Outcome checked = product(*host_, {"policy", "check", file.path()});
    EXPECT_EQ(checked.status, 2) << policy_text;
    EXPECT_NE(checked.err.find(why), std::string::npos) << checked.err;
  };
  const std::string device = R"({"stage": "acl", "rules": [], "otherwise": "next"})";
  expect_refused(inspect_all(device + ", " + stage("kernel")),
                 "is its pipeline's only stage, and here are 2");
  expect_refused(text("kernel", R"("fragments": "track")"), "write \"drop\", \"pass\" or \"inspect\"");
  expect_refused(
      policy(fmt::format(R"("rules": [{{"action": {{"mirror": "p"}}}}], "pipelines": {{"p": [{}]}})",
                         stage("kernel"))),
      "a mirrored packet goes on");
  expect_refused(policy(fmt::format(R"("rules": [{{"action": {{"inspect": "p"}}}}],
                                       "pipelines": {{"p": {{"inner": true, "stages": [{}]}}}})",
                                    stage("kernel"))),
                 "outermost");
  expect_refused(text("nowhere"), "\"device\" or \"kernel\"");
  // The kernel's own refusal leaves the policy as it was.
  attach(text("kernel"));
  const auto before = attached_->pins().config().active;
  object_.write(tests::refused_object());
  const Outcome refused = attached_->apply(inspect_all(
      fmt::format(R"({{"stage": "program", "object": "{}", "where": "kernel"}})", object_.path())));
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("the kernel's verifier refuses it: "), std::string::npos) << refused.err;
  EXPECT_EQ(attached_->pins().config().active, before);
  EXPECT_FALSE(passes(5001));
  EXPECT_TRUE(passes(5003));
}

// To the interface that the second MAC address's last byte is the number of in a devmap; what is not there
// passes; and all are changed.
class KernelRedirectOnTheWire : public OnTheWire {
 protected:
  std::string text(unsigned second, const std::string& ports) const {
    ports_.write(ports);
    return inspect_udp(7000, fmt::format(R"({{"stage": "program", "object": "{}", "where": "kernel",
                                              "maps": {{"ports": {{"file": "{}"}}}},
                                              "interfaces": [{{"interface": "{}", "ifindex": {}}}]}})",
                                         object_.path(), ports_.path(), host_second().ifname(), second));
  }
  unsigned second() const { return static_cast<unsigned>(host_second().ifindex()); }
  Frame from(std::uint8_t number) const {
    PacketSpec spec = from_left(1000, 7000, fmt::format("from {}", number));
    spec.src = {2, 0, 0, 0, 0, number};
    return build(spec);
  }

  const TemporaryFile object_{tests::ports_object(), ".o"};
  const TemporaryFile ports_{"[]"};
};
INSTANTIATE_TEST_SUITE_P(Netns, KernelRedirectOnTheWire, kNativeAndGeneric, config_name);

TEST_P(KernelRedirectOnTheWire, SendsToTheInterfacesByTheHostsNumbers) {
  attach_both(text(second(), fmt::format(R"([{{"key": 2, "value": {}}}])", second())));
  Sniffer right(right_port());
  Sender(left_port()).send(from(2));
  const auto came = right.take(1, 10s, with_payload("from 2"));
  ASSERT_EQ(came.size(), 1u) << attached_->pins().summary();
  Frame expected = from(2);
  expected[5] = 2;
  EXPECT_EQ(came[0].frame, expected);
  EXPECT_EQ(attached_->pins().kernel("program"), 1u);
  EXPECT_EQ(attached_->pins().kernel("inspected"), 0u);
}

TEST_P(KernelRedirectOnTheWire, AnotherNumberThanTheHostsIsRefused) {
  if (!has_bpftool()) GTEST_SKIP() << "no bpftool";
  const TemporaryFile other(text(second() + 1000, "[]"));
  const Outcome checked = product(*host_, {"policy", "check", other.path()});
  EXPECT_EQ(checked.status, 2);
  EXPECT_NE(checked.err.find(fmt::format("{} is {} here", host_second().ifname(), second())),
            std::string::npos)
      << checked.err;
  attach_both(policy(""));
  const auto expect_refused = [&](const std::string& policy_text, const std::string& why) {
    const Outcome refused = attached_->apply(policy_text);
    EXPECT_EQ(refused.status, 1) << refused.err;
    EXPECT_NE(refused.err.find(why), std::string::npos) << refused.err;
  };
  expect_refused(text(second() + 1000, "[]"), fmt::format("write {}", second()));
  // A devmap's numbers are held to that, too: 1 is the host's lo.
  expect_refused(text(second(), R"([{"key": 2, "value": 1}])"), "sends to interface 1");
  EXPECT_EQ(loaded(*host_, "to_ports"), 0u);
}

}  // namespace
}  // namespace xdpgpu::lab
