// SPDX-License-Identifier: MIT
//
// gpu/vulkan/device.hpp: any Vulkan 1.2 device with 64-bit integers, buffer device addresses and scalar
// block layout. The loader is looked for when a device is asked for: a host without one starts all the
// same and lists Vulkan as unusable.
//
// Frames are read in place where the region can be imported (VK_EXT_external_memory_host), else from
// staging in host memory. A batch is one dispatch; a timeline semaphore counts the finished ones.
#pragma once

#include <memory>
#include <vector>

#include "gpu/gpu.hpp"

namespace xdpgpu::gpu::vulkan {

// The devices the loader knows, hardware first, or one unusable entry named "vulkan" that says why there
// are none.
std::vector<DeviceInfo> describe();
// `info` is a usable one from describe().
Result<std::unique_ptr<Device>> open(const DeviceInfo& info);

}  // namespace xdpgpu::gpu::vulkan
