// SPDX-License-Identifier: MIT
//
// What the parser says: good documents become values, bad ones become sentences with their place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "maps/flow.h"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

FileReader no_files() { return read_files_of({}); }

Diagnostics problems(std::string_view text, const FileReader& files = no_files()) {
  auto policy = parse(text, "p.json", files);
  return policy ? Diagnostics{} : policy.error();
}
std::string sentences(const Diagnostics& found) {
  std::string all;
  for (const auto& d : found) all += d.sentence() + "\n";
  return all;
}
Policy accepted(std::string_view text, const FileReader& files = no_files()) {
  auto policy = parse(text, "p.json", files);
  EXPECT_TRUE(policy) << sentences(policy.error());
  return policy ? *policy : Policy{};
}

TEST(Parse, TheSmallestPolicyHasTheDefaults) {
  Policy policy = accepted(R"({"version": 1})");
  EXPECT_EQ(policy.default_action, Do::pass);
  EXPECT_EQ(policy.on_failure, Do::pass);
  EXPECT_EQ(policy.on_overload, Do::pass);
  EXPECT_EQ(policy.fragments, Do::pass);
  EXPECT_EQ(policy.malformed, Do::drop);
  EXPECT_EQ(policy.io, Io{});
  EXPECT_EQ(policy.compute, Compute{});
  EXPECT_EQ(policy.log, Log{});
  EXPECT_TRUE(policy.log.outputs.empty()) << "nothing is logged";
  EXPECT_TRUE(policy.rules.empty());
}

TEST(Parse, AWholePolicy) {
  Policy policy =
      accepted(R"({
    "$schema": "./policy.schema.json", "version": 1, "description": "all there is",
    "default": "drop", "on_failure": "drop", "on_overload": "pass", "fragments": "inspect",
    "malformed": "pass",
    "management": [{"description": "us", "src": "10.0.0.0/8", "proto": "tcp", "dst_port": 22}],
    "lists": {"bad": {"description": "them", "file": "bad.txt"},
              "office": {"prefixes": ["198.51.100.0/24", "2001:db8:5::/48"], "description": "who works here"}},
    "rules": [
      {"name": "office first", "match": {"src": "@office"}, "action": "pass"},
      {"match": {"src": ["@bad", "192.0.2.1"], "dst": "2001:db8::1", "family": "ipv6"}, "action": "drop"},
      {"name": "dns", "description": "not too much", "match": {"proto": "udp", "dst_port": 53},
       "limit": {"per": "dst", "pps": 1000, "burst": 2000}},
      {"match": {"proto": ["tcp", 132], "src_port": "1024-65535", "dst_port": [80, "8000-8099"],
                 "vlan": [10, "none", "priority", "100-199"]}, "action": {"inspect": "web"}},
      {"match": {"tcp_flags": "syn, !ack"}, "action": "drop"},
      {"match": {"control": ["lldp", "stp"]}, "action": "drop"},
      {"action": "pass"}
    ],
    "pipelines": {
      "web": [
        {"stage": "acl", "default": "drop", "cache": true, "rules": [
          {"name": "a", "match": {"src": "10.0.0.0/8", "dst_port": 443}, "action": {"redirect": "eth1"}},
          {"match": {"tcp_flags": "syn,!ack", "vlan": ["none", "7", "priority"]}, "action": "next"}]},
        {"stage": "load_balance", "cache": "60s", "backends": [
          {"name": "one", "mac": "52:54:00:00:00:01", "weight": 3, "to": "eth1"}, {"mac": "52:54:00:0a:0B:02"}]},
        {"stage": "l2fwd", "description": "what is left"}
      ],
      "bounce": [{"stage": "l2fwd", "to": "eth1", "cache": false}]
    },
    "io": {"mode": "zero-copy", "ring_size": 4096, "frames_per_queue": 16384, "huge_pages": true},
    "compute": {"device": "cuda:1", "mode": "inline", "frames": "staged", "batch": 512, "max_wait": "100us"}
  })",
               read_files_of({{"bad.txt", "# bad\n203.0.113.0/24 ; SBL1\n\n  2001:db8:bad::/48  \r\n;x\n"}}));
  EXPECT_EQ(policy.default_action, Do::drop);
  EXPECT_EQ(policy.fragments, Do::inspect);
  EXPECT_EQ(policy.malformed, Do::pass);
  ASSERT_EQ(policy.management.size(), 1u);
  EXPECT_EQ(policy.management[0].description, "us");
  EXPECT_EQ(policy.lists.at("bad").description, "them");
  EXPECT_EQ(policy.lists.at("office").description, "who works here");
  EXPECT_EQ(policy.lists.at("office").prefixes.size(), 2u);
  EXPECT_THAT(policy.pipelines.at(0).descriptions, ElementsAre(std::pair(2u, "what is left")));
  EXPECT_EQ(policy.lists.at("bad").file, "bad.txt");
  EXPECT_EQ(policy.lists.at("bad").prefixes.size(), 2u);
  ASSERT_EQ(policy.rules.size(), 7u);
  EXPECT_THAT(policy.rules[0].match.src_lists, ElementsAre("office"));
  EXPECT_EQ(policy.rules[1].name, "rule 2");
  EXPECT_EQ(policy.rules[1].match.family, 6);
  EXPECT_EQ(policy.rules[2].limit, (Limit{XG_LIMIT_PER_DST, 1000, 2000}));
  EXPECT_THAT(policy.rules[3].match.protocols, ElementsAre(6, 132));
  EXPECT_THAT(policy.rules[3].match.dst_ports, ElementsAre(PortRange{80, 80}, PortRange{8000, 8099}));
  EXPECT_THAT(policy.rules[3].match.vlans,
              ElementsAre(VlanRange{10, 10}, VlanRange{0, 0}, VlanRange{XG_VLAN_PRIORITY, XG_VLAN_PRIORITY},
                          VlanRange{100, 199}));
  EXPECT_EQ(policy.rules[3].pipeline, "web");
  EXPECT_EQ(policy.rules[4].match.tcp_flags_mask, 0x12);
  EXPECT_EQ(policy.rules[4].match.tcp_flags_value, 0x02);
  EXPECT_THAT(policy.rules[5].match.control, ElementsAre(XG_CONTROL_LLDP, XG_CONTROL_STP));
  EXPECT_EQ(policy.rules[6].match, Match{});
  ASSERT_EQ(policy.pipelines.size(), 2u);
  EXPECT_EQ(policy.pipelines[0].name, "web") << "pipelines keep the order of the text";
  const auto& acl = std::get<gpu::AclSettings>(policy.pipelines[0].stages[0]);
  EXPECT_TRUE(acl.cache);
  EXPECT_EQ(acl.cache_ttl_ms, 0u);
  EXPECT_EQ(acl.rules[0].action, gpu::Action::redirect);
  EXPECT_EQ(acl.rules[0].to, "eth1");
  EXPECT_EQ(acl.rules[1].tcp_flags, (gpu::TcpFlags{0x12, 0x02}));
  EXPECT_THAT(acl.rules[1].vlans, ElementsAre(gpu::VlanRange{0, 0}, gpu::VlanRange{7, 7},
                                              gpu::VlanRange{XG_VLAN_PRIORITY, XG_VLAN_PRIORITY}));
  const auto& balance = std::get<gpu::LoadBalanceSettings>(policy.pipelines[0].stages[1]);
  EXPECT_EQ(balance.cache_ttl_ms, 60'000u);
  EXPECT_EQ(balance.backends[1].mac, (std::array<u8, 6>{0x52, 0x54, 0, 0xa, 0xb, 2}));
  EXPECT_EQ(balance.backends[1].name, "backend 2");
  EXPECT_FALSE(std::get<gpu::L2fwdSettings>(policy.pipelines[1].stages[0]).cache);
  EXPECT_EQ(policy.io.ring_size, 4096u);
  EXPECT_EQ(policy.compute.max_wait_ns, 100'000u);
}

TEST(Parse, SeveralDevicesKeepTheirOrder) {
  const auto devices = [](const std::string& list) {
    return accepted("{\"version\": 1, \"compute\": {\"devices\": " + list + "}}").compute.devices;
  };
  EXPECT_THAT(devices(R"(["cuda:1", "vulkan:0", "cuda:0"])"), ElementsAre("cuda:1", "vulkan:0", "cuda:0"));
  // Each is a device of its own, with queues of its own.
  EXPECT_THAT(devices(R"(["cpu", "cpu"])"), ElementsAre("cpu", "cpu"));
}

// ---- Bad documents: each is refused at a place, with words that help ------------------------------------
struct Bad {
  const char* name;
  const char* text;
  const char* pointer;
  u32 line, column;
  const char* message;
};
void PrintTo(const Bad& bad, std::ostream* os) { *os << bad.name; }

class BadDocuments : public testing::TestWithParam<Bad> {};

TEST_P(BadDocuments, AreRefusedAtTheirPlace) {
  const Bad& bad = GetParam();
  auto found = problems(bad.text, read_files_of({{"empty.txt", ""}, {"v6.txt", "2001:db8::/32\n"}}));
  ASSERT_EQ(found.size(), 1u) << sentences(found);
  EXPECT_EQ(found[0].pointer, bad.pointer);
  EXPECT_EQ(found[0].line, bad.line);
  EXPECT_EQ(found[0].column, bad.column);
  EXPECT_THAT(found[0].message, HasSubstr(bad.message));
  EXPECT_EQ(found[0].file, "p.json");
}

#define RULE(body) "{\"version\": 1,\n \"rules\": [\n  {" body "}]}"
#define MATCH(body) RULE("\"action\": \"drop\", \"match\": {" body "}")
#define STAGE(body) "{\"version\": 1,\n \"pipelines\": {\"p\": [\n  {" body "}]}}"
#define MIRROR(stages)                                 \
  "{\"version\": 1,\n \"pipelines\": {\"p\": [" stages \
  "]},\n"                                              \
  " \"rules\": [\n  {\"action\": {\"mirror\": \"p\"}}]}"
#define LISTED(body)                                           \
  "{\"version\": 1, \"lists\": {\"a\": [\"192.0.2.0/24\"]},\n" \
  " \"pipelines\": {\"p\": [\n  {\"stage\": \"reputation\", " body "}]}}"
#define ROUTED(hops, routes)                                \
  "{\"version\": 1,\n"                                      \
  " \"pipelines\": {\"p\": [\n  {\"stage\": \"forward\",\n" \
  "\"next_hops\": {" hops "},\n\"routes\": [" routes "]}]}}"
#define HOP "\"up\": {\"mac\": \"52:54:00:00:00:01\"}"
#define COMPUTE(body) "{\"version\": 1,\n \"compute\": {" body "}}"

const Bad kBad[] = {
    // JSON itself
    {"empty", "", "", 1, 1, "not JSON"},
    {"text_only", "hello", "", 1, 1, "not JSON"},
    {"trailing_comma", "{\"version\": 1,\n}", "/version", 2, 1, "not JSON"},
    {"second_document", "{\"version\": 1} {}", "", 1, 16, "not JSON"},
    {"unterminated", "{\"version\": 1", "/version", 1, 14, "not JSON"},
    {"bad_escape", "{\"version\": \"\\q\"}", "/version", 1, 15, "not JSON"},
    {"bad_utf8", "{\"version\": \"\xff\"}", "/version", 1, 14, "UTF-8"},
    {"huge_number", "{\"version\": 1e999}", "/version", 1, 13, "too large"},
    {"comment", "{ // no\n\"version\": 1}", "", 1, 3, "not JSON"},
    {"array", "[]", "", 1, 1, "a policy must be an object, is an array"},
    {"null", "null", "", 1, 1, "a policy must be an object, is null"},
    {"duplicate", "{\"version\": 1,\n \"default\": \"pass\",\n \"default\": \"drop\"}", "/default", 3, 2,
     "\"default\" appears twice"},
    {"duplicate_within", RULE("\"action\": \"drop\", \"action\": \"pass\""), "/rules/0/action", 3, 22,
     "appears twice"},
    // Top level
    {"no_version", "{\"default\": \"pass\"}", "", 1, 1, "needs the key \"version\""},
    {"other_version", "{\"version\": 2}", "/version", 1, 13, "version 1"},
    {"version_string", "{\"version\": \"1\"}", "/version", 1, 13, "version 1"},
    {"unknown_key", "{\"version\": 1,\n  \"defualt\": \"drop\"}", "/defualt", 2, 3,
     "unknown key \"defualt\" in a policy; did you mean \"default\"?"},
    {"unknown_far", "{\"version\": 1, \"zzzzzzzzzz\": 1}", "/zzzzzzzzzz", 1, 16,
     "known here: $schema, version"},
    {"after_umlaut", "{\"version\": 1, \"description\": \"\xc3\xbc\xc3\xbc\", \"x\": 1}", "/x", 1, 37,
     "unknown key"},
    {"slash_in_key", "{\"version\": 1, \"a/b~c\": 1}", "/a~1b~0c", 1, 16, "unknown key"},
    {"default_inspect", "{\"version\": 1, \"default\": \"inspect\"}", "/default", 1, 27,
     "must be \"pass\" or \"drop\""},
    {"near_word", "{\"version\": 1, \"default\": \"pas\"}", "/default", 1, 27, "did you mean \"pass\"?"},
    {"fragments", "{\"version\": 1, \"fragments\": true}", "/fragments", 1, 29,
     "must be \"pass\", \"drop\", \"inspect\", \"track\" or \"reassemble\", is true or false"},
    {"failure_word", "{\"version\": 1, \"on_failure\": \"known\"}", "/on_failure", 1, 30,
     "must be \"pass\" or \"drop\""},
    {"failure_number", "{\"version\": 1, \"on_failure\": 3}", "/on_failure", 1, 30,
     "must be \"pass\", \"drop\" or {\"known\": \"keep\", \"new\": \"drop\"}, is a number"},
    {"failure_known_alone", "{\"version\": 1, \"on_failure\": {\"known\": \"keep\"}}", "/on_failure", 1, 30,
     "needs the key \"new\""},
    {"overload_known_word", "{\"version\": 1, \"on_overload\": {\"known\": \"drop\", \"new\": \"drop\"}}",
     "/on_overload/known", 1, 41, "must be \"keep\""},
    {"priority_of_a_drop", RULE("\"action\": \"drop\", \"priority\": 5"), "/rules/0/priority", 3, 34,
     "only a rule that inspects"},
    {"schema_number", "{\"version\": 1, \"$schema\": 3}", "/$schema", 1, 27, "must be a string"},
    {"description_number", "{\"version\": 1, \"description\": 3}", "/description", 1, 31, "must be a string"},
    // Lists
    {"lists_array", "{\"version\": 1, \"lists\": []}", "/lists", 1, 25, "must be an object of lists"},
    {"list_name", "{\"version\": 1, \"lists\": {\"a b\": []}}", "/lists/a b", 1, 33, "letters, digits"},
    {"list_number", "{\"version\": 1, \"lists\": {\"a\": 7}}", "/lists/a", 1, 31,
     "array of prefixes, {\"prefixes\""},
    {"list_item", "{\"version\": 1, \"lists\": {\"a\": [\n1]}}", "/lists/a/0", 2, 1,
     "must be a prefix as a string"},
    {"list_item_bad", "{\"version\": 1, \"lists\": {\"a\": [\"10.0.0.0/8\",\n \"10.0.0.0/33\"]}}",
     "/lists/a/1", 2, 2, "from 0 to 32"},
    {"list_no_file", "{\"version\": 1, \"lists\": {\"a\": {}}}", "/lists/a", 1, 31, "needs the key \"file\""},
    {"list_key", "{\"version\": 1, \"lists\": {\"a\": {\"file\": \"empty.txt\", \"url\": \"x\"}}}",
     "/lists/a/url", 1, 53, "unknown key \"url\""},
    {"list_missing", "{\"version\": 1, \"lists\": {\"a\": {\"file\": \"nowhere.txt\"}}}", "/lists/a/file", 1,
     40, "nowhere.txt did not come"},
    // Management
    {"management_object", "{\"version\": 1, \"management\": {}}", "/management", 1, 30, "must be an array"},
    {"management_all", "{\"version\": 1, \"management\": [{}]}", "/management/0", 1, 31,
     "all traffic would pass"},
    {"management_flags", "{\"version\": 1, \"management\": [{\"proto\": \"tcp\", \"tcp_flags\": \"syn\"}]}",
     "/management/0/tcp_flags", 1, 48, "unknown key \"tcp_flags\" in a management entry"},
    // Rules
    {"rules_object", "{\"version\": 1, \"rules\": {}}", "/rules", 1, 25, "must be an array, is an object"},
    {"rule_string", "{\"version\": 1, \"rules\": [\"drop\"]}", "/rules/0", 1, 26, "a rule must be an object"},
    {"no_action", RULE("\"name\": \"x\""), "/rules/0", 3, 3, "needs \"action\""},
    {"action_and_limit", RULE("\"action\": \"drop\", \"limit\": {\"pps\": 1}"), "/rules/0/limit", 3, 31,
     "either"},
    {"bad_action", RULE("\"action\": \"dorp\""), "/rules/0/action", 3, 14, "did you mean \"drop\"?"},
    {"action_number", RULE("\"action\": 1"), "/rules/0/action", 3, 14, "is a number"},
    {"action_empty", RULE("\"action\": {}"), "/rules/0/action", 3, 14,
     "must be \"pass\", \"drop\", {\"inspect\": PIPELINE} or {\"mirror\": PIPELINE}"},
    {"action_key", RULE("\"action\": {\"miror\": \"scrub\"}"), "/rules/0/action/miror", 3, 15,
     "did you mean \"mirror\"?"},
    {"mirror_and_inspect", RULE("\"action\": {\"mirror\": \"a\", \"inspect\": \"b\"}"), "/rules/0/action", 3,
     14, "write two rules, the mirror first"},
    {"mirror_nowhere", RULE("\"action\": {\"mirror\": \"scrub\"}"), "/rules/0/action/mirror", 3, 25,
     "the policy has no \"pipelines\""},
    {"mirror_number", RULE("\"action\": {\"mirror\": 1}"), "/rules/0/action/mirror", 3, 25,
     "must be a string"},
    {"mirror_l2fwd", MIRROR("{\"stage\": \"l2fwd\"}"), "/rules/0/action/mirror", 4, 25,
     "pipeline \"p\" would send packets out again or change them (stage 1 (l2fwd))"},
    {"mirror_balance",
     MIRROR("{\"stage\": \"acl\", \"rules\": []}, {\"stage\": \"load_balance\", \"backends\": [{\"mac\": "
            "\"52:54:00:00:00:01\"}]}"),
     "/rules/0/action/mirror", 4, 25, "(stage 2 (load_balance))"},
    {"mirror_tx",
     MIRROR("{\"stage\": \"acl\", \"rules\": [{\"action\": \"next\"}, {\"name\": \"back\", \"action\": "
            "\"tx\"}]}"),
     "/rules/0/action/mirror", 4, 25, "(stage 1 (acl), rule \"back\")"},
    {"mirror_redirect", MIRROR("{\"stage\": \"acl\", \"rules\": [{\"action\": {\"redirect\": \"eth1\"}}]}"),
     "/rules/0/action/mirror", 4, 25, "mirror to one that only drops and passes, or inspect with this one"},
    {"no_pipelines", RULE("\"action\": {\"inspect\": \"web\"}"), "/rules/0/action/inspect", 3, 26,
     "the policy has no \"pipelines\""},
    {"pipeline_name",
     "{\"version\": 1, \"pipelines\": {\"web\": [{\"stage\": \"l2fwd\"}]}, \"rules\": [{\"action\": "
     "{\"inspect\": \"wbe\"}}]}",
     "/rules/0/action/inspect", 1, 93, "there is no pipeline \"wbe\"; did you mean \"web\"?"},
    {"empty_name", RULE("\"action\": \"drop\", \"name\": \"\""), "/rules/0/name", 3, 30, "must not be empty"},
    {"control_character", RULE("\"action\": \"drop\", \"name\": \"a\\u001bb\""), "/rules/0/name", 3, 30,
     "control characters"},
    {"same_name", RULE("\"name\": \"a\", \"action\": \"drop\"}, {\"name\": \"a\", \"action\": \"pass\""),
     "/rules/1", 3, 36, "the name \"a\" is taken by /rules/0"},
    {"limit_without_pps", RULE("\"limit\": {}"), "/rules/0/limit", 3, 13, "needs the key \"pps\""},
    {"limit_zero", RULE("\"limit\": {\"pps\": 0}"), "/rules/0/limit/pps", 3, 21, "from 1 to 1000000000"},
    {"limit_fraction", RULE("\"limit\": {\"pps\": 0.5}"), "/rules/0/limit/pps", 3, 21, "whole number"},
    {"limit_negative", RULE("\"limit\": {\"pps\": -5}"), "/rules/0/limit/pps", 3, 21, "whole number"},
    {"limit_huge", RULE("\"limit\": {\"pps\": 99999999999999999999999}"), "/rules/0/limit/pps", 3, 21,
     "whole number"},
    {"limit_string", RULE("\"limit\": {\"pps\": \"5\"}"), "/rules/0/limit/pps", 3, 21, "is a string"},
    {"limit_per", RULE("\"limit\": {\"pps\": 5, \"per\": \"port\"}"), "/rules/0/limit/per", 3, 31,
     "\"src\", \"dst\" or \"rule\""},
    {"limit_burst", RULE("\"limit\": {\"pps\": 1, \"burst\": 1000000}"), "/rules/0/limit/burst", 3, 33,
     "that is a burst of 3600"},
    // Conditions
    {"match_string", RULE("\"action\": \"drop\", \"match\": \"all\""), "/rules/0/match", 3, 31,
     "must be an object"},
    {"match_key", MATCH("\"dstport\": 80"), "/rules/0/match/dstport", 3, 32, "did you mean \"dst_port\"?"},
    {"address", MATCH("\"src\": \"10.0.0\""), "/rules/0/match/src", 3, 39, "no address or prefix"},
    {"leading_zero", MATCH("\"src\": \"10.0.0.010\""), "/rules/0/match/src", 3, 39, "no address or prefix"},
    {"host_bits", MATCH("\"src\": [\"10.0.0.1/8\"]"), "/rules/0/match/src/0", 3, 40,
     "write 10.0.0.0/8 for the network, or 10.0.0.1 for the one address"},
    {"host_bits_v6", MATCH("\"dst\": \"2001:db8::1/32\""), "/rules/0/match/dst", 3, 39,
     "write 2001:db8::/32"},
    {"length_v6", MATCH("\"dst\": \"2001:db8::/129\""), "/rules/0/match/dst", 3, 39, "from 0 to 128"},
    {"length_empty", MATCH("\"dst\": \"10.0.0.0/\""), "/rules/0/match/dst", 3, 39, "prefix length"},
    {"zone", MATCH("\"dst\": \"fe80::1%eth0\""), "/rules/0/match/dst", 3, 39, "no address or prefix"},
    {"address_number", MATCH("\"dst\": 10"), "/rules/0/match/dst", 3, 39, "as a string, is a number"},
    {"empty_array", MATCH("\"src\": []"), "/rules/0/match/src", 3, 39, "empty"},
    {"no_lists", MATCH("\"src\": \"@bad\""), "/rules/0/match/src", 3, 39, "the policy has no \"lists\""},
    {"list_near",
     "{\"version\": 1, \"lists\": {\"bad\": []}, \"rules\": [{\"action\": \"drop\", \"match\": {\"src\": "
     "\"@bda\"}}]}",
     "/rules/0/match/src", 1, 84, "there is no list \"bda\"; did you mean \"bad\"?"},
    {"protocol", MATCH("\"proto\": \"tpc\""), "/rules/0/match/proto", 3, 41, "did you mean \"tcp\"?"},
    {"protocol_number", MATCH("\"proto\": 256"), "/rules/0/match/proto", 3, 41, "from 0 to 255"},
    {"port", MATCH("\"dst_port\": 65536"), "/rules/0/match/dst_port", 3, 44, "from 0 to 65535"},
    {"port_range", MATCH("\"dst_port\": \"90-80\""), "/rules/0/match/dst_port", 3, 44, "write \"80-90\""},
    {"port_text", MATCH("\"dst_port\": \"http\""), "/rules/0/match/dst_port", 3, 44, "no port or range"},
    {"port_of_icmp", MATCH("\"proto\": \"icmp\", \"dst_port\": 80"), "/rules/0/match", 3, 31,
     "no packet can match"},
    {"flags_of_udp", MATCH("\"proto\": \"udp\", \"tcp_flags\": \"syn\""), "/rules/0/match", 3, 31,
     "leaves tcp out"},
    {"flags_of_control", MATCH("\"control\": \"nd\", \"tcp_flags\": \"syn\""), "/rules/0/match", 3, 31,
     "no packet can match"},
    {"families_apart", MATCH("\"src\": \"10.0.0.0/8\", \"dst\": \"2001:db8::/32\""), "/rules/0/match", 3, 31,
     "no address family in common"},
    {"family_of_list",
     "{\"version\": 1, \"lists\": {\"a\": {\"file\": \"v6.txt\"}}, \"rules\": [{\"action\": \"drop\", "
     "\"match\": {\"src\": "
     "\"@a\", \"family\": \"ipv4\"}}]}",
     "/rules/0/match", 1, 90, "no address family in common"},
    {"family", MATCH("\"family\": 4"), "/rules/0/match/family", 3, 42, "\"ipv4\" or \"ipv6\""},
    {"flag", MATCH("\"tcp_flags\": \"sin\""), "/rules/0/match/tcp_flags", 3, 45, "did you mean \"fin\"?"},
    {"flag_twice", MATCH("\"tcp_flags\": \"syn,!syn\""), "/rules/0/match/tcp_flags", 3, 45, "named twice"},
    {"vlan_zero", MATCH("\"vlan\": 0"), "/rules/0/match/vlan", 3, 40, "\"none\" for untagged"},
    {"vlan_high", MATCH("\"vlan\": 4095"), "/rules/0/match/vlan", 3, 40, "from 1 to 4094"},
    {"vlan_word", MATCH("\"vlan\": \"untagged\""), "/rules/0/match/vlan", 3, 40,
     "write 100, \"100-199\", \"none\" for untagged packets or \"priority\""},
    {"vlan_word_near", MATCH("\"vlan\": \"prioritty\""), "/rules/0/match/vlan", 3, 40,
     "did you mean \"priority\"?"},
    {"vlan_range_backwards", MATCH("\"vlan\": \"199-100\""), "/rules/0/match/vlan", 3, 40,
     "runs backwards; write \"100-199\""},
    {"vlan_range_zero", MATCH("\"vlan\": \"0-10\""), "/rules/0/match/vlan", 3, 40, "0 is no VLAN"},
    {"vlan_range_high", MATCH("\"vlan\": \"4000-4095\""), "/rules/0/match/vlan", 3, 40,
     "from 1 to 4094, and \"4000-4095\" goes beyond"},
    {"vlan_range_open", MATCH("\"vlan\": [\"100-\"]"), "/rules/0/match/vlan/0", 3, 41, "\"100-\" is no VLAN"},
    {"control", MATCH("\"control\": \"ospf\""), "/rules/0/match/control", 3, 43, "\"lldp\" or \"stp\""},
    // Pipelines
    {"pipelines_array", "{\"version\": 1, \"pipelines\": []}", "/pipelines", 1, 29, "object of pipelines"},
    {"pipeline_object", "{\"version\": 1, \"pipelines\": {\"p\": {}}}", "/pipelines/p", 1, 35,
     "needs the key \"stages\""},
    {"pipeline_empty", "{\"version\": 1, \"pipelines\": {\"p\": []}}", "/pipelines/p", 1, 35,
     "1 to 62 stages"},
    {"pipeline_string", "{\"version\": 1, \"pipelines\": {\"p\": \"acl\"}}", "/pipelines/p", 1, 35,
     "must be an array of stages, or {\"inner\": true, \"stages\": [...]}, is a string"},
    {"pipeline_key",
     "{\"version\": 1, \"pipelines\": {\"p\": {\n  \"iner\": true, \"stages\": [{\"stage\": \"l2fwd\"}]}}}",
     "/pipelines/p/iner", 2, 3, "did you mean \"inner\"?"},
    {"pipeline_inner",
     "{\"version\": 1, \"pipelines\": {\"p\": {\"inner\": 1, \"stages\": [{\"stage\": \"l2fwd\"}]}}}",
     "/pipelines/p/inner", 1, 45, "must be true or false"},
    {"pipeline_stages", "{\"version\": 1, \"pipelines\": {\"p\": {\"stages\": {}}}}", "/pipelines/p/stages",
     1, 46, "must be an array of stages, is an object"},
    {"pipeline_no_stages", "{\"version\": 1, \"pipelines\": {\"p\": {\"stages\": []}}}",
     "/pipelines/p/stages", 1, 46, "needs 1 to 62 stages"},
    {"inner_stage",
     "{\"version\": 1, \"pipelines\": {\"p\": {\"inner\": true, \"stages\": [\n  {\"stage\": \"l2fwd\"},\n"
     "  {\"stage\": \"l2fw\"}]}}}",
     "/pipelines/p/stages/1/stage", 3, 13, "did you mean \"l2fwd\"?"},
    {"inner_outermost",
     "{\"version\": 1, \"pipelines\": {\"p\": {\"inner\": true, \"stages\": [\n"
     "  {\"stage\": \"decapsulate\", \"addresses\": \"192.0.2.1\"}]}}}",
     "/pipelines/p/stages/0", 2, 3, "decapsulate goes by the outermost headers"},
    {"stage_string", "{\"version\": 1, \"pipelines\": {\"p\": [\"acl\"]}}", "/pipelines/p/0", 1, 36,
     "must be an object"},
    {"stage_nameless", STAGE("\"rules\": []"), "/pipelines/p/0", 3, 3, "needs the key \"stage\""},
    {"stage_unknown", STAGE("\"stage\": \"l2fw\""), "/pipelines/p/0/stage", 3, 13, "did you mean \"l2fwd\"?"},
    {"stage_absent", STAGE("\"stage\": \"pattern\", \"rules\": []"), "/pipelines/p/0/stage", 3, 13,
     "this version does not have the stage \"pattern\"; it has \"acl\", \"load_balance\", \"l2fwd\", "},
    {"stage_key", STAGE("\"stage\": \"l2fwd\", \"port\": \"eth1\""), "/pipelines/p/0/port", 3, 22,
     "unknown key \"port\""},
    {"acl_no_rules", STAGE("\"stage\": \"acl\""), "/pipelines/p/0", 3, 3, "needs the key \"rules\""},
    {"acl_list",
     STAGE("\"stage\": \"acl\", \"rules\": [{\"match\": {\"src\": \"@x\"}, \"action\": \"drop\"}]"),
     "/pipelines/p/0/rules/0/match/src", 3, 48, "lists cannot be used here"},
    {"acl_vlan", STAGE("\"stage\": \"acl\", \"rules\": [{\"match\": {\"vlan\": 0}, \"action\": \"drop\"}]"),
     "/pipelines/p/0/rules/0/match/vlan", 3, 49, "0 is no VLAN"},
    {"acl_tcp_flags",
     STAGE(
         "\"stage\": \"acl\", \"rules\": [{\"match\": {\"tcp_flags\": \"syn,sny\"}, \"action\": \"drop\"}]"),
     "/pipelines/p/0/rules/0/match/tcp_flags", 3, 54, "sny"},
    {"acl_tcp_flags_of_udp",
     STAGE("\"stage\": \"acl\", \"rules\": [{\"match\": {\"tcp_flags\": \"syn\", \"proto\": \"udp\"}, "
           "\"action\": \"drop\"}]"),
     "/pipelines/p/0/rules/0/match", 3, 40, "\"proto\" leaves tcp out"},
    {"acl_family",
     STAGE("\"stage\": \"acl\", \"rules\": [{\"match\": {\"family\": \"ipv4\"}, \"action\": \"drop\"}]"),
     "/pipelines/p/0/rules/0/match/family", 3, 41, "unknown key \"family\""},
    {"mirror_cached_flags",
     MIRROR(
         "{\"stage\": \"acl\", \"cache\": true, \"rules\": [{\"name\": \"syn\", \"match\": {\"tcp_flags\": "
         "\"syn\"}, \"action\": \"drop\"}]}"),
     "/rules/0/action/mirror", 4, 25, "decides by TCP flags (stage 1 (acl), rule \"syn\") and caches"},
    {"acl_action", STAGE("\"stage\": \"acl\", \"rules\": [{\"action\": \"redirect\"}]"),
     "/pipelines/p/0/rules/0/action", 3, 41, "name the interface"},
    {"acl_default", STAGE("\"stage\": \"acl\", \"rules\": [], \"default\": \"tx\""), "/pipelines/p/0/default",
     3, 44, "\"next\", \"drop\" or \"pass\""},
    {"redirect_name", STAGE("\"stage\": \"l2fwd\", \"to\": \"a/b\""), "/pipelines/p/0/to", 3, 28,
     "interface's name"},
    {"redirect_long", STAGE("\"stage\": \"l2fwd\", \"to\": \"sixteen-letters-\""), "/pipelines/p/0/to", 3, 28,
     "1 to 15 characters"},
    {"reputation_of", LISTED("\"of\": \"host\", \"lists\": [{\"list\": \"@a\", \"action\": \"drop\"}]"),
     "/pipelines/p/0/of", 3, 33, "\"either\""},
    {"reputation_no_list", LISTED("\"lists\": []"), "/pipelines/p/0/lists", 3, 36,
     "1 to 4095 can stand here, here are 0"},
    {"reputation_unknown", LISTED("\"lists\": [{\"list\": \"@b\", \"action\": \"drop\"}]"),
     "/pipelines/p/0/lists/0/list", 3, 46, "there is no list \"b\"; known here: a"},
    {"reputation_prefix", LISTED("\"lists\": [{\"list\": \"10.0.0.0/8\", \"action\": \"drop\"}]"),
     "/pipelines/p/0/lists/0/list", 3, 46, "\"@known_bad\""},
    {"reputation_twice",
     LISTED(
         "\"lists\": [{\"list\": \"@a\", \"action\": \"drop\"}, {\"list\": \"@a\", \"action\": \"pass\"}]"),
     "/pipelines/p/0/lists/1/list", 3, 80, "twice"},
    {"forward_no_hop", ROUTED("", ""), "/pipelines/p/0/next_hops", 4, 14,
     "1 to 4096 can stand here, here are 0"},
    {"forward_hop_named_pass", ROUTED("\"pass\": {\"mac\": \"52:54:00:00:00:01\"}", ""),
     "/pipelines/p/0/next_hops/pass", 4, 23, "cannot be named \"pass\""},
    {"forward_hop_named_badly", ROUTED("\"a b\": {\"mac\": \"52:54:00:00:00:01\"}", ""),
     "/pipelines/p/0/next_hops/a b", 4, 22, "letters, digits"},
    {"forward_hop_mac", ROUTED("\"up\": {\"mac\": \"01:00:5e:00:00:01\"}", ""),
     "/pipelines/p/0/next_hops/up/mac", 4, 29, "multicast"},
    {"forward_hop_source", ROUTED("\"up\": {\"mac\": \"52:54:00:00:00:01\", \"to\": \"eth1\"}", ""),
     "/pipelines/p/0/next_hops/up/to", 4, 56, "needs \"src_mac\", that interface's MAC address"},
    {"forward_mtu", ROUTED("\"up\": {\"mac\": \"52:54:00:00:00:01\", \"mtu\": 67}", ""),
     "/pipelines/p/0/next_hops/up/mtu", 4, 57, "from 68 to 65535"},
    {"route_unknown", ROUTED(HOP, "{\"prefix\": \"::/0\", \"next_hop\": \"down\"}"),
     "/pipelines/p/0/routes/0/next_hop", 5, 43, "there is no next hop \"down\""},
    {"route_prefix", ROUTED(HOP, "{\"prefix\": \"10.0.0.1/8\", \"next_hop\": \"up\"}"),
     "/pipelines/p/0/routes/0/prefix", 5, 23, "10.0.0.1/8"},
    {"route_no_prefix", ROUTED(HOP, "{\"prefix\": [], \"next_hop\": \"up\"}"),
     "/pipelines/p/0/routes/0/prefix", 5, 23, "array is empty"},
    {"route_no_file", ROUTED(HOP, "{\"file\": \"r\"}"), "/pipelines/p/0/routes/0/file", 5, 21, "r"},
    {"no_backends", STAGE("\"stage\": \"load_balance\", \"backends\": []"), "/pipelines/p/0/backends", 3, 41,
     "1 to 256 can stand here, here are 0"},
    {"backend_mac", STAGE("\"stage\": \"load_balance\", \"backends\": [{\"mac\": \"52:54:0:0:0:1\"}]"),
     "/pipelines/p/0/backends/0/mac", 3, 50, "no MAC address"},
    {"backend_multicast",
     STAGE("\"stage\": \"load_balance\", \"backends\": [{\"mac\": \"ff:ff:ff:ff:ff:ff\"}]"),
     "/pipelines/p/0/backends/0/mac", 3, 50, "multicast"},
    {"backend_weight",
     STAGE("\"stage\": \"load_balance\", \"backends\": [{\"mac\": \"52:54:00:00:00:01\", \"weight\": 1001}]"),
     "/pipelines/p/0/backends/0/weight", 3, 81, "from 0 to 1000"},
    {"cache_number", STAGE("\"stage\": \"l2fwd\", \"cache\": 60"), "/pipelines/p/0/cache", 3, 31,
     "a duration like \"60s\""},
    {"cache_unit", STAGE("\"stage\": \"l2fwd\", \"cache\": \"60\""), "/pipelines/p/0/cache", 3, 31,
     "no duration"},
    {"cache_short", STAGE("\"stage\": \"l2fwd\", \"cache\": \"10us\""), "/pipelines/p/0/cache", 3, 31,
     "from 1ms"},
    {"cache_long", STAGE("\"stage\": \"l2fwd\", \"cache\": \"169h\""), "/pipelines/p/0/cache", 3, 31,
     "to 168h"},
    // io, compute
    {"io_key", "{\"version\": 1, \"io\": {\"rings\": 1}}", "/io/rings", 1, 23,
     "unknown key \"rings\" in \"io\""},
    {"io_mode", "{\"version\": 1, \"io\": {\"mode\": \"zerocopy\"}}", "/io/mode", 1, 31,
     "did you mean \"zero-copy\"?"},
    {"ring_size", "{\"version\": 1, \"io\": {\"ring_size\": 1000}}", "/io/ring_size", 1, 36, "power of two"},
    {"burst_and_frames", "{\"version\": 1, \"io\": {\"frames_per_queue\": 8192, \"burst\": \"1ms\"}}",
     "/io/burst", 1, 58, "leave one of them out"},
    {"burst_long", "{\"version\": 1, \"io\": {\"burst\": \"2s\"}}", "/io/burst", 1, 32, "from 1us to 1s"},
    {"burst_number", "{\"version\": 1, \"io\": {\"burst\": 5}}", "/io/burst", 1, 32,
     "a duration like \"2ms\""},
    {"heartbeat_short", "{\"version\": 1, \"io\": {\"heartbeat\": \"5ms\"}}", "/io/heartbeat", 1, 36,
     "from 10ms to 10s"},
    {"spin_long", "{\"version\": 1, \"io\": {\"spin\": \"2s\"}}", "/io/spin", 1, 31, "from 1us to 1s"},
    {"link_alone", "{\"version\": 1, \"io\": {\"link_gbps\": 10}}", "/io/link_gbps", 1, 36, "burst"},
    {"busy_poll", "{\"version\": 1, \"io\": {\"busy_poll\": \"on\"}}", "/io/busy_poll", 1, 36,
     "\"auto\", true or false"},
    {"busy_poll_budget", "{\"version\": 1, \"io\": {\"busy_poll_budget\": 0}}", "/io/busy_poll_budget", 1, 43,
     "1"},
    {"mirror_slots", "{\"version\": 1, \"io\": {\"mirror_slots\": 100}}", "/io/mirror_slots", 1, 39,
     "power of two"},
    {"mirror_bytes", "{\"version\": 1, \"io\": {\"mirror_bytes\": 32}}", "/io/mirror_bytes", 1, 39,
     "from 64 to 256"},
    {"huge_pages", "{\"version\": 1, \"io\": {\"huge_pages\": 1}}", "/io/huge_pages", 1, 37, "true or false"},
    {"device", COMPUTE("\"device\": \"gpu\""), "/compute/device", 2, 24, "\"vulkan:0\""},
    {"device_number", COMPUTE("\"device\": \"cuda:x\""), "/compute/device", 2, 24, "is no device"},
    {"devices_string", COMPUTE("\"devices\": \"cuda:0\""), "/compute/devices", 2, 25, "must be an array"},
    {"devices_none", COMPUTE("\"devices\": []"), "/compute/devices", 2, 25, "names no device"},
    {"devices_auto", COMPUTE("\"devices\": [\"auto\"]"), "/compute/devices/0", 2, 26, "\"cuda:0\""},
    {"devices_kind", COMPUTE("\"devices\": [\"cpu\", \"cuda\"]"), "/compute/devices/1", 2, 33,
     "as xdpgpu devices lists them"},
    {"devices_twice", COMPUTE("\"devices\": [\"cuda:1\", \"cuda:1\"]"), "/compute/devices/1", 2, 36, "twice"},
    {"device_and_devices", COMPUTE("\"device\": \"cpu\", \"devices\": [\"cuda:0\"]"), "/compute/devices", 2,
     42, "leave one of them out"},
    {"compute_mode", COMPUTE("\"mode\": \"graf\""), "/compute/mode", 2, 22, "did you mean \"graph\"?"},
    {"batch", COMPUTE("\"batch\": 0"), "/compute/batch", 2, 23, "from 1 to 16384"},
    {"max_wait", COMPUTE("\"max_wait\": \"1s\""), "/compute/max_wait", 2, 26, "at most 100ms"},
    {"max_wait_number", COMPUTE("\"max_wait\": 50"), "/compute/max_wait", 2, 26, "duration like \"50us\""},
};
INSTANTIATE_TEST_SUITE_P(Table, BadDocuments, testing::ValuesIn(kBad),
                         [](const auto& bad) { return std::string(bad.param.name); });

TEST(Parse, EveryProblemOfADocumentIsReported) {
  auto found = problems(
      "{\n\"version\": 3,\n\"defualt\": 1,\n\"rules\": [{\"action\": 5}, {\"match\": {\"src\": \"x\"}}]}");
  ASSERT_EQ(found.size(), 5u) << sentences(found);
  EXPECT_EQ(found[0].sentence(),
            "p.json:3:1: /defualt: unknown key \"defualt\" in a policy; did you mean \"default\"?");
  EXPECT_EQ(found[1].pointer, "/version");
  EXPECT_EQ(found[2].pointer, "/rules/0/action");
  EXPECT_EQ(found[3].pointer, "/rules/1/match/src");
  EXPECT_EQ(found[4].pointer, "/rules/1");
}

TEST(Parse, AFloodOfProblemsIsCounted) {
  std::string text = "{\"version\": 1, \"rules\": [";
  for (int i = 0; i < 500; ++i) text += i == 0 ? "1" : ",1";
  auto found = problems(text + "]}");
  ASSERT_EQ(found.size(), kMaxDiagnostics + 1);
  // Each is no object, and unnamed: 500 problems.
  EXPECT_EQ(found.back().message, "and 480 more problems");
}

TEST(Parse, NestingIsBounded) {
  std::string deep = "{\"version\": ";
  for (u32 i = 0; i < 200'000; ++i) deep += '[';
  auto found = problems(deep);
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].message, HasSubstr("deeper than 32 levels"));
  EXPECT_EQ(found[0].column, 12u + 1 + kMaxNesting - 1);
}

TEST(Parse, SizesAreBounded) {
  std::string text(kMaxTextBytes + 1, ' ');
  EXPECT_THAT(sentences(problems(text)), HasSubstr("at most 16777216 are read"));

  std::string many = "{\"version\": 1, \"rules\": [";
  for (u32 i = 0; i <= XG_MAX_RULES; ++i) many += i == 0 ? "{\"action\":\"drop\"}" : ",{\"action\":\"drop\"}";
  auto found = problems(many + "]}");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].pointer, "/rules");
  EXPECT_THAT(found[0].message, HasSubstr("room for 4096 rules; here are 4097"));
}

TEST(Parse, LimitsAreBounded) {
  std::string many = "{\"version\": 1, \"rules\": [";
  for (u32 i = 0; i < XG_MAX_LIMIT_RULES; ++i)
    many += i == 0 ? "{\"limit\":{\"pps\":1}}" : ",{\"limit\":{\"pps\":1}}";
  EXPECT_TRUE(compile(accepted(many + "]}")));
  auto found = problems(many + ",{\"limit\":{\"pps\":1}}]}");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].pointer, "/rules");
  EXPECT_THAT(found[0].message, HasSubstr("room for 64 limits"));
}

TEST(Parse, RatesOfWhatIsExempt) {
  EXPECT_EQ(accepted(R"({"version": 1})").rates, kDefaultRates);
  const Policy policy = accepted(
      R"({"version": 1, "rates": {"arp": {"pps": 7}, "management_answers": {"pps": 10, "burst": 40}}})");
  EXPECT_EQ(policy.rates[XG_CONTROL_ARP], (Rate{7, 7}));
  EXPECT_EQ(policy.rates[XG_RATE_ANSWERS], (Rate{10, 40}));
  EXPECT_EQ(policy.rates[XG_CONTROL_ND], kDefaultRates[XG_CONTROL_ND]);
  const xg_rate compiled = compile(policy)->header.rates[XG_RATE_ANSWERS];
  EXPECT_EQ(compiled.interval_ns, (1'000'000'000ull << 8) / 10);
  EXPECT_EQ(compiled.burst_ns, 39 * compiled.interval_ns);
  EXPECT_EQ(problems(R"({"version": 1, "rates": {"arp": {"burst": 7}}})").at(0).pointer, "/rates/arp");
  EXPECT_EQ(problems(R"({"version": 1, "rates": {"lacp": {"pps": 0}}})").at(0).pointer, "/rates/lacp/pps");
  EXPECT_EQ(problems(R"({"version": 1, "rates": {"stp": {"pps": 1, "burst": 9999}}})").at(0).pointer,
            "/rates/stp/burst");
  EXPECT_THAT(problems(R"({"version": 1, "rates": {"arps": {"pps": 1}}})").at(0).message,
              HasSubstr("\"arp\""));
}

TEST(Parse, FourThousandNinetySixRulesAreTaken) {
  std::string many = "{\"version\": 1, \"rules\": [";
  for (u32 i = 0; i < XG_MAX_RULES; ++i) many += i == 0 ? "{\"action\":\"drop\"}" : ",{\"action\":\"drop\"}";
  Policy policy = accepted(many + "]}");
  ASSERT_EQ(policy.rules.size(), XG_MAX_RULES);
  EXPECT_TRUE(compile(policy));
}

TEST(Parse, WhatTheTextBringsDoesNotReachTheTerminal) {
  auto found = problems("{\"version\": 1, \"\\u001b[31mred\": 1}");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].sentence().find('\x1b'), std::string::npos);
}

TEST(Parse, AByteOrderMarkIsNoProblem) {
  EXPECT_TRUE(parse("\xef\xbb\xbf{\"version\": 1}", "p", no_files()));
}

TEST(ListFiles, ProblemsNameTheFileAndLine) {
  FileReader files =
      read_files_of({{"lists/l.txt", "10.0.0.0/8\n\n# fine\n  10.0.0.1/8 # not\nnonsense\x1b\xff\n::1"}});
  auto found = problems(R"({"version": 1, "lists": {"l": {"file": "lists/l.txt"}}})", files);
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].sentence(),
            "lists/l.txt:4:3: /lists/l/file: \"10.0.0.1/8\" has bits set behind its prefix length; write "
            "10.0.0.0/8 for "
            "the network, or 10.0.0.1 for the one address");
  EXPECT_EQ(found[1].line, 5u);
  EXPECT_EQ(found[1].message,
            "\"nonsense??\" is no address or prefix; write it like 192.0.2.1, 10.0.0.0/8 or 2001:db8::/32");
}

TEST(ListFiles, AFloodOfBadLinesIsCounted) {
  std::string text;
  for (int i = 0; i < 300'000; ++i) text += "bad\n";
  auto found = problems(R"({"version": 1, "lists": {"l": {"file": "l"}}})", read_files_of({{"l", text}}));
  ASSERT_EQ(found.size(), kMaxDiagnostics + 1);
  EXPECT_EQ(found.back().message, "and 299980 more problems");
}

TEST(ListFiles, MoreThanTheMostPrefixesAreRefused) {
  std::string text;
  for (u32 i = 0; i <= kMaxPrefixes; ++i) text += "::\n";
  auto found = problems(R"({"version": 1, "lists": {"l": {"file": "l"}}})", read_files_of({{"l", text}}));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_THAT(found[0].message, HasSubstr("more prefixes than the 4000000"));
}

TEST(Hash, DependsOnTheTextAndEveryFile) {
  const char* text = R"({"version": 1, "lists": {"a": {"file": "a"}, "b": {"file": "b"}}})";
  auto hash = [&](std::string_view document, const char* a, const char* b) {
    return accepted(document, read_files_of({{"a", a}, {"b", b}})).hash;
  };
  u64 first = hash(text, "::1\n", "::2\n");
  EXPECT_EQ(first, hash(text, "::1\n", "::2\n"));
  EXPECT_NE(first, hash(text, "::2\n", "::1\n"));
  EXPECT_NE(first, hash(text, "::1\n", "::2\n "));
  EXPECT_NE(first, hash(text, "::1\n::2\n", ""));
  EXPECT_NE(first, hash(std::string(text) + " ", "::1\n", "::2\n"));
}

}  // namespace
}  // namespace xdpgpu::policy
