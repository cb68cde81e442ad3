// SPDX-License-Identifier: MIT
#include "bench/stages/acl_cases.hpp"

#include <fmt/format.h>

#include <bit>

#include "maps/packet.h"

namespace xdpgpu::bench {
namespace {

constexpr u64 kSeed = 20261122;
constexpr double kFlat = 1 / 1.3;
constexpr u32 kManyRules = 10000;
constexpr double kPeerBar = 20;  // with so many rules
constexpr u8 kTcp = 6, kUdp = 17;
constexpr u32 kNetworks = 256;

u32 mask_of(u32 length) { return length == 0 ? 0 : ~u32{0} << (32 - length); }

// In one of some networks, so that prefixes nest.
u32 address_in(Random& random) {
  return (0x0a000000u | below(random, kNetworks) << 16) + below(random, 65536);
}

void around(u32 address, u32 length, u32& to, u32& mask) {
  mask = mask_of(length);
  to = address & mask;
}

u32 mixed_length(Random& random, u32 any_percent) {
  if (below(random, 100) < any_percent) return 0;
  const u32 n = below(random, 100);
  return n < 10 ? 16 : n < 25 ? 17 + below(random, 7) : n < 50 ? 24 : n < 65 ? 25 + below(random, 7) : 32;
}

PlainRule mixed_rule(Random& random) {
  constexpr std::array<u16, 12> kServices{21, 22, 25, 53, 80, 110, 143, 161, 443, 993, 3306, 8080};
  PlainRule rule;
  around(address_in(random), mixed_length(random, 15), rule.src, rule.src_mask);
  around(address_in(random), mixed_length(random, 4), rule.dst, rule.dst_mask);
  if (const u32 n = below(random, 100); n < 90)
    rule.protocol = n < 68 ? kTcp : kUdp, rule.protocol_mask = 0xff;
  const u32 ports = below(random, 100);
  if (ports < 45) {
    rule.dst_first = rule.dst_last = kServices[below(random, kServices.size())];
  } else if (ports < 60) {
    rule.dst_first = rule.dst_last = static_cast<u16>(below(random, 65536));
  } else if (ports < 75) {
    rule.dst_first = static_cast<u16>(below(random, 60000));
    rule.dst_last = static_cast<u16>(rule.dst_first + below(random, 5000));
  } else if (ports < 85) {
    rule.dst_first = 1024;
  }
  if (below(random, 10) == 0) rule.src_first = 1024;
  if (rule.protocol == kTcp && below(random, 10) == 0) rule.flags = 0x02, rule.flags_mask = 0x12;
  if (below(random, 20) == 0) rule.vlan = static_cast<u16>(below(random, 8) * 10), rule.vlan_mask = 0xffff;
  return rule;
}

PlainRule overlapping_rule(Random& random) {
  PlainRule rule;
  around(static_cast<u32>(random()), 2 + below(random, 4), rule.src, rule.src_mask);
  around(static_cast<u32>(random()), 2 + below(random, 4), rule.dst, rule.dst_mask);
  for (auto [first, last] :
       {std::pair{&rule.src_first, &rule.src_last}, std::pair{&rule.dst_first, &rule.dst_last}}) {
    *first = static_cast<u16>(below(random, 60000));
    *last = static_cast<u16>(*first + below(random, 5000));
  }
  return rule;
}

PlainRule crossing_rule(u32 number) {
  PlainRule rule;
  const u16 own = static_cast<u16>(2000 + number);
  const bool even = number % 2 == 0;
  (even ? rule.src_first : rule.dst_first) = (even ? rule.src_last : rule.dst_last) = 1000;
  (even ? rule.dst_first : rule.src_first) = (even ? rule.dst_last : rule.src_last) = own;
  return rule;
}

StagePacket packet_for(AclShape shape, const std::vector<PlainRule>& rules, Random& random) {
  StagePacket packet;
  packet.src = shape == AclShape::mixed ? address_in(random) : static_cast<u32>(random());
  packet.dst = shape == AclShape::mixed ? address_in(random) : static_cast<u32>(random());
  packet.src_port = static_cast<u16>(below(random, 65536));
  packet.dst_port = static_cast<u16>(below(random, 65536));
  packet.protocol = below(random, 4) == 0 ? kUdp : kTcp;
  if (shape == AclShape::crossing) packet.src_port = packet.dst_port = 1000;
  if (shape == AclShape::mixed && below(random, 5) == 0)
    packet.vlan = static_cast<u16>(10 + below(random, 7) * 10);
  // Most packets are some rule's, though an earlier one may take it.
  if (shape == AclShape::mixed && below(random, 5) != 0) {
    const PlainRule& rule = rules[below(random, static_cast<u32>(rules.size()))];
    packet.src = rule.src | (packet.src & ~rule.src_mask);
    packet.dst = rule.dst | (packet.dst & ~rule.dst_mask);
    packet.src_port = static_cast<u16>(rule.src_first + below(random, rule.src_last - rule.src_first + 1u));
    packet.dst_port = static_cast<u16>(rule.dst_first + below(random, rule.dst_last - rule.dst_first + 1u));
    if (rule.protocol_mask != 0) packet.protocol = rule.protocol;
    if (rule.vlan_mask != 0) packet.vlan = rule.vlan;
  }
  if (packet.protocol == kTcp) packet.tcp_flags = below(random, 8) == 0 ? 0x02 : 0x10;
  return packet;
}

bool matches(const PlainRule& rule, const StagePacket& packet) {
  return (packet.src & rule.src_mask) == rule.src && (packet.dst & rule.dst_mask) == rule.dst &&
         rule.dst_first <= packet.dst_port && packet.dst_port <= rule.dst_last &&
         rule.src_first <= packet.src_port && packet.src_port <= rule.src_last &&
         (packet.protocol & rule.protocol_mask) == rule.protocol &&
         (packet.tcp_flags & rule.flags_mask) == rule.flags && (packet.vlan & rule.vlan_mask) == rule.vlan;
}

gpu::Prefix prefix_of(u32 address, u32 mask) {
  gpu::Prefix prefix;
  for (u32 i = 0; i < 4; ++i) prefix.address[i] = static_cast<u8>(address >> (24 - 8 * i));
  prefix.length = static_cast<u8>(std::popcount(mask));
  return prefix;
}

gpu::AclSettings settings_of(const std::vector<PlainRule>& rules) {
  gpu::AclSettings acl;
  acl.otherwise = gpu::AclRule::Action::pass;
  for (const PlainRule& rule : rules) {
    gpu::AclRule& to = acl.rules.emplace_back();
    if (rule.src_mask != 0) to.src = {prefix_of(rule.src, rule.src_mask)};
    if (rule.dst_mask != 0) to.dst = {prefix_of(rule.dst, rule.dst_mask)};
    if (rule.protocol_mask != 0) to.protocols = {rule.protocol};
    if (rule.src_first != 0 || rule.src_last != 65535) to.src_ports = {{rule.src_first, rule.src_last}};
    if (rule.dst_first != 0 || rule.dst_last != 65535) to.dst_ports = {{rule.dst_first, rule.dst_last}};
    if (rule.flags_mask != 0) to.tcp_flags = gpu::TcpFlags{rule.flags_mask, rule.flags};
    if (rule.vlan_mask != 0) to.vlans = {{rule.vlan, rule.vlan}};
    to.action = gpu::AclRule::Action::drop;
  }
  return acl;
}

u32 first_match(const std::vector<PlainRule>& rules, const StagePacket& packet) {
  for (std::size_t i = 0; i < rules.size(); ++i)
    if (matches(rules[i], packet)) return XG_VERDICT(XG_DROP, 0u, 1u, static_cast<u32>(i) + 1);
  return XG_VERDICT(XG_PASS, 0u, 1u, 0u);
}

const char* name_of(AclShape shape) {
  return shape == AclShape::mixed ? "mixed" : shape == AclShape::overlapping ? "overlapping" : "crossing";
}

}  // namespace

std::vector<StageCase> acl_cases(AclShape shape, const std::vector<u32>& rules, u32 packets) {
  std::vector<StageCase> cases;
  for (const u32 count : rules) {
    Random random(kSeed + count);
    auto set = std::make_shared<std::vector<PlainRule>>();
    for (u32 i = 0; i < count; ++i)
      set->push_back(shape == AclShape::mixed         ? mixed_rule(random)
                     : shape == AclShape::overlapping ? overlapping_rule(random)
                                                      : crossing_rule(i));
    StageCase& made = cases.emplace_back();
    made.name = fmt::format("acl, {} rules, {}", count, name_of(shape));
    if (cases.size() > 1) made.against = cases.front().name, made.bar = kFlat;
    made.plain_bar = kHeaderBar;
    if (count >= kManyRules) made.peer_bar = kPeerBar;
    made.stages = {settings_of(*set)};
    for (u32 i = 0; i < packets; ++i) made.packets.push_back(packet_for(shape, *set, random));
    made.verdict = [set](const StagePacket& packet) { return first_match(*set, packet); };
    made.peers = {rte_acl_peer(set)};
    made.peers.front().name = fmt::format("rte_acl, {} rules, {}", count, name_of(shape));
    made.peers.front().answer_of = [](u32 verdict) { return XG_VERDICT_RULE(verdict); };
  }
  return cases;
}

}  // namespace xdpgpu::bench
