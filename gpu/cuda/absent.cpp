// SPDX-License-Identifier: MIT
//
// gpu/cuda/absent.cpp: stands in for the CUDA device in a build without it.
#include "gpu/cuda/device.hpp"
#include "gpu/device_code.hpp"

namespace xdpgpu::gpu::cuda {

std::vector<DeviceInfo> describe() {
  DeviceInfo info;
  info.name = "cuda";
  info.kind = Kind::cuda;
  info.description = "NVIDIA GPUs";
  info.reason = "this build has no CUDA device: build it where nvcc is installed";
  return {info};
}

Result<std::unique_ptr<Device>> open(const DeviceInfo& info, const DeviceCodes&) {
  return tl::unexpected(info.reason);
}

}  // namespace xdpgpu::gpu::cuda

namespace xdpgpu::gpu {

namespace {

tl::unexpected<std::string> no_device() {
  return tl::unexpected(std::string("this build has no CUDA device: build it where nvcc is installed"));
}

}  // namespace

Result<std::shared_ptr<const DeviceCode>> built_in_code(u32, bool) { return no_device(); }
Result<LinkableCode> linkable_code(u32) { return no_device(); }
bool has_machine_code(u32) noexcept { return false; }

}  // namespace xdpgpu::gpu
