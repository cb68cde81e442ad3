// SPDX-License-Identifier: MIT
//
// userspace/compiler/nvrtc.hpp: NVIDIA's compiler of CUDA C++ (NVRTC). It needs neither a GPU nor a driver,
// nor any file but its own two libraries; it comes with the CUDA toolkit and is loaded where it is installed.
//
// https://docs.nvidia.com/cuda/nvrtc/
#pragma once

#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "gpu/program_translation.hpp"

namespace xdpgpu::compiler {

// Loads the compiler, for the process's life, and all that it would load when it compiles: afterwards it asks
// the kernel for nothing but memory. Called before any other function here, from one thread at a time. The
// error is a sentence: what is not installed.
tl::expected<void, std::string> load_nvrtc();

// "13.0": of the compiler that is loaded, which decides what it makes. Empty: none is.
std::string nvrtc_version();

// Whether the compiler that is loaded takes less time where it is told to, and is.
bool nvrtc_hurries();

// Machine code for that compute capability, to be linked to other: a cubin. The source includes nothing but
// these headers, by their names. options: "-DNAME=VALUE", as the source wants them. The error is the first
// line of what the compiler says.
tl::expected<std::vector<char>, std::string> compile_relocatable(
    const std::string& source, std::span<const gpu::programs::Header> headers,
    std::span<const char* const> options, u32 architecture);

}  // namespace xdpgpu::compiler
