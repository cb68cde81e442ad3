// SPDX-License-Identifier: MIT
//
// bench/cuda/events.cu: stages on records of parsed headers. A record of 40 bytes straddles lines, so a
// block takes its records in loads of 16 bytes to shared memory first.
#include "bench/cuda/kernels.hpp"

namespace xdpgpu::bench {
namespace {

constexpr u32 kBlock = 256;
constexpr u32 kWords = sizeof(ParsedHeader) / sizeof(u32);
constexpr u32 kVectors = kBlock * sizeof(ParsedHeader) / sizeof(uint4);
static_assert(kBlock * sizeof(ParsedHeader) % sizeof(uint4) == 0);

__global__ void __launch_bounds__(kBlock)
    decide_parsed(EventStage stage, const uint4* headers, u64 count, u32* verdicts) {
  __shared__ uint4 staged[kVectors];
  const u64 first = u64{blockIdx.x} * kBlock;
  // Two records are five vectors: the last one of an odd count is followed by memory of its own page.
  const u64 vectors = ((count - first) * sizeof(ParsedHeader) + sizeof(uint4) - 1) / sizeof(uint4);
  const uint4* const from = headers + first * sizeof(ParsedHeader) / sizeof(uint4);
#pragma unroll
  for (u32 i = threadIdx.x; i < kVectors; i += kBlock)
    if (i < vectors) staged[i] = __ldcs(from + i);
  __syncthreads();
  const u64 i = first + threadIdx.x;
  if (i >= count) return;
  const u32* const words = reinterpret_cast<const u32*>(staged) + threadIdx.x * kWords;
  const CompactHeader header{words[6], words[7], static_cast<u16>(words[8]), static_cast<u16>(words[8] >> 16),
                             words[9] & 0xffu};
  verdicts[i] = xg_event_verdict(stage, header);
}

__global__ void __launch_bounds__(kBlock)
    decide_compact(EventStage stage, const uint4* headers, u64 count, u32* verdicts) {
  const u64 i = u64{blockIdx.x} * kBlock + threadIdx.x;
  if (i >= count) return;
  const uint4 v = __ldcs(headers + i);
  verdicts[i] = xg_event_verdict(stage, {v.x, v.y, static_cast<u16>(v.z), static_cast<u16>(v.z >> 16), v.w});
}

u32 blocks_for(u64 count) { return static_cast<u32>((count + kBlock - 1) / kBlock); }

}  // namespace

cudaError_t launch_parsed(EventStage stage, const ParsedHeader* headers, u64 count, u32* verdicts,
                          cudaStream_t stream) noexcept {
  decide_parsed<<<blocks_for(count), kBlock, 0, stream>>>(stage, reinterpret_cast<const uint4*>(headers),
                                                          count, verdicts);
  return cudaGetLastError();
}

cudaError_t launch_compact(EventStage stage, const CompactHeader* headers, u64 count, u32* verdicts,
                           cudaStream_t stream) noexcept {
  decide_compact<<<blocks_for(count), kBlock, 0, stream>>>(stage, reinterpret_cast<const uint4*>(headers),
                                                           count, verdicts);
  return cudaGetLastError();
}

}  // namespace xdpgpu::bench
