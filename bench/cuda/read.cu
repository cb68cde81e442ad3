// SPDX-License-Identifier: MIT
//
// bench/cuda/read.cu: kernels that read, in loads of 16 bytes, and add up what they read so that no load
// can be left out.
#include "bench/cuda/kernels.hpp"
#include "maps/packet.h"

namespace xdpgpu::bench {
namespace {

constexpr u32 kBlock = 256;
constexpr u32 kLineVectors = 8;  // of 16 bytes

__device__ u32 words_of(uint4 v) { return v.x + v.y + v.z + v.w; }

// Of the warp, in all its lanes.
__device__ u32 warp_sum(u32 value) {
  for (u32 step = 16; step != 0; step >>= 1) value += __shfl_xor_sync(~0u, value, step);
  return value;
}

__device__ void add(u32* sum, u32 value) {
  value = warp_sum(value);
  if (threadIdx.x % 32 == 0) atomicAdd(sum, value);
}

__global__ void __launch_bounds__(kBlock) contiguous(const uint4* from, u64 vectors, u32* sum) {
  const u64 step = u64{gridDim.x} * kBlock;
  u64 i = u64{blockIdx.x} * kBlock + threadIdx.x;
  u32 value = 0;
  for (; i + 3 * step < vectors; i += 4 * step) {
    const uint4 a = __ldcs(from + i), b = __ldcs(from + i + step), c = __ldcs(from + i + 2 * step),
                d = __ldcs(from + i + 3 * step);
    value += words_of(a) + words_of(b) + words_of(c) + words_of(d);
  }
  for (; i < vectors; i += step) value += words_of(__ldcs(from + i));
  add(sum, value);
}

template <u32 kVectors>
__global__ void __launch_bounds__(kBlock) lines(const uint4* base, const u32* numbers, u32 count, u32* sum) {
  const u64 thread = u64{blockIdx.x} * kBlock + threadIdx.x;
  const u64 line = thread / kVectors;
  u32 value = 0;
  if (line < count) value = words_of(__ldcs(base + u64{numbers[line]} * kLineVectors + thread % kVectors));
  add(sum, value);
}

// Eight threads a line, the first of which writes its result.
__global__ void __launch_bounds__(kBlock)
    answers(const uint4* base, const u32* numbers, u32 count, uint4* results, u32* sum) {
  constexpr u32 kResultVectors = sizeof(xg_result) / sizeof(uint4);
  const u64 thread = u64{blockIdx.x} * kBlock + threadIdx.x;
  const u64 line = thread / kLineVectors;
  const u32 part = thread % kLineVectors;
  u32 value = 0;
  if (line < count) value = words_of(__ldcs(base + u64{numbers[line]} * kLineVectors + part));
  u32 all = value;
  for (u32 step = kLineVectors / 2; step != 0; step >>= 1) all += __shfl_xor_sync(~0u, all, step);
  if (line < count && part < kResultVectors)
    __stcs(results + line * kResultVectors + part, make_uint4(all, all, all, all));
  add(sum, value);
}

// A frame's sum, by a warp; the first line's metadata and what lies behind the frame are read, as they share
// the frame's lines, and not added.
__device__ u32 frame_sum(const u8* frame, u32 length) {
  const u32 lane = threadIdx.x % 32;
  const uint4* const from = reinterpret_cast<const uint4*>(frame - XG_METADATA_SIZE);
  const u32 end = XG_METADATA_SIZE + length;
  u32 value = 0;
#pragma unroll 4
  for (u32 at = lane * 16; at < end; at += 32 * 16) {
    const uint4 v = __ldcs(from + at / 16);
    if (at < XG_METADATA_SIZE) continue;
    value += v.x;
    if (at + 4 < end) value += v.y;
    if (at + 8 < end) value += v.z;
    if (at + 12 < end) value += v.w;
  }
  return warp_sum(value);
}

// A warp a frame.
__global__ void __launch_bounds__(kBlock)
    frames(const u8* base, const u64* offsets, u32 count, u32 length, u32* sums) {
  const u32 frame = (blockIdx.x * kBlock + threadIdx.x) / 32;
  if (frame >= count) return;
  const u32 value = frame_sum(base + offsets[frame], length);
  if (threadIdx.x % 32 == 0) sums[frame] = value;
}

__global__ void __launch_bounds__(kBlock)
    answered_frames(const u8* base, const u64* offsets, u32 count, u32 length, uint4* results) {
  constexpr u32 kResultVectors = sizeof(xg_result) / sizeof(uint4);
  const u32 frame = (blockIdx.x * kBlock + threadIdx.x) / 32;
  const u32 lane = threadIdx.x % 32;
  if (frame >= count) return;
  const u32 value = frame_sum(base + offsets[frame], length);
  if (lane < kResultVectors)
    __stcs(results + u64{frame} * kResultVectors + lane, make_uint4(value, value, value, value));
}

u32 blocks_for(u64 threads) { return static_cast<u32>((threads + kBlock - 1) / kBlock); }

}  // namespace

cudaError_t launch_contiguous(const void* from, u64 bytes, u32* sum, cudaStream_t stream) noexcept {
  constexpr u32 kBlocks = 1024;  // more than stay resident, so that none of the GPU's processors is idle
  contiguous<<<kBlocks, kBlock, 0, stream>>>(static_cast<const uint4*>(from), bytes / sizeof(uint4), sum);
  return cudaGetLastError();
}

cudaError_t launch_lines(const void* base, const u32* numbers, u32 count, u32 bytes, u32* sum,
                         cudaStream_t stream) noexcept {
  const auto* from = static_cast<const uint4*>(base);
  if (bytes == 128)
    lines<8><<<blocks_for(u64{count} * 8), kBlock, 0, stream>>>(from, numbers, count, sum);
  else
    lines<4><<<blocks_for(u64{count} * 4), kBlock, 0, stream>>>(from, numbers, count, sum);
  return cudaGetLastError();
}

cudaError_t launch_answers(const void* base, const u32* numbers, u32 count, void* results, u32* sum,
                           cudaStream_t stream) noexcept {
  answers<<<blocks_for(u64{count} * kLineVectors), kBlock, 0, stream>>>(
      static_cast<const uint4*>(base), numbers, count, static_cast<uint4*>(results), sum);
  return cudaGetLastError();
}

cudaError_t launch_frames(const void* base, const u64* offsets, u32 count, u32 length, u32* sums,
                          cudaStream_t stream) noexcept {
  frames<<<blocks_for(u64{count} * 32), kBlock, 0, stream>>>(static_cast<const u8*>(base), offsets, count,
                                                             length, sums);
  return cudaGetLastError();
}

cudaError_t launch_answered_frames(const void* base, const u64* offsets, u32 count, u32 length, void* results,
                                   cudaStream_t stream) noexcept {
  answered_frames<<<blocks_for(u64{count} * 32), kBlock, 0, stream>>>(
      static_cast<const u8*>(base), offsets, count, length, static_cast<uint4*>(results));
  return cudaGetLastError();
}

}  // namespace xdpgpu::bench
