// SPDX-License-Identifier: MIT
//
// gpu/cuda/slot_memory.hpp: the pinned memory behind a queue's slots, for kernels that stay or wait and find
// out which slot they have when they run: descriptors, results, edits and, staged, the frames, all of them
// read and written where they are.
#pragma once

#include <vector>

#include "gpu/cuda/queue.hpp"
#include "gpu/cuda/slots_view.hpp"

namespace xdpgpu::gpu::cuda {

class SlotMemory {
 public:
  SlotMemory() = default;
  // The ring's slots get their pointers into it.
  // Device memory is taken in the order of `stream`.
  static Result<SlotMemory> create(const Shared& shared, const QueueOptions& options, SlotRing& ring,
                                   const Stream& stream);

  // Makes the slot's first `count` packets ready for a kernel that judges them by `pipelines`. The feeding
  // thread.
  void stage(const Shared& shared, const Slot& slot, u32 count, const Pipelines& pipelines) noexcept;
  // As kernels see it, publishing where the device does.
  SlotsView view(const Shared& shared, u32 receive_queue) const noexcept;
  // The device may still use it: it is not given back.
  void abandon() noexcept;

 private:
  Pinned descriptors_, results_, edits_, adjusts_, alerts_, patches_,
      events_;  // per slot, one behind the other
  ScratchMemory scratch_;
  Pinned staging_;                       // staged only, per slot: the frames
  std::vector<xg_descriptor> unstaged_;  // staged only: what the worker writes
  u64 staging_bytes_ = 0;                // of one slot
  u32 capacity_ = 0;
};

}  // namespace xdpgpu::gpu::cuda
