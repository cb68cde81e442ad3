// SPDX-License-Identifier: MIT
//
// userspace/dataplane/unparsed_ring.hpp: packets that the device has refused, as the metadata in front of
// them are not their own, on their way back from the thread that retires to the one that feeds: it parses
// them, and has them judged again.
#pragma once

#include <array>
#include <atomic>

#include "maps/packet.h"

namespace xdpgpu::dataplane {

// A packet of one buffer, and the port that it came in on.
struct Unparsed {
  xg_descriptor packet{};
  u32 port = 0;
};

// One thread gives, one takes; they may be the same. Neither waits; no allocation.
class UnparsedRing {
 public:
  // Giving: false if there is no place.
  bool give(const Unparsed& packet) noexcept {
    const u64 given = given_.load(std::memory_order_relaxed);
    if (given - taken_.load(std::memory_order_acquire) == places_.size()) return false;
    places_[given % places_.size()] = packet;
    given_.store(given + 1, std::memory_order_release);
    return true;
  }
  // Taking: the oldest, or nullptr; it stays until it is taken.
  const Unparsed* oldest() const noexcept {
    const u64 taken = taken_.load(std::memory_order_relaxed);
    return taken == given_.load(std::memory_order_acquire) ? nullptr : &places_[taken % places_.size()];
  }
  void take() noexcept {
    taken_.store(taken_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  // Packets given, and taken, since the start. From any thread.
  u64 given() const noexcept { return given_.load(std::memory_order_acquire); }
  u64 taken() const noexcept { return taken_.load(std::memory_order_acquire); }

 private:
  std::array<Unparsed, 1024> places_{};
  alignas(64) std::atomic<u64> given_{0};
  alignas(64) std::atomic<u64> taken_{0};
};

}  // namespace xdpgpu::dataplane
