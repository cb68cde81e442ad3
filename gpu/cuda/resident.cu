// SPDX-License-Identifier: MIT
//
// gpu/cuda/resident.cu: the kernel that stays. Its first block leads: it alone looks at the host's memory,
// takes small batches by itself and shares larger ones with the others, so that all blocks agree on
// which batch is next and when to end.
#include "gpu/cuda/resident.hpp"
#include "gpu/cuda/tables.cuh"

namespace xdpgpu::gpu::cuda {
namespace {

static_assert(kResidentBlock == kTablesBlock);

// Looking at the clock and the beat costs as much as looking for a job.
constexpr u32 kLooksPerBeat = 64;

__device__ u64 now_ns() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ Job fetch(const Job* from) {
  const uint4* halves = reinterpret_cast<const uint4*>(from);
  const uint4 a = __ldcv(halves);
  const uint4 b = __ldcv(halves + 1);
  return {u64{a.y} << 32 | a.x, a.z, a.w, b.x, b.y, b.z, b.w};
}

// Waits for the job of `ticket`. False: the kernel is to end.
__device__ bool await(const Resident& r, u64 ticket, Job& job) {
  u32 beat = __ldcv(r.beat);
  u64 since = now_ns();
  for (;;) {
    for (u32 i = 0; i < kLooksPerBeat; i++) {
      job = fetch(r.jobs + ticket % r.depth);
      // Another kernel's job is left to that one.
      if (job.ticket == u32(ticket) && job.ticket_again == u32(ticket)) return job.code == r.code;
    }
    const u32 seen = __ldcv(r.beat);
    const u64 now = now_ns();
    if (seen == kResidentStop) return false;
    if (seen != beat) {
      beat = seen;
      since = now;
    }
    if (now - since > r.lease_ns) return false;
  }
}

using BlockLines = Lines[kResidentBlock / kWarpLanes];

// Packets that the first block takes by itself: one a thread, or, where payload is inspected, one a warp.
__device__ u32 most_alone(const Resident& r, const Job& job) {
  const xg_batch batch = batch_of(r.slots, job.slot, job.image, job.count, job.generation);
  const bool together = !has_tables(batch) && batch.image.v[XG_IMAGE_INSPECTS_AT] != 0;
  return together ? kResidentBlock / kWarpLanes : kResidentBlock;
}

__device__ void work(const Resident& r, const Job& job, u32 block, u32 blocks, BlockLines& lines) {
  const xg_batch batch = batch_of(r.slots, job.slot, job.image, job.count, job.generation);
  decide_share<kResidentBlock>(batch, r.slots.flows, r.slots.scratch, block, blocks, lines);
}

// The leader's, after all blocks' work.
__device__ void finish(const Resident& r, const Job& job, BlockLines& lines) {
  const xg_batch batch = batch_of(r.slots, job.slot, job.image, job.count, job.generation);
  if (!has_tables(batch)) return;
  // What the other blocks kept is read after it was seen that they are through.
  __threadfence();
  finish_tables(batch, r.slots.flows, r.slots.scratch, lines);
  __syncthreads();
}

__device__ void lead(const Resident& r, Job& job, u32& go_on, BlockLines& lines) {
  volatile Command* command = r.command;
  for (u64 ticket = r.first;; ticket++) {
    if (threadIdx.x == 0) go_on = await(r, ticket, job);
    __syncthreads();
    if (go_on == 0) break;
    // What the host wrote before the job is read after it.
    __threadfence_system();
    const bool shared = gridDim.x > 1 && job.count > most_alone(r, job);
    if (shared && threadIdx.x == 0) {
      r.command->job = job;
      command->through = 0;
      __threadfence();
      command->ticket = ticket;
    }
    work(r, job, 0, shared ? gridDim.x : 1, lines);
    __syncthreads();
    if (threadIdx.x == 0) {
      while (shared && command->through != gridDim.x - 1) {
      }
    }
    __syncthreads();
    finish(r, job, lines);
    if (threadIdx.x == 0) {
      __threadfence_system();
      *static_cast<volatile u64*>(r.finished) = ticket;
    }
  }
  if (threadIdx.x != 0) return;
  command->ticket = kResidentEnd;
  __threadfence_system();
  *static_cast<volatile u32*>(r.ended) = r.launch;
}

__device__ void follow(const Resident& r, Job& job, u32& go_on, BlockLines& lines) {
  volatile Command* command = r.command;
  u64 last = 0;
  for (;;) {
    if (threadIdx.x == 0) {
      u64 ticket;
      while ((ticket = command->ticket) == last) __nanosleep(100);
      last = ticket;
      go_on = ticket != kResidentEnd;
      __threadfence();
      if (go_on != 0) job = fetch(&r.command->job);
    }
    __syncthreads();
    if (go_on == 0) return;
    __threadfence_system();
    work(r, job, blockIdx.x, gridDim.x, lines);
    // The fence orders the whole block's results, which the barrier has put before it, for the host too.
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence_system();
      atomicAdd(&r.command->through, 1u);
    }
  }
}

__device__ __forceinline__ void reside(const Resident& resident) {
  __shared__ Job job;
  __shared__ u32 go_on;
  __shared__ BlockLines lines;
  if (blockIdx.x == 0)
    lead(resident, job, go_on, lines);
  else
    follow(resident, job, go_on, lines);
}

}  // namespace
}  // namespace xdpgpu::gpu::cuda

extern "C" __global__ void __launch_bounds__(xdpgpu::gpu::cuda::kResidentBlock)
    xg_reside(const __grid_constant__ xdpgpu::gpu::cuda::Resident resident) {
  xdpgpu::gpu::cuda::reside(resident);
}
