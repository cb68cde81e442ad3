// SPDX-License-Identifier: MIT
//
// gpu/cuda/publish.cuh: the GPU's side of the flow verdict table's protocol (maps/flow.h): a thread
// publishes a verdict where the XDP program reads it.
//
// Threads that want the same bucket take turns by a lock in device memory. What stands in the bucket is
// looked up in the directory; the host's memory is only written, but for the counts of the entry that is
// taken, and for the times of last use where a live one has to give way.
#pragma once

#include "gpu/checksum.h"
#include "gpu/cuda/publish.hpp"
#include "gpu/flow_key.h"

namespace xdpgpu::gpu::cuda {

enum class Published : u32 { busy, unchanged, fresh, evicted };

// What is to be remembered of a flow.
struct FlowVerdict {
  xg_flow_key key;
  u32 flow_hash;
  u32 generation;
  u32 verdict;
  u32 rewrite;  // index into the kernel's rewrites
  u32 ttl_ms;   // 0: as long as the generation lives
};

namespace detail {

constexpr u64 kMs = 1'000'000;
// A bucket is taken for some crossings of the bus; a thread that waits longer leaves the flow to its next
// packet.
constexpr u32 kTries = 200;

__device__ inline u64 load_host(const u64* from) { return *reinterpret_cast<const volatile u64*>(from); }
__device__ inline void store_host(u64* to, u64 value) { *reinterpret_cast<volatile u64*>(to) = value; }

// The directory is read past the first-level cache, which does not see other threads' writes.
__device__ inline bool same_key(const xg_flow_verdict* entry, const xg_flow_key& key) {
  static_assert(sizeof(xg_flow_key) == 44 && offsetof(xg_flow_verdict, key) == 8);
  const u32* words = reinterpret_cast<const u32*>(entry) + 2;
  const u32* wanted = reinterpret_cast<const u32*>(&key);
  u32 differ = 0;
#pragma unroll
  for (u32 i = 0; i < 11; i++) differ |= __ldcg(words + i) ^ wanted[i];
  return differ == 0;
}

__device__ inline bool dead(const Way& way, u32 generation, u64 now_ns) {
  return __ldcg(&way.entry.generation) != generation ||
         xg_flow_expired(__ldcg(&way.entry.expires_ms), static_cast<u32>(now_ns / kMs));
}

// Does the bucket say all this already?
__device__ inline bool says_so(const Way* ways, const FlowVerdict& flow, u64 now_ns) {
  for (u32 i = 0; i < XG_FLOW_WAYS; i++) {
    const Way& way = ways[i];
    if (__ldcg(&way.entry.verdict) == flow.verdict && !dead(way, flow.generation, now_ns) &&
        xg_flow_lives_on(__ldcg(&way.entry.expires_ms), flow.ttl_ms, static_cast<u32>(now_ns / kMs)) != 0 &&
        same_key(&way.entry, flow.key) &&
        *reinterpret_cast<const volatile u16*>(&way.entry.rewrite) == flow.rewrite)
      return true;
  }
  return false;
}

// The way of the same key, else a dead one, else the one used or published the longest ago. evicts: it is
// another flow's, and alive.
__device__ inline u32 choose(const Way* ways, const xg_flow_stats* stats, const FlowVerdict& flow, u64 now_ns,
                             bool& evicts) {
  evicts = false;
  u32 free = XG_FLOW_WAYS;
  for (u32 i = 0; i < XG_FLOW_WAYS; i++) {
    if (__ldcg(&ways[i].entry.generation) != 0 && same_key(&ways[i].entry, flow.key)) return i;
    if (free == XG_FLOW_WAYS && dead(ways[i], flow.generation, now_ns)) free = i;
  }
  if (free != XG_FLOW_WAYS) return free;
  evicts = true;
  u64 seen[XG_FLOW_WAYS];
#pragma unroll
  for (u32 i = 0; i < XG_FLOW_WAYS; i++) seen[i] = load_host(&stats[i].last_seen_ns);
  u32 victim = 0;
  u64 oldest = ~u64{0};
#pragma unroll
  for (u32 i = 0; i < XG_FLOW_WAYS; i++) {
    const u64 published = __ldcg(&ways[i].published_ns);
    const u64 used = seen[i] > published ? seen[i] : published;
    if (used < oldest) {
      oldest = used;
      victim = i;
    }
  }
  return victim;
}

__device__ inline void write(xg_flow_verdict* entry, xg_flow_stats* stats, Way* way, const FlowVerdict& flow,
                             u64 now_ns) {
  union {
    xg_flow_verdict entry;
    u64 words[8];
  } fresh{};
  const u64 publications = __ldcg(&way->publications) + 1;
  fresh.entry.generation = flow.generation;
  fresh.entry.incarnation = static_cast<u16>(publications);
  fresh.entry.action = static_cast<u8>(XG_VERDICT_ACTION(flow.verdict));
  fresh.entry.target = static_cast<u8>(XG_VERDICT_PORT(flow.verdict));
  fresh.entry.key = flow.key;
  fresh.entry.verdict = flow.verdict;
  if (flow.ttl_ms != 0) {
    const u32 at = static_cast<u32>(now_ns / kMs) + flow.ttl_ms;
    fresh.entry.expires_ms = at != 0 ? at : 1;
  }
  fresh.entry.rewrite = static_cast<u16>(flow.rewrite);

  // First the directory, so that packets of the same flow find it said.
  u64* copy = reinterpret_cast<u64*>(&way->entry);
#pragma unroll
  for (u32 i = 1; i < 8; i++) __stcg(copy + i, fresh.words[i]);
  __stcg(copy, fresh.words[0]);
  way->published_ns = now_ns;
  way->publications = publications;

  u64* to = reinterpret_cast<u64*>(entry);
  store_host(to, 0);
  const u64 packets = load_host(&stats->packets);
  const u64 bytes = load_host(&stats->bytes);
  __threadfence_system();
  store_host(&stats->base_packets, packets);
  store_host(&stats->base_bytes, bytes);
  store_host(&stats->published_ns, now_ns);
  store_host(&stats->publications, publications);
#pragma unroll
  for (u32 i = 1; i < 8; i++) store_host(to + i, fresh.words[i]);
  __threadfence_system();
  store_host(to, fresh.words[0]);
}

}  // namespace detail

__device__ inline bool checksum_is_partial(const xg_batch& batch, const xg_descriptor& descriptor) {
  const u8* frame = reinterpret_cast<const u8*>(batch.frames.v) + descriptor.offset;
  xg_metadata metadata;
  memcpy(&metadata, frame - XG_METADATA_SIZE, sizeof(metadata));
  return xg_partial_checksum(frame, descriptor.length, &metadata).field != 0;
}

// queue: below table.queues. now_ns: CLOCK_MONOTONIC, the packet's.
__device__ inline Published publish(const PortTable& table, u32 queue, const FlowVerdict& flow, u64 now_ns) {
  const u32 buckets = table.entries_per_queue / XG_FLOW_WAYS;
  const u64 bucket = u64{queue} * buckets + (flow.flow_hash & (buckets - 1));
  Way* const ways = table.ways + bucket * XG_FLOW_WAYS;
  u32* const lock = table.locks + bucket;
  for (u32 i = 0; i < detail::kTries; i++) {
    if (detail::says_so(ways, flow, now_ns)) return Published::unchanged;
    if (atomicCAS(lock, 0, 1) != 0) {
      __nanosleep(100);
      continue;
    }
    __threadfence();
    bool evicts = false;
    const u32 way = detail::choose(ways, table.stats + bucket * XG_FLOW_WAYS, flow, now_ns, evicts);
    const u64 index = bucket * XG_FLOW_WAYS + way;
    detail::write(table.entries + index, table.stats + index, ways + way, flow, now_ns);
    // Whoever comes next writes after this, for the kernel too.
    __threadfence_system();
    atomicExch(lock, 0);
    return evicts ? Published::evicted : Published::fresh;
  }
  return Published::busy;
}

// Publishes what was decided of a packet, where it is to be remembered and the kernel can act by it; notes
// that in the result. ports: XG_MAX_PORTS tables; queue: the receive queue whose packets the batch holds.
__device__ inline void publish_result(const xg_batch& batch, const xg_descriptor& descriptor,
                                      const xg_view& seen, const PortTable* ports, u32 queue,
                                      xg_result& result) {
  if ((seen.flags & XG_PKT_UNCACHED) != 0) return;
  FlowVerdict flow;
  flow.key = xg_view_key(seen);
  if (flow.key.port >= XG_MAX_PORTS) return;
  const PortTable& table = ports[flow.key.port];
  if (queue >= table.queues) return;
  const u32 action = XG_VERDICT_ACTION(result.verdict);
  if (action == XG_TX || action == XG_REDIRECT) {
    const PortTable& target = action == XG_TX ? table : ports[XG_VERDICT_PORT(result.verdict)];
    if (target.caches_transmit == 0) return;
    if (table.repairs_checksums != 0 && checksum_is_partial(batch, descriptor)) return;
  }
  flow.flow_hash = xg_metadata32(seen, 4);
  flow.generation = batch.generation;
  flow.verdict = result.verdict;
  flow.rewrite = XG_REWRITE_INDEX(XG_RES_REWRITE(result.flags), batch.generation);
  flow.ttl_ms = result.cache_ttl_ms;
  const u64 rx_time_ns = u64{xg_metadata32(seen, 1)} << 32 | xg_metadata32(seen, 0);
  const Published published = publish(table, queue, flow, rx_time_ns);
  if (published == Published::fresh || published == Published::evicted) result.flags |= XG_RES_PUBLISHED;
  if (published == Published::evicted) result.flags |= XG_RES_EVICTED;
}

}  // namespace xdpgpu::gpu::cuda
