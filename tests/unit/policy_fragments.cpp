// SPDX-License-Identifier: MIT
//
// tests/unit/policy_fragments.cpp: what becomes of fragments where a policy does not say, and what
// `policy check` says where they get around something.
#include "userspace/policy/fragments.hpp"

#include <gmock/gmock.h>

#include <filesystem>

namespace xdpgpu::policy {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Policy parsed(const std::string& members) {
  auto policy = parse(R"({"version": 1, "pipelines": {"p": [{"stage": "l2fwd"}],
      "q": [{"stage": "acl", "rules": [{"name": "no telnet", "match": {"dst_port": 23}, "action": "drop"}]}]}, )" +
                          members + "}",
                      "test.json", read_files_of({}));
  EXPECT_TRUE(policy) << policy.error().at(0).sentence();
  return policy ? *policy : Policy{};
}
std::vector<std::string> notes(const std::string& members) { return fragment_notes(parsed(members)); }

TEST(Fragments, FollowTheDefaultWhereThePolicyDoesNotSay) {
  EXPECT_EQ(parsed(R"("default": "drop")").fragments, Do::drop);
  EXPECT_EQ(parsed(R"("default": "pass")").fragments, Do::pass);
  EXPECT_EQ(parsed(R"("rules": [])").fragments, Do::pass);
  EXPECT_EQ(parsed(R"("fragments": "inspect", "default": "drop")").fragments, Do::inspect);
  EXPECT_EQ(compile(parsed(R"("default": "drop")"))->header.fragments, XG_DO_DROP);
  // The kernel program does what "track" says.
  const auto whole = parsed(R"("fragments": "reassemble")");
  EXPECT_TRUE(whole.reassembles);
  EXPECT_EQ(whole.overlapping_fragments, Overlapping::drop);
  EXPECT_EQ(compile(whole)->header.fragments, XG_DO_TRACK);
  EXPECT_FALSE(parsed(R"("fragments": "track")").reassembles);
  EXPECT_EQ(parsed(R"("overlapping_fragments": "first")").overlapping_fragments, Overlapping::first);
}

TEST(FragmentNotes, NoneWhereNothingIsGotAround) {
  EXPECT_THAT(notes(R"("default": "pass")"), IsEmpty());
  EXPECT_THAT(notes(R"("default": "drop", "rules": [{"match": {"dst_port": 443}, "action": "pass"}])"),
              IsEmpty());
  EXPECT_THAT(notes(R"("rules": [{"match": {"src": "192.0.2.0/24"}, "action": "drop"}])"), IsEmpty());
  EXPECT_THAT(notes(R"("fragments": "drop", "rules": [{"match": {"dst_port": 23}, "action": "drop"},
                       {"action": {"inspect": "p"}}])"),
              IsEmpty());
  EXPECT_THAT(notes(R"("fragments": "inspect", "rules": [{"action": {"inspect": "p"}}])"), IsEmpty());
}

TEST(FragmentNotes, PassLetsThemAroundRulesAndPipelines) {
  EXPECT_THAT(notes(R"("default": "drop", "fragments": "pass")"),
              ElementsAre(HasSubstr(R"("default" is "drop")")));
  EXPECT_THAT(notes(R"("rules": [{"name": "a", "match": {"dst_port": 23}, "action": "drop"},
                       {"name": "b", "match": {"tcp_flags": "syn"}, "limit": {"pps": 5}}])"),
              ElementsAre(AllOf(HasSubstr(R"(around the rule "a" and 1 more)"), HasSubstr("\"pass\""))));
  EXPECT_THAT(notes(R"("rules": [{"action": {"inspect": "p"}}])"),
              ElementsAre(HasSubstr(R"(around the pipeline "p")")));
}

TEST(FragmentNotes, InspectLetsThemAroundRulesThatSomethingBehindLetsIn) {
  const std::string drop = R"({"name": "a", "match": {"proto": "tcp", "dst_port": 23}, "action": "drop"})";
  EXPECT_THAT(notes(R"("fragments": "inspect", "rules": [)" + drop + "]"),
              ElementsAre(HasSubstr(R"(around the rule "a")")));
  const std::string deny = R"("default": "drop", "fragments": "inspect", "rules": [)" + drop;
  EXPECT_THAT(notes(deny + "]"), IsEmpty());
  EXPECT_THAT(notes(deny + R"(, {"match": {"proto": "udp"}, "action": "pass"}])"), IsEmpty())
      << "nothing that the rule holds back";
  EXPECT_THAT(notes(deny + R"(, {"match": {"proto": "tcp", "dst_port": 80}, "action": "pass"}])"), IsEmpty())
      << "no fragment";
  EXPECT_THAT(notes(deny + R"(, {"match": {"proto": "tcp"}, "action": {"inspect": "p"}}])"),
              ElementsAre(HasSubstr(R"(around the rule "a")")));
}

TEST(FragmentNotes, OneByOneTheyGetAroundRuleFiles) {
  const auto said = [](const std::string& fragments, const std::string& match) {
    const auto policy = parse(
        R"({"version": 1, "default": "drop", "fragments": ")" + fragments + R"(", "rules": [{"match": {)" +
            match +
            R"(}, "action": {"inspect": "ids"}}], "pipelines": {
        "ids": [{"stage": "signatures", "rules": ["a.rules"]}],
        "unused": [{"stage": "signatures", "rules": ["a.rules"]}]}})",
        "test.json", read_files_of({{"a.rules", "drop udp any any -> any any (content:\"a\"; sid:1;)\n"}}));
    EXPECT_TRUE(policy) << policy.error().at(0).sentence();
    return policy ? fragment_notes(*policy) : std::vector<std::string>{};
  };
  const std::string udp = R"("proto": "udp")", dns = R"("proto": "udp", "dst_port": 53)";
  for (const auto& [fragments, match] : {std::pair{"track", udp}, {"track", dns}, {"inspect", udp}})
    EXPECT_THAT(said(fragments, match),
                ElementsAre(AllOf(HasSubstr(R"(the rule files of pipeline "ids")"), HasSubstr(fragments),
                                  HasSubstr(R"(write "reassemble")"))));
  EXPECT_THAT(said("reassemble", udp), IsEmpty());
  EXPECT_THAT(said("drop", udp), IsEmpty());
  EXPECT_THAT(said("inspect", dns), IsEmpty()) << "none comes there";
}

TEST(FragmentNotes, ThoseAheadOfTheFirstOneGoByTheDefault) {
  const std::string inspect = R"("fragments": "reassemble", "rules": [{"action": {"inspect": "p"}}])";
  EXPECT_THAT(notes(inspect), ElementsAre(HasSubstr(R"(write "default": "drop")")));
  EXPECT_THAT(notes(R"("default": "drop", )" + inspect), IsEmpty());
  EXPECT_THAT(notes(R"("fragments": "reassemble", "rules": [{"action": "pass"}])"), IsEmpty());
}

TEST(FragmentNotes, InspectLetsThemAroundRulesOfAPipeline) {
  EXPECT_THAT(notes(R"("fragments": "inspect", "rules": [{"action": {"inspect": "q"}}])"),
              ElementsAre(AllOf(HasSubstr(R"("no telnet")"), HasSubstr(R"(pipeline "q")"))));
  EXPECT_THAT(notes(R"("default": "drop", "fragments": "inspect",
                       "rules": [{"match": {"dst_port": 23}, "action": {"inspect": "q"}}])"),
              IsEmpty());
}

TEST(FragmentNotes, TheExamplesGiveNoCause) {
  const std::string folder = XDPGPU_SOURCE_DIR "/config/examples/";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    const auto text = read_policy_text(entry.path());
    ASSERT_TRUE(text) << entry.path();
    const auto policy = parse(*text, entry.path().string(), read_files_from(folder));
    ASSERT_TRUE(policy) << entry.path();
    EXPECT_THAT(fragment_notes(*policy), IsEmpty()) << entry.path();
  }
}

}  // namespace
}  // namespace xdpgpu::policy
