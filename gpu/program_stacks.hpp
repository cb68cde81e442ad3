// SPDX-License-Identifier: MIT
//
// gpu/program_stacks.hpp: how much of a stack each function of a program needs, found before it runs.
//
// The answer is never less than what a program that the kernel's verifier takes can reach. It follows
// pointers to the stack through registers, sums with constants and the stack itself. What it cannot follow
// (an offset that is not constant, a pointer that another function is given) has all 512 bytes. A program
// that makes such a pointer out of numbers, which the verifier does not let it use, may find less than it
// looks for: it is ended then.
#pragma once

#include <map>
#include <set>
#include <span>
#include <vector>

#include "gpu/programs.hpp"

namespace xdpgpu::gpu::programs {

inline constexpr std::size_t kMostFunctions = 256;  // of a program, as in the kernel (BPF_MAX_SUBPROGS)

struct StackNeed {
  u32 bytes = 0;        // a multiple of 8, 512 at most
  std::set<u32> calls;  // the functions that it calls, bpf_loop's among them
  bool tail_calls = false;
};

// Of each function, by its first instruction: the entry's, those that are called, those that are pointed to.
// Of more than kMostFunctions nothing is found out. The time is bounded by a multiple of the instructions.
std::map<u32, StackNeed> stack_needs(std::span<const Instruction> instructions);

// The most that the functions of a chain of calls have together, in any of the programs, whichever begins.
u32 deepest_stack(std::span<const std::map<u32, StackNeed>> programs);

}  // namespace xdpgpu::gpu::programs
