// SPDX-License-Identifier: MIT
#include "gpu/cuda/mirror.hpp"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <cstring>

#include "gpu/mirror.h"
#include "gpu/thread.hpp"

namespace xdpgpu::gpu::cuda {
namespace {

using namespace std::chrono_literals;

constexpr u64 kLine = 128;
constexpr u64 kCountsAt = kLine;  // of the mailbox; the beat stands at its beginning
constexpr u64 kLeaseNs = 100'000'000;
constexpr auto kBeatEvery = 20ms;
constexpr auto kEndTimeout = 5s;

Result<u8*> map(std::vector<Registration>& registrations, void* base, u64 bytes) {
  auto made = Registration::create(base, bytes);
  if (!made) return tl::unexpected(made.error());
  registrations.push_back(std::move(*made));
  return registrations.back().device();
}

}  // namespace

Result<std::unique_ptr<MirrorMemory>> MirrorMemory::create(Shared& shared, const MirrorOptions& options) {
  auto memory = std::make_unique<MirrorMemory>();
  memory->options_ = options;
  if (auto ok = memory->allocate(shared); !ok) return tl::unexpected(ok.error());
  return memory;
}

Result<Shards> MirrorMemory::shards_of(Shared& shared, const MirrorPort& port) {
  const auto find = [&](const FlowWriter& flows) {
    return flows.find({port.verdicts, u64{port.queues} * port.entries}, port.entries);
  };
  if (const auto found = find(shared.flows)) return *found;
  if (own_flows_.device() == nullptr) {
    std::vector<FlowTables> tables;
    for (const MirrorPort& one : options_.ports) {
      const u64 entries = u64{one.queues} * one.entries;
      tables.push_back({{one.verdicts, entries}, {one.stats, entries}, one.entries});
    }
    auto made = FlowWriter::create(tables, shared.control);
    if (!made) return tl::unexpected(made.error());
    own_flows_ = std::move(*made);
  }
  if (const auto found = find(own_flows_)) return *found;
  return tl::unexpected(std::string("the mirrors' shards are not part of the flow verdict table"));
}

Result<void> MirrorMemory::allocate(Shared& shared) {
  auto stream = Stream::create();
  if (!stream) return tl::unexpected(stream.error());
  stream_ = std::move(*stream);
  std::vector<WatchedRing> rings;
  for (const MirrorPort& port : options_.ports) {
    const auto records =
        map(registrations_, port.records, u64{port.rings} * port.slots * sizeof(xg_mirror_record));
    if (!records) return tl::unexpected(records.error());
    const auto states = map(registrations_, port.states, port.rings * sizeof(xg_mirror_state));
    if (!states) return tl::unexpected(states.error());
    const auto shards = shards_of(shared, port);
    if (!shards) return tl::unexpected(shards.error());
    for (u32 cpu = 0; cpu < port.rings; ++cpu) {
      WatchedRing& ring = rings.emplace_back();
      ring.records = reinterpret_cast<const xg_mirror_record*>(*records) + u64{cpu} * port.slots;
      ring.state = reinterpret_cast<xg_mirror_state*>(*states) + cpu;
      ring.table = shards->table;
      ring.mask = port.slots - 1;
      ring.first_shard = shards->first;
      ring.queues = port.queues;
    }
  }
  u32 most = 0;
  if (const cudaError_t error = most_watched_rings(*shared.kernels, shared.ordinal, most);
      error != cudaSuccess)
    return failure("asking how much the GPU can watch", error);
  if (rings.size() > most)
    return tl::unexpected(fmt::format(
        "this GPU can watch the mirrors of {} CPUs, and there are {} (possible CPUs times ports): attach "
        "fewer ports, use the device cpu, or leave out the rules that mirror",
        most, rings.size()));
  rings_ = static_cast<u32>(rings.size());
  return DeviceMemory::create(rings.size() * sizeof(WatchedRing), rings.data(), stream_)
      .map([&](DeviceMemory&& made) { rings_memory_ = std::move(made); })
      .and_then([&] { return DeviceMemory::create(sizeof(u32), nullptr, stream_); })
      .map([&](DeviceMemory&& made) { end_ = std::move(made); })
      .and_then([&] { return Pinned::create(kCountsAt + rings_ * sizeof(WatchCounts)); })
      .map([&](Pinned&& made) { mailbox_ = std::move(made); });
}

Watch MirrorMemory::watch(const Images& images) const noexcept {
  Watch watch;
  watch.rings = reinterpret_cast<const WatchedRing*>(rings_memory_.get());
  watch.counts = reinterpret_cast<WatchCounts*>(mailbox_.device() + kCountsAt);
  watch.ring_count = rings_;
  watch.images = images.device();
  watch.image_count = Images::count();
  watch.beat = reinterpret_cast<const u32*>(mailbox_.device());
  watch.end = reinterpret_cast<u32*>(end_.get());
  watch.lease_ns = kLeaseNs;
  return watch;
}

void MirrorMemory::begin() noexcept {
  for (std::size_t p = 0; p < options_.ports.size(); ++p)
    for (u32 cpu = 0; cpu < options_.ports[p].rings; ++cpu)
      (void)mirror_ring(options_.ports[p], static_cast<u32>(p), cpu);
  std::memset(mailbox_.host() + kCountsAt, 0, rings_ * sizeof(WatchCounts));
  *beat() = 0;  // the last mirror's told its kernel to end
}

std::span<const WatchCounts> MirrorMemory::counts() const noexcept {
  return {reinterpret_cast<const WatchCounts*>(mailbox_.host() + kCountsAt), rings_};
}

void MirrorMemory::abandon() noexcept {
  for (Registration& registration : registrations_) registration.abandon();
  own_flows_.abandon();
  mailbox_.abandon();
  rings_memory_.abandon();
  end_.abandon();
  stream_.abandon();
}

namespace {

class CudaMirror final : public Mirror, private Stays {
 public:
  // The kernel has been launched.
  explicit CudaMirror(Shared& shared) : shared_(shared), memory_(*shared.mirror) {
    shared_.pauses.add(*this);
    try {
      thread_ = start_thread("xdpgpu-mirror", [this] { watch_over(); });
    } catch (...) {
      shared_.pauses.remove(*this);
      throw;
    }
    memory_.in_use = true;
  }
  ~CudaMirror() override;
  CudaMirror(const CudaMirror&) = delete;
  CudaMirror& operator=(const CudaMirror&) = delete;

  MirrorCounters counters() const noexcept override {
    MirrorCounters sum;
    const auto add = [](u64& to, const u64& from) { to += __atomic_load_n(&from, __ATOMIC_ACQUIRE); };
    for (const WatchCounts& counts : memory_.counts()) {
      add(sum.taken, counts.taken);
      add(sum.published, counts.published);
      add(sum.evicted, counts.evicted);
      add(sum.unknown_generation, counts.unknown_generation);
      add(sum.undecided, counts.undecided);
    }
    return sum;
  }

 private:
  void watch_over() noexcept;
  bool send_away() noexcept override;
  void come_back() noexcept override { closing_.notify_all(); }
  void put_beat(u32 beat) noexcept { __atomic_store_n(memory_.beat(), beat, __ATOMIC_RELAXED); }
  // Whether the kernel stays; an error means that the device is lost.
  cudaError_t state() const noexcept { return cudaStreamQuery(memory_.stream().get()); }

  Shared& shared_;
  MirrorMemory& memory_;
  std::mutex mutex_;
  std::condition_variable closing_;
  bool closed_ = false;
  std::thread thread_;
};

void CudaMirror::watch_over() noexcept {
  (void)cudaSetDevice(shared_.ordinal);
  std::unique_lock lock(mutex_);
  for (u32 beat = 1; !closed_; beat = beat + 1 == kWatchStop ? 0 : beat + 1) {
    if (shared_.pauses.any()) {
      closing_.wait_for(lock, kBeatEvery);
      continue;
    }
    put_beat(beat);
    cudaError_t now = state();
    // The process was stopped for longer than the lease, or there was a pause: go on where the kernel ended.
    if (now == cudaSuccess)
      now = launch_watch(*shared_.kernels, memory_.watch(shared_.images), memory_.stream().get());
    if (now != cudaSuccess && now != cudaErrorNotReady) {
      shared_.failed = true;
      return;
    }
    closing_.wait_for(lock, kBeatEvery);
  }
}

// It is sent away under the lock, and so not started again by a thread that has not seen the pause yet.
bool CudaMirror::send_away() noexcept {
  if (shared_.failed) return true;
  const std::lock_guard lock(mutex_);
  put_beat(kWatchStop);
  return state() != cudaErrorNotReady;
}

CudaMirror::~CudaMirror() {
  shared_.pauses.remove(*this);
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  closing_.notify_all();
  thread_.join();
  (void)cudaSetDevice(shared_.ordinal);
  put_beat(kWatchStop);
  const auto deadline = std::chrono::steady_clock::now() + kEndTimeout;
  while (!shared_.abandoned && state() == cudaErrorNotReady) {
    if (std::chrono::steady_clock::now() > deadline) {
      shared_.failed = true;
      shared_.abandoned = true;
    }
    std::this_thread::yield();
  }
  memory_.in_use = false;
}

Result<std::unique_ptr<Mirror>> begin(Shared& shared, const MirrorOptions& options) {
  if (shared.mirror && shared.mirror->in_use)
    return tl::unexpected(std::string("it watches already: close the other mirror first"));
  if (!shared.mirror || shared.mirror->options() != options) {
    shared.mirror.reset();
    auto memory = MirrorMemory::create(shared, options);
    if (!memory) return tl::unexpected(memory.error());
    shared.mirror = std::move(*memory);
  }
  shared.mirror->begin();
  if (const cudaError_t error =
          launch_watch(*shared.kernels, shared.mirror->watch(shared.images), shared.mirror->stream().get());
      error != cudaSuccess)
    return failure("starting the kernel", error);
  return std::make_unique<CudaMirror>(shared);
}

}  // namespace

Result<std::unique_ptr<Mirror>> open_mirror(Shared& shared, const std::string& name,
                                            const MirrorOptions& options) {
  auto made = begin(shared, options);
  if (!made) return tl::unexpected(fmt::format("{} cannot watch mirrored packets: {}", name, made.error()));
  return made;
}

}  // namespace xdpgpu::gpu::cuda
