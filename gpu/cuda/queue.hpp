// SPDX-License-Identifier: MIT
//
// gpu/cuda/queue.hpp: a worker's queue: a stream of its own, batches that end by storing their number in
// pinned memory.
#pragma once

#include <atomic>

#include "gpu/cuda/flows.hpp"
#include "gpu/cuda/images.hpp"
#include "gpu/cuda/memory.hpp"
#include "gpu/generations.hpp"
#include "gpu/slots.hpp"

namespace xdpgpu::gpu::cuda {

class MirrorMemory;

// What the queues of a device share; the device outlives them.
struct Shared {
  int ordinal = 0;
  void* base = nullptr;
  u64 bytes = 0;
  Frames frames = Frames::automatic;
  Stream control;                         // loads and unloads
  Registration region;                    // in place only
  FlowWriter flows;                       // where the device publishes
  Generations<DeviceMemory> generations;  // the images; they go before `control`
  Images images;                          // where they stand, for kernels that look for themselves
  std::unique_ptr<MirrorMemory> mirror;   // from the first mirror on
  // Once lost, a device stays lost. One that did not finish in time may still use its memory: nothing of
  // it is given back.
  std::atomic<bool> failed{false};
  std::atomic<bool> abandoned{false};

  Shared();
  ~Shared();
};

class CudaQueue final : public Queue {
 public:
  static Result<std::unique_ptr<Queue>> create(Shared& shared, const QueueOptions& options);
  ~CudaQueue() override;

  Slot* acquire() noexcept override { return ring_.acquire(); }
  Submit submit(Slot* slot, u32 count, u32 generation) noexcept override;
  Slot* poll() noexcept override;
  void release(Slot* slot) noexcept override { ring_.release(slot); }
  u32 in_flight() const noexcept override { return ring_.in_flight(); }

 private:
  CudaQueue(Shared& shared, const QueueOptions& options);
  Result<void> allocate(const QueueOptions& options);
  cudaError_t enqueue(const Slot& slot, u32 count, u32 generation, const DeviceMemory& image, u64 ticket);
  u64 finished() const noexcept;
  bool healthy() noexcept;

  Shared& shared_;
  SlotRing ring_;
  Stream stream_;
  Pinned finished_;  // one u64, on a line of its own
  DeviceMemory blocks_;
  Pinned descriptors_;  // per slot, one behind the other
  Pinned results_;
  Pinned staging_;               // staged only, per slot: descriptors, then frames
  DeviceMemory device_staging_;  // the same on the device
  u64 staging_bytes_ = 0;        // of one slot
  u64 frames_bytes_ = 0;         // of these, for frames
  u32 receive_queue_ = 0;
  u32 idle_polls_ = 0;
};

}  // namespace xdpgpu::gpu::cuda
