// SPDX-License-Identifier: MIT
//
// bench/worker/rings.hpp: AF_XDP rings in ordinary memory, and the kernel's side of them, played: packets
// come in on the RX ring in the frames that the worker has put on the fill ring, and what is on the TX ring
// is sent at once. One thread is the kernel's, another one, or the same, the worker's.
#pragma once

#include <array>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "maps/control.h"
#include "userspace/dataplane/socket.hpp"

namespace xdpgpu::bench {

// One ring as the kernel lays it out: producer and consumer on lines of their own.
template <class Entry>
class MemoryRing {
 public:
  explicit MemoryRing(u32 size) : size_(size), entries_(size) {}

  // The worker's view of it.
  template <class Ring>
  void map(Ring& ring, bool producing) {
    ring = {};
    ring.size = size_;
    ring.mask = size_ - 1;
    ring.producer = &producer_.word;
    ring.consumer = &consumer_.word;
    ring.ring = entries_.data();
    ring.flags = &flags_.word;
    ring.cached_cons = producing ? size_ : 0;
  }

  // The kernel's, of a ring that the worker produces.
  u32 waiting() const noexcept { return __atomic_load_n(&producer_.word, __ATOMIC_ACQUIRE) - consumer_.word; }
  const Entry& next(u32 i) const noexcept { return entries_[(consumer_.word + i) & (size_ - 1)]; }
  void consume(u32 count) noexcept {
    __atomic_store_n(&consumer_.word, consumer_.word + count, __ATOMIC_RELEASE);
  }
  // Of a ring that the worker consumes.
  u32 room() const noexcept {
    return size_ - (producer_.word - __atomic_load_n(&consumer_.word, __ATOMIC_ACQUIRE));
  }
  Entry& place(u32 i) noexcept { return entries_[(producer_.word + i) & (size_ - 1)]; }
  void produce(u32 count) noexcept {
    __atomic_store_n(&producer_.word, producer_.word + count, __ATOMIC_RELEASE);
  }

 private:
  struct alignas(64) Word {
    u32 word = 0;
  };
  u32 size_;
  Word producer_, consumer_, flags_;
  std::vector<Entry> entries_;
};

// Every frame's, at first: the port's own, to which it is sent, and who sent it.
inline constexpr std::array<u8, 6> kNearMac{2, 0, 0, 0, 0, 1}, kFarMac{2, 0, 0, 0, 0, 2};
inline constexpr u32 kPassingNets = 64;

// What a port's packets are: of UDP, from 10.0.0.0/8.
struct Traffic {
  u32 length = 64;  // bytes of each frame
  u32 flows = 8192;
  u32 passing = 0;  // of so many flows one comes from 192.168.0.0/24 to 192.168.63.0/24 instead; 0: none
  u32 generation = 1;
  bool cold = false;  // frames are taken out of the caches before the worker sees them

  // Of the frame in the port's chunk i.
  bool passes(u32 i) const noexcept { return passing != 0 && i % flows % passing == 0; }
};

// One queue of a port.
class MemoryPort {
 public:
  // tx_size: of the rings by which it sends.
  MemoryPort(u32 ring_size, u32 tx_size, u32 index, u8* region, xg_queue_state& state);

  // A socket whose rings these are; they outlive it.
  std::unique_ptr<dataplane::Socket> open();

  // Makes `chunks` frames from `first` on what `traffic` says. Once, before the first packet.
  void lay(u32 first, u32 chunks, const Traffic& traffic);
  // Up to `most` packets come in, as many as there are frames and credits for; how many.
  u32 receive(u32 most, u64 now_ns) noexcept;
  // Sends what is on the TX ring. shuffled: its frames are given back in no order; the worker's list of free
  // frames is in none afterwards, either.
  void send(bool shuffled = false) noexcept;
  u64 received() const noexcept { return received_; }
  u64 sent() const noexcept { return sent_; }
  // From now on it is kept of `chunks` frames from `first` on how often each came in, and was sent.
  void count(u32 first, u32 chunks);
  u32 came(u32 chunk) const noexcept { return came_[chunk]; }
  u32 went(u32 chunk) const noexcept { return went_[chunk]; }

 private:
  u32 index_;
  u8* region_;
  xg_queue_state& state_;
  Traffic traffic_;
  MemoryRing<u64> fill_, completion_;
  MemoryRing<xdp_desc> rx_, tx_;
  u32 first_ = 0;
  std::vector<xg_metadata> metadata_;  // by chunk: what the XDP program writes in front of each frame
  std::vector<u32> came_, went_;       // by chunk, where they are counted
  std::vector<u64> sending_;
  std::minstd_rand random_;
  u32 sequence_ = 0;
  u64 received_ = 0, sent_ = 0;
};

// Takes what is there out of all caches.
void flush_from_caches(const void* at, std::size_t bytes) noexcept;

}  // namespace xdpgpu::bench
