// SPDX-License-Identifier: MIT
//
// userspace/dataplane/metadata.hpp: the 32 bytes in front of a frame: does the port deliver them, and
// what to put there where it does not.
#pragma once

#include <cstddef>
#include <cstring>

#include "maps/hash.h"
#include "maps/router.h"
#include "userspace/dataplane/frame_region.hpp"

namespace xdpgpu::dataplane {

// Learns whether a (port, queue) delivers metadata. It cannot be read off the bytes of any frame, because a
// reused frame still holds its last packet's. So as long as it is not known, the worker zeroes the place
// before it gives a frame to the kernel; then the first packet decides: what is not zero there was written by
// the kernel, and it counts as metadata only if it names a generation, this port and a time between the start
// and now. (A driver that writes a descriptor of its own there, as some do with timestamps, does not pass for
// metadata.)
//
// What a port delivers once it need not deliver for ever: a driver may change how it lays out its frames. A
// packet that comes without has its frame's last packet's, which are told by their age: a queue's packets
// come on one CPU at a time (not so in generic mode), so that each one's time and sequence are behind those
// of all before. That is enough as long as nothing else was ever written at the place, on any port of the
// worker (PortQueue::covered). Otherwise the worker empties the generation, one store a frame, and a packet
// that comes without one has no metadata. Then the port delivers none from then on: some of its packets would
// have the kernel's sequence, some one of the worker's.
class MetadataProbe {
 public:
  // Of the last packet that had its own.
  struct Last {
    u64 rx_time_ns = 0;
    u32 sequence = 0;
  };

  // in_order: no two of the queue's packets are in the XDP program at once.
  MetadataProbe(u8 port, u64 start_ns, bool in_order = false)
      : port_(port), in_order_(in_order), start_ns_(start_ns) {}

  bool known() const noexcept { return known_; }
  bool delivers() const noexcept { return delivers_; }
  bool in_order() const noexcept { return in_order_; }
  // Whether frames need not be prepared, as long as nothing else than metadata stands in front of them.
  bool tells_by_age() const noexcept { return delivers_ && in_order_; }
  const Last& last() const noexcept { return last_; }

  // Before the kernel gets the frame.
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
  bool own(const xg_metadata& metadata, u64 start) const noexcept {
    return metadata.generation != 0 && start == XG_FRAME_DATA &&
           (!in_order_ || later(metadata, port_, last_));
  }
  // Whether the XDP program wrote them on this port, and behind those of `last`. What an older packet of the
  // queue left is at most as late as that, and of what came within the same tick the sequence has not gone
  // round.
  static bool later(const xg_metadata& metadata, u8 port, const Last& last) noexcept {
    return metadata.port == port && !(metadata.flags & XG_PKT_EGRESS) &&
           metadata.rx_time_ns >= last.rx_time_ns &&
           static_cast<std::int32_t>(metadata.sequence - last.sequence) > 0;
  }
  // They were.
  void note(const Last& last) noexcept { last_ = last; }
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
    last_ = {metadata.rx_time_ns, metadata.sequence - 1};
  }

 private:
  u8 port_;
  bool in_order_;
  u64 start_ns_;
  Last last_;
  bool known_ = false, delivers_ = false;
};

// What the XDP program would have written, but for pipeline, generation and sequence. readable: bytes of the
// frame's first buffer; length: of all; flow_keys, mac: the port's, as in xg_config.
inline void parse_metadata(const u8* frame, u32 readable, u32 length, u8 port, const xg_hash_keys& flow_keys,
                           u64 mac, u64 now_ns, xg_metadata* out) noexcept {
  xg_packet packet;
  xg_parse_part(frame, frame + readable, length, port, &packet);
  xg_router_look(frame, frame + readable, mac, &packet);
  *out = {};
  xg_metadata_from(out, &packet, xg_flow_hash(&packet.key, &flow_keys));
  out->rx_time_ns = now_ns;
}

}  // namespace xdpgpu::dataplane
