// SPDX-License-Identifier: MIT
//
// userspace/dataplane/frame_ring.hpp: free frames on their way back from the thread that retires to the one
// that feeds. It has a place for every frame of its worker, each of which has one owner: it cannot overflow.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <vector>

#include "userspace/dataplane/frame_region.hpp"

namespace xdpgpu::dataplane {

// One thread gives, one takes. Neither waits; no allocation after construction.
class FrameRing {
 public:
  // frames: that there are at most.
  explicit FrameRing(u32 frames) : places_(std::bit_ceil(frames)) {}

  // Giving: all of `from` but for `keep` of them.
  void give(FreeList& from, u32 keep = 0) noexcept {
    const u64 given = given_.load(std::memory_order_relaxed);
    const u32 count = from.size() - std::min(from.size(), keep);
    for (u32 i = 0; i < count; ++i) places_[(given + i) & (places_.size() - 1)] = from.pop();
    kept_.store(from.size(), std::memory_order_relaxed);
    given_.store(given + count, std::memory_order_release);
  }
  // Taking: all that was given, into `to`; returns how many.
  u32 take(FreeList& to) noexcept {
    const u64 taken = taken_.load(std::memory_order_relaxed);
    const u64 given = given_.load(std::memory_order_acquire);
    for (u64 i = taken; i != given; ++i) to.push(places_[i & (places_.size() - 1)]);
    if (given != taken) taken_.store(given, std::memory_order_release);
    return static_cast<u32>(given - taken);
  }

  // Frames given, and taken, since the start. From any thread.
  u64 given() const noexcept { return given_.load(std::memory_order_acquire); }
  u64 taken() const noexcept { return taken_.load(std::memory_order_acquire); }
  // And kept, when frames were given last.
  u32 kept() const noexcept { return kept_.load(std::memory_order_relaxed); }

 private:
  std::vector<FrameId> places_;
  alignas(64) std::atomic<u64> given_{0};
  std::atomic<u32> kept_{0};
  alignas(64) std::atomic<u64> taken_{0};
};

}  // namespace xdpgpu::dataplane
