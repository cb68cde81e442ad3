// SPDX-License-Identifier: MIT
//
// Feeding where fragments wait: other packets go on meanwhile, whole datagrams go to the device under the
// policy that they came in under, and each frame and packet is accounted for at any time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>

#include "bench/worker/rings.hpp"
#include "tests/kernel/frame.hpp"
#include "tests/unit/dataplane_device.hpp"
#include "tests/unit/dataplane_random.hpp"
#include "userspace/dataplane/feeder.hpp"

namespace xdpgpu::dataplane {
namespace {

using namespace xdpgpu::test;  // frames

constexpr u32 kRing = 64, kFrames = 640, kCapacity = 48, kDepth = 3;
const xg_hash_keys kKeys = xg_hash_keys_from(1, 2);

class FeedingFragments : public testing::TestWithParam<u32> {
 protected:
  FeedingFragments()
      : random_(GetParam()),
        region_(std::size_t{kFrames + 16} * XG_CHUNK_SIZE),
        share_{16, kFrames, -1, 1},
        free_(share_),
        device_(0),
        batcher_(device_, kCapacity, kDepth, 1000),
        fill_(kRing),
        rx_(kRing),
        entries_(64),
        stats_(64),
        queue_(PortQueue{.traits = {},
                         .socket = {},
                         .reinject = {},
                         .flows = gpu::FlowTable(entries_, stats_),
                         .metadata = MetadataProbe(0, 1, GetParam() % 2 == 0),
                         .credits = Credits(0, kRing)}) {
    config_.flow_keys = kKeys;
    queue_.packet_buffers = 3;
    queue_.socket = Socket::over_memory();
    fill_.map(queue_.socket->receiver.fill, true);
    rx_.map(queue_.socket->receiver.rx, false);
    queue_.config = &config_;
    queue_.state = &state_;
    queue_.counters = &counters_;
    queue_.metrics = &metrics_;
    for (u32 i = 0; i < 3; ++i) policies_[i].generation = 10 + i;
    policies_[0].reassembles = policies_[2].reassembles = Overlapping::drop;
    current_ = &policies_[0];
    std::vector<PortQueue*> queues{&queue_};
    egress_.emplace(std::vector<EgressLogs>{}, queues, 0, 1, region_.data(), free_, current_);
    feeder_.emplace(options_, region_.data(), queues, free_, nullptr, unparsed_, current_, *egress_);
    feeder_->use(batcher_);
    options_.batch = kCapacity;
    feeder_->refill();
  }

  u32 below(u32 limit) { return random_() % limit; }

  // In buffers of so many bytes, as the XDP program hands it over.
  bool arrive(const Frame& frame, u32 generation, u16 more_flags = 0, std::size_t buffer = XG_FRAME_MAX) {
    const auto buffers = static_cast<u32>((frame.size() + buffer - 1) / buffer);
    if (fill_.waiting() < buffers || rx_.room() < buffers) return false;
    xg_packet parsed;
    xg_parse_part(frame.data(), frame.data() + std::min(buffer, frame.size()), static_cast<u32>(frame.size()),
                  0, &parsed);
    if (parsed.flags & XG_PKT_FRAGMENT) {
      if (parsed.flags & XG_PKT_LATER_FRAGMENT)
        parsed.flags |= XG_PKT_TRACKED;
      else
        xg_track_first(&parsed);
      ++state_.exceptions;
    }
    xg_metadata metadata{};
    xg_metadata_from(&metadata, &parsed, xg_flow_hash(&parsed.key, &kKeys));
    metadata.flags |= more_flags;
    metadata.rx_time_ns = ++now_;
    metadata.generation = generation;
    metadata.sequence = sequence_++;
    state_.admitted = sequence_;
    for (u32 i = 0; i < buffers; ++i) {
      const u64 at = fill_.next(i) + XG_FRAME_DATA;
      const std::size_t from = i * buffer, bytes = std::min(buffer, frame.size() - from);
      std::memcpy(&region_[at], &frame[from], bytes);
      if (i == 0) std::memcpy(&region_[at - XG_METADATA_SIZE], &metadata, sizeof(metadata));
      rx_.place(i) = {at, static_cast<u32>(bytes), i + 1 < buffers ? kContinued : 0};
    }
    fill_.consume(buffers);
    rx_.produce(buffers);
    ++arrived_;
    return true;
  }

  // Looks at what the device has got; the frames go back sooner or later.
  void retire() {
    while (Batch* batch = batcher_.poll()) {
      u32 packets = 0, frames = 0;
      for (u32 i = 0; i < batch->count; ++i) {
        if (batch->ports[i] == Batch::kLaterBuffer) continue;
        ++packets;
        Frame bytes;
        const xg_descriptor* const first = batch->slot->descriptors + i;
        for (const xg_descriptor& one : packet_at(first))
          bytes.insert(bytes.end(), &region_[one.offset], &region_[one.offset] + one.length);
        const auto* metadata =
            reinterpret_cast<const xg_metadata*>(&region_[first->offset - XG_METADATA_SIZE]);
        ASSERT_EQ(metadata->generation, batch->generation);
        if (const Assembled* datagram = batch->assembled_at(i)) {
          ++whole_[bytes];
          out_.push_back(frame_of(first->offset));
          for (const xg_descriptor& one : datagram->fragments) {
            out_.push_back(frame_of(one.offset));
            over_ += !(one.flags & XG_DESC_MORE);
          }
          frames += static_cast<u32>(datagram->fragments.size()) + 1;
        } else {
          ++plain_[bytes];
          for (const xg_descriptor& one : packet_at(first)) out_.push_back(frame_of(one.offset));
          frames += static_cast<u32>(packet_at(first).size());
          ++over_;
        }
      }
      ASSERT_EQ(packets, batch->packets());
      ASSERT_EQ(frames, batch->frames());
      if (batch->port_mask) {
        ASSERT_LE(static_cast<std::int32_t>(batch->next_sequence[0] - sequence_), 0);
        ASSERT_GE(static_cast<std::int32_t>(batch->next_sequence[0] - left_), 0) << "it never goes back";
        left_ = batch->next_sequence[0];
      }
      retired_.frames += frames;
      batcher_.release(batch);
    }
    for (u32 n = below(static_cast<u32>(out_.size()) + 1); n; --n) {
      free_.push(out_.back());
      out_.pop_back();
    }
  }
  void turn(bool quick) {
    feeder_->receive(now_);
    batcher_.submit_if_due(now_ + (quick ? 10'000 : below(2000)), quick || below(2));
    device_.finished = quick ? kDepth : below(kDepth + 1);
    ASSERT_NO_FATAL_FAILURE(retire());
    retired_.sent = out_.size();
    const FrameCount frames = feeder_->count(retired_);
    ASSERT_TRUE(frames.conserved()) << frames.free << " " << frames.fill << " " << frames.batch << " "
                                    << frames.tx << " " << frames.waiting;
    ASSERT_EQ(frames.waiting, queue_.waiting_frames);
    waited_ = std::max(waited_, frames.waiting);
    ASSERT_LE(frames.waiting, kFrames / 16);
  }
  u64 dropped() const {
    return counters_.fragments_overlapping + counters_.fragments_timed_out + counters_.fragments_too_long +
           counters_.fragments_no_room + counters_.fragments_repeated;
  }

  Random random_;
  std::vector<u8> region_;
  FrameShare share_;
  FreeList free_;
  UnparsedRing unparsed_;
  TestDevice<kCapacity, kDepth> device_;
  Batcher batcher_;
  bench::MemoryRing<u64> fill_;
  bench::MemoryRing<xdp_desc> rx_;
  xg_queue_state state_{};
  xg_worker_counters counters_{};
  xg_queue_metrics metrics_{};
  xg_config config_{};
  std::vector<xg_flow_verdict> entries_;
  std::vector<xg_flow_stats> stats_;
  PortQueue queue_;
  WorkerOptions options_;
  std::array<CurrentPolicy, 3> policies_;
  std::atomic<const CurrentPolicy*> current_{nullptr};
  std::optional<EgressFeed> egress_;
  std::optional<Feeder> feeder_;
  Retired retired_;
  u64 now_ = 1000, arrived_ = 0, over_ = 0, waited_ = 0;
  u32 sequence_ = 0, left_ = 0;
  std::map<Frame, u32> plain_, whole_;
  std::vector<FrameId> out_;
};

Frame datagram_payload(u32 id, std::size_t bytes) {
  Frame payload = udp(1000, 53);
  for (std::size_t i = 8; i < bytes; ++i) payload.push_back(static_cast<u8>(i * 7 + id));
  return payload;
}
Frame fragment(u32 id, const Frame& payload, u32 start, u32 end) {
  const bool more = end < payload.size();
  return ethernet() +
         ipv4({.id = static_cast<u16>(id), .fragment = static_cast<u16>(start / 8 | (more ? 0x2000 : 0))},
              Frame(payload.begin() + start, payload.begin() + end));
}
Frame without_ip_checksum(Frame frame) {
  frame[24] = frame[25] = 0;
  return frame;
}

TEST_P(FeedingFragments, WaitAndOthersGoOn) {
  struct Coming {
    std::deque<Frame> fragments;
    u32 generation;
    u16 flags;
  };
  std::deque<Coming> coming;
  std::map<Frame, u32> expected_whole;
  u32 id = 0, policy = 0;
  u64 plain = 0;
  for (u32 at = 0; at < 400; ++at) {
    for (u32 n = below(30); n; --n) {
      const u32 generation = policies_[policy].generation;
      if (below(3) == 0) {
        ++id;
        Frame frame = ethernet() + ipv4({.id = static_cast<u16>(id)}, datagram_payload(id, 40));
        plain += arrive(frame, generation);
        continue;
      }
      if (coming.size() < 6) {
        const Frame payload = datagram_payload(++id, 48 + below(6000));
        Coming datagram{{}, generation, static_cast<u16>(below(16) == 0 ? XG_PKT_AUDIT : 0)};
        const u32 step = 8 * (1 + static_cast<u32>(payload.size()) / 8 / (2 + below(6)));
        for (u32 start = 0; start < payload.size(); start += step)
          datagram.fragments.push_back(
              fragment(id, payload, start, std::min(start + step, static_cast<u32>(payload.size()))));
        std::shuffle(datagram.fragments.begin(), datagram.fragments.end(), std::mt19937(random_()));
        const bool lost = below(8) == 0;
        if (lost) datagram.fragments.pop_back();
        if (!lost && datagram.fragments.size() > 1 && policies_[policy].reassembles && !datagram.flags)
          ++expected_whole[without_ip_checksum(ethernet() + ipv4({.id = static_cast<u16>(id)}, payload))];
        if (!datagram.fragments.empty()) coming.push_back(std::move(datagram));
        continue;
      }
      const u32 which = below(static_cast<u32>(coming.size()));
      Coming& one = coming[which];
      if (!arrive(one.fragments.front(), one.generation, one.flags, below(4) ? XG_FRAME_MAX : 1100)) break;
      one.fragments.pop_front();
      if (one.fragments.empty()) coming.erase(coming.begin() + which);
    }
    // The worker knows of a policy before a packet of it can come; those under way are of the one before.
    if (below(40) == 0) {
      policy = (policy + 1) % 3;
      policies_[policy].generation += 3;
      current_ = &policies_[policy];
    }
    ASSERT_NO_FATAL_FAILURE(turn(false)) << at;
  }
  while (!coming.empty()) {
    Coming& one = coming.front();
    if (arrive(one.fragments.front(), one.generation, one.flags)) one.fragments.pop_front();
    if (one.fragments.empty()) coming.pop_front();
    ASSERT_NO_FATAL_FAILURE(turn(true));
  }
  for (u32 i = 0; i < 20; ++i) ASSERT_NO_FATAL_FAILURE(turn(true));
  EXPECT_EQ(counters_.received, arrived_);
  EXPECT_EQ(arrived_, over_ + dropped() + queue_.waiting_packets);
  EXPECT_EQ(queue_.metadata.delivers(), true);
  // Whole ones, each once, but for those that have given way, or whose policy is forgotten.
  u64 whole = 0, same = 0, expected = 0;
  for (const auto& [bytes, count] : whole_) {
    EXPECT_EQ(count, 1u);
    whole += count;
    same += expected_whole.count(without_ip_checksum(bytes));
  }
  for (const auto& [bytes, count] : expected_whole) expected += count;
  EXPECT_EQ(same, whole);
  EXPECT_EQ(whole, counters_.reassembled);
  EXPECT_GT(whole, 100u);
  EXPECT_LE(whole, expected);
  EXPECT_GT(plain, 1000u);
  EXPECT_GT(waited_, 10u);
  // The rest is too late.
  now_ += 2 * XG_FRAGMENT_NS;
  for (u32 i = 0; i < 3; ++i) ASSERT_NO_FATAL_FAILURE(turn(true));
  EXPECT_EQ(queue_.waiting_packets, 0u);
  EXPECT_EQ(arrived_, over_ + dropped());
}

TEST_P(FeedingFragments, AFragmentThatWaitsHasLeft) {
  const Frame payload = datagram_payload(1, 2000);
  ASSERT_TRUE(arrive(fragment(1, payload, 0, 1000), 10));
  turn(true);
  turn(true);
  EXPECT_EQ(queue_.waiting_packets, 1u);
  EXPECT_TRUE(feeder_->empty_handed(true, retired_));
  feeder_->abandon();
  EXPECT_EQ(counters_.fragments_timed_out, 1u);
  EXPECT_EQ(queue_.waiting_packets, 0u);
}

// The device is behind: nothing is lost, and nothing overtakes.
TEST_P(FeedingFragments, WholeOnesWaitForABatch) {
  device_.finished = 0;
  for (u32 i = 0; i < kDepth; ++i) {
    for (u32 n = 0; n < kCapacity; ++n)
      while (!arrive(ethernet() + ipv4({}, datagram_payload(n, 40)), 10)) feeder_->receive(now_);
    feeder_->receive(now_);
    batcher_.submit_if_due(now_ + 10'000, true);
  }
  const Frame payload = datagram_payload(7, 2000), next = datagram_payload(8, 2000);
  for (const auto& [id, of] : {std::pair{7, &payload}, {8, &next}}) {
    ASSERT_TRUE(arrive(fragment(id, *of, 0, 1000), 10));
    ASSERT_TRUE(arrive(fragment(id, *of, 1000, 2000), 10));
  }
  feeder_->receive(now_);
  EXPECT_EQ(queue_.waiting_packets, 2u) << "the next one's stay in the ring";
  EXPECT_EQ(counters_.reassembled, 0u);
  for (u32 i = 0; i < 6; ++i) ASSERT_NO_FATAL_FAILURE(turn(true));
  EXPECT_EQ(counters_.reassembled, 2u);
  EXPECT_EQ(whole_.size(), 2u);
  EXPECT_EQ(dropped(), 0u);
}

INSTANTIATE_TEST_SUITE_P(Seeds, FeedingFragments, testing::Range(1u, 25u));

}  // namespace
}  // namespace xdpgpu::dataplane
