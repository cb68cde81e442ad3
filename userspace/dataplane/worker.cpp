// SPDX-License-Identifier: MIT
#include "userspace/dataplane/worker.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <cassert>
#include <cstring>

#include "userspace/dataplane/clock.hpp"
#include "userspace/dataplane/metrics.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kReceiveBurst = 64;
constexpr u32 kRefillStep = 64;
constexpr u64 kStatisticsEveryNs = 10'000'000;
// What is published is read by the XDP program on another core, once a packet: stored every turn it
// would cost each packet some cache misses.
constexpr u64 kPublishEveryNs = 20'000;
constexpr u64 kBeatEveryNs = 1'000'000;
// Half of what is looked at was last written by the kernel's core.
constexpr u64 kLevelsEveryNs = 1'000'000;
// From skb_orphan to the socket's queue a packet runs through without pause, interrupts aside.
constexpr u64 kPassGraceNs = 50'000;
constexpr u64 kCheckEveryTurns = 4096;
// A batch that the device has had for so long will not come back: longer than any driver's own time-out.
constexpr u64 kHungNs = 5'000'000'000;

std::vector<PortQueue*> plain(const std::vector<std::unique_ptr<PortQueue>>& queues) {
  std::vector<PortQueue*> out;
  out.reserve(queues.size());
  for (const auto& queue : queues) out.push_back(queue.get());
  return out;
}

std::vector<int> receive_fds(const std::vector<std::unique_ptr<PortQueue>>& queues) {
  std::vector<int> out;
  for (const auto& queue : queues)
    if (queue) out.push_back(queue->socket->fd());
  return out;
}

int longest_sleep_ms(u64 beat_timeout_ns) {
  return std::max(1, std::min(20, static_cast<int>(beat_timeout_ns / 4'000'000)));
}

}  // namespace

Worker::Worker(const WorkerOptions& options, u8* region, std::vector<std::unique_ptr<PortQueue>> queues,
               FrameId first_frame, u32 frames, const std::atomic<const CurrentPolicy*>& policy)
    : options_(options),
      region_(region),
      queues_(std::move(queues)),
      free_(first_frame, frames),
      policy_(policy),
      order_(static_cast<u32>(queues_.size()), frames, kPassGraceNs),
      router_(region, plain(queues_), free_, order_),
      idle_(receive_fds(queues_), longest_sleep_ms(options.beat_timeout_ns)) {
  for (const auto& queue : queues_) {
    if (queue) active_.push_back(queue.get());
    metrics_.push_back(queue ? queue->metrics : nullptr);
  }
  report_.publish({.frames = count()});
}

Worker::~Worker() { stop(); }

void Worker::use(std::unique_ptr<gpu::Queue> queue, bool publishes) {
  router_.leave_publishing_to_device(publishes);
  batcher_.reset();
  device_queue_ = std::move(queue);
  batcher_.emplace(*device_queue_, options_.batch, options_.batches_in_flight, options_.max_wait_ns);
}

Result<void> Worker::start() {
  if (!batcher_) return tl::unexpected(std::string("the worker has no device; call use_device first"));
  const u64 now_ns = monotonic_ns();
  for (PortQueue* queue : active_) refill(*queue);
  publish(now_ns);
  stopping_.store(false);
  // Signals are for the process's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { run(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (options_.cpu >= 0) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(static_cast<std::size_t>(options_.cpu), &cpus);
    if (pthread_setaffinity_np(thread_.native_handle(), sizeof(cpus), &cpus) != 0) options_.cpu = -1;
  }
  pthread_setname_np(thread_.native_handle(), fmt::format("xdpgpu-{}", options_.index).c_str());
  return {};
}

void Worker::stop() {
  if (!thread_.joinable()) return;
  stopping_.store(true);
  idle_.wake();
  thread_.join();
  publish_levels(monotonic_ns());
  for (PortQueue* queue : active_) queue->publish_beat(0);
}

void Worker::run() noexcept {
  while (!stopping_.load(std::memory_order_relaxed)) {
    const u64 now_ns = monotonic_ns();
    idle_.rest(turn(now_ns), now_ns);
  }
}

Load Worker::turn(u64 now_ns) noexcept {
  bool moved = router_.collect() != 0;
  moved |= retire(now_ns);
  bool rings_empty = true;
  for (PortQueue* queue : active_) {
    refill(*queue);
    const bool received = receive(*queue, now_ns);
    rings_empty &= !received;
  }
  batcher_->submit_if_due(now_ns, rings_empty);
  moved |= retire(now_ns);
  kick();
  if (now_ns - published_ns_ >= kPublishEveryNs) {
    account(now_ns, rings_empty);
    publish(now_ns);
  } else {
    for (PortQueue* queue : active_) queue->publish_credits(options_.credit_step);
  }

  if (moved || !rings_empty) return Load::busy;
  if (batcher_->waiting() || batcher_->open_batch()) return Load::waiting;
  if (order_.empty()) {
    moving_ = false;
    return Load::idle;
  }
  return moving_ ? Load::moving : Load::sending;
}

bool Worker::retire(u64 now_ns) noexcept {
  u64 done_ns = 0;
  while (Batch* batch = batcher_->poll()) {
    if (!done_ns) done_ns = monotonic_ns();
    count_batch(*batch, done_ns, metrics_);
    order_.begin();
    const Routed routed = router_.route(*batch, now_ns);
    order_.end(batch->port_mask, batch->next_sequence, routed.passed);
    moving_ |= routed.moving;
    device_failed_ |= batch->outcome == Outcome::device_failed;
    ++batches_;
    batch_packets_ += batch->count;
    batcher_->release(batch);
  }
  return done_ns != 0;
}

void Worker::refill(PortQueue& queue) noexcept {
  queue.socket->receiver.refill(free_, kRefillStep,
                                [&](FrameId frame) { queue.metadata.prepare(region_ + chunk_of(frame)); });
}

bool Worker::receive(PortQueue& queue, u64 now_ns) noexcept {
  Receiver& receiver = queue.socket->receiver;
  bool any = false;
  // One burst fills a batch at most, so that ports take turns.
  for (u32 room = options_.batch; room;) {
    u32 at = 0;
    const u32 peeked = receiver.peek(std::min(kReceiveBurst, room), &at);
    if (!peeked) break;
    for (u32 i = 0; i < peeked; ++i)
      __builtin_prefetch(region_ + xsk_ring_cons__rx_desc(&receiver.rx, at + i)->addr - XG_METADATA_SIZE);
    u32 taken = 0;
    while (taken < peeked && take(queue, *xsk_ring_cons__rx_desc(&receiver.rx, at + taken), now_ns)) ++taken;
    receiver.take(peeked, taken);
    queue.counters->received += taken;
    any |= taken != 0;
    room -= taken;
    if (taken < peeked || peeked < kReceiveBurst) break;
  }
  return any;
}

// False: no batch can take the packet now; it stays in the ring.
bool Worker::take(PortQueue& queue, const xdp_desc& desc, u64 now_ns) noexcept {
  u8* const frame = region_ + desc.addr;
  const FrameId id = frame_of(desc.addr);
  const u64 start = desc.addr - chunk_of(id);
  if (id - free_.first() >= free_.capacity() || start < XG_METADATA_SIZE || start + desc.len > XG_CHUNK_SIZE)
      [[unlikely]] {
    ++queue.counters->error_invalid;
    if (id - free_.first() < free_.capacity()) free_.push(id);
    return true;
  }
  if (!queue.metadata.known()) [[unlikely]]
    queue.metadata.learn(region_ + chunk_of(id), start, desc.len,
                         monotonic_ns());  // not the turn's beginning
  auto* metadata = reinterpret_cast<xg_metadata*>(frame - XG_METADATA_SIZE);
  if (!queue.metadata.delivers()) [[unlikely]]
    fill_metadata(queue, frame, desc.len, now_ns);

  Batch* batch = batcher_->open(metadata->generation, now_ns);
  if (!batch) [[unlikely]]
    return false;
  batch->add(desc.addr, desc.len, static_cast<u8>(queue.port), *metadata);
  if (!queue.metadata.delivers()) queue.next_sequence = metadata->sequence + 1;
  return true;
}

// Sequences that the worker counts itself are never ahead of the kernel's own, because losses become
// known late: `retired` errs towards "still under way".
void Worker::fill_metadata(PortQueue& queue, u8* frame, u32 length, u64 now_ns) noexcept {
  const CurrentPolicy* policy = policy_.load(std::memory_order_acquire);
  auto* metadata = reinterpret_cast<xg_metadata*>(frame - XG_METADATA_SIZE);
  parse_metadata(frame, length, static_cast<u8>(queue.port), queue.config->hash_key, now_ns, metadata);
  metadata->generation = policy->generation;
  metadata->sequence = queue.next_sequence;
  if (policy->chooser) policy->chooser(frame, length, metadata);
}

void Worker::kick() noexcept {
  for (Transmitter* transmitter : router_.transmitters())
    if (transmitter->held()) transmitter->kick();
  for (PortQueue* queue : active_)
    if (queue->busy_poll || queue->socket->receiver.wants_wakeup())
      recvfrom(queue->socket->fd(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
}

// Losses, and which packets have left.
void Worker::account(u64 now_ns, bool rings_empty) noexcept {
  order_.advance(now_ns, [&](u32 port, u32 sequence) { queues_[port]->publish_retired(sequence); });

  if (batcher_->waiting() && now_ns - batcher_->oldest_ns() > kHungNs) device_failed_ = true;
  const bool empty_handed = rings_empty && !batcher_->held() && order_.empty();
  if (now_ns - statistics_ns_ >= kStatisticsEveryNs) {
    statistics_ns_ = now_ns;
    for (PortQueue* queue : active_) {
      const u64 received = queue->socket->receiver.received();
      if (queue->credits.under_way(queue->admitted(), received) <= 0) continue;
      const SocketLosses losses = queue->socket->losses();
      queue->metrics->kernel_rx_dropped = losses.dropped;
      queue->metrics->kernel_rx_ring_full = losses.ring_full;
      queue->metrics->kernel_fill_ring_empty = losses.fill_ring_empty;
      u64 lost = queue->credits.lost_total(losses.packets());
      if (empty_handed) lost += queue->credits.write_off(queue->admitted(), received, now_ns);
      queue->counters->lost_in_kernel += lost;
      if (!queue->metadata.delivers()) queue->next_sequence += static_cast<u32>(lost);
    }
  }
  quiet_ = empty_handed;
  for (PortQueue* queue : active_) {
    const u32 admitted = queue->admitted();
    if (queue->credits.under_way(admitted, queue->socket->receiver.received()) > 0) {
      quiet_ = false;
    } else if (empty_handed) {
      // Nothing is under way, so that everything has left, the lost ones at the end included.
      queue->publish_retired(admitted);
    }
  }
}

void Worker::publish(u64 now_ns) noexcept {
  ++turns_;
  published_ns_ = now_ns;
  for (PortQueue* queue : active_) queue->publish_credits(1);
  // No packet waits on a corpse: without a device the kernel program is to see a dead worker.
  if (now_ns - beat_ns_ >= kBeatEveryNs && !device_failed_) {
    beat_ns_ = now_ns;
    for (PortQueue* queue : active_) queue->publish_beat(now_ns);
  }
  if (now_ns - levels_ns_ >= kLevelsEveryNs) publish_levels(now_ns);
  WorkerReport report;
  report.frames = count();
  report.batches = batches_;
  report.batch_packets = batch_packets_;
  report.turns = turns_;
  report.quiet = quiet_;
  report.device_failed = device_failed_;
  for (PortQueue* queue : active_)
    if (queue->metadata.delivers()) report.delivers_metadata |= 1u << queue->port;
  report_.publish(report);
#ifndef NDEBUG
  if (turns_ % kCheckEveryTurns == 0) assert(report.frames.conserved());
#endif
}

void Worker::publish_levels(u64 now_ns) noexcept {
  levels_ns_ = now_ns;
  for (PortQueue* queue : active_) {
    Receiver& receiver = queue->socket->receiver;
    const Transmitter& transmitter = queue->socket->transmitter;
    xg_queue_metrics& metrics = *queue->metrics;
    receiver.look();
    metrics.updated_ns = now_ns;
    metrics.ring_size = receiver.fill.size;
    metrics.credits = queue->credits_left();
    metrics.rx = receiver.rx_level();
    metrics.fill = receiver.fill_level();
    metrics.fill_least = receiver.fill_least();
    metrics.tx = transmitter.tx_level();
    metrics.completion = transmitter.completion_level();
    metrics.frames_fill = static_cast<u32>(receiver.held());
    metrics.frames_batch = static_cast<u32>(queue->in_batches());
    metrics.frames_tx = static_cast<u32>(transmitter.held());
    if (queue->reinject) {
      metrics.reinject_tx = queue->reinject->transmitter.tx_level();
      metrics.reinject_completion = queue->reinject->transmitter.completion_level();
      metrics.frames_reinject = static_cast<u32>(queue->reinject->transmitter.held());
    }
    metrics.worker_frames = free_.capacity();
    metrics.worker_free = free_.size();
  }
}

FrameCount Worker::count() const noexcept {
  FrameCount frames;
  frames.total = free_.capacity();
  frames.free = free_.size();
  frames.batch = batcher_ ? batcher_->held() : 0;
  for (const PortQueue* queue : active_) frames.fill += queue->socket->receiver.held();
  for (const Transmitter* transmitter : router_.transmitters()) frames.tx += transmitter->held();
  return frames;
}

FrameCount Worker::reclaim() {
  FrameCount frames = count();
  // Descriptors in batches name their frames; frames in rings are given up by the kernel as the
  // sockets close. What the free list holds must be this worker's, each frame once.
  std::vector<bool> seen(free_.capacity());
  u64 unique = 0;
  for (u32 i = 0; i < free_.size(); ++i) {
    const u32 at = free_.storage()[i] - free_.first();
    if (at >= seen.size() || seen[at]) continue;
    seen[at] = true;
    ++unique;
  }
  for (PortQueue* queue : active_) {
    queue->reinject.reset();
    queue->socket.reset();
  }
  frames.free = unique + frames.fill + frames.batch + frames.tx;
  frames.fill = frames.batch = frames.tx = 0;
  return frames;
}

}  // namespace xdpgpu::dataplane
