// SPDX-License-Identifier: MIT
//
// gpu/cpu/loaded.hpp: a loaded generation, as the CPU device's queues and its mirror look it up.
#pragma once

#include <memory>
#include <vector>

#include "gpu/large_vector.hpp"
#include "gpu/pipelines.hpp"

namespace xdpgpu::gpu::cpu {

struct Loaded {
  std::shared_ptr<const Pipelines> pipelines;
  std::vector<std::shared_ptr<LargeVector<u32>>> tables;  // of the stages that have one
  std::vector<u32> addresses;  // of these, as xg_batch.states has them: counted in their heads
  // xg_batch.changes; nullptr: there is nothing to change.
  std::shared_ptr<LargeVector<u32>> changes;
};

}  // namespace xdpgpu::gpu::cpu
