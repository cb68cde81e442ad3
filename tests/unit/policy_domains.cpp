// SPDX-License-Identifier: MIT
//
// Lists of domains as operators have them: plain ones, hosts files, and what they have that is no name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "userspace/policy/domain_file.hpp"
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

TEST(DomainFile, TakesOneNameByItself) {
  EXPECT_EQ(DomainReader::line_of("*.Example.COM.", false), "*.example.com");
  EXPECT_EQ(DomainReader::line_of("b\xc3\xbc"
                                  "cher.example",
                                  true),
            ".xn--bcher-kva.example");
  for (const char* const none : {"", "a b", "a\nb", "# a", "192.0.2.1", "a..b"})
    EXPECT_FALSE(DomainReader::line_of(none, false)) << none;
}

TEST(DomainFile, NamesWhatIsNone) {
  EXPECT_THAT(names("a\n b..c\n"), HasSubstr("l:2:2: /lists/l/file: \"b..c\" has nothing between two dots"));
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

// As IDNA 2008 has them (RFC 5891), in whichever case: xn--bcher-kva.example is bücher.example.
TEST(DomainFile, TakesOtherAlphabetsInTheirAsciiForm) {
  EXPECT_EQ(names("b\u00fccher.example\nB\u00dcCHER.Example\n*.bu\u0308cher.example.\n"),
            "xn--bcher-kva.example\nxn--bcher-kva.example\n*.xn--bcher-kva.example\n");
  EXPECT_EQ(names("b\u00fccher.example # \u00fc\n.\u4f8b\u3048.test\n", true),
            ".xn--bcher-kva.example\n.xn--r8jz45g.test\n");
  EXPECT_EQ(names("0.0.0.0 _a.stra\u00dfe.example b\n"), "_a.xn--strae-oqa.example\nb\n")
      << "a sharp s is one, not two";
  EXPECT_EQ(names("a\u3002b\u00fccher\uff0eexample\n"), "a.xn--bcher-kva.example\n") << "dots of others, too";
}

TEST(DomainFile, NamesWhatHasNoAsciiForm) {
  const auto wrong = [](const std::string& name, const std::string& why) {
    EXPECT_THAT(names("a\n" + name + "\n"),
                testing::AllOf(HasSubstr("l:2:1: /lists/l/file: \""), HasSubstr(why)));
  };
  wrong(
      "b\xfc"
      "cher.example",
      "is not ASCII, and has no ASCII form (IDNA): string encoding error");
  wrong("b\xc3", "has no ASCII form");
  wrong("\xed\xa0\x80.example", "has no ASCII form");
  wrong("a\u2028b.example", "has no ASCII form");
  wrong("\u0301a.example", "has no ASCII form");
  wrong("-\u00fc.example", "has no ASCII form");
  wrong("\u05d0a.example", "has no ASCII form");
  wrong("a\u00fc..example", "has nothing between two dots");
  wrong("a/\u00fc.example", "has no ASCII form");
  wrong("\u00fc.a/b", "has a character that no name has");
  using namespace std::string_literals;
  wrong("\u00fc\0.example"s, "has a character that no name has");
  std::string label;
  for (int i = 0; i < 60; i++) label += "\u00fc";
  wrong(label + ".example", "has no ASCII form");
  // As ASCII it has 7 bytes.
  std::string longest = "\u00fc";
  for (int i = 0; i < 82; i++) longest += ".aa";
  EXPECT_EQ(names(longest), "xn--tda" + longest.substr(2) + "\n");
  wrong(longest + "a", "has no ASCII form");
  wrong(longest + ".aa", "has no ASCII form");
  for (int i = 0; i < 400; i++) longest += ".aa";
  wrong(longest, "is longer than a name may be");
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
