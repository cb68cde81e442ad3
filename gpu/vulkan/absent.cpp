// SPDX-License-Identifier: MIT
//
// gpu/vulkan/absent.cpp: stands in for the Vulkan device in a build without it.
#include "gpu/vulkan/device.hpp"

namespace xdpgpu::gpu::vulkan {

std::vector<DeviceInfo> describe() {
  DeviceInfo info;
  info.name = "vulkan";
  info.kind = Kind::vulkan;
  info.description = "Vulkan devices";
  info.reason = "this build has no Vulkan device: build it where vulkan.hpp and glslc are installed";
  return {info};
}

Result<std::unique_ptr<Device>> open(const DeviceInfo& info) { return tl::unexpected(info.reason); }

}  // namespace xdpgpu::gpu::vulkan
