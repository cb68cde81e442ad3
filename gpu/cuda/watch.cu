// SPDX-License-Identifier: MIT
//
// gpu/cuda/watch.cu: a warp watches a ring: it polls the next record's ticket, fetches what has come in wide
// loads, and each lane decides and publishes one packet.
//
// What the bus carries: a ticket (one crossing), then all of the round's records at once (a second one),
// then posted writes. Nothing else of the host's memory is read, but for an entry that is taken; and now and
// then, beside a look for a ticket, the word that says whether to go on. That records are the kernel's again
// is said when there is nothing better to do, or when a good part of the ring waits for it: the fence that it
// takes would hold up the next verdict.
#include "gpu/cuda/publish.cuh"
#include "gpu/cuda/watch.hpp"
#include "gpu/mirror.h"

namespace xdpgpu::gpu::cuda {
namespace {

constexpr u32 kWarps = kWatchWarps;
// Records that a warp takes at a time: what its part of the shared memory holds.
constexpr u32 kRound = 16;
constexpr u32 kPieces = sizeof(xg_mirror_record) / sizeof(uint4);
// Looking at the clock and the beat costs as much as looking for a record.
constexpr u32 kLooksPerBeat = 32;
// An empty ring is looked at less and less often: each look crosses the bus, and takes the line away from
// the core that writes it.
constexpr u32 kEagerLooks = 256;
// After so many looks in vain there is time to say what has been consumed.
constexpr u32 kIdleLooks = 8;
constexpr u32 kLeastPauseNs = 250;
constexpr u32 kMostPauseNs = 500;

__device__ u64 now_ns() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// The image of a generation, or nullptr.
__device__ const u32* image_of(const Watch& watch, u32 generation, u32& hint) {
  for (u32 i = 0; i < watch.image_count; i++) {
    const u32 at = (hint + i) % watch.image_count;
    const uint4 image = __ldcv(reinterpret_cast<const uint4*>(watch.images + at));
    const u64 address = u64{image.y} << 32 | image.x;
    if (address == 0 || image.z != generation) continue;
    hint = at;
    return reinterpret_cast<const u32*>(address);
  }
  return nullptr;
}

// For whole warps; `caches`: this lane's result is one to remember.
__device__ Published publish_record(const WatchedRing& ring, const xg_mirror_record& record,
                                    const xg_result& result, bool caches, Lines& lines) {
  FlowVerdict flow{};
  u32 queue = 0;
  u64 rx_time_ns = 0;
  if (caches) {
    flow.key = record.key;
    flow.flow_hash = record.metadata.flow_hash;
    flow.generation = record.metadata.generation;
    flow.verdict = result.verdict;
    flow.rewrite = 0;
    flow.ttl_ms = result.cache_ttl_ms;
    queue = ring.first_shard + record.queue;
    rx_time_ns = record.metadata.rx_time_ns;
  }
  return publish(ring.table, queue, flow, rx_time_ns, caches, lines);
}

// A ring as its warp sees it; the same in all lanes, but for `hint`.
struct Place {
  u64 next;         // number of the record to be taken next
  u64 told;         // what the kernel was last told of that
  u32 width = 1;    // records to look for at once
  u32 hint = 0;     // where the last generation stood
  WatchCounts sum;  // what the host is told, and is not asked for
};

// Tells the kernel that the records taken are its own again, and the host what became of them.
__device__ void give_back(const WatchedRing& ring, volatile WatchCounts* counts, Place& place) {
  __syncwarp();
  if (threadIdx.x % kWarpLanes == 0) {
    counts->taken = place.sum.taken;
    counts->published = place.sum.published;
    counts->evicted = place.sum.evicted;
    counts->unknown_generation = place.sum.unknown_generation;
    counts->undecided = place.sum.undecided;
    // Verdicts of all lanes, behind their own fences, and counts stand before the records are the kernel's.
    mirror_store(&ring.state->consumed, place.next);
  }
  place.told = place.next;
}

// Takes what has come, at most kRound records; their number. word, if there is one, is read in the same
// crossing of the bus, by the last lane alone.
__device__ u32 take(const Watch& watch, const WatchedRing& ring, Place& place, xg_mirror_record* round,
                    const u32* word, u32& read, Lines& lines) {
  const u32 lane = threadIdx.x % kWarpLanes;
  static_assert(kRound < kWarpLanes);
  if (word != nullptr && lane == kWarpLanes - 1) read = __ldcv(word);
  bool there = false;
  if (lane < place.width)
    there = mirror_load(&ring.records[(place.next + lane) & ring.mask].ticket) == place.next + lane + 1;
  const u32 taken = __ffs(~__ballot_sync(~0u, there)) - 1;
  place.width = taken < kRound / 2 ? 2 * taken + 1 : kRound;
  if (taken == 0) return 0;

  // What the lanes acquired with the tickets holds for all of them.
  __syncwarp();
  // All loads before the first store, so that they cross the bus together.
  constexpr u32 kMostPieces = kRound * kPieces / kWarpLanes;
  static_assert(kRound * kPieces % kWarpLanes == 0);
  uint4 got[kMostPieces];
#pragma unroll
  for (u32 i = 0; i < kMostPieces; i++) {
    const u32 piece = i * kWarpLanes + lane;
    if (piece >= taken * kPieces) continue;
    const auto* from =
        reinterpret_cast<const uint4*>(ring.records + ((place.next + piece / kPieces) & ring.mask));
    got[i] = __ldcv(from + piece % kPieces);
  }
#pragma unroll
  for (u32 i = 0; i < kMostPieces; i++)
    if (i * kWarpLanes + lane < taken * kPieces)
      reinterpret_cast<uint4*>(round)[i * kWarpLanes + lane] = got[i];
  __syncwarp();

  bool unknown = false, undecided = false, caches = false;
  xg_result result{};
  if (lane < taken) {
    const xg_mirror_record& record = round[lane];
    const u32* image = image_of(watch, record.metadata.generation, place.hint);
    unknown = image == nullptr;
    if (!unknown) {
      result = mirror_decide(&record, image);
      undecided = XG_VERDICT_ACTION(result.verdict) == XG_ABORTED;
      caches = !undecided && mirror_caches(&record, result, ring.queues);
    }
  }
  __syncwarp();
  Published published = Published::unchanged;
  if (__any_sync(~0u, caches)) published = publish_record(ring, round[lane % kRound], result, caches, lines);
  __syncwarp();
  const bool evicts = published == Published::evicted;
  place.next += taken;
  place.sum.taken += taken;
  place.sum.published += __popc(__ballot_sync(~0u, evicts || published == Published::fresh));
  place.sum.evicted += __popc(__ballot_sync(~0u, evicts));
  place.sum.unknown_generation += __popc(__ballot_sync(~0u, unknown));
  place.sum.undecided += __popc(__ballot_sync(~0u, undecided));
  return taken;
}

// The leading warp's knowledge whether somebody still wants this kernel.
class Lease {
 public:
  __device__ explicit Lease(const Watch& watch) : beat_(__ldcv(watch.beat)), since_(now_ns()) {}
  // seen: the beat now.
  __device__ bool over(const Watch& watch, u32 seen) {
    const u64 now = now_ns();
    if (seen == kWatchStop) return true;
    if (seen != beat_) {
      beat_ = seen;
      since_ = now;
    }
    return now - since_ > watch.lease_ns;
  }

 private:
  u32 beat_;
  u64 since_;
};

__device__ __forceinline__ void look(const Watch& watch) {
  __shared__ __align__(16) u8 rounds[kWarps][kRound * sizeof(xg_mirror_record)];
  __shared__ Lines warps_lines[kWarps];
  Lines& lines = warps_lines[threadIdx.x / kWarpLanes];
  auto* round = reinterpret_cast<xg_mirror_record*>(rounds[threadIdx.x / kWarpLanes]);
  const u32 lane = threadIdx.x % kWarpLanes;
  const u32 ring_index = (blockIdx.x * blockDim.x + threadIdx.x) / kWarpLanes;
  if (ring_index >= watch.ring_count) return;
  const bool leads = ring_index == 0;
  const WatchedRing ring = watch.rings[ring_index];
  // At most this many wait to be given back.
  const u64 held = (u64{ring.mask} + 1) / 4;
  Place place;
  place.next = place.told = mirror_load(&ring.state->consumed);
  place.sum = watch.counts[ring_index];
  Lease lease(watch);
  u32 empty = 0;
  for (u32 looks = 0;; looks++) {
    const bool asks = looks % kLooksPerBeat == 0;
    u32 said = 0;
    const u32 taken =
        take(watch, ring, place, round, asks ? (leads ? watch.beat : watch.end) : nullptr, said, lines);
    empty = taken == 0 ? empty + 1 : 0;
    if (place.told != place.next && (empty >= kIdleLooks || place.next - place.told >= held))
      give_back(ring, watch.counts + ring_index, place);
    if (empty > kEagerLooks) {
      const u32 pause = kLeastPauseNs * (empty / kEagerLooks);
      __nanosleep(pause < kMostPauseNs ? pause : kMostPauseNs);
    }
    if (!asks) continue;
    u32 over = 0;
    if (lane == kWarpLanes - 1) {
      over = leads ? lease.over(watch, said) : said;
      if (leads && over != 0) *static_cast<volatile u32*>(watch.end) = 1;
    }
    if (__shfl_sync(~0u, over, kWarpLanes - 1) == 0) continue;
    if (place.told != place.next) give_back(ring, watch.counts + ring_index, place);
    return;
  }
}

}  // namespace
}  // namespace xdpgpu::gpu::cuda

extern "C" __global__ void __launch_bounds__(xdpgpu::gpu::cuda::kWatchThreads)
    xg_watch(const __grid_constant__ xdpgpu::gpu::cuda::Watch watch) {
  xdpgpu::gpu::cuda::look(watch);
}
