// SPDX-License-Identifier: MIT
#include "gpu/cuda/device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <new>
#include <vector>

#include "gpu/changed_words.hpp"
#include "gpu/cuda/graph.hpp"
#include "gpu/cuda/kernels.hpp"
#include "gpu/cuda/mirror.hpp"
#include "gpu/cuda/persistent.hpp"
#include "gpu/cuda/queue.hpp"
#include "gpu/cuda/stream_wait.hpp"
#include "gpu/cuda/watch.hpp"
#include "gpu/cuda/ways.hpp"
#include "gpu/device_code.hpp"
#include "gpu/pipeline_programs.hpp"
#include "gpu/stages/program_body.h"

namespace xdpgpu::gpu::cuda {
namespace {

std::vector<DeviceInfo> none(std::string reason) {
  DeviceInfo info;
  info.name = "cuda";
  info.kind = Kind::cuda;
  info.description = "NVIDIA GPUs";
  info.reason = std::move(reason);
  return {info};
}

std::string why_none(cudaError_t error) {
  (void)cudaGetLastError();
  switch (error) {
    case cudaErrorInsufficientDriver: {
      int driver = 0;
      if (cudaDriverGetVersion(&driver) != cudaSuccess || driver == 0)
        return "no NVIDIA driver is installed (libcuda.so.1): install it to use an NVIDIA GPU";
      return fmt::format("the NVIDIA driver supports CUDA {}.{}, this build needs {}.{}: update the driver",
                         driver / 1000, driver % 1000 / 10, CUDART_VERSION / 1000,
                         CUDART_VERSION % 1000 / 10);
    }
    case cudaErrorNoDevice:
      return "the NVIDIA driver finds no GPU: see nvidia-smi";
    default:
      return fmt::format("the NVIDIA driver does not start: {} ({})", cudaGetErrorString(error),
                         cudaGetErrorName(error));
  }
}

// An attribute's value, 0 where the driver does not know it.
int attribute(cudaDeviceAttr what, int ordinal) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, what, ordinal) != cudaSuccess) {
    (void)cudaGetLastError();
    return 0;
  }
  return value;
}

// 90 for 9.0.
u32 capability_of(int ordinal) {
  return static_cast<u32>(attribute(cudaDevAttrComputeCapabilityMajor, ordinal) * 10 +
                          attribute(cudaDevAttrComputeCapabilityMinor, ordinal));
}

DeviceInfo describe_device(int ordinal) {
  DeviceInfo info;
  info.name = fmt::format("cuda:{}", ordinal);
  info.kind = Kind::cuda;
  cudaDeviceProp properties{};
  if (const cudaError_t error = cudaGetDeviceProperties(&properties, ordinal); error != cudaSuccess) {
    info.description = "NVIDIA GPU";
    info.reason = failure("reading its properties", error).value();
    return info;
  }
  info.description = properties.name;
  info.memory_bytes = properties.totalGlobalMem;
  const auto capability = static_cast<u32>(properties.major * 10 + properties.minor);
  if (capability < 75)
    info.reason = fmt::format("its compute capability is {}.{}, at least 7.5 is needed", properties.major,
                              properties.minor);
  else if (const auto code = built_in_code(capability); !code)
    info.reason = code.error();
  else if (attribute(cudaDevAttrComputeMode, ordinal) == cudaComputeModeProhibited)
    info.reason = "its compute mode is \"prohibited\": change it with nvidia-smi -c 0";
  else if (attribute(cudaDevAttrCanMapHostMemory, ordinal) == 0 ||
           attribute(cudaDevAttrMemoryPoolsSupported, ordinal) == 0)
    info.reason = "it cannot map host memory or has no memory pools: use another device";
  info.usable = info.reason.empty();
  if (info.usable && !has_machine_code(capability)) {
    info.wants_code = capability;
    info.description += fmt::format(
        " (this build has no machine code for compute capability {}.{}: attach has it made, other commands "
        "leave that to the driver)",
        properties.major, properties.minor);
  }
  info.persistent = info.usable;
  info.graph = info.usable && has_stream_wait();
  info.in_place = info.usable && attribute(cudaDevAttrHostRegisterSupported, ordinal) != 0;
  return info;
}

class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> create(const DeviceInfo& info, int ordinal,
                                                const DeviceCodes& codes) {
    auto device = std::make_unique<CudaDevice>(info);
    device->shared_.ordinal = ordinal;
    if (const cudaError_t error = cudaSetDevice(ordinal); error != cudaSuccess)
      return failure("opening the GPU", error);
    device->capability_ = capability_of(ordinal);
    const auto made = codes.find(device->capability_);
    auto kernels = made != codes.end() && info.wants_code != 0
                       ? Kernels::read(made->second)
                       : built_in_code(device->capability_).and_then(Kernels::read);
    if (!kernels) return tl::unexpected(kernels.error());
    for (u32 i = 0; i < kKernels; i++)
      if (auto brought = (*kernels)->bring(kernel_at(i)); !brought) return tl::unexpected(brought.error());
    device->shared_.kernels = *std::move(kernels);
    auto control = Stream::create();
    if (!control) return tl::unexpected(control.error());
    device->shared_.control = *std::move(control);
    auto turn = DeviceMemory::create(sizeof(TablesTurn), nullptr, device->shared_.control);
    if (!turn) return tl::unexpected(turn.error());
    device->shared_.tables_turn = *std::move(turn);
    auto images = Images::create(device->shared_.control);
    if (!images) return tl::unexpected(images.error());
    device->shared_.images = *std::move(images);
    return device;
  }
  explicit CudaDevice(DeviceInfo info) : info_(std::move(info)) {}
  ~CudaDevice() override { (void)cudaSetDevice(shared_.ordinal); }

  const DeviceInfo& info() const noexcept override { return info_; }

  Result<void> register_frames(void* base, u64 bytes, Frames frames) override {
    if (auto checked = check_region(base, bytes, shared_.base != nullptr); !checked) return checked;
    if (auto ready = enter(); !ready) return ready;
    Frames taken = Frames::staged;
    if (frames != Frames::staged) {
      auto region = info_.in_place ? Registration::create(base, bytes)
                                   : Result<Registration>(tl::unexpected(fmt::format(
                                         "{} cannot register host memory: use staged frames", info_.name)));
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
    if (auto ready = enter(); !ready) return ready;
    auto kernels = kernels_of(*pipelines);
    if (!kernels) return tl::unexpected(kernels.error());
    auto loaded = load_pipelines(std::move(pipelines), *std::move(kernels), states_, shared_.control);
    if (!loaded) return tl::unexpected(loaded.error());
    if (auto apart = keep_apart(*loaded); !apart) return apart;
    if (auto added = shared_.generations.add(generation, *std::move(loaded)); !added) return added;
    auto announced =
        shared_.images.add(generation, shared_.generations.find(generation)->image, shared_.control);
    if (!announced) shared_.generations.remove(generation);
    return announced;
  }
  std::shared_ptr<const DeviceCode> code() const override { return shared_.kernels->code(); }
  Result<void> read_state(u32 generation, u32 table, u64 first, std::span<u32> words) override {
    if (auto ready = enter(); !ready) return ready;
    const Loaded* loaded = shared_.generations.find(generation);
    if (loaded == nullptr) return tl::unexpected(fmt::format("generation {} is not loaded", generation));
    if (auto checked = check_state_range(*loaded->pipelines, table, first, words.size()); !checked)
      return checked;
    if (const cudaError_t error =
            loaded->tables[table]->read(first * sizeof(u32), words.data(), words.size_bytes());
        error != cudaSuccess)
      return failure("reading a table", error);
    return {};
  }
  Result<void> edit_state(u32 generation, u32 table, const Edit& edit) override {
    if (auto ready = enter(); !ready) return ready;
    const Loaded* loaded = shared_.generations.find(generation);
    if (loaded == nullptr) return tl::unexpected(fmt::format("generation {} is not loaded", generation));
    if (auto checked = check_state_range(*loaded->pipelines, table, 0, 0); !checked) return checked;
    try {
      return edit_memory(*loaded->tables[table], loaded->pipelines->states()[table].words, edit);
    } catch (const std::bad_alloc&) {
      return tl::unexpected(std::string("there is not enough memory for copies of the table"));
    }
  }
  Result<void> change_words(u32 generation, std::span<const ChangedWords> changes) override {
    if (auto ready = enter(); !ready) return ready;
    const Loaded* loaded = shared_.generations.find(generation);
    if (loaded == nullptr) return tl::unexpected(fmt::format("generation {} is not loaded", generation));
    if (auto checked = check_changes(*loaded->pipelines, changes); !checked) return checked;
    const u64 begin = loaded->pipelines->image()[XG_IMAGE_CHANGES_AT];
    cudaError_t error = cudaSuccess;
    const bool done = shared_.pauses.pause_all([&] {
      for (const ChangedWords& one : changes)
        if (error == cudaSuccess)
          error = loaded->image.write((begin + one.first) * sizeof(u32), one.words.data(),
                                      one.words.size() * sizeof(u32));
    });
    if (!done)
      return tl::unexpected(fmt::format(
          "{} does not end its batches, between which lists are changed: see whether it hangs", info_.name));
    if (error != cudaSuccess) return failure("changing lists", error);
    return {};
  }
  void unload(u32 generation) noexcept override {
    if (shared_.abandoned) return;
    (void)cudaSetDevice(shared_.ordinal);
    shared_.images.remove(generation, shared_.control);
    shared_.generations.remove(generation);
  }

  Result<bool> publish_flows(const std::vector<FlowTables>& ports) override {
    if (shared_.flows.device() != nullptr)
      return tl::unexpected(std::string("the device has flow verdict tables already"));
    if (auto ready = enter(); !ready) return tl::unexpected(ready.error());
    auto writer = FlowWriter::create(ports, shared_.control);
    if (!writer) return tl::unexpected(writer.error());
    shared_.flows = *std::move(writer);
    return true;
  }

  Result<std::unique_ptr<Queue>> open_queue(const QueueOptions& options) override {
    if (auto checked = check_queue_options(options, info_); !checked) return tl::unexpected(checked.error());
    if (shared_.base == nullptr) return tl::unexpected(std::string("the device has no frame region yet"));
    if (auto ready = enter(); !ready) return tl::unexpected(ready.error());
    try {
      switch (options.drive) {
        case Drive::persistent:
          return PersistentQueue::create(shared_, options);
        case Drive::graph:
          return GraphQueue::create(shared_, options);
        case Drive::automatic:
          return create_changing_queue(shared_, options);
        case Drive::launched:
          break;
      }
      return CudaQueue::create(shared_, options);
    } catch (const std::bad_alloc&) {
      return tl::unexpected(std::string("there is not enough memory for the queue's batches"));
    }
  }

  Result<std::unique_ptr<Mirror>> open_mirror(const MirrorOptions& options) override {
    if (auto checked = check_mirror_options(options); !checked) return tl::unexpected(checked.error());
    if (auto ready = enter(); !ready) return tl::unexpected(ready.error());
    try {
      return cuda::open_mirror(shared_, info_.name, options);
    } catch (const std::exception& error) {
      return tl::unexpected(fmt::format("{} cannot watch mirrored packets: {}; free some memory or threads",
                                        info_.name, error.what()));
    }
  }
  bool lost() noexcept override {
    if (shared_.failed) return true;
    // Of a broken context any call gives the error that broke it.
    cudaError_t error = cudaSetDevice(shared_.ordinal);
    if (error == cudaSuccess) error = cudaStreamQuery(shared_.control.get());
    if (error != cudaSuccess && error != cudaErrorNotReady) shared_.failed = true;
    return shared_.failed;
  }

 private:
  // Makes the GPU this thread's current one.
  Result<void> enter() {
    if (shared_.failed)
      return tl::unexpected(fmt::format("{} is lost: start again, or use another device", info_.name));
    if (const cudaError_t error = cudaSetDevice(shared_.ordinal); error != cudaSuccess)
      return failure("choosing the GPU", error);
    return {};
  }

  // Packets of a program that counts are at its maps beside those of other batches. Where another
  // generation's program takes packets in order in the same maps, those that count go there in turn, too.
  // Batches of a generation that is in use are over before it is so.
  Result<void> keep_apart(Loaded& fresh) {
    const auto ours = program_tables(*fresh.pipelines);
    std::vector<std::pair<Loaded*, u32>> in_turn;  // and the image's word
    bool is_in_use = false;
    shared_.generations.each([&](Loaded& other) {
      for (const ProgramTable& theirs : program_tables(*other.pipelines))
        for (const ProgramTable& own : ours) {
          if (other.tables[theirs.table] != fresh.tables[own.table] || theirs.counts == own.counts) continue;
          in_turn.emplace_back(own.counts ? &fresh : &other, own.counts ? own.counts_at : theirs.counts_at);
          is_in_use |= theirs.counts;
        }
    });
    cudaError_t error = cudaSuccess;
    // Batches that were launched before are over once it is done.
    const auto change = [&] {
      constexpr u32 kInTurn = XG_PROGRAM_COUNTS_IN_TURN;
      for (const auto& [loaded, word] : in_turn) {
        if (error == cudaSuccess) error = set_ahead(*loaded, false);
        if (error == cudaSuccess) error = loaded->image.write(word * sizeof(u32), &kInTurn, sizeof(kInTurn));
      }
      if (error == cudaSuccess && is_in_use) error = cudaDeviceSynchronize();
    };
    if (!is_in_use)
      change();
    else if (!shared_.pauses.pause(change))
      return tl::unexpected(fmt::format(
          "{} does not end its kernels, which count in maps that the policy takes over", info_.name));
    if (error != cudaSuccess) return failure("changing how a program counts", error);
    return {};
  }

  // While nothing of a batch is on the GPU.
  Result<void> edit_memory(DeviceMemory& memory, u64 words, const Edit& edit) {
    std::vector<u32> before(words), edited(words);
    cudaError_t error = cudaSuccess;
    const bool done = shared_.pauses.pause_all([&] {
      error = memory.read(0, before.data(), words * sizeof(u32));
      if (error != cudaSuccess) return;
      std::copy(before.begin(), before.end(), edited.begin());
      edit(edited);
      each_change(before, edited, [&](u64 first, u64 count) {
        if (error == cudaSuccess)
          error = memory.write(first * sizeof(u32), &edited[first], count * sizeof(u32));
      });
    });
    if (!done)
      return tl::unexpected(
          fmt::format("{} does not end its batches, for which a table is changed between "
                      "them: see whether it hangs",
                      info_.name));
    if (error != cudaSuccess) return failure("changing a table", error);
    return {};
  }

  // Loads the code that the pipelines bring, where it is not there yet. What no generation needs any more
  // goes in the same pause.
  Result<std::shared_ptr<const Kernels>> kernels_of(const Pipelines& pipelines) {
    auto code = pipelines.code();
    if (code == nullptr && pipelines.runs_programs()) {
      auto own = built_in_code(capability_, true);
      if (!own) return tl::unexpected(own.error());
      code = *std::move(own);
    }
    if (code == nullptr || code->id == shared_.kernels->id()) return shared_.kernels;
    for (const auto& one : shared_.brought)
      if (one->id() == code->id) return one;
    if (code->architecture != capability_)
      return tl::unexpected(fmt::format("the code {} is for compute capability {}.{}, {} has {}.{}", code->id,
                                        code->architecture / 10, code->architecture % 10, info_.name,
                                        capability_ / 10, capability_ % 10));
    auto read = Kernels::read(code);
    if (!read) return tl::unexpected(read.error());
    std::shared_ptr<Kernels> kernels = *std::move(read);
    // One by one: batches that come meanwhile wait for one kernel and not for all.
    for (u32 i = 0; i < kKernels; i++) {
      Result<void> brought;
      const bool done = shared_.pauses.pause([&] {
        std::erase_if(shared_.brought, [](const auto& one) { return one.use_count() == 1; });
        brought = kernels->bring(kernel_at(i));
        if (!brought) kernels.reset();
      });
      if (!brought) return tl::unexpected(brought.error());
      if (done) continue;
      shared_.brought.push_back(std::move(kernels));
      return tl::unexpected(
          fmt::format("{} does not end its kernels, which code is not brought beside", info_.name));
    }
    shared_.brought.push_back(kernels);
    return kernels;
  }

  DeviceInfo info_;
  u32 capability_ = 0;
  Shared shared_;
  States<DeviceMemory> states_;
};

int ordinal_of(const DeviceInfo& info) { return std::stoi(info.name.substr(info.name.find(':') + 1)); }

}  // namespace

std::vector<DeviceInfo> describe() {
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess)
    return none(why_none(error));
  if (count == 0) return none(why_none(cudaErrorNoDevice));
  std::vector<DeviceInfo> devices;
  devices.reserve(static_cast<std::size_t>(count));
  for (int ordinal = 0; ordinal < count; ordinal++) devices.push_back(describe_device(ordinal));
  return devices;
}

Result<std::unique_ptr<Device>> open(const DeviceInfo& info, const DeviceCodes& codes) {
  return CudaDevice::create(info, ordinal_of(info), codes);
}

}  // namespace xdpgpu::gpu::cuda
