// SPDX-License-Identifier: MIT
//
// gpu/program_kinds.hpp: what registers of a program most likely hold where an instruction is reached, of
// gpu/program_translation.cpp. It is no proof: text that is made by it looks whether it is so.
#pragma once

#include <array>
#include <map>
#include <span>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::gpu::programs {

// Words of one instruction (gpu/stages/program_numbers.h).
struct Operation {
  u32 operation = 0, destination = 0, source = 0, bytes = 0;
  bool takes_register = false, narrow = false, with_sign = false;
  u32 flags = 0, what = 0;
  u64 immediate = 0;
};
Operation operation_at(std::span<const u32> code, u32 at);

struct Kind {
  enum class Of : u8 { nothing, anything, context, packet, stack, value, map } of = Of::nothing;
  u32 number = 0;  // of the function whose stack it is, the entry's 0; of the map
  bool operator==(const Kind&) const = default;
};

// Of one function's run.
struct Kinds {
  std::array<Kind, 11> registers{};
  std::map<std::int32_t, Kind>
      spilled;           // by the place of 8 bytes in its own stack, as it is counted from R10
  bool changed = false;  // some map may have been changed by then: else it is certain that none was
  bool operator==(const Kinds&) const = default;
};

// One function of a program.
struct Function {
  std::vector<u32> instructions;  // those that are reached, ascending; without second halves of numbers
  std::map<u32, Kinds> at_block;  // by the first instruction of a block
};

// The function that begins at `start`, called with these, whose stack has that number. Jumps and calls of the
// code go to instructions. keeps_order: no look-up changes a map.
Function followed(std::span<const u32> code, u32 start, const Kinds& given, u32 stack, bool keeps_order);
// What an instruction makes of it.
void follow(const Operation& one, u32 stack, bool keeps_order, Kinds& kinds);

// Whether some function of the code has a loop. Jumps go to instructions.
bool goes_round(std::span<const u32> code);

// Whether a block ends behind it.
bool ends_block(u32 operation);

}  // namespace xdpgpu::gpu::programs
