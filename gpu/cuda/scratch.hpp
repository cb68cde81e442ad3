// SPDX-License-Identifier: MIT
//
// gpu/cuda/scratch.hpp: what the kernels of a queue keep of a batch between its two parts, where its
// pipelines have tables: all blocks bring their packets to the first table, then one takes them through the
// tables in their order (gpu/cuda/tables.cuh).
#pragma once

#include <cuda_runtime_api.h>

#include "maps/types.h"

namespace xdpgpu::gpu::cuda {

// Device memory. What a batch leaves in it is over with the batch.
struct Scratch {
  u32* lock = nullptr;     // the device's, 0 while nobody is at its tables
  u32* marks = nullptr;    // one a packet of a batch
  uint4* lines = nullptr;  // likewise, kLanesPerLine each: the line that its headers came in
};

// Values of Scratch::marks: 0, the packet is decided; else 1 + the position of the stage that it waits for.
inline constexpr u32 kMarkPosition = 0xffff;
inline constexpr u32 kMarkLine = 0x10000;  // its line is there, and has all fields

constexpr u64 scratch_bytes(u64 packets) { return packets * (128 + sizeof(u32)); }

}  // namespace xdpgpu::gpu::cuda
