// SPDX-License-Identifier: MIT
//
// gpu/program_counts.hpp: which changes of maps are counts, found before a program runs: whether its packets
// may be taken side by side.
//
// A count adds a number to 4 or 8 bytes of a map's value, by an atomic addition, or by a load, an addition
// and a store to the same place. Additions come to the same sum in any order. So packets may be taken side by
// side where nothing hangs on the bits that counts change: from the lowest bit that a number which is added
// may have to the word's top. Below it a word may have flags, as xdp-filter's do, which are read like any
// other value that nobody changes.
//
//     value = bpf_map_lookup_elem(&map, &key);
//     if (value && (*value & 3) == 3) *value += 64;   // bits 6 to 63 change, 0 and 1 are read
//
// Packets of a program that has LRU hashes beside that, and looks into them by one key, are ordered by it
// (gpu/program_keys.hpp): what it does to the values that it finds there is nobody else's business.
//
// All paths are followed, with what is known of each register and of the stack: which bits of a number are
// known, which may hang on counts, what of a value was loaded and what has been added to it since, where a
// pointer points. What cannot be followed is no count.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "gpu/programs.hpp"

namespace xdpgpu::gpu::programs {

// What the machine keeps, for a store that adds to what a load found.
inline constexpr u32 kMostKept = 16;

// Of a program, by its instructions' numbers.
struct Counts {
  std::map<u32, u32> loads;   // those that keep what they load -> at which place, below kMostKept
  std::map<u32, u32> stores;  // those that add what is between the two -> the load's place
  std::set<u32> atomics;      // atomic additions
};

enum class Taking {
  side_by_side,  // it changes no map
  counting,      // it only counts in maps: side by side, too
  by_key,        // side by side, but for those of one key of its LRU hashes; it only counts in other maps
  in_order,      // one packet after the other
};

// Of the value of a map: 4 or 8 bytes to which a program adds.
struct CountedBytes {
  u32 map = 0, at = 0, bytes = 8;
  bool operator==(const CountedBytes&) const = default;
};

struct Taken {
  Taking how = Taking::in_order;
  std::string why;  // as the end of a sentence: "it changes no map"
  Counts counts;    // where it counts
  // What it adds to, then: all that it changes of its maps, but for the keyed ones.
  std::vector<CountedBytes> counted{};
  // Those by whose key packets are ordered, by number.
  std::vector<u32> keyed{};
};

// Whether it may change some map. A store through anything but the stack's own register may be to a value.
bool changes_maps(const Program& program);

// How a device takes the packets of a program. What it does to them is each packet's own. The time is
// bounded, whatever the program is.
Taken how_taken(const Program& program);

}  // namespace xdpgpu::gpu::programs
