// SPDX-License-Identifier: MIT
//
// What the host sends, on its way from the kernel's logs into the workers' batches.
#include "userspace/dataplane/egress_feed.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <span>

#include "maps/hash.h"
#include "tests/unit/dataplane_device.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kCapacity = 64, kDepth = 2, kFrames = 256;
constexpr u8 kSyn = 2, kAck = 16;
constexpr u8 kTcp = 6, kUdp = 17;

// The kernel's side of one port with two CPUs.
class Kernel {
 public:
  Kernel() : records_(2 * XG_EGRESS_SLOTS), heads_(2) { config_.flow_keys = xg_hash_keys_from(1, 2); }
  EgressLogs logs() const { return {records_.data(), heads_.data(), 2, &config_}; }
  void send(u32 cpu, std::span<const u8> frame, u64 time_ns = 5) {
    u64& head = heads_[cpu].head;
    xg_egress_record& record = records_[cpu * XG_EGRESS_SLOTS + head % XG_EGRESS_SLOTS];
    record.captured = static_cast<u32>(std::min<std::size_t>(frame.size(), XG_EGRESS_BYTES));
    record.wire_length = static_cast<u32>(frame.size());
    record.time_ns = time_ns;
    std::memcpy(record.packet, frame.data(), record.captured);
    record.ticket = ++head;
  }
  // As a program that is just writing the record has it.
  void spoil(u32 cpu, u64 number) { records_[cpu * XG_EGRESS_SLOTS + number % XG_EGRESS_SLOTS].ticket = 0; }

 private:
  std::vector<xg_egress_record> records_;
  std::vector<xg_egress_head> heads_;
  xg_config config_{};
};

std::vector<u8> frame(u8 protocol, u16 src_port, u8 tcp_flags = 0, std::size_t payload = 0) {
  std::vector<u8> out(14 + 20 + (protocol == kTcp ? 20 : 8) + payload);
  const std::size_t ip_bytes = out.size() - 14;
  out[12] = 8;
  out[14] = 0x45;
  out[16] = static_cast<u8>(ip_bytes >> 8);
  out[17] = static_cast<u8>(ip_bytes);
  out[22] = 64;
  out[23] = protocol;
  out[26] = 10;
  out[30] = 10;
  out[33] = 2;
  out[34] = static_cast<u8>(src_port >> 8);
  out[35] = static_cast<u8>(src_port);
  out[37] = 80;
  if (protocol == kTcp) {
    out[46] = 0x50;
    out[47] = tcp_flags;
  } else {
    out[38] = static_cast<u8>((ip_bytes - 20) >> 8);
    out[39] = static_cast<u8>(ip_bytes - 20);
  }
  return out;
}

struct Seen {
  xg_metadata metadata;
  std::vector<u8> frame;
};

// One worker, without its sockets.
class Reader {
 public:
  Reader(const Kernel& kernel, u32 worker, u32 workers, const std::atomic<const CurrentPolicy*>& policy)
      : region_(kFrames * XG_CHUNK_SIZE),
        free_({0, kFrames}),
        queue_(new PortQueue{.traits = {},
                             .socket = nullptr,
                             .reinject = nullptr,
                             .counters = &counters,
                             .flows = gpu::FlowTable({}, {}),
                             .metadata = MetadataProbe(0, 0),
                             .credits = Credits(0, 64)}),
        feed({kernel.logs()}, {queue_.get()}, worker, workers, region_.data(), free_, policy),
        batcher(device_, kCapacity, kDepth, 1000) {
    feed.use(batcher);
  }
  bool take() {
    bool any = false;
    return feed.take(100, &any);
  }
  // What the batches hold; their frames are free again.
  std::vector<Seen> finish() {
    std::vector<Seen> seen;
    batcher.submit_if_due(1'000'000, true);
    while (Batch* batch = batcher.poll()) {
      EXPECT_EQ(batch->packets(), 0u) << "none was received";
      for (u32 i = 0; i < batch->count; ++i) {
        const xg_descriptor& at = batch->slot->descriptors[i];
        EXPECT_FALSE(Batch::is_received(batch->ports[i]));
        EXPECT_EQ(Batch::egress_port(batch->ports[i]), 0);
        Seen& one = seen.emplace_back();
        std::memcpy(&one.metadata, &region_[at.offset - XG_METADATA_SIZE], sizeof(one.metadata));
        EXPECT_EQ(one.metadata.generation, batch->slot->generation);
        one.frame.assign(&region_[at.offset], &region_[at.offset] + at.length);
        free_.push(frame_of(at.offset));
        ++queue_->later_unbatched;
      }
      batcher.release(batch);
    }
    EXPECT_EQ(free_.size(), kFrames);
    EXPECT_EQ(queue_->later_batched, queue_->later_unbatched);
    return seen;
  }

  xg_worker_counters counters{};

 private:
  std::vector<u8> region_;
  FreeList free_;
  std::unique_ptr<PortQueue> queue_;
  TestDevice<kCapacity, kDepth> device_{~0u};

 public:
  EgressFeed feed;
  Batcher batcher;
};

class EgressFeeds : public testing::Test {
 protected:
  EgressFeeds() { policy_.store(&first_); }
  Kernel kernel_;
  CurrentPolicy first_{1, {}, {3}, false, {}}, second_{2, {}, {0, 4}, false, {}}, deaf_{3, {}, {}, false, {}};
  std::atomic<const CurrentPolicy*> policy_{nullptr};
};

TEST_F(EgressFeeds, HeadersComeAsTheyWereSent) {
  Reader worker(kernel_, 0, 1, policy_);
  const auto syn = frame(kTcp, 1000, kSyn), data = frame(kTcp, 1000, kAck, 1400);
  kernel_.send(0, syn, 7);
  kernel_.send(1, data, 9);
  EXPECT_TRUE(worker.take());
  const auto seen = worker.finish();
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[0].frame, syn);
  EXPECT_EQ(seen[0].metadata.rx_time_ns, 7u);
  EXPECT_EQ(seen[0].metadata.pipeline, 3u);
  EXPECT_EQ(seen[0].metadata.flags, XG_PKT_IPV4 | XG_PKT_TCP | XG_PKT_PORTS | XG_PKT_EGRESS);
  EXPECT_EQ(seen[1].frame.size(), XG_EGRESS_BYTES);
  EXPECT_EQ(seen[1].metadata.flags, seen[0].metadata.flags) << "cut off, and not malformed";
  EXPECT_EQ(worker.counters.egress_seen, 2u);
  EXPECT_EQ(worker.counters.egress_missed, 0u);
  EXPECT_TRUE(worker.take());
  EXPECT_TRUE(worker.finish().empty()) << "once";
}

// Any worker may receive the answer; one of them is enough for what follows.
TEST_F(EgressFeeds, WhatMayBeginAConnectionComesToAllWorkers) {
  std::vector<std::unique_ptr<Reader>> workers;
  for (u32 i = 0; i < 3; ++i) workers.push_back(std::make_unique<Reader>(kernel_, i, 3, policy_));
  for (u16 port = 1; port <= 20; ++port) {
    kernel_.send(0, frame(kTcp, port, kSyn));
    kernel_.send(1, frame(kTcp, port, kAck));
    kernel_.send(1, frame(kUdp, port));
  }
  std::vector<u32> acks(21);
  for (auto& worker : workers) {
    EXPECT_TRUE(worker->take());
    u32 begins = 0, mine = 0;
    for (const Seen& one : worker->finish()) {
      if (one.frame[23] == kTcp && one.frame[47] == kAck) {
        ++acks[one.frame[35]];
        ++mine;
      } else {
        ++begins;
      }
    }
    EXPECT_EQ(begins, 40u);
    EXPECT_LT(mine, 20u);
  }
  for (u16 port = 1; port <= 20; ++port) EXPECT_EQ(acks[port], 1u) << port;
}

TEST_F(EgressFeeds, WhoFallsBehindMissesTheOldestAndCountsThem) {
  Reader worker(kernel_, 0, 1, policy_);
  constexpr u32 kSent = 3 * XG_EGRESS_SLOTS;
  for (u32 i = 0; i < kSent; ++i) kernel_.send(0, frame(kUdp, 1), i);
  u64 last = 0;
  while (!worker.take())
    for (const Seen& one : worker.finish()) last = one.metadata.rx_time_ns;
  for (const Seen& one : worker.finish()) last = one.metadata.rx_time_ns;
  EXPECT_EQ(last, kSent - 1u) << "the newest is there";
  EXPECT_GT(worker.counters.egress_missed, kSent - XG_EGRESS_SLOTS - 1u);
  EXPECT_GE(worker.counters.egress_seen, XG_EGRESS_SLOTS / 2);
  EXPECT_EQ(worker.counters.egress_seen + worker.counters.egress_missed, kSent);
}

// As when the kernel begins to write where the worker reads.
TEST_F(EgressFeeds, ARecordThatIsBeingOverwrittenIsMissed) {
  Reader worker(kernel_, 0, 1, policy_);
  for (u32 i = 0; i < XG_EGRESS_SLOTS; ++i) kernel_.send(0, frame(kUdp, 1), i);
  kernel_.spoil(0, 0);
  while (!worker.take()) worker.finish();
  worker.finish();
  EXPECT_GT(worker.counters.egress_missed, 0u);
  EXPECT_EQ(worker.counters.egress_seen + worker.counters.egress_missed, XG_EGRESS_SLOTS);
}

// With the device full nothing is lost, nothing comes twice, and nobody may go ahead.
TEST_F(EgressFeeds, WaitsForTheDevice) {
  policy_.store(&second_);
  Reader worker(kernel_, 0, 1, policy_);
  constexpr u32 kSent = 501;
  for (u32 i = 0; i < kSent; ++i) kernel_.send(0, frame(kUdp, 1), i);
  std::vector<Seen> all;
  u32 waited = 0;
  for (bool done = false; !done;) {
    done = worker.take();
    waited += !done;
    for (Seen& one : worker.finish()) all.push_back(std::move(one));
  }
  EXPECT_GT(waited, 3u);
  ASSERT_EQ(all.size(), 2 * kSent) << "once for each pipeline";
  for (u32 i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].metadata.rx_time_ns, i / 2);
    EXPECT_EQ(all[i].metadata.pipeline, second_.fed_by_egress[i % 2]);
  }
}

TEST_F(EgressFeeds, NothingIsTakenForWhoDoesNotAsk) {
  policy_.store(&deaf_);
  Reader worker(kernel_, 0, 1, policy_);
  kernel_.send(0, frame(kUdp, 1));
  EXPECT_TRUE(worker.take());
  EXPECT_TRUE(worker.finish().empty());
  EXPECT_EQ(worker.counters.egress_seen, 0u);
}

// What an older policy's pipelines are shown has left once so many frames have come out of batches.
TEST_F(EgressFeeds, KnowsWhatAnOlderPolicyMayStillHave) {
  Reader worker(kernel_, 0, 1, policy_);
  EXPECT_EQ(worker.feed.generation(), 0u);
  kernel_.send(0, frame(kUdp, 1));
  EXPECT_TRUE(worker.take());
  EXPECT_EQ(worker.feed.generation(), 1u);
  EXPECT_EQ(worker.feed.frames_before(), 0u);
  policy_.store(&second_);
  kernel_.send(0, frame(kUdp, 1));
  EXPECT_TRUE(worker.take());
  EXPECT_EQ(worker.feed.generation(), 2u);
  EXPECT_EQ(worker.feed.frames_before(), 1u);
  const auto seen = worker.finish();
  ASSERT_EQ(seen.size(), 3u);
  EXPECT_EQ(seen[0].metadata.generation, 1u);
  EXPECT_EQ(seen[1].metadata.generation, 2u);
}

}  // namespace
}  // namespace xdpgpu::dataplane
