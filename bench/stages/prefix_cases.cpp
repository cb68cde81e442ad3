// SPDX-License-Identifier: MIT
#include "bench/stages/prefix_cases.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "maps/packet.h"

namespace xdpgpu::bench {
namespace {

constexpr double kPeerBar = 3;
constexpr u32 kNextHops = 64;
constexpr u32 kDropped = 1, kPassed = 2;  // lists of the reputation stage

using Prefixes = std::vector<PlainPrefix>;

u32 mask_of(u32 length) { return length == 0 ? 0 : ~u32{0} << (32 - length); }

// Global unicast: 1.0.0.0 to 126.255.255.255.
u32 address(Random& random) { return (1 + below(random, 126)) << 24 | below(random, 1 << 24); }

u8 listed_length(Random& random) {
  const u32 n = below(random, 100);
  return static_cast<u8>(n < 60 ? 32 : n < 85 ? 24 : 14 + below(random, 18));
}

// As a full table of 2025 has them: three of five are /24, nearly all of the others shorter.
u8 routed_length(Random& random) {
  const u32 n = below(random, 100);
  return static_cast<u8>(n < 60 ? 24 : n < 72 ? 22 : n < 99 ? 12 + below(random, 12) : 25 + below(random, 8));
}

// One prefix of each address and length, in their order.
void put_in_order(Prefixes& prefixes) {
  const auto key = [](const PlainPrefix& prefix) { return std::tuple(prefix.length, prefix.address); };
  std::stable_sort(prefixes.begin(), prefixes.end(),
                   [&](const PlainPrefix& a, const PlainPrefix& b) { return key(a) < key(b); });
  prefixes.erase(std::unique(prefixes.begin(), prefixes.end(),
                             [&](const PlainPrefix& a, const PlainPrefix& b) { return key(a) == key(b); }),
                 prefixes.end());
}

// By bisection in each length, the longest first.
u32 longest(const Prefixes& ordered, u32 of) {
  for (u32 length = 33; length-- > 0;) {
    const auto at = std::lower_bound(ordered.begin(), ordered.end(), std::tuple(length, of & mask_of(length)),
                                     [](const PlainPrefix& a, const std::tuple<u32, u32>& b) {
                                       return std::tuple(u32{a.length}, a.address) < b;
                                     });
    if (at != ordered.end() && at->length == length && at->address == (of & mask_of(length)))
      return at->answer;
  }
  return 0;
}

template <class Length, class Answer>
Prefixes some(u32 count, Random& random, Length&& length, Answer&& answer) {
  Prefixes prefixes(count);
  for (PlainPrefix& prefix : prefixes) {
    prefix.length = length(random);
    prefix.address = address(random) & mask_of(prefix.length);
    prefix.answer = answer();
  }
  return prefixes;
}

std::vector<StagePacket> packets_for(const Prefixes& prefixes, u32 count, bool destination, Random& random) {
  std::vector<StagePacket> packets(count);
  for (StagePacket& packet : packets) {
    packet.src = address(random);
    packet.dst = address(random);
    packet.src_port = static_cast<u16>(below(random, 65536));
    packet.dst_port = 443;
    if (below(random, 4) == 0) continue;
    const PlainPrefix& in = prefixes[below(random, static_cast<u32>(prefixes.size()))];
    (destination ? packet.dst : packet.src) = in.address | (static_cast<u32>(random()) & ~mask_of(in.length));
  }
  return packets;
}

gpu::Prefix to_prefix(const PlainPrefix& from) {
  gpu::Prefix prefix;
  for (u32 i = 0; i < 4; ++i) prefix.address[i] = static_cast<u8>(from.address >> (24 - 8 * i));
  prefix.length = from.length;
  return prefix;
}

StageCase reputation_case(u32 count, u32 packets) {
  Random random(20261122);
  auto feed = some(count, random, listed_length, [] { return kDropped; });
  for (u32 i = 0; i < count / 100; ++i) {
    const PlainPrefix& in = feed[below(random, count)];
    if (in.length < 32)
      feed.push_back({in.address | (static_cast<u32>(random()) & ~mask_of(in.length)), 32, kPassed});
  }
  put_in_order(feed);
  StageCase made;
  made.packets = packets_for(feed, packets, false, random);
  gpu::ReputationSettings stage;
  stage.lists.resize(2);
  stage.lists[kDropped - 1].name = "feed";
  stage.lists[kPassed - 1].name = "exceptions";
  stage.lists[kPassed - 1].action = gpu::AclRule::Action::pass;
  for (const PlainPrefix& prefix : feed) stage.lists[prefix.answer - 1].prefixes.push_back(to_prefix(prefix));
  made.stages = {std::move(stage)};
  const auto ordered = std::make_shared<const Prefixes>(std::move(feed));
  made.name = fmt::format("reputation, {} prefixes", ordered->size());
  made.verdict = [ordered](const StagePacket& packet) {
    const u32 list = longest(*ordered, packet.src);
    return list == 0 ? u32{XG_PASS} : XG_VERDICT(list == kDropped ? XG_DROP : XG_PASS, 0u, 1u, list);
  };
  made.peers = {rte_fib_peer(ordered, false)};
  made.peers.front().name = fmt::format("rte_fib, {} prefixes", ordered->size());
  made.peers.front().answer_of = [](u32 verdict) { return XG_VERDICT_RULE(verdict); };
  return made;
}

StageCase forward_case(u32 count, u32 packets) {
  Random random(20261123);
  auto routes = some(count, random, routed_length, [&] { return 1 + below(random, kNextHops); });
  put_in_order(routes);
  StageCase made;
  made.packets = packets_for(routes, packets, true, random);
  gpu::ForwardSettings stage;
  for (u32 i = 0; i < kNextHops; ++i) {
    gpu::NextHop& hop = stage.next_hops.emplace_back();
    hop.name = fmt::format("hop {}", i);
    hop.mac = {2, 0, 0, 0, 1, static_cast<u8>(i)};
  }
  for (const PlainPrefix& route : routes) stage.routes.push_back({to_prefix(route), route.answer - 1});
  made.stages = {std::move(stage)};
  const auto ordered = std::make_shared<const Prefixes>(std::move(routes));
  made.name = fmt::format("forward, {} routes", ordered->size());
  made.verdict = [ordered](const StagePacket& packet) {
    const u32 hop = longest(*ordered, packet.dst);
    return hop == 0 ? XG_VERDICT(XG_PASS, 0u, 1u, 0u) : XG_VERDICT(XG_TX, 0u, 1u, hop);
  };
  made.peers = {rte_fib_peer(ordered, true)};
  made.peers.front().name = fmt::format("rte_fib, {} routes", ordered->size());
  made.peers.front().answer_of = [](u32 verdict) { return XG_VERDICT_RULE(verdict); };
  return made;
}

}  // namespace

std::vector<StageCase> prefix_cases(u32 prefixes, u32 packets) {
  std::vector<StageCase> cases;
  cases.push_back(reputation_case(prefixes, packets));
  cases.back().peer_bar = kPeerBar;
  cases.push_back(forward_case(prefixes, packets));
  for (StageCase& one : cases) one.plain_bar = kHeaderBar;
  return cases;
}

}  // namespace xdpgpu::bench
