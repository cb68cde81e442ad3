// SPDX-License-Identifier: MIT
//
// Regular expressions that hosts match: one by one, within their limits, and that devices let hosts see all
// that a rule matches. What Suricata says of them: compiler_signatures.cpp.
#include "userspace/expressions/expressions.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "tests/unit/compiler_captures.hpp"
#include "userspace/compiler/rules/load.hpp"
#include "userspace/compiler/rules/lower.hpp"
#include "userspace/dataplane/host_rules.hpp"

namespace xdpgpu::rules {
namespace {

namespace sig = gpu::signatures;
using expressions::Finder;
using gpu::reference::SignaturePacket;
using Found = Finder::Found;

const std::filesystem::path kData = XDPGPU_SOURCE_DIR "/tests/data/signatures";

std::shared_ptr<const sig::HostPart> rest_of(const std::string& options) {
  const auto rule =
      parse_rule({fmt::format("alert udp any any -> any any ({} sid:1;)", options), {"test.rules", 1}},
                 usual_variables());
  if (!rule) throw std::runtime_error(options + ": " + rule.error());
  auto made = lower(*rule);
  if (!made.rest) throw std::runtime_error(options + ": nothing is left for hosts");
  return made.rest;
}

// A datagram's frame.
std::vector<u8> frame_of(const std::string& payload, u16 port = 5000) {
  std::vector<u8> frame(42 + payload.size(), 0);
  const auto put = [&](std::size_t at, std::size_t value) {
    frame[at] = static_cast<u8>(value >> 8);
    frame[at + 1] = static_cast<u8>(value);
  };
  put(12, 0x0800);
  frame[14] = 0x45;
  put(16, 28 + payload.size());
  frame[22] = 64;
  frame[23] = 17;
  put(26, 0xc000);
  put(30, 0xc001);
  put(34, 4000);
  put(36, port);
  put(38, 8 + payload.size());
  std::copy(payload.begin(), payload.end(), frame.begin() + 42);
  return frame;
}

bool holds(const std::string& options, const std::string& payload) {
  dataplane::ExpressionScratch scratch;
  return dataplane::holds(*rest_of(options), frame_of(payload), scratch);
}

TEST(Expressions, OneByOne) {
  struct Case {
    std::string options;
    std::vector<std::string> match, others;
  };
  for (const auto& [options, match, others] : std::vector<Case>{
           {"pcre:\"/(a|b)\\1/\";", {"aa", "xbb"}, {"ab", "aba", "x"}},
           {"pcre:!\"/(a|b)\\1/\";", {"ab", "x"}, {"aa", "abb"}},
           {"pcre:\"/(?<=ab)c/\";", {"abc"}, {"bc", "ac"}},
           {"content:\"a\"; pcre:\"/(?<=ab)c/R\";", {"aabc"}, {"abc"}},
           {"content:\"a\"; pcre:\"/^(b)\\1/R\";", {"abb", "acabb"}, {"abcb", "bb"}},
           {"content:\"a\"; pcre:!\"/^(b)\\1/R\";", {"ab", "abba"}, {"abb", "bb"}},
           // It is tried again behind the first byte of its last match.
           {"pcre:\"/a+/\"; content:\"b\"; distance:0; within:1;", {"ab", "acab", "aab"}, {"acb", "b"}},
           {"pcre:\"/a.?/\"; content:\"b\"; distance:0; within:1;", {"aab", "acb"}, {"ab", "accb"}},
           {"pcre:\"/a/\"; isdataat:!1,relative;", {"a", "aba"}, {"ab"}},
           {"pcre:\"/a/\"; pcre:\"/^b/R\"; pcre:\"/^c/R\";", {"abc", "abdabc"}, {"abd", "ac"}},
           {"pcre:\"/a/\"; pcre:!\"/^b/R\";", {"ac", "abac"}, {"ab", "abab"}},
           {"pcre:\"/a/\"; byte_test:1,=,98,0,relative;", {"ab", "acab"}, {"ac"}},
           // In front of an empty match, and behind it.
           {"pcre:\"/x*/\"; content:\"b\"; distance:0; within:1;", {"b", "xb", "cb"}, {"c"}},
           {"pcre:\"/$/\"; isdataat:!1,relative;", {"a", "a\n"}, {}},
           {"pcre:\"/^/\"; content:\"b\"; distance:0; within:1;", {"b"}, {"ab"}},
           {"pcre:\"/a\\Kb/\"; content:\"b\"; distance:-1; within:1; pcre:\"/^c/R\";", {"abc"}, {"ab", "bc"}},
           // What fails for good is not tried again.
           {"pcre:\"/a/\"; content:\"b\"; distance:0; content:\"c\";", {"abc", "cab"}, {"ab"}}}) {
    for (const auto& payload : match) EXPECT_TRUE(holds(options, payload)) << options << " " << payload;
    for (const auto& payload : others) EXPECT_FALSE(holds(options, payload)) << options << " " << payload;
  }
}

std::string question(const std::vector<std::string>& labels) {
  std::string made("\0\1\1\0\0\1\0\0\0\0\0\0", 12);
  for (const auto& label : labels) made += static_cast<char>(label.size()) + label;
  return made + std::string("\0\0\1\0\1", 5);
}

TEST(Expressions, InNamesOfDnsMessages) {
  dataplane::ExpressionScratch scratch;
  const auto in_name = [&](const std::string& options, const std::vector<std::string>& labels) {
    return dataplane::holds(*rest_of(options), frame_of(question(labels), 53), scratch);
  };
  EXPECT_TRUE(in_name("dns.query; pcre:\"/(.)\\1/\";", {"aa", "b"}));
  EXPECT_FALSE(in_name("dns.query; pcre:\"/(.)\\1/\";", {"a", "b"}));
  EXPECT_TRUE(in_name("dns.query; dotprefix; pcre:\"/^\\.(.)\\1/\";", {"aa"}));
  EXPECT_FALSE(in_name("dns.query; pcre:\"/^\\.(.)\\1/\";", {"aa"}));
  EXPECT_FALSE(in_name("dns.query; bsize:>4; pcre:\"/(.)\\1/\";", {"aa", "b"}));
  EXPECT_TRUE(in_name("dns.query; bsize:4; pcre:\"/(.)\\1/\";", {"aa", "b"}));
  EXPECT_FALSE(
      dataplane::holds(*rest_of("dns.query; pcre:\"/(.)\\1/\";"), frame_of(question({"aa"})), scratch))
      << "it is not for port 53";
  EXPECT_TRUE(in_name("content:\"|01|\"; pcre:\"/(a)\\1/\"; dns.query; pcre:\"/(b)\\1/\";", {"aabb"}));
  EXPECT_FALSE(in_name("content:\"|01|\"; pcre:\"/(a)\\1/\"; dns.query; pcre:\"/(b)\\1/\";", {"aab"}));
}

TEST(Expressions, ThatReachALimitDoNotMatch) {
  dataplane::ExpressionScratch scratch;
  const std::string many(5000, 'a');
  const auto found = [&](const std::string& options, const std::string& payload) {
    return dataplane::holds(*rest_of(options), frame_of(payload), scratch);
  };
  // Steps: by exponential tries. Negated or not.
  EXPECT_FALSE(found("pcre:\"/^(a+)+\\1b/\";", many));
  EXPECT_EQ(scratch.limits_reached(), 1u);
  EXPECT_FALSE(found("pcre:!\"/^(a+)+\\1b/\";", many));
  EXPECT_EQ(scratch.limits_reached(), 2u);
  // Depth.
  EXPECT_FALSE(found("pcre:\"/^(a|b)*\\1$/\";", many));
  EXPECT_EQ(scratch.limits_reached(), 3u);
  EXPECT_TRUE(found("pcre:\"/^(a|b)*\\1$/\";", std::string(300, 'a'))) << "and others do";
  EXPECT_EQ(scratch.limits_reached(), 3u);
}

// By one that is found at each byte, behind which the other is looked for everywhere.
TEST(Expressions, SearchSoManyBytesOfAPacket) {
  dataplane::ExpressionScratch scratch;
  const auto rest = rest_of("pcre:\"/a/\"; pcre:\"/(a|b)\\1c/R\";");
  EXPECT_FALSE(dataplane::holds(*rest, frame_of(std::string(500, 'a')), scratch));
  EXPECT_EQ(scratch.limits_reached(), 0u);
  EXPECT_FALSE(dataplane::holds(*rest, frame_of(std::string(20'000, 'a')), scratch));
  EXPECT_GT(scratch.limits_reached(), 0u);
  EXPECT_TRUE(dataplane::holds(*rest, frame_of("aaac"), scratch)) << "of each packet anew";
  // One that can only begin at the subject's start searches no more than that.
  const u64 before = scratch.limits_reached();
  const auto anchored = rest_of("pcre:\"/a/\"; pcre:\"/^a*c/R\";");
  EXPECT_FALSE(dataplane::holds(*anchored, frame_of(std::string(1400, 'a')), scratch));
  EXPECT_EQ(scratch.limits_reached(), before);
}

// Contents that are looked for again from each byte, each time to the end.
TEST(Expressions, AreNotAskedForOnceTheStepsBesideThemTakeTooMuch) {
  dataplane::ExpressionScratch scratch;
  const auto rest = rest_of("content:\"a\"; content:\"aaaaaaaab\"; within:15000; pcre:\"/(x)\\1/R\";");
  EXPECT_FALSE(dataplane::holds(*rest, frame_of(std::string(1000, 'a')), scratch));
  EXPECT_FALSE(scratch.is_spent());
  EXPECT_FALSE(dataplane::holds(*rest, frame_of(std::string(20'000, 'a')), scratch));
  EXPECT_TRUE(scratch.is_spent()) << "it is not known, which is the policy's `limit`";
  EXPECT_EQ(scratch.limits_reached(), 1u);
  EXPECT_TRUE(dataplane::holds(*rest, frame_of("aaaaaaaaaabxx"), scratch));
}

// They are looked for in parts, between which the time is looked at.
TEST(Expressions, ThatSayWhereTheyAreLookedForAreNotDecided) {
  const auto compiled = [](const std::string& pattern) {
    sig::HostPart part{{sig::Expression{pattern, 0, false, false, false, {}}}, {}};
    u64 bytes = 0;
    return expressions::compile(part, bytes).has_value();
  };
  for (const char* const pattern : {"\\Ga", "(a)\\1(*COMMIT)b", "[(]\\G", "a|(*SKIP)b"})
    EXPECT_FALSE(compiled(pattern)) << pattern;
  for (const char* const pattern : {"(a)\\1", "\\(*(a)\\1", "[(*](a)\\1", "\\\\[(*](a)\\1"})
    EXPECT_TRUE(compiled(pattern)) << pattern;
}

// Made by somebody who knows the expression: cubic, from each byte of a packet.
TEST(Expressions, TakeSoMuchTimeForAPacket) {
  const auto cpu_ms = [] {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) / 1e6;
  };
  dataplane::ExpressionScratch scratch;
  // Many steps from each byte; and few steps, each of which reads to the end.
  for (const auto& rest :
       {rest_of("pcre:\"/(a{0,9})(a{0,9})(a{0,9})(a{0,9})\\1\\2\\3x/\";"),
        rest_of("pcre:\"/(?:[a-z]++=|[a-y]++&)/\";"), rest_of("pcre:\"/(?<![0-9])[a-z]++(?:=|:)(.)\\1/\";")})
    for (const std::size_t bytes : {1400u, 20'000u}) {
      const double begin = cpu_ms();
      EXPECT_FALSE(dataplane::holds(*rest, frame_of(std::string(bytes, 'a')), scratch));
      EXPECT_LT(cpu_ms() - begin, 400) << bytes << " bytes: 20 ms, and what sanitizers make of them";
    }
  EXPECT_GT(scratch.limits_reached(), 0u);
  // What is dear at the one byte, and cheap at the others, is found where it is.
  EXPECT_TRUE(dataplane::holds(*rest_of("pcre:\"/(b+)+\\1c|(d)\\2/\";"),
                               frame_of("bbbbbbbbb" + std::string(1000, 'e') + "dd"), scratch));
}

TEST(Expressions, TakeNoMemoryBeyondTheirOwn) {
  // With so many groups each step that may be gone back to has more to keep.
  std::string pattern = "^(?:";
  for (u32 i = 0; i < 400; i++) pattern += "(a)?";
  sig::HostPart part{{sig::Expression{pattern + ")*\\1b", 0, false, false, false, {}}}, {}};
  u64 bytes = 0;
  ASSERT_TRUE(expressions::compile(part, bytes));
  EXPECT_GT(bytes, 0u);
  Finder finder;
  sig::Range<u32> at;
  const std::vector<u8> many(20'000, 'a');
  EXPECT_EQ(finder.find(std::get<sig::Expression>(part.payload[0]), many, 0, at), Found::limit);
  sig::HostPart small{{sig::Expression{"(b)\\1", 0, false, false, false, {}}}, {}};
  ASSERT_TRUE(expressions::compile(small, bytes));
  const std::vector<u8> some{'a', 'b', 'b'};
  finder.begin();
  EXPECT_EQ(finder.find(std::get<sig::Expression>(small.payload[0]), some, 0, at), Found::yes)
      << "it goes on";
  EXPECT_EQ(at, (sig::Range<u32>{1, 3}));
  EXPECT_EQ(finder.find(std::get<sig::Expression>(small.payload[0]), some, 2, at), Found::no);
  EXPECT_EQ(finder.find(std::get<sig::Expression>(small.payload[0]), {}, 0, at), Found::no);
  EXPECT_EQ(finder.find(std::get<sig::Expression>(small.payload[0]), {}, 1, at), Found::no)
      << "behind its end";
}

TEST(Expressions, BeyondTheirBoundsAreRefused) {
  const auto why = [](const std::string& pattern, u32 options) {
    sig::HostPart part{{sig::Expression{pattern, options, false, false, false, {}}}, {}};
    u64 bytes = 0;
    const auto compiled = expressions::compile(part, bytes);
    return compiled ? std::string() : compiled.error();
  };
  EXPECT_EQ(why("(a)\\1", 0), "");
  EXPECT_THAT(why("(a", 0), testing::HasSubstr("missing closing parenthesis"));
  EXPECT_THAT(why(std::string(200, '(') + std::string(200, ')'), 0), testing::HasSubstr("pcre"));
  EXPECT_THAT(why("((((((a{1,99}){1,99}){1,99}){1,9}){1,9}){1,9})", 0), testing::HasSubstr("pcre"));
  EXPECT_THAT(why("a", 1u << 19), testing::HasSubstr("option"));
  sig::HostPart part{{sig::Expression{"(a)\\1", 0, false, false, false, {}}}, {}};
  u64 bytes = expressions::kMostBytes;
  EXPECT_THAT(expressions::compile(part, bytes).error(), testing::HasSubstr("256 MiB"));
  EXPECT_EQ(sig::beyond_bounds(part), std::nullopt);
  const auto bounded = [](sig::Step step) {
    return !sig::beyond_bounds(sig::HostPart{{std::move(step)}, {}});
  };
  EXPECT_FALSE(bounded(sig::Regex{})) << "hosts have none";
  EXPECT_FALSE(bounded(sig::Expression{std::string(8193, 'a'), 0, false, false, false, {}}));
  EXPECT_FALSE(bounded(sig::DataAt{})) << "there is nothing for hosts in it";
  part.payload.resize(65, part.payload[0]);
  EXPECT_NE(sig::beyond_bounds(part), std::nullopt);
  sig::Signature signature;
  signature.payload = {sig::Expression{"a", 0, false, false, false, {}}};
  EXPECT_NE(sig::beyond_bounds(signature), std::nullopt) << "devices have none";
}

// Bytes that stand somewhere.
bool stands_in(const std::string& bytes, bool nocase, std::span<const u8> payload) {
  return std::search(payload.begin(), payload.end(), bytes.begin(), bytes.end(), [&](u8 byte, char wanted) {
           return static_cast<u8>(wanted) == (nocase && byte >= 'A' && byte <= 'Z' ? byte + 32 : byte);
         }) != payload.end();
}

// Where a rule holds by its header and all of its steps, a device finds its signature, and that matches.
TEST(Expressions, OfRandomRulesAreSeenByHostsWhereverTheRuleHolds) {
  const std::string name = "expressions-random.rules";
  const auto loaded = load_rules({{name, test::content_of(kData / name)}}, usual_variables(), {}, {}, {});
  auto packets = test::packets_of(kData / "expressions.pcap");
  Finder finder;
  u32 rules = 0, hold = 0, seen_by_hosts = 0, all = 0;
  for (const auto& rule : loaded.rules) {
    const auto lowered = lower(rule);
    if (!lowered.rest) continue;
    rules++;
    const sig::Signature& signature = *lowered.signature;
    sig::Signature header = signature;
    header.payload.clear();
    header.fast_pattern.reset();
    const sig::Content* const content = sig::found_by(signature);
    for (std::size_t i = 0; i < packets.size(); i++) {
      const SignaturePacket& packet = packets[i].seen;
      if (!matches(header, packet)) continue;
      finder.begin();
      const bool holds = rest_holds(*lowered.rest, packet, finder);
      const bool found =
          content == nullptr ||
          stands_in(content->bytes.substr(signature.fast_pattern->first, signature.fast_pattern->length),
                    content->nocase, packet.payload);
      const bool seen = found && matches(signature, packet);
      all++;
      hold += holds;
      seen_by_hosts += seen;
      EXPECT_TRUE(seen || !holds) << "sid " << rule.sid << ", packet " << i + 1;
    }
  }
  EXPECT_GT(rules, 900u);
  EXPECT_GT(hold, 20'000u);
  EXPECT_LT(seen_by_hosts, all) << "devices spare hosts some";
}

}  // namespace
}  // namespace xdpgpu::rules
