// SPDX-License-Identifier: MIT
//
// The burst formula against numbers worked out by hand.
#include "userspace/control/region_size.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xdpgpu::control {
namespace {

constexpr u64 kMs = 1'000'000;

TEST(RegionSize, HoldsTheBurst) {
  // 100 Gbit/s for 10 ms are 125,000,000 bytes: 81,274.4 frames of 1,538 bytes.
  EXPECT_EQ(burst_frames({.ns = 10 * kMs, .link_mbps = 100'000, .mtu = 1500, .queues = 1}), 81'275u);
  // The same over eight queues: 10,159.3.
  EXPECT_EQ(burst_frames({.ns = 10 * kMs, .link_mbps = 100'000, .mtu = 1500, .queues = 8}), 10'160u);
  // 1 Gbit/s for 1 ms are 125,000 bytes.
  EXPECT_EQ(burst_frames({.ns = kMs, .link_mbps = 1000, .mtu = 1500, .queues = 1}), 82u);
  // Six chunks a frame of 9,000 bytes: 10,000,000 ns x 1000 Mbit/s / 72,304,000 = 138.3 frames.
  EXPECT_EQ(burst_frames({.ns = 10 * kMs, .link_mbps = 1000, .mtu = 9000, .buffers = 6, .queues = 1}),
            139u * 6);
  // An exact number is not rounded up: 1,250 bytes a us, 1,538 us.
  EXPECT_EQ(burst_frames({.ns = 1'538'000, .link_mbps = 10'000, .mtu = 1500, .queues = 1}), 1250u);
  // Smaller frames are more.
  EXPECT_EQ(burst_frames({.ns = kMs, .link_mbps = 1000, .mtu = 212, .queues = 1}), 500u);
  EXPECT_EQ(burst_frames({.ns = 1'000 * kMs, .link_mbps = 100, .mtu = 1500, .queues = 1}), 8128u);
}

TEST(RegionSize, IsNeverLessThanARingAndABatch) {
  EXPECT_EQ(burst_frames({.ns = 1000, .link_mbps = 10, .mtu = 1500, .queues = 16, .least = 3072}), 3072u);
}

TEST(RegionSize, MoreThanAQueueCanHaveIsRefusedWithTheCure) {
  const auto refused = burst_frames({.ns = 1'000 * kMs, .link_mbps = 400'000, .mtu = 1500, .queues = 4});
  ASSERT_FALSE(refused);
  for (const char* words : {"io.burst 1s", "400 Gbit/s", "8127439 frames", "4 queues", "1048576", "shorten"})
    EXPECT_THAT(refused.error(), testing::HasSubstr(words));
  EXPECT_TRUE(burst_frames({.ns = 1'000 * kMs, .link_mbps = 400'000, .mtu = 1500, .queues = 32}));
}

}  // namespace
}  // namespace xdpgpu::control
