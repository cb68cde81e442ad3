// SPDX-License-Identifier: MIT
//
// What a queue of two ways owes its caller: the order of submission, and to the tables that no batch is with
// the device in the one way when the first one goes the other. The device is a fake that says so.
#include "gpu/changing_queue.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <random>
#include <thread>

namespace xdpgpu::gpu {
namespace {

using namespace std::chrono_literals;

constexpr u32 kDepth = 4, kCapacity = 1024, kAlone = 256;
constexpr u32 kTables = 1, kNoTables = 2, kUnknown = 3;  // generations

// Each way finishes its batches in their order, by itself or when it is told to.
class FakeWays {
 public:
  struct Loaded {
    bool tables;
  };
  bool failed() const noexcept { return failed_; }
  const Loaded* find(u32 generation) const noexcept {
    static constexpr Loaded kLoaded[] = {{true}, {false}};
    return generation == kUnknown ? nullptr : &kLoaded[generation - 1];
  }
  static bool has_tables(const Loaded& loaded) noexcept { return loaded.tables; }
  u64 start(Drive drive, const Slot& slot, u32 count, u32, const Loaded&) noexcept {
    if (refuses) return 0;
    const Way& other = way(drive == Drive::persistent ? Drive::launched : Drive::persistent);
    if (other.over < other.given) mixed++;
    if (drive != last) changes++;
    last = drive;
    slot.results[0].verdict = batches++;  // the order at the device
    slot.results[0].detail = count;
    return ++way(drive).given;
  }
  bool through(Drive drive) noexcept {
    if (hangs) return false;
    way(drive).finish(way(drive).given);
    return true;
  }
  Slot* poll(Drive drive, u64 number, SlotRing& ring) noexcept {
    Way& at = way(drive);
    if (failed_) return ring.retire(true);
    if (!hangs && at.over < number && polls_.fetch_add(1) % 3 == 2) at.finish(number);
    return at.over >= number ? ring.retire(false) : nullptr;
  }

  std::atomic<bool> failed_{false}, hangs{false};
  bool refuses = false;
  u32 batches = 0, changes = 0, mixed = 0;
  Drive last = Drive::persistent;

 private:
  struct Way {
    std::atomic<u64> given{0}, over{0};
    void finish(u64 number) noexcept {
      for (u64 at = over; at < number && !over.compare_exchange_weak(at, number);) {
      }
    }
  };
  Way& way(Drive drive) noexcept { return ways_[drive == Drive::persistent ? 0 : 1]; }
  std::array<Way, 2> ways_;
  std::atomic<u32> polls_{0};
};

struct Bench {
  explicit Bench(u32 depth = kDepth)
      : queue({.batch_capacity = kCapacity, .depth = depth, .drive = Drive::automatic}, kAlone),
        results(depth) {
    for (Slot& slot : queue.ring().all()) slot.results = &results[slot.index];
  }
  Submit submit(u32 count, u32 generation) { return queue.submit(queue.acquire(), count, generation); }

  ChangingQueue<FakeWays> queue;
  std::vector<xg_result> results;
};

// One thread feeds batches of all sizes, of both kinds of generations, another one retires.
TEST(ChangingQueue, BatchesComeBackInTheirOrderAndTheWaysAreNeverMixed) {
  constexpr u32 kBatches = 20000;
  Bench bench;
  std::thread feeder([&] {
    std::mt19937 random(7);
    u32 size = 1;
    for (u32 i = 0; i < kBatches; i++) {
      if (random() % 64 == 0) size = random() % 2 == 0 ? 1 + random() % 16 : kAlone + random() % 512;
      if (random() % 512 == 0) std::this_thread::sleep_for(25ms);
      Slot* slot;
      while ((slot = bench.queue.acquire()) == nullptr) std::this_thread::yield();
      ASSERT_EQ(bench.queue.submit(slot, size, random() % 4 == 0 ? kNoTables : kTables), Submit::ok);
    }
  });
  for (u32 i = 0; i < kBatches;) {
    Slot* slot = bench.queue.poll();
    if (slot == nullptr) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(slot->results[0].verdict, i++);
    ASSERT_EQ(slot->results[0].detail, slot->count);
    EXPECT_FALSE(slot->failed);
    bench.queue.release(slot);
  }
  feeder.join();
  EXPECT_EQ(bench.queue.ways().mixed, 0u);
  EXPECT_GT(bench.queue.ways().changes, 2u) << "it went both ways, and back";
  EXPECT_EQ(bench.queue.in_flight(), 0u);
}

TEST(ChangingQueue, SaysWhatItDoesAndWhy) {
  Bench bench;
  EXPECT_EQ(bench.queue.choice(), (Choice{Drive::persistent, Reason::keeps_up}));
  ASSERT_EQ(bench.submit(kAlone + 1, kNoTables), Submit::ok);
  EXPECT_EQ(bench.queue.choice(), (Choice{Drive::persistent, Reason::keeps_up}));
  ASSERT_EQ(bench.submit(kAlone + 1, kTables), Submit::ok);
  EXPECT_EQ(bench.queue.choice(), (Choice{Drive::launched, Reason::table}));
}

// It waits for a while, and no longer: then poll() has to find out what is wrong.
TEST(ChangingQueue, GoesOnAsItDidWhereTheDeviceHangs) {
  Bench bench;
  ASSERT_EQ(bench.submit(1, kTables), Submit::ok);
  bench.queue.ways().hangs = true;
  const auto start = std::chrono::steady_clock::now();
  ASSERT_EQ(bench.submit(kAlone + 1, kTables), Submit::ok);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
  EXPECT_EQ(bench.queue.choice(), (Choice{Drive::persistent, Reason::keeps_up}));
  EXPECT_EQ(bench.queue.poll(), nullptr);
  // It was late, no more.
  bench.queue.ways().hangs = false;
  ASSERT_EQ(bench.submit(kAlone + 1, kTables), Submit::ok);
  EXPECT_EQ(bench.queue.choice(), (Choice{Drive::launched, Reason::table}));
  EXPECT_EQ(bench.queue.ways().mixed, 0u);
}

TEST(ChangingQueue, RefusesWhatAnyQueueRefuses) {
  Bench bench;
  Slot* slot = bench.queue.acquire();
  EXPECT_EQ(bench.queue.submit(slot, 1, kUnknown), Submit::unknown_generation);
  bench.queue.ways().refuses = true;
  EXPECT_EQ(bench.queue.submit(slot, 1, kTables), Submit::device_failed);
  EXPECT_EQ(bench.queue.in_flight(), 0u);
  EXPECT_EQ(bench.queue.poll(), nullptr);
  bench.queue.ways().refuses = false;
  ASSERT_EQ(bench.queue.submit(slot, 1, kTables), Submit::ok);
  bench.queue.ways().failed_ = true;
  EXPECT_EQ(bench.submit(1, kTables), Submit::device_failed);
  ASSERT_EQ(bench.queue.poll(), slot);
  EXPECT_TRUE(slot->failed);
}

}  // namespace
}  // namespace xdpgpu::gpu
