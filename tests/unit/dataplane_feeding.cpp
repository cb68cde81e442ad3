// SPDX-License-Identifier: MIT
//
// Feeding: what goes to the device is what came in, in order, each packet with metadata of its own: those
// that the kernel wrote, or those that the worker parsed where the kernel wrote none. Frames still hold what
// earlier packets left there, and what is made to look like metadata.
#include "userspace/dataplane/feeder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <utility>

#include "bench/worker/rings.hpp"
#include "tests/unit/dataplane_device.hpp"
#include "tests/unit/dataplane_random.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kPorts = 2, kRing = 64, kChunks = 320, kCapacity = 48, kDepth = 3;
const xg_hash_keys kKeys = xg_hash_keys_from(1, 2);

struct Settings {
  u32 seed = 0;
  bool in_order = true;    // of both ports
  bool others = false;     // frames of several buffers, and such as are not the worker's
  bool covers = false;     // packets are sent with something in front
  bool without = false;    // a packet without metadata, sooner or later
  bool untold = false;     // of which the kernel program says nothing
  bool bare_port = false;  // the second port delivers none at all
};

void PrintTo(const Settings& s, std::ostream* out) {
  *out << s.seed << (s.in_order ? " in order" : "") << (s.others ? " others" : "")
       << (s.covers ? " covers" : "") << (s.without ? " without" : "") << (s.untold ? " untold" : "")
       << (s.bare_port ? " bare" : "");
}

struct Port {
  Port() : fill(kRing), rx(kRing) {}
  bench::MemoryRing<u64> fill;
  bench::MemoryRing<xdp_desc> rx;
  xg_queue_state state{};
  xg_worker_counters counters{};
  xg_queue_metrics metrics{};
  xg_config config{};
  std::unique_ptr<PortQueue> queue;
  u32 sequence = 0;
  u64 packets = 0;
};

struct Came {
  u64 offset;
  u32 length, hash, generation, buffers;
  std::optional<u32> sequence;  // where the kernel said it
  u8 l4_offset;
};

class Feeding : public testing::TestWithParam<Settings> {
 protected:
  Feeding()
      : random_(GetParam().seed),
        region_(std::size_t{kChunks} * XG_CHUNK_SIZE),
        share_{16, 280, -1, 1},
        free_(share_),
        device_(0),
        batcher_(device_, kCapacity, kDepth, 1000),
        entries_(64),
        stats_(64) {
    for (u32 i = 0; i < kPorts; ++i) {
      Port& port = ports_[i];
      port.config.flow_keys = kKeys;
      port.queue = std::make_unique<PortQueue>(
          PortQueue{.traits = {},
                    .socket = {},
                    .reinject = {},
                    .flows = gpu::FlowTable(entries_, stats_),
                    .metadata = MetadataProbe(static_cast<u8>(i), 1, GetParam().in_order),
                    .credits = Credits(0, kRing)});
      PortQueue& queue = *port.queue;
      queue.port = i;
      queue.packet_buffers = 3;
      queue.socket = Socket::over_memory();
      port.fill.map(queue.socket->receiver.fill, true);
      port.rx.map(queue.socket->receiver.rx, false);
      queue.config = &port.config;
      queue.state = &port.state;
      queue.counters = &port.counters;
      queue.metrics = &port.metrics;
      port.sequence = queue.next_sequence = random_() % 2 ? 0 : 0xffffff00;
    }
    std::vector<PortQueue*> queues{ports_[0].queue.get(), ports_[1].queue.get()};
    egress_.emplace(std::vector<EgressLogs>{}, queues, 0, 1, region_.data(), free_, current_);
    feeder_.emplace(options_, region_.data(), queues, free_, nullptr, unparsed_, current_, *egress_);
    feeder_->use(batcher_);
    policy_.generation = 3;
    options_.batch = kCapacity;
    feeder_->refill();
  }

  u32 below(u32 limit) { return random_() % limit; }

  // A datagram of its own flow, tagged or not.
  u32 write_packet(u8* frame, bool& tagged) {
    tagged = below(2);
    const u32 l3 = tagged ? 18 : 14, length = l3 + 46;
    std::memset(frame, 0, length);
    frame[12] = 8;
    if (tagged) {
      frame[12] = 0x81;
      frame[16] = 8;
    }
    u8* const ip = frame + l3;
    ip[0] = 0x45;
    ip[3] = 46;
    ip[8] = 64;
    ip[9] = 17;
    xg_store32(ip + 12, ++flows_);
    xg_store32(ip + 16, 0x0100000a);
    xg_store16(ip + 20, xg_host16(1000));
    xg_store16(ip + 22, xg_host16(2000));
    xg_store16(ip + 24, xg_host16(26));
    return length;
  }

  // What a later packet's metadata may look like, better than anybody could guess it.
  void forge(u64 chunk) {
    xg_metadata forged{};
    const u32 port = below(kPorts);
    forged.rx_time_ns = now_ + 1'000'000;
    forged.generation = policy_.generation;
    forged.sequence = ports_[port].sequence + 1000;
    forged.port = static_cast<u8>(port);
    forged.flow_hash = 0xbad;
    std::memcpy(region_.data() + chunk + XG_FRAME_DATA - XG_METADATA_SIZE, &forged, sizeof(forged));
  }

  // A packet of one buffer comes in, whose metadata stay out if it is `stale`.
  void arrive_one(u32 number, bool stale) {
    Port& port = ports_[number];
    ASSERT_TRUE(port.fill.waiting() && port.rx.room());
    const u64 at = port.fill.next(0) + XG_FRAME_DATA;
    u8* const frame = region_.data() + at;
    bool tagged = false;
    const u32 length = write_packet(frame, tagged);
    xg_metadata metadata;
    parse_metadata(frame, length, length, static_cast<u8>(number), kKeys, 0, ++now_, &metadata);
    metadata.generation = policy_.generation;
    metadata.sequence = port.sequence++;
    if (policy_.generation % 2) metadata.flags |= XG_PKT_AUDIT;
    port.state.admitted = port.sequence;
    Came came{at,
              length,
              metadata.flow_hash,
              policy_.generation,
              1,
              metadata.sequence,
              static_cast<u8>(metadata.l4_offset)};
    if (stale) {
      came.sequence.reset();
      came.generation = 0;
    } else {
      std::memcpy(frame - XG_METADATA_SIZE, &metadata, sizeof(metadata));
    }
    port.rx.place(0) = {at, length, 0};
    port.fill.consume(1);
    port.rx.produce(1);
    came_[number].push_back(came);
    ++port.packets;
  }

  // Packets come in on a port.
  void arrive(u32 number) {
    const Settings& s = GetParam();
    Port& port = ports_[number];
    const bool bare = s.bare_port && number == 1;
    for (u32 n = below(40); n; --n) {
      if (below(30) == 0) ++port.sequence;  // lost behind the program
      if (below(50) == 0) policy_.generation += below(2);
      policy_.chooser = [odd = policy_.generation % 2](const u8*, u32, u32, xg_metadata* out) {
        if (odd) out->flags |= XG_PKT_AUDIT;
      };
      if (below(3)) now_ += below(100);
      const u32 buffers = s.others && below(6) == 0 ? 1 + below(3) : 1;
      if (port.fill.waiting() < buffers || port.rx.room() < buffers) return;
      if (s.others && below(40) == 0) {  // not where a packet can be
        const u64 chunk = port.fill.next(0);
        forge(chunk);
        port.rx.place(0) = {chunk + XG_CHUNK_SIZE - 10, 60, 0};
        port.fill.consume(1);
        port.rx.produce(1);
        ++port.sequence;
        ++port.packets;
        continue;
      }
      const u64 at = port.fill.next(0) + XG_FRAME_DATA;
      u8* const frame = region_.data() + at;
      bool tagged = false;
      const u32 readable = write_packet(frame, tagged);
      xg_metadata metadata;
      parse_metadata(frame, readable, readable + (buffers - 1) * 100, static_cast<u8>(number), kKeys, 0, now_,
                     &metadata);
      metadata.generation = policy_.generation;
      metadata.sequence = port.sequence++;
      if (policy_.generation % 2) metadata.flags |= XG_PKT_AUDIT;
      Came came{at,
                readable,
                metadata.flow_hash,
                policy_.generation,
                buffers,
                std::nullopt,
                static_cast<u8>(metadata.l4_offset)};
      const bool without = bare || (s.without && port.packets > 300 && below(100) == 0);
      port.state.admitted = port.sequence;
      if (!without) {
        std::memcpy(frame - XG_METADATA_SIZE, &metadata, sizeof(metadata));
        came.sequence = metadata.sequence;
      } else if (!s.untold) {
        ++port.state.exceptions;
      }
      port.rx.place(0) = {at, readable, buffers > 1 ? kContinued : 0};
      for (u32 i = 1; i < buffers; ++i) {
        const u64 chunk = port.fill.next(i);
        forge(chunk);  // with its payload
        port.rx.place(i) = {chunk + 128, 100, i + 1 < buffers ? kContinued : 0};
      }
      port.fill.consume(buffers);
      port.rx.produce(buffers);
      came_[number].push_back(came);
      ++port.packets;
    }
  }

  // As the device does, and the thread that retires.
  bool refused(const xg_descriptor& packet, u32 port, const xg_metadata& metadata) {
    if (!(packet.flags & XG_DESC_EXPECT)) return false;
    EXPECT_EQ(packet.flags >> 2 & 31, port);
    const bool own = packet.flags == XG_DESC_EXPECTED(u32{metadata.port}, metadata.sequence);
    if (own && !std::exchange(refuses_own_, false)) return false;
    EXPECT_TRUE(unparsed_.give({packet, port}));
    return true;
  }
  // The packet that this descriptor is: one that was refused, or the next one that came in.
  Came next_of(u32 port, const xg_descriptor& packet) {
    std::deque<Came>& refused = refused_[port];
    std::deque<Came>& from =
        !refused.empty() && refused.front().offset == packet.offset ? refused : came_[port];
    if (from.empty()) return {};
    const Came came = from.front();
    from.pop_front();
    return came;
  }

  // Looks at what the device has got, and gives the frames back.
  void retire() {
    while (Batch* batch = batcher_.poll()) {
      u32 run = 0, of_run = 0;
      for (u32 i = 0; i < batch->count; ++i) {
        const xg_descriptor& descriptor = batch->slot->descriptors[i];
        frames_.push_back(frame_of(descriptor.offset));
        if (batch->ports[i] == Batch::kLaterBuffer) continue;
        const u32 port = batch->ports[i];
        ASSERT_LT(port, kPorts);
        const Came came = next_of(port, descriptor);
        xg_metadata metadata;
        std::memcpy(&metadata, region_.data() + descriptor.offset - XG_METADATA_SIZE, sizeof(metadata));
        ASSERT_EQ(descriptor.offset, came.offset);
        ASSERT_EQ(descriptor.length, came.length);
        ASSERT_EQ(packet_at(&descriptor).size(), came.buffers);
        ASSERT_LT(run, batch->arrivals_count);
        const Arrivals arrivals = batch->arrivals[run];
        const u32 in_run = of_run++;
        if (of_run == arrivals.packets) ++run, of_run = 0;
        ASSERT_EQ(arrivals.port, port);
        if (refused(descriptor, port, metadata)) {
          if (came.sequence) {
            ASSERT_EQ(metadata.sequence, *came.sequence) << "refused with its own";
          } else {
            ASSERT_TRUE(untold_) << "a packet without metadata that the kernel program has told of";
            ASSERT_TRUE(in_run && of_run) << "the ends of a run have been read";
          }
          refused_[port].push_back(came);
          refused_[port].back().sequence.reset();  // it is parsed by the worker
          frames_.pop_back();
          last_[port] = descriptor.flags >> 7;  // of its own, which it has lost
          continue;
        }
        ASSERT_EQ(metadata.flow_hash, came.hash) << "another packet's metadata";
        ASSERT_EQ(metadata.l4_offset, came.l4_offset);
        ASSERT_EQ(metadata.port, port);
        ASSERT_EQ(metadata.generation, batch->generation);
        ASSERT_GE(metadata.rx_time_ns, arrivals.first_ns);
        ASSERT_LE(metadata.rx_time_ns, arrivals.last_ns);
        ASSERT_TRUE(in_run || metadata.rx_time_ns == arrivals.first_ns);
        ASSERT_TRUE(of_run || metadata.rx_time_ns == arrivals.last_ns);
        ASSERT_TRUE(batch->port_mask >> port & 1);
        ASSERT_EQ(batch->audit, (metadata.flags & XG_PKT_AUDIT) != 0);
        if (came.sequence && ports_[port].queue->metadata.delivers()) {
          ASSERT_EQ(metadata.sequence, *came.sequence);
          ASSERT_EQ(metadata.generation, came.generation);
        }
        last_[port] = metadata.sequence;
        if (i + came.buffers == batch->count || batch->port_mask == 1u << port) {
          seen_[port] = true;
        }
      }
      for (u32 port = 0; port < kPorts; ++port)
        if (batch->port_mask >> port & 1) {
          ASSERT_EQ(batch->next_sequence[port], last_[port] + 1);
        }
      batcher_.release(batch);
    }
    // Some have left by then, in no order.
    std::shuffle(frames_.begin(), frames_.end(), engine_);
    for (u32 n = below(static_cast<u32>(frames_.size()) + 1); n; --n) {
      if (GetParam().covers && below(8) == 0) {
        for (Port& port : ports_) port.queue->cover();
        forge(chunk_of(frames_.back()));
      }
      free_.push(frames_.back());
      frames_.pop_back();
    }
  }

  void run(u32 turns) {
    for (u32 turn = 0; turn < turns; ++turn) {
      for (u32 port = 0; port < kPorts; ++port) arrive(port);
      feeder_->receive(now_);
      batcher_.submit_if_due(now_ + below(2000), below(2));
      device_.finished = below(kDepth + 1);
      ASSERT_NO_FATAL_FAILURE(retire()) << "turn " << turn;
    }
    for (u32 turn = 0; turn < 50; ++turn) {
      feeder_->receive(now_);
      batcher_.submit_if_due(now_ + 10'000, true);
      device_.finished = kDepth;
      ASSERT_NO_FATAL_FAILURE(retire());
    }
    for (u32 port = 0; port < kPorts; ++port) {
      EXPECT_TRUE(came_[port].empty()) << came_[port].size();
      EXPECT_TRUE(refused_[port].empty()) << refused_[port].size();
      parsed_again_ += ports_[port].counters.parsed_again;
      EXPECT_EQ(ports_[port].counters.received, ports_[port].packets);
    }
    const u64 held = ports_[0].queue->socket->receiver.held() + ports_[1].queue->socket->receiver.held();
    EXPECT_EQ(free_.size() + frames_.size() + held, share_.count);
  }

  Random random_;
  std::mt19937 engine_{1};
  std::vector<u8> region_;
  FrameShare share_;
  FreeList free_;
  UnparsedRing unparsed_;
  TestDevice<kCapacity, kDepth> device_;
  Batcher batcher_;
  std::vector<xg_flow_verdict> entries_;
  std::vector<xg_flow_stats> stats_;
  WorkerOptions options_;
  CurrentPolicy policy_;
  std::atomic<const CurrentPolicy*> current_{&policy_};
  std::array<Port, kPorts> ports_;
  std::optional<EgressFeed> egress_;
  std::optional<Feeder> feeder_;
  u64 now_ = 1000;
  u32 flows_ = 0;
  std::array<std::deque<Came>, kPorts> came_, refused_;
  u64 parsed_again_ = 0;
  bool untold_ = GetParam().untold;
  bool refuses_own_ = false;  // the device refuses one packet whose metadata are its own
  std::array<u32, kPorts> last_{};
  std::array<bool, kPorts> seen_{};
  std::vector<FrameId> frames_;
};

TEST_P(Feeding, EachPacketHasMetadataOfItsOwn) {
  run(300);
  const Settings& s = GetParam();
  EXPECT_TRUE(seen_[0] && seen_[1]);
  EXPECT_EQ(ports_[1].queue->metadata.delivers(), !s.bare_port && !s.without);
  EXPECT_EQ(ports_[0].queue->metadata.delivers(), !s.without);
  EXPECT_EQ(ports_[0].queue->is_covered(), s.others || s.covers || s.without || s.bare_port);
  if (!s.untold) {
    EXPECT_EQ(parsed_again_, 0u);
  }
}

// A burst in which one packet has what its frame's last packet left, and nobody says so.
TEST_P(Feeding, AStalePacketInTheMiddleOfABurstIsParsedAndJudgedAgain) {
  const Settings& s = GetParam();
  if (!s.in_order || s.others || s.covers || s.bare_port || s.without) return;
  run(20);
  Port& port = ports_[0];
  const auto refused_before = unparsed_.given();
  untold_ = true;
  for (u32 i = 0; i < 40; ++i) arrive_one(0, i == 17);
  for (u32 turn = 0; turn < 20; ++turn) {
    feeder_->receive(now_);
    batcher_.submit_if_due(now_ + 10'000, true);
    device_.finished = kDepth;
    ASSERT_NO_FATAL_FAILURE(retire());
  }
  EXPECT_TRUE(came_[0].empty());
  EXPECT_TRUE(refused_[0].empty());
  EXPECT_EQ(unparsed_.given(), refused_before + 1);
  EXPECT_EQ(port.counters.parsed_again, 1u);
  EXPECT_FALSE(port.queue->metadata.delivers()) << "others may come without, too";
}

// A device may refuse for a reason of its own: that says nothing of the packets behind.
TEST_P(Feeding, APacketThatIsRefusedWithItsOwnMetadataIsParsedAndNoOther) {
  const Settings& s = GetParam();
  if (!s.in_order || s.others || s.covers || s.bare_port || s.without) return;
  run(20);
  Port& port = ports_[0];
  refuses_own_ = true;
  for (u32 i = 0; i < 40; ++i) arrive_one(0, false);
  for (u32 turn = 0; turn < 20; ++turn) {
    feeder_->receive(now_);
    batcher_.submit_if_due(now_ + 10'000, true);
    device_.finished = kDepth;
    ASSERT_NO_FATAL_FAILURE(retire());
  }
  EXPECT_FALSE(refuses_own_);
  EXPECT_TRUE(came_[0].empty());
  EXPECT_TRUE(refused_[0].empty());
  EXPECT_EQ(port.counters.parsed_again, 1u);
  EXPECT_TRUE(port.queue->metadata.delivers()) << "others have theirs";
}

std::vector<Settings> all_settings() {
  std::vector<Settings> out;
  for (u32 i = 0; i < 128; ++i)
    out.push_back({.seed = i + 1,
                   .in_order = i % 4 != 3,
                   .others = i / 4 % 2 == 1,
                   .covers = i / 8 % 2 == 1,
                   .without = i / 16 % 2 == 1,
                   .untold = i / 16 % 2 == 1 && i >= 48,
                   .bare_port = i / 32 % 2 == 1});
  return out;
}

INSTANTIATE_TEST_SUITE_P(Packets, Feeding, testing::ValuesIn(all_settings()));

}  // namespace
}  // namespace xdpgpu::dataplane
