// SPDX-License-Identifier: MIT
//
// Which packets have left, how many more may come, and whether a port delivers metadata: the worker's
// accounts.
#include "userspace/dataplane/order.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "tests/unit/dataplane_random.hpp"
#include "userspace/dataplane/credits.hpp"
#include "userspace/dataplane/metadata.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u64 kGrace = 100;

struct Log {
  OrderLog log{2, 4096, kGrace};
  std::vector<u32> left{0, 0};
  // A batch of which these frames are sent.
  void add(u32 mask, const std::vector<u32>& next, const std::vector<u32>& frames, bool passed = false) {
    log.begin();
    for (const u32 frame : frames) log.sent(frame);
    log.end(mask, next, passed);
  }
  void complete(const std::vector<u32>& frames) {
    for (const u32 frame : frames) log.completed(frame);
  }
  void advance(u64 now) {
    log.advance(now, [&](u32 port, u32 sequence) { left[port] = sequence; });
  }
};

TEST(OrderLog, DroppedPacketsHaveLeftAtOnce) {
  Log l;
  l.add(1, {10, 0}, {});
  l.advance(1);
  EXPECT_EQ(l.left, (std::vector<u32>{10, 0}));
  EXPECT_TRUE(l.log.empty());
}

TEST(OrderLog, TransmittedPacketsHaveLeftOnceCompleted) {
  Log l;
  l.add(3, {10, 7}, {1, 2, 3});
  l.complete({1, 3});
  l.advance(1);
  EXPECT_EQ(l.left, (std::vector<u32>{0, 0}));
  l.complete({2});
  l.advance(2);
  EXPECT_EQ(l.left, (std::vector<u32>{10, 7}));
}

// Where GRO holds a packet back, its followers are completed before it.
TEST(OrderLog, NobodyStandsInForAnother) {
  Log l;
  l.add(1, {10, 0}, {1, 2});
  l.add(1, {20, 0}, {3, 4});
  l.complete({2, 3, 4});
  l.advance(1);
  EXPECT_EQ(l.left[0], 0u);
  l.complete({1});
  l.advance(2);
  EXPECT_EQ(l.left[0], 20u);
}

TEST(OrderLog, PassedPacketsTakeAMomentMore) {
  Log l;
  l.add(1, {10, 0}, {1}, true);
  l.advance(1000);
  l.complete({1});
  l.advance(2000);
  EXPECT_EQ(l.left[0], 0u);
  l.advance(2000 + kGrace - 1);
  EXPECT_EQ(l.left[0], 0u);
  l.advance(2000 + kGrace);
  EXPECT_EQ(l.left[0], 10u);
}

// A busy queue's batches wait side by side, not one after the other: their flows would never be let go.
TEST(OrderLog, TheMomentRunsForAllThatAreCompleted) {
  Log l;
  for (u32 i = 1; i <= 10; ++i) l.add(1, {i, 0}, {i}, true);
  l.complete({1, 2, 3, 4, 5, 6, 7, 8, 9});
  l.advance(1000);
  l.complete({10});
  l.advance(1050);
  l.advance(1000 + kGrace);
  EXPECT_EQ(l.left[0], 9u);
  l.advance(1050 + kGrace);
  EXPECT_EQ(l.left[0], 10u);
}

TEST(OrderLog, NobodyOvertakes) {
  Log l;
  l.add(1, {10, 0}, {1});
  l.add(1, {20, 0}, {});  // dropped, but behind the other
  l.advance(1);
  EXPECT_EQ(l.left[0], 0u);
  l.complete({1});
  l.advance(2);
  EXPECT_EQ(l.left[0], 20u);
}

// Against the plain statement: port p's `left` is the last batch all of whose frames, and all of whose
// predecessors' frames, are completed. The log may be late (it merges when full), never early, and is
// exact in the end.
TEST(OrderLog, IsNeverEarly) {
  Random random(20261120);
  for (u32 round = 0; round < 50; ++round) {
    Log l;
    struct Batch {
      u32 mask;
      std::vector<u32> next, frames;
    };
    std::vector<Batch> batches;
    std::vector<u32> sequence{0, 0}, under_way;
    std::vector<bool> is_under_way(4096);
    u32 next_frame = 0;
    for (u32 step = 1; step < 2000; ++step) {
      if (random() % 2) {
        std::vector<u32> frames;
        for (u32 n = random() % 4; n && under_way.size() < 4000; --n) {
          while (is_under_way[next_frame]) next_frame = (next_frame + 1) % 4096;
          is_under_way[next_frame] = true;
          frames.push_back(next_frame);
          under_way.push_back(next_frame);
        }
        for (u32& s : sequence) s += 1;
        batches.push_back({random() % 3 + 1, sequence, frames});
        l.add(batches.back().mask, sequence, frames);
      } else {
        for (u32 n = random() % (round % 2 ? 8 : 3); n && !under_way.empty(); --n) {
          // Mostly in order.
          const u32 at = random() % 4 ? 0 : random() % static_cast<u32>(under_way.size());
          const u32 frame = under_way[at];
          under_way.erase(under_way.begin() + at);
          is_under_way[frame] = false;
          for (Batch& batch : batches) std::erase(batch.frames, frame);
          l.complete({frame});
        }
      }
      l.advance(step);
      std::vector<u32> exact{0, 0};
      for (const Batch& batch : batches) {
        if (!batch.frames.empty()) break;
        for (u32 p = 0; p < 2; ++p)
          if (batch.mask >> p & 1) exact[p] = batch.next[p];
      }
      for (u32 p = 0; p < 2; ++p) ASSERT_LE(l.left[p], exact[p]) << "round " << round << " step " << step;
    }
    l.complete(under_way);
    l.advance(5000);
    EXPECT_TRUE(l.log.empty());
    for (u32 p = 0; p < 2; ++p) {
      u32 last = 0;
      for (const Batch& batch : batches)
        if (batch.mask >> p & 1) last = batch.next[p];
      EXPECT_EQ(l.left[p], last);
    }
  }
}

// XDP, a kernel that loses some, and a worker: admitted packets never exceed what the RX ring and the
// kernel's frames can hold, and every loss is found again.
TEST(Credits, NeverOverfillAndNeverLeak) {
  Random random(20261120);
  constexpr u32 kRing = 64;
  const u32 base = 0xffffff00;  // wraps soon
  Credits credits(base, kRing);
  u32 admitted = base;
  u64 received = 0, held = 0, lost = 0, in_ring = 0, reported = 0;
  u64 refused = 0;
  for (u64 step = 0; step < 100'000; ++step) {
    const u32 granted = credits.granted(received, held);
    for (u32 n = random() % 20; n; --n) {
      if (static_cast<std::int32_t>(granted - admitted) <= 0) {
        ++refused;
        break;
      }
      ++admitted;
      if (random() % 50 == 0) {
        ++lost;
      } else {
        ++in_ring;
        ASSERT_LE(in_ring, kRing);
        ASSERT_LE(in_ring, held);
      }
    }
    const u64 take = random() % (in_ring + 1);
    in_ring -= take;
    received += take;
    held -= take;
    if (random() % 3 == 0) held += random() % (kRing * 2 - held + 1);
    if (random() % 10 == 0) reported += credits.lost_total(lost);
    ASSERT_GE(credits.under_way(admitted, received), static_cast<std::int32_t>(in_ring));
  }
  reported += credits.lost_total(lost);
  EXPECT_EQ(reported, lost);
  EXPECT_EQ(credits.under_way(admitted, received), static_cast<std::int32_t>(in_ring));
  EXPECT_GT(received, 50'000u);
  EXPECT_GT(refused, 0u);
}

// Packets of up to six buffers: whatever their mix, there is a frame and a place for each admitted one.
TEST(Credits, CountPacketsWhereFramesRunOut) {
  Random random(20261121);
  constexpr u32 kRing = 64, kBuffers = 6;
  Credits credits(7, kRing, kBuffers);
  u32 admitted = 7, granted = 7;
  u64 received = 0, held = 0, refused = 0;
  std::deque<u64> ring;  // buffers of each packet
  u64 in_ring = 0;
  for (u64 step = 0; step < 100'000; ++step) {
    const u32 now = credits.granted(received, held);
    ASSERT_GE(static_cast<std::int32_t>(now - granted), 0) << "a credit was taken back";
    granted = now;
    for (u32 n = random() % 20; n; --n) {
      if (static_cast<std::int32_t>(granted - admitted) <= 0) {
        ++refused;
        break;
      }
      ++admitted;
      ring.push_back(random() % 4 ? kBuffers : 1 + random() % kBuffers);
      in_ring += ring.back();
      ASSERT_LE(in_ring, kRing);
      ASSERT_LE(in_ring, held);
    }
    for (u64 n = random() % 8; n && !ring.empty(); --n) {
      in_ring -= ring.front();
      held -= ring.front();
      ring.pop_front();
      ++received;
    }
    if (random() % 3 == 0) held += random() % (kRing * 2 - held + 1);
  }
  EXPECT_GT(received, 20'000u);
  EXPECT_GT(refused, 0u);
}

TEST(Credits, WritesOffWhatNoStatisticNames) {
  Credits credits(100, 64);
  EXPECT_EQ(credits.write_off(105, 3, 1), 0u);
  EXPECT_EQ(credits.write_off(105, 3, 400'000'000), 0u);
  // Something moved: the wait begins anew.
  EXPECT_EQ(credits.write_off(106, 3, 500'000'000), 0u);
  EXPECT_EQ(credits.write_off(106, 3, 999'999'999), 0u);
  EXPECT_EQ(credits.write_off(106, 3, 1'000'000'000), 3u);
  EXPECT_EQ(credits.lost(), 3u);
  EXPECT_EQ(credits.under_way(106, 3), 0);
  EXPECT_EQ(credits.write_off(106, 3, 9'000'000'000), 0u);
}

struct Chunk {
  alignas(64) u8 bytes[XG_CHUNK_SIZE];
  explicit Chunk(u8 fill) { std::memset(bytes, fill, sizeof(bytes)); }
  void write(const xg_metadata& metadata) {
    std::memcpy(bytes + XG_FRAME_DATA - XG_METADATA_SIZE, &metadata, sizeof(metadata));
  }
};

xg_metadata plausible() {
  xg_metadata out{};
  out.rx_time_ns = 1500;
  out.generation = 7;
  out.port = 2;
  out.l3_offset = 14;
  return out;
}

TEST(MetadataProbe, LearnsFromWhatTheKernelWrote) {
  MetadataProbe probe(2, 1000);
  Chunk chunk(0);
  probe.prepare(chunk.bytes);
  chunk.write(plausible());
  probe.learn(chunk.bytes, XG_FRAME_DATA, 60, 2000);
  EXPECT_TRUE(probe.known());
  EXPECT_TRUE(probe.delivers());
}

TEST(MetadataProbe, IsNotFooledByTheFramesFormerPacket) {
  MetadataProbe probe(2, 1000);
  Chunk chunk(0);
  chunk.write(plausible());  // of its last packet
  probe.prepare(chunk.bytes);
  probe.learn(chunk.bytes, XG_FRAME_DATA, 60, 2000);
  EXPECT_TRUE(probe.known());
  EXPECT_FALSE(probe.delivers());
  // And what it has learnt stays.
  chunk.write(plausible());
  probe.prepare(chunk.bytes);
  EXPECT_NE(chunk.bytes[XG_FRAME_DATA - XG_METADATA_SIZE + 8], 0);
}

// A port that delivered metadata at first, and then a packet without.
TEST(MetadataProbe, AFramesFormerPacketIsNotBelievedLaterEither) {
  MetadataProbe probe(2, 1000);
  Chunk chunk(0);
  probe.prepare(chunk.bytes);
  chunk.write(plausible());
  probe.learn(chunk.bytes, XG_FRAME_DATA, 60, 2000);
  ASSERT_TRUE(probe.delivers());
  xg_metadata there = plausible();
  EXPECT_TRUE(probe.own(there, XG_FRAME_DATA));
  EXPECT_FALSE(probe.own(there, XG_FRAME_DATA + 16)) << "the kernel wrote elsewhere";
  probe.prepare(chunk.bytes);
  std::memcpy(&there, chunk.bytes + XG_FRAME_DATA - XG_METADATA_SIZE, sizeof(there));
  EXPECT_FALSE(probe.own(there, XG_FRAME_DATA)) << "the frame was given back meanwhile";
  probe.forget();
  EXPECT_TRUE(probe.known());
  EXPECT_FALSE(probe.delivers());
}

// Where a queue's packets come one after the other, what an older one left is told by its age.
TEST(MetadataProbe, WhatAnOlderPacketLeftIsToldByItsAge) {
  MetadataProbe probe(2, 1000, true);
  Chunk chunk(0);
  probe.prepare(chunk.bytes);
  xg_metadata first = plausible();
  first.sequence = 0xfffffffe;
  chunk.write(first);
  EXPECT_FALSE(probe.tells_by_age()) << "not known yet";
  probe.learn(chunk.bytes, XG_FRAME_DATA, 60, 2000);
  ASSERT_TRUE(probe.tells_by_age());
  EXPECT_TRUE(probe.own(first, XG_FRAME_DATA)) << "that it was learnt from";
  probe.note({first.rx_time_ns, first.sequence});
  EXPECT_FALSE(probe.own(first, XG_FRAME_DATA)) << "once more";

  const auto is_own = [&](u64 time, u32 sequence, u8 port = 2, u32 generation = 7, u16 flags = 0) {
    xg_metadata metadata = plausible();
    metadata.rx_time_ns = time;
    metadata.sequence = sequence;
    metadata.port = port;
    metadata.generation = generation;
    metadata.flags = flags;
    return probe.own(metadata, XG_FRAME_DATA);
  };
  EXPECT_TRUE(is_own(1500, 0xffffffff)) << "within the same tick";
  EXPECT_TRUE(is_own(1501, 3)) << "some were lost, and the number has gone round";
  EXPECT_FALSE(is_own(1499, 3)) << "so old that the number has gone round since";
  EXPECT_FALSE(is_own(1501, 0xfffffffd));
  EXPECT_FALSE(is_own(1501, 3, 1)) << "another port's";
  EXPECT_FALSE(is_own(1501, 3, 2, 0)) << "emptied";
  EXPECT_FALSE(is_own(1501, 3, 2, 7, XG_PKT_EGRESS)) << "the worker's, of what the host sent";
  EXPECT_FALSE(probe.own(plausible(), XG_FRAME_DATA + 16));
}

TEST(MetadataProbe, ADriversOwnBytesAreNotMetadata) {
  for (int wrong = 0; wrong < 5; ++wrong) {
    MetadataProbe probe(2, 1000);
    Chunk chunk(0);
    xg_metadata metadata = plausible();
    u64 start = XG_FRAME_DATA;
    if (wrong == 0) metadata.generation = 0;
    if (wrong == 1) metadata.port = 3;
    if (wrong == 2) metadata.rx_time_ns = 999;
    if (wrong == 3) metadata.rx_time_ns = 2001;
    if (wrong == 4) start = XG_FRAME_DATA + 16;
    chunk.write(metadata);
    probe.learn(chunk.bytes, start, 60, 2000);
    EXPECT_FALSE(probe.delivers()) << wrong;
  }
}

}  // namespace
}  // namespace xdpgpu::dataplane
