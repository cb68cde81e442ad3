// SPDX-License-Identifier: MIT
//
// What a later fragment gets of its first one's result, within a worker and from another one.
#include "userspace/dataplane/fragments.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "maps/fragments.h"
#include "tests/kernel/frame.hpp"

namespace xdpgpu::dataplane {
namespace {

using namespace xdpgpu::test;  // frames

constexpr u64 kNow = 1'000'000'000;

Frame first(u16 id, u8 ttl = 64) {
  Frame frame = ethernet() + ipv4({.id = id, .fragment = 0x2000}, udp(1000, 53, 24, 88));
  frame[14 + 8] = ttl;
  return frame;
}
Frame later(u16 id, u8 ttl = 64, std::size_t payload = 24) {
  Frame frame = ethernet() + ipv4({.id = id, .fragment = 4}, bytes(payload));
  frame[14 + 8] = ttl;
  return frame;
}

// Frames with their metadata, in chunks, as a batch of one worker that a device has decided.
class Decided {
 public:
  explicit Decided(u32 generation = 1) : region(16 * XG_CHUNK_SIZE) {
    batch.slot = &slot;
    batch.generation = generation;
    slot.descriptors = descriptors;
    slot.results = results;
    slot.edits = edits;
    slot.adjusts = adjusts;
    slot.capacity = 16;
    batch.ports.resize(16);
    batch.arrivals.resize(16);
    config.hash_key[0] = 1, config.hash_key[1] = 2;
  }
  xg_result& add(const Frame& frame, u32 verdict = XG_PASS) {
    xg_packet packet;
    xg_parse_part(frame.data(), frame.data() + frame.size(), static_cast<u32>(frame.size()), 0, &packet);
    if (packet.flags & XG_PKT_LATER_FRAGMENT)
      packet.flags |= XG_PKT_TRACKED;
    else
      xg_track_first(&packet);
    xg_metadata metadata{};
    xg_metadata_from(&metadata, &packet, 0);
    metadata.router = XG_ROUTER_ALL;
    const u64 at = u64{batch.count} * XG_CHUNK_SIZE + XG_FRAME_DATA;
    std::memcpy(&region[at - XG_METADATA_SIZE], &metadata, sizeof(metadata));
    std::copy(frame.begin(), frame.end(), region.begin() + static_cast<long>(at));
    xg_result& result = results[batch.count];
    result.verdict = verdict;
    batch.add(at, static_cast<u32>(frame.size()), 0, metadata);
    return result;
  }
  bool settle(const FragmentLogs& logs, u32 own, u64 now_ns) {
    if (!fates) fates.emplace(region.data(), std::vector<PortQueue*>{&queue}, logs, own);
    return fates->settle(batch, now_ns);
  }

  std::vector<u8> region;
  xg_descriptor descriptors[16]{};
  xg_result results[16]{};
  xg_edit edits[16]{};
  xg_adjust adjusts[16]{};
  gpu::Slot slot;
  Batch batch;
  xg_worker_counters counters{};
  xg_config config{};
  PortQueue queue{.traits = {},
                  .socket = nullptr,
                  .reinject = nullptr,
                  .config = &config,
                  .counters = &counters,
                  .flows = gpu::FlowTable({}, {}),
                  .metadata = MetadataProbe(0, 0),
                  .credits = Credits(0, 64)};
  std::optional<FragmentFates> fates;
};

FragmentLogs logs(u32 workers) {
  FragmentLogs made;
  for (u32 i = 0; i < workers; ++i) made.push_back(std::make_unique<FragmentLog>());
  return made;
}

TEST(FragmentFates, OfOneBatchAndOfLaterOnes) {
  const auto all = logs(1);
  Decided one;
  one.add(first(1), XG_VERDICT(XG_DROP, 0u, 1u, 7u));
  one.add(first(2), XG_VERDICT(XG_REDIRECT, 3u, 1u, 8u)).flags = XG_RES_EDIT | XG_RES_CACHE;
  one.edits[1].sets = XG_EDIT_DST_MAC;
  one.edits[1].dst_mac[5] = 7;
  one.add(later(1));
  one.add(later(2), XG_DROP);
  EXPECT_TRUE(one.settle(all, 0, kNow));
  EXPECT_EQ(one.results[2].verdict, XG_VERDICT(XG_DROP, 0u, 1u, 7u));
  EXPECT_EQ(one.results[3].verdict, XG_VERDICT(XG_REDIRECT, 3u, 1u, 8u));
  EXPECT_EQ(one.results[3].flags, XG_RES_EDIT) << "and is not cached";
  EXPECT_EQ(one.edits[3].sets, XG_EDIT_DST_MAC);
  EXPECT_EQ(one.edits[3].dst_mac[5], 7);
  Decided next;
  next.add(later(1));
  EXPECT_TRUE(next.settle(all, 0, kNow + 1000));
  EXPECT_EQ(XG_VERDICT_ACTION(next.results[0].verdict), XG_DROP);
  EXPECT_EQ(next.counters.fragments_unknown, 0u);
}

TEST(FragmentFates, WithoutAFirstOneTheDefaultDecides) {
  const auto all = logs(1);
  for (const bool passes : {false, true}) {
    Decided one;
    one.batch.default_passes = passes;
    one.add(later(1));
    EXPECT_TRUE(one.settle(all, 0, kNow)) << "there is nobody to wait for";
    EXPECT_EQ(one.results[0].verdict, passes ? XG_PASS : XG_DROP);
    EXPECT_EQ(one.counters.fragments_unknown, 1u);
  }
}

TEST(FragmentFates, ABatchWaitsForAnotherWorkersFirstOne) {
  const auto all = logs(2);
  Decided here, there;
  here.add(later(1), XG_DROP);
  there.add(first(1), XG_TX);
  EXPECT_FALSE(here.settle(all, 1, kNow));
  EXPECT_FALSE(here.settle(all, 1, kNow + 1000));
  EXPECT_TRUE(there.settle(all, 0, kNow + 2000));
  EXPECT_TRUE(here.settle(all, 1, kNow + 3000));
  EXPECT_EQ(here.results[0].verdict, XG_TX);
  EXPECT_EQ(here.counters.fragments_waited, 1u);
  EXPECT_EQ(here.counters.fragments_unknown, 0u);
}

TEST(FragmentFates, ItWaitsForABoundedTimeAndATenthOfAll) {
  const auto all = logs(2);
  u64 now = kNow, waited = 0;
  const u64 end = now + 1'000'000'000;
  Decided one;
  one.add(later(1));
  while (now < end) {
    const u64 since = now;
    while (!one.settle(all, 0, now)) now += 10'000;
    EXPECT_LE(now - since, FragmentFates::kWaitNs);
    EXPECT_EQ(one.results[0].verdict, XG_DROP);
    waited += now - since;
    now += 10'000;
  }
  EXPECT_GT(waited, 50'000'000u);
  EXPECT_LE(waited, 111'000'000u);
}

TEST(FragmentFates, AnotherGenerationsResultIsNone) {
  const auto all = logs(1);
  Decided before(1), after(2);
  before.add(first(1));
  before.settle(all, 0, kNow);
  after.add(later(1));
  after.settle(all, 0, kNow);
  EXPECT_EQ(after.counters.fragments_unknown, 1u);
}

TEST(FragmentFates, AFloodOfFirstOnesTakesItsOwnSourcesPlaces) {
  const auto all = logs(1);
  Decided ours;
  ours.add(first(1), XG_TX);
  ours.settle(all, 0, kNow);
  for (u32 i = 0; i < 5000; ++i) {
    Decided flood;
    flood.add(ethernet() + ipv4({.src = "203.0.113.9", .id = static_cast<u16>(i * 7919), .fragment = 0x2000},
                                udp(1, 2, 24, 88)));
    flood.settle(all, 0, kNow + i);
  }
  Decided last;
  last.add(later(1));
  last.settle(all, 0, kNow + 10'000);
  EXPECT_EQ(last.results[0].verdict, XG_TX);
}

TEST(ResultOfLater, HasTheTtlAndChecksumOfItsOwnHeader) {
  Decided one;
  Decision first;
  first.result.verdict = XG_TX;
  first.result.flags = XG_RES_EDIT;
  first.edit = {.dst_mac = {1, 2, 3, 4, 5, 6},
                .src_mac = {5, 6, 7, 8, 9, 10},
                .l3_checksum = 0x1234,
                .ttl = 63,
                .sets = XG_EDIT_TTL | XG_EDIT_DST_MAC};
  one.add(later(1, 9));
  const u8* frame = &one.region[XG_FRAME_DATA];
  const Decision mine = result_of_later({first, 52}, frame);
  EXPECT_EQ(mine.result.verdict, XG_TX);
  EXPECT_EQ(mine.edit.ttl, 8u);
  EXPECT_EQ(mine.edit.sets, first.edit.sets);
  EXPECT_EQ(std::memcmp(mine.edit.dst_mac, first.edit.dst_mac, 12), 0);
  // The sum of the header with the new TTL and checksum is that of the old one.
  u32 before = 0, after = 0;
  for (u32 i = 0; i < 20; i += 2) before += xg_load16(frame + 14 + i);
  after = before - xg_load16(frame + 14 + 8) - xg_load16(frame + 14 + 10);
  after += (xg_load16(frame + 14 + 8) & 0xff00u) | mine.edit.ttl;
  after += mine.edit.l3_checksum;
  EXPECT_EQ(before % 0xffff, after % 0xffff);

  Decided last_hop;
  last_hop.add(later(1, 1));
  EXPECT_EQ(result_of_later({first, 52}, &last_hop.region[XG_FRAME_DATA]).result.verdict, XG_DROP);
}

// It came to another address than its first one, or broken.
TEST(ResultOfLater, WhatNoRouterSendsOnIsTheHosts) {
  Decision first;
  first.result.verdict = XG_TX;
  first.result.flags = XG_RES_EDIT;
  for (const u32 router : {0u, XG_ROUTER_ADDRESSED, XG_ROUTER_CHECKSUM}) {
    Decided one;
    one.add(later(1));
    one.region[XG_FRAME_DATA - XG_METADATA_SIZE + offsetof(xg_metadata, router)] = static_cast<u8>(router);
    first.edit.sets = XG_EDIT_TTL | XG_EDIT_DST_MAC;
    const Decision routed = result_of_later({first, 52}, &one.region[XG_FRAME_DATA]);
    EXPECT_EQ(routed.result.verdict, XG_PASS);
    EXPECT_EQ(routed.result.flags, 0u);
    first.edit.sets = XG_EDIT_DST_MAC;
    EXPECT_EQ(result_of_later({first, 52}, &one.region[XG_FRAME_DATA]).result.verdict, XG_TX)
        << "no router's";
  }
}

TEST(ResultOfLater, IsNotLongerInsideOfOuterHeaders) {
  Decision first;
  first.result.verdict = XG_TX;
  first.result.flags = XG_RES_ADJUST;
  first.adjust.pushed = 28;
  first.adjust.ip_bytes = 148;
  Decided one;
  one.add(later(1, 64, 90));
  const u8* frame = &one.region[XG_FRAME_DATA];
  const Decision later = result_of_later({first, 120}, frame);
  EXPECT_EQ(later.result.verdict, XG_TX);
  EXPECT_EQ(later.adjust.ip_bytes, 20u + 90 + 28) << "its own length";
  EXPECT_EQ(result_of_later({first, 110}, frame).result.verdict, XG_TX);
  EXPECT_EQ(result_of_later({first, 109}, frame).result.verdict, XG_DROP);
}

// The first one's outer headers are the first one's alone.
TEST(ResultOfLater, HasNoPacketInside) {
  Decision first;
  first.result.verdict = XG_PASS;
  first.result.flags = XG_RES_ADJUST;
  first.adjust.popped = 20;
  Decided one;
  one.add(later(1));
  EXPECT_EQ(result_of_later({first, 1000}, &one.region[XG_FRAME_DATA]).result.verdict, XG_DROP);
}

// Nor can anybody say what a program makes of the rest of a datagram whose first part it has changed.
TEST(ResultOfLater, IsNotThatOfAFirstOneThatAProgramHasChanged) {
  const auto all = logs(1);
  for (const u32 action : {XG_PASS, XG_TX, XG_REDIRECT}) {
    Decided one;
    xg_patch patches[16]{};
    one.slot.patches = patches;
    one.add(first(1), XG_VERDICT(action, 0u, 1u, 0u)).flags = XG_RES_PATCH;
    one.add(later(1), XG_PASS);
    EXPECT_TRUE(one.settle(all, 0, kNow));
    EXPECT_EQ(one.results[0].flags, XG_RES_PATCH) << "it has its own";
    EXPECT_EQ(one.results[1].verdict, XG_DROP);
    EXPECT_EQ(one.results[1].flags, 0u);
    Decided next;
    next.add(later(1), XG_PASS);
    EXPECT_TRUE(next.settle(all, 0, kNow + 1000));
    EXPECT_EQ(next.results[0].verdict, XG_DROP);
    EXPECT_EQ(next.counters.fragments_unknown, 0u);
    Decision whole;
    whole.result = one.results[0];
    EXPECT_EQ(result_of_later(result_of_whole(whole), &next.region[XG_FRAME_DATA]).result.verdict, XG_DROP)
        << "nor that of a datagram that was put together";
  }
}

}  // namespace
}  // namespace xdpgpu::dataplane
