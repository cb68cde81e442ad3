// SPDX-License-Identifier: MIT
//
// userspace/compiler/programs/needs.hpp: what a program needs of whoever runs it, as its instructions say,
// and what of that no device will have: the definition (gpu/reference/program.hpp) has it not. What a stage
// does not do for a program is the stage's to say (gpu/stages/program).
#pragma once

#include "userspace/compiler/programs/map_uses.hpp"
#include "userspace/compiler/programs/object.hpp"

namespace xdpgpu::programs {

struct Need {
  std::string name;
  u32 number = 0;       // of a helper (BPF_FUNC_*) or a type of maps (enum bpf_map_type)
  u64 times = 0;        // instructions that ask for it; of a type of maps: maps
  std::string missing;  // why it is not there; empty: it is
};

struct MapNeed {
  std::string type;
  u64 times = 0;  // instructions that name it
  MapUse use = MapUse::unknown;
  std::string missing;  // why the device does not begin with it as the object says; empty: it does
};

struct Needs {
  u64 instructions = 0, functions = 0;
  std::vector<Need> helpers, map_types;  // by their numbers
  std::vector<Need> kinds;               // of instructions, beside loads, stores, jumps and plain arithmetic
  std::vector<MapNeed> maps;             // in the program's order
  bool met() const;
};

// Of a program within its bounds, and of those that it goes on with.
Needs needs_of(const ObjectProgram& object);
// What of it is not there, as half a sentence each: "helper NAME: why".
std::vector<std::string> missing_of(const ObjectProgram& object, const Needs& needs);

// Why a program, whoever made it, is not to run in XDP itself, as half a sentence behind what calls it: it
// calls a helper that would get at more of the host than its packets and its maps, or that means something
// else there than on devices. Empty: it may run there, if the kernel's verifier takes it.
std::string why_not_in_kernel(const Program& program);

// What a program, or one of those that it goes on with, does to each of its maps.
std::vector<MapUse> uses_of(const Program& program);

// "map_lookup_elem"; a number that this build does not know: "helper 999".
std::string helper_name(u32 number);
// "percpu_array"; likewise.
std::string map_type_name(u32 type);

}  // namespace xdpgpu::programs
