// SPDX-License-Identifier: MIT
//
// Stages with tables on every device: answers, counters and what is remembered at the end are the sequential
// reference's, however the stream is cut into batches.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>

#include "gpu/stages/table.h"
#include "tests/backends/captures.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"
#include "tests/stages/stage_tests.hpp"

namespace xdpgpu::tests {
namespace {

using Evict = gpu::TableSettings::Evict;
using Action = gpu::AclRule::Action;

constexpr u32 kPackets = 3000;
// Where a software Vulkan has each batch of one packet for a millisecond and more.
constexpr u32 kPacketsOnVulkan = 600;
constexpr u32 kCapacity = 8192 + 64;
constexpr std::array<u32, 5> kCuts{1, 7, 64, 1024, 8192};
// More than a GPU takes to its tables at a time.
constexpr u32 kManyPackets = 70'000;
constexpr u32 kLargeCapacity = 65'536;
constexpr std::array<u32, 2> kLargeCuts{kLargeCapacity - 64, 30'000};
constexpr gpu::CompileOptions kOptions{{0x0123456789abcdef, 0xfedcba9876543210}};

std::vector<gpu::PipelineSettings> composed() {
  using Per = gpu::RateLimitSettings::Per;
  gpu::AclSettings acl;
  acl.rules.resize(3);
  acl.rules[0].src = {prefix4(0x0a000002, 31)};
  acl.rules[0].action = Action::drop;
  acl.rules[1].dst_ports = {{53, 53}};
  acl.rules[1].protocols = {17};
  acl.rules[1].action = Action::pass;
  acl.cache = true;
  gpu::ReputationSettings reputation;
  reputation.lists = {{"some", {prefix4(0x0a000030, 28)}, Action::drop}};
  reputation.cache = true;
  gpu::L2fwdSettings forward;
  forward.cache = true;
  auto ignores_invalid = conntrack(true, {256, Evict::lru});
  ignores_invalid.on_invalid = Action::next;
  return {{"firewall",
           {reputation, acl, conntrack(false, {64, Evict::lru}), limit(Per::src, 5, 4000, {64, Evict::lru})}},
          {"turned", {limit(Per::dst, 9, 0, {16, Evict::fifo}), ignores_invalid, acl, reputation, forward}},
          {"thrice",
           {limit(Per::src, 4, 0, {8, Evict::lru}), limit(Per::src, 4, 0, {8, Evict::lru}),
            limit(Per::src, 2, 0, {64, Evict::lru}), forward}},
          {"none", {acl, forward}}};
}

// More tables than the CPU's queues count apart (gpu/cpu/counts.hpp).
std::vector<gpu::PipelineSettings> many() {
  using Per = gpu::RateLimitSettings::Per;
  std::vector<gpu::PipelineSettings> pipelines;
  for (u32 i = 0; i < 5; i++) {
    pipelines.push_back({fmt::format("p{}", i), {}});
    for (u32 j = 0; j < 7; j++)
      pipelines.back().stages.emplace_back(
          limit(j == 0 ? Per::flow : Per::src, j == 0 ? 1 : 4 + i, 0, {8, Evict::lru}));
  }
  return pipelines;
}

// Of a stage's test.
const TableCase& case_of(std::string_view name) {
  for (const StageTests& stage : stage_tests())
    for (const TableCase& one : stage.tables)
      if (one.name == name) return one;
  throw std::out_of_range(fmt::format("there is no case {}", name));
}

// All pipelines of a case, by what is inside of tunnels.
std::vector<gpu::PipelineSettings> by_inner(std::string_view name) {
  std::vector<gpu::PipelineSettings> pipelines = case_of(name).pipelines();
  for (gpu::PipelineSettings& pipeline : pipelines) {
    pipeline.inner = true;
    for (gpu::StageSettings& stage : pipeline.stages)
      std::visit(
          [](auto& what) {
            if constexpr (requires { what.cache; }) what.cache = false;
          },
          stage);
  }
  return pipelines;
}
std::vector<gpu::PipelineSettings> inner_connections() {
  std::vector<gpu::PipelineSettings> all = by_inner("connections");
  for (const char* name : {"limits", "affinities"})
    for (gpu::PipelineSettings& one : by_inner(name)) all.push_back(std::move(one));
  all.push_back({"by outer headers", {conntrack(true, {256, Evict::lru})}});
  return all;
}
std::vector<gpu::PipelineSettings> inner_alarms() { return by_inner("alarms"); }

Traffic conversations_in_tunnels(Random& random, u32 packets, u32 pipelines) {
  return inside_tunnels(random, conversations(random, packets, pipelines));
}
Traffic floods_in_tunnels(Random& random, u32 packets, u32 pipelines) {
  return inside_tunnels(random, case_of("alarms").traffic(random, packets, pipelines));
}

// The stages', and those of several stages; by name.
std::vector<TableCase> all_cases() {
  const TableCase& alarms = case_of("alarms");
  std::vector<TableCase> cases{
      {"composed", composed, 2, false},
      {"many", many, 2, false},
      {"inner_connections", inner_connections, 2, true, 10, conversations_in_tunnels},
      {"inner_alarms", inner_alarms, alarms.outcomes, alarms.refuses, alarms.sent_by_host,
       floods_in_tunnels}};
  for (const StageTests& stage : stage_tests())
    cases.insert(cases.end(), stage.tables.begin(), stage.tables.end());
  std::sort(cases.begin(), cases.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return cases;
}

std::vector<std::vector<u32>> tables_of(gpu::Device& device, const gpu::Pipelines& pipelines,
                                        u32 generation) {
  std::vector<std::vector<u32>> all;
  for (u32 i = 0; i < pipelines.states().size(); i++) {
    std::vector<u32> words(pipelines.states()[i].words);
    const auto read = device.read_state(generation, i, 0, words);
    EXPECT_TRUE(read) << read.error();
    all.push_back(std::move(words));
  }
  return all;
}

// Names the first word that differs.
void expect_equal_tables(const std::vector<std::vector<u32>>& is,
                         const std::vector<std::vector<u32>>& should) {
  ASSERT_EQ(is.size(), should.size());
  for (std::size_t t = 0; t < is.size(); t++) {
    // The reference may have its records otherwise than words.
    ASSERT_GE(is[t].size(), should[t].size());
    const auto [other, at] = std::mismatch(should[t].begin(), should[t].end(), is[t].begin());
    if (other == should[t].end()) continue;
    const auto word = at - is[t].begin();
    const auto in_set = (word - XG_TABLE_HEAD) % XG_SET_WORDS;
    ADD_FAILURE() << "table " << t << " word " << word << " (of a set: " << in_set << ") is " << *at
                  << ", the reference has " << *other;
  }
}

class Tables : public testing::TestWithParam<std::tuple<Target, TableCase>> {
 protected:
  void check(const Traffic& traffic, const std::vector<gpu::PipelineSettings>& settings,
             std::span<const u32> cuts = kCuts, u32 capacity = kCapacity) {
    const Target& target = std::get<0>(GetParam());
    const auto pipelines = gpu::Pipelines::compile(settings, kOptions);
    ASSERT_TRUE(pipelines) << pipelines.error();
    gpu::reference::Judge reference(settings, kOptions);
    const Answers should = answers_of(reference, traffic.region.bytes(), traffic.descriptors, kGeneration);
    const auto remembered = reference.tables();

    XDPGPU_OPEN_OR_SKIP(target, traffic.region.base(), traffic.region.size());
    if (std::get<1>(GetParam()).too_much_for_software && target.kind == "vulkan" && device->info().software)
      GTEST_SKIP() << "software Vulkan would end loops too early: a case of its own has what it takes";
    auto queue = device->open_queue(target.queue(capacity, capacity > kCapacity ? 2 : 4));
    ASSERT_TRUE(queue) << queue.error();
    for (u32 batch : cuts) {
      SCOPED_TRACE(fmt::format("{}, batches of {}, XDPGPU_TEST_SEED={}", device->info().description, batch,
                               test_seed()));
      ASSERT_TRUE(device->load(kGeneration, *pipelines));
      expect_equal(judge(**queue, traffic.descriptors, batch, kGeneration), should, traffic.descriptors);
      expect_equal_tables(tables_of(*device, **pipelines, kGeneration), remembered);
      // So that the next cut begins with empty tables.
      device->unload(kGeneration);
      if (HasFailure()) return;
    }
  }
};

TEST_P(Tables, Conversations) {
  Random random(test_seed());
  const TableCase& which = std::get<1>(GetParam());
  const auto settings = which.pipelines();
  const u32 packets = std::get<0>(GetParam()).kind == "vulkan" ? kPacketsOnVulkan : kPackets;
  check(which.traffic(random, packets, static_cast<u32>(settings.size())), settings);
}

TEST_P(Tables, LargeBatches) {
  if (std::get<0>(GetParam()).kind == "vulkan") GTEST_SKIP() << "as with small batches, and takes long";
  Random random(test_seed());
  const TableCase& which = std::get<1>(GetParam());
  const auto settings = which.pipelines();
  check(which.traffic(random, kManyPackets, static_cast<u32>(settings.size())), settings, kLargeCuts,
        kLargeCapacity);
}

TEST_P(Tables, CapturedPackets) {
  const auto settings = std::get<1>(GetParam()).pipelines();
  check(captured_traffic(captures_directory(), static_cast<u32>(settings.size())), settings);
}

INSTANTIATE_TEST_SUITE_P(Backends, Tables,
                         testing::Combine(testing::ValuesIn(all_targets()), testing::ValuesIn(all_cases())),
                         [](const auto& test) {
                           return std::get<0>(test.param).name() + "_" + std::get<1>(test.param).name;
                         });

// The comparison is worth something only if the traffic reaches what it is meant to reach.
class TablesVariety : public testing::TestWithParam<TableCase> {};

TEST_P(TablesVariety, TrafficReachesEveryOutcome) {
  SCOPED_TRACE(fmt::format("XDPGPU_TEST_SEED={}", test_seed()));
  Random random(test_seed());
  const auto settings = GetParam().pipelines();
  const std::string name = GetParam().name;
  // Twice as many as devices are compared by: what is rare is then there by more than chance, and of floods,
  // which take turns, each kind is at its worst.
  const Traffic traffic = GetParam().traffic(random, 2 * kPackets, static_cast<u32>(settings.size()));
  gpu::reference::Judge reference(settings, kOptions);
  std::vector<xg_result> results(traffic.descriptors.size());
  reference.decide(traffic.region.bytes(), traffic.descriptors, kGeneration, results);
  std::array<u64, XG_TABLE_OWN + 24> sums{};
  for (const auto& words : reference.tables()) {
    for (u32 i = 0; i < sums.size(); i++) sums[i] += words[2 * i];
    // Pressure never passes 100 %.
    EXPECT_LE(words[2 * XG_TABLE_OCCUPIED], (words.size() - XG_TABLE_HEAD) / XG_SET_WORDS * XG_WAYS);
  }
  const auto counted = [&](u32 counter) { return sums[counter]; };
  // Of some 1,600 by the stages that are met least: chance takes no third of them away.
  EXPECT_GT(counted(XG_TABLE_TOUCHES), 1000u);
  EXPECT_GT(counted(XG_TABLE_HITS), 60u);
  EXPECT_GT(counted(XG_TABLE_INSERTED), 150u);
  EXPECT_GT(counted(XG_TABLE_EVICTED), 0u);
  if (GetParam().refuses) {
    EXPECT_GT(counted(XG_TABLE_REFUSED), 0u);
  }
  for (u32 i = 0; i < GetParam().outcomes; i++) EXPECT_GT(counted(XG_TABLE_OWN + i), 0u) << i;
  u32 sent = 0;  // by the host
  for (std::size_t i = 0; i < results.size(); i++) {
    const xg_descriptor& at = traffic.descriptors[i];
    if (at.offset < XG_METADATA_SIZE || at.offset > traffic.region.size()) continue;
    xg_metadata metadata;
    std::memcpy(&metadata, traffic.region.base() + at.offset - XG_METADATA_SIZE, sizeof(metadata));
    if ((metadata.flags & XG_PKT_EGRESS) == 0 || results[i].verdict == XG_ABORTED) continue;
    sent++;
    EXPECT_EQ(results[i].verdict, XG_PASS) << "no stage decides it";
    EXPECT_EQ(results[i].flags, 0u);
  }
  EXPECT_GT(sent, results.size() / GetParam().sent_by_host);
  if (name == "composed") {
    u32 cached_drops = 0;
    u32 let_go = 0;  // forwarded behind a table: not cached
    for (const xg_result& result : results) {
      const bool caches = (result.flags & XG_RES_CACHE) != 0;
      cached_drops += caches && XG_VERDICT_ACTION(result.verdict) == XG_DROP ? 1 : 0;
      let_go += !caches && XG_VERDICT_ACTION(result.verdict) == XG_TX ? 1 : 0;
    }
    EXPECT_GT(cached_drops, 5u);
    EXPECT_GT(let_go, 5u);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, TablesVariety, testing::ValuesIn(all_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace xdpgpu::tests
