// SPDX-License-Identifier: MIT
#include "userspace/dataplane/router.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <utility>

#include "userspace/dataplane/checksum.hpp"
#include "userspace/dataplane/encapsulation.hpp"
#include "userspace/dataplane/fragments.hpp"
#include "userspace/dataplane/patch.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kFullRingTries = 64;  // for a packet, at most; once where the ring stands where it stood
constexpr u32 kBatchTries = 256;    // for a batch
constexpr u32 kFewPackets = 4;      // that are not worth sorting
constexpr u32 kAhead = 16;          // frames that are asked for so many packets before they are written to
constexpr u32 kResultsAhead = 32;   // likewise, results that are read
constexpr u32 kRewrites = XG_RES_EDIT | XG_RES_SWAP_MACS;
constexpr u32 kRejects = XG_RES_REJECT_SENDER | XG_RES_REJECT_RECEIVER;
constexpr u32 kLostOfOthers = 65536;  // more than a ring holds

const xg_metadata& metadata_of(const u8* frame) noexcept {
  return *reinterpret_cast<const xg_metadata*>(frame - XG_METADATA_SIZE);
}

// The record that has the outer headers' addresses; nullptr: it is another generation's by now.
const xg_rewrite* outer_of(const xg_adjust& adjust, const PortQueue& from, u32 generation) noexcept {
  const u32 number = adjust.outer;
  if (number >= XG_REWRITE_HALF) return nullptr;
  const xg_rewrite& rewrite = from.rewrites[XG_REWRITE_INDEX(number, generation)];
  return rewrite.generation == generation && rewrite.flags & XG_REWRITE_ENCAPSULATE ? &rewrite : nullptr;
}

void swap_macs(u8* frame) noexcept {
  u64 first;
  u32 rest;
  std::memcpy(&first, frame, sizeof(first));
  std::memcpy(&rest, frame + 8, sizeof(rest));
  const u64 swapped = first >> 48 | u64{rest} << 16 | first << 48;
  rest = static_cast<u32>(first >> 16);
  std::memcpy(frame, &swapped, sizeof(swapped));
  std::memcpy(frame + 8, &rest, sizeof(rest));
}

template <class Take>
void for_each_fragment(const Assembled& datagram, Take&& take) noexcept {
  for (auto left = datagram.fragments; !left.empty();) {
    const Buffers fragment = packet_at(left.data());
    take(fragment);
    left = left.subspan(fragment.size());
  }
}

// What the result names of it.
void rewrite_frame(u8* frame, const xg_result& result, const xg_edit& edit) noexcept {
  if (result.flags & XG_RES_EDIT)
    apply_edit(frame, edit);
  else if (result.flags & XG_RES_SWAP_MACS)
    swap_macs(frame);
}

}  // namespace

void apply_edit(u8* frame, const xg_edit& edit) noexcept {
  constexpr u32 kBoth = XG_EDIT_DST_MAC | XG_EDIT_SRC_MAC;
  if ((edit.sets & kBoth) == kBoth)
    std::memcpy(frame, edit.dst_mac, 12);
  else if (edit.sets & XG_EDIT_DST_MAC)
    std::memcpy(frame, edit.dst_mac, 6);
  else if (edit.sets & XG_EDIT_SRC_MAC)
    std::memcpy(frame + 6, edit.src_mac, 6);
  if (!(edit.sets & XG_EDIT_TTL)) return;
  // The device has found the header in the frame.
  const xg_metadata& metadata = metadata_of(frame);
  u8* const ip = frame + metadata.l3_offset;
  if (metadata.flags & XG_PKT_IPV6) {
    ip[7] = edit.ttl;
    return;
  }
  ip[8] = edit.ttl;
  std::memcpy(ip + 10, &edit.l3_checksum, sizeof(edit.l3_checksum));
}

Router::Router(u8* region, std::vector<PortQueue*> queues, FreeList& free, UnparsedRing& unparsed,
               OrderLog& order)
    : region_(region),
      queues_(std::move(queues)),
      others_(queues_.size()),
      counted_as_(free.span()),
      of_others_by_port_(queues_.size()),
      free_(free),
      unparsed_(unparsed),
      order_(order),
      ways_(static_cast<u32>(queues_.size()), 2 * static_cast<u32>(queues_.size())) {
  static_assert(XG_MAX_PORTS <= 1u << kPortBits);
  lost_of_others_.reserve(kLostOfOthers);
  for (PortQueue* queue : queues_)
    if (queue) transmitters_.push_back(&queue->socket->transmitter);
  for (PortQueue* queue : queues_)
    if (queue && queue->reinject) transmitters_.push_back(&queue->reinject->transmitter);
  stuck_at_.resize(transmitters_.size());
  find_ways();
}

// A port's own packets that are redirected to it share its ring with those that bounce, and are not sorted
// from them. What has no ring here, or may have to be repaired, is looked at one by one, too.
void Router::find_ways() {
  const auto ring_of = [this](const Socket& socket) {
    const auto found = std::find(transmitters_.begin(), transmitters_.end(), &socket.transmitter);
    return static_cast<u32>(found - transmitters_.begin());
  };
  for (u32 from = 0; from < queues_.size(); ++from) {
    const PortQueue* const queue = queues_[from];
    if (!queue || queue->traits.repair_checksums) continue;
    ways_.set(from, XG_TX, ring_of(*queue->socket));
    if (queue->reinject) ways_.set(from, XG_PASS, ring_of(*queue->reinject));
    for (u32 to = 0; to < queues_.size(); ++to)
      if (queues_[to] && to != from) ways_.set_redirect(from, to, ring_of(*queues_[to]->socket));
  }
}

// Packets are written where their metadata stood.
void Router::cover() noexcept {
  if (std::exchange(covered_, true)) return;
  for (PortQueue* queue : queues_)
    if (queue) queue->cover();
}

// ---- batches ------------------------------------------------------------------------------------------

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
    u64& lost =
        batch.outcome == Outcome::unknown_generation ? counters.error_generation : counters.error_device;
    const Assembled* const datagram = batch.assembled_at(i);
    i += static_cast<u32>(packet.size());
    if (datagram != nullptr) {
      for_each_fragment(*datagram, [&](Buffers fragment) {
        ++lost;
        from.later_unbatched += fragment.size() - 1;
        give_up(fragment);
      });
      ++from.later_unbatched;
      free_.push(frame_of(packet.front().offset));
      continue;
    }
    ++lost;
    from.later_unbatched += packet.size() - 1;
    give_up(packet);
  }
}

Routed Router::route(const Batch& batch, u64 now_ns) noexcept {
  if (batch.outcome != Outcome::decided) {
    drop_all(batch);
    return {};
  }
  routed_ = {};
  tries_left_ = kBatchTries;
  published_ = device_publishes_ && !batch.slot->standby;
  const xg_descriptor* descriptors = batch.slot->descriptors;
  // A packet's is at its first descriptor.
  const Judged judged{batch.slot->results, batch.slot->edits, batch.slot->adjusts, batch.slot->patches};
  const bool one_port = !batch.later && !batch.deferred && std::has_single_bit(batch.port_mask);
  for (u32 i = 0; i < batch.count;) {
    const u32 port = batch.ports[i];
    if (batch.ports[i] == Batch::kDeferred) [[unlikely]] {
      i += static_cast<u32>(packet_at(descriptors + i).size());
      continue;
    }
    if (!Batch::is_received(batch.ports[i])) [[unlikely]] {
      forget_egress(batch.ports[i], descriptors[i]);
      ++i;
      continue;
    }
    if (descriptors[i].flags & XG_DESC_MORE) [[unlikely]] {
      const Buffers packet = packet_at(descriptors + i);
      if (const Assembled* datagram = batch.assembled_at(i)) {
        route_assembled(batch, *datagram, now_ns);
        i += static_cast<u32>(packet.size());
        continue;
      }
      PortQueue& from = *queues_[port];
      decide(packet, judged + i, from, now_ns);
      from.later_unbatched += packet.size() - 1;
      i += static_cast<u32>(packet.size());
      continue;
    }
    if (batch.count == 1) {
      decide(OneBuffer(descriptors, 1), judged, *queues_[port], now_ns);
      break;
    }
    u32 end = one_port ? batch.count : i + 1;
    while (end < batch.count && batch.ports[end] == port && !(descriptors[end].flags & XG_DESC_MORE)) ++end;
    route_run(batch, i, end, port, now_ns);
    i = end;
  }
  for (Transmitter* transmitter : transmitters_) transmitter->flush();
  for (HandOver* other : others_)
    if (other) other->flush();
  return routed_;
}

void Router::route_assembled(const Batch& batch, const Assembled& datagram, u64 now_ns) noexcept {
  PortQueue& from = *queues_[batch.ports[datagram.at]];
  const FirstResult result = result_of_whole(decision_at(*batch.slot, datagram.at));
  for_each_fragment(datagram, [&](Buffers fragment) {
    const Decision own = result_of_later(result, region_ + fragment.front().offset);
    decide(fragment, {&own.result, &own.edit, &own.adjust, nullptr}, from, now_ns);
    from.later_unbatched += fragment.size() - 1;
  });
  ++from.later_unbatched;
  const Buffers whole = packet_at(batch.slot->descriptors + datagram.at);
  const bool rejects = XG_VERDICT_ACTION(result.result.verdict) == XG_DROP && result.result.flags & kRejects;
  if (!rejects || !tell_rejected(whole, result.result.flags, from, now_ns))
    free_.push(frame_of(whole.front().offset));
}

void Router::route_run(const Batch& batch, u32 first, u32 end, u32 port, u64 now_ns) noexcept {
  PortQueue& from = *queues_[port];
  const Judged all{batch.slot->results, batch.slot->edits, batch.slot->adjusts, batch.slot->patches};
  // A packet that is audited passes in place of being dropped.
  if (end - first < kFewPackets || batch.audit) {
    for (u32 i = first; i < end; ++i)
      decide(OneBuffer(batch.slot->descriptors + i, 1), all + i, from, now_ns);
    return;
  }
  constexpr u32 kSpecial = XG_RES_ADJUST | XG_RES_PATCH | XG_RES_TOO_LONG | XG_RES_REFUSED | kRejects;
  const u8* const ways = ways_.of(port);
  u32* const counts = ways_.counts();
  u8* const lists = ways_.lists();
  const u8* const region = region_;
  u64 edited = 0;  // all ones once a packet was: the others' edits are worth asking for
  for (; first < end; first += std::min(end - first, Ways::kBlock)) {
    const xg_descriptor* const descriptors = batch.slot->descriptors + first;
    const Judged judged = all + first;
    const xg_result* const results = judged.results;
    const xg_edit* const edits = judged.edits;
    const u32 count = std::min(end - first, Ways::kBlock);
    bool sorted = false;  // something that has not left yet
    for (u32 i = 0; i < count; ++i) {
      // A device wrote them: they are in no cache. Those of the next block, too.
      if (i % 4 == 0) {
        __builtin_prefetch(results + i + kResultsAhead);
        __builtin_prefetch(edits + ((i + kResultsAhead) & edited));
      }
      const u32 flags = results[i].flags;
      const u8 way = ways[results[i].verdict & 0xff];
      if (way == Ways::kNone || flags & kSpecial) [[unlikely]] {
        if (std::exchange(sorted, false)) leave(descriptors, judged, from);
        decide(OneBuffer(descriptors + i, 1), judged + i, from, now_ns);
        continue;
      }
      if (flags & XG_RES_CACHE) {
        cache(OneBuffer(descriptors + i, 1), results[i], from, now_ns);
        routed_.moving |= way != Ways::kDrop;
      }
      // What is written to was touched by nobody here, and is near by its turn. No branch: actions come
      // mixed.
      const u64 written = -u64{(flags & kRewrites) != 0};
      __builtin_prefetch(region + (descriptors[i].offset & written), 1);
      edited |= written;
      lists[way * Ways::kBlock + counts[way]++] = static_cast<u8>(i);
      sorted = true;
    }
    leave(descriptors, judged, from);
  }
}

void Router::leave(const xg_descriptor* descriptors, const Judged& judged, PortQueue& from) noexcept {
  u32* const counts = ways_.counts();
  if (const u32 dropped = std::exchange(counts[Ways::kDrop], 0)) {
    const u8* const list = ways_.lists() + Ways::kDrop * Ways::kBlock;
    FrameId* const free = free_.grow(dropped);
    for (u32 i = 0; i < dropped; ++i) free[i] = frame_of(descriptors[list[i]].offset);
    from.counters->dropped += dropped;
  }
  for (u32 way = Ways::kFirstRing; way < ways_.size(); ++way)
    if (const u32 count = std::exchange(counts[way], 0)) send(way, count, descriptors, judged, from);
}

void Router::send(u32 way, u32 count, const xg_descriptor* descriptors, const Judged& judged,
                  PortQueue& from) noexcept {
  Transmitter& to = *transmitters_[way - Ways::kFirstRing];
  const u8* list = ways_.lists() + way * Ways::kBlock;
  const xg_result* const results = judged.results;
  const xg_edit* const edits = judged.edits;
  const u32 action = XG_VERDICT_ACTION(results[list[0]].verdict);
  u64& counter = count_of(*from.counters, action);
  // Copies: what is written may be anything, as far as a compiler knows.
  u8* const region = region_;
  u8* const counted_as = counted_as_.data();
  const auto as = static_cast<u8>(from.port | action << kPortBits);
  const OrderLog::Marks marks = order_.marks();
  const u32 first = free_.share().first;
  for (;;) {
    const u32 sent = to.push_together(count, [=](u32 i, xdp_desc& place) {
      const xg_descriptor packet = descriptors[list[i]];
      const xg_result& result = results[list[i]];
      if (result.flags & kRewrites) {
        // Once more: chunks are a power of two apart, and meet in few sets of the first cache.
        if (i + kAhead < count) __builtin_prefetch(region + descriptors[list[i + kAhead]].offset, 1);
        rewrite_frame(region + packet.offset, result, edits[list[i]]);
      }
      const u32 frame = frame_of(packet.offset) - first;
      counted_as[frame] = as;
      marks.entries[frame] = marks.entry;
      place = {packet.offset, packet.length, 0};
    });
    order_.sent_marked(sent);
    counter += sent;
    if (sent) routed_.passed |= action == XG_PASS;
    list += sent;
    count -= sent;
    if (!count) return;
    if (make_room(to, 1)) continue;
    from.counters->error_ring_full += count;
    for (u32 i = 0; i < count; ++i) free_.push(frame_of(descriptors[list[i]].offset));
    return;
  }
}

bool Router::make_room(Transmitter& to, u32 frames) noexcept {
  std::optional<u32>& stuck = stuck_at_[static_cast<std::size_t>(
      std::find(transmitters_.begin(), transmitters_.end(), &to) - transmitters_.begin())];
  const u32 tries = std::min(tries_left_, stuck == to.consumed() ? 1 : kFullRingTries);
  for (u32 i = 0; i < tries; ++i) {
    --tries_left_;
    to.flush();
    collect(to);
    to.kick([this](FrameId frame) { lost_by(frame); });
    if (to.has_room(frames)) return true;
  }
  stuck = to.consumed();
  return false;
}

u64& Router::count_of(xg_worker_counters& counters, u32 action) noexcept {
  return action == XG_PASS ? counters.passed : action == XG_TX ? counters.transmitted : counters.redirected;
}

template <class Packet>
void Router::decide(Packet packet, const Judged& judged, PortQueue& from, u64 now_ns) noexcept {
  const xg_result& result = *judged.results;
  xg_worker_counters& counters = *from.counters;
  const u32 action = XG_VERDICT_ACTION(result.verdict);
  if (action == XG_DROP) {
    if (result.flags & XG_RES_CACHE) cache(packet, result, from, now_ns);
    if (metadata_of(region_ + packet.front().offset).flags & XG_PKT_AUDIT) [[unlikely]] {
      xg_result let_go{};
      let_go.verdict = XG_PASS;
      const u64 passed = counters.passed;
      decide(packet, {&let_go, nullptr, nullptr, nullptr}, from, now_ns);
      counters.would_drop += counters.passed - passed;
      return;
    }
    ++counters.dropped;
    if (result.flags & XG_RES_TOO_LONG) return drop_too_long(packet, judged.adjusts->longest, from, now_ns);
    if (result.flags & XG_RES_REFUSED) return drop_refused(packet, from);
    if (result.flags & kRejects) return drop_rejected(packet, result.flags, from, now_ns);
    give_up(packet);
    return;
  }
  if (action == XG_ABORTED && packet.front().flags & XG_DESC_EXPECT &&
      unparsed_.give({packet.front(), from.port}))
    return;
  if (action == XG_ABORTED || action > XG_REDIRECT) {
    ++counters.error_device;
    give_up(packet);
    return;
  }
  const Target to = target_of(result.verdict, from);
  if (!to || packet.size() > to.packet_buffers) {
    ++(to ? counters.error_too_long : counters.error_target);
    give_up(packet);
    return;
  }
  if (result.flags & XG_RES_PATCH) [[unlikely]]
    return send_patched(to, packet, judged, from);

  u8* frame = region_ + packet.front().offset;
  // A copy: what was checked is what is done.
  const xg_adjust adjust = result.flags & XG_RES_ADJUST ? *judged.adjusts : xg_adjust{};
  const bool adjusts = result.flags & XG_RES_ADJUST, pops = adjusts && !adjust.pushed;
  const xg_rewrite* outer = nullptr;
  if (adjust.pushed) {
    outer = outer_of(adjust, from, metadata_of(frame).generation);
    if (!outer) {
      ++counters.error_generation;
      give_up(packet);
      return;
    }
  }
  const bool fits = !adjusts || (outer ? fits_inside(region_, packet, adjust, *outer)
                                       : holds_inner(region_, packet, adjust));
  if (!fits) {
    ++counters.error_edit;
    give_up(packet);
    return;
  }
  // Of a packet that loses its outer headers the inner ones' checksums count.
  const bool repaired =
      !pops && from.traits.repair_checksums && complete_checksum(region_, packet, metadata_of(frame));
  if (repaired) ++counters.checksums_repaired;
  // A flow whose checksums want completing cannot be sent out by the kernel program, which would not.
  const bool sends = action != XG_PASS;
  if ((result.flags & XG_RES_CACHE) && !(sends && repaired)) {
    cache(packet, result, from, now_ns);
    routed_.moving = true;
  }
  if (result.flags & kRewrites) rewrite_frame(frame, result, *judged.edits);
  if (pops && result.flags & XG_RES_EDIT && judged.edits->sets & XG_EDIT_CE)
    mark_congestion(frame + metadata_of(frame).l3_offset + adjust.popped,
                    adjust.ether_type == XG_ETH_IPV4 ? 4 : 6);

  auto left = static_cast<u32>(packet.size());  // buffers that are sent
  if (pops)
    left = transmit_inner(to, packet, adjust, from);
  else if (!(outer ? transmit_inside(to, packet, *outer, adjust.flow_hash) : transmit(to, packet)))
    left = 0;
  if (!left) {
    ++(to.over ? counters.error_hand_over : counters.error_ring_full);
    give_up(packet);
    return;
  }
  if (outer) ++counters.encapsulated;
  if (pops) ++counters.decapsulated;
  note_sent(Packet(packet.data(), left), from.port, action);
  for (u32 i = left; i < packet.size(); ++i) free_.push(frame_of(packet[i].offset));
  routed_.passed |= action == XG_PASS;
  ++count_of(counters, action);
}

template <class Packet>
void Router::note_sent(Packet packet, u32 port, u32 action) noexcept {
  for (const xg_descriptor& buffer : packet) {
    const u32 place = free_.place(frame_of(buffer.offset));
    counted_as_[place] = static_cast<u8>(port | action << kPortBits);
    order_.sent(place);
  }
}

bool Router::send_answer(Transmitter& to, const xg_descriptor& answer) noexcept {
  if (!transmit({&to}, OneBuffer(&answer, 1))) return false;
  const u32 place = free_.place(frame_of(answer.offset));
  counted_as_[place] = 0;
  order_.sent(place);
  return true;
}

Router::Target Router::target_of(u32 verdict, const PortQueue& from) noexcept {
  switch (XG_VERDICT_ACTION(verdict)) {
    case XG_PASS:
      return {from.reinject ? &from.reinject->transmitter : nullptr};
    case XG_TX:
      return {&from.socket->transmitter};
    default: {
      const u32 port = XG_VERDICT_PORT(verdict);
      if (port >= queues_.size()) return {};
      if (PortQueue* queue = queues_[port])
        return {&queue->socket->transmitter, nullptr, queue->packet_buffers};
      HandOver* const over = others_[port];
      return {nullptr, over, over ? over->packet_buffers() : 0};
    }
  }
}

bool Router::caches_redirects(u32 port) const noexcept {
  if (const PortQueue* queue = queues_[port]) return queue->traits.cache_transmit;
  return others_[port]->caches();
}

template <class Packet>
bool Router::transmit(const Target& to, Packet packet) noexcept {
  if (to.over) [[unlikely]] {
    for (u32 i = 0; i < kFullRingTries; ++i) {
      if (to.over->push(packet)) return true;
      if (!tries_left_) break;
      --tries_left_;
      to.over->flush();
      collect();
    }
    return false;
  }
  if (to.ring->push(packet)) return true;
  return make_room(*to.ring, static_cast<u32>(packet.size())) && to.ring->push(packet);
}

template <class Packet>
bool Router::transmit_inside(const Target& to, Packet packet, const xg_rewrite& rewrite,
                             u32 flow_hash) noexcept {
  std::array<xg_descriptor, XG_PACKET_BUFFERS> moved;
  std::copy(packet.begin(), packet.end(), moved.begin());
  cover();
  const u32 bytes = encapsulate(region_ + packet.front().offset, rewrite, flow_hash);
  moved[0].offset -= bytes;
  moved[0].length += bytes;
  return transmit(to, Packet(moved.data(), packet.size()));
}

template <class Packet>
u32 Router::transmit_inner(const Target& to, Packet packet, const xg_adjust& adjust,
                           PortQueue& from) noexcept {
  std::array<xg_descriptor, XG_PACKET_BUFFERS> moved;
  const u32 left = decapsulate(region_, packet, adjust, moved.data());
  const Packet inner(moved.data(), left);
  if (from.traits.repair_checksums) {
    u8* const frame = region_ + inner.front().offset;
    xg_packet parsed;
    xg_parse_part(frame, frame + inner.front().length, bytes_of(inner), static_cast<u8>(from.port), &parsed);
    xg_metadata metadata{};
    xg_metadata_from(&metadata, &parsed, 0);
    if (complete_checksum(region_, inner, metadata)) ++from.counters->checksums_repaired;
  }
  return transmit(to, inner) ? left : 0;
}

// The kernel does not do the same with the flow's later packets: nothing is cached.
void Router::send_patched(const Target& to, Buffers packet, const Judged& judged, PortQueue& from) noexcept {
  constexpr u32 kOthers = XG_RES_EDIT | XG_RES_ADJUST | XG_RES_SWAP_MACS;
  xg_worker_counters& counters = *from.counters;
  const xg_result& result = *judged.results;
  // A copy: what was checked is what is done.
  xg_patch patch = *judged.patches;
  if (result.flags & kOthers || !fits_patch(packet, patch)) {
    ++counters.error_edit;
    give_up(packet);
    return;
  }
  u8* const frame = region_ + packet.front().offset;
  if (from.traits.repair_checksums)
    if (const Completed completed = complete_checksum(region_, packet, metadata_of(frame))) {
      ++counters.checksums_repaired;
      keep_checksum(patch, frame, completed);
    }
  if (patch.begin < XG_PATCH_BEFORE) cover();
  const xg_descriptor patched = apply_patch(region_, packet.front(), patch);
  const OneBuffer sent(&patched, 1);
  if (!transmit(to, sent)) {
    ++(to.over ? counters.error_hand_over : counters.error_ring_full);
    give_up(packet);
    return;
  }
  const u32 action = XG_VERDICT_ACTION(result.verdict);
  ++counters.patched;
  note_sent(sent, from.port, action);
  routed_.passed |= action == XG_PASS;
  ++count_of(counters, action);
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
  if (action == XG_REDIRECT && !caches_redirects(XG_VERDICT_PORT(result.verdict))) return;

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
