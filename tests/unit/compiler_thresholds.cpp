// SPDX-License-Identifier: MIT
//
// How often rules alert, and for whom not: what rules and threshold.config say, from their texts to what is
// told, against what Suricata 7.0.10 tells of the same packets (tests/data/signatures/alerts.txt).
#include "userspace/compiler/rules/thresholds.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <sstream>

#include "tests/unit/compiler_captures.hpp"
#include "userspace/compiler/rules/load.hpp"
#include "userspace/compiler/rules/lower.hpp"
#include "userspace/dataplane/alert_rules.hpp"

namespace xdpgpu::rules {
namespace {

using gpu::AlertLimit;
using testing::ElementsAre;
using testing::HasSubstr;

const std::filesystem::path kData = XDPGPU_SOURCE_DIR "/tests/data/signatures";

RuleFile file_of(const std::string& name) { return {name, test::content_of(kData / name)}; }

AlertLimit limit_of(const Rule& rule) { return rule.threshold.value_or(AlertLimit{}); }

using Told = std::set<std::pair<u32, u32>>;  // sid and packet, from 1

Told suricatas() {
  Told told;
  std::istringstream lines(test::content_of(kData / "alerts.txt"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string capture, rules;
    u32 sid = 0, packet = 0;
    words >> capture >> rules >> sid;
    if (capture != "thresholds.pcap" || rules != "thresholds.rules") continue;
    for (char comma = ','; comma == ',' && words >> packet; comma = static_cast<char>(words.get()))
      told.emplace(sid, packet);
  }
  return told;
}

Told ours() {
  const auto variables = usual_variables();
  auto loaded = load_rules({file_of("thresholds.rules")}, variables, {});
  const auto limits = parse_limits(file_of("threshold.config"), variables).value();
  give_thresholds(limits, loaded.rules);
  const auto heads = std::make_shared<std::vector<gpu::RuleHead>>();
  std::vector<gpu::signatures::Signature> signatures;
  for (const auto& rule : loaded.rules) {
    signatures.push_back(lower(rule).signature.value());
    heads->push_back({rule.gid, rule.sid, 1, 3, "", "", limit_of(rule)});
  }
  dataplane::AlertRules of;
  const dataplane::AlertRules::Pipeline pipeline{
      heads, std::make_shared<const std::vector<gpu::Suppression>>(suppressions_of(limits)), nullptr};
  Told told;
  u32 number = 0;
  for (const auto& packet : test::packets_of(kData / "thresholds.pcap")) {
    number++;
    const dataplane::Ends ends = test::between(packet);
    u16 at = 0;
    for (const auto& signature : signatures)
      if (const u16 rule = at++;
          matches(signature, packet.seen) &&
          of.decide(pipeline, {1, {rule}, 0, {}}, ends, packet.time_ns, 0, {}).told.count == 1)
        told.emplace(signature.sid, number);
  }
  return told;
}

// By rule: the first packet of which one tells, and the other does not.
std::map<u32, u32> without(const Told& one, const Told& other) {
  std::map<u32, u32> first;
  for (const auto& [sid, packet] : one)
    if (!other.contains({sid, packet})) first.emplace(sid, packet);
  return first;
}

TEST(Thresholds, AreThoseOfSuricata) {
  const Told theirs = suricatas(), made = ours();
  EXPECT_THAT(without(theirs, made), ElementsAre()) << "Suricata's alone";
  EXPECT_THAT(without(made, theirs), ElementsAre()) << "ours alone";
  EXPECT_EQ(made.size(), 30'146u);
}

// ---- what is made of rules ------------------------------------------------------------------------------

Rule loaded_of(const std::string& line) {
  const RuleFile file{"a.rules", line + "\n"};
  auto loaded = load_rules({file}, usual_variables(), {});
  if (loaded.rules.size() != 1) throw std::runtime_error(loaded.wrong.at(0).why);
  return loaded.rules[0];
}
Rule rule_of(const std::string& action, const std::string& limit) {
  return loaded_of(fmt::format("{} udp any any -> any any (dsize:>0; {} sid:1;)", action, limit));
}
Rule addresses_alone(const std::string& action, const std::string& limit) {
  return loaded_of(fmt::format("{} ip 192.0.2.1 any -> any any ({} sid:1;)", action, limit));
}
std::string not_yet(const Rule& rule) {
  std::string made;
  for (const auto& [keyword, why] : lower(rule).not_yet) made += fmt::format("{}: {};", keyword, why);
  return made;
}

// But for `limit`, by which a rule drops each packet and alerts now and then, whether one is dropped is known
// late; and whether one passes, for `limit`, too.
TEST(Thresholds, DecideLateWhatBecomesOfPackets) {
  const std::string limit = "threshold:type limit, track by_src, count 1, seconds 60;",
                    both = "threshold:type both, track by_src, count 9, seconds 60;",
                    filter = "detection_filter:track by_src, count 9, seconds 60;";
  EXPECT_EQ(not_yet(rule_of("alert", both)), "");
  EXPECT_EQ(not_yet(rule_of("alert", filter)), "");
  for (const std::string action : {"drop", "reject", "pass"})
    for (const auto& [options, late] : {std::pair(limit, action == "pass"), {both, true}, {filter, true}}) {
      const Lowered made = lower(rule_of(action, options));
      ASSERT_TRUE(made.signature) << options;
      EXPECT_EQ(made.late, late) << options;
      EXPECT_EQ(made.signature->action == gpu::signatures::Action::alert, late) << options;
    }
  EXPECT_THAT(not_yet(addresses_alone("pass", limit)),
              HasSubstr("threshold: Suricata passes the whole flow"));
  EXPECT_EQ(not_yet(addresses_alone("pass", "")), "");
  EXPECT_EQ(not_yet(addresses_alone("drop", limit)), "");
  EXPECT_THAT(not_yet(rule_of("alert", "threshold:type limit, track by_src, count 268435456, seconds 1;")),
              HasSubstr("threshold: it counts further"));
}

// A line may make of a rule that drops one that drops now and then.
TEST(Thresholds, OfAFileTakeTheRulesOwnPlace) {
  const auto given = [](Rule rule, const std::string& lines) {
    const auto limits = parse_limits({"threshold.config", lines}, {}).value();
    give_thresholds(limits, {&rule, 1});
    return rule;
  };
  const std::string both = "type both, track by_dst, count 9, seconds 60\n";
  EXPECT_TRUE(lower(given(rule_of("drop", ""), "threshold gen_id 1, sig_id 1, " + both)).late);
  const auto own = rule_of("alert", "threshold:type limit, track by_src, count 1, seconds 5;");
  const AlertLimit of_rule{AlertLimit::Type::limit, AlertLimit::Track::by_src, 1, 5},
      of_line{AlertLimit::Type::both, AlertLimit::Track::by_dst, 9, 60};
  EXPECT_EQ(limit_of(given(own, "threshold gen_id 1, sig_id 1, " + both)), of_line);
  EXPECT_EQ(limit_of(given(own, "threshold gen_id 1, sig_id 0, " + both)), of_rule);
  EXPECT_EQ(limit_of(given(own, "threshold gen_id 0, sig_id 0, " + both)), of_rule);
  EXPECT_EQ(limit_of(given(own, "threshold gen_id 1, sig_id 2, " + both)), of_rule);
  const auto none = rule_of("alert", "");
  EXPECT_EQ(limit_of(none), AlertLimit{});
  const std::string other = "type limit, track by_src, count 1, seconds 5\n";
  EXPECT_EQ(limit_of(given(
                none, "threshold gen_id 0, sig_id 0, " + both + "threshold gen_id 1, sig_id 0, " + other)),
            of_line);
  EXPECT_EQ(limit_of(given(
                none, "threshold gen_id 1, sig_id 0, " + other + "threshold gen_id 0, sig_id 0, " + both)),
            of_rule);
  EXPECT_EQ(limit_of(given(none, "suppress gen_id 1, sig_id 1\n")), AlertLimit{});
}

TEST(Thresholds, SuppressionsAreInOrder) {
  const auto limits = parse_limits({"threshold.config",
                                    "suppress gen_id 1, sig_id 9, track by_src, ip 192.0.2.0/24\n"
                                    "suppress gen_id 0, sig_id 0, track by_either, ip 2001:db8::1\n"
                                    "rate_filter gen_id 1, sig_id 1, track by_src, count 1, seconds 1, "
                                    "new_action drop, timeout 5\n"
                                    "suppress gen_id 1, sig_id 2\n"},
                                   {})
                          .value();
  const auto made = suppressions_of(limits);
  std::vector<std::pair<u32, gpu::Suppression::Whose>> short_ones(made.size());
  std::transform(made.begin(), made.end(), short_ones.begin(),
                 [](const auto& one) { return std::pair(one.sid, one.whose); });
  using Whose = gpu::Suppression::Whose;
  EXPECT_THAT(short_ones, ElementsAre(std::pair(0u, Whose::either), std::pair(2u, Whose::anybody),
                                      std::pair(9u, Whose::source)));
  EXPECT_EQ(made[2].addresses.v4.size(), 1u);
  EXPECT_TRUE(made[2].addresses.v6.empty());
  EXPECT_EQ(made[0].addresses.v6.size(), 1u);
  EXPECT_EQ(rate_filters(limits), 1u);
}

// A worker looks them up for each alert.
TEST(Thresholds, SuppressionsOfTheSameRulesAreOneHoweverManyLinesTheyHave) {
  std::string lines;
  for (u32 i = 0; i < 10'000; i++)
    lines += fmt::format("suppress gen_id 0, sig_id 0, track by_src, ip 10.{}.{}.1\n", i / 200, i % 200);
  lines +=
      "suppress gen_id 0, sig_id 0, track by_dst, ip 10.0.0.1\n"
      "suppress gen_id 0, sig_id 0, track by_src, ip 10.0.0.0/30\n";
  const auto made = suppressions_of(parse_limits({"threshold.config", lines}, {}).value());
  ASSERT_EQ(made.size(), 2u);
  EXPECT_EQ(made[0].whose, gpu::Suppression::Whose::source);
  EXPECT_EQ(made[0].addresses.v4.size(), 10'000u);
  EXPECT_EQ(made[0].addresses.v4[0].last[3], 3) << "what overlaps is one";
  EXPECT_EQ(made[1].addresses.v4.size(), 1u);
}

}  // namespace
}  // namespace xdpgpu::rules
