// SPDX-License-Identifier: MIT
#include "gpu/rule_grid.hpp"

#include <algorithm>
#include <array>
#include <bit>

namespace xdpgpu::gpu {
namespace {

constexpr u32 kMaxLevel = 12;         // a dimension has at most 2^12 coordinates
constexpr double kEnough = 0.5;       // rules an average cell is touched by needlessly: no finer than this
constexpr double kWorthWhile = 0.03;  // least part of the cost that a doubling of the grid must save

u32 words_of(u32 rules) { return std::max(1u, (rules + 63) / 64); }

// One dimension cut at all levels: level b has at most 2^b coordinates.
class Cuts {
 public:
  Cuts(const RuleClasses& classes, u32 rules)
      : classes_(classes.count), words_(words_of(rules)), rules_(rules) {
    top_ = std::min(kMaxLevel, static_cast<u32>(std::bit_width(classes_ - 1)));
    finest_ = std::min(classes_, 1u << top_);
    levels_.resize(top_ + 1);
    Level& finest = levels_[top_];
    finest.sets.assign(u64{finest_} * words_, 0);
    for (u32 id = 0; id < classes_; ++id)
      for (u32 w = 0; w < words_; ++w)
        finest.sets[u64{coordinate(id, top_)} * words_ + w] |= classes.sets[id * classes.stride + w];
    for (u32 level = top_;; --level) {
      levels_[level].touched = count(levels_[level].sets);
      if (level == 0) break;
      join(levels_[level].sets, levels_[level - 1].sets);
    }
  }
  u32 top() const { return top_; }
  u32 coordinate(u32 id, u32 level) const {
    return static_cast<u32>(u64{id} * finest_ / classes_) >> (top_ - level);
  }
  u32 coordinates(u32 level) const { return static_cast<u32>(levels_[level].sets.size() / words_); }
  // The rules that touch a coordinate.
  std::span<const u64> set(u32 level, u32 at) const {
    return std::span(levels_[level].sets).subspan(u64{at} * words_, words_);
  }
  // The part of the level's coordinates that the rule touches.
  double share(u32 level, u32 rule) const {
    return double(levels_[level].touched[rule]) / double(coordinates(level));
  }

 private:
  void join(const std::vector<u64>& sets, std::vector<u64>& coarser) const {
    const u64 count = sets.size() / words_;
    coarser.assign((count + 1) / 2 * words_, 0);
    for (u64 i = 0; i < count; ++i)
      for (u32 w = 0; w < words_; ++w) coarser[i / 2 * words_ + w] |= sets[i * words_ + w];
  }
  // How many of the sets each rule is in, added up bit by bit (64 rules at once).
  std::vector<u32> count(const std::vector<u64>& sets) const {
    std::vector<u32> counts(rules_, 0);
    for (u32 w = 0; w * 64 < rules_; ++w) {
      std::array<u64, kMaxLevel + 1> digits{};
      for (u64 at = w; at < sets.size(); at += words_) {
        u64 carry = sets[at];
        for (u32 d = 0; carry != 0; ++d) {
          const u64 both = digits[d] & carry;
          digits[d] ^= carry;
          carry = both;
        }
      }
      for (u32 rule = w * 64; rule < std::min(rules_, w * 64 + 64); ++rule)
        for (u32 d = 0; d <= kMaxLevel; ++d)
          counts[rule] |= static_cast<u32>(digits[d] >> rule % 64 & 1) << d;
    }
    return counts;
  }

  struct Level {
    std::vector<u64> sets;
    std::vector<u32> touched;
  };
  u32 classes_, words_, rules_;
  u32 top_ = 0, finest_ = 1;
  std::vector<Level> levels_;
};

using Levels = std::vector<u32>;  // by dimension

u64 cell_count(const std::vector<Cuts>& cuts, const Levels& levels) {
  u64 cells = 1;
  for (u32 d = 0; d < cuts.size(); ++d) cells *= cuts[d].coordinates(levels[d]);
  return cells;
}

// How finely each dimension is cut, so that an average cell is touched by `enough` rules more than in the
// finest grid there could be.
Levels choose(const std::vector<Cuts>& cuts, u32 rules, u64 most_cells, double enough) {
  Levels levels(cuts.size(), 0);
  std::vector<double> share(rules, 1.0);  // of the cells that each rule touches
  // Rules that no cut can thin out cost the same in any grid.
  double least = 0;
  for (u32 r = 0; r < rules; ++r) {
    double product = 1;
    for (const auto& cut : cuts) product *= cut.share(cut.top(), r);
    least += product;
    if (product == 0) share[r] = 0;  // no packet can meet it
  }
  double cost = 0;
  for (double one : share) cost += one;
  while (cost - least > enough) {
    double best_cost = cost;
    std::size_t best = cuts.size();
    for (std::size_t d = 0; d < cuts.size(); ++d) {
      if (levels[d] == cuts[d].top()) continue;
      Levels finer = levels;
      ++finer[d];
      if (cell_count(cuts, finer) > most_cells) continue;
      double sum = 0;
      for (u32 r = 0; r < rules; ++r)
        if (share[r] != 0) sum += share[r] / cuts[d].share(levels[d], r) * cuts[d].share(finer[d], r);
      if (sum < best_cost) best_cost = sum, best = d;
    }
    if (best == cuts.size() || cost - best_cost < kWorthWhile * (cost - least)) break;
    for (u32 r = 0; r < rules; ++r)
      if (share[r] != 0)
        share[r] *= cuts[best].share(levels[best] + 1, r) / cuts[best].share(levels[best], r);
    ++levels[best];
    cost = best_cost;
  }
  return levels;
}

// Fills the sets of all cells, dimension by dimension, carrying only the words that are still not empty.
class Filler {
 public:
  Filler(const std::vector<Cuts>& cuts, const Levels& levels, const std::vector<u64>& strides, u32 block,
         std::vector<u64>& cells)
      : cuts_(cuts), levels_(levels), strides_(strides), block_(block), cells_(cells), next_(cuts.size()) {}

  struct Word {
    u32 index;
    u64 rules;
  };
  void fill(u32 dimension, u64 cell, const std::vector<Word>& live) {
    const u32 coordinates = cuts_[dimension].coordinates(levels_[dimension]);
    std::vector<Word>& next = next_[dimension];
    for (u32 c = 0; c < coordinates; ++c, cell += strides_[dimension]) {
      const auto set = cuts_[dimension].set(levels_[dimension], c);
      if (dimension + 1 >= cuts_.size()) {
        u64 blocks = 0;
        for (const Word& word : live)
          blocks |= u64{(word.rules & set[word.index]) != 0} << (word.index / block_);
        cells_[cell] = blocks;
        continue;
      }
      next.clear();
      for (const Word& word : live)
        if (const u64 rules = word.rules & set[word.index]; rules != 0) next.push_back({word.index, rules});
      if (!next.empty()) fill(dimension + 1, cell, next);
    }
  }

 private:
  const std::vector<Cuts>& cuts_;
  const Levels& levels_;
  const std::vector<u64>& strides_;
  u32 block_;
  std::vector<u64>& cells_;
  std::vector<std::vector<Word>> next_;  // by dimension
};

void fill_grid(RuleGrid& grid, std::span<const RuleClasses> dimensions, const std::vector<Cuts>& cuts,
               const Levels& levels, u32 rules, u32 block) {
  std::vector<u64> strides(cuts.size());
  u64 stride = 1;
  for (std::size_t d = cuts.size(); d-- > 0;) {
    strides[d] = stride;
    stride *= cuts[d].coordinates(levels[d]);
    for (u32 id = 0; id < dimensions[d].count; ++id)
      grid.coarse[d][id] = static_cast<u32>(cuts[d].coordinate(id, levels[d]) * strides[d]);
  }
  grid.cells.assign(stride, 0);
  std::vector<Filler::Word> all;
  for (u32 w = 0; w < words_of(rules); ++w) all.push_back({w, ~u64{0}});
  Filler(cuts, levels, strides, block, grid.cells).fill(0, 0, all);
}

// Blocks to look into where the most have to be.
u32 worst_cell(const RuleGrid& grid) {
  u32 worst = 0;
  for (u64 blocks : grid.cells) worst = std::max(worst, static_cast<u32>(std::popcount(blocks)));
  return worst;
}

}  // namespace

bool holds_all(std::span<const u64> set, u64 rules) {
  u64 held = 0;
  for (const u64 word : set) held += static_cast<u64>(std::popcount(word));
  return held == rules;
}

RuleGrid build_rule_grid(std::span<const RuleClasses> dimensions, u32 rules, const RuleGridLimits& limits) {
  RuleGrid grid;
  for (const RuleClasses& classes : dimensions) grid.coarse.emplace_back(classes.count, 0);
  const u32 blocks = (words_of(rules) + limits.block - 1) / limits.block;
  grid.cells.assign(1, rules == 0 ? 0 : blocks == 64 ? ~u64{0} : (u64{1} << blocks) - 1);
  if (blocks <= 2) return grid;  // there is hardly one to be spared

  std::vector<Cuts> cuts;
  cuts.reserve(dimensions.size());
  for (const RuleClasses& classes : dimensions) cuts.emplace_back(classes, rules);
  // The average cell is what is made cheap; where an adversary could sit in a cell that is not, finer.
  double enough = kEnough;
  for (Levels levels = choose(cuts, rules, limits.cells, enough);; enough /= 8) {
    fill_grid(grid, dimensions, cuts, levels, rules, limits.block);
    if (worst_cell(grid) <= limits.worst) break;
    Levels finer = choose(cuts, rules, limits.cells, enough / 8);
    if (finer == levels) break;
    levels = std::move(finer);
  }
  return grid;
}

}  // namespace xdpgpu::gpu
