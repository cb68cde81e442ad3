// SPDX-License-Identifier: MIT
//
// userspace/compiler/nvjitlink.hpp: NVIDIA's linker (nvJitLink), which makes machine code for a GPU of PTX,
// or of parts that are machine code already. It needs neither a GPU nor a driver, comes with the CUDA toolkit
// and is loaded where it is installed.
//
// https://docs.nvidia.com/cuda/nvjitlink/
#pragma once

#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::compiler {

// Loads the linker, for the process's life. Afterwards it asks the kernel for nothing but memory. Called
// before any other function here, from one thread at a time. The error is a sentence: what is not installed.
tl::expected<void, std::string> load_linker();

// "13.0": of the linker that is loaded, which decides what it makes. Empty: none is.
std::string linker_version();

// A cubin, or a fatbin of machine code or PTX.
struct LinkInput {
  std::span<const char> bytes;
  std::string name;  // by which the linker calls it where something is wrong with it
};

// One module of all of them, for that compute capability: a cubin. Takes its time. The error is what the
// linker says. Of a capability that it does not know it ends the process.
tl::expected<std::vector<char>, std::string> link_code(std::span<const LinkInput> inputs, u32 architecture);

}  // namespace xdpgpu::compiler
