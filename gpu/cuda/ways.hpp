// SPDX-License-Identifier: MIT
//
// gpu/cuda/ways.hpp: the two ways of a queue that changes between them (gpu/changing_queue.hpp): a resident
// kernel, and kernels that are launched on a stream of their own, both on the same slots and scratch memory.
#pragma once

#include "gpu/changing_queue.hpp"
#include "gpu/cuda/persistent.hpp"

namespace xdpgpu::gpu::cuda {

// Kernels read the frames where they are: also staged ones, which are copied to pinned memory and no further.
class CudaWays final : private Launches {
 public:
  CudaWays(Shared& shared, const QueueOptions& options)
      : shared_(shared), residence_(shared, options), receive_queue_(options.receive_queue) {}
  ~CudaWays() override;
  // Before the first batch; the ring's slots get their memory.
  Result<void> allocate(const QueueOptions& options, SlotRing& ring);

  bool failed() const noexcept { return shared_.failed.load(std::memory_order_relaxed); }
  const Loaded* find(u32 generation) const noexcept { return shared_.generations.find(generation); }
  static bool has_tables(const Loaded& loaded) noexcept { return loaded.has() != Tables::none; }
  u64 start(Drive drive, const Slot& slot, u32 count, u32 generation, const Loaded& loaded) noexcept;
  bool through(Drive drive) noexcept {
    return drive == Drive::persistent ? residence_.through() : finished() >= launched_;
  }
  Slot* poll(Drive drive, u64 number, SlotRing& ring) noexcept {
    return drive == Drive::persistent ? residence_.poll(ring, number)
                                      : progress_.retire_if(finished() >= number, ring);
  }

 private:
  u64 launch_batch(const Slot& slot, u32 count, u32 generation, const Loaded& loaded) noexcept;
  u64 finished() const noexcept { return Progress::load(finished_, 0); }
  bool is_over() noexcept override {
    return failed() || (!launching_.load() && cudaStreamQuery(stream_.get()) != cudaErrorNotReady);
  }

  Shared& shared_;
  Residence residence_;
  SlotMemory slots_;  // in the order of its stream
  Stream stream_;     // of what is launched
  Progress progress_{shared_, stream_};
  Pinned finished_;  // one u64, on a line of its own
  DeviceMemory blocks_;
  SlotsView view_;
  u32 receive_queue_;
  u64 launched_ = 0;                    // the feeding thread's
  std::atomic<bool> launching_{false};  // Pauses::begin_launch
};

Result<std::unique_ptr<Queue>> create_changing_queue(Shared& shared, const QueueOptions& options);

}  // namespace xdpgpu::gpu::cuda
