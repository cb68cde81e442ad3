// SPDX-License-Identifier: MIT
#include "gpu/vulkan/device.hpp"

#include <fmt/format.h>

#include <new>

#include "gpu/abilities.hpp"
#include "gpu/pipelines.hpp"
#include "gpu/stages/stages.hpp"
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

// Software ends what takes too many turns, and would miss what stands behind.
Result<void> check_work(const Pipelines& pipelines) {
  for (const PipelineSettings& pipeline : pipelines.settings())
    for (const StageSettings& stage : pipeline.stages)
      if (const u32 work = work_of(stage); work > kMostSoftwareWork)
        return tl::unexpected(fmt::format(
            "software Vulkan takes a \"work\" of {} at most, and stage {} of pipeline \"{}\" has {}: "
            "lower it, or use another device, such as cpu",
            kMostSoftwareWork, stage_name(stage), pipeline.name, work));
  return {};
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
    if (pipelines->runs_programs())
      return tl::unexpected(std::string(
          "Vulkan does not run programs, and a pipeline has the stage \"program\": use another device, "
          "such as cpu"));
    Context& context = *shared_.context;
    if (context.candidate().info.software)
      if (auto possible = check_work(*pipelines); !possible) return possible;
    Result<void> built;
    if (!pipelines->states().empty() || pipelines->inspects()) built = context.build(Entry::begin);
    if (built && !pipelines->states().empty()) built = context.build(Entry::tables);
    if (built && pipelines->inspects()) built = context.build(Entry::inspect);
    if (!built) return built;
    // None of them has first contents.
    auto tables = states_.take(
        *pipelines, [&](const StateSpec& spec) { return zeroed_buffer(context, spec.words * sizeof(u32)); });
    if (!tables) return tl::unexpected(tables.error());
    std::vector<u64> addresses;
    for (const auto& table : *tables) addresses.push_back(table->address);
    auto image = device_buffer(context, pipelines->image(), addresses);
    if (!image) return tl::unexpected(image.error());
    return shared_.generations.add(generation, {std::move(pipelines), *std::move(image), *std::move(tables)});
  }
  Result<void> read_state(u32 generation, u32 table, u64 first, std::span<u32> words) override {
    if (shared_.context->failed()) return tl::unexpected(why_lost());
    const Loaded* loaded = shared_.generations.find(generation);
    if (loaded == nullptr) return tl::unexpected(fmt::format("generation {} is not loaded", generation));
    if (auto checked = check_state_range(*loaded->pipelines, table, first, words.size()); !checked)
      return checked;
    return read_buffer(*shared_.context, *loaded->tables[table], first, words);
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
