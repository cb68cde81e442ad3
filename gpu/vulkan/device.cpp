// SPDX-License-Identifier: MIT
#include "gpu/vulkan/device.hpp"

#include <fmt/format.h>
#include <linux/bpf.h>

#include <algorithm>
#include <new>

#include "gpu/abilities.hpp"
#include "gpu/image_words.hpp"
#include "gpu/pipelines.hpp"
#include "gpu/stages/program_body.h"
#include "gpu/stages/stages.hpp"
#include "gpu/stages/table.h"
#include "gpu/vulkan/queue.hpp"

namespace xdpgpu::gpu::vulkan {
namespace {

std::vector<DeviceInfo> none(std::string reason) {
  DeviceInfo info;
  info.name = "vulkan";
  info.kind = Kind::vulkan;
  info.description = "Vulkan devices";
  info.reason = std::move(reason);
  return {info};
}

// Three blocks may have to be inspected with one packet, in so many turns of loops as llvmpipe has.
constexpr u32 kMostSoftwareWindow = 4096;
u32 window_of(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) {
        if constexpr (requires { what.inspect.window; }) return what.streams != 0 ? what.inspect.window : 0;
        return 0u;
      },
      stage);
}

// Software ends what takes too many turns, and would miss what stands behind.
Result<void> check_work(const Pipelines& pipelines) {
  for (const PipelineSettings& pipeline : pipelines.settings())
    for (const StageSettings& stage : pipeline.stages) {
      if (const u32 work = work_of(stage); work > kMostSoftwareWork)
        return tl::unexpected(fmt::format(
            "software Vulkan takes a \"work\" of {} at most, and stage {} of pipeline \"{}\" has {}: "
            "lower it, or use another device, such as cpu",
            kMostSoftwareWork, stage_name(stage), pipeline.name, work));
      if (const u32 window = window_of(stage); window > kMostSoftwareWindow)
        return tl::unexpected(fmt::format(
            "software Vulkan takes a \"window\" of {} bytes at most, and stage {} of pipeline \"{}\" has {}: "
            "lower it, or use another device, such as cpu",
            kMostSoftwareWindow, stage_name(stage), pipeline.name, window));
    }
  return {};
}

// Each outcome of those that change no map has its place in a packet's word
// (gpu/stages/program/program.comp).
constexpr u32 kMostProgramsAlone = 5;
// Keys and values that software may go through in one instruction, in words (kSoftwareAlone, kSoftwareInOrder
// in gpu/vulkan/queue.cpp).
constexpr u32 kMostSoftwareKey = 16, kMostSoftwarePrefix = 5, kMostSoftwareValue = 1'024;

// The map of which software could not be sure to come to an end of a look-up or an update; nullptr: none.
const programs::Map* too_long_for_software(const programs::Program& program) {
  for (const programs::Map& map : program.maps) {
    const u32 most = map.type == BPF_MAP_TYPE_LPM_TRIE ? kMostSoftwarePrefix : kMostSoftwareKey;
    if (map.key_bytes > most * sizeof(u32) || map.value_bytes > kMostSoftwareValue * sizeof(u32)) return &map;
  }
  return nullptr;
}

void sort_unique(std::vector<u32>& numbers) {
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
}

Result<Programs> programs_of(const Pipelines& pipelines, bool software) {
  Programs all;
  const std::vector<u32>& image = pipelines.image();
  for (std::size_t p = 0; p < pipelines.settings().size(); p++) {
    const PipelineSettings& pipeline = pipelines.settings()[p];
    u32 alone = 0, steps_alone = 0;
    for (std::size_t s = 0; s < pipeline.stages.size(); s++) {
      const u32 stage = stage_words_at(image, p, s);
      const u32 kind = image[stage], body = image[stage + 1];
      const auto program = program_of(pipeline.stages[s]);
      if (!program) continue;
      if (const programs::Map* const map = software ? too_long_for_software(*program->program) : nullptr)
        return tl::unexpected(fmt::format(
            "software Vulkan takes keys of {} bytes, of prefixes {}, and values of {}, and the map {} of the "
            "program of pipeline \"{}\", stage {}, has {} and {}: make them shorter, or use another device, "
            "such "
            "as cpu",
            kMostSoftwareKey * sizeof(u32), kMostSoftwarePrefix * sizeof(u32),
            kMostSoftwareValue * sizeof(u32), map->name, pipeline.name, s + 1, map->key_bytes,
            map->value_bytes));
      all.changes |= image[body + XG_PROGRAM_BODY_LINES] != 0;
      all.put_out |= image[body + XG_PROGRAM_BODY_EVENTS] != 0;
      all.kind = kind & ~XG_KIND_STATEFUL;
      if (kind == all.kind) {
        alone++;
        steps_alone += image[body + XG_BODY_STEPS];
      } else {
        all.rounds.push_back(image[body + XG_BODY_ROUND]);
        all.steps = std::max(all.steps, image[body + XG_BODY_STEPS]);
      }
    }
    if (alone > kMostProgramsAlone)
      return tl::unexpected(
          fmt::format("Vulkan runs {} programs of a pipeline at most that change no map, and pipeline \"{}\" "
                      "has {}: take "
                      "some out, or use another device, such as cpu",
                      kMostProgramsAlone, pipeline.name, alone));
    all.alone_steps = std::max(all.alone_steps, steps_alone);
  }
  sort_unique(all.rounds);
  return all;
}

// The rounds of the tables that shaders of their own bring packets through, beside those of programs.
std::vector<u32> stream_rounds_of(const Pipelines& pipelines, bool& other_tables) {
  std::vector<u32> rounds;
  const std::vector<u32>& image = pipelines.image();
  for (std::size_t p = 0; p < pipelines.settings().size(); p++) {
    const auto& stages = pipelines.settings()[p].stages;
    for (std::size_t s = 0; s < stages.size(); s++) {
      const u32 stage = stage_words_at(image, p, s);
      const u32 kind = image[stage], body = image[stage + 1];
      if ((kind & XG_KIND_STATEFUL) == 0 || program_of(stages[s])) continue;
      if (traits_of(stages[s]).inspects)
        rounds.push_back(image[body + XG_BODY_ROUND]);
      else
        other_tables = true;
    }
  }
  sort_unique(rounds);
  return rounds;
}

class VulkanDevice final : public Device {
 public:
  explicit VulkanDevice(Context::Opened context) { shared_.context = std::move(context); }

  const DeviceInfo& info() const noexcept override { return shared_.context->candidate().info; }

  Result<void> register_frames(void* base, u64 bytes, Frames frames) override {
    if (auto checked = check_region(base, bytes, shared_.base != nullptr); !checked) return checked;
    Frames taken = Frames::staged;
    if (frames != Frames::staged) {
      auto region = import_buffer(*shared_.context, base, bytes);
      if (!region && frames == Frames::in_place) return tl::unexpected(region.error());
      if (region) {
        shared_.region = *std::move(region);
        taken = Frames::in_place;
      }
    }
    shared_.base = base;
    shared_.bytes = bytes;
    shared_.frames = taken;
    return {};
  }
  Frames frames() const noexcept override { return shared_.frames; }

  Result<void> load(u32 generation, std::shared_ptr<const Pipelines> pipelines) override {
    if (shared_.context->failed()) return tl::unexpected(why_lost());
    Context& context = *shared_.context;
    auto programs = programs_of(*pipelines, context.candidate().info.software);
    if (!programs) return tl::unexpected(programs.error());
    if (context.candidate().info.software)
      if (auto possible = check_work(*pipelines); !possible) return possible;
    const bool told = programs->some(), waits = !pipelines->states().empty() || pipelines->inspects();
    bool other_tables = false;
    std::vector<u32> stream_rounds = stream_rounds_of(*pipelines, other_tables);
    Result<void> built;
    const auto build = [&](bool needed, Entry entry) {
      if (built && needed) built = context.build(entry);
    };
    build(told && !waits, Entry::told_decide);
    build(waits, entry_of(Entry::begin, told));
    build(other_tables, entry_of(Entry::tables, told));
    build(!stream_rounds.empty(), Entry::streams);
    build(pipelines->inspects(), entry_of(Entry::inspect, told));
    build(programs->alone_steps != 0, Entry::run_alone);
    build(!programs->rounds.empty(), Entry::run_in_order);
    build(!programs->rounds.empty() || !stream_rounds.empty(), Entry::settle);
    build(programs->changes, Entry::patches);
    build(programs->put_out, Entry::events);
    if (built && told) built = make_machines();
    if (!built) return built;
    auto tables = states_.take(*pipelines, [&](const StateSpec& spec) {
      return zeroed_buffer(context, spec.words * sizeof(u32),
                           std::span(pipelines->image()).subspan(spec.first, spec.first_words));
    });
    if (!tables) return tl::unexpected(tables.error());
    std::vector<u64> addresses;
    for (const auto& table : *tables) addresses.push_back(table->address);
    auto image = device_buffer(context, pipelines->image(), addresses);
    if (!image) return tl::unexpected(image.error());
    return shared_.generations.add(
        generation, {std::move(pipelines), *std::move(programs), std::move(stream_rounds), other_tables,
                     *std::move(image), *std::move(tables)});
  }
  Result<void> read_state(u32 generation, u32 table, u64 first, std::span<u32> words) override {
    if (shared_.context->failed()) return tl::unexpected(why_lost());
    const Loaded* loaded = shared_.generations.find(generation);
    if (loaded == nullptr) return tl::unexpected(fmt::format("generation {} is not loaded", generation));
    if (auto checked = check_state_range(*loaded->pipelines, table, first, words.size()); !checked)
      return checked;
    return read_buffer(*shared_.context, *loaded->tables[table], first, words);
  }
  // Batches with tables wait for their hardware queue.
  Result<void> edit_state(u32 generation, u32 table, const Edit& edit) override {
    if (shared_.context->failed()) return tl::unexpected(why_lost());
    const Loaded* loaded = shared_.generations.find(generation);
    if (loaded == nullptr) return tl::unexpected(fmt::format("generation {} is not loaded", generation));
    if (auto checked = check_state_range(*loaded->pipelines, table, 0, 0); !checked) return checked;
    try {
      return edit_buffer(*shared_.context, *loaded->tables[table], loaded->pipelines->states()[table].words,
                         shared_.context->table_queue(), edit);
    } catch (const std::bad_alloc&) {
      return tl::unexpected(std::string("there is not enough memory for a copy of the table"));
    }
  }
  Result<void> change_words(u32 generation, std::span<const ChangedWords> changes) override {
    if (shared_.context->failed()) return tl::unexpected(why_lost());
    const Loaded* loaded = shared_.generations.find(generation);
    if (loaded == nullptr) return tl::unexpected(fmt::format("generation {} is not loaded", generation));
    if (auto checked = check_changes(*loaded->pipelines, changes); !checked) return checked;
    try {
      return change_buffer(*shared_.context, loaded->image, loaded->pipelines->image()[XG_IMAGE_CHANGES_AT],
                           changes);
    } catch (const std::bad_alloc&) {
      return tl::unexpected(std::string("there is not enough memory for a copy of the changes"));
    }
  }
  void unload(u32 generation) noexcept override {
    // The images of a device that hangs stay: it may still read them.
    if (!shared_.context->abandoned()) shared_.generations.remove(generation);
  }

  // Vulkan promises no order of visibility to the host within a submission, which the table's protocol
  // needs: verdicts are published when their batch retires.
  Result<bool> publish_flows(const std::vector<FlowTables>&) override { return false; }

  Result<std::unique_ptr<Queue>> open_queue(const QueueOptions& options) override {
    if (auto checked = check_queue_options(options, info()); !checked) return tl::unexpected(checked.error());
    if (shared_.base == nullptr) return tl::unexpected(std::string("the device has no frame region yet"));
    if (shared_.context->failed()) return tl::unexpected(why_lost());
    try {
      return VulkanQueue::create(shared_, options);
    } catch (const std::bad_alloc&) {
      return tl::unexpected(std::string("there is not enough memory for the queue's batches"));
    }
  }

  Result<std::unique_ptr<Mirror>> open_mirror(const MirrorOptions&) override {
    return tl::unexpected(check_mirrored(info().name, abilities_of(info()), false).error());
  }
  bool lost() noexcept override { return shared_.context->failed(); }

 private:
  Result<void> make_machines() {
    if (shared_.machines.address != 0) return {};
    auto dispatch = dispatch_buffer(*shared_.context);
    if (!dispatch) return tl::unexpected(dispatch.error());
    auto machines = zeroed_buffer(*shared_.context, u64{kMachines} * kMachineBytes);
    if (!machines) return tl::unexpected(machines.error());
    shared_.dispatch = *std::move(dispatch);
    shared_.machines = *std::move(machines);
    return {};
  }
  std::string why_lost() const {
    return fmt::format("{} is lost: open it again, or use another device", info().name);
  }

  Shared shared_;
  States<Buffer> states_;
};

}  // namespace

std::vector<DeviceInfo> describe() {
  auto instance = Instance::get();
  if (!instance) return none(instance.error());
  std::vector<DeviceInfo> devices;
  for (const auto& candidate : (*instance)->candidates()) devices.push_back(candidate.info);
  if (devices.empty()) return none("the Vulkan drivers that are installed find no device");
  return devices;
}

Result<std::unique_ptr<Device>> open(const DeviceInfo& info) {
  auto context = Context::open(info);
  if (!context) return tl::unexpected(context.error());
  return std::make_unique<VulkanDevice>(*std::move(context));
}

}  // namespace xdpgpu::gpu::vulkan
