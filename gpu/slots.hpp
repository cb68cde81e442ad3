// SPDX-License-Identifier: MIT
//
// gpu/slots.hpp: the slots of a queue, as every device keeps them: which are free, which are held by the
// worker, and in what order the others were submitted. Single-threaded, allocates when it is made.
#pragma once

#include <cassert>
#include <vector>

#include "gpu/gpu.hpp"

namespace xdpgpu::gpu {

class SlotRing {
 public:
  explicit SlotRing(const QueueOptions& options) : slots_(options.depth), state_(options.depth, State::free) {
    flying_.resize(options.depth);
    for (u32 i = 0; i < options.depth; i++) {
      slots_[i].capacity = options.batch_capacity;
      slots_[i].index = i;
    }
  }

  std::vector<Slot>& all() noexcept { return slots_; }
  u32 in_flight() const noexcept { return count_; }

  // A free slot, now held; nullptr if there is none.
  Slot* acquire() noexcept {
    for (u32 i = 0; i < slots_.size(); i++)
      if (state_[i] == State::free) return hold(i);
    return nullptr;
  }

  // Takes a held slot into the order of submission.
  void submitted(Slot* slot, u32 count, u32 generation) noexcept {
    assert(state_[slot->index] == State::held);
    slot->count = count;
    slot->generation = generation;
    state_[slot->index] = State::flying;
    flying_[(first_ + count_++) % flying_.size()] = slot->index;
  }

  // The slot that was submitted first; nullptr if none is in flight.
  Slot* oldest() noexcept { return count_ == 0 ? nullptr : &slots_[flying_[first_]]; }

  // Takes the oldest slot out of the order; it is held from then on.
  Slot* retire(bool failed) noexcept {
    const u32 index = flying_[first_];
    first_ = (first_ + 1) % static_cast<u32>(flying_.size());
    count_--;
    Slot* slot = hold(index);
    slot->failed = failed;
    return slot;
  }

  void release(Slot* slot) noexcept {
    assert(state_[slot->index] == State::held);
    state_[slot->index] = State::free;
  }

 private:
  enum class State : u8 { free, held, flying };

  Slot* hold(u32 index) noexcept {
    state_[index] = State::held;
    slots_[index].failed = false;
    return &slots_[index];
  }

  std::vector<Slot> slots_;
  std::vector<State> state_;
  std::vector<u32> flying_;  // ring of slot indexes
  u32 first_ = 0;
  u32 count_ = 0;
};

// Checks what open_queue is asked for: batches of 1 to 65536 packets, 1 to 64 in flight, a drive that the
// device has.
Result<void> check_queue_options(const QueueOptions& options, const DeviceInfo& info);
// Checks what register_frames is asked for.
Result<void> check_region(const void* base, u64 bytes, bool registered);
// Checks what open_mirror is asked for: rings and shards of sizes that maps/ allows.
Result<void> check_mirror_options(const MirrorOptions& options);

}  // namespace xdpgpu::gpu
