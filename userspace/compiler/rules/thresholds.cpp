// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/thresholds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "userspace/compiler/rules/lower_header.hpp"

namespace xdpgpu::rules {
namespace {

using Name = std::pair<u32, u32>;  // gid and sid

}  // namespace

void give_thresholds(std::span<const Limit> lines, std::span<Rule> rules) {
  std::map<Name, const Limit*> of_one, of_many;
  for (const Limit& line : lines) {
    if (line.what != Limit::What::threshold) continue;
    if (line.sid != 0)
      of_one[{line.gid, line.sid}] = &line;
    else
      of_many.try_emplace({line.gid, 0}, &line);
  }
  const auto find = [](const auto& among, const Name& name) {
    const auto found = among.find(name);
    return found == among.end() ? nullptr : found->second;
  };
  for (Rule& rule : rules) {
    const Limit* line = find(of_one, {rule.gid, rule.sid});
    if (line == nullptr && !rule.threshold) {
      const Limit *const all = find(of_many, {0, 0}), *const of_gid = find(of_many, {rule.gid, 0});
      line = all == nullptr || (of_gid != nullptr && of_gid < all) ? of_gid : all;
    }
    if (line != nullptr) rule.threshold = line->threshold;
  }
}

u64 rate_filters(std::span<const Limit> lines) {
  return static_cast<u64>(std::count_if(
      lines.begin(), lines.end(), [](const Limit& line) { return line.what == Limit::What::rate_filter; }));
}

std::vector<gpu::Suppression> suppressions_of(std::span<const Limit> lines) {
  std::map<std::pair<Name, gpu::Suppression::Whose>, std::vector<gpu::signatures::Addresses>> all;
  for (const Limit& line : lines)
    if (line.what == Limit::What::suppress)
      all[{{line.gid, line.sid}, line.whose}].push_back(lower_addresses(line.addresses));
  std::vector<gpu::Suppression> made;
  made.reserve(all.size());
  for (const auto& [of, addresses] : all)
    made.push_back({of.first.first, of.first.second, of.second, united(addresses)});
  return made;
}

SuppressedForSome::SuppressedForSome(std::span<const gpu::Suppression> lines) {
  for (const gpu::Suppression& line : lines)
    if (line.whose != gpu::Suppression::Whose::anybody) rules_.emplace(line.gid, line.sid);
}

bool SuppressedForSome::contains(const Rule& rule) const {
  return rules_.contains({0, 0}) || rules_.contains({rule.gid, 0}) || rules_.contains({rule.gid, rule.sid});
}

std::optional<std::string> not_limited(const Rule& rule) {
  if (!rule.threshold) return {};
  if (rule.threshold->count > gpu::kMostAlertCount)
    return fmt::format("it counts further than {}", gpu::kMostAlertCount);
  return {};
}

}  // namespace xdpgpu::rules
