// SPDX-License-Identifier: MIT
#include "gpu/cpu/device.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <fstream>
#include <new>

#include "gpu/cpu/mirror.hpp"
#include "gpu/generations.hpp"
#include "gpu/pipelines.hpp"
#include "gpu/slots.hpp"
#include "gpu/stages/pipeline.h"
#include "gpu/staging.hpp"

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

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "the host's processor";
}

// Packets between the one that is decided and the one whose first line is fetched.
constexpr u32 kAhead = 8;

// A hint only, so the descriptor need not have been checked.
void prefetch(const xg_batch& batch, u32 i) {
  const u64 metadata = batch.descriptors.v[i].offset - XG_METADATA_SIZE;
  __builtin_prefetch(
      reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(batch.frames.v) + metadata));
}

// What the queues of a device read; the device outlives them.
struct Shared {
  u8* base = nullptr;
  u64 bytes = 0;
  Frames frames = Frames::automatic;
  Generations<std::shared_ptr<const Pipelines>> generations;
};

class CpuQueue final : public Queue {
 public:
  CpuQueue(const Shared& device, const QueueOptions& options) : device_(device), ring_(options) {
    const u64 packets = u64{options.depth} * options.batch_capacity;
    descriptors_ = allocate<xg_descriptor>(packets);
    results_ = allocate<xg_result>(packets);
    for (Slot& slot : ring_.all()) {
      slot.descriptors = descriptors_.get() + u64{slot.index} * options.batch_capacity;
      slot.results = results_.get() + u64{slot.index} * options.batch_capacity;
    }
    if (device.frames == Frames::staged) {
      staged_ = allocate<xg_descriptor>(options.batch_capacity);
      staging_bytes_ = staging_bytes(options.batch_capacity);
      staging_ = allocate<u8>(staging_bytes_);
    }
  }

  Slot* acquire() noexcept override { return ring_.acquire(); }

  Submit submit(Slot* slot, u32 count, u32 generation) noexcept override {
    const auto* pipelines = device_.generations.find(generation);
    if (pipelines == nullptr) return Submit::unknown_generation;
    xg_batch batch{};
    batch.frames.v = reinterpret_cast<xg_word*>(device_.base);
    batch.frames_bytes = device_.bytes;
    batch.descriptors.v = slot->descriptors;
    batch.results.v = slot->results;
    // The stages only read the image; their handles have no const.
    batch.image.v = const_cast<xg_word*>((*pipelines)->image().data());
    batch.count = count;
    batch.generation = generation;
    if (staging_ != nullptr) {
      stage_frames(device_.base, device_.bytes, slot->descriptors, count, staging_.get(), staged_.get());
      batch.frames.v = reinterpret_cast<xg_word*>(staging_.get());
      batch.frames_bytes = staging_bytes_;
      batch.descriptors.v = staged_.get();
    }
    for (u32 i = 0; i < count; i++) {
      if (i + kAhead < count) prefetch(batch, i + kAhead);
      xg_run(batch, i);
    }
    ring_.submitted(slot, count, generation);
    return Submit::ok;
  }

  Slot* poll() noexcept override { return ring_.oldest() == nullptr ? nullptr : ring_.retire(false); }
  void release(Slot* slot) noexcept override { ring_.release(slot); }
  u32 in_flight() const noexcept override { return ring_.in_flight(); }

 private:
  const Shared& device_;
  SlotRing ring_;
  Memory<xg_descriptor> descriptors_;
  Memory<xg_result> results_;
  Memory<xg_descriptor> staged_;
  Memory<u8> staging_;
  u64 staging_bytes_ = 0;
};

class CpuDevice final : public Device {
 public:
  const DeviceInfo& info() const noexcept override { return info_; }

  Result<void> register_frames(void* base, u64 bytes, Frames frames) override {
    if (auto checked = check_region(base, bytes, shared_.base != nullptr); !checked) return checked;
    shared_.base = static_cast<u8*>(base);
    shared_.bytes = bytes;
    shared_.frames = frames == Frames::staged ? Frames::staged : Frames::in_place;
    return {};
  }
  Frames frames() const noexcept override { return shared_.frames; }

  Result<void> load(u32 generation, std::shared_ptr<const Pipelines> pipelines) override {
    return shared_.generations.add(generation, std::move(pipelines));
  }
  void unload(u32 generation) noexcept override { shared_.generations.remove(generation); }

  // The thread that retires a batch is the one that decided it: it may as well publish.
  Result<bool> publish_flows(const std::vector<FlowTables>&) override { return false; }

  Result<std::unique_ptr<Queue>> open_queue(const QueueOptions& options) override {
    if (auto checked = check_queue_options(options, info_); !checked) return tl::unexpected(checked.error());
    if (shared_.base == nullptr) return tl::unexpected(std::string("the device has no frame region yet"));
    try {
      return std::make_unique<CpuQueue>(shared_, options);
    } catch (const std::bad_alloc&) {
      return tl::unexpected(std::string("there is not enough memory for the queue's batches"));
    }
  }

  Result<std::unique_ptr<Mirror>> open_mirror(const MirrorOptions& options) override {
    if (auto checked = check_mirror_options(options); !checked) return tl::unexpected(checked.error());
    try {
      return cpu::open_mirror(shared_.generations, options);
    } catch (const std::exception& error) {
      return tl::unexpected(fmt::format(
          "the CPU cannot watch mirrored packets: {}; free some memory or threads", error.what()));
    }
  }

 private:
  DeviceInfo info_ = describe();
  Shared shared_;
};

}  // namespace

DeviceInfo describe() {
  DeviceInfo info;
  info.name = "cpu";
  info.kind = Kind::cpu;
  info.description = processor_name();
  info.software = true;
  info.usable = true;
  info.in_place = true;
  return info;
}

std::unique_ptr<Device> open() { return std::make_unique<CpuDevice>(); }

}  // namespace xdpgpu::gpu::cpu
