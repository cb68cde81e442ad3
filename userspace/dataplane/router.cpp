// SPDX-License-Identifier: MIT
#include "userspace/dataplane/router.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include "userspace/dataplane/checksum.hpp"
#include "userspace/dataplane/encapsulation.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kFullRingTries = 64;

const xg_metadata& metadata_of(const u8* frame) noexcept {
  return *reinterpret_cast<const xg_metadata*>(frame - XG_METADATA_SIZE);
}

// The record that has the outer headers' addresses; nullptr: it is another generation's by now.
const xg_rewrite* outer_of(const xg_result& result, const PortQueue& from, u32 generation) noexcept {
  const u32 number = XG_RES_OUTER(result.dst_mac[1]);
  if (number >= XG_REWRITE_HALF) return nullptr;
  const xg_rewrite& rewrite = from.rewrites[XG_REWRITE_INDEX(number, generation)];
  return rewrite.generation == generation && rewrite.flags & XG_REWRITE_ENCAPSULATE ? &rewrite : nullptr;
}

}  // namespace

void apply_rewrite(u8* frame, const xg_result& result) noexcept {
  if (result.flags & XG_RES_SET_DST_MAC) std::memcpy(frame, result.dst_mac, 6);
  if (result.flags & XG_RES_SET_SRC_MAC) std::memcpy(frame + 6, result.src_mac, 6);
  if (!(result.flags & XG_RES_SET_TTL)) return;
  // The device has found the header in the frame.
  const xg_metadata& metadata = metadata_of(frame);
  u8* const ip = frame + metadata.l3_offset;
  const u8 ttl = static_cast<u8>(XG_RES_TTL(result.src_mac[1]));
  if (metadata.flags & XG_PKT_IPV6) {
    ip[7] = ttl;
    return;
  }
  const u16 checksum = static_cast<u16>(XG_RES_CHECKSUM(result.dst_mac[1]));
  ip[8] = ttl;
  std::memcpy(ip + 10, &checksum, sizeof(checksum));
}

Router::Router(u8* region, std::vector<PortQueue*> queues, FreeList& free, OrderLog& order)
    : region_(region), queues_(std::move(queues)), free_(free), order_(order) {
  for (PortQueue* queue : queues_)
    if (queue) transmitters_.push_back(&queue->socket->transmitter);
  for (PortQueue* queue : queues_)
    if (queue && queue->reinject) transmitters_.push_back(&queue->reinject->transmitter);
}

u32 Router::collect(Transmitter& from) noexcept {
  return from.collect([this](FrameId frame) {
    order_.completed(free_.place(frame));
    free_.push(frame);
  });
}

u32 Router::collect() noexcept {
  u32 frames = 0;
  for (Transmitter* transmitter : transmitters_) frames += collect(*transmitter);
  return frames;
}

void Router::forget_egress(u8 port, const xg_descriptor& descriptor) noexcept {
  ++queues_[Batch::egress_port(port)]->later_unbatched;
  free_.push(frame_of(descriptor.offset));
}

void Router::drop_all(const Batch& batch) noexcept {
  for (u32 i = 0; i < batch.count;) {
    if (!Batch::is_received(batch.ports[i])) {
      forget_egress(batch.ports[i], batch.slot->descriptors[i]);
      ++i;
      continue;
    }
    const Buffers packet = packet_at(batch.slot->descriptors + i);
    PortQueue& from = *queues_[batch.ports[i]];
    xg_worker_counters& counters = *from.counters;
    ++(batch.outcome == Outcome::unknown_generation ? counters.error_generation : counters.error_device);
    from.later_unbatched += packet.size() - 1;
    give_up(packet);
    i += static_cast<u32>(packet.size());
  }
}

template <class Packet>
void Router::give_up(Packet packet) noexcept {
  for (const xg_descriptor& buffer : packet) free_.push(frame_of(buffer.offset));
}

Routed Router::route(const Batch& batch, u64 now_ns) noexcept {
  if (batch.outcome != Outcome::decided) {
    drop_all(batch);
    return {};
  }
  routed_ = {};
  published_ = device_publishes_ && !batch.slot->standby;
  const xg_descriptor* descriptors = batch.slot->descriptors;
  const xg_result* results = batch.slot->results;  // a packet's is at its first descriptor
  for (u32 i = 0; i < batch.count; ++i) {
    if (!Batch::is_received(batch.ports[i])) [[unlikely]] {
      forget_egress(batch.ports[i], descriptors[i]);
      continue;
    }
    PortQueue& from = *queues_[batch.ports[i]];
    if (!(descriptors[i].flags & XG_DESC_MORE)) [[likely]] {
      decide(OneBuffer(descriptors + i, 1), results[i], from, now_ns);
      continue;
    }
    const Buffers packet = packet_at(descriptors + i);
    const auto later = static_cast<u32>(packet.size() - 1);
    decide(packet, results[i], from, now_ns);
    from.later_unbatched += later;
    i += later;
  }
  for (Transmitter* transmitter : transmitters_) transmitter->flush();
  return routed_;
}

template <class Packet>
void Router::decide(Packet packet, const xg_result& result, PortQueue& from, u64 now_ns) noexcept {
  xg_worker_counters& counters = *from.counters;
  const u32 action = XG_VERDICT_ACTION(result.verdict);
  if (action == XG_DROP) {
    if (result.flags & XG_RES_CACHE) cache(packet, result, from, now_ns);
    if (metadata_of(region_ + packet.front().offset).flags & XG_PKT_AUDIT) [[unlikely]] {
      xg_result let_go{};
      let_go.verdict = XG_PASS;
      const u64 passed = counters.passed;
      decide(packet, let_go, from, now_ns);
      counters.would_drop += counters.passed - passed;
      return;
    }
    ++counters.dropped;
    if (result.flags & XG_RES_TOO_LONG) return drop_too_long(packet, result.dst_mac[0], from, now_ns);
    give_up(packet);
    return;
  }
  if (action == XG_ABORTED || action > XG_REDIRECT) {
    ++counters.error_device;
    give_up(packet);
    return;
  }
  Transmitter* to = target_of(result.verdict, static_cast<u32>(packet.size()), from);
  if (!to) {
    ++counters.error_target;
    give_up(packet);
    return;
  }

  u8* frame = region_ + packet.front().offset;
  const xg_rewrite* outer = nullptr;
  if (result.flags & XG_RES_ENCAPSULATE) {
    outer = outer_of(result, from, metadata_of(frame).generation);
    if (!outer) {
      ++counters.error_generation;
      give_up(packet);
      return;
    }
  }
  const bool repaired =
      from.traits.repair_checksums && complete_checksum(region_, packet, metadata_of(frame));
  if (repaired) ++counters.checksums_repaired;
  // A flow whose checksums want completing cannot be sent out by the kernel program, which would not.
  const bool sends = action != XG_PASS;
  if ((result.flags & XG_RES_CACHE) && !(sends && repaired)) {
    cache(packet, result, from, now_ns);
    routed_.moving = true;
  }
  apply_rewrite(frame, result);

  const bool sent = outer ? transmit_inside(*to, packet, *outer, XG_RES_FLOW_HASH(result.src_mac[1]))
                          : transmit(*to, packet);
  if (!sent) {
    ++counters.error_ring_full;
    give_up(packet);
    return;
  }
  if (outer) ++counters.encapsulated;
  for (const xg_descriptor& buffer : packet) order_.sent(free_.place(frame_of(buffer.offset)));
  switch (action) {
    case XG_PASS:
      routed_.passed = true;
      ++counters.passed;
      break;
    case XG_TX:
      ++counters.transmitted;
      break;
    default:
      ++counters.redirected;
  }
}

template <class Packet>
void Router::drop_too_long(Packet packet, u32 mtu, PortQueue& from, u64 now_ns) noexcept {
  const xg_descriptor first = packet.front();
  ++from.counters->too_long;
  std::optional<Answer> answer;
  if (answers_.take(now_ns)) answer = answer_too_long(region_ + first.offset, first.length, mtu);
  if (!answer) return give_up(packet);
  for (const xg_descriptor& buffer : packet)
    if (buffer.offset != first.offset) free_.push(frame_of(buffer.offset));
  const xg_descriptor moved{first.offset - answer->earlier, answer->length, 0};
  if (!transmit(from.socket->transmitter, OneBuffer(&moved, 1))) return give_up(OneBuffer(&first, 1));
  order_.sent(free_.place(frame_of(first.offset)));
  ++from.counters->too_long_answered;
}

Transmitter* Router::target_of(u32 verdict, u32 buffers, const PortQueue& from) noexcept {
  switch (XG_VERDICT_ACTION(verdict)) {
    case XG_PASS:
      return from.reinject ? &from.reinject->transmitter : nullptr;
    case XG_TX:
      return &from.socket->transmitter;
    default: {
      const u32 port = XG_VERDICT_PORT(verdict);
      if (port >= queues_.size() || !queues_[port]) return nullptr;
      if (buffers > 1 && buffers > queues_[port]->packet_buffers) return nullptr;
      return &queues_[port]->socket->transmitter;
    }
  }
}

template <class Packet>
bool Router::transmit(Transmitter& to, Packet packet) noexcept {
  if (to.push(packet)) return true;
  for (u32 i = 0; i < kFullRingTries; ++i) {
    to.flush();
    collect(to);
    to.kick();
    if (to.push(packet)) return true;
  }
  return false;
}

template <class Packet>
bool Router::transmit_inside(Transmitter& to, Packet packet, const xg_rewrite& rewrite,
                             u32 flow_hash) noexcept {
  std::array<xg_descriptor, XG_PACKET_BUFFERS> moved;
  std::copy(packet.begin(), packet.end(), moved.begin());
  const u32 bytes = encapsulate(region_ + packet.front().offset, rewrite, flow_hash);
  moved[0].offset -= bytes;
  moved[0].length += bytes;
  return transmit(to, Packet(moved.data(), packet.size()));
}

void Router::cache(Buffers packet, const xg_result& result, PortQueue& from, u64 now_ns) noexcept {
  if (!published_) return publish(packet, result, from, now_ns);
  if (result.flags & XG_RES_PUBLISHED) ++from.counters->flows_cached;
  if (result.flags & XG_RES_EVICTED) ++from.counters->flows_evicted;
}

void Router::publish(Buffers packet, const xg_result& result, PortQueue& from, u64 now_ns) noexcept {
  const u8* frame = region_ + packet.front().offset;
  const xg_metadata& metadata = metadata_of(frame);
  if (metadata.flags & XG_PKT_UNCACHED) return;
  const u32 action = XG_VERDICT_ACTION(result.verdict);
  if (action == XG_TX && !from.traits.cache_transmit) return;
  if (action == XG_REDIRECT && !queues_[XG_VERDICT_PORT(result.verdict)]->traits.cache_transmit) return;

  xg_packet parsed;
  xg_parse_part(frame, frame + packet.front().length, bytes_of(packet), static_cast<u8>(from.port), &parsed);
  if (!xg_has_flow(&parsed)) return;

  gpu::FlowVerdict flow;
  flow.key = parsed.key;
  flow.flow_hash = metadata.flow_hash;
  flow.generation = metadata.generation;
  flow.verdict = result.verdict;
  flow.rewrite = static_cast<u16>(XG_REWRITE_INDEX(XG_RES_REWRITE(result.flags), metadata.generation));
  flow.ttl_ms = result.cache_ttl_ms;
  const gpu::Published published = from.flows.publish(flow, now_ns);
  if (published == gpu::Published::unchanged) return;
  ++from.counters->flows_cached;
  if (published == gpu::Published::evicted) ++from.counters->flows_evicted;
}

}  // namespace xdpgpu::dataplane
