// SPDX-License-Identifier: MIT
#include "tests/netns/settings_cases.hpp"

namespace xdpgpu::lab {
namespace {

using Values = std::vector<SettingsValue>;

Values each(const std::string& pointer, const std::vector<std::string>& values) {
  Values all;
  all.reserve(values.size());
  for (const auto& value : values) all.push_back({pointer, value});
  return all;
}

Values together(std::initializer_list<Values> parts) {
  Values all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

const std::vector<std::string> kDecisions{R"("pass")", R"("drop")"};
const std::vector<std::string> kStageDefaults{R"("next")", R"("drop")", R"("pass")"};
const std::vector<std::string> kEvict{R"("fifo")", R"("lru")", R"("lfu")", R"("random")", R"("refuse")"};
const std::vector<std::string> kCache{"true", "false", R"("1ms")", R"("60s")"};
const std::vector<std::string> kUninspected{R"("pass")", R"("drop")", R"({"known": "keep", "new": "pass"})",
                                            R"({"known": "keep", "new": "drop"})"};

// ---- what a packet meets: rules, management and a stage's rules alike -------------------------------------

Values addresses(const std::string& at) {
  return together(
      {each(at + "/src", {R"("192.0.2.1")", R"("192.0.2.0/24")", R"(["192.0.2.1", "2001:db8::/32"])"}),
       each(at + "/dst", {R"("198.51.100.0/24")", R"(["198.51.100.1", "198.51.100.2"])"})});
}
Values listed(const std::string& at) {
  return together({each(at + "/src", {R"("@inline")", R"(["@inline", "192.0.2.1"])"}),
                   each(at + "/dst", {R"("@file")", R"(["@inline", "@file"])"})});
}
Values protocols(const std::string& at) {
  return together(
      {each(at + "/proto", {R"("icmp")", R"("igmp")", R"("gre")", R"("esp")", R"("ah")", R"("icmpv6")",
                            R"("ospf")", "103", R"(["tcp", "udp", "sctp"])", R"(["udp", 103])"}),
       Values{{at + "/proto", "6", R"("tcp")"}}});
}
Values ports(const std::string& at) {
  Values all;
  for (const char* key : {"/src_port", "/dst_port"})
    all = together({all, each(at + key, {"53", R"("8000-8099")", R"([80, "8000-8099"])"}),
                    Values{{at + key, R"("443")", "443"}}});
  return all;
}
Values vlans(const std::string& at) {
  return together({each(at + "/vlan", {"7", R"("none")", R"("priority")", R"([7, 8])", R"(["none", 7])",
                                       R"("100-199")", R"(["priority", 7, "100-199", "300-4094"])"}),
                   Values{{at + "/vlan", R"("7")", "7"}}});
}
// In the order in which they are written again.
Values flags(const std::string& at) {
  return each(at + "/tcp_flags", {R"("syn,!ack")", R"("fin,psh,urg")", R"("!rst,ece,cwr")"});
}

// ---- the policy's own keys, and rules ---------------------------------------------------------------------

const char* const kWhole = R"({
  "$schema": "./policy.schema.json", "version": 1, "description": "all of it",
  "default": "pass", "on_failure": "pass", "on_overload": "pass", "fragments": "drop", "malformed": "drop",
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
                    each("/fragments", {R"("pass")", R"("drop")", R"("inspect")", R"("track")"}),
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
          together({addresses(at), listed(at), ports(at), vlans(at), flags(at), protocols("/rules/3/match"),
                    each(at + "/family", {R"("ipv4")", R"("ipv6")"})})};
}

SettingsCase management() {
  const std::string at = "/management/0";
  return {"Management", kWhole,
          together({each(at + "/family", {R"("ipv4")"}),
                    each(at + "/src", {R"("192.0.2.1")", R"("192.0.2.0/24")",
                                       R"(["192.0.2.1", "192.0.2.8/29"])", R"("@inline")"}),
                    each(at + "/dst",
                         {R"("198.51.100.0/24")", R"(["198.51.100.1", "198.51.100.2"])", R"("@file")"}),
                    ports(at), vlans(at),
                    // Without ports, which none of the others has.
                    Values{{"/management/0", R"({"proto": ["icmp", "ospf"], "family": "ipv4"})"},
                           {"/management/0", R"({"proto": ["icmpv6", 103], "family": "ipv6"})"},
                           {"/management/0", R"({"proto": "igmp"})"},
                           {"/management/0", R"({"proto": "gre"})"},
                           {"/management/0", R"({"proto": ["esp", "ah", "udp", "sctp"]})"},
                           {"/management/0", R"({"proto": 6})", R"({"proto": "tcp"})"}}})};
}

// ---- stages -----------------------------------------------------------------------------------------------

SettingsCase acl() {
  const std::string at = "/pipelines/p/0/rules/0/match";
  return {
      "Acl", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "acl", "description": "what", "default": "next", "cache": true, "rules": [
              {"name": "one", "match": {"proto": "tcp"}, "action": "drop"}]}]}})",
      together({each("/pipelines/p/0/default", kStageDefaults), each("/pipelines/p/0/cache", kCache),
                each("/pipelines/p/0/rules/0/action",
                     {R"("next")", R"("drop")", R"("pass")", R"("tx")", R"({"redirect": "IF1"})"}),
                addresses(at), ports(at), vlans(at), flags(at), protocols("/pipelines/p/0/rules/0/match")})};
}

SettingsCase hash_balance() {
  return {"LoadBalanceByHash", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "load_balance", "description": "what", "algorithm": "hash", "cache": "60s", "backends": [
              {"name": "a", "mac": "52:54:00:00:00:01", "weight": 3, "to": "IF1"},
              {"mac": "52:54:00:00:00:02", "drain": false}]}]}})",
          together({each("/pipelines/p/0/cache", kCache),
                    each("/pipelines/p/0/backends/0/mac", {R"("52:54:00:00:0A:0b")"})})};
}

SettingsCase maglev() {
  return {"LoadBalanceByMaglev",
          R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "load_balance", "algorithm": "maglev", "table_size": 251, "key_file": "key.txt",
             "affinity": {"per": "flow", "idle": "5m", "entries": 1024, "evict": "lru"},
             "health": {"port": 80, "interval": "2s", "timeout": "1s", "fall": 3, "rise": 2},
             "backends": [
              {"name": "a", "mac": "52:54:00:00:00:01", "address": "10.9.0.2"},
              {"name": "b", "mac": "52:54:00:00:00:02", "drain": true, "address": "fd09::2"},
              {"name": "c", "mac": "52:54:00:00:00:03", "weight": 2, "address": "10.9.0.3"}]}]}})",
          together({each("/pipelines/p/0/affinity/per", {R"("flow")", R"("src")"}),
                    each("/pipelines/p/0/affinity/evict", kEvict),
                    each("/pipelines/p/0/cache", {R"("1m")", "false"}),
                    each("/pipelines/p/0/backends/0/drain", {"true", "false"})})};
}

SettingsCase encapsulation() {
  return {"LoadBalanceEncapsulated",
          R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "load_balance", "encapsulation": {"type": "gue", "port": 6081, "mtu": 1400,
               "source": {"ipv4": "10.9.0.1", "ipv6": "fd09::1"}},
             "backends": [{"mac": "52:54:00:00:00:01", "address": "10.9.0.2"},
                          {"mac": "52:54:00:00:00:02", "address": "fd09::2"}]}]}})",
          together({each("/pipelines/p/0/encapsulation",
                         {R"({"type": "ipip", "source": {"ipv4": "10.9.0.1", "ipv6": "fd09::1"}})",
                          R"({"type": "gue", "source": {"ipv4": "10.9.0.0/24", "ipv6": "fd09::/112"}})"})})};
}

SettingsCase decapsulate() {
  return {"Decapsulate",
          R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "decapsulate", "description": "what", "type": "gue", "port": 6081, "action": "pass",
             "addresses": ["10.9.0.1", "fd09::1"]}]}})",
          together({each("/pipelines/p/0/type", {R"("gue")", R"("any")"}),
                    each("/pipelines/p/0/addresses", {R"("10.9.0.1")", R"(["10.9.0.1", "fd09::1"])"}),
                    each("/pipelines/p/0/action", {R"("pass")", R"("tx")", R"({"redirect": "IF1"})"}),
                    each("/pipelines/p/0",
                         {R"({"stage": "decapsulate", "type": "ipip", "addresses": "10.9.0.1"})"})})};
}

SettingsCase inner() {
  return {"Inner", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p":
            {"description": "tunnels", "inner": true, "stages": [
              {"stage": "conntrack", "on_new": "next"},
              {"stage": "acl", "rules": [{"match": {"src": "10.0.0.0/8"}, "action": "drop"}]}]}}})",
          together({each("/pipelines/p/inner", {"true", "false"}),
                    each("/pipelines/p", {R"([{"stage": "l2fwd"}])"})})};
}

SettingsCase l2fwd() {
  return {"L2fwd", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}],
                      "pipelines": {"p": [{"stage": "l2fwd", "description": "what", "to": "IF1", "cache": "1s"}]}})",
          each("/pipelines/p/0/cache", kCache)};
}

SettingsCase reputation() {
  return {"Reputation", R"({"version": 1, "lists": {"bad": {"file": "list.txt"}, "good": ["192.0.2.0/24"]},
            "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "reputation", "description": "what", "of": "either", "default": "next", "cache": "1s",
             "lists": [{"list": "@bad", "action": "drop"}, {"list": "@good", "action": "pass"}]}]}})",
          together({each("/pipelines/p/0/of", {R"("src")", R"("dst")", R"("either")"}),
                    each("/pipelines/p/0/default", kStageDefaults), each("/pipelines/p/0/cache", kCache),
                    each("/pipelines/p/0/lists/0/action",
                         {R"("next")", R"("drop")", R"("pass")", R"("tx")", R"({"redirect": "IF1"})"})})};
}

SettingsCase forward() {
  return {"Forward", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "forward", "description": "what", "default": "drop", "cache": "1s",
             "next_hops": {"left": {"mac": "52:54:00:00:00:01"},
                           "right": {"mac": "52:54:00:00:00:02", "src_mac": "52:54:00:00:00:03", "to": "IF1",
                                     "mtu": 1400}},
             "routes": [{"prefix": "192.0.2.0/24", "next_hop": "left"},
                        {"prefix": ["198.51.100.0/24", "2001:db8::/32"], "next_hop": "right"},
                        {"prefix": "203.0.113.0/24", "next_hop": "drop"},
                        {"prefix": "203.0.113.128/25", "next_hop": "pass"},
                        {"file": "routes.txt"}]}]}})",
          together({each("/pipelines/p/0/default", kStageDefaults), each("/pipelines/p/0/cache", kCache)})};
}

SettingsCase rate_limit() {
  return {"RateLimit", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "rate_limit", "description": "what", "per": "src", "prefix4": 24, "prefix6": 56, "pps": 100000, "burst": 200000,
             "bytes_per_second": 100000000, "burst_bytes": 200000000, "excess": "drop", "entries": 1024,
             "evict": "lru"},
            {"stage": "rate_limit", "per": "flow", "pps": 100000}]}})",
          together({each("/pipelines/p/0/per", {R"("src")", R"("dst")"}),
                    each("/pipelines/p/1/per", {R"("flow")"}), each("/pipelines/p/0/excess", kDecisions),
                    each("/pipelines/p/0/evict", kEvict)})};
}

SettingsCase conntrack() {
  return {"Conntrack", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "conntrack", "description": "what", "on_new": "next", "on_invalid": "drop", "on_untracked": "pass", "egress": true, "loose": false,
             "entries": 1024, "evict": "lru",
             "timeouts": {"syn_sent": "1s", "syn_received": "2s", "established": "3h", "fin_wait": "4s",
                          "time_wait": "5s", "closed": "6s", "udp": "7s", "udp_replied": "8s", "icmp": "9s",
                          "other": "10m"}}]}})",
          together({each("/pipelines/p/0/on_new", kStageDefaults),
                    each("/pipelines/p/0/on_invalid", kStageDefaults),
                    each("/pipelines/p/0/on_untracked", kStageDefaults),
                    each("/pipelines/p/0/egress", {"true", "false"}),
                    each("/pipelines/p/0/loose", {"true", "false"}), each("/pipelines/p/0/evict", kEvict)})};
}

SettingsCase ddos() {
  return {
      "Ddos", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "ddos", "description": "what", "direction": "in", "prefix4": 24, "prefix6": 64, "window": "100ms", "syn_pps": 100001,
             "udp_pps": 100002, "udp_bytes_per_second": 100000003, "dns_pps": 100004,
             "dns_bytes_per_second": 100000005, "icmp_pps": 100006, "pps": 100007, "bytes_per_second": 100000008,
             "new_flows_per_second": 100009, "sources": 100010, "release_percent": 40, "hold": "10s",
             "on_detect": "drop_sources", "share_percent": 20, "cache": "1s", "entries": 64, "evict": "lru"}]}})",
      together({each("/pipelines/p/0/direction", {R"("in")", R"("out")"}),
                each("/pipelines/p/0/on_detect", {R"("drop_sources")"}),
                each("/pipelines/p/0/cache", {"true", "false", R"("500ms")"}),
                each("/pipelines/p/0/evict", kEvict),
                // What only reports drops nothing, so it caches nothing and asks for no share.
                Values{{"/pipelines/p/0", R"({"stage": "ddos", "syn_pps": 1000, "on_detect": "pass"})"},
                       {"/pipelines/p/0", R"({"stage": "ddos", "syn_pps": 1000, "on_detect": "drop"})"}}})};
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

}  // namespace

const std::vector<SettingsCase>& settings_cases() {
  static const std::vector<SettingsCase> cases{
      whole(),      rules(),         matches(), management(),  acl(),        hash_balance(),
      maglev(),     encapsulation(), inner(),   l2fwd(),       reputation(), forward(),
      rate_limit(), conntrack(),     ddos(),    decapsulate(), io(),         compute(),
  };
  return cases;
}

const std::map<std::string, std::string>& settings_files() {
  static const std::map<std::string, std::string> files{
      {"list.txt", "203.0.113.0/24 ; known\n2001:db8:bad::/48\n"},
      {"rules.txt", "alert ip [203.0.113.7,203.0.113.8] any -> $HOME_NET any (msg:\"bad\"; sid:1;)\n"},
      {"routes.txt", "10.64.0.0/10 left\n2001:db8:1::/48 right\n"},
      {"key.txt", "00112233445566778899aabbccddeeff\n"},
  };
  return files;
}

}  // namespace xdpgpu::lab
