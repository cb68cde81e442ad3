// SPDX-License-Identifier: MIT
//
// The flow verdict table under stress: a device decides and publishes a million flows into a table that
// holds a fraction of them, so that entries are replaced all the time, while the XDP program looks flows
// up on other cores. A lookup is a miss or the flow's own verdict, rewrite included: never a torn entry,
// never another flow's.
#include <bpf/bpf.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

#include "gpu/flow_table.hpp"
#include "gpu/pipelines.hpp"
#include "gpu/reference/reference.hpp"
#include "maps/hash.h"
#include "maps/parse.h"
#include "tests/kernel/kernel_test.hpp"

namespace xdpgpu::test {
namespace {

using namespace std::chrono_literals;

constexpr u32 kFlows = 1'000'000;
constexpr u32 kEntries = 16'384;
constexpr u32 kBatch = 1024, kDepth = 4;
constexpr u32 kBackends = 200;
constexpr auto kTime = 4s;
constexpr std::size_t kSource = 14 + 12, kPorts = 14 + 20;

gpu::Mac mac_of(u32 backend) { return {2, 0xee, 0, 0, 0, static_cast<u8>(backend)}; }

std::vector<gpu::PipelineSettings> settings() {
  gpu::LoadBalanceSettings balance;
  balance.cache = true;
  for (u32 i = 0; i < kBackends; ++i)
    balance.backends.push_back({.name = std::to_string(i), .mac = mac_of(i), .weight = 1 + i % 3});
  return {{"balance", {balance}}};
}

void set_flow(u8* frame, u32 flow) {
  const u32 source = htonl(0x0a000000 + flow);
  const u16 port = htons(static_cast<u16>(flow * 7));
  std::memcpy(frame + kSource, &source, sizeof(source));
  std::memcpy(frame + kPorts, &port, sizeof(port));
}

// Frames with their metadata, one a packet in flight.
class Frames {
 public:
  Frames(u32 count, const Frame& frame, const xg_config& config, u32 generation)
      : frame_(frame), config_(config), base_(static_cast<u8*>(std::aligned_alloc(4096, bytes(count)))) {
    for (u32 i = 0; i < count; ++i) std::memcpy(at(i), frame.data(), frame.size());
    xg_packet parsed;
    xg_parse(frame.data(), frame.data() + frame.size(), static_cast<u8>(config.port), &parsed);
    key_ = parsed.key;
    xg_metadata_from(&metadata_, &parsed, 0);
    metadata_.generation = generation;
  }
  ~Frames() { std::free(base_); }
  Frames(const Frames&) = delete;
  Frames& operator=(const Frames&) = delete;

  static u64 bytes(u32 count) { return u64{count} * XG_CHUNK_SIZE; }
  u8* base() const { return base_; }

  // Makes frame i a packet of the flow; what the flow is remembered by.
  gpu::FlowVerdict set(u32 i, u32 flow) {
    set_flow(at(i), flow);
    gpu::FlowVerdict out;
    out.key = key_;
    std::memcpy(&out.key.src[0], at(i) + kSource, sizeof(u32));
    std::memcpy(&out.key.src_port, at(i) + kPorts, sizeof(u16));
    out.flow_hash = xg_flow_hash(&out.key, &config_.flow_keys);
    out.generation = metadata_.generation;
    metadata_.flow_hash = out.flow_hash;
    metadata_.rx_time_ns = monotonic_ns();
    std::memcpy(at(i) - sizeof(metadata_), &metadata_, sizeof(metadata_));
    return out;
  }
  xg_descriptor descriptor(u32 i) const {
    return {u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA, static_cast<u32>(frame_.size()), 0};
  }

 private:
  u8* at(u32 i) const { return base_ + u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA; }

  Frame frame_;
  const xg_config& config_;
  u8* base_;
  xg_flow_key key_{};
  xg_metadata metadata_{};
};

// The backend of each flow, by the sequential reference.
std::vector<u8> known_backends(Frames& frames, u32 generation) {
  const auto pipelines = settings();
  std::vector<u8> backends;
  std::vector<xg_descriptor> descriptors;
  std::vector<xg_result> results(kBatch);
  for (u32 i = 0; i < kBatch; ++i) descriptors.push_back(frames.descriptor(i));
  for (u32 flow = 0; flow < kFlows; flow += kBatch) {
    for (u32 i = 0; i < kBatch; ++i) frames.set(i, flow + i);
    gpu::reference::decide({frames.base(), Frames::bytes(kBatch)}, descriptors, generation, pipelines,
                           results);
    for (const xg_result& result : results) backends.push_back(static_cast<u8>(result.detail));
  }
  return backends;
}

struct Seen {
  u64 hits = 0, misses = 0;
  std::string wrong;
};

// What writer and readers share.
struct Shared {
  std::array<std::atomic<u32>, kBatch> recent{};  // flows of the last batch
  std::atomic<bool> done{false};
};

// Looks flows up, half of them such as were just published, until it is done or something is wrong.
Seen look_up(int program, const Frame& frame, const std::vector<u8>& backends, Shared& shared, u32 seed) {
  Seen seen;
  std::mt19937 random(seed);
  Frame in = frame, out(frame.size() + 256);
  while (!shared.done.load(std::memory_order_relaxed) && seen.wrong.empty()) {
    const u32 flow =
        random() % 2 ? static_cast<u32>(random() % kFlows) : shared.recent[random() % kBatch].load();
    set_flow(in.data(), flow);
    LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = in.data(), .data_out = out.data(),
                .data_size_in = static_cast<u32>(in.size()), .data_size_out = static_cast<u32>(out.size()));
    if (bpf_prog_test_run_opts(program, &run) != 0) {
      seen.wrong = "BPF_PROG_TEST_RUN failed";
      break;
    }
    out.resize(frame.size());
    Frame expected = in;
    if (run.retval == XDP_TX) {
      ++seen.hits;
      const gpu::Mac mac = mac_of(backends[flow]);
      std::copy_n(in.begin(), 6, expected.begin() + 6);
      std::copy(mac.begin(), mac.end(), expected.begin());
    } else if (run.retval == XDP_DROP) {
      ++seen.misses;
    } else {
      seen.wrong = "flow " + std::to_string(flow) + " got action " + std::to_string(run.retval);
    }
    if (out != expected) seen.wrong = "flow " + std::to_string(flow) + " was sent to another flow's backend";
    out.resize(frame.size() + 256);
  }
  shared.done = true;
  return seen;
}

class Publication : public KernelTest, public testing::WithParamInterface<const char*> {};

TEST_P(Publication, AReaderInTheKernelSeesWholeVerdictsOfTheirOwnFlow) {
  auto opened = gpu::open_device(GetParam());
  if (!opened) GTEST_SKIP() << opened.error();
  Program program({.queues = 1, .flow_entries_per_queue = kEntries});
  program.install(policy_text(R"("default": "drop")"));
  const u32 generation = program.generation();
  const Frame frame = ethernet() + ipv4({.protocol = 17}, udp(1, 443, 26));
  Frames frames(kBatch * kDepth, frame, program.config(), generation);
  const std::vector<u8> backends = known_backends(frames, generation);

  const auto pipelines = gpu::Pipelines::compile(settings());
  ASSERT_TRUE(pipelines) << pipelines.error();
  u32 index = XG_REWRITE_INDEX(XG_REWRITE_FIRST, generation);
  for (const xg_rewrite& rewrite : (*pipelines)->rewrites()) {
    program.rewrite(index) = rewrite;
    program.rewrite(index++).generation = generation;
  }
  const std::span<xg_flow_verdict> entries(&program.verdict(0), kEntries);
  const std::span<xg_flow_stats> stats(&program.stats(0), kEntries);

  const auto device = std::move(*opened);
  ASSERT_TRUE(device->register_frames(frames.base(), Frames::bytes(kBatch * kDepth), gpu::Frames::automatic));
  std::vector<gpu::FlowTables> tables(program.config().port + 1);
  tables.back() = {
      .entries = entries, .stats = stats, .entries_per_queue = kEntries, .caches_transmit = true};
  const auto publishes = device->publish_flows(tables);
  ASSERT_TRUE(publishes) << publishes.error();
  EXPECT_EQ(*publishes, device->info().kind == gpu::Kind::cuda);
  ASSERT_TRUE(device->load(generation, *pipelines));
  auto queue = device->open_queue({.batch_capacity = kBatch, .depth = kDepth});
  ASSERT_TRUE(queue) << queue.error();

  Shared shared;
  std::vector<std::thread> readers;
  std::vector<Seen> seen(std::clamp(std::thread::hardware_concurrency() - 1, 1u, 8u));
  for (u32 i = 0; i < seen.size(); ++i)
    readers.emplace_back([&, i] { seen[i] = look_up(program.fd(), frame, backends, shared, i + 1); });

  gpu::FlowTable table(entries, stats);
  std::vector<gpu::FlowVerdict> flows(kBatch * kDepth);
  std::mt19937 random(20261121);
  u64 published = 0, evicted = 0, batches = 0;
  const auto end = std::chrono::steady_clock::now() + kTime;
  while (std::chrono::steady_clock::now() < end && !shared.done) {
    while (gpu::Slot* slot = (*queue)->poll()) {
      for (u32 i = 0; i < slot->count; ++i) {
        const xg_result& result = slot->results[i];
        bool is_new = result.flags & XG_RES_PUBLISHED, gave_way = result.flags & XG_RES_EVICTED;
        if (!*publishes) {
          gpu::FlowVerdict& flow = flows[slot->index * kBatch + i];
          flow.verdict = result.verdict;
          flow.rewrite = static_cast<u16>(XG_REWRITE_INDEX(XG_RES_REWRITE(result.flags), generation));
          const gpu::Published outcome = table.publish(flow, monotonic_ns());
          is_new = outcome != gpu::Published::unchanged;
          gave_way = outcome == gpu::Published::evicted;
        }
        published += is_new;
        evicted += gave_way;
      }
      ++batches;
      (*queue)->release(slot);
    }
    gpu::Slot* slot = (*queue)->acquire();
    if (!slot) continue;
    for (u32 i = 0; i < kBatch; ++i) {
      const u32 flow = static_cast<u32>(random() % kFlows);
      flows[slot->index * kBatch + i] = frames.set(slot->index * kBatch + i, flow);
      slot->descriptors[i] = frames.descriptor(slot->index * kBatch + i);
      shared.recent[i].store(flow, std::memory_order_relaxed);
    }
    ASSERT_EQ((*queue)->submit(slot, kBatch, generation), gpu::Submit::ok);
  }
  shared.done = true;
  for (std::thread& reader : readers) reader.join();

  Seen total;
  for (const Seen& one : seen) {
    total.hits += one.hits;
    total.misses += one.misses;
    EXPECT_EQ(one.wrong, "");
  }
  RecordProperty("hits", std::to_string(total.hits));
  EXPECT_GT(total.hits, 1'000u) << "of " << total.hits + total.misses;
  EXPECT_GT(published, 100'000u) << "in " << batches << " batches";
  EXPECT_GT(evicted, 50'000u);
}

INSTANTIATE_TEST_SUITE_P(Devices, Publication, testing::Values("cpu", "cuda"),
                         [](const auto& tested) { return std::string(tested.param); });

}  // namespace
}  // namespace xdpgpu::test
