// SPDX-License-Identifier: MIT
//
// gpu/cuda/decide.cuh: what a warp does for its packets, in every kernel that decides batches.
//
// The host's memory is fetched in requests, and a thread that reads its packet's fields one by one makes one
// of each. So the warp fetches first: eight lanes together the 128-byte line in which a packet's metadata and
// the beginning of its headers stand (XG_FRAME_DATA is so chosen), for all packets of the warp before any of
// them is looked at. The stages then read the line's copy. A packet whose fields reach beyond it, or that
// does not lie so, is read where it is.
#pragma once

#include "gpu/cuda/lines.cuh"
#include "gpu/cuda/publish.cuh"
#include "gpu/cuda/scratch.hpp"
#include "gpu/cuda/slots_view.hpp"
#include "gpu/stages/pipeline.h"
#include "gpu/stages/program_body.h"

namespace xdpgpu::gpu::cuda {

static_assert((XG_FRAME_DATA - XG_METADATA_SIZE) % kLineBytes == 0);

// Number of the packet that this thread decides where its warp's first one is `first`, and it has so many; of
// a lane that has none, `count`.
__device__ inline u32 lane_of(u32 first, u32 per_warp, u32 count) {
  const u32 lane = threadIdx.x % kWarpLanes;
  return lane < per_warp ? first + lane : count;
}
__device__ inline u32 lane_of(u32 first) { return first + threadIdx.x % kWarpLanes; }

namespace detail {

// Whether the fields that the stages and the flow's key read of this packet stand in its line, where the
// metadata says: addresses, ports, a TCP header, a SYN's options, an echo's identifier, the packet that an
// ICMP error quotes.
__device__ inline bool line_has_all(const Line& line) {
  constexpr u32 kHeaders = kLineBytes - XG_METADATA_SIZE;
  constexpr u8 kSyn = 0x02;
  xg_metadata metadata;
  memcpy(&metadata, &line, sizeof(metadata));
  // 40: an IPv6 header, the longer one; 20: a TCP header without options, the longest of what is read there.
  // VLAN tags are in front of both.
  if (metadata.l3_offset + 40u > kHeaders || metadata.l4_offset + 20u > kHeaders) return false;
  if ((metadata.flags & XG_PKT_TCP) != 0) {
    const u8* tcp = reinterpret_cast<const u8*>(&line) + XG_METADATA_SIZE + metadata.l4_offset;
    if ((tcp[13] & kSyn) != 0 && metadata.l4_offset + (tcp[12] >> 4) * 4u > kHeaders) return false;
  }
  if ((metadata.flags & XG_PKT_ICMP) == 0) return true;
  const u32 type = reinterpret_cast<const u8*>(&line)[XG_METADATA_SIZE + metadata.l4_offset];
  const bool echo =
      (metadata.flags & XG_PKT_IPV6) != 0 ? type == 128u || type == 129u : type == 8u || type == 0u;
  // 8 of its own, 60 of the longest IP header, 8 behind that.
  return echo || metadata.l4_offset + 76u <= kHeaders;
}

// What a lane knows of its packet before the frame is looked at.
struct Order {
  xg_descriptor descriptor;
  bool goes_on;  // the packet before; this one has no beginning
};

// For whole warps. One crossing of the bus: the descriptors are fetched in one piece each, and beside the
// first one the flags of that before it.
__device__ inline Order order_of(const xg_batch& batch, u32 i) {
  static_assert(sizeof(xg_descriptor) == sizeof(uint4) && offsetof(xg_descriptor, flags) == 12);
  const bool mine = i < batch.count;
  uint4 raw = make_uint4(0, 0, 0, 0);
  u32 ahead = 0;
  if (mine) raw = __ldcv(reinterpret_cast<const uint4*>(batch.descriptors.v + i));
  if (mine && i > 0 && threadIdx.x % kWarpLanes == 0) ahead = __ldcv(&batch.descriptors.v[i - 1].flags);
  const u32 before = __shfl_up_sync(~0u, raw.w, 1);
  if (threadIdx.x % kWarpLanes != 0) ahead = before;
  return {{u64{raw.y} << 32 | raw.x, raw.z, raw.w}, (ahead & XG_DESC_MORE) != 0};
}

// What is fetched of packet i, if there is one: the offset of its line, or ~0 if it is not to be read so.
// Frames in place have their line where the bus has one; staged ones stand at any multiple of 16.
__device__ inline u64 line_of(const xg_batch& batch, u32 i, const Order& order) {
  if (i >= batch.count || order.goes_on || !xg_descriptor_valid(order.descriptor, batch.frames_bytes))
    return ~u64{0};
  const u64 at = order.descriptor.offset - XG_METADATA_SIZE;
  return at % sizeof(uint4) == 0 && at + kLineBytes <= batch.frames_bytes ? at : ~u64{0};
}

// Fetches the lines of the warp's packets; every lane's is there afterwards if its `at` is not ~0.
__device__ inline void fetch_lines(const xg_batch& batch, u64 at, Lines& lines) {
  const u32 lane = threadIdx.x % kWarpLanes;
  const u32 piece = lane % kLanesPerLine;
  const auto* frames = reinterpret_cast<const u8*>(batch.frames.v);
  uint4 got[kLanesPerLine];
#pragma unroll
  for (u32 i = 0; i < kLanesPerLine; i++) {
    const u32 packet = i * kLinesPerLoad + lane / kLanesPerLine;
    const u64 from = __shfl_sync(~0u, at, packet);
    got[i] = make_uint4(0, 0, 0, 0);
    if (from != ~u64{0}) got[i] = __ldcv(reinterpret_cast<const uint4*>(frames + from) + piece);
  }
#pragma unroll
  for (u32 i = 0; i < kLanesPerLine; i++)
    lines.of[i * kLinesPerLoad + lane / kLanesPerLine].pieces[piece] = got[i];
  __syncwarp();
}

// Stores the results of the warp's packets, each lane's that of packet i, if there is one and the lane wants
// it. All lanes at once, each a piece of sixteen bytes, so that they cross the bus in whole lines.
__device__ inline void store_results(const xg_batch& batch, u32 i, const xg_result& r, bool wants) {
  static_assert(sizeof(xg_result) == sizeof(uint4));
  __syncwarp();
  if (wants && i < batch.count)
    reinterpret_cast<uint4*>(batch.results.v)[i] = make_uint4(r.verdict, r.flags, r.cache_ttl_ms, r.detail);
}

// Keeps for the second part what the packets wait for, their descriptors and lines, which it need not fetch
// from the host again. For whole warps, packet i each lane's.
__device__ inline void keep(const xg_batch& batch, u32 i, const xg_descriptor& descriptor, const xg_way& way,
                            bool has_line, const Scratch& scratch, const Lines& lines) {
  const u32 lane = threadIdx.x % kWarpLanes;
  const u32 first = i - lane;
  const bool waits = way.kind != 0;
  if (i < batch.count) scratch.marks[i] = waits ? way.position + 1u | (has_line ? kMarkLine : 0u) : 0u;
  if (waits) {
    const u64 offset = descriptor.offset;
    scratch.descriptors[i] = make_uint4(u32(offset), u32(offset >> 32), descriptor.length, descriptor.flags);
    scratch.bytes[i] = (descriptor.flags & XG_DESC_MORE) != 0 ? xg_packet_bytes(batch, i) : descriptor.length;
  }
  const u32 kept = __ballot_sync(~0u, waits && has_line);
#pragma unroll
  for (u32 store = 0; store < kLanesPerLine; store++) {
    const u32 packet = store * kLinesPerLoad + lane / kLanesPerLine;
    if ((kept >> packet & 1u) != 0)
      scratch.lines[u64{first + packet} * kLanesPerLine + lane % kLanesPerLine] =
          lines.of[packet].pieces[lane % kLanesPerLine];
  }
  __syncwarp();
}

// What a warp that inspects a packet knows of it, once for all of its lanes.
struct Inspected {
  xg_batch batch;  // of which the packet is, or of it alone, as it is staged
  xg_descriptor descriptor;
  xg_view seen;
};
constexpr u32 kMostPieces = (XG_METADATA_SIZE + XG_CHUNK_SIZE) / sizeof(uint4);  // of a staged packet
// Lines of so many lanes stay while packets are staged, behind them.
constexpr u32 kLinesThatStay = 8;
static_assert(kLinesThatStay * sizeof(Line) + kMostPieces * sizeof(uint4) + sizeof(Inspected) <=
                  sizeof(Lines::of) &&
              sizeof(uint4) % alignof(Inspected) == 0);
__device__ inline uint4* staging_of(Lines& lines) {
  return reinterpret_cast<uint4*>(&lines.of[kLinesThatStay]);
}

// Fetches the packet in one piece to where it is staged, metadata in front, if it is of one buffer that lies
// so; all loads are under way at once. line: what of it is there already; nullptr: nothing is. False: it does
// not lie so, and nothing is changed.
__device__ inline bool stage_packet(const xg_batch& batch, const xg_descriptor& descriptor, const Line* line,
                                    Lines& lines) {
  constexpr u32 kEach = (kMostPieces + kWarpLanes - 1) / kWarpLanes;
  const u64 at = descriptor.offset - XG_METADATA_SIZE;
  const u32 pieces = (XG_METADATA_SIZE + descriptor.length + u32(sizeof(uint4)) - 1) / u32(sizeof(uint4));
  if ((descriptor.flags & XG_DESC_MORE) != 0 || at % sizeof(uint4) != 0 || pieces > kMostPieces ||
      at + u64{pieces} * sizeof(uint4) > batch.frames_bytes)
    return false;
  const auto* const from = reinterpret_cast<const uint4*>(reinterpret_cast<const u8*>(batch.frames.v) + at);
  uint4* const to = staging_of(lines);
  const u32 lane = threadIdx.x % kWarpLanes;
  uint4 got[kEach];
  // Lanes behind the end have the last piece, too.
  const auto piece = [&](u32 k) { return min(lane + k * kWarpLanes, pieces - 1); };
  if (line != nullptr && lane < kLanesPerLine)
    got[0] = line->pieces[piece(0)];
  else
    got[0] = __ldcv(from + piece(0));
#pragma unroll
  for (u32 k = 1; k < kEach; k++)
    if (k * kWarpLanes < pieces) got[k] = __ldcv(from + piece(k));
  __syncwarp();
#pragma unroll
  for (u32 k = 0; k < kEach; k++)
    if (k * kWarpLanes < pieces) to[piece(k)] = got[k];
  __syncwarp();
  return true;
}

// Another lane's descriptor. For whole warps.
__device__ inline xg_descriptor descriptor_of(const xg_descriptor& mine, u32 lane) {
  return {
      u64{__shfl_sync(~0u, u32(mine.offset >> 32), lane)} << 32 | __shfl_sync(~0u, u32(mine.offset), lane),
      __shfl_sync(~0u, mine.length, lane), __shfl_sync(~0u, mine.flags, lane)};
}

// The lanes of a warp inspect packet i, which waits for it at a stage. -> what they found is in `f`, and the
// packet as it is read from now on in `what.seen`. connection: XG_CONNECTION_*. line: as stage_packet() has
// it. kStages: in `lines` only kLinesThatStay do.
template <bool kStages>
__device__ __noinline__ void inspect_together(const xg_batch& batch, u32 i, xg_descriptor descriptor,
                                              u32 kind, u32 body, u32 connection, const Line* line,
                                              Lines& lines, Inspected& what) {
  const xg_state f{lines.inspection};
  const u32 lane = threadIdx.x % kWarpLanes;
  const bool here = kStages && stage_packet(batch, descriptor, line, lines);
  if (!kStages || lane == 0) {
    what.batch = batch;
    what.descriptor = descriptor;
    if (here) {
      what.batch.frames.v = reinterpret_cast<xg_word*>(staging_of(lines));
      what.batch.frames_bytes = kMostPieces * sizeof(uint4);
      what.descriptor.offset = XG_METADATA_SIZE;
      what.batch.descriptors.v = &what.descriptor;
      what.batch.count = 1;
    }
    what.seen = {};
    xg_view_packet(what.batch, here ? 0 : i, what.descriptor, what.seen);
    xg_look_inside(what.batch, what.seen);
  }
  xg_begin_inspection(f, connection, lane, kWarpLanes);
  __syncwarp();
  xg_stage_look(what.batch, kind, body, what.seen, f, lane, kWarpLanes);
  __syncwarp();
  xg_stage_try(what.batch, kind, body, what.seen, f, lane, kWarpLanes);
  __syncwarp();
  if (here && lane == 0) xg_view_of(descriptor, i, what.seen);
  __syncwarp();
}

// Those of a warp's packets that wait for it, one after the other, to their end. i, descriptor, way and r are
// each lane's packet's; at: as line_of() has it. -> whether there were some; then, with kStages, of `lines`
// only kLinesThatStay are there.
template <bool kStages>
__device__ inline bool inspect_waiting(const xg_batch& batch, u32 i, const xg_descriptor& descriptor, u64 at,
                                       xg_way& way, xg_result& r, Lines& lines) {
  const xg_state f{lines.inspection};
  u32 waiting = __ballot_sync(~0u, way.kind >= XG_KIND_INSPECTS);
  if (waiting == 0) return false;
  for (; waiting != 0; waiting &= waiting - 1) {
    const u32 owner = __ffs(static_cast<int>(waiting)) - 1;
    Inspected own;
    Inspected& what = kStages ? *reinterpret_cast<Inspected*>(staging_of(lines) + kMostPieces) : own;
    const bool has_line = kStages && owner < kLinesThatStay && __shfl_sync(~0u, at, owner) != ~u64{0};
    inspect_together<kStages>(batch, __shfl_sync(~0u, i, owner), descriptor_of(descriptor, owner),
                              __shfl_sync(~0u, way.kind, owner), __shfl_sync(~0u, way.body, owner),
                              __shfl_sync(~0u, r.detail, owner), has_line ? &lines.of[owner] : nullptr, lines,
                              what);
    if (threadIdx.x % kWarpLanes == owner) xg_conclude(batch, what.seen, f, way, r);
    __syncwarp();
  }
  return true;
}

// A program that only counts keeps no packet waiting for others: its packets go on to the next table that
// does; unless the host has them go there in turn, as some other batch may be in the same maps. kTables:
// where there is a turn.
template <bool kTables>
__device__ __forceinline__ void go_ahead(const xg_batch& batch, u32 bytes, const xg_view& seen, xg_way& way,
                                         xg_result& r) {
#ifdef XG_WITH_PROGRAMS
  static_assert(XG_PROGRAM_NEAR == kLineBytes - XG_METADATA_SIZE);
  if (!xg_stage_runs_programs(way.kind)) return;
  xg_batch with_tables = batch;
  with_tables.states.v = batch.image.v + batch.image.v[XG_IMAGE_WORDS_AT];
  while (xg_stage_runs_programs(way.kind)) {
    const u32 counts = batch.image.v[way.body + XG_PROGRAM_BODY_COUNTS];
    if (kTables ? counts != XG_PROGRAM_COUNTS_AHEAD : counts == 0) break;
    xg_settle(with_tables, seen, xg_stage_touch(with_tables, way, seen, bytes).facts, way, r);
  }
#endif
}

}  // namespace detail

// Programmatic dependent launch. GPUs before compute capability 9.0 have none: what is compiled for those
// does nothing here, and is launched without (Kernels::overlaps()).
//
// From here on the next batch's blocks may come, as soon as there is room for them.
__device__ __forceinline__ void let_next_begin() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
// Waits until the batch before is over.
__device__ __forceinline__ void await_before() {
#if __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

// Decides packet i of the batch, publishes its flow's verdict where there is one to publish, and writes the
// result. For whole warps: lanes whose i is not a packet of the batch help to fetch. lines: the warp's own.
// kOverlaps: the batch before may still be at work: only what the host wrote is read until it is over.
// kTables: the packet goes as far as the first stage with a table; what waits there is kept in `scratch`, for
// finish_tables() or finish_in_team().
template <bool kOverlaps, bool kTables>
__device__ inline void decide_packet(const xg_batch& batch, u32 i, const Flows& flows, const Scratch& scratch,
                                     Lines& lines) {
  const bool mine = i < batch.count;
  const detail::Order order = detail::order_of(batch, i);
  const xg_descriptor& descriptor = order.descriptor;
  const u64 at = detail::line_of(batch, i, order);
  detail::fetch_lines(batch, at, lines);
  const Line& line = lines.of[threadIdx.x % kWarpLanes];
  const bool has_line = mine && at != ~u64{0} && detail::line_has_all(line);
  if constexpr (kOverlaps) await_before();
  xg_view seen{};
  xg_result r = xg_no_result();
  xg_way way = xg_way_from(0);
  if (mine) {
    bool judged = false;
    if (has_line) {
      // The descriptor was found valid above; its length is the frame's, though the copy ends before.
      xg_descriptor here = {XG_METADATA_SIZE, descriptor.length, descriptor.flags};
      xg_batch copy = batch;
      copy.frames.v = reinterpret_cast<xg_word*>(const_cast<Line*>(&line));
      copy.frames_bytes = XG_METADATA_SIZE + XG_CHUNK_SIZE;
      copy.descriptors.v = &here;
      copy.count = 1;
      judged = xg_begin(copy, 0, seen);
      xg_view_of(descriptor, i, seen);
    } else {
      judged = xg_begin(batch, i, seen);
    }
    if (judged) {
      // In the frames themselves: the line ends before what is inside of a tunnel may.
      xg_look_inside(batch, seen);
      xg_set_out(batch, seen, way, r);
      detail::go_ahead<kTables>(batch, descriptor.length, seen, way, r);
    }
  }
  __syncwarp();
  const bool is_other = batch.image.v[XG_IMAGE_INSPECTS_AT] != 0 &&
                        detail::inspect_waiting<true>(batch, i, descriptor, at, way, r, lines);
  // What is kept, and what publishes verdicts, reads the lines.
  const bool has_gone = at != ~u64{0} && threadIdx.x % kWarpLanes >= detail::kLinesThatStay;
  if (is_other && (kTables || flows.ports != nullptr) && __any_sync(~0u, has_gone))
    detail::fetch_lines(batch, at, lines);
  if (!kTables && way.kind != 0) r = xg_no_result();
  if constexpr (kTables) detail::keep(batch, i, descriptor, way, has_line, scratch, lines);
  if (flows.ports != nullptr)
    publish_result(batch, descriptor, seen, flows.ports, flows.receive_queue, r, lines);
  detail::store_results(batch, i, r, !kTables || way.kind == 0);
  // The next packets' lines come in the same place.
  __syncwarp();
}

// Whether its pipelines have tables.
__device__ inline bool has_tables(const xg_batch& batch) { return batch.image.v[XG_IMAGE_ROUNDS_AT] != 0; }

// Block `block` of the `blocks` that share the batch, kThreads each, decides its packets, or, where there are
// tables, brings them there. lines: one for each of the block's warps.
template <u32 kThreads>
__device__ inline void decide_share(const xg_batch& batch, const Flows& flows, const Scratch& scratch,
                                    u32 block, u32 blocks, Lines (&lines)[kThreads / kWarpLanes]) {
  constexpr u32 kWarps = kThreads / kWarpLanes;
  const u32 warp = threadIdx.x / kWarpLanes;
  const bool tables = has_tables(batch);
  const u32 each = !tables && batch.image.v[XG_IMAGE_INSPECTS_AT] != 0
                       ? packets_per_warp(batch.count, blocks * kWarps)
                       : kWarpLanes;
  for (u32 first = (block * kWarps + warp) * each; first < batch.count; first += blocks * kWarps * each) {
    if (tables)
      decide_packet<false, true>(batch, lane_of(first), flows, scratch, lines[warp]);
    else
      decide_packet<false, false>(batch, lane_of(first, each, batch.count), flows, scratch, lines[warp]);
  }
}

}  // namespace xdpgpu::gpu::cuda
