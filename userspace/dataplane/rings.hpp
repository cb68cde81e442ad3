// SPDX-License-Identifier: MIT
//
// userspace/dataplane/rings.hpp: the four AF_XDP rings of one (port, queue), each with the counts by
// which every frame has exactly one owner: what was handed to the kernel minus what came back.
//
// Everything here is single-threaded (the queue's worker), allocates nothing and makes no system call
// except kick().
#pragma once

#include <xdp/xsk.h>

#include <algorithm>

#include "maps/metrics.h"
#include "maps/packet.h"
#include "userspace/dataplane/buffers.hpp"
#include "userspace/dataplane/frame_region.hpp"

namespace xdpgpu::dataplane {

// XDP_PKT_CONTD in a ring's descriptor: the packet goes on in the next one. Newer than the oldest kernel
// headers we build with (linux/if_xdp.h, Linux 6.6).
inline constexpr u32 kContinued = 1u << 0;

// Packets that are taken from an RX ring at once, and counted as received once all of them are in batches.
inline constexpr u32 kReceiveBurst = 256;

// Receive side: fill ring and RX ring. A frame is the kernel's from the moment it is on the fill ring
// until its descriptor is taken from the RX ring.
class Receiver {
 public:
  xsk_ring_prod fill{};
  xsk_ring_cons rx{};

  // Tops the kernel up to as many frames as a ring has places; returns how many it gave. Fewer than
  // `step` wait until more can go together, as the ring is shared with another core, unless the kernel
  // is nearly out of frames. `prepare(frame)` sees each one first.
  template <class Prepare>
  u32 refill(FreeList& free, u32 step, Prepare&& prepare) noexcept {
    const u32 with_kernel = static_cast<u32>(held());
    u32 count = std::min(fill.size - with_kernel, free.size());
    if (!count || (count < step && with_kernel >= step)) return 0;
    // In copy mode the kernel shows a packet before it frees the place of its frame (xsk_flush).
    count = std::min(count, xsk_prod_nb_free(&fill, count));
    if (!count) return 0;
    u32 at = 0;
    xsk_ring_prod__reserve(&fill, count, &at);
    // Copies: what prepare() writes may be anything, as far as a compiler knows.
    u64* const ring = static_cast<u64*>(fill.ring);
    const u32 mask = fill.mask;
    const FrameId* const frames = free.shrink(count);
    for (u32 i = 0; i < count; ++i) {
      const FrameId frame = frames[count - 1 - i];
      prepare(frame);
      ring[(at + i) & mask] = chunk_of(frame);
    }
    xsk_ring_prod__submit(&fill, count);
    filled_ += count;
    return count;
  }

  // Descriptors waiting, at most `most`; the first is at index *at of the RX ring. To be followed by
  // take() or put_back().
  u32 peek(u32 most, u32* at) noexcept {
    const u32 taken = rx.cached_cons;
    const u32 count = xsk_ring_cons__peek(&rx, most, at);
    rx_most_ = std::max(rx_most_, rx.cached_prod - taken);
    return count;
  }
  // To be called where the end of a packet was not among those peeked at: while something that it saw is
  // left, peek() does not look for more.
  void refresh() noexcept { rx.cached_prod = __atomic_load_n(rx.producer, __ATOMIC_ACQUIRE); }
  // How many descriptors the packet at `at` has; 0: its last one is not among the `count` from there.
  u32 buffers_at(u32 at, u32 count) const noexcept {
    for (u32 i = 0; i < count; ++i)
      if (!(xsk_ring_cons__rx_desc(&rx, at + i)->options & kContinued)) return i + 1;
    return 0;
  }
  // The first `taken` of `peeked`, which end `packets` packets, are the worker's now; the others stay on the
  // ring.
  void take(u32 peeked, u32 taken, u32 packets) noexcept {
    if (taken < peeked) xsk_ring_cons__cancel(&rx, peeked - taken);
    if (!taken) return;
    xsk_ring_cons__release(&rx, taken);
    taken_ += taken;
    received_ += packets;
  }

  bool wants_wakeup() noexcept { return xsk_ring_prod__needs_wakeup(&fill); }
  u64 received() const noexcept { return received_; }     // packets
  u64 held() const noexcept { return filled_ - taken_; }  // frames that the kernel holds for receive

  // Reads what the kernel's core writes: for now and then, not for each turn.
  void look() noexcept {
    rx_now_ = __atomic_load_n(rx.producer, __ATOMIC_RELAXED) - *rx.consumer;
    fill_now_ = *fill.producer - __atomic_load_n(fill.consumer, __ATOMIC_RELAXED);
    rx_most_ = std::max(rx_most_, rx_now_);
    fill_most_ = std::max(fill_most_, fill_now_);
    fill_least_ = std::min(fill_least_, fill_now_);
  }
  // As last looked at; `most` of the RX ring also as peek() knew.
  xg_ring_level rx_level() const noexcept { return {rx_now_, rx_most_}; }
  xg_ring_level fill_level() const noexcept { return {fill_now_, fill_most_}; }
  u32 fill_least() const noexcept { return std::min(fill_least_, fill_most_); }

 private:
  u64 filled_ = 0, taken_ = 0;  // frames
  u64 received_ = 0;            // packets
  u32 rx_now_ = 0, rx_most_ = 0, fill_now_ = 0, fill_most_ = 0, fill_least_ = ~0u;
};

// Transmit side: TX ring and completion ring. A frame is the kernel's from push() until it is collected.
class Transmitter {
 public:
  xsk_ring_prod tx{};
  xsk_ring_cons completion{};
  int fd = -1;

  // Queues a packet's frames; false, and none of them, if they do not fit into the ring now. The kernel sees
  // them after flush(). Packet: Buffers, or OneBuffer.
  template <class Packet = Buffers>
  bool push(const Packet& packet) noexcept {
    const auto count = static_cast<u32>(packet.size());
    if (space_ < count) {
      space_ = xsk_prod_nb_free(&tx, count);
      if (space_ < count) return false;
    }
    space_ -= count;
    u32 at = 0;
    xsk_ring_prod__reserve(&tx, count, &at);
    for (u32 i = 0; i < count; ++i)
      *xsk_ring_prod__tx_desc(&tx, at + i) = {packet[i].offset, packet[i].length,
                                              i + 1 < count ? kContinued : 0};
    unflushed_ += count;
    submitted_ += count;
    return true;
  }
  // Queues as many of `count` packets of one buffer as there is room for; returns how many. each(i, &place)
  // writes the i-th one's descriptor.
  template <class Each>
  u32 push_together(u32 count, Each&& each) noexcept {
    if (space_ < count) space_ = xsk_prod_nb_free(&tx, count);
    count = std::min(space_, count);
    if (!count) return 0;
    space_ -= count;
    u32 at = 0;
    xsk_ring_prod__reserve(&tx, count, &at);
    xdp_desc* const ring = static_cast<xdp_desc*>(tx.ring);
    const u32 mask = tx.mask;
    for (u32 i = 0; i < count; ++i) each(i, ring[(at + i) & mask]);
    unflushed_ += count;
    submitted_ += count;
    return count;
  }
  // Whether a packet of so many frames fits now.
  bool has_room(u32 count) noexcept {
    if (space_ < count) space_ = xsk_prod_nb_free(&tx, count);
    return space_ >= count;
  }
  // How far the kernel has come in the ring; wraps.
  u32 consumed() const noexcept { return __atomic_load_n(tx.consumer, __ATOMIC_RELAXED); }
  void flush() noexcept {
    if (!unflushed_) return;
    xsk_ring_prod__submit(&tx, unflushed_);
    unflushed_ = 0;
  }

  // Hands each frame whose transmission is over to `over`; returns how many.
  template <class Over>
  u32 collect(Over&& over) noexcept {
    return collect_together([&](u32 count, auto&& frame_at) {
      for (u32 i = 0; i < count; ++i) over(frame_at(i));
    });
  }
  // Likewise, all at once: over(count, frame_at), where frame_at(i) is the i-th.
  template <class Over>
  u32 collect_together(Over&& over) noexcept {
    if (completed_ == submitted_) return 0;
    u32 at = 0;
    const u32 count = xsk_ring_cons__peek(&completion, completion.size, &at);
    if (!count) return 0;
    completion_most_ = std::max(completion_most_, count);
    const u64* const ring = static_cast<const u64*>(completion.ring);
    const u32 mask = completion.mask;
    over(count, [=](u32 i) { return frame_of(ring[(at + i) & mask]); });
    xsk_ring_cons__release(&completion, count);
    completed_ += count;
    return count;
  }

  // Descriptors that the kernel has not taken from the ring yet.
  u32 unsent() const noexcept { return *tx.producer - __atomic_load_n(tx.consumer, __ATOMIC_ACQUIRE); }
  // Asks the kernel to transmit, if it wants to be asked. In copy mode one call sends a few dozen
  // frames, so it asks again while that makes progress. Hands the last frame of each packet that the kernel
  // took and the interface behind would not have to `lost`: it is gone, and completed all the same.
  template <class Lost>
  void kick(Lost&& lost) noexcept {
    for (u32 i = 0; i < kMostKicks; ++i) {
      const Kick kicked = kick_once();
      // What is full now would refuse the next one, too: that waits in the ring for the next turn.
      if (kicked == Kick::refused) lost(refused_frame());
      if (kicked != Kick::again) return;
    }
  }
  // Hands the last frame of each packet that stands in the ring and was never sent to `lost`. For when nobody
  // kicks any more.
  template <class Lost>
  void abandon(Lost&& lost) noexcept {
    const u64 waiting = std::min<u64>(*tx.producer - sent_to(), held());
    for (u32 at = *tx.producer - static_cast<u32>(waiting); at != *tx.producer; ++at)
      if (!(xsk_ring_prod__tx_desc(&tx, at)->options & kContinued))
        lost(frame_of(xsk_ring_prod__tx_desc(&tx, at)->addr));
  }

  u64 submitted() const noexcept { return submitted_; }
  u64 completed() const noexcept { return completed_; }
  u64 held() const noexcept { return submitted_ - completed_; }  // frames that the kernel holds to send

  // Packets that kick() found to be lost.
  u64 refused() const noexcept { return refused_; }

  // `most`: as seen by kick() and by collect().
  xg_ring_level tx_level() const noexcept { return {unsent(), tx_most_}; }
  xg_ring_level completion_level() const noexcept {
    return {__atomic_load_n(completion.producer, __ATOMIC_RELAXED) - *completion.consumer, completion_most_};
  }

 private:
  static constexpr u32 kMostKicks = 128;
  enum class Kick { done, again, refused };
  // One call.
  Kick kick_once() noexcept;
  // Up to where the kernel has taken from the ring, as far as is known: what it took and refused it says in
  // the ring only when it next sends.
  u32 sent_to() const noexcept {
    const u32 said = __atomic_load_n(tx.consumer, __ATOMIC_ACQUIRE);
    return static_cast<std::int32_t>(said - taken_) > 0 ? said : taken_;
  }
  FrameId refused_frame() noexcept { return frame_of(xsk_ring_prod__tx_desc(&tx, taken_ - 1)->addr); }

  u32 taken_ = 0;
  u32 space_ = 0, unflushed_ = 0;
  u32 tx_most_ = 0, completion_most_ = 0;
  u64 submitted_ = 0, completed_ = 0, refused_ = 0;
};

}  // namespace xdpgpu::dataplane
