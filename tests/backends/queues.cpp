// SPDX-License-Identifier: MIT
//
// Batches and generations: order, depth, what is refused, several queues at once.
#include <atomic>
#include <chrono>
#include <ctime>
#include <thread>

#include "gpu/slots.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

std::vector<gpu::PipelineSettings> always(gpu::AclRule::Action action) {
  gpu::AclSettings acl;
  acl.otherwise = action;
  return {{"always", {acl}}};
}

std::shared_ptr<const gpu::Pipelines> compiled(const std::vector<gpu::PipelineSettings>& settings) {
  auto pipelines = gpu::Pipelines::compile(settings);
  EXPECT_TRUE(pipelines) << pipelines.error();
  return *pipelines;
}

// `packets` well-formed frames of a generation each.
Traffic frames_of(const std::vector<u32>& generations) {
  Traffic traffic{FrameRegion((generations.size() + 1) / 2 * 4096), {}};
  for (std::size_t i = 0; i < generations.size(); i++) {
    xg_metadata metadata{};
    metadata.generation = generations[i];
    metadata.sequence = static_cast<u32>(i);
    metadata.flags = XG_PKT_IPV4;
    metadata.l3_offset = 14;
    const u64 offset = i * XG_CHUNK_SIZE + XG_FRAME_DATA;
    std::memset(traffic.region.base() + offset, static_cast<int>(i), 64);
    std::memcpy(traffic.region.base() + offset - XG_METADATA_SIZE, &metadata, sizeof(metadata));
    traffic.descriptors.push_back({offset, 64, 0});
  }
  return traffic;
}

class Queues : public testing::TestWithParam<Target> {};

TEST_P(Queues, SeveralBatchesInFlightComeBackInOrder) {
  const Traffic traffic = frames_of(std::vector<u32>(16, kGeneration));
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  gpu::LoadBalanceSettings balance;
  balance.backends.resize(1);
  const std::vector<gpu::PipelineSettings> settings{{"back", {balance}}};
  ASSERT_TRUE(device->load(kGeneration, compiled(settings)));
  auto opened = device->open_queue(GetParam().queue(4, 3));
  ASSERT_TRUE(opened) << opened.error();
  gpu::Queue& queue = **opened;
  EXPECT_EQ(queue.poll(), nullptr) << "nothing was submitted";

  // Submitted in another order than acquired: the order of submission is what counts.
  std::vector<gpu::Slot*> slots;
  for (u32 i = 0; i < 3; i++) slots.push_back(queue.acquire());
  for (gpu::Slot* slot : slots) {
    ASSERT_NE(slot, nullptr);
    EXPECT_EQ(slot->capacity, 4u);
    EXPECT_LT(slot->index, 3u);
  }
  EXPECT_EQ(queue.acquire(), nullptr) << "all three are held";
  const std::array<u32, 3> order{2, 0, 1};
  for (u32 round = 0; round < 50; round++) {
    for (u32 i : order) {
      slots[i]->descriptors[0] = traffic.descriptors[(round + i) % 16];
      poison(slots[i], 1);
      ASSERT_EQ(queue.submit(slots[i], 1, kGeneration), gpu::Submit::ok);
    }
    EXPECT_EQ(queue.in_flight(), 3u);
    EXPECT_EQ(queue.acquire(), nullptr) << "all three are in flight";
    for (u32 i : order) {
      gpu::Slot* done = wait(queue);
      ASSERT_EQ(done, slots[i]);
      EXPECT_FALSE(done->failed);
      EXPECT_EQ(done->count, 1u);
      EXPECT_EQ(done->results[0].verdict, XG_VERDICT(XG_TX, 0u, 1u, 0u));
      EXPECT_EQ(u32{done->edits[0].src_mac[3]}, (round + i) % 16);
    }
    EXPECT_EQ(queue.in_flight(), 0u);
    for (gpu::Slot* slot : slots) queue.release(slot);
    for (auto& slot : slots) slot = queue.acquire();
  }
}

TEST_P(Queues, UnknownGenerationIsRefusedAndTheSlotStaysTheCallers) {
  const Traffic traffic = frames_of({kGeneration, kGeneration});
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  auto queue = device->open_queue(GetParam().queue(8, 1));
  ASSERT_TRUE(queue) << queue.error();
  gpu::Slot* slot = (*queue)->acquire();
  slot->descriptors[0] = traffic.descriptors[0];
  EXPECT_EQ((*queue)->submit(slot, 1, kGeneration), gpu::Submit::unknown_generation);
  EXPECT_EQ((*queue)->in_flight(), 0u);
  EXPECT_EQ((*queue)->poll(), nullptr);

  const auto pipelines = compiled(always(gpu::AclRule::Action::drop));
  ASSERT_TRUE(device->load(kGeneration, pipelines));
  EXPECT_FALSE(device->load(kGeneration, pipelines)) << "a generation is never reused";
  EXPECT_EQ((*queue)->submit(slot, 1, kGeneration), gpu::Submit::ok);
  ASSERT_EQ(wait(**queue), slot);
  EXPECT_EQ(slot->results[0].verdict, XG_VERDICT(XG_DROP, 0u, 1u, 0u));

  device->unload(kGeneration);
  EXPECT_EQ((*queue)->submit(slot, 1, kGeneration), gpu::Submit::unknown_generation);
  device->unload(kGeneration);  // again: nothing happens
  (*queue)->release(slot);
}

TEST_P(Queues, EachBatchIsJudgedByItsOwnGeneration) {
  const Traffic traffic = frames_of({1, 2, 1, 2, 0, 0xffffffff});
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  ASSERT_TRUE(device->load(1, compiled(always(gpu::AclRule::Action::drop))));
  ASSERT_TRUE(device->load(2, compiled(always(gpu::AclRule::Action::pass))));
  ASSERT_TRUE(device->load(0, compiled(always(gpu::AclRule::Action::next))));
  ASSERT_TRUE(device->load(0xffffffff, compiled({})));
  auto queue = device->open_queue(GetParam().queue(8, 4));
  ASSERT_TRUE(queue) << queue.error();
  const auto verdicts = [&](u32 generation) {
    std::vector<u32> actions;
    for (const xg_result& result : judge(**queue, traffic.descriptors, 8, generation))
      actions.push_back(XG_VERDICT_ACTION(result.verdict));
    return actions;
  };
  constexpr u32 no = XG_ABORTED;
  EXPECT_EQ(verdicts(1), (std::vector<u32>{XG_DROP, no, XG_DROP, no, no, no}));
  EXPECT_EQ(verdicts(2), (std::vector<u32>{no, XG_PASS, no, XG_PASS, no, no}));
  EXPECT_EQ(verdicts(0), (std::vector<u32>{no, no, no, no, XG_PASS, no}));
  EXPECT_EQ(verdicts(0xffffffff), (std::vector<u32>{no, no, no, no, no, no})) << "it has no pipelines";
}

TEST_P(Queues, HoldsManyGenerationsAndRefusesTheOneTooMany) {
  const Traffic traffic = frames_of({kGeneration, kGeneration});
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  const auto pipelines = compiled(always(gpu::AclRule::Action::drop));
  u32 generation = 0;
  while (generation < 1000 && device->load(generation, pipelines)) generation++;
  EXPECT_GE(generation, 16u);
  EXPECT_LT(generation, 1000u);
  device->unload(3);
  EXPECT_TRUE(device->load(5000, pipelines));
}

TEST_P(Queues, TwoQueuesOfTwoThreadsWhileGenerationsComeAndGo) {
  Random random(test_seed());
  SCOPED_TRACE(test_seed());
  const auto settings = policy_case("composed", random);
  const Traffic traffic = random_traffic(random, 2000, static_cast<u32>(settings.size()));
  const auto should = expected(traffic, settings);
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  const auto pipelines = compiled(settings);
  ASSERT_TRUE(device->load(kGeneration, pipelines));

  std::array<Answers, 2> results;
  std::array<std::unique_ptr<gpu::Queue>, 2> queues;
  for (auto& queue : queues) {
    auto opened = device->open_queue(GetParam().queue(256, 4));
    ASSERT_TRUE(opened) << opened.error();
    queue = *std::move(opened);
  }
  std::atomic<u32> running{2};
  std::vector<std::jthread> threads;
  for (u32 i = 0; i < 2; i++)
    threads.emplace_back([&, i] {
      for (u32 round = 0; round < 5; round++)
        results[i] = judge(*queues[i], traffic.descriptors, i == 0 ? 13 : 200, kGeneration);
      running--;
    });
  for (u32 generation = 100; running > 0; generation++) {
    EXPECT_TRUE(device->load(generation, pipelines));
    device->unload(generation);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  threads.clear();
  for (const auto& result : results) expect_equal(result, should, traffic.descriptors);
}

// The queue's contract: one thread feeds, another one retires.
TEST_P(Queues, OneThreadFeedsAndAnotherOneRetires) {
  Random random(test_seed());
  SCOPED_TRACE(test_seed());
  const auto settings = policy_case("composed", random);
  const Traffic traffic = random_traffic(random, 4000, static_cast<u32>(settings.size()));
  const auto should = expected(traffic, settings);
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  ASSERT_TRUE(device->load(kGeneration, compiled(settings)));
  auto opened = device->open_queue(GetParam().queue(256, 3));
  ASSERT_TRUE(opened) << opened.error();
  gpu::Queue& queue = **opened;

  std::atomic<bool> over{false};
  u32 refused = 0;
  std::jthread feeder([&] {
    for (u32 round = 0; round < 4; round++)
      for (std::size_t first = 0; first < traffic.descriptors.size();) {
        gpu::Slot* slot = queue.acquire();
        if (slot == nullptr) {
          std::this_thread::yield();
          continue;
        }
        const u32 count = cut(traffic.descriptors, first, round == 0 ? 1 : 150, slot->capacity);
        std::copy_n(traffic.descriptors.begin() + static_cast<std::ptrdiff_t>(first), count,
                    slot->descriptors);
        refused += queue.submit(slot, count, kGeneration) == gpu::Submit::ok ? 0 : 1;
        first += count;
      }
    over = true;
  });
  Answers results;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while ((!over || queue.in_flight() > 0) && std::chrono::steady_clock::now() < deadline) {
    gpu::Slot* slot = queue.poll();
    if (slot == nullptr) {
      std::this_thread::yield();
      continue;
    }
    EXPECT_FALSE(slot->failed);
    append(results, answers_in(*slot));
    queue.release(slot);
  }
  feeder.join();
  EXPECT_EQ(refused, 0u);
  ASSERT_EQ(results.size(), 4 * should.size());
  for (std::size_t round = 0; round < 4; round++) {
    const auto from = results.begin() + static_cast<std::ptrdiff_t>(round * should.size());
    expect_equal({from, from + static_cast<std::ptrdiff_t>(should.size())}, should, traffic.descriptors);
  }
}

// Batches that nobody waits for: the queue's destructor does.
TEST_P(Queues, AQueueMayGoWhileItsBatchesFly) {
  const Traffic traffic = frames_of(std::vector<u32>(64, kGeneration));
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  ASSERT_TRUE(device->load(kGeneration, compiled(always(gpu::AclRule::Action::drop))));
  for (u32 round = 0; round < 20; round++) {
    auto queue = device->open_queue(GetParam().queue(64, 4));
    ASSERT_TRUE(queue) << queue.error();
    while (gpu::Slot* slot = (*queue)->acquire()) {
      std::copy_n(traffic.descriptors.begin(), 64, slot->descriptors);
      ASSERT_EQ((*queue)->submit(slot, 64, kGeneration), gpu::Submit::ok);
    }
  }
}

// A kernel that stays ends in a pause and is back at the next batch; meanwhile the device serves others.
TEST_P(Queues, IsThereAgainAfterAPause) {
  const Traffic traffic = frames_of(std::vector<u32>(600, kGeneration));
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  ASSERT_TRUE(device->load(kGeneration, compiled(always(gpu::AclRule::Action::drop))));
  auto queue = device->open_queue(GetParam().queue(600, 2));
  ASSERT_TRUE(queue) << queue.error();
  const auto all_dropped = [&](gpu::Queue& by, u32 batch) {
    for (const xg_result& result : judge(by, traffic.descriptors, batch, kGeneration))
      if (result.verdict != XG_VERDICT(XG_DROP, 0u, 1u, 0u)) return false;
    return true;
  };
  EXPECT_TRUE(all_dropped(**queue, 1));
  EXPECT_TRUE(all_dropped(**queue, 600));
  {
    auto other = device->open_queue({.batch_capacity = 64, .depth = 2});
    ASSERT_TRUE(other) << other.error();
    EXPECT_TRUE(all_dropped(**other, 64));
  }
  ASSERT_TRUE(device->load(kGeneration + 1, compiled(always(gpu::AclRule::Action::pass))));
  for (const auto pause : {50, 99, 100, 101, 300}) {
    std::this_thread::sleep_for(std::chrono::milliseconds(pause));
    EXPECT_TRUE(all_dropped(**queue, 600)) << "after " << pause << " ms";
  }
  const auto start = std::chrono::steady_clock::now();
  queue->reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
}

TEST(Drives, ADeviceSaysWhichItHas) {
  const Traffic traffic = frames_of({kGeneration});
  for (const gpu::DeviceInfo& info : gpu::list_devices()) {
    if (!info.usable) continue;
    auto device = gpu::open_device(info.name);
    ASSERT_TRUE(device) << device.error();
    ASSERT_TRUE(
        (*device)->register_frames(traffic.region.base(), traffic.region.size(), gpu::Frames::automatic));
    for (const auto& [drive, has] :
         {std::pair{gpu::Drive::persistent, info.persistent}, {gpu::Drive::graph, info.graph}}) {
      const auto queue = (*device)->open_queue({8, 1, drive});
      EXPECT_EQ(queue.has_value(), has) << info.name;
      if (!queue) {
        EXPECT_NE(queue.error().find("compute.mode"), std::string::npos) << queue.error();
      }
    }
  }
}

u64 process_cpu_ns() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}

TEST(Drives, AThreadThatStaysSleepsWhenNothingComes) {
  const Traffic traffic = frames_of(std::vector<u32>(8, kGeneration));
  auto device = gpu::open_device("cpu");
  ASSERT_TRUE(device) << device.error();
  ASSERT_TRUE(
      (*device)->register_frames(traffic.region.base(), traffic.region.size(), gpu::Frames::in_place));
  ASSERT_TRUE((*device)->load(kGeneration, compiled(always(gpu::AclRule::Action::drop))));
  auto queue = (*device)->open_queue({8, 2, gpu::Drive::persistent});
  ASSERT_TRUE(queue) << queue.error();
  for (u32 round = 0; round < 5; round++) {
    EXPECT_EQ(judge(**queue, traffic.descriptors, 8, kGeneration).size(), 8u);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const u64 before = process_cpu_ns();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    EXPECT_LT(process_cpu_ns() - before, 10'000'000u) << "round " << round;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Queues, testing::ValuesIn(all_targets()), target_name);

TEST(SlotRing, KeepsTheOrderOfSubmissionAcrossFailure) {
  gpu::SlotRing ring({.batch_capacity = 2, .depth = 3});
  std::array<gpu::Slot*, 3> slots{};
  for (auto& slot : slots) slot = ring.acquire();
  EXPECT_EQ(ring.acquire(), nullptr);
  ring.submitted(slots[1], 2, 9);
  ring.submitted(slots[0], 1, 9);
  EXPECT_EQ(ring.in_flight(), 2u);
  EXPECT_EQ(ring.oldest(), slots[1]);
  EXPECT_EQ(ring.retire(false), slots[1]);
  EXPECT_EQ(ring.retire(true), slots[0]);
  EXPECT_FALSE(slots[1]->failed);
  EXPECT_TRUE(slots[0]->failed);
  EXPECT_EQ(ring.oldest(), nullptr);
  ring.release(slots[0]);
  EXPECT_EQ(ring.acquire(), slots[0]);
  EXPECT_FALSE(slots[0]->failed) << "a slot starts anew";
}

}  // namespace
}  // namespace xdpgpu::tests
