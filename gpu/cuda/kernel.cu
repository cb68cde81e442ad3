// SPDX-License-Identifier: MIT
//
// gpu/cuda/kernel.cu: the CUDA entry: one thread a packet, of a large batch with tables in two kernels.
// Where payload is inspected a warp has fewer packets than lanes (packets_per_warp()), and a block to itself:
// packets take it more or less long, and a block's warps would wait for each other.
#include "gpu/cuda/kernel.hpp"
#include "gpu/cuda/tables.cuh"

namespace xdpgpu::gpu::cuda {
namespace {

constexpr u32 kBlock = kTablesBlock;
using BlockLines = Lines[kBlock / kWarpLanes];

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

// One for each of the block's warps; where there are no tables, so many as it was launched with.
template <Second kSecond>
__device__ __forceinline__ Lines* lines_of() {
  if constexpr (kSecond == Second::nobodys) {
    extern __shared__ Lines some[];
    return some;
  } else {
    __shared__ Lines all[kBlock / kWarpLanes];
    return all;
  }
}

template <Second kSecond>
__device__ __forceinline__ void decide(const xg_batch& batch, const Flows& flows, const Scratch& scratch,
                                       const Completion& completion) {
  Lines* const lines = lines_of<kSecond>();
  __shared__ bool last;
  // The next batch's packets may be fetched.
  let_next_begin();
  const u32 warp = threadIdx.x / kWarpLanes;
  u32 i = blockIdx.x * kBlock + threadIdx.x;
  if constexpr (kSecond == Second::nobodys)
    i = lane_of((blockIdx.x * (blockDim.x / kWarpLanes) + warp) * completion.per_warp, completion.per_warp,
                batch.count);
  decide_packet<true, kSecond != Second::nobodys>(batch, i, flows, scratch, lines[warp]);
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
    finish_tables(batch, flows, scratch, *reinterpret_cast<BlockLines*>(lines));
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
__device__ __forceinline__ void finish(const xg_batch& batch, const Flows& flows, const Scratch& scratch,
                                       const Completion& completion) {
  __shared__ Lines lines[kBlock / kWarpLanes];
  __shared__ Place place;
  let_next_begin();
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

}  // namespace
}  // namespace xdpgpu::gpu::cuda

// Kernel of gpu/cuda/kernels.hpp; launch() says what they are for.
using xdpgpu::gpu::cuda::Completion;
using xdpgpu::gpu::cuda::Flows;
using xdpgpu::gpu::cuda::Scratch;
using xdpgpu::gpu::cuda::Second;

#define XG_DECIDES(name, what, ...)                                                                  \
  extern "C" __global__ void __launch_bounds__(__VA_ARGS__)                                          \
      name(const __grid_constant__ xg_batch batch, const __grid_constant__ Flows flows,              \
           const __grid_constant__ Scratch scratch, const __grid_constant__ Completion completion) { \
    xdpgpu::gpu::cuda::what(batch, flows, scratch, completion);                                      \
  }
// A multiprocessor held six blocks of these when their rates were measured. Left alone, the compiler takes so
// many registers with one stage more, whatever that does, that it holds fewer.
XG_DECIDES(xg_decide, decide<Second::nobodys>, xdpgpu::gpu::cuda::kBlock, 6)
XG_DECIDES(xg_decide_alone, decide<Second::block>, xdpgpu::gpu::cuda::kBlock)
XG_DECIDES(xg_decide_team, decide<Second::team>, xdpgpu::gpu::cuda::kBlock, 6)
XG_DECIDES(xg_finish, finish<false>, xdpgpu::gpu::cuda::kBlock, 3)
XG_DECIDES(xg_finish_crowded, finish<true>, xdpgpu::gpu::cuda::kBlock, 2)
