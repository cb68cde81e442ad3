// SPDX-License-Identifier: MIT
#include "gpu/program_shards.hpp"

#include <linux/bpf.h>

#include <algorithm>
#include <bit>

namespace xdpgpu::gpu::programs {
namespace {

constexpr u32 kShare = 128;  // entries of a shard's share, or a few more
constexpr u32 kMostBits = 14;
constexpr u64 kDeviations = 8;

u64 root(u64 of) {
  u64 found = 0;
  for (u64 bit = u64{1} << 31; bit != 0; bit >>= 1)
    if ((found | bit) * (found | bit) <= of) found |= bit;
  return found;
}

}  // namespace

Shards shards_of(const Map& map) {
  if (map.type != BPF_MAP_TYPE_LRU_HASH || map.entries < 2 * kShare) return {0, map.entries};
  const u32 bits = std::min(kMostBits, static_cast<u32>(std::bit_width(map.entries / kShare)) - 1);
  const u64 share = (u64{map.entries} + (u64{1} << bits) - 1) >> bits;
  return {bits, static_cast<u32>(share + kDeviations * (root(share) + 1))};
}

}  // namespace xdpgpu::gpu::programs
