// SPDX-License-Identifier: MIT
//
// gpu/acl_grid.hpp: the grid of gpu/stages/image.h: a coarse map of `acl` rules that tells for each cell
// which blocks of rules can match there at all.
//
// Classes of a dimension, in the order of their numbers (which is the order of the field's values), are cut
// into equal runs; a run is a coordinate. How finely each dimension is cut is chosen greedily: double where
// that lowers the number of rules an average cell is touched by the most, while it is worth the memory.
#pragma once

#include <array>
#include <vector>

#include "gpu/acl_classes.hpp"
#include "gpu/stages/image.h"

namespace xdpgpu::gpu {

inline constexpr u64 kAclMaxCells = u64{1} << 18;

struct AclGrid {
  std::array<std::vector<u32>, XG_ACL_DIMENSIONS> coarse;  // by class; they add up to the cell's number
  std::vector<u64> cells;                                  // a bit a block
};

// block: 64-rule words in a block; there are at most 64 blocks.
AclGrid build_acl_grid(const std::vector<AclClasses>& dimensions, u32 rules, u32 block);

}  // namespace xdpgpu::gpu
