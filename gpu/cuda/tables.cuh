// SPDX-License-Identifier: MIT
//
// gpu/cuda/tables.cuh: the second part of a batch whose pipelines have tables (gpu/stages/table.h): one block
// takes its packets through them, kTablesBlock at a time. In each round the packets of one set are one
// thread's, which applies them in their order; those of different sets do not wait for each other.
#pragma once

#include "gpu/cuda/decide.cuh"

namespace xdpgpu::gpu::cuda {

// Threads of a block that calls this, and packets that it takes at a time.
constexpr u32 kTablesBlock = 128;

namespace detail {

// Sets are told apart by so many groups: packets whose sets share one are applied by one thread, too.
constexpr u32 kGroups = 512;
constexpr u32 kGroupWords = kTablesBlock / 32;

// What the packets of a chunk bring to the round's tables, and what comes of it.
struct Round {
  xg_touch touches[kTablesBlock];
  u32 kinds[kTablesBlock];
  u32 bodies[kTablesBlock];
  u32 outcomes[kTablesBlock];
  u32 members[kGroups][kGroupWords];  // one bit a packet; 0 between rounds
};

// Whether packet `mine` is its group's first.
__device__ inline bool is_first(const u32 (&members)[kGroupWords], u32 mine) {
  for (u32 word = 0; word < mine / 32; word++)
    if (members[word] != 0) return false;
  return (members[mine / 32] & ((1u << mine % 32) - 1u)) == 0;
}

__device__ inline void apply_all(const xg_batch& batch, Round& round, u32 (&members)[kGroupWords]) {
  for (u32 word = 0; word < kGroupWords; word++) {
    for (u32 left = members[word]; left != 0; left &= left - 1) {
      const u32 packet = word * 32 + XG_LOWEST_BIT(left);
      round.outcomes[packet] =
          xg_stage_apply(batch, round.kinds[packet], round.bodies[packet], round.touches[packet]);
    }
    members[word] = 0;
  }
}

// For whole blocks. way.kind 0: the packet takes no part.
__device__ inline void go_through(const xg_batch& batch, u32 i, const xg_view& seen, xg_way& way,
                                  xg_result& r, Round& round) {
  const u32 mine = threadIdx.x;
  const u32 rounds = batch.image.v[XG_IMAGE_ROUNDS_AT];
  for (u32 number = 0; number < rounds; number++) {
    const bool here = way.kind != 0 && batch.image.v[way.body + XG_BODY_ROUND] == number;
    u32 group = 0;
    bool tracked = false;
    if (here) {
      xg_touch& touch = round.touches[mine];
      touch = xg_stage_touch(batch, way.kind, way.body, seen, xg_packet_bytes(batch, i));
      round.kinds[mine] = way.kind;
      round.bodies[mine] = way.body;
      round.outcomes[mine] = touch.facts;
      tracked = touch.tag != XG_UNTRACKED;
      group = (touch.set ^ way.body) % kGroups;
      if (tracked) atomicOr(&round.members[group][mine / 32], 1u << mine % 32);
    }
    __syncthreads();
    const bool first = tracked && is_first(round.members[group], mine);
    // apply_all clears what the others look at.
    __syncthreads();
    if (first) apply_all(batch, round, round.members[group]);
    __syncthreads();
    if (here) xg_settle(batch, seen, round.outcomes[mine], way, r);
  }
}

__device__ inline void lock(u32* at) {
  while (atomicCAS(at, 0u, 1u) != 0u) __nanosleep(100);
  __threadfence();
}
__device__ inline void unlock(u32* at) {
  __threadfence();
  atomicExch(at, 0u);
}

}  // namespace detail

// For whole blocks of kTablesBlock threads, once begin_packet() has seen all packets of the batch and is
// known to have: a fence was passed. lines: one for each of the block's warps.
static __device__ __noinline__ void finish_tables(const xg_batch& of, const Flows& flows,
                                                  const Scratch& scratch, Lines* lines) {
  __shared__ detail::Round round;
  xg_batch batch = of;
  batch.states.v = batch.image.v + batch.image.v[XG_IMAGE_WORDS_AT];
  Lines& own = lines[threadIdx.x / kWarpLanes];
  const u32 lane = threadIdx.x % kWarpLanes;
  for (u32 word = threadIdx.x; word < detail::kGroups * detail::kGroupWords; word += kTablesBlock)
    (&round.members[0][0])[word] = 0;
  if (threadIdx.x == 0) detail::lock(scratch.lock);
  __syncthreads();
  for (u32 first = 0; first < batch.count; first += kTablesBlock) {
    const u32 i = first + threadIdx.x;
    const u32 mark = i < batch.count ? __ldcg(scratch.marks + i) : 0u;
    // The lines that the first part kept, eight lanes each as they came.
    const u32 warp_first = i - lane;
#pragma unroll
    for (u32 load = 0; load < kLanesPerLine; load++) {
      const u32 packet = load * kLinesPerLoad + lane / kLanesPerLine;
      const u32 kept = __shfl_sync(~0u, mark, packet) & kMarkLine;
      if (kept != 0)
        own.of[packet].pieces[lane % kLanesPerLine] =
            __ldcg(scratch.lines + u64{warp_first + packet} * kLanesPerLine + lane % kLanesPerLine);
    }
    __syncwarp();
    xg_descriptor descriptor{};
    xg_view seen{};
    xg_result r = xg_no_result();
    xg_way way = xg_way_from(0);
    if (mark != 0) {
      descriptor = batch.descriptors.v[i];
      if ((mark & kMarkLine) != 0) {
        xg_batch copy = batch;
        copy.frames.v = reinterpret_cast<xg_word*>(&own.of[lane]);
        copy.frames_bytes = XG_METADATA_SIZE + XG_CHUNK_SIZE;
        xg_view_packet(copy, {XG_METADATA_SIZE, descriptor.length, descriptor.flags}, seen);
      } else {
        xg_view_packet(batch, descriptor, seen);
      }
      way.position = (mark & kMarkPosition) - 1u;
      xg_advance(batch, seen, way, r);
    }
    detail::go_through(batch, i, seen, way, r, round);
    __syncwarp();
    if (flows.ports != nullptr)
      publish_result(batch, descriptor, seen, flows.ports, flows.receive_queue, r, own);
    detail::store_results(batch, i, r, mark != 0, own);
    __syncwarp();
  }
  __syncthreads();
  if (threadIdx.x == 0) detail::unlock(scratch.lock);
}

}  // namespace xdpgpu::gpu::cuda
