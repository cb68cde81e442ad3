// SPDX-License-Identifier: MIT
//
// What a policy says of rule files, and the signatures that are made of them: which they are, in which order
// they count, what is said of those that are not decided, and of files that are wrong.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {
namespace {

using testing::HasSubstr;

std::string sentences(const Diagnostics& found) {
  std::string all;
  for (const auto& one : found) all += one.sentence() + "\n";
  return all;
}

Result<Policy> read(const std::string& stage, FileContents files, u64 longest = ~u64{0}) {
  return parse(R"({"version": 1, "pipelines": {"ids": [{"stage": "signatures", )" + stage + "}]}}", "p",
               read_files_of(std::move(files)), longest);
}
const gpu::FileRules& rules_of(const Policy& policy) {
  return *gpu::file_rules(policy.pipelines.at(0).stages.at(0));
}
std::string problems(const std::string& stage, FileContents files) {
  const auto policy = read(stage, std::move(files));
  return policy ? "" : sentences(policy.error());
}

TEST(RuleFiles, CountInTheOrderInWhichSuricataDecides) {
  const auto policy =
      read(R"("rules": ["*.rules"], "classification": "classes", "drop": "drops")",
           {{"b.rules",
             "alert udp any any -> any any (msg:\"last\"; content:\"a\"; sid:1; rev:4;)\n"
             "alert udp any any -> any any (msg:\"first to alert\"; content:\"a\"; classtype:bad; sid:9;)\n"
             "reject udp any any -> any any (content:\"a\"; sid:2;)\n"},
            {"a.rules",
             "drop udp any any -> any any (content:\"a\"; sid:8;)\n"
             "drop udp any any -> any any (content:\"a\"; priority:1; sid:7;)\n"
             "alert udp any any -> any any (content:\"a\"; sid:6;)\n"
             "pass udp any any -> any any (content:\"a\"; sid:5;)\n"
             "alert udp any any -> any any (content:\"a\"; gid:0; sid:3;)\n"},
            {"classes", "config classification: bad,A bad thing,1\n"},
            {"drops", "6\n"},
            {"c.txt", "no rule\n"}});
  ASSERT_TRUE(policy) << sentences(policy.error());
  const gpu::FileRules& rules = rules_of(*policy);
  std::vector<u32> sids;
  for (const auto& rule : *rules.heads) sids.push_back(rule.sid);
  EXPECT_EQ(sids, (std::vector<u32>{5, 7, 6, 8, 2, 9, 3, 1}));
  ASSERT_EQ(rules.signatures->size(), sids.size());
  for (std::size_t i = 0; i < sids.size(); i++) EXPECT_EQ((*rules.signatures)[i].sid, sids[i]);
  EXPECT_EQ((*rules.heads)[5].msg, "first to alert");
  EXPECT_EQ((*rules.heads)[5].category, "A bad thing");
  EXPECT_EQ((*rules.heads)[5].priority, 1u);
  EXPECT_EQ((*rules.heads)[7].rev, 4u);
  EXPECT_THAT(rules.notes, testing::IsEmpty());
  EXPECT_EQ(rules.source.files.size(), 2u);
}

// Rules that pass by what a host alone knows stand in front of those that drop, and a device takes them for
// rules that alert. So are all that pass where a host is to set bits of what passes.
TEST(RuleFiles, ThatPassByWhatHostsKnowStandInFrontOfThoseThatDrop) {
  const std::string rules =
      "alert udp any any -> any any (content:\"a\"; sid:1;)\n"
      "drop udp any any -> any any (content:\"a\"; detection_filter:track by_src, count 5, seconds 9; "
      "sid:2;)\n"
      "drop udp any any -> any any (content:\"a\"; sid:3;)\n"
      "pass udp any any -> any any (content:\"a\"; sid:4;)\n"
      "pass udp any any -> any any (content:\"a\"; threshold:type limit, track by_src, count 5, seconds 9; "
      "sid:5;)\n"
      "pass udp any any -> any any (content:\"a\"; sid:6;)\n";
  const std::string sets = "alert udp any any -> any any (content:\"a\"; xbits:set,b,track ip_src; sid:7;)\n";
  const auto late = [](const gpu::FileRules& made) {
    std::vector<u32> sids;
    for (std::size_t i = 0; i < made.heads->size(); i++) {
      const auto& head = (*made.heads)[i];
      if (head.late) sids.push_back(head.sid);
      EXPECT_EQ(made.all()[i].action, head.late ? gpu::signatures::Action::alert : head.action);
    }
    return sids;
  };
  const auto order = [](const gpu::FileRules& made) {
    std::vector<u32> sids;
    for (const auto& head : *made.heads) sids.push_back(head.sid);
    return sids;
  };
  const auto plain = read(R"("rules": ["a.rules"])", {{"a.rules", rules}}),
             suppressed = read(
                 R"("rules": ["a.rules"], "threshold": "t")",
                 {{"a.rules", rules}, {"t", "suppress gen_id 1, sig_id 6, track by_src, ip 192.0.2.1\n"}}),
             all_suppressed = read(
                 R"("rules": ["a.rules"], "threshold": "t")",
                 {{"a.rules", rules}, {"t", "suppress gen_id 0, sig_id 0, track by_dst, ip 192.0.2.1\n"}}),
             untold = read(R"("rules": ["a.rules"], "threshold": "t")",
                           {{"a.rules", rules}, {"t", "suppress gen_id 1, sig_id 6\n"}}),
             with_bits = read(R"("rules": ["a.rules"])", {{"a.rules", rules + sets}});
  ASSERT_TRUE(plain && suppressed && all_suppressed && untold && with_bits);
  EXPECT_EQ(late(rules_of(*all_suppressed)), (std::vector<u32>{4, 5, 6, 2}));
  EXPECT_EQ(order(rules_of(*plain)), (std::vector<u32>{4, 6, 5, 3, 2, 1}));
  EXPECT_EQ(late(rules_of(*plain)), (std::vector<u32>{5, 2}));
  EXPECT_EQ(order(rules_of(*suppressed)), (std::vector<u32>{4, 5, 6, 3, 2, 1}));
  EXPECT_EQ(late(rules_of(*suppressed)), (std::vector<u32>{5, 6, 2}));
  EXPECT_EQ(late(rules_of(*untold)), (std::vector<u32>{5, 2})) << "it passes, and nobody is told anyway";
  EXPECT_EQ(late(rules_of(*with_bits)), (std::vector<u32>{4, 5, 6, 2}));
}

TEST(RuleFiles, ThatAreNamedTwiceAreReadOnce) {
  const auto policy = read(R"("rules": ["a.rules", "?.rules", "a.rules"])",
                           {{"a.rules", "alert udp any any -> any any (content:\"a\"; sid:1;)\n"}});
  ASSERT_TRUE(policy) << sentences(policy.error());
  EXPECT_EQ(rules_of(*policy).all().size(), 1u);
}

TEST(RuleFiles, SayWhatOfThemIsNotDecided) {
  const auto policy = read(R"("rules": ["a.rules"])",
                           {{"a.rules",
                             "alert http any any -> any any (http.start; content:\"a\"; sid:1;)\n"
                             "alert http any any -> any any (http.request_header; content:\"a\"; sid:2;)\n"
                             "pass tcp any any -> any any (content:\"a\"; sid:3;)\n"
                             "alert udp any any -> any any (content:\"a\"; sid:4;)\n"}});
  ASSERT_TRUE(policy) << sentences(policy.error());
  const gpu::FileRules& rules = rules_of(*policy);
  ASSERT_EQ(rules.notes.size(), 3u);
  EXPECT_THAT(rules.notes[0], HasSubstr("3 of 4 rules are not decided"));
  EXPECT_THAT(rules.notes[0], HasSubstr("ask for http (2), "));
  EXPECT_THAT(rules.notes[1], HasSubstr("1 of the rules that are not decided are looked for in TCP streams"));
  EXPECT_THAT(rules.notes[2], HasSubstr("1 of the rules that are not decided are rules that pass"));
}

TEST(RuleFiles, AreLookedForInStreamsWhereSomeAreFollowed) {
  using gpu::signatures::Where;
  const FileContents files{{"a.rules",
                            "alert tcp any any -> any any (content:\"a\"; sid:1;)\n"
                            "alert tcp any any -> any any (content:\"a\"; depth:3; sid:2;)\n"
                            "alert tcp any any -> any any (content:\"a\"; dsize:3; sid:3;)\n"
                            "alert tcp any any -> any any (content:\"a\"; endswith; sid:4;)\n"}};
  const auto with = read(R"("rules": ["a.rules"], "streams": 16)", files);
  ASSERT_TRUE(with) << sentences(with.error());
  std::map<u32, Where> where;
  for (const auto& rule : rules_of(*with).all()) where[rule.sid] = rule.where;
  EXPECT_EQ(where, (std::map<u32, Where>{{1, Where::stream}, {2, Where::both}, {3, Where::packet}}));
  EXPECT_THAT(rules_of(*with).notes, testing::ElementsAre(HasSubstr("1 of 4 rules are not decided")));
  const auto without = read(R"("rules": ["a.rules"])", files);
  ASSERT_TRUE(without) << sentences(without.error());
  EXPECT_EQ(rules_of(*without).all().size(), 1u);
  EXPECT_THAT(
      rules_of(*without).notes,
      testing::ElementsAre(HasSubstr("3 of 4 rules are not decided"),
                           "2 of the rules that are not decided are looked for in TCP streams, of which none "
                           "is followed: \"streams\" says how many are"));
}

// Of a stream a device passes the rest: no host says later that it does not.
TEST(RuleFiles, ThatPassStreamsDoSoAtOnce) {
  const std::string rules =
      "pass tcp any any -> any any (content:\"a\"; sid:1;)\n"
      "pass tcp any any -> any any (content:\"a\"; dsize:3; sid:2;)\n"
      "alert tcp any any -> any any (content:\"a\"; xbits:set,b,track ip_src; sid:3;)\n";
  const auto some = read(R"("rules": ["a.rules"], "streams": 16)", {{"a.rules", rules}});
  ASSERT_TRUE(some) << sentences(some.error());
  std::map<u32, bool> late;
  for (const auto& head : *rules_of(*some).heads) late[head.sid] = head.late;
  EXPECT_EQ(late, (std::map<u32, bool>{{1, false}, {2, true}, {3, false}}));
  const auto suppressed =
      read(R"("rules": ["a.rules"], "streams": 16, "threshold": "t")",
           {{"a.rules", rules}, {"t", "suppress gen_id 1, sig_id 1, track by_src, ip 192.0.2.1\n"}});
  ASSERT_TRUE(suppressed) << sentences(suppressed.error());
  EXPECT_EQ(rules_of(*suppressed).all().size(), 2u);
  EXPECT_THAT(rules_of(*suppressed).notes.at(0), HasSubstr("ask for suppress (1)"));
  // Nor is what asks for a bit that it would have set.
  const std::string bits =
      "pass tcp any any -> any any (content:\"a\"; xbits:set,b,track ip_src; sid:1;)\n"
      "alert tcp any any -> any any (content:\"c\"; xbits:isset,b,track ip_src; sid:4;)\n";
  const auto asked = read(R"("rules": ["a.rules"], "streams": 16)", {{"a.rules", bits}});
  ASSERT_TRUE(asked) << sentences(asked.error());
  EXPECT_EQ(rules_of(*asked).all().size(), 2u);
  const auto unasked =
      read(R"("rules": ["a.rules"], "streams": 16, "threshold": "t")",
           {{"a.rules", bits}, {"t", "suppress gen_id 1, sig_id 1, track by_src, ip 192.0.2.1\n"}});
  ASSERT_TRUE(unasked) << sentences(unasked.error());
  EXPECT_TRUE(rules_of(*unasked).all().empty());
}

TEST(RuleFiles, SayThatDnsOverTcpIsNotDecided) {
  const auto policy =
      read(R"("rules": ["a.rules"])",
           {{"a.rules", "drop dns any any -> any any (dns.query; content:\"a.example\"; sid:1;)\n"}});
  ASSERT_TRUE(policy) << sentences(policy.error());
  ASSERT_EQ(rules_of(*policy).notes.size(), 1u);
  EXPECT_THAT(rules_of(*policy).notes[0], HasSubstr("1 of the rules are for DNS over TCP, too"));
}

TEST(RuleFiles, AreLeftOutWhereTextsAreNotAskedFor) {
  const FileContents files{{"a.rules", "this is no rule\n"}, {"off", "1\n"}};
  const auto outline = read(R"("rules": ["*.rules"], "disable": "off")", files, 4096);
  ASSERT_TRUE(outline) << sentences(outline.error());
  EXPECT_EQ(rules_of(*outline).signatures, nullptr);
  EXPECT_THAT(problems(R"("rules": ["*.rules"], "disable": "off")", files), HasSubstr("a.rules:1:"));
}

const std::string kAsksForBad =
    "alert udp any any -> any any (dns.query; dataset:isset,bad,type string,load lists/bad.lst; sid:1;)\n";
constexpr const char* kBad = "YmFkLmV4YW1wbGU=\n\nd29yc2UuZXhhbXBsZQ==,5\nYWJjZA\n";

TEST(RuleFiles, HaveSetsOfStringsInFilesBesideThem) {
  const auto policy =
      read(R"("rules": ["r/a.rules", "r/b.rules"])",
           {{"r/a.rules", kAsksForBad},
            {"r/b.rules", "drop udp any any -> any any (dns.query; dataset:isset,BAD; sid:2;)\n"},
            {"r/lists/bad.lst", kBad},
            {"lists/bad.lst", "this is another\n"}});
  ASSERT_TRUE(policy) << sentences(policy.error());
  const gpu::FileRules& rules = rules_of(*policy);
  ASSERT_EQ(rules.source.sets.size(), 1u);
  const auto& set = *rules.source.sets[0].set;
  EXPECT_EQ(set.name, "bad");
  ASSERT_EQ(set.ends.size(), 3u);
  EXPECT_EQ(set[0], "bad.example");
  EXPECT_EQ(set[1], "worse.example");
  EXPECT_EQ(set[2], "abcd");
  for (const auto& signature : rules.all())
    EXPECT_EQ(signature.dns->names.at(0).sets.at(0).strings.set, rules.source.sets[0].set);
}

TEST(RuleFiles, CountForThePolicysHashWithTheFilesThatTheyName) {
  const auto hash = [](const std::string& rules, const std::string& list, u64 longest = ~u64{0}) {
    return read(R"("rules": ["a.rules"])", {{"a.rules", rules}, {"lists/bad.lst", list}}, longest)
        .value()
        .hash;
  };
  const u64 first = hash(kAsksForBad, kBad);
  EXPECT_EQ(hash(kAsksForBad, kBad), first);
  EXPECT_NE(hash(kAsksForBad, "YWI=\n"), first);
  EXPECT_EQ(hash(kAsksForBad, kBad, 4096), first) << "an outline's";
  EXPECT_EQ(hash(kAsksForBad, kBad, 1), first);
  EXPECT_NE(hash("#" + kAsksForBad, kBad), hash("#" + kAsksForBad, "YWI=\n")) << "enable.conf may name it";
}

TEST(RuleFiles, SayWhatIsWrongInFilesThatTheyName) {
  const auto said = [](const std::string& list) {
    return problems(R"("rules": ["a.rules"])", {{"a.rules", "\n" + kAsksForBad}, {"lists/bad.lst", list}});
  };
  EXPECT_EQ(said(kBad), "");
  EXPECT_EQ(said(""), "");
  const std::string wrong = "a.rules:2:1: /pipelines/ids/0: dataset bad: lists/bad.lst:";
  EXPECT_THAT(said("YWI=\nbad.example\n"), HasSubstr(wrong + "2: that is no base64"));
  EXPECT_THAT(said("YWI=\r\n"), HasSubstr(wrong + "1: that is no base64"));
  EXPECT_THAT(said("YW\n"), HasSubstr(wrong + "1: that is no base64"));
  EXPECT_THAT(said("YWI=YWI=\n"), HasSubstr(wrong + "1: that is no base64"));
  EXPECT_THAT(said("YWI=\nYWI="), HasSubstr(wrong + "2: the last line has no end"));
  EXPECT_THAT(said("YWI=,x\n"), HasSubstr(wrong + "1: what stands behind the comma is no number"));
  EXPECT_THAT(said("YWI=,65536\n"), HasSubstr(wrong + "1: what stands behind the comma is no number"));
  EXPECT_THAT(said(std::string(1024, 'a') + "\n"),
              HasSubstr(wrong + "1: the line is longer than 1022 bytes"));
  EXPECT_EQ(said(std::string(1020, 'a') + "\n"), "");
  const std::string named = "a.rules:1:1: /pipelines/ids/0: dataset bad: the file lists/bad.lst did not come";
  EXPECT_THAT(problems(R"("rules": ["a.rules"])", {{"a.rules", kAsksForBad}}), HasSubstr(named));
  EXPECT_EQ(problems(R"("rules": ["a.rules"])", {{"a.rules", "#" + kAsksForBad}}), "") << "it does not count";
}

TEST(RuleFiles, ThatAreWrongAreNamedByFileAndLine) {
  const FileContents good{{"a.rules", "alert udp any any -> any $P (content:\"a\"; sid:1;)\n"},
                          {"twice.rules",
                           "alert udp any any -> any any (content:\"a\"; sid:1;)\n"
                           "alert udp any any -> any any (content:\"b\"; sid:1;)\n"},
                          {"not.conf", "config nothing\n"}};
  EXPECT_THAT(problems(R"("rules": ["a.rules"])", good), HasSubstr("a.rules:1:1: /pipelines/ids/0: "));
  EXPECT_THAT(problems(R"("rules": ["twice.rules"])", good), HasSubstr("twice.rules:2:"));
  EXPECT_THAT(problems(R"("rules": ["none.rules"])", good), HasSubstr("did not come with the policy"));
  EXPECT_THAT(problems(R"("rules": ["none*"])", good), HasSubstr("no file is like none*"));
  EXPECT_THAT(problems(R"("rules": [])", good), HasSubstr("1 to 256 can stand here"));
  EXPECT_THAT(problems(R"("rules": "a.rules")", good), HasSubstr("must be an array"));
  EXPECT_THAT(problems(R"("rules": ["folder/"])", good), HasSubstr("did not come with the policy"));
  EXPECT_THAT(problems(R"("work": 300)", good), HasSubstr("\"rules\""));
  const auto with = [&](const std::string& more) {
    return problems(R"("rules": ["a.rules"], )" + more, good);
  };
  EXPECT_EQ(with(R"("vars": {"P": [80, "1024:"]})"), "");
  EXPECT_THAT(with(R"("vars": {"P": [80, "1024:"]}, "classification": "not.conf")"), HasSubstr("not.conf:1"));
  EXPECT_THAT(with(R"("vars": {"P": 80}, "disable": "not.conf")"), HasSubstr("not.conf:1"));
  EXPECT_THAT(with(R"("vars": {"P": 80}, "work": 255)"), HasSubstr("256"));
  EXPECT_THAT(with(R"("vars": {"P": 65536})"), HasSubstr("must be a text"));
  EXPECT_THAT(with(R"("vars": {"P": true})"), HasSubstr("must be a text"));
  EXPECT_THAT(with(R"("vars": {"P": []})"), HasSubstr("is empty"));
  EXPECT_THAT(with(R"("vars": {"9P": 80})"), HasSubstr("a variable's name"));
  EXPECT_THAT(with(R"("vars": [80])"), HasSubstr("an object of variables"));
  EXPECT_THAT(with(R"("vars": {"P": "80],[x"})"), HasSubstr("the variable P is neither addresses nor ports"));
  EXPECT_THAT(with(R"("vars": {"P": "$P"})"), HasSubstr("the variable P is neither"));
  EXPECT_THAT(with(R"("vars": {"P": "$Q", "Q": "$P"})"), HasSubstr("the variable P is neither"));
}

gpu::SignaturesSettings settings_with(const std::string& more) {
  const auto policy = read(R"("rules": ["a.rules"], )" + more,
                           {{"a.rules", "alert udp any any -> any any (content:\"a\"; sid:1;)\n"}});
  EXPECT_TRUE(policy) << sentences(policy.error());
  return policy ? std::get<gpu::SignaturesSettings>(policy->pipelines.at(0).stages.at(0))
                : gpu::SignaturesSettings{};
}

TEST(RuleFiles, AreForStreamsOfSoManyBytes) {
  const auto some = settings_with(
      R"("streams": 65536, "on_gap": "drop", "on_encoded": "drop", "evict": "refuse",
         "inspect": {"depth": "64KiB", "window": 8192, "midstream": true, "http": true, "answers": false, "idle": "30s"})");
  EXPECT_EQ(some.streams, 65'536u);
  EXPECT_EQ(some.on_gap, gpu::Action::drop);
  EXPECT_EQ(some.on_encoded, gpu::Action::drop);
  EXPECT_EQ(some.evict, gpu::TableSettings::Evict::refuse);
  EXPECT_EQ(some.inspect, (gpu::SignaturesSettings::Inspect{65'536, 8192, true, true, false, 30'000}));
  EXPECT_EQ(settings_with(R"("inspect": {"depth": "1GB"})").inspect.depth, 1u << 30);
  EXPECT_EQ(settings_with(R"("inspect": {"depth": "256"})").inspect.depth, 256u);
  EXPECT_EQ(settings_with(R"("inspect": {})").inspect, gpu::SignaturesSettings::Inspect{});
  EXPECT_EQ(settings_with(R"("work": 256)").streams, 0u);
}

TEST(RuleFiles, RefuseNumbersOfBytesThatAreNone) {
  const auto said = [](const std::string& depth) {
    return problems(R"("rules": ["a.rules"], "inspect": {"depth": )" + depth + "}",
                    {{"a.rules", "alert udp any any -> any any (content:\"a\"; sid:1;)\n"}});
  };
  const std::string range =
      "/pipelines/ids/0/inspect/depth: must be a whole number of bytes from 256 to 1GB, alone or as a string "
      "like \"64KB\"";
  for (const char* const beyond : {"255", "1073741825", R"("2GB")", R"("255")", "-1", "1024.5"})
    EXPECT_THAT(said(beyond), HasSubstr(range + "\n")) << beyond;
  EXPECT_THAT(said("true"), HasSubstr(range + ", is "));
  EXPECT_THAT(said("[4096]"), HasSubstr(range + ", is "));
  EXPECT_THAT(said(R"("4 KB")"), HasSubstr("\"4 KB\" is no number of bytes; write a whole number"));
}

}  // namespace
}  // namespace xdpgpu::policy
