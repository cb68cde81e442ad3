// SPDX-License-Identifier: MIT
//
// gpu/cuda/persistent.hpp: a worker's queue to a resident kernel (gpu/cuda/resident.hpp): a batch is handed
// over by storing 32 bytes in pinned memory, without a call of the driver.
//
// The kernel is started by the first batch. It ends by itself when it has had nothing to do for kLease, or
// when the process is gone, and is started again by the next batch.
#pragma once

#include "gpu/cuda/resident.hpp"
#include "gpu/cuda/slot_memory.hpp"

namespace xdpgpu::gpu::cuda {

class PersistentQueue final : public Queue {
 public:
  static Result<std::unique_ptr<Queue>> create(Shared& shared, const QueueOptions& options);
  ~PersistentQueue() override;

  Slot* acquire() noexcept override { return ring_.acquire(); }
  Submit submit(Slot* slot, u32 count, u32 generation) noexcept override;
  Slot* poll() noexcept override;
  void release(Slot* slot) noexcept override { ring_.release(slot); }
  u32 in_flight() const noexcept override { return ring_.in_flight(); }

 private:
  PersistentQueue(Shared& shared, const QueueOptions& options);
  Result<void> allocate(const QueueOptions& options);
  bool keep_resident() noexcept;
  bool start() noexcept;
  bool ended() const noexcept;
  // Lines of the mailbox.
  static constexpr u64 kLine = 128;
  static constexpr u64 kBeatAt = 0, kEndedAt = kLine, kFinishedAt = 2 * kLine, kJobsAt = 3 * kLine;
  u64 finished() const noexcept { return Progress::load(mailbox_, kFinishedAt); }
  void beat() noexcept;
  void put_job(const Slot& slot, const DeviceMemory& image, u32 count, u32 generation) noexcept;

  Shared& shared_;
  SlotRing ring_;
  Stream stream_;
  DeviceMemory command_;
  Pinned mailbox_;  // a line each: beat, ended, finished; then the jobs
  SlotMemory slots_;
  Progress progress_{shared_, stream_};
  u32 depth_;
  u32 receive_queue_;
  u32 blocks_;
  std::atomic<u32> launch_{0};         // kernels started
  std::atomic<bool> running_{false};   // as far as is known here
  std::atomic<bool> starting_{false};  // by one of the two threads
};

}  // namespace xdpgpu::gpu::cuda
