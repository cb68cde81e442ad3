// SPDX-License-Identifier: MIT
//
// gpu/device_code.hpp: machine code for one kind of device, as bytes. A build has some (device_code(),
// gpu/gpu.hpp); pipelines may bring their own, which is loaded with them and decides their batches.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "gpu/gpu.hpp"

namespace xdpgpu::gpu {

struct DeviceCode {
  std::string id;        // of equal ids the bytes are equal: they are loaded once
  u32 architecture = 0;  // of CUDA: the compute capability, 90 for 9.0
  // Of CUDA: what gpu/cuda/kernels.hpp names, each a cubin, or a fatbin of one. PTX among them is compiled by
  // the driver when it is loaded.
  std::vector<std::vector<char>> modules;
};

// What this build has for a GPU of that compute capability: machine code if it has some, else PTX, of which
// machine code is made (userspace/compiler/ptx.hpp). The error says what it was built for. Asks no driver.
// programs: for pipelines that run programs (Pipelines::runs_programs()), which all others do better without.
Result<std::shared_ptr<const DeviceCode>> built_in_code(u32 capability, bool programs = false);
// Machine code to link programs to that are translated (gpu/program_translation.hpp): kModules' as
// built_in_code() has them for pipelines that run programs, but all that run programs are relocatable, and
// behind them is what interprets a program, which belongs to each of these. The error says that this build
// has none for that GPU.
struct LinkableCode {
  DeviceCode code;                  // its modules stand in kModules' order
  std::vector<bool> runs_programs;  // of each: it is relocatable
  std::vector<char> interpreter;
};
Result<LinkableCode> linkable_code(u32 capability);
// Whether that is machine code.
bool has_machine_code(u32 capability) noexcept;

}  // namespace xdpgpu::gpu
