// SPDX-License-Identifier: MIT
//
// gpu/cuda/kernel.cu: the CUDA entry: one thread a packet.
#include "gpu/cuda/kernel.hpp"
#include "gpu/cuda/tables.cuh"

namespace xdpgpu::gpu::cuda {
namespace {

constexpr u32 kBlock = kTablesBlock;

template <bool kTables>
__global__ void __launch_bounds__(kBlock)
    decide(const xg_batch batch, const Flows flows, const Scratch scratch, const Completion completion) {
  __shared__ Lines lines[kBlock / kWarpLanes];
  __shared__ bool last;
  // From here on the next batch's blocks may come and fetch their packets, as soon as there is room for them.
  cudaTriggerProgrammaticLaunchCompletion();
  decide_packet<true, kTables>(batch, blockIdx.x * kBlock + threadIdx.x, flows, scratch,
                               lines[threadIdx.x / kWarpLanes]);
  __syncthreads();
  if (threadIdx.x == 0) {
    // The fence orders the whole block's results, which the barrier has put before it, for the host too.
    __threadfence_system();
    last = atomicAdd(completion.blocks, 1u) + 1u == gridDim.x;
  }
  __syncthreads();
  if (!last) return;
  if constexpr (kTables) {
    // What the other blocks kept is read after it was seen that they are through.
    __threadfence();
    finish_tables(batch, flows, scratch, lines);
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  *completion.blocks = 0;
  __threadfence_system();
  *static_cast<volatile u64*>(completion.finished) = completion.ticket;
}

}  // namespace

cudaError_t load_decide() noexcept {
  cudaFuncAttributes attributes{};
  const cudaError_t error = cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&decide<false>));
  if (error != cudaSuccess) return error;
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&decide<true>));
}

cudaError_t launch(const xg_batch& batch, const Flows& flows, bool tables, const Scratch& scratch,
                   const Completion& completion, bool overlaps, cudaStream_t stream) noexcept {
  xg_batch batch_argument = batch;
  Flows flows_argument = flows;
  Scratch scratch_argument = scratch;
  Completion completion_argument = completion;
  void* arguments[] = {&batch_argument, &flows_argument, &scratch_argument, &completion_argument};
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
  const void* kernel =
      tables ? reinterpret_cast<const void*>(&decide<true>) : reinterpret_cast<const void*>(&decide<false>);
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

}  // namespace xdpgpu::gpu::cuda
