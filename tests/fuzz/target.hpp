// SPDX-License-Identifier: MIT
//
// tests/fuzz/target.hpp: what a fuzz target is made of. Beside libFuzzer's LLVMFuzzerTestOneInput, which
// judges an input and ends the process by fail() where something is wrong, each has seeds(), and of the
// others those that it needs (defaults.cpp has the rest):
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::fuzz {

using Bytes = std::vector<u8>;
using Input = std::span<const u8>;

// Inputs to begin with.
std::vector<Bytes> seeds();

// Inputs of kinds that are named, each judged once by driver.cpp: chance makes few of them.
std::vector<Bytes> cases();

// Judges what earlier inputs left for later.
void finish();

// What is not looked at on this host, a sentence each.
std::vector<std::string> left_out();

// Writes the input to a file in the working directory, says what is wrong, and aborts.
[[noreturn]] void fail(Input input, const std::string& what);

}  // namespace xdpgpu::fuzz

extern "C" int LLVMFuzzerTestOneInput(const u8* data, std::size_t size);
