// SPDX-License-Identifier: MIT
#include "gpu/cuda/mirror.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <condition_variable>
#include <thread>

#include "gpu/cuda/watch.hpp"
#include "gpu/mirror.h"

namespace xdpgpu::gpu::cuda {
namespace {

using namespace std::chrono_literals;

constexpr u64 kLine = 128;
constexpr u64 kCountsAt = kLine;  // of the mailbox; the beat stands at its beginning
constexpr u64 kLeaseNs = 100'000'000;
constexpr auto kBeatEvery = 20ms;
constexpr auto kEndTimeout = 5s;

// A map's memory is whole pages.
u64 pages(u64 bytes) { return (bytes + 4095) & ~u64{4095}; }

class CudaMirror final : public Mirror {
 public:
  static Result<std::unique_ptr<Mirror>> create(Shared& shared, const MirrorOptions& options) {
    std::unique_ptr<CudaMirror> mirror(new CudaMirror(shared));
    if (auto ok = mirror->allocate(options); !ok) return tl::unexpected(ok.error());
    if (auto ok = mirror->launch(); !ok) return tl::unexpected(ok.error());
    mirror->beat_while_open();
    return mirror;
  }
  ~CudaMirror() override;
  CudaMirror(const CudaMirror&) = delete;
  CudaMirror& operator=(const CudaMirror&) = delete;

  MirrorCounters counters() const noexcept override {
    MirrorCounters sum;
    const auto add = [](u64& to, const u64& from) { to += __atomic_load_n(&from, __ATOMIC_ACQUIRE); };
    for (u32 ring = 0; ring < rings_; ++ring) {
      const WatchCounts& counts = counts_of()[ring];
      add(sum.taken, counts.taken);
      add(sum.published, counts.published);
      add(sum.evicted, counts.evicted);
      add(sum.unknown_generation, counts.unknown_generation);
      add(sum.undecided, counts.undecided);
    }
    return sum;
  }

 private:
  explicit CudaMirror(Shared& shared) : shared_(shared) {}
  Result<void> allocate(const MirrorOptions& options);
  Result<Shards> shards_of(const std::vector<MirrorPort>& ports, std::size_t port);
  Result<u8*> map(void* base, u64 bytes);
  Result<void> launch();
  void beat_while_open();
  void watch_over() noexcept;
  void put_beat(u32 beat) noexcept {
    __atomic_store_n(reinterpret_cast<u32*>(mailbox_.host()), beat, __ATOMIC_RELAXED);
  }
  WatchCounts* counts_of() const noexcept {
    return reinterpret_cast<WatchCounts*>(mailbox_.host() + kCountsAt);
  }
  // Whether the kernel stays; an error means that the device is lost.
  cudaError_t state() const noexcept { return cudaStreamQuery(stream_.get()); }

  Shared& shared_;
  Stream stream_;
  std::vector<Registration> registrations_;
  FlowWriter own_flows_;  // where the device does not publish otherwise
  Pinned mailbox_;        // the beat, then counts by ring
  DeviceMemory rings_memory_, end_;
  u32 rings_ = 0;
  bool launched_ = false;

  std::mutex mutex_;
  std::condition_variable closing_;
  bool closed_ = false;
  std::thread thread_;
};

Result<u8*> CudaMirror::map(void* base, u64 bytes) {
  auto made = Registration::create(base, pages(bytes));
  if (!made) return tl::unexpected(made.error());
  registrations_.push_back(std::move(*made));
  return registrations_.back().device();
}

Result<Shards> CudaMirror::shards_of(const std::vector<MirrorPort>& ports, std::size_t port) {
  const auto find = [&](const FlowWriter& flows) {
    return flows.find({ports[port].verdicts, u64{ports[port].queues} * ports[port].entries},
                      ports[port].entries);
  };
  if (const auto found = find(shared_.flows)) return *found;
  if (own_flows_.device() == nullptr) {
    std::vector<FlowTables> tables;
    for (const MirrorPort& one : ports) {
      const u64 entries = u64{one.queues} * one.entries;
      tables.push_back({{one.verdicts, entries}, {one.stats, entries}, one.entries});
    }
    auto made = FlowWriter::create(tables, shared_.control);
    if (!made) return tl::unexpected(made.error());
    own_flows_ = std::move(*made);
  }
  if (const auto found = find(own_flows_)) return *found;
  return tl::unexpected(std::string("the mirrors' shards are not part of the flow verdict table"));
}

Result<void> CudaMirror::allocate(const MirrorOptions& options) {
  auto stream = Stream::create();
  if (!stream) return tl::unexpected(stream.error());
  stream_ = std::move(*stream);
  std::vector<WatchedRing> rings;
  for (std::size_t p = 0; p < options.ports.size(); ++p) {
    const MirrorPort& port = options.ports[p];
    const auto records = map(port.records, u64{port.rings} * port.slots * sizeof(xg_mirror_record));
    if (!records) return tl::unexpected(records.error());
    const auto states = map(port.states, port.rings * sizeof(xg_mirror_state));
    if (!states) return tl::unexpected(states.error());
    const auto shards = shards_of(options.ports, p);
    if (!shards) return tl::unexpected(shards.error());
    for (u32 cpu = 0; cpu < port.rings; ++cpu) {
      (void)mirror_ring(port, static_cast<u32>(p), cpu);  // what stands there now is not looked at
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
  if (const cudaError_t error = most_watched_rings(shared_.ordinal, most); error != cudaSuccess)
    return failure("asking how much the GPU can watch", error);
  if (rings.size() > most)
    return tl::unexpected(fmt::format(
        "this GPU can watch the mirrors of {} CPUs, and there are {} (possible CPUs times ports): attach "
        "fewer ports, use the device cpu, or leave out the rules that mirror",
        most, rings.size()));
  rings_ = static_cast<u32>(rings.size());
  auto done = DeviceMemory::create(rings.size() * sizeof(WatchedRing), rings.data(), stream_)
                  .map([&](DeviceMemory&& made) { rings_memory_ = std::move(made); })
                  .and_then([&] { return DeviceMemory::create(sizeof(u32), nullptr, stream_); })
                  .map([&](DeviceMemory&& made) { end_ = std::move(made); })
                  .and_then([&] { return Pinned::create(kCountsAt + rings_ * sizeof(WatchCounts)); })
                  .map([&](Pinned&& made) { mailbox_ = std::move(made); });
  return done;
}

Result<void> CudaMirror::launch() {
  Watch watch;
  watch.rings = reinterpret_cast<const WatchedRing*>(rings_memory_.get());
  watch.counts = reinterpret_cast<WatchCounts*>(mailbox_.device() + kCountsAt);
  watch.ring_count = rings_;
  watch.images = shared_.images.device();
  watch.image_count = Images::count();
  watch.beat = reinterpret_cast<const u32*>(mailbox_.device());
  watch.end = reinterpret_cast<u32*>(end_.get());
  watch.lease_ns = kLeaseNs;
  if (const cudaError_t error = launch_watch(watch, stream_.get()); error != cudaSuccess)
    return failure("starting to watch mirrored packets", error);
  launched_ = true;
  return {};
}

void CudaMirror::beat_while_open() {
  // Signals are for the process's own threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { watch_over(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_setname_np(thread_.native_handle(), "xdpgpu-mirror");
}

void CudaMirror::watch_over() noexcept {
  (void)cudaSetDevice(shared_.ordinal);
  std::unique_lock lock(mutex_);
  for (u32 beat = 1; !closed_; beat = beat + 1 == kWatchStop ? 0 : beat + 1) {
    put_beat(beat);
    const cudaError_t now = state();
    // The process was stopped for longer than the lease: go on where the kernel ended.
    const bool lost = now == cudaSuccess ? !launch() : now != cudaErrorNotReady;
    if (lost) shared_.failed = true;
    if (lost) return;
    closing_.wait_for(lock, kBeatEvery);
  }
}

CudaMirror::~CudaMirror() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
  }
  closing_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (!launched_) return;
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
  if (!shared_.abandoned) return;
  for (Registration& registration : registrations_) registration.abandon();
  own_flows_.abandon();
  mailbox_.abandon();
  rings_memory_.abandon();
  end_.abandon();
  stream_.abandon();
}

}  // namespace

Result<std::unique_ptr<Mirror>> open_mirror(Shared& shared, const std::string& name,
                                            const MirrorOptions& options) {
  auto made = CudaMirror::create(shared, options);
  if (!made) return tl::unexpected(fmt::format("{} cannot watch mirrored packets: {}", name, made.error()));
  return made;
}

}  // namespace xdpgpu::gpu::cuda
