// SPDX-License-Identifier: MIT
//
// gpu/program_shards.hpp: how an LRU hash is cut into shards, where a program's packets are ordered by its
// key (gpu/program_keys.hpp).
//
// Each shard is an LRU hash of its own, and a keyed hash says which one a key is in. So what becomes of a key
// hangs on the packets of its shard alone. A shard that is full loses its own entry that was not used for
// longest, exactly.
//
// A shard has room for eight standard deviations more than its share of the map's entries: chance fills one
// before the map has as many as it was made for less than once in a billion maps. The whole may have more
// than that, then, as the kernel's LRU hash may have fewer.
#pragma once

#include "gpu/programs.hpp"

namespace xdpgpu::gpu::programs {

// Elements of a shard that wait for the end of a packet's run, at most, and one that is taken meanwhile.
inline constexpr u32 kShardSpare = 16;

struct Shards {
  u32 bits = 0;     // 2^bits of them
  u32 entries = 0;  // of each, at most
  u64 all() const { return u64{entries} << bits; }
};

// Of a map of any type: one of few entries has a single shard, of as many entries as the map.
Shards shards_of(const Map& map);

}  // namespace xdpgpu::gpu::programs
