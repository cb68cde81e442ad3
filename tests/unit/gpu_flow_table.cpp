// SPDX-License-Identifier: MIT
#include "gpu/flow_table.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

namespace xdpgpu::gpu {
namespace {

constexpr u64 kMs = 1'000'000, kSecond = 1'000'000'000;
constexpr u32 kEntries = 64;

struct Table {
  std::vector<xg_flow_verdict> entries = std::vector<xg_flow_verdict>(kEntries);
  std::vector<xg_flow_stats> stats = std::vector<xg_flow_stats>(kEntries);
  FlowTable table{entries, stats};

  // What the XDP program would find: maps/flow.h's lookup.
  const xg_flow_verdict* find(const FlowVerdict& flow, u64 now_ns) {
    const u32 first = (flow.flow_hash & (kEntries / XG_FLOW_WAYS - 1)) * XG_FLOW_WAYS;
    for (u32 i = first; i < first + XG_FLOW_WAYS; ++i) {
      xg_flow_verdict read;
      if (!read_entry(entries[i], read) || read.generation != flow.generation) continue;
      if (std::memcmp(&read.key, &flow.key, sizeof(read.key)) != 0) continue;
      if (read.expires_ms && static_cast<std::int32_t>(static_cast<u32>(now_ns / kMs) - read.expires_ms) >= 0)
        continue;
      return &entries[i];
    }
    return nullptr;
  }
};

// Flow number n; flows with equal `bucket` share a bucket.
FlowVerdict flow(u32 n, u32 bucket = 0, u32 generation = 1, u32 action = XG_DROP) {
  FlowVerdict out;
  out.key.src[0] = n;
  out.key.dst[0] = ~n;
  out.key.family = 4;
  out.flow_hash = n << 16 | bucket;
  out.generation = generation;
  out.verdict = XG_VERDICT(action, 0, 1, n & 0xff);
  return out;
}

TEST(FlowTable, PublishesWhatWasDecided) {
  Table t;
  FlowVerdict f = flow(7, 3, 9, XG_REDIRECT);
  f.verdict = XG_VERDICT(XG_REDIRECT, 5, 2, 1);
  f.rewrite = 17;
  f.idle_s = 30;
  EXPECT_EQ(t.table.publish(f, 5 * kSecond), Published::fresh);
  const xg_flow_verdict* entry = t.find(f, 5 * kSecond);
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->generation, 9u);
  EXPECT_EQ(entry->incarnation, 1u);
  EXPECT_EQ(entry->action, XG_REDIRECT);
  EXPECT_EQ(entry->target, 5u);
  EXPECT_EQ(entry->verdict, f.verdict);
  EXPECT_EQ(entry->rewrite, 17u);
  EXPECT_EQ(entry->idle_s, 30u);
  EXPECT_EQ(entry->expires_ms, 0u);
  // Or it would be born as idle as its predecessor.
  EXPECT_EQ(t.stats[static_cast<std::size_t>(entry - t.entries.data())].last_seen_ns, 5 * kSecond);
}

TEST(FlowTable, SayingTheSameAgainDoesNotBlink) {
  Table t;
  EXPECT_EQ(t.table.publish(flow(1), kSecond), Published::fresh);
  EXPECT_EQ(t.table.publish(flow(1), 2 * kSecond), Published::unchanged);
  FlowVerdict other = flow(1);
  other.verdict = XG_VERDICT(XG_PASS, 0, 1, 2);
  EXPECT_EQ(t.table.publish(other, 2 * kSecond), Published::updated);
  ASSERT_NE(t.find(other, 2 * kSecond), nullptr);
  EXPECT_EQ(t.find(other, 2 * kSecond)->action, XG_PASS);
}

TEST(FlowTable, TakesEmptyThenStaleThenExpiredThenTheLeastRecentlySeen) {
  Table t;
  u64 now = 100 * kSecond;
  for (u32 n = 0; n < 4; ++n) EXPECT_EQ(t.table.publish(flow(n), now + n), Published::fresh);
  // All four are live: the one not seen for the longest gives way, whatever the order of publication.
  for (u32 i = 0; i < 4; ++i) t.stats[i].last_seen_ns = now + kSecond + (i == 2 ? 0 : 10 + i);
  EXPECT_EQ(t.table.publish(flow(10), now + 2 * kSecond), Published::evicted);
  EXPECT_EQ(t.find(flow(2), now), nullptr);
  for (const u32 n : {0u, 1u, 3u, 10u}) EXPECT_NE(t.find(flow(n), now), nullptr) << n;
  // An entry that was just published is not the least recently seen, though no packet hit it yet.
  EXPECT_EQ(t.table.publish(flow(11), now + 3 * kSecond), Published::evicted);
  EXPECT_NE(t.find(flow(10), now), nullptr);
  // A stale generation is free for the taking.
  EXPECT_EQ(t.table.publish(flow(12, 0, 2), now + 4 * kSecond), Published::fresh);
  // And so is what has expired.
  Table u;
  FlowVerdict brief = flow(1);
  brief.ttl_ms = 1000;
  u.table.publish(brief, now);
  for (u32 n = 2; n < 5; ++n) u.table.publish(flow(n), now);
  EXPECT_NE(u.find(brief, now + 999 * kMs), nullptr);
  EXPECT_EQ(u.find(brief, now + 1000 * kMs), nullptr);
  EXPECT_EQ(u.table.publish(flow(9), now + kSecond), Published::fresh);
  for (u32 n = 2; n < 5; ++n) EXPECT_NE(u.find(flow(n), now + kSecond), nullptr) << n;
}

// A flow whose verdict has a time to live is published by each of its packets that still come up: it must not
// blink for each of them, nor die while they come.
TEST(FlowTable, AnEntryThatLivesLongEnoughDoesNotBlink) {
  Table t;
  const u64 now = 50 * kSecond;
  FlowVerdict brief = flow(1);
  brief.ttl_ms = 1600;
  EXPECT_EQ(t.table.publish(brief, now), Published::fresh);
  for (const u64 later : {0u, 1u, 99u, 100u})
    EXPECT_EQ(t.table.publish(brief, now + later * kMs), Published::unchanged) << later;
  EXPECT_EQ(t.table.publish(brief, now + 102 * kMs), Published::updated);
  EXPECT_NE(t.find(brief, now + 1700 * kMs), nullptr);
  EXPECT_EQ(t.find(brief, now + 1703 * kMs), nullptr);
  EXPECT_EQ(t.table.publish(brief, now + 102 * kMs), Published::unchanged);
  EXPECT_EQ(t.table.publish(brief, now + 50 * kMs), Published::unchanged) << "a packet from before";
  // Another life is something else to say: shorter, longer, or for ever.
  for (const u32 ttl_ms : {1000u, 4000u, 0u, 1600u}) {
    brief.ttl_ms = ttl_ms;
    EXPECT_EQ(t.table.publish(brief, now + 102 * kMs), Published::updated) << ttl_ms;
    EXPECT_EQ(t.table.publish(brief, now + 102 * kMs), Published::unchanged) << ttl_ms;
  }
  // Over the edge of the 32-bit clock as well.
  const u64 edge = ((u64{1} << 32) - 50) * kMs;
  EXPECT_NE(t.table.publish(brief, edge), Published::unchanged);
  EXPECT_EQ(t.table.publish(brief, edge + 90 * kMs), Published::unchanged);
  brief.ttl_ms = 1;
  EXPECT_NE(t.table.publish(brief, now), Published::unchanged);
  EXPECT_EQ(t.table.publish(brief, now), Published::unchanged);
}

TEST(FlowTable, AnIdleEntryGivesWay) {
  Table t;
  const u64 now = 50 * kSecond;
  FlowVerdict idle = flow(1);
  idle.idle_s = 2;
  t.table.publish(idle, now);
  for (u32 n = 2; n < 5; ++n) t.table.publish(flow(n), now);
  t.stats[0].last_seen_ns = now + kSecond;
  EXPECT_EQ(t.table.publish(flow(8), now + 3 * kSecond), Published::evicted);
  t.table.publish(idle, now + 4 * kSecond);
  EXPECT_EQ(t.table.publish(flow(9), now + 4 * kSecond + 2 * kSecond + 1), Published::fresh);
}

TEST(FlowTable, ExpiryIsNeverMistakenForNever) {
  Table t;
  FlowVerdict f = flow(1);
  f.ttl_ms = 6;
  // now + ttl is 0 in the low 32 bits of milliseconds.
  const u64 now = ((u64{1} << 32) - 6) * kMs;
  t.table.publish(f, now);
  ASSERT_NE(t.find(f, now), nullptr);
  EXPECT_NE(t.find(f, now)->expires_ms, 0u);
  EXPECT_EQ(t.find(f, now + 10 * kMs), nullptr);
}

// 32 bits of milliseconds come round after 49.7 days: what was over then must not be taken for alive again.
TEST(FlowTable, WhatIsOverStaysOver) {
  constexpr u64 kAround = (u64{1} << 32) * kMs;
  for (const u64 later : {kAround - 30 * kSecond, kAround, kAround - 600'000 * kSecond, 3 * kAround}) {
    Table t;
    FlowVerdict f = flow(1);
    f.ttl_ms = 60'000;
    const u64 then = 100 * kSecond, now = then + later;
    t.table.publish(f, then);
    EXPECT_EQ(t.table.publish(f, now), Published::updated) << "it would be left as it is";
    Table full;
    for (u32 n = 1; n <= XG_FLOW_WAYS; ++n) {
      FlowVerdict one = flow(n);
      one.ttl_ms = 60'000;
      full.table.publish(one, then);
    }
    EXPECT_EQ(full.table.publish(flow(9), now), Published::fresh) << "nobody's live verdict gives way";
  }
}

TEST(FlowTable, AWeekIsALifeAndNotMore) {
  const u64 week = u64{XG_FLOW_MAX_TTL_MS} * kMs;
  for (const u64 then : {7 * kSecond, (u64{1} << 32) * kMs - 5 * kSecond, (u64{1} << 33) * kMs + 1}) {
    const u32 at = static_cast<u32>(then / kMs) + XG_FLOW_MAX_TTL_MS;
    EXPECT_FALSE(xg_flow_expired(at, then, then));
    EXPECT_FALSE(xg_flow_expired(at, then, then - kSecond)) << "a clock that is behind";
    EXPECT_FALSE(xg_flow_expired(at, then, then + week - kMs));
    EXPECT_TRUE(xg_flow_expired(at, then, then + week));
    EXPECT_TRUE(xg_flow_expired(at, then, then + 8 * week));
    // Asked by a later time at which it was alive.
    EXPECT_FALSE(xg_flow_expired(at, then + week / 2, then + week - kMs));
    EXPECT_TRUE(xg_flow_expired(at, then + week / 2, then + week));
    EXPECT_FALSE(xg_flow_expired(0, then, then + 100 * week)) << "never";
  }
}

TEST(FlowTable, NotesTheCountsItFound) {
  Table t;
  t.stats[0].packets = 100;
  t.stats[0].bytes = 6400;
  t.table.publish(flow(1), 7 * kSecond);
  EXPECT_EQ(t.stats[0].base_packets, 100u);
  EXPECT_EQ(t.stats[0].base_bytes, 6400u);
  EXPECT_EQ(t.stats[0].published_ns, 7 * kSecond);
}

// Two publications of one entry never have the same word, so that a reader who was slow cannot take the
// first one's word and the second one's body for a whole.
TEST(FlowTable, NoTwoPublicationsInARowHaveTheSameWord) {
  Table t;
  const auto word = [&] {
    u64 value;
    std::memcpy(&value, t.entries.data(), sizeof(value));
    return value;
  };
  u64 before = 0;
  for (u32 n = 0; n < 100'000; ++n) {
    FlowVerdict f = flow(1);
    f.rewrite = static_cast<u16>(n);  // else it would say the same and stay
    t.table.publish(f, kSecond);
    ASSERT_NE(word(), before) << "publication " << n;
    before = word();
  }
  // Nor after somebody has emptied the entry.
  std::memset(t.entries.data(), 0, sizeof(t.entries[0]));
  FlowVerdict f = flow(1);
  t.table.publish(f, kSecond);
  EXPECT_NE(word(), before);
}

TEST(FlowTable, TheFlowsOfABucketAreThoseLastPublished) {
  std::mt19937 random(20261120);
  Table t;
  std::vector<u32> recent;  // of bucket 0, newest last
  for (u32 step = 0; step < 10'000; ++step) {
    const u32 n = static_cast<u32>(random() % 12);
    t.table.publish(flow(n), (step + 1) * kMs);
    if (const auto at = std::find(recent.begin(), recent.end(), n); at == recent.end()) {
      if (recent.size() == XG_FLOW_WAYS) {
        // First in, first out, as no packet has been seen.
        recent.erase(recent.begin());
      }
      recent.push_back(n);
    }
    for (u32 m = 0; m < 12; ++m) {
      const bool expected = std::find(recent.begin(), recent.end(), m) != recent.end();
      ASSERT_EQ(t.find(flow(m), 0) != nullptr, expected) << "step " << step << ", flow " << m;
    }
  }
}

// One writer, one reader: whatever the reader accepts was published as a whole. Each publication's body
// is of one number, so that a torn read shows, and all have the same generation and action.
TEST(FlowTable, AReaderNeverSeesHalfAnEntry) {
  Table t;
  std::atomic<bool> done{false};
  std::thread writer([&] {
    for (u32 n = 1; n < 2'000'000 && !done; ++n) {
      FlowVerdict f = flow(n & 0x7fff, 0, 1);
      for (u32& word : f.key.src) word = n;
      for (u32& word : f.key.dst) word = ~n;
      f.verdict = XG_VERDICT(XG_DROP, 0, 0, n & 0x3ffff);
      f.ttl_ms = 0;
      f.rewrite = static_cast<u16>(n);
      t.table.publish(f, n);
    }
    done = true;
  });
  u64 accepted = 0;
  std::string torn;
  while (!done) {
    for (u32 i = 0; i < XG_FLOW_WAYS; ++i) {
      xg_flow_verdict read;
      if (!read_entry(t.entries[i], read)) continue;
      ++accepted;
      const u32 n = read.key.src[0];
      bool whole = read.rewrite == static_cast<u16>(n) && XG_VERDICT_RULE(read.verdict) == (n & 0x3ffff);
      for (const u32 word : read.key.src) whole &= word == n;
      for (const u32 word : read.key.dst) whole &= word == ~n;
      if (!whole) torn = "entry of publication " + std::to_string(n) + " was torn";
    }
    if (!torn.empty()) done = true;
  }
  writer.join();
  EXPECT_EQ(torn, "");
  EXPECT_GT(accepted, 1000u);
}

}  // namespace
}  // namespace xdpgpu::gpu
