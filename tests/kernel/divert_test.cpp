// SPDX-License-Identifier: MIT
//
// "on_unsupported" in the kernel: packets of flows that rules are for which the stage does not decide leave
// by another interface, both ways, fragments with them; all others are inspected.
#include <net/if.h>

#include <random>

#include "tests/kernel/kernel_test.hpp"
#include "userspace/control/decide.hpp"
#include "userspace/policy/diversion.hpp"

namespace xdpgpu::test {
namespace {

// None is decided without streams. The last one an application's protocol alone tells.
constexpr std::string_view kRules =
    "alert tcp any any -> 10.0.0.0/8 445 (content:\"a\"; sid:1;)\n"
    "alert sip any any -> any 5060 (sip.method; content:\"INVITE\"; sid:2;)\n"
    "alert tcp !10.0.0.0/8 any -> any [2000:2010,!2005] (content:\"a\"; sid:3;)\n"
    "alert tcp 2001:db8:1::/48 any <> any 7000 (content:\"a\"; sid:4;)\n"
    "alert http any any -> any any (http.uri; content:\"a\"; sid:5;)\n";
// Interfaces by their index: the pipeline is attached to the first one.
const std::vector<std::string> kPorts{"eth0", "eth1", "ips0"};
constexpr u32 kIps = 2;

class DivertTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped()) program_.emplace();
  }
  policy::Tables install(const std::string& members, std::string_view rules = kRules) {
    const auto parsed = policy::parse(policy_text(members), "test.json",
                                      policy::read_files_of({{"r.rules", std::string(rules)}}));
    if (!parsed) throw std::runtime_error(parsed.error().at(0).sentence());
    auto tables = policy::compile(*parsed, kPorts);
    if (!tables) throw std::runtime_error(tables.error().at(0).sentence());
    program_->install(*tables);
    program_->connect(0, 1000);
    return std::move(*tables);
  }
  policy::Tables install_usual(const std::string& rules = R"({"action": {"inspect": "ids"}})",
                               const std::string& more = "") {
    return install(more +
                   R"("default": "drop", "on_failure": "pass", "pipelines": {"ids": [{"stage": "signatures",
        "rules": ["r.rules"], "on_unsupported": {"redirect": "ips0"}}], "other": [{"stage": "l2fwd"}]},
        "rules": [)" +
                   rules + "]");
  }
  std::string run(const Frame& frame) { return program_->run(frame).reason; }
  std::optional<Program> program_;
};

Frame to_port(u16 port, const std::string& src = "192.0.2.1", const std::string& dst = "10.1.2.3") {
  return ethernet() + ipv4({.src = src, .dst = dst, .protocol = 6}, tcp(40'000, port));
}
Frame from_port(u16 port, const std::string& src = "10.1.2.3", const std::string& dst = "192.0.2.1") {
  return ethernet() + ipv4({.src = src, .dst = dst, .protocol = 6}, tcp(port, 40'000));
}

TEST_F(DivertTest, FlowsOfRulesThatAreNotDecidedLeaveBothWays) {
  install_usual();
  EXPECT_EQ(run(to_port(445)), "error_redirect") << "port 2 has no interface";
  program_->set_tx_port(kIps, if_nametoindex("lo"));
  for (const u8 flags : std::initializer_list<u8>{0x02, 0x12, 0x10, 0x18, 0x11, 0x04}) {
    const Outcome outcome =
        program_->run(ethernet() + ipv4({.dst = "10.0.0.1", .protocol = 6}, tcp(40'000, 445, flags)));
    EXPECT_EQ(outcome.reason, "redirect_rule") << "flags " << unsigned{flags};
    EXPECT_EQ(outcome.action, XDP_REDIRECT);
  }
  EXPECT_EQ(run(from_port(445)), "redirect_rule") << "the answers";
  EXPECT_EQ(run(to_port(445, "10.1.2.3", "192.0.2.1")), "inspected") << "for others than the rule";
  EXPECT_EQ(run(from_port(445, "192.0.2.1", "10.1.2.3")), "inspected");
  EXPECT_EQ(run(to_port(446)), "inspected");
  EXPECT_EQ(run(to_port(80)), "inspected") << "an application's protocol alone tells";
  EXPECT_EQ(run(ethernet() + ipv4({}, udp(1, 5060))), "redirect_rule") << "SIP is UDP, too";
  EXPECT_EQ(run(ethernet() + ipv4({.protocol = 6}, tcp(1, 5060))), "redirect_rule");
  EXPECT_EQ(run(ethernet() + ipv4({.protocol = 132}, sctp(1, 5060))), "inspected");
  EXPECT_EQ(run(ethernet() + ipv4({}, udp(1, 445))), "inspected") << "the rule is for TCP";
  EXPECT_EQ(run(to_port(2000)), "redirect_rule");
  EXPECT_EQ(run(to_port(2005)), "inspected");
  EXPECT_EQ(run(to_port(2010)), "redirect_rule");
  EXPECT_EQ(run(to_port(2000, "10.1.2.3", "192.0.2.1")), "inspected");
  EXPECT_EQ(run(from_port(2000, "192.0.2.1", "10.1.2.3")), "inspected") << "an answer to 10/8";
  const auto six = [](u16 src_port, u16 dst_port, const std::string& src, const std::string& dst) {
    return ethernet() + ipv6({.src = src, .dst = dst, .next = 6}, tcp(src_port, dst_port));
  };
  EXPECT_EQ(run(six(1, 7000, "2001:db8:1::9", "2001:db8:2::9")), "redirect_rule");
  EXPECT_EQ(run(six(7000, 1, "2001:db8:2::9", "2001:db8:1::9")), "redirect_rule") << "<>";
  EXPECT_EQ(run(six(7000, 1, "2001:db8:1::9", "2001:db8:2::9")), "inspected");
  EXPECT_EQ(run(six(1, 7000, "2001:db8:2::9", "2001:db8:3::9")), "inspected");
  EXPECT_EQ(run(six(1, 445, "2001:db8:2::9", "2001:db8:3::9")), "inspected");
  EXPECT_EQ(run(ethernet() + bytes(50, 0)), "inspected") << "no IP";
}

// What the policy's rules pass, drop or hand to another pipeline is nothing of the stage's; and a condition
// is no rule: where none leads to the pipeline, nothing leaves.
TEST_F(DivertTest, OnlyWhatComesToThePipelineLeaves) {
  install_usual(
      R"({"match": {"src": "192.0.2.7"}, "action": "pass"}, {"match": {"src": "192.0.2.8"}, "action": "drop"},
                   {"match": {"src": "192.0.2.9"}, "action": {"inspect": "other"}},
                   {"match": {"src": "192.0.2.0/24"}, "action": {"inspect": "ids"}})");
  program_->set_tx_port(kIps, if_nametoindex("lo"));
  EXPECT_EQ(run(to_port(445, "192.0.2.7")), "pass_rule");
  EXPECT_EQ(run(to_port(445, "192.0.2.8")), "drop_rule");
  EXPECT_EQ(run(to_port(445, "192.0.2.9")), "inspected");
  EXPECT_EQ(run(to_port(445, "192.0.2.10")), "redirect_rule");
  EXPECT_EQ(program_->rule_counter(3).packets, 1u) << "the rule that led there counts it";
  EXPECT_EQ(run(to_port(445, "198.51.100.1")), "drop_default");
  install_usual(R"({"action": {"inspect": "other"}})");
  EXPECT_EQ(run(to_port(445)), "inspected");
}

TEST_F(DivertTest, NoWorkerIsAsked) {
  install_usual();
  program_->set_tx_port(kIps, if_nametoindex("lo"));
  program_->renew(0, 0);
  EXPECT_EQ(run(to_port(446)), "pass_overload");
  EXPECT_EQ(run(to_port(445)), "redirect_rule");
}

// Else two such systems would send a packet to and fro for ever.
TEST_F(DivertTest, WhatComesFromThereIsNotSentBack) {
  install_usual();
  program_->set_tx_port(kIps, if_nametoindex("lo"));
  program_->config().port = kIps;
  EXPECT_EQ(run(to_port(445)), "inspected");
}

TEST_F(DivertTest, AuditSendsThemOnAsWell) {
  auto tables = install_usual();
  tables.header.audit = 1;
  program_->install(tables);
  program_->set_tx_port(kIps, if_nametoindex("lo"));
  EXPECT_EQ(run(to_port(445)), "redirect_rule");
}

// What a taken-over data plane could ask for: the entry behind the ports is the cutter's, which would bring
// its segments back here for ever.
TEST_F(DivertTest, NothingGoesToTheCutter) {
  install_usual();
  program_->set_tx_port(XG_CUTTER, if_nametoindex("lo"));
  program_->publish(to_port(446), XG_REDIRECT, {.target = XG_CUTTER});
  EXPECT_EQ(run(to_port(446)), "error_redirect");
}

TEST_F(DivertTest, FragmentsGoWhereTheirFirstOneGoes) {
  install_usual(R"({"action": {"inspect": "ids"}})", R"("fragments": "track", )");
  program_->set_tx_port(kIps, if_nametoindex("lo"));
  const auto piece = [](u16 id, u32 offset, const Frame& payload, bool more) {
    return ethernet() +
           ipv4({.id = id, .fragment = static_cast<u16>((more ? 0x2000 : 0) | offset / 8)}, payload);
  };
  EXPECT_EQ(run(piece(1, 0, udp(1000, 5060, 24, 88), true)), "redirect_rule");
  EXPECT_EQ(run(piece(1, 32, bytes(32), true)), "redirect_rule");
  EXPECT_EQ(run(piece(1, 64, bytes(24), false)), "redirect_rule");
  EXPECT_EQ(run(piece(2, 0, udp(1000, 5061, 24, 88), true)), "inspected");
  EXPECT_EQ(run(piece(2, 32, bytes(32), false)), "inspected");
  EXPECT_EQ(run(piece(3, 32, bytes(32), false)), "drop_default") << "of no datagram that is known";
  install_usual();
  EXPECT_EQ(run(piece(1, 0, udp(1000, 5060, 24, 88), true)), "drop_fragment") << "by default, as ever";
}

// Many rules of the policy and of the stage: the kernel, what `replay` goes by, and the conditions one by
// one.
TEST_F(DivertTest, ManyRulesAsTheDefinitionSays) {
  std::mt19937 random(std::random_device{}());
  const auto below = [&](u32 n) { return static_cast<u32>(random() % n); };
  const auto network = [&] {
    return below(3) == 0 ? std::string("any")
                         : std::string(below(4) == 0 ? "!" : "") + "10." + std::to_string(below(4)) +
                               ".0.0/" + std::to_string(9 + below(12));
  };
  const auto ports = [&] {
    const u32 first = below(40);
    return below(3) == 0 ? std::string("any")
                         : std::string(below(4) == 0 ? "!" : "") + std::to_string(first) + ":" +
                               std::to_string(first + below(6));
  };
  std::string files, rules;
  for (u32 i = 1; i <= 150; ++i)
    files += std::string("alert ") + (below(2) == 0 ? "tcp" : "sip") + " " + network() + " " + ports() +
             (below(4) == 0 ? " <> " : " -> ") + network() + " " + std::to_string(below(40)) +
             " (content:\"a\"; sid:" + std::to_string(i) + ";)\n";
  for (u32 i = 0; i < 100; ++i)
    rules += R"({"match": {"src_port": ")" + std::to_string(below(40)) + R"("}, "action": )" +
             (below(2) == 0 ? R"("pass")" : R"({"inspect": "ids"})") + "},";
  SCOPED_TRACE(files);
  const std::string members = R"("default": "drop", "pipelines": {"ids": [{"stage": "signatures",
        "rules": ["r.rules"], "on_unsupported": {"redirect": "ips0"}}]}, "rules": [)" +
                              rules + R"({"action": {"inspect": "ids"}}])";
  const auto tables = install(members, files);
  program_->set_tx_port(kIps, if_nametoindex("lo"));
  u32 diverted = 0, inspected = 0;
  for (u32 i = 0; i < 3000; ++i) {
    program_->renew(0, 1000);
    const auto address = [&] { return "10." + std::to_string(below(5)) + ".0." + std::to_string(below(5)); };
    const bool udp_one = below(3) == 0;
    const u16 src_port = static_cast<u16>(below(42)), dst_port = static_cast<u16>(below(42));
    const Frame frame =
        ethernet() + ipv4({.src = address(), .dst = address(), .protocol = static_cast<u8>(udp_one ? 17 : 6)},
                          udp_one ? udp(src_port, dst_port) : tcp(src_port, dst_port));
    xg_packet packet{};
    xg_parse(frame.data(), frame.data() + frame.size(), 0, &packet);
    const auto decision = control::decide(
        tables, packet, [](const auto&...) { return true; }, [](const auto&...) { return false; });
    const std::string reason = run(frame);
    ASSERT_EQ(reason, control::reason_name(decision.reason)) << src_port << ">" << dst_port;
    diverted += reason == "redirect_rule";
    inspected += reason == "inspected";
  }
  EXPECT_GT(diverted, 100u);
  EXPECT_GT(inspected, 100u);
}

}  // namespace
}  // namespace xdpgpu::test
