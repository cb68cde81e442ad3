// SPDX-License-Identifier: MIT
#include "gpu/cpu/queue.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

#include "gpu/cpu/counts.hpp"
#include "gpu/cpu/group.hpp"
#include "gpu/doorbell.hpp"
#include "gpu/slots.hpp"
#include "gpu/stages/pipeline.h"
#include "gpu/staging.hpp"
#include "gpu/thread.hpp"

namespace xdpgpu::gpu::cpu {
namespace {

struct Free {
  void operator()(void* memory) const noexcept { std::free(memory); }
};
template <class T>
using Memory = std::unique_ptr<T[], Free>;

template <class T>
Memory<T> allocate(u64 count) {
  const u64 bytes = (count * sizeof(T) + 4095) & ~u64{4095};
  void* memory = std::aligned_alloc(4096, bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return Memory<T>(static_cast<T*>(memory));
}

constexpr u32 kCacheLine = 64;

// Metadata and headers, which lie in 128 bytes; of a whole group, before the one in front of it is decided:
// the CPU finds their pages side by side, where it would wait for each one by one. A hint only, so the
// descriptor need not have been checked.
void prefetch(const xg_batch& batch, u32 i) {
  const u64 metadata = batch.descriptors.v[i].offset - XG_METADATA_SIZE;
  const std::uintptr_t at = reinterpret_cast<std::uintptr_t>(batch.frames.v) + metadata;
  __builtin_prefetch(reinterpret_cast<const void*>(at));
  __builtin_prefetch(reinterpret_cast<const void*>(at + kCacheLine));
}

// The slots' memory, and how a batch is decided: by one thread.
class Batches {
 public:
  Batches(const Shared& device, const QueueOptions& options, SlotRing& ring)
      : device_(device), pass_(device.gate) {
    const u64 packets = u64{options.depth} * options.batch_capacity;
    descriptors_ = allocate<xg_descriptor>(packets);
    results_ = allocate<xg_result>(packets);
    edits_ = allocate<xg_edit>(packets);
    adjusts_ = allocate<xg_adjust>(packets);
    alerts_ = allocate<xg_alerts>(packets);
    patches_ = allocate<xg_patch>(packets);
    events_ = allocate<xg_event>(packets);
    for (Slot& slot : ring.all()) {
      const u64 first = u64{slot.index} * options.batch_capacity;
      slot.descriptors = descriptors_.get() + first;
      slot.results = results_.get() + first;
      slot.edits = edits_.get() + first;
      slot.adjusts = adjusts_.get() + first;
      slot.alerts = alerts_.get() + first;
      slot.patches = patches_.get() + first;
      slot.events = events_.get() + first;
    }
    if (device.frames == Frames::staged) {
      staged_ = allocate<xg_descriptor>(options.batch_capacity);
      staging_bytes_ = staging_bytes(options.batch_capacity);
      staging_ = allocate<u8>(staging_bytes_);
    }
  }

  void decide(const Slot& slot, u32 count, u32 generation, const Loaded& loaded) noexcept {
    xg_batch batch{};
    batch.frames.v = reinterpret_cast<xg_word*>(device_.base);
    batch.frames_bytes = device_.bytes;
    batch.descriptors.v = slot.descriptors;
    batch.results.v = slot.results;
    batch.edits.v = reinterpret_cast<xg_quad*>(slot.edits);
    batch.adjusts.v = reinterpret_cast<xg_quad*>(slot.adjusts);
    batch.alerts.v = reinterpret_cast<xg_quad*>(slot.alerts);
    batch.patches.v = reinterpret_cast<xg_quad*>(slot.patches);
    batch.events.v = reinterpret_cast<xg_quad*>(slot.events);
    // The stages only read the image; their handles have no const.
    batch.image.v = const_cast<xg_word*>(loaded.pipelines->image().data());
    batch.states.v = const_cast<xg_word*>(counts_.begin(loaded));
    if (loaded.changes != nullptr) {
      pass_.enter();
      batch.changes.v = loaded.changes->data();
    }
    batch.count = count;
    batch.generation = generation;
    if (staging_ != nullptr) {
      stage_frames(device_.base, device_.bytes, slot.descriptors, count, *loaded.pipelines, staging_.get(),
                   staged_.get());
      batch.frames.v = reinterpret_cast<xg_word*>(staging_.get());
      batch.frames_bytes = staging_bytes_;
      batch.descriptors.v = staged_.get();
    }
    Group group(batch, device_.sets);
    for (u32 first = 0; first < count; first += Group::kPackets) {
      const u32 end = std::min(count, first + Group::kPackets);
      for (u32 next = end; next < std::min(count, end + Group::kPackets); next++) prefetch(batch, next);
      group.decide(first, end - first);
    }
    if (loaded.changes != nullptr) pass_.leave();
    counts_.add_up(loaded);
  }

 private:
  const Shared& device_;
  BatchGate::Pass pass_;
  Counts counts_;
  Memory<xg_descriptor> descriptors_;
  Memory<xg_result> results_;
  Memory<xg_edit> edits_;
  Memory<xg_adjust> adjusts_;
  Memory<xg_alerts> alerts_;
  Memory<xg_patch> patches_;
  Memory<xg_event> events_;
  Memory<xg_descriptor> staged_;
  Memory<u8> staging_;
  u64 staging_bytes_ = 0;
};

class LaunchedQueue final : public Queue {
 public:
  LaunchedQueue(const Shared& device, const QueueOptions& options)
      : device_(device), ring_(options), batches_(device, options, ring_) {}

  Slot* acquire() noexcept override { return ring_.acquire(); }
  Submit submit(Slot* slot, u32 count, u32 generation) noexcept override {
    const Loaded* loaded = device_.generations.find(generation);
    if (loaded == nullptr) return Submit::unknown_generation;
    batches_.decide(*slot, count, generation, *loaded);
    ring_.submitted(slot, count, generation);
    return Submit::ok;
  }
  Slot* poll() noexcept override { return ring_.oldest() == nullptr ? nullptr : ring_.retire(false); }
  void release(Slot* slot) noexcept override { ring_.release(slot); }
  u32 in_flight() const noexcept override { return ring_.in_flight(); }

 private:
  const Shared& device_;
  SlotRing ring_;
  Batches batches_;
};

// Falling asleep and being woken takes some 50 us: what comes within that finds the thread awake.
constexpr u64 kSpinNs = 50'000;
constexpr u64 kMostSleepNs = 1'000'000'000;

class PersistentQueue final : public Queue {
 public:
  PersistentQueue(const Shared& device, const QueueOptions& options)
      : device_(device), ring_(options), batches_(device, options, ring_), loaded_(options.depth) {
    thread_ = start_thread("xdpgpu-device", [this] { run(); });
  }
  // The thread first decides what was submitted: `depth` batches at most.
  ~PersistentQueue() override {
    stopping_.store(true, std::memory_order_release);
    bell_.ring();
    thread_.join();
  }
  PersistentQueue(const PersistentQueue&) = delete;
  PersistentQueue& operator=(const PersistentQueue&) = delete;

  Slot* acquire() noexcept override { return ring_.acquire(); }
  Submit submit(Slot* slot, u32 count, u32 generation) noexcept override {
    const Loaded* loaded = device_.generations.find(generation);
    if (loaded == nullptr) return Submit::unknown_generation;
    loaded_[slot->index] = loaded;
    ring_.submitted(slot, count, generation);
    bell_.ring();
    return Submit::ok;
  }
  Slot* poll() noexcept override {
    if (ring_.oldest() == nullptr || decided_.load(std::memory_order_acquire) < ring_.oldest_ticket())
      return nullptr;
    return ring_.retire(false);
  }
  void release(Slot* slot) noexcept override { ring_.release(slot); }
  u32 in_flight() const noexcept override { return ring_.in_flight(); }

 private:
  void run() noexcept {
    u64 decided = 0;
    u64 busy_ns = monotonic_ns();
    for (;;) {
      // Before the look for batches: those that came before the end are still decided.
      const bool stopping = stopping_.load(std::memory_order_acquire);
      if (ring_.submitted() != decided) {
        const Slot& slot = ring_.at(decided + 1);
        batches_.decide(slot, slot.count, slot.generation, *loaded_[slot.index]);
        decided_.store(++decided, std::memory_order_release);
        busy_ns = monotonic_ns();
        continue;
      }
      if (stopping) return;
      if (monotonic_ns() - busy_ns < kSpinNs) {
        relax();
        continue;
      }
      bell_.sleep([&] { return ring_.submitted() != decided || stopping_.load(std::memory_order_acquire); },
                  kMostSleepNs);
    }
  }

  const Shared& device_;
  SlotRing ring_;
  Batches batches_;
  std::vector<const Loaded*> loaded_;  // by slot, while its batch is in flight
  Doorbell bell_;
  alignas(64) std::atomic<u64> decided_{0};  // number of the last batch that is
  alignas(64) std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Queue> open_queue(const Shared& device, const QueueOptions& options) {
  if (options.drive == Drive::persistent) return std::make_unique<PersistentQueue>(device, options);
  return std::make_unique<LaunchedQueue>(device, options);
}

}  // namespace xdpgpu::gpu::cpu
