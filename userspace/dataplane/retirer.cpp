// SPDX-License-Identifier: MIT
#include "userspace/dataplane/retirer.hpp"

#include <algorithm>
#include <utility>

#include "userspace/dataplane/clock.hpp"
#include "userspace/dataplane/metrics.hpp"

namespace xdpgpu::dataplane {
namespace {

// From skb_orphan to the socket's queue a packet runs through without pause, interrupts aside.
constexpr u64 kPassGraceNs = 50'000;
// A batch that the device has had for so long will not come back: longer than any driver's own time-out.
constexpr u64 kHungNs = 5'000'000'000;

}  // namespace

Retirer::Retirer(u8* region, const std::vector<PortQueue*>& queues, FreeList& free, FrameRing* ring,
                 UnparsedRing& unparsed, const FragmentLogs& logs, u32 own)
    : region_(region),
      free_(free),
      ring_(ring),
      unparsed_(unparsed),
      queues_(queues),
      order_(static_cast<u32>(queues.size()), free.span(), kPassGraceNs),
      router_(region, queues, free, unparsed, order_),
      fragments_(region, queues, logs, own) {
  for (const PortQueue* queue : queues_) metrics_.push_back(queue ? queue->metrics : nullptr);
}

void Retirer::use(Batcher& batcher, bool device_publishes) noexcept {
  batcher_ = &batcher;
  router_.leave_publishing_to_device(device_publishes);
}

Batch* Retirer::next(u64 now_ns, u64& done_ns) noexcept {
  Batch* batch = std::exchange(held_, nullptr);
  if (!batch) [[likely]] {
    batch = batcher_->poll();
    if (!batch) return nullptr;
    if (!done_ns) answered_ns_ = done_ns = monotonic_ns();
    count_batch(*batch, done_ns, metrics_);
    batcher_->took(done_ns - std::min(done_ns, batch->submitted_ns));
    if (events_ && events_->finisher().wanted()) [[unlikely]]
      events_->finisher().finish(*batch, region_);
  }
  if (batch->tracked && batch->outcome == Outcome::decided && !fragments_.settle(*batch, now_ns))
      [[unlikely]] {
    held_ = batch;
    return nullptr;
  }
  return batch;
}

bool Retirer::retire(u64 now_ns) noexcept {
  u64 done_ns = 0;
  bool any = false;
  while (Batch* batch = next(now_ns, done_ns)) {
    any = true;
    if (events_ && events_->wanted()) [[unlikely]]
      events_->tell(*batch, region_, now_ns);
    order_.begin();
    if (deferred_ && batch->deferred) [[unlikely]]
      frames_ -= deferred_->admit(order_, [this](FrameId frame) { return free_.place(frame); });
    const Routed routed = router_.route(*batch, now_ns);
    order_.end(batch->port_mask, batch->next_sequence, routed.passed);
    moving_ |= routed.moving;
    device_failed_ |= batch->outcome == Outcome::device_failed;
    ++batches_;
    packets_ += batch->packets();
    frames_ += batch->frames();
    batcher_->release(batch);
  }
  if (deferred_ && deferred_->any()) [[unlikely]]
    any = release(now_ns) || any;
  return any || done_ns != 0;
}

bool Retirer::release(u64 now_ns) noexcept {
  const auto place = [this](FrameId frame) { return free_.place(frame); };
  const Batch& batch = deferred_->release(order_, place);
  if (batch.count == 0) return false;
  if (events_ && events_->wanted()) [[unlikely]]
    events_->tell(batch, region_, now_ns);
  const Routed routed = router_.route(batch, now_ns);
  order_.end(0, batch.next_sequence, routed.passed);
  moving_ |= routed.moving;
  frames_ += deferred_->released(order_, place);
  return true;
}

void Retirer::abandon() noexcept {
  router_.abandon();
  if (deferred_) deferred_->abandon();
}

void Retirer::settle(u64 now_ns) noexcept {
  order_.advance(now_ns, [&](u32 port, u32 sequence) { queues_[port]->publish_retired(sequence); });
  if (batcher_->overdue(now_ns, kHungNs)) device_failed_ = true;
}

Load Retirer::load() noexcept {
  if (held_ || batcher_->waiting() || (deferred_ && deferred_->any())) return Load::waiting;
  if (order_.empty()) {
    moving_ = false;
    return router_.of_others() ? Load::sending : Load::idle;
  }
  return moving_ ? Load::moving : Load::sending;
}

Retired Retirer::state(u64 now_ns) const noexcept {
  Retired state;
  state.batches = batches_;
  state.packets = packets_;
  state.frames = frames_;
  state.unparsed = unparsed_.given();
  if (ring_) state.freed = ring_->given() + free_.size();
  state.sent = router_.frames_out();
  state.under_way = !order_.empty();
  state.failed = device_failed_;
  state.at_ns = now_ns;
  state.device_ns = batcher_ ? std::max(answered_ns_, batcher_->asked_ns(now_ns)) : 0;
  return state;
}

void Retirer::publish_levels() noexcept {
  u64 handed = router_.handed();  // at the worker's first port, as they are of all
  for (const PortQueue* queue : queues_) {
    if (!queue) continue;
    const Transmitter& transmitter = queue->socket->transmitter;
    xg_queue_metrics& metrics = *queue->metrics;
    metrics.send_ring_size = transmitter.tx.size;
    metrics.tx = transmitter.tx_level();
    metrics.completion = transmitter.completion_level();
    metrics.frames_batch = static_cast<u32>(queue->frames_in_batches());
    metrics.frames_tx = static_cast<u32>(transmitter.held() - router_.of_others(queue->port));
    metrics.frames_waiting = __atomic_load_n(&queue->waiting_frames, __ATOMIC_RELAXED);
    metrics.frames_handed = static_cast<u32>(std::exchange(handed, 0));
    metrics.tx_refused = transmitter.refused();
    if (queue->reinject) {
      metrics.reinject_refused = queue->reinject->transmitter.refused();
      metrics.reinject_tx = queue->reinject->transmitter.tx_level();
      metrics.reinject_completion = queue->reinject->transmitter.completion_level();
      metrics.frames_reinject = static_cast<u32>(queue->reinject->transmitter.held());
    }
  }
}

}  // namespace xdpgpu::dataplane
