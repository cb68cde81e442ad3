// SPDX-License-Identifier: MIT
//
// A policy written as JSON and read back is the same policy.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/unit/policy_random.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

using test::RandomPolicy;

void expect_equal(const Policy& a, const Policy& b) {
  EXPECT_EQ(a.description, b.description);
  EXPECT_EQ(a.default_action, b.default_action);
  EXPECT_EQ(a.on_failure, b.on_failure);
  EXPECT_EQ(a.on_overload, b.on_overload);
  EXPECT_EQ(a.fragments, b.fragments);
  EXPECT_EQ(a.reassembles, b.reassembles);
  EXPECT_EQ(a.overlapping_fragments, b.overlapping_fragments);
  EXPECT_EQ(a.malformed, b.malformed);
  EXPECT_EQ(a.management, b.management);
  EXPECT_EQ(a.rates, b.rates);
  EXPECT_EQ(a.lists, b.lists);
  ASSERT_EQ(a.rules.size(), b.rules.size());
  for (u64 i = 0; i < a.rules.size(); ++i) EXPECT_EQ(a.rules[i], b.rules[i]) << "rule " << i;
  EXPECT_EQ(a.pipelines, b.pipelines);
  EXPECT_EQ(a.io, b.io);
  EXPECT_EQ(a.compute, b.compute);
  EXPECT_EQ(a.log, b.log);
}

Policy read_back(const Policy& policy, const FileReader& files) {
  auto again = parse(to_json(policy), "shown", files);
  EXPECT_TRUE(again) << again.error()[0].sentence() << "\n" << to_json(policy);
  return again.value_or(Policy{});
}

// Conditions that can never be met are refused by the parser: random ones are mended.
void make_possible(Match& match) {
  if (match.tcp_flags_mask || !match.src_ports.empty() || !match.dst_ports.empty()) match.protocols = {6};
  if (match.tcp_flags_mask) match.control.clear();
  auto all = [](std::vector<Prefix>& prefixes, u8 family) {
    std::erase_if(prefixes, [&](const Prefix& p) { return p.family != family; });
  };
  u8 family = match.family.value_or(4);
  all(match.src, family);
  all(match.dst, family);
  match.src_lists.clear();
  match.dst_lists.clear();
}

TEST(Show, RandomPoliciesComeBack) {
  u64 seed = std::random_device{}();
  for (u32 i = 0; i < 60 && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE("seed " + std::to_string(seed + i));
    RandomPolicy random(seed + i);
    Policy policy = random.policy(12, 3, 6, 2);
    for (auto& match : policy.management) {
      make_possible(match);
      match.protocols = {6};
    }
    for (auto& rule : policy.rules) {
      make_possible(rule.match);
      if (random.chance(30)) {
        rule.action = Rule::Action::limit;
        rule.limit = {static_cast<u32>(random.below(3)), 1 + random.below(1000), 1 + random.below(1000)};
      }
    }
    policy.default_action = random.chance(50) ? Do::drop : Do::pass;
    policy.fragments = static_cast<Do>(random.below(4));
    policy.reassembles = policy.fragments == Do::track && random.chance(50);
    policy.overlapping_fragments = static_cast<Overlapping>(random.below(2));
    policy.malformed = static_cast<Do>(random.below(3));
    for (Rate& rate : policy.rates) rate = {1 + random.below(1000), 1 + random.below(1000)};
    policy.compute.max_wait_ns = random.below(100'000'001);
    expect_equal(policy, read_back(policy, read_files_of({})));
  }
}

TEST(Show, PipelinesListsAndSettingsComeBack) {
  const char* text = R"({
    "version": 1, "description": "quotes \" and umlauts \u00fc",
    "default": "drop", "on_failure": {"known": "keep", "new": "drop"},
    "on_overload": {"new": "pass", "known": "keep"}, "fragments": "inspect",
    "lists": {"f": {"file": "f.txt"}, "i": ["::/0", "0.0.0.0/0", "10.1.2.3"], "none": [],
              "g": {"file": "f.txt", "description": "of a file"}, "j": {"prefixes": ["::1"], "description": "one"}},
    "management": [{"description": "who?", "proto": "tcp", "dst_port": 22}],
    "rules": [
      {"match": {"src": ["@f", "::1"], "dst": "@i"}, "description": "why", "action": {"inspect": "z"},
       "priority": 5},
      {"name": "watch", "match": {"proto": "udp"}, "action": {"mirror": "watched"}},
      {"match": {"control": "arp", "vlan": ["none", "priority", 7, "100-199"], "proto": [17, 200]}, "action": "drop"}],
    "pipelines": {
      "z": [{"stage": "l2fwd"}, {"description": "second \" of two", "stage": "l2fwd", "to": "eth9", "cache": "90m"}],
      "watched": [{"stage": "acl", "rules": [{"action": "drop"}], "cache": true}],
      "inside": {"inner": true, "description": "of \" tunnels", "stages": [{"stage": "l2fwd", "description": "back"}]},
      "outside": {"stages": [{"stage": "l2fwd"}]},
      "a": [
        {"stage": "acl", "rules": [], "default": "pass"},
        {"stage": "acl", "cache": "1500ms", "rules": [
          {"match": {"src": ["10.0.0.0/8", "::1"], "proto": "sctp", "src_port": [1, "2-3"]}, "action": "tx"},
          {"match": {"tcp_flags": "syn,!ack", "vlan": ["none", "priority", 7, "1-4094"]}, "action": "drop"},
          {"action": {"redirect": "eth1"}}]},
        {"stage": "reputation", "of": "either", "default": "drop", "cache": "2s",
         "lists": [{"list": "@f", "action": "next"}, {"list": "@i", "action": {"redirect": "eth3"}}]},
        {"stage": "forward", "default": "next", "cache": "3s",
         "next_hops": {"z": {"mac": "02:00:00:00:00:03", "mtu": 1400},
                       "y": {"mac": "02:00:00:00:00:04", "src_mac": "02:00:00:00:00:05", "to": "eth4"}},
         "routes": [{"prefix": "10.0.0.0/8", "next_hop": "y"}, {"file": "r.txt"},
                    {"prefix": ["::/0", "192.0.2.1"], "next_hop": "drop"}]},
        {"stage": "load_balance", "cache": true, "backends": [
          {"mac": "02:00:00:00:00:01"}, {"name": "n", "mac": "02:00:00:00:00:02", "weight": 1000, "to": "eth2"}]},
        {"stage": "load_balance", "algorithm": "maglev", "table_size": 251, "key_file": "k.txt", "cache": "7s",
         "affinity": {"per": "src", "idle": "90s", "entries": 77, "evict": "refuse"},
         "health": {"port": 81, "interval": "250ms", "timeout": "30ms", "fall": 9, "rise": 8}, "backends": [
          {"name": "v4", "mac": "02:00:00:00:00:01", "address": "192.0.2.9", "weight": 0},
          {"name": "v6", "mac": "02:00:00:00:00:02", "address": "2001:db8::9"}]},
        {"stage": "load_balance", "encapsulation": {"type": "ipip", "source": {"ipv6": "fd00::/64"}, "mtu": 1400},
         "backends": [{"mac": "02:00:00:00:00:02", "address": "2001:db8::9"}]},
        {"stage": "load_balance", "encapsulation": {"type": "gue", "source": {"ipv4": "192.0.2.1", "ipv6": "fd00::1"},
         "port": 9999}, "backends": [{"mac": "02:00:00:00:00:02", "address": "192.0.2.9"}]},
        {"stage": "rate_limit", "per": "dst", "prefix4": 24, "prefix6": 48, "pps": 10, "burst": 7, "entries": 100,
         "evict": "random"},
        {"stage": "rate_limit", "per": "flow", "bytes_per_second": 12345, "burst_bytes": 54321, "excess": "pass"},
        {"stage": "conntrack", "on_new": "pass", "on_invalid": "next", "on_untracked": "drop", "loose": false, "entries": 9, "evict": "lfu",
         "timeouts": {"syn_sent": "1ms", "udp_replied": "90m"}},
        {"stage": "ddos", "syn_pps": 20000, "cache": "5m"},
        {"stage": "ddos", "direction": "out", "prefix4": 24, "prefix6": 56, "window": "90ms", "udp_pps": 1, "sources": 7,
         "dns_bytes_per_second": 1000000000000, "release_percent": 9, "hold": "1ms", "on_detect": "drop_sources",
         "share_percent": 77, "entries": 3, "evict": "fifo"},
        {"stage": "ddos", "new_flows_per_second": 8, "on_detect": "pass"},
        {"stage": "signatures", "rules": ["s.rules"], "vars": {"N": "!$HOME_NET", "P": [80, "1024:"], "Q": 22}, "modify": "m.conf",
         "work": 300, "limit": "next", "streams": 4096, "on_gap": "drop", "on_encoded": "pass", "evict": "fifo",
         "inspect": {"depth": 65536, "window": "1000", "midstream": true, "http": true, "answers": false, "idle": "90s"}}]},
    "io": {"mode": "copy", "ring_size": 128, "frames_per_queue": 300, "huge_pages": true, "mirror_slots": 64,
           "mirror_bytes": 200, "heartbeat": "25ms", "spin": "2ms"},
    "compute": {"device": "vulkan:1", "mode": "inline", "frames": "in_place", "batch": 7, "max_wait": "0s",
                "standby": "none", "retry": false},
    "log": {"outputs": [{"journald": true}, {"socket": "/run/a/b"}, {"file": "/var/log/eve.json"}], "events": ["dns"],
            "rate": 77, "alert_rate": 5, "payload": 3, "stats_every": "90s"}})";
  auto files = read_files_of({{"f.txt", "192.0.2.0/24\n2001:db8::/32\n"},
                              {"r.txt", "0.0.0.0/0 z\n 2001:db8::/32\ty # why\n198.51.100.1 pass"},
                              {"k.txt", "000102030405060708090a0b0c0d0e0f"},
                              {"s.rules", "alert udp $N any -> any $P (content:\"x\"; sid:1;)\n"},
                              {"m.conf", "1 \"x\" \"y\"\n"}});
  Policy policy = parse(text, "p", files).value();
  expect_equal(policy, read_back(policy, files));
  auto shown = nlohmann::json::parse(to_json(policy));
  EXPECT_EQ(policy.on_failure, Do::known_drop);
  EXPECT_EQ(policy.on_overload, Do::known_pass);
  EXPECT_EQ(shown["on_failure"], nlohmann::json({{"known", "keep"}, {"new", "drop"}}));
  EXPECT_EQ(shown["lists"]["f"]["file"], "f.txt") << "a list from a file is shown by its file";
  EXPECT_EQ(shown["pipelines"]["a"][3]["routes"][1], nlohmann::json({{"file", "r.txt"}}));
  const auto& forward = std::get<gpu::ForwardSettings>(policy.pipelines[4].stages[3]);
  EXPECT_EQ(shown["pipelines"]["inside"]["inner"], true);
  EXPECT_EQ(shown["pipelines"]["outside"]["inner"], false);
  ASSERT_EQ(forward.sources[1].count, 3u);
  EXPECT_EQ(forward.routes[2].next_hop, 1u);
  EXPECT_EQ(forward.routes[3].next_hop, gpu::kRoutePass);
  EXPECT_EQ(to_json(policy), to_json(read_back(policy, files))) << "canonical: showing twice changes nothing";
}

TEST(Show, TheIoSettingsThatExcludeEachOtherComeBack) {
  for (const char* io :
       {R"({"burst": "1500us"})", R"({"burst": "2ms", "link_gbps": 25})", R"({"busy_poll": true})",
        R"({"busy_poll": false, "busy_poll_us": 7, "busy_poll_budget": 8})", R"({"busy_poll": "auto"})"}) {
    const Policy policy =
        parse(std::string(R"({"version": 1, "io": )") + io + "}", "p", read_files_of({})).value();
    expect_equal(policy, read_back(policy, read_files_of({})));
    const auto shown = nlohmann::json::parse(to_json(policy))["io"];
    const auto written = nlohmann::json::parse(io);
    for (const auto& [key, value] : written.items()) EXPECT_EQ(shown[key], value) << io;
    EXPECT_NE(shown.contains("burst"), shown.contains("frames_per_queue")) << io;
  }
}

TEST(Show, SeveralDevicesComeBack) {
  const Policy policy = parse(R"({"version": 1, "compute": {"devices": ["cuda:1", "cuda:0"], "batch": 7}})",
                              "p", read_files_of({}))
                            .value();
  expect_equal(policy, read_back(policy, read_files_of({})));
  const auto shown = nlohmann::json::parse(to_json(policy))["compute"];
  EXPECT_EQ(shown["devices"], nlohmann::json::array({"cuda:1", "cuda:0"}));
  EXPECT_FALSE(shown.contains("device"));
}

TEST(Values, DurationsAreWrittenInTheLargestUnitThatFits) {
  EXPECT_EQ(write_duration(50'000), "50us");
  EXPECT_EQ(write_duration(1'500'000'000), "1500ms");
  EXPECT_EQ(write_duration(7'200'000'000'000), "2h");
  EXPECT_EQ(write_duration(0), "0s");
  EXPECT_EQ(write_duration(1), "1ns");
  EXPECT_EQ(read_duration("18446744073s").value(), 18446744073ull * 1'000'000'000);
  EXPECT_FALSE(read_duration("18446744074s")) << "more than 64 bits of nanoseconds";
  for (const char* bad : {"", "s", "5", "5 s", "-5s", "1.5s", "5S", "5sec", "99999999999999999999s"})
    EXPECT_FALSE(read_duration(bad)) << bad;
}

TEST(Values, BytesAreWrittenInTheLargestUnitThatFits) {
  EXPECT_EQ(write_bytes(0), "0");
  EXPECT_EQ(write_bytes(1023), "1023");
  EXPECT_EQ(write_bytes(4096), "4KB");
  EXPECT_EQ(write_bytes(1536u << 10), "1536KB");
  EXPECT_EQ(write_bytes(1u << 20), "1MB");
  EXPECT_EQ(write_bytes(u64{1} << 40), "1024GB");
  for (const auto& [text, bytes] : {std::pair("4096", u64{4096}),
                                    {"0", 0},
                                    {"64KB", 65'536},
                                    {"64KiB", 65'536},
                                    {"1MB", 1u << 20},
                                    {"1MiB", 1u << 20},
                                    {"2GB", u64{2} << 30},
                                    {"2GiB", u64{2} << 30}})
    EXPECT_EQ(read_bytes(text).value(), bytes) << text;
  EXPECT_EQ(read_bytes("17179869183GB").value(), ~u64{0} >> 30 << 30);
  EXPECT_FALSE(read_bytes("17179869184GB")) << "more than 64 bits";
  for (const char* bad : {"", "KB", "4 KB", "4kb", "4K", "4B", "4Kib", "-4KB", "1.5MB", "0x10", "4KB ", "1TB",
                          "99999999999999999999"})
    EXPECT_FALSE(read_bytes(bad)) << bad;
}

}  // namespace
}  // namespace xdpgpu::policy
