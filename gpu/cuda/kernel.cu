// SPDX-License-Identifier: MIT
//
// gpu/cuda/kernel.cu: the CUDA entry: one thread a packet.
#include "gpu/cuda/kernel.hpp"
#include "gpu/stages/pipeline.h"

namespace xdpgpu::gpu::cuda {
namespace {

constexpr u32 kBlock = 128;

__global__ void __launch_bounds__(kBlock) decide(const xg_batch batch, const Completion completion) {
  const u32 i = blockIdx.x * kBlock + threadIdx.x;
  if (i < batch.count) {
    const xg_result r = xg_decide(batch, i);
    // Results cross the bus: two wide stores instead of eight narrow ones.
    static_assert(sizeof(xg_result) == 2 * sizeof(uint4));
    uint4* out = reinterpret_cast<uint4*>(batch.results.v + i);
    out[0] = make_uint4(r.verdict, r.flags, r.dst_mac[0], r.dst_mac[1]);
    out[1] = make_uint4(r.src_mac[0], r.src_mac[1], r.cache_ttl_ms, r.detail);
  }
  __syncthreads();
  if (threadIdx.x != 0) return;
  // The fence orders the whole block's results, which the barrier has put before it, for the host too.
  __threadfence_system();
  if (atomicAdd(completion.blocks, 1u) + 1u != gridDim.x) return;
  *completion.blocks = 0;
  __threadfence_system();
  *static_cast<volatile u64*>(completion.finished) = completion.ticket;
}

}  // namespace

cudaError_t launch(const xg_batch& batch, const Completion& completion, cudaStream_t stream) noexcept {
  xg_batch batch_argument = batch;
  Completion completion_argument = completion;
  void* arguments[] = {&batch_argument, &completion_argument};
  const dim3 grid((batch.count + kBlock - 1) / kBlock);
  return cudaLaunchKernel(reinterpret_cast<const void*>(&decide), grid, dim3(kBlock), arguments, 0, stream);
}

}  // namespace xdpgpu::gpu::cuda
