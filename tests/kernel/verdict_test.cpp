// SPDX-License-Identifier: MIT
//
// What the kernel program decides by itself, as a table: policy, packet, verdict, reason.
#include "tests/kernel/kernel_test.hpp"

namespace xdpgpu::test {
namespace {

const Frame kUdp = ethernet() + ipv4({}, udp(1000, 53, 20));
const Frame kUdp6 = ethernet() + ipv6({}, udp(1000, 53, 20));
const Frame kTcp = ethernet() + ipv4({.protocol = 6}, tcp(40000, 80) + bytes(9));
const Frame kSyn = ethernet() + ipv4({.protocol = 6}, tcp(40000, 80, 0x02, 10));

const std::string kDropAll = R"("default": "drop")";
std::string drop(const std::string& match) {
  return R"("rules": [{"match": {)" + match + R"(}, "action": "drop"}])";
}
std::string drop_with(const std::string& fragments, const std::string& match) {
  return R"("fragments": ")" + fragments + "\", " + drop(match);
}
std::string inspect(const std::string& more, const std::string& match = "") {
  return more + (more.empty() ? "" : ", ") +
         R"("pipelines": {"p": [{"stage": "l2fwd"}]}, "rules": [{"match": {)" + match +
         R"(}, "action": {"inspect": "p"}}])";
}

Frame repeated(const Frame& part, int times) {
  return times == 0 ? Frame{} : part + repeated(part, times - 1);
}

TEST_P(CaseTest, Verdict) {
  Program program;
  program.install(policy_text(GetParam().policy));
  const Outcome outcome = program.run(GetParam().frame);
  EXPECT_EQ(outcome.reason, GetParam().reason);
  EXPECT_EQ(outcome.action, GetParam().action);
  EXPECT_EQ(outcome.frame, GetParam().frame) << "only a rewrite may touch the frame";
}

INSTANTIATE_TEST_SUITE_P(
    Default, CaseTest,
    testing::Values(
        Case{"passes", "", kUdp, XDP_PASS, "pass_default"},
        Case{"drops", kDropAll, kUdp, XDP_DROP, "drop_default"},
        Case{"rules_without_a_match", kDropAll + ", " + drop(R"("proto": "tcp")"), kUdp, XDP_DROP,
             "drop_default"},
        Case{"unknown_ethertype", kDropAll, ethernet() + be16(0x88b5) + bytes(46), XDP_DROP, "drop_default"},
        Case{"ethernet_802_3", kDropAll, ethernet() + be16(46) + bytes(46), XDP_DROP, "drop_default"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Rules, CaseTest,
    testing::Values(
        Case{"pass", kDropAll + R"(, "rules": [{"match": {"dst_port": 53}, "action": "pass"}])", kUdp,
             XDP_PASS, "pass_rule"},
        Case{"drop", drop(R"("dst_port": 53)"), kUdp, XDP_DROP, "drop_rule"},
        Case{"drop_v6", drop(R"("dst_port": 53)"), kUdp6, XDP_DROP, "drop_rule"},
        Case{"family", drop(R"("family": "ipv6")"), kUdp, XDP_PASS, "pass_default"},
        Case{"family_6", drop(R"("family": "ipv6")"), kUdp6, XDP_DROP, "drop_rule"},
        Case{"src_prefix", drop(R"("src": "192.0.2.0/24")"), kUdp, XDP_DROP, "drop_rule"},
        Case{"src_prefix_other", drop(R"("src": "192.0.3.0/24")"), kUdp, XDP_PASS, "pass_default"},
        Case{"dst_prefix_v6_long", drop(R"("dst": "2001:db8::2/127")"), kUdp6, XDP_DROP, "drop_rule"},
        Case{"dst_prefix_v6_other", drop(R"("dst": "2001:db8::4/127")"), kUdp6, XDP_PASS, "pass_default"},
        Case{"src_port_range", drop(R"("src_port": "900-1000")"), kUdp, XDP_DROP, "drop_rule"},
        Case{"src_port_outside", drop(R"("src_port": "900-999")"), kUdp, XDP_PASS, "pass_default"},
        Case{"tcp_flags_syn", drop(R"("proto": "tcp", "tcp_flags": "syn,!ack")"), kSyn, XDP_DROP,
             "drop_rule"},
        Case{"tcp_flags_ack", drop(R"("proto": "tcp", "tcp_flags": "syn,!ack")"), kTcp, XDP_PASS,
             "pass_default"},
        Case{"not_ip_matches_the_empty_rule", drop(""), ethernet() + be16(0x88b5) + bytes(46), XDP_DROP,
             "drop_rule"},
        Case{"not_ip_has_no_address", drop(R"("src": ["0.0.0.0/0", "::/0"])"),
             ethernet() + be16(0x88b5) + bytes(46), XDP_PASS, "pass_default"},
        Case{
            "first_match_wins",
            R"("rules": [{"match": {"proto": "udp"}, "action": "pass"}, {"match": {"dst_port": 53}, "action": "drop"}])",
            kUdp, XDP_PASS, "pass_rule"},
        Case{"gre_by_its_number", drop(R"("proto": 47)"),
             ethernet() + ipv4({.protocol = 47}, be32(0x0800) + bytes(40)), XDP_DROP, "drop_rule"},
        Case{"sctp_port", drop(R"("proto": "sctp", "dst_port": 3868)"),
             ethernet() + ipv4({.protocol = 132}, sctp(1, 3868) + bytes(16)), XDP_DROP, "drop_rule"},
        Case{"icmp", drop(R"("proto": "icmp")"), ethernet() + ipv4({.protocol = 1}, icmp(8, 0, 7)), XDP_DROP,
             "drop_rule"},
        Case{"icmp_has_no_ports", drop(R"("dst_port": "0-65535")"),
             ethernet() + ipv4({.protocol = 1}, icmp(8, 0, 7)), XDP_PASS, "pass_default"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(
    Headers, CaseTest,
    testing::Values(
        Case{"vlan", drop(R"("vlan": 10, "dst_port": 53)"), ethernet({10}) + ipv4({}, udp(1000, 53)),
             XDP_DROP, "drop_rule"},
        Case{"vlan_other", drop(R"("vlan": 11)"), ethernet({10}) + ipv4({}, udp(1000, 53)), XDP_PASS,
             "pass_default"},
        Case{"vlan_range_first", drop(R"("vlan": "100-199")"), ethernet({100}) + ipv4({}, udp(1000, 53)),
             XDP_DROP, "drop_rule"},
        Case{"vlan_range_last", drop(R"("vlan": ["none", "100-199", 7])"),
             ethernet({199}) + ipv6({}, udp(1000, 53)), XDP_DROP, "drop_rule"},
        Case{"vlan_range_below", drop(R"("vlan": "100-199")"), ethernet({99}) + ipv4({}, udp(1000, 53)),
             XDP_PASS, "pass_default"},
        Case{"vlan_range_above", drop(R"("vlan": "100-199")"), ethernet({200}) + ipv4({}, udp(1000, 53)),
             XDP_PASS, "pass_default"},
        Case{"vlan_range_by_the_outer_id", drop(R"("vlan": "100-199")"),
             ethernet({20, 150}, {0x88a8, 0x8100}) + ipv4({}, udp(1000, 53)), XDP_PASS, "pass_default"},
        Case{"vlan_all_but_untagged", drop(R"("vlan": "1-4094")"), kUdp, XDP_PASS, "pass_default"},
        Case{"vlan_all_but_priority", drop(R"("vlan": "1-4094")"),
             ethernet({0x6000}) + ipv4({}, udp(1000, 53)), XDP_PASS, "pass_default"},
        Case{"vlan_range_of_management",
             R"("default": "drop", "management": [{"proto": "udp", "dst_port": 53, "vlan": "10-19"}])",
             ethernet({19}) + ipv4({}, udp(1000, 53)), XDP_PASS, "pass_management"},
        Case{"vlan_outside_of_management",
             R"("default": "drop", "management": [{"proto": "udp", "dst_port": 53, "vlan": "10-19"}])",
             ethernet({20}) + ipv4({}, udp(1000, 53)), XDP_DROP, "drop_default"},
        Case{"vlan_none", drop(R"("vlan": "none")"), kUdp, XDP_DROP, "drop_rule"},
        Case{"vlan_none_but_tagged", drop(R"("vlan": "none")"), ethernet({10}) + ipv4({}, udp(1000, 53)),
             XDP_PASS, "pass_default"},
        Case{"vlan_priority", drop(R"("vlan": "priority")"), ethernet({0x6000}) + ipv4({}, udp(1000, 53)),
             XDP_DROP, "drop_rule"},
        Case{"qinq_by_its_outer_id", drop(R"("vlan": 20, "dst_port": 53)"),
             ethernet({20, 10}, {0x88a8, 0x8100}) + ipv6({}, udp(1000, 53)), XDP_DROP, "drop_rule"},
        Case{"three_tags_are_not_ip", R"("malformed": "inspect", )" + drop(R"("dst_port": 53)"),
             ethernet({1, 2, 3}) + ipv4({}, udp(1000, 53)), XDP_PASS, "pass_default"},
        Case{"ipv4_options", drop(R"("dst_port": 53)"),
             ethernet() + ipv4({.options = bytes(40, 1)}, udp(1000, 53)), XDP_DROP, "drop_rule"},
        Case{"ipv6_extensions", drop(R"("proto": "tcp", "dst_port": 80)"),
             ethernet() + ipv6({.next = 0}, extension(43, 1) + extension(60) + extension(51) +
                                                authentication(6) + tcp(1, 80)),
             XDP_DROP, "drop_rule"},
        Case{"ipv6_eight_extensions", drop(R"("dst_port": 53)"),
             ethernet() + ipv6({.next = 60}, repeated(extension(60), 7) + extension(17) + udp(1000, 53)),
             XDP_DROP, "drop_rule"},
        Case{"ipv6_nine_extensions", R"("malformed": "inspect", )" + drop(R"("dst_port": 53)"),
             ethernet() + ipv6({.next = 60}, repeated(extension(60), 8) + extension(17) + udp(1000, 53)),
             XDP_PASS, "pass_default"},
        Case{"malformed_has_no_address", R"("malformed": "inspect", )" + drop(R"("src": "192.0.2.0/24")"),
             ethernet() + ipv4({.first_byte = 0x44}, udp(1000, 53)), XDP_PASS, "pass_default"},
        Case{"padding_is_not_l4", R"("malformed": "inspect", )" + drop(R"("dst_port": 53)"),
             ethernet() + ipv4({.total = 20}, udp(1000, 53)) + bytes(18, 0), XDP_PASS, "pass_default"}),
    case_name);

const std::string kManagement =
    R"("management": [{"src": "192.0.2.0/24", "proto": "tcp", "dst_port": 22}], )";
INSTANTIATE_TEST_SUITE_P(
    Management, CaseTest,
    testing::Values(
        Case{"before_any_rule", kManagement + drop(""), ethernet() + ipv4({.protocol = 6}, tcp(5, 22)),
             XDP_PASS, "pass_management"},
        Case{"replies", kManagement + drop(""),
             ethernet() + ipv4({.src = "10.1.1.1", .dst = "192.0.2.9", .protocol = 6}, tcp(22, 5)), XDP_PASS,
             "pass_management"},
        Case{"others", kManagement + drop(""),
             ethernet() + ipv4({.src = "10.1.1.1", .protocol = 6}, tcp(5, 22)), XDP_DROP, "drop_rule"}),
    case_name);

const Frame kNs = nd(135);
const Frame kDhcp = ethernet() + ipv4({.src = "0.0.0.0", .dst = "255.255.255.255"}, udp(68, 67, 240));
const Frame kStp = stp();
const std::string kDeny = R"("default": "drop", )" + drop("");
INSTANTIATE_TEST_SUITE_P(
    Control, CaseTest,
    testing::Values(
        Case{"arp", kDeny, arp(), XDP_PASS, "pass_control"},
        Case{"arp_tagged", kDeny, ethernet({7}) + arp_packet(), XDP_PASS, "pass_control"},
        Case{"neighbour_discovery", kDeny, kNs, XDP_PASS, "pass_control"},
        Case{"forwarded_neighbour_discovery_is_forged", kDeny, nd(135, "fe80::1", 254), XDP_DROP,
             "drop_rule"},
        Case{"echo_is_not_control", kDeny, ethernet() + ipv6({.next = 58, .hop_limit = 255}, icmp(128, 0)),
             XDP_DROP, "drop_rule"},
        Case{"dhcp", kDeny, kDhcp, XDP_PASS, "pass_control"},
        Case{"dhcp_reply", kDeny, ethernet() + ipv4({}, udp(67, 68, 240)), XDP_PASS, "pass_control"},
        Case{"dhcpv6", kDeny, ethernet() + ipv6({}, udp(546, 547, 40)), XDP_PASS, "pass_control"},
        Case{"source_port_67_is_nobodys_privilege", kDeny, ethernet() + ipv4({}, udp(67, 53)), XDP_DROP,
             "drop_rule"},
        Case{"dhcp_fragment_is_a_fragment", R"("fragments": "drop")",
             ethernet() + ipv4({.fragment = 0x2000}, udp(68, 67, 240)), XDP_DROP, "drop_fragment"},
        Case{"lacp", kDeny, lacp(), XDP_PASS, "pass_control"},
        Case{"lldp", kDeny, lldp(), XDP_PASS, "pass_control"},
        Case{"stp", kDeny, kStp, XDP_PASS, "pass_control"},
        Case{"named_arp", drop(R"("control": "arp")"), arp(), XDP_DROP, "drop_rule"},
        Case{"named_nd", drop(R"("control": "nd")"), kNs, XDP_DROP, "drop_rule"},
        Case{"named_dhcp", drop(R"("control": "dhcp")"), kDhcp, XDP_DROP, "drop_rule"},
        Case{"named_stp", drop(R"("control": "stp")"), kStp, XDP_DROP, "drop_rule"},
        Case{"naming_one_leaves_the_others", drop(R"("control": "arp")"), kDhcp, XDP_PASS, "pass_control"}),
    case_name);

const Frame kFirst = ethernet() + ipv4({.fragment = 0x2000}, udp(1000, 53, 24, 2000));
const Frame kLater = ethernet() + ipv4({.fragment = 0x2004}, udp(1000, 53, 24));
const Frame kLast = ethernet() + ipv4({.fragment = 0x0008}, bytes(8));
const Frame kFirst6 = ethernet() + ipv6({.next = 44}, fragment_header(17, 1, 99) + udp(1000, 53, 24, 2000));
const Frame kLater6 = ethernet() + ipv6({.next = 44}, fragment_header(17, 0x20, 99) + bytes(24));
const Frame kAtomic6 = ethernet() + ipv6({.next = 44}, fragment_header(17, 0, 99) + udp(1000, 53, 24));
INSTANTIATE_TEST_SUITE_P(
    Fragments, CaseTest,
    testing::Values(
        Case{"unsaid_follows_a_default_that_drops",
             kDropAll + R"(, "rules": [{"match": {"proto": "udp", "dst_port": 53}, "action": "pass"}])",
             kFirst, XDP_DROP, "drop_fragment"},
        Case{"unsaid_later_follows_a_default_that_drops", kDropAll, kLater6, XDP_DROP, "drop_fragment"},
        Case{"unsaid_follows_a_default_that_passes", R"("default": "pass")", kLater, XDP_PASS,
             "pass_fragment"},
        Case{"first_pass", kDropAll + R"(, "fragments": "pass")", kFirst, XDP_PASS, "pass_fragment"},
        Case{"first_drop", R"("fragments": "drop")", kFirst, XDP_DROP, "drop_fragment"},
        Case{"later_drop", R"("fragments": "drop")", kLater, XDP_DROP, "drop_fragment"},
        Case{"last_drop", R"("fragments": "drop")", kLast, XDP_DROP, "drop_fragment"},
        Case{"first6_drop", R"("fragments": "drop")", kFirst6, XDP_DROP, "drop_fragment"},
        Case{"later6_drop", R"("fragments": "drop")", kLater6, XDP_DROP, "drop_fragment"},
        Case{"atomic6_drop", R"("fragments": "drop")", kAtomic6, XDP_DROP, "drop_fragment"},
        Case{"dont_fragment_is_none", R"("fragments": "drop")",
             ethernet() + ipv4({.fragment = 0x4000}, udp(1, 2)), XDP_PASS, "pass_default"},
        Case{"first_has_no_ports", drop_with("pass", R"("dst_port": 53)"), kFirst, XDP_PASS, "pass_fragment"},
        Case{"rules_by_address_hold", drop_with("pass", R"("src": "192.0.2.1")"), kLater, XDP_DROP,
             "drop_rule"},
        Case{"rules_by_protocol_hold", drop_with("pass", R"("proto": "udp")"), kFirst6, XDP_DROP,
             "drop_rule"},
        Case{"inspect_rule_pass", inspect(R"("fragments": "pass")"), kFirst, XDP_PASS, "pass_fragment"},
        Case{"inspect_rule_drop", inspect(R"("fragments": "drop")"), kLater6, XDP_DROP, "drop_fragment"},
        Case{"inspect_rule_inspect", inspect(R"("fragments": "inspect", "on_failure": "drop")"), kFirst,
             XDP_DROP, "drop_failure"},
        Case{"inspect_without_a_rule", inspect(R"("fragments": "inspect")", R"("proto": "tcp")"), kFirst,
             XDP_PASS, "pass_default"},
        Case{"inspect_without_any_rule", kDropAll + R"(, "fragments": "inspect")", kFirst, XDP_DROP,
             "drop_default"}),
    case_name);

INSTANTIATE_TEST_SUITE_P(Failure, CaseTest,
                         testing::Values(Case{"no_worker_pass", inspect(R"("on_failure": "pass")"), kUdp,
                                              XDP_PASS, "pass_failure"},
                                         Case{"no_worker_drop", inspect(R"("on_failure": "drop")"), kUdp,
                                              XDP_DROP, "drop_failure"}),
                         case_name);

class StateTest : public KernelTest {};

TEST_F(StateTest, PassesWhileStartingAndInBypass) {
  Program program;
  program.install(policy_text(kDropAll));
  for (u32 state : {XG_STATE_STARTING, XG_STATE_BYPASS}) {
    program.config().state = state;
    EXPECT_EQ(program.run(kUdp).reason, "pass_bypass");
  }
  program.config().state = XG_STATE_RUNNING;
  EXPECT_EQ(program.run(kUdp).reason, "drop_default");
}

TEST_F(StateTest, PassesBeforeTheFirstPolicy) {
  Program program;
  program.config().state = XG_STATE_RUNNING;
  const Outcome outcome = program.run(kUdp);
  EXPECT_EQ(outcome.reason, "pass_bypass");
  EXPECT_EQ(outcome.action, XDP_PASS);
}

TEST_F(StateTest, DrainingKeepsTheRulesAndFailsWhatIsInspected) {
  Program program;
  program.install(policy_text(kManagement + R"("on_failure": "drop", "pipelines": {"p": [{"stage": "l2fwd"}]},
      "rules": [{"match": {"proto": "icmp"}, "action": "pass"}, {"action": {"inspect": "p"}}])"));
  program.connect(0, 10);
  EXPECT_EQ(program.run(kUdp).reason, "inspected");
  program.config().state = XG_STATE_DRAINING;
  EXPECT_EQ(program.run(kUdp).reason, "drop_failure");
  EXPECT_EQ(program.run(ethernet() + ipv4({.protocol = 1}, icmp(8, 0))).reason, "pass_rule");
  EXPECT_EQ(program.run(ethernet() + ipv4({.protocol = 6}, tcp(5, 22))).reason, "pass_management");
}

TEST_F(StateTest, TablesThatAreMissingAreAFailure) {
  Program program;
  policy::Tables tables;
  tables.header.rule_count = 1;
  tables.header.on_failure = XG_DO_DROP;
  tables.header.dims = 1;
  tables.header.heads_line = 2 * XG_CHUNK_LINES;  // there is one chunk, and zeroes behind what is in it
  program.install(tables);
  EXPECT_EQ(program.run(kUdp).reason, "drop_failure");
}

TEST_F(StateTest, SwapTakesTheOtherSlotAtOnce) {
  Program program;
  program.install(policy_text(drop(R"("dst_port": 53)")));
  EXPECT_EQ(program.run(kUdp).reason, "drop_rule");
  program.install(policy_text(drop(R"("dst_port": 54)")));
  EXPECT_EQ(program.run(kUdp).reason, "pass_default");
  program.config().active = u64{1} << 32 | 1;  // back to the first one's slot
  EXPECT_EQ(program.run(kUdp).reason, "drop_rule");
}

}  // namespace
}  // namespace xdpgpu::test
