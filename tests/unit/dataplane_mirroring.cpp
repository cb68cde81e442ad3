// SPDX-License-Identifier: MIT
//
// What a policy's end waits for of the packets that were mirrored under it.
#include "userspace/dataplane/mirroring.hpp"

#include <gtest/gtest.h>

#include <vector>

namespace xdpgpu::dataplane {
namespace {

// One that the XDP program has begun to write, and that no device will take.
TEST(Mirroring, AFailedDeviceHoldsUpNobody) {
  constexpr u32 kSlots = 8, kEntries = 1024;
  std::vector<xg_mirror_record> records(kSlots);
  std::vector<xg_mirror_state> states(1);
  std::vector<xg_flow_verdict> verdicts(kEntries);
  std::vector<xg_flow_stats> stats(kEntries);
  const auto device = gpu::open_device("cpu").value();
  Mirroring mirroring(
      {{records.data(), states.data(), 1, kSlots, verdicts.data(), stats.data(), 1, kEntries}});
  EXPECT_TRUE(mirroring.past({1})) << "nobody looks";
  const auto opened = mirroring.open(*device);
  ASSERT_TRUE(opened) << opened.error();
  states[0].head = 1;
  ASSERT_EQ(mirroring.heads(), std::vector<u64>{1});
  EXPECT_FALSE(mirroring.past({1}));
  mirroring.device_failed();
  EXPECT_TRUE(mirroring.past({1}));
  mirroring.close();
}

}  // namespace
}  // namespace xdpgpu::dataplane
