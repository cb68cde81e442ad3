// SPDX-License-Identifier: MIT
//
// A million prefixes and four thousand rules: right, and in a time and size that suit a swap under
// traffic. The figures are printed; the bounds checked here are slack enough for a busy machine and
// for sanitizers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <ctime>

#include "tests/unit/policy_random.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

using test::RandomPolicy;

// Counts the processor's time, not the clock's: other tests run at the same time.
class Stopwatch {
 public:
  double ms() const { return double(std::clock() - start_) * 1000 / CLOCKS_PER_SEC; }

 private:
  std::clock_t start_ = std::clock();
};

std::string list_of(u32 count, u8 family, u32 shortest, u32 longest, u64 seed) {
  RandomPolicy random(seed);
  std::string text = "# made for a test\n";
  for (u32 i = 0; i < count; ++i) {
    u8 address[16];
    for (u8& byte : address) byte = static_cast<u8>(random.below(256));
    if (family == 6) address[0] = static_cast<u8>(0x20 | (address[0] & 0x1f));
    u32 length = shortest + static_cast<u32>(random.below(longest - shortest + 1));
    text += write_prefix(test::network_of(family, address, length)) + "\n";
  }
  return text;
}

struct ListShape {
  const char* name;
  u8 family;
  u32 shortest, longest;
};
class MillionPrefixes : public testing::TestWithParam<ListShape> {};

TEST_P(MillionPrefixes, AreReadCompiledAndFound) {
  const auto& shape = GetParam();
  constexpr u32 kCount = 1'000'000;
  FileContents files{{"big.txt", list_of(kCount, shape.family, shape.shortest, shape.longest, 11)}};
  const std::string text = R"({"version": 1, "lists": {"big": {"file": "big.txt"}},
    "rules": [{"match": {"src": "@big"}, "action": "drop"}]})";
  Stopwatch parsing;
  auto policy = parse(text, "policy.json", read_files_of(files));
  double parse_ms = parsing.ms();
  ASSERT_TRUE(policy) << policy.error()[0].sentence();
  ASSERT_EQ(policy->lists.at("big").prefixes.size(), kCount);
  Stopwatch compiling;
  auto tables = compile(*policy);
  double compile_ms = compiling.ms();
  ASSERT_TRUE(tables);
  double mib = double(tables->lines.size()) * sizeof(xg_line) / (1 << 20);
  fmt::print("{}: read {:.0f} ms, compiled {:.0f} ms, {:.0f} MiB of lines\n", shape.name, parse_ms,
             compile_ms, mib);
  EXPECT_LT(parse_ms, 6000);
  EXPECT_LT(compile_ms, 8000);
  EXPECT_LT(mib, 150);

  // A hit for every prefix looked at; an address outside of all is left alone, as the set of /N prefixes
  // says.
  const auto& prefixes = policy->lists.at("big").prefixes;
  for (u32 i = 0; i < kCount; i += 997) {
    PacketFacts packet{.family = shape.family};
    std::copy(std::begin(prefixes[i].address), std::end(prefixes[i].address), packet.src);
    ASSERT_EQ(classify(*tables, packet).size(), 1u) << write_prefix(prefixes[i]);
  }
  RandomPolicy random(12);
  u32 misses = 0;
  for (u32 i = 0; i < 40; ++i) {
    PacketFacts packet{.family = shape.family};
    for (u8& byte : packet.src) byte = static_cast<u8>(random.below(256));
    auto right = match_linear(*policy, packet);
    misses += right.empty() ? 1 : 0;
    ASSERT_EQ(classify(*tables, packet), right);
  }
  EXPECT_GT(misses, 0u);
}
INSTANTIATE_TEST_SUITE_P(Shapes, MillionPrefixes,
                         testing::Values(ListShape{"v4_networks", 4, 20, 28},
                                         ListShape{"v4_hosts", 4, 32, 32},
                                         ListShape{"v6_networks", 6, 29, 48},
                                         ListShape{"v6_sites", 6, 48, 64},
                                         ListShape{"v6_hosts", 6, 128, 128}),
                         [](const auto& shape) { return shape.param.name; });

// Rules that overlap in every dimension, each crossing a tenth of its values: all classes meet rules of
// all words, and only the grid keeps a lookup short.
TEST(AdversarialRules, FourThousandAreCompiledAndPruned) {
  RandomPolicy random(21);
  Policy policy;
  for (u32 i = 0; i < XG_MAX_RULES; ++i) {
    Rule rule;
    rule.name = std::to_string(i);
    for (auto* side : {&rule.match.src, &rule.match.dst}) {
      u8 length = static_cast<u8>(2 + random.below(4));
      u8 address = static_cast<u8>(random.below(256) & (0xff00u >> length));
      side->push_back(Prefix{4, length, {address}});
    }
    for (auto* side : {&rule.match.src_ports, &rule.match.dst_ports}) {
      u16 first = static_cast<u16>(random.below(60000));
      side->push_back({first, static_cast<u16>(first + random.below(5000))});
    }
    policy.rules.push_back(rule);
  }
  Stopwatch compiling;
  auto tables = compile(policy);
  double compile_ms = compiling.ms();
  ASSERT_TRUE(tables);
  double words = 0, matches = 0;
  constexpr u32 kPackets = 2000;
  for (u32 i = 0; i < kPackets; ++i) {
    PacketFacts packet{.family = 4,
                       .src_port = static_cast<u32>(random.below(65536)),
                       .dst_port = static_cast<u32>(random.below(65536)),
                       .l4 = XG_L4_V4_TCP};
    for (u8& byte : packet.src) byte = static_cast<u8>(random.below(256));
    for (u8& byte : packet.dst) byte = static_cast<u8>(random.below(256));
    words += words_visited(*tables, packet);
    auto right = match_linear(policy, packet);
    matches += double(right.size());
    ASSERT_EQ(classify(*tables, packet), right);
  }
  fmt::print(
      "4,096 rules: compiled {:.0f} ms, grid of 2^{} cells, {:.2f} words a lookup, {:.2f} rules match\n",
      compile_ms, tables->header.grid_bits, words / kPackets, matches / kPackets);
  EXPECT_LT(words / kPackets, matches / kPackets + 2);
  EXPECT_LT(compile_ms, 4000);
}

}  // namespace
}  // namespace xdpgpu::policy
