// SPDX-License-Identifier: MIT
//
// bench/umem/frames.hpp: received frames in a frame region, as a NIC and the XDP program leave them: one in
// each chunk of XG_CHUNK_SIZE bytes, metadata in front, one after the other in chunks of no order.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/pages.hpp"
#include "bench/umem/queue.hpp"
#include "gpu/pipelines.hpp"

namespace xdpgpu::bench {

enum class Stage { acl, l2fwd };

class Frames {
 public:
  // `count` frames of `length` bytes, a multiple of 4: IPv4, TCP or UDP, of random flows, the rest of each
  // chunk random too. huge: on huge pages. Throws std::runtime_error, a sentence.
  Frames(u32 count, u32 length, bool huge);

  u8* base() const { return pages_.base(); }
  u64 bytes() const { return pages_.bytes(); }
  // In the order of receipt.
  std::span<const xg_descriptor> descriptors() const { return descriptors_; }
  FrameRegion region() const { return {base(), bytes(), descriptors_}; }
  // The number of the 128-byte line in which each frame's metadata and headers are.
  std::vector<u32> lines() const;

  static std::vector<gpu::PipelineSettings> pipelines(Stage stage);
  // By the sequential reference, in the order of receipt.
  std::vector<u32> verdicts(Stage stage) const;

  // Sums of 32-bit words modulo 2^32, as the plain kernels make them: of all memory; of the first `bytes`
  // of each frame's line; of each frame.
  u32 sum() const;
  u32 sum_of_lines(u32 bytes) const;
  std::vector<u32> frame_sums() const;

 private:
  u32 sum_at(u64 offset, u64 bytes) const;

  Pages pages_;
  std::vector<xg_descriptor> descriptors_;
};

}  // namespace xdpgpu::bench
