// SPDX-License-Identifier: MIT
//
// What passes ahead of the rules, and what does not: answers to management and control protocols
// (config/rules.md), to the packet.
#include <bpf/bpf.h>

#include <thread>

#include "tests/kernel/kernel_test.hpp"

namespace xdpgpu::test {
namespace {

const std::string kManagement = R"("management": [
    {"src": "10.0.0.0/8", "proto": "tcp", "dst_port": 22}, {"src": "fd00::/8", "proto": "udp", "dst_port": 161},
    {"src": "10.0.0.0/8", "proto": "udp", "dst_port": 161}, {"src": "10.0.0.0/8", "proto": "icmp"}],
    "default": "drop")";

// From a manager (10.1.2.3) to a host, and back.
Frame there(u8 protocol, const Frame& payload) {
  return ethernet() + ipv4({.src = "10.1.2.3", .dst = "203.0.113.9", .protocol = protocol}, payload);
}
Frame back(u8 protocol, const Frame& payload, const std::string& from = "203.0.113.9") {
  return ethernet() + ipv4({.src = from, .dst = "10.1.2.3", .protocol = protocol}, payload);
}
Frame there6(const Frame& payload) {
  return ethernet() + ipv6({.src = "fd00::1", .dst = "2001:db8::9"}, payload);
}
Frame back6(const Frame& payload) {
  return ethernet() + ipv6({.src = "2001:db8::9", .dst = "fd00::1"}, payload);
}

class ManagementTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (IsSkipped()) return;
    program_.emplace();
    program_->install(policy_text(kManagement));
  }
  std::string reason(const Frame& frame) { return program_->run(frame).reason; }
  std::optional<Program> program_;
};

constexpr u8 kFin = 1, kSyn = 2, kRst = 4, kAck = 16;

TEST_F(ManagementTest, ASynFromTheManagedPortIsNoAnswer) {
  EXPECT_EQ(reason(back(6, tcp(22, 23, kSyn))), "drop_default");
  EXPECT_EQ(reason(there(6, tcp(50000, 22, kSyn))), "pass_management");
  EXPECT_EQ(reason(back(6, tcp(22, 50000, kSyn))), "drop_default") << "to a flow that was seen neither";
  EXPECT_EQ(reason(back(6, tcp(22, 50000, kSyn | kAck))), "pass_management");
}

TEST_F(ManagementTest, TcpWithAckOrRstPassesUnseen) {
  EXPECT_EQ(reason(back(6, tcp(22, 50000, kAck))), "pass_management");
  EXPECT_EQ(reason(back(6, tcp(22, 50000, kRst))), "pass_management");
  EXPECT_EQ(reason(back(6, tcp(22, 50000, kSyn | kAck))), "pass_management");
  for (const int flags : {0, +kFin, kSyn | kRst, kSyn | kFin, 8, 0x20})
    EXPECT_EQ(reason(back(6, tcp(22, 50000, static_cast<u8>(flags)))), "drop_default") << flags;
}

TEST_F(ManagementTest, ADatagramAnswersAFlowThatWasSeen) {
  EXPECT_EQ(reason(back(17, udp(161, 50000))), "drop_default");
  EXPECT_EQ(reason(there(17, udp(50000, 161))), "pass_management");
  EXPECT_EQ(reason(back(17, udp(161, 50000))), "pass_management");
  EXPECT_EQ(reason(back(17, udp(161, 50001))), "drop_default") << "to another port";
  EXPECT_EQ(reason(back(17, udp(161, 50000), "203.0.113.10")), "drop_default") << "of another host";
  EXPECT_EQ(reason(back6(udp(161, 50000))), "drop_default");
  EXPECT_EQ(reason(there6(udp(50000, 161))), "pass_management");
  EXPECT_EQ(reason(back6(udp(161, 50000))), "pass_management");
}

TEST_F(ManagementTest, AnEchoIsAnsweredByItsReply) {
  EXPECT_EQ(reason(back(1, icmp(0, 0, 7))), "drop_default");
  EXPECT_EQ(reason(there(1, icmp(8, 0, 7))), "pass_management");
  EXPECT_EQ(reason(back(1, icmp(0, 0, 7))), "pass_management");
  EXPECT_EQ(reason(back(1, icmp(0, 0, 8))), "drop_default") << "of another identifier";
  EXPECT_EQ(reason(back(1, icmp(8, 0, 7))), "drop_default") << "asks itself";
  EXPECT_EQ(reason(back(1, icmp(5, 0, 7))), "drop_default") << "a redirect";
}

// A router's request and answer come in by different tags.
TEST_F(ManagementTest, TheAnswerMayBeOfAnotherVlan) {
  EXPECT_EQ(reason(there(17, udp(50000, 161))), "pass_management");
  EXPECT_EQ(reason(ethernet({20}) + ipv4({.src = "203.0.113.9", .dst = "10.1.2.3"}, udp(161, 50000))),
            "pass_management");
}

TEST_F(ManagementTest, FragmentsAnswerFragments) {
  program_->install(policy_text(
      R"("management": [{"src": "10.0.0.0/8", "proto": "udp"}], "default": "drop", "fragments": "drop")"));
  const auto fragment = [](const std::string& src, const std::string& dst, u16 id) {
    return ethernet() + ipv4({.src = src, .dst = dst, .id = id, .fragment = 0x2000}, udp(161, 162, 8));
  };
  EXPECT_EQ(reason(fragment("203.0.113.9", "10.1.2.3", 1)), "drop_fragment");
  EXPECT_EQ(reason(fragment("10.1.2.3", "203.0.113.9", 2)), "pass_management");
  EXPECT_EQ(reason(fragment("203.0.113.9", "10.1.2.3", 3)), "pass_management");
}

TEST_F(ManagementTest, WhatIsNoAnswerMeetsTheRules) {
  program_->install(policy_text(R"("management": [{"src": "10.0.0.0/8", "proto": "udp", "dst_port": 161}],
      "pipelines": {"p": [{"stage": "l2fwd"}]}, "default": "drop",
      "rules": [{"match": {"proto": "udp"}, "action": {"inspect": "p"}}])"));
  program_->connect(0, 10);
  const Outcome other = program_->run(ethernet() + ipv4({}, udp(161, 50000)));
  ASSERT_EQ(other.reason, "inspected");
  EXPECT_FALSE(other.metadata->flags & XG_PKT_UNCACHED);
  const Outcome stranger = program_->run(back(17, udp(161, 50000)));
  ASSERT_EQ(stranger.reason, "inspected");
  // A verdict on its flow would be asked before management is.
  EXPECT_TRUE(stranger.metadata->flags & XG_PKT_UNCACHED);
  EXPECT_EQ(reason(there(17, udp(50000, 161))), "pass_management");
  EXPECT_EQ(reason(back(17, udp(161, 50000))), "pass_management");
  EXPECT_EQ(program_->rule_counter(0).packets, 1u);
  EXPECT_EQ(program_->rule_counter(1).packets, 1u) << "the entry's answers";
}

// Each entry's other half meets the packet, and none lets it pass.
TEST_F(ManagementTest, AsManyEntriesAsAPolicyMayHave) {
  std::string entries;
  for (u32 i = 0; i < XG_MAX_RULES / 2; ++i)
    entries += (i ? ", " : "") + std::string(R"({"src": "10.0.0.0/8", "proto": "tcp", "dst_port": 22})");
  program_->install(policy_text(R"("default": "drop", "management": [)" + entries + "]"));
  EXPECT_EQ(reason(back(6, tcp(22, 50000, kSyn))), "drop_default");
  EXPECT_EQ(reason(back(6, tcp(22, 50000, kAck))), "pass_management");
}

// Forged packets of the managed network in such numbers cannot keep management out.
TEST_F(ManagementTest, AFloodOfFlowsLocksNobodyOut) {
  for (u32 i = 0; i < 80'000; ++i) {
    Frame forged = there(17, udp(static_cast<u16>(1 + i % 60000), 161));
    forged[14 + 15] = static_cast<u8>(i / 60000 + 100);
    ASSERT_EQ(program_->run_uncounted(forged).action, XDP_PASS);
  }
  EXPECT_EQ(reason(there(17, udp(50000, 161))), "pass_management");
  EXPECT_EQ(reason(back(17, udp(161, 50000))), "pass_management");
  EXPECT_EQ(reason(back(6, tcp(22, 50000, kAck))), "pass_management");
}

// A stranger's segments come to the rules once they are over the rate, and known flows go on.
TEST_F(ManagementTest, AFloodOfAcksIsHeld) {
  program_->install(
      policy_text(kManagement + R"(, "rates": {"management_answers": {"pps": 1, "burst": 10}})"));
  EXPECT_EQ(reason(there(6, tcp(50000, 22, kSyn))), "pass_management");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(reason(back(6, tcp(22, 1, kAck))), "pass_management") << i;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(reason(back(6, tcp(22, 1, kAck))), "drop_default") << i;
  EXPECT_EQ(reason(back(6, tcp(22, 50000, kAck))), "pass_management");
}

// ---- Control protocols ------------------------------------------------------------------------------

const std::string kDeny = R"("default": "drop")";
Frame dhcp(u16 from, u16 to) { return ethernet() + ipv4({}, udp(from, to, 240)); }
Frame dhcp6(u16 from, u16 to) { return ethernet() + ipv6({}, udp(from, to, 40)); }
Frame changed(Frame frame, std::size_t at, u8 value) {
  frame[at] = value;
  return frame;
}
Frame tagged(const Frame& frame, u16 id) {
  return Frame(frame.begin(), frame.begin() + 12) + be16(0x8100) + be16(id) +
         Frame(frame.begin() + 12, frame.end());
}

Case passes(const std::string& name, const Frame& frame) {
  return {name, kDeny, frame, XDP_PASS, "pass_control"};
}
Case drops(const std::string& name, const Frame& frame) {
  return {name, kDeny, frame, XDP_DROP, "drop_default"};
}
INSTANTIATE_TEST_SUITE_P(
    ProperForm, CaseTest,
    testing::Values(
        passes("dhcp_request", dhcp(68, 67)), passes("dhcp_answer", dhcp(67, 68)),
        passes("dhcp_relay", dhcp(67, 67)), passes("dhcpv6_request", dhcp6(546, 547)),
        passes("dhcpv6_answer", dhcp6(547, 546)), passes("dhcpv6_relay", dhcp6(547, 547)),
        drops("dhcp_from_anywhere", dhcp(1234, 67)), drops("dhcp_from_anywhere_to_client", dhcp(53, 68)),
        drops("dhcp_between_clients", dhcp(68, 68)), drops("dhcpv6_from_anywhere", dhcp6(1234, 547)),
        drops("dhcpv6_from_anywhere_to_client", dhcp6(53, 546)),
        drops("dhcpv6_between_clients", dhcp6(546, 546)),
        drops("dhcp_ports_of_the_other_family", dhcp(546, 547)), passes("router_solicitation", nd(133)),
        passes("router_advertisement", nd(134)), passes("neighbour_solicitation", nd(135)),
        passes("neighbour_solicitation_global", nd(135, "2001:db8::1")),
        passes("duplicate_address_detection", nd(135, "::")), passes("neighbour_advertisement", nd(136)),
        passes("redirect", nd(137)), drops("nd_forwarded", nd(135, "fe80::1", 254)),
        drops("nd_code", nd(135, "fe80::1", 255, 1)),
        drops("router_advertisement_of_a_global_address", nd(134, "2001:db8::1")),
        drops("redirect_of_a_global_address", nd(137, "2001:db8::1")),
        drops("nd_short", ethernet() + ipv6({.next = 58, .hop_limit = 255}, icmp(135, 0))),
        drops("no_nd_type", nd(132)), drops("no_nd_type_either", nd(138))),
    case_name);
INSTANTIATE_TEST_SUITE_P(
    ProperFormOfLinks, CaseTest,
    testing::Values(
        passes("arp_request", arp(1)), passes("arp_answer", arp(2)), drops("arp_operation", arp(3)),
        drops("arp_other_operation", arp(0x0101)), drops("arp_hardware", changed(arp(), 15, 2)),
        drops("arp_protocol", changed(arp(), 16, 9)), drops("arp_lengths", changed(arp(), 18, 8)),
        drops("arp_short", ethernet() + be16(0x0806) + bytes(27, 0)),
        drops("arp_from_a_group", changed(arp(), 6, 3)),
        drops("reverse_arp", ethernet() + be16(0x8035) + bytes(46, 0)), passes("lacp_data", lacp(1)),
        passes("lacp_marker", lacp(2)), drops("slow_oam", lacp(3)), drops("slow_none", lacp(0)),
        drops("lacp_unicast", ethernet() + be16(0x8809) + Frame{1} + bytes(109, 0)),
        drops("lacp_other_group", changed(lacp(), 5, 1)), drops("lacp_tagged", tagged(lacp(), 5)),
        passes("lacp_priority_tagged", tagged(lacp(), 0)), passes("lldp_bridge", lldp()),
        passes("lldp_nontpmr", changed(lldp(), 5, 3)), passes("lldp_customer", changed(lldp(), 5, 0)),
        drops("lldp_unicast", ethernet() + be16(0x88cc) + bytes(46)), drops("lldp_tagged", tagged(lldp(), 5)),
        passes("bpdu", stp()), drops("bpdu_tagged", tagged(stp(), 5)),
        drops("bpdu_group", changed(stp(), 5, 9))),
    case_name);

// ---- Rates ------------------------------------------------------------------------------------------

class RateTest : public KernelTest {
 protected:
  // How many of `count` like it pass.
  static u32 passed(Program& program, const Frame& frame, u32 count) {
    u32 passed = 0;
    for (u32 i = 0; i < count; ++i) passed += program.run(frame).reason == "pass_control";
    return passed;
  }
  static Frame from(Frame frame, const Frame& mac) {
    std::copy(mac.begin(), mac.end(), frame.begin() + 6);
    return frame;
  }
};

// Requests, answers and known senders, who have a share of their own.
TEST_F(RateTest, SharesOfAProtocol) {
  Program program;
  program.install(policy_text(R"("default": "drop", "management": [{"src": "10.0.0.0/8", "dst_port": 22}],
      "rates": {"arp": {"pps": 1, "burst": 40}})"));
  const Frame known{2, 9, 9, 9, 9, 9};
  EXPECT_EQ(passed(program, arp(1), 100), 20u);
  EXPECT_EQ(passed(program, arp(2), 100), 10u) << "no request is an answer's";
  EXPECT_EQ(passed(program, from(arp(2), known), 5), 0u);
  EXPECT_EQ(
      program.run(from(ethernet() + ipv4({.src = "10.0.0.1", .protocol = 6}, tcp(5, 22)), known)).reason,
      "pass_management");
  EXPECT_EQ(passed(program, from(arp(2), known), 100), 10u);
  EXPECT_EQ(program.run(arp()).reason, "drop_default") << "the excess meets the rules";
}

TEST_F(RateTest, NoProtocolUsesUpAnothers) {
  Program program;
  program.install(policy_text(R"("default": "drop",
      "rates": {"arp": {"pps": 1, "burst": 4}, "lacp": {"pps": 1, "burst": 3}})"));
  EXPECT_EQ(passed(program, arp(), 50), 2u);
  EXPECT_EQ(passed(program, lacp(), 50), 3u);
  EXPECT_EQ(passed(program, nd(135), 50), 50u);
  EXPECT_EQ(passed(program, dhcp(68, 67), 50), 50u);
  EXPECT_EQ(passed(program, lldp(), 50), 50u);
  EXPECT_EQ(passed(program, stp(), 50), 50u);
}

TEST_F(RateTest, ComesBackAndASlowerPolicysDebtIsForgiven) {
  Program program;
  program.install(policy_text(R"("default": "drop", "rates": {"lacp": {"pps": 1, "burst": 50}})"));
  EXPECT_EQ(passed(program, lacp(), 60), 50u);
  program.install(policy_text(R"("default": "drop", "rates": {"lacp": {"pps": 100, "burst": 1}})"));
  program.run(lacp());
  std::this_thread::sleep_for(std::chrono::milliseconds(12));
  EXPECT_EQ(passed(program, lacp(), 1), 1u);
}

TEST_F(RateTest, TheExcessMayBePassedByARule) {
  Program program;
  program.install(policy_text(R"("default": "drop", "rates": {"dhcp": {"pps": 1, "burst": 2}},
      "rules": [{"match": {"proto": "udp", "src": "192.0.2.0/24"}, "action": "pass"}])"));
  EXPECT_EQ(program.run(dhcp(68, 67)).reason, "pass_control");
  EXPECT_EQ(program.run(dhcp(68, 67)).reason, "pass_rule");
}

}  // namespace
}  // namespace xdpgpu::test
