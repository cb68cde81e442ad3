// SPDX-License-Identifier: MIT
//
// gpu/rule_grid.hpp: a coarse map of rules with conditions on several fields (dimensions) that tells for each
// cell which blocks of rules can match there at all. `acl` has one (gpu/stages/image.h), and the XDP
// program's rules have one (maps/tables.h).
//
// Classes of a dimension, in the order of their numbers (which is the order of the field's values), are cut
// into equal runs; a run is a coordinate. How finely each dimension is cut is chosen greedily: double where
// that lowers the number of rules an average cell is touched by the most, while it is worth the memory.
#pragma once

#include <span>
#include <vector>

#include "maps/types.h"

namespace xdpgpu::gpu {

// A dimension's classes, 1 at least: of each the set of rules whose conditions hold there, a bit a rule.
struct RuleClasses {
  const u64* sets = nullptr;
  u64 stride = 0;  // words from one set to the next, no fewer than the rules need
  u32 count = 0;
};

struct RuleGridLimits {
  u64 cells = 0;  // at most
  u32 worst = 0;  // blocks to look into in any cell: no finer than that
  u32 block = 1;  // 64-rule words in a block; there are at most 64 blocks
};

struct RuleGrid {
  std::vector<std::vector<u32>> coarse;  // by dimension, by class; they add up to the cell's number
  std::vector<u64> cells;                // a bit a block
};

// Whether a class's set has all of the `rules` rules. Where it has not, one class alone does not mean that
// the dimension tells nothing apart: rules may have conditions there that no packet meets.
bool holds_all(std::span<const u64> set, u64 rules);

RuleGrid build_rule_grid(std::span<const RuleClasses> dimensions, u32 rules, const RuleGridLimits& limits);

}  // namespace xdpgpu::gpu
