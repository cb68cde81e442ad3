// SPDX-License-Identifier: MIT
//
// Of which rules a new policy says what the one before it said.
#include "userspace/policy/kept_verdicts.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

namespace xdpgpu::policy {
namespace {

using Kept = std::vector<std::optional<u32>>;
constexpr auto kNo = std::nullopt;

constexpr const char* kBad = R"({"name": "bad", "match": {"src": "@bad"}, "action": "drop"})";
constexpr const char* kDns =
    R"({"name": "dns", "match": {"proto": "udp", "dst_port": 53}, "action": "drop"})";
constexpr const char* kWeb =
    R"({"name": "web", "match": {"proto": "tcp", "dst_port": 80}, "action": {"inspect": "look"}})";
constexpr const char* kAll = R"({"name": "all", "action": {"inspect": "look"}})";

struct Parts {
  std::vector<std::string> rules;
  std::string stage = R"({"stage": "acl", "rules": [], "cache": true})";
  std::string list = R"(["192.0.2.0/24"])";
  std::string more{};
  bool inner = false;
};
Policy policy(const Parts& parts) {
  auto parsed = parse(
      fmt::format(
          R"({{"version": 1, "lists": {{"bad": {}}}, "pipelines": {{"look": {{"inner": {}, "stages": [{}]}}}},
      "rules": [{}] {}}})",
          parts.list, parts.inner, parts.stage, fmt::join(parts.rules, ","), parts.more),
      "p.json", read_files_of({}));
  EXPECT_TRUE(parsed) << parsed.error()[0].sentence();
  return parsed.value_or(Policy{});
}
Kept kept(const Parts& before, const Parts& after) { return kept_verdicts(policy(before), policy(after)); }

TEST(KeptVerdicts, ThoseOfTheSamePolicyAre) {
  const Parts same{{kBad, kDns, kWeb, kAll}};
  EXPECT_EQ(kept(same, same), (Kept{kNo, kNo, 2, 3})) << "only rules that inspect have any";
}

TEST(KeptVerdicts, ARuleThatCouldMatchThePacketsTakesThemAway) {
  EXPECT_EQ(kept({{kBad, kWeb}}, {{kWeb}}), (Kept{kNo})) << "it may have said what was remembered";
  EXPECT_EQ(kept({{kDns, kWeb, kAll}}, {{kWeb, kAll}}), (Kept{1, kNo})) << "DNS is not the web's";
  EXPECT_EQ(kept({{kWeb, kBad}}, {{kWeb}}), (Kept{0})) << "it stood behind";
  EXPECT_EQ(kept({{kBad, kWeb}}, {{kWeb, kBad}}), (Kept{kNo, kNo})) << "and here it does now";
}

// What an added rule decides does not come to the rules behind it.
TEST(KeptVerdicts, AnAddedRuleTakesItsOwnPacketsAlone) {
  EXPECT_EQ(kept({{kWeb, kAll}}, {{kBad, kWeb, kAll}}), (Kept{kNo, 0, 1}));
  const std::string limit =
      R"({"name": "limit", "match": {"proto": "icmp"}, "limit": {"per": "src", "pps": 9}})";
  EXPECT_EQ(kept({{kWeb}}, {{limit, kWeb}}), (Kept{kNo, 0}));
}

TEST(KeptVerdicts, AChangedRuleHasNone) {
  const std::string other =
      R"({"name": "web", "match": {"proto": "tcp", "dst_port": [80, 81]}, "action": {"inspect": "look"}})";
  EXPECT_EQ(kept({{kWeb, kAll}}, {{other, kAll}}), (Kept{kNo, kNo}));
  const std::string passes =
      R"({"name": "dns", "match": {"proto": "udp", "dst_port": 53}, "action": "pass"})";
  EXPECT_EQ(kept({{kDns, kWeb, kAll}}, {{passes, kWeb, kAll}}), (Kept{kNo, 1, kNo}));
}

TEST(KeptVerdicts, WhatIsInListsAndPipelinesCounts) {
  EXPECT_EQ(kept({{kBad, kWeb}}, {{kBad, kWeb}, Parts{}.stage, R"(["192.0.2.0/25"])"}), (Kept{kNo, kNo}));
  EXPECT_EQ(kept({{kWeb}}, {{kWeb}, Parts{}.stage, R"(["192.0.2.0/25"])"}), (Kept{0})) << "nobody names it";
  EXPECT_EQ(kept({{kWeb}}, {{kWeb}, R"({"stage": "acl", "rules": [], "cache": "1s"})"}), (Kept{kNo}));
  Parts object{{kWeb}}, inner = object;
  object.stage = R"({"stage": "acl", "rules": []})";
  inner.stage = object.stage;
  inner.inner = true;
  EXPECT_EQ(kept(object, object), (Kept{0}));
  EXPECT_EQ(kept(inner, inner), (Kept{0}));
  EXPECT_EQ(kept(object, inner), (Kept{kNo})) << "the same stages, of other headers";
  const std::string reputation =
      R"({"stage": "reputation", "lists": [{"list": "@bad", "action": "drop"}], "cache": true})";
  EXPECT_EQ(kept({{kWeb}, reputation}, {{kWeb}, reputation}), (Kept{0}));
  EXPECT_EQ(kept({{kWeb}, reputation}, {{kWeb}, reputation, "[]"}), (Kept{kNo}));
}

TEST(KeptVerdicts, ManagementAndControlProtocolsCount) {
  const Parts before{{kWeb}};
  const std::string management = R"(, "management": [{"proto": "tcp", "dst_port": 22}])";
  Parts after = before;
  after.more = management;
  EXPECT_EQ(kept(before, after), (Kept{kNo}));
  EXPECT_EQ(kept(after, after), (Kept{0}));
  EXPECT_EQ(kept(before, {{kWeb, R"({"match": {"control": "dhcp"}, "action": "drop"})"}}), (Kept{kNo, kNo}));
}

// Long policies are told apart in bounded time.
TEST(KeptVerdicts, ThousandsOfRulesTakeNoTime) {
  Parts before, after;
  for (u32 i = 0; i < 4000; ++i)
    before.rules.push_back(fmt::format(
        R"({{"name": "{0}", "match": {{"proto": "tcp", "dst_port": {0}}}, "action": {{"inspect": "look"}}}})",
        i));
  after.rules.assign(before.rules.rbegin(), before.rules.rend());
  const std::clock_t start = std::clock();  // its own time: others may use the processor
  EXPECT_EQ(kept(before, after).back(), 0u) << "nothing stood ahead of it";
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 5) << "seconds";
  EXPECT_EQ(kept(before, before)[3999], 3999u);
}

}  // namespace
}  // namespace xdpgpu::policy
