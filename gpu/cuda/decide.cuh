// SPDX-License-Identifier: MIT
//
// gpu/cuda/decide.cuh: what a thread does for one packet, in either kernel.
#pragma once

#include "gpu/cuda/publish.cuh"
#include "gpu/stages/pipeline.h"

namespace xdpgpu::gpu::cuda {

// Decides packet i of the batch, publishes its flow's verdict where there is one to publish, and writes the
// result.
__device__ inline void decide_packet(const xg_batch& batch, u32 i, const PortTable* ports, u32 queue) {
  xg_view seen;
  xg_result r = xg_decide(batch, i, seen);
  if (ports != nullptr && (r.flags & XG_RES_CACHE) != 0)
    publish_result(batch, batch.descriptors.v[i], seen, ports, queue, r);
  // Results cross the bus: two wide stores instead of eight narrow ones.
  static_assert(sizeof(xg_result) == 2 * sizeof(uint4));
  uint4* out = reinterpret_cast<uint4*>(batch.results.v + i);
  out[0] = make_uint4(r.verdict, r.flags, r.dst_mac[0], r.dst_mac[1]);
  out[1] = make_uint4(r.src_mac[0], r.src_mac[1], r.cache_ttl_ms, r.detail);
}

}  // namespace xdpgpu::gpu::cuda
