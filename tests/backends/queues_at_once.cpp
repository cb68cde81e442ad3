// SPDX-License-Identifier: MIT
//
// Queues of one device at the same tables at the same time: a bucket of so many tokens lets so many packets
// through, whichever queues they came by, and each packet is counted.
#include <algorithm>
#include <thread>

#include "gpu/table_report.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/sources.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

constexpr u32 kQueues = 4, kSources = 48, kEach = 40;  // packets of each source, in each queue
constexpr u32 kBurst = 60;

class QueuesAtOnce : public testing::TestWithParam<Target> {};

TEST_P(QueuesAtOnce, NeitherLoseNorMakeTokens) {
  const Traffic traffic = of_sources(kSources, kEach);
  gpu::RateLimitSettings limit;
  limit.packets_per_second = 1;
  limit.burst_packets = kBurst;
  limit.table.entries = 8192;
  const auto pipelines = gpu::Pipelines::compile({{"limit", {limit}}}).value();
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  ASSERT_TRUE(device->load(kGeneration, pipelines));
  std::vector<std::unique_ptr<gpu::Queue>> queues;
  for (u32 i = 0; i < kQueues; i++) {
    auto queue = device->open_queue(GetParam().queue(64, 3));
    ASSERT_TRUE(queue) << queue.error();
    queues.push_back(std::move(*queue));
  }
  // The first batch of some devices takes long: all begin together behind it.
  std::vector<Answers> results(kQueues);
  std::vector<std::thread> threads;
  threads.reserve(kQueues);
  for (u32 i = 0; i < kQueues; i++)
    threads.emplace_back([&, i] { results[i] = judge(*queues[i], traffic.descriptors, 64, kGeneration); });
  for (std::thread& thread : threads) thread.join();

  std::vector<u32> passed(kSources, 0);
  for (const auto& of_queue : results) {
    ASSERT_EQ(of_queue.size(), traffic.descriptors.size());
    for (u32 i = 0; i < of_queue.size(); i++)
      if (XG_VERDICT_ACTION(of_queue[i].verdict) == XG_PASS) passed[i % kSources]++;
  }
  for (u32 source = 0; source < kSources; source++) EXPECT_EQ(passed[source], kBurst) << "source " << source;

  const auto reports = gpu::report_tables(*device, kGeneration, *pipelines, kSourcesNow);
  ASSERT_TRUE(reports) << reports.error();
  const gpu::TableReport& table = reports->at(0);
  const u64 packets = u64{kQueues} * kSources * kEach;
  EXPECT_EQ(table.touches, packets);
  EXPECT_EQ(table.inserted, kSources);
  EXPECT_EQ(table.outcomes.at(0).second, u64{kSources} * kBurst) << table.outcomes.at(0).first;
  EXPECT_EQ(table.outcomes.at(1).second, packets - u64{kSources} * kBurst) << table.outcomes.at(1).first;
}

INSTANTIATE_TEST_SUITE_P(Backends, QueuesAtOnce, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace xdpgpu::tests
