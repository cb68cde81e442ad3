// SPDX-License-Identifier: MIT
//
// gpu/cuda/posted.cu: the kernel that waits in a stream for its batch. What it reads of the host stands still
// from before it starts, so that all of its blocks see the same.
#include "gpu/cuda/posted.hpp"
#include "gpu/cuda/tables.cuh"

namespace xdpgpu::gpu::cuda {
namespace {

static_assert(kPostedBlock == kTablesBlock);

__device__ bool is_withdrawn(const Posted& p) {
  return __ldcv(p.withdrawn) < p.post && p.post <= __ldcv(p.withdrawn + 1);
}

__device__ Order fetch(const Order* from) {
  const uint4* halves = reinterpret_cast<const uint4*>(from);
  const uint4 a = __ldcv(halves);
  const uint4 b = __ldcv(halves + 1);
  return {u64{a.y} << 32 | a.x, u64{a.w} << 32 | a.z, b.x, b.y, b.z, b.w};
}

__device__ __forceinline__ void decide_posted(const Posted& posted) {
  __shared__ Order order;
  __shared__ u32 withdrawn;
  if (threadIdx.x == 0) {
    withdrawn = is_withdrawn(posted);
    if (withdrawn == 0) order = fetch(posted.orders + (posted.post & (posted.places - 1)));
  }
  __syncthreads();
  __shared__ Lines lines[kPostedBlock / kWarpLanes];
  __shared__ bool last;
  const SlotsView& slots = posted.slots;
  xg_batch batch{};
  if (withdrawn == 0) {
    batch = batch_of(slots, order.slot, order.image, order.count, order.generation);
    decide_share<kPostedBlock>(batch, slots.flows, slots.scratch, blockIdx.x, gridDim.x, lines);
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    // The fence orders the whole block's results, which the barrier has put before it, for the host too.
    __threadfence_system();
    last = atomicAdd(posted.blocks, 1u) + 1u == gridDim.x;
  }
  __syncthreads();
  if (!last) return;
  if (withdrawn == 0 && has_tables(batch)) {
    // What the other blocks kept is read after it was seen that they are through.
    __threadfence();
    finish_tables(batch, slots.flows, slots.scratch, lines);
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  *posted.blocks = 0;
  __threadfence_system();
  if (withdrawn == 0) *static_cast<volatile u64*>(posted.finished) = order.ticket;
  *static_cast<volatile u64*>(posted.ran) = posted.post;
}

}  // namespace
}  // namespace xdpgpu::gpu::cuda

extern "C" __global__ void __launch_bounds__(xdpgpu::gpu::cuda::kPostedBlock)
    xg_decide_posted(const __grid_constant__ xdpgpu::gpu::cuda::Posted posted) {
  xdpgpu::gpu::cuda::decide_posted(posted);
}
