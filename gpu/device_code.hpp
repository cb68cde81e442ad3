// SPDX-License-Identifier: MIT
//
// gpu/device_code.hpp: machine code for one kind of device, as bytes. A build has some (device_code(),
// gpu/gpu.hpp); pipelines may bring their own, which is loaded with them and decides their batches.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::gpu {

struct DeviceCode {
  std::string id;        // of equal ids the bytes are equal: they are loaded once
  u32 architecture = 0;  // of CUDA: the compute capability, 90 for 9.0
  // Of CUDA: what gpu/cuda/kernels.hpp names, each a cubin, or a fatbin of one. PTX among them is compiled by
  // the driver when it is loaded.
  std::vector<std::vector<char>> modules;
};

}  // namespace xdpgpu::gpu
