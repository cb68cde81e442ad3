// SPDX-License-Identifier: MIT
//
// The rings against a kernel that is played by the test: random operations, and after each of them every
// frame has exactly one owner.
#include "userspace/dataplane/rings.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <vector>

#include "tests/unit/dataplane_random.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kRing = 64, kFrames = 256, kFirst = 1000;

// The shared memory of one ring, and the side of it that the kernel has.
template <class Ring, class Entry>
struct Shared {
  Ring& ring;
  std::vector<Entry> entries = std::vector<Entry>(kRing);
  u32 producer = 0, consumer = 0, flags = 0;

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
  Entry take() { return entries[consumer++ & (kRing - 1)]; }
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
    std::multiset<FrameId> seen;
    for (u32 i = 0; i < free_.size(); ++i) seen.insert(free_.storage()[i]);
    for (const auto& [offset, length] : in_hand_) seen.insert(frame_of(offset));
    for (u32 i = kernel_.fill.consumer; i != kernel_.fill.producer; ++i)
      seen.insert(frame_of(kernel_.fill.entries[i & (kRing - 1)]));
    for (const u64 offset : kernel_.receiving) seen.insert(frame_of(offset));
    for (u32 i = kernel_.rx.consumer; i != kernel_.rx.producer; ++i)
      seen.insert(frame_of(kernel_.rx.entries[i & (kRing - 1)].addr));
    for (u32 i = kernel_.tx.consumer; i != kernel_.tx.producer; ++i)
      seen.insert(frame_of(kernel_.tx.entries[i & (kRing - 1)].addr));
    for (const u64 offset : kernel_.sending) seen.insert(frame_of(offset));
    for (u32 i = kernel_.completion.consumer; i != kernel_.completion.producer; ++i)
      seen.insert(frame_of(kernel_.completion.entries[i & (kRing - 1)]));
    seen.insert(unflushed_.begin(), unflushed_.end());
    ASSERT_EQ(seen.size(), kFrames) << "step " << step;
    ASSERT_EQ(std::set<FrameId>(seen.begin(), seen.end()).size(), kFrames) << "step " << step;
    ASSERT_GE(*seen.begin(), kFirst);
    ASSERT_LT(*seen.rbegin(), kFirst + kFrames);
    ASSERT_EQ(free_.size() + in_hand_.size() + kernel_.receiver.held() + kernel_.transmitter.held(), kFrames)
        << "step " << step;
  }

  FreeList free_{kFirst, kFrames};
  Kernel kernel_;
  std::deque<std::pair<u64, u32>> in_hand_;
  std::multiset<FrameId> unflushed_;
};

TEST_P(Model, EveryFrameHasOneOwner) {
  Random random(GetParam());
  Kernel& k = kernel_;
  u64 refilled = 0, transmitted = 0, refused = 0;
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
        const u32 taken = random() % (peeked + 1);
        for (u32 i = 0; i < taken; ++i) {
          const xdp_desc& packet = *xsk_ring_cons__rx_desc(&k.receiver.rx, at + i);
          in_hand_.emplace_back(packet.addr, packet.len);
        }
        k.receiver.take(peeked, taken);
        break;
      }
      case 2:  // drop
        for (u32 n = random() % 20; n && !in_hand_.empty(); --n) {
          free_.push(frame_of(in_hand_.front().first));
          in_hand_.pop_front();
        }
        break;
      case 3:  // send
        for (u32 n = random() % 20; n && !in_hand_.empty(); --n) {
          if (!k.transmitter.push(in_hand_.front().first, in_hand_.front().second)) {
            ++refused;
            break;
          }
          unflushed_.insert(frame_of(in_hand_.front().first));
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
        while (k.fill.filled() && random() % 8) k.receiving.push_back(k.fill.take());
        break;
      case 6:  // packets arrive
        while (!k.receiving.empty() && k.rx.room() && random() % 8) {
          const std::size_t which = random() % k.receiving.size();
          k.rx.put({k.receiving[which] + XG_FRAME_DATA, 60, 0});
          k.receiving.erase(k.receiving.begin() + static_cast<long>(which));
        }
        break;
      default:  // the kernel sends, and completes
        if (slow && random() % 16) break;
        while (k.tx.filled() && random() % 16) k.sending.push_back(k.tx.take().addr);
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
}

INSTANTIATE_TEST_SUITE_P(Seeds, Model, testing::Values(1u, 2u, 3u, 20261120u));

TEST(Receiver, WaitsWithSmallRefillsUnlessTheKernelRunsDry) {
  Kernel k;
  FreeList free(0, 200);
  EXPECT_EQ(k.receiver.refill(free, 16, [](FrameId) {}), kRing);
  for (u32 i = 0; i < 15; ++i) k.rx.put({k.fill.take() + XG_FRAME_DATA, 60, 0});
  u32 at = 0;
  k.receiver.take(k.receiver.peek(kRing, &at), 15);
  EXPECT_EQ(k.receiver.refill(free, 16, [](FrameId) {}), 0u);
  k.rx.put({k.fill.take() + XG_FRAME_DATA, 60, 0});
  k.receiver.take(k.receiver.peek(kRing, &at), 1);
  EXPECT_EQ(k.receiver.refill(free, 16, [](FrameId) {}), 16u);
  // Only a few frames are left at all: better few than none.
  FreeList few(0, 3);
  Kernel dry;
  EXPECT_EQ(dry.receiver.refill(few, 16, [](FrameId) {}), 3u);
}

TEST(Levels, OfTheReceiversRings) {
  Kernel k;
  FreeList free(0, 200);
  k.receiver.refill(free, 16, [](FrameId) {});
  k.receiver.look();
  EXPECT_EQ(k.receiver.fill_level().now, kRing);
  EXPECT_EQ(k.receiver.fill_level().most, kRing);
  EXPECT_EQ(k.receiver.fill_least(), kRing);
  for (u32 i = 0; i < 40; ++i) k.rx.put({k.fill.take() + XG_FRAME_DATA, 60, 0});
  EXPECT_EQ(k.receiver.rx_level().now, 0u);  // as last looked at
  u32 at = 0;
  k.receiver.take(k.receiver.peek(30, &at), 30);
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
  for (u32 i = 0; i < 20; ++i) ASSERT_TRUE(k.transmitter.push(chunk_of(i), 60));
  k.transmitter.flush();
  k.transmitter.kick();
  for (u32 i = 0; i < 15; ++i) k.completion.put(k.tx.take().addr);
  EXPECT_EQ(k.transmitter.tx_level().now, 5u);
  EXPECT_EQ(k.transmitter.tx_level().most, 20u);
  EXPECT_EQ(k.transmitter.completion_level().now, 15u);
  EXPECT_EQ(k.transmitter.collect([](FrameId) {}), 15u);
  EXPECT_EQ(k.transmitter.completion_level().now, 0u);
  EXPECT_EQ(k.transmitter.completion_level().most, 15u);
}

TEST(FreeList, HandsOutWhatWasUsedLast) {
  FreeList free(10, 4);
  EXPECT_EQ(free.pop(), 10u);
  EXPECT_EQ(free.pop(), 11u);
  free.push(10);
  EXPECT_EQ(free.pop(), 10u);
  EXPECT_EQ(free.size(), 2u);
  EXPECT_EQ(free.capacity(), 4u);
}

}  // namespace
}  // namespace xdpgpu::dataplane
