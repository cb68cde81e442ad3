// SPDX-License-Identifier: MIT
//
// What hosts are to ask of packets, from the compiler to whoever ordered: it comes out as it went in, ready
// to be asked; and whatever stands in the memory between the two, it is read or refused.
#include "userspace/compiler/rest_exchange.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>

#include "userspace/compiler/compiler.hpp"
#include "userspace/expressions/expressions.hpp"

namespace xdpgpu::compiler {
namespace {

namespace sig = gpu::signatures;
using testing::HasSubstr;

const std::filesystem::path kSignatures = XDPGPU_SOURCE_DIR "/tests/data/signatures";

std::string bytes_of(const auto& write) {
  MemoryWriter to("test");
  write(to);
  const auto memory = SealedMemory::map(to.seal().value(), kMostAnswer).value();
  return {reinterpret_cast<const char*>(memory.bytes().data()), memory.bytes().size()};
}
std::string bytes_of(const Rest& rest) {
  return bytes_of([&](MemoryWriter& to) { write_rest(to, rest); });
}
Result<Rest> read(std::string_view bytes, u64 before = 0) {
  MemoryReader from(std::as_bytes(std::span(bytes)));
  return read_rest(from, before);
}
Rest rest_of(std::vector<sig::Step> steps) {
  return std::make_shared<const sig::HostPart>(sig::HostPart{std::move(steps), {}});
}

// Its own stage's heads, of a policy that is made in this process.
std::vector<gpu::RuleHead> heads_of(const std::string& rules) {
  const auto made = compile_policy(
      {"p.json",
       R"({"version": 1, "pipelines": {"p": [{"stage": "signatures", "rules": ["a.rules"]}]}})",
       {{"a.rules", rules}}},
      {"eth0"});
  if (!made) throw std::runtime_error(made.error().sentence);
  return *gpu::file_rules(made->pipelines->settings()[0].stages[0])->heads;
}

bool is_compiled(const std::vector<sig::Step>& steps) {
  return std::all_of(steps.begin(), steps.end(), [](const sig::Step& step) {
    const auto* const expression = std::get_if<sig::Expression>(&step);
    return expression == nullptr || expression->code != nullptr;
  });
}

TEST(RestExchange, OfRulesComesOutAsItWentIn) {
  for (const char* const name : {"expressions-random.rules", "expressions.rules"}) {
    std::ifstream file(kSignatures / name);
    std::string lines;
    u32 number = 0;
    for (std::string line; std::getline(file, line);)
      // What Suricata refuses is refused here, too.
      if (line.starts_with("alert ") && number++ < 350) lines += line + "\n";
    u32 with_rest = 0;
    for (const auto& head : heads_of(lines)) {
      const auto bytes = bytes_of(head.rest);
      const auto back = read(bytes);
      ASSERT_TRUE(back) << back.error();
      ASSERT_EQ(*back == nullptr, head.rest == nullptr);
      if (!head.rest) continue;
      with_rest++;
      EXPECT_EQ(**back, *head.rest) << head.sid;
      EXPECT_TRUE(is_compiled((*back)->payload));
      for (const auto& one : (*back)->names) EXPECT_TRUE(is_compiled(one.steps));
      for (std::size_t i = 0; i < bytes.size(); i += 7) EXPECT_FALSE(read(bytes.substr(0, i))) << i;
    }
    EXPECT_GT(with_rest, 40u) << name;
  }
}

// Each member, with values of its own.
TEST(RestExchange, OfAllKindsOfStepsComesOutAsItWentIn) {
  sig::Number number{3, {-4, 5}, true, true, u8{16}};
  sig::Content content;
  content.bytes = std::string("a\0b", 3);
  content.negated = content.nocase = content.ends = content.tried_again = true;
  content.offset = {7, {}};
  content.depth = {8, 9};
  content.distance = {-10, {}};
  content.within = {11, 12};
  const sig::Expression expression{"(a)\\1", 1 << 3, true, true, true, {}};
  const Rest rest = rest_of(
      {content, sig::ByteTest{sig::ByteTest::Op::common_bits, true, number, 0xff00u, {1, {}}},
       sig::ByteJump{sig::ByteJump::From::end, number, 6, true, -7}, sig::ByteExtract{number, 2, 4, 13},
       sig::ByteMath{sig::ByteMath::Op::shift_left, number, {}, {1, 2}, 14}, sig::DataAt{{3, {}}, true, true},
       expression});
  const auto back = read(bytes_of(rest));
  ASSERT_TRUE(back) << back.error();
  EXPECT_EQ(**back, *rest);
  const auto names = std::make_shared<const sig::HostPart>(sig::HostPart{
      {}, {{true, {{{1, 2}, true}, {{3, 4}, false}}, {}, {expression}}, {false, {}, {}, {content}}}});
  const auto named = read(bytes_of(names));
  EXPECT_FALSE(named) << "a name's steps have variables";
  sig::HostPart without = *names;
  without.names.pop_back();
  const auto again = read(bytes_of(std::make_shared<const sig::HostPart>(without)));
  ASSERT_TRUE(again) << again.error();
  EXPECT_EQ(**again, without);
}

TEST(RestExchange, BeyondTheBoundsOfHostsIsRefused) {
  const sig::Expression good{"(a)\\1", 0, false, false, false, {}};
  const auto why = [](std::vector<sig::Step> steps, u64 before = 0) {
    const auto back = read(bytes_of(rest_of(std::move(steps))), before);
    return back ? std::string() : back.error();
  };
  EXPECT_EQ(why({good}), "");
  EXPECT_THAT(why({}), HasSubstr("no host takes"));
  EXPECT_THAT(why({good, sig::Regex{}}), HasSubstr("no host takes"));
  EXPECT_THAT(why(std::vector<sig::Step>(65, good)), HasSubstr("64 steps"));
  EXPECT_NE(why(std::vector<sig::Step>(6500, good)), "") << "they are not read to their end";
  EXPECT_THAT(why({good, sig::DataAt{{0, sig::kMostVariables}, false, false}}), HasSubstr("no host takes"));
  EXPECT_THAT(why({good, sig::ByteExtract{{}, 1, 0, 0}}), HasSubstr("no host takes"));
  EXPECT_THAT(why({good, sig::Content{}}), HasSubstr("no host takes"));
  EXPECT_THAT(why({sig::Expression{"(a", 0, false, false, false, {}}}), HasSubstr("missing closing"));
  EXPECT_THAT(why({sig::Expression{"a", ~0u, false, false, false, {}}}), HasSubstr("option"));
  EXPECT_THAT(why({sig::Expression{std::string(10'000, 'a'), 0, false, false, false, {}}}),
              HasSubstr("no host takes"));
  EXPECT_THAT(why({good}, expressions::kMostBytes), HasSubstr("256 MiB"));
}

TEST(RestExchange, WhateverStandsThereIsReadOrRefused) {
  const auto heads = heads_of(
      "alert udp any any -> any any (content:\"a\"; byte_extract:1,0,n; pcre:\"/(b)\\1/R\"; content:\"c\"; "
      "within:9; byte_test:1,=,n,0,relative; byte_jump:1,0,relative; sid:1;)\n"
      "alert dns any any -> any any (dns.query; bsize:<9; pcre:\"/(b)\\1/\"; isdataat:1,relative; sid:2;)\n");
  std::mt19937 random(22);
  u32 same = 0, read_ones = 0, refused = 0;
  for (u32 i = 0; i < 20'000; i++) {
    const Rest& rest = heads[i % heads.size()].rest;
    std::string bytes = bytes_of(rest);
    for (u64 n = random() % 3 + 1; n > 0; n--) {
      const u64 kind = random() % 3;
      char& byte = bytes[random() % bytes.size()];
      byte =
          kind == 0 ? static_cast<char>(byte ^ 1 << random() % 8) : static_cast<char>(kind == 1 ? 0xff : 0);
    }
    const auto back = read(bytes);
    if (!back) {
      refused++;
      EXPECT_FALSE(back.error().empty());
      continue;
    }
    read_ones++;
    same += *back != nullptr && **back == *rest;
    if (*back == nullptr) continue;
    EXPECT_EQ(sig::beyond_bounds(**back), std::nullopt);
    EXPECT_TRUE(is_compiled((*back)->payload));
    for (const auto& one : (*back)->names) EXPECT_TRUE(is_compiled(one.steps));
  }
  EXPECT_GT(read_ones, same);
  EXPECT_GT(refused, 5000u);
}

// Through all of it.
TEST(RestExchange, OfAPolicyIsInTheAnswerToItsOrder) {
  const PolicySource source{
      "p.json",
      R"({"version": 1, "pipelines": {"p": [{"stage": "signatures", "rules": ["a.rules"]}]}})",
      {{"a.rules", "drop udp any any -> any any (content:\"a\"; pcre:\"/(b)\\1/R\"; sid:1;)\n"}}};
  Compiler compiler;
  const Target target{{"eth0"}, {}, {1, 2}};
  const auto answered = compiler.answer(write_order(source, target, {}).value()).value();
  const auto answer = read_answer(SealedMemory::map(answered, kMostAnswer).value()).value().value();
  const auto whole = assemble(source, outline(source).value(), target, answer.recipe, answer.artifacts);
  ASSERT_TRUE(whole) << whole.error();
  const auto& heads = *gpu::file_rules(whole->pipelines->settings()[0].stages[0])->heads;
  ASSERT_EQ(heads.size(), 1u);
  ASSERT_TRUE(heads[0].rest);
  EXPECT_EQ(heads, heads_of(source.files.at("a.rules")));
  EXPECT_TRUE(heads[0].late);
  EXPECT_TRUE(is_compiled(heads[0].rest->payload));
  EXPECT_EQ(heads[0].rest->payload.size(), 2u);
}

}  // namespace
}  // namespace xdpgpu::compiler
