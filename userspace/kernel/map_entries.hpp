// SPDX-License-Identifier: MIT
//
// userspace/kernel/map_entries.hpp: what is in a map of the kernel, by its descriptor: read as a whole, and
// changed. Needs no privilege. Both make system calls for each entry, and are for threads that may wait.
#pragma once

#include <string>
#include <vector>

#include "userspace/kernel/kernel.hpp"
#include "userspace/kernel/map_twins.hpp"

namespace xdpgpu::kernel {

// Of a type of maps (enum bpf_map_type): a hash, an array, one of each CPU's, an LRU hash, an LPM trie.
bool has_entries(u32 type);

// Of the map that the descriptor is of. Refused are other types, and a map whose
// entries may take more than most_bytes of keys and values. Programs and others may write meanwhile: an entry
// is read as it was at some time of the look; one that comes or goes may be there or not, and one that
// goes from a trie may have the value of a shorter prefix. A hash from which
// others delete all the time may be refused: ask again. The error is a sentence without a name.
Result<MapEntries> read_entries(int map, u64 most_bytes);

// What could not be done, as the map is now.
struct MapLeft {
  // Keys of entries that somebody wrote since they were seen: his stand, and the next look finds them. And of
  // those that could not be written, or read again.
  std::vector<MapBytes> changed{};
  // Keys for which there was no room: the kernel's `after` is to be without them.
  std::vector<MapBytes> full{};
  std::string problem{};  // why an entry could not be written; empty: none
  bool operator==(const MapLeft&) const = default;
};
// `seen`: the entries of the look that the changes are of. An entry that is not as it was then is left as it
// is. Somebody who writes between that check and the change is overwritten: the kernel has no way to ask for
// both. Of an array nothing can be erased. Fails without effect.
Result<MapLeft> write_changes(int map, const MapChanges& changes, const MapEntries& seen);

}  // namespace xdpgpu::kernel
