// SPDX-License-Identifier: MIT
//
// tests/unit/policy_notes.cpp: a rule that is said never to be met is never met (cli_notes.cpp has what is
// said).
#include "userspace/policy/notes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "tests/unit/policy_random.hpp"
#include "userspace/policy/classify.hpp"

namespace xdpgpu::policy {
namespace {

// Of two rules the second one is made narrower than the first now and then, so that some are covered.
void narrow(Match& match, const Match& by, test::RandomPolicy& random) {
  if (random.chance(80)) match.src = by.src, match.src_lists = by.src_lists;
  if (random.chance(80)) match.dst = by.dst, match.dst_lists = by.dst_lists;
  if (random.chance(80)) match.protocols = by.protocols;
  if (random.chance(80)) match.src_ports = by.src_ports;
  if (random.chance(80)) match.dst_ports = by.dst_ports;
  if (random.chance(80)) match.vlans = by.vlans;
  if (random.chance(80)) match.family = by.family;
  if (random.chance(80)) match.tcp_flags_mask = by.tcp_flags_mask, match.tcp_flags_value = by.tcp_flags_value;
  if (random.chance(80)) match.control = by.control;
}

TEST(Covers, NoPacketOfTheSecondMissesTheFirst) {
  const u64 seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  test::RandomPolicy random(seed);
  int covered = 0, met = 0;
  for (int round = 0; round < 4000; ++round) {
    Policy policy = random.policy(2, 3, 4, 0);
    narrow(policy.rules[1].match, policy.rules[0].match, random);
    if (!covers(policy, policy.rules[0].match, policy.rules[1].match)) continue;
    covered++;
    u32 named = 0;
    for (const auto& rule : policy.rules)
      for (const u32 kind : rule.match.control) named |= 1u << kind;
    for (int i = 0; i < 100; ++i) {
      const auto found = match_linear(policy, random.packet(policy, named));
      if (std::find(found.begin(), found.end(), 1u) == found.end()) continue;
      met++;
      ASSERT_EQ(found.front(), 0u) << to_json(policy);
    }
  }
  EXPECT_GT(covered, 100);
  EXPECT_GT(met, 100);
}

TEST(Covers, TellsWhatIsWithin) {
  Policy policy;
  policy.lists["net"].prefixes = {{4, 8, {10}}, {4, 16, {192, 0}}};
  policy.lists["empty"];
  const auto match = [](std::vector<Prefix> src, std::vector<std::string> lists) {
    Match made;
    made.src = std::move(src);
    made.src_lists = std::move(lists);
    return made;
  };
  const Prefix host{4, 32, {10, 1, 2, 3}}, other{4, 32, {11}}, wide{4, 7, {10}};
  EXPECT_TRUE(covers(policy, {}, match({host}, {})));
  EXPECT_FALSE(covers(policy, match({host}, {}), {}));
  EXPECT_TRUE(covers(policy, match({}, {"net"}), match({host}, {})));
  EXPECT_FALSE(covers(policy, match({}, {"net"}), match({host, other}, {})));
  EXPECT_TRUE(covers(policy, match({}, {"net"}), match({host}, {"net"})));
  EXPECT_TRUE(covers(policy, match({wide, {4, 8, {192}}}, {}), match({}, {"net"})));
  EXPECT_FALSE(covers(policy, match({wide}, {}), match({}, {"net"})));
  EXPECT_FALSE(covers(policy, match({wide}, {}), match({}, {"empty"}))) << "it may be filled";
  EXPECT_FALSE(covers(policy, match({}, {"empty"}), match({}, {"empty"})));
}

}  // namespace
}  // namespace xdpgpu::policy
