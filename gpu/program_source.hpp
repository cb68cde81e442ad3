// SPDX-License-Identifier: MIT
//
// gpu/program_source.hpp: what a policy names beside a program of an object, as a stage with the trait
// `programs` has it. userspace/policy/program_files.hpp reads it.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::gpu {

// What a map has at first, beside programs::Map::contents.
struct ProgramMapContents {
  u32 map = 0;  // number in the program's maps
  // Keys and values, as long as the map's.
  std::vector<std::pair<std::vector<u8>, std::vector<u8>>> entries{};
  bool operator==(const ProgramMapContents&) const = default;
};
// A program of the object in one of its prog_arrays, as a policy names it.
struct ProgramTail {
  u32 index = 0;
  std::string program{};  // its function's name
  bool operator==(const ProgramTail&) const = default;
};
// What a map has at first, as a policy names it.
struct ProgramMapFile {
  // Whose entries of a map that the program changes stand, where its device and somebody in the kernel's copy
  // of it have written to them.
  enum class Wins : u8 { device, kernel };

  std::string name;  // the map's in the object
  std::string file;  // relative to the policy; empty: there is none
  // Of a prog_array: all that it has. None: what the object says.
  std::vector<ProgramTail> programs{};
  Wins wins = Wins::device;
  bool operator==(const ProgramMapFile&) const = default;
};

}  // namespace xdpgpu::gpu
