// SPDX-License-Identifier: MIT
//
// tests/backends/targets.hpp: what the conformance suite runs on: each kind of device, each way of
// reading frames and of being driven. A target that this host does not have is skipped with the reason, or,
// if its kind stands in XDPGPU_TEST_REQUIRE (comma separated), fails.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "gpu/gpu.hpp"

namespace xdpgpu::tests {

struct Target {
  std::string kind;  // "cpu", "cuda", "vulkan": the kind's first usable device
  gpu::Frames frames = gpu::Frames::in_place;
  gpu::Drive drive = gpu::Drive::launched;
  // What is opened as something else: what it is then, behind the name, and what makes it that.
  const char* as = "";
  std::unique_ptr<gpu::Device> (*made)(std::unique_ptr<gpu::Device>) = nullptr;
  std::string name() const;
  gpu::QueueOptions queue(u32 batch_capacity, u32 depth) const { return {batch_capacity, depth, drive}; }
};

std::vector<Target> all_targets();
void PrintTo(const Target& target, std::ostream* out);
std::string target_name(const testing::TestParamInfo<Target>& info);

bool required(const std::string& kind);

// Opens the target with the region registered, or says why this host cannot.
gpu::Result<std::unique_ptr<gpu::Device>> open_target(const Target& target, void* base, u64 bytes);

// Declares `device`, a std::unique_ptr<gpu::Device>&, or skips or fails the test.
#define XDPGPU_OPEN_OR_SKIP(target, base, bytes)                                   \
  auto opened_target = ::xdpgpu::tests::open_target(target, base, bytes);          \
  if (!opened_target) {                                                            \
    if (::xdpgpu::tests::required((target).kind)) FAIL() << opened_target.error(); \
    GTEST_SKIP() << (target).name() << " is not there: " << opened_target.error(); \
  }                                                                                \
  auto& device = *opened_target

}  // namespace xdpgpu::tests
