// SPDX-License-Identifier: MIT
//
// gpu/vulkan/queue.hpp: a worker's queue: one command buffer a slot, one timeline semaphore that counts
// the finished batches.
#pragma once

#include "gpu/generations.hpp"
#include "gpu/slots.hpp"
#include "gpu/states.hpp"
#include "gpu/vulkan/memory.hpp"

namespace xdpgpu::gpu::vulkan {

// What of a generation's pipelines runs programs.
struct Programs {
  u32 kind = 0;             // the stage's in the image, without a table
  u32 alone_steps = 0;      // of those that change no map, a pipeline's together, at most; 0: there are none
  std::vector<u32> rounds;  // of those with a table, ascending
  u32 steps = 0;            // one of them takes, at most
  bool changes = false;     // some may change its packets
  bool put_out = false;     // some may put something out
  bool some() const { return alone_steps != 0 || !rounds.empty(); }
};

// A loaded generation: its image, with the addresses of its tables right behind it, and these.
struct Loaded {
  std::shared_ptr<const Pipelines> pipelines;
  Programs programs;
  std::vector<u32> stream_rounds;  // of tables that follow streams, ascending
  bool other_tables = false;       // some table is neither theirs nor a program's
  Buffer image;
  States<Buffer>::Held tables;
};

// What the queues of a device share; the device outlives them.
inline constexpr u32 kMachines = 1024;
inline constexpr u32 kMachineBytes = 5192;
struct Shared {
  Context::Opened context;
  void* base = nullptr;
  u64 bytes = 0;
  Frames frames = Frames::automatic;
  Buffer region;    // in place only
  Buffer machines;  // once a generation runs programs: XG_PROGRAM_OWN_BYTES a machine, kMachines of them
  Buffer dispatch;  // likewise: dispatch_buffer()
  Generations<Loaded> generations;

  ~Shared();
};

class VulkanQueue final : public Queue {
 public:
  static Result<std::unique_ptr<Queue>> create(Shared& shared, const QueueOptions& options);
  ~VulkanQueue() override;

  Slot* acquire() noexcept override { return ring_.acquire(); }
  Submit submit(Slot* slot, u32 count, u32 generation) noexcept override;
  Slot* poll() noexcept override;
  void release(Slot* slot) noexcept override { ring_.release(slot); }
  u32 in_flight() const noexcept override { return ring_.in_flight(); }

 private:
  VulkanQueue(Shared& shared, const QueueOptions& options);
  Result<void> allocate(const QueueOptions& options);
  vk::Result record(vk::CommandBuffer command, const Slot& slot, u32 count, u32 generation,
                    const Loaded& loaded);
  void run(vk::CommandBuffer command, Entry entry, u32 groups);
  void run_programs(vk::CommandBuffer command, Entry entry, ProgramArguments arguments, u32 steps);

  Shared& shared_;
  Context& context_;
  HardwareQueue& hardware_;        // where batches without tables go
  HardwareQueue* last_ = nullptr;  // where the last batch went
  SlotRing ring_;
  // Per slot, one behind the other.
  Buffer descriptors_;
  Buffer results_;
  Buffer edits_;
  Buffer adjusts_;
  Buffer alerts_;
  Buffer patches_;
  Buffer events_;
  Buffer staging_;  // staged only: the frames
  u64 staging_bytes_ = 0;
  Buffer staged_;       // staged only: their descriptors
  Buffer marks_;        // one word a packet, per slot
  Buffer inspections_;  // of kInspected packets, per slot
  Buffer outcomes_;     // one word a packet, per slot
  // An xg_patch a packet, and behind those of a batch an xg_event a packet, of one slot: batches that run
  // programs are one after the other.
  Buffer left_;
  Buffer failed_;  // one word a slot: not 0: programs were not run, or a stream not inspected, to the end
  Unique<vk::CommandPool> pool_;
  std::vector<vk::CommandBuffer> commands_;
  Unique<vk::Semaphore> timeline_;
  u64 finished_ = 0;  // as last seen; a batch's number is the timeline's value once it is finished
};

}  // namespace xdpgpu::gpu::vulkan
