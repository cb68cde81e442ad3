// SPDX-License-Identifier: MIT
//
// Queues of one device at the same tables at the same time: a bucket of so many tokens lets so many packets
// through, whichever queues they came by, and each packet is counted.
#include <algorithm>
#include <cstddef>
#include <thread>

#include "gpu/table_report.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

constexpr u32 kQueues = 4, kSources = 48, kEach = 40;  // packets of each source, in each queue
constexpr u32 kBurst = 60;
constexpr u64 kNow = 1'000'000'000'000;

// UDP, `kEach` packets of each source, the sources by turns; all at the same time.
Traffic sources() {
  constexpr u32 kPackets = kSources * kEach;
  Traffic traffic{FrameRegion(u64{kPackets} * XG_CHUNK_SIZE), {}};
  std::vector<u8> frame{0x02, 0, 0, 0,  0,  0x0a, 0x02, 0, 0,  0,  0, 0x0b, 0x08, 0x00,  // Ethernet
                        0x45, 0, 0, 32, 0,  0,    0,    0, 64, 17, 0, 0,                 // IPv4
                        10,   1, 2, 0,  10, 9,    9,    9,                               // addresses
                        0x30, 1, 0, 80, 0,  12,   0,    0, 1,  2,  3, 4};                // UDP
  for (u32 i = 0; i < kPackets; i++) {
    frame[29] = static_cast<u8>(i % kSources);
    const u64 offset = u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA;
    traffic.descriptors.push_back(place(traffic.region, offset, frame, 0, i));
    std::memcpy(traffic.region.base() + offset - XG_METADATA_SIZE + offsetof(xg_metadata, rx_time_ns), &kNow,
                sizeof(kNow));
  }
  return traffic;
}

class QueuesAtOnce : public testing::TestWithParam<Target> {};

TEST_P(QueuesAtOnce, NeitherLoseNorMakeTokens) {
  const Traffic traffic = sources();
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

  const auto reports = gpu::report_tables(*device, kGeneration, *pipelines, kNow);
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
