// SPDX-License-Identifier: MIT
#include "userspace/dataplane/feeder.hpp"

#include <sys/socket.h>

#include <algorithm>

#include "userspace/dataplane/clock.hpp"
#include "userspace/dataplane/random_key.hpp"

namespace xdpgpu::dataplane {
namespace {

// Metadata are asked for so many packets before they are read, into the second cache: chunks are a power of
// two apart, so that their metadata meet in few sets of a cache, and the first holds two dozen.
constexpr int kIntoL2 = 2;
constexpr u32 kAhead = 48;
constexpr u32 kFewPackets = 4;  // that are no run
constexpr u32 kRefillStep = 64;
constexpr u64 kStatisticsEveryNs = 10'000'000;
constexpr u64 kBeatEveryNs = 1'000'000;
constexpr u32 kWaitingShare = 16;  // of so many frames one may wait for the rest of its datagram

}  // namespace

Feeder::Feeder(const WorkerOptions& options, u8* region, std::vector<PortQueue*> queues, FreeList& free,
               FrameRing* ring, UnparsedRing& unparsed, const std::atomic<const CurrentPolicy*>& policy,
               EgressFeed& egress)
    : options_(options),
      region_(region),
      queues_(std::move(queues)),
      free_(free),
      ring_(ring),
      unparsed_(unparsed),
      policy_(policy),
      egress_(egress),
      reassembler_(region, free.capacity() / kWaitingShare, random_key()) {}

void Feeder::refill(PortQueue& queue) noexcept {
  Receiver& receiver = queue.socket->receiver;
  if (queue.metadata.tells_by_age() && !queue.is_covered()) [[likely]] {
    receiver.refill(free_, kRefillStep, [](FrameId) {});
    return;
  }
  receiver.refill(free_, kRefillStep, [region = region_, metadata = queue.metadata](FrameId frame) {
    metadata.prepare(region + chunk_of(frame));
  });
}

void Feeder::cover() noexcept {
  for (PortQueue* queue : queues_) queue->cover();
}

void Feeder::refill() noexcept {
  for (PortQueue* queue : queues_) refill(*queue);
}

bool Feeder::receive(u64 now_ns) noexcept {
  if (ring_) ring_->take(free_);
  notice_policy();
  pass_on_assembled(now_ns);
  bool any = parse_refused(now_ns);
  // Also where nothing is received: a log holds no more than a burst.
  egress_.take(now_ns, &any);
  for (PortQueue* queue : queues_) {
    refill(*queue);
    any |= receive(*queue, now_ns);
  }
  reassembler_.expire(now_ns);
  drop_unassembled();
  return any;
}

bool Feeder::receive(PortQueue& queue, u64 now_ns) noexcept {
  Receiver& receiver = queue.socket->receiver;
  bool any = false;
  // One burst fills a batch at most, so that ports take turns.
  for (u32 room = options_.batch; room;) {
    u32 at = 0;
    const u32 peeked = receiver.peek(std::min(kReceiveBurst, room), &at);
    if (!peeked) break;
    // What was sent before these packets came goes ahead of them: they may be its answers.
    if (!egress_.take(now_ns, &any)) [[unlikely]] {
      receiver.take(peeked, 0, 0);
      break;
    }
    u32 taken = take_run(queue, at, peeked, now_ns), packets = taken;
    bool waits = false;  // the next packet, for a batch
    while (taken < peeked && !waits) {
      if (taken + kAhead < peeked)
        __builtin_prefetch(region_ + xsk_ring_cons__rx_desc(&receiver.rx, at + taken + kAhead)->addr -
                           XG_METADATA_SIZE);
      const xdp_desc& desc = *xsk_ring_cons__rx_desc(&receiver.rx, at + taken);
      if ((desc.options | queue.dropping) & kContinued) [[unlikely]] {
        const u32 left = peeked - taken;
        const u32 buffers = receiver.buffers_at(at + taken, std::min(left, queue.packet_buffers));
        if (queue.dropping || (!buffers && left >= queue.packet_buffers)) {
          taken += drop_oversized(queue, at + taken, left);
          packets += !queue.dropping;
          continue;
        }
        if (!buffers) {  // its end is behind those peeked at
          receiver.refresh();
          break;
        }
        waits = !take_several(queue, at + taken, buffers, now_ns);
        taken += waits ? 0 : buffers;
      } else {
        waits = !take(queue, at + taken, 1, now_ns);
        taken += !waits;
      }
      packets += !waits;
    }
    receiver.take(peeked, taken, packets);
    queue.counters->received += packets;
    any |= taken != 0;
    room -= taken;
    if (waits || !taken || peeked < kReceiveBurst) break;
  }
  return any;
}

// Of packets on the RX ring from `at` on, those that are of one buffer each, where a packet's should be.
struct Feeder::Run {
  Run(const PortQueue& queue, u32 first, const FrameShare& share, u8* frames)
      : ring(static_cast<const xdp_desc*>(queue.socket->receiver.rx.ring)),
        mask(queue.socket->receiver.rx.mask),
        at(first),
        first_frame(share.first),
        span(share.chunks()),
        between(share.step - 1),
        region(frames) {}

  xdp_desc descriptor(u32 i) const noexcept { return ring[(at + i) & mask]; }
  // Of a plain one.
  const xg_metadata& metadata(u32 i) const noexcept {
    return *reinterpret_cast<const xg_metadata*>(region + ring[(at + i) & mask].addr - XG_METADATA_SIZE);
  }
  // Of any: a hint.
  void prefetch_metadata(u32 i) const noexcept {
    __builtin_prefetch(region + ring[(at + i) & mask].addr - XG_METADATA_SIZE, 0, kIntoL2);
  }
  bool plain(const xdp_desc& d) const noexcept {
    const u32 place = frame_of(d.addr) - first_frame;
    return !((d.options & kContinued) | (place >= span) | (place & between) |
             (d.addr % XG_CHUNK_SIZE != XG_FRAME_DATA) | (d.len > XG_CHUNK_SIZE - XG_FRAME_DATA));
  }

  const xdp_desc* ring;
  u32 mask, at;
  u32 first_frame, span, between;
  u8* region;
};

// Takes packets as long as they are of one buffer each, and have their metadata; returns how many. It stops
// in front of whatever it does not take, so that take() has the last word on that.
u32 Feeder::take_run(PortQueue& queue, u32 at, u32 count, u64 now_ns) noexcept {
  if (queue.dropping || !queue.metadata.delivers() || count < kFewPackets) return 0;
  const Run run(queue, at, free_.share(), region_);
  const bool by_ends = queue.metadata.in_order() && !queue.looks_at_each(queue.metadata.last().sequence + 1);
  u32 done = by_ends ? take_by_ends(queue, run, count, now_ns) : 0;
  if (done < count) done += take_each(queue, run, done, count, now_ns);
  return done;
}

// Reads the metadata of the first and the last one alone. Where these are their own, and as many packets
// apart as their sequences say, those between are of the same generation, which only grows, and the device is
// told what to expect of each: the kernel program has said nothing of packets without
// (PortQueue::looks_at_each). Where they are not, the rest is for take_each().
u32 Feeder::take_by_ends(PortQueue& queue, const Run& in_ring, u32 count, u64 now_ns) noexcept {
  const Run run = in_ring;  // a copy: what is written may be anything, as far as a compiler knows
  const auto port = static_cast<u8>(queue.port);
  run.prefetch_metadata(count - 1);
  u32 done = 0;
  while (done < count) {
    if (!run.plain(run.descriptor(done))) break;
    const xg_metadata& head = run.metadata(done);
    const MetadataProbe::Last before = queue.metadata.last();
    const u32 generation = head.generation, sequence = head.sequence;
    if (!generation || !MetadataProbe::later(head, port, before)) break;
    Batch* const batch = batcher_->open(generation, now_ns);
    if (!batch) break;
    const u32 wanted = std::min(count - done, batch->room());
    xg_descriptor* const descriptors = batch->slot->descriptors + batch->count;
    u32 taken = 0;
    for (; taken < wanted; ++taken) {
      const xdp_desc desc = run.descriptor(done + taken);
      if (!run.plain(desc)) [[unlikely]]
        break;
      descriptors[taken] = {desc.addr, desc.len, XG_DESC_EXPECTED(u32{port}, sequence + taken)};
    }
    const xg_metadata& tail = run.metadata(done + taken - 1);
    if (tail.generation != generation || tail.sequence != sequence + taken - 1 || tail.port != port ||
        tail.flags & XG_PKT_EGRESS || tail.rx_time_ns < head.rx_time_ns)
      break;
    batch->arrived({taken, port, head.rx_time_ns, tail.rx_time_ns});
    batch->add_run(taken, port, tail);
    queue.next_sequence = tail.sequence + 1;
    queue.metadata.note({tail.rx_time_ns, tail.sequence});
    done += taken;
  }
  return done;
}

// Reads the metadata of each.
u32 Feeder::take_each(PortQueue& queue, const Run& in_ring, u32 done, u32 count, u64 now_ns) noexcept {
  const Run run = in_ring;
  const auto port = static_cast<u8>(queue.port);
  const bool in_order = queue.metadata.in_order();
  const u32 first = done;
  for (u32 i = done; i < std::min(done + kAhead, count); ++i) run.prefetch_metadata(i);
  MetadataProbe::Last last = queue.metadata.last();
  while (done < count) {
    if (!run.plain(run.descriptor(done))) break;
    const xg_metadata& head = run.metadata(done);
    const u32 generation = head.generation;
    if (!generation || (in_order && !MetadataProbe::later(head, port, last)) || may_wait(head)) break;
    Batch* const batch = batcher_->open(generation, now_ns);
    if (!batch) break;
    const u32 room = std::min(count - done, batch->room());
    xg_descriptor* const descriptors = batch->slot->descriptors + batch->count;
    u32 taken = 0, flags = 0;
    for (; taken < room; ++taken) {
      const xdp_desc desc = run.descriptor(done + taken);
      if (done + taken + kAhead < count) run.prefetch_metadata(done + taken + kAhead);
      if (!run.plain(desc)) [[unlikely]]
        break;
      const auto& metadata = run.metadata(done + taken);
      if (metadata.generation != generation || (in_order && !MetadataProbe::later(metadata, port, last)) ||
          may_wait(metadata)) [[unlikely]]
        break;
      flags |= metadata.flags;
      last = {metadata.rx_time_ns, metadata.sequence};
      batch->arrived({1, port, last.rx_time_ns, last.rx_time_ns});
      descriptors[taken] = {desc.addr, desc.len, 0};
    }
    batch->add_run(taken, port, run.metadata(done + taken - 1));
    if (flags & XG_PKT_TRACKED) [[unlikely]]
      note_tracked(*batch);
    queue.next_sequence = last.sequence + 1;
    queue.metadata.note(last);
    done += taken;
  }
  return done - first;
}

// A buffer that is not valid does not lie in a chunk of this worker's.
bool Feeder::valid(const xdp_desc& buffer, u32 least_start) const noexcept {
  const FrameId id = frame_of(buffer.addr);
  const u64 start = buffer.addr - chunk_of(id);
  return free_.owns(id) && start >= least_start && start + buffer.len <= XG_CHUNK_SIZE;
}

// Gives the buffers back; the packet is counted with its last one.
void Feeder::discard(PortQueue& queue, u32 at, u32 buffers, bool last) noexcept {
  if (last) {
    ++queue.counters->error_invalid;
    if (!queue.metadata.delivers()) ++queue.next_sequence;
  }
  cover();
  for (u32 i = 0; i < buffers; ++i) {
    const FrameId id = frame_of(xsk_ring_cons__rx_desc(&queue.socket->receiver.rx, at + i)->addr);
    if (free_.owns(id)) free_.push(id);
  }
}

// More than the MTU lets in, such as segments that a generic port gets before they are cut, up to its end if
// that is there. Returns the buffers.
u32 Feeder::drop_oversized(PortQueue& queue, u32 at, u32 left) noexcept {
  const u32 to_end = queue.socket->receiver.buffers_at(at, left);
  const u32 gone = to_end ? to_end : left;
  discard(queue, at, gone, to_end != 0);
  queue.dropping = to_end ? 0 : kContinued;
  return gone;
}

// Where a later buffer's bytes stand in its chunk is the driver's affair.
bool Feeder::take_several(PortQueue& queue, u32 at, u32 buffers, u64 now_ns) noexcept {
  cover();
  return take(queue, at, buffers, now_ns);
}

// A policy that is not in force any more does not say.
void Feeder::note_tracked(Batch& batch) noexcept {
  const CurrentPolicy* policy = policy_.load(std::memory_order_acquire);
  batch.tracked = true;
  batch.default_passes = policy && policy->generation == batch.generation && policy->default_passes;
}

// False: no batch can take the packet now; it stays in the ring. Inlined for one buffer, where its loops are
// none.
[[gnu::always_inline]] inline bool Feeder::take(PortQueue& queue, u32 at, u32 buffers, u64 now_ns) noexcept {
  const xsk_ring_cons& rx = queue.socket->receiver.rx;
  const xdp_desc& first = *xsk_ring_cons__rx_desc(&rx, at);
  bool usable = valid(first, XG_METADATA_SIZE);
  u32 length = first.len;
  for (u32 i = 1; i < buffers; ++i) {
    const xdp_desc& buffer = *xsk_ring_cons__rx_desc(&rx, at + i);
    usable &= valid(buffer, 0);
    length += buffer.len;
  }
  if (!usable) [[unlikely]] {
    discard(queue, at, buffers, true);
    return true;
  }
  u8* const frame = region_ + first.addr;
  if (!queue.metadata.known()) [[unlikely]] {
    const u64 chunk = chunk_of(frame_of(first.addr));
    queue.metadata.learn(region_ + chunk, first.addr - chunk, first.len,
                         monotonic_ns());  // not the turn's beginning
    if (!queue.metadata.delivers()) cover();
  }
  auto* metadata = reinterpret_cast<xg_metadata*>(frame - XG_METADATA_SIZE);
  if (!queue.metadata.delivers() || !queue.metadata.own(*metadata, first.addr % XG_CHUNK_SIZE)) [[unlikely]] {
    if (queue.metadata.delivers()) forget_metadata(queue);
    fill_metadata(queue, frame, first.len, length, now_ns);
  }
  if (may_wait(*metadata)) [[unlikely]] {
    std::array<xg_descriptor, XG_PACKET_BUFFERS> packet;
    for (u32 i = 0; i < buffers; ++i) {
      const xdp_desc& buffer = *xsk_ring_cons__rx_desc(&rx, at + i);
      packet[i] = {buffer.addr, buffer.len, i + 1 < buffers ? XG_DESC_MORE : 0};
    }
    const Waits waits = wait_for_others(queue, {packet.data(), buffers}, now_ns);
    if (waits != Waits::no) return waits == Waits::yes;
  }

  Batch* batch = batcher_->open(metadata->generation, now_ns, buffers);
  if (!batch) [[unlikely]]
    return false;
  if (buffers > 1) queue.batch_later(buffers - 1);
  batch->add(first.addr, first.len, static_cast<u8>(queue.port), *metadata);
  if (metadata->flags & XG_PKT_TRACKED) [[unlikely]]
    note_tracked(*batch);
  for (u32 i = 1; i < buffers; ++i) {
    const xdp_desc& buffer = *xsk_ring_cons__rx_desc(&rx, at + i);
    batch->extend(buffer.addr, buffer.len);
  }
  queue.next_sequence = metadata->sequence + 1;
  queue.metadata.note({metadata->rx_time_ns, metadata->sequence});
  return true;
}

// The worker counts the sequences from here on. What was lost before the last packet that told its own stands
// in that already.
[[gnu::noinline]] void Feeder::forget_metadata(PortQueue& queue) noexcept {
  queue.counters->lost_in_kernel += queue.credits.lost_total(queue.socket->losses().packets());
  queue.metadata.forget();
  cover();
}

// Sequences that the worker counts itself are never ahead of the kernel's own, because losses become
// known late: `retired` errs towards "still under way".
void Feeder::fill_metadata(PortQueue& queue, u8* frame, u32 readable, u32 length, u64 now_ns) noexcept {
  const CurrentPolicy* policy = policy_.load(std::memory_order_acquire);
  auto* metadata = reinterpret_cast<xg_metadata*>(frame - XG_METADATA_SIZE);
  const xg_config& config = *queue.config;
  parse_metadata(frame, readable, length, static_cast<u8>(queue.port), config.flow_keys,
                 __atomic_load_n(&config.mac, __ATOMIC_RELAXED), now_ns, metadata);
  metadata->generation = policy->generation;
  metadata->sequence = queue.next_sequence;
  if (policy->chooser) policy->chooser(frame, readable, length, metadata);
}

// They go to the device once more, with metadata that the worker has parsed, behind what came in meanwhile.
bool Feeder::parse_refused(u64 now_ns) noexcept {
  bool any = false;
  while (const Unparsed* refused = unparsed_.oldest()) {
    const xg_descriptor& packet = refused->packet;
    PortQueue& queue = **std::find_if(queues_.begin(), queues_.end(),
                                      [&](const PortQueue* one) { return one->port == refused->port; });
    u8* const frame = region_ + packet.offset;
    // One that was refused with metadata of its own says nothing of those that come behind it.
    const auto& found = *reinterpret_cast<const xg_metadata*>(frame - XG_METADATA_SIZE);
    if (queue.metadata.delivers() && (packet.flags != XG_DESC_EXPECTED(u32{found.port}, found.sequence) ||
                                      !found.generation || found.flags & XG_PKT_EGRESS))
      forget_metadata(queue);
    cover();
    fill_metadata(queue, frame, packet.length, packet.length, now_ns);
    auto* metadata = reinterpret_cast<xg_metadata*>(frame - XG_METADATA_SIZE);
    metadata->sequence = queue.next_sequence - 1;  // its own has been used up
    Waits waits = Waits::no;
    if (may_wait(*metadata)) {
      const xg_descriptor own{packet.offset, packet.length, 0};
      waits = wait_for_others(queue, {&own, 1}, now_ns);
      if (waits == Waits::not_now) break;
    }
    if (waits == Waits::no) {
      Batch* const batch = batcher_->open(metadata->generation, now_ns);
      if (!batch) break;
      batch->add(packet.offset, packet.length, static_cast<u8>(queue.port), *metadata);
    }
    ++queue.counters->parsed_again;
    unparsed_.take();
    any = true;
  }
  return any;
}

void Feeder::kick() noexcept {
  for (PortQueue* queue : queues_)
    if (queue->busy_poll || queue->socket->receiver.wants_wakeup())
      recvfrom(queue->socket->fd(), nullptr, 0, MSG_DONTWAIT, nullptr, nullptr);
}

void Feeder::account(u64 now_ns, bool empty_handed) noexcept {
  if (now_ns - statistics_ns_ >= kStatisticsEveryNs) {
    statistics_ns_ = now_ns;
    for (PortQueue* queue : queues_) {
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
  for (PortQueue* queue : queues_) {
    const u32 admitted = queue->admitted();
    if (queue->credits.under_way(admitted, queue->socket->receiver.received()) > 0) {
      quiet_ = false;
    } else if (empty_handed) {
      // Nothing is under way, so that everything has left, the lost ones at the end included. Whoever
      // retires has nothing to say about this queue before the next batch.
      queue->publish_retired(admitted);
      queue->next_sequence = admitted;
    }
  }
}

void Feeder::publish_credits() noexcept {
  for (PortQueue* queue : queues_) queue->publish_credits(options_.credit_step);
}

void Feeder::publish(u64 now_ns, bool rings_empty, const Retired& retired) noexcept {
  account(now_ns, empty_handed(rings_empty, retired));
  ++turns_;
  for (PortQueue* queue : queues_) queue->publish_credits(1);
  if (now_ns - beat_ns_ < kBeatEveryNs || !lives(retired, now_ns, options_.beat_timeout_ns)) return;
  beat_ns_ = now_ns;
  if (silent_.load(std::memory_order_relaxed)) {
    for (PortQueue* queue : queues_) queue->publish_beat(0, 0);
    return;
  }
  // Whoever retires may sleep while it is asked for nothing.
  const u64 device_ns = batcher_->waiting() ? retired.device_ns : now_ns;
  for (PortQueue* queue : queues_) queue->publish_beat(now_ns, device_ns);
}

void Feeder::publish_levels(u64 now_ns) noexcept {
  for (PortQueue* queue : queues_) {
    Receiver& receiver = queue->socket->receiver;
    xg_queue_metrics& metrics = *queue->metrics;
    receiver.look();
    metrics.updated_ns = now_ns;
    metrics.ring_size = receiver.fill.size;
    metrics.credits = queue->credits_left();
    metrics.rx = receiver.rx_level();
    metrics.fill = receiver.fill_level();
    metrics.fill_least = receiver.fill_least();
    metrics.frames_fill = static_cast<u32>(receiver.held());
    metrics.worker_frames = free_.capacity();
    metrics.worker_free = free_.size();
    if (ring_) metrics.worker_free += static_cast<u32>(ring_->given() - ring_->taken()) + ring_->kept();
  }
}

FrameCount Feeder::count(const Retired& retired) const noexcept {
  FrameCount frames;
  frames.total = free_.capacity();
  frames.free = free_.size();
  if (ring_) frames.free += retired.freed - ring_->taken();
  for (const PortQueue* queue : queues_) frames.fill += queue->socket->receiver.held();
  frames.batch = batcher_ ? batcher_->taken() - retired.frames : 0;
  frames.batch += retired.unparsed - unparsed_.taken();
  frames.waiting = reassembler_.frames();
  frames.tx = retired.sent;
  return frames;
}

WorkerReport Feeder::report(const Retired& retired) const noexcept {
  WorkerReport report;
  report.frames = count(retired);
  report.batches = retired.batches;
  report.batch_packets = retired.packets;
  report.turns = turns_;
  report.quiet = quiet_;
  report.generation = egress_.generation();
  report.older_under_way = retired.frames < egress_.frames_before() || reassembler_.any_whole();
  report.device_failed = retired.failed;
  for (const PortQueue* queue : queues_)
    if (queue->metadata.delivers()) report.delivers_metadata |= 1u << queue->port;
  return report;
}

}  // namespace xdpgpu::dataplane
