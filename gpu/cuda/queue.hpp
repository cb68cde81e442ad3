// SPDX-License-Identifier: MIT
//
// gpu/cuda/queue.hpp: a worker's queue: a stream of its own, batches that end by storing their number in
// pinned memory.
#pragma once

#include <atomic>
#include <chrono>
#include <thread>

#include "gpu/cuda/flows.hpp"
#include "gpu/cuda/images.hpp"
#include "gpu/cuda/loaded.hpp"
#include "gpu/cuda/memory.hpp"
#include "gpu/cuda/pauses.hpp"
#include "gpu/cuda/scratch.hpp"
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
  Stream control;                                       // loads and unloads
  Registration region;                                  // in place only
  FlowWriter flows;                                     // where the device publishes
  DeviceMemory tables_turn;                             // Scratch::turn
  std::shared_ptr<const Kernels> kernels;               // of generations that bring no code, and the mirror's
  std::vector<std::shared_ptr<const Kernels>> brought;  // with pipelines
  mutable Pauses pauses;                                // for code to be loaded in
  Generations<Loaded> generations;                      // they go before `control`
  Images images;                         // where they stand, for kernels that look for themselves
  std::unique_ptr<MirrorMemory> mirror;  // from the first mirror on
  // Once lost, a device stays lost. One that did not finish in time may still use its memory: nothing of
  // it is given back.
  std::atomic<bool> failed{false};
  std::atomic<bool> abandoned{false};

  Shared();
  ~Shared();
};

// A queue's scratch memory.
class ScratchMemory {
 public:
  static Result<ScratchMemory> create(u32 packets, const Stream& stream);
  Scratch view(const Shared& shared) const noexcept;
  void abandon() noexcept { memory_.abandon(); }

 private:
  DeviceMemory memory_;
  u32 packets_ = 0;
};

// How far the batches of a queue's stream are: they finish in order, each by storing its number.
class Progress {
 public:
  // Both outlive it.
  Progress(Shared& shared, const Stream& stream) : shared_(shared), stream_(stream) {}

  // A number that the device stores in pinned memory, and all that it wrote before.
  static u64 load(const Pinned& from, u64 at) noexcept {
    return std::atomic_ref(*reinterpret_cast<u64*>(from.host() + at)).load(std::memory_order_acquire);
  }
  // Whether the device still works, by the driver's word.
  bool healthy() noexcept;
  // What Queue::poll() returns where batches up to `finished` have finished. A kernel that faults never
  // stores its number: now and then a poll in vain asks the driver.
  Slot* poll(SlotRing& ring, u64 finished) noexcept {
    return ring.oldest() == nullptr ? nullptr : retire_if(finished >= ring.oldest_ticket(), ring);
  }
  // The same of a ring that has an oldest batch, where it is known whether that is over.
  Slot* retire_if(bool over, SlotRing& ring) noexcept;
  // The last poll() was in vain, and asked.
  bool asked() const noexcept { return idle_polls_ % kPollsPerQuery == 0; }

  // The queue goes: waits while `condition` holds, and gives the device up where that takes too long. All
  // waits of a queue share one deadline, which begins with the first.
  template <class Condition>
  void drain_while(Condition&& condition) {
    if (deadline_ == Clock::time_point{}) deadline_ = Clock::now() + kDrainTimeout;
    while (!shared_.abandoned && condition()) {
      if (Clock::now() > deadline_) {
        shared_.failed = true;
        shared_.abandoned = true;
      }
      std::this_thread::yield();
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr u32 kPollsPerQuery = 4096;
  static constexpr std::chrono::seconds kDrainTimeout{5};

  Shared& shared_;
  const Stream& stream_;
  u32 idle_polls_ = 0;
  Clock::time_point deadline_{};
};

class CudaQueue final : public Queue, private Launches {
 public:
  static Result<std::unique_ptr<Queue>> create(Shared& shared, const QueueOptions& options);
  ~CudaQueue() override;

  Slot* acquire() noexcept override { return ring_.acquire(); }
  Submit submit(Slot* slot, u32 count, u32 generation) noexcept override;
  Slot* poll() noexcept override { return progress_.poll(ring_, finished()); }
  void release(Slot* slot) noexcept override { ring_.release(slot); }
  u32 in_flight() const noexcept override { return ring_.in_flight(); }

 private:
  CudaQueue(Shared& shared, const QueueOptions& options);
  Result<void> allocate(const QueueOptions& options);
  cudaError_t enqueue(const Slot& slot, u32 count, u32 generation, const Loaded& loaded, u64 ticket);
  u64 finished() const noexcept { return Progress::load(finished_, 0); }
  bool is_over() noexcept override;

  Shared& shared_;
  SlotRing ring_;
  std::atomic<bool> launching_{false};  // Pauses::begin_launch
  Stream stream_;
  Progress progress_{shared_, stream_};
  Pinned finished_;  // one u64, on a line of its own
  DeviceMemory blocks_;
  ScratchMemory scratch_;
  Pinned descriptors_;  // per slot, one behind the other
  Pinned results_, edits_, adjusts_, alerts_, patches_, events_;
  Pinned staging_;               // staged only, per slot: descriptors, then frames
  DeviceMemory device_staging_;  // the same on the device
  u64 staging_bytes_ = 0;        // of one slot
  u64 frames_bytes_ = 0;         // of these, for frames
  u32 receive_queue_ = 0;
};

}  // namespace xdpgpu::gpu::cuda
