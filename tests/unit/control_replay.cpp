// SPDX-License-Identifier: MIT
//
// Replay of captures and of made-up packets, by the rules in user space and, as root, by the kernel's own
// program, which must agree packet by packet.
#include "userspace/control/replay.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "maps/router.h"
#include "tests/unit/compared.hpp"
#include "userspace/control/rule_stats.hpp"
#include "userspace/host/capture.hpp"

namespace xdpgpu::control {
namespace {

const std::string kData = XDPGPU_SOURCE_DIR "/tests/data/pcap/";

compiler::CompiledPolicy compiled(const std::string& text) {
  auto policy = compiler::compile_policy_anywhere({"p.json", text, {}}, "(capture)");
  EXPECT_TRUE(policy) << policy.error().sentence;
  return std::move(*policy);
}

std::unique_ptr<Replay> open_or_die(const compiler::CompiledPolicy& policy, bool kernel) {
  ReplayOptions options;
  options.device = "cpu";
  options.kernel = kernel;
  auto replay = Replay::open(policy, options);
  EXPECT_TRUE(replay) << replay.error();
  return std::move(*replay);
}

std::vector<PacketVerdict> replay_file(Replay& replay, const std::string& file) {
  const auto capture = host::Capture::open(kData + file);
  EXPECT_TRUE(capture) << capture.error();
  std::vector<PacketVerdict> verdicts;
  auto take = [&] {
    for (auto& verdict : replay.take()) verdicts.push_back(std::move(verdict));
  };
  while (const auto packet = (*capture)->next()) {
    const auto fed = replay.feed(packet->frame, packet->original_length, packet->time_ns);
    EXPECT_TRUE(fed) << fed.error();
    take();
  }
  EXPECT_TRUE(replay.finish());
  take();
  return verdicts;
}

// A UDP packet from 10.0.0.`from`.
std::vector<u8> udp(u8 from, u16 port) {
  std::vector<u8> frame{2,
                        0,
                        0,
                        0,
                        0,
                        2,
                        2,
                        0,
                        0,
                        0,
                        0,
                        1,
                        8,
                        0,
                        0x45,
                        0,
                        0,
                        46,
                        0,
                        0,
                        0,
                        0,
                        64,
                        17,
                        0,
                        0,
                        10,
                        0,
                        0,
                        from,
                        10,
                        0,
                        0,
                        200,
                        4,
                        0,
                        static_cast<u8>(port >> 8),
                        static_cast<u8>(port),
                        0,
                        26,
                        0,
                        0};
  frame.resize(60);
  return frame;
}

constexpr const char* kMixed = R"({
  "version": 1, "fragments": "inspect",
  "rules": [
    { "name": "no icmp", "match": { "proto": "icmp" }, "action": "drop" },
    { "name": "dns", "match": { "proto": "udp", "dst_port": 53 }, "action": "pass" },
    { "name": "rest", "match": {}, "action": { "inspect": "web" } } ],
  "pipelines": {
    "other": [ { "stage": "l2fwd" } ],
    "web": [ { "stage": "acl", "rules": [ { "name": "https", "match": { "dst_port": 443 }, "action": "drop" } ] },
             { "stage": "load_balance", "backends": [ { "name": "b1", "mac": "02:00:00:00:00:01" },
                                                      { "name": "b2", "mac": "02:00:00:00:00:02", "to": "eth9" } ] } ] }
})";

TEST(ControlReplay, SamplesByTheRulesInUserSpace) {
  const auto policy = compiled(kMixed);
  auto replay = open_or_die(policy, false);
  EXPECT_NE(replay->kernel_part().find("skipped"), std::string::npos);
  const auto verdicts = replay_file(*replay, "vlan.pcap");
  ASSERT_EQ(verdicts.size(), 2u);
  EXPECT_EQ(verdicts[0].action, XG_DROP);
  EXPECT_EQ(verdicts[0].rule, "no icmp");
  EXPECT_NE(verdicts[0].flow.find("icmp"), std::string::npos);
  EXPECT_NE(verdicts[0].flow.find("vlan 6"), std::string::npos) << verdicts[0].flow;
  EXPECT_EQ(verdicts[1].number, 2u);
}

// The datagram turned around: from its destination and port to its source and port.
std::vector<u8> turned_around(std::vector<u8> frame) {
  std::swap_ranges(frame.begin() + 26, frame.begin() + 30, frame.begin() + 30);
  std::swap_ranges(frame.begin() + 34, frame.begin() + 36, frame.begin() + 36);
  return frame;
}
std::vector<u8> arp_request() {
  std::vector<u8> frame{255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 1, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1};
  frame.resize(60);
  return frame;
}

TEST(ControlReplay, AnswersToManagementAndRatesByTheCapturesClock) {
  const auto policy = compiled(R"({"version": 1, "default": "drop", "rates": {"arp": {"pps": 2, "burst": 4}},
      "management": [{"src": "10.0.0.0/24", "proto": "udp", "dst_port": 161}]})");
  constexpr u64 kSecond = 1'000'000'000;
  for (const bool kernel : {false, true}) {
    if (kernel && geteuid() != 0) break;
    SCOPED_TRACE(kernel);
    auto replay = open_or_die(policy, kernel);
    const auto answer = turned_around(udp(1, 161));
    u64 now = kSecond;
    ASSERT_TRUE(replay->feed(answer, 60, now));
    ASSERT_TRUE(replay->feed(udp(1, 161), 60, now));
    ASSERT_TRUE(replay->feed(answer, 60, now));
    for (int i = 0; i < 3; ++i) ASSERT_TRUE(replay->feed(arp_request(), 60, now));
    ASSERT_TRUE(replay->feed(arp_request(), 60, now + 10 * kSecond));
    ASSERT_TRUE(replay->finish());
    const auto verdicts = replay->take();
    ASSERT_EQ(verdicts.size(), 7u);
    EXPECT_EQ(verdicts[0].action, XG_DROP) << "nobody asked";
    EXPECT_EQ(verdicts[1].rule, "management 1");
    EXPECT_EQ(verdicts[2].action, XG_PASS);
    EXPECT_EQ(verdicts[2].rule, "management 1 (replies)");
    EXPECT_EQ(verdicts[3].action, XG_PASS);
    EXPECT_EQ(verdicts[4].action, XG_PASS);
    EXPECT_EQ(verdicts[5].action, XG_DROP) << "over the rate of requests";
    EXPECT_EQ(verdicts[6].action, XG_PASS);
  }
}

TEST(ControlReplay, PipelinesDecideAndSayWho) {
  const auto policy = compiled(kMixed);
  auto replay = open_or_die(policy, false);
  ASSERT_TRUE(replay->feed(udp(1, 443), 60, 1));
  ASSERT_TRUE(replay->feed(udp(1, 53), 60, 2));
  for (u8 from = 1; from < 100; from++) ASSERT_TRUE(replay->feed(udp(from, 80), 60, 3));
  ASSERT_TRUE(replay->finish());
  const auto verdicts = replay->take();
  ASSERT_EQ(verdicts.size(), 101u);
  EXPECT_EQ(verdicts[0].action, XG_DROP);
  EXPECT_EQ(verdicts[0].pipeline, "web");
  EXPECT_EQ(verdicts[0].stage, "stage 1 (acl) rule 1 (https)");
  EXPECT_EQ(verdicts[1].action, XG_PASS);
  EXPECT_EQ(verdicts[1].rule, "dns");
  EXPECT_EQ(verdicts[1].pipeline, "");
  std::map<std::string, int> backends;
  for (std::size_t i = 2; i < verdicts.size(); i++) {
    backends[verdicts[i].stage]++;
    const bool second = verdicts[i].stage == "stage 2 (load_balance) backend 2 (b2)";
    EXPECT_EQ(verdicts[i].action, second ? XG_REDIRECT : XG_TX);
    EXPECT_EQ(verdicts[i].target, second ? "eth9" : "");
  }
  EXPECT_EQ(backends.size(), 2u) << "both backends get flows";
}

// More packets than a batch, in two kinds that alternate: they come out in the order they went in.
TEST(ControlReplay, VerdictsComeInOrderAcrossBatches) {
  const auto policy = compiled(kMixed);
  auto replay = open_or_die(policy, false);
  std::vector<PacketVerdict> verdicts;
  for (int i = 0; i < 5000; i++) {
    ASSERT_TRUE(replay->feed(udp(1, i % 3 ? 443 : 53), 60, static_cast<u64>(i)));
    for (auto& verdict : replay->take()) verdicts.push_back(std::move(verdict));
  }
  ASSERT_TRUE(replay->finish());
  for (auto& verdict : replay->take()) verdicts.push_back(std::move(verdict));
  ASSERT_EQ(verdicts.size(), 5000u);
  for (std::size_t i = 0; i < verdicts.size(); i++) {
    ASSERT_EQ(verdicts[i].number, i + 1);
    ASSERT_EQ(verdicts[i].time_ns, i);
    ASSERT_EQ(verdicts[i].action, i % 3 ? XG_DROP : XG_PASS);
  }
}

// 10 packets a second, 2 at once: by the capture's clock, however fast the replay runs.
TEST(ControlReplay, LimitsRunOnTheCapturesClock) {
  const auto policy = compiled(R"({ "version": 1, "rules": [
    { "name": "slow", "match": { "proto": "udp" }, "limit": { "per": "src", "pps": 10, "burst": 2 } } ] })");
  auto replay = open_or_die(policy, false);
  constexpr u64 kStart = 1'700'000'000'000'000'000;  // as captures have it: since 1970
  auto passed = [&](u8 from, u64 ms) {
    EXPECT_TRUE(replay->feed(udp(from, 9), 60, kStart + ms * 1'000'000));
    const auto verdicts = replay->take();
    EXPECT_EQ(verdicts.size(), 1u);
    EXPECT_EQ(verdicts[0].rule, verdicts[0].action == XG_DROP ? "slow" : "");
    return verdicts[0].action == XG_PASS;
  };
  EXPECT_TRUE(passed(1, 0));
  EXPECT_TRUE(passed(1, 0));
  EXPECT_FALSE(passed(1, 0)) << "the burst is spent";
  EXPECT_TRUE(passed(2, 0)) << "another source has its own";
  EXPECT_FALSE(passed(1, 99));
  EXPECT_TRUE(passed(1, 100));
  EXPECT_FALSE(passed(1, 101));
  EXPECT_TRUE(passed(1, 10'000));
}

// Mirrored packets are told, with what decides on them all the same.
TEST(ControlReplay, SaysWhatWasMirrored) {
  const auto policy = compiled(R"({ "version": 1, "rules": [
    { "name": "watch", "match": { "proto": "udp" }, "action": { "mirror": "scrub" } },
    { "name": "slow", "match": { "dst_port": 53 }, "limit": { "per": "rule", "pps": 1, "burst": 1 } },
    { "name": "all", "action": { "mirror": "log" } },
    { "name": "https", "match": { "dst_port": 443 }, "action": "drop" } ],
    "pipelines": { "scrub": [ { "stage": "acl", "rules": [], "default": "drop", "cache": true } ],
                   "log": [ { "stage": "acl", "rules": [] } ] } })");
  using Names = std::vector<std::string>;
  for (const bool kernel : {false, true}) {
    if (kernel && geteuid() != 0) continue;
    SCOPED_TRACE(kernel ? "in the kernel" : "in user space");
    auto replay = open_or_die(policy, kernel);
    for (const u16 port : {u16{80}, u16{443}, u16{53}, u16{53}})
      ASSERT_TRUE(replay->feed(udp(1, port), 60, 1));
    ASSERT_TRUE(replay->finish());
    const auto verdicts = replay->take();
    ASSERT_EQ(verdicts.size(), 4u);
    EXPECT_EQ(verdicts[0].action, XG_PASS) << "the mirror's verdict has no effect";
    EXPECT_EQ(verdicts[0].mirrors, (Names{"scrub", "log"}));
    EXPECT_EQ(verdicts[1].rule, "https");
    EXPECT_EQ(verdicts[1].mirrors, (Names{"scrub", "log"}));
    EXPECT_EQ(verdicts[2].mirrors, (Names{"scrub", "log"}));
    EXPECT_EQ(verdicts[3].rule, "slow");
    EXPECT_EQ(verdicts[3].mirrors, (Names{"scrub"})) << "the limit stands before the other mirror";
  }
}

TEST(ControlReplay, ShortAndLongFramesAreJudged) {
  const auto policy = compiled(kMixed);
  for (const bool kernel : {false, true}) {
    auto replay = open_or_die(policy, kernel);
    for (const std::size_t size : {0, 1, 13, 14, 15, 59, 1759, 1760, 1761, 9000}) {
      auto frame = udp(1, 443);
      frame.resize(size);
      ASSERT_TRUE(replay->feed(frame, static_cast<u32>(size), 1)) << size;
    }
    ASSERT_TRUE(replay->finish());
    EXPECT_EQ(replay->take().size(), 10u);
  }
}

// 200 of them, of six buffers each, are several batches.
TEST(ControlReplay, AJumboFrameIsJudgedAsOnTheWire) {
  const auto policy = compiled(kMixed);
  auto jumbo = udp(1, 443);
  jumbo.resize(9014, 'x');
  jumbo[16] = 9000 >> 8, jumbo[17] = 9000 & 0xff;  // the IP packet's length
  jumbo[38] = 8980 >> 8, jumbo[39] = 8980 & 0xff;  // the UDP datagram's
  for (const bool kernel : {false, true}) {
    if (kernel && geteuid() != 0) continue;
    SCOPED_TRACE(kernel ? "in the kernel" : "in user space");
    auto replay = open_or_die(policy, kernel);
    ASSERT_TRUE(replay->feed(udp(1, 443), 60, 1));
    for (int i = 0; i < 200; i++) ASSERT_TRUE(replay->feed(jumbo, static_cast<u32>(jumbo.size()), 1));
    ASSERT_TRUE(replay->feed(udp(1, 443), 60, 1));
    ASSERT_TRUE(replay->finish());
    const auto verdicts = replay->take();
    ASSERT_EQ(verdicts.size(), 202u);
    for (const auto& verdict : verdicts) {
      EXPECT_EQ(verdict.flow, verdicts[0].flow);
      EXPECT_EQ(verdict.reason, verdicts[0].reason);
      EXPECT_EQ(verdict.rule, verdicts[0].rule);
      EXPECT_EQ(verdict.pipeline, verdicts[0].pipeline);
      EXPECT_EQ(verdict.stage, verdicts[0].stage);
      EXPECT_EQ(verdict.action, verdicts[0].action);
    }
  }
}

constexpr const char* kReputation = R"({
  "version": 1,
  "lists": { "bad": { "file": "bad.txt" }, "good": ["192.0.78.23", "::1"], "here": ["192.168.170.0/24"] },
  "rules": [ { "name": "all", "match": {}, "action": { "inspect": "who" } } ],
  "pipelines": { "who": [
    { "stage": "reputation", "of": "OF", "default": "next",
      "lists": [ { "list": "@bad", "action": "drop" }, { "list": "@good", "action": "tx" },
                 { "list": "@here", "action": { "redirect": "eth9" } } ] },
    { "stage": "acl", "rules": [], "default": "pass" } ] }
})";
constexpr const char* kBadList =
    "; as a feed has it\n"
    "192.0.0.0/16 ; SBL1\n"
    "alert ip [75.126.0.0/16,2001:db8:1::/64] any -> $HOME_NET any (msg:\"one # two\"; sid:1;)\n"
    "::/8 # less than ::1 says\n";

compiler::CompiledPolicy reputation_of(const std::string& of) {
  std::string text = kReputation;
  text.replace(text.find("OF"), 2, of);
  auto policy = compiler::compile_policy_anywhere({"p.json", text, {{"bad.txt", kBadList}}}, "(capture)");
  EXPECT_TRUE(policy) << policy.error().sentence;
  return std::move(*policy);
}

// What each packet's list said, by its flow.
TEST(ControlReplay, ReputationActsByTheListOfTheLongestPrefix) {
  struct Case {
    const char *of, *file, *flow;
    u32 action;
    const char* stage;
  };
  constexpr const char *kGood = "stage 1 (reputation) list good", *kBad = "stage 1 (reputation) list bad",
                       *kNone = "stage 2 (acl) otherwise";
  for (const Case& one : {
           Case{"src", "quic.pcap", "192.0.78.23:443 > ", XG_TX, kGood},  // in bad's /16, too
           Case{"src", "quic.pcap", "192.168.178.252:49979 > ", XG_PASS, kNone},
           Case{"dst", "quic.pcap", " > 192.0.78.23:443", XG_TX, kGood},
           Case{"either", "quic.pcap", "192.168.178.252:49979 > 192.0.78.23:443", XG_TX, kGood},
           Case{"src", "teredo.pcap", "75.126.130.163:80 > ", XG_DROP, kBad},
           Case{"src", "teredo.pcap", "192.168.2.16:1576 > ", XG_PASS, kNone},
           Case{"src", "http.pcap", "[::1]:", XG_TX, kGood},
           Case{"src", "ipv6-fragments.pcap", "2001:db8:1::2 > 2001:db8:1::1 icmpv6 type", XG_DROP, kBad},
           Case{"src", "sctp.pcap", "192.168.170.56", XG_REDIRECT, "stage 1 (reputation) list here"},
       }) {
    for (const bool kernel : {false, true}) {
      if (kernel && geteuid() != 0) continue;
      SCOPED_TRACE(std::string(one.file) + ", of " + one.of + (kernel ? ", in the kernel" : ""));
      const auto policy = reputation_of(one.of);
      auto replay = open_or_die(policy, kernel);
      int found = 0;
      for (const PacketVerdict& verdict : replay_file(*replay, one.file)) {
        if (verdict.flow.find(one.flow) == std::string::npos) continue;
        found++;
        EXPECT_EQ(verdict.action, one.action) << verdict.flow;
        EXPECT_EQ(verdict.stage, one.stage) << verdict.flow;
        EXPECT_EQ(verdict.target, one.action == XG_REDIRECT ? "eth9" : "") << verdict.flow;
      }
      EXPECT_GT(found, 0) << "no packet of " << one.flow;
    }
  }
}

// A UDP or, with SYN, a TCP packet.
std::vector<u8> from_address(const char* source, bool tcp, u16 port) {
  auto frame = udp(1, port);
  inet_pton(AF_INET, source, frame.data() + 26);
  if (tcp) {
    frame[23] = 6;
    frame[46] = 5 << 4;
    frame[47] = 2;
  }
  return frame;
}

TEST(ControlReplay, TheReputationExampleDoesAsItSays) {
  auto source = compiler::read_policy(XDPGPU_SOURCE_DIR "/config/examples/reputation.json");
  ASSERT_TRUE(source) << source.error().sentence;
  auto compiled = compiler::compile_policy_anywhere(*std::move(source), "(capture)");
  ASSERT_TRUE(compiled) << compiled.error().sentence;
  EXPECT_EQ(compiled->policy.lists.at("hijacked").prefixes.size(), 1247u);
  EXPECT_EQ(compiled->policy.lists.at("taken_over").prefixes.size(), 398u);
  auto replay = open_or_die(*compiled, false);
  struct Case {
    const char* source;
    bool tcp;
    u16 port;
    u32 action;
    const char* stage;
  };
  const std::vector<Case> cases{
      {"2.57.235.1", true, 80, XG_DROP, "stage 1 (reputation) list hijacked"},
      {"2.57.234.53", true, 80, XG_PASS, "stage 1 (reputation) list partners"},
      {"101.43.12.185", true, 80, XG_PASS, "stage 2 (acl) otherwise"},
      {"101.43.12.185", true, 22, XG_DROP, "stage 2 (acl) rule 1 (no logins)"},
      {"101.43.12.185", false, 22, XG_PASS, "stage 2 (acl) otherwise"},
      {"8.8.8.8", true, 22, XG_PASS, "stage 1 (reputation) otherwise"},
  };
  for (const Case& one : cases) ASSERT_TRUE(replay->feed(from_address(one.source, one.tcp, one.port), 60, 1));
  ASSERT_TRUE(replay->finish());
  const auto verdicts = replay->take();
  ASSERT_EQ(verdicts.size(), cases.size());
  for (std::size_t i = 0; i < cases.size(); i++) {
    EXPECT_EQ(verdicts[i].action, cases[i].action) << verdicts[i].flow;
    EXPECT_EQ(verdicts[i].stage, cases[i].stage) << verdicts[i].flow;
  }
}

TEST(ControlReplay, TheRouterExampleDoesAsItSays) {
  auto source = compiler::read_policy(XDPGPU_SOURCE_DIR "/config/examples/router.json");
  ASSERT_TRUE(source) << source.error().sentence;
  const auto compiled = compiler::compile_policy_anywhere(*std::move(source), "(capture)");
  ASSERT_TRUE(compiled) << compiled.error().sentence;
  struct Case {
    const char* destination;
    u8 ttl;
    u32 action;
    const char* target;
    const char* stage;
    bool wrong_checksum = false;
  };
  const std::vector<Case> cases{
      {"198.19.7.7", 64, XG_REDIRECT, "eth1", "stage 1 (forward) next hop isp-b"},
      {"8.8.8.8", 64, XG_REDIRECT, "eth0", "stage 1 (forward) next hop isp-a"},
      {"203.0.113.9", 2, XG_REDIRECT, "eth2", "stage 1 (forward) next hop site"},
      {"203.0.113.9", 1, XG_PASS, "", "stage 1 (forward) last hop"},
      {"203.0.113.200", 64, XG_DROP, "", "stage 1 (forward) route to nowhere"},
      {"203.0.113.1", 64, XG_PASS, "", "stage 1 (forward) route to the host"},
      {"224.0.0.5", 1, XG_PASS, "", "stage 1 (forward) not to be forwarded"},
      {"198.19.7.7", 64, XG_PASS, "", "stage 1 (forward) wrong header checksum", true},
  };
  for (const bool kernel : {false, true}) {
    if (kernel && geteuid() != 0) continue;
    auto replay = open_or_die(*compiled, kernel);
    for (const Case& one : cases) {
      auto frame = udp(1, 53);
      inet_pton(AF_INET, one.destination, frame.data() + 30);
      frame[22] = one.ttl;
      frame[24] = frame[25] = 0;
      const u32 sum = ~xg_ipv4_header_sum(&frame[14]);
      frame[24] = static_cast<u8>(one.wrong_checksum ? ~sum : sum);
      frame[25] = static_cast<u8>(sum >> 8);
      ASSERT_TRUE(replay->feed(frame, 60, 1));
    }
    ASSERT_TRUE(replay->finish());
    const auto verdicts = replay->take();
    ASSERT_EQ(verdicts.size(), cases.size());
    for (std::size_t i = 0; i < cases.size(); i++) {
      EXPECT_EQ(verdicts[i].action, cases[i].action) << verdicts[i].flow;
      EXPECT_EQ(verdicts[i].target, cases[i].target) << verdicts[i].flow;
      EXPECT_EQ(verdicts[i].stage, cases[i].stage) << verdicts[i].flow;
    }
  }
}

TEST(ControlReplay, AnUnknownDeviceIsRefused) {
  const auto policy = compiled(kMixed);
  ReplayOptions options;
  options.device = "abacus";
  const auto replay = Replay::open(policy, options);
  ASSERT_FALSE(replay);
  EXPECT_NE(replay.error().find("abacus"), std::string::npos) << replay.error();
}

// Nothing in the capture is to port 443, and its fragments are of packets to no port that is let in.
TEST(ControlReplay, FragmentsDoNotPassADefaultThatDrops) {
  const auto policy = compiled(R"({"version": 1, "default": "drop",
      "rules": [{"match": {"proto": "tcp", "dst_port": 443}, "action": "pass"}]})");
  for (const bool kernel : {false, true}) {
    if (kernel && geteuid() != 0) continue;
    SCOPED_TRACE(kernel ? "in the kernel" : "in user space");
    auto replay = open_or_die(policy, kernel);
    int fragments = 0;
    for (const PacketVerdict& verdict : replay_file(*replay, "ipv6-fragments.pcap")) {
      if (verdict.flow.find("fragment id") == std::string::npos) continue;
      fragments++;
      EXPECT_EQ(verdict.action, XG_DROP) << "packet " << verdict.number << ": " << verdict.reason;
    }
    EXPECT_GT(fragments, 40);
  }
}

// A fragment of a datagram from 10.0.0.`from` to port `port`: the first one, or the last.
std::vector<u8> fragment(u8 from, u16 port, u8 id, bool later) {
  auto frame = udp(from, port);
  frame[17] = 44;  // 24 bytes of payload
  frame[19] = id;
  frame[20] = later ? 0 : 0x20;
  frame[21] = later ? 3 : 0;
  frame[38] = 0, frame[39] = 48;
  return frame;
}

TEST(ControlReplay, FollowedFragmentsGetTheirFirstOnesFate) {
  const auto policy = compiled(R"({"version": 1, "default": "drop", "fragments": "track",
      "rules": [{"name": "dns", "match": {"proto": "udp", "dst_port": 53}, "action": "pass"},
                {"name": "look", "match": {"proto": "udp", "dst_port": [80, 81]}, "action": {"inspect": "web"}}],
      "pipelines": {"other": [{"stage": "l2fwd"}],
                    "web": [{"stage": "acl", "rules": [{"name": "bad", "match": {"dst_port": 81}, "action": "drop"}]},
                            {"stage": "l2fwd"}]}})");
  constexpr u64 kSecond = 1'000'000'000;
  struct Step {
    std::vector<u8> frame;
    u64 time_ns;
    u32 action;
    const char *rule, *stage;
  };
  const std::vector<Step> steps{
      {fragment(1, 0, 1, true), 0, XG_DROP, "", ""},
      {fragment(1, 53, 1, false), 0, XG_PASS, "dns", ""},
      {fragment(1, 0, 1, true), 0, XG_PASS, "dns", ""},
      {fragment(2, 0, 1, true), 0, XG_DROP, "", ""},
      {fragment(1, 54, 1, false), kSecond, XG_DROP, "", ""},
      {fragment(1, 80, 2, false), kSecond, XG_TX, "look", "stage 2 (l2fwd)"},
      {fragment(1, 81, 3, false), kSecond, XG_DROP, "look", "stage 1 (acl) rule 1 (bad)"},
      {fragment(1, 0, 2, true), kSecond, XG_TX, "look", "stage 2 (l2fwd)"},
      {fragment(1, 0, 3, true), kSecond, XG_DROP, "look", "stage 1 (acl) rule 1 (bad)"},
      // By the capture's clock, whatever the kernel's says.
      {fragment(1, 0, 1, true), 3 * kSecond, XG_DROP, "", ""},
      {fragment(1, 53, 3, false), 5 * kSecond, XG_PASS, "dns", ""},
      {fragment(1, 0, 3, true), 5 * kSecond, XG_PASS, "dns", ""},
  };
  for (const bool kernel : {false, true}) {
    if (kernel && geteuid() != 0) continue;
    auto replay = open_or_die(policy, kernel);
    std::vector<PacketVerdict> verdicts;
    for (const Step& step : steps) ASSERT_TRUE(replay->feed(step.frame, 60, step.time_ns + 1));
    ASSERT_TRUE(replay->finish());
    for (auto& verdict : replay->take()) verdicts.push_back(std::move(verdict));
    ASSERT_EQ(verdicts.size(), steps.size());
    for (std::size_t i = 0; i < steps.size(); i++) {
      SCOPED_TRACE("step " + std::to_string(i) + (kernel ? ", in the kernel: " : ": ") + verdicts[i].reason);
      EXPECT_EQ(verdicts[i].action, steps[i].action);
      EXPECT_EQ(verdicts[i].rule, steps[i].rule);
      EXPECT_EQ(verdicts[i].stage, steps[i].stage);
    }
  }
}

TEST(ControlReplay, TheKernelAgrees) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may run the kernel's program";
  for (const char* fragments : {"inspect", "pass", "drop", "track"}) {
    std::string text = kMixed;
    text.replace(text.find("\"inspect\""), 9, std::string("\"") + fragments + "\"");
    const auto policy = compiled(text);
    for (const char* file : {"geneve.pcap", "gre.pcap", "http.pcap", "ipv6-fragments.pcap", "quic.pcap",
                             "sctp.pcap", "teredo.pcap", "vlan-fragment.pcap", "vlan.pcap"}) {
      auto in_kernel = open_or_die(policy, true);
      if (in_kernel->kernel_part().starts_with("skipped")) GTEST_SKIP() << in_kernel->kernel_part();
      auto in_user_space = open_or_die(policy, false);
      const auto kernel = replay_file(*in_kernel, file);
      const auto user = replay_file(*in_user_space, file);
      ASSERT_EQ(kernel.size(), user.size());
      for (std::size_t i = 0; i < kernel.size(); i++) {
        SCOPED_TRACE(std::string(file) + " packet " + std::to_string(i + 1) + ", fragments " + fragments);
        EXPECT_EQ(kernel[i].action, user[i].action);
        EXPECT_EQ(kernel[i].reason, user[i].reason);
        EXPECT_EQ(kernel[i].rule, user[i].rule);
        EXPECT_EQ(kernel[i].pipeline, user[i].pipeline);
        EXPECT_EQ(kernel[i].stage, user[i].stage);
        EXPECT_EQ(kernel[i].target, user[i].target);
      }
    }
  }
}

// ---- rules of files ---------------------------------------------------------------------------------------

const std::string kSignatures = XDPGPU_SOURCE_DIR "/tests/data/signatures/";

std::string text_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}
using Alerts = std::set<std::pair<u32, u64>>;  // sid and packet

// tests/data/signatures/alerts has how they came to be.
Alerts suricatas(const std::string& capture, const std::string& rules) {
  Alerts made;
  std::istringstream lines(text_of(kSignatures + "alerts.txt"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string of, by;
    u32 sid = 0;
    words >> of >> by >> sid;
    if (of != capture || by != rules) continue;
    u64 packet = 0;
    for (char comma = ','; comma == ',' && words >> packet; comma = static_cast<char>(words.get()))
      made.emplace(sid, packet);
  }
  return made;
}

// None, where rules have none of their own.
std::string config_of(const std::string& rules) {
  if (rules == "thresholds.rules") return "threshold.config";
  return rules == "passes.rules" ? "passes.config" : "none";
}

// Seven rules a policy, as so many are told of one packet. decided: the rules that are.
Alerts replayed(const std::string& capture, const std::string& rules, std::set<u32>& decided) {
  std::vector<std::string> texts;
  std::istringstream lines(text_of(kSignatures + rules));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("alert ") || line.starts_with("pass ")) texts.push_back(line + "\n");
  Alerts made;
  for (std::size_t first = 0; first < texts.size(); first += 7) {
    std::string some;
    for (std::size_t i = first; i < std::min(first + 7, texts.size()); i++) some += texts[i];
    auto policy = compiler::compile_policy_anywhere(
        {"p.json",
         R"({"version": 1, "rules": [{"action": {"inspect": "ids"}}],
             "pipelines": {"ids": [{"stage": "conntrack", "egress": false, "loose": false,
                                    "on_invalid": "next"},
                                   {"stage": "signatures", "rules": ["some.rules"],
                                    "vars": {"HOME_NET": ["192.168.0.0/16", "10.0.0.0/8", "172.16.0.0/12"]},
                                    "threshold": "threshold.config"}]}})",
         {{"some.rules", some}, {"threshold.config", text_of(kSignatures + config_of(rules))}}},
        "(capture)");
    if (!policy) throw std::runtime_error(policy.error().sentence);
    for (const auto& rule : *rules_of(policy->pipelines->settings()[0])->heads) decided.insert(rule.sid);
    const auto replay = open_or_die(*policy, false);
    for (const PacketVerdict& verdict : replay_file(*replay, "../signatures/" + capture)) {
      EXPECT_FALSE(verdict.more_alerts);
      for (const RuleAlert& alert : verdict.alerts) made.emplace(alert.sid, verdict.number);
    }
  }
  return made;
}

bool asks_for_flowbits(const std::string& rules, u32 sid) {
  std::istringstream lines(text_of(kSignatures + rules));
  for (std::string line; std::getline(lines, line);)
    if (line.find(fmt::format("sid:{};", sid)) != std::string::npos)
      return line.find("flowbits:is") != std::string::npos ||
             line.find("flowbits:toggle") != std::string::npos;
  return false;
}

TEST(ReplayOfRuleFiles, AlertsAsSuricataDoes) {
  for (const auto& [capture, rules, count] : {std::tuple("thresholds.pcap", "thresholds.rules", 30'146u),
                                              {"dns-real.pcap", "dns-real.rules", 390u},
                                              {"expressions.pcap", "expressions.rules", 2771u},
                                              {"connections.pcap", "connections.rules", 13'666u},
                                              {"thresholds.pcap", "passes.rules", 9693u},
                                              {"connections.pcap", "passes.rules", 4724u}}) {
    std::set<u32> decided;
    const Alerts ours = replayed(capture, rules, decided);
    Alerts theirs = suricatas(capture, rules);
    std::erase_if(theirs, [&](const auto& one) { return !decided.contains(one.first); });
    EXPECT_EQ(theirs.size(), count) << capture;
    std::map<std::string, u32> suricatas_alone, ours_alone;
    for (const auto& [one, other, whose] :
         {std::tuple(&std::as_const(theirs), &ours, "Suricata's"), {&ours, &theirs, "ours"}}) {
      Alerts alone, late;
      std::set_difference(one->begin(), one->end(), other->begin(), other->end(),
                          std::inserter(alone, alone.end()));
      // In a capture whose flows are silent for longer than Suricata's timeout of 30 s, which it is to find
      // out in its own time, their bits are gone at other packets.
      if (capture == std::string("thresholds.pcap"))
        for (const auto& alert : std::exchange(alone, {}))
          (asks_for_flowbits(rules, alert.first) ? late : alone).insert(alert);
      if (!late.empty())
        (one == &ours ? ours_alone : suricatas_alone)["of a flow that was over"] =
            static_cast<u32>(late.size());
      const std::string first =
          alone.empty() ? "" : fmt::format("sid {}, packet {}", alone.begin()->first, alone.begin()->second);
      EXPECT_TRUE(alone.empty()) << capture << ": " << alone.size() << " are " << whose << " alone, as "
                                 << first;
      if (!alone.empty())
        (one == &ours ? ours_alone : suricatas_alone)["unexplained"] = static_cast<u32>(alone.size());
    }
    std::size_t same = theirs.size();
    for (const auto& cause : suricatas_alone) same -= cause.second;
    if (rules == std::string("passes.rules") && capture == std::string("thresholds.pcap")) {
      EXPECT_EQ(suricatas_alone, (test::Causes{{"of a flow that was over", 5}}));
      EXPECT_EQ(ours_alone, (test::Causes{{"of a flow that was over", 6}}));
    } else {
      EXPECT_TRUE(suricatas_alone.empty() && ours_alone.empty()) << capture;
    }
    test::tell_compared(fmt::format("{} (by replay)", rules), capture, same, suricatas_alone, ours_alone);
  }
}

TEST(ReplayOfRuleFiles, SaysWhatIsToldOfEachRule) {
  auto policy = compiler::compile_policy_anywhere(
      {"p.json",
       R"({"version": 1, "rules": [{"action": {"inspect": "ids"}}],
           "pipelines": {"other": [{"stage": "l2fwd"}], "ids": [{"stage": "signatures", "rules": ["a.rules"],
                                    "classification": "classes"}]}})",
       {{"a.rules",
         "drop udp any any -> any any (msg:\"here\"; dsize:>0; classtype:odd; sid:9; rev:3; gid:2;)\n"
         "alert udp any any -> any any (dsize:>0; threshold:type limit, track by_src, count 1, seconds 9; "
         "sid:8;)\n"},
        {"classes", "config classification: odd,Something odd,1\n"}}},
      "(capture)");
  ASSERT_TRUE(policy) << policy.error().sentence;
  const auto replay = open_or_die(*policy, false);
  for (u64 second = 0; second < 12; second++)
    ASSERT_TRUE(replay->feed(udp(1, 53), 60, (1000 + second) * 1'000'000'000));
  ASSERT_TRUE(replay->finish());
  const auto verdicts = replay->take();
  ASSERT_EQ(verdicts.size(), 12u);
  std::string counts;
  for (const auto& verdict : verdicts) {
    EXPECT_EQ(verdict.action, XG_DROP);
    counts += fmt::to_string(verdict.alerts.size());
    const RuleAlert& first = verdict.alerts.at(0);
    EXPECT_EQ(std::tuple(first.gid, first.sid, first.rev, first.severity), std::tuple(2u, 9u, 3u, 1u));
    EXPECT_EQ(first.signature, "here");
    EXPECT_EQ(first.category, "Something odd");
  }
  EXPECT_EQ(counts, "211111111121") << "by the capture's clock";
}

}  // namespace
}  // namespace xdpgpu::control
