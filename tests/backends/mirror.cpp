// SPDX-License-Identifier: MIT
//
// The device's look at mirrored packets: rings filled by hand, as the XDP program fills them, and what comes
// of them in the shards of the flow verdict table.
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "gpu/flow_table.hpp"
#include "gpu/pipelines.hpp"
#include "maps/parse.h"
#include "tests/backends/targets.hpp"
#include "tests/kernel/frame.hpp"

namespace xdpgpu::tests {
namespace {

using namespace std::chrono_literals;
using test::Frame;
using test::operator+;  // NOLINT(misc-unused-using-decls): clang-tidy 14 does not see its uses
using testing::HasSubstr;

constexpr u32 kRings = 2, kSlots = 8, kQueues = 2, kEntries = 1024;
constexpr u32 kFirst = 7;  // generation

template <class Condition>
bool soon(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + 5s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(100us);
  }
  return true;
}

// Zeroed memory of whole pages, as a map's is.
template <class T>
class Pages {
 public:
  explicit Pages(u32 count) : bytes_((count * sizeof(T) + 4095) & ~std::size_t{4095}) {
    void* at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) throw std::bad_alloc();
    data_ = static_cast<T*>(at);
  }
  ~Pages() { munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  T* data() const { return data_; }
  T& operator[](u32 i) const { return data_[i]; }

 private:
  std::size_t bytes_;
  T* data_ = nullptr;
};

Frame udp_from(u16 port) { return test::ethernet() + test::ipv4({}, test::udp(port, 53, 20)); }

// One port's maps, and the XDP program's part.
struct Port {
  Pages<xg_mirror_record> records{kRings * kSlots};
  Pages<xg_mirror_state> states{kRings};
  Pages<xg_flow_verdict> verdicts{kQueues * kEntries};
  Pages<xg_flow_stats> stats{kQueues * kEntries};

  gpu::MirrorPort options() const {
    return {records.data(), states.data(), kRings, kSlots, verdicts.data(), stats.data(), kQueues, kEntries};
  }
  u64 consumed(u32 ring) const { return __atomic_load_n(&states[ring].consumed, __ATOMIC_ACQUIRE); }
  xg_mirror_record& next(u32 ring) const {
    return records[ring * kSlots + static_cast<u32>(states[ring].head % kSlots)];
  }

  // The record but for its ticket.
  void fill(u32 ring, const Frame& frame, u32 generation, u16 queue = 0, u16 pipeline = 0) const {
    xg_mirror_record& record = next(ring);
    const u64 ticket = record.ticket;
    record = {};
    record.ticket = ticket;
    record.captured = static_cast<u32>(std::min<std::size_t>(frame.size(), 128));
    record.wire_length = static_cast<u32>(frame.size());
    record.queue = queue;
    xg_packet packet;
    xg_parse(frame.data(), frame.data() + frame.size(), 0, &packet);
    xg_metadata_from(&record.metadata, &packet, hash_of(packet.key));
    record.metadata.generation = generation;
    record.metadata.pipeline = pipeline;
    std::copy_n(frame.begin(), record.captured, record.packet);
    record.key = packet.key;
    record.key.mirror = static_cast<u8>(pipeline + 1);
  }
  void publish(u32 ring) const {
    xg_mirror_state& state = states[ring];
    __atomic_store_n(&next(ring).ticket, state.head + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&state.head, state.head + 1, __ATOMIC_RELEASE);
  }
  // Waits for room, which the XDP program does not.
  void push(u32 ring, const Frame& frame, u32 generation, u16 queue = 0, u16 pipeline = 0) const {
    ASSERT_TRUE(soon([&] { return states[ring].head - consumed(ring) < kSlots; })) << "nobody consumes";
    fill(ring, frame, generation, queue, pipeline);
    publish(ring);
  }
  bool all_consumed(u32 ring) const { return consumed(ring) == states[ring].head; }

  // What stands in the queue's shard under the frame's flow and pipeline 0.
  std::optional<xg_flow_verdict> verdict(const Frame& frame, u32 queue, u8 mirror = 1) const {
    xg_packet packet;
    xg_parse(frame.data(), frame.data() + frame.size(), 0, &packet);
    packet.key.mirror = mirror;
    const u32 first = queue * kEntries + (hash_of(packet.key) & (kEntries / XG_FLOW_WAYS - 1)) * XG_FLOW_WAYS;
    for (u32 way = 0; way < XG_FLOW_WAYS; ++way) {
      xg_flow_verdict entry;
      if (gpu::read_entry(verdicts[first + way], entry) &&
          std::memcmp(&entry.key, &packet.key, sizeof(packet.key)) == 0)
        return entry;
    }
    return std::nullopt;
  }
  static u32 hash_of(const xg_flow_key& key) { return xg_host16(key.src_port) * 2654435761u >> 8; }
};

std::shared_ptr<const gpu::Pipelines> pipelines(gpu::AclRule::Action otherwise, bool cache = true,
                                                u32 ttl_ms = 0) {
  gpu::AclSettings acl;
  acl.otherwise = otherwise;
  acl.cache = cache;
  acl.cache_ttl_ms = ttl_ms;
  return *gpu::Pipelines::compile({{"scrub", {acl}}, {"second", {acl}}});
}
constexpr auto kDrop = gpu::AclRule::Action::drop;
constexpr auto kPass = gpu::AclRule::Action::pass;

class Mirror : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto opened = gpu::open_device(GetParam());
    if (!opened) GTEST_SKIP() << opened.error();
    device_ = std::move(*opened);
    ASSERT_TRUE(device_->load(kFirst, pipelines(kDrop)));
  }
  void open(u32 ports = 1) {
    gpu::MirrorOptions options;
    for (u32 p = 0; p < ports; ++p) options.ports.push_back(ports_[p].options());
    auto opened = device_->open_mirror(options);
    ASSERT_TRUE(opened) << opened.error();
    mirror_ = std::move(*opened);
  }

  Port ports_[2];
  std::unique_ptr<gpu::Device> device_;
  std::unique_ptr<gpu::Mirror> mirror_;  // before its device
};
#define OPEN(...) ASSERT_NO_FATAL_FAILURE(open(__VA_ARGS__))
INSTANTIATE_TEST_SUITE_P(Devices, Mirror, testing::Values("cpu", "cuda"),
                         [](const auto& target) { return target.param; });

// Vulkan's memory model has no place for it.
TEST(MirrorOnVulkan, IsRefusedWithWhatToDo) {
  auto device = gpu::open_device("vulkan");
  if (!device) GTEST_SKIP() << device.error();
  const Port port;
  const auto mirror = (*device)->open_mirror({{port.options()}});
  ASSERT_FALSE(mirror);
  EXPECT_THAT(mirror.error(), HasSubstr("use the device cpu"));
}

TEST_P(Mirror, PublishesAVerdictForEachFlow) {
  OPEN();
  const Port& port = ports_[0];
  // Many times round the ring.
  for (u16 i = 0; i < 200; ++i)
    port.push(i % kRings, udp_from(static_cast<u16>(1000 + i)), kFirst, i % kQueues);
  for (u32 ring = 0; ring < kRings; ++ring) EXPECT_TRUE(soon([&] { return port.all_consumed(ring); }));
  for (u16 i = 0; i < 200; ++i) {
    const Frame frame = udp_from(static_cast<u16>(1000 + i));
    const auto entry = port.verdict(frame, i % kQueues);
    ASSERT_TRUE(entry) << i;
    EXPECT_EQ(entry->generation, kFirst);
    EXPECT_EQ(entry->action, XG_DROP);
    EXPECT_EQ(entry->verdict, XG_VERDICT(XG_DROP, 0u, 1u, 0u));
    EXPECT_EQ(entry->expires_ms, 0u);
    EXPECT_FALSE(port.verdict(frame, 1u - i % kQueues)) << "the other queue's shard";
  }
  const gpu::MirrorCounters counters = mirror_->counters();
  EXPECT_EQ(counters.taken, 200u);
  EXPECT_EQ(counters.published, 200u);
  EXPECT_EQ(counters.evicted, 0u);
  EXPECT_EQ(counters.unknown_generation, 0u);
  EXPECT_EQ(counters.undecided, 0u);
}

TEST_P(Mirror, ARecordIsThereWithItsTicket) {
  OPEN();
  const Port& port = ports_[0];
  for (u16 i = 0; i < kSlots + 2; ++i) port.push(0, udp_from(static_cast<u16>(2000 + i)), kFirst);
  ASSERT_TRUE(soon([&] { return port.all_consumed(0); }));
  // The record's slot still has the ticket of the lap before; not even a head that runs ahead counts.
  port.fill(0, udp_from(3000), kFirst);
  __atomic_store_n(&port.states[0].head, port.states[0].head + 1, __ATOMIC_RELEASE);
  std::this_thread::sleep_for(20ms);
  EXPECT_EQ(port.consumed(0), kSlots + 2u);
  EXPECT_FALSE(port.verdict(udp_from(3000), 0));
  __atomic_store_n(&port.states[0].head, port.states[0].head - 1, __ATOMIC_RELEASE);
  port.publish(0);
  EXPECT_TRUE(soon([&] { return port.consumed(0) == kSlots + 3u; }));
  EXPECT_TRUE(port.verdict(udp_from(3000), 0)) << "it is consumed when it has been published";
}

TEST_P(Mirror, WhatStoodThereBeforeIsNotLookedAt) {
  const Port& port = ports_[0];
  for (u16 i = 0; i < 5; ++i) {
    port.fill(0, udp_from(static_cast<u16>(1000 + i)), kFirst);
    port.publish(0);
  }
  OPEN();
  EXPECT_EQ(port.consumed(0), 5u);
  port.push(0, udp_from(2000), kFirst);
  EXPECT_TRUE(soon([&] { return port.verdict(udp_from(2000), 0).has_value(); }));
  EXPECT_FALSE(port.verdict(udp_from(1000), 0));
  // It is counted behind its verdict.
  EXPECT_TRUE(soon([&] { return mirror_->counters().taken == 1; }));
}

TEST_P(Mirror, AStageWithATableCountsWhatItIsShown) {
  if (!device_->info().mirrors_tables) GTEST_SKIP() << "its mirror has no tables";
  gpu::DdosSettings ddos;
  ddos.thresholds[static_cast<u32>(gpu::DdosMetric::udp_bytes)] = 9000;
  ddos.cache = true;
  ddos.cache_ttl_ms = 30'000;
  const auto pipelines = *gpu::Pipelines::compile({{"scrub", {ddos}}});
  ASSERT_TRUE(device_->load(kFirst + 1, pipelines));
  OPEN();
  const Port& port = ports_[0];
  // 100 packets of 1000 bytes on the wire, of which 128 stand here at most.
  for (u16 i = 0; i < 100; ++i) {
    ASSERT_TRUE(soon([&] { return port.states[0].head - port.consumed(0) < kSlots; }));
    port.fill(0, udp_from(static_cast<u16>(1000 + i)), kFirst + 1);
    xg_mirror_record& record = port.next(0);
    record.wire_length = 1000;
    record.metadata.rx_time_ns = 3'600'000'000'000 + i * 1000;
    port.publish(0);
  }
  ASSERT_TRUE(soon([&] { return port.all_consumed(0); }));
  for (u16 i = 0; i < 100; ++i) {
    const auto entry = port.verdict(udp_from(static_cast<u16>(1000 + i)), 0);
    ASSERT_EQ(entry.has_value(), i >= 8) << i << ": the ninth reaches the threshold";
    if (!entry) continue;
    EXPECT_EQ(entry->verdict, XG_VERDICT(XG_DROP, 0u, 1u, 1u + static_cast<u32>(gpu::DdosMetric::udp_bytes)));
    EXPECT_NE(entry->expires_ms, 0u);
  }
  EXPECT_EQ(mirror_->counters().published, 92u);
  EXPECT_EQ(mirror_->counters().undecided, 0u);
}

TEST_P(Mirror, GenerationsComeAndGo) {
  OPEN();
  const Port& port = ports_[0];
  port.push(0, udp_from(1000), kFirst + 1);
  EXPECT_TRUE(soon([&] { return mirror_->counters().unknown_generation == 1; }));
  EXPECT_FALSE(port.verdict(udp_from(1000), 0));
  ASSERT_TRUE(device_->load(kFirst + 1, pipelines(kPass, true, 60'000)));
  // Both at once, in one ring.
  for (u16 i = 0; i < 40; ++i) port.push(0, udp_from(static_cast<u16>(2000 + i)), kFirst + i % 2);
  ASSERT_TRUE(soon([&] { return port.all_consumed(0); }));
  for (u16 i = 0; i < 40; ++i) {
    const auto entry = port.verdict(udp_from(static_cast<u16>(2000 + i)), 0);
    ASSERT_TRUE(entry) << i;
    EXPECT_EQ(entry->generation, kFirst + i % 2);
    EXPECT_EQ(entry->action, i % 2 ? XG_PASS : XG_DROP);
    EXPECT_EQ(entry->expires_ms != 0, i % 2 == 1);
  }
  device_->unload(kFirst);
  port.push(0, udp_from(3000), kFirst);
  port.push(0, udp_from(3001), kFirst + 1);
  EXPECT_TRUE(soon([&] { return port.verdict(udp_from(3001), 0).has_value(); }));
  EXPECT_FALSE(port.verdict(udp_from(3000), 0));
  EXPECT_EQ(mirror_->counters().unknown_generation, 2u);
}

TEST_P(Mirror, OnlyWhatIsToBeCachedIsPublished) {
  ASSERT_TRUE(device_->load(kFirst + 1, pipelines(kDrop, false)));
  OPEN();
  const Port& port = ports_[0];
  port.push(0, udp_from(1000), kFirst + 1);
  port.push(0, udp_from(1001), kFirst, kQueues);  // a queue without a shard
  const Frame fragment = test::ethernet() + test::ipv4({.fragment = 0x2000}, test::udp(1002, 53, 24, 2000));
  port.push(0, fragment, kFirst);
  port.push(0, test::arp(), kFirst);
  ASSERT_TRUE(soon([&] { return mirror_->counters().taken == 4; }));
  EXPECT_EQ(mirror_->counters().published, 0u);
  EXPECT_EQ(mirror_->counters().undecided, 0u);
  // Said again, it is not published again.
  for (int i = 0; i < 3; ++i) port.push(0, udp_from(1003), kFirst);
  ASSERT_TRUE(soon([&] { return mirror_->counters().taken == 7; }));
  EXPECT_EQ(mirror_->counters().published, 1u);
}

TEST_P(Mirror, EachPipelineSpeaksForItself) {
  OPEN();
  const Port& port = ports_[0];
  port.push(0, udp_from(1000), kFirst, 0, 1);
  ASSERT_TRUE(soon([&] { return port.verdict(udp_from(1000), 0, 2).has_value(); }));
  EXPECT_FALSE(port.verdict(udp_from(1000), 0, 1));
}

TEST_P(Mirror, HeadersThatAreCutOffAreNotJudged) {
  OPEN();
  const Port& port = ports_[0];
  port.fill(0, udp_from(1000), kFirst);
  port.next(0).captured = 36;  // the addresses, not the ports
  port.publish(0);
  port.fill(0, udp_from(1001), kFirst);
  port.next(0).captured = ~0u;  // a lie: what is not there is not read
  port.next(0).metadata.l4_offset = 60000;
  port.publish(0);
  port.fill(0, udp_from(1002), kFirst, 0, 9);  // no such pipeline
  port.publish(0);
  EXPECT_TRUE(soon([&] { return mirror_->counters().undecided == 3; }));
  EXPECT_EQ(mirror_->counters().published, 0u);
}

TEST_P(Mirror, PortsHaveTheirOwnRingsAndShards) {
  OPEN(2);
  ports_[0].push(1, udp_from(1000), kFirst);
  ports_[1].push(0, udp_from(1001), kFirst, 1);
  EXPECT_TRUE(
      soon([&] { return ports_[0].verdict(udp_from(1000), 0) && ports_[1].verdict(udp_from(1001), 1); }));
  EXPECT_FALSE(ports_[1].verdict(udp_from(1000), 0));
}

TEST_P(Mirror, GivesWayInAFullBucket) {
  OPEN();
  const Port& port = ports_[0];
  u32 flows = 0;
  for (u16 i = 0; i < 4 * kEntries; ++i, ++flows) port.push(0, udp_from(i), kFirst);
  ASSERT_TRUE(soon([&] { return port.all_consumed(0); }));
  const auto counters = mirror_->counters();
  EXPECT_EQ(counters.published, flows);
  EXPECT_GE(counters.evicted, flows - kEntries);
  EXPECT_TRUE(port.verdict(udp_from(static_cast<u16>(flows - 1)), 0)) << "the last one stands";
}

TEST_P(Mirror, EndsWithinATenthOfASecondAndRestsMeanwhile) {
  OPEN();
  rusage before{}, after{};
  std::this_thread::sleep_for(50ms);  // it falls asleep
  getrusage(RUSAGE_SELF, &before);
  std::this_thread::sleep_for(500ms);
  getrusage(RUSAGE_SELF, &after);
  const auto us = [](const timeval& t) { return t.tv_sec * 1'000'000l + t.tv_usec; };
  EXPECT_LT(us(after.ru_utime) + us(after.ru_stime) - us(before.ru_utime) - us(before.ru_stime), 100'000)
      << "microseconds of a core in half an idle second";
  const auto start = std::chrono::steady_clock::now();
  mirror_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - start, 100ms);
  // The memory is its owner's again.
  ports_[0].fill(0, udp_from(1000), kFirst);
  ports_[0].publish(0);
  std::this_thread::sleep_for(5ms);
  EXPECT_EQ(ports_[0].consumed(0), 0u);
}

// The device goes on deciding batches, by kernels that come and go or by one that stays, while a mirror is
// opened, works, and is closed.
TEST_P(Mirror, ComesAndGoesBesideAQueueThatNeverRests) {
  for (const gpu::Drive drive : {gpu::Drive::launched, gpu::Drive::persistent}) {
    if (drive == gpu::Drive::persistent && !device_->info().persistent) continue;
    SCOPED_TRACE(drive == gpu::Drive::persistent ? "persistent" : "launched");
    const Port port;
    const Pages<u8> frames(1 << 16);
    auto opened = gpu::open_device(GetParam());
    ASSERT_TRUE(opened) << opened.error();
    gpu::Device& device = **opened;
    ASSERT_TRUE(device.register_frames(frames.data(), 1 << 16, gpu::Frames::automatic));
    ASSERT_TRUE(device.load(kFirst, pipelines(kDrop)));
    auto queue = device.open_queue({.batch_capacity = 64, .depth = 4, .drive = drive});
    ASSERT_TRUE(queue) << queue.error();
    std::atomic<bool> stop{false};
    std::atomic<u64> batches{0};
    std::thread busy([&] {
      // Whoever waits for the device to rest is let go in the end, so that the test fails and ends.
      const auto end = std::chrono::steady_clock::now() + 4s;
      while (!stop && std::chrono::steady_clock::now() < end) {
        if (gpu::Slot* slot = (*queue)->acquire()) {
          for (u32 i = 0; i < 64; ++i) slot->descriptors[i] = {XG_METADATA_SIZE + 256 * i, 64, 0};
          if ((*queue)->submit(slot, 64, kFirst) != gpu::Submit::ok) break;
        }
        while (gpu::Slot* done = (*queue)->poll()) {
          ++batches;
          (*queue)->release(done);
        }
      }
    });
    std::this_thread::sleep_for(50ms);
    const auto start = std::chrono::steady_clock::now();
    for (u16 round = 0; round < 3; ++round) {
      auto mirror = device.open_mirror({{port.options()}});
      EXPECT_TRUE(mirror) << mirror.error();
      if (!mirror) break;
      const u64 before = batches;
      const Frame frame = udp_from(static_cast<u16>(1000 + round));
      port.push(0, frame, kFirst);
      EXPECT_TRUE(soon([&] { return port.verdict(frame, 0).has_value(); }));
      EXPECT_TRUE(soon([&] { return batches > before + 2; })) << "the queue stands still";
    }
    EXPECT_LT(std::chrono::steady_clock::now() - start, 2s);
    stop = true;
    busy.join();
    queue->reset();
  }
}

TEST_P(Mirror, WrongSizesAreRefused) {
  OPEN();
  for (const auto change :
       {+[](gpu::MirrorPort& port) { port.slots = 6; }, +[](gpu::MirrorPort& port) { port.rings = 0; },
        +[](gpu::MirrorPort& port) { port.entries = 2; },
        +[](gpu::MirrorPort& port) { port.records = nullptr; }}) {
    gpu::MirrorOptions options{{ports_[1].options()}};
    change(options.ports[0]);
    EXPECT_FALSE(device_->open_mirror(options));
  }
}

}  // namespace
}  // namespace xdpgpu::tests
