// SPDX-License-Identifier: MIT
//
// Maglev's lookup table: shares by weight, and how few flows move when a backend goes.
#include "gpu/stages/load_balance/maglev.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>

namespace xdpgpu::gpu {
namespace {

struct Backends {
  std::vector<std::string> names;
  std::vector<u32> weights;

  std::vector<u16> table(u32 size) const {
    std::vector<MaglevBackend> backends;
    for (std::size_t i = 0; i < names.size(); i++) backends.push_back({names[i], weights[i]});
    return maglev_table(backends, size);
  }
  u32 total() const { return std::accumulate(weights.begin(), weights.end(), 0u); }
};

Backends equal_ones(u32 count) {
  Backends backends;
  for (u32 i = 0; i < count; i++) {
    backends.names.push_back(fmt::format("server {}", i));
    backends.weights.push_back(1);
  }
  return backends;
}

std::vector<u32> entries_of(const std::vector<u16>& table, std::size_t backends) {
  std::vector<u32> entries(backends);
  for (const u16 backend : table) entries.at(backend)++;
  return entries;
}

void expect_shares(const Backends& backends, u32 size) {
  const auto entries = entries_of(backends.table(size), backends.names.size());
  for (std::size_t i = 0; i < entries.size(); i++)
    EXPECT_NEAR(entries[i], static_cast<double>(size) * backends.weights[i] / backends.total(),
                static_cast<double>(backends.names.size()))
        << backends.names[i] << " of weight " << backends.weights[i] << " in a table of " << size;
}

TEST(Maglev, GivesEachBackendItsShareByWeight) {
  for (const u32 size : {kMinMaglevTable, kMaglevTable, 655'373u}) {
    for (const u32 count : {1u, 2u, 3u, 10u, 100u, 250u}) expect_shares(equal_ones(count), size);
    Backends skewed = equal_ones(8);
    skewed.weights = {1000, 1, 1, 1, 1, 1, 1, 1};
    expect_shares(skewed, size);
    skewed.weights = {1, 2, 3, 5, 7, 100, 500, 1000};
    expect_shares(skewed, size);
    skewed.weights = {0, 2, 0, 5, 7, 100, 500, 0};
    expect_shares(skewed, size);
  }
}

// Flows that go elsewhere once backend `gone` does, beside its own; in parts of all.
double moved_without(const Backends& backends, std::size_t gone, u32 size) {
  const auto before = backends.table(size);
  Backends left = backends;
  left.names.erase(left.names.begin() + static_cast<std::ptrdiff_t>(gone));
  left.weights.erase(left.weights.begin() + static_cast<std::ptrdiff_t>(gone));
  const auto after = left.table(size);
  constexpr u32 kFlows = 200'000;
  std::mt19937_64 hashes(gone + size);
  u32 others = 0;
  for (u32 flow = 0; flow < kFlows; flow++) {
    const std::size_t entry = hashes() % size;
    if (before[entry] != gone && backends.names[before[entry]] != left.names[after[entry]]) others++;
  }
  return static_cast<double>(others) / kFlows;
}

// The paper, section 5.3: a hundred times as many entries as backends keep what else moves to a few in a
// hundred, and larger tables to less.
TEST(Maglev, MovesTheFlowsOfABackendThatGoesAndFewOthers) {
  for (const u32 count : {3u, 10u, 100u, 250u}) {
    const Backends backends = equal_ones(count);
    for (const std::size_t gone : {0u, count / 2, count - 1}) {
      EXPECT_LT(moved_without(backends, gone, kMaglevTable), 0.03) << gone << " of " << count;
      EXPECT_LT(moved_without(backends, gone, 655'373), 0.02) << gone << " of " << count;
    }
  }
  Backends weighted = equal_ones(20);
  for (u32 i = 0; i < 20; i++) weighted.weights[i] = 1 + i % 4;
  for (const std::size_t gone : {0u, 3u, 19u})
    EXPECT_LT(moved_without(weighted, gone, kMaglevTable), 0.03) << gone;
}

TEST(Maglev, DoesNotMindTheOrderOfBackends) {
  Backends backends = equal_ones(30);
  for (u32 i = 0; i < 30; i++) backends.weights[i] = 1 + i % 7;
  const auto table = backends.table(kMaglevTable);
  Backends turned = backends;
  std::reverse(turned.names.begin(), turned.names.end());
  std::reverse(turned.weights.begin(), turned.weights.end());
  const auto other = turned.table(kMaglevTable);
  for (std::size_t i = 0; i < table.size(); i++)
    ASSERT_EQ(backends.names[table[i]], turned.names[other[i]]) << i;
}

TEST(Maglev, AnotherNameHasAnotherPlace) {
  Backends backends = equal_ones(2);
  const auto table = backends.table(kMaglevTable);
  backends.names[1] = "another server";
  u32 differ = 0;
  const auto other = backends.table(kMaglevTable);
  for (std::size_t i = 0; i < table.size(); i++) differ += table[i] != other[i] ? 1 : 0;
  EXPECT_GT(differ, kMaglevTable / 4);
}

TEST(Maglev, KnowsPrimes) {
  for (const u32 prime : {2u, 3u, 251u, 65'537u, 655'373u, kMaxMaglevTable})
    EXPECT_TRUE(is_prime(prime)) << prime;
  for (const u32 other : {0u, 1u, 4u, 9u, 65'535u, 65'536u, 1'048'575u})
    EXPECT_FALSE(is_prime(other)) << other;
}

}  // namespace
}  // namespace xdpgpu::gpu
