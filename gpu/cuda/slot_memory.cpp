// SPDX-License-Identifier: MIT
#include "gpu/cuda/slot_memory.hpp"

#include "gpu/staging.hpp"

namespace xdpgpu::gpu::cuda {

Result<SlotMemory> SlotMemory::create(const Shared& shared, const QueueOptions& options, SlotRing& ring,
                                      const Stream& stream) {
  const u64 packets = u64{options.depth} * options.batch_capacity;
  SlotMemory memory;
  memory.capacity_ = options.batch_capacity;
  auto done = pin(memory.descriptors_, packets * sizeof(xg_descriptor))
                  .and_then([&] { return pin(memory.results_, packets * sizeof(xg_result)); })
                  .and_then([&] { return pin(memory.edits_, packets * sizeof(xg_edit)); })
                  .and_then([&] { return pin(memory.adjusts_, packets * sizeof(xg_adjust)); })
                  .and_then([&] { return pin(memory.alerts_, packets * sizeof(xg_alerts)); })
                  .and_then([&] { return pin(memory.patches_, packets * sizeof(xg_patch)); })
                  .and_then([&] { return pin(memory.events_, packets * sizeof(xg_event)); })
                  .and_then([&] { return ScratchMemory::create(options.batch_capacity, stream); })
                  .map([&](ScratchMemory&& made) { memory.scratch_ = std::move(made); });
  if (done && shared.frames == Frames::staged) {
    memory.staging_bytes_ = staging_bytes(options.batch_capacity);
    memory.unstaged_.resize(packets);
    done = pin(memory.staging_, options.depth * memory.staging_bytes_);
  }
  if (!done) return tl::unexpected(done.error());
  for (Slot& slot : ring.all()) {
    const u64 first = u64{slot.index} * slot.capacity;
    slot.descriptors =
        (memory.unstaged_.empty() ? reinterpret_cast<xg_descriptor*>(memory.descriptors_.host())
                                  : memory.unstaged_.data()) +
        first;
    slot.results = reinterpret_cast<xg_result*>(memory.results_.host()) + first;
    slot.edits = reinterpret_cast<xg_edit*>(memory.edits_.host()) + first;
    slot.adjusts = reinterpret_cast<xg_adjust*>(memory.adjusts_.host()) + first;
    slot.alerts = reinterpret_cast<xg_alerts*>(memory.alerts_.host()) + first;
    slot.patches = reinterpret_cast<xg_patch*>(memory.patches_.host()) + first;
    slot.events = reinterpret_cast<xg_event*>(memory.events_.host()) + first;
  }
  return memory;
}

void SlotMemory::stage(const Shared& shared, const Slot& slot, u32 count,
                       const Pipelines& pipelines) noexcept {
  if (staging_.host() == nullptr) return;
  stage_frames(shared.base, shared.bytes, slot.descriptors, count, pipelines,
               staging_.host() + slot.index * staging_bytes_,
               reinterpret_cast<xg_descriptor*>(descriptors_.host()) + u64{slot.index} * capacity_);
}

SlotsView SlotMemory::view(const Shared& shared, u32 receive_queue) const noexcept {
  SlotsView view;
  view.capacity = capacity_;
  if (shared.frames == Frames::in_place) {
    view.frames.v = reinterpret_cast<xg_word*>(shared.region.device());
    view.frames_bytes = shared.bytes;
  } else {
    view.frames.v = reinterpret_cast<xg_word*>(staging_.device());
    view.frames_bytes = view.frames_stride = staging_bytes_;
  }
  view.descriptors.v = reinterpret_cast<xg_descriptor*>(descriptors_.device());
  view.results.v = reinterpret_cast<xg_result*>(results_.device());
  view.edits.v = reinterpret_cast<xg_quad*>(edits_.device());
  view.adjusts.v = reinterpret_cast<xg_quad*>(adjusts_.device());
  view.alerts.v = reinterpret_cast<xg_quad*>(alerts_.device());
  view.patches.v = reinterpret_cast<xg_quad*>(patches_.device());
  view.events.v = reinterpret_cast<xg_quad*>(events_.device());
  view.flows = {shared.flows.device(), receive_queue};
  view.scratch = scratch_.view(shared);
  return view;
}

void SlotMemory::abandon() noexcept {
  for (Pinned* pinned :
       {&descriptors_, &results_, &edits_, &adjusts_, &alerts_, &patches_, &events_, &staging_})
    pinned->abandon();
  scratch_.abandon();
}

}  // namespace xdpgpu::gpu::cuda
