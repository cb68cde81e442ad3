// SPDX-License-Identifier: MIT
//
// gpu/cuda/persistent.hpp: a worker's queue to a resident kernel (gpu/cuda/resident.hpp): a batch is handed
// over by storing 32 bytes in pinned memory, without a call of the driver.
//
// The kernel is started by the first batch. It ends by itself when it has had nothing to do for kLease, when
// the process is gone, or in front of a batch that other kernels are to decide, and one is started again for
// the next batch.
#pragma once

#include "gpu/cuda/resident.hpp"
#include "gpu/cuda/slot_memory.hpp"

namespace xdpgpu::gpu::cuda {

// A queue's resident kernel, and the way there. Its batches are numbered from 1, and finish in that order.
// The thread that feeds hands over, the one that retires polls; either keeps the kernel.
class Residence final : public Stays {
 public:
  Residence(Shared& shared, const QueueOptions& options);
  ~Residence() override { shared_.pauses.remove(*this); }

  // Before the first batch: first its own memory, then the slots'.
  Result<void> allocate();
  void use(const SlotsView& slots) noexcept { view_ = slots; }
  const Stream& stream() const noexcept { return stream_; }

  // The next batch, from a slot that is ready for a kernel; its number. The kernel is there, or the device
  // has failed. In a pause it waits for its end.
  u64 hand_over(const Slot& slot, const Loaded& loaded, u32 count, u32 generation) noexcept;
  // Whether all that was handed over is over; where the kernel has gone before it took the last batch, it is
  // back. The feeding thread.
  bool through() noexcept {
    if (finished() >= handed_.load(std::memory_order_relaxed)) return true;
    if (ended()) (void)keep();
    return false;
  }
  // Whether batch `number`, the ring's oldest, is over: then it is taken out of the ring.
  Slot* poll(SlotRing& ring, u64 number) noexcept;

  // Waits for what was handed over, and ends the kernel. Neither thread uses it any more.
  void end() noexcept;

  bool send_away() noexcept override;

 private:
  // Starts the kernel where there is none and something is left for it. False: the device failed.
  bool keep() noexcept;
  bool start() noexcept;
  bool ended() const noexcept;
  void stop() noexcept;
  // Lines of the mailbox.
  static constexpr u64 kLine = 128;
  static constexpr u64 kBeatAt = 0, kEndedAt = kLine, kFinishedAt = 2 * kLine, kJobsAt = 3 * kLine;
  u64 finished() const noexcept { return Progress::load(mailbox_, kFinishedAt); }
  void beat() noexcept;

  Shared& shared_;
  Stream stream_;
  DeviceMemory command_;
  Pinned mailbox_;  // a line each: beat, ended, finished; then the jobs
  SlotsView view_;
  Progress progress_{shared_, stream_};
  u32 depth_;
  u32 blocks_;
  // By ticket % depth: the kernels that are to decide it. Its generation keeps them.
  std::vector<std::atomic<const Kernels*>> deciders_;
  std::atomic<u64> handed_{0};             // batches handed over
  std::atomic<bool> handing_over_{false};  // Pauses::begin
  std::atomic<u32> launch_{0};             // kernels started
  std::atomic<bool> running_{false};       // as far as is known here
  std::atomic<bool> starting_{false};      // by one of the two threads
};

class PersistentQueue final : public Queue {
 public:
  static Result<std::unique_ptr<Queue>> create(Shared& shared, const QueueOptions& options);
  ~PersistentQueue() override;

  Slot* acquire() noexcept override { return ring_.acquire(); }
  Submit submit(Slot* slot, u32 count, u32 generation) noexcept override;
  Slot* poll() noexcept override {
    return ring_.oldest() == nullptr ? nullptr : residence_.poll(ring_, ring_.oldest_ticket());
  }
  void release(Slot* slot) noexcept override { ring_.release(slot); }
  u32 in_flight() const noexcept override { return ring_.in_flight(); }

 private:
  PersistentQueue(Shared& shared, const QueueOptions& options);
  Result<void> allocate(const QueueOptions& options);

  Shared& shared_;
  SlotRing ring_;
  Residence residence_;
  SlotMemory slots_;  // in the order of its stream
  u32 receive_queue_;
};

}  // namespace xdpgpu::gpu::cuda
