// SPDX-License-Identifier: MIT
//
// The burst formula against numbers worked out by hand.
#include "userspace/control/region_size.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xdpgpu::control {
namespace {

constexpr u64 kMs = 1'000'000;

TEST(RegionSize, HoldsTheBurstInTheSmallestFrames) {
  // 100 Gbit/s for 1 ms are 12,500,000 bytes: 148,809.5 frames of 84 bytes.
  EXPECT_EQ(burst_frames({.ns = kMs, .link_mbps = 100'000, .queues = 1}), 148'810u);
  // The same over eight queues: 18,601.2.
  EXPECT_EQ(burst_frames({.ns = kMs, .link_mbps = 100'000, .queues = 8}), 18'602u);
  // 1 Gbit/s for 1 ms are 125,000 bytes: 1,488.1, as every tester of switches knows.
  EXPECT_EQ(burst_frames({.ns = kMs, .link_mbps = 1000, .queues = 1}), 1489u);
  // An exact number is not rounded up: 1,250 bytes a us, 84 us.
  EXPECT_EQ(burst_frames({.ns = 84'000, .link_mbps = 10'000, .queues = 1}), 1250u);
}

TEST(RegionSize, IsNeverLessThanARingAndABatch) {
  EXPECT_EQ(burst_frames({.ns = 1000, .link_mbps = 10, .queues = 16, .least = 3072}), 3072u);
}

TEST(RegionSize, MoreThanAQueueCanHaveIsRefusedWithTheCure) {
  const auto refused = burst_frames({.ns = 50 * kMs, .link_mbps = 400'000, .queues = 4});
  ASSERT_FALSE(refused);
  for (const char* words :
       {"io.burst 50ms", "400 Gbit/s", "smallest", "7440477 buffers", "4 queues", "1048576", "shorten"})
    EXPECT_THAT(refused.error(), testing::HasSubstr(words));
  EXPECT_TRUE(burst_frames({.ns = 50 * kMs, .link_mbps = 400'000, .queues = 32}));
}

}  // namespace
}  // namespace xdpgpu::control
