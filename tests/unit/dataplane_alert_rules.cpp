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

// At each second, '1' where it is told.
std::string told(const RuleHead& rule, u32 seconds) {
  AlertCounts counts;
  std::string made;
  for (u32 i = 0; i < seconds; i++) made += counts.count(rule, between(1, 2), kNow + i * kSecond) ? '1' : '0';
  return made;
}

TEST(AlertCounts, TellAsOftenAsTheRuleSays) {
  const auto of = [](Type type, u32 count, u32 seconds) {
    return told(rule_of(type, Track::by_src, count, seconds), 12);
  };
  // A window has its last moment in it: of two seconds three matches.
  EXPECT_EQ(of(Type::limit, 1, 2), "100100100100");
  EXPECT_EQ(of(Type::limit, 2, 2), "110110110110");
  EXPECT_EQ(of(Type::limit, 1, 60), "100000000000");
  EXPECT_EQ(of(Type::threshold, 1, 2), "111111111111");
  EXPECT_EQ(of(Type::threshold, 2, 2), "010010010010");
  EXPECT_EQ(of(Type::threshold, 4, 2), "000000000000");
  EXPECT_EQ(of(Type::threshold, 4, 60), "000100010001") << "it begins anew, in the same window";
  EXPECT_EQ(of(Type::both, 2, 2), "010010010010");
  EXPECT_EQ(of(Type::both, 2, 60), "010000000000");
  EXPECT_EQ(of(Type::both, 1, 2), "100100100100");
  EXPECT_EQ(of(Type::detection_filter, 1, 2), "011011011011");
  EXPECT_EQ(of(Type::detection_filter, 3, 60), "000111111111");
}

TEST(AlertCounts, AreByWhatTheRuleTracks) {
  const Ends all[] = {between(1, 2), between(2, 1), between(1, 3), between(1, 2, 6)};
  const auto first = [&](Track track) {
    AlertCounts counts;
    std::string made;
    for (const Ends& ends : all)
      made += counts.count(rule_of(Type::limit, track, 1, 60), ends, kNow) ? '1' : '0';
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
    EXPECT_TRUE(counts.count(rule_of(Type::limit, Track::by_src, 1, 60, sid), between(1, 2), kNow));
    EXPECT_FALSE(counts.count(rule_of(Type::limit, Track::by_src, 1, 60, sid), between(1, 2), kNow));
  }
  RuleHead other = rule_of(Type::limit, Track::by_src, 1, 60);
  other.gid = 2;
  EXPECT_TRUE(counts.count(other, between(1, 2), kNow));
  // What a policy that is applied says anew of a rule counts on.
  EXPECT_TRUE(counts.count(rule_of(Type::limit, Track::by_src, 2, 60), between(1, 2), kNow));
  EXPECT_FALSE(counts.count(rule_of(Type::limit, Track::by_src, 2, 60), between(1, 2), kNow));
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
          for (u32 n = 0; n < kEach; n++) told += counts.count(rule, between(1, n % 2), kNow);
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
  for (u32 n = 0; n < 100; n++) EXPECT_TRUE(counts.count(lasting, between(n, 0), kNow));
  EXPECT_EQ(counts.forgotten(), 0u);
  for (u32 n = 0; n < 8 * AlertCounts::kEntries; n++)
    ASSERT_TRUE(counts.count(brief, between(n, 0), kNow)) << "each is new";
  EXPECT_GT(counts.forgotten(), 6 * AlertCounts::kEntries);
  EXPECT_LE(counts.forgotten(), 8 * AlertCounts::kEntries);
  for (u32 n = 0; n < 100; n++) EXPECT_FALSE(counts.count(lasting, between(n, 0), kNow)) << "it lasts longer";
  // Whose time is over makes room, and is none that was forgotten.
  const u64 before = counts.forgotten();
  for (u32 n = 0; n < 1000; n++) EXPECT_TRUE(counts.count(brief, between(n, 0), kNow + 61 * kSecond));
  EXPECT_EQ(counts.forgotten(), before);
}

// A capture's clock may say anything, and go back.
TEST(AlertCounts, TakeAnyTime) {
  AlertCounts counts;
  const RuleHead rule = rule_of(Type::limit, Track::by_src, 1, ~u32{0});
  EXPECT_TRUE(counts.count(rule, between(1, 2), ~u64{0}));
  EXPECT_FALSE(counts.count(rule, between(1, 2), ~u64{0}));
  EXPECT_FALSE(counts.count(rule, between(1, 2), 0));
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
  return of == nullptr || rules.take(*of, rule, ends, kNow);
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
