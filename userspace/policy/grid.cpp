// SPDX-License-Identifier: MIT
#include "userspace/policy/grid.hpp"

#include <algorithm>
#include <bit>

namespace xdpgpu::policy {
namespace {

constexpr u32 kMaxLevel = 12;         // a dimension has at most 2^12 coordinates
constexpr double kEnough = 0.5;       // rules an average cell is touched by needlessly: no finer than this
constexpr u32 kWorstWords = 8;        // words in any cell: no finer than this
constexpr double kWorthWhile = 0.03;  // least part of the cost that a doubling of the grid must save

// One dimension cut at all levels: level b has at most 2^b coordinates.
class Cuts {
 public:
  Cuts(const Classes& classes, u32 rule_count) : classes_(classes), rules_(rule_count) {
    top_ = std::min(kMaxLevel, static_cast<u32>(std::bit_width(classes.size() - 1)));
    u64 finest = std::min<u64>(classes.size(), 1ull << top_);
    std::vector<RuleSet> sets(finest);
    for (u32 id = 0; id < classes.size(); ++id) sets[coordinate(id, top_)] |= classes[id];
    levels_.resize(top_ + 1);
    for (u32 level = top_;; --level) {
      levels_[level].touched = count(sets);
      levels_[level].sets = sets;
      if (level == 0) break;
      std::vector<RuleSet> coarser((sets.size() + 1) / 2);
      for (u64 i = 0; i < sets.size(); ++i) coarser[i / 2] |= sets[i];
      sets = std::move(coarser);
    }
  }
  u32 top() const { return top_; }
  u32 coordinate(u32 id, u32 level) const {
    u64 finest = std::min<u64>(classes_.size(), 1ull << top_);
    return static_cast<u32>((id * finest / classes_.size()) >> (top_ - level));
  }
  const std::vector<RuleSet>& sets(u32 level) const { return levels_[level].sets; }
  // The part of the level's coordinates that the rule touches.
  double share(u32 level, u32 rule) const {
    return double(levels_[level].touched[rule]) / double(levels_[level].sets.size());
  }

 private:
  // How many of the sets each rule is in, added up bit by bit (64 rules at once).
  std::vector<u32> count(const std::vector<RuleSet>& sets) const {
    std::vector<u32> counts(rules_);
    for (u32 w = 0; w * 64 < rules_; ++w) {
      std::array<u64, kMaxLevel + 1> digits{};
      for (const auto& set : sets) {
        u64 carry = set.word[w];
        for (u32 d = 0; carry != 0; ++d) {
          u64 both = digits[d] & carry;
          digits[d] ^= carry;
          carry = both;
        }
      }
      for (u32 rule = w * 64; rule < std::min(rules_, w * 64 + 64); ++rule)
        for (u32 d = 0; d <= kMaxLevel; ++d) counts[rule] |= u32((digits[d] >> (rule % 64)) & 1) << d;
    }
    return counts;
  }
  struct Level {
    std::vector<RuleSet> sets;
    std::vector<u32> touched;
  };
  const Classes& classes_;
  u32 rules_;
  u32 top_;
  std::vector<Level> levels_;
};

using Levels = std::array<u32, XG_DIMS>;

u64 cell_count(const std::vector<Cuts>& cuts, const Levels& levels) {
  u64 cells = 1;
  for (u32 d = 0; d < XG_DIMS; ++d) cells *= cuts[d].sets(levels[d]).size();
  return cells;
}

Levels choose(const std::vector<Cuts>& cuts, u32 rules, double enough) {
  Levels levels{};
  std::vector<double> share(rules, 1.0);  // of the cells that each rule touches
  // Rules that no cut can thin out cost the same in any grid.
  double least = 0;
  for (u32 r = 0; r < rules; ++r) {
    double product = 1;
    for (const auto& cut : cuts) product *= cut.share(cut.top(), r);
    least += product;
    if (product == 0) share[r] = 0;  // no packet can meet it
  }
  double cost = rules;
  while (cost - least > enough) {
    double best_cost = cost;
    u32 best = XG_DIMS;
    for (u32 d = 0; d < XG_DIMS; ++d) {
      if (levels[d] == cuts[d].top()) continue;
      Levels finer = levels;
      ++finer[d];
      if (cell_count(cuts, finer) > 1ull << kMaxGridBits) continue;
      double sum = 0;
      for (u32 r = 0; r < rules; ++r)
        if (share[r] != 0) sum += share[r] / cuts[d].share(levels[d], r) * cuts[d].share(finer[d], r);
      if (sum < best_cost) best_cost = sum, best = d;
    }
    if (best == XG_DIMS || cost - best_cost < kWorthWhile * (cost - least)) break;
    for (u32 r = 0; r < rules; ++r)
      if (share[r] != 0)
        share[r] *= cuts[best].share(levels[best] + 1, r) / cuts[best].share(levels[best], r);
    ++levels[best];
    cost = best_cost;
  }
  return levels;
}

// Fills the masks of all cells, dimension by dimension, carrying only the words that are still not empty.
class Filler {
 public:
  Filler(const std::vector<Cuts>& cuts, const Levels& levels, std::array<u64, XG_DIMS> strides,
         std::vector<u64>& cells)
      : cuts_(cuts), levels_(levels), strides_(strides), cells_(cells) {}

  struct Live {
    u32 count = 0;
    std::array<u32, XG_RULE_WORDS> index;
    std::array<u64, XG_RULE_WORDS> word;
  };
  void fill(u32 dimension, u64 cell, const Live& live) {
    const auto& sets = cuts_[dimension].sets(levels_[dimension]);
    for (u64 c = 0; c < sets.size(); ++c, cell += strides_[dimension]) {
      if (dimension + 1 == XG_DIMS) {
        u64 mask = 0;
        for (u32 i = 0; i < live.count; ++i)
          mask |= u64{(live.word[i] & sets[c].word[live.index[i]]) != 0} << live.index[i];
        cells_[cell] = mask;
        continue;
      }
      Live next;
      for (u32 i = 0; i < live.count; ++i)
        if (u64 word = live.word[i] & sets[c].word[live.index[i]]; word != 0) {
          next.index[next.count] = live.index[i];
          next.word[next.count++] = word;
        }
      if (next.count != 0) fill(dimension + 1, cell, next);
    }
  }

 private:
  const std::vector<Cuts>& cuts_;
  const Levels& levels_;
  std::array<u64, XG_DIMS> strides_;
  std::vector<u64>& cells_;
};

void fill_grid(Grid& grid, const std::array<const Classes*, XG_DIMS>& dimensions,
               const std::vector<Cuts>& cuts, const Levels& levels, u32 words) {
  std::array<u64, XG_DIMS> strides{};
  u64 stride = 1;
  for (u32 d = XG_DIMS; d-- > 0;) {
    strides[d] = stride;
    stride *= cuts[d].sets(levels[d]).size();
    for (u32 id = 0; id < dimensions[d]->size(); ++id)
      grid.coarse[d][id] = static_cast<u32>(cuts[d].coordinate(id, levels[d]) * strides[d]);
  }
  grid.bits = static_cast<u32>(std::bit_width(stride - 1));
  grid.cells.assign(1ull << grid.bits, 0);
  Filler::Live all;
  for (u32 w = 0; w < words; ++w) {
    all.index[w] = w;
    all.word[w] = ~0ull;
  }
  all.count = words;
  Filler(cuts, levels, strides, grid.cells).fill(0, 0, all);
}

// Words to look into where the most have to be.
u32 worst_cell(const Grid& grid) {
  u32 worst = 0;
  for (u64 mask : grid.cells) worst = std::max(worst, static_cast<u32>(std::popcount(mask)));
  return worst;
}

}  // namespace

Grid build_grid(const std::array<const Classes*, XG_DIMS>& dimensions, u32 rule_count) {
  Grid grid;
  for (u32 d = 0; d < XG_DIMS; ++d) grid.coarse[d].assign(dimensions[d]->size(), 0);
  u32 words = (rule_count + 63) / 64;
  grid.cells.assign(1, words == 64 ? ~0ull : (1ull << words) - 1);
  if (rule_count <= 2 * 64) return grid;  // there are hardly words to choose from

  std::vector<Cuts> cuts;
  cuts.reserve(XG_DIMS);
  for (const auto* classes : dimensions) cuts.emplace_back(*classes, rule_count);
  // The average cell is what is made cheap; where an adversary could sit in a cell that is not, finer.
  double enough = kEnough;
  for (Levels levels = choose(cuts, rule_count, enough);; enough /= 8) {
    fill_grid(grid, dimensions, cuts, levels, words);
    if (worst_cell(grid) <= kWorstWords) break;
    Levels finer = choose(cuts, rule_count, enough / 8);
    if (finer == levels) break;
    levels = finer;
  }
  return grid;
}

}  // namespace xdpgpu::policy
