// SPDX-License-Identifier: MIT
//
// userspace/dataplane/reassembler.hpp: the fragments of a worker's datagrams, which wait in their frames
// until all are there ("fragments": "reassemble"), and the packet that they then make: headers in a frame of
// their own, and descriptors that point into the fragments' payload (RFC 791, RFC 8200, 4.5).
//
// A datagram has a place among XG_FRAGMENT_WAYS of its source's bucket, and waits for XG_FRAGMENT_NS; a
// source has XG_FRAGMENT_OF_SOURCE of them at most, as in the kernel's table (maps/fragments.h). A place is
// kept for the rest of its time when its datagram is through: what still comes of it is dropped.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "maps/control.h"
#include "maps/fragments.h"
#include "userspace/dataplane/buffers.hpp"

namespace xdpgpu::dataplane {

// Why fragments are dropped before a pipeline has seen their datagram.
enum class Unassembled : u8 {
  overlapping,  // they overlap, or say different things of where the datagram ends
  timed_out,    // some are missing
  too_long,     // the datagram has more bytes or buffers than a packet can have
  no_room,      // others are to wait in their place
  repeated,     // it brings nothing: a duplicate, or its datagram is through
};

// What a worker counts it as.
constexpr u64 xg_worker_counters::*counter_of(Unassembled why) noexcept {
  switch (why) {
    case Unassembled::overlapping:
      return &xg_worker_counters::fragments_overlapping;
    case Unassembled::timed_out:
      return &xg_worker_counters::fragments_timed_out;
    case Unassembled::too_long:
      return &xg_worker_counters::fragments_too_long;
    case Unassembled::no_room:
      return &xg_worker_counters::fragments_no_room;
    case Unassembled::repeated:
      break;
  }
  return &xg_worker_counters::fragments_repeated;
}

// What the policy says of IPv4; of IPv6 the datagram is dropped (RFC 5722).
enum class Overlapping : u8 {
  drop,   // the datagram
  first,  // the bytes that came first stand, and are written over those that came later
};

// A fragment, as its headers have it.
struct Fragment {
  xg_flow_key key{};  // with the identification in its ports
  u32 generation = 0;
  u32 start = 0, end = 0;  // of its payload, in the datagram's
  u32 at = 0;              // where its payload stands, from the packet's first byte
  bool more = false;       // others come behind it
  // Of a first one whose transport header is whole and in its first buffer; else 0.
  u32 header_end = 0;       // behind that header, from the packet's first byte
  u32 fragment_header = 0;  // likewise, where IPv6's stands
  u32 next_header = 0;      // likewise, the byte that names it

  // A datagram of its own, "atomic" (RFC 6946).
  bool is_whole() const noexcept { return !start && !more; }
};

// Of a packet with XG_PKT_TRACKED, its metadata in front of it.
Fragment fragment_of(Buffers packet, const u8* region, u8 port) noexcept;

// Of one thread. No allocation after construction. It owns the frames of the fragments that wait, until it
// hands them out.
class Reassembler {
 public:
  static constexpr u32 kBuffers = XG_PACKET_BUFFERS - 1;  // of a datagram's fragments, beside the headers'

  struct Dropped {
    xg_descriptor buffer;  // XG_DESC_MORE: its packet goes on with the next one
    u8 port;
    Unassembled why;
  };

  // A whole datagram.
  struct Whole {
    u32 generation = 0;
    u8 port = 0;
    u64 last_ns = 0;                         // when its last fragment came
    std::span<const xg_descriptor> buffers;  // of its fragments, by their place; each packet's together
  };

  // frames: that may wait in all, at least kBuffers. key: of the buckets.
  Reassembler(u8* region, u32 frames, const std::array<u64, 2>& key);
  ~Reassembler();

  // Takes a fragment that came at `came_ns`, with its frames. Look at dropped() afterwards.
  void take(Buffers packet, const Fragment& fragment, Overlapping ipv4, u64 came_ns) noexcept;
  // Drops what has waited for too long at `now_ns`.
  void expire(u64 now_ns) noexcept {
    if (oldest_ != kNone) [[unlikely]]
      expire_old(now_ns);
  }
  // Drops all.
  void abandon() noexcept;

  // Whether a datagram is whole, and waits to be taken away.
  bool any_whole() const noexcept { return whole_ != kNone; }
  // The oldest one, as it is until made() is called.
  Whole whole() const noexcept;
  // Writes its headers and metadata, its time being its last fragment's, to a frame whose packet begins at
  // `header_at`, and its descriptors to `to`; returns how many.
  u32 make(u64 header_at, std::array<xg_descriptor, XG_PACKET_BUFFERS>& to) const noexcept;
  // It is taken away, its frames included.
  void made() noexcept;

  // Calls `drop` for each buffer, and forgets them.
  template <class Drop>
  void take_dropped(Drop&& drop) noexcept {
    for (u32 i = 0; i < dropped_count_; ++i) drop(dropped_[i]);
    dropped_count_ = 0;
  }

  // Frames that wait, those of whole datagrams included; of them by port, and their packets.
  u32 frames() const noexcept { return frames_; }
  u32 frames(u32 port) const noexcept { return held_[port].frames; }
  u32 packets(u32 port) const noexcept { return held_[port].packets; }

 private:
  static constexpr u16 kNone = 0xffff;
  struct Piece;
  struct Datagram;
  struct Held {
    u32 frames = 0, packets = 0;
  };

  Datagram* find(const Fragment& fragment, u32 bucket, u64 now_ns) noexcept;
  Datagram* begin(const Fragment& fragment, u32 bucket, u64 now_ns) noexcept;
  bool make_room(u32 frames, const Datagram& unless) noexcept;
  u32 uncovered(Datagram& datagram, const Piece& piece, bool first_wins, bool& overlaps) noexcept;
  bool is_repeated(const Datagram& datagram, const Piece& piece) const noexcept;
  u8* bytes_at(const Datagram& datagram, const Piece& piece, u32 byte, u32& run) const noexcept;
  void drop(Buffers packet, u8 port, Unassembled why) noexcept;
  void condemn(Datagram& datagram, Unassembled why) noexcept;
  void expire_old(u64 now_ns) noexcept;
  void hold(u8 port, u32 frames) noexcept;
  void let_go(Datagram& datagram) noexcept;

  // Datagrams that wait, and whole ones, each in the order of time.
  void append(Datagram& datagram, u16& first, u16& last) noexcept;
  void remove(Datagram& datagram, u16& first, u16& last) noexcept;

  u8* region_;
  u32 most_frames_;
  std::array<u64, 2> key_;
  std::unique_ptr<Datagram[]> datagrams_;
  u16 oldest_ = kNone, newest_ = kNone;
  u16 whole_ = kNone, last_whole_ = kNone;
  u32 frames_ = 0;
  std::array<Held, XG_MAX_PORTS> held_{};
  std::vector<Dropped> dropped_;
  u32 dropped_count_ = 0;
};

}  // namespace xdpgpu::dataplane
