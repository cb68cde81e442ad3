// SPDX-License-Identifier: MIT
//
// gpu/cuda/device.hpp: NVIDIA GPUs through the CUDA runtime, which is linked statically: a host without
// NVIDIA's driver starts all the same and lists CUDA as unusable.
//
// Frames are read in place where the region can be registered (cudaHostRegister), else from staging.
// Descriptors and results stand in pinned memory that the kernel reads and writes. Each queue has a
// stream of its own; the kernel ends a batch by storing its number where the worker polls.
#pragma once

#include <memory>
#include <vector>

#include "gpu/gpu.hpp"

namespace xdpgpu::gpu::cuda {

// The GPUs the driver knows, or one unusable entry named "cuda" that says why there are none.
std::vector<DeviceInfo> describe();
// `info` is a usable one from describe(). codes: see open_device.
Result<std::unique_ptr<Device>> open(const DeviceInfo& info, const DeviceCodes& codes);

}  // namespace xdpgpu::gpu::cuda
