// SPDX-License-Identifier: MIT
//
// userspace/dataplane/event_limit.hpp: how many events of one kind a second all workers together may tell: a
// token bucket, as one number (the generic cell rate algorithm, ITU-T I.371).
#pragma once

#include <atomic>
#include <memory>

#include "maps/types.h"

namespace xdpgpu::dataplane {

// Takes one of a bucket, of which `used` is the moment up to which the events so far have used the rate up.
// interval_ns: between two, 0: none may be taken. now_ns: CLOCK_MONOTONIC.
inline bool take_one(std::atomic<u64>& used_ns, u64 interval_ns, u64 now_ns) noexcept {
  constexpr u64 kSecond = 1'000'000'000;
  if (!interval_ns) return false;
  const u64 from = now_ns > kSecond ? now_ns - kSecond : 0;
  u64 used = used_ns.load(std::memory_order_relaxed);
  for (;;) {
    const u64 next = (used > from ? used : from) + interval_ns;
    if (next > now_ns) return false;
    if (used_ns.compare_exchange_weak(used, next, std::memory_order_relaxed)) return true;
  }
}

// So many a second, and as many at once. Any thread may take; none waits. One that may not take only reads,
// so that a flood over the limit has no cache line go from core to core.
class EventLimit {
 public:
  // per_second: 1 to a billion. Any thread; what was taken before counts on.
  void set(u32 per_second) noexcept { interval_ns_.store(kSecond / per_second, std::memory_order_relaxed); }
  // now_ns: CLOCK_MONOTONIC. False before set().
  bool take(u64 now_ns) noexcept {
    return take_one(used_ns_, interval_ns_.load(std::memory_order_relaxed), now_ns);
  }

 private:
  static constexpr u64 kSecond = 1'000'000'000;
  std::atomic<u64> interval_ns_{0};
  alignas(64) std::atomic<u64> used_ns_{0};
};

// As many limits as a stage has rules, of one rate: rules of different pipelines may share one.
class RuleLimits {
 public:
  static constexpr u32 kLimits = 1u << 16;
  // Allocates.
  RuleLimits() : used_ns_(std::make_unique<std::atomic<u64>[]>(kLimits)) {}
  void set(u32 per_second) noexcept { interval_ns_.store(kSecond / per_second, std::memory_order_relaxed); }
  bool take(u32 pipeline, u32 rule, u64 now_ns) noexcept {
    return take_one(used_ns_[(rule + pipeline * 40'503) % kLimits],
                    interval_ns_.load(std::memory_order_relaxed), now_ns);
  }

 private:
  static constexpr u64 kSecond = 1'000'000'000;
  std::atomic<u64> interval_ns_{0};
  const std::unique_ptr<std::atomic<u64>[]> used_ns_;
};

}  // namespace xdpgpu::dataplane
