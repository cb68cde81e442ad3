// SPDX-License-Identifier: MIT
//
// The rings against a kernel that is played by the test: random operations, and after each of them every
// frame has exactly one owner.
#include "userspace/dataplane/rings.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <deque>
#include <set>
#include <vector>

#include "tests/unit/dataplane_random.hpp"
#include "userspace/dataplane/engine.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kRing = 64, kFrames = 256, kFirst = 1000;

// The shared memory of one ring, and the side of it that the kernel has.
template <class Ring, class Entry>
struct Shared {
  Ring& ring;
  std::vector<Entry> entries = std::vector<Entry>(kRing);
  u32 producer = 0, consumer = 0, flags = 0;
  u32 ahead = 0;  // of `consumer`: the kernel reads entries and frees their places some time later

  explicit Shared(Ring& mapped) : ring(mapped) {
    ring.size = kRing;
    ring.mask = kRing - 1;
    ring.producer = &producer;
    ring.consumer = &consumer;
    ring.ring = entries.data();
    ring.flags = &flags;
    ring.cached_prod = 0;
    ring.cached_cons = 0;
  }
  u32 filled() const { return producer - consumer; }
  bool room() const { return filled() < kRing; }
  u32 unread() const { return producer - ahead; }
  Entry read() { return entries[ahead++ & (kRing - 1)]; }
  void free_places() { consumer = ahead; }
  Entry take() {
    const Entry entry = read();
    free_places();
    return entry;
  }
  void put(Entry entry) { entries[producer++ & (kRing - 1)] = entry; }
};

struct Kernel {
  Receiver receiver;
  Transmitter transmitter;
  Shared<xsk_ring_prod, u64> fill{receiver.fill};
  Shared<xsk_ring_cons, xdp_desc> rx{receiver.rx};
  Shared<xsk_ring_prod, xdp_desc> tx{transmitter.tx};
  Shared<xsk_ring_cons, u64> completion{transmitter.completion};
  std::vector<u64> receiving;  // taken from the fill ring, no packet yet
  std::deque<u64> sending;     // taken from the TX ring, not completed

  Kernel() {
    // As libxdp maps a producer's ring: its cached consumer runs a ring ahead.
    receiver.fill.cached_cons = kRing;
    transmitter.tx.cached_cons = kRing;
  }
};

class Model : public testing::TestWithParam<u32> {
 protected:
  void check(u64 step) {
    std::array<u32, kFrames> owners{};
    u32 strangers = 0;
    const auto owned = [&](FrameId frame) {
      if (frame - kFirst < kFrames)
        ++owners[frame - kFirst];
      else
        ++strangers;
    };
    for (u32 i = 0; i < free_.size(); ++i) owned(free_.storage()[i]);
    for (const auto& packet : in_hand_)
      for (const auto& buffer : packet) owned(frame_of(buffer.offset));
    for (u32 i = kernel_.fill.ahead; i != kernel_.fill.producer; ++i)
      owned(frame_of(kernel_.fill.entries[i & (kRing - 1)]));
    for (const u64 offset : kernel_.receiving) owned(frame_of(offset));
    for (u32 i = kernel_.rx.consumer; i != kernel_.rx.producer; ++i)
      owned(frame_of(kernel_.rx.entries[i & (kRing - 1)].addr));
    for (u32 i = kernel_.tx.ahead; i != kernel_.tx.producer; ++i)
      owned(frame_of(kernel_.tx.entries[i & (kRing - 1)].addr));
    for (const u64 offset : kernel_.sending) owned(frame_of(offset));
    for (u32 i = kernel_.completion.consumer; i != kernel_.completion.producer; ++i)
      owned(frame_of(kernel_.completion.entries[i & (kRing - 1)]));
    for (const FrameId frame : unflushed_) owned(frame);
    ASSERT_EQ(strangers, 0u) << "step " << step;
    ASSERT_EQ(std::count(owners.begin(), owners.end(), 1u), kFrames) << "step " << step;
    ASSERT_EQ(free_.size() + frames_in_hand() + kernel_.receiver.held() + kernel_.transmitter.held(), kFrames)
        << "step " << step;
  }

  FreeList free_{{kFirst, kFrames}};
  Kernel kernel_;
  std::deque<std::vector<xg_descriptor>> in_hand_;  // packets
  u32 frames_in_hand() const {
    u32 frames = 0;
    for (const auto& packet : in_hand_) frames += static_cast<u32>(packet.size());
    return frames;
  }
  std::multiset<FrameId> unflushed_;
};

TEST_P(Model, EveryFrameHasOneOwner) {
  Random random(GetParam());
  Kernel& k = kernel_;
  u64 refilled = 0, transmitted = 0, refused = 0, joined = 0, received = 0, arrived = 0;
  std::deque<u32> on_the_wire;  // buffers of each packet that was sent
  u32 cut = 0;                  // buffers that the kernel has taken of the first one
  for (u64 step = 0; step < 20'000; ++step) {
    const bool slow = step / 1000 % 2;  // at times the kernel hardly sends
    switch (random() % 8) {
      case 0:
        refilled += k.receiver.refill(free_, random() % 32, [](FrameId) {});
        ASSERT_LE(k.receiver.held(), kRing);
        break;
      case 1: {  // receive some, put some back
        u32 at = 0;
        const u32 peeked = k.receiver.peek(random() % 40 + 1, &at);
        if (!peeked) break;
        u32 taken = 0, packets = 0;
        for (u64 most = random() % (peeked + 1); packets < most; ++packets) {
          const u32 buffers = k.receiver.buffers_at(at + taken, peeked - taken);
          if (!buffers) break;
          auto& packet = in_hand_.emplace_back();
          for (u32 i = 0; i < buffers; ++i) {
            const xdp_desc& buffer = *xsk_ring_cons__rx_desc(&k.receiver.rx, at + taken + i);
            packet.push_back({buffer.addr, buffer.len, i + 1 < buffers ? XG_DESC_MORE : 0});
            ASSERT_EQ(buffer.len, 60 + i) << "buffers of one packet";
          }
          taken += buffers;
        }
        k.receiver.take(peeked, taken, packets);
        received += packets;
        ASSERT_EQ(k.receiver.received(), received);
        break;
      }
      case 2:  // drop
        for (u32 n = random() % 20; n && !in_hand_.empty(); --n) {
          for (const auto& buffer : in_hand_.front()) free_.push(frame_of(buffer.offset));
          in_hand_.pop_front();
        }
        break;
      case 3:  // send
        for (u32 n = random() % 20; n && !in_hand_.empty(); --n) {
          const auto& packet = in_hand_.front();
          if (!k.transmitter.push(packet)) {
            ++refused;
            break;
          }
          for (const auto& buffer : packet) unflushed_.insert(frame_of(buffer.offset));
          joined += packet.size() > 1;
          on_the_wire.push_back(static_cast<u32>(packet.size()));
          in_hand_.pop_front();
          ++transmitted;
        }
        if (random() % 4) {
          k.transmitter.flush();
          unflushed_.clear();
        }
        break;
      case 4:
        k.transmitter.collect([this](FrameId frame) { free_.push(frame); });
        break;
      case 5:  // the kernel takes frames to receive into
        while (k.fill.unread() && random() % 8) k.receiving.push_back(k.fill.read());
        if (random() % 2) k.fill.free_places();
        break;
      case 6:  // packets arrive
        while (random() % 8) {
          const u32 buffers = random() % 3 ? 1 : 1 + static_cast<u32>(random() % 6);
          if (k.receiving.size() < buffers || kRing - k.rx.filled() < buffers) break;
          for (u32 i = 0; i < buffers; ++i) {
            const std::size_t which = random() % k.receiving.size();
            k.rx.put({k.receiving[which] + XG_FRAME_DATA, 60 + i, i + 1 < buffers ? kContinued : 0});
            k.receiving.erase(k.receiving.begin() + static_cast<long>(which));
          }
          ++arrived;
        }
        break;
      default:  // the kernel sends, and completes
        if (slow && random() % 16) break;
        while (k.tx.unread() && random() % 16) {
          const xdp_desc sent = k.tx.read();
          k.sending.push_back(sent.addr);
          ASSERT_FALSE(on_the_wire.empty());
          ASSERT_EQ((sent.options & kContinued) != 0, ++cut < on_the_wire.front()) << "step " << step;
          if (cut < on_the_wire.front()) continue;
          on_the_wire.pop_front();
          cut = 0;
        }
        if (random() % 2) k.tx.free_places();
        while (!k.sending.empty() && k.completion.room() && random() % 16) {
          k.completion.put(k.sending.front());
          k.sending.pop_front();
        }
    }
    check(step);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(refilled, 1000u);
  EXPECT_GT(transmitted, 1000u);
  EXPECT_GT(refused, 0u);
  EXPECT_GT(joined, 500u);
  EXPECT_GE(arrived, received);
}

INSTANTIATE_TEST_SUITE_P(Seeds, Model, testing::Values(1u, 2u, 3u, 20261120u));

TEST(Receiver, WaitsWithSmallRefillsUnlessTheKernelRunsDry) {
  Kernel k;
  FreeList free({0, 200});
  EXPECT_EQ(k.receiver.refill(free, 16, [](FrameId) {}), kRing);
  for (u32 i = 0; i < 15; ++i) k.rx.put({k.fill.take() + XG_FRAME_DATA, 60, 0});
  u32 at = 0;
  k.receiver.take(k.receiver.peek(kRing, &at), 15, 15);
  EXPECT_EQ(k.receiver.refill(free, 16, [](FrameId) {}), 0u);
  k.rx.put({k.fill.take() + XG_FRAME_DATA, 60, 0});
  k.receiver.take(k.receiver.peek(kRing, &at), 1, 1);
  EXPECT_EQ(k.receiver.refill(free, 16, [](FrameId) {}), 16u);
  // Only a few frames are left at all: better few than none.
  FreeList few({0, 3});
  Kernel dry;
  EXPECT_EQ(dry.receiver.refill(few, 16, [](FrameId) {}), 3u);
}

// In copy mode the kernel shows a packet before it frees its frame's place in the fill ring (xsk_flush).
TEST(Receiver, RefillsPlacesThatTheKernelHasFreed) {
  Kernel k;
  FreeList free({0, 200});
  EXPECT_EQ(k.receiver.refill(free, 16, [](FrameId) {}), kRing);
  for (u32 i = 0; i < 20; ++i) k.rx.put({k.fill.read() + XG_FRAME_DATA, 60, 0});
  u32 at = 0;
  k.receiver.take(k.receiver.peek(kRing, &at), 20, 20);
  EXPECT_EQ(k.receiver.refill(free, 16, [](FrameId) {}), 0u) << "no place is free yet";
  EXPECT_EQ(k.fill.filled(), kRing);
  EXPECT_EQ(free.size(), 200 - kRing);
  k.fill.free_places();
  EXPECT_EQ(k.receiver.refill(free, 16, [](FrameId) {}), 20u);
  for (u32 i = 0; i < kRing; ++i) EXPECT_EQ(frame_of(k.fill.take()), i + 20);
}

TEST(Receiver, APacketIsTakenWithAllItsBuffersOrNotAtAll) {
  Kernel k;
  FreeList free({0, 200});
  k.receiver.refill(free, 16, [](FrameId) {});
  for (const u32 more : {kContinued, kContinued, 0u, 0u, kContinued}) k.rx.put({k.fill.take(), 60, more});
  u32 at = 0;
  EXPECT_EQ(k.receiver.peek(kRing, &at), 5u);
  EXPECT_EQ(k.receiver.buffers_at(at, 5), 3u);
  EXPECT_EQ(k.receiver.buffers_at(at, 2), 0u) << "its end was not peeked at";
  EXPECT_EQ(k.receiver.buffers_at(at + 3, 2), 1u);
  EXPECT_EQ(k.receiver.buffers_at(at + 4, 1), 0u) << "its end is still to come";
  k.receiver.take(5, 4, 2);
  EXPECT_EQ(k.receiver.received(), 2u);
  EXPECT_EQ(k.receiver.held(), kRing - 4);
  EXPECT_EQ(k.receiver.peek(kRing, &at), 1u);
  EXPECT_EQ(k.receiver.buffers_at(at, 1), 0u);
  k.receiver.take(1, 0, 0);
  k.rx.put({k.fill.take(), 60, 0});
  k.receiver.refresh();
  EXPECT_EQ(k.receiver.peek(kRing, &at), 2u);
  EXPECT_EQ(k.receiver.buffers_at(at, 2), 2u);
}

TEST(Transmitter, APacketThatDoesNotFitLeavesTheRingAsItWas) {
  Kernel k;
  std::vector<xg_descriptor> packet;
  for (u32 i = 0; i < 6; ++i) packet.push_back({chunk_of(i), 60, i < 5 ? XG_DESC_MORE : 0});
  for (u32 i = 0; i < kRing / 6; ++i) ASSERT_TRUE(k.transmitter.push(packet));
  EXPECT_FALSE(k.transmitter.push(packet));
  EXPECT_EQ(k.transmitter.held(), kRing / 6 * 6);
  EXPECT_TRUE(k.transmitter.push(Buffers(packet).first(kRing % 6))) << "a shorter one still fits";
  k.transmitter.flush();
  EXPECT_EQ(k.tx.filled(), kRing);
}

TEST(Levels, OfTheReceiversRings) {
  Kernel k;
  FreeList free({0, 200});
  k.receiver.refill(free, 16, [](FrameId) {});
  k.receiver.look();
  EXPECT_EQ(k.receiver.fill_level().now, kRing);
  EXPECT_EQ(k.receiver.fill_level().most, kRing);
  EXPECT_EQ(k.receiver.fill_least(), kRing);
  for (u32 i = 0; i < 40; ++i) k.rx.put({k.fill.take() + XG_FRAME_DATA, 60, 0});
  EXPECT_EQ(k.receiver.rx_level().now, 0u);  // as last looked at
  u32 at = 0;
  k.receiver.take(k.receiver.peek(30, &at), 30, 30);
  EXPECT_EQ(k.receiver.rx_level().most, 40u);  // peek() saw them all
  k.receiver.look();
  EXPECT_EQ(k.receiver.rx_level().now, 10u);
  EXPECT_EQ(k.receiver.rx_level().most, 40u);
  EXPECT_EQ(k.receiver.fill_least(), 24u);
  k.receiver.refill(free, 16, [](FrameId) {});
  k.receiver.look();
  EXPECT_EQ(k.receiver.fill_least(), 24u);
  EXPECT_EQ(k.receiver.fill_level().now, 54u);
  EXPECT_EQ(k.receiver.fill_level().most, kRing);
}

TEST(Levels, OfTheTransmittersRings) {
  Kernel k;
  for (u32 i = 0; i < 20; ++i) {
    const xg_descriptor packet{chunk_of(i), 60, 0};
    ASSERT_TRUE(k.transmitter.push({&packet, 1}));
  }
  k.transmitter.flush();
  k.transmitter.kick([](FrameId) { FAIL() << "a frame was refused"; });
  for (u32 i = 0; i < 15; ++i) k.completion.put(k.tx.take().addr);
  EXPECT_EQ(k.transmitter.tx_level().now, 5u);
  EXPECT_EQ(k.transmitter.tx_level().most, 20u);
  EXPECT_EQ(k.transmitter.completion_level().now, 15u);
  EXPECT_EQ(k.transmitter.collect([](FrameId) {}), 15u);
  EXPECT_EQ(k.transmitter.completion_level().now, 0u);
  EXPECT_EQ(k.transmitter.completion_level().most, 15u);
}

// Of a queue's frames those of one batch are left, whatever a port does not send.
TEST(SendRing, HoldsWhatTheDeviceMayGiveBackAtOnce) {
  EngineOptions options;
  EXPECT_EQ(send_ring_size(options, 8192), 4u * 1024);
  options.batch = 1000;
  EXPECT_EQ(send_ring_size(options, 8192), 4u * 1024);
  EXPECT_EQ(send_ring_size(options, 65536), 4u * 1024);
  options.batch = 32;
  EXPECT_EQ(send_ring_size(options, 8192), options.ring_size);
  options = {.ring_size = 64, .batch = 1024};
  EXPECT_EQ(send_ring_size(options, 64 + 1024), 64u);
  EXPECT_EQ(send_ring_size(options, 4096), 2048u);
}

// Batches that grow are no more than rings and frames hold, all of them together.
TEST(LargestBatch, FitsIntoSendRingAndFrames) {
  EngineOptions options;
  options.compute_mode = ComputeMode::automatic;
  EXPECT_EQ(largest_batch(options, 8192), 1024u) << "the frames of the default are for four of 1,024";
  for (const u32 frames : {4096u, 8192u, 32768u, 65536u, 262144u})
    for (const u32 batch : {1u, 64u, 1000u, 1024u, 4096u, 65536u})
      for (const u32 depth : {1u, 4u, 16u}) {
        options.batch = batch;
        options.batches_in_flight = depth;
        const u32 largest = largest_batch(options, frames);
        EXPECT_GE(largest, batch);
        EXPECT_LE(largest, std::max(batch, std::min(16 * batch, 16384u)));
        if (largest == batch) continue;
        EXPECT_LE(largest * depth, send_ring_size(options, frames)) << frames << " frames, batch " << batch;
        EXPECT_LE(largest * depth + options.ring_size, frames) << frames << " frames, batch " << batch;
      }
  options.batch = 1024;
  options.batches_in_flight = 4;
  EXPECT_EQ(largest_batch(options, 32768), 4096u);
  EXPECT_EQ(largest_batch(options, 262144), 16384u);
}

TEST(FreeList, HandsOutWhatWasUsedLast) {
  FreeList free({10, 4});
  EXPECT_EQ(free.pop(), 10u);
  EXPECT_EQ(free.pop(), 11u);
  free.push(10);
  EXPECT_EQ(free.pop(), 10u);
  EXPECT_EQ(free.size(), 2u);
  EXPECT_EQ(free.capacity(), 4u);
}

TEST(FreeList, LeavesOutTheChunksThatDriversUse) {
  FreeList free({.first = 10, .count = 3, .step = 2});
  EXPECT_EQ(free.span(), 6u);
  for (const FrameId frame : {10u, 12u, 14u}) {
    EXPECT_TRUE(free.owns(frame));
    EXPECT_EQ(free.pop(), frame);
  }
  EXPECT_EQ(free.size(), 0u);
  for (const FrameId frame : {8u, 9u, 11u, 13u, 15u, 16u}) EXPECT_FALSE(free.owns(frame)) << frame;
}

}  // namespace
}  // namespace xdpgpu::dataplane
