// SPDX-License-Identifier: MIT
//
// gpu/changing_queue.hpp: a queue of Drive::automatic: one set of slots, and two ways to the device. Which
// one is WayChooser's choice; it changes while none of the queue's batches is in the device's hands, so that
// the packets of a queue come to the tables in their order whichever way they go.
//
// Ways is the device's side. Of each way it counts the batches that it was given from 1; they finish in that
// order. The feeding thread calls find, start and through, the retiring one poll, either failed:
//
//   bool failed()                     the device is lost
//   const Loaded* find(generation)    nullptr: it is not loaded
//   bool has_tables(const Loaded&)
//   u64 start(Drive, const Slot&, u32 count, u32 generation, const Loaded&)
//                                     gives the slot to the device; its number there; 0: the device failed
//   bool through(Drive)               all that this way was given is over; helps it on where it has to be
//   Slot* poll(Drive, u64 number, SlotRing&)
//                                     the oldest slot, which went that way under that number: taken out of
//                                     the ring if it is over or the device failed, else nullptr
#pragma once

#include <atomic>
#include <vector>

#include "gpu/slots.hpp"
#include "gpu/thread.hpp"
#include "gpu/way_chooser.hpp"

namespace xdpgpu::gpu {

template <class Ways>
class ChangingQueue final : public Queue {
 public:
  // The slots get their memory from whoever makes the ways.
  template <class... Arguments>
  ChangingQueue(const QueueOptions& options, u32 most_alone, Arguments&&... arguments)
      : ring_(options),
        batches_(options.depth),
        chooser_(options.depth, most_alone),
        ways_(std::forward<Arguments>(arguments)...) {}

  SlotRing& ring() noexcept { return ring_; }
  Ways& ways() noexcept { return ways_; }

  Slot* acquire() noexcept override { return ring_.acquire(); }
  Submit submit(Slot* slot, u32 count, u32 generation) noexcept override {
    if (ways_.failed()) return Submit::device_failed;
    const auto* loaded = ways_.find(generation);
    if (loaded == nullptr) return Submit::unknown_generation;
    const u64 now_ns = monotonic_ns();
    change(chooser_.next(
        {ways_.has_tables(*loaded), count, ring_.in_flight(), now_ns, persistent_.read(), launched_.read()}));
    const Drive drive = now_.drive;
    const u64 number = ways_.start(drive, *slot, count, generation, *loaded);
    if (number == 0) return Submit::device_failed;
    batches_[slot->index] = {drive, number, now_ns};
    ring_.submitted(slot, count, generation);
    return Submit::ok;
  }
  Slot* poll() noexcept override {
    const Slot* oldest = ring_.oldest();
    if (oldest == nullptr) return nullptr;
    const Batch batch = batches_[oldest->index];
    Slot* slot = ways_.poll(batch.drive, batch.number, ring_);
    if (slot != nullptr)
      (batch.drive == Drive::persistent ? persistent_ : launched_).add(monotonic_ns() - batch.submitted_ns);
    return slot;
  }
  void release(Slot* slot) noexcept override { ring_.release(slot); }
  u32 in_flight() const noexcept override { return ring_.in_flight(); }
  Choice choice() const noexcept override { return said_.load(std::memory_order_relaxed); }

 private:
  // Far longer than a device takes for what it has. Where that is not over by then the way stays, and poll()
  // finds out what has become of the device.
  static constexpr u64 kPatienceNs = 20'000'000;

  struct Batch {
    Drive drive = Drive::persistent;
    u64 number = 0, submitted_ns = 0;
  };
  // Written by the retiring thread, read by the feeding one, which may see the time of one batch more.
  class Back {
   public:
    void add(u64 ns) noexcept {
      ns_.store(ns_.load(std::memory_order_relaxed) + ns, std::memory_order_relaxed);
      batches_.store(batches_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    }
    WayChooser::Answers read() const noexcept {
      const u64 batches = batches_.load(std::memory_order_acquire);
      return {batches, ns_.load(std::memory_order_relaxed)};
    }

   private:
    std::atomic<u64> batches_{0}, ns_{0};
  };

  void change(Choice wanted) noexcept {
    if (wanted == now_ || (wanted.drive != now_.drive && !settled())) return;
    now_ = wanted;
    said_.store(now_, std::memory_order_relaxed);
  }
  bool settled() noexcept {
    const u64 until = monotonic_ns() + kPatienceNs;
    while (!ways_.through(now_.drive)) {
      if (ways_.failed() || monotonic_ns() > until) return false;
      relax();
    }
    return true;
  }

  SlotRing ring_;
  std::vector<Batch> batches_;  // by slot
  Back persistent_, launched_;
  WayChooser chooser_;
  Choice now_{Drive::persistent, Reason::keeps_up};  // the feeding thread's
  std::atomic<Choice> said_{now_};
  Ways ways_;
};

}  // namespace xdpgpu::gpu
