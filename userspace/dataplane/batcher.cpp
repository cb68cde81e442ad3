// SPDX-License-Identifier: MIT
#include "userspace/dataplane/batcher.hpp"

#include "userspace/dataplane/clock.hpp"

namespace xdpgpu::dataplane {

Batcher::Batcher(gpu::Queue& queue, u32 capacity, u32 depth, u64 max_wait_ns)
    : queue_(queue), max_wait_ns_(max_wait_ns), batches_(depth), order_(depth) {
  for (Batch& batch : batches_) {
    batch.ports.resize(capacity);
    batch.rx_times_ns.resize(capacity);
  }
}

Batch* Batcher::open_next(u32 generation, u64 now_ns) noexcept {
  if (current_) submit();
  gpu::Slot* slot = queue_.acquire();
  if (!slot) return nullptr;
  Batch& batch = batches_[slot->index];
  batch.slot = slot;
  batch.generation = generation;
  batch.count = 0;
  batch.opened_ns = now_ns;
  batch.outcome = Outcome::decided;
  batch.port_mask = 0;
  current_ = &batch;
  return current_;
}

void Batcher::submit() noexcept {
  Batch* batch = current_;
  current_ = nullptr;
  held_submitted_ += batch->count;
  batch->submitted_ns = monotonic_ns();
  order_[(oldest_ + submitted_++) % order_.size()] = batch;
  switch (queue_.submit(batch->slot, batch->count, batch->generation)) {
    case gpu::Submit::ok:
      return;
    case gpu::Submit::unknown_generation:
      batch->outcome = Outcome::unknown_generation;
      break;
    case gpu::Submit::device_failed:
      batch->outcome = Outcome::device_failed;
      break;
  }
}

void Batcher::submit_if_due(u64 now_ns, bool rings_empty) noexcept {
  if (!current_ || !current_->count) return;
  if (current_->full() || now_ns - current_->opened_ns >= max_wait_ns_ ||
      (rings_empty && queue_.in_flight() == 0))
    submit();
}

Batch* Batcher::poll() noexcept {
  if (!submitted_) return nullptr;
  Batch* batch = order_[oldest_];
  // One that the device refused waits for those that were submitted before it, and nobody for it.
  if (batch->outcome == Outcome::decided) {
    const gpu::Slot* slot = queue_.poll();
    if (!slot) return nullptr;
    if (slot->failed) batch->outcome = Outcome::device_failed;
  }
  oldest_ = (oldest_ + 1) % static_cast<u32>(order_.size());
  --submitted_;
  return batch;
}

void Batcher::release(Batch* batch) noexcept {
  held_submitted_ -= batch->count;
  queue_.release(batch->slot);
}

}  // namespace xdpgpu::dataplane
