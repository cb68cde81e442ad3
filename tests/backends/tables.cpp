// SPDX-License-Identifier: MIT
//
// Stages with tables on every device: answers, counters and what is remembered at the end are the sequential
// reference's, however the stream is cut into batches.
#include <fmt/format.h>

#include <cstring>
#include <functional>
#include <span>

#include "gpu/stages/ddos/device.h"
#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"

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

gpu::RateLimitSettings limit(gpu::RateLimitSettings::Per per, u64 pps, u64 bps, gpu::TableSettings table) {
  gpu::RateLimitSettings stage;
  stage.per = per;
  stage.packets_per_second = pps;
  stage.burst_packets = pps == 0 ? 0 : 3;
  stage.bytes_per_second = bps;
  stage.burst_bytes = bps == 0 ? 0 : 400;
  stage.table = table;
  return stage;
}

gpu::ConntrackSettings conntrack(bool loose, gpu::TableSettings table) {
  gpu::ConntrackSettings stage;
  stage.egress = false;
  stage.loose = loose;
  stage.table = table;
  return stage;
}

std::vector<gpu::PipelineSettings> limits() {
  using Per = gpu::RateLimitSettings::Per;
  auto prefixes = limit(Per::dst, 3, 0, {16, Evict::lru});
  prefixes.bits4 = 31;
  prefixes.bits6 = 125;
  auto passes = limit(Per::src, 2, 1000, {8, Evict::random});
  passes.excess = Action::pass;
  return {{"src", {limit(Per::src, 5, 0, {64, Evict::lru})}},
          {"dst", {prefixes}},
          {"flow", {limit(Per::flow, 0, 2000, {32, Evict::fifo}), limit(Per::src, 7, 1500, {8, Evict::lfu})}},
          {"refuses", {limit(Per::flow, 1, 0, {8, Evict::refuse}), passes}}};
}

std::vector<gpu::PipelineSettings> connections() {
  auto drops_new = conntrack(true, {1024, Evict::lru});
  drops_new.on_new = Action::drop;
  auto passes_invalid = conntrack(false, {16, Evict::refuse});
  passes_invalid.on_invalid = Action::pass;
  auto fed = conntrack(false, {1024, Evict::lru});
  fed.egress = true;
  auto closed = fed;
  closed.on_new = closed.on_untracked = Action::drop;
  closed.table = {64, Evict::lfu};
  auto full = fed;
  full.table = {16, Evict::refuse};
  gpu::AclSettings some;
  some.rules.resize(3);
  some.rules[0].src = {prefix4(0x0a000001, 32)};
  some.rules[0].protocols = {6, 17};
  some.rules[0].action = Action::drop;
  some.rules[1].dst_ports = {{53, 53}};
  some.rules[1].action = Action::tx;
  some.rules[2].protocols = {132};
  some.rules[2].action = Action::pass;
  const auto behind = limit(gpu::RateLimitSettings::Per::flow, 20, 0, {64, Evict::lru});
  return {{"fed", {fed, some}},
          {"closed", {closed}},
          {"full", {full, behind, some}},
          {"unsure", {conntrack(false, {16, Evict::random}), behind}},
          {"strict", {conntrack(false, {4096, Evict::lru})}},
          {"loose", {conntrack(true, {16, Evict::fifo})}},
          {"no_new", {drops_new}},
          {"small", {passes_invalid}},
          {"lfu", {conntrack(false, {8, Evict::lfu})}},
          {"random", {conntrack(true, {8, Evict::random})}}};
}

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

gpu::LoadBalanceSettings affinity(gpu::AffinitySettings::Per per, u32 idle_ms, gpu::TableSettings table) {
  gpu::LoadBalanceSettings stage;
  stage.algorithm = gpu::LoadBalanceSettings::Algorithm::maglev;
  stage.table_size = 251;
  for (u32 i = 0; i < 7; i++)
    stage.backends.push_back(
        {fmt::format("b{}", i), {2, 0, 0, 0, 0, static_cast<u8>(i)}, 1 + i % 3, i == 5, 9});
  stage.backends[2].drains = true;
  stage.backends[3].down = true;
  stage.affinity = gpu::AffinitySettings{per, idle_ms, table};
  return stage;
}

std::vector<gpu::PipelineSettings> affinities() {
  using Per = gpu::AffinitySettings::Per;
  auto cached = affinity(Per::flow, 60'000, {1024, Evict::lru});
  cached.cache = true;
  cached.cache_ttl_ms = 30'000;
  auto behind = cached;
  behind.affinity->table = {64, Evict::fifo};
  return {{"flows", {cached}},
          {"clients", {affinity(Per::src, 3'600'000, {8, Evict::refuse}), gpu::L2fwdSettings{}}},
          {"behind a limit",
           {limit(gpu::RateLimitSettings::Per::src, 9, 0, {64, Evict::lru}), behind, gpu::L2fwdSettings{}}},
          {"lfu", {affinity(Per::flow, 10'000'000, {8, Evict::lfu})}},
          {"random", {affinity(Per::src, 500, {8, Evict::random})}}};
}

gpu::DdosSettings ddos(gpu::DdosSettings::Direction direction, u32 window_ms, u32 hold_ms,
                       gpu::TableSettings table) {
  gpu::DdosSettings stage;
  stage.direction = direction;
  stage.window_ms = window_ms;
  stage.hold_ms = hold_ms;
  stage.table = table;
  return stage;
}

// A stage for each metric, and all of them in one.
std::vector<gpu::PipelineSettings> alarms() {
  using Direction = gpu::DdosSettings::Direction;
  using OnDetect = gpu::DdosSettings::OnDetect;
  constexpr std::array<u64, gpu::kDdosMetrics> kThresholds{20, 40, 20'000, 15, 5000, 10, 60, 10'000, 20, 8};
  std::vector<gpu::PipelineSettings> all{{"each", {}}};
  for (u32 m = 0; m < gpu::kDdosMetrics; m++) {
    gpu::DdosSettings one = ddos(Direction::in, 300, 900, {64, Evict::lru});
    one.thresholds[m] = kThresholds[m];
    one.cache = m % 2 == 0;
    one.cache_ttl_ms = m % 4 == 0 ? 400 : 0;
    all.front().stages.emplace_back(one);
  }
  gpu::DdosSettings every = ddos(Direction::in, 1000, 2000, {16, Evict::fifo});
  every.thresholds = kThresholds;
  every.on_detect = OnDetect::drop_sources;
  every.share_percent = 20;
  every.cache = true;
  gpu::DdosSettings leaving = ddos(Direction::out, 100, 5000, {8, Evict::refuse});
  leaving.thresholds = kThresholds;
  leaving.release_percent = 100;
  leaving.on_detect = OnDetect::pass;
  gpu::DdosSettings networks = ddos(Direction::out, 60'000, 1, {8, Evict::random});
  networks.thresholds = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  networks.bits4 = 22;
  networks.bits6 = 63;
  networks.on_detect = OnDetect::drop_sources;
  networks.share_percent = 1;
  networks.release_percent = 1;
  gpu::L2fwdSettings forward;
  forward.cache = true;
  all.push_back({"every", {every, forward}});
  all.push_back(
      {"both ways", {leaving, every, limit(gpu::RateLimitSettings::Per::src, 9, 0, {64, Evict::lru})}});
  all.push_back({"networks", {networks, forward}});
  return all;
}

// All of these, by what is inside of tunnels.
std::vector<gpu::PipelineSettings> by_inner(std::vector<gpu::PipelineSettings> pipelines) {
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
  std::vector<gpu::PipelineSettings> all = by_inner(connections());
  for (gpu::PipelineSettings& one : by_inner(limits())) all.push_back(std::move(one));
  for (gpu::PipelineSettings& one : by_inner(affinities())) all.push_back(std::move(one));
  all.push_back({"by outer headers", {conntrack(true, {256, Evict::lru})}});
  return all;
}
std::vector<gpu::PipelineSettings> inner_alarms() { return by_inner(alarms()); }

Traffic conversations_in_tunnels(Random& random, u32 packets, u32 pipelines) {
  Traffic traffic = conversations(random, packets, pipelines);
  return inside_tunnels(random, std::move(traffic));
}
Traffic floods_in_tunnels(Random& random, u32 packets, u32 pipelines) {
  Traffic traffic = floods(random, packets, pipelines);
  return inside_tunnels(random, std::move(traffic));
}

struct Case {
  const char* name;
  std::vector<gpu::PipelineSettings> (*settings)();
  Traffic (*traffic)(Random&, u32 packets, u32 pipelines) = conversations;
};
constexpr std::array<Case, 7> kCases{{{"limits", limits},
                                      {"connections", connections},
                                      {"composed", composed},
                                      {"affinities", affinities},
                                      {"alarms", alarms, floods},
                                      {"inner_connections", inner_connections, conversations_in_tunnels},
                                      {"inner_alarms", inner_alarms, floods_in_tunnels}}};
void PrintTo(const Case& which, std::ostream* out) { *out << which.name; }

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
    ASSERT_EQ(is[t].size(), should[t].size());
    const auto [at, other] = std::mismatch(is[t].begin(), is[t].end(), should[t].begin());
    if (at == is[t].end()) continue;
    const auto word = at - is[t].begin();
    const auto in_set = (word - XG_TABLE_HEAD) % XG_SET_WORDS;
    ADD_FAILURE() << "table " << t << " word " << word << " (of a set: " << in_set << ") is " << *at
                  << ", the reference has " << *other;
  }
}

class Tables : public testing::TestWithParam<std::tuple<Target, Case>> {
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
  const Case& which = std::get<1>(GetParam());
  const auto settings = which.settings();
  const u32 packets = std::get<0>(GetParam()).kind == "vulkan" ? kPacketsOnVulkan : kPackets;
  check(which.traffic(random, packets, static_cast<u32>(settings.size())), settings);
}

TEST_P(Tables, LargeBatches) {
  if (std::get<0>(GetParam()).kind == "vulkan") GTEST_SKIP() << "as with small batches, and takes long";
  Random random(test_seed());
  const Case& which = std::get<1>(GetParam());
  const auto settings = which.settings();
  check(which.traffic(random, kManyPackets, static_cast<u32>(settings.size())), settings, kLargeCuts,
        kLargeCapacity);
}

TEST_P(Tables, CapturedPackets) {
  const auto settings = std::get<1>(GetParam()).settings();
  const char* directory = std::getenv("XDPGPU_TEST_CAPTURES");
  check(captured_traffic(directory != nullptr ? directory : XDPGPU_TEST_CAPTURES,
                         static_cast<u32>(settings.size())),
        settings);
}

INSTANTIATE_TEST_SUITE_P(Backends, Tables,
                         testing::Combine(testing::ValuesIn(all_targets()), testing::ValuesIn(kCases)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name() + "_" + std::get<1>(test.param).name;
                         });

// The comparison is worth something only if the traffic reaches what it is meant to reach.
class TablesVariety : public testing::TestWithParam<Case> {};

TEST_P(TablesVariety, TrafficReachesEveryOutcome) {
  SCOPED_TRACE(fmt::format("XDPGPU_TEST_SEED={}", test_seed()));
  Random random(test_seed());
  const auto settings = GetParam().settings();
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
  EXPECT_GT(counted(XG_TABLE_TOUCHES), 1500u);
  EXPECT_GT(counted(XG_TABLE_HITS), 60u);
  EXPECT_GT(counted(XG_TABLE_INSERTED), 150u);
  EXPECT_GT(counted(XG_TABLE_EVICTED), 0u);
  if (name != "composed") {
    EXPECT_GT(counted(XG_TABLE_REFUSED), 0u);
  }
  const u32 outcomes = name.ends_with("alarms") ? XG_DDOS_COUNTERS : name == "connections" ? 6 : 2;
  for (u32 i = 0; i < outcomes; i++) EXPECT_GT(counted(XG_TABLE_OWN + i), 0u) << i;
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
  EXPECT_GT(sent, results.size() / (name.ends_with("alarms") ? 20 : 10));
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

INSTANTIATE_TEST_SUITE_P(Backends, TablesVariety, testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace xdpgpu::tests
