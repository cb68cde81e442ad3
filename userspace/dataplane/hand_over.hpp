// SPDX-License-Identifier: MIT
//
// userspace/dataplane/hand_over.hpp: packets on their way from a worker that has no queue of the port they
// are to leave by, to the worker that sends out of it in its stead; and their frames' way back.
#pragma once

#include <atomic>
#include <bit>
#include <functional>
#include <vector>

#include "userspace/dataplane/buffers.hpp"
#include "userspace/dataplane/frame_region.hpp"

namespace xdpgpu::dataplane {

// From one worker to another one, for one port. The giving worker's thread that retires calls what stands
// under "giving", the other one's what stands under "taking". Neither waits, and nothing is allocated. Frames
// stay the giving worker's: what was taken of them comes back as it was sent.
class HandOver {
 public:
  // port: that the packets leave by, which takes packets of so many buffers. caches: whether the kernel may
  // send out of it by flow verdicts. of: the giving worker's frames. places: frames that may be under way; a
  // power of two. wake: ends the taking worker's sleep.
  HandOver(u32 port, u32 packet_buffers, bool caches, const FrameShare& of, u32 places,
           std::function<void()> wake)
      : port_(port),
        packet_buffers_(packet_buffers),
        caches_(caches),
        of_(of),
        given_(places),
        back_(places),
        wake_(std::move(wake)) {}

  u32 port() const noexcept { return port_; }
  u32 packet_buffers() const noexcept { return packet_buffers_; }
  bool caches() const noexcept { return caches_; }

  // ---- giving

  // False, and nothing is given, where there is no room. The other one sees it after flush().
  template <class Packet>
  bool push(const Packet& packet) noexcept {
    const auto count = static_cast<u32>(packet.size());
    if (held() + count > given_.size()) return false;
    for (u32 i = 0; i < count; ++i) {
      xg_descriptor& place = given_[(pushed_ + i) & (given_.size() - 1)];
      place = packet[i];
      place.flags = i + 1 < count ? kGoesOn : 0;
    }
    pushed_ += count;
    return true;
  }
  void flush() noexcept {
    if (head_.load(std::memory_order_relaxed) == pushed_) return;
    head_.store(pushed_, std::memory_order_release);
    wake_();
  }
  // Calls over(frame, lost) for each frame that has come back; lost: its packet was not sent.
  template <class Over>
  u32 collect(Over&& over) noexcept {
    const u64 end = back_head_.load(std::memory_order_acquire);
    const auto count = static_cast<u32>(end - collected_);
    for (; collected_ != end; ++collected_) {
      const Back& back = back_[collected_ & (back_.size() - 1)];
      over(back.frame, back.lost);
    }
    return count;
  }
  u64 held() const noexcept { return pushed_ - collected_; }  // frames

  // ---- taking

  bool waits() const noexcept { return taken_ != head_.load(std::memory_order_acquire); }
  // Calls take(packet) for each packet that waits, while that takes them.
  template <class Take>
  u32 take(Take&& take) noexcept {
    const u64 end = head_.load(std::memory_order_acquire);
    u32 frames = 0;
    while (taken_ != end) {
      // A packet may go round the ring's end.
      u32 count = 0;
      do packet_[count] = given_[(taken_ + count) & (given_.size() - 1)];
      while (packet_[count++].flags & kGoesOn);
      if (!take(Buffers(packet_, count))) break;
      taken_ += count;
      frames += count;
    }
    return frames;
  }
  bool owns(FrameId frame) const noexcept { return frame - of_.first < of_.chunks(); }
  // Of a frame that was taken.
  void give_back(FrameId frame, bool lost) noexcept {
    const u64 at = back_head_.load(std::memory_order_relaxed);
    back_[at & (back_.size() - 1)] = {frame, lost};
    back_head_.store(at + 1, std::memory_order_release);
  }

 private:
  static constexpr u32 kGoesOn = 1;
  struct Back {
    FrameId frame = 0;
    bool lost = false;
  };
  u32 port_, packet_buffers_;
  bool caches_;
  FrameShare of_;
  std::vector<xg_descriptor> given_;
  std::vector<Back> back_;  // a place for each frame that can be under way
  std::function<void()> wake_;
  u64 pushed_ = 0, collected_ = 0;
  alignas(64) std::atomic<u64> head_{0};
  alignas(64) std::atomic<u64> back_head_{0};
  alignas(64) u64 taken_ = 0;
  xg_descriptor packet_[XG_PACKET_BUFFERS] = {};
};

}  // namespace xdpgpu::dataplane
