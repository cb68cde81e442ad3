// SPDX-License-Identifier: MIT
//
// How often rules alert, and for whom not: counts by rule and address, of all threads together, in a table
// that has an end; and that what a policy's rules say may go while workers read it. What Suricata says of the
// same is in tests/unit/compiler_thresholds.cpp.
#include "userspace/dataplane/alert_rules.hpp"

#include <gtest/gtest.h>

#include <string>
#include <thread>

namespace xdpgpu::dataplane {
namespace {

using gpu::AlertLimit;
using gpu::RuleHead;
using gpu::Suppression;
using gpu::signatures::Address;
using Track = AlertLimit::Track;
using Type = AlertLimit::Type;

constexpr u64 kSecond = 1'000'000'000, kNow = 1000 * kSecond;

RuleHead rule_of(Type type, Track track, u32 count, u32 seconds, u32 sid = 1) {
  return {1, sid, 1, 3, "", "", {type, track, count, seconds}};
}
Address v4(u32 number) {
  Address address{};
  for (u32 i = 0; i < 4; i++) address[i] = static_cast<u8>(number >> (24 - 8 * i));
  return address;
}
Ends between(u32 src, u32 dst, u8 version = 4) {
  return {.version = version, .src = v4(src), .dst = v4(dst)};
}

bool counts_as_told(AlertCounts& counts, const RuleHead& rule, const Ends& ends, u64 now_ns) {
  return counts.count(rule, ends, now_ns) == Match::told;
}

// At each second, '1' where it is told, 's' where it is silent.
std::string told(const RuleHead& rule, u32 seconds) {
  AlertCounts counts;
  std::string made;
  for (u32 i = 0; i < seconds; i++)
    made += "0s1"[static_cast<u32>(counts.count(rule, between(1, 2), kNow + i * kSecond))];
  return made;
}

TEST(AlertCounts, TellAsOftenAsTheRuleSays) {
  const auto of = [](Type type, u32 count, u32 seconds) {
    return told(rule_of(type, Track::by_src, count, seconds), 12);
  };
  // A window has its last moment in it: of two seconds three matches.
  EXPECT_EQ(of(Type::limit, 1, 2), "1ss1ss1ss1ss");
  EXPECT_EQ(of(Type::limit, 2, 2), "11s11s11s11s");
  EXPECT_EQ(of(Type::limit, 1, 60), "1sssssssssss");
  EXPECT_EQ(of(Type::threshold, 1, 2), "111111111111");
  EXPECT_EQ(of(Type::threshold, 2, 2), "010010010010");
  EXPECT_EQ(of(Type::threshold, 4, 2), "000000000000");
  EXPECT_EQ(of(Type::threshold, 4, 60), "000100010001") << "it begins anew, in the same window";
  EXPECT_EQ(of(Type::both, 2, 2), "01s01s01s01s");
  EXPECT_EQ(of(Type::both, 2, 60), "01ssssssssss");
  EXPECT_EQ(of(Type::both, 1, 2), "1ss1ss1ss1ss");
  EXPECT_EQ(of(Type::detection_filter, 1, 2), "011011011011");
  EXPECT_EQ(of(Type::detection_filter, 3, 60), "000111111111");
}

TEST(AlertCounts, AreByWhatTheRuleTracks) {
  const Ends all[] = {between(1, 2), between(2, 1), between(1, 3), between(1, 2, 6)};
  const auto first = [&](Track track) {
    AlertCounts counts;
    std::string made;
    for (const Ends& ends : all)
      made += counts_as_told(counts, rule_of(Type::limit, track, 1, 60), ends, kNow) ? '1' : '0';
    return made;
  };
  EXPECT_EQ(first(Track::by_src), "1101");
  EXPECT_EQ(first(Track::by_dst), "1111");
  EXPECT_EQ(first(Track::by_both), "1011") << "either way around";
  EXPECT_EQ(first(Track::by_rule), "1000");
}

TEST(AlertCounts, AreOfEachRule) {
  AlertCounts counts;
  for (const u32 sid : {1u, 2u, 3u}) {
    EXPECT_TRUE(counts_as_told(counts, rule_of(Type::limit, Track::by_src, 1, 60, sid), between(1, 2), kNow));
    EXPECT_FALSE(
        counts_as_told(counts, rule_of(Type::limit, Track::by_src, 1, 60, sid), between(1, 2), kNow));
  }
  RuleHead other = rule_of(Type::limit, Track::by_src, 1, 60);
  other.gid = 2;
  EXPECT_TRUE(counts_as_told(counts, other, between(1, 2), kNow));
  // What a policy that is applied says anew of a rule counts on.
  EXPECT_TRUE(counts_as_told(counts, rule_of(Type::limit, Track::by_src, 2, 60), between(1, 2), kNow));
  EXPECT_FALSE(counts_as_told(counts, rule_of(Type::limit, Track::by_src, 2, 60), between(1, 2), kNow));
}

TEST(AlertCounts, OfAllThreadsAreExact) {
  constexpr u32 kThreads = 4, kEach = 50'000;
  const auto all = [&](const RuleHead& rule) {
    AlertCounts counts;
    std::atomic<u32> told{0};
    {
      std::vector<std::jthread> threads;
      for (u32 t = 0; t < kThreads; t++)
        threads.emplace_back([&] {
          for (u32 n = 0; n < kEach; n++) told += counts_as_told(counts, rule, between(1, n % 2), kNow);
        });
    }
    return told.load();
  };
  EXPECT_EQ(all(rule_of(Type::limit, Track::by_src, 1000, 60)), 1000u);
  EXPECT_EQ(all(rule_of(Type::threshold, Track::by_src, 10, 60)), kThreads * kEach / 10);
  EXPECT_EQ(all(rule_of(Type::both, Track::by_dst, 10, 60)), 2u);
  EXPECT_EQ(all(rule_of(Type::detection_filter, Track::by_rule, 50, 60)), kThreads * kEach - 50);
}

// A stranger sends from more addresses than there is room for.
TEST(AlertCounts, ATableThatIsFullForgetsWhatEndsFirst) {
  AlertCounts counts;
  const RuleHead brief = rule_of(Type::limit, Track::by_src, 1, 60),
                 lasting = rule_of(Type::limit, Track::by_src, 1, 3600, 2);
  for (u32 n = 0; n < 100; n++) EXPECT_TRUE(counts_as_told(counts, lasting, between(n, 0), kNow));
  EXPECT_EQ(counts.forgotten(), 0u);
  for (u32 n = 0; n < 8 * AlertCounts::kEntries; n++)
    ASSERT_TRUE(counts_as_told(counts, brief, between(n, 0), kNow)) << "each is new";
  EXPECT_GT(counts.forgotten(), 6 * AlertCounts::kEntries);
  EXPECT_LE(counts.forgotten(), 8 * AlertCounts::kEntries);
  for (u32 n = 0; n < 100; n++)
    EXPECT_FALSE(counts_as_told(counts, lasting, between(n, 0), kNow)) << "it lasts longer";
  // Whose time is over makes room, and is none that was forgotten.
  const u64 before = counts.forgotten();
  for (u32 n = 0; n < 1000; n++)
    EXPECT_TRUE(counts_as_told(counts, brief, between(n, 0), kNow + 61 * kSecond));
  EXPECT_EQ(counts.forgotten(), before);
}

// A capture's clock may say anything, and go back.
TEST(AlertCounts, TakeAnyTime) {
  AlertCounts counts;
  const RuleHead rule = rule_of(Type::limit, Track::by_src, 1, ~u32{0});
  EXPECT_TRUE(counts_as_told(counts, rule, between(1, 2), ~u64{0}));
  EXPECT_FALSE(counts_as_told(counts, rule, between(1, 2), ~u64{0}));
  EXPECT_FALSE(counts_as_told(counts, rule, between(1, 2), 0));
}

TEST(RuleMatches, AreOfAllWorkersTogether) {
  RuleMatches matches(2, 3);
  for (const std::size_t worker : {0u, 1u, 1u, 2u, 3u}) matches.add(worker, 1);
  matches.add(0, 2);
  EXPECT_EQ(matches.of(0), 0u);
  EXPECT_EQ(matches.of(1), 4u) << "there is no fourth worker";
}

// ---- what rules say -------------------------------------------------------------------------------------

AlertRules::Policies policies_of(u32 generation, std::vector<RuleHead> rules,
                                 std::vector<Suppression> suppressed = {}) {
  const AlertRules::Pipeline pipeline{std::make_shared<const std::vector<RuleHead>>(std::move(rules)),
                                      std::make_shared<const std::vector<Suppression>>(std::move(suppressed)),
                                      nullptr};
  return {{generation, {AlertRules::Pipeline{}, pipeline}}};
}

bool take_of(AlertRules& rules, const AlertRules::Policies& policies, u32 generation, u16 pipeline, u16 rule,
             const Ends& ends) {
  const auto* const of = AlertRules::find(policies, generation, pipeline);
  return of == nullptr || rules.decide(*of, {1, {rule}, 0, {}}, ends, kNow, 0, {}).told.count == 1;
}

TEST(AlertRules, AreOfThePolicyThatDecided) {
  AlertRules limits;
  AlertRules::Reader reader;
  EXPECT_EQ(reader.begin(limits), nullptr);
  reader.end();
  limits.set(policies_of(5, {rule_of(Type::limit, Track::by_src, 1, 60)}), {});
  const auto* const policies = reader.begin(limits);
  ASSERT_NE(policies, nullptr);
  const auto take = [&](u32 generation, u16 pipeline, u16 rule) {
    return take_of(limits, *policies, generation, pipeline, rule, between(1, 2));
  };
  EXPECT_TRUE(take(5, 1, 0));
  EXPECT_FALSE(take(5, 1, 0));
  EXPECT_TRUE(take(4, 1, 0)) << "of another policy";
  EXPECT_TRUE(take(5, 0, 0)) << "a pipeline without such rules";
  EXPECT_TRUE(take(5, 2, 0));
  EXPECT_TRUE(take(5, 1, 1)) << "no rule that is known";
  reader.end();
  limits.set({{6, {AlertRules::Pipeline{}}}}, {});
  EXPECT_EQ(reader.begin(limits), nullptr) << "no rule says anything";
  reader.end();
}

TEST(AlertRules, SuppressByRuleAndAddress) {
  using Whose = Suppression::Whose;
  const auto addresses = [](u32 first, u32 last) {
    return gpu::signatures::Addresses{{{v4(first), v4(last)}, {v4(last + 2), v4(last + 2)}}, {}};
  };
  const auto suppressed = [&](const Suppression& line, const Ends& ends) {
    AlertRules limits;
    const auto policies = policies_of(5, {rule_of(Type::none, Track::by_src, 0, 0, 7)}, {line});
    return !take_of(limits, policies, 5, 1, 0, ends);
  };
  EXPECT_TRUE(suppressed({1, 7, Whose::anybody, {}}, between(1, 2)));
  EXPECT_TRUE(suppressed({1, 0, Whose::anybody, {}}, between(1, 2)));
  EXPECT_TRUE(suppressed({0, 0, Whose::anybody, {}}, between(1, 2)));
  EXPECT_FALSE(suppressed({1, 8, Whose::anybody, {}}, between(1, 2)));
  EXPECT_FALSE(suppressed({2, 0, Whose::anybody, {}}, between(1, 2)));
  for (const auto& [src, inside] :
       {std::pair(9u, false), {10u, true}, {12u, true}, {13u, false}, {14u, true}}) {
    EXPECT_EQ(suppressed({1, 7, Whose::source, addresses(10, 12)}, between(src, 2)), inside) << src;
    EXPECT_EQ(suppressed({1, 7, Whose::destination, addresses(10, 12)}, between(2, src)), inside) << src;
    EXPECT_EQ(suppressed({1, 7, Whose::either, addresses(10, 12)}, between(src, 2)), inside) << src;
    EXPECT_EQ(suppressed({1, 7, Whose::either, addresses(10, 12)}, between(2, src)), inside) << src;
  }
  EXPECT_FALSE(suppressed({1, 7, Whose::destination, addresses(10, 12)}, between(10, 2)));
  EXPECT_FALSE(suppressed({1, 7, Whose::source, addresses(10, 12)}, between(10, 2, 6))) << "of IPv6";
  EXPECT_FALSE(suppressed({1, 7, Whose::source, addresses(10, 12)}, Ends{})) << "no addresses were found";
}

TEST(AlertRules, WhatIsSuppressedDoesNotCount) {
  AlertRules limits;
  const auto policies = policies_of(5, {rule_of(Type::limit, Track::by_dst, 1, 60)},
                                    {{1, 1, Suppression::Whose::source, {{{v4(1), v4(1)}}, {}}}});
  EXPECT_FALSE(take_of(limits, policies, 5, 1, 0, between(1, 2)));
  EXPECT_TRUE(take_of(limits, policies, 5, 1, 0, between(3, 2)));
  EXPECT_FALSE(take_of(limits, policies, 5, 1, 0, between(3, 2)));
}

// What rules do to packets, as Suricata 7.0.10 has it (PacketAlertFinalize in detect-engine-alert.c).
class LateRules : public ::testing::Test {
 protected:
  using Action = gpu::signatures::Action;
  static RuleHead late(Action action, Type type = Type::none, u32 count = 0, u32 sid = 1) {
    RuleHead rule = rule_of(type, Track::by_src, count, 60, sid);
    rule.action = action;
    rule.late = true;
    return rule;
  }
  AlertRules::Decided decide(const std::vector<RuleHead>& rules, std::vector<u16> hold, bool more = false,
                             std::vector<Suppression> suppressed = {}, bool limit_drops = true,
                             AlertRules::Rests rests = {}) {
    auto policies = policies_of(5, rules, std::move(suppressed));
    auto& pipeline = policies[0].pipelines[1];
    pipeline.limit_drops = limit_drops;
    xg_alerts alerts{};
    alerts.count = static_cast<u16>(hold.size() | (more ? XG_ALERTS_MORE : 0));
    std::copy(hold.begin(), hold.end(), alerts.rules);
    return rules_.decide(pipeline, alerts, between(1, 2), kNow, 0, rests);
  }
  AlertRules rules_;
};

TEST_F(LateRules, DropOnceTheyHaveMatchedOftenEnough) {
  for (const auto& [type, drops] : {std::pair(Type::detection_filter, std::string("0011")),
                                    {Type::threshold, "0101"},
                                    {Type::both, "0111"},
                                    {Type::limit, "1111"}}) {
    std::string made;
    for (u32 i = 0; i < 4; i++)
      made += decide({late(Action::drop, type, 2, static_cast<u32>(type))}, {0}).drops == 1 ? '1' : '0';
    EXPECT_EQ(made, drops) << static_cast<u32>(type);
  }
}

TEST_F(LateRules, DropByBitsThatOthersSet) {
  using Bits = gpu::RuleBits;
  RuleHead sets = rule_of(Type::none, Track::by_src, 0, 0, 2), asks = late(Action::drop);
  sets.bits = {{.what = Bits::What::set, .on = Bits::On::source, .names = {7}, .seconds = 60}};
  asks.bits = {{.what = Bits::What::is_set, .on = Bits::On::source, .names = {7}}};
  EXPECT_EQ(decide({asks, sets}, {0}).drops, 0u);
  EXPECT_EQ(decide({asks, sets}, {0}).told.count, 0u);
  EXPECT_EQ(decide({asks, sets}, {1}).drops, 0u);
  const auto decided = decide({asks, sets}, {0});
  EXPECT_EQ(decided.drops, 1u);
  EXPECT_EQ(decided.told.count, 1u);
}

TEST_F(LateRules, AreToldAndRejectAsTheySay) {
  RuleHead quiet = late(Action::drop, Type::none, 0, 3);
  quiet.noalert = true;
  const std::vector<RuleHead> rules{quiet, late(Action::reject), late(Action::reject_dst),
                                    late(Action::alert)};
  EXPECT_EQ(decide(rules, {0}).drops, 1u);
  EXPECT_EQ(decide(rules, {0}).told.count, 0u);
  EXPECT_EQ(decide(rules, {1}).rejects, XG_RES_REJECT_SENDER);
  const auto all = decide(rules, {0, 1, 2, 3});
  EXPECT_EQ(all.drops, 1u);
  EXPECT_EQ(all.rejects, XG_RES_REJECT_SENDER | XG_RES_REJECT_RECEIVER);
  EXPECT_EQ(all.told.count, 3u);
  auto inside = policies_of(5, rules);
  inside[0].pipelines[1].answers = false;
  const auto unanswered =
      rules_.decide(inside[0].pipelines[1], {3, {0, 1, 2}, 0, {}}, between(1, 2), kNow, 0, {});
  EXPECT_EQ(unanswered.drops, 1u);
  EXPECT_EQ(unanswered.rejects, 0u);
  EXPECT_EQ(decide(rules, {3}).drops, 0u);
  // What is suppressed is done all the same.
  const auto silent = decide(rules, {1}, false, {{1, 1, Suppression::Whose::anybody, {}}});
  EXPECT_EQ(silent.drops, 2u);
  EXPECT_EQ(silent.told.count, 0u);
  EXPECT_EQ(silent.limited, 1u);
}

TEST_F(LateRules, PassAsOftenAsTheyWouldAlert) {
  for (const auto& [type, passes] : {std::pair(Type::detection_filter, std::string("0011")),
                                     {Type::threshold, "0101"},
                                     {Type::both, "0100"},
                                     {Type::limit, "1100"}}) {
    const std::vector<RuleHead> rules{late(Action::pass, type, 2, 10 + static_cast<u32>(type)),
                                      late(Action::reject), rule_of(Type::none, Track::by_src, 0, 0, 3)};
    std::string made;
    for (u32 i = 0; i < 4; i++) {
      const auto decided = decide(rules, {0, 1, 2});
      made += decided.drops == 0 ? '1' : '0';
      EXPECT_EQ(decided.drops, decided.told.count);
      EXPECT_EQ(decided.rejects != 0, decided.drops != 0);
    }
    EXPECT_EQ(made, passes) << static_cast<u32>(type);
  }
}

TEST_F(LateRules, ThatAreSuppressedPassNothing) {
  const std::vector<RuleHead> rules{late(Action::pass), late(Action::drop, Type::none, 0, 2)};
  EXPECT_EQ(decide(rules, {0, 1}).drops, 0u);
  const gpu::signatures::Addresses source{{{v4(1), v4(1)}}, {}};
  EXPECT_EQ(decide(rules, {0, 1}, false, {{1, 1, Suppression::Whose::source, source}}).drops, 2u);
  EXPECT_EQ(decide(rules, {0, 1}, false, {{1, 1, Suppression::Whose::anybody, {}}}).drops, 0u)
      << "it would alert nobody, and does not anyway";
}

// Of a rule that is suppressed for anybody nobody is told, and that is all: it counts, and drops as often as
// it says.
TEST_F(LateRules, ThatAreSuppressedForAnybodyCountAllTheSame) {
  const std::vector<RuleHead> rules{late(Action::drop, Type::detection_filter, 2, 9)};
  const gpu::signatures::Addresses source{{{v4(1), v4(1)}}, {}};
  std::string drops;
  for (u32 i = 0; i < 4; i++) {
    const auto decided = decide(rules, {0}, false, {{1, 9, Suppression::Whose::anybody, {}}});
    drops += decided.drops == 1 ? '1' : '0';
    EXPECT_EQ(decided.told.count, 0u);
    EXPECT_EQ(decided.limited, 1u);
  }
  EXPECT_EQ(drops, "0011");
  const std::vector<RuleHead> others{late(Action::drop, Type::detection_filter, 2, 10)};
  EXPECT_EQ(decide(others, {0}, false, {{1, 10, Suppression::Whose::source, source}}).drops, 1u)
      << "from whom it is suppressed it drops without being counted";
}

// What a rule passes sets bits all the same, and is neither told of nor counted.
TEST_F(LateRules, BehindOneThatPassesSetBitsAlone) {
  using Bits = gpu::RuleBits;
  RuleHead sets = rule_of(Type::threshold, Track::by_src, 2, 60, 2),
           asks = late(Action::drop, Type::none, 0, 3);
  sets.bits = {{.what = Bits::What::set, .on = Bits::On::source, .names = {7}, .seconds = 60}};
  asks.bits = {{.what = Bits::What::is_set, .on = Bits::On::source, .names = {7}}};
  const std::vector<RuleHead> rules{late(Action::pass), sets, asks};
  EXPECT_EQ(decide(rules, {2}).drops, 0u);
  const auto passed = decide(rules, {0, 1});
  EXPECT_EQ(passed.told.count, 0u);
  EXPECT_EQ(passed.limited, 0u);
  EXPECT_EQ(decide(rules, {2}).drops, 3u);
  EXPECT_EQ(decide(rules, {1}).told.count, 0u) << "the first one that counts";
  EXPECT_EQ(decide(rules, {1}).told.count, 1u);
}

TEST_F(LateRules, OfWhichItIsNotKnownWhetherTheyPassMeetTheLimit) {
  const std::vector<RuleHead> rules{late(Action::pass), late(Action::reject, Type::none, 0, 2)};
  EXPECT_EQ(decide(rules, {0, 1}, false, {}, true, {0, 1}).drops, 2u);
  const auto passed = decide(rules, {0, 1}, false, {}, false, {0, 1});
  EXPECT_EQ(passed.drops, 0u);
  EXPECT_EQ(passed.rejects, 0u);
  EXPECT_EQ(decide(rules, {0}, false, {}, true, {0, 1}).drops, 0u) << "nothing would drop it";
  EXPECT_EQ(decide(rules, {0, 1}, false, {}, false, {1, 0}).drops, 2u) << "it does not hold";
}

// One that passes is among the seven, or none of those behind it is looked at.
TEST_F(LateRules, ThatPassLeaveNothingOpenBehindThem) {
  std::vector<RuleHead> rules(8, late(Action::drop, Type::detection_filter, 100));
  rules[0] = late(Action::pass);
  EXPECT_EQ(decide(rules, {0, 1, 2, 3, 4, 5, 6}, true).drops, 0u);
  rules[0] = late(Action::pass, Type::detection_filter, 100);
  EXPECT_EQ(decide(rules, {0, 1, 2, 3, 4, 5, 6}, true).drops, 9u);
}

// Where no rule behind the seven drops anything, nothing is dropped.
TEST_F(LateRules, BehindWhichNoneDropsAreNoReasonToDrop) {
  const std::vector<RuleHead> rules(9, late(Action::pass, Type::detection_filter, 100));
  for (const auto& [drops_end, drops] : {std::pair(0u, 0u), {7u, 0u}, {8u, 10u}, {9u, 10u}}) {
    auto policies = policies_of(5, rules);
    auto& pipeline = policies[0].pipelines[1];
    pipeline.drops_end = drops_end;
    const xg_alerts seven{7 | XG_ALERTS_MORE, {0, 1, 2, 3, 4, 5, 6}, 0, {}};
    EXPECT_EQ(rules_.decide(pipeline, seven, between(1, 2), kNow, 0, {}).drops, drops) << drops_end;
  }
}

// Seven that do not drop it, and one behind them that may: nobody makes a packet so that it goes on.
TEST_F(LateRules, BehindThoseThatAreToldMayDropIt) {
  const std::vector<RuleHead> rules(8, late(Action::drop, Type::detection_filter, 100));
  const std::vector<u16> seven{0, 1, 2, 3, 4, 5, 6};
  EXPECT_EQ(decide(rules, seven, true).drops, 9u);
  EXPECT_EQ(decide(rules, seven, true, {}, false).drops, 0u);
  EXPECT_EQ(decide(rules, seven).drops, 0u);
  std::vector<RuleHead> others = rules;
  others[6] = rule_of(Type::none, Track::by_src, 0, 0);
  EXPECT_EQ(decide(others, seven, true).drops, 0u) << "those that only alert stand behind those that drop";
  EXPECT_EQ(decide(others, seven, true, {}, true, {1u << 6, 0}).drops, 0u) << "refused or not";
  EXPECT_EQ(decide(rules, seven, true, {}, true, {0x7f, 0}).drops, 9u) << "all refused";
  EXPECT_EQ(decide(rules, seven, false, {}, true, {0x7f, 0}).drops, 0u);
}

TEST_F(LateRules, OfWhichItIsNotKnownWhetherTheyHoldMeetTheLimit) {
  const std::vector<RuleHead> rules{late(Action::drop), rule_of(Type::none, Track::by_src, 0, 0, 2)};
  EXPECT_EQ(decide(rules, {0}, false, {}, true, {0, 1}).drops, 3u);
  EXPECT_EQ(decide(rules, {0}, false, {}, false, {0, 1}).drops, 0u);
  EXPECT_EQ(decide(rules, {0}, false, {}, true, {1, 0}).drops, 0u);
  const auto alert = decide(rules, {1}, false, {}, true, {0, 1});
  EXPECT_EQ(alert.drops, 0u);
  EXPECT_EQ(alert.told.count, 0u);
}

// With a sanitizer this shows what is used after it is gone.
TEST(AlertRules, AreThereAsLongAsAWorkerReadsThem) {
  AlertRules limits;
  AlertRules::Reader readers[2];
  const AlertRules::Reader* const known[] = {&readers[0], &readers[1]};
  std::atomic<bool> ended{false};
  std::atomic<u64> read{0};
  std::vector<std::jthread> workers;
  for (auto& reader : readers)
    workers.emplace_back([&] {
      while (!ended) {
        if (const auto* const policies = reader.begin(limits))
          for (u32 i = 0; i < 100; i++) {
            take_of(limits, *policies, policies->front().generation, 1, 0, between(i, 2));
            read++;
          }
        reader.end();
      }
    });
  for (u32 generation = 1; generation < 2000 || read < 10'000; generation++)
    limits.set(generation % 3 == 0 ? AlertRules::Policies{}
                                   : policies_of(generation, {rule_of(Type::limit, Track::by_src, 1, 60)}),
               known);
  ended = true;
}

}  // namespace
}  // namespace xdpgpu::dataplane
