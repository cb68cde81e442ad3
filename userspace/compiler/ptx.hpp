// SPDX-License-Identifier: MIT
//
// userspace/compiler/ptx.hpp: PTX made into machine code for one GPU, by NVIDIA's linker (nvjitlink.hpp).
#pragma once

#include <string>
#include <tl/expected.hpp>

#include "gpu/device_code.hpp"

namespace xdpgpu::compiler {

// Loads the linker, for the process's life. Afterwards it asks the kernel for nothing but memory. Called
// before any other function here, from one thread at a time. The error is a sentence: what is not installed.
tl::expected<void, std::string> load_ptx_compiler();

// "13.0": of the linker that is loaded, which decides what it makes. Empty: none is.
std::string ptx_compiler_version();

// ptx: what gpu::built_in_code() has where that is no machine code. architecture: the compute capability.
// Takes its time. The error is what the linker says.
tl::expected<gpu::DeviceCode, std::string> compile_ptx(const gpu::DeviceCode& ptx, u32 architecture);

}  // namespace xdpgpu::compiler
