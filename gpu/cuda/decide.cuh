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
#include "gpu/cuda/slots_view.hpp"
#include "gpu/stages/pipeline.h"

namespace xdpgpu::gpu::cuda {

static_assert((XG_FRAME_DATA - XG_METADATA_SIZE) % kLineBytes == 0);

// Number of the packet that this thread decides where its warp's first one is `first`.
__device__ inline u32 lane_of(u32 first) { return first + threadIdx.x % kWarpLanes; }

namespace detail {

// Whether the fields that the stages and the flow's key read of this packet stand in its line, where the
// metadata says: addresses, ports, TCP flags, an echo's identifier. metadata: the line's copy.
__device__ inline bool line_has_all(const xg_metadata& metadata) {
  constexpr u32 kHeaders = kLineBytes - XG_METADATA_SIZE;
  // 40: an IPv6 header, the longer one; 14: a TCP header with its flags, the longest of what is read there.
  // VLAN tags are in front of both.
  return metadata.l3_offset + 40u <= kHeaders && metadata.l4_offset + 14u <= kHeaders;
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

// Stores the results of the warp's packets, each lane's that of packet i, if there is one. They cross the bus
// in whole lines.
__device__ inline void store_results(const xg_batch& batch, u32 i, const xg_result& r, Lines& lines) {
  constexpr u32 kPieces = sizeof(xg_result) / sizeof(uint4);
  static_assert(sizeof(xg_result) == kPieces * sizeof(uint4) && kPieces == 2);
  const u32 lane = threadIdx.x % kWarpLanes;
  lines.of[lane].pieces[0] = make_uint4(r.verdict, r.flags, r.dst_mac[0], r.dst_mac[1]);
  lines.of[lane].pieces[1] = make_uint4(r.src_mac[0], r.src_mac[1], r.cache_ttl_ms, r.detail);
  __syncwarp();
  const u32 first = i - lane;
  auto* out = reinterpret_cast<uint4*>(batch.results.v + first);
#pragma unroll
  for (u32 piece = lane; piece < kPieces * kWarpLanes; piece += kWarpLanes)
    if (first + piece / kPieces < batch.count) out[piece] = lines.of[piece / kPieces].pieces[piece % kPieces];
}

}  // namespace detail

// Decides packet i of the batch, publishes its flow's verdict where there is one to publish, and writes the
// result. For whole warps: lanes whose i is not a packet of the batch help to fetch. lines: the warp's own.
// kOverlaps: the batch before may still be at work: only what the host wrote is read until it is over.
template <bool kOverlaps = false>
__device__ inline void decide_packet(const xg_batch& batch, u32 i, const PortTable* ports, u32 queue,
                                     Lines& lines) {
  const bool mine = i < batch.count;
  const detail::Order order = detail::order_of(batch, i);
  const xg_descriptor& descriptor = order.descriptor;
  const u64 at = detail::line_of(batch, i, order);
  detail::fetch_lines(batch, at, lines);
  if constexpr (kOverlaps) cudaGridDependencySynchronize();
  xg_view seen{};
  xg_result r{};
  if (mine) {
    const Line& line = lines.of[threadIdx.x % kWarpLanes];
    xg_metadata metadata;
    memcpy(&metadata, &line, sizeof(metadata));
    if (at != ~u64{0} && detail::line_has_all(metadata)) {
      // The descriptor was found valid above; its length is the frame's, though the copy ends before.
      xg_descriptor here = {XG_METADATA_SIZE, descriptor.length, descriptor.flags};
      xg_batch copy = batch;
      copy.frames.v = reinterpret_cast<xg_word*>(const_cast<Line*>(&line));
      copy.frames_bytes = XG_METADATA_SIZE + XG_CHUNK_SIZE;
      copy.descriptors.v = &here;
      copy.count = 1;
      r = xg_decide(copy, 0, seen);
    } else {
      r = xg_decide(batch, i, seen);
    }
  }
  __syncwarp();
  if (ports != nullptr) publish_result(batch, descriptor, seen, ports, queue, r, lines);
  detail::store_results(batch, i, r, lines);
  // The next packets' lines come in the same place.
  __syncwarp();
}

// Decides `count` packets of a slot, block `block` of the `blocks` that share them, kThreads each. lines: one
// for each of the block's warps.
template <u32 kThreads>
__device__ inline void decide_slot(const SlotsView& slots, u32 slot, u64 image, u32 count, u32 generation,
                                   u32 block, u32 blocks, Lines (&lines)[kThreads / kWarpLanes]) {
  xg_batch batch;
  batch.frames.v =
      reinterpret_cast<xg_word*>(reinterpret_cast<u8*>(slots.frames.v) + slot * slots.frames_stride);
  batch.frames_bytes = slots.frames_bytes;
  batch.descriptors.v = slots.descriptors.v + u64{slot} * slots.capacity;
  batch.results.v = slots.results.v + u64{slot} * slots.capacity;
  batch.image.v = reinterpret_cast<xg_word*>(image);
  batch.count = count;
  batch.generation = generation;
  const u32 warp = threadIdx.x / kWarpLanes;
  for (u32 first = block * kThreads + warp * kWarpLanes; first < count; first += blocks * kThreads)
    decide_packet(batch, lane_of(first), slots.flows.ports, slots.flows.receive_queue, lines[warp]);
}

}  // namespace xdpgpu::gpu::cuda
