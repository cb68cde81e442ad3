// SPDX-License-Identifier: MIT
//
// userspace/policy/grid.hpp: the grid of maps/tables.h: a coarse map of the rules that tells for each
// cell which 64-rule words can match there at all.
//
// Classes of a dimension, in the order of their numbers (which is the order of their values), are cut
// into equal runs; a run is a coordinate. How finely each dimension is cut is chosen greedily: double
// where that lowers the number of rules an average cell is touched by the most, while it is worth the
// memory.
#pragma once

#include <array>
#include <vector>

#include "userspace/policy/rule_set.hpp"

namespace xdpgpu::policy {

inline constexpr u32 kMaxGridBits = 20;

struct Grid {
  std::array<std::vector<u32>, XG_DIMS> coarse;  // by class, multiplied into place
  std::vector<u64> cells;                        // 2^bits masks
  u32 bits = 0;
};
Grid build_grid(const std::array<const Classes*, XG_DIMS>& dimensions, u32 rule_count);

}  // namespace xdpgpu::policy
