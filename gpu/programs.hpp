// SPDX-License-Identifier: MIT
//
// gpu/programs.hpp: XDP programs as plain values: instructions as RFC 9669 has them, relocated, and the maps
// that they name. userspace/compiler/programs makes them of objects; gpu/reference/program.hpp runs one.
//
// An instruction of 64 bits of immediate is two of these. What it loads is said by its source register, in
// the words of <linux/bpf.h>:
//
//   0                          a number
//   BPF_PSEUDO_MAP_IDX         the map with the number `immediate`
//   BPF_PSEUDO_MAP_IDX_VALUE   the same map's only value, from the byte on that the second one's `immediate`
//                              says
//   BPF_PSEUDO_FUNC            the function at this instruction + 1 + `immediate`
//
// A call with the source register BPF_PSEUDO_CALL is of the function at this instruction + 1 + `immediate`;
// with 0 it is of the helper with that number.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::gpu::programs {

struct Instruction {
  u8 opcode = 0;
  u8 destination = 0;  // registers, 0 to 10
  u8 source = 0;
  std::int16_t offset = 0;
  std::int32_t immediate = 0;
  bool operator==(const Instruction&) const = default;
};

struct Map {
  std::string name;
  u32 type = 0;  // enum bpf_map_type
  u32 key_bytes = 0, value_bytes = 0;
  u32 entries = 0;  // the most there can be
  u32 flags = 0;    // BPF_F_*
  // Number of the map that those in it are like, where it is a map of maps; -1: it is none.
  std::int32_t inner = -1;
  // Nobody changes it any more, as libbpf has it with constants (.rodata): the verifier knows what is in it.
  // BPF_F_RDONLY_PROG alone says no more than that programs do not.
  bool constant = false;
  // What an array has at first (.data, .rodata, .bss); empty: zeros.
  std::vector<u8> contents;
  bool operator==(const Map&) const = default;
};

// A program that another one goes on with (bpf_tail_call).
struct Tail {
  std::string name;
  std::vector<Instruction> instructions;  // as Program's; the maps are its, too
  bool operator==(const Tail&) const = default;
};

struct Program {
  std::string name;
  std::vector<Instruction> instructions;  // the entry's first, then those of the functions that it calls
  std::vector<Map> maps;
  std::string license;
  // What its prog_arrays may have, by numbers from 1 on: the program itself is 0.
  std::vector<Tail> tails = {};
  bool operator==(const Program&) const = default;
};

// The first instruction of a program, its tails left out, that calls bpf_fib_lookup.
std::optional<std::size_t> looks_up_routes(const Program& program);

// The program and its tails as programs, by their numbers; what maps begin with has the first one alone.
std::vector<Program> parts_of(const Program& program);

}  // namespace xdpgpu::gpu::programs
