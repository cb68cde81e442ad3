// SPDX-License-Identifier: MIT
//
// bench/link/decider.cuh: packets as the CUDA device's kernels look at them, through a policy's pipeline, and
// then judged by the function: one kernel that is launched for a batch, and one that stays.
#pragma once

#include "bench/link/orders.hpp"
#include "gpu/cuda/decide.cuh"

namespace xdpgpu::bench::link {

using gpu::cuda::Lines;

constexpr u32 kBlock = 128;

// As gpu/cuda/decide.cuh's decide_packet() of pipelines without tables, with the judgement in the detail.
__device__ inline void judge_packet(const xg_batch& batch, u32 i, Lines& lines) {
  const gpu::cuda::detail::Order order = gpu::cuda::detail::order_of(batch, i);
  const u64 at = gpu::cuda::detail::line_of(batch, i, order);
  gpu::cuda::detail::fetch_lines(batch, at, lines);
  const gpu::cuda::Line& line = lines.of[threadIdx.x % gpu::cuda::kWarpLanes];
  xg_result r = xg_no_result();
  if (i < batch.count && at != ~u64{0} && gpu::cuda::detail::line_has_all(line)) {
    xg_descriptor here = {XG_METADATA_SIZE, order.descriptor.length, order.descriptor.flags};
    xg_batch copy = batch;
    copy.frames.v = reinterpret_cast<xg_word*>(const_cast<gpu::cuda::Line*>(&line));
    copy.frames_bytes = XG_METADATA_SIZE + XG_CHUNK_SIZE;
    copy.descriptors.v = &here;
    copy.count = 1;
    xg_view seen{};
    xg_way way = xg_way_from(0);
    if (xg_begin(copy, 0, seen)) {
      xg_set_out(batch, seen, way, r);
      r.detail =
          judge(seen.src[0], seen.src[3], seen.dst[0], seen.dst[3], seen.ports, seen.protocol, seen.length);
    }
  }
  gpu::cuda::detail::store_results(batch, i, r, true);
  __syncwarp();
}

}  // namespace xdpgpu::bench::link

using namespace xdpgpu;

extern "C" __global__ void __launch_bounds__(bench::link::kBlock) launched(const xg_batch batch) {
  __shared__ bench::link::Lines lines[bench::link::kBlock / gpu::cuda::kWarpLanes];
  const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
  bench::link::judge_packet(batch, i, lines[threadIdx.x / gpu::cuda::kWarpLanes]);
}

// One block, which takes one batch after the other until it is told to end.
extern "C" __global__ void __launch_bounds__(bench::link::kBlock)
    stays(const xg_batch batch, bench::link::Mail* mail) {
  __shared__ bench::link::Lines lines[bench::link::kBlock / gpu::cuda::kWarpLanes];
  __shared__ u32 order;
  volatile bench::link::Mail* const box = mail;
  for (u32 last = 0;; last = order) {
    __syncthreads();
    if (threadIdx.x == 0)
      while ((order = box->order) == last) {
      }
    __syncthreads();
    if (order == bench::link::kEnd) return;
    __threadfence_system();
    for (u32 first = 0; first < batch.count; first += blockDim.x)
      bench::link::judge_packet(batch, first + threadIdx.x, lines[threadIdx.x / gpu::cuda::kWarpLanes]);
    __threadfence_system();
    __syncthreads();
    if (threadIdx.x == 0) box->done = order;
  }
}
