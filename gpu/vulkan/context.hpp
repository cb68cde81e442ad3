// SPDX-License-Identifier: MIT
//
// gpu/vulkan/context.hpp: what the parts of a Vulkan device stand on: the loader and instance, and one
// opened device with its hardware queues and its compute pipelines.
#pragma once

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "gpu/vulkan/vk.hpp"

namespace xdpgpu::gpu::vulkan {

class Instance {
 public:
  // The process's one instance, which stays to its end: NVIDIA's driver does not give back its
  // thread-local storage when it is unloaded, and after a dozen instances could not be loaded again.
  // Fails where there is no loader or no driver; the next call then tries anew. Any thread.
  static Result<Instance*> get();

  struct Candidate {
    vk::PhysicalDevice device;
    u32 queue_family = 0;
    u32 queues = 0;            // of that family, at most kMostQueues
    u64 import_alignment = 0;  // 0: host memory cannot be imported
    u64 largest_allocation = 0;
    DeviceInfo info;  // named after its place in the loader's order
  };
  // Hardware first; those that lack something this device needs are not usable and say what.
  std::vector<Candidate> candidates() const;

  const Dispatch& dispatch() const { return dispatch_; }

 private:
  Instance() = default;
  static Result<std::unique_ptr<Instance>> create();
  std::unique_ptr<vk::DynamicLoader> loader_;
  Dispatch dispatch_;
  Unique<vk::Instance> instance_;
};

// The push constants: xg_batch as the shaders see it, with addresses in the place of pointers, a word for
// each packet to note in where it waits, and the packets that are taken through the tables, or inspected:
// begin..end - 1.
struct Arguments {
  vk::DeviceAddress frames;
  vk::DeviceAddress descriptors;
  vk::DeviceAddress results;
  vk::DeviceAddress edits;
  vk::DeviceAddress adjusts;
  vk::DeviceAddress alerts;
  vk::DeviceAddress patches;
  vk::DeviceAddress image;
  vk::DeviceAddress states;
  u64 frames_bytes;
  u32 count;
  u32 generation;
  vk::DeviceAddress marks;
  u32 begin, end;
  vk::DeviceAddress inspections;  // words for each packet that is inspected at a time
  vk::DeviceAddress programs;     // of programs, a word a packet: what came of those that change no map;
                                  // of streams: a word that is set where a packet is not inspected whole
  u32 first_round, end_round;     // the rounds of tables that packets are taken through
};

// The push constants of what runs programs (gpu/stages/program/program.comp).
struct ProgramArguments {
  vk::DeviceAddress frames;
  vk::DeviceAddress descriptors;
  vk::DeviceAddress image;
  vk::DeviceAddress states;
  u64 frames_bytes;
  u32 count;
  u32 generation;
  vk::DeviceAddress marks;
  vk::DeviceAddress outcomes;
  vk::DeviceAddress left;
  vk::DeviceAddress machines;
  vk::DeviceAddress dispatch;
  vk::DeviceAddress failed;
  u32 round;
  u32 kind;
  u32 most_steps, most_turns, most_beyond;
  u32 begins, last;
};

// And of what brings patches or events to the host (gpu/stages/program/patches.comp, events.comp).
struct RecordArguments {
  vk::DeviceAddress results;
  vk::DeviceAddress left;
  vk::DeviceAddress records;
  u32 count;
};

// The shaders (gpu/stages/pipeline.comp): what decides a batch; what brings it to its first tables; what
// takes it through them; and what inspects those that wait for it. Each once more, for pipelines that run
// programs, of which they are told what came; what runs these, those that change no map, and those of a
// table, in order; what brings to the host the patches of changed packets, and what programs put out; what
// follows streams, in tables, too; and what settles with the packets whose turn at a table was another
// shader's than the tables'.
enum class Entry : u32 {
  decide,
  begin,
  tables,
  inspect,
  told_decide,
  told_begin,
  told_tables,
  told_inspect,
  run_alone,
  run_in_order,
  patches,
  events,
  streams,
  settle
};
inline constexpr u32 kEntries = 14;
// Of the first four.
constexpr Entry entry_of(Entry entry, bool told) {
  return told ? static_cast<Entry>(static_cast<u32>(entry) + 4) : entry;
}

// Several of the interface's queues may share one of the hardware's: a submission holds its lock.
struct HardwareQueue {
  vk::Queue queue;
  std::mutex mutex;
};

class Context {
 public:
  // What becomes of one that is closed: it waits for the next to be opened of its device, with all that the
  // driver has compiled for it. One of a device does, to the process's end; one that failed does not.
  struct Close {
    void operator()(Context* context) const noexcept;
  };
  using Opened = std::unique_ptr<Context, Close>;
  // The one that waits, or a new one. Its buffers and queues go before it does. Any thread.
  static Result<Opened> open(const DeviceInfo& info);
  ~Context();

  const Dispatch& dispatch() const { return dispatch_; }
  const Instance::Candidate& candidate() const { return candidate_; }
  vk::Device device() const { return *device_; }
  vk::PhysicalDevice physical() const { return candidate_.device; }
  vk::PipelineLayout layout() const { return *layout_; }
  // Has the driver compile an entry, which takes it some seconds, if that is not done yet; `decide` is from
  // the start. From one thread at a time, before the entry's first use.
  Result<void> build(Entry entry);
  vk::Pipeline pipeline(Entry entry) const { return *pipelines_[static_cast<u32>(entry)]; }
  // The one to which all batches with tables go, so that they are one after the other.
  HardwareQueue& table_queue() { return *queues_.front(); }
  const std::vector<std::unique_ptr<HardwareQueue>>& queues() const { return queues_; }
  HardwareQueue& next_queue() { return *queues_[turn_++ % queues_.size()]; }

  // Once lost, a device stays lost.
  bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }
  void fail() noexcept { failed_.store(true, std::memory_order_relaxed); }
  // A device that did not finish in time may still use its memory: nothing of it is given back.
  bool abandoned() const noexcept { return abandoned_; }
  void abandon() noexcept { abandoned_ = true; }

 private:
  Context() = default;
  static Result<std::unique_ptr<Context>> create(const DeviceInfo& info);
  Result<void> open_device();
  Result<void> build_layout();
  // Whether the driver has finished all that was submitted, and still answers.
  bool idle() const noexcept;

  Dispatch dispatch_;  // the device's own functions
  Instance::Candidate candidate_;
  Unique<vk::Device> device_;
  Unique<vk::PipelineLayout> layout_;
  std::array<Unique<vk::Pipeline>, kEntries> pipelines_;
  std::vector<std::unique_ptr<HardwareQueue>> queues_;
  std::atomic<u32> turn_{0};
  std::atomic<bool> failed_{false};
  std::atomic<bool> abandoned_{false};
};

}  // namespace xdpgpu::gpu::vulkan
