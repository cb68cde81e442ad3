// SPDX-License-Identifier: MIT
//
// gpu/reference/program_instructions.hpp: what single instructions compute, by RFC 9669: arithmetic, byte
// swaps, conditions and atomic operations; numbers in, numbers out.
#pragma once

#include <optional>

#include "gpu/programs.hpp"

namespace xdpgpu::gpu::reference {

// Numbers of RFC 9669 that older <linux/bpf.h> do not name.
inline constexpr u8 kProgramSignedLoads = 0x80;  // mode MEMSX

// An instruction of the classes ALU and ALU64: what its destination becomes. `destination`: what it has.
// `source`: what the source register has; not looked at where the operand is the immediate. Nothing: RFC 9669
// has no such instruction.
std::optional<u64> computed(const programs::Instruction& instruction, u64 destination, u64 source);

// One of the classes JMP and JMP32 that is no call, exit or jump without a condition: whether it jumps.
std::optional<bool> jumps(const programs::Instruction& instruction, u64 destination, u64 source);

// An atomic operation on `bytes` (4 or 8) of memory, which have `memory`. r0: the register of that number.
struct AtomicResult {
  u64 memory = 0;             // its new value
  std::optional<u64> source;  // what the source register becomes; nothing: what it was
  std::optional<u64> r0;      // likewise
};
std::optional<AtomicResult> atomic(const programs::Instruction& instruction, u32 bytes, u64 memory,
                                   u64 source, u64 r0);

}  // namespace xdpgpu::gpu::reference
