// SPDX-License-Identifier: MIT
#include "gpu/cpu/mirror.hpp"

#include <time.h>

#include <algorithm>
#include <atomic>

#include "gpu/flow_table.hpp"
#include "gpu/mirror.h"
#include "gpu/thread.hpp"

namespace xdpgpu::gpu::cpu {
namespace {

// Records of one ring before the next one has its turn.
constexpr u32 kBurst = 64;
// Falling asleep and waking takes some 50 us: what comes within that finds the thread awake.
constexpr u64 kSpinNs = 50'000;
constexpr long kLeastSleepNs = 20'000;
constexpr long kMostSleepNs = 1'000'000;

// Written by the thread alone.
class Count {
 public:
  void add(u64 n) noexcept { value_.store(read() + n, std::memory_order_relaxed); }
  u64 read() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<u64> value_{0};
};

class CpuMirror final : public Mirror {
 public:
  CpuMirror(const Shared& device, const MirrorOptions& options) : device_(device) {
    for (u32 p = 0; p < options.ports.size(); ++p) {
      const MirrorPort& port = options.ports[p];
      for (u32 cpu = 0; cpu < port.rings; ++cpu) rings_.push_back(mirror_ring(port, p, cpu));
      Shards& shards = shards_.emplace_back();
      for (u32 queue = 0; queue < port.queues; ++queue) {
        const u64 first = u64{queue} * port.entries;
        shards.emplace_back(std::span(port.verdicts + first, port.entries),
                            std::span(port.stats + first, port.entries));
      }
    }
    thread_ = start_thread("xdpgpu-mirror", [this] { run(); });
  }
  ~CpuMirror() override {
    stopping_.store(true, std::memory_order_relaxed);
    thread_.join();
  }
  CpuMirror(const CpuMirror&) = delete;
  CpuMirror& operator=(const CpuMirror&) = delete;

  MirrorCounters counters() const noexcept override {
    return {taken_.read(), published_.read(), evicted_.read(), unknown_generation_.read(), undecided_.read()};
  }

 private:
  using Shards = std::vector<FlowTable>;

  void run() noexcept {
    u64 busy_ns = monotonic_ns();
    long sleep_ns = kLeastSleepNs;
    while (!stopping_.load(std::memory_order_relaxed)) {
      const u64 now_ns = monotonic_ns();
      u32 taken = 0;
      for (MirrorRing& ring : rings_) taken += take(ring, now_ns);
      if (taken != 0) {
        busy_ns = now_ns;
        sleep_ns = kLeastSleepNs;
      } else if (now_ns - busy_ns < kSpinNs) {
        relax();
      } else {
        const timespec pause{0, sleep_ns};
        nanosleep(&pause, nullptr);
        sleep_ns = std::min(sleep_ns * 2, kMostSleepNs);
      }
    }
  }

  u32 take(MirrorRing& ring, u64 now_ns) noexcept {
    u32 taken = 0;
    for (const xg_mirror_record* record; taken < kBurst && (record = mirror_next(ring)); ++taken) {
      look_at(*record, ring.port, now_ns);
      ring.next++;
    }
    if (taken == 0) return 0;
    taken_.add(taken);
    mirror_consumed(ring);
    return taken;
  }

  void look_at(const xg_mirror_record& record, u32 port, u64 now_ns) noexcept {
    const Loaded* loaded = device_.generations.find(record.metadata.generation);
    if (loaded == nullptr) return unknown_generation_.add(1);
    const xg_result result = loaded->tables.empty()
                                 ? mirror_decide(&record, loaded->pipelines->image().data())
                                 : decide_with_tables(record, *loaded);
    if (XG_VERDICT_ACTION(result.verdict) == XG_ABORTED) return undecided_.add(1);
    if (mirror_caches(&record, result, static_cast<u32>(shards_[port].size())))
      publish(shards_[port][record.queue], record, result, now_ns);
  }

  // The queues may be at the same tables. What a stage counts in bytes is the whole packet, not what was
  // captured of it.
  xg_result decide_with_tables(const xg_mirror_record& record, const Loaded& loaded) noexcept {
    xg_descriptor descriptor;
    xg_batch batch = mirror_batch(&record, loaded.pipelines->image().data(), &descriptor);
    batch.states.v = const_cast<xg_word*>(loaded.addresses.data());
    xg_view seen;
    xg_result result = xg_no_result();
    if (!xg_begin(batch, 0, seen)) return result;
    xg_look_inside(batch, seen);
    xg_way way = xg_way_from(0);
    xg_set_out(batch, seen, way, result);
    if (way.kind == 0) return result;
    while (way.kind != 0) {
      std::optional<u32> outcome;
      while (!outcome) {
        const xg_touch touch = device_.sets.touch(batch, way, seen, record.wire_length);
        outcome = device_.sets.apply(batch, way.kind, way.body, touch);
      }
      xg_settle(batch, seen, *outcome, way, result);
    }
    return result;
  }

  void publish(FlowTable& shard, const xg_mirror_record& record, const xg_result& result,
               u64 now_ns) noexcept {
    FlowVerdict flow;
    flow.key = record.key;
    flow.flow_hash = record.metadata.flow_hash;
    flow.generation = record.metadata.generation;
    flow.verdict = result.verdict;
    flow.ttl_ms = result.cache_ttl_ms;
    const Published published = shard.publish(flow, now_ns);
    if (published == Published::unchanged) return;
    published_.add(1);
    if (published == Published::evicted) evicted_.add(1);
  }

  const Shared& device_;
  std::vector<MirrorRing> rings_;
  std::vector<Shards> shards_;  // by port, queue
  Count taken_, published_, evicted_, unknown_generation_, undecided_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Mirror> open_mirror(const Shared& device, const MirrorOptions& options) {
  return std::make_unique<CpuMirror>(device, options);
}

}  // namespace xdpgpu::gpu::cpu
