// SPDX-License-Identifier: MIT
//
// userspace/dataplane/metadata.hpp: the 32 bytes in front of a frame: does the port deliver them, and
// what to put there where it does not.
#pragma once

#include <cstring>

#include "maps/hash.h"
#include "maps/parse.h"
#include "userspace/dataplane/frame_region.hpp"

namespace xdpgpu::dataplane {

// Learns once whether a (port, queue) delivers metadata. It cannot be read off the bytes of any frame,
// because a reused frame still holds its last packet's. So as long as it is not known, the worker zeroes
// the place before it gives a frame to the kernel; then the first packet decides for good: what is not
// zero there was written by the kernel, and it counts as metadata only if it names a generation, this
// port and a time between the start and now. (A driver that writes a descriptor of its own there, as
// some do with timestamps, does not pass for metadata.)
class MetadataProbe {
 public:
  MetadataProbe(u8 port, u64 start_ns) : port_(port), start_ns_(start_ns) {}

  bool known() const noexcept { return known_; }
  bool delivers() const noexcept { return delivers_; }

  void prepare(u8* chunk) const noexcept {
    if (!known_) std::memset(chunk + XG_FRAME_DATA - XG_METADATA_SIZE, 0, XG_METADATA_SIZE);
  }

  // The first packet: its chunk, where its frame starts in it, and its length.
  void learn(const u8* chunk, u64 start, u32 length, u64 now_ns) noexcept {
    known_ = true;
    if (start != XG_FRAME_DATA) return;
    xg_metadata metadata;
    std::memcpy(&metadata, chunk + XG_FRAME_DATA - XG_METADATA_SIZE, sizeof(metadata));
    delivers_ = metadata.generation != 0 && metadata.port == port_ && metadata.rx_time_ns >= start_ns_ &&
                metadata.rx_time_ns <= now_ns && metadata.l3_offset <= length;
  }

 private:
  u8 port_;
  u64 start_ns_;
  bool known_ = false, delivers_ = false;
};

// What the XDP program would have written, but for pipeline, generation and sequence. readable: bytes of the
// frame's first buffer; length: of all.
inline void parse_metadata(const u8* frame, u32 readable, u32 length, u8 port, const u64 hash_key[2],
                           u64 now_ns, xg_metadata* out) noexcept {
  xg_packet packet;
  xg_parse_part(frame, frame + readable, length, port, &packet);
  *out = {};
  xg_metadata_from(out, &packet, static_cast<u32>(xg_flow_hash(&packet.key, hash_key[0], hash_key[1])));
  out->rx_time_ns = now_ns;
}

}  // namespace xdpgpu::dataplane
