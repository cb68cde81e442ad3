// SPDX-License-Identifier: MIT
//
// bench/stages/frames.hpp: a case's packets in a frame region, as a NIC and the XDP program leave them: one
// in each chunk of XG_CHUNK_SIZE bytes, metadata in front, one after the other in chunks of no order.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "bench/cuda/ceilings.hpp"
#include "bench/pages.hpp"
#include "bench/stages/stage_case.hpp"
#include "bench/umem/queue.hpp"

namespace xdpgpu::bench {

class StageFrames {
 public:
  // Throws std::runtime_error, a sentence.
  StageFrames(u32 count, bool huge);
  // In memory of a GPU's: bytes_of(count).
  StageFrames(u32 count, std::unique_ptr<SharedMemory> memory);
  static constexpr u64 bytes_of(u32 count) { return u64{count} * XG_CHUNK_SIZE; }

  // Frame i becomes packet i modulo their number.
  void fill(std::span<const StagePacket> packets);
  // The first `count` of them in the order of receipt.
  FrameRegion region(u32 count) const { return {base_, bytes_, std::span(descriptors_).first(count)}; }
  // The same region, of other frames.
  FrameRegion region(u32 first, u32 count) const {
    return {base_, bytes_, std::span(descriptors_).subspan(first, count)};
  }
  // Of a GPU's memory: there it is from now on, until it is filled anew.
  gpu::Result<void> settle() { return memory_->settle(); }
  // The number of the 128-byte line in which each frame's metadata and headers are, and the sum of all of
  // their 32-bit words, modulo 2^32.
  std::vector<u32> lines() const;
  u32 sum_of_lines() const;
  u32 count() const { return static_cast<u32>(descriptors_.size()); }

 private:
  void place(u32 count);

  std::optional<Pages> pages_;            // either
  std::unique_ptr<SharedMemory> memory_;  // or
  u8* base_;
  u64 bytes_;
  std::vector<xg_descriptor> descriptors_;
};

}  // namespace xdpgpu::bench
