// SPDX-License-Identifier: MIT
#include "userspace/dataplane/compute_mode.hpp"

#include <gtest/gtest.h>

namespace xdpgpu::dataplane {
namespace {

constexpr std::array kAll{ComputeMode::automatic, ComputeMode::inlined, ComputeMode::split,
                          ComputeMode::persistent};

TEST(ComputeMode, NamesAreThePolicys) {
  for (const ComputeMode mode : kAll) EXPECT_EQ(compute_mode_of(name_of(mode)), mode);
  EXPECT_EQ(compute_mode_of("sideways"), std::nullopt);
  EXPECT_EQ(name_of(ComputeMode::inlined), "inline");
}

TEST(ComputeMode, AutoStaysOnTheDeviceWhereThatCostsNoCore) {
  gpu::DeviceInfo cuda, cpu, vulkan;
  cuda.persistent = cpu.persistent = true;
  cpu.persistent_takes_core = true;
  EXPECT_EQ(resolve(ComputeMode::automatic, cuda), ComputeMode::persistent);
  EXPECT_EQ(resolve(ComputeMode::automatic, cpu), ComputeMode::inlined);
  EXPECT_EQ(resolve(ComputeMode::automatic, vulkan), ComputeMode::inlined);
  for (const ComputeMode mode : kAll) {
    if (mode == ComputeMode::automatic) continue;
    for (const auto& device : {cuda, cpu, vulkan}) EXPECT_EQ(resolve(mode, device), mode) << name_of(mode);
  }
}

TEST(ComputeMode, OnlyPersistentAsksTheDeviceForMore) {
  EXPECT_EQ(drive_of(ComputeMode::inlined), gpu::Drive::launched);
  EXPECT_EQ(drive_of(ComputeMode::split), gpu::Drive::launched);
  EXPECT_EQ(drive_of(ComputeMode::persistent), gpu::Drive::persistent);
}

}  // namespace
}  // namespace xdpgpu::dataplane
