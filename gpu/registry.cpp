// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <cstdlib>
#include <iterator>

#include "gpu/cpu/device.hpp"
#include "gpu/cuda/device.hpp"
#include "gpu/gpu.hpp"
#include "gpu/vulkan/device.hpp"

namespace xdpgpu::gpu {
namespace {

Result<std::unique_ptr<Device>> open_listed(const DeviceInfo& info) {
  switch (info.kind) {
    case Kind::cuda:
      return cuda::open(info);
    case Kind::vulkan:
      return vulkan::open(info);
    case Kind::cpu:
      break;
  }
  return cpu::open();
}

std::string kind_name(Kind kind) {
  return kind == Kind::cuda ? "cuda" : kind == Kind::vulkan ? "vulkan" : "cpu";
}

std::string devices_there_are(const std::vector<DeviceInfo>& devices) {
  std::string text;
  for (const DeviceInfo& info : devices) {
    if (!text.empty()) text += "; ";
    text += info.usable ? fmt::format("{} ({})", info.name, info.description)
                        : fmt::format("{} (not usable: {})", info.name, info.reason);
  }
  return text;
}

// Kinds are asked in the order of preference, so that a host with a GPU does not load the others' drivers.
Result<std::unique_ptr<Device>> open_auto() {
  for (const auto& describe : {&cuda::describe, &vulkan::describe})
    for (const DeviceInfo& info : describe()) {
      if (!info.usable || info.software) continue;
      if (auto device = open_listed(info)) return device;
    }
  return cpu::open();
}

Result<std::unique_ptr<Device>> open_named(std::string_view name) {
  if (name == "cpu") return cpu::open();
  const auto devices = list_devices();
  for (const DeviceInfo& info : devices)
    if (info.usable && (info.name == name || kind_name(info.kind) == name)) return open_listed(info);
  return tl::unexpected(
      fmt::format("there is no usable device \"{}\"; the devices are: {}", name, devices_there_are(devices)));
}

}  // namespace

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> devices = cuda::describe();
  std::vector<DeviceInfo> last;
  for (DeviceInfo& info : vulkan::describe()) (info.usable && info.software ? last : devices).push_back(info);
  devices.push_back(cpu::describe());
  devices.insert(devices.end(), std::make_move_iterator(last.begin()), std::make_move_iterator(last.end()));
  return devices;
}

Result<std::unique_ptr<Device>> open_device(std::string_view name) {
  if (name != "auto") return open_named(name);
  const char* forced = std::getenv("XDPGPU_DEVICE");
  if (forced == nullptr || std::string_view(forced).empty() || std::string_view(forced) == "auto")
    return open_auto();
  auto device = open_named(forced);
  if (!device) return tl::unexpected("XDPGPU_DEVICE: " + device.error());
  return device;
}

}  // namespace xdpgpu::gpu
