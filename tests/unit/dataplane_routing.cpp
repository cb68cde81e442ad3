// SPDX-License-Identifier: MIT
//
// Retirement against a model that goes packet by packet: batches of everything, over rings that are full now
// and then, ports of other workers, and a kernel that gives frames back in no order. Fates, bytes, order,
// counts and frames must be the model's.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <set>

#include "tests/unit/dataplane_routing_packets.hpp"
#include "userspace/dataplane/checksum.hpp"
#include "userspace/dataplane/dns_answer.hpp"
#include "userspace/dataplane/encapsulation.hpp"
#include "userspace/dataplane/metadata.hpp"
#include "userspace/dataplane/reject_answer.hpp"
#include "userspace/dataplane/router.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kPorts = 4;  // 0 and 1 are the worker's, 2 another one's, 3 nobody's
constexpr u32 kOwn = 2, kOther = 2;
constexpr u32 kRings = 4;  // each port's own, then each port's pair
constexpr u32 kFrames = 640, kCapacity = 400;
constexpr u32 kEntries = 4096;
constexpr u32 kCopies = 64;  // at most, more than are answered at once
constexpr u64 kNow = 1'000'000'000;

class Routing : public testing::TestWithParam<Settings> {
 protected:
  Routing()
      : random_(GetParam().seed),
        share_{64, kFrames, -1, random_() % 2 + 1},
        free_(share_),
        order_(kPorts, free_.span(), 0),
        handed_(kOther, 2, random_() % 2 == 0, share_, 64, [] {}),
        giver_(0, XG_PACKET_BUFFERS, false, FrameShare{1800, 64, -1, 1}, 64, [] {}),
        rewrites_(XG_REWRITE_ENTRIES) {
    const Settings& s = GetParam();
    for (u32 i = 0; i < kRings; ++i) wires_.push_back(std::make_unique<Wire>(s.ring));
    verdicts_.resize(kOwn * kEntries);
    stats_.resize(kOwn * kEntries);
    xg_rewrite& outer = rewrites_[XG_REWRITE_INDEX(kRewrite, kGeneration)];
    outer.generation = kGeneration;
    outer.flags = XG_REWRITE_ENCAPSULATE;
    outer.outer_family = 4;
    outer.mtu = 1500;
    outer.outer_src[0] = 0x0100000a;
    outer.outer_dst[0] = 0x0200000a;
    std::vector<PortQueue*> queues(kPorts);
    for (u32 port = 0; port < kOwn; ++port) {
      queues_.push_back(make_queue(port));
      queues[port] = queues_.back().get();
    }
    router_.emplace(region_.base(), queues, free_, unparsed_, order_);
    router_->hand_over_to(handed_);
    if (s.gives) router_->take_from(giver_);
    router_->leave_publishing_to_device(s.published);
    for (u32 i = 0; i < 64; ++i) others_.push_back(1800 + i);
    for (u32 i = 0; i < free_.size(); ++i) model_free_.insert(free_.storage()[i]);
    descriptors_.resize(kCapacity);
    results_.resize(kCapacity);
    edits_.resize(kCapacity);
    adjusts_.resize(kCapacity);
    patches_.resize(kCapacity);
    slot_.descriptors = descriptors_.data();
    slot_.results = results_.data();
    slot_.edits = edits_.data();
    slot_.adjusts = adjusts_.data();
    slot_.patches = patches_.data();
    slot_.capacity = kCapacity;
    batch_.slot = &slot_;
    batch_.generation = kGeneration;
    batch_.ports.resize(kCapacity);
    batch_.arrivals.resize(kCapacity);
  }

  std::unique_ptr<PortQueue> make_queue(u32 port) {
    const Settings& s = GetParam();
    const std::size_t from = std::size_t{port} * kEntries;
    std::unique_ptr<PortQueue> queue(new PortQueue{
        .traits = {.repair_checksums = s.repairs && random_() % 2 == 0, .cache_transmit = random_() % 2 == 0},
        .socket = open(*wires_[port]),
        .reinject = {},
        .flows = gpu::FlowTable(std::span(verdicts_).subspan(from, kEntries),
                                std::span(stats_).subspan(from, kEntries)),
        .metadata = MetadataProbe(static_cast<u8>(port), 0),
        .credits = Credits(0, 64)});
    if (s.plain || port == 0 || random_() % 2) queue->reinject = open(*wires_[kOwn + port]);
    queue->port = port;
    queue->packet_buffers = 3;
    queue->counters = &counters_[port];
    queue->rewrites = rewrites_.data();
    return queue;
  }
  static std::unique_ptr<Socket> open(Wire& wire) {
    auto socket = Socket::over_memory();
    wire.tx.map(socket->transmitter.tx, true);
    wire.completion.map(socket->transmitter.completion, false);
    return socket;
  }

  // ---- batches

  u32 below(u32 limit) { return random_() % limit; }
  u64 now() const { return kNow + batches_ * u64{5'000'000}; }  // for five answers of each kind a batch
  u8* chunk(u64 offset) { return region_.base() + offset / XG_CHUNK_SIZE * XG_CHUNK_SIZE; }

  void fill_batch() {
    const Settings& s = GetParam();
    batch_.count = batch_.later = 0;
    batch_.port_mask = batch_.arrivals_count = 0;
    batch_.audit = false;
    batch_.outcome = below(40) == 0 ? Outcome::device_failed : Outcome::decided;
    slot_.standby = !s.plain && below(16) == 0;
    ++batches_;
    const u32 size = below(4) ? below(kCapacity) : below(8);
    const bool one_port = below(2);
    u32 port = below(kOwn);
    while (batch_.count < size && free_.size() > XG_PACKET_BUFFERS) {
      if (!one_port && below(20) == 0) port = below(kOwn);
      if (!s.plain && below(30) == 0) {
        const u64 at = chunk_of(free_.pop()) + XG_FRAME_DATA;
        queues_[port]->batch_later(1);
        batch_.add_egress(at, 100, static_cast<u8>(port));
        continue;
      }
      u32 buffers = s.plain || below(8) ? 1 : 1 + below(4);
      buffers = std::min(buffers, kCapacity - batch_.count);
      const u64 at = chunk_of(free_.pop()) + XG_FRAME_DATA;
      const u32 readable = 60 + below(100), length = readable + (buffers - 1) * 100;
      const bool tunnels = !s.plain && length >= 64 && below(buffers == 1 ? 8 : 2) == 0;
      const u32 inner = !tunnels ? 0 : below(2) ? length - 34 : 28 + below(length - 34 - 27);
      packets_.write(region_.base() + at, readable, length, port, batches_, inner);
      const AnyResult any = packets_.any_result(readable, length, inner);
      results_[batch_.count] = any.result;
      edits_[batch_.count] = any.edit;
      adjusts_[batch_.count] = any.adjust;
      fits_[batch_.count] = any.fits;
      if (any.result.flags & XG_RES_PATCH)
        patches_[batch_.count] = packets_.any_patch(region_.base() + at, readable, fits_[batch_.count]);
      batch_.add(at, readable, static_cast<u8>(port),
                 *reinterpret_cast<const xg_metadata*>(region_.base() + at - XG_METADATA_SIZE));
      // Nobody has read its metadata, which the device may find to be another packet's.
      if (buffers == 1 && below(2))
        descriptors_[batch_.count - 1].flags = XG_DESC_EXPECTED(port, packets_.flows());
      ++received_[port];
      for (u32 i = 1; i < buffers; ++i) {
        queues_[port]->batch_later(1);
        batch_.extend(chunk_of(free_.pop()) + XG_FRAME_DATA, 100);
      }
    }
    for (u32 i = 0; i < batch_.count; ++i) model_free_.erase(frame_of(descriptors_[i].offset));
  }
  // ---- the model

  void model_batch(const std::vector<u8>& before) {
    copy_ = before;
    copy_.resize(before.size() + std::size_t{kCopies} * XG_CHUNK_SIZE);
    passed_ = moving_ = false;
    published_ = GetParam().published && !slot_.standby;
    const u32 mark = batches_;
    for (u32 i = 0; i < batch_.count; ++i) {
      if (!Batch::is_received(batch_.ports[i])) {
        model_free_.insert(frame_of(descriptors_[i].offset));
        continue;
      }
      const Buffers packet = packet_at(descriptors_.data() + i);
      if (batch_.outcome != Outcome::decided) {
        ++model_[batch_.ports[i]].error_device;
        model_give_up(packet);
      } else {
        model_packet({packet, results_[i], edits_[i], adjusts_[i], patches_[i], fits_[i], batch_.ports[i]});
      }
      i += static_cast<u32>(packet.size()) - 1;
    }
    for (const FrameId frame : sent_now_) under_way_.emplace_back(mark, frame);
    sent_now_.clear();
  }
  u8* model_base() { return copy_.data() + (region_.base() - region_.bytes.data()); }
  void model_give_up(Buffers packet) {
    for (const xg_descriptor& buffer : packet) model_free_.insert(frame_of(buffer.offset));
  }
  void model_refuse(const Received& r, u8* frame) {
    const xg_descriptor first = r.packet.front();
    const auto length =
        r.packet.size() == 1 ? answer_no_such_domain(frame, first.length) : std::optional<u32>();
    if (!length || !model_send(wires_[r.port].get(), {{first.offset, *length, 0}}, 0))
      return model_give_up(r.packet);
    ++model_[r.port].refused_answered;
  }
  void model_reject(const Received& r, u8* frame) {
    const bool sender = r.result.flags & XG_RES_REJECT_SENDER;
    const bool receiver = r.result.flags & XG_RES_REJECT_RECEIVER && queues_[r.port]->reinject;
    const xg_descriptor first = r.packet.front();
    const u32 bytes = bytes_of(r.packet), room = XG_CHUNK_SIZE - XG_FRAME_DATA;
    model_give_up(r.packet.subspan(1));
    bool told = false, sent = false;
    if ((sender || receiver) && rejections_.take(now())) {
      const auto tell = [&](const xg_descriptor& one, Told whom) {
        const auto length = answer_rejected(model_base() + one.offset, one.length, bytes, room, whom);
        Wire* const to = wires_[(whom == Told::sender ? 0 : kOwn) + r.port].get();
        if (!length || !model_send(to, {{one.offset, *length, 0}}, 0)) return false;
        if (whom == Told::receiver) passed_ = true;
        return true;
      };
      // Which of the free frames is taken, name_copies() finds.
      if (sender && receiver && model_free_.size() > copies_) {
        const xg_descriptor copy{chunk_of(kChunks + copies_) + XG_FRAME_DATA, first.length, 0};
        std::copy_n(frame, first.length, model_base() + copy.offset);
        told = tell(copy, Told::receiver);
        copies_ += told;
      }
      sent = tell(first, sender ? Told::sender : Told::receiver);
      if (told || sent) ++model_[r.port].rejected_answered;
      rejected_both_ += told && sent;
    }
    if (!sent) model_free_.insert(frame_of(first.offset));
  }
  // The free frames in which the router has answered a second time: they hold what they should.
  void name_copies() {
    for (auto& wire : wires_) {
      ASSERT_EQ(wire->tx.waiting(), wire->expected.size());
      for (u32 i = 0; i < wire->tx.waiting(); ++i) {
        xdp_desc& should = wire->expected[i];
        const FrameId copy = frame_of(should.addr), frame = frame_of(wire->tx.next(i).addr);
        if (copy < kChunks) continue;
        ASSERT_EQ(model_free_.erase(frame), 1u);
        ASSERT_EQ(wire->tx.next(i).addr, chunk_of(frame) + XG_FRAME_DATA);
        const u8* const is = region_.base() + wire->tx.next(i).addr;
        ASSERT_TRUE(std::equal(is, is + should.len, model_base() + should.addr));
        std::copy_n(chunk(chunk_of(frame)), XG_CHUNK_SIZE, model_base() + chunk_of(frame));
        should.addr = wire->tx.next(i).addr;
        counted_as_[frame] = 0;
        for (auto& [batch, sent] : under_way_)
          if (sent == copy) sent = frame;
      }
    }
    copies_ = 0;
  }
  const xg_metadata& model_metadata(Buffers packet) {
    return *reinterpret_cast<const xg_metadata*>(model_base() + packet.front().offset - XG_METADATA_SIZE);
  }

  void model_cache(const Received& r) {
    xg_worker_counters& c = model_[r.port];
    if (published_) {
      if (r.result.flags & XG_RES_PUBLISHED) ++c.flows_cached;
      if (r.result.flags & XG_RES_EVICTED) ++c.flows_evicted;
      return;
    }
    if (model_metadata(r.packet).flags & XG_PKT_UNCACHED) return;
    const u32 action = XG_VERDICT_ACTION(r.result.verdict), port = XG_VERDICT_PORT(r.result.verdict);
    if (action == XG_TX && !queues_[r.port]->traits.cache_transmit) return;
    if (action == XG_REDIRECT && !(port < kOwn ? queues_[port]->traits.cache_transmit : handed_.caches()))
      return;
    const u8* frame = model_base() + r.packet.front().offset;
    xg_packet parsed;
    xg_parse_part(frame, frame + r.packet.front().length, bytes_of(r.packet), static_cast<u8>(r.port),
                  &parsed);
    if (xg_has_flow(&parsed)) ++c.flows_cached;  // no flow has come before
  }

  // False: there is no room.
  bool model_send(Wire* to, std::vector<xg_descriptor> packet, u8 as) {
    const auto count = static_cast<u32>(packet.size());
    if (to ? to->room < count : handed_room_ < count) return false;
    (to ? to->room : handed_room_) -= count;
    for (u32 i = 0; i < count; ++i) {
      const bool last = i + 1 == count;
      if (to)
        to->expected.push_back({packet[i].offset, packet[i].length, last ? 0 : kContinued});
      else
        handed_expected_.push_back({packet[i].offset, packet[i].length, last ? 0u : 1u});
      counted_as_[frame_of(packet[i].offset)] = as;
      sent_now_.push_back(frame_of(packet[i].offset));
    }
    return true;
  }

  void model_packet(const Received& r) {
    xg_worker_counters& c = model_[r.port];
    const u32 action = XG_VERDICT_ACTION(r.result.verdict), port = XG_VERDICT_PORT(r.result.verdict);
    u8* const frame = model_base() + r.packet.front().offset;
    if (action == XG_DROP) {
      if (r.result.flags & XG_RES_CACHE) model_cache(r);
      if (model_metadata(r.packet).flags & XG_PKT_AUDIT) {
        xg_result pass{};
        pass.verdict = XG_PASS;
        const u64 before = c.passed;
        model_packet({r.packet, pass, {}, {}, r.patch, true, r.port});
        c.would_drop += c.passed - before;
        return;
      }
      ++c.dropped;
      if (r.result.flags & XG_RES_REFUSED) return model_refuse(r, frame);
      if (r.result.flags & (XG_RES_REJECT_SENDER | XG_RES_REJECT_RECEIVER)) return model_reject(r, frame);
      if (!(r.result.flags & XG_RES_TOO_LONG)) return model_give_up(r.packet);
      ++c.too_long;
      std::optional<Answer> answer;
      if (answers_.take(now())) answer = answer_too_long(frame, r.packet.front().length, r.adjust.longest);
      const xg_descriptor first = r.packet.front();
      if (!answer ||
          !model_send(wires_[r.port].get(), {{first.offset - answer->earlier, answer->length, 0}}, 0))
        return model_give_up(r.packet);
      model_give_up(r.packet.subspan(1));
      ++c.too_long_answered;
      return;
    }
    if (action == XG_ABORTED && r.packet.front().flags & XG_DESC_EXPECT) {
      model_unparsed_.push_back(r.packet.front());
      return;
    }
    if (action == XG_ABORTED || action > XG_REDIRECT) {
      ++c.error_device;
      return model_give_up(r.packet);
    }
    Wire* to = nullptr;
    u32 most = XG_PACKET_BUFFERS;
    bool there = true;
    if (action == XG_PASS) {
      to = queues_[r.port]->reinject ? wires_[kOwn + r.port].get() : nullptr;
      there = to;
    } else if (action == XG_TX) {
      to = wires_[r.port].get();
    } else if (port < kOwn) {
      to = wires_[port].get();
      most = 3;
    } else {
      there = port == kOther;
      most = 2;
    }
    if (!there || r.packet.size() > most) {
      ++(there ? c.error_too_long : c.error_target);
      return model_give_up(r.packet);
    }
    if (r.result.flags & XG_RES_PATCH) return model_patched(r, to);
    const bool adjusts = r.result.flags & XG_RES_ADJUST;
    const bool outer = adjusts && r.adjust.pushed, inner = adjusts && !outer;
    if (outer && r.adjust.outer != kRewrite) {
      ++c.error_generation;
      return model_give_up(r.packet);
    }
    if (adjusts && !r.fits) {
      ++c.error_edit;
      return model_give_up(r.packet);
    }
    const bool repairs = queues_[r.port]->traits.repair_checksums;
    const bool repaired =
        repairs && !inner && complete_checksum(model_base(), r.packet, model_metadata(r.packet));
    if (repaired) ++c.checksums_repaired;
    if (r.result.flags & XG_RES_CACHE && !(action != XG_PASS && repaired)) {
      model_cache(r);
      moving_ = true;
    }
    if (r.result.flags & XG_RES_EDIT) apply_edit(frame, r.edit);
    if (r.result.flags & XG_RES_SWAP_MACS) std::swap_ranges(frame, frame + 6, frame + 6);
    std::vector<xg_descriptor> packet(r.packet.begin(), r.packet.end());
    if (outer) {
      const u32 bytes =
          encapsulate(frame, rewrites_[XG_REWRITE_INDEX(kRewrite, kGeneration)], r.adjust.flow_hash);
      packet[0].offset -= bytes;
      packet[0].length += bytes;
    }
    std::vector<xg_descriptor> cut;
    if (inner) {
      u8 header[14];
      std::copy_n(frame, 12, header);
      header[12] = 8, header[13] = 0;
      std::copy_n(header, 14, frame + 20);
      if (r.result.flags & XG_RES_EDIT && r.edit.sets & XG_EDIT_CE) mark_congestion(frame + 34, 4);
      packet[0].offset += 20;
      packet[0].length -= 20;
      u32 left = 14 + r.adjust.ip_bytes;
      for (xg_descriptor& buffer : packet) left -= buffer.length = std::min(buffer.length, left);
      for (; packet.back().length == 0; packet.pop_back()) cut.push_back(packet.back());
      xg_metadata of_inner;
      parse_metadata(frame + 20, packet[0].length, 14 + r.adjust.ip_bytes, static_cast<u8>(r.port),
                     xg_hash_keys_from(1, 2), 0, 1, &of_inner);
      if (repairs && complete_checksum(model_base(), packet, of_inner)) ++c.checksums_repaired;
    }
    if (!model_leave(r, to, packet)) return;
    if (outer) ++c.encapsulated;
    if (inner) ++c.decapsulated;
    model_give_up(cut);
    decapsulated_ += inner;
    refitted_ += !cut.empty();
  }
  // Whether there was room.
  bool model_leave(const Received& r, Wire* to, const std::vector<xg_descriptor>& packet) {
    xg_worker_counters& c = model_[r.port];
    const u32 action = XG_VERDICT_ACTION(r.result.verdict);
    if (!model_send(to, packet, static_cast<u8>(1 + r.port * 8 + action))) {
      ++(to ? c.error_ring_full : c.error_hand_over);
      model_give_up(r.packet);
      return false;
    }
    if (action == XG_PASS) passed_ = true;
    ++(action == XG_PASS ? c.passed : action == XG_TX ? c.transmitted : c.redirected);
    return true;
  }
  void model_patched(const Received& r, Wire* to) {
    xg_worker_counters& c = model_[r.port];
    if (r.result.flags & (XG_RES_EDIT | XG_RES_SWAP_MACS | XG_RES_ADJUST) || r.packet.size() != 1 ||
        !r.fits) {
      ++c.error_edit;
      return model_give_up(r.packet);
    }
    const xg_descriptor came = r.packet.front();
    u8* const frame = model_base() + came.offset;
    const std::vector<u8> before(frame, frame + came.length);
    Completed completed;
    if (queues_[r.port]->traits.repair_checksums)
      completed = complete_checksum(model_base(), r.packet, model_metadata(r.packet));
    if (completed) ++c.checksums_repaired;
    const std::vector<u8> packet = patched(before, frame, completed.field, r.patch);
    const u64 begin = came.offset + r.patch.begin - XG_PATCH_BEFORE;
    std::copy(packet.begin(), packet.end(), model_base() + begin);
    if (model_leave(r, to, {{begin, static_cast<u32>(packet.size()), 0}})) ++c.patched;
  }

  void model_lost(FrameId frame) {
    const u32 as = std::exchange(counted_as_[frame], 0);
    if (!as) return;
    xg_worker_counters& c = model_[(as - 1) / 8];
    const u32 action = (as - 1) % 8;
    --(action == XG_PASS ? c.passed : action == XG_TX ? c.transmitted : c.redirected);
    ++c.error_refused;
  }

  // ---- what goes on between batches

  void send_some(Wire& wire, bool all) {
    u32 count = std::min(wire.tx.waiting(), all ? ~0u : below(wire.tx.waiting() + 1));
    ASSERT_EQ(wire.tx.waiting(), wire.expected.size());
    for (u32 i = 0; i < count; ++i) {
      const xdp_desc& is = wire.tx.next(i);
      const xdp_desc& should = wire.expected.front();
      ASSERT_EQ(is.addr, should.addr);
      ASSERT_EQ(is.len, should.len);
      ASSERT_EQ(is.options, should.options);
      wire.sent.push_back(frame_of(is.addr));
      wire.expected.pop_front();
    }
    wire.tx.consume(count);
    wire.room += count;
    std::shuffle(wire.sent.begin(), wire.sent.end(), engine_);
    count = std::min({static_cast<u32>(wire.sent.size()), wire.completion.room(),
                      all ? ~0u : below(static_cast<u32>(wire.sent.size()) + 1)});
    for (u32 i = 0; i < count; ++i) {
      const FrameId frame = wire.sent.back();
      wire.sent.pop_back();
      wire.completion.place(i) = chunk_of(frame) + XG_FRAME_DATA;
      model_over(frame);
    }
    wire.completion.produce(count);
  }
  void model_over(FrameId frame) {
    if (!free_.owns(frame)) return;  // it is another worker's
    model_free_.insert(frame);
    std::erase_if(under_way_, [&](const auto& one) { return one.second == frame; });
  }

  // The other worker, to which packets are handed.
  void take_some(bool all) {
    handed_.take([&](const Buffers& packet) {
      if (!all && below(8) == 0) return false;
      for (const xg_descriptor& buffer : packet) {
        EXPECT_FALSE(handed_expected_.empty());
        EXPECT_EQ(buffer.offset, handed_expected_.front().offset);
        EXPECT_EQ(buffer.length, handed_expected_.front().length);
        EXPECT_EQ(buffer.flags, handed_expected_.front().flags);
        handed_expected_.pop_front();
        taken_.push_back(frame_of(buffer.offset));
      }
      return true;
    });
    for (u32 n = all ? ~0u : below(64); n && !taken_.empty(); --n) {
      const bool lost = below(8) == 0;
      if (lost) model_lost(taken_.back());
      handed_.give_back(taken_.back(), lost);
      model_over(taken_.back());
      taken_.pop_back();
      ++handed_room_;
    }
  }

  // And one that hands packets to this one.
  void give_some() {
    giver_.collect([&](FrameId frame, bool) { others_.push_back(frame); });
    for (u32 n = below(16); n && !others_.empty(); --n) {
      const xg_descriptor one{chunk_of(others_.back()) + XG_FRAME_DATA, 77, 0};
      if (!giver_.push(OneBuffer(&one, 1))) break;
      others_.pop_back();
      given_.push_back({one.offset, one.length, 0});
    }
    giver_.flush();
    router_->serve_others();
    for (Wire& to = *wires_[0]; to.room && !given_.empty(); --to.room) {
      to.expected.push_back(given_.front());
      given_.pop_front();
    }
  }

  // What is to be judged once more goes to whoever feeds, and is dropped here.
  void take_unparsed() {
    for (; const Unparsed* one = unparsed_.oldest(); unparsed_.take()) {
      ASSERT_FALSE(model_unparsed_.empty());
      ASSERT_EQ(one->packet.offset, model_unparsed_.front().offset);
      ASSERT_EQ(one->packet.length, model_unparsed_.front().length);
      ASSERT_EQ(one->packet.flags, model_unparsed_.front().flags);
      ASSERT_EQ(one->packet.flags >> 2 & 31, one->port);
      model_unparsed_.pop_front();
      --received_[one->port];
      const FrameId frame = frame_of(one->packet.offset);
      free_.push(frame);
      model_free_.insert(frame);
    }
    ASSERT_TRUE(model_unparsed_.empty());
  }

  void expect_same(const char* when) {
    ASSERT_EQ(free_.size(), model_free_.size()) << when;
    std::vector<FrameId> free(free_.storage().begin(), free_.storage().begin() + free_.size());
    std::sort(free.begin(), free.end());
    ASSERT_TRUE(std::equal(free.begin(), free.end(), model_free_.begin())) << when;
    for (u32 port = 0; port < kOwn; ++port) {
      xg_worker_counters is = counters_[port], should = model_[port];
      // Of what the worker publishes, the table's own test says.
      if (!GetParam().published || !GetParam().plain) is.flows_evicted = should.flows_evicted = 0;
      ASSERT_EQ(is.dropped, should.dropped) << when;
      ASSERT_EQ(is.transmitted, should.transmitted) << when;
      ASSERT_EQ(is.redirected, should.redirected) << when;
      ASSERT_EQ(is.passed, should.passed) << when;
      ASSERT_EQ(is.error_ring_full, should.error_ring_full) << when;
      ASSERT_EQ(is.flows_cached, should.flows_cached) << when;
      ASSERT_EQ(is.would_drop, should.would_drop) << when;
      ASSERT_EQ(std::memcmp(&is, &should, sizeof(is)), 0) << when;
      is.received = received_[port];
      ASSERT_EQ(packets_over(is), received_[port]) << when;
    }
  }

  bool same_bytes(u64 offset) {
    const u64 at = offset / XG_CHUNK_SIZE * XG_CHUNK_SIZE;
    return std::memcmp(region_.base() + at, model_base() + at, XG_CHUNK_SIZE) == 0;
  }

  // No packet has left before its frames have come back, and all before it.
  void expect_order() {
    order_.advance(now(), [&](u32 port, u32 next) { left_[port] = std::max(left_[port], next); });
    u32 oldest = batches_ + 1;
    for (const auto& [batch, frame] : under_way_) oldest = std::min(oldest, batch);
    for (u32 port = 0; port < kOwn; ++port) ASSERT_LE(left_[port], oldest);
    if (under_way_.empty()) {
      ASSERT_TRUE(order_.empty());
    }
  }

  Random random_;
  RoutedPackets packets_{random_, GetParam()};
  std::mt19937 engine_{1};
  Region region_;
  FrameShare share_;
  FreeList free_;
  UnparsedRing unparsed_;
  OrderLog order_;
  HandOver handed_, giver_;
  std::vector<xg_rewrite> rewrites_;
  std::vector<std::unique_ptr<Wire>> wires_;
  std::vector<xg_flow_verdict> verdicts_;
  std::vector<xg_flow_stats> stats_;
  std::array<xg_worker_counters, kOwn> counters_{}, model_{};
  std::vector<std::unique_ptr<PortQueue>> queues_;
  std::optional<Router> router_;
  std::vector<xg_descriptor> descriptors_;
  std::vector<xg_result> results_;
  std::vector<xg_edit> edits_;
  std::vector<xg_adjust> adjusts_;
  std::vector<xg_patch> patches_;
  std::array<bool, kCapacity> fits_{};
  gpu::Slot slot_{};
  Batch batch_;
  u32 batches_ = 0;
  u32 decapsulated_ = 0, refitted_ = 0;  // packets; those of fewer buffers than they came in
  std::array<u64, kOwn> received_{};
  std::array<u32, kOwn> left_{};
  // The model's.
  std::vector<u8> copy_;
  std::set<FrameId> model_free_;
  AnswerLimit answers_, rejections_;
  u32 copies_ = 0;         // of the batch under way: packets that are answered twice
  u32 rejected_both_ = 0;  // packets
  bool passed_ = false, moving_ = false, published_ = false;
  u32 handed_room_ = 64;
  std::deque<xg_descriptor> handed_expected_;
  std::deque<xg_descriptor> model_unparsed_;
  std::vector<FrameId> taken_, others_, sent_now_;
  std::deque<xdp_desc> given_;
  std::array<u32, kChunks + kCopies> counted_as_{};
  std::vector<std::pair<u32, FrameId>> under_way_;  // batch and frame
};

TEST_P(Routing, EveryPacketsFateIsTheModels) {
  u64 most_sent = 0;
  for (u32 round = 0; round < 100; ++round) {
    SCOPED_TRACE(testing::Message() << "round " << round);
    for (auto& wire : wires_) ASSERT_NO_FATAL_FAILURE(send_some(*wire, below(4) == 0));
    take_some(false);
    if (GetParam().gives) give_some();
    router_->collect();
    ASSERT_NO_FATAL_FAILURE(expect_same("between batches"));
    ASSERT_NO_FATAL_FAILURE(expect_order());

    fill_batch();
    model_batch(region_.bytes);
    order_.begin();
    const Routed routed = router_->route(batch_, now());
    order_.end(batch_.port_mask, batch_.next_sequence, routed.passed);
    ASSERT_NO_FATAL_FAILURE(name_copies());
    ASSERT_NO_FATAL_FAILURE(take_unparsed());
    ASSERT_NO_FATAL_FAILURE(expect_same("after a batch"));
    ASSERT_EQ(routed.passed, passed_);
    ASSERT_EQ(routed.moving, moving_);
    for (auto& wire : wires_) {
      ASSERT_EQ(wire->tx.waiting(), wire->expected.size());
      for (u32 i = 0; i < wire->tx.waiting(); ++i) {
        ASSERT_EQ(wire->tx.next(i).addr, wire->expected[i].addr) << i;
        ASSERT_EQ(wire->tx.next(i).len, wire->expected[i].len) << i;
        ASSERT_EQ(wire->tx.next(i).options, wire->expected[i].options) << i;
        ASSERT_TRUE(same_bytes(wire->expected[i].addr)) << "what was written over a frame";
      }
    }
    for (const xg_descriptor& one : handed_expected_) ASSERT_TRUE(same_bytes(one.offset));
    const u64 out = router_->frames_out();
    ASSERT_EQ(free_.size() + out, kFrames);
    ASSERT_NO_FATAL_FAILURE(expect_order());
    most_sent = std::max(most_sent, out);
  }
  if (GetParam().one_way != XG_DROP) {
    EXPECT_GT(most_sent, 50u);
  }
  if (!GetParam().plain) {
    EXPECT_GT(decapsulated_, 50u);
    EXPECT_GT(refitted_, 3u);
    EXPECT_GT(model_[0].error_edit, 20u);
    EXPECT_GT(model_[0].patched, 50u);
    EXPECT_GT(model_[0].rejected_answered, 20u);
    EXPECT_GT(rejected_both_, 10u);
  }

  // What stands in a ring when nobody kicks any more is lost, and nothing else.
  for (auto& wire : wires_)
    for (const xdp_desc& one : wire->expected)
      if (!(one.options & kContinued)) model_lost(frame_of(one.addr));
  router_->abandon();
  expect_same("abandoned");
  for (auto& wire : wires_)
    while (wire->tx.waiting() || !wire->sent.empty()) {
      ASSERT_NO_FATAL_FAILURE(send_some(*wire, true));
      router_->collect();
    }
  take_some(true);
  router_->collect();
  expect_same("at the end");
  EXPECT_EQ(free_.size(), kFrames);
  expect_order();
}

std::vector<Settings> all_settings() {
  std::vector<Settings> out;
  for (u32 seed = 1; seed <= 4; ++seed)
    for (const bool plain : {true, false})
      for (const bool published : {true, false})
        for (u32 how = 0; how < 4; ++how)
          out.push_back({.seed = seed * 100 + how,
                         .plain = plain,
                         .audit = how == 1,
                         .repairs = how == 2,
                         .gives = how == 3,
                         .published = published,
                         .ring = seed % 2 ? 64u : 512u});
  for (const u32 action : {XG_DROP, XG_PASS, XG_TX, XG_REDIRECT})
    out.push_back({.seed = 7, .plain = true, .ring = 256, .one_way = action});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Batches, Routing, testing::ValuesIn(all_settings()));

}  // namespace
}  // namespace xdpgpu::dataplane
