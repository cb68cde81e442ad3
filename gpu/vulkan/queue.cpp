// SPDX-License-Identifier: MIT
#include "gpu/vulkan/queue.hpp"

#include <algorithm>
#include <utility>

#include "gpu/stages/inspection.h"
#include "gpu/stages/program_numbers.h"
#include "gpu/staging.hpp"

namespace xdpgpu::gpu::vulkan {
namespace {

constexpr u32 kGroup = 64;  // local_size_x of gpu/stages/pipeline.comp

bool has(const std::vector<u32>& ascending, u32 number) {
  return std::binary_search(ascending.begin(), ascending.end(), number);
}

// Packets that a software device takes through its tables in a dispatch. Mesa's llvmpipe ends all loops of an
// invocation after 65,536 turns in all (LP_MAX_TGSI_LOOP_ITERATIONS), and one invocation may have to apply
// all of these packets.
constexpr u32 kSoftwarePackets = 128;
// Packets that are inspected in a dispatch.
constexpr u32 kInspected = 1024;
// What a dispatch that runs programs takes of an invocation, before the next one goes on: instructions, turns
// of loops in them, and of these so many more that the last of them may take.
struct Work {
  u32 steps, turns, beyond;
};
constexpr Work kWork{1u << 20, 1u << 20, 1u << 30};
// So much less that llvmpipe does not end a loop (above). All loops of a step take at least one turn each,
// whether it comes to them or not: 33 together, 43 with those that change maps. A turn within an instruction
// takes up to four, five where maps are changed, and of eight invocations all wait for each.
constexpr Work kSoftwareAlone{450, 280, 1'300}, kSoftwareInOrder{450, 2'700, 6'500};
static_assert(450 * 33 + 8 * 4 * (280 + 1'300) < 65'536 && 450 * 43 + 5 * (2'700 + 6'500) < 65'536);
// Dispatches that a batch's programs have: four times as many as their instructions alone would need, for the
// loops in them, and some, but no more than these. Where they are not enough, the device fails.
constexpr u32 kLeastDispatches = 64, kMostDispatches = 4096;
constexpr u64 kDrainTimeoutNs = 5'000'000'000;
// A software device's threads are this process's own: they read its memory until they are through, however
// busy the machine is.
constexpr u64 kSoftwareDrainTimeoutNs = 600'000'000'000;

static_assert(kMachineBytes == XG_PROGRAM_OWN_BYTES && kMachineBytes % sizeof(u64) == 0);
static_assert(offsetof(Arguments, marks) == offsetof(xg_batch, events));
static_assert(offsetof(Arguments, image) == offsetof(xg_batch, image));
static_assert(offsetof(Arguments, generation) == offsetof(xg_batch, generation));

}  // namespace

Shared::~Shared() {
  if (context != nullptr && context->abandoned()) {
    for (Buffer* buffer : {&region, &machines, &dispatch}) buffer->abandon();
    generations.each([](Loaded& loaded) {
      loaded.image.abandon();
      for (const auto& table : loaded.tables) table->abandon();
    });
  }
}

Result<std::unique_ptr<Queue>> VulkanQueue::create(Shared& shared, const QueueOptions& options) {
  std::unique_ptr<VulkanQueue> queue(new VulkanQueue(shared, options));
  if (auto allocated = queue->allocate(options); !allocated) return tl::unexpected(allocated.error());
  return queue;
}

VulkanQueue::VulkanQueue(Shared& shared, const QueueOptions& options)
    : shared_(shared), context_(*shared.context), hardware_(context_.next_queue()), ring_(options) {}

Result<void> VulkanQueue::allocate(const QueueOptions& options) {
  const Dispatch& d = context_.dispatch();
  const vk::Device device = context_.device();
  const u64 packets = u64{options.depth} * options.batch_capacity;

  const auto give = [&](Buffer& to, u64 bytes) -> Result<void> {
    auto buffer = host_buffer(context_, bytes);
    if (!buffer) return tl::unexpected(buffer.error());
    to = *std::move(buffer);
    return {};
  };
  auto given = give(descriptors_, packets * sizeof(xg_descriptor))
                   .and_then([&] { return give(results_, packets * sizeof(xg_result)); })
                   .and_then([&] { return give(edits_, packets * sizeof(xg_edit)); })
                   .and_then([&] { return give(adjusts_, packets * sizeof(xg_adjust)); })
                   .and_then([&] { return give(alerts_, packets * sizeof(xg_alerts)); })
                   .and_then([&] { return give(patches_, packets * sizeof(xg_patch)); })
                   .and_then([&] { return give(events_, packets * sizeof(xg_event)); });
  if (given)
    given =
        zeroed_buffer(context_, packets * sizeof(u32)).map([&](Buffer&& made) { marks_ = std::move(made); });
  if (given)
    given = zeroed_buffer(context_, u64{options.depth} * kInspected * XG_INSPECTION_WORDS * sizeof(u32))
                .map([&](Buffer&& made) { inspections_ = std::move(made); });
  if (given)
    given = zeroed_buffer(context_, packets * sizeof(u32))
                .map([&](Buffer&& made) { outcomes_ = std::move(made); })
                .and_then([&] { return give(failed_, options.depth * sizeof(u32)); });
  if (given)
    given = zeroed_buffer(context_, u64{options.batch_capacity} * (sizeof(xg_patch) + sizeof(xg_event)))
                .map([&](Buffer&& made) { left_ = std::move(made); });
  if (given && shared_.frames == Frames::staged) {
    staging_bytes_ = staging_bytes(options.batch_capacity);
    given = give(staging_, options.depth * staging_bytes_).and_then([&] {
      return give(staged_, packets * sizeof(xg_descriptor));
    });
  }
  if (!given) return given;
  for (Slot& slot : ring_.all()) {
    const u64 first = u64{slot.index} * slot.capacity;
    slot.descriptors = static_cast<xg_descriptor*>(descriptors_.mapped) + first;
    slot.results = static_cast<xg_result*>(results_.mapped) + first;
    slot.edits = static_cast<xg_edit*>(edits_.mapped) + first;
    slot.adjusts = static_cast<xg_adjust*>(adjusts_.mapped) + first;
    slot.alerts = static_cast<xg_alerts*>(alerts_.mapped) + first;
    slot.patches = static_cast<xg_patch*>(patches_.mapped) + first;
    slot.events = static_cast<xg_event*>(events_.mapped) + first;
  }

  auto pool = checked("creating a command pool",
                      device.createCommandPoolUnique({vk::CommandPoolCreateFlagBits::eResetCommandBuffer,
                                                      context_.candidate().queue_family},
                                                     nullptr, d));
  if (!pool) return tl::unexpected(pool.error());
  pool_ = *std::move(pool);
  auto commands =
      checked("creating command buffers",
              device.allocateCommandBuffers({*pool_, vk::CommandBufferLevel::ePrimary, options.depth}, d));
  if (!commands) return tl::unexpected(commands.error());
  commands_ = *std::move(commands);
  const vk::StructureChain<vk::SemaphoreCreateInfo, vk::SemaphoreTypeCreateInfo> timeline(
      {}, {vk::SemaphoreType::eTimeline, 0});
  auto semaphore = checked("creating a semaphore",
                           device.createSemaphoreUnique(timeline.get<vk::SemaphoreCreateInfo>(), nullptr, d));
  if (!semaphore) return tl::unexpected(semaphore.error());
  timeline_ = *std::move(semaphore);
  return {};
}

VulkanQueue::~VulkanQueue() {
  // A device that has failed a batch may be at the next ones all the same; of a lost one this is told at
  // once.
  if (ring_.in_flight() > 0 && finished_ < ring_.submitted() && !context_.abandoned()) {
    const u64 last = ring_.submitted();
    const vk::SemaphoreWaitInfo all({}, *timeline_, last);
    const u64 patience = context_.candidate().info.software ? kSoftwareDrainTimeoutNs : kDrainTimeoutNs;
    const vk::Result waited = context_.device().waitSemaphores(all, patience, context_.dispatch());
    if (waited != vk::Result::eSuccess && waited != vk::Result::eErrorDeviceLost) context_.abandon();
    if (waited != vk::Result::eSuccess) context_.fail();
  }
  if (!context_.abandoned()) return;
  for (Buffer* buffer : {&descriptors_, &results_, &edits_, &adjusts_, &alerts_, &patches_, &events_,
                         &staging_, &staged_, &marks_, &inspections_, &outcomes_, &left_, &failed_})
    buffer->abandon();
  (void)pool_.release();
  (void)timeline_.release();
}

void VulkanQueue::run(vk::CommandBuffer command, Entry entry, u32 groups) {
  command.bindPipeline(vk::PipelineBindPoint::eCompute, context_.pipeline(entry), context_.dispatch());
  command.dispatch(groups, 1, 1, context_.dispatch());
}

// Runs programs, `steps` of a packet at most: all that a batch may need, in so many dispatches as that may
// take. Those that are not needed have no invocation.
void VulkanQueue::run_programs(vk::CommandBuffer command, Entry entry, ProgramArguments arguments,
                               u32 steps) {
  const Dispatch& d = context_.dispatch();
  const bool alone = entry == Entry::run_alone;
  const Work work = context_.candidate().info.software ? (alone ? kSoftwareAlone : kSoftwareInOrder) : kWork;
  const u32 groups = alone ? std::min(kMachines / kGroup, (arguments.count + kGroup - 1) / kGroup) : 1;
  const u32 machines = alone ? groups * kGroup : 1;
  const u64 packets = (arguments.count + machines - 1) / machines;
  const u32 dispatches =
      static_cast<u32>(std::min<u64>(kMostDispatches, kLeastDispatches + 4 * packets * steps / work.steps));
  arguments.machines = shared_.machines.address;
  arguments.dispatch = shared_.dispatch.address;
  arguments.most_steps = work.steps;
  arguments.most_turns = work.turns;
  arguments.most_beyond = work.beyond;
  const vk::PipelineStageFlags shaders = vk::PipelineStageFlagBits::eComputeShader;
  const vk::PipelineStageFlags sizes = vk::PipelineStageFlagBits::eDrawIndirect;
  const vk::PipelineStageFlags copies = vk::PipelineStageFlagBits::eTransfer;
  const vk::AccessFlags used = vk::AccessFlagBits::eShaderRead | vk::AccessFlagBits::eShaderWrite |
                               vk::AccessFlagBits::eIndirectCommandRead;
  // Also behind all that this hardware queue was given before.
  command.pipelineBarrier(
      shaders | sizes, copies, {},
      vk::MemoryBarrier(vk::AccessFlagBits::eShaderWrite, vk::AccessFlagBits::eTransferWrite), {}, {}, d);
  const std::array<u32, kDispatchWords> size{groups, 1, 1, machines};
  command.updateBuffer(*shared_.dispatch.buffer, 0, sizeof(size), size.data(), d);
  command.pipelineBarrier(
      shaders | copies, shaders | sizes, {},
      vk::MemoryBarrier(vk::AccessFlagBits::eTransferWrite | vk::AccessFlagBits::eShaderWrite, used), {}, {},
      d);
  command.bindPipeline(vk::PipelineBindPoint::eCompute, context_.pipeline(entry), d);
  for (u32 i = 0; i < dispatches; i++) {
    arguments.begins = i == 0 ? 1 : 0;
    arguments.last = i + 1 == dispatches ? 1 : 0;
    if (i < 2 || arguments.last != 0)
      command.pushConstants(context_.layout(), vk::ShaderStageFlagBits::eCompute, 0, sizeof(arguments),
                            &arguments, d);
    command.dispatchIndirect(*shared_.dispatch.buffer, 0, d);
    command.pipelineBarrier(shaders, shaders | sizes, {},
                            vk::MemoryBarrier(vk::AccessFlagBits::eShaderWrite, used), {}, {}, d);
  }
}

vk::Result VulkanQueue::record(vk::CommandBuffer command, const Slot& slot, u32 count, u32 generation,
                               const Loaded& loaded) {
  const Dispatch& d = context_.dispatch();
  const u64 first = u64{slot.index} * slot.capacity;
  Arguments arguments{};
  arguments.results = results_.address + first * sizeof(xg_result);
  arguments.edits = edits_.address + first * sizeof(xg_edit);
  arguments.adjusts = adjusts_.address + first * sizeof(xg_adjust);
  arguments.alerts = alerts_.address + first * sizeof(xg_alerts);
  arguments.patches = patches_.address + first * sizeof(xg_patch);
  arguments.image = loaded.image.address;
  arguments.states = arguments.image + loaded.pipelines->image().size() * sizeof(u32);
  arguments.marks = marks_.address + first * sizeof(u32);
  arguments.inspections =
      inspections_.address + u64{slot.index} * kInspected * XG_INSPECTION_WORDS * sizeof(u32);
  arguments.count = count;
  arguments.generation = generation;
  if (shared_.frames == Frames::in_place) {
    arguments.frames = shared_.region.address;
    arguments.frames_bytes = shared_.bytes;
    arguments.descriptors = descriptors_.address + first * sizeof(xg_descriptor);
  } else {
    arguments.frames = staging_.address + slot.index * staging_bytes_;
    arguments.frames_bytes = staging_bytes_;
    arguments.descriptors = staged_.address + first * sizeof(xg_descriptor);
  }
  if (const auto begun = command.begin({vk::CommandBufferUsageFlagBits::eOneTimeSubmit}, d);
      begun != vk::Result::eSuccess)
    return begun;
  const auto push = [&] {
    command.pushConstants(context_.layout(), vk::ShaderStageFlagBits::eCompute, 0, sizeof(arguments),
                          &arguments, d);
  };
  const u32 groups = (count + kGroup - 1) / kGroup;
  const bool inspects = loaded.pipelines->inspects();
  const Programs& programs = loaded.programs;
  const bool told = programs.some();
  ProgramArguments running{};
  if (told) {
    arguments.programs = outcomes_.address + first * sizeof(u32);
    running.frames = arguments.frames;
    running.descriptors = arguments.descriptors;
    running.image = arguments.image;
    running.states = arguments.states;
    running.frames_bytes = arguments.frames_bytes;
    running.count = count;
    running.generation = generation;
    running.marks = arguments.marks;
    running.outcomes = arguments.programs;
    running.left = left_.address;
    running.failed = failed_.address + slot.index * sizeof(u32);
    running.kind = programs.kind;
  }
  if (programs.alone_steps != 0) run_programs(command, Entry::run_alone, running, programs.alone_steps);
  push();
  run(command, entry_of(loaded.tables.empty() && !inspects ? Entry::decide : Entry::begin, told), groups);
  const vk::MemoryBarrier in_order(vk::AccessFlagBits::eShaderWrite,
                                   vk::AccessFlagBits::eShaderRead | vk::AccessFlagBits::eShaderWrite);
  const auto run_in_turn = [&](Entry entry, u32 at_a_time, bool a_group_each) {
    for (arguments.begin = 0; arguments.begin < count; arguments.begin = arguments.end) {
      arguments.end = std::min(count, arguments.begin + at_a_time);
      // Also behind all that this hardware queue was given before: other batches of these tables.
      command.pipelineBarrier(vk::PipelineStageFlagBits::eComputeShader,
                              vk::PipelineStageFlagBits::eComputeShader, {}, in_order, {}, {}, d);
      push();
      run(command, entry, a_group_each ? arguments.end - arguments.begin : 1);
    }
  };
  const bool software = context_.candidate().info.software;
  if (!loaded.tables.empty()) {
    const auto run_tables = [&] {
      if (loaded.other_tables)
        run_in_turn(entry_of(Entry::tables, told), software ? kSoftwarePackets : count, false);
    };
    // Up to each round that has a program or follows streams, which have their turn then, and on from it.
    const u32 rounds = loaded.pipelines->image()[XG_IMAGE_ROUNDS_AT];
    for (u32 round = 0; round < rounds; round++) {
      const bool has_programs = has(programs.rounds, round), has_streams = has(loaded.stream_rounds, round);
      if (!has_programs && !has_streams) continue;
      arguments.end_round = round;
      if (arguments.first_round != round) run_tables();
      arguments.first_round = round;
      if (has_programs) {
        running.round = round;
        running.kind = programs.kind + XG_KIND_STATEFUL;
        run_programs(command, Entry::run_in_order, running, programs.steps);
      }
      if (has_streams) {
        const vk::DeviceAddress outcomes =
            std::exchange(arguments.programs, failed_.address + slot.index * sizeof(u32));
        run_in_turn(Entry::streams, software ? 1 : count, false);
        arguments.programs = outcomes;
      }
      command.pipelineBarrier(vk::PipelineStageFlagBits::eComputeShader,
                              vk::PipelineStageFlagBits::eComputeShader, {}, in_order, {}, {}, d);
      push();
      run(command, Entry::settle, groups);
    }
    arguments.end_round = rounds;
    run_tables();
  }
  if (inspects) run_in_turn(entry_of(Entry::inspect, told), kInspected, true);
  const auto bring = [&](Entry entry, u64 left, u64 records, u32 quads) {
    const RecordArguments bringing{arguments.results, left, records, count};
    command.pipelineBarrier(vk::PipelineStageFlagBits::eComputeShader,
                            vk::PipelineStageFlagBits::eComputeShader, {}, in_order, {}, {}, d);
    command.pushConstants(context_.layout(), vk::ShaderStageFlagBits::eCompute, 0, sizeof(bringing),
                          &bringing, d);
    run(command, entry, (count * quads + kGroup - 1) / kGroup);
  };
  if (programs.changes) bring(Entry::patches, running.left, arguments.patches, XG_PATCH_QUADS);
  if (programs.put_out)
    bring(Entry::events, running.left + u64{count} * sizeof(xg_patch),
          events_.address + first * sizeof(xg_event), XG_EVENT_QUADS);
  const vk::MemoryBarrier to_host(vk::AccessFlagBits::eShaderWrite, vk::AccessFlagBits::eHostRead);
  command.pipelineBarrier(vk::PipelineStageFlagBits::eComputeShader, vk::PipelineStageFlagBits::eHost, {},
                          to_host, {}, {}, d);
  return command.end(d);
}

Submit VulkanQueue::submit(Slot* slot, u32 count, u32 generation) noexcept {
  if (context_.failed()) return Submit::device_failed;
  const Loaded* loaded = shared_.generations.find(generation);
  if (loaded == nullptr) return Submit::unknown_generation;
  if (shared_.frames == Frames::staged) {
    const u64 first = u64{slot->index} * slot->capacity;
    stage_frames(shared_.base, shared_.bytes, slot->descriptors, count, *loaded->pipelines,
                 static_cast<u8*>(staging_.mapped) + slot->index * staging_bytes_,
                 static_cast<xg_descriptor*>(staged_.mapped) + first);
  }
  static_cast<u32*>(failed_.mapped)[slot->index] = 0;
  const vk::CommandBuffer command = commands_[slot->index];
  const u64 ticket = ring_.submitted() + 1;
  vk::Result result = record(command, *slot, count, generation, *loaded);
  if (result == vk::Result::eSuccess) {
    // Programs are run on the device's machines, one batch after the other.
    HardwareQueue& hardware =
        loaded->tables.empty() && !loaded->programs.some() ? hardware_ : context_.table_queue();
    // Batches finish in their order, and one hardware queue does not wait for another by itself.
    const bool changes = last_ != nullptr && last_ != &hardware;
    const u64 before = ticket - 1;
    const vk::TimelineSemaphoreSubmitInfo value(changes ? 1 : 0, &before, 1, &ticket);
    const vk::PipelineStageFlags all = vk::PipelineStageFlagBits::eAllCommands;
    const vk::SubmitInfo info(changes ? 1 : 0, &*timeline_, &all, 1, &command, 1, &*timeline_, &value);
    const std::lock_guard lock(hardware.mutex);
    result = hardware.queue.submit(info, nullptr, context_.dispatch());
    last_ = &hardware;
  }
  if (result != vk::Result::eSuccess) {
    context_.fail();
    return Submit::device_failed;
  }
  ring_.submitted(slot, count, generation);
  return Submit::ok;
}

Slot* VulkanQueue::poll() noexcept {
  if (ring_.oldest() == nullptr) return nullptr;
  const u64 ticket = ring_.oldest_ticket();
  if (finished_ < ticket && !context_.failed()) {
    u64 value = 0;
    const vk::Result result =
        context_.device().getSemaphoreCounterValue(*timeline_, &value, context_.dispatch());
    // Of a lost device some drivers report the greatest number there is. The last batch may be finished
    // before the thread that feeds has counted it.
    if (result == vk::Result::eSuccess && value <= ring_.submitted() + 1)
      finished_ = value;
    else
      context_.fail();
  }
  if (finished_ >= ticket) {
    if (static_cast<const u32*>(failed_.mapped)[ring_.oldest()->index] == 0) return ring_.retire(false);
    context_.fail();
  }
  return context_.failed() ? ring_.retire(true) : nullptr;
}

}  // namespace xdpgpu::gpu::vulkan
