// SPDX-License-Identifier: MIT
#include "userspace/dataplane/batcher.hpp"

namespace xdpgpu::dataplane {

Batcher::Batcher(gpu::Queue& queue, u32 capacity, u32 depth, u64 max_wait_ns)
    : queue_(queue), max_wait_ns_(max_wait_ns), batches_(depth) {
  for (Batch& batch : batches_) batch.ports.resize(capacity);
  refused_.reserve(depth);
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
  refused_.push_back(batch);
}

void Batcher::submit_if_due(u64 now_ns, bool rings_empty) noexcept {
  if (!current_ || !current_->count) return;
  if (current_->full() || now_ns - current_->opened_ns >= max_wait_ns_ ||
      (rings_empty && queue_.in_flight() == 0))
    submit();
}

Batch* Batcher::poll() noexcept {
  if (gpu::Slot* slot = queue_.poll()) {
    Batch& batch = batches_[slot->index];
    if (slot->failed) batch.outcome = Outcome::device_failed;
    return &batch;
  }
  // Refused batches come after everything that was submitted before them.
  if (refused_.empty() || queue_.in_flight() != 0) return nullptr;
  Batch* batch = refused_.front();
  refused_.erase(refused_.begin());
  return batch;
}

void Batcher::release(Batch* batch) noexcept {
  held_submitted_ -= batch->count;
  queue_.release(batch->slot);
}

}  // namespace xdpgpu::dataplane
