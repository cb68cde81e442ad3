// SPDX-License-Identifier: MIT
//
// userspace/compiler/programs/check.hpp: whether a program's value is within its bounds, whoever made it:
// each instruction is one that RFC 9669 has, and names registers, maps, functions and jumps' targets that
// there are. What a program does is not looked at: that the kernel's verifier does.
#pragma once

#include <string>
#include <string_view>
#include <tl/expected.hpp>

#include "gpu/programs.hpp"

namespace xdpgpu::programs {

using gpu::programs::Instruction;
using gpu::programs::Map;
using gpu::programs::Program;

template <class T>
using Result = tl::expected<T, std::string>;

// The kernel's own: BPF_COMPLEXITY_LIMIT_INSNS, MAX_USED_MAPS, MAX_BPF_STACK.
inline constexpr u64 kMostInstructions = 1'000'000, kMostMaps = 64, kMostKeyBytes = 512;
inline constexpr u64 kMostTails = 64;
// Of keys and values of all maps together, a map of each CPU's counted once.
inline constexpr u64 kMostMapBytes = u64{1} << 30;
// Of names, and of a license: they are of printable ASCII, for they stand in reports.
inline constexpr u64 kMostNameBytes = 256;
// That begin with something, of an array.
inline constexpr u64 kMostFilledEntries = 65'536;

bool is_name(std::string_view text);
// What a stranger says, on one line: other characters are "?", and there are at most so many bytes.
std::string printable(std::string_view text, std::size_t most);

// The first instruction of each function, in order; the entry's, 0, is the first one. Of a program within its
// bounds.
std::vector<u32> function_starts(const Program& program);

// The error is a sentence that names the instruction or the map. Takes time and memory in proportion to the
// program.
Result<void> check(const Program& program);

}  // namespace xdpgpu::programs
