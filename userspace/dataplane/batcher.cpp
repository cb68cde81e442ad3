// SPDX-License-Identifier: MIT
#include "userspace/dataplane/batcher.hpp"

#include <algorithm>

#include "userspace/dataplane/clock.hpp"

namespace xdpgpu::dataplane {

Batcher::Batcher(gpu::Queue& queue, u32 capacity, u32 depth, u64 max_wait_ns, Closing closing,
                 gpu::Doorbell* bell, u32 most)
    : queue_(queue),
      capacity_(capacity),
      most_(std::max(capacity, most)),
      max_wait_ns_(max_wait_ns),
      closing_(closing),
      bell_(bell),
      batches_(depth),
      order_(depth) {
  for (Batch& batch : batches_) {
    batch.ports.resize(most_);
    batch.arrivals.resize(most_);
    batch.assembled.resize(most_);
    batch.fragments.resize(most_);
  }
}

Batch* Batcher::open_next(u32 generation, u64 now_ns) noexcept {
  if (current_) submit();
  gpu::Slot* slot = queue_.acquire();
  if (!slot) return nullptr;
  Batch& batch = batches_[slot->index];
  batch.slot = slot;
  batch.limit = batches_.size() > 1 && queue_.in_flight() + 1 >= batches_.size() ? most_ : capacity_;
  batch.generation = generation;
  batch.count = batch.later = batch.spare = 0;
  batch.assembled_count = batch.fragments_count = 0;
  batch.opened_ns = now_ns;
  batch.outcome = Outcome::decided;
  batch.port_mask = batch.arrivals_count = 0;
  batch.tracked = batch.audit = batch.deferred = false;
  current_ = &batch;
  return current_;
}

void Batcher::submit() noexcept {
  Batch* batch = current_;
  current_ = nullptr;
  submitted_frames_ += batch->frames();
  batch->submitted_ns = monotonic_ns();
  switch (queue_.submit(batch->slot, batch->count, batch->generation)) {
    case gpu::Submit::ok:
      break;
    case gpu::Submit::unknown_generation:
      batch->outcome = Outcome::unknown_generation;
      break;
    case gpu::Submit::device_failed:
      batch->outcome = Outcome::device_failed;
      break;
  }
  const u64 submitted = submitted_.load(std::memory_order_relaxed);
  order_[submitted % order_.size()] = batch;
  submitted_.store(submitted + 1, std::memory_order_release);
  if (bell_) bell_->ring();
}

void Batcher::submit_if_due(u64 now_ns, bool rings_empty) noexcept {
  if (!current_ || !current_->count) return;
  const bool by_load = closing_ == Closing::by_load;
  const u64 wait_ns =
      by_load ? std::min(max_wait_ns_, device_ns_.load(std::memory_order_relaxed) / 2) : max_wait_ns_;
  if (current_->full() || now_ns - current_->opened_ns >= wait_ns ||
      ((by_load || rings_empty) && queue_.in_flight() == 0))
    submit();
}

Batch* Batcher::poll() noexcept {
  const u64 polled = polled_.load(std::memory_order_relaxed);
  if (submitted_.load(std::memory_order_acquire) == polled) return nullptr;
  Batch* batch = order_[polled % order_.size()];
  // One that the device refused waits for those that were submitted before it, and nobody for it.
  if (batch->outcome == Outcome::decided) {
    const gpu::Slot* slot = queue_.poll();
    if (!slot) return nullptr;
    if (slot->failed) batch->outcome = Outcome::device_failed;
  }
  polled_.store(polled + 1, std::memory_order_release);
  return batch;
}

void Batcher::release(Batch* batch) noexcept {
  released_frames_.store(released_frames_.load(std::memory_order_relaxed) + batch->frames(),
                         std::memory_order_release);
  queue_.release(batch->slot);
}

}  // namespace xdpgpu::dataplane
