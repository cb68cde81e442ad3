// SPDX-License-Identifier: MIT
//
// Lists of domains as operators have them: plain ones, hosts files, and what they have that is no name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {
namespace {

using testing::HasSubstr;

std::string sentences(const Diagnostics& found) {
  std::string all;
  for (const auto& one : found) all += one.sentence() + "\n";
  return all;
}

// What a file's names are, or what is wrong with it.
std::string names(const std::string& file, bool subdomains = false) {
  const std::string text = std::string(R"({"version": 1, "lists": {"l": {"type": "domain", "file": "l", )") +
                           R"("subdomains": )" + (subdomains ? "true" : "false") + "}}}";
  const auto policy = parse(text, "p", read_files_of({{"l", file}}));
  if (!policy) return sentences(policy.error());
  const List& list = policy->lists.at("l");
  EXPECT_EQ(list.names.count,
            static_cast<u64>(std::count(list.names.text->begin(), list.names.text->end(), '\n')));
  return *list.names.text;
}

TEST(DomainFile, TakesListsAsTheyAre) {
  EXPECT_EQ(names("# a comment\r\nExample.COM\r\n\t.net. ; mine\n;\n\n*.x-1._tcp.org#and\nxn--bcher-kva.de"),
            "example.com\n.net\n*.x-1._tcp.org\nxn--bcher-kva.de\n");
  EXPECT_EQ(names("\xef\xbb\xbf"
                  "a\n"),
            "a\n");
  EXPECT_EQ(names("a.b\n.c\n*.d\n", true), ".a.b\n.c\n*.d\n");
  EXPECT_EQ(names("0.0.0.0 a.example b.example\n::1\tc\n127.0.0.1 d # x\n"), "a.example\nb.example\nc\nd\n");
  EXPECT_EQ(names(""), "");
  EXPECT_EQ(names(std::string(63, 'a') + ".b\n"), std::string(63, 'a') + ".b\n");
}

TEST(DomainFile, NamesWhatIsNone) {
  EXPECT_THAT(names("a\n b..c\n"), HasSubstr("l:2:2: /lists/l/file: \"b..c\" has nothing between two dots"));
  EXPECT_THAT(names("b\xc3\xbc"
                    "cher.de"),
              HasSubstr("is not ASCII"));
  EXPECT_THAT(names("http://a.b/"), HasSubstr("has a character that no name has"));
  EXPECT_THAT(names("a b"), HasSubstr("\"b\" stands behind a name: a list has one name a line"));
  EXPECT_THAT(names("192.0.2.1"), HasSubstr("is an address"));
  EXPECT_THAT(names("2001:db8::1"), HasSubstr("no name has"));
  EXPECT_THAT(names("0.0.0.0 a/b"), HasSubstr("\"a/b\" has a character"));
  EXPECT_THAT(names("."), HasSubstr("is no name"));
  EXPECT_THAT(names("*."), HasSubstr("is no name"));
  EXPECT_THAT(names("a.*.b"), HasSubstr("no name has"));
  EXPECT_THAT(names("a.."), HasSubstr("nothing between two dots"));
  EXPECT_THAT(names(".."), HasSubstr("is no name"));
  EXPECT_THAT(names("*..a"), HasSubstr("nothing between two dots"));
  EXPECT_THAT(names(std::string(64, 'a')), HasSubstr("more than 63"));
  std::string longest;
  for (int i = 0; i < 126; i++) longest += "a.";
  EXPECT_EQ(names(longest + "a"), longest + "a\n");
  EXPECT_THAT(names(longest + "aa"), HasSubstr("has 254 bytes, and a name 253 at most"));
}

std::string problem(const std::string& members) {
  const auto policy = parse(R"({"version": 1, )" + members + "}", "p", read_files_of({{"l", "a\n"}}));
  return policy ? "none" : sentences(policy.error());
}

TEST(DomainLists, StandWhereTheyCanBeLookedUp) {
  const std::string lists = R"("lists": {"d": {"type": "domain", "names": ["a"]}, "p": ["192.0.2.0/24"]}, )";
  const auto stage = [&](const std::string& name, const std::string& list) {
    return problem(lists + R"("pipelines": {"x": [{"stage": ")" + name + R"(", "lists": [{"list": "@)" +
                   list + R"(", "action": "drop"}]}]})");
  };
  EXPECT_EQ(stage("domains", "d"), "none");
  EXPECT_EQ(stage("reputation", "p"), "none");
  EXPECT_THAT(stage("domains", "p"),
              HasSubstr("the list \"p\" is one of addresses, and here stands one of domains"));
  EXPECT_THAT(stage("reputation", "d"),
              HasSubstr("the list \"d\" is one of domains, and here stands one of addresses"));
  EXPECT_THAT(stage("domains", "e"), HasSubstr("there is no list \"e\""));
  EXPECT_THAT(problem(lists + R"("rules": [{"match": {"src": "@d"}, "action": "drop"}])"),
              HasSubstr("the list \"d\" is one of domains, which rules do not look for"));
  EXPECT_THAT(problem(lists + R"("pipelines": {"x": [{"stage": "domains", "lists": [
                 {"list": "@d", "action": "drop"}, {"list": "@d", "action": "pass"}]}]})"),
              HasSubstr("list \"d\" stands here twice"));
}

TEST(DomainLists, HaveKeysOfTheirOwn) {
  EXPECT_EQ(problem(R"("lists": {"d": {"type": "domain", "file": "l", "subdomains": true}})"), "none");
  EXPECT_THAT(problem(R"("lists": {"d": {"type": "domains", "file": "l"}})"), HasSubstr("\"domain\""));
  EXPECT_THAT(problem(R"("lists": {"d": {"type": "domain"}})"), HasSubstr("needs \"names\""));
  EXPECT_THAT(problem(R"("lists": {"d": {"type": "domain", "prefixes": [], "file": "l"}})"),
              HasSubstr("/lists/d/prefixes: a list of domains has"));
  EXPECT_THAT(problem(R"("lists": {"d": {"type": "domain", "names": [], "file": "l"}})"),
              HasSubstr("write two lists"));
  EXPECT_THAT(problem(R"("lists": {"d": {"type": "domain", "names": ["a"], "subdomains": true}})"),
              HasSubstr("this is for files"));
  EXPECT_THAT(problem(R"("lists": {"d": {"file": "l", "subdomains": true}})"),
              HasSubstr("only lists of domains"));
  EXPECT_THAT(problem(R"("lists": {"d": {"names": ["a"], "prefixes": []}})"),
              HasSubstr("only lists of domains"));
  EXPECT_THAT(problem(R"("lists": {"d": {"type": "domain", "names": ["a", 7, "b c"]}})"),
              HasSubstr("/lists/d/names/1: must be a name as a string"));
}

TEST(DomainLists, AreShownAsTheyWereUnderstood) {
  const auto policy =
      parse(R"({"version": 1, "lists": {"d": {"type": "domain", "names": ["A.b.", ".c", "*.d"]},
      "e": {"type": "domain", "description": "x", "names": []},
      "f": {"type": "domain", "file": "l", "subdomains": true}}})",
            "p", read_files_of({{"l", "a\n"}}));
  ASSERT_TRUE(policy) << sentences(policy.error());
  const std::string shown = to_json(*policy);
  EXPECT_THAT(shown, HasSubstr("a.b"));
  const auto again = parse(shown, "shown", read_files_of({{"l", "a\n"}}));
  ASSERT_TRUE(again) << sentences(again.error());
  EXPECT_EQ(again->lists, policy->lists);
}

}  // namespace
}  // namespace xdpgpu::policy
