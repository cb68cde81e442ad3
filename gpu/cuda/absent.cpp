// SPDX-License-Identifier: MIT
//
// gpu/cuda/absent.cpp: stands in for the CUDA device in a build without it.
#include "gpu/cuda/device.hpp"

namespace xdpgpu::gpu::cuda {

std::vector<DeviceInfo> describe() {
  DeviceInfo info;
  info.name = "cuda";
  info.kind = Kind::cuda;
  info.description = "NVIDIA GPUs";
  info.reason = "this build has no CUDA device: build it where nvcc is installed";
  return {info};
}

Result<std::unique_ptr<Device>> open(const DeviceInfo& info) { return tl::unexpected(info.reason); }

}  // namespace xdpgpu::gpu::cuda
