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
  // From here on the next batch's blocks may come and fetch their packets, as soon as there is room for them.
  cudaTriggerProgrammaticLaunchCompletion();
  decide_packet<true>(batch, blockIdx.x * kBlock + threadIdx.x, flows.ports, flows.receive_queue,
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

cudaError_t launch(const xg_batch& batch, const Flows& flows, const Completion& completion, bool overlaps,
                   cudaStream_t stream) noexcept {
  xg_batch batch_argument = batch;
  Flows flows_argument = flows;
  Completion completion_argument = completion;
  void* arguments[] = {&batch_argument, &flows_argument, &completion_argument};
  const dim3 grid((batch.count + kBlock - 1) / kBlock);
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(kBlock);
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = overlaps ? 1 : 0;
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(&decide), arguments);
}

}  // namespace xdpgpu::gpu::cuda
