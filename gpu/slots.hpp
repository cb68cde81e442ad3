// SPDX-License-Identifier: MIT
//
// gpu/slots.hpp: the slots of a queue, as every device keeps them: which are free, which are held by the
// worker, and in what order the others were submitted. Allocates when it is made.
//
// One thread feeds (acquire, submitted), one retires (oldest, retire, release); they may be the same. What
// the one wrote before submitted() the other sees after oldest(), and back by release() and acquire().
#pragma once

#include <atomic>
#include <cassert>
#include <memory>
#include <vector>

#include "gpu/gpu.hpp"

namespace xdpgpu::gpu {

class SlotRing {
 public:
  explicit SlotRing(const QueueOptions& options)
      : slots_(options.depth),
        state_(std::make_unique<std::atomic<State>[]>(options.depth)),
        flying_(options.depth) {
    for (u32 i = 0; i < options.depth; i++) {
      state_[i] = State::free;
      slots_[i].capacity = options.batch_capacity;
      slots_[i].index = i;
    }
  }

  std::vector<Slot>& all() noexcept { return slots_; }
  // From either thread; the other one may be about to change it.
  u32 in_flight() const noexcept {
    // In this order: what is retired was submitted before.
    const u64 retired = retired_.load(std::memory_order_acquire);
    return static_cast<u32>(submitted_.load(std::memory_order_acquire) - retired);
  }

  // From the feeding thread: whether nothing is held or in flight.
  bool idle() const noexcept {
    for (u32 i = 0; i < slots_.size(); i++)
      if (state_[i].load(std::memory_order_acquire) != State::free) return false;
    return true;
  }

  // A free slot, now held; nullptr if there is none. The first one, so that few are in the caches where few
  // are in flight.
  Slot* acquire() noexcept {
    for (u32 i = 0; i < slots_.size(); i++)
      if (state_[i].load(std::memory_order_acquire) == State::free) return hold(i);
    return nullptr;
  }

  // Takes a held slot into the order of submission.
  void submitted(Slot* slot, u32 count, u32 generation) noexcept {
    assert(state_[slot->index] == State::held);
    slot->count = count;
    slot->generation = generation;
    state_[slot->index].store(State::flying, std::memory_order_relaxed);
    const u64 ticket = submitted_.load(std::memory_order_relaxed);
    flying_[ticket % flying_.size()] = slot->index;
    submitted_.store(ticket + 1, std::memory_order_release);
  }
  // Batches submitted so far: the number of the last one, which are counted from 1.
  u64 submitted() const noexcept { return submitted_.load(std::memory_order_acquire); }

  // The slot of a batch in flight by its number, which submitted() has reached. From any thread.
  const Slot& at(u64 ticket) const noexcept { return slots_[flying_[(ticket - 1) % flying_.size()]]; }

  // The slot that was submitted first; nullptr if none is in flight.
  Slot* oldest() noexcept {
    const u64 retired = retired_.load(std::memory_order_relaxed);
    return submitted() == retired ? nullptr : &slots_[flying_[retired % flying_.size()]];
  }
  // Its number.
  u64 oldest_ticket() const noexcept { return retired_.load(std::memory_order_relaxed) + 1; }

  // Takes the oldest slot out of the order; it is held from then on.
  Slot* retire(bool failed) noexcept {
    const u64 retired = retired_.load(std::memory_order_relaxed);
    Slot* slot = hold(flying_[retired % flying_.size()]);
    slot->failed = failed;
    retired_.store(retired + 1, std::memory_order_release);
    return slot;
  }

  void release(Slot* slot) noexcept {
    assert(state_[slot->index] == State::held);
    state_[slot->index].store(State::free, std::memory_order_release);
  }

 private:
  enum class State : u8 { free, held, flying };

  Slot* hold(u32 index) noexcept {
    state_[index].store(State::held, std::memory_order_relaxed);
    slots_[index].failed = false;
    return &slots_[index];
  }

  std::vector<Slot> slots_;
  std::unique_ptr<std::atomic<State>[]> state_;
  std::vector<u32> flying_;  // ring of slot indexes
  // Each on the line of the thread that writes it.
  alignas(64) std::atomic<u64> submitted_{0};
  alignas(64) std::atomic<u64> retired_{0};
};

// Checks what open_queue is asked for: batches of 1 to 65536 packets, 1 to 64 in flight, a drive that the
// device has.
Result<void> check_queue_options(const QueueOptions& options, const DeviceInfo& info);
// Checks what register_frames is asked for.
Result<void> check_region(const void* base, u64 bytes, bool registered);
// Checks what open_mirror is asked for: rings and shards of sizes that maps/ allows.
Result<void> check_mirror_options(const MirrorOptions& options);

}  // namespace xdpgpu::gpu
