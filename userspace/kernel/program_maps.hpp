// SPDX-License-Identifier: MIT
//
// userspace/kernel/program_maps.hpp: a program's maps, made in the kernel: with few entries, to have the
// program verified (verifier.hpp), or as large as the object says, to have it run there (user_program.hpp).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "gpu/programs.hpp"
#include "userspace/kernel/kernel.hpp"

namespace xdpgpu::kernel {

// What keys and values of maps are, for who looks at them: BTF, as clang makes it of the object's source.
struct MapTypes {
  struct Of {
    u32 key = 0, value = 0;  // types' numbers; value 0: nothing is known
    bool operator==(const Of&) const = default;
  };
  std::vector<u8> btf{};
  std::vector<Of> maps{};  // by the maps' numbers, of the first ones
  bool operator==(const MapTypes&) const = default;
};

// How many entries a map is made with.
using EntriesOf = u32 (*)(const gpu::programs::Map& map);

// What the kernel allocates, about. No sum is beyond 64 bits: a program's maps are within bounds
// (userspace/compiler/programs/check.hpp).
struct MapsSize {
  u64 bytes = 0;
  u64 per_cpu_entries = 0;  // of maps of each CPU's, on all of them
};
MapsSize size_of(const std::vector<gpu::programs::Map>& maps, EntriesOf entries);

// As the kernel has names of maps and programs: letters, digits, "_" and ".", as many as it takes.
std::string name_in_kernel(std::string_view name);
bool is_of_each_cpu(const gpu::programs::Map& map);

// Whether the kernel has a copy of a map of a program that a device runs, kept in step with the device's
// (map_twins.hpp): it is of a type that has entries, not of too many, and no constants. Each look takes a
// multiple of that in memory.
inline constexpr u64 kMostKeptEntries = u64{1} << 18,
                     kMostKeptBytes = u64{1} << 25;  // keys, values of all CPUs
bool is_kept_in_step(const gpu::programs::Map& map);

// Why there is a map that is made for no program, as half a sentence; empty: there is none.
std::string why_not_made(const std::vector<gpu::programs::Map>& maps);
// All of them, by their numbers, with what the object says that they begin with. The error is the end of a
// sentence about the kernel: "refuses to make the map ...". A map whose types the kernel does not take has
// none.
Result<std::vector<Fd>> make_maps(const std::vector<gpu::programs::Map>& maps, EntriesOf entries,
                                  const MapTypes& types = {});

}  // namespace xdpgpu::kernel
