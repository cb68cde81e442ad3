// SPDX-License-Identifier: MIT
//
// What a policy's end waits for of the packets that were mirrored under it.
#include "userspace/dataplane/mirroring.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
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
  // Back, it looks at what comes from then on.
  const auto again = gpu::open_device("cpu").value();
  const auto looks = mirroring.device_is_back(*again);
  ASSERT_TRUE(looks) << looks.error();
  states[0].head = 2;
  EXPECT_FALSE(mirroring.past({2}));
  mirroring.close();
}

// Whichever device has counted.
TEST(Mirroring, CountsGoOnWhenTheDeviceIsBack) {
  constexpr u32 kSlots = 8, kEntries = 1024;
  std::vector<xg_mirror_record> records(kSlots);
  std::vector<xg_mirror_state> states(1);
  std::vector<xg_flow_verdict> verdicts(kEntries);
  std::vector<xg_flow_stats> stats(kEntries);
  Mirroring mirroring(
      {{records.data(), states.data(), 1, kSlots, verdicts.data(), stats.data(), 1, kEntries}});
  std::vector<std::unique_ptr<gpu::Device>> lives;
  for (u64 life = 1; life <= 3; ++life) {
    lives.push_back(gpu::open_device("cpu").value());
    ASSERT_TRUE(life == 1 ? mirroring.open(*lives.back()) : mirroring.device_is_back(*lives.back()));
    // Of a generation that no device knows.
    __atomic_store_n(&states[0].head, life, __ATOMIC_RELEASE);
    __atomic_store_n(&records[life - 1].ticket, life, __ATOMIC_RELEASE);
    while (!mirroring.past({life})) std::this_thread::yield();
    EXPECT_EQ(mirroring.status()->counters.unknown_generation, life);
    mirroring.device_failed();
  }
  mirroring.close();
  EXPECT_EQ(mirroring.status()->counters.taken, 3u);
}

}  // namespace
}  // namespace xdpgpu::dataplane
