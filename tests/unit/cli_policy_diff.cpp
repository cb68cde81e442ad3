// SPDX-License-Identifier: MIT
//
// tests/unit/cli_policy_diff.cpp: `policy diff` of files: by what they mean, and not by how they are written.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>

#include "tests/unit/cli_test.hpp"

namespace xdpgpu::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kRules = R"(
    {"name": "one", "match": {"src": "@bad"}, "action": "drop"},
    {"name": "two", "match": {"proto": "tcp", "dst_port": [80, 443]}, "action": {"inspect": "web"}},
    {"name": "three", "match": {"proto": "udp"}, "limit": {"per": "src", "pps": 10}},
    {"match": {"proto": "icmp"}, "action": "pass"})";
constexpr const char* kPipelines = R"("web": [
    {"stage": "acl", "rules": [{"name": "a", "match": {"dst_port": 81}, "action": "drop"},
                               {"name": "b", "match": {"dst_port": 82}, "action": "drop"}]},
    {"stage": "rate_limit", "per": "src", "pps": 1000}])";

std::string policy(const std::string& rules = kRules, const std::string& pipelines = kPipelines,
                   const std::string& lists = R"("bad": ["192.0.2.0/24", "198.51.100.1"])",
                   const std::string& more = "") {
  return R"({"version": 1, "default": "pass", "fragments": "track", "lists": {)" + lists +
         R"(}, "rules": [)" + rules + R"(], "pipelines": {)" + pipelines + "}" + more + "}";
}

class CliPolicyDiff : public CliTest {
 protected:
  Outcome diff(const std::string& first, const std::string& second,
               const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"policy", "diff", file("a.json", first), file("b.json", second)};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run(arguments);
  }
  // Those of the second one, as JSON.
  Json differences(const std::string& first, const std::string& second) {
    const auto outcome = diff(first, second, {"-o", "json"});
    EXPECT_LE(outcome.status, 1) << outcome.err;
    const auto report = Json::parse(outcome.out, nullptr, false);
    EXPECT_EQ(report.value("same", false), outcome.status == 0);
    return report.value("differences", Json());
  }
  // "change at" of each.
  std::vector<std::string> changes(const std::string& first, const std::string& second) {
    std::vector<std::string> all;
    for (const auto& one : differences(first, second))
      all.push_back(one.at("change").get<std::string>() + " " + one.at("at").get<std::string>());
    return all;
  }
};

using testing::ElementsAre;

TEST_F(CliPolicyDiff, WhatMeansTheSameIsTheSame) {
  const std::string list = file("bad.txt", "# the same\n198.51.100.1/32\n192.0.2.0/24\n192.0.2.0/24\n");
  const std::string other = R"({
    "description": "written by somebody else", "version": 1,
    "lists": { "bad": { "file": "bad.txt", "description": "x" } },
    "pipelines": { "web": { "description": "x", "stages": [
      { "stage": "acl", "description": "x", "default": "next", "rules": [
          {"name": "a", "match": {"dst_port": "81"}, "action": "drop"},
          {"name": "b", "match": {"dst_port": [82]}, "action": "drop"}]},
      { "stage": "rate_limit", "pps": 1000, "per": "src", "burst": 1000 } ] } },
    "rules": [
      {"name": "one", "description": "x", "match": {"src": ["@bad"]}, "action": "drop"},
      {"name": "two", "match": {"dst_port": [443, "80-80"], "proto": ["tcp"]}, "action": {"inspect": "web"}, "priority": 3},
      {"name": "three", "match": {"proto": 17}, "limit": {"burst": 10, "pps": 10, "per": "src"}},
      {"action": "pass", "match": {"proto": ["icmp"]}} ],
    "io": {"ring_size": 2048}, "compute": {"max_wait": "50000ns"},
    "malformed": "drop", "on_failure": "pass", "fragments": "track"
  })";
  const auto same = diff(policy(), other);
  EXPECT_EQ(same.status, 0) << same.out << same.err;
  EXPECT_THAT(same.out, HasSubstr("are the same policy"));
  EXPECT_EQ(differences(policy(), other), Json::array());
  EXPECT_EQ(differences(other, policy()), Json::array());
  // Each example with itself.
  int examples = 0;
  for (const auto& entry : std::filesystem::directory_iterator(XDPGPU_SOURCE_DIR "/config/examples")) {
    if (entry.path().extension() != ".json") continue;
    const auto itself = run({"policy", "diff", entry.path(), entry.path()});
    EXPECT_EQ(itself.status, 0) << entry.path() << itself.out << itself.err;
    examples++;
  }
  EXPECT_GE(examples, 10);
}

TEST_F(CliPolicyDiff, RulesAreAddedRemovedMovedRenamedAndChanged) {
  const std::string
      one = R"({"name": "one", "match": {"src": "@bad"}, "action": "drop"})",
      two =
          R"({"name": "two", "match": {"proto": "tcp", "dst_port": [80, 443]}, "action": {"inspect": "web"}})",
      three = R"({"name": "three", "match": {"proto": "udp"}, "limit": {"per": "src", "pps": 10}})",
      four = R"({"match": {"proto": "icmp"}, "action": "pass"})";
  const auto rules = [](const std::vector<std::string>& all) {
    std::string text;
    for (const auto& rule : all) text.append(text.empty() ? "" : ",").append(rule);
    return policy(text);
  };
  const std::string before = rules({one, two, three, four});
  EXPECT_THAT(changes(before, rules({four, one, two, three})), ElementsAre("moved rule \"rule 1\""));
  EXPECT_THAT(changes(before, rules({one, three, two, four})), testing::SizeIs(1));
  EXPECT_THAT(changes(before, rules({two, three, four})), ElementsAre("removed rule \"one\", number 1"));
  // One in front moves none of the others, whether they have names or not.
  const std::string front = R"({"match": {"proto": "sctp"}, "action": "drop"})";
  EXPECT_THAT(changes(before, rules({front, one, two, three, four})),
              ElementsAre("added rule \"rule 1\", as number 1"));
  std::string renamed = one;
  renamed.replace(renamed.find("one"), 3, "uno");
  EXPECT_THAT(changes(before, rules({renamed, two, three, four})), ElementsAre("renamed rule \"one\""));
  std::string other = two;
  other.replace(other.find("443"), 3, "444");
  const auto changed = differences(before, rules({one, other, three, four}));
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].at("at"), "rule \"two\": match: dst_port");
  EXPECT_EQ(changed[0].at("was"), Json({80, 443}));
  EXPECT_EQ(changed[0].at("is"), Json({80, 444}));
  EXPECT_THAT(changes(before, rules({one, two, three})), ElementsAre("removed rule \"rule 4\", number 4"));
  const auto all = diff(before, rules({front, other, one, four}));
  EXPECT_EQ(all.status, 1);
  for (const char* line :
       {"rules:\n", "  + rule \"rule 1\", as number 1: ", "  - rule \"three\", number 3: ", "  > rule \"",
        "  ~ rule \"two\": match: dst_port: [80,443] -> [80,444]\n", "4 differences between "})
    EXPECT_THAT(all.out, HasSubstr(line));
}

TEST_F(CliPolicyDiff, ListsByTheirEntries) {
  std::string many = R"("bad": ["192.0.2.0/24")";
  for (int i = 1; i <= 9; i++) many += ", \"203.0.113." + std::to_string(i) + "\"";
  const auto changed = differences(policy(), policy(kRules, kPipelines, many + "]"));
  ASSERT_EQ(changed.size(), 1u);
  const auto& entries = changed[0].at("entries");
  EXPECT_EQ(changed[0].at("at"), "list \"bad\"");
  EXPECT_EQ(entries.at("added"), 9);
  EXPECT_EQ(entries.at("removed"), 1);
  EXPECT_EQ(entries.at("first_added").size(), 5u);
  EXPECT_EQ(entries.at("first_removed"), Json({"198.51.100.1"}));
  const auto text = diff(policy(), policy(kRules, kPipelines, many + "]"));
  EXPECT_THAT(text.out,
              HasSubstr("~ list \"bad\": 2 prefixes -> 10 prefixes; 9 added (203.0.113.1, 203.0.113.2, "
                        "203.0.113.3, 203.0.113.4, 203.0.113.5, and more); 1 removed (198.51.100.1)\n"));
  // Of names, likewise, whether they are in a file or not.
  file("names.txt", "b.example\na.example\n");
  const std::string bad = R"("bad": ["192.0.2.0/24", "198.51.100.1"], )";
  EXPECT_THAT(changes(policy(kRules, kPipelines,
                             bad + R"("n": {"type": "domain", "names": ["a.example", "b.example"]})"),
                      policy(kRules, kPipelines, bad + R"("n": {"type": "domain", "file": "names.txt"})")),
              IsEmpty());
  const auto names =
      differences(policy(kRules, kPipelines, bad + R"("n": {"type": "domain", "names": ["a.example"]})"),
                  policy(kRules, kPipelines, bad + R"("n": {"type": "domain", "file": "names.txt"})"));
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(names[0].at("entries").at("added"), 1);
  EXPECT_THAT(changes(policy(), policy(kRules, kPipelines, bad + R"("new": [])")),
              ElementsAre("added list \"new\""));
}

TEST_F(CliPolicyDiff, StagesAndTheirSettings) {
  const auto with = [](const std::string& pipelines) { return policy(kRules, pipelines); };
  const std::string
      acl = R"({"stage": "acl", "rules": [{"name": "a", "match": {"dst_port": 81}, "action": "drop"},
                               {"name": "b", "match": {"dst_port": 82}, "action": "drop"}]})",
      limit = R"({"stage": "rate_limit", "per": "src", "pps": 1000})";
  EXPECT_THAT(changes(policy(), with(R"("web": [)" + acl + "]")),
              ElementsAre("removed pipeline \"web\": stage 2 (rate_limit)"));
  EXPECT_THAT(changes(policy(), with(R"("web": [{"stage": "conntrack"}, )" + acl + "," + limit + "]")),
              ElementsAre("added pipeline \"web\": stage 1 (conntrack)"));
  EXPECT_THAT(changes(policy(), with(R"("web": {"inner": true, "stages": [)" + acl + "," + limit + "]}")),
              ElementsAre("changed pipeline \"web\": inner"));
  const auto more = changes(
      policy(), with(R"("web": [)" + acl +
                     R"(, {"stage": "rate_limit", "per": "dst", "pps": 1000}], "other": [)" + acl + "]"));
  EXPECT_THAT(more, testing::Contains("changed pipeline \"web\": stage 2 (rate_limit): per"));
  EXPECT_THAT(more, testing::Contains("added pipeline \"other\""));
  std::string inside = acl;
  inside.replace(inside.find("82"), 2, "83");
  EXPECT_THAT(changes(policy(), with(R"("web": [)" + inside + "," + limit + "]")),
              ElementsAre("changed pipeline \"web\": stage 1 (acl): rules \"b\": match: dst_port"));
}

// What is in files that are no lists is compared, too.
TEST_F(CliPolicyDiff, OtherFilesByWhatIsInThem) {
  const auto ids = [](const char* rules) {
    return policy(R"({"name": "all", "action": {"inspect": "ids"}})",
                  std::string(R"("ids": [{"stage": "signatures", "rules": [")") + rules + "\"]}]");
  };
  file("one.rules", "alert udp any any -> any 53 (msg:\"x\"; content:\"a\"; sid:1;)\n");
  std::filesystem::create_directory(directory_ + "/other");
  const std::string there = directory_ + "/other/one.rules", policy_there = directory_ + "/other/p.json";
  std::ofstream(there) << "alert udp any any -> any 53 (msg:\"y\"; content:\"a\"; sid:1;)\n";
  std::ofstream(policy_there) << ids("one.rules");
  const auto outcome = run({"policy", "diff", file("a.json", ids("one.rules")), policy_there});
  EXPECT_EQ(outcome.status, 1) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("~ file one.rules: "));
  EXPECT_THAT(outcome.out, HasSubstr("1 difference between"));
  std::filesystem::remove_all(directory_ + "/other");
}

TEST_F(CliPolicyDiff, SettingsDefaultsAndWhatIsTakenAtAttach) {
  const auto with = [](const std::string& more) { return policy(kRules, kPipelines, R"("bad": [])", more); };
  EXPECT_THAT(changes(with(""), with(R"(, "on_failure": "drop")")), ElementsAre("changed on_failure"));
  EXPECT_THAT(changes(with(""), with(R"(, "rates": {"arp": {"pps": 7}})")),
              ElementsAre("changed rates: arp: burst", "changed rates: arp: pps"));
  EXPECT_THAT(changes(with(R"(, "management": [{"src": "10.0.0.1"}, {"src": "10.0.0.2"}])"),
                      with(R"(, "management": [{"src": "10.0.0.2"}, {"src": "10.0.0.3"}])")),
              ElementsAre("removed management", "added management"));
  const auto io = differences(with(""), with(R"(, "io": {"ring_size": 4096}, "compute": {"batch": 256})"));
  ASSERT_EQ(io.size(), 2u);
  EXPECT_EQ(io[0].at("at"), "io: ring_size");
  EXPECT_EQ(io[0].at("was"), 2048);
  for (const auto& one : io) EXPECT_EQ(one.at("at_attach"), true);
  EXPECT_THAT(changes(with(""), with(R"(, "log": {"outputs": [{"file": "/x"}]})")), Not(IsEmpty()));
  const auto text = diff(with(""), with(R"(, "io": {"ring_size": 4096})"));
  EXPECT_THAT(text.out, HasSubstr("io (taken at attach alone):\n  ~ io: ring_size: 2048 -> 4096\n"));
}

// 2, as 1 says that they differ.
TEST_F(CliPolicyDiff, TroubleIsTwo) {
  const std::string good = file("good.json", policy()),
                    wrong = file("wrong.json", R"({"version": 1, "rules": 7})");
  for (const std::vector<std::string>& files : {std::vector<std::string>{good, wrong},
                                                {wrong, good},
                                                {good, directory_ + "/none.json"},
                                                {good},
                                                {},
                                                {good, good, good},
                                                {good, "--in-force", "no-such-if0"},
                                                {good, good, "--in-force", "no-such-if0"},
                                                {"-", "-"}}) {
    std::vector<std::string> arguments{"policy", "diff"};
    arguments.insert(arguments.end(), files.begin(), files.end());
    const auto trouble = run(arguments);
    EXPECT_EQ(trouble.status, 2) << testing::PrintToString(files) << trouble.out;
    EXPECT_EQ(trouble.out, "");
    EXPECT_THAT(trouble.err, Not(IsEmpty()));
  }
}

}  // namespace
}  // namespace xdpgpu::test
