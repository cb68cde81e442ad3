// SPDX-License-Identifier: MIT
//
// Batches through tables from several queues of a device, and beside batches whose pipelines have none.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <deque>
#include <thread>

#include "gpu/stages/table.h"
#include "gpu/way_chooser.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

constexpr u32 kPackets = 1500, kPacketsOnVulkan = 400;
constexpr u32 kBatch = 48, kCapacity = kBatch + 64;
constexpr u32 kTableless = kGeneration + 1;
constexpr gpu::CompileOptions kOptions{{0x0123456789abcdef, 0xfedcba9876543210}};

std::vector<gpu::PipelineSettings> with_tables() {
  gpu::RateLimitSettings limit;
  limit.packets_per_second = 5;
  limit.burst_packets = 3;
  limit.table = {64, gpu::TableSettings::Evict::lru};
  gpu::ConntrackSettings connections;
  connections.egress = false;
  connections.table = {512, gpu::TableSettings::Evict::lru};
  return {{"both", {connections, limit}}};
}

std::vector<std::vector<u32>> tables_of(gpu::Device& device, const gpu::Pipelines& pipelines) {
  std::vector<std::vector<u32>> all;
  for (u32 i = 0; i < pipelines.states().size(); i++) {
    const auto read =
        device.read_state(kGeneration, i, 0, all.emplace_back(std::vector<u32>(pipelines.states()[i].words)));
    EXPECT_TRUE(read) << read.error();
  }
  return all;
}

class Turns : public testing::TestWithParam<Target> {
 protected:
  Traffic make_traffic() const {
    Random random(test_seed());
    return conversations(random, GetParam().kind == "vulkan" ? kPacketsOnVulkan : kPackets, 1);
  }
};

std::vector<Target> launched_targets() {
  std::vector<Target> targets;
  for (const Target& target : all_targets())
    if (target.drive == gpu::Drive::launched) targets.push_back(target);
  return targets;
}
INSTANTIATE_TEST_SUITE_P(Backends, Turns, testing::ValuesIn(launched_targets()), target_name);

// Two queues of every way in which the device can be driven, each batch another one's, each over before the
// next one begins: the order of the batches is the order at the tables.
TEST_P(Turns, QueuesShareTheTables) {
  SCOPED_TRACE(fmt::format("XDPGPU_TEST_SEED={}", test_seed()));
  const Traffic traffic = make_traffic();
  const auto pipelines = gpu::Pipelines::compile(with_tables(), kOptions).value();
  gpu::reference::Judge reference(with_tables(), kOptions);
  const Answers should = answers_of(reference, traffic.region.bytes(), traffic.descriptors, kGeneration);

  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  std::vector<gpu::Drive> drives(2, gpu::Drive::launched);
  if (device->info().persistent) drives.insert(drives.end(), 2, gpu::Drive::persistent);
  if (device->info().graph) drives.insert(drives.end(), 2, gpu::Drive::graph);
  if (GetParam().kind == "cuda") drives.insert(drives.end(), 2, gpu::Drive::automatic);
  ASSERT_TRUE(device->load(kGeneration, pipelines));
  std::vector<std::unique_ptr<gpu::Queue>> queues;
  for (const gpu::Drive drive : drives) {
    auto queue = device->open_queue({kCapacity, 2, drive});
    ASSERT_TRUE(queue) << queue.error();
    queues.push_back(*std::move(queue));
  }

  Answers is;
  for (std::size_t first = 0, turn = 0; first < traffic.descriptors.size(); turn++) {
    const u32 count = cut(traffic.descriptors, first, kBatch, kCapacity);
    const std::vector<xg_descriptor> batch(
        traffic.descriptors.begin() + static_cast<std::ptrdiff_t>(first),
        traffic.descriptors.begin() + static_cast<std::ptrdiff_t>(first + count));
    const auto answers = judge(*queues[turn % queues.size()], batch, count, kGeneration);
    if (HasFatalFailure()) return;
    is.insert(is.end(), answers.begin(), answers.end());
    first += count;
  }
  expect_equal(is, should, traffic.descriptors);
  EXPECT_EQ(tables_of(*device, *pipelines), reference.tables());
}

// Every third batch is of a generation without tables, and as many are in flight as the queue takes: they
// come back in their order.
TEST_P(Turns, BatchesWithoutTablesKeepTheirPlace) {
  SCOPED_TRACE(fmt::format("XDPGPU_TEST_SEED={}", test_seed()));
  const Traffic traffic = make_traffic();
  const std::vector<gpu::PipelineSettings> tableless{{"main", {gpu::L2fwdSettings{}}}};
  const auto pipelines = gpu::Pipelines::compile(with_tables(), kOptions).value();
  gpu::reference::Judge reference(with_tables(), kOptions);

  struct Batch {
    std::vector<xg_descriptor> descriptors;
    u32 generation;
    Answers should;
  };
  std::vector<Batch> batches;
  for (std::size_t first = 0; first < traffic.descriptors.size();) {
    const u32 count = cut(traffic.descriptors, first, kBatch, kCapacity);
    Batch& batch = batches.emplace_back();
    const auto begin = traffic.descriptors.begin() + static_cast<std::ptrdiff_t>(first);
    batch.descriptors.assign(begin, begin + count);
    batch.generation = batches.size() % 3 == 0 ? kTableless : kGeneration;
    for (const xg_descriptor& one : batch.descriptors) {
      if (one.offset < XG_METADATA_SIZE || one.offset > traffic.region.size()) continue;
      u8* const at =
          traffic.region.base() + one.offset - XG_METADATA_SIZE + offsetof(xg_metadata, generation);
      std::memcpy(at, &batch.generation, sizeof(batch.generation));
    }
    first += count;
  }
  gpu::reference::Judge without(tableless);
  for (Batch& batch : batches) {
    gpu::reference::Judge& judge = batch.generation == kGeneration ? reference : without;
    batch.should = answers_of(judge, traffic.region.bytes(), batch.descriptors, batch.generation);
  }

  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  auto queue = device->open_queue(GetParam().queue(kCapacity, 8));
  ASSERT_TRUE(queue) << queue.error();
  ASSERT_TRUE(device->load(kGeneration, pipelines));
  ASSERT_TRUE(device->load(kTableless, gpu::Pipelines::compile(tableless).value()));
  std::size_t taken = 0;
  const auto take = [&] {
    gpu::Slot* slot = wait(**queue);
    ASSERT_NE(slot, nullptr) << "a batch did not come back";
    const Batch& batch = batches[taken++];
    ASSERT_FALSE(slot->failed);
    ASSERT_EQ(slot->generation, batch.generation);
    ASSERT_EQ(slot->count, batch.descriptors.size());
    expect_equal(answers_in(*slot), batch.should, batch.descriptors);
    (*queue)->release(slot);
  };
  for (const Batch& batch : batches) {
    gpu::Slot* slot = (*queue)->acquire();
    if (slot == nullptr) {
      take();
      if (HasFatalFailure()) return;
      slot = (*queue)->acquire();
      ASSERT_NE(slot, nullptr);
    }
    poison(slot, static_cast<u32>(batch.descriptors.size()));
    std::copy(batch.descriptors.begin(), batch.descriptors.end(), slot->descriptors);
    ASSERT_EQ((*queue)->submit(slot, static_cast<u32>(batch.descriptors.size()), batch.generation),
              gpu::Submit::ok);
  }
  while (taken < batches.size() && !HasFatalFailure()) take();
  EXPECT_EQ(tables_of(*device, *pipelines), reference.tables());
}

// Small batches and large ones by turns, as many in flight as the queue takes: whichever way it chooses for
// them, the order of the batches is the order at the tables. The large ones begin while small ones are under
// way; small ones that follow on a pause are quiet.
TEST_P(Turns, AnAutomaticQueueGoesBothWays) {
  SCOPED_TRACE(fmt::format("XDPGPU_TEST_SEED={}", test_seed()));
  struct Phase {
    u32 batch, batches;
    std::chrono::milliseconds pause;  // before it
  };
  constexpr auto kPause = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::nanoseconds(3 * gpu::WayChooser::kHoldNs));
  constexpr u32 kLarge = 1500, kLargest = kLarge + 64;
  const bool slow = GetParam().kind == "vulkan";
  const u32 batches = slow ? 1 : 6;
  const std::vector<Phase> phases{{kBatch, batches, {}},
                                  {kLarge, batches, {}},
                                  {kBatch, batches, kPause},
                                  {slow ? kBatch : kLarge, batches, {}},
                                  {kBatch, batches, kPause}};
  Random random(test_seed());
  const Traffic traffic = conversations(random, slow ? 1800 : 2 * 6 * kLargest + 3 * 6 * kCapacity, 1);
  const auto pipelines = gpu::Pipelines::compile(with_tables(), kOptions).value();
  gpu::reference::Judge reference(with_tables(), kOptions);

  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  ASSERT_TRUE(device->load(kGeneration, pipelines));
  auto opened = device->open_queue({kLargest, 4, gpu::Drive::automatic});
  ASSERT_TRUE(opened) << opened.error();
  gpu::Queue& queue = **opened;
  Answers is;
  const auto take = [&] {
    gpu::Slot* slot = wait(queue);
    ASSERT_NE(slot, nullptr) << "a batch did not come back";
    ASSERT_FALSE(slot->failed);
    append(is, answers_in(*slot));
    queue.release(slot);
  };
  std::size_t first = 0;
  for (const Phase& phase : phases) {
    while (phase.pause.count() != 0 && queue.in_flight() != 0 && !HasFatalFailure()) take();
    std::this_thread::sleep_for(phase.pause);
    for (u32 i = 0; i < phase.batches && first < traffic.descriptors.size(); i++) {
      gpu::Slot* slot = queue.acquire();
      if (slot == nullptr) {
        take();
        if (HasFatalFailure()) return;
        slot = queue.acquire();
        ASSERT_NE(slot, nullptr);
      }
      const u32 count = cut(traffic.descriptors, first, phase.batch, kLargest);
      std::copy_n(traffic.descriptors.begin() + static_cast<std::ptrdiff_t>(first), count, slot->descriptors);
      poison(slot, count);
      ASSERT_EQ(queue.submit(slot, count, kGeneration), gpu::Submit::ok);
      first += count;
      if (i != 0) continue;
      const gpu::Choice quick{gpu::Drive::persistent, gpu::Reason::keeps_up};
      const gpu::Choice for_the_table{gpu::Drive::launched, gpu::Reason::table};
      EXPECT_EQ(queue.choice(), GetParam().kind != "cuda" ? gpu::Choice{}
                                : phase.batch == kLarge   ? for_the_table
                                                          : quick)
          << "phase " << &phase - phases.data();
    }
  }
  while (queue.in_flight() != 0 && !HasFatalFailure()) take();
  const std::vector<xg_descriptor> judged(traffic.descriptors.begin(),
                                          traffic.descriptors.begin() + static_cast<std::ptrdiff_t>(first));
  const Answers should = answers_of(reference, traffic.region.bytes(), judged, kGeneration);
  expect_equal(is, should, judged);
  EXPECT_EQ(tables_of(*device, *pipelines), reference.tables());
}

// Batches of several queues at the tables at once, small and large ones by turns. In which order they come
// there is open: the limits are far, so that neither the answers hang on it, nor how many packets came to
// each set, nor its clock.
TEST_P(Turns, QueuesAtOnce) {
  SCOPED_TRACE(fmt::format("XDPGPU_TEST_SEED={}", test_seed()));
  constexpr std::array<u32, 3> kBatches{900, 48, 2500};
  constexpr u32 kLargest = 2500 + 64;
  constexpr u32 kManyPackets = 40'000;
  const bool slow = GetParam().kind == "vulkan";
  Random random(test_seed());
  const Traffic traffic = conversations(random, slow ? kPacketsOnVulkan : kManyPackets, 1);
  gpu::RateLimitSettings sources;
  sources.packets_per_second = sources.burst_packets = 1'000'000'000;
  sources.table = {64, gpu::TableSettings::Evict::lru};
  gpu::RateLimitSettings flows = sources;
  flows.per = gpu::RateLimitSettings::Per::flow;
  flows.table = {2048, gpu::TableSettings::Evict::fifo};
  const std::vector<gpu::PipelineSettings> settings{{"main", {sources, flows}}};
  const auto pipelines = gpu::Pipelines::compile(settings, kOptions).value();
  gpu::reference::Judge reference(settings, kOptions);
  const Answers should = answers_of(reference, traffic.region.bytes(), traffic.descriptors, kGeneration);

  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  std::vector<gpu::Drive> drives(3, gpu::Drive::launched);
  if (device->info().persistent) drives.push_back(gpu::Drive::persistent);
  if (GetParam().kind == "cuda") drives.insert(drives.end(), 2, gpu::Drive::automatic);
  ASSERT_TRUE(device->load(kGeneration, pipelines));
  struct Feed {
    std::unique_ptr<gpu::Queue> queue;
    std::deque<std::size_t> firsts;  // of the batches in flight
  };
  std::vector<Feed> feeds;
  for (const gpu::Drive drive : drives) {
    auto queue = device->open_queue({kLargest, 2, drive});
    ASSERT_TRUE(queue) << queue.error();
    feeds.push_back({*std::move(queue), {}});
  }
  Answers is(should.size());
  const auto take = [&](Feed& feed) {
    gpu::Slot* slot = wait(*feed.queue);
    ASSERT_NE(slot, nullptr) << "a batch did not come back";
    ASSERT_FALSE(slot->failed);
    const Answers answers = answers_in(*slot);
    std::copy(answers.begin(), answers.end(), is.begin() + static_cast<std::ptrdiff_t>(feed.firsts.front()));
    feed.firsts.pop_front();
    feed.queue->release(slot);
  };
  for (std::size_t first = 0, turn = 0; first < traffic.descriptors.size(); turn++) {
    Feed& feed = feeds[turn % feeds.size()];
    gpu::Slot* slot = feed.queue->acquire();
    if (slot == nullptr) {
      take(feed);
      if (HasFatalFailure()) return;
      slot = feed.queue->acquire();
      ASSERT_NE(slot, nullptr);
    }
    const u32 count = cut(traffic.descriptors, first, kBatches[turn % kBatches.size()], kLargest);
    std::copy_n(traffic.descriptors.begin() + static_cast<std::ptrdiff_t>(first), count, slot->descriptors);
    poison(slot, count);
    ASSERT_EQ(feed.queue->submit(slot, count, kGeneration), gpu::Submit::ok);
    feed.firsts.push_back(first);
    first += count;
  }
  for (Feed& feed : feeds)
    while (!feed.firsts.empty() && !HasFatalFailure()) take(feed);
  expect_equal(is, should, traffic.descriptors);

  const auto came = [](const std::vector<std::vector<u32>>& tables) {
    std::vector<u32> words;
    for (const auto& table : tables) {
      words.push_back(table[2 * XG_TABLE_TOUCHES]);
      for (std::size_t set = XG_TABLE_HEAD; set < table.size(); set += XG_SET_WORDS)
        for (const u32 word : {XG_SET_TIME, XG_SET_TIME + 1, XG_SET_TURNS})
          words.push_back(table[set + word]);
    }
    return words;
  };
  EXPECT_EQ(came(tables_of(*device, *pipelines)), came(reference.tables()));
}

}  // namespace
}  // namespace xdpgpu::tests
