// SPDX-License-Identifier: MIT
//
// gpu/cuda/publish.cuh: the GPU's side of the flow verdict table's protocol (maps/flow.h): a warp publishes
// its packets' verdicts where the XDP program reads them.
//
// A fence costs a crossing of the bus, for one thread as for a whole warp: so the warp goes through the
// protocol together. Threads that want the same bucket take turns by a lock in device memory. What stands in
// the bucket is looked up in the directory, all of its ways at once; the host's memory is only written, but
// for the counts of an entry that is taken again, and for the time of last use where a live one has to give
// way.
#pragma once

#include "gpu/checksum.h"
#include "gpu/cuda/lines.cuh"
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
// Two words that stand next to each other, 16-aligned, in one request. Each word is whole.
__device__ inline void load_host_pair(const u64* from, u64& a, u64& b) {
  asm volatile("ld.volatile.v2.u64 {%0, %1}, [%2];" : "=l"(a), "=l"(b) : "l"(from) : "memory");
}
__device__ inline void store_host_piece(u64 to, uint4 piece) {
  asm volatile("st.volatile.v4.u32 [%0], {%1, %2, %3, %4};"
               :
               : "l"(to), "r"(piece.x), "r"(piece.y), "r"(piece.z), "r"(piece.w)
               : "memory");
}

// A bucket as the directory shows it: of each way the words that tell most entries apart, all fetched at
// once. The directory is read past the first-level cache, which does not see other threads' writes.
struct Bucket {
  uint4 head[XG_FLOW_WAYS];  // generation; incarnation, action, target; the key's first two words
  uint4 tail[XG_FLOW_WAYS];  // the key's last word; verdict; expires_ms; rewrite, idle_s, flags
};
static_assert(sizeof(xg_flow_key) == 44 && offsetof(xg_flow_verdict, key) == 8 &&
              offsetof(xg_flow_verdict, verdict) == 52 && sizeof(Way) % sizeof(uint4) == 0);

__device__ inline Bucket look_up(const Way* ways) {
  Bucket bucket;
#pragma unroll
  for (u32 i = 0; i < XG_FLOW_WAYS; i++) {
    const auto* pieces = reinterpret_cast<const uint4*>(&ways[i].entry);
    bucket.head[i] = __ldcg(pieces);
    bucket.tail[i] = __ldcg(pieces + 3);
  }
  return bucket;
}

__device__ inline bool same_key(const Bucket& bucket, const Way* ways, u32 i, const u32* key) {
  if (bucket.head[i].z != key[0] || bucket.head[i].w != key[1] || bucket.tail[i].x != key[10]) return false;
  const auto* pieces = reinterpret_cast<const uint4*>(&ways[i].entry);
  const uint4 a = __ldcg(pieces + 1), b = __ldcg(pieces + 2);
  return (a.x ^ key[2] | a.y ^ key[3] | a.z ^ key[4] | a.w ^ key[5] | b.x ^ key[6] | b.y ^ key[7] |
          b.z ^ key[8] | b.w ^ key[9]) == 0;
}

__device__ inline bool dead(const Bucket& bucket, const Way* ways, u32 i, u32 generation, u64 now_ns) {
  if (bucket.head[i].x != generation) return true;
  const u32 expires_ms = bucket.tail[i].z;
  return expires_ms != 0 && xg_flow_expired(expires_ms, __ldcg(&ways[i].used_ns), now_ns) != 0;
}

// Does the bucket say all this already?
__device__ inline bool says_so(const Bucket& bucket, const Way* ways, const FlowVerdict& flow, u64 now_ns) {
  const u32* key = reinterpret_cast<const u32*>(&flow.key);
  const u32 now_ms = static_cast<u32>(now_ns / kMs);
  bool found = false;
#pragma unroll
  for (u32 i = 0; i < XG_FLOW_WAYS; i++) {
    const uint4& tail = bucket.tail[i];
    if (tail.y == flow.verdict && !dead(bucket, ways, i, flow.generation, now_ns) &&
        xg_flow_lives_on(tail.z, flow.ttl_ms, now_ms) != 0 && (tail.w & 0xffffu) == flow.rewrite &&
        same_key(bucket, ways, i, key))
      found = true;
  }
  return found;
}

// The way of the same key, else a dead one, else the one used or published the longest ago. evicts: it is
// another flow's, and alive.
__device__ inline u32 choose(const Bucket& bucket, Way* ways, const xg_flow_stats* stats,
                             const FlowVerdict& flow, u64 now_ns, bool& evicts) {
  evicts = false;
  const u32* key = reinterpret_cast<const u32*>(&flow.key);
  u32 same = XG_FLOW_WAYS, free = XG_FLOW_WAYS;
#pragma unroll
  for (u32 i = XG_FLOW_WAYS; i-- > 0;) {
    if (bucket.head[i].x != 0 && same_key(bucket, ways, i, key)) same = i;
    if (dead(bucket, ways, i, flow.generation, now_ns)) free = i;
  }
  if (same != XG_FLOW_WAYS) return same;
  if (free != XG_FLOW_WAYS) return free;
  evicts = true;
  // None was used before it was published: a way that is known to have been idle since before the others were
  // published has been idle the longest, and theirs need not be asked for across the bus.
  u64 since[XG_FLOW_WAYS];
#pragma unroll
  for (u32 i = 0; i < XG_FLOW_WAYS; i++) since[i] = __ldcg(&ways[i].used_ns);
  u32 asked = 0;
  for (;;) {
    u32 victim = 0;
    u64 oldest = since[0];
#pragma unroll
    for (u32 i = 1; i < XG_FLOW_WAYS; i++) {
      if (since[i] >= oldest) continue;
      oldest = since[i];
      victim = i;
    }
    if ((asked >> victim & 1) != 0) return victim;
    asked |= 1u << victim;
    const u64 seen = load_host(&stats[victim].last_seen_ns);
    if (seen <= oldest) return victim;
    // Whoever looks next need not ask again. The lock is held.
    __stcg(reinterpret_cast<unsigned long long*>(&ways[victim].used_ns), seen);
#pragma unroll
    for (u32 i = 0; i < XG_FLOW_WAYS; i++)
      if (i == victim) since[i] = seen;
  }
}

// What an entry's writer stores besides the word, as it lies in a line: the entry, its word empty, then the
// writer's half of the counts.
constexpr u32 kEntryPieces = sizeof(xg_flow_verdict) / sizeof(uint4);
constexpr u32 kCountsPieces = 2;
constexpr u32 kCountsOffset = offsetof(xg_flow_stats, base_packets);
static_assert(kEntryPieces + kCountsPieces <= kLanesPerLine && kCountsOffset % sizeof(uint4) == 0 &&
              kCountsOffset + kCountsPieces * sizeof(uint4) == sizeof(xg_flow_stats));

// Stores what the lanes of `taken` have laid in their lines. For whole warps: eight lanes together store one
// lane's, so that an entry crosses the bus in one piece. entry, stats: addresses.
__device__ inline void store_bodies(const Lines& lines, u32 taken, u64 entry, u64 stats) {
  const u32 lane = threadIdx.x % kWarpLanes;
  const u32 piece = lane % kLanesPerLine;
#pragma unroll
  for (u32 i = 0; i < kLanesPerLine; i++) {
    if ((taken >> i * kLinesPerLoad & ((1u << kLinesPerLoad) - 1)) == 0) continue;
    const u32 whose = i * kLinesPerLoad + lane / kLanesPerLine;
    const u64 to_entry = __shfl_sync(~0u, entry, whose) + piece * sizeof(uint4);
    const u64 to_counts =
        __shfl_sync(~0u, stats, whose) + kCountsOffset + (piece - kEntryPieces) * sizeof(uint4);
    if ((taken >> whose & 1) == 0 || piece >= kEntryPieces + kCountsPieces) continue;
    store_host_piece(piece < kEntryPieces ? to_entry : to_counts, lines.of[whose].pieces[piece]);
  }
}

// A verdict on its way into an entry. The steps are the protocol's, a fence between each two.
class Publication {
 public:
  // Notes it in the directory, so that packets of the same flow find it said, and takes the word from the
  // entry. True: that word may have been read before, and is to be gone before the body changes.
  __device__ bool begin(const PortTable& table, u64 index, const FlowVerdict& flow, u64 now_ns) {
    entry_ = reinterpret_cast<u64*>(table.entries + index);
    stats_ = table.stats + index;
    Way* way = table.ways + index;
    const u64 before = __ldcg(&way->publications);
    now_ns_ = now_ns;
    publications_ = before + 1;
    xg_flow_verdict& entry = fresh_.entry;
    entry.generation = flow.generation;
    entry.incarnation = static_cast<u16>(publications_);
    entry.action = static_cast<u8>(XG_VERDICT_ACTION(flow.verdict));
    entry.target = static_cast<u8>(XG_VERDICT_PORT(flow.verdict));
    entry.key = flow.key;
    entry.verdict = flow.verdict;
    if (flow.ttl_ms != 0) {
      const u32 at = static_cast<u32>(now_ns / kMs) + flow.ttl_ms;
      entry.expires_ms = at != 0 ? at : 1;
    }
    entry.rewrite = static_cast<u16>(flow.rewrite);

    uint4* copy = reinterpret_cast<uint4*>(&way->entry);
#pragma unroll
    for (u32 i = kEntryPieces; i-- > 0;) __stcg(copy + i, fresh_.pieces[i]);
    way->used_ns = now_ns;
    way->publications = publications_;

    // An entry's first publication has nobody's word to take away, and no counts to begin from.
    if (before == 0) return false;
    store_host(entry_, 0);
    load_host_pair(&stats_->packets, base_packets_, base_bytes_);
    return true;
  }
  // Lays what store_bodies() is to store. The word stays empty, which it is by now.
  __device__ void lay(Line& line) const {
#pragma unroll
    for (u32 i = 0; i < kEntryPieces; i++) line.pieces[i] = fresh_.pieces[i];
    line.pieces[0].x = line.pieces[0].y = 0;
    line.pieces[kEntryPieces] = pair(base_packets_, base_bytes_);
    line.pieces[kEntryPieces + 1] = pair(now_ns_, publications_);
  }
  __device__ u64 entry_at() const { return reinterpret_cast<u64>(entry_); }
  __device__ u64 stats_at() const { return reinterpret_cast<u64>(stats_); }
  __device__ void word() const { store_host(entry_, fresh_.words[0]); }

 private:
  __device__ static uint4 pair(u64 a, u64 b) {
    return make_uint4(static_cast<u32>(a), static_cast<u32>(a >> 32), static_cast<u32>(b),
                      static_cast<u32>(b >> 32));
  }

  union {
    xg_flow_verdict entry;
    u64 words[8];
    uint4 pieces[kEntryPieces];
  } fresh_{};
  u64* entry_ = nullptr;
  xg_flow_stats* stats_ = nullptr;
  u64 now_ns_ = 0, publications_ = 0, base_packets_ = 0, base_bytes_ = 0;
};

}  // namespace detail

__device__ inline bool checksum_is_partial(const xg_batch& batch, const xg_descriptor& descriptor) {
  const u8* frame = reinterpret_cast<const u8*>(batch.frames.v) + descriptor.offset;
  xg_metadata metadata;
  memcpy(&metadata, frame - XG_METADATA_SIZE, sizeof(metadata));
  return xg_partial_checksum(frame, descriptor.length, &metadata).field != 0;
}

// For whole warps; `wants`: this lane has something to publish. Then queue is below table->queues, and now_ns
// is CLOCK_MONOTONIC, the packet's. Any number of lanes may want the same bucket, or the same flow. lines:
// the warp's own, overwritten.
__device__ inline Published publish(const PortTable* table, u32 queue, const FlowVerdict& flow, u64 now_ns,
                                    bool wants, Lines& lines) {
  constexpr u32 kAll = ~0u;
  Published outcome = wants ? Published::busy : Published::unchanged;
  u64 first = 0;  // the bucket's first entry
  Way* ways = nullptr;
  u32* lock = nullptr;
  if (wants) {
    const u32 buckets = table->entries_per_queue / XG_FLOW_WAYS;
    const u64 bucket = u64{queue} * buckets + (flow.flow_hash & (buckets - 1));
    first = bucket * XG_FLOW_WAYS;
    ways = table->ways + first;
    lock = table->locks + bucket;
  }
  for (u32 i = 0; i < detail::kTries; i++) {
    if (wants && detail::says_so(detail::look_up(ways), ways, flow, now_ns)) {
      outcome = Published::unchanged;
      wants = false;
    }
    if (!__any_sync(kAll, wants)) break;
    const bool taken = wants && atomicCAS(lock, 0, 1) == 0;
    if (!__any_sync(kAll, taken)) {
      __nanosleep(100);
      continue;
    }
    __threadfence();
    detail::Publication publication;
    bool evicts = false, replaces = false;
    if (taken) {
      const u32 way = detail::choose(detail::look_up(ways), ways, table->stats + first, flow, now_ns, evicts);
      replaces = publication.begin(*table, first + way, flow, now_ns);
    }
    if (__any_sync(kAll, replaces)) __threadfence_system();
    if (taken) publication.lay(lines.of[threadIdx.x % kWarpLanes]);
    __syncwarp();
    detail::store_bodies(lines, __ballot_sync(kAll, taken), publication.entry_at(), publication.stats_at());
    __syncwarp();
    __threadfence_system();
    if (taken) publication.word();
    __syncwarp();
    // Whoever takes the lock next is a thread of this GPU: what it writes comes after this for it, and so,
    // behind its own fences, for the kernel's cores.
    __threadfence();
    if (taken) {
      atomicExch(lock, 0);
      outcome = evicts ? Published::evicted : Published::fresh;
      wants = false;
    }
  }
  return outcome;
}

namespace detail {

// The table to remember the packet's verdict in, and what of it; nullptr: the kernel could not act by it.
__device__ inline const PortTable* remembered(const xg_batch& batch, const xg_descriptor& descriptor,
                                              const xg_view& seen, const PortTable* ports, u32 queue,
                                              const xg_result& result, FlowVerdict& flow) {
  if ((seen.flags & XG_PKT_UNCACHED) != 0) return nullptr;
  flow.key = xg_view_key(seen);
  if (flow.key.port >= XG_MAX_PORTS) return nullptr;
  const PortTable& table = ports[flow.key.port];
  if (queue >= table.queues) return nullptr;
  const u32 action = XG_VERDICT_ACTION(result.verdict);
  if (action == XG_TX || action == XG_REDIRECT) {
    const PortTable& target = action == XG_TX ? table : ports[XG_VERDICT_PORT(result.verdict)];
    if (target.caches_transmit == 0) return nullptr;
    if (table.repairs_checksums != 0 && checksum_is_partial(batch, descriptor)) return nullptr;
  }
  flow.flow_hash = xg_metadata32(seen, 4);
  flow.generation = batch.generation;
  flow.verdict = result.verdict;
  flow.rewrite = XG_REWRITE_INDEX(XG_RES_REWRITE(result.flags), batch.generation);
  flow.ttl_ms = result.cache_ttl_ms;
  return &table;
}

}  // namespace detail

// Publishes what was decided of each lane's packet, where it is to be remembered (XG_RES_CACHE) and the
// kernel can act by it; notes that in the result. For whole warps; a lane without a packet has a result
// without flags. ports: XG_MAX_PORTS tables; queue: the receive queue whose packets the batch holds; lines:
// the warp's own, overwritten.
__device__ inline void publish_result(const xg_batch& batch, const xg_descriptor& descriptor,
                                      const xg_view& seen, const PortTable* ports, u32 queue,
                                      xg_result& result, Lines& lines) {
  const bool caches = (result.flags & XG_RES_CACHE) != 0;
  if (!__any_sync(~0u, caches)) return;
  FlowVerdict flow{};
  const PortTable* table = nullptr;
  if (caches) table = detail::remembered(batch, descriptor, seen, ports, queue, result, flow);
  u64 rx_time_ns = 0;
  if (table != nullptr) rx_time_ns = u64{xg_metadata32(seen, 1)} << 32 | xg_metadata32(seen, 0);
  const Published published = publish(table, queue, flow, rx_time_ns, table != nullptr, lines);
  if (published == Published::fresh || published == Published::evicted) result.flags |= XG_RES_PUBLISHED;
  if (published == Published::evicted) result.flags |= XG_RES_EVICTED;
}

}  // namespace xdpgpu::gpu::cuda
