// SPDX-License-Identifier: MIT
//
// gpu/cuda/kernel.cu: the CUDA entry: one thread a packet.
#include "gpu/cuda/decide.cuh"
#include "gpu/cuda/kernel.hpp"

namespace xdpgpu::gpu::cuda {
namespace {

constexpr u32 kBlock = 128;

__global__ void __launch_bounds__(kBlock)
    decide(const xg_batch batch, const Flows flows, const Completion completion) {
  __shared__ Lines lines[kBlock / kWarpLanes];
  decide_packet(batch, blockIdx.x * kBlock + threadIdx.x, flows.ports, flows.receive_queue,
                lines[threadIdx.x / kWarpLanes]);
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

cudaError_t load_decide() noexcept {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&decide));
}

cudaError_t launch(const xg_batch& batch, const Flows& flows, const Completion& completion,
                   cudaStream_t stream) noexcept {
  xg_batch batch_argument = batch;
  Flows flows_argument = flows;
  Completion completion_argument = completion;
  void* arguments[] = {&batch_argument, &flows_argument, &completion_argument};
  const dim3 grid((batch.count + kBlock - 1) / kBlock);
  return cudaLaunchKernel(reinterpret_cast<const void*>(&decide), grid, dim3(kBlock), arguments, 0, stream);
}

}  // namespace xdpgpu::gpu::cuda
