// SPDX-License-Identifier: MIT
//
// userspace/dataplane/order.hpp: which packets have left user space. A queue's `retired` may name a
// packet only once every packet up to it is really gone: dropped, or transmitted and completed, and for
// PASS a moment more, because behind the reinjection pair lies the kernel's own backlog (DESIGN 4.3).
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "maps/packet.h"

namespace xdpgpu::dataplane {

// Retired batches whose packets are still under way, oldest first. Per worker, single-threaded, no
// allocation after construction.
class OrderLog {
 public:
  // A transmitter is named by its index; `ports` and `transmitters` are the counts.
  OrderLog(u32 ports, u32 transmitters, u64 grace_ns)
      : ports_(ports), transmitters_(transmitters), grace_ns_(grace_ns) {
    entries_.resize(kEntries);
    for (Entry& entry : entries_) {
      entry.next_sequence.resize(ports);
      entry.mark.resize(transmitters);
    }
  }

  // A batch was routed. next_sequence[p] is one past the last sequence of port p's packets in it,
  // valid where bit p of port_mask is set; submitted[t] is the number of frames given to transmitter t
  // up to now. When the log is full the batch joins the newest entry, which then completes later.
  void add(u32 port_mask, std::span<const u32> next_sequence, std::span<const u64> submitted,
           bool passed) noexcept {
    const bool full = count_ == kEntries;
    Entry& entry = at(count_ - (full ? 1 : 0));
    if (!full) {
      ++count_;
      entry.port_mask = 0;
      entry.passed = false;
    }
    completed_ = std::min(completed_, count_ - 1);
    for (u32 p = 0; p < ports_; ++p)
      if (port_mask >> p & 1) entry.next_sequence[p] = next_sequence[p];
    entry.port_mask |= port_mask;
    for (u32 t = 0; t < transmitters_; ++t) entry.mark[t] = submitted[t];
    entry.passed |= passed;
  }

  // Removes the entries that have left, in order, and calls left(port, next_sequence) for each port in
  // them. completed[t]: frames that transmitter t has completed.
  template <class Left>
  void advance(std::span<const u64> completed, u64 now_ns, Left&& left) noexcept {
    // Completions come in order: each entry's moment of grace begins with its own.
    while (completed_ < count_ && is_completed(at(completed_), completed)) at(completed_++).done_ns = now_ns;
    while (completed_) {
      Entry& entry = at(0);
      if (entry.passed && now_ns - entry.done_ns < grace_ns_) return;
      for (u32 p = 0; p < ports_; ++p)
        if (entry.port_mask >> p & 1) left(p, entry.next_sequence[p]);
      head_ = (head_ + 1) % kEntries;
      --count_;
      --completed_;
    }
  }

  bool empty() const noexcept { return count_ == 0; }

 private:
  static constexpr u32 kEntries = 64;
  struct Entry {
    u32 port_mask = 0;
    bool passed = false;
    u64 done_ns = 0;  // when it was seen to be completed
    std::vector<u32> next_sequence;
    std::vector<u64> mark;
  };
  Entry& at(u32 index) noexcept { return entries_[(head_ + index) % kEntries]; }
  bool is_completed(const Entry& entry, std::span<const u64> completed) const noexcept {
    for (u32 t = 0; t < transmitters_; ++t)
      if (completed[t] < entry.mark[t]) return false;
    return true;
  }

  u32 ports_, transmitters_;
  u64 grace_ns_;
  std::vector<Entry> entries_;
  u32 head_ = 0, count_ = 0;
  u32 completed_ = 0;  // of the oldest entries: their transmissions are over
};

}  // namespace xdpgpu::dataplane
