// SPDX-License-Identifier: MIT
//
// userspace/dataplane/credits.hpp: how many packets the XDP program may still send to a queue
// (maps/control.h, xg_queue_state). Sequences and counts wrap; everything is a difference.
#pragma once

#include <algorithm>

#include "maps/control.h"

namespace xdpgpu::dataplane {

// The worker's account of one queue: admitted = received + lost + under way. The XDP program counts
// `admitted`; a packet is lost when the kernel dropped it behind the redirect.
class Credits {
 public:
  // `admitted` is what the queue's state says before its first packet; a packet takes up to `buffers` frames.
  Credits(u32 admitted, u32 ring_size, u32 buffers = 1)
      : base_(admitted), ring_(ring_size), buffers_(buffers) {}

  // What to publish as `granted`: the packets taken or lost so far, and as many as there are frames for
  // in the fill ring and places in the RX ring, be each as long as it can. `held`: frames that the kernel
  // holds for receive.
  u32 granted(u64 received, u64 held) const noexcept {
    const auto places = static_cast<u32>(std::min<u64>(held, ring_));
    return base_ + static_cast<u32>(received + lost_) + (buffers_ == 1 ? places : places / buffers_);
  }

  // Packets that XDP admitted and that are neither received nor known as lost.
  std::int32_t under_way(u32 admitted, u64 received) const noexcept {
    return static_cast<std::int32_t>(admitted - base_ - static_cast<u32>(received + lost_));
  }

  // XDP_STATISTICS' total so far. Returns how many losses are new.
  u64 lost_total(u64 reported) noexcept {
    if (reported <= reported_) return 0;
    const u64 fresh = reported - reported_;
    reported_ = reported;
    lost_ += fresh;
    return fresh;
  }

  // Losses that no statistic names (the socket was not bound yet, another queue): what is under way
  // while the RX ring is empty and nothing has moved for `kSettleNs` will not come. Returns how many
  // were written off. To be called with an empty RX ring.
  u64 write_off(u32 admitted, u64 received, u64 now_ns) noexcept {
    const std::int32_t missing = under_way(admitted, received);
    if (missing <= 0 || admitted != seen_admitted_ || received != seen_received_) {
      seen_admitted_ = admitted;
      seen_received_ = received;
      seen_ns_ = now_ns;
      return 0;
    }
    if (now_ns - seen_ns_ < kSettleNs) return 0;
    lost_ += static_cast<u64>(missing);
    return static_cast<u64>(missing);
  }

  u64 lost() const noexcept { return lost_; }

 private:
  static constexpr u64 kSettleNs = 500'000'000;
  u32 base_, ring_, buffers_;
  u64 lost_ = 0, reported_ = 0;
  u32 seen_admitted_ = 0;
  u64 seen_received_ = 0, seen_ns_ = 0;
};

}  // namespace xdpgpu::dataplane
