// SPDX-License-Identifier: MIT
#include "userspace/dataplane/compute_mode.hpp"

#include <gtest/gtest.h>

namespace xdpgpu::dataplane {
namespace {

constexpr std::array kAll{ComputeMode::automatic, ComputeMode::inlined, ComputeMode::split,
                          ComputeMode::persistent, ComputeMode::graph};

TEST(ComputeMode, NamesAreThePolicys) {
  for (const ComputeMode mode : kAll) EXPECT_EQ(compute_mode_of(name_of(mode)), mode);
  EXPECT_EQ(compute_mode_of("sideways"), std::nullopt);
  EXPECT_EQ(name_of(ComputeMode::inlined), "inline");
}

constexpr gpu::Choice kQuick{gpu::Drive::persistent, gpu::Reason::keeps_up};
constexpr gpu::Choice kForTheTable{gpu::Drive::launched, gpu::Reason::table};

TEST(ComputeMode, AutoIsWhatItsQueueHasChosen) {
  EXPECT_EQ(resolve(ComputeMode::automatic, kQuick), ComputeMode::persistent);
  EXPECT_EQ(resolve(ComputeMode::automatic, kForTheTable), ComputeMode::inlined);
  EXPECT_EQ(resolve(ComputeMode::automatic, {}), ComputeMode::inlined);
  for (const ComputeMode mode : kAll) {
    if (mode == ComputeMode::automatic) continue;
    for (const auto& choice : {kQuick, kForTheTable, gpu::Choice{}})
      EXPECT_EQ(resolve(mode, choice), mode) << name_of(mode);
  }
}

TEST(ComputeMode, SaysWhy) {
  gpu::DeviceInfo cuda, cpu, vulkan;
  vulkan.name = "vulkan:0";
  cuda.persistent = cpu.persistent = cpu.persistent_takes_core = true;
  EXPECT_EQ(why(kQuick, cuda, {"conntrack"}), "it keeps up, and this is the quickest");
  EXPECT_EQ(why(kForTheTable, cuda, {"conntrack"}), "conntrack's table is the limit");
  EXPECT_EQ(why(kForTheTable, cuda, {"conntrack", "rate_limit"}),
            "conntrack's and rate_limit's tables are the limit");
  EXPECT_EQ(why(kForTheTable, cuda, {}), "a table is the limit");
  EXPECT_EQ(why({gpu::Drive::launched, gpu::Reason::decides_more}, cuda, {}),
            "it is behind, and decides more than persistent");
  EXPECT_EQ(why({gpu::Drive::persistent, gpu::Reason::decides_more}, cuda, {}),
            "it is behind, and decides more than inline");
  EXPECT_EQ(why({gpu::Drive::launched, gpu::Reason::answers_sooner}, cuda, {}),
            "it keeps up, and answers sooner than persistent");
  EXPECT_EQ(why({}, cpu, {}), "a thread that stays would take a second core for each queue");
  EXPECT_EQ(why({}, vulkan, {}), "vulkan:0 has no kernel that stays");
}

TEST(ComputeMode, OnlyPersistentAsksTheDeviceForMore) {
  EXPECT_EQ(drive_of(ComputeMode::inlined), gpu::Drive::launched);
  EXPECT_EQ(drive_of(ComputeMode::split), gpu::Drive::launched);
  EXPECT_EQ(drive_of(ComputeMode::persistent), gpu::Drive::persistent);
  EXPECT_EQ(drive_of(ComputeMode::graph), gpu::Drive::graph);
  EXPECT_EQ(drive_of(ComputeMode::automatic), gpu::Drive::automatic);
}

}  // namespace
}  // namespace xdpgpu::dataplane
