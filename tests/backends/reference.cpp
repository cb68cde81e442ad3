// SPDX-License-Identifier: MIT
//
// The reference itself against answers that were worked out by hand.
#include "gpu/reference/reference.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>

#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"

namespace xdpgpu::tests {
namespace {

using gpu::AclRule;
using gpu::AclSettings;
using gpu::L2fwdSettings;
using gpu::LoadBalanceSettings;

using Bytes = std::vector<u8>;

// 192.0.2.1:1234 to 198.51.100.7:80, TCP.
Bytes tcp4() {
  Bytes frame{0x02, 0,    0, 0,  0, 0x0a, 0x02, 0, 0,  0, 0, 0x0b, 0x08, 0x00,  // Ethernet
              0x45, 0,    0, 40, 0, 0,    0,    0, 64, 6, 0, 0,    192,  0,    2, 1, 198, 51, 100, 7,  // IPv4
              0x04, 0xd2, 0, 80, 0, 0,    0,    0, 0,  0, 0, 0,    0x50, 0x02, 0, 0, 0,   0,  0,   0};  // TCP
  return frame;
}

// [2001:db8::1]:5000 to [2001:db8::2]:53, UDP, behind VLAN tag 10.
Bytes udp6() {
  Bytes frame{0x02, 0,    0,    0,    0, 0x0a, 0x02, 0,  0, 0, 0, 0x0b, 0x81, 0x00, 0, 10,
              0x86, 0xdd,                                                                  // Ethernet
              0x60, 0,    0,    0,    0, 8,    17,   64,                                   // IPv6
              0x20, 0x01, 0x0d, 0xb8, 0, 0,    0,    0,  0, 0, 0, 0,    0,    0,    0, 1,  //
              0x20, 0x01, 0x0d, 0xb8, 0, 0,    0,    0,  0, 0, 0, 0,    0,    0,    0, 2,  //
              0x13, 0x88, 0,    53,   0, 8,    0,    0};                                   // UDP
  return frame;
}

Bytes first_fragment(Bytes frame) {
  frame[20] = 0x20;
  return frame;
}

Answer answer(const Bytes& frame, const gpu::StageSettings& stage, u8 router = XG_ROUTER_ALL) {
  return expected(single_frame(frame, 0, router), {{"web", {stage}}}).at(0);
}

// The FNV-1a hashes of the three 5-tuples, computed elsewhere, as residues of 1000 backends' weight.
constexpr u32 kHashTcp4 = 0x4ddc2c72;
constexpr u32 kHashTcp4Fragment = 0x8c6a883c;
constexpr u32 kHashUdp6 = 0x424f2d1b;

TEST(Reference, LoadBalancerHashesTheTupleAsSpecified) {
  LoadBalanceSettings settings;
  for (u32 i = 0; i < 250; i++)
    settings.backends.push_back({"b", {0x02, 0xaa, 0, 0, 0, static_cast<u8>(i)}, 4});
  EXPECT_EQ(answer(tcp4(), settings).detail, kHashTcp4 % 1000 / 4);
  EXPECT_EQ(answer(first_fragment(tcp4()), settings).detail, kHashTcp4Fragment % 1000 / 4);
  EXPECT_EQ(answer(udp6(), settings).detail, kHashUdp6 % 1000 / 4);
}

TEST(Reference, LoadBalancerSetsTheBackendsAddressAndTheFormerDestination) {
  LoadBalanceSettings settings;
  settings.backends = {{"only", {0x02, 0xbe, 0xef, 0x01, 0x02, 0x03}, 1, true, 4}};
  settings.cache = true;
  settings.cache_ttl_ms = 60000;
  const Answer result = answer(tcp4(), settings);
  EXPECT_EQ(result.verdict, XG_VERDICT(XG_REDIRECT, 4u, 1u, 0u));
  EXPECT_EQ(result.flags, XG_RES_EDIT | XG_RES_CACHE | (XG_REWRITE_FIRST + result.detail) << 16);
  EXPECT_EQ(result.edit.sets, XG_EDIT_DST_MAC | XG_EDIT_SRC_MAC);
  EXPECT_THAT(result.edit.dst_mac, testing::ElementsAre(0x02, 0xbe, 0xef, 0x01, 0x02, 0x03));
  EXPECT_THAT(result.edit.src_mac, testing::ElementsAre(0x02, 0, 0, 0, 0, 0x0a));
  EXPECT_EQ(result.cache_ttl_ms, 60000u);
  EXPECT_EQ(answer(first_fragment(tcp4()), settings).flags, XG_RES_EDIT);
}

TEST(Reference, LoadBalancerNamesTheOuterHeadersAndTheFlow) {
  LoadBalanceSettings settings;
  settings.backends = {{"other", {}, 1}, {"only", {0x02, 0xbe, 0xef, 0x01, 0x02, 0x03}, 1, true, 4}};
  settings.backends[0].drains = true;
  for (auto& backend : settings.backends) backend.address = prefix4(0x0a000001, 32);
  settings.encapsulation = gpu::EncapsulationSettings{};
  settings.encapsulation->source4 = prefix4(0x0a000002, 32);
  settings.encapsulation->hash_key = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
  const Answer result = answer(tcp4(), settings);
  EXPECT_EQ(result.verdict, XG_VERDICT(XG_REDIRECT, 4u, 1u, 0u));
  EXPECT_EQ(result.flags, XG_RES_EDIT | XG_RES_ADJUST);
  EXPECT_EQ(result.adjust.outer, XG_REWRITE_FIRST + 1);
  EXPECT_EQ(result.adjust.pushed, 20u);
  EXPECT_EQ(result.adjust.popped, 0u);
  EXPECT_EQ(result.adjust.ip_bytes, tcp4().size() - 14 + 20);
  EXPECT_EQ(result.adjust.ether_type, 0x0800u);
  EXPECT_EQ(result.adjust.flow_hash, 0xdec8u) << "SipHash-1-3, computed elsewhere";
  EXPECT_NE(result.adjust.flow_hash, answer(udp6(), settings).adjust.flow_hash) << "another flow's hash";
  settings.encapsulation->hash_key = {};
  EXPECT_NE(result.adjust.flow_hash, answer(tcp4(), settings).adjust.flow_hash) << "another key";

  Bytes longest = tcp4();
  longest[16] = 0x05;
  longest[17] = 0xc8;  // 1480 bytes
  longest.resize(14 + 1480);
  EXPECT_EQ(answer(longest, settings).adjust.ip_bytes, 1500u);
  longest[17]++;
  longest.resize(14 + 1481);
  const Answer too_long = answer(longest, settings);
  EXPECT_EQ(too_long.verdict, XG_VERDICT(XG_DROP, 0u, 1u, gpu::balance_rule::kTooLong));
  EXPECT_EQ(too_long.flags, XG_RES_TOO_LONG);
  EXPECT_EQ(too_long.adjust.longest, 1480u);
  longest.resize(600);
  EXPECT_EQ(answer(longest, settings).verdict, XG_VERDICT(XG_DROP, 0u, 1u, gpu::balance_rule::kMalformed));
}

TEST(Reference, WeightsOwnConsecutiveResidues) {
  LoadBalanceSettings settings;
  const u32 residue = kHashTcp4 % 6;
  settings.backends = {{"a", {}, 1}, {"b", {}, 2}, {"c", {}, 3}};
  EXPECT_EQ(answer(tcp4(), settings).detail, residue < 1 ? 0u : residue < 3 ? 1u : 2u);
}

// By Maglev: how many of `flows` each backend gets, by name.
std::map<std::string, u32> maglev_shares(const std::vector<gpu::Backend>& backends,
                                         const std::array<u64, 2>& key, u32 flows) {
  LoadBalanceSettings settings;
  settings.algorithm = LoadBalanceSettings::Algorithm::maglev;
  settings.backends = backends;
  gpu::reference::Judge judge({{"web", {settings}}}, {key});
  std::map<std::string, u32> shares;
  Bytes frame = tcp4();
  for (u32 i = 0; i < flows; i++) {
    frame[34] = static_cast<u8>(i >> 8);
    frame[35] = static_cast<u8>(i);
    const Traffic traffic = single_frame(frame, 0);
    xg_result result{};
    judge.decide(traffic.region.bytes(), traffic.descriptors, kGeneration, {&result, 1});
    shares[backends.at(result.detail).name]++;
  }
  return shares;
}

TEST(Reference, MaglevSpreadsFlowsByWeightWhateverTheKey) {
  const std::vector<gpu::Backend> backends{{"a", {}, 1}, {"b", {}, 2}, {"c", {}, 5}};
  const auto shares = maglev_shares(backends, {1, 2}, 8000);
  EXPECT_NEAR(shares.at("a"), 1000, 150);
  EXPECT_NEAR(shares.at("b"), 2000, 200);
  EXPECT_NEAR(shares.at("c"), 5000, 200);
  EXPECT_NE(shares, maglev_shares(backends, {3, 4}, 8000)) << "another key, other flows";
  EXPECT_EQ(shares, maglev_shares({backends[2], backends[0], backends[1]}, {1, 2}, 8000));
}

TEST(Reference, L2fwdSwapsTheAddresses) {
  const xg_result result = answer(udp6(), L2fwdSettings{false, 0, true, 0});
  EXPECT_EQ(result.verdict, XG_VERDICT(XG_TX, 0u, 1u, 0u));
  EXPECT_EQ(result.flags, XG_RES_SWAP_MACS | XG_RES_CACHE | XG_REWRITE_SWAP_MACS << 16);
  EXPECT_EQ(result.cache_ttl_ms, 0u);
}

TEST(Reference, TheFirstMatchingRuleDecides) {
  AclSettings acl;
  AclRule other;
  other.src = {prefix4(0xc0000200, 24)};
  other.dst_ports = {{81, 65535}};
  other.action = AclRule::Action::drop;
  AclRule match = other;
  match.dst_ports = {{80, 80}, {443, 443}};
  match.protocols = {17, 6};
  match.action = AclRule::Action::redirect;
  match.target = 7;
  AclRule hidden = match;
  hidden.action = AclRule::Action::pass;
  acl.rules = {other, match, hidden};
  acl.otherwise = AclRule::Action::drop;
  EXPECT_EQ(answer(tcp4(), acl).verdict, XG_VERDICT(XG_REDIRECT, 7u, 1u, 2u));
  EXPECT_EQ(answer(udp6(), acl).verdict, XG_VERDICT(XG_DROP, 0u, 1u, 0u)) << "no rule matches: otherwise";
  acl.rules[1].action = AclRule::Action::next;
  EXPECT_EQ(answer(tcp4(), acl).verdict, XG_PASS) << "the rule ends the stage, and no other decides";
}

// What no stage decides is the flow's as much as what one does, where all say so.
TEST(Reference, WhatAllStagesLetByIsCachedWhereAllMayBe) {
  AclSettings acl;
  AclRule rule;
  rule.dst_ports = {{53, 53}};
  rule.action = AclRule::Action::drop;
  acl.rules = {rule};
  acl.cache = true;
  gpu::ReputationSettings reputation;
  reputation.otherwise = AclRule::Action::next;
  reputation.cache = true;
  const auto by = [](const Bytes& frame, std::vector<gpu::StageSettings> stages) {
    return expected(single_frame(frame, 0), {{"web", std::move(stages)}}).at(0);
  };
  const auto expect_cached = [&](std::vector<gpu::StageSettings> stages, u32 ttl_ms) {
    const xg_result result = by(tcp4(), std::move(stages));
    EXPECT_EQ(result.verdict, XG_PASS);
    EXPECT_EQ(result.flags, XG_RES_CACHE);
    EXPECT_EQ(result.cache_ttl_ms, ttl_ms);
  };
  expect_cached({acl}, 0);
  expect_cached({acl, reputation}, 0);
  reputation.cache_ttl_ms = 60'000;
  expect_cached({acl, reputation}, 60'000);
  acl.cache_ttl_ms = 70'000;
  expect_cached({acl, reputation}, 60'000);
  EXPECT_EQ(by(first_fragment(tcp4()), {acl}).flags, 0u) << "has no flow";

  AclSettings uncached = acl;
  uncached.cache = false;
  gpu::ForwardSettings routes;
  routes.otherwise = AclRule::Action::next;
  routes.cache = true;
  gpu::RateLimitSettings limit;
  limit.packets_per_second = limit.burst_packets = 1000;
  const std::vector<std::vector<gpu::StageSettings>> others{
      {}, {uncached}, {acl, uncached}, {uncached, acl}, {acl, routes}, {limit, acl}, {acl, limit}};
  for (const auto& stages : others) {
    const xg_result result = by(tcp4(), stages);
    EXPECT_EQ(result.verdict, XG_PASS);
    EXPECT_EQ(result.flags, 0u);
    EXPECT_EQ(result.cache_ttl_ms, 0u);
  }
}

// As the kernel's rules do: the first one's ports count where it is followed (XG_PKT_TRACKED), and then it is
// no fragment here.
TEST(Reference, RulesThatNamePortsLetFragmentsBy) {
  Bytes later = tcp4();
  later[21] = 5;
  AclSettings acl;
  AclRule rule;
  rule.dst_ports = {{0, 65535}};
  rule.action = AclRule::Action::drop;
  acl.rules = {rule};
  EXPECT_EQ(answer(tcp4(), acl).verdict, XG_VERDICT(XG_DROP, 0u, 1u, 1u));
  EXPECT_EQ(answer(later, acl).verdict, XG_PASS);
  EXPECT_EQ(answer(first_fragment(tcp4()), acl).verdict, XG_PASS);
}

AclSettings dropping(const AclRule& rule) {
  AclSettings acl;
  acl.rules = {rule};
  acl.rules[0].action = AclRule::Action::drop;
  return acl;
}

bool dropped(const Bytes& frame, const AclRule& rule) {
  return answer(frame, dropping(rule)).verdict == XG_VERDICT(XG_DROP, 0u, 1u, 1u);
}

AclRule flags(u8 mask, u8 value) {
  AclRule rule;
  rule.tcp_flags = gpu::TcpFlags{mask, value};
  return rule;
}

// As the kernel's rules do (bpf/classify.bpf.h): fragments have none, the first one included.
TEST(Reference, RulesThatNameTcpFlagsMatchWholeTcpHeadersOnly) {
  EXPECT_TRUE(dropped(tcp4(), flags(0x12, 0x02))) << "SYN and no ACK";
  EXPECT_FALSE(dropped(tcp4(), flags(0x10, 0x10)));
  EXPECT_TRUE(dropped(tcp4(), flags(0, 0))) << "any flags";
  EXPECT_FALSE(dropped(udp6(), flags(0, 0)));
  EXPECT_FALSE(dropped(first_fragment(tcp4()), flags(0x12, 0x02)));
  AclRule udp = flags(0x12, 0x02);
  udp.protocols = {17};
  EXPECT_FALSE(dropped(tcp4(), udp));
  AclRule tcp = flags(0x12, 0x02);
  tcp.protocols = {17, 6};
  EXPECT_TRUE(dropped(tcp4(), tcp));
  Bytes short_offset = tcp4();
  short_offset[46] = 0x40;
  EXPECT_TRUE(dropped(short_offset, flags(0x12, 0x02))) << "malformed, but the flags are there";
}

TEST(Reference, TcpFlagsBehindThePacketsEndAreNone) {
  Bytes cut = tcp4();
  cut.pop_back();
  EXPECT_FALSE(dropped(cut, flags(0, 0))) << "19 bytes in the frame";
  Bytes padded = tcp4();
  padded[17] = 39;
  padded.resize(60);
  EXPECT_FALSE(dropped(padded, flags(0, 0))) << "19 bytes in the packet, the rest is Ethernet's";
  padded[17] = 40;
  EXPECT_TRUE(dropped(padded, flags(0x12, 0x02)));
}

TEST(Reference, VlanIsTheOuterTags) {
  const auto tagged = [](std::initializer_list<u32> ids) {
    Bytes frame = tcp4();
    Bytes tags;
    for (u32 id : ids)
      tags.insert(tags.end(), {0x81, 0x00, static_cast<u8>(0xe0 | id >> 8), static_cast<u8>(id)});
    frame.insert(frame.begin() + 12, tags.begin(), tags.end());
    return frame;
  };
  const auto on = [](const std::vector<u16>& ids) {
    AclRule rule;
    for (const u16 id : ids) rule.vlans.push_back({id, id});
    return rule;
  };
  EXPECT_TRUE(dropped(tcp4(), on({0})));
  EXPECT_FALSE(dropped(tcp4(), on({XG_VLAN_PRIORITY, 10})));
  EXPECT_TRUE(dropped(tagged({10}), on({11, 10})));
  EXPECT_FALSE(dropped(tagged({10}), on({0, 11})));
  EXPECT_TRUE(dropped(tagged({0}), on({XG_VLAN_PRIORITY})));
  EXPECT_FALSE(dropped(tagged({0}), on({0}))) << "a priority tag is a tag";
  EXPECT_TRUE(dropped(tagged({10, 20}), on({10})));
  EXPECT_FALSE(dropped(tagged({10, 20}), on({20}))) << "the inner one is not looked at";
  Bytes arp(60, 0);
  arp[12] = 0x08;
  arp[13] = 0x06;
  EXPECT_TRUE(dropped(arp, on({0}))) << "IP or not";

  AclRule range;
  range.vlans = {{10, 19}, {4094, 4094}};
  for (const u32 id : {10u, 15u, 19u, 4094u}) EXPECT_TRUE(dropped(tagged({id}), range)) << id;
  for (const u32 id : {0u, 9u, 20u, 4093u, 4095u}) EXPECT_FALSE(dropped(tagged({id}), range)) << id;
  EXPECT_FALSE(dropped(tcp4(), range)) << "no tag";
}

TEST(Reference, PacketsWithoutAddressesPassTheLoadBalancer) {
  Bytes arp(60, 0);
  arp[12] = 0x08;
  arp[13] = 0x06;
  LoadBalanceSettings settings;
  settings.backends = {{"only", {}, 1}};
  EXPECT_EQ(answer(arp, settings).verdict, XG_PASS);
}

// To next hop 0 everything, to next hop 1 198.51.100.0/24.
gpu::ForwardSettings two_next_hops() {
  gpu::ForwardSettings settings;
  settings.next_hops.resize(2);
  settings.next_hops[0] = {"up", {0x02, 0xbe, 0xef, 1, 2, 3}, true, {0x02, 0xaa, 4, 5, 6, 7}, true, 4};
  settings.next_hops[1] = {"down", {0x02, 0xbe, 0xef, 1, 2, 4}};
  settings.routes = {{prefix4(0, 0), 0},
                     {prefix4(0xc6336400, 24), 1},
                     {prefix4(0xc6336400, 24), 0},
                     {prefix6(std::array<u8, 16>{}, 0), 0}};
  settings.cache = true;
  settings.cache_ttl_ms = 9;
  return settings;
}

TEST(Reference, ARouterTakesAHopAndSetsTheNextHopsAddresses) {
  const auto settings = two_next_hops();
  const Answer six = answer(udp6(), settings);
  EXPECT_EQ(six.verdict, XG_VERDICT(XG_REDIRECT, 4u, 1u, 1u));
  EXPECT_EQ(six.flags, XG_RES_EDIT | XG_RES_CACHE | XG_REWRITE_FIRST << 16);
  EXPECT_EQ(six.edit.sets, XG_EDIT_DST_MAC | XG_EDIT_SRC_MAC | XG_EDIT_TTL);
  EXPECT_THAT(six.edit.dst_mac, testing::ElementsAre(0x02, 0xbe, 0xef, 0x01, 0x02, 0x03));
  EXPECT_THAT(six.edit.src_mac, testing::ElementsAre(0x02, 0xaa, 0x04, 0x05, 0x06, 0x07));
  EXPECT_EQ(six.edit.l3_checksum, 0u) << "IPv6 has none";
  EXPECT_EQ(six.edit.ttl, 63u);
  EXPECT_EQ(six.cache_ttl_ms, 9u);
  EXPECT_EQ(six.detail, 0u);
  const Answer four = answer(tcp4(), settings);
  EXPECT_EQ(four.verdict, XG_VERDICT(XG_TX, 0u, 1u, 2u)) << "the longest prefix, and the first of equals";
  EXPECT_EQ(XG_RES_REWRITE(four.flags), XG_REWRITE_FIRST + 1);
  EXPECT_EQ(four.edit.ttl, 63u);
  EXPECT_THAT(four.edit.src_mac, testing::ElementsAre(0x02, 0, 0, 0, 0, 0x0a))
      << "the frame's former destination";
  EXPECT_EQ(four.detail, 1u);
  EXPECT_EQ(answer(first_fragment(tcp4()), settings).flags, XG_RES_EDIT);
}

// 192.168.0.1 to 192.168.0.199 is the example that everybody's checksum is tried on: 0xb861.
TEST(Reference, ARouterUpdatesTheChecksumByRfc1624) {
  Bytes frame = tcp4();
  const Bytes ip{0x45, 0,    0,    0x28, 0,    0,    0x40, 0,    0x40, 0x06,
                 0xb8, 0xb7, 0xc0, 0xa8, 0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7};
  std::copy(ip.begin(), ip.end(), frame.begin() + 14);
  const auto updated = [&](u32 ttl, u32 checksum) {
    frame[22] = static_cast<u8>(ttl);
    frame[24] = static_cast<u8>(checksum >> 8);
    frame[25] = static_cast<u8>(checksum);
    const Answer result = answer(frame, two_next_hops());
    EXPECT_EQ(result.edit.ttl, ttl - 1);
    const u32 bytes = result.edit.l3_checksum;
    return (bytes & 0xff) << 8 | bytes >> 8;
  };
  const auto right = [&](u32 ttl) {
    u32 sum = 0;
    frame[22] = static_cast<u8>(ttl);
    for (u32 at = 14; at < 34; at += 2)
      if (at != 24) sum += frame[at] * 256u + frame[at + 1];
    while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
    return ~sum & 0xffff;
  };
  for (u32 ttl : {2u, 64u, 255u}) EXPECT_EQ(updated(ttl, right(ttl)), right(ttl - 1)) << ttl;
  EXPECT_EQ(updated(64, right(64) ^ 0x0040), right(63) ^ 0x0040) << "a wrong one stays wrong";
  EXPECT_EQ(updated(64, 0xfeff), 0u);
  EXPECT_EQ(updated(64, 0xffff), 0x0100u);
  EXPECT_EQ(updated(64, 0), 0x0100u);
  // Where the right one is 0, RFC 1141's equation would make it 0xffff.
  for (u32 id = 0; id < 0x10000; id += 7) {
    frame[18] = static_cast<u8>(id >> 8);
    frame[19] = static_cast<u8>(id);
    const u32 before = right(17);
    const u32 after = right(16);
    if (before > 0xfe80 || before < 0x40) {
      ASSERT_EQ(updated(17, before), after) << id;
    }
  }
}

TEST(Reference, ARouterLeavesTheRestToTheHost) {
  auto settings = two_next_hops();
  settings.next_hops[1].mtu = 40;
  const auto verdict = [&](u32 at, u8 value, Bytes frame = tcp4()) {
    frame[at] = value;
    const xg_result result = answer(frame, settings);
    if (XG_VERDICT_ACTION(result.verdict) == XG_PASS) {
      EXPECT_EQ(result.flags & ~(XG_RES_CACHE | 0xffff0000u), 0u) << "nothing is rewritten";
    }
    return result.verdict;
  };
  const auto pass = [](u32 rule) { return XG_VERDICT(XG_PASS, 0u, 1u, rule); };
  EXPECT_EQ(verdict(22, 2), XG_VERDICT(XG_TX, 0u, 1u, 2u));
  EXPECT_EQ(verdict(22, 1), pass(gpu::forward_rule::kTtl));
  EXPECT_EQ(verdict(22, 0), pass(gpu::forward_rule::kTtl));
  EXPECT_EQ(verdict(25, 1, udp6()), pass(gpu::forward_rule::kTtl));
  EXPECT_EQ(verdict(0, 0x03), pass(gpu::forward_rule::kInvalid)) << "a group's MAC address";
  EXPECT_EQ(verdict(30, 224), pass(gpu::forward_rule::kInvalid));
  EXPECT_EQ(verdict(26, 127), pass(gpu::forward_rule::kInvalid)) << "from the loopback";
  EXPECT_EQ(verdict(42, 0xff, udp6()), pass(gpu::forward_rule::kInvalid));
  EXPECT_EQ(verdict(17, 41), pass(gpu::forward_rule::kInvalid)) << "longer than the frame";
  const auto unseen = [&](u32 bits, const Bytes& frame) {
    const xg_result result = answer(frame, settings, static_cast<u8>(XG_ROUTER_ALL & ~bits));
    EXPECT_EQ(result.flags, 0u) << "nothing is rewritten, and nothing remembered";
    return result.verdict;
  };
  EXPECT_EQ(unseen(XG_ROUTER_ADDRESSED, tcp4()), pass(gpu::forward_rule::kForeign));
  EXPECT_EQ(unseen(XG_ROUTER_ADDRESSED, udp6()), pass(gpu::forward_rule::kForeign));
  EXPECT_EQ(unseen(XG_ROUTER_CHECKSUM, tcp4()), pass(gpu::forward_rule::kChecksum));
  EXPECT_EQ(unseen(XG_ROUTER_ALL, tcp4()), pass(gpu::forward_rule::kForeign)) << "nobody has looked";
  Bytes options = tcp4();
  options.insert(options.begin() + 34, {1, 1, 1, 1});
  options[14] = 0x46;
  options[17] = 44;
  EXPECT_EQ(verdict(22, 64, options), pass(gpu::forward_rule::kOptions));
  Bytes longer = tcp4();
  longer.push_back(0);
  EXPECT_EQ(verdict(22, 64, longer), XG_VERDICT(XG_TX, 0u, 1u, 2u)) << "padding is not the packet's";
  longer[17] = 41;
  EXPECT_EQ(verdict(22, 64, longer), pass(gpu::forward_rule::kMtu));
  settings.routes.push_back({prefix4(0xc6336407, 32), gpu::kRoutePass});
  EXPECT_EQ(unseen(XG_ROUTER_ADDRESSED, tcp4()), pass(gpu::forward_rule::kForeign));
  EXPECT_EQ(verdict(22, 1), pass(gpu::forward_rule::kPass));
  settings.routes.back().next_hop = gpu::kRouteDrop;
  EXPECT_EQ(verdict(22, 1), XG_VERDICT(XG_DROP, 0u, 1u, gpu::forward_rule::kDrop));
  settings.routes.clear();
  EXPECT_EQ(verdict(22, 1), pass(0));
  settings.otherwise = AclRule::Action::next;
  EXPECT_EQ(verdict(22, 1), XG_PASS) << "no stage decides";
  EXPECT_EQ(verdict(13, 0x06), XG_PASS) << "not IP";
}

// tcp4() with other flags and numbers to match, both ends' behind 0; answered: from the other end.
Bytes tcp4_with(u8 flags, bool answered) {
  Bytes frame = tcp4();
  frame[47] = flags;
  frame[41] = (flags & 2) != 0 ? 0 : 1;
  frame[45] = (flags & 16) != 0 ? 1 : 0;
  frame[48] = 4;
  if (!answered) return frame;
  std::swap_ranges(&frame[26], &frame[30], &frame[30]);
  std::swap_ranges(&frame[34], &frame[36], &frame[36]);
  return frame;
}

// What the host sends is noted by the stage that follows connections, and decided by nobody.
TEST(Reference, WhatTheHostSendsIsOneDirectionOfItsConnections) {
  constexpr u8 kSyn = 2, kRst = 4, kAck = 16;
  gpu::ConntrackSettings conntrack;
  conntrack.egress = false;
  conntrack.on_new = AclRule::Action::drop;
  conntrack.table.entries = 8;
  gpu::RateLimitSettings one;
  one.packets_per_second = one.burst_packets = 1;
  AclSettings drop;
  drop.otherwise = AclRule::Action::drop;
  gpu::reference::Judge judge({{"answers", {conntrack}}, {"others", {one, drop}}});
  const FrameRegion region(XG_CHUNK_SIZE * 2);
  const auto verdict = [&](u8 flags, bool answered, bool sent, u16 pipeline = 0) {
    const xg_descriptor at = place(region, XG_FRAME_DATA, tcp4_with(flags, answered), pipeline, 0);
    if (sent) {
      xg_metadata metadata;
      std::memcpy(&metadata, region.base() + at.offset - sizeof(metadata), sizeof(metadata));
      metadata.flags |= XG_PKT_EGRESS;
      std::memcpy(region.base() + at.offset - sizeof(metadata), &metadata, sizeof(metadata));
    }
    xg_result result;
    judge.decide(region.bytes(), {&at, 1}, kGeneration, {&result, 1});
    EXPECT_TRUE(!sent || result.flags == 0);
    return result.verdict;
  };
  const u32 invalid = XG_VERDICT(XG_DROP, 0u, 1u, gpu::kConntrackInvalid);
  EXPECT_EQ(verdict(kSyn | kAck, true, false), invalid) << "it answers nothing";
  EXPECT_EQ(verdict(kSyn, false, true), XG_PASS) << "new, and not dropped";
  EXPECT_EQ(verdict(kSyn | kAck, true, false), XG_PASS);
  EXPECT_EQ(verdict(kAck, false, true), XG_PASS);
  EXPECT_EQ(verdict(kAck, true, false), XG_PASS);
  EXPECT_EQ(verdict(kRst, false, true), XG_PASS);
  EXPECT_EQ(verdict(kAck, true, false), invalid) << "the host has closed it";
  EXPECT_EQ(verdict(kAck, false, true), XG_PASS);
  EXPECT_EQ(verdict(kSyn, true, false), XG_VERDICT(XG_DROP, 0u, 1u, gpu::kConntrackNew));

  for (int i = 0; i < 3; i++) EXPECT_EQ(verdict(kAck, false, true, 1), XG_PASS) << "of no other stage";
  const auto words = judge.tables().at(1);
  EXPECT_TRUE(std::all_of(words.begin(), words.end(), [](u32 word) { return word == 0; }));
}

// The host knows its connections: one that stood before is taken up by what it sends, and by nothing else.
TEST(Reference, WhatTheHostSendsTakesUpAConnectionInTheMiddle) {
  constexpr u8 kAck = 16;
  gpu::ConntrackSettings conntrack;
  conntrack.egress = false;
  gpu::reference::Judge judge({{"strict", {conntrack}}});
  const FrameRegion region(XG_CHUNK_SIZE * 2);
  const auto verdict = [&](bool answered, bool sent) {
    const xg_descriptor at = place(region, XG_FRAME_DATA, tcp4_with(kAck, answered), 0, 0);
    u8* const flags = region.base() + at.offset - sizeof(xg_metadata) + offsetof(xg_metadata, flags);
    if (sent) flags[1] |= XG_PKT_EGRESS >> 8;
    xg_result result;
    judge.decide(region.bytes(), {&at, 1}, kGeneration, {&result, 1});
    return XG_VERDICT_ACTION(result.verdict);
  };
  EXPECT_EQ(verdict(true, false), XG_DROP);
  EXPECT_EQ(verdict(false, true), XG_PASS);
  EXPECT_EQ(verdict(true, false), XG_PASS);
}

}  // namespace
}  // namespace xdpgpu::tests
