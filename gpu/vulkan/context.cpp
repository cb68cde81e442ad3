// SPDX-License-Identifier: MIT
#include "gpu/vulkan/context.hpp"

#include <algorithm>
#include <cstring>

#include "gpu/stages/view.h"

namespace xdpgpu::gpu::vulkan {
namespace {

constexpr u32 kMostQueues = 8;
constexpr u32 kDecide[] = {
#include "pipeline_0_spirv.inc"
};
constexpr u32 kBegin[] = {
#include "pipeline_1_spirv.inc"
};
constexpr u32 kTables[] = {
#include "pipeline_2_spirv.inc"
};
constexpr u32 kInspect[] = {
#include "pipeline_3_spirv.inc"
};
#ifdef XDPGPU_VULKAN_PROGRAMS
constexpr u32 kToldDecide[] = {
#include "program_pipeline_0_spirv.inc"
};
constexpr u32 kToldBegin[] = {
#include "program_pipeline_1_spirv.inc"
};
constexpr u32 kToldTables[] = {
#include "program_pipeline_2_spirv.inc"
};
constexpr u32 kToldInspect[] = {
#include "program_pipeline_3_spirv.inc"
};
constexpr u32 kRunAlone[] = {
#include "program_0_spirv.inc"
};
constexpr u32 kRunInOrder[] = {
#include "program_1_spirv.inc"
};
constexpr u32 kPatches[] = {
#include "program_patches_spirv.inc"
};
constexpr u32 kEvents[] = {
#include "program_events_spirv.inc"
};
#else
// No stage runs a program, and none of these is built.
constexpr std::span<const u32> kToldDecide, kToldBegin, kToldTables, kToldInspect, kRunAlone, kRunInOrder,
    kPatches, kEvents;
#endif
#ifdef XDPGPU_VULKAN_STREAMS
constexpr u32 kStreams[] = {
#include "streams_0_spirv.inc"
};
constexpr u32 kSoftwareStreams[] = {
#include "streams_1_spirv.inc"
};
#else
constexpr std::span<const u32> kStreams, kSoftwareStreams;
#endif
#if defined(XDPGPU_VULKAN_PROGRAMS) || defined(XDPGPU_VULKAN_STREAMS)
constexpr u32 kSettle[] = {
#include "settle_spirv.inc"
};
#else
constexpr std::span<const u32> kSettle;
#endif
static_assert(kDecide[0] == 0x07230203 && kBegin[0] == 0x07230203 && kTables[0] == 0x07230203 &&
                  kInspect[0] == 0x07230203,
              "not SPIR-V");

// In the order of Context::Entry.
constexpr std::array<std::span<const u32>, kEntries> kShaders{
    kDecide,      kBegin,    kTables,     kInspect, kToldDecide, kToldBegin, kToldTables,
    kToldInspect, kRunAlone, kRunInOrder, kPatches, kEvents,     kStreams,   kSettle};

std::span<const u32> shader_of(Entry entry, bool software) {
  if (entry == Entry::streams && software) return kSoftwareStreams;
  return kShaders[static_cast<u32>(entry)];
}

bool has_extension(vk::PhysicalDevice device, const char* name, const Dispatch& d) {
  const auto extensions = device.enumerateDeviceExtensionProperties(nullptr, d);
  return extensions.result == vk::Result::eSuccess &&
         std::any_of(extensions.value.begin(), extensions.value.end(),
                     [&](const auto& extension) { return std::strcmp(extension.extensionName, name) == 0; });
}

// A compute queue family; one without graphics if there is one.
bool choose_family(vk::PhysicalDevice device, Instance::Candidate& candidate, const Dispatch& d) {
  const auto families = device.getQueueFamilyProperties(d);
  bool found = false;
  for (u32 i = 0; i < families.size(); i++) {
    if (!(families[i].queueFlags & vk::QueueFlagBits::eCompute)) continue;
    const bool alone = !(families[i].queueFlags & vk::QueueFlagBits::eGraphics);
    if (found && !alone) continue;
    candidate.queue_family = i;
    candidate.queues = std::min(families[i].queueCount, kMostQueues);
    found = true;
    if (alone) break;
  }
  return found;
}

// What the device lacks, or an empty string.
std::string missing(vk::PhysicalDevice device, const vk::PhysicalDeviceProperties& properties,
                    const Dispatch& d) {
  if (properties.apiVersion < VK_API_VERSION_1_2)
    return fmt::format("its driver speaks Vulkan {}.{}, at least 1.2 is needed: update the driver",
                       VK_API_VERSION_MAJOR(properties.apiVersion),
                       VK_API_VERSION_MINOR(properties.apiVersion));
  const auto features =
      device.getFeatures2<vk::PhysicalDeviceFeatures2, vk::PhysicalDeviceVulkan12Features>(d);
  const auto& core = features.get<vk::PhysicalDeviceFeatures2>().features;
  const auto& v12 = features.get<vk::PhysicalDeviceVulkan12Features>();
  std::string lacks;
  const auto need = [&](vk::Bool32 there, const char* name) {
    if (there == VK_FALSE) lacks += lacks.empty() ? name : std::string(", ") + name;
  };
  need(core.shaderInt64, "shaderInt64");
  need(v12.bufferDeviceAddress, "bufferDeviceAddress");
  need(v12.scalarBlockLayout, "scalarBlockLayout");
  need(v12.timelineSemaphore, "timelineSemaphore");
  if (lacks.empty()) return lacks;
  return fmt::format("it lacks {}, which the stages need: use another device", lacks);
}

Instance::Candidate describe_device(vk::PhysicalDevice device, u32 index, const Dispatch& d) {
  Instance::Candidate candidate;
  candidate.device = device;
  DeviceInfo& info = candidate.info;
  info.name = fmt::format("vulkan:{}", index);
  info.kind = Kind::vulkan;
  const auto properties = device.getProperties(d);
  info.description = std::string(properties.deviceName.data());
  info.software = properties.deviceType == vk::PhysicalDeviceType::eCpu;
  info.reason = missing(device, properties, d);
  if (info.reason.empty() && !choose_family(device, candidate, d))
    info.reason = "it has no queue for compute work: use another device";
  info.usable = info.reason.empty();
  if (!info.usable) return candidate;

  const auto memory = device.getMemoryProperties(d);
  for (u32 i = 0; i < memory.memoryHeapCount; i++)
    if (memory.memoryHeaps[i].flags & vk::MemoryHeapFlagBits::eDeviceLocal)
      info.memory_bytes += memory.memoryHeaps[i].size;
  candidate.largest_allocation =
      device.getProperties2<vk::PhysicalDeviceProperties2, vk::PhysicalDeviceVulkan11Properties>(d)
          .get<vk::PhysicalDeviceVulkan11Properties>()
          .maxMemoryAllocationSize;
  if (has_extension(device, VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME, d)) {
    candidate.import_alignment =
        device
            .getProperties2<vk::PhysicalDeviceProperties2, vk::PhysicalDeviceExternalMemoryHostPropertiesEXT>(
                d)
            .get<vk::PhysicalDeviceExternalMemoryHostPropertiesEXT>()
            .minImportedHostPointerAlignment;
    info.in_place = true;
  }
  return candidate;
}

// The contexts that wait to be opened again, one of a device.
class Kept {
 public:
  std::unique_ptr<Context> take(const DeviceInfo& info) {
    const std::scoped_lock lock(mutex_);
    const auto found = find(info);
    if (found == contexts_.end()) return nullptr;
    auto context = std::move(*found);
    contexts_.erase(found);
    return context;
  }
  // Leaves it to the caller where one of its device waits already.
  void give(std::unique_ptr<Context>& context) noexcept {
    const std::scoped_lock lock(mutex_);
    if (contexts_.size() < contexts_.capacity() && find(context->candidate().info) == contexts_.end())
      contexts_.push_back(std::move(context));
  }

 private:
  using Contexts = std::vector<std::unique_ptr<Context>>;
  Contexts::iterator find(const DeviceInfo& info) {
    return std::find_if(contexts_.begin(), contexts_.end(), [&](const auto& context) {
      const DeviceInfo& own = context->candidate().info;
      return own.name == info.name && own.description == info.description;
    });
  }

  static Contexts with_room() {
    Contexts contexts;
    contexts.reserve(kMostKept);
    return contexts;
  }
  static constexpr std::size_t kMostKept = 16;
  std::mutex mutex_;
  Contexts contexts_ = with_room();
};

// Closed at the process's end, ahead of what the driver itself does then: it is loaded before this is made.
Kept& kept() {
  static Kept all;
  return all;
}

}  // namespace

Result<std::unique_ptr<Instance>> Instance::create() {
  std::unique_ptr<Instance> self(new Instance);
  self->loader_ = std::make_unique<vk::DynamicLoader>();
  if (!self->loader_->success())
    return tl::unexpected(std::string("there is no Vulkan loader (libvulkan.so.1): install libvulkan1"));
  const auto entry = self->loader_->getProcAddress<PFN_vkGetInstanceProcAddr>("vkGetInstanceProcAddr");
  if (entry == nullptr)
    return tl::unexpected(
        std::string("the Vulkan loader has no vkGetInstanceProcAddr: reinstall libvulkan1"));
  Dispatch& d = self->dispatch_;
  d.init(entry);
  if (d.vkEnumerateInstanceVersion == nullptr || d.vkCreateInstance == nullptr)
    return tl::unexpected(std::string("the Vulkan loader is older than Vulkan 1.2: update libvulkan1"));
  const vk::ApplicationInfo application("xdpgpu", 1, nullptr, 0, VK_API_VERSION_1_2);
  auto instance = vk::createInstanceUnique(vk::InstanceCreateInfo({}, &application), nullptr, d);
  if (instance.result == vk::Result::eErrorIncompatibleDriver)
    return tl::unexpected(
        std::string("no Vulkan driver is installed: install the GPU's own, or mesa-vulkan-drivers"));
  if (instance.result != vk::Result::eSuccess) return failure("creating the instance", instance.result);
  self->instance_ = std::move(instance.value);
  d.init(*self->instance_);
  return self;
}

Result<Instance*> Instance::get() {
  static std::mutex mutex;
  static Instance* instance = nullptr;
  const std::scoped_lock lock(mutex);
  if (instance == nullptr) {
    auto created = create();
    if (!created) return tl::unexpected(created.error());
    instance = created->release();
  }
  return instance;
}

std::vector<Instance::Candidate> Instance::candidates() const {
  std::vector<Candidate> all;
  const auto devices = instance_->enumeratePhysicalDevices(dispatch_);
  if (devices.result != vk::Result::eSuccess) return all;
  for (u32 i = 0; i < devices.value.size(); i++)
    all.push_back(describe_device(devices.value[i], i, dispatch_));
  std::stable_partition(all.begin(), all.end(),
                        [](const Candidate& candidate) { return !candidate.info.software; });
  return all;
}

Result<std::unique_ptr<Context>> Context::create(const DeviceInfo& info) {
  auto instance = Instance::get();
  if (!instance) return tl::unexpected(instance.error());
  std::unique_ptr<Context> self(new Context);
  self->dispatch_ = (*instance)->dispatch();
  for (const auto& candidate : (*instance)->candidates())
    if (candidate.info.name == info.name) self->candidate_ = candidate;
  if (!self->candidate_.info.usable)
    return tl::unexpected(
        fmt::format("Vulkan: {} ({}) is gone: list the devices again", info.name, info.description));
  auto opened = self->open_device().and_then([&] { return self->build_layout(); }).and_then([&] {
    return self->build(Entry::decide);
  });
  if (!opened) return tl::unexpected(opened.error());
  return self;
}

Result<Context::Opened> Context::open(const DeviceInfo& info) {
  if (auto instance = Instance::get(); !instance) return tl::unexpected(instance.error());
  if (auto waiting = kept().take(info); waiting != nullptr && waiting->idle())
    return Opened(waiting.release());
  auto made = create(info);
  if (!made) return tl::unexpected(made.error());
  return Opened(made->release());
}

void Context::Close::operator()(Context* context) const noexcept {
  std::unique_ptr<Context> closed(context);
  if (closed->failed() || closed->abandoned() || !closed->idle()) return;
  kept().give(closed);
}

bool Context::idle() const noexcept { return device_->waitIdle(dispatch()) == vk::Result::eSuccess; }

Context::~Context() {
  if (!abandoned()) return;
  for (auto& pipeline : pipelines_) (void)pipeline.release();
  (void)layout_.release();
  (void)device_.release();
}

Result<void> Context::open_device() {
  Dispatch& d = dispatch_;
  const std::vector<float> priorities(candidate_.queues, 1.0f);
  const vk::DeviceQueueCreateInfo queues({}, candidate_.queue_family, priorities);
  std::vector<const char*> extensions;
  if (candidate_.import_alignment != 0) extensions.push_back(VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME);
  vk::StructureChain<vk::DeviceCreateInfo, vk::PhysicalDeviceFeatures2, vk::PhysicalDeviceVulkan12Features>
      chain;
  chain.get<vk::DeviceCreateInfo>().setQueueCreateInfos(queues).setPEnabledExtensionNames(extensions);
  chain.get<vk::PhysicalDeviceFeatures2>().features.setShaderInt64(VK_TRUE);
  chain.get<vk::PhysicalDeviceVulkan12Features>()
      .setBufferDeviceAddress(VK_TRUE)
      .setScalarBlockLayout(VK_TRUE)
      .setTimelineSemaphore(VK_TRUE);
  auto device = checked("opening the device",
                        candidate_.device.createDeviceUnique(chain.get<vk::DeviceCreateInfo>(), nullptr, d));
  if (!device) return tl::unexpected(device.error());
  device_ = *std::move(device);
  d.init(*device_);
  for (u32 i = 0; i < candidate_.queues; i++) {
    queues_.push_back(std::make_unique<HardwareQueue>());
    queues_.back()->queue = device_->getQueue(candidate_.queue_family, i, d);
  }
  return {};
}

Result<void> Context::build_layout() {
  const Dispatch& d = dispatch();
  constexpr u32 bytes = std::max({sizeof(Arguments), sizeof(ProgramArguments), sizeof(RecordArguments)});
  static_assert(bytes <= 128, "every device takes 128 bytes of push constants");
  const vk::PushConstantRange constants(vk::ShaderStageFlagBits::eCompute, 0, bytes);
  auto layout = checked(
      "creating the pipeline layout",
      device_->createPipelineLayoutUnique(vk::PipelineLayoutCreateInfo({}, {}, constants), nullptr, d));
  if (!layout) return tl::unexpected(layout.error());
  layout_ = *std::move(layout);
  return {};
}

Result<void> Context::build(Entry entry) {
  const u32 number = static_cast<u32>(entry);
  if (pipelines_[number]) return {};
  const Dispatch& d = dispatch();
  const std::span<const u32> words = shader_of(entry, candidate().info.software);
  auto shader = checked("loading the stages",
                        device_->createShaderModuleUnique(
                            vk::ShaderModuleCreateInfo({}, words.size_bytes(), words.data()), nullptr, d));
  if (!shader) return tl::unexpected(shader.error());
  const vk::PipelineShaderStageCreateInfo stage({}, vk::ShaderStageFlagBits::eCompute, **shader, "main");
  auto pipeline = checked("compiling the stages",
                          device_->createComputePipelineUnique(
                              nullptr, vk::ComputePipelineCreateInfo({}, stage, *layout_), nullptr, d));
  if (!pipeline) return tl::unexpected(pipeline.error());
  pipelines_[number] = *std::move(pipeline);
  return {};
}

}  // namespace xdpgpu::gpu::vulkan
