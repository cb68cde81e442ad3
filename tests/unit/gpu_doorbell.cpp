// SPDX-License-Identifier: MIT
#include "gpu/doorbell.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace xdpgpu::gpu {
namespace {

using Clock = std::chrono::steady_clock;

constexpr u64 kLongNs = 20'000'000'000;

// Two threads that wait for each other with no pause between: one lost ring would cost kLongNs.
TEST(Doorbell, NoRingIsLost) {
  constexpr u32 kRounds = 3000;
  Doorbell there, back;
  std::atomic<u32> ping{0}, pong{0};
  const auto start = Clock::now();
  std::jthread other([&] {
    for (u32 round = 1; round <= kRounds; ++round) {
      while (ping.load(std::memory_order_acquire) != round)
        there.sleep([&] { return ping.load(std::memory_order_acquire) == round; }, kLongNs);
      pong.store(round, std::memory_order_release);
      back.ring();
    }
  });
  for (u32 round = 1; round <= kRounds; ++round) {
    ping.store(round, std::memory_order_release);
    there.ring();
    while (pong.load(std::memory_order_acquire) != round)
      back.sleep([&] { return pong.load(std::memory_order_acquire) == round; }, kLongNs);
  }
  other.join();
  EXPECT_LT(Clock::now() - start, std::chrono::nanoseconds(kLongNs));
  EXPECT_GT(there.sleeps() + back.sleeps(), 0u);
}

TEST(Doorbell, ASleepEndsByItselfAndDoesNotBeginWhereThereIsSomething) {
  Doorbell bell;
  const auto start = Clock::now();
  bell.sleep([] { return true; }, kLongNs);
  EXPECT_EQ(bell.sleeps(), 0u);
  for (const u64 slept : {1u, 2u, 3u}) {
    bell.sleep([] { return false; }, 1'000'000);
    EXPECT_EQ(bell.sleeps(), slept);
  }
  EXPECT_LT(Clock::now() - start, std::chrono::nanoseconds(kLongNs));
}

}  // namespace
}  // namespace xdpgpu::gpu
