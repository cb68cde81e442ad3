// SPDX-License-Identifier: MIT
//
// userspace/compiler/rules/thresholds.hpp: how often rules alert, and for whom not: what they say themselves,
// and what threshold.config says of them.
#pragma once

#include <set>
#include <span>
#include <utility>

#include "gpu/rule_source.hpp"
#include "userspace/compiler/rules/rule.hpp"
#include "userspace/compiler/rules/selection.hpp"

namespace xdpgpu::rules {

// Gives rules the thresholds that a file's lines have for them. The last line about a rule by its gid and sid
// takes the place of the rule's own threshold; a line about many is for those that have none, the first such
// line.
void give_thresholds(std::span<const Limit> lines, std::span<Rule> rules);
// How many lines are of a kind that changes what packets meet, which is not done (rate_filter).
u64 rate_filters(std::span<const Limit> lines);
// By gid and sid. Lines about the same rules and ends are one, however many there are: what is looked up for
// an alert are a few of them, and an address in each.
std::vector<gpu::Suppression> suppressions_of(std::span<const Limit> lines);

// Rules that are suppressed for some and not for others: for whom, hosts alone know. What is suppressed for
// anybody is told of nobody, and does what it does.
class SuppressedForSome {
 public:
  explicit SuppressedForSome(std::span<const gpu::Suppression> lines);
  bool contains(const Rule& rule) const;

 private:
  std::set<std::pair<u32, u32>> rules_;  // by gid and sid, as the lines have them
};

// Why how often the rule matched cannot be followed as it asks for it: a sentence's end.
std::optional<std::string> not_limited(const Rule& rule);

}  // namespace xdpgpu::rules
