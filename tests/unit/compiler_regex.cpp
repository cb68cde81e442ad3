// SPDX-License-Identifier: MIT
//
// Regular expressions as automata, against PCRE2 itself: those of real rules, and those at the edges, in
// strings that match or nearly do.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <pcre2.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>

#include "gpu/reference/signature.hpp"
#include "userspace/compiler/rules/automaton.hpp"
#include "userspace/compiler/rules/load.hpp"
#include "userspace/compiler/rules/regex.hpp"
#include "userspace/expressions/expressions.hpp"

namespace xdpgpu::rules {
namespace {

namespace sig = gpu::signatures;
using namespace std::string_literals;

Regex parsed(const std::string& text) {
  auto regex = parse_regex(text, false);
  if (!regex) throw std::runtime_error(text + ": " + regex.error());
  return *std::move(regex);
}

// What PCRE2 says; nothing: it gives up.
class Oracle {
 public:
  explicit Oracle(const Regex& regex)
      : code_(expressions::compile(regex.pattern, regex.options).value()),
        match_(pcre2_match_data_create(1, nullptr), pcre2_match_data_free) {}
  std::optional<bool> matches(const std::string& subject) const {
    const int said = pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(subject.data()), subject.size(), 0,
                                 0, match_.get(), nullptr);
    if (said == PCRE2_ERROR_MATCHLIMIT) return {};
    if (said < 0 && said != PCRE2_ERROR_NOMATCH) throw std::runtime_error(fmt::format("PCRE2: {}", said));
    return said >= 0;
  }

 private:
  expressions::Code code_;
  std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match_;
};

bool is_in(const sig::Regex& automaton, const std::string& subject) {
  u64 work = 0;
  return gpu::reference::is_in(automaton, {reinterpret_cast<const u8*>(subject.data()), subject.size()},
                               work);
}

// ---- strings that an expression may match ----------------------------------------------------------------

class Strings {
 public:
  explicit Strings(u32 seed) : random_(seed) {}

  // One that it takes, as far as its assertions let it.
  std::string taken(const RegexNode& node) {
    std::string made;
    take(node, made);
    return made;
  }
  // With something in front, behind, or changed.
  std::string near(std::string text) {
    static const std::string kBytes = "a0_ -.\n\r\t\0\xff/=%&?Zz9"s;
    const auto byte = [&] { return one_in(4) ? static_cast<char>(random_()) : kBytes[below(kBytes.size())]; };
    for (u32 i = one_in(3) ? below(4) : 0; i != 0 && !text.empty(); i--) {
      const u32 at = below(text.size());
      switch (below(4)) {
        case 0:
          text.erase(at, 1);
          break;
        case 1:
          text.insert(text.begin() + at, byte());
          break;
        case 2:
          text[at] = byte();
          break;
        default:
          text[at] = static_cast<char>(text[at] ^ 0x20);
      }
    }
    for (u32 i = one_in(2) ? below(4) : 0; i != 0; i--) text.insert(text.begin(), byte());
    for (u32 i = one_in(2) ? below(4) : 0; i != 0; i--) text.push_back(byte());
    if (one_in(6)) text.push_back('\n');
    if (one_in(12)) text.resize(below(text.size() + 1));
    return text;
  }

 private:
  u32 below(std::size_t count) { return static_cast<u32>(random_() % count); }
  bool one_in(u32 count) { return below(count) == 0; }

  void take(const RegexNode& node, std::string& to) {
    using Kind = RegexNode::Kind;
    switch (node.kind) {
      case Kind::bytes: {
        if (node.bytes.none()) return;
        u32 byte = below(256);
        for (u32 i = 0; i < 8 && (!node.bytes[byte] || byte < 32 || byte > 126); i++) byte = 32 + below(95);
        while (!node.bytes[byte]) byte = (byte + 1) % 256;
        to.push_back(static_cast<char>(byte));
        return;
      }
      case Kind::assertion:
        if (node.assertion.kind == Assertion::Kind::line_end && one_in(2)) to.push_back('\n');
        return;
      case Kind::sequence:
        for (const RegexNode& part : node.parts) take(part, to);
        return;
      case Kind::either:
        return take(node.parts[below(node.parts.size())], to);
      case Kind::repeat: {
        const u32 most = std::min(node.most, node.least + (one_in(4) ? 6 : 2));
        u32 times = node.least + below(most - node.least + 1);
        for (; times != 0 && to.size() < 3000; times--) take(node.parts.front(), to);
        return;
      }
    }
  }
  std::mt19937 random_;
};

// How many of so many strings it matches.
u32 compare(const std::string& text, u32 strings, u32 seed = 1) {
  const Regex regex = parsed(text);
  const auto automaton = automaton_of(regex);
  EXPECT_TRUE(automaton) << text << ": " << automaton.error();
  if (!automaton) return 0;
  const Oracle oracle(regex);
  const auto tree = tree_of(regex).value();
  Strings random(seed);
  u32 matched = 0;
  for (u32 i = 0; i < strings; i++) {
    const std::string subject = random.near(random.taken(tree));
    const auto wanted = oracle.matches(subject);
    if (!wanted) continue;
    matched += *wanted;
    EXPECT_EQ(is_in(*automaton, subject), *wanted) << text << " in " << pattern_text(subject);
    if (testing::Test::HasFailure()) break;
  }
  return matched;
}

// ---- at the edges ----------------------------------------------------------------------------------------

TEST(Automaton, MatchesAtTheEdgesWherePcreDoes) {
  const std::vector<std::string> subjects{
      "",      "\n",    "\n\n",  "a",      "a\n",     "\na",      "a\n\n",   "ab",      "aB",       "ba",
      "a b",   "ab\n",  "a\nb",  "a\nb\n", "b\na\nc", "aab",      "aaab",    "aaaab",   "abab",     "a.b",
      "_a",    "a_",    "-a-",   "a-",     "\xff"s,   "a\xff"s,   "a\0b"s,   "\0"s,     "0",        "12",
      "a{2}",  "a{,2}", "a]",    "[a]",    "a|b",     "\\",       "A\r\nB",  "\r\n",    "\x85",     "\xa0",
      "abc",   "xabcx", "ABC",   "abcabc", "foo",     "foobar",   "foo bar", "xfoobar", "foo\nbar", "bar",
      "foo\n", "\nfoo", "a b c", "#a",     "a #b",    "\x1b\x07", "\x08",    "9z",      "K",        "a\tb"};
  const std::vector<std::string> expressions{"//",
                                             "/a/",
                                             "/a/i",
                                             "/./",
                                             "/./s",
                                             "/a.b/",
                                             "/a.b/s",
                                             "/^a/",
                                             "/^a/m",
                                             "/a$/",
                                             "/a$/m",
                                             "/a$/E",
                                             "/a$/mE",
                                             "/^$/",
                                             "/^$/m",
                                             "/^/m",
                                             "/$/m",
                                             "/\\n^/m",
                                             "/\\n^$/m",
                                             "/^\\n/m",
                                             "/$\\n/",
                                             "/$\\n/m",
                                             "/$./s",
                                             "/$./sm",
                                             "/a$\\n/",
                                             "/a$\\nb/m",
                                             "/a$\\nb/",
                                             "/a\\z/",
                                             "/a\\Z/",
                                             "/\\Z\\n/",
                                             "/\\Z\\n\\z/",
                                             "/\\Aa/m",
                                             "/^^a$$/",
                                             "/(^|b)a/",
                                             "/(^|\\n)a/",
                                             "/(?:a|^)b/",
                                             "/a(?:$|b)/",
                                             "/a(?:$|-)/",
                                             "/(a$|b)/",
                                             "/(?:^a|b$)+/",
                                             "/\\b/",
                                             "/\\B/",
                                             "/^\\b/",
                                             "/^\\B/",
                                             "/\\b$/",
                                             "/\\B$/",
                                             "/\\ba/",
                                             "/\\Ba/",
                                             "/a\\b/",
                                             "/a\\B/",
                                             "/a\\b./s",
                                             "/a\\B./s",
                                             "/\\ba\\b/",
                                             "/\\b\\w+\\b/",
                                             "/\\Ba\\B/",
                                             "/a\\b\\n/",
                                             "/a\\b-/",
                                             "/\\b-/",
                                             "/\\B-/",
                                             "/(?:\\b|x)a/",
                                             "/\\b\\b\\Ba/",
                                             "/a*\\b/",
                                             "/(a|\\b)*b/",
                                             "/\\w\\b\\W/",
                                             "/\\W\\B\\W/",
                                             "/\\w\\b\\w/",
                                             "/a?b/",
                                             "/a*b/",
                                             "/a+b/",
                                             "/a{2}b/",
                                             "/a{2,}b/",
                                             "/a{2,3}b/",
                                             "/^a{0}b/",
                                             "/^a{0,1}b/",
                                             "/^a{2,3}$/",
                                             "/^(ab){2}$/",
                                             "/^(?:a|b){3}$/",
                                             "/^(?:a?){3}$/",
                                             "/^(a*)*$/",
                                             "/^(a+)+$/",
                                             "/^(?:a*b?)+$/",
                                             "/a{2}/",
                                             "/a\\{2}/",
                                             "/a{x/",
                                             "/{/",
                                             "/}/",
                                             "/]/",
                                             "/a]/",
                                             "/[]a]/",
                                             "/[^]a]/",
                                             "/[a-c]/",
                                             "/[^a-c]/",
                                             "/[a-c]/i",
                                             "/[^a-c]/i",
                                             "/[-a]/",
                                             "/[a-]/",
                                             "/[\\w-]/",
                                             "/[\\d\\-x]/",
                                             "/[.]/",
                                             "/[\\]]/",
                                             "/[\\\\]/",
                                             "/[[]/",
                                             "/[[:alpha:]]/",
                                             "/[[:^alpha:]]/",
                                             "/^[[:upper:]]+$/",
                                             "/^[[:upper:]]+$/i",
                                             "/[[:punct:]]/",
                                             "/[[:space:]]/",
                                             "/[[:blank:]x]/",
                                             "/[[:cntrl:]]/",
                                             "/[[:xdigit:]]{2}/",
                                             "/[[:graph:]]/",
                                             "/[[:print:]]/",
                                             "/[[:word:]]/",
                                             "/[[:ascii:]]/",
                                             "/[^[:ascii:]]/",
                                             "/[[:lower:][:digit:]]/",
                                             "/[[:alnum:]]/",
                                             "/[a:]/",
                                             "/[:a]/",
                                             "/\\d/",
                                             "/\\D/",
                                             "/\\s/",
                                             "/\\S/",
                                             "/\\w/",
                                             "/\\W/",
                                             "/\\h/",
                                             "/\\H/",
                                             "/\\v/",
                                             "/\\V/",
                                             "/\\N/",
                                             "/\\N/s",
                                             "/[\\s]/",
                                             "/[\\S]/",
                                             "/[^\\S]/",
                                             "/[\\D1]/",
                                             "/[\\h\\v]/",
                                             "/[\\b]/",
                                             "/\\x41/",
                                             "/\\x4/",
                                             "/\\x/",
                                             "/\\x{41}/",
                                             "/\\x41b/i",
                                             "/[\\x41-\\x43]/",
                                             "/[\\x00-\\x20]/",
                                             "/[\\0]/",
                                             "/\\0/",
                                             "/\\00/",
                                             "/\\060/",
                                             "/\\0601/",
                                             "/\\o{60}/",
                                             "/[\\60]/",
                                             "/[\\8]/",
                                             "/\\e\\a/",
                                             "/\\cH/",
                                             "/\\ch/",
                                             "/\\c[/",
                                             "/\\t/",
                                             "/\\./",
                                             "/\\|/",
                                             "/\\//",
                                             "/a|b/",
                                             "/a|/",
                                             "/^a|b$/",
                                             "/(a|b)c/",
                                             "/(?:a|b)*c/",
                                             "/((a)(b))/",
                                             "/()/",
                                             "/(|a)b/",
                                             "/(?<x>a)b/",
                                             "/(?P<x>a)b/",
                                             "/(?'x'a)b/",
                                             "/(?|(a)|(b))c/",
                                             "/(?i)a/",
                                             "/(?i)a(?-i)b/",
                                             "/a(?i)b/",
                                             "/(?i:a)b/",
                                             "/(a(?i)b)c/",
                                             "/(?:a(?i)b|c)/",
                                             "/(?:a(?i)|b)B/",
                                             "/(?s).b/",
                                             "/(?-s).b/s",
                                             "/(?m)^a/",
                                             "/(?x) a b /",
                                             "/(?i-s:.)b/s",
                                             "/(?^:a)b/i",
                                             "/(?^)a/i",
                                             "/a b/x",
                                             "/a\\ b/x",
                                             "/a[ ]b/x",
                                             "/a #b\n/x",
                                             "/a # b/x",
                                             "/a +/x",
                                             "/a (?#b) +b/x",
                                             "/(?#a)b/",
                                             "/a(?#b)?b/",
                                             "/\\Qa|b\\E/",
                                             "/\\Qa.\\Eb/",
                                             "/\\Qab\\E+/",
                                             "/\\Q\\Ea/",
                                             "/a\\E+b/",
                                             "/\\Qab/",
                                             "/[\\Qa-b\\E]/",
                                             "/[\\Q]\\E]/",
                                             "/a*?b/",
                                             "/a+?b/",
                                             "/a??b/",
                                             "/a{1,2}?b/",
                                             "/a*b/G",
                                             "/a*?b/G",
                                             "/(?U)a*b/",
                                             "/a/A",
                                             "/b|a/A",
                                             "/.*b/A",
                                             "/^b/mA",
                                             "/a(?=b)/",
                                             "/a(?!b)/",
                                             "/(?<=a)b/",
                                             "/(?<!a)b/",
                                             "/a(?=.)/",
                                             "/a(?!.)/",
                                             "/a(?!.)/s",
                                             "/(?<!.)a/",
                                             "/(?<!.)a/s",
                                             "/(?<=\\n)a/",
                                             "/a(?=\\n)/",
                                             "/a(?=[\\n-])/",
                                             "/(?=[ab])\\w/",
                                             "/(?![ab])\\w/",
                                             "/\\w(?<=[ab])\\W/",
                                             "/(?=a)(?=\\w)./",
                                             "/foo(?=bar)/",
                                             "/foo(?=\\nbar)|abc/",
                                             "/foo(?=)/",
                                             "/(?<=o)$/",
                                             "/(?<=o)\\b(?= )/",
                                             "/(?<![a-z])foo(?![a-z])/i",
                                             "/(?=\\s)\\b/",
                                             "/a(?=b|c)/",
                                             "/(?!\\n)$/m",
                                             "/(?!\\n)\\Z/",
                                             "/(?=\\n)\\Z\\n/",
                                             "/\\xff/",
                                             "/[^\\x00-\\x7f]/",
                                             "/\\x85/"};
  u32 matched = 0;
  for (const auto& text : expressions) {
    const Regex regex = parsed(text);
    const auto automaton = automaton_of(regex);
    ASSERT_TRUE(automaton) << text << ": " << automaton.error();
    const Oracle oracle(regex);
    for (const auto& subject : subjects) {
      const bool wanted = oracle.matches(subject).value();
      matched += wanted;
      EXPECT_EQ(is_in(*automaton, subject), wanted) << text << " in \"" << pattern_text(subject) << '"';
    }
    compare(text, 200);
  }
  EXPECT_EQ(matched, 4656u);  // of so many that neither all do nor none
}

TEST(Automaton, IsNamedWhereThereIsNone) {
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"/(a)\\1/", "it has back-references"},
           {"/(?<x>a)(?P=x)/", "it has back-references, recursion, conditions or callouts"},
           {"/(?<x>a)\\k<x>/", "it has \\k"},
           {"/(a|(?R)b)/", "it has back-references, recursion, conditions or callouts"},
           {"/(a)?(?(1)b|c)/", "it has back-references, recursion, conditions or callouts"},
           {"/a(?C1)b/", "it has back-references, recursion, conditions or callouts"},
           {"/(?>a*)b/", "it has atomic groups"},
           {"/a++b/", "it has possessive repeats"},
           {"/a{2}+b/", "it has possessive repeats"},
           {"/a(?=bc)d/", "it looks around at more than one byte"},
           {"/(?:a(?=bc)|d)/", "it looks around at more than one byte"},
           {"/(?!bc)a/", "it looks around at more than one byte"},
           {"/(?<=ab)c/", "it looks around at more than one byte"},
           {"/a\\Kb/", "it has \\K"},
           {"/\\Ga/", "it has \\G"},
           {"/\\R/", "it has \\R"},
           {"/\\X/", "it has \\X"},
           {"/(*CRLF)a/", "it begins with a verb"},
           {"/a(*FAIL)/", "it has verbs"},
           {"/\\ba{,2}/", "versions of PCRE2 differ in what its braces mean"},
           {"/(?=a)+b/", "it repeats an assertion"},
           {"/a{257}/", "it has more than 256 positions"},
           {"/(?:ab?){0,999}$/", "it has more than 256 positions"},
           {"/(?:a{99}){99}/", "it has more than 256 positions"}}) {
    const auto automaton = automaton_of(parsed(text));
    ASSERT_FALSE(automaton) << text;
    EXPECT_EQ(automaton.error(), why) << text;
  }
}

std::size_t positions(const std::string& text) { return automaton_of(parsed(text)).value().positions.size(); }

// Nothing is kept that no answer hangs on.
TEST(Automaton, HasFewPositions) {
  EXPECT_EQ(positions("/abc/"), 3u);
  EXPECT_EQ(positions("/^abc$/"), 4u);  // a newline may be behind it
  EXPECT_EQ(positions("/a{256}/"), 256u);
  EXPECT_EQ(positions("/a{5,2000}/"), 5u);
  EXPECT_EQ(positions("/ab.*/"), 2u);
  EXPECT_EQ(positions("/a*/"), 0u);
  EXPECT_EQ(positions("/[a-z]+b(?:c|d)/"), 4u);
  EXPECT_EQ(positions("/\\babc/"), 4u);
  EXPECT_EQ(positions("/a\\Aa/"), 0u);
}

// gpu/reference/signature.hpp says what counts.
TEST(Automaton, TakesWork) {
  const auto work = [](const std::string& text, std::size_t bytes) {
    const std::string subject(bytes, 'x');
    u64 taken = 0;
    gpu::reference::is_in(automaton_of(parsed(text)).value(),
                          {reinterpret_cast<const u8*>(subject.data()), subject.size()}, taken);
    return taken;
  };
  EXPECT_EQ(work("/abc/", 80), 80 * 2 / 8);
  EXPECT_EQ(work("/a{33}/", 80), 80 * 3 / 8);
  EXPECT_EQ(work("/^abc/", 80), 0u);
  EXPECT_EQ(work("/^x{30}a/", 80), 31 * 2 / 8);
  EXPECT_EQ(work("/x{20}/", 80), 20 * 2 / 8);
  EXPECT_EQ(work("/x+a|x+b/", 81), 81 * 2 / 8);
  EXPECT_EQ(work("/x+(?:aa|b)/", 81), (81 + 80) * 2 / 8);
  EXPECT_EQ(work("/a*/", 80), 0u);
}

TEST(Automaton, OfRealRulesMatchWherePcreDoes) {
  const std::filesystem::path rules = XDPGPU_SOURCE_DIR "/tests/data/rules";
  std::vector<RuleFile> files;
  for (const auto& entry : std::filesystem::directory_iterator(rules)) {
    if (entry.path().extension() != ".rules") continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files.push_back(
        {entry.path().filename(), {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}});
  }
  std::map<std::string, u32> refused;
  std::set<std::string> seen;
  u32 taken = 0, matched = 0;
  std::map<std::size_t, u32> words;
  for (const auto& rule : load_rules(files, usual_variables(), {}).rules)
    for (const auto& buffer : rule.buffers)
      for (const auto& match : buffer.matches) {
        const auto* const condition = std::get_if<Condition>(&match);
        const auto* const regex = condition ? std::get_if<Regex>(&condition->value) : nullptr;
        if (regex == nullptr || !seen.insert(fmt::format("{} {}", regex->options, regex->pattern)).second)
          continue;
        const auto automaton = automaton_of(*regex);
        if (!automaton) {
          refused[automaton.error()]++;
          continue;
        }
        taken++;
        words[(automaton->positions.size() + 31) / 32]++;
        const Oracle oracle(*regex);
        const auto tree = tree_of(*regex).value();
        Strings random(taken);
        for (u32 i = 0; i < 60; i++) {
          const std::string subject = random.near(random.taken(tree));
          const auto wanted = oracle.matches(subject);
          if (!wanted) continue;
          matched += *wanted;
          ASSERT_EQ(is_in(*automaton, subject), *wanted)
              << where(rule.place) << ": " << regex->pattern << " in " << pattern_text(subject);
        }
      }
  fmt::print("{} of {} expressions are taken\n", taken, seen.size());
  EXPECT_EQ(seen.size(), 230u);
  EXPECT_EQ(taken, 167u);
  EXPECT_GT(matched, 5000u);
  EXPECT_EQ(refused,
            (std::map<std::string, u32>{{"it has back-references", 36},
                                        {"it has back-references, recursion, conditions or callouts", 2},
                                        {"it has more than 256 positions", 20},
                                        {"it has possessive repeats", 1},
                                        {"it looks around at more than one byte", 4}}));
  // By words of 32 positions.
  EXPECT_EQ(words, (std::map<std::size_t, u32>{{1, 134}, {2, 18}, {3, 3}, {4, 10}, {5, 2}}));
}

}  // namespace
}  // namespace xdpgpu::rules
