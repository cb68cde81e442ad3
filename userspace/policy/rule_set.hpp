// SPDX-License-Identifier: MIT
//
// userspace/policy/rule_set.hpp: sets of compiled rules as bitmaps, and the classes of one dimension:
// each distinct set of rules that the values of the dimension can meet is a class.
#pragma once

#include <array>
#include <cstring>
#include <optional>
#include <unordered_map>
#include <vector>

#include "maps/tables.h"

namespace xdpgpu::policy {

inline constexpr u32 kMaxClasses = 65535;  // class ids are u16 in the index tables

struct RuleSet {
  std::array<u64, XG_RULE_WORDS> word{};

  void add(u32 rule) { word[rule / 64] |= 1ull << (rule % 64); }
  void remove(u32 rule) { word[rule / 64] &= ~(1ull << (rule % 64)); }
  bool has(u32 rule) const { return ((word[rule / 64] >> (rule % 64)) & 1) != 0; }
  RuleSet& operator|=(const RuleSet& other) {
    for (u32 i = 0; i < XG_RULE_WORDS; ++i) word[i] |= other.word[i];
    return *this;
  }
  bool operator==(const RuleSet&) const = default;
};

struct RuleSetHash {
  std::size_t operator()(const RuleSet& set) const noexcept {
    u64 hash = 0x9e3779b97f4a7c15ull;
    for (u64 word : set.word) hash = (hash ^ word) * 0xff51afd7ed558ccdull + (hash >> 29);
    return hash ^ (hash >> 32);
  }
};

// Classes are numbered in the order of their first appearance; class 0 is the empty set.
class Classes {
 public:
  Classes() { intern({}); }
  // Once there are more than kMaxClasses, full() says so and the answer is class 0.
  u32 intern(const RuleSet& rules) {
    if (sets_.size() > kMaxClasses) return 0;
    auto [at, fresh] = ids_.try_emplace(rules, static_cast<u32>(sets_.size()));
    if (fresh) sets_.push_back(rules);
    return at->second;
  }
  bool full() const { return sets_.size() > kMaxClasses; }
  u32 size() const { return static_cast<u32>(sets_.size()); }
  const RuleSet& operator[](u32 id) const { return sets_[id]; }
  // Rules that do not name this dimension belong to every class of it.
  void add_to_all(const RuleSet& rules) {
    for (auto& set : sets_) set |= rules;
    ids_.clear();
  }

 private:
  std::vector<RuleSet> sets_;
  std::unordered_map<RuleSet, u32, RuleSetHash> ids_;
};

}  // namespace xdpgpu::policy
