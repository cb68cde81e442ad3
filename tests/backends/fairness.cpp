// SPDX-License-Identifier: MIT
//
// Queues of one device beside each other: one that is flooded holds back another by the batches that were in
// flight before, and not by more.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::microseconds;

constexpr u32 kFloodBatch = 4096, kFloodDepth = 4;
constexpr u32 kProbes = 24;
// What the scheduler of two busy cores may take from a thread.
constexpr microseconds kScheduler{20'000};

class Fairness : public testing::TestWithParam<Target> {};

// Keeps every slot of its queue in flight until told to stop.
class Flood {
 public:
  Flood(gpu::Queue& queue, const Traffic& traffic)
      : queue_(queue),
        traffic_(traffic),
        count_(cut(traffic.descriptors, 0, kFloodBatch - 64, kFloodBatch)),
        thread_([this] { run(); }) {}
  ~Flood() { stop(); }
  void stop() {
    stop_ = true;
    if (thread_.joinable()) thread_.join();
  }
  u32 batches() const { return batches_; }

 private:
  void run() {
    while (!stop_) {
      while (gpu::Slot* slot = queue_.acquire()) {
        std::copy_n(traffic_.descriptors.begin(), count_, slot->descriptors);
        if (queue_.submit(slot, count_, kGeneration) != gpu::Submit::ok) return;
      }
      if (gpu::Slot* slot = queue_.poll()) {
        queue_.release(slot);
        ++batches_;
      } else {
        std::this_thread::yield();
      }
    }
    while (gpu::Slot* slot = wait(queue_)) queue_.release(slot);
  }

  gpu::Queue& queue_;
  const Traffic& traffic_;
  const u32 count_;
  std::atomic<bool> stop_{false};
  std::atomic<u32> batches_{0};
  std::thread thread_;  // last: it uses the others
};

TEST_P(Fairness, AFloodedQueueDoesNotStarveAnother) {
  Random random(test_seed());
  SCOPED_TRACE(test_seed());
  const auto settings = policy_case("composed", random);
  const Traffic traffic = random_traffic(random, kFloodBatch, static_cast<u32>(settings.size()));
  ASSERT_GE(traffic.descriptors.size(), kFloodBatch);
  const auto should = expected(traffic, settings);
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  ASSERT_TRUE(device->load(kGeneration, gpu::Pipelines::compile(settings).value()));
  auto flooded = device->open_queue(GetParam().queue(kFloodBatch, kFloodDepth));
  ASSERT_TRUE(flooded) << flooded.error();
  auto quiet = device->open_queue(GetParam().queue(64, 2));
  ASSERT_TRUE(quiet) << quiet.error();

  const u32 few = cut(traffic.descriptors, 0, 1, 64);  // one packet
  const std::vector<xg_descriptor> probe(traffic.descriptors.begin(), traffic.descriptors.begin() + few);
  const Answers answers(should.begin(), should.begin() + few);
  const auto took = [&] {
    const auto start = Clock::now();
    expect_equal(judge(**quiet, probe, few, kGeneration), answers, probe);
    return std::chrono::duration_cast<microseconds>(Clock::now() - start);
  };
  for (u32 i = 0; i < 10; ++i) took();

  Flood flood(**flooded, traffic);
  const auto deadline = Clock::now() + kPatience;
  while (flood.batches() < 2 * kFloodDepth && Clock::now() < deadline) std::this_thread::yield();
  std::vector<microseconds> waits;
  const auto start = Clock::now();
  const u32 before = flood.batches();
  // On a busy machine the flood is slow.
  while ((waits.size() < kProbes || flood.batches() - before < kFloodDepth) && Clock::now() < deadline) {
    waits.push_back(took());
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const auto elapsed = std::chrono::duration_cast<microseconds>(Clock::now() - start);
  const u32 batches = flood.batches() - before;
  flood.stop();

  ASSERT_GE(waits.size(), kProbes);
  ASSERT_GE(batches, kFloodDepth) << "there was no flood";
  const microseconds a_batch = elapsed / batches;
  std::sort(waits.begin(), waits.end());
  const auto median = waits[waits.size() / 2];
  RecordProperty("median_us", std::to_string(median.count()));
  RecordProperty("flood_batch_us", std::to_string(a_batch.count()));
  EXPECT_LE(median, (kFloodDepth + 1) * a_batch + kScheduler)
      << "the flood's batches took " << a_batch.count() << " us each";
}

INSTANTIATE_TEST_SUITE_P(Backends, Fairness, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace xdpgpu::tests
