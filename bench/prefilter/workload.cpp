// SPDX-License-Identifier: MIT
#include "bench/prefilter/workload.hpp"

#include <algorithm>
#include <cstring>
#include <string>
#include <unordered_set>

#include "maps/parse.h"

namespace xdpgpu::bench {
namespace {

u32 below(Random& random, u32 n) { return static_cast<u32>(random() % n); }

void random_address(u8 family, u8* bytes, Random& random) {
  for (u32 i = 0; i < (family == 4 ? 4u : 16u); ++i) bytes[i] = static_cast<u8>(random());
  bytes[0] = static_cast<u8>(family == 4 ? 1 + bytes[0] % 223 : 0x20 | (bytes[0] & 0x1f));
}
void cut(policy::Prefix& p) {
  for (u32 bit = p.length; bit < 128; ++bit) p.address[bit / 8] &= static_cast<u8>(~(0x80u >> (bit % 8)));
}
u8 random_length(u8 family, Random& random) {
  const u32 n = below(random, 24);
  if (family == 4) return static_cast<u8>(n < 12 ? 24 : n < 20 ? 32 : 16 + below(random, 16));
  return static_cast<u8>(n < 12 ? 48 : n < 18 ? 64 : n < 21 ? 128 : 29 + below(random, 19));
}
std::string name_of(const policy::Prefix& p) {
  return std::string(reinterpret_cast<const char*>(p.address), 16) + static_cast<char>(p.length);
}

prefilter_packet udp_from(u8 family, const u8* source) {
  policy::PacketFacts facts{.family = family, .src_port = 1000, .dst_port = 53, .l4 = XG_L4_V4 + 17};
  if (family == 6) facts.l4 = XG_L4_V6 + 17;
  std::copy_n(source, family == 4 ? 4 : 16, facts.src);
  facts.dst[0] = family == 4 ? 198 : 0x20;
  facts.dst[3] = 2;
  return record_of(facts);
}

policy::Prefix around(u8 first_length, u32 lengths, Random& random) {
  policy::Prefix p;
  p.length = static_cast<u8>(first_length + below(random, lengths));
  random_address(4, p.address, random);
  cut(p);
  return p;
}

policy::Rule random_rule(Random& random) {
  policy::Rule rule;
  auto& m = rule.match;
  m.src.push_back(around(8, 25, random));
  m.dst.push_back(around(8, 25, random));
  if (below(random, 2) == 0) m.protocols.push_back(below(random, 2) == 0 ? 6 : 17);
  const u16 port = static_cast<u16>(below(random, 65000));
  m.dst_ports.push_back({port, static_cast<u16>(port + (below(random, 2) == 0 ? 0 : below(random, 500)))});
  return rule;
}
policy::Rule overlapping_rule(Random& random) {
  policy::Rule rule;
  auto& m = rule.match;
  for (auto* side : {&m.src, &m.dst}) side->push_back(around(2, 4, random));
  for (auto* side : {&m.src_ports, &m.dst_ports}) {
    const u16 first = static_cast<u16>(below(random, 60000));
    side->push_back({first, static_cast<u16>(first + below(random, 5000))});
  }
  return rule;
}
policy::Rule crossing_rule(u32 number) {
  policy::Rule rule;
  const u16 own = static_cast<u16>(2000 + number);
  auto& m = rule.match;
  (number % 2 == 0 ? m.src_ports : m.dst_ports).push_back({1000, 1000});
  (number % 2 == 0 ? m.dst_ports : m.src_ports).push_back({own, own});
  return rule;
}

policy::PacketFacts random_packet(Shape shape, const policy::Policy& policy, Random& random) {
  policy::PacketFacts packet{.family = 4, .src_port = 0, .dst_port = 0, .l4 = XG_L4_V4 + 17};
  const auto& near = policy.rules[below(random, static_cast<u32>(policy.rules.size()))].match;
  random_address(4, packet.src, random);
  random_address(4, packet.dst, random);
  packet.src_port = below(random, 65536), packet.dst_port = below(random, 65536);
  if (shape == Shape::crossing) packet.src_port = packet.dst_port = 1000;
  if (shape != Shape::random || below(random, 2) == 0) return packet;
  auto take = [](u8* address, const policy::Prefix& p) {
    for (u32 bit = 0; bit < p.length; ++bit) {
      const u8 mask = static_cast<u8>(0x80u >> (bit % 8));
      address[bit / 8] = static_cast<u8>((address[bit / 8] & ~mask) | (p.address[bit / 8] & mask));
    }
  };
  take(packet.src, near.src[0]);
  take(packet.dst, near.dst[0]);
  if (below(random, 2) == 0) packet.dst_port = near.dst_ports[0].first;
  return packet;
}

}  // namespace

std::vector<policy::Prefix> prefixes(u8 family, u32 count, Random& random) {
  std::vector<policy::Prefix> out;
  std::unordered_set<std::string> names;
  while (out.size() < count) {
    policy::Prefix p;
    p.family = family;
    p.length = random_length(family, random);
    random_address(family, p.address, random);
    cut(p);
    if (names.insert(name_of(p)).second) out.push_back(p);
  }
  return out;
}

Sources sources(const std::vector<policy::Prefix>& list, u8 family, u32 count, u32 hit_percent,
                Random& random) {
  std::unordered_set<std::string> names;
  std::vector<bool> lengths(129);
  for (const auto& p : list) names.insert(name_of(p)), lengths[p.length] = true;
  auto in_list = [&](const policy::Prefix& host) {
    policy::Prefix p = host;
    for (u32 length = family == 4 ? 32 : 128; length > 0; --length) {
      p.length = static_cast<u8>(length);
      cut(p);
      if (lengths[length] && names.contains(name_of(p))) return true;
    }
    return false;
  };
  Sources out;
  while (out.packets.size() < count) {
    policy::Prefix host;
    random_address(family, host.address, random);
    const bool hit = below(random, 100) < hit_percent;
    if (hit) {
      const auto& p = list[below(random, static_cast<u32>(list.size()))];
      for (u32 bit = 0; bit < p.length; ++bit) {
        const u8 mask = static_cast<u8>(0x80u >> (bit % 8));
        host.address[bit / 8] =
            static_cast<u8>((host.address[bit / 8] & ~mask) | (p.address[bit / 8] & mask));
      }
    } else if (!list.empty() && in_list(host)) {
      continue;
    }
    out.packets.push_back(udp_from(family, host.address));
    out.listed.push_back(hit);
  }
  return out;
}

policy::Policy missing_policy() {
  policy::Policy policy;
  policy::Rule& rule = policy.rules.emplace_back();
  rule.match.protocols = {17};
  rule.match.dst_ports = {{9, 9}};
  rule.action = policy::Rule::Action::drop;
  return policy;
}
policy::Policy matching_policy() {
  policy::Policy policy = missing_policy();
  policy::Rule& rule = policy.rules.emplace_back();
  rule.match.dst_ports = {{53, 53}};
  rule.action = policy::Rule::Action::drop;
  return policy;
}
policy::Policy list_policy(const std::vector<policy::Prefix>& list) {
  policy::Policy policy = missing_policy();
  policy.lists["bad"].prefixes = list;
  policy::Rule& rule = policy.rules.emplace_back();
  rule.match.src_lists = {"bad"};
  rule.action = policy::Rule::Action::drop;
  return policy;
}

Rules rules(Shape shape, u32 count, u32 packets, Random& random) {
  Rules out;
  for (u32 i = 0; i < count; ++i) {
    auto& rule = out.policy.rules.emplace_back(shape == Shape::random        ? random_rule(random)
                                               : shape == Shape::overlapping ? overlapping_rule(random)
                                                                             : crossing_rule(i));
    rule.action = policy::Rule::Action::drop;
  }
  for (u32 i = 0; i < packets; ++i) out.packets.push_back(random_packet(shape, out.policy, random));
  return out;
}

std::optional<u32> first_match(const policy::Policy& policy, const policy::PacketFacts& packet) {
  const auto matches = policy::match_linear(policy, packet);
  return matches.empty() ? std::nullopt : std::optional<u32>(matches.front());
}

test::Frame frame_of(const policy::PacketFacts& packet) {
  char src[INET_ADDRSTRLEN], dst[INET_ADDRSTRLEN];
  inet_ntop(AF_INET, packet.src, src, sizeof src);
  inet_ntop(AF_INET, packet.dst, dst, sizeof dst);
  using namespace test;
  return ethernet() + ipv4({.src = src, .dst = dst},
                           udp(static_cast<u16>(packet.src_port), static_cast<u16>(packet.dst_port), 18));
}

prefilter_packet record_of(const policy::PacketFacts& packet) {
  prefilter_packet out{};
  std::memcpy(out.key.src, packet.src, packet.family == 4 ? 4 : 16);
  std::memcpy(out.key.dst, packet.dst, packet.family == 4 ? 4 : 16);
  out.key.src_port = xg_host16(static_cast<u16>(packet.src_port));
  out.key.dst_port = xg_host16(static_cast<u16>(packet.dst_port));
  out.key.family = packet.family;
  out.key.protocol = 17;
  out.flags = XG_PKT_UDP | XG_PKT_PORTS;
  out.l4_index = static_cast<u16>(packet.l4);
  return out;
}

}  // namespace xdpgpu::bench
