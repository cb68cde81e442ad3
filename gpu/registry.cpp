// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "gpu/cpu/device.hpp"
#include "gpu/cuda/device.hpp"
#include "gpu/gpu.hpp"
#include "gpu/vulkan/device.hpp"

namespace xdpgpu::gpu {
namespace {

// A kind of device: its folder's two functions. A new kind is a folder and a line.
struct Backend {
  Kind kind;
  std::string_view name;
  std::vector<DeviceInfo> (*describe)();
  Result<std::unique_ptr<Device>> (*open)(const DeviceInfo& info, const DeviceCodes& codes);
  bool in_software;  // that is what it is: others that compute so come last, and `auto` takes none of them
};
template <Result<std::unique_ptr<Device>> (*kOpen)(const DeviceInfo&)>
Result<std::unique_ptr<Device>> open_without_codes(const DeviceInfo& info, const DeviceCodes&) {
  return kOpen(info);
}
// In the order of preference.
constexpr Backend kBackends[] = {
    {Kind::cuda, "cuda", cuda::describe, cuda::open, false},
    {Kind::vulkan, "vulkan", vulkan::describe, open_without_codes<vulkan::open>, false},
    {Kind::cpu, "cpu", cpu::describe, open_without_codes<cpu::open>, true},
};

const Backend& backend_of(Kind kind) {
  return *std::find_if(std::begin(kBackends), std::end(kBackends),
                       [&](const Backend& one) { return one.kind == kind; });
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

// Kinds are asked one after the other, so that a host with a GPU does not load the others' drivers.
Result<std::unique_ptr<Device>> open_auto(const DeviceCodes& codes) {
  for (const Backend& backend : kBackends)
    for (const DeviceInfo& info : backend.describe()) {
      if (!info.usable || (info.software && !backend.in_software)) continue;
      if (auto device = backend.open(info, codes)) return device;
    }
  return tl::unexpected(std::string("no compute device works here, not even the cpu: run xdpgpu doctor"));
}

Result<std::unique_ptr<Device>> open_named(std::string_view name, const DeviceCodes& codes) {
  // Whose own name it is does not ask the others' drivers.
  for (const DeviceInfo& info : cpu::describe())
    if (info.name == name) return cpu::open(info);
  const auto devices = list_devices();
  for (const DeviceInfo& info : devices)
    if (info.usable && (info.name == name || backend_of(info.kind).name == name))
      return backend_of(info.kind).open(info, codes);
  return tl::unexpected(
      fmt::format("there is no usable device \"{}\"; the devices are: {}", name, devices_there_are(devices)));
}

}  // namespace

std::vector<DeviceInfo> list_devices() {
  std::vector<DeviceInfo> devices;
  std::vector<DeviceInfo> last;
  for (const Backend& backend : kBackends)
    for (DeviceInfo& info : backend.describe())
      (info.usable && info.software && !backend.in_software ? last : devices).push_back(std::move(info));
  devices.insert(devices.end(), std::make_move_iterator(last.begin()), std::make_move_iterator(last.end()));
  return devices;
}

std::vector<DeviceInfo> list_devices(Kind kind) { return backend_of(kind).describe(); }

Result<std::unique_ptr<Device>> open_device(std::string_view name, const DeviceCodes& codes) {
  if (name != "auto") return open_named(name, codes);
  const char* forced = std::getenv("XDPGPU_DEVICE");
  if (forced == nullptr || std::string_view(forced).empty() || std::string_view(forced) == "auto")
    return open_auto(codes);
  auto device = open_named(forced, codes);
  if (!device) return tl::unexpected("XDPGPU_DEVICE: " + device.error());
  return device;
}

}  // namespace xdpgpu::gpu
