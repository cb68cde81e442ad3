// SPDX-License-Identifier: MIT
#include "userspace/dataplane/worker_state.hpp"

#include <gtest/gtest.h>

namespace xdpgpu::dataplane {
namespace {

constexpr u64 kTimeout = 100;

TEST(WorkerState, AWorkerWhoseRetiringThreadIsSilentDoesNotLive) {
  Retired retired;
  retired.at_ns = 1000;
  EXPECT_TRUE(lives(retired, 1000, kTimeout));
  EXPECT_TRUE(lives(retired, 1099, kTimeout));
  EXPECT_FALSE(lives(retired, 1100, kTimeout));
  // The feeding thread's turn may have begun before the other thread spoke.
  EXPECT_TRUE(lives(retired, 900, kTimeout));
}

TEST(WorkerState, AWorkerWithoutADeviceDoesNotLive) {
  Retired retired;
  retired.at_ns = 1000;
  retired.failed = 1;
  EXPECT_FALSE(lives(retired, 1000, kTimeout));
}

}  // namespace
}  // namespace xdpgpu::dataplane
