// SPDX-License-Identifier: MIT
//
// Packets whose headers contradict each other, or whose transport header cannot be reached: dropped ahead of
// everything unless the policy says otherwise, and counted by kind.
#include "maps/malformed.h"

#include <map>
#include <set>

#include "tests/kernel/captures.hpp"
#include "tests/kernel/kernel_test.hpp"

namespace xdpgpu::test {
namespace {

Frame repeated(const Frame& part, int times) {
  return times == 0 ? Frame{} : part + repeated(part, times - 1);
}
Frame shortened(Frame frame, std::size_t length) {
  frame.resize(length);
  return frame;
}
Frame v4(u8 protocol, const Frame& payload) { return ethernet() + ipv4({.protocol = protocol}, payload); }
Frame v6(u8 next, const Frame& payload) { return ethernet() + ipv6({.next = next}, payload); }

struct Kind {
  const char* name;
  u32 kind;
  Frame frame;
};

// Frames shorter than an Ethernet header do not come through BPF_PROG_TEST_RUN (parse_test has them).
const std::vector<Kind> kKinds{
    {"tag_cut", XG_MALFORMED_frame, ethernet() + be16(0x8100) + be16(10)},
    {"three_tags", XG_MALFORMED_tags, ethernet({1, 2, 3}) + ipv4({}, udp(1000, 53))},
    {"ipv4_cut", XG_MALFORMED_ipv4_header, shortened(v4(17, udp(1, 2)), 33)},
    {"ipv4_version", XG_MALFORMED_ipv4_header, ethernet() + ipv4({.first_byte = 0x65}, udp(1, 2))},
    {"ipv4_header_of_16_bytes", XG_MALFORMED_ipv4_header, ethernet() + ipv4({.first_byte = 0x44}, udp(1, 2))},
    {"ipv4_header_beyond_the_packet", XG_MALFORMED_ipv4_length,
     ethernet() + ipv4({.first_byte = 0x4f}, udp(1, 2))},
    {"ipv4_length_below_its_header", XG_MALFORMED_ipv4_length, ethernet() + ipv4({.total = 19}, udp(1, 2))},
    {"ipv4_length_beyond_the_frame", XG_MALFORMED_ipv4_length, ethernet() + ipv4({.total = 1000}, udp(1, 2))},
    {"ipv6_cut", XG_MALFORMED_ipv6_header, shortened(v6(17, udp(1, 2)), 53)},
    {"ipv6_version", XG_MALFORMED_ipv6_header, ethernet() + be16(0x86dd) + be32(0x40000000) + bytes(44)},
    {"ipv6_length_beyond_the_frame", XG_MALFORMED_ipv6_length,
     ethernet() + ipv6({.length = 1000}, udp(1, 2))},
    {"nine_extensions", XG_MALFORMED_extension_count,
     v6(60, repeated(extension(60), 8) + extension(17) + udp(1000, 53))},
    {"far_extensions", XG_MALFORMED_extension_reach,
     v6(60, extension(60, 200) + extension(17, 20) + udp(1000, 53))},
    {"extension_cut", XG_MALFORMED_extension_cut, v6(60, Frame{17, 4} + bytes(14))},
    {"extension_of_six_bytes", XG_MALFORMED_extension_cut, v6(60, Frame{17, 0} + bytes(4))},
    {"hop_by_hop_second", XG_MALFORMED_hop_by_hop, v6(60, extension(0) + extension(17) + udp(1, 2))},
    {"two_fragment_headers", XG_MALFORMED_fragment_twice,
     v6(44, fragment_header(44, 1, 1) + fragment_header(17, 1, 2) + udp(1, 2))},
    {"fragment_beyond_64_kib", XG_MALFORMED_fragment_reach,
     ethernet() + ipv4({.fragment = 0x1fff}, bytes(32))},
    {"tcp_of_19_bytes", XG_MALFORMED_transport_cut, v4(6, shortened(tcp(1, 22), 19))},
    {"tcp_without_ports", XG_MALFORMED_transport_cut, v4(6, bytes(3))},
    {"udp_of_7_bytes", XG_MALFORMED_transport_cut, v4(17, shortened(udp(1, 2), 7))},
    {"sctp_of_8_bytes", XG_MALFORMED_transport_cut, v4(132, shortened(sctp(1, 2), 8))},
    {"icmp_of_4_bytes", XG_MALFORMED_transport_cut, v4(1, shortened(icmp(8, 0), 4))},
    {"icmpv6_of_4_bytes", XG_MALFORMED_transport_cut, v6(58, shortened(icmp(128, 0), 4))},
    {"no_transport_header", XG_MALFORMED_transport_cut, v4(17, {}) + bytes(26, 0)},
    {"tcp_header_of_16_bytes", XG_MALFORMED_tcp_length, v4(6, tcp(1, 2, 0x10, 4))},
    {"tcp_header_beyond_the_packet", XG_MALFORMED_tcp_length, v4(6, shortened(tcp(1, 2, 0x10, 15), 40))},
    {"udp_length_7", XG_MALFORMED_udp_length, v4(17, udp(1, 2, 20, 7))},
    {"udp_length_0", XG_MALFORMED_udp_length, v6(17, udp(1, 2, 20, 0))},
    {"udp_length_beyond_the_packet", XG_MALFORMED_udp_length, v4(17, udp(1, 2, 20, 60))},
};

class MalformedTest : public KernelTest {
 protected:
  std::string outcome(const std::string& policy, const Frame& frame) {
    program_.emplace();
    program_->install(policy_text(policy));
    return program_->run(frame).reason;
  }
  std::optional<Program> program_;
};

// Ahead of rules that pass, of management and of control protocols.
const std::string kAllPasses =
    R"("default": "pass", "fragments": "pass", "management": [{"proto": "tcp"}, {"src": ["0.0.0.0/0", "::/0"]}], "rules": [{"action": "pass"}])";

TEST_F(MalformedTest, IsDroppedAndCountedByKind) {
  for (const auto& one : kKinds) {
    EXPECT_EQ(outcome(kAllPasses, one.frame), "drop_malformed") << one.name;
    for (u32 kind = 1; kind <= XG_MALFORMED_COUNT; ++kind)
      EXPECT_EQ(program_->malformed(kind).packets, kind == one.kind ? 1u : 0u) << one.name << " as " << kind;
    EXPECT_EQ(program_->malformed(one.kind).bytes, one.frame.size()) << one.name;
  }
}

TEST_F(MalformedTest, EveryKindHasAFrame) {
  // Those of tracked fragments are track_test's.
  std::set<u32> kinds{XG_MALFORMED_fragment_first, XG_MALFORMED_fragment_flags,
                      XG_MALFORMED_fragment_differs};
  for (const auto& one : kKinds) kinds.insert(one.kind);
  EXPECT_EQ(kinds.size(), XG_MALFORMED_COUNT);
}

// What no transport header could be missed in.
TEST_F(MalformedTest, OthersAreNotMalformed) {
  const std::vector<Frame> good{
      arp(),
      ethernet() + be16(0x88b5) + bytes(46),
      ethernet() + be16(46) + bytes(46),
      v4(47, be32(0x0800) + bytes(20)),
      v4(253, {}) + bytes(26, 0),  // an IP protocol scan's
      v4(58, bytes(3)),            // ICMPv6 in IPv4 is a protocol like others
      v6(59, {}) + bytes(6, 0),
      v6(60, repeated(extension(60), 7) + extension(17) + udp(1000, 53)),
      ethernet({1, 2}) + ipv4({.options = bytes(40, 1)}, udp(1000, 53)) + bytes(18, 0),
      ethernet() + ipv4({}, udp(1000, 53, 20, 12)),  // bytes behind the datagram
      ethernet() + ipv4({.fragment = 0x2000}, udp(1000, 53, 24, 2000)),
  };
  for (const auto& frame : good) {
    const std::string reason = outcome("", frame);
    EXPECT_TRUE(reason == "pass_default" || reason == "pass_control" || reason == "pass_fragment") << reason;
    for (u32 kind = 1; kind <= XG_MALFORMED_COUNT; ++kind) EXPECT_EQ(program_->malformed(kind).packets, 0u);
  }
}

// The table in config/malformed.md.
TEST_F(MalformedTest, CapturesOfOddities) {
  using Reasons = std::map<std::string, u32>;
  const struct {
    const char* capture;
    Reasons reasons;
    std::set<u32> kinds;
  } rows[] = {
      {"ipv6-fragments",
       {{"pass_default", 7}, {"pass_control", 3}, {"drop_fragment", 53}, {"drop_malformed", 1}},
       {XG_MALFORMED_fragment_reach}},
      {"vlan-fragment", {{"drop_fragment", 3}}, {}},
      {"vlan", {{"pass_default", 2}}, {}},
      {"geneve", {{"pass_default", 10}}, {}},
      {"gre", {{"pass_default", 40}}, {}},
      {"teredo", {{"pass_default", 77}, {"pass_control", 1}}, {}},
      {"sctp", {{"pass_default", 1}}, {}},
      {"quic", {{"pass_default", 86}}, {}},
      {"dhcp-flood", {{"pass_control", 12}}, {}},
  };
  for (const auto& row : rows) {
    program_.emplace();
    program_->install(policy_text(R"("fragments": "drop")"));
    Reasons reasons;
    for (const Frame& frame : read_capture(capture_directory() / (std::string(row.capture) + ".pcap")))
      ++reasons[program_->run(frame).reason];
    EXPECT_EQ(reasons, row.reasons) << row.capture;
    std::set<u32> kinds;
    for (u32 kind = 1; kind <= XG_MALFORMED_COUNT; ++kind)
      if (program_->malformed(kind).packets != 0) kinds.insert(kind);
    EXPECT_EQ(kinds, row.kinds) << row.capture;
  }
}

const Frame kBad = v4(17, udp(1000, 53, 20, 60));
const Frame kBadTcp = v4(6, tcp(5, 22, 0x10, 4));
// Neighbour discovery and DHCP behind headers that contradict each other.
const Frame kBadNd =
    ethernet() + ipv6({.next = 60, .hop_limit = 255}, extension(0) + extension(58) + icmp(135, 0));
const Frame kLongNd = ethernet() + ipv6({.next = 58, .hop_limit = 255, .length = 200}, icmp(135, 0));
const Frame kBadDhcp = ethernet() + ipv4({.total = 1000}, udp(68, 67, 240));
const Frame kBadFragment = ethernet() + ipv4({.fragment = 0x1fff}, bytes(32));
const std::string kManaged = R"("management": [{"proto": "tcp", "dst_port": 22}], "default": "drop")";
const std::string kManagedButOne =
    R"("management": [{"proto": "tcp", "dst_port": 22}], "rules": [{"match": {"src": "192.0.2.1"}, "action": "drop"}])";
const std::string kPipeline = R"("pipelines": {"p": [{"stage": "l2fwd"}]}, )";
const std::string kInspects = kPipeline + R"("rules": [{"action": {"inspect": "p"}}], "on_failure": "drop")";
const std::string kPass = R"("malformed": "pass", )", kInspect = R"("malformed": "inspect", )";

INSTANTIATE_TEST_SUITE_P(
    Malformed, CaseTest,
    testing::Values(
        Case{"no_way_as_nd", R"("default": "drop")", kBadNd, XDP_DROP, "drop_malformed"},
        Case{"no_way_as_dhcp", R"("default": "drop")", kBadDhcp, XDP_DROP, "drop_malformed"},
        Case{"left_to_the_rules_no_way_as_nd", kPass + R"("rules": [{"action": "drop"}])", kBadNd, XDP_DROP,
             "drop_rule"},
        Case{"left_to_the_rules_no_way_as_long_nd", kInspect + R"("default": "drop")", kLongNd, XDP_DROP,
             "drop_default"},
        Case{"left_to_the_rules_no_way_as_dhcp", kInspect + R"("default": "drop")", kBadDhcp, XDP_DROP,
             "drop_default"},
        Case{"no_way_as_management", kManaged, kBadTcp, XDP_DROP, "drop_malformed"},
        Case{"left_to_the_rules_no_way_as_management", kInspect + kManaged, kBadTcp, XDP_DROP,
             "drop_default"},
        Case{"no_management_so_the_next_rule_decides", kPass + kManagedButOne, kBadTcp, XDP_DROP,
             "drop_rule"},
        Case{"inspected_no_management_so_the_next_rule_decides", kInspect + kManagedButOne, kBadTcp, XDP_DROP,
             "drop_rule"},
        Case{"pass_without_a_rule", kPass + R"("default": "drop")", kBad, XDP_PASS, "pass_malformed"},
        Case{"pass_leaves_rules_their_word",
             kPass + R"("rules": [{"match": {"src": "192.0.2.1"}, "action": "drop"}])", kBad, XDP_DROP,
             "drop_rule"},
        Case{"pass_spares_the_pipeline", kPass + kInspects, kBad, XDP_PASS, "pass_malformed"},
        Case{"inspect", kInspect + kInspects, kBad, XDP_DROP, "drop_failure"},
        Case{"inspect_without_a_rule", kInspect + R"("default": "drop")", kBad, XDP_DROP, "drop_default"},
        Case{"fragments_that_pass_are_dropped", R"("fragments": "pass")", kBadFragment, XDP_DROP,
             "drop_malformed"},
        Case{"fragments_that_drop_stay_dropped", kPass + R"("fragments": "drop")", kBadFragment, XDP_DROP,
             "drop_fragment"},
        Case{"fragments_of_pipelines_need_both_words",
             kPass + R"("fragments": "inspect", "default": "drop", )" + kInspects, kBadFragment, XDP_DROP,
             "drop_default"}),
    case_name);

}  // namespace
}  // namespace xdpgpu::test
