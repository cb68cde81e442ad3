// SPDX-License-Identifier: MIT
//
// userspace/dataplane/order.hpp: which packets have left user space. A queue's `retired` may name a
// packet only once every packet up to it is really gone (DESIGN 4.3): dropped, or transmitted and
// completed, each frame by itself: completions of later frames stand in for none. A passed packet is
// completed when the stack takes it from its sender (skb_orphan in ip_rcv), alone or at the head of the
// packets that GRO merged into it; what is left of its way runs without pause, and is given a moment.
#pragma once

#include <span>
#include <vector>

#include "maps/packet.h"

namespace xdpgpu::dataplane {

// Retired batches whose packets are still under way, oldest first. Per worker, single-threaded, no
// allocation after construction.
class OrderLog {
 public:
  // Frames are named by 0 to frames - 1.
  OrderLog(u32 ports, u32 frames, u64 grace_ns)
      : grace_ns_(grace_ns), entries_(kEntries, Entry(ports)), entry_of_(frames) {}

  // A batch is about to be routed: begin(), sent() for each frame given to a transmitter, end(). When
  // the log is full the batch joins the newest entry, which then leaves later.
  void begin() noexcept {
    if (count_ < kEntries) {
      current_ = (head_ + count_++) % kEntries;
      entries_[current_].port_mask = 0;
      entries_[current_].passed = false;
    } else {
      current_ = (head_ + count_ - 1) % kEntries;
    }
    entries_[current_].done_ns = 0;
  }
  // In place of begin(): something of a batch that was begun before is about to be routed, of which this
  // frame was sent() and is not completed().
  void resume(u32 frame) noexcept {
    current_ = entry_of_[frame];
    entries_[current_].done_ns = 0;
  }
  u32 entry_of(u32 frame) const noexcept { return entry_of_[frame]; }
  void sent(u32 frame) noexcept {
    entry_of_[frame] = static_cast<u8>(current_);
    ++entries_[current_].under_way;
  }
  // sent() for many: whoever sends them sets each one's place in `entries` to `entry`, and tells how many.
  struct Marks {
    u8* entries;
    u8 entry;
  };
  Marks marks() noexcept { return {entry_of_.data(), static_cast<u8>(current_)}; }
  void sent_marked(u32 frames) noexcept { entries_[current_].under_way += frames; }
  // next_sequence[p] is one past the last sequence of port p's packets in the batch, valid where bit p
  // of port_mask is set; passed: some went to a reinjection pair.
  void end(u32 port_mask, std::span<const u32> next_sequence, bool passed) noexcept {
    Entry& entry = entries_[current_];
    for (u32 p = 0; p < entry.next_sequence.size(); ++p)
      if (port_mask >> p & 1) entry.next_sequence[p] = next_sequence[p];
    entry.port_mask |= port_mask;
    entry.passed |= passed;
  }

  // The kernel gave a frame back that was sent.
  void completed(u32 frame) noexcept { --entries_[entry_of_[frame]].under_way; }

  // Likewise for `count` frames: frame_at(i) names each.
  template <class FrameAt>
  void completed(u32 count, FrameAt&& frame_at) noexcept {
    const u8* const entry_of = entry_of_.data();
    // Those of one batch tend to stand together.
    for (u32 i = 0; i < count;) {
      const u8 entry = entry_of[frame_at(i)];
      u32 end = i + 1;
      while (end < count && entry_of[frame_at(end)] == entry) ++end;
      entries_[entry].under_way -= end - i;
      i = end;
    }
  }

  // Removes the entries that have left, in order, and calls left(port, next_sequence) for each port in
  // them.
  template <class Left>
  void advance(u64 now_ns, Left&& left) noexcept {
    for (u32 i = 0; i < count_; ++i) {
      Entry& entry = entries_[(head_ + i) % kEntries];
      if (!entry.under_way && !entry.done_ns) entry.done_ns = now_ns;
    }
    while (count_) {
      Entry& entry = entries_[head_];
      if (entry.under_way || (entry.passed && now_ns - entry.done_ns < grace_ns_)) return;
      for (u32 p = 0; p < entry.next_sequence.size(); ++p)
        if (entry.port_mask >> p & 1) left(p, entry.next_sequence[p]);
      head_ = (head_ + 1) % kEntries;
      --count_;
    }
  }

  bool empty() const noexcept { return count_ == 0; }

 private:
  static constexpr u32 kEntries = 64;
  struct Entry {
    explicit Entry(u32 ports) : next_sequence(ports) {}
    u32 port_mask = 0;
    u32 under_way = 0;  // frames
    bool passed = false;
    u64 done_ns = 0;  // when all were seen to be completed
    std::vector<u32> next_sequence;
  };
  u64 grace_ns_;
  std::vector<Entry> entries_;
  std::vector<u8> entry_of_;  // of each frame that is under way
  u32 head_ = 0, count_ = 0, current_ = 0;
};

}  // namespace xdpgpu::dataplane
