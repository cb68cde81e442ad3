// SPDX-License-Identifier: MIT
//
// gpu/cuda/posted.hpp: a kernel that is enqueued before there is a batch for it and finds out which one it
// has when it runs, as the host side calls it.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/cuda/slots_view.hpp"

namespace xdpgpu::gpu::cuda {

// What a post is about; the host writes it before it lets the post run.
struct alignas(32) Order {
  u64 image;   // device address of the generation's image
  u64 ticket;  // the batch's number
  u32 count;
  u32 generation;
  u32 slot;
  u32 unused;
};
static_assert(sizeof(Order) == 32);

// Posts are numbered from 1 and run in this order.
struct Posted {
  const Order* orders = nullptr;  // pinned: post p's stands at p % places
  u32 places = 0;                 // power of two
  SlotsView slots;
  const u64* withdrawn = nullptr;  // pinned, two: posts behind the first and up to the second do nothing
  u64* finished = nullptr;         // pinned: ticket of the last batch that is through
  u64* ran = nullptr;              // pinned: the last post that is through
  u32* blocks = nullptr;           // device memory, 0 between posts: blocks that are through
  u64 post = 0;
};

// Enqueues a post of `blocks` blocks on `stream`, behind whatever lets it run. Posts that share
// Posted::blocks share the stream. Any error is the device's end.
cudaError_t launch_posted(const Kernels& kernels, const Posted& posted, u32 blocks,
                          cudaStream_t stream) noexcept;

// Packets that a block takes at a time.
inline constexpr u32 kPostedBlock = 128;

}  // namespace xdpgpu::gpu::cuda
