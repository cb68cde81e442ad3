// SPDX-License-Identifier: MIT
//
// Retirement of datagrams that were put together: what the device says of the whole is done to each fragment,
// between the packets that stood beside it in its batch. And what is sent once for a packet that a rule
// rejects, be it a datagram.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "bench/worker/rings.hpp"
#include "tests/kernel/frame.hpp"
#include "userspace/dataplane/router.hpp"

namespace xdpgpu::dataplane {
namespace {

using namespace xdpgpu::test;  // frames

constexpr u32 kFrames = 32;

class RoutingFragments : public testing::Test {
 protected:
  RoutingFragments()
      : region_(std::size_t{kFrames} * XG_CHUNK_SIZE),
        share_{0, kFrames, -1, 1},
        free_(share_),
        order_(1, free_.span(), 0),
        tx_(16),
        completion_(16),
        pair_tx_(16),
        pair_completion_(16),
        entries_(64),
        stats_(64),
        queue_(PortQueue{.traits = {.cache_transmit = true},
                         .socket = Socket::over_memory(),
                         .reinject = Socket::over_memory(),
                         .counters = &counters_,
                         .flows = gpu::FlowTable(entries_, stats_),
                         .metadata = MetadataProbe(0, 0),
                         .credits = Credits(0, 64)}) {
    tx_.map(queue_.socket->transmitter.tx, true);
    completion_.map(queue_.socket->transmitter.completion, false);
    pair_tx_.map(queue_.reinject->transmitter.tx, true);
    pair_completion_.map(queue_.reinject->transmitter.completion, false);
    queue_.packet_buffers = 3;
    queue_.rewrites = rewrites_.data();
    router_.emplace(region_.data(), std::vector<PortQueue*>{&queue_}, free_, unparsed_, order_);
    slot_.descriptors = descriptors_.data();
    slot_.results = results_.data();
    slot_.edits = edits_.data();
    slot_.adjusts = adjusts_.data();
    slot_.patches = patches_.data();
    slot_.capacity = 16;
    batch_.slot = &slot_;
    batch_.generation = 1;
    batch_.ports.resize(16);
    batch_.arrivals.resize(16);
    batch_.assembled.resize(16);
    batch_.fragments.resize(16);
  }

  // In frames of the free list, of so many bytes.
  std::vector<xg_descriptor> place(const Frame& frame, std::size_t buffer = XG_FRAME_MAX) {
    std::vector<xg_descriptor> packet;
    for (std::size_t at = 0; at < frame.size(); at += buffer) {
      const u64 offset = chunk_of(free_.pop()) + XG_FRAME_DATA;
      const std::size_t bytes = std::min(buffer, frame.size() - at);
      std::memcpy(&region_[offset], &frame[at], bytes);
      if (!packet.empty()) packet.back().flags = XG_DESC_MORE;
      packet.push_back({offset, static_cast<u32>(bytes), 0});
    }
    xg_packet parsed;
    xg_parse_part(frame.data(), frame.data() + packet[0].length, static_cast<u32>(frame.size()), 0, &parsed);
    xg_metadata metadata{};
    xg_metadata_from(&metadata, &parsed, 0);
    metadata.flags |= parsed.flags & XG_PKT_FRAGMENT ? XG_PKT_TRACKED : 0;
    metadata.generation = 1;
    metadata.router = XG_ROUTER_ALL;
    std::memcpy(&region_[packet[0].offset - XG_METADATA_SIZE], &metadata, sizeof(metadata));
    return packet;
  }
  void add_plain(const Frame& frame) {
    const auto packet = place(frame);
    batch_.add(packet[0].offset, packet[0].length, 0, {});
  }
  // Three fragments, the second of which stands in two buffers. -> the headers' descriptor in the batch.
  u32 add_datagram() {
    fragments_.clear();
    std::vector<xg_descriptor> made_of;
    for (const auto& [start, end, more] :
         {std::tuple{0u, 400u, true}, {400u, 1000u, true}, {1000u, 1096u, false}}) {
      fragments_.push_back(ethernet() +
                           ipv4({.id = 7, .fragment = static_cast<u16>(start / 8 | (more ? 0x2000 : 0))},
                                bytes(end - start, static_cast<u8>(start / 8))));
      for (const xg_descriptor& one : place(fragments_.back(), start == 400 ? 500 : XG_FRAME_MAX))
        made_of.push_back(one);
    }
    std::vector<xg_descriptor> packet = place(ethernet() + ipv4({.id = 7}, udp(1000, 53)));
    packet[0].flags = XG_DESC_MORE;
    packet.push_back({made_of[0].offset + 42, 392, XG_DESC_MORE});
    packet.push_back({made_of[3].offset + 34, 96, 0});  // as if the others overlapped
    const u32 at = batch_.count;
    batch_.add_assembled(packet, made_of, 0, 1000, 9);
    return at;
  }
  // What is sent out of the port, or passed to the stack, and given back.
  std::vector<Frame> sent() { return taken_from(tx_, completion_); }
  std::vector<Frame> passed() { return taken_from(pair_tx_, pair_completion_); }
  std::vector<Frame> taken_from(bench::MemoryRing<xdp_desc>& tx, bench::MemoryRing<u64>& completion) {
    std::vector<Frame> frames(1);
    for (u32 i = 0; i < tx.waiting(); ++i) {
      const xdp_desc& one = tx.next(i);
      frames.back().insert(frames.back().end(), &region_[one.addr], &region_[one.addr] + one.len);
      if (!(one.options & kContinued)) frames.emplace_back();
      completion.place(i) = one.addr;
    }
    frames.pop_back();
    const u32 count = tx.waiting();
    tx.consume(count);
    completion.produce(count);
    router_->collect();
    return frames;
  }
  Routed route() {
    order_.begin();
    const Routed routed = router_->route(batch_, 1'000'000'000);
    order_.end(batch_.port_mask, batch_.next_sequence, routed.passed);
    return routed;
  }
  static Frame swapped(Frame frame) {
    std::rotate(frame.begin(), frame.begin() + 6, frame.begin() + 12);
    return frame;
  }

  std::vector<u8> region_;
  FrameShare share_;
  FreeList free_;
  OrderLog order_;
  UnparsedRing unparsed_;
  bench::MemoryRing<xdp_desc> tx_;
  bench::MemoryRing<u64> completion_;
  bench::MemoryRing<xdp_desc> pair_tx_;
  bench::MemoryRing<u64> pair_completion_;
  xg_worker_counters counters_{};
  std::vector<xg_flow_verdict> entries_;
  std::vector<xg_flow_stats> stats_;
  std::vector<xg_rewrite> rewrites_ = std::vector<xg_rewrite>(XG_REWRITE_ENTRIES);
  PortQueue queue_;
  std::optional<Router> router_;
  std::array<xg_descriptor, 16> descriptors_{};
  std::array<xg_result, 16> results_{};
  std::array<xg_edit, 16> edits_{};
  std::array<xg_adjust, 16> adjusts_{};
  std::array<xg_patch, 16> patches_{};
  gpu::Slot slot_;
  Batch batch_;
  std::vector<Frame> fragments_;
};

const Frame kBefore = ethernet() + ipv4({.id = 1}, udp(1, 2, 30)),
            kBehind = ethernet() + ipv4({.id = 2}, udp(3, 4, 40));

TEST_F(RoutingFragments, EachGoesWhereTheWholeGoes) {
  add_plain(kBefore);
  const u32 at = add_datagram();
  add_plain(kBehind);
  EXPECT_EQ(batch_.packets(), 3u);
  EXPECT_EQ(batch_.frames(), 2u + 1u + 4u);
  for (xg_result& result : results_) result.verdict = XG_DROP;
  results_[0].verdict = results_[at].verdict = results_[batch_.count - 1].verdict = XG_TX;
  results_[at].flags = XG_RES_SWAP_MACS | XG_RES_CACHE;
  const Routed routed = route();
  EXPECT_FALSE(routed.moving) << "no verdict of it is cached";
  EXPECT_EQ(sent(), (std::vector<Frame>{kBefore, swapped(fragments_[0]), swapped(fragments_[1]),
                                        swapped(fragments_[2]), kBehind}));
  EXPECT_EQ(counters_.transmitted, 5u);
  EXPECT_EQ(counters_.flows_cached, 0u);
  EXPECT_EQ(queue_.later_unbatched, 2u) << "the headers' frame, and a second buffer";
  EXPECT_EQ(free_.size(), kFrames);
}

TEST_F(RoutingFragments, TheHopsOfEachAreItsOwn) {
  const u32 at = add_datagram();
  u8* const second = &region_[batch_.fragments[1].offset];
  second[14 + 8] = 9;
  results_[at].verdict = XG_TX;
  results_[at].flags = XG_RES_EDIT;
  edits_[at].sets = XG_EDIT_TTL;
  edits_[at].ttl = 63;
  route();
  const auto frames = sent();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0][14 + 8], 63);
  EXPECT_EQ(frames[1][14 + 8], 8);
}

TEST_F(RoutingFragments, AllAreDropped) {
  add_plain(kBefore);
  results_[add_datagram()].verdict = XG_DROP;
  results_[0].verdict = XG_DROP;
  route();
  EXPECT_EQ(sent().size(), 0u);
  EXPECT_EQ(counters_.dropped, 4u);
  EXPECT_EQ(free_.size(), kFrames);
}

Frame back_and_quoted(const Frame& frame) {
  return kSrcMac + kDstMac + be16(0x0800) + Frame(20 + 8) + Frame(frame.begin() + 14, frame.end());
}
// But for the headers that an answer has of its own.
Frame without_own(Frame answer) {
  std::fill_n(answer.begin() + 14, 28, u8{0});
  return answer;
}

TEST_F(RoutingFragments, ADatagramThatIsRejectedIsAnsweredOnce) {
  add_plain(kBefore);
  const u32 at = add_datagram();
  add_plain(kBehind);
  const Frame headers(&region_[descriptors_[at].offset], &region_[descriptors_[at].offset] + 42);
  results_[0].verdict = results_[batch_.count - 1].verdict = XG_TX;
  results_[at].verdict = XG_DROP;
  results_[at].flags = XG_RES_REJECT_SENDER | XG_RES_REJECT_RECEIVER;
  const Routed routed = route();
  EXPECT_TRUE(routed.passed);
  const auto frames = sent();
  ASSERT_EQ(frames.size(), 3u);
  EXPECT_EQ(frames[0], kBefore);
  EXPECT_EQ(without_own(frames[1]), back_and_quoted(headers));
  EXPECT_EQ(frames[2], kBehind);
  const auto on = passed();
  ASSERT_EQ(on.size(), 1u);
  EXPECT_EQ(Frame(on[0].begin(), on[0].begin() + 14), ethernet() + be16(0x0800));
  EXPECT_EQ(counters_.dropped, 3u);
  EXPECT_EQ(counters_.rejected_answered, 1u);
  EXPECT_EQ(free_.size(), kFrames);
}

TEST_F(RoutingFragments, ADatagramThatIsNotDroppedIsNotAnswered) {
  const u32 at = add_datagram();
  results_[at].verdict = XG_TX;
  results_[at].flags = XG_RES_REJECT_SENDER | XG_RES_REJECT_RECEIVER;
  route();
  EXPECT_EQ(sent(), fragments_);
  EXPECT_EQ(passed().size(), 0u);
  EXPECT_EQ(counters_.rejected_answered, 0u);
}

TEST_F(RoutingFragments, WithoutAFreeFrameTheSenderAloneIsTold) {
  add_plain(kBefore);
  results_[0].verdict = XG_DROP;
  results_[0].flags = XG_RES_REJECT_SENDER | XG_RES_REJECT_RECEIVER;
  std::vector<FrameId> held;
  while (free_.size()) held.push_back(free_.pop());
  EXPECT_FALSE(route().passed);
  const auto frames = sent();
  ASSERT_EQ(frames.size(), 1u);
  EXPECT_EQ(without_own(frames[0]), back_and_quoted(kBefore));
  EXPECT_EQ(passed().size(), 0u);
  EXPECT_EQ(counters_.rejected_answered, 1u);
  EXPECT_EQ(free_.size() + held.size(), kFrames);
}

TEST_F(RoutingFragments, WhereNothingPassesTheReceiverIsNotTold) {
  queue_.reinject.reset();
  router_.emplace(region_.data(), std::vector<PortQueue*>{&queue_}, free_, unparsed_, order_);
  for (const u32 flags : {XG_RES_REJECT_RECEIVER, XG_RES_REJECT_SENDER | XG_RES_REJECT_RECEIVER}) {
    batch_.count = batch_.later = batch_.spare = batch_.arrivals_count = 0;
    add_plain(kBefore);
    results_[0].verdict = XG_DROP;
    results_[0].flags = flags;
    route();
    EXPECT_EQ(sent().size(), flags & XG_RES_REJECT_SENDER ? 1u : 0u);
    EXPECT_EQ(free_.size(), kFrames);
  }
  EXPECT_EQ(counters_.rejected_answered, 1u);
  EXPECT_EQ(counters_.dropped, 2u);
}

TEST_F(RoutingFragments, RejectionsAreLimitedAndCostNothingElseItsAnswers) {
  u32 answered = 0;
  for (u32 i = 0; i < 100; ++i) {
    batch_.count = batch_.later = batch_.spare = batch_.arrivals_count = 0;
    add_plain(kBefore);
    results_[0].verdict = XG_DROP;
    results_[0].flags = XG_RES_REJECT_SENDER;
    route();
    answered += static_cast<u32>(sent().size());
    EXPECT_EQ(free_.size(), kFrames);
  }
  EXPECT_EQ(answered, 50u);
  EXPECT_EQ(counters_.rejected_answered, 50u);
  EXPECT_EQ(counters_.dropped, 100u);
  batch_.count = batch_.later = batch_.spare = batch_.arrivals_count = 0;
  add_plain(kBefore);
  results_[0].flags = XG_RES_TOO_LONG;
  adjusts_[0].longest = 50;
  route();
  EXPECT_EQ(sent().size(), 1u);
  EXPECT_EQ(counters_.too_long_answered, 1u);
}

TEST_F(RoutingFragments, WhatTheDeviceDidNotDecideIsLostOnceEach) {
  for (const Outcome outcome : {Outcome::device_failed, Outcome::unknown_generation}) {
    add_plain(kBefore);
    add_datagram();
    add_plain(kBehind);
    batch_.outcome = outcome;
    route();
    EXPECT_EQ(outcome == Outcome::device_failed ? counters_.error_device : counters_.error_generation, 5u);
    EXPECT_EQ(free_.size(), kFrames);
    batch_.count = batch_.later = batch_.spare = batch_.arrivals_count = 0;
    batch_.assembled_count = batch_.fragments_count = 0;
  }
  EXPECT_EQ(queue_.later_unbatched, 4u);
}

TEST_F(RoutingFragments, OuterHeadersAreNotTakenOffParts) {
  const u32 at = add_datagram();
  results_[at].verdict = XG_TX;
  results_[at].flags = XG_RES_ADJUST;
  adjusts_[at].popped = 28;
  route();
  EXPECT_EQ(sent().size(), 0u);
  EXPECT_EQ(counters_.dropped, 3u);
  EXPECT_EQ(free_.size(), kFrames);
}

}  // namespace
}  // namespace xdpgpu::dataplane
