// SPDX-License-Identifier: MIT
#include "tests/netns/settings_cases.hpp"

#include "tests/stages/stage_tests.hpp"

namespace xdpgpu::lab {
namespace {

using namespace tests;
using Values = SettingsValues;

const std::vector<std::string> kUninspected{R"("pass")", R"("drop")", R"({"known": "keep", "new": "pass"})",
                                            R"({"known": "keep", "new": "drop"})"};

Values listed(const std::string& at) {
  return together({each(at + "/src", {R"("@inline")", R"(["@inline", "192.0.2.1"])"}),
                   each(at + "/dst", {R"("@file")", R"(["@inline", "@file"])"})});
}

// ---- the policy's own keys, and rules ---------------------------------------------------------------------

const char* const kWhole = R"({
  "$schema": "./policy.schema.json", "version": 1, "description": "all of it",
  "default": "pass", "on_failure": "pass", "on_overload": "pass", "fragments": "drop",
  "overlapping_fragments": "drop", "malformed": "drop",
  "rates": {"arp": {"pps": 1000, "burst": 500}, "nd": {"pps": 1001}, "dhcp": {"pps": 102}, "lacp": {"pps": 13},
            "lldp": {"pps": 14}, "stp": {"pps": 15}, "management_answers": {"pps": 16, "burst": 32}},
  "management": [{"description": "who", "proto": "tcp", "dst_port": 22, "family": "ipv4"}],
  "lists": {"inline": ["203.0.113.0/24", "2001:db8::/32"], "file": {"file": "list.txt", "description": "whose"},
            "told": {"prefixes": ["192.0.2.0/24"], "description": "where"}},
  "rules": [
    {"name": "odd", "description": "why", "match": {"proto": "tcp"}, "action": "drop"},
    {"name": "much", "match": {"control": "arp"}, "limit": {"per": "src", "pps": 100000, "burst": 200000}},
    {"name": "seen", "match": {"proto": "udp", "dst_port": 9}, "action": {"mirror": "watch"}},
    {"name": "web", "match": {"proto": "udp"}, "action": {"inspect": "web"}, "priority": 5}
  ],
  "pipelines": {
    "web": [{"stage": "acl", "rules": []}],
    "watch": [{"stage": "acl", "rules": [], "default": "pass"}]
  }
})";

SettingsCase whole() {
  return {"Policy", kWhole,
          together({each("/default", kDecisions), each("/on_failure", kUninspected),
                    each("/on_overload", kUninspected),
                    each("/fragments",
                         {R"("pass")", R"("drop")", R"("inspect")", R"("track")", R"("reassemble")"}),
                    each("/overlapping_fragments", {R"("drop")", R"("first")"}),
                    each("/malformed", {R"("pass")", R"("drop")", R"("inspect")"}),
                    each("/lists/inline", {"[]", R"(["192.0.2.1", "2001:db8::1"])", R"({"file": "list.txt"})",
                                           R"({"file": "rules.txt"})"})})};
}

SettingsCase rules() {
  return {"Rules", kWhole,
          together({each("/rules/0/action",
                         {R"("pass")", R"("drop")", R"({"inspect": "web"})", R"({"mirror": "watch"})"}),
                    each("/rules/1/limit/per", {R"("src")", R"("dst")", R"("rule")"}),
                    each("/rules/1/match/control", {R"("arp")", R"("nd")", R"("dhcp")", R"("lacp")",
                                                    R"("lldp")", R"("stp")", R"(["arp", "nd", "stp"])"}),
                    each("/rules/3/priority", {"1", "5"})})};
}

SettingsCase matches() {
  const std::string at = "/rules/0/match";
  return {"RulesMatch", kWhole,
          together({address_values(at), listed(at), port_values(at), vlan_values(at), flag_values(at),
                    protocol_values("/rules/3/match"), each(at + "/family", {R"("ipv4")", R"("ipv6")"})})};
}

SettingsCase management() {
  const std::string at = "/management/0";
  return {"Management", kWhole,
          together({each(at + "/family", {R"("ipv4")"}),
                    each(at + "/src", {R"("192.0.2.1")", R"("192.0.2.0/24")",
                                       R"(["192.0.2.1", "192.0.2.8/29"])", R"("@inline")"}),
                    each(at + "/dst",
                         {R"("198.51.100.0/24")", R"(["198.51.100.1", "198.51.100.2"])", R"("@file")"}),
                    port_values(at), vlan_values(at),
                    // Without ports, which none of the others has.
                    Values{{"/management/0", R"({"proto": ["icmp", "ospf"], "family": "ipv4"})"},
                           {"/management/0", R"({"proto": ["icmpv6", 103], "family": "ipv6"})"},
                           {"/management/0", R"({"proto": "igmp"})"},
                           {"/management/0", R"({"proto": "gre"})"},
                           {"/management/0", R"({"proto": ["esp", "ah", "udp", "sctp"]})"},
                           {"/management/0", R"({"proto": 6})", R"({"proto": "tcp"})"}}})};
}

SettingsCase inner() {
  return {"Inner", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p":
            {"description": "tunnels", "inner": true, "stages": [
              {"stage": "conntrack", "on_new": "next"},
              {"stage": "acl", "rules": [{"match": {"src": "10.0.0.0/8"}, "action": "drop"}]}]}}})",
          together({each("/pipelines/p/inner", {"true", "false"}),
                    each("/pipelines/p", {R"([{"stage": "l2fwd"}])"})})};
}

// ---- what is taken at attach ------------------------------------------------------------------------------

SettingsCase io() {
  return {
      "Io", R"({"version": 1, "io": {"mode": "copy", "ring_size": 1024, "frames_per_queue": 4096,
            "huge_pages": false, "busy_poll": false, "busy_poll_us": 30, "busy_poll_budget": 32,
            "heartbeat": "500ms", "spin": "10us", "mirror_slots": 128, "mirror_bytes": 256}})",
      together({each("/io/mode", {R"("auto")", R"("copy")", R"("generic")"}),
                Values{{"/io/mode", R"("zero-copy")", "", "zero-copy"},
                       {"/io/huge_pages", "true", "", "huge page"}},
                each("/io/busy_poll", {R"("auto")", "true", "false"}),
                each("/io/heartbeat", {R"("1s")", R"("500000us")", R"("500000000ns")"}),
                each("/io", {R"({"mode": "copy", "burst": "1ms", "link_gbps": 10, "heartbeat": "5s"})"})}),
      true};
}

SettingsCase compute() {
  return {"Compute", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}],
            "pipelines": {"p": [{"stage": "acl", "rules": []}]}, "io": {"mode": "copy", "heartbeat": "5s"},
            "compute": {"device": "cpu", "mode": "inline", "frames": "auto", "batch": 256, "max_wait": "100us",
                        "standby": "cpu", "retry": "1m"}})",
          together({each("/compute/device", {R"("auto")", R"("cpu")"}),
                    Values{{"/compute/device", R"("cuda")", "", "cuda"},
                           {"/compute/device", R"("vulkan:0")", "", "vulkan"},
                           {"/compute", R"({"devices": ["cpu"], "mode": "split"})"},
                           {"/compute", R"({"devices": ["cuda:0"]})", "", "cuda"},
                           {"/compute", R"({"devices": ["vulkan:0"]})", "", "vulkan"},
                           {"/compute", R"({"device": "cuda", "mode": "graph"})", "", "cuda"}},
                    each("/compute/mode", {R"("auto")", R"("inline")", R"("split")", R"("persistent")"}),
                    each("/compute/frames", {R"("auto")", R"("in_place")", R"("staged")"}),
                    each("/compute/standby", {R"("cpu")", R"("none")"}),
                    each("/compute/retry", {"false", R"("5s")"})}),
          true};
}

SettingsCase log() {
  return {"Log", R"({"version": 1, "log": {"outputs": [{"file": "/tmp/xdpgpu-settings.json"}],
            "events": ["alert", "drop", "dns", "stats"], "rate": 100, "alert_rate": 7, "payload": 64, "stats_every": "5s"}})",
          together({each("/log/outputs",
                         {R"([{"socket": "/tmp/xdpgpu-settings.sock"}])", R"([{"journald": true}])",
                          R"([{"journald": true}, {"socket": "/tmp/xdpgpu-settings.sock"}])"}),
                    each("/log/events", {R"(["drop"])", R"(["dns", "stats"])"}),
                    each("/log/events", {R"(["alert"])", R"(["drop", "program"])"}),
                    each("/log/rate", {"1", "1000000"}), each("/log/alert_rate", {"1", "1000000"}),
                    each("/log/payload", {"0", "1024"}), each("/log/stats_every", {R"("1s")", R"("1h")"})})};
}

}  // namespace

const std::vector<SettingsCase>& settings_cases() {
  static const std::vector<SettingsCase> cases = [] {
    std::vector<SettingsCase> all{
        whole(), rules(), matches(), management(), inner(), io(), compute(), log(),
    };
    for (const auto& stage : stage_tests())
      all.insert(all.end(), stage.settings.begin(), stage.settings.end());
    return all;
  }();
  return cases;
}

const std::map<std::string, std::string>& settings_files() {
  static const std::map<std::string, std::string> files = [] {
    std::map<std::string, std::string> all{
        {"list.txt", "203.0.113.0/24 ; known\n2001:db8:bad::/48\n"},
        {"rules.txt", "alert ip [203.0.113.7,203.0.113.8] any -> $HOME_NET any (msg:\"bad\"; sid:1;)\n"},
    };
    for (const auto& stage : stage_tests()) all.insert(stage.files.begin(), stage.files.end());
    return all;
  }();
  return files;
}

}  // namespace xdpgpu::lab
