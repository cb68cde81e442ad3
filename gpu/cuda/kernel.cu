// SPDX-License-Identifier: MIT
//
// gpu/cuda/kernel.cu: the CUDA entry: one thread a packet, of a large batch with tables in two kernels.
#include "gpu/cuda/kernel.hpp"

#include <algorithm>

#include "gpu/cuda/tables.cuh"

namespace xdpgpu::gpu::cuda {
namespace {

constexpr u32 kBlock = kTablesBlock;

// The last block's last word.
__device__ void complete(const Completion& completion) {
  __threadfence_system();
  *static_cast<volatile u64*>(completion.finished) = completion.ticket;
}

// Whose the second part of a batch is.
enum class Second {
  nobodys,  // there are no tables
  block,    // the last block's
  team,     // finish()'s, which follows
};

template <Second kSecond>
__global__ void __launch_bounds__(kBlock)
    decide(const xg_batch batch, const Flows flows, const Scratch scratch, const Completion completion) {
  __shared__ Lines lines[kBlock / kWarpLanes];
  __shared__ bool last;
  // From here on the next batch's blocks may come and fetch their packets, as soon as there is room for them.
  cudaTriggerProgrammaticLaunchCompletion();
  decide_packet<true, kSecond != Second::nobodys>(batch, blockIdx.x * kBlock + threadIdx.x, flows, scratch,
                                                  lines[threadIdx.x / kWarpLanes]);
  if constexpr (kSecond == Second::team) {
    // The batch before, which had a team, too, is over.
    if (blockIdx.x == 0 && threadIdx.x == 0) *scratch.team = {};
    return;
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    // The fence orders the whole block's results, which the barrier has put before it, for the host too.
    __threadfence_system();
    last = atomicAdd(completion.blocks, 1u) + 1u == gridDim.x;
  }
  __syncthreads();
  if (!last) return;
  if constexpr (kSecond == Second::block) {
    // What the other blocks kept is read after it was seen that they are through.
    __threadfence();
    finish_tables(batch, flows, scratch, lines);
    __syncthreads();
  }
  if (threadIdx.x != 0) return;
  *completion.blocks = 0;
  complete(completion);
}

// The second part of a large batch with tables. Its packets are read where decide() has kept them, so that
// the next batch's may be fetched meanwhile. So many blocks of a multiprocessor's have their registers at
// once: left to itself the compiler keeps to 128 a thread where a stage has a function that is not inlined,
// and stores what does not fit (864 bytes a thread) to memory.
template <bool kCrowds>
__global__ void __launch_bounds__(kBlock, kCrowds ? 2 : 3)
    finish(const xg_batch batch, const Flows flows, const Scratch scratch, const Completion completion) {
  __shared__ Lines lines[kBlock / kWarpLanes];
  __shared__ Place place;
  cudaTriggerProgrammaticLaunchCompletion();
  if (threadIdx.x == 0) place = join_team(scratch);
  __syncthreads();
  if (place.number == place.size) return;
  finish_in_team<kCrowds>(batch, flows, scratch, lines, place);
  __syncthreads();
  if (threadIdx.x != 0) return;
  // As in decide().
  __threadfence_system();
  if (atomicAdd(&scratch.team->through, 1u) + 1u != place.size) return;
  detail::unlock(&scratch.turn->lock);
  complete(completion);
}

// overlaps: it may begin before what the stream holds before it ends.
cudaError_t launch_kernel(const void* kernel, u32 blocks, bool overlaps, void** arguments,
                          cudaStream_t stream) noexcept {
  cudaLaunchAttribute overlap{};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(kBlock);
  config.stream = stream;
  config.attrs = &overlap;
  config.numAttrs = overlaps ? 1 : 0;
  return cudaLaunchKernelExC(&config, kernel, arguments);
}

const void* address(void (*kernel)(xg_batch, Flows, Scratch, Completion)) {
  return reinterpret_cast<const void*>(kernel);
}

}  // namespace

cudaError_t load_decide() noexcept {
  cudaFuncAttributes attributes{};
  for (const void* kernel : {address(&decide<Second::nobodys>), address(&decide<Second::block>),
                             address(&decide<Second::team>), address(&finish<false>), address(&finish<true>)})
    if (const cudaError_t error = cudaFuncGetAttributes(&attributes, kernel); error != cudaSuccess)
      return error;
  return cudaSuccess;
}

cudaError_t launch(const xg_batch& batch, const Flows& flows, Tables tables, const Scratch& scratch,
                   const Completion& completion, bool overlaps, cudaStream_t stream) noexcept {
  xg_batch batch_argument = batch;
  Flows flows_argument = flows;
  Scratch scratch_argument = scratch;
  Completion completion_argument = completion;
  const bool in_team = tables != Tables::none && batch.count > kAlonePackets;
  void* arguments[] = {&batch_argument, &flows_argument, &scratch_argument, &completion_argument};
  const u32 blocks = (batch.count + kBlock - 1) / kBlock;
  const void* first = address(&decide<Second::nobodys>);
  if (tables != Tables::none) first = address(in_team ? &decide<Second::team> : &decide<Second::block>);
  const cudaError_t error = launch_kernel(first, blocks, overlaps, arguments, stream);
  if (error != cudaSuccess || !in_team) return error;
  return launch_kernel(address(tables == Tables::crowded ? &finish<true> : &finish<false>),
                       std::min(blocks, kTeamBlocks), false, arguments, stream);
}

}  // namespace xdpgpu::gpu::cuda
