// SPDX-License-Identifier: MIT
#include "gpu/way_chooser.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>

namespace xdpgpu::gpu {
namespace {

constexpr u32 kDepth = 4, kAlone = 256;
constexpr u64 kUs = 1000, kMs = 1'000'000;
constexpr Choice kQuick{Drive::persistent, Reason::keeps_up};
constexpr Choice kForTheTable{Drive::launched, Reason::table};
constexpr Choice kSooner{Drive::launched, Reason::answers_sooner};

// A queue before a device that takes so long for a batch, one after the other.
struct Bench {
  WayChooser chooser{kDepth, kAlone};
  bool tables = false;
  u64 persistent_ns = 0, launched_ns = 0;  // of each batch
  u64 now_ns = kMs;
  Choice choice{Drive::persistent, Reason::keeps_up};
  u32 changes = 0;  // but for those of a probe
  u64 packets = 0;
  u32 batches = 0, launched = 0;
  struct Flying {
    u64 given_ns, over_ns;
    Drive drive;
  };
  std::deque<Flying> flying{};
  WayChooser::Answers of_persistent{}, of_launched{};

  void back() {
    const Flying& first = flying.front();
    WayChooser::Answers& answers = first.drive == Drive::persistent ? of_persistent : of_launched;
    answers.batches++;
    answers.ns += first.over_ns - first.given_ns;
    flying.pop_front();
  }
  // A batch; where all slots are in flight, once one is back.
  void submit(u32 count) {
    while (!flying.empty() && flying.front().over_ns <= now_ns) back();
    if (flying.size() == kDepth) {
      now_ns = flying.front().over_ns;
      back();
    }
    const Choice before = choice;
    choice =
        chooser.next({tables, count, static_cast<u32>(flying.size()), now_ns, of_persistent, of_launched});
    changes += before.drive != choice.drive && before != kSooner && choice != kSooner;
    const u64 begin = flying.empty() ? now_ns : std::max(now_ns, flying.back().over_ns);
    flying.push_back(
        {now_ns, begin + (choice.drive == Drive::persistent ? persistent_ns : launched_ns), choice.drive});
    packets += count;
    batches++;
    launched += choice.drive == Drive::launched;
  }
  void flood(u64 ns, u32 count) {
    for (const u64 end = now_ns + ns; now_ns < end;) submit(count);
  }
  // A batch every so often.
  void trickle(u64 ns, u64 gap_ns, u32 count) {
    for (const u64 end = now_ns + ns; now_ns < end; now_ns += gap_ns) submit(count);
  }
};

TEST(WayChooser, SmallBatchesOfAPipelineWithTablesStayPersistent) {
  Bench bench{.tables = true, .persistent_ns = 9 * kUs, .launched_ns = 16 * kUs};
  bench.trickle(300 * kMs, kMs, 1);
  bench.trickle(300 * kMs, 10 * kUs, 1);
  bench.trickle(300 * kMs, 20 * kUs, kAlone);
  EXPECT_EQ(bench.choice, kQuick);
  EXPECT_EQ(bench.changes, 0u);
  EXPECT_LE(bench.launched, bench.batches / 64) << "to see whether that is quicker";
}

// Small batches that keep one block busy for long: a launched kernel is back sooner, and is asked now and
// then only whether that is still so.
TEST(WayChooser, TakesTheWayThatAnswersSoonerWhereTheDeviceKeepsUp) {
  for (const u64 gap_ns : {100 * kUs, 75 * kUs, kMs}) {
    Bench bench{.tables = true, .persistent_ns = 72 * kUs, .launched_ns = 53 * kUs};
    bench.trickle((WayChooser::kFirstGap + 80) * gap_ns, gap_ns, 8);
    EXPECT_EQ(bench.choice, kSooner) << gap_ns;
    const u32 before = bench.batches, launched = bench.launched;
    bench.trickle(20000 * gap_ns, gap_ns, 8);
    EXPECT_EQ(bench.choice, kSooner) << gap_ns;
    EXPECT_GE(bench.launched - launched, (bench.batches - before) * 98 / 100) << gap_ns;
  }
}

// A little sooner is not worth a change, and chance would have it change for ever.
TEST(WayChooser, ALittleSoonerIsTheSame) {
  Bench bench{.tables = true, .persistent_ns = 40 * kUs, .launched_ns = 39 * kUs};
  bench.trickle(3000 * kMs, 100 * kUs, 8);
  EXPECT_EQ(bench.choice, kQuick);
}

// The load goes from eight packets a batch to one, which the resident kernel answers sooner.
TEST(WayChooser, LooksAgainSoonWhereBatchesAreOfAnotherSize) {
  Bench bench{.tables = true, .persistent_ns = 72 * kUs, .launched_ns = 53 * kUs};
  bench.trickle(60000 * 100 * kUs, 100 * kUs, 8);
  ASSERT_EQ(bench.choice, kSooner);
  bench.persistent_ns = 17 * kUs;
  bench.launched_ns = 29 * kUs;
  bench.trickle((WayChooser::kFirstGap + 100) * kMs, kMs, 1);
  EXPECT_EQ(bench.choice, kQuick);
}

// After a flood it is again as it was found to be quick before.
TEST(WayChooser, AFloodDoesNotMakeItForget) {
  Bench bench{.tables = true, .persistent_ns = 72 * kUs, .launched_ns = 53 * kUs};
  bench.trickle(400 * 100 * kUs, 100 * kUs, 8);
  ASSERT_EQ(bench.choice, kSooner);
  bench.flood(5 * kMs, 1024);
  ASSERT_EQ(bench.choice, kForTheTable);
  bench.trickle(2 * WayChooser::kHoldNs, 100 * kUs, 8);
  EXPECT_EQ(bench.choice, kSooner);
}

TEST(WayChooser, TheFirstLargeBatchOfAPipelineWithTablesIsLaunched) {
  Bench bench{.tables = true, .persistent_ns = 93 * kUs, .launched_ns = 24 * kUs};
  bench.submit(kAlone + 1);
  EXPECT_EQ(bench.choice, kForTheTable);
  Bench without{.persistent_ns = 9 * kUs, .launched_ns = 16 * kUs};
  without.submit(65536);
  EXPECT_EQ(without.choice, kQuick);
}

TEST(WayChooser, ItIsPersistentAgainOnceTheLoadHasGone) {
  Bench bench{.tables = true, .persistent_ns = 20 * kUs, .launched_ns = 24 * kUs};
  bench.flood(5 * kMs, 1024);
  ASSERT_EQ(bench.choice, kForTheTable);
  // Half gone it stays: the next large batch would turn it again.
  bench.trickle(5 * WayChooser::kHoldNs, 100 * kUs, kAlone / 2);
  EXPECT_EQ(bench.choice, kForTheTable);
  bench.trickle(WayChooser::kHoldNs - kMs, 100 * kUs, 1);
  EXPECT_EQ(bench.choice, kForTheTable);
  bench.trickle(2 * kMs, 100 * kUs, 1);
  EXPECT_EQ(bench.choice, kQuick);
}

// A large batch every so often: each turns it, and it goes back later each time.
TEST(WayChooser, ItDoesNotFlap) {
  Bench bench{.tables = true, .persistent_ns = 20 * kUs, .launched_ns = 24 * kUs};
  for (u32 i = 0; i < 200; i++) {  // 10 s
    bench.submit(1024);
    bench.trickle(50 * kMs, 100 * kUs, 1);
  }
  EXPECT_EQ(bench.choice, kForTheTable);
  EXPECT_LE(bench.changes, 8u);
  // What is quiet for long is quick again soon after the next one.
  bench.trickle(WayChooser::kMostHoldNs + 2 * WayChooser::kCalmNs, kMs, 1);
  EXPECT_EQ(bench.choice, kQuick);
  bench.submit(1024);
  bench.trickle(2 * WayChooser::kHoldNs, kMs, 1);
  EXPECT_EQ(bench.choice, kQuick);
}

// Of a device that is behind it decides within a few per cent of what the better way does alone.
TEST(WayChooser, TakesTheWayThatDecidesMoreWhereTheDeviceIsBehind) {
  struct Case {
    bool tables;
    u32 count;
    u64 persistent_ns, launched_ns;
  };
  for (const Case& one : {Case{false, 64, 5 * kUs, 9 * kUs}, Case{false, 64, 9 * kUs, 5 * kUs},
                          Case{true, 64, 15 * kUs, 12 * kUs}, Case{true, kAlone, 60 * kUs, 80 * kUs},
                          Case{false, 65536, 2000 * kUs, 230 * kUs}, Case{false, 1024, 9 * kUs, 10 * kUs}}) {
    Bench bench{.tables = one.tables, .persistent_ns = one.persistent_ns, .launched_ns = one.launched_ns};
    bench.flood(1000 * kMs, one.count);
    const u64 before = bench.packets;
    const u64 start_ns = bench.now_ns;
    bench.flood(1000 * kMs, one.count);
    const Drive better = one.persistent_ns < one.launched_ns ? Drive::persistent : Drive::launched;
    EXPECT_EQ(bench.choice, (Choice{better, Reason::decides_more})) << one.persistent_ns;
    const double rate =
        static_cast<double>(bench.packets - before) / static_cast<double>(bench.now_ns - start_ns);
    const double alone =
        static_cast<double>(one.count) / static_cast<double>(std::min(one.persistent_ns, one.launched_ns));
    EXPECT_GE(rate, 0.97 * alone) << one.persistent_ns;
  }
}

// What was found stands for a second: a load that comes in pieces is not tried on again with each of them.
TEST(WayChooser, RemembersWhatItFound) {
  Bench bench{.persistent_ns = 9 * kUs, .launched_ns = 5 * kUs};
  bench.flood(50 * kMs, 64);
  ASSERT_EQ(bench.choice, (Choice{Drive::launched, Reason::decides_more}));
  bench.trickle(2 * WayChooser::kHoldNs, kMs, 1);
  ASSERT_EQ(bench.choice, kQuick);
  const u32 before = bench.changes;
  bench.flood(kMs, 64);
  EXPECT_EQ(bench.choice, (Choice{Drive::launched, Reason::decides_more}));
  EXPECT_EQ(bench.changes, before + 1);
}

// A moment in which all slots are in flight, as when the kernel that stays is being started, is no trial.
TEST(WayChooser, AMomentBehindChangesNothing) {
  Bench bench{.persistent_ns = 5 * kUs, .launched_ns = 10 * kUs};
  for (u32 i = 0; i < 100; i++) {
    for (u32 burst = 0; burst < WayChooser::kRun; burst++) bench.submit(32);
    bench.trickle(kMs, 20 * kUs, 1);
  }
  EXPECT_EQ(bench.choice, kQuick);
  EXPECT_EQ(bench.changes, 0u);
}

// With one slot in all there is no telling.
TEST(WayChooser, OneSlotIsNeverBehind) {
  WayChooser chooser(1, kAlone);
  for (u64 i = 1; i < 1000; i++) EXPECT_EQ(chooser.next({false, 64, 0, i * 10 * kUs}), kQuick);
}

// The large batch decides at once, whatever is being tried.
TEST(WayChooser, ALargeBatchEndsATrial) {
  Bench bench{.tables = true, .persistent_ns = 15 * kUs, .launched_ns = 12 * kUs};
  bench.flood(3 * kMs, 64);
  ASSERT_EQ(bench.choice.reason, Reason::decides_more) << "the other way is being tried";
  bench.submit(1024);
  EXPECT_EQ(bench.choice, kForTheTable);
  bench.flood(10 * kMs, 1024);
  EXPECT_EQ(bench.choice, kForTheTable);
}

}  // namespace
}  // namespace xdpgpu::gpu
