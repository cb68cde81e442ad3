// SPDX-License-Identifier: MIT
//
// gpu/cuda/watch.cu: a warp watches a ring: it polls the next record's ticket, fetches what has come in wide
// loads, and each lane decides and publishes one packet.
//
// What the bus carries: a ticket (one crossing), then all of the round's records at once (a second one),
// then posted writes. Nothing else of the host's memory is read, but for an entry that is taken.
#include "gpu/cuda/publish.cuh"
#include "gpu/cuda/watch.hpp"
#include "gpu/mirror.h"

namespace xdpgpu::gpu::cuda {
namespace {

constexpr u32 kWarp = 32;
constexpr u32 kWarps = 4;  // a block
// Records that a warp takes at a time: what its part of the shared memory holds.
constexpr u32 kRound = 16;
constexpr u32 kPieces = sizeof(xg_mirror_record) / sizeof(uint4);
// Looking at the clock and the beat costs as much as looking for a record.
constexpr u32 kLooksPerBeat = 32;
// An empty ring is looked at less and less often: each look crosses the bus, and takes the line away from
// the core that writes it.
constexpr u32 kEagerLooks = 256;
constexpr u32 kLeastPauseNs = 250;
constexpr u32 kMostPauseNs = 2000;

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

__device__ Published publish_record(const WatchedRing& ring, const xg_mirror_record& record,
                                    const xg_result& result) {
  FlowVerdict flow;
  flow.key = record.key;
  flow.flow_hash = record.metadata.flow_hash;
  flow.generation = record.metadata.generation;
  flow.verdict = result.verdict;
  flow.rewrite = 0;
  flow.ttl_ms = result.cache_ttl_ms;
  return publish(*ring.table, ring.first_shard + record.queue, flow, record.metadata.rx_time_ns);
}

// A ring as its warp sees it; the same in all lanes, but for `hint`.
struct Place {
  u64 next;         // number of the record to be taken next
  u32 width = 1;    // records to look for at once
  u32 hint = 0;     // where the last generation stood
  WatchCounts sum;  // what the host is told, and is not asked for
};

// Takes what has come, at most kRound records; their number.
__device__ u32 take(const Watch& watch, const WatchedRing& ring, volatile WatchCounts* counts, Place& place,
                    xg_mirror_record* round) {
  const u32 lane = threadIdx.x % kWarp;
  bool there = false;
  if (lane < place.width)
    there = mirror_load(&ring.records[(place.next + lane) & ring.mask].ticket) == place.next + lane + 1;
  const u32 taken = __ffs(~__ballot_sync(~0u, there)) - 1;
  place.width = taken < kRound / 2 ? 2 * taken + 1 : kRound;
  if (taken == 0) return 0;

  for (u32 piece = lane; piece < taken * kPieces; piece += kWarp) {
    const auto* from =
        reinterpret_cast<const uint4*>(ring.records + ((place.next + piece / kPieces) & ring.mask));
    reinterpret_cast<uint4*>(round)[piece] = __ldcv(from + piece % kPieces);
  }
  __syncwarp();

  bool unknown = false, undecided = false;
  Published published = Published::unchanged;
  if (lane < taken) {
    const xg_mirror_record& record = round[lane];
    const u32* image = image_of(watch, record.metadata.generation, place.hint);
    unknown = image == nullptr;
    if (!unknown) {
      const xg_result result = mirror_decide(&record, image);
      undecided = XG_VERDICT_ACTION(result.verdict) == XG_ABORTED;
      if (!undecided && mirror_caches(&record, result, ring.queues))
        published = publish_record(ring, record, result);
    }
  }
  __syncwarp();
  const bool evicts = published == Published::evicted;
  place.next += taken;
  place.sum.taken += taken;
  place.sum.published += __popc(__ballot_sync(~0u, evicts || published == Published::fresh));
  place.sum.evicted += __popc(__ballot_sync(~0u, evicts));
  place.sum.unknown_generation += __popc(__ballot_sync(~0u, unknown));
  place.sum.undecided += __popc(__ballot_sync(~0u, undecided));
  if (lane == 0) {
    counts->taken = place.sum.taken;
    counts->published = place.sum.published;
    counts->evicted = place.sum.evicted;
    counts->unknown_generation = place.sum.unknown_generation;
    counts->undecided = place.sum.undecided;
    // Verdicts of all lanes and counts stand before the records are the kernel's again.
    __threadfence_system();
    mirror_store(&ring.state->consumed, place.next);
  }
  return taken;
}

// The leading warp's look whether somebody still wants this kernel.
class Lease {
 public:
  __device__ explicit Lease(const Watch& watch) : beat_(__ldcv(watch.beat)), since_(now_ns()) {}
  __device__ bool over(const Watch& watch) {
    const u32 seen = __ldcv(watch.beat);
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

__global__ void __launch_bounds__(kWarps* kWarp) look(const Watch watch) {
  __shared__ __align__(16) u8 rounds[kWarps][kRound * sizeof(xg_mirror_record)];
  auto* round = reinterpret_cast<xg_mirror_record*>(rounds[threadIdx.x / kWarp]);
  const u32 lane = threadIdx.x % kWarp;
  const u32 ring_index = (blockIdx.x * blockDim.x + threadIdx.x) / kWarp;
  if (ring_index >= watch.ring_count) return;
  const bool leads = ring_index == 0;
  const WatchedRing ring = watch.rings[ring_index];
  Place place;
  place.next = mirror_load(&ring.state->consumed);
  place.sum = watch.counts[ring_index];
  Lease lease(watch);
  u32 empty = 0;
  for (u32 looks = 0;; looks++) {
    if (take(watch, ring, watch.counts + ring_index, place, round) != 0) {
      empty = 0;
    } else if (++empty > kEagerLooks) {
      const u32 pause = kLeastPauseNs * (empty / kEagerLooks);
      __nanosleep(pause < kMostPauseNs ? pause : kMostPauseNs);
    }
    if (looks % kLooksPerBeat != 0) continue;
    u32 over = 0;
    if (lane == 0) {
      over = leads ? lease.over(watch) : __ldcv(watch.end);
      if (leads && over != 0) *static_cast<volatile u32*>(watch.end) = 1;
    }
    if (__shfl_sync(~0u, over, 0) != 0) return;
  }
}

}  // namespace

cudaError_t load_watch() noexcept {
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, reinterpret_cast<const void*>(&look));
}

cudaError_t most_watched_rings(int ordinal, u32& rings) noexcept {
  int processors = 0, blocks = 0;
  cudaError_t error = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, ordinal);
  if (error == cudaSuccess)
    error = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, look, kWarps * kWarp, 0);
  // Half the GPU is for the packets that are inspected.
  rings = error == cudaSuccess ? static_cast<u32>(processors * blocks) * kWarps / 2 : 0;
  return error;
}

cudaError_t launch_watch(const Watch& watch, cudaStream_t stream) noexcept {
  const u32 blocks = (watch.ring_count + kWarps - 1) / kWarps;
  if (const cudaError_t error = cudaMemsetAsync(watch.end, 0, sizeof(u32), stream); error != cudaSuccess)
    return error;
  Watch argument = watch;
  void* arguments[] = {&argument};
  return cudaLaunchKernel(reinterpret_cast<const void*>(&look), dim3(blocks), dim3(kWarps * kWarp), arguments,
                          0, stream);
}

}  // namespace xdpgpu::gpu::cuda
