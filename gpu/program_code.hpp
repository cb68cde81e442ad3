// SPDX-License-Identifier: MIT
//
// gpu/program_code.hpp: XDP programs as devices run them (gpu/stages/program_code.h): decoded once, checked
// once.
#pragma once

#include <array>
#include <span>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "gpu/program_counts.hpp"
#include "gpu/programs.hpp"

namespace xdpgpu::gpu::programs {

struct Image {
  std::vector<u32> code;    // four words an instruction
  std::vector<u32> tables;  // of the maps' records and the programs' places (gpu/stages/program_memory.h)
  std::vector<u32> state;   // the maps' memory at first (gpu/stages/program_maps.h)
  // Of stacks so many bytes are needed, a multiple of 8: what XG_PROGRAM_STACK_BYTES has to be at least.
  u32 stack_bytes = 0;
};

struct ImageSettings {
  u32 queues = 1;  // receive queues, from 0 on: a packet's is one of them
  // Of the hash that maps find keys by: drawn at random, kept with the state, and told to nobody who sends
  // packets.
  std::array<u64, 2> key{};
  // Maps that are entries of maps of maps, numbered behind the programs' own.
  std::vector<Map> inner = {};
  // Of the set's only program, which is run side by side; it outlives the call. nullptr: programs run one
  // after the other.
  const Counts* counts = nullptr;
  // Packets are ordered by the key of its LRU hashes: these are sharded (gpu/program_shards.hpp).
  bool by_key = false;
};

// Programs that share the first one's maps, which each of them has all of, and may call each other's tails;
// at least one. The error says what devices do not do yet, or what is no program, and which instruction it
// is. Tables and state hang on maps and settings alone: with other programs of the same maps the state goes
// on.
tl::expected<Image, std::string> image_of(std::span<const Program> programs, const ImageSettings& settings);

}  // namespace xdpgpu::gpu::programs
