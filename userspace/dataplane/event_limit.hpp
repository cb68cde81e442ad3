// SPDX-License-Identifier: MIT
//
// userspace/dataplane/event_limit.hpp: how many events of one kind a second all workers together may tell: a
// token bucket, as one number (the generic cell rate algorithm, ITU-T I.371).
#pragma once

#include <atomic>

#include "maps/types.h"

namespace xdpgpu::dataplane {

// So many a second, and as many at once. Any thread may take; none waits. One that may not take only reads,
// so that a flood over the limit has no cache line go from core to core.
class EventLimit {
 public:
  // per_second: 1 to a billion. Any thread; what was taken before counts on.
  void set(u32 per_second) noexcept { interval_ns_.store(kSecond / per_second, std::memory_order_relaxed); }
  // now_ns: CLOCK_MONOTONIC. False before set().
  bool take(u64 now_ns) noexcept {
    const u64 interval = interval_ns_.load(std::memory_order_relaxed);
    if (!interval) return false;
    const u64 from = now_ns > kSecond ? now_ns - kSecond : 0;
    u64 used = used_ns_.load(std::memory_order_relaxed);
    for (;;) {
      const u64 next = (used > from ? used : from) + interval;
      if (next > now_ns) return false;
      if (used_ns_.compare_exchange_weak(used, next, std::memory_order_relaxed)) return true;
    }
  }

 private:
  static constexpr u64 kSecond = 1'000'000'000;
  std::atomic<u64> interval_ns_{0};
  alignas(64) std::atomic<u64> used_ns_{0};  // the moment up to which the events so far have used the rate up
};

}  // namespace xdpgpu::dataplane
