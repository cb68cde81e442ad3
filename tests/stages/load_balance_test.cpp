// SPDX-License-Identifier: MIT
//
// `load_balance` with affinity over a change of its backends: what moves and what does not, and that every
// device has it as the reference does.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "gpu/stages/load_balance/device.h"
#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

using gpu::AffinitySettings;
using gpu::Backend;
using gpu::LoadBalanceSettings;

constexpr gpu::CompileOptions kOptions{{0x0123456789abcdef, 0xfedcba9876543210}};
constexpr u32 kFlows = 600;
constexpr u64 kSecond = 1'000'000'000;

LoadBalanceSettings balance(const std::vector<Backend>& backends,
                            AffinitySettings::Per per = AffinitySettings::Per::flow) {
  LoadBalanceSettings settings;
  settings.algorithm = LoadBalanceSettings::Algorithm::maglev;
  settings.backends = backends;
  settings.affinity = AffinitySettings{per, 60'000, {4096, gpu::TableSettings::Evict::lru}};
  return settings;
}
Backend named(const char* name, u32 weight = 1) { return {name, {2, 0, 0, 0, 0, 1}, weight}; }

// Where flows go, one packet each.
class Flows {
 public:
  explicit Flows(const LoadBalanceSettings& settings) : settings_(settings), judge_({{"web", {settings}}}) {}

  void change(const LoadBalanceSettings& settings) {
    settings_ = settings;
    judge_.change({{"web", {settings}}});
  }
  // Names of the backends of flows first..first + kFlows - 1, at a time. clients: flows of a client each.
  std::vector<std::string> at(u64 time_ns, u32 first = 0, u32 each = 1) {
    std::vector<std::string> backends;
    for (u32 flow = first; flow < first + kFlows; flow++) {
      const u32 client = flow / each, port = 1024 + flow % each;
      const std::vector<u8> frame{0x02,
                                  0,
                                  0,
                                  0,
                                  0,
                                  0x0a,
                                  0x02,
                                  0,
                                  0,
                                  0,
                                  0,
                                  0x0b,
                                  0x08,
                                  0x00,
                                  0x45,
                                  0,
                                  0,
                                  28,
                                  0,
                                  0,
                                  0,
                                  0,
                                  64,
                                  17,
                                  0,
                                  0,
                                  10,
                                  0,
                                  static_cast<u8>(client >> 8),
                                  static_cast<u8>(client),
                                  198,
                                  51,
                                  100,
                                  7,
                                  static_cast<u8>(port >> 8),
                                  static_cast<u8>(port),
                                  0,
                                  80,
                                  0,
                                  8,
                                  0,
                                  0};
      const Traffic traffic = single_frame(frame, 0);
      std::memcpy(traffic.region.base() + traffic.descriptors[0].offset - XG_METADATA_SIZE +
                      offsetof(xg_metadata, rx_time_ns),
                  &time_ns, sizeof(time_ns));
      xg_result result{};
      judge_.decide(traffic.region.bytes(), traffic.descriptors, kGeneration, {&result, 1});
      backends.push_back(settings_.backends.at(result.detail).name);
    }
    return backends;
  }
  u32 counted(u32 outcome) const { return judge_.tables().at(0)[2 * (XG_TABLE_OWN + outcome)]; }

 private:
  LoadBalanceSettings settings_;
  gpu::reference::Judge judge_;
};

TEST(Affinity, FlowsStayWhereTheyAreWhateverOtherBackendsThereAre) {
  Flows flows(balance({named("a"), named("b", 3), named("c")}));
  const auto before = flows.at(kSecond);
  flows.change(balance({named("d", 9), named("c"), named("e", 9), named("b"), named("a", 5)}));
  EXPECT_EQ(flows.at(2 * kSecond), before);
  EXPECT_EQ(flows.counted(XG_AFFINITY_NEW), kFlows);
  EXPECT_EQ(flows.counted(XG_AFFINITY_KEPT), kFlows);
  const auto others = flows.at(3 * kSecond, kFlows);
  EXPECT_GT(std::count(others.begin(), others.end(), "d"), kFlows / 5) << "new flows go to new backends";
}

TEST(Affinity, WhatDrainsKeepsItsFlowsAndGetsNoNewOnes) {
  const std::vector<Backend> all{named("a"), named("b"), named("c")};
  Flows flows(balance(all));
  const auto before = flows.at(kSecond);
  auto draining = all;
  draining[1].drains = true;
  flows.change(balance(draining));
  EXPECT_EQ(flows.at(2 * kSecond), before);
  const auto others = flows.at(3 * kSecond, kFlows);
  EXPECT_EQ(std::count(others.begin(), others.end(), "b"), 0);
}

TEST(Affinity, FlowsOfABackendThatIsDownMoveAndStayWhereTheyWent) {
  const std::vector<Backend> all{named("a"), named("b"), named("c")};
  Flows flows(balance(all));
  const auto before = flows.at(kSecond);
  auto without = all;
  without[1].down = true;
  flows.change(balance(without));
  const auto moved = flows.at(2 * kSecond);
  for (u32 i = 0; i < kFlows; i++) {
    EXPECT_NE(moved[i], "b");
    EXPECT_TRUE(moved[i] == before[i] || before[i] == "b") << i;
  }
  EXPECT_EQ(flows.counted(XG_AFFINITY_MOVED), std::count(before.begin(), before.end(), "b"));
  flows.change(balance(all));
  EXPECT_EQ(flows.at(3 * kSecond), moved) << "b is up again";
}

TEST(Affinity, WhereAllAreDownNoneIs) {
  std::vector<Backend> all{named("a"), named("b")};
  Flows flows(balance(all));
  const auto before = flows.at(kSecond);
  for (Backend& one : all) one.down = true;
  flows.change(balance(all));
  EXPECT_EQ(flows.at(2 * kSecond), before);
}

TEST(Affinity, ClientsStayTogether) {
  Flows flows(balance({named("a"), named("b"), named("c")}, AffinitySettings::Per::src));
  const auto backends = flows.at(kSecond, 0, 6);
  for (u32 i = 0; i < kFlows; i++) EXPECT_EQ(backends[i], backends[i / 6 * 6]) << i;
  EXPECT_EQ(flows.counted(XG_AFFINITY_NEW), kFlows / 6);
  EXPECT_EQ(std::count(backends.begin(), backends.end(), "a") % 6, 0);
}

TEST(Affinity, IsForgottenWhenIdle) {
  Flows flows(balance({named("a"), named("b")}));
  const auto before = flows.at(kSecond);
  flows.change(balance({named("c"), named("d")}));
  flows.change(balance({named("a"), named("b"), named("c"), named("d"), named("e")}));
  EXPECT_EQ(flows.at(60 * kSecond), before) << "59 seconds later";
  EXPECT_NE(flows.at(121 * kSecond), before) << "61 seconds later";
}

// What a table is known by has nothing to do with the backends.
TEST(Affinity, TheTableIsTheSameOneWhateverTheBackendsAre) {
  const auto identity = [](const LoadBalanceSettings& settings) {
    const auto compiled = gpu::Pipelines::compile({{"web", {settings}}}, kOptions);
    EXPECT_TRUE(compiled) << compiled.error();
    return (*compiled)->states().at(0).identity;
  };
  const auto one = balance({named("a"), named("b")});
  auto other = balance({named("c", 7)});
  other.table_size = 251;
  other.affinity->idle_ms = 1000;
  other.cache = true;
  other.cache_ttl_ms = 500;
  EXPECT_EQ(identity(one), identity(other));
  other.affinity->per = AffinitySettings::Per::src;
  EXPECT_NE(identity(one), identity(other));
  other = one;
  other.affinity->table.entries *= 2;
  EXPECT_NE(identity(one), identity(other));
  other = one;
  other.key = kOptions.hash_key;
  EXPECT_EQ(identity(one), identity(other));
  other.key = {1, 2};
  EXPECT_NE(identity(one), identity(other));
}

// ---- On every device -------------------------------------------------------------------------------

constexpr u32 kNextGeneration = kGeneration + 1;

class AffinityOn : public testing::TestWithParam<Target> {};

TEST_P(AffinityOn, IsTheReferencesOverAChangeOfBackendsInEveryCut) {
  const Target& target = GetParam();
  const u32 packets = target.kind == "vulkan" ? 600 : 2000;
  SCOPED_TRACE(fmt::format("XDPGPU_TEST_SEED={}", test_seed()));
  Random random(test_seed());
  std::vector<gpu::PipelineSettings> first{
      {"flows", {balance({named("a"), named("b", 4), named("c")})}},
      {"clients", {balance({named("a"), named("b")}, AffinitySettings::Per::src)}}};
  auto changed = std::vector<Backend>{named("e"), named("c", 2), named("b"), named("d")};
  changed[1].drains = true;
  changed[3].down = true;
  std::vector<gpu::PipelineSettings> second{
      {"flows", {balance(changed)}},
      {"clients", {balance({named("b"), named("c"), named("f")}, AffinitySettings::Per::src)}}};

  // The traffic's time jumps by hours.
  for (auto* pipelines : {&first, &second})
    for (auto& pipeline : *pipelines)
      std::get<LoadBalanceSettings>(pipeline.stages.front()).affinity->idle_ms = 1'000'000'000;

  Traffic traffic = conversations(random, packets, 2);
  const auto half = static_cast<std::ptrdiff_t>(packets / 2);
  traffic.descriptors[packets / 2 - 1].flags = 0;
  for (u32 i = packets / 2; i < packets; i++) {
    const u64 at =
        u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA - XG_METADATA_SIZE + offsetof(xg_metadata, generation);
    std::memcpy(traffic.region.base() + at, &kNextGeneration, sizeof(kNextGeneration));
  }
  const std::vector<xg_descriptor> before(traffic.descriptors.begin(), traffic.descriptors.begin() + half);
  const std::vector<xg_descriptor> after(traffic.descriptors.begin() + half, traffic.descriptors.end());
  gpu::reference::Judge reference(first, kOptions);
  const Answers should_before = answers_of(reference, traffic.region.bytes(), before, kGeneration);
  reference.change(second);
  const Answers should_after = answers_of(reference, traffic.region.bytes(), after, kNextGeneration);
  const auto tables = reference.tables();
  // Few packets may well miss one.
  for (const u32 outcome : {XG_AFFINITY_KEPT, XG_AFFINITY_NEW, XG_AFFINITY_MOVED})
    if (target.kind != "vulkan") {
      EXPECT_GT(tables[0][2 * (XG_TABLE_OWN + outcome)], 0u) << outcome;
    }

  XDPGPU_OPEN_OR_SKIP(target, traffic.region.base(), traffic.region.size());
  auto queue = device->open_queue(target.queue(8192 + 64, 4));
  ASSERT_TRUE(queue) << queue.error();
  const auto one = gpu::Pipelines::compile(first, kOptions),
             other = gpu::Pipelines::compile(second, kOptions);
  ASSERT_TRUE(one) << one.error();
  ASSERT_TRUE(other) << other.error();
  for (const u32 batch : {1u, 64u, 8192u}) {
    SCOPED_TRACE(fmt::format("{}, batches of {}", device->info().description, batch));
    ASSERT_TRUE(device->load(kGeneration, *one));
    expect_equal(judge(**queue, before, batch, kGeneration), should_before, before);
    ASSERT_TRUE(device->load(kNextGeneration, *other));
    device->unload(kGeneration);
    expect_equal(judge(**queue, after, batch, kNextGeneration), should_after, after);
    for (u32 i = 0; i < tables.size(); i++) {
      std::vector<u32> words((*other)->states()[i].words);
      ASSERT_TRUE(device->read_state(kNextGeneration, i, 0, words));
      EXPECT_TRUE(words == tables[i]) << "table " << i;
    }
    device->unload(kNextGeneration);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, AffinityOn, testing::ValuesIn(all_targets()),
                         [](const auto& test) { return test.param.name(); });

}  // namespace
}  // namespace xdpgpu::tests
