// SPDX-License-Identifier: MIT
//
// Compiled tables against the linear matcher: the same rules for the same packets, always.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "tests/unit/policy_random.hpp"

namespace xdpgpu::policy {
namespace {

using test::RandomPolicy;

u64 base_seed() {
  const char* given = std::getenv("XDPGPU_TEST_SEED");
  return given != nullptr ? std::strtoull(given, nullptr, 0) : std::random_device{}();
}

std::string describe(const PacketFacts& p) {
  std::string text = "family " + std::to_string(p.family) + " ports " + std::to_string(p.src_port) + ">" +
                     std::to_string(p.dst_port) + " l4 " + std::to_string(p.l4) + " vlan " +
                     std::to_string(p.vlan) + " addresses";
  for (const u8* address : {p.src, p.dst}) {
    text += ' ';
    for (u32 i = 0; i < (p.family == 4 ? 4u : 16u); ++i)
      text += testing::PrintToString(unsigned{address[i]}) + ".";
  }
  return text;
}

Tables compiled(const Policy& policy) {
  auto tables = compile(policy);
  EXPECT_TRUE(tables) << tables.error()[0].sentence();
  return tables ? std::move(*tables) : Tables{};
}

// Adds to `hits` the packets that met a rule.
void expect_same_answers(const Policy& policy, RandomPolicy& random, u32 packets, u32& hits) {
  Tables tables = compiled(policy);
  for (u32 i = 0; i < packets; ++i) {
    PacketFacts packet = random.packet(policy, tables.header.control_named);
    auto right = match_linear(policy, packet);
    ASSERT_EQ(classify(tables, packet), right) << describe(packet);
    hits += right.empty() ? 0 : 1;
  }
}

struct Shape {
  const char* name;
  u32 policies, rules, lists, list_length, management, packets;
};

class RandomPolicies : public testing::TestWithParam<Shape> {};

TEST_P(RandomPolicies, TablesAnswerLikeTheLinearMatcher) {
  const Shape& shape = GetParam();
  u64 seed = base_seed();
  u32 hits = 0;
  for (u32 i = 0; i < shape.policies && !HasFailure(); ++i) {
    SCOPED_TRACE("XDPGPU_TEST_SEED=" + std::to_string(seed) + ", policy " + std::to_string(i));
    RandomPolicy random(seed + i);
    expect_same_answers(random.policy(shape.rules, shape.lists, shape.list_length, shape.management), random,
                        shape.packets, hits);
  }
  // A single policy's rules may well be hard to meet.
  EXPECT_GT(hits, shape.policies * shape.packets / 50) << "the packets hardly meet the rules";
}

INSTANTIATE_TEST_SUITE_P(Shapes, RandomPolicies,
                         testing::Values(Shape{"one_rule", 400, 1, 1, 3, 0, 60},
                                         Shape{"few_rules", 150, 12, 3, 8, 2, 200},
                                         Shape{"three_words", 40, 160, 4, 30, 3, 300},
                                         Shape{"long_lists", 12, 20, 3, 4000, 1, 300},
                                         Shape{"thousand_rules", 3, 1000, 10, 50, 5, 400},
                                         Shape{"full", 1, 4076, 20, 100, 10, 400}),
                         [](const auto& shape) { return shape.param.name; });

Prefix make_prefix(u8 family, std::vector<u8> bytes, u8 length) {
  Prefix prefix{family, length, {}};
  std::copy(bytes.begin(), bytes.end(), prefix.address);
  return prefix;
}

Rule drop_rule(u32 number) {
  Rule rule;
  rule.name = "r" + std::to_string(number);
  rule.action = Rule::Action::drop;
  return rule;
}

// Every prefix of one address, from /0 to the host, each in a rule of its own.
TEST(NestedPrefixes, EachLengthIsToldApart) {
  for (u8 family : {u8{4}, u8{6}}) {
    u32 most = family == 4 ? 32 : 128;
    Policy policy;
    const u8 host[16] = {0xa5, 0x5a, 0x96, 0x69, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f, 0xf0, 0x3c, 0xc3};
    for (u32 length = 0; length <= most; ++length) {
      Rule rule = drop_rule(length);
      rule.match.src.push_back(test::network_of(family, host, length));
      policy.rules.push_back(rule);
    }
    Tables tables = compiled(policy);
    for (u32 differs = 0; differs <= most; ++differs) {
      PacketFacts packet{.family = family};
      std::memcpy(packet.src, host, 16);
      if (differs < most)
        packet.src[differs / 8] = static_cast<u8>(packet.src[differs / 8] ^ (0x80u >> (differs % 8)));
      auto found = classify(tables, packet);
      EXPECT_EQ(found.size(), differs + 1) << "family " << int{family} << ", bit " << differs;
      EXPECT_EQ(found, match_linear(policy, packet));
    }
    PacketFacts other{.family = static_cast<u8>(10 - family)};
    EXPECT_TRUE(classify(tables, other).empty());
    EXPECT_TRUE(classify(tables, PacketFacts{}).empty());
  }
}

// Prefixes that crowd together behind a long common start, in both halves of an IPv6 address.
TEST(CrowdedPrefixes, StayShallowAndSmall) {
  RandomPolicy random(7);
  Policy policy;
  auto& list = policy.lists["crowd"].prefixes;
  for (u32 i = 0; i < 20000; ++i) {
    u32 spread = static_cast<u32>(random.below(1u << 20));
    auto byte = [](u32 value) { return static_cast<u8>(value); };
    list.push_back(make_prefix(
        6,
        {0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, byte(spread >> 16), byte(spread >> 8), byte(spread)},
        128));
    list.push_back(
        make_prefix(6, {0x20, 1, 0xd, 0xb8, 0, byte(spread >> 16), byte(spread >> 8), byte(spread)}, 64));
    list.push_back(make_prefix(4, {192, byte(spread >> 16), byte(spread >> 8), byte(spread)}, 32));
  }
  policy.rules.push_back(drop_rule(1));
  policy.rules[0].match.src_lists = {"crowd"};
  Tables tables = compiled(policy);
  EXPECT_LT(tables.lines.size() * sizeof(xg_line), 12u << 20);
  for (u32 i = 0; i < 3000; ++i) {
    PacketFacts packet = random.packet(policy, 0);
    ASSERT_EQ(classify(tables, packet), match_linear(policy, packet)) << describe(packet);
  }
}

// Chains of nested prefixes are what makes tries deep.
TEST(CrowdedPrefixes, ChainsOfNestedPrefixes) {
  RandomPolicy random(8);
  Policy policy;
  policy.lists["even"], policy.lists["odd"];
  for (u32 chain = 0; chain < 800; ++chain) {
    Prefix host = random.prefix();
    host.family = 6;
    for (u32 length = 1 + static_cast<u32>(random.below(6)); length <= 128;
         length += 1 + static_cast<u32>(random.below(5))) {
      policy.lists[length % 2 == 0 ? "even" : "odd"].prefixes.push_back(
          test::network_of(6, host.address, length));
    }
  }
  for (const char* name : {"even", "odd"}) {
    policy.rules.push_back(drop_rule(static_cast<u32>(policy.rules.size())));
    policy.rules.back().match.dst_lists = {name};
  }
  Tables tables = compiled(policy);
  for (u32 i = 0; i < 1500; ++i) {
    PacketFacts packet = random.packet(policy, 0);
    ASSERT_EQ(classify(tables, packet), match_linear(policy, packet)) << describe(packet);
  }
}

// A crowd of few at the end of a large list, each of the crowd told apart from its neighbour.
TEST(CrowdedPrefixes, AFewAtTheEndOfALargeListAreFound) {
  RandomPolicy random(9);
  auto byte = [](u64 value) { return static_cast<u8>(value); };
  for (u32 crowd = 2; crowd <= 24; ++crowd) {
    SCOPED_TRACE("a crowd of " + std::to_string(crowd));
    Policy policy;
    for (u32 i = 0; i < 8; ++i) {
      policy.rules.push_back(drop_rule(i));
      policy.rules.back().match.src_lists = {std::to_string(i)};
      policy.lists[std::to_string(i)];
    }
    auto& many = policy.lists["0"].prefixes;
    for (u32 i = 0; i < 40000; ++i) {
      const u64 at = random.below(1u << 30);
      many.push_back(make_prefix(6,
                                 {0x20, byte(at >> 28), byte(at >> 24 & 15), byte(at >> 16), byte(at >> 8),
                                  byte(at), byte(random.below(256)), byte(random.below(256))},
                                 64));
    }
    const auto one_of = [&](u32 i) {
      return std::vector<u8>{0x20, 3, 15, 0xff, 0xff, 0xff, 0xff, byte(0xe0 + i)};
    };
    for (u32 i = 0; i < crowd; ++i)
      policy.lists[std::to_string(1 + i % 7)].prefixes.push_back(make_prefix(6, one_of(i), 64));
    Tables tables = compiled(policy);
    for (u32 i = 0; i < crowd; ++i) {
      PacketFacts packet{.family = 6};
      const auto address = one_of(i);
      std::copy(address.begin(), address.end(), packet.src);
      ASSERT_EQ(classify(tables, packet), match_linear(policy, packet)) << describe(packet);
    }
  }
}

TEST(Management, PassesBothDirectionsInFront) {
  Policy policy;
  Match ssh;
  ssh.src.push_back(make_prefix(4, {10, 0, 0, 0}, 8));
  ssh.protocols = {6};
  ssh.dst_ports = {{22, 22}};
  policy.management.push_back({ssh, {}});
  policy.rules.push_back(drop_rule(0));
  Tables tables = compiled(policy);
  ASSERT_EQ(tables.header.management_count, 2u);
  ASSERT_EQ(tables.header.rule_count, 3u);
  EXPECT_THAT(tables.rule_names, testing::ElementsAre("management 1", "management 1 (replies)", "r0"));
  xg_rule rules[3];
  std::memcpy(rules, &tables.lines[tables.header.rules_line], sizeof rules);
  EXPECT_EQ(rules[0].action, XG_RULE_MANAGEMENT);
  EXPECT_EQ(rules[1].action, XG_RULE_ANSWER);
  EXPECT_EQ(rules[2].action, XG_RULE_DROP);

  PacketFacts request{.family = 4,
                      .src = {10, 1, 1, 1},
                      .dst = {192, 0, 2, 1},
                      .src_port = 4000,
                      .dst_port = 22,
                      .l4 = XG_L4_V4_TCP};
  PacketFacts reply{.family = 4,
                    .src = {192, 0, 2, 1},
                    .dst = {10, 1, 1, 1},
                    .src_port = 22,
                    .dst_port = 4000,
                    .l4 = XG_L4_V4_TCP};
  EXPECT_THAT(classify(tables, request), testing::ElementsAre(0, 2));
  EXPECT_THAT(classify(tables, reply), testing::ElementsAre(1, 2));
  request.dst_port = 23;
  EXPECT_THAT(classify(tables, request), testing::ElementsAre(2));
}

TEST(Conditions, WithoutPortsOrFlagsOnlyRulesThatDoNotAskForThem) {
  Policy policy;
  for (u32 i = 0; i < 4; ++i) policy.rules.push_back(drop_rule(i));
  policy.rules[0].match.dst_ports = {{0, 65535}};
  policy.rules[1].match.tcp_flags_mask = 2;
  policy.rules[1].match.tcp_flags_value = 2;
  policy.rules[2].match.protocols = {6};
  Tables tables = compiled(policy);
  PacketFacts fragment{.family = 4, .l4 = XG_L4_V4 + 6};
  EXPECT_THAT(classify(tables, fragment), testing::ElementsAre(2, 3));
  PacketFacts syn{.family = 4, .src_port = 1, .dst_port = 2, .l4 = XG_L4_V4_TCP + 0x12};
  EXPECT_THAT(classify(tables, syn), testing::ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(classify(tables, PacketFacts{}), testing::ElementsAre(3));
}

// Where no rule's condition on a field can be met, all packets look alike there, and none meets those rules.
TEST(Conditions, AnEmptyListHoldsNoPacket) {
  for (const bool another : {false, true}) {
    Policy policy;
    policy.lists["empty"] = {};
    policy.lists["some"].prefixes = {make_prefix(4, {10, 0, 0, 0}, 8)};
    for (u32 i = 0; i < 3; ++i) policy.rules.push_back(drop_rule(i));
    policy.rules[0].match.src_lists = {"empty"};
    policy.rules[1].match.dst_lists = {"empty"};
    if (another) policy.rules[2].match.src_lists = {"some"};
    const Tables tables = compiled(policy);
    for (const u8 family : {u8{0}, u8{4}, u8{6}}) {
      const PacketFacts packet{.family = family, .src = {10, 1, 1, 1}, .l4 = XG_L4_V4 + 17};
      EXPECT_EQ(classify(tables, packet), match_linear(policy, packet)) << describe(packet);
      if (!another) {
        EXPECT_THAT(classify(tables, packet), testing::ElementsAre(2));
      }
    }
  }
}

TEST(Conditions, AnEmptyListAloneHoldsNoPacket) {
  Policy policy;
  policy.lists["empty"] = {};
  policy.rules.push_back(drop_rule(0));
  policy.rules[0].match.src_lists = {"empty"};
  const Tables tables = compiled(policy);
  EXPECT_THAT(classify(tables, PacketFacts{.family = 4, .src = {10, 1, 1, 1}, .l4 = XG_L4_V4 + 17}),
              testing::ElementsAre());
  EXPECT_THAT(classify(tables, PacketFacts{}), testing::ElementsAre());
}

TEST(Conditions, ControlProtocolsMatchTheirNameAndTheirCarrier) {
  Policy policy;
  for (u32 i = 0; i < 5; ++i) policy.rules.push_back(drop_rule(i));
  policy.rules[0].match.control = {XG_CONTROL_ND, XG_CONTROL_ARP};
  policy.rules[1].match.protocols = {58};
  policy.rules[2].match.protocols = {17};
  policy.rules[3].match.family = 6;
  Tables tables = compiled(policy);
  EXPECT_EQ(tables.header.control_named, 1u << XG_CONTROL_ND | 1u << XG_CONTROL_ARP);
  PacketFacts nd{.family = 6, .l4 = l4_of(6, 58, false, 0, XG_CONTROL_ND, tables.header.control_named)};
  EXPECT_THAT(classify(tables, nd), testing::ElementsAre(0, 1, 3, 4));
  PacketFacts arp{.l4 = l4_of(0, 0, false, 0, XG_CONTROL_ARP, tables.header.control_named)};
  EXPECT_THAT(classify(tables, arp), testing::ElementsAre(0, 4));
  PacketFacts dhcp{.family = 4, .l4 = l4_of(4, 17, false, 0, XG_CONTROL_DHCP, tables.header.control_named)};
  EXPECT_EQ(dhcp.l4, XG_L4_V4 + 17) << "a control protocol that no rule names is an ordinary packet here";
}

TEST(Limits, BecomeGcraNumbers) {
  Policy policy;
  policy.rules.push_back(drop_rule(0));
  policy.rules[0].action = Rule::Action::limit;
  policy.rules[0].limit = {XG_LIMIT_PER_DST, 1000, 50};
  Tables tables = compiled(policy);
  xg_rule rule;
  std::memcpy(&rule, &tables.lines[tables.header.rules_line], sizeof rule);
  EXPECT_EQ(rule.action, XG_RULE_LIMIT);
  EXPECT_EQ(rule.limit_per, XG_LIMIT_PER_DST);
  EXPECT_EQ(rule.interval_ns, 1'000'000ull << 8);
  EXPECT_EQ(rule.burst_ns, 49 * (1'000'000ull << 8));
}

TEST(Limits, TooManyRulesAreRefusedWithASentence) {
  Policy policy;
  policy.management.emplace_back();
  for (u32 i = 0; i < XG_MAX_RULES - 2; ++i) policy.rules.push_back(drop_rule(i));
  EXPECT_TRUE(compile(policy));
  policy.rules.push_back(drop_rule(9999));
  auto refused = compile(policy);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error()[0].message, testing::HasSubstr("4096 rules"));
}

TEST(Limits, TooManyLimitsAreRefusedWithASentence) {
  Policy policy;
  for (u32 i = 0; i <= XG_MAX_LIMIT_RULES; ++i) {
    policy.rules.push_back(drop_rule(i));
    policy.rules.back().action = Rule::Action::limit;
    policy.rules.back().limit = {XG_LIMIT_PER_SRC, 1, 1};
  }
  auto refused = compile(policy);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error()[0].message, testing::HasSubstr("64 limits"));
}

// Rules by the thousand whose prefixes pair up in every way: more classes than the tables can number.
TEST(Limits, TooManyClassesAreRefusedWithASentence) {
  Policy policy;
  RandomPolicy random(3);
  for (u32 i = 0; i < 17; ++i) {
    policy.rules.push_back(drop_rule(i));
    policy.lists["l" + std::to_string(i)];
    policy.rules.back().match.src_lists = {"l" + std::to_string(i)};
  }
  // Address k stands in list i if bit i of k is set: 2^17 distinct sets.
  for (u32 k = 0; k < 1u << 17; ++k)
    for (u32 i = 0; i < 17; ++i)
      if (((k >> i) & 1) != 0)
        policy.lists["l" + std::to_string(i)].prefixes.push_back(
            make_prefix(4, {10, static_cast<u8>(k >> 16), static_cast<u8>(k >> 8), static_cast<u8>(k)}, 32));
  auto refused = compile(policy);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error()[0].message, testing::HasSubstr("65535 kinds of source address"));
  policy.lists.erase("l16");
  policy.rules.pop_back();
  EXPECT_FALSE(compile(policy)) << "2^16 sets are one more than there are class ids";
  policy.lists.erase("l15");
  policy.rules.pop_back();
  EXPECT_TRUE(compile(policy));
}

}  // namespace
}  // namespace xdpgpu::policy
