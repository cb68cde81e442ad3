// SPDX-License-Identifier: MIT
//
// gpu/program_code.hpp: XDP programs as devices run them (gpu/stages/program_code.h): decoded once, checked
// once.
#pragma once

#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "gpu/programs.hpp"

namespace xdpgpu::gpu::programs {

struct DeviceCode {
  std::vector<u32> code;    // four words an instruction
  std::vector<u32> maps;    // four words a map
  std::vector<u32> values;  // the maps' memory at first
};

// For receive queues 0 to `queues` - 1. The error says what devices do not do yet, or what is no program, and
// which instruction it is: all but arrays, per-CPU arrays and helpers without other maps.
tl::expected<DeviceCode, std::string> device_code(const Program& program, u32 queues);

}  // namespace xdpgpu::gpu::programs
