// SPDX-License-Identifier: MIT
//
// gpu/program_keys.hpp: whether a program looks into its LRU hashes by one key alone, so that its packets may
// be ordered by it.
//
// A program like a load balancer's makes a flow's key on its stack, and looks up, updates and deletes what
// its LRU hashes have under it. What comes of its packet hangs on what earlier packets of the same key did,
// and on no other's.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <tuple>

#include "gpu/programs.hpp"

namespace xdpgpu::gpu::programs {

// A call of a helper by which a program comes to an LRU hash.
struct KeyedCall {
  u32 at = 0;              // instruction
  u64 maps = 0;            // a bit each: those that it may be of
  std::int64_t place = 0;  // of the key on the stack, from its end: negative
  bool changes = false;    // an update, or a deletion
  bool operator<(const KeyedCall& other) const {
    return std::tie(at, maps, place, changes) < std::tie(other.at, other.maps, other.place, other.changes);
  }
};
// What an instruction may write to the stack.
struct StackWrite {
  u32 at = 0;
  std::int64_t place = 0;
  u32 bytes = 0;
  bool operator<(const StackWrite& other) const {
    return std::tie(at, place, bytes) < std::tie(other.at, other.place, other.bytes);
  }
};

// Why it is not so, of a program that calls no functions of its own; empty: it is. The end of a sentence.
std::string why_no_key(const Program& program, const std::set<KeyedCall>& calls,
                       const std::set<StackWrite>& writes);

}  // namespace xdpgpu::gpu::programs
