// SPDX-License-Identifier: MIT
//
// bench/signatures/frames.hpp: payloads in a frame region, as a NIC and the XDP program leave them: each in a
// chunk of XG_CHUNK_SIZE bytes, metadata and headers in front, one after the other in chunks of no order.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench/pages.hpp"
#include "bench/umem/queue.hpp"

namespace xdpgpu::bench {

class PayloadFrames {
 public:
  // Throws std::runtime_error, a sentence.
  explicit PayloadFrames(u32 count);

  static constexpr u32 payload_bytes(u32 length, bool tcp) { return length - (tcp ? 54 : 42); }
  // Frame i becomes IPv4 with payload i modulo their number; all are equally long. To this port, of TCP or
  // UDP.
  void fill(std::span<const std::string> payloads, bool tcp, u16 port);

  // Makes these frames, of TCP, the next segments that `flows` connections send, in turn, each of which says
  // on where it has ended. From the first flow's first byte on, if `begin`.
  void say_on(std::span<const xg_descriptor> frames, u32 flows, bool begin);

  // The first `count` of them in the order of receipt.
  FrameRegion region(u32 count) const {
    return {pages_.base(), pages_.bytes(), std::span(descriptors_).first(count)};
  }
  std::span<const u8> payload(u32 frame) const;
  u32 count() const { return static_cast<u32>(descriptors_.size()); }
  u32 length() const { return descriptors_.front().length; }
  // Of each frame's 32-bit words, modulo 2^32.
  std::vector<u32> sums() const;

 private:
  Pages pages_;
  std::vector<xg_descriptor> descriptors_;
  u32 payload_at_ = 0;
  u64 said_ = 0;  // segments
};

}  // namespace xdpgpu::bench
