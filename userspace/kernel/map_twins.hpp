// SPDX-License-Identifier: MIT
//
// userspace/kernel/map_twins.hpp: a map that is there twice: in the kernel, where an operator sees and writes
// it (bpftool), and on devices, where packets' programs do. What has to change on each side, so that they are
// in step, as plain values. Who asks looks at all sides, applies what is said, and keeps `after` for the next
// time; what somebody writes between the look and that is overwritten.
//
// Three kinds of maps, by what the program does:
//
//   it only reads it      changes(last, now): what the operator has written goes to the devices
//   it only counts in it  step_counts(): both sides may write
//   it changes it         step_changed(): the device's goes to the kernel
#pragma once

#include <chrono>
#include <map>
#include <span>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::kernel {

using MapBytes = std::vector<u8>;
// Value by key. A map of each CPU's has an entry's values one behind the other, as bpf(2) has them.
using MapEntries = std::map<MapBytes, MapBytes>;

struct MapChanges {
  MapEntries put;
  std::vector<MapBytes> erased;
  bool operator==(const MapChanges&) const = default;
};

// What makes `to` of `from`.
MapChanges changes(const MapEntries& from, const MapEntries& to);
void carry_out(const MapChanges& changes, MapEntries& to);

// A number in a value to which the program adds, and nothing else: 4 or 8 bytes, the host's order.
struct CountedWord {
  u32 at = 0, bytes = 8;
};

struct MapSides {
  MapEntries kernel;
  std::vector<MapEntries> devices;
};
struct MapStep {
  MapChanges kernel;
  std::vector<MapChanges> devices;  // as many as MapSides has
  MapSides after;                   // what all have when that is done
};

// `last`: `after` of the last step; empty at first. `words`: within the value, none over another.
// What devices have counted since is added to the kernel's, the sum of all; what the operator has added to
// such a word, or taken from it, is added to each device's. Sums wrap. All other bytes and the keys are the
// operator's: an entry that was not there last time begins on the devices with what the kernel has.
MapStep step_counts(const MapSides& last, const MapSides& now, std::span<const CountedWord> words);
// Makes `after` what it is where the kernel's entry of that key could not be written, as somebody else had
// written it: the next step finds both what he wrote and what devices have counted.
void leave_kernel(MapStep& step, const MapSides& last, const MapSides& now, const MapBytes& key,
                  std::span<const CountedWord> words);

// Of one device. kernel_wins: entries that the operator has written or deleted since the last step go to the
// device first. Without it they are overwritten. At first, without a last step, the operator has done
// nothing.
MapStep step_changed(const MapSides* last, const MapSides& now, bool kernel_wins);

// How long to wait from the end of one look to the next: `least`, and longer where the look took long, so
// that looks take no more than a twentieth of the time.
std::chrono::nanoseconds wait_after(std::chrono::nanoseconds took, std::chrono::nanoseconds least);

}  // namespace xdpgpu::kernel
