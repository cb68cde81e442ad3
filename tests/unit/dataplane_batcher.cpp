// SPDX-License-Identifier: MIT
#include "userspace/dataplane/batcher.hpp"

#include <gtest/gtest.h>

#include <deque>

#include "tests/unit/dataplane_device.hpp"
#include "tests/unit/dataplane_random.hpp"
#include "userspace/dataplane/buffers.hpp"
#include "userspace/dataplane/clock.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kCapacity = 8, kDepth = 3;
constexpr u64 kWait = 1000;

struct Bench {
  TestDevice<kCapacity, kDepth> device{0};
  Batcher batcher;
  explicit Bench(Closing closing = Closing::patient) : batcher(device, kCapacity, kDepth, kWait, closing) {}
  // frame: of its first buffer, the others follow.
  bool add(u32 generation, u32 sequence, u8 port = 0, u64 now = 0) {
    return add_buffers(1, sequence, generation, sequence, port, now);
  }
  bool add_buffers(u32 buffers, u32 frame, u32 generation, u32 sequence, u8 port = 0, u64 now = 0) {
    Batch* batch = batcher.open(generation, now, buffers);
    if (!batch) return false;
    xg_metadata metadata{};
    metadata.sequence = sequence;
    metadata.rx_time_ns = 1000 + sequence;
    batch->add(chunk_of(frame) + XG_FRAME_DATA, 60, port, metadata);
    for (u32 i = 1; i < buffers; ++i) batch->extend(chunk_of(frame + i) + XG_FRAME_DATA, 60);
    return true;
  }
};

TEST(Batcher, SubmitsAtOnceWhenTheDeviceIsIdleAndTheRingsAreEmpty) {
  Bench b;
  ASSERT_TRUE(b.add(1, 0));
  b.batcher.submit_if_due(1, false);
  EXPECT_EQ(b.device.in_flight(), 0u);
  b.batcher.submit_if_due(1, true);
  EXPECT_EQ(b.device.in_flight(), 1u);
  EXPECT_EQ(b.batcher.held(), 1u);
}

TEST(Batcher, WaitsForMoreWhileTheDeviceIsBusyButNotForLong) {
  Bench b;
  b.add(1, 0);
  b.batcher.submit_if_due(0, true);
  ASSERT_TRUE(b.add(1, 1, 0, 100));
  b.batcher.submit_if_due(100, true);
  EXPECT_EQ(b.device.in_flight(), 1u);
  b.batcher.submit_if_due(100 + kWait - 1, true);
  EXPECT_EQ(b.device.in_flight(), 1u);
  b.batcher.submit_if_due(100 + kWait, true);
  EXPECT_EQ(b.device.in_flight(), 2u);
}

TEST(Batcher, AFullBatchGoesAndTheNextOneOpens) {
  Bench b;
  for (u32 i = 0; i < kCapacity; ++i) ASSERT_TRUE(b.add(1, i));
  EXPECT_EQ(b.device.in_flight(), 0u);
  ASSERT_TRUE(b.add(1, kCapacity));
  EXPECT_EQ(b.device.in_flight(), 1u);
  EXPECT_EQ(b.batcher.held(), kCapacity + 1);
}

// The last free slot takes more, and that one alone.
TEST(Batcher, ABatchGrowsWhileTheDeviceHasAllTheOthers) {
  constexpr u32 kMost = 4 * kCapacity;
  TestDevice<kMost, kDepth> device{0};
  Batcher batcher(device, kCapacity, kDepth, kWait, Closing::patient, nullptr, kMost);
  u32 frame = 0;
  const auto add = [&] {
    Batch* batch = batcher.open(1, 0);
    if (!batch) return false;
    xg_metadata metadata{};
    metadata.sequence = frame;
    batch->add(chunk_of(frame++) + XG_FRAME_DATA, 60, 0, metadata);
    return true;
  };
  while (add()) batcher.submit_if_due(0, false);
  EXPECT_EQ(device.in_flight(), kDepth);
  EXPECT_EQ(batcher.held(), 2 * kCapacity + kMost);
  // One is back: the next one is the last free slot again. With two back it is as ever.
  device.finished = 1;
  batcher.release(batcher.poll());
  while (add()) batcher.submit_if_due(0, false);
  EXPECT_EQ(batcher.held(), kCapacity + 2 * kMost);
  device.finished = 2;
  for (u32 i = 0; i < 2; ++i) batcher.release(batcher.poll());
  for (u32 i = 0; i < kCapacity; ++i) ASSERT_TRUE(add());
  batcher.submit_if_due(0, false);
  EXPECT_EQ(device.in_flight(), 2u) << "it is full";
}

TEST(Batcher, OneSlotAloneDoesNotGrow) {
  TestDevice<16, 1> device{0};
  Batcher batcher(device, 4, 1, kWait, Closing::patient, nullptr, 16);
  Batch* batch = batcher.open(1, 0);
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->room(), 4u);
}

TEST(Batcher, APacketsBuffersStayTogether) {
  Bench b;
  ASSERT_TRUE(b.add_buffers(6, 0, 1, 10, 2));
  ASSERT_TRUE(b.add_buffers(1, 6, 1, 11, 3));
  ASSERT_TRUE(b.add_buffers(2, 7, 1, 12, 2));  // one place is left: not enough
  EXPECT_EQ(b.device.in_flight(), 1u);
  EXPECT_EQ(b.batcher.held(), 9u) << "frames";
  b.device.finished = 1;
  Batch* batch = b.batcher.poll();
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->slot->count, 7u) << "descriptors are submitted";
  EXPECT_EQ(batch->packets(), 2u);
  EXPECT_EQ(batch->ports[0], 2u);
  for (u32 i = 1; i < 6; ++i) EXPECT_EQ(batch->ports[i], Batch::kLaterBuffer);
  EXPECT_EQ(batch->ports[6], 3u);
  ASSERT_EQ(batch->arrivals_count, 2u);
  EXPECT_EQ(batch->arrivals[1].port, 3u);
  EXPECT_EQ(batch->arrivals[1].first_ns, 1011u);
  EXPECT_EQ(batch->next_sequence[2], 11u);
  const Buffers first = packet_at(batch->slot->descriptors);
  ASSERT_EQ(first.size(), 6u);
  EXPECT_EQ(bytes_of(first), 360u);
  EXPECT_EQ(packet_at(batch->slot->descriptors + 6).size(), 1u);
  b.batcher.release(batch);
  EXPECT_EQ(b.batcher.held(), 2u);
}

TEST(Batcher, ABatchHasOneGeneration) {
  Bench b;
  b.add(1, 0);
  b.add(1, 1);
  b.add(2, 2);
  EXPECT_EQ(b.device.in_flight(), 1u);
  b.device.finished = 1;
  const Batch* batch = b.batcher.poll();
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->generation, 1u);
  EXPECT_EQ(batch->slot->generation, 1u);
  EXPECT_EQ(batch->count, 2u);
}

TEST(Batcher, WithoutASlotThePacketStaysWhereItIs) {
  Bench b;
  for (u32 i = 0; i < kCapacity * kDepth; ++i) ASSERT_TRUE(b.add(1, i));
  EXPECT_FALSE(b.add(1, 99));
  EXPECT_EQ(b.device.in_flight(), kDepth);
  EXPECT_EQ(b.batcher.held(), kCapacity * kDepth);
  b.device.finished = 1;
  Batch* batch = b.batcher.poll();
  ASSERT_NE(batch, nullptr);
  EXPECT_FALSE(b.add(1, 99));
  b.batcher.release(batch);
  EXPECT_TRUE(b.add(1, 99));
}

TEST(Batcher, RemembersPortsAndLastSequences) {
  Bench b;
  b.add(1, 10, 0);
  b.add(1, 500, 3);
  b.add(1, 11, 0);
  b.batcher.submit_if_due(0, true);
  b.device.finished = 1;
  const Batch* batch = b.batcher.poll();
  ASSERT_NE(batch, nullptr);
  EXPECT_EQ(batch->port_mask, 0b1001u);
  EXPECT_EQ(batch->next_sequence[0], 12u);
  EXPECT_EQ(batch->next_sequence[3], 501u);
  EXPECT_EQ(batch->ports[1], 3u);
}

TEST(Batcher, RefusedBatchesComeBackBehindTheEarlierOnes) {
  Bench b;
  b.device.unknown = 2;
  b.add(1, 0);
  b.add(2, 1);
  b.add(3, 2);  // submits both
  EXPECT_EQ(b.batcher.poll(), nullptr);
  EXPECT_TRUE(b.batcher.waiting());
  b.device.finished = 1;
  Batch* first = b.batcher.poll();
  ASSERT_NE(first, nullptr);
  EXPECT_EQ(first->generation, 1u);
  EXPECT_EQ(first->outcome, Outcome::decided);
  b.batcher.release(first);
  Batch* second = b.batcher.poll();
  ASSERT_NE(second, nullptr);
  EXPECT_EQ(second->generation, 2u);
  EXPECT_EQ(second->outcome, Outcome::unknown_generation);
  b.batcher.release(second);
  EXPECT_EQ(b.batcher.held(), 1u);
}

// A later batch must not retire first, nor a busy device keep a refused batch for ever.
TEST(Batcher, ARefusedBatchComesBeforeTheLaterOnes) {
  Bench b;
  b.device.unknown = 2;
  b.add(1, 0);
  b.add(2, 1);
  b.add(3, 2);
  b.batcher.submit_if_due(kWait + 2, false);  // the third is in flight now
  b.device.finished = 1;
  for (const u32 generation : {1u, 2u}) {
    Batch* batch = b.batcher.poll();
    ASSERT_NE(batch, nullptr) << generation;
    EXPECT_EQ(batch->generation, generation);
    b.batcher.release(batch);
  }
  EXPECT_EQ(b.batcher.poll(), nullptr);
  b.device.finished = 2;
  Batch* last = b.batcher.poll();
  ASSERT_NE(last, nullptr);
  EXPECT_EQ(last->generation, 3u);
  b.batcher.release(last);
}

TEST(Batcher, ADeviceThatFailsGivesEveryPacketBack) {
  Bench b;
  b.add(1, 0);
  b.batcher.submit_if_due(0, true);
  b.device.broken = true;
  b.add(1, 1);
  b.batcher.submit_if_due(kWait, true);
  b.device.finished = 1;
  for (int i = 0; i < 2; ++i) {
    Batch* batch = b.batcher.poll();
    ASSERT_NE(batch, nullptr);
    EXPECT_EQ(batch->outcome, Outcome::device_failed);
    EXPECT_EQ(batch->count, 1u);
    b.batcher.release(batch);
  }
  EXPECT_EQ(b.batcher.held(), 0u);
  EXPECT_FALSE(b.batcher.waiting());
}

// Whatever happens, what goes in comes out once, in order, in batches of one generation.
TEST(Batcher, KeepsOrderAndLosesNothing) {
  Random random(20261120);
  Bench b;
  u32 next = 0, expected = 0, generation = 1;
  for (u64 now = 0; now < 200'000; ++now) {
    if (random() % 50 == 0) ++generation;
    if (random() % 2 && b.add(generation, next, 0, now)) ++next;
    b.batcher.submit_if_due(now, random() % 2);
    if (random() % 5 == 0) b.device.finished = random() % 3;
    while (Batch* batch = b.batcher.poll()) {
      for (u32 i = 0; i < batch->count; ++i, ++expected)
        ASSERT_EQ(frame_of(batch->slot->descriptors[i].offset), expected);
      ASSERT_EQ(batch->slot->generation, batch->generation);
      b.batcher.release(batch);
    }
    ASSERT_EQ(b.batcher.held(), next - expected);
  }
  EXPECT_GT(expected, 50'000u);
}

// The same of packets that take up to a whole batch: each comes out with its buffers in a row.
TEST(Batcher, KeepsPacketsOfSeveralBuffersWhole) {
  Random random(20261121);
  Bench b;
  std::deque<u32> sizes;
  u32 next = 0, sequence = 0, expected = 0, cut = 0;
  for (u64 now = 0; now < 100'000; ++now) {
    const u32 buffers = 1 + static_cast<u32>(random() % kCapacity);
    if (random() % 2 && b.add_buffers(buffers, next, 1, sequence, 0, now)) {
      next += buffers;
      sizes.push_back(buffers);
      ++sequence;
    }
    b.batcher.submit_if_due(now, random() % 2);
    if (random() % 3 == 0) b.device.finished = random() % 3;
    while (Batch* batch = b.batcher.poll()) {
      const xg_descriptor* at = batch->slot->descriptors;
      for (u32 i = 0; i < batch->packets(); ++i) {
        const Buffers packet = packet_at(at);
        ASSERT_EQ(packet.size(), sizes.front());
        sizes.pop_front();
        for (const auto& buffer : packet) ASSERT_EQ(frame_of(buffer.offset), expected++);
        at += packet.size();
      }
      ASSERT_EQ(at - batch->slot->descriptors, batch->slot->count);
      cut += batch->count < kCapacity;
      b.batcher.release(batch);
    }
    ASSERT_EQ(b.batcher.held(), next - expected);
  }
  EXPECT_GT(expected, 50'000u);
  EXPECT_GT(cut, 1'000u) << "batches that closed with places left";
}

// ---- Closing::by_load ------------------------------------------------------------------------------

TEST(BatcherByLoad, NoPacketWaitsWhileTheDeviceHasNothingToDo) {
  Random random(20261121);
  Bench b(Closing::by_load);
  u64 submitted = 0;
  u32 next = 0;
  for (u64 now = 0; now < 100'000; ++now) {
    for (u32 burst = static_cast<u32>(random() % 4); burst; --burst)
      if (b.add(1, next, 0, now)) ++next;
    const bool idle = b.device.in_flight() == 0;
    b.batcher.submit_if_due(now, random() % 2);
    ASSERT_FALSE(idle && b.batcher.open_batch()) << "at " << now;
    if (random() % 8 == 0) b.device.finished = static_cast<u32>(random() % 3);
    while (Batch* batch = b.batcher.poll()) {
      b.batcher.took(random() % 5000);
      ++submitted;
      b.batcher.release(batch);
    }
  }
  EXPECT_GT(submitted, 10'000u);
}

TEST(BatcherByLoad, WaitsForHalfOfWhatTheDeviceTakesAndNoLongerThanMaxWait) {
  for (const auto& [device_ns, wait_ns] : {std::pair<u64, u64>{200, 100}, {1000, 500}, {50'000, kWait}}) {
    SCOPED_TRACE(device_ns);
    Bench b(Closing::by_load);
    b.batcher.took(device_ns);
    b.add(1, 0, 0, 0);
    b.batcher.submit_if_due(0, false);
    ASSERT_EQ(b.device.in_flight(), 1u);
    b.add(1, 1, 0, 10'000);
    b.batcher.submit_if_due(10'000 + wait_ns - 1, true);
    EXPECT_EQ(b.device.in_flight(), 1u);
    b.batcher.submit_if_due(10'000 + wait_ns, true);
    EXPECT_EQ(b.device.in_flight(), 2u);
  }
}

// The same arrivals on a slower and slower device: batches grow with it.
TEST(BatcherByLoad, BatchesGrowWithTheTimeThatTheDeviceTakes) {
  u64 before = 0;
  for (const u64 device_ns : {u64{2}, u64{8}, u64{16}}) {
    Bench b(Closing::by_load);
    std::deque<u64> done;  // when each batch in flight is
    u64 batches = 0, packets = 0;
    u32 next = 0;
    for (u64 now = 0; now < 10'000; ++now) {
      if (b.add(1, next, 0, now)) ++next;
      const u32 flying = b.device.in_flight();
      b.batcher.submit_if_due(now, true);
      if (b.device.in_flight() > flying) done.push_back(now + device_ns);
      while (!done.empty() && done.front() <= now) {
        done.pop_front();
        b.device.finished = 1;
        Batch* batch = b.batcher.poll();
        ASSERT_NE(batch, nullptr);
        b.batcher.took(device_ns);
        ++batches;
        packets += batch->count;
        b.batcher.release(batch);
      }
    }
    ASSERT_GT(batches, 0u);
    const u64 mean_times_100 = packets * 100 / batches;
    EXPECT_GT(mean_times_100, before) << device_ns;
    before = mean_times_100;
  }
  EXPECT_GE(before, 400u);
}

TEST(Batcher, ABatchIsOverdueByItsAgeAlone) {
  constexpr u64 kOpened = 1'000'000, kLimit = 5000;
  Bench b;
  EXPECT_FALSE(b.batcher.overdue(kOpened, kLimit));
  ASSERT_TRUE(b.add(1, 0, 0, kOpened));
  EXPECT_FALSE(b.batcher.overdue(kOpened + 2 * kLimit, kLimit)) << "nobody waits for it yet";
  b.batcher.submit_if_due(kOpened, true);
  EXPECT_FALSE(b.batcher.overdue(kOpened + kLimit, kLimit));
  EXPECT_TRUE(b.batcher.overdue(kOpened + kLimit + 1, kLimit));
  EXPECT_FALSE(b.batcher.overdue(kOpened - 1, kLimit)) << "opened after the other thread looked at the clock";
  b.device.finished = 1;
  b.batcher.release(b.batcher.poll());
  EXPECT_FALSE(b.batcher.overdue(kOpened + 2 * kLimit, kLimit));
}

TEST(Batcher, KnowsSinceWhenTheDeviceOwesAnAnswer) {
  Bench b;
  EXPECT_EQ(b.batcher.asked_ns(77), 77u) << "nothing is asked of it";
  ASSERT_TRUE(b.add(1, 0));
  EXPECT_EQ(b.batcher.asked_ns(77), 77u) << "not yet";
  const u64 before = monotonic_ns();
  b.batcher.submit_if_due(kWait, true);
  const u64 asked = b.batcher.asked_ns(77);
  EXPECT_GE(asked, before);
  EXPECT_LE(asked, monotonic_ns());
  ASSERT_TRUE(b.add(2, 1));
  ASSERT_TRUE(b.add(3, 2));
  EXPECT_EQ(b.batcher.asked_ns(77), asked) << "the oldest counts";
  b.device.finished = 1;
  b.batcher.release(b.batcher.poll());
  EXPECT_GT(b.batcher.asked_ns(77), asked);
  b.device.finished = 1;
  b.batcher.release(b.batcher.poll());
  EXPECT_EQ(b.batcher.asked_ns(77), 77u) << "the third is not submitted";
}

TEST(Batcher, KeepsWhenItsPacketsCameAndWhenItWasSubmitted) {
  Bench b;
  ASSERT_TRUE(b.add(1, 4));
  ASSERT_TRUE(b.add(1, 9));
  const u64 before = monotonic_ns();
  b.batcher.submit_if_due(kWait, true);
  const u64 after = monotonic_ns();
  b.device.finished = 1;
  Batch* batch = b.batcher.poll();
  ASSERT_NE(batch, nullptr);
  ASSERT_EQ(batch->arrivals_count, 2u);
  EXPECT_EQ(batch->arrivals[0].first_ns, 1004u);
  EXPECT_EQ(batch->arrivals[0].last_ns, 1004u);
  EXPECT_EQ(batch->arrivals[1].first_ns, 1009u);
  EXPECT_EQ(batch->arrivals[1].packets, 1u);
  EXPECT_GE(batch->submitted_ns, before);
  EXPECT_LE(batch->submitted_ns, after);
  b.batcher.release(batch);
}

}  // namespace
}  // namespace xdpgpu::dataplane
