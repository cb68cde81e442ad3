// SPDX-License-Identifier: MIT
//
// gpu/cuda/watch.hpp: the kernel that stays and looks at mirrored packets (maps/mirror.h), as the host side
// calls it: a warp a ring, no call of the driver and no user-space program between XDP and the verdict.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/cuda/publish.hpp"
#include "maps/mirror.h"

namespace xdpgpu::gpu::cuda {

class Kernels;

// Values of Watch::beat: it counts up, except for this one, which asks the kernel to end at once.
inline constexpr u32 kWatchStop = ~0u;

// 16 bytes, which copies and kernels move in one piece.
struct alignas(16) Image {
  u64 address = 0;  // device; 0: no generation stands here
  u32 generation = 0;
  u32 reserved = 0;
};
static_assert(sizeof(Image) == 16);

// Written by the ring's warp alone, read by the host; a line of its own.
struct alignas(64) WatchCounts {
  u64 taken, published, evicted, unknown_generation, undecided;
  u64 reserved[3];
};
static_assert(sizeof(WatchCounts) == 64);

// One ring, in addresses of the device.
struct WatchedRing {
  const xg_mirror_record* records = nullptr;
  xg_mirror_state* state = nullptr;  // its `consumed` says where the kernel begins
  const PortTable* table = nullptr;  // of the ring's port
  u32 mask = 0;                      // slots - 1
  u32 first_shard = 0;               // in `table`, of receive queue 0's mirrors
  u32 queues = 0;                    // shards from there on
  u32 reserved = 0;
};

struct Watch {
  const WatchedRing* rings = nullptr;  // device memory
  WatchCounts* counts = nullptr;       // pinned, by ring
  u32 ring_count = 0;
  const Image* images = nullptr;  // device memory
  u32 image_count = 0;
  const u32* beat = nullptr;  // pinned: the host counts up while it has use for the kernel
  u32* end = nullptr;         // device memory, zeroed: the leading warp tells the others to leave
  u64 lease_ns = 0;           // without a beat for so long the kernel ends
};

// Warps of a block; one each, as fences of one ring would hold up others on the same processor.
inline constexpr u32 kWatchWarps = 1;
inline constexpr u32 kWatchThreads = kWatchWarps * 32;

// Rings that the GPU, the calling thread's current one, can watch at once beside its other work.
cudaError_t most_watched_rings(const Kernels& kernels, int ordinal, u32& rings) noexcept;

// Starts the kernel. Another one of the same rings must have ended.
cudaError_t launch_watch(const Kernels& kernels, const Watch& watch, cudaStream_t stream) noexcept;

}  // namespace xdpgpu::gpu::cuda
