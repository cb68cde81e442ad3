// SPDX-License-Identifier: MIT
//
// userspace/dataplane/metadata.hpp: the 32 bytes in front of a frame: does the port deliver them, and
// what to put there where it does not.
#pragma once

#include <cstddef>
#include <cstring>

#include "maps/hash.h"
#include "maps/parse.h"
#include "userspace/dataplane/frame_region.hpp"

namespace xdpgpu::dataplane {

// Learns whether a (port, queue) delivers metadata. It cannot be read off the bytes of any frame, because a
// reused frame still holds its last packet's. So as long as it is not known, the worker zeroes the place
// before it gives a frame to the kernel; then the first packet decides: what is not zero there was written by
// the kernel, and it counts as metadata only if it names a generation, this port and a time between the start
// and now. (A driver that writes a descriptor of its own there, as some do with timestamps, does not pass for
// metadata.)
//
// What a port delivers once it need not deliver for ever: a driver may change how it lays out its frames. So
// where it does, the worker empties the generation alone, one store a frame, and a packet that comes without
// one has no metadata. Then the port delivers none from then on: some of its packets would have the kernel's
// sequence, some one of the worker's.
class MetadataProbe {
 public:
  MetadataProbe(u8 port, u64 start_ns) : port_(port), start_ns_(start_ns) {}

  bool known() const noexcept { return known_; }
  bool delivers() const noexcept { return delivers_; }

  void prepare(u8* chunk) const noexcept {
    u8* const place = chunk + XG_FRAME_DATA - XG_METADATA_SIZE;
    if (delivers_) [[likely]] {
      constexpr u32 kNone = 0;
      std::memcpy(place + offsetof(xg_metadata, generation), &kNone, sizeof(kNone));
    } else if (!known_) {
      std::memset(place, 0, XG_METADATA_SIZE);
    }
  }

  // Of a port that delivers metadata: are these, in front of a frame that starts there in its chunk, the
  // packet's own?
  static bool own(const xg_metadata& metadata, u64 start) noexcept {
    return metadata.generation != 0 && start == XG_FRAME_DATA;
  }
  // They were not.
  void forget() noexcept { delivers_ = false; }

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
