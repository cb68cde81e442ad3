// SPDX-License-Identifier: MIT
#include "gpu/cpu/device.hpp"

#include <fmt/format.h>

#include <fstream>

#include "gpu/cpu/mirror.hpp"
#include "gpu/cpu/queue.hpp"
#include "gpu/slots.hpp"

namespace xdpgpu::gpu::cpu {
namespace {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("model name"))
      if (const auto colon = line.find(": "); colon != std::string::npos) return line.substr(colon + 2);
  return "the host's processor";
}

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
      return cpu::open_queue(shared_, options);
    } catch (const std::exception& error) {
      return tl::unexpected(fmt::format(
          "the CPU cannot take a queue's batches: {}; free some memory or threads", error.what()));
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
  info.persistent = true;
  info.persistent_takes_core = true;
  return info;
}

std::unique_ptr<Device> open() { return std::make_unique<CpuDevice>(); }

}  // namespace xdpgpu::gpu::cpu
