// SPDX-License-Identifier: MIT
#include "gpu/cuda/device.hpp"

#include <fmt/format.h>

#include <exception>
#include <new>

#include "gpu/cuda/graph.hpp"
#include "gpu/cuda/mirror.hpp"
#include "gpu/cuda/persistent.hpp"
#include "gpu/cuda/queue.hpp"
#include "gpu/cuda/stream_wait.hpp"
#include "gpu/cuda/watch.hpp"
#include "gpu/cuda/ways.hpp"
#include "gpu/pipelines.hpp"

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
  if (properties.major * 10 + properties.minor < 75)
    info.reason = fmt::format("its compute capability is {}.{}, at least 7.5 is needed", properties.major,
                              properties.minor);
  else if (attribute(cudaDevAttrComputeMode, ordinal) == cudaComputeModeProhibited)
    info.reason = "its compute mode is \"prohibited\": change it with nvidia-smi -c 0";
  else if (attribute(cudaDevAttrCanMapHostMemory, ordinal) == 0 ||
           attribute(cudaDevAttrMemoryPoolsSupported, ordinal) == 0)
    info.reason = "it cannot map host memory or has no memory pools: use another device";
  info.usable = info.reason.empty();
  info.persistent = info.usable;
  info.graph = info.usable && has_stream_wait();
  info.in_place = info.usable && attribute(cudaDevAttrHostRegisterSupported, ordinal) != 0;
  return info;
}

class CudaDevice final : public Device {
 public:
  static Result<std::unique_ptr<Device>> create(const DeviceInfo& info, int ordinal) {
    auto device = std::make_unique<CudaDevice>(info);
    device->shared_.ordinal = ordinal;
    device->shared_.overlaps = attribute(cudaDevAttrComputeCapabilityMajor, ordinal) >= 9;
    if (const cudaError_t error = cudaSetDevice(ordinal); error != cudaSuccess)
      return failure("opening the GPU", error);
    for (auto* load : {load_decide, load_posted, load_resident, load_watch})
      if (const cudaError_t error = load(); error != cudaSuccess) return failure("loading the stages", error);
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
    auto loaded = load_pipelines(std::move(pipelines), states_, shared_.control);
    if (!loaded) return tl::unexpected(loaded.error());
    if (auto added = shared_.generations.add(generation, *std::move(loaded)); !added) return added;
    auto announced =
        shared_.images.add(generation, shared_.generations.find(generation)->image, shared_.control);
    if (!announced) shared_.generations.remove(generation);
    return announced;
  }
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

  DeviceInfo info_;
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

Result<std::unique_ptr<Device>> open(const DeviceInfo& info) {
  return CudaDevice::create(info, ordinal_of(info));
}

}  // namespace xdpgpu::gpu::cuda
