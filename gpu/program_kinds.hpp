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
  enum class Of : u8 {
    nothing,
    anything,
    context,
    packet,
    stack,
    value,
    map,
    record,
    function
  } of = Of::nothing;
  u32 number = 0;  // of the function whose stack it is, the entry's 0; of the map; a function's instruction
  bool operator==(const Kind&) const = default;
};

// Of one function's run.
struct Kinds {
  std::array<Kind, 11> registers{};
  std::map<std::int32_t, Kind>
      spilled;           // by the place of 8 bytes in its own stack, as it is counted from R10
  bool changed = false;  // some map or the packet may have been by then: else it is certain that none was
  bool written = false;  // the packet may have been written to, or its ends moved; else it is as it came
  bool operator==(const Kinds&) const = default;
};

// One function of a program.
struct Function {
  std::vector<u32> instructions;  // those that are reached, ascending; without second halves of numbers
  std::map<u32, Kinds> at_block;  // by the first instruction of a block
};

// What nothing in a program does.
struct Keeps {
  bool order = true;   // no look-up changes a map
  bool packet = true;  // no function writes to the packet, or moves its ends
};
// Of the code by itself.
bool keeps_packet(std::span<const u32> code);

// The function that begins at `start`, called with these, whose stack has that number. Jumps and calls of the
// code go to instructions.
Function followed(std::span<const u32> code, u32 start, const Kinds& given, u32 stack, const Keeps& keeps);
// What an instruction makes of it.
void follow(const Operation& one, u32 stack, const Keeps& keeps, Kinds& kinds);

// Whether some function of the code has a loop. Jumps go to instructions.
bool goes_round(std::span<const u32> code);

// Whether a block ends behind it.
bool ends_block(u32 operation);

}  // namespace xdpgpu::gpu::programs
