// SPDX-License-Identifier: MIT
//
// gpu/cpu/device.hpp: the CPU as a compute device: a batch is decided in the worker's thread while it is
// submitted, or by a thread of the queue's own (gpu/cpu/queue.hpp), by the same stages as on the GPUs.
#pragma once

#include <memory>

#include "gpu/gpu.hpp"

namespace xdpgpu::gpu::cpu {

std::vector<DeviceInfo> describe();
Result<std::unique_ptr<Device>> open(const DeviceInfo& info);

}  // namespace xdpgpu::gpu::cpu
