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

// One port with one ring.
class Mirrors : public testing::Test {
 protected:
  static constexpr u32 kSlots = 8, kEntries = 1024;
  std::vector<xg_mirror_record> records_ = std::vector<xg_mirror_record>(kSlots);
  std::vector<xg_mirror_state> states_ = std::vector<xg_mirror_state>(1);
  std::vector<xg_flow_verdict> verdicts_ = std::vector<xg_flow_verdict>(kEntries);
  std::vector<xg_flow_stats> stats_ = std::vector<xg_flow_stats>(kEntries);
  Mirroring mirroring_{
      {{records_.data(), states_.data(), 1, kSlots, verdicts_.data(), stats_.data(), 1, kEntries}}};
};

// One that the XDP program has begun to write, and that no device will take.
TEST_F(Mirrors, AFailedDeviceHoldsUpNobody) {
  const auto device = gpu::open_device("cpu").value();
  EXPECT_TRUE(mirroring_.past({1})) << "nobody looks";
  const auto opened = mirroring_.open(*device);
  ASSERT_TRUE(opened) << opened.error();
  states_[0].head = 1;
  ASSERT_EQ(mirroring_.heads(), std::vector<u64>{1});
  EXPECT_FALSE(mirroring_.past({1}));
  mirroring_.device_failed();
  EXPECT_TRUE(mirroring_.past({1}));
  // Back, it looks at what comes from then on.
  const auto again = gpu::open_device("cpu").value();
  const auto looks = mirroring_.device_is_back(*again);
  ASSERT_TRUE(looks) << looks.error();
  states_[0].head = 2;
  EXPECT_FALSE(mirroring_.past({2}));
  mirroring_.close();
}

// Whichever device has counted.
TEST_F(Mirrors, CountsGoOnWhenTheDeviceIsBack) {
  std::vector<std::unique_ptr<gpu::Device>> lives;
  for (u64 life = 1; life <= 3; ++life) {
    lives.push_back(gpu::open_device("cpu").value());
    ASSERT_TRUE(life == 1 ? mirroring_.open(*lives.back()) : mirroring_.device_is_back(*lives.back()));
    // Of a generation that no device knows.
    __atomic_store_n(&states_[0].head, life, __ATOMIC_RELEASE);
    __atomic_store_n(&records_[life - 1].ticket, life, __ATOMIC_RELEASE);
    while (!mirroring_.past({life})) std::this_thread::yield();
    EXPECT_EQ(mirroring_.status()->unknown_generation, life);
    mirroring_.device_failed();
  }
  mirroring_.close();
  EXPECT_EQ(mirroring_.status()->taken, 3u);
}

}  // namespace
}  // namespace xdpgpu::dataplane
