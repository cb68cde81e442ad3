// SPDX-License-Identifier: MIT
//
// bench/cuda/ceilings.hpp: what a GPU can do at most with host memory, measured by the plainest kernels:
// reading registered memory in the layouts that frames have, deciding parsed headers, and answering a word;
// and memory of the GPU's own to hold that against.
// In a build without CUDA every one of them fails with that sentence.
//
// gpu: the number in "cuda:<n>". Each call waits for the GPU at most some seconds. From one thread at a time.
#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "bench/events/headers.h"
#include "gpu/gpu.hpp"

namespace xdpgpu::bench {

// "cuda", "cuda:1", "cuda:1/persistent": the GPU's number; -1: another kind of device.
int gpu_number(std::string_view device);

struct Reading {
  double seconds = 0;
  u32 sum = 0;  // of all 32-bit words read, modulo 2^32
};

// Kernels that do nothing but read registered host memory.
class HostReader {
 public:
  // [base, base + bytes) is page-aligned, stays alive as long as this, and is not registered with CUDA yet.
  static gpu::Result<std::unique_ptr<HostReader>> open(u32 gpu, void* base, u64 bytes);
  virtual ~HostReader() = default;

  // All of it, once, in order.
  virtual gpu::Result<Reading> contiguous() = 0;
  // The first `bytes` (64 or 128) of the 128-byte lines of these numbers, `passes` times over; 16 bytes a
  // thread, so that 4 or 8 neighbours share a line. Seconds are a pass's, the sum is of all passes.
  virtual gpu::Result<Reading> lines(std::span<const u32> numbers, u32 bytes, u32 passes) = 0;
  // Reads lines as lines() does, all 128 bytes of each, and writes the sum of each line's words in every word
  // of its result, in host memory that it has for that: as many bytes as a verdict's results take. They are
  // copied to `results` at the end, which is as long as `numbers`.
  virtual gpu::Result<Reading> answers(std::span<const u32> numbers, std::span<xg_result> results,
                                       u32 passes) = 0;
  // The frames, one to a warp, as whole lines; the frames' sums go to host memory. Frames start
  // XG_METADATA_SIZE behind a line's start and are a multiple of 4 bytes long, all the same length.
  virtual gpu::Result<Reading> frames(std::span<const xg_descriptor> frames, std::span<u32> sums) = 0;
  // The same, `passes` times over, with each frame's sum in every word of its result, in host memory that it
  // has for that: as many bytes as a verdict's results take. They are copied to `results` at the end, which
  // is as long as `frames`. Seconds are a pass's; there is no sum.
  virtual gpu::Result<Reading> answered_frames(std::span<const xg_descriptor> frames,
                                               std::span<xg_result> results, u32 passes) = 0;
};

// Memory that the host writes and the GPU then has in its own (CUDA's managed memory), zeroed.
class SharedMemory {
 public:
  static gpu::Result<std::unique_ptr<SharedMemory>> create(u32 gpu, u64 bytes);
  virtual ~SharedMemory() = default;
  virtual u8* base() const = 0;
  virtual u64 bytes() const = 0;
  // All of it goes to the GPU, and stays there until the host touches it.
  virtual gpu::Result<void> settle() = 0;
};

// Verdicts on parsed headers, host memory to host memory.
class EventDecider {
 public:
  // The memory is page-aligned, stays alive as long as this, and is not registered with CUDA yet; the spans
  // are equally long.
  static gpu::Result<std::unique_ptr<EventDecider>> open(u32 gpu, std::span<ParsedHeader> parsed,
                                                         std::span<CompactHeader> compact,
                                                         std::span<u32> verdicts);
  virtual ~EventDecider() = default;

  // Seconds until all verdicts stand in host memory.
  virtual gpu::Result<double> parsed(EventStage stage) = 0;   // records read where they are
  virtual gpu::Result<double> copied(EventStage stage) = 0;   // by the copy engines, in overlapping parts
  virtual gpu::Result<double> compact(EventStage stage) = 0;  // records read where they are
  // The same for a part of the compact records, begun and not waited for; parts follow each other.
  virtual gpu::Result<void> begin_compact(EventStage stage, u64 first, u64 count) = 0;
  virtual gpu::Result<void> wait() = 0;
  // Seconds to read all parsed records and do nothing with them.
  virtual gpu::Result<double> read() = 0;
};

// ns from a word's store by the host until a resident thread's answer is seen by it, `count` times.
gpu::Result<std::vector<u64>> round_trips_ns(u32 gpu, u32 count);

}  // namespace xdpgpu::bench
