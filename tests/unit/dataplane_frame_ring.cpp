// SPDX-License-Identifier: MIT
#include "userspace/dataplane/frame_ring.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "tests/unit/dataplane_random.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr FrameId kFirst = 700;

std::set<FrameId> held_by(const FreeList& list) {
  return {list.storage().begin(), list.storage().begin() + list.size()};
}

TEST(FrameRing, TakesEveryFrameOfItsWorkerAtOnce) {
  for (const u32 frames : {1u, 2u, 63u, 64u, 65u, 1000u}) {
    FreeList from({kFirst, frames}), to = FreeList::empty_like(from);
    EXPECT_EQ(to.size(), 0u);
    EXPECT_EQ(to.capacity(), frames);
    FrameRing ring(frames);
    EXPECT_EQ(ring.take(to), 0u);
    // More than once, so that the counts run past the ring's end.
    for (u32 round = 1; round <= 5; ++round) {
      ring.give(from);
      EXPECT_EQ(from.size(), 0u);
      EXPECT_EQ(ring.given() - ring.taken(), frames);
      EXPECT_EQ(ring.take(to), frames);
      EXPECT_EQ(ring.given(), u64{round} * frames);
      EXPECT_EQ(held_by(to).size(), frames);
      EXPECT_EQ(*held_by(to).begin(), kFirst);
      std::swap(from, to);
    }
  }
}

TEST(FrameRing, KeepsAsManyAsWhoeverGivesAsksFor) {
  FreeList from({kFirst, 20}), to = FreeList::empty_like(from);
  FrameRing ring(20);
  ring.give(from, 8);
  EXPECT_EQ(from.size(), 8u);
  EXPECT_EQ(ring.kept(), 8u);
  EXPECT_EQ(ring.take(to), 12u);
  ring.give(from, 8);
  EXPECT_EQ(ring.take(to), 0u);
  from.pop();
  ring.give(from, 8);
  EXPECT_EQ(ring.kept(), 7u) << "fewer than that";
  ring.give(from);
  EXPECT_EQ(ring.kept(), 0u);
  EXPECT_EQ(ring.take(to), 7u);
}

// Two threads toss frames to each other through two rings: none is lost, doubled or made up.
TEST(FrameRing, FramesGoFromThreadToThread) {
  constexpr u32 kFrames = 100;
  constexpr u64 kMoves = 100'000;
  FrameRing there(kFrames), back(kFrames);
  FreeList mine({kFirst, kFrames}), theirs = FreeList::empty_like(mine);
  std::atomic<bool> over{false};
  std::jthread other([&] {
    FreeList some = FreeList::empty_like(theirs);
    Random random(7);
    while (!over || there.given() != there.taken()) {
      there.take(theirs);
      if (!theirs.size()) std::this_thread::yield();
      for (u32 n = static_cast<u32>(random() % 8); n && theirs.size(); --n) some.push(theirs.pop());
      back.give(some);
    }
  });
  FreeList some = FreeList::empty_like(mine);
  Random random(8);
  for (u64 moved = 0; moved < kMoves;) {
    back.take(mine);
    if (!mine.size()) std::this_thread::yield();
    for (u32 n = static_cast<u32>(random() % 8); n && mine.size(); --n, ++moved) some.push(mine.pop());
    there.give(some);
    ASSERT_LE(mine.size(), kFrames);
  }
  over = true;
  other.join();
  back.take(mine);
  std::set<FrameId> all = held_by(mine);
  all.merge(held_by(theirs));
  EXPECT_EQ(all.size(), kFrames);
  EXPECT_EQ(mine.size() + theirs.size(), kFrames);
  EXPECT_EQ(*all.begin(), kFirst);
  EXPECT_EQ(*all.rbegin(), kFirst + kFrames - 1);
}

}  // namespace
}  // namespace xdpgpu::dataplane
