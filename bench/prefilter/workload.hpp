// SPDX-License-Identifier: MIT
//
// bench/prefilter/workload.hpp: what is measured with: prefix lists, rule sets and packets, all from a
// fixed seed, and the right answers to them, found without the tables under test.
#pragma once

#include <optional>
#include <random>
#include <vector>

#include "bench/prefilter/loop.h"
#include "tests/kernel/frame.hpp"
#include "userspace/policy/classify.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::bench {

using Random = std::mt19937_64;

// `count` different prefixes. IPv4: half /24, a third /32, the rest /16 to /31, anywhere in unicast
// space; IPv6: half /48, a quarter /64, an eighth /128, the rest /29 to /47, in 2000::/3.
std::vector<policy::Prefix> prefixes(u8 family, u32 count, Random& random);

// UDP packets to 198.51.100.2 (or its IPv6 like) from random sources, `hit_percent` of them in the list.
// listed[i] says which: known by construction for hits, looked up in sets by length for the others.
struct Sources {
  std::vector<prefilter_packet> packets;
  std::vector<bool> listed;
};
Sources sources(const std::vector<policy::Prefix>& list, u8 family, u32 count, u32 hit_percent,
                Random& random);

// One rule that drops UDP to port 9, which no packet meets, and then one that drops what comes from the
// list; or everything to port 53, which all packets meet; or no second rule.
policy::Policy list_policy(const std::vector<policy::Prefix>& list);
policy::Policy matching_policy();
policy::Policy missing_policy();

// How rules are made; each set of n rules is drawn the same way.
enum class Shape {
  random,       // a prefix of /8 to /32 on each side, a port or a range, a protocol
  overlapping,  // every rule crosses a tenth of every dimension: all meet all
  crossing,     // in every 64 rules, half match the packet's source port and half its destination port,
                // none both: each dimension by itself promises a match in every word
};
struct Rules {
  policy::Policy policy;
  std::vector<policy::PacketFacts> packets;  // drawn near the rules, those that match none among them
};
Rules rules(Shape shape, u32 count, u32 packets, Random& random);

// The first matching rule, asked one after the other.
std::optional<u32> first_match(const policy::Policy& policy, const policy::PacketFacts& packet);

test::Frame frame_of(const policy::PacketFacts& packet);
prefilter_packet record_of(const policy::PacketFacts& packet);

}  // namespace xdpgpu::bench
