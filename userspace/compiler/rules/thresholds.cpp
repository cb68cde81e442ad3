// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/thresholds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "userspace/compiler/rules/lower_header.hpp"

namespace xdpgpu::rules {
namespace {

using Name = std::pair<u32, u32>;  // gid and sid

gpu::AlertLimit::Type type_of(Threshold::Type type) {
  using To = gpu::AlertLimit::Type;
  switch (type) {
    case Threshold::Type::limit:
      return To::limit;
    case Threshold::Type::threshold:
      return To::threshold;
    case Threshold::Type::both:
      return To::both;
    case Threshold::Type::detection_filter:
      return To::detection_filter;
  }
  return To::none;
}

gpu::AlertLimit::Track track_of(Threshold::Track track) {
  using To = gpu::AlertLimit::Track;
  switch (track) {
    case Threshold::Track::by_src:
      return To::by_src;
    case Threshold::Track::by_dst:
      return To::by_dst;
    case Threshold::Track::by_both:
      return To::by_both;
    case Threshold::Track::by_rule:
      return To::by_rule;
  }
  return To::by_rule;
}

gpu::Suppression::Whose whose_of(const std::optional<Threshold::Track>& by) {
  using To = gpu::Suppression::Whose;
  if (!by) return To::anybody;
  switch (*by) {
    case Threshold::Track::by_src:
      return To::source;
    case Threshold::Track::by_dst:
      return To::destination;
    default:
      return To::either;
  }
}

}  // namespace

void give_thresholds(std::span<const Limit> lines, std::span<Rule> rules) {
  std::map<Name, std::pair<const Limit*, std::size_t>> of_one, of_many;
  for (std::size_t i = 0; i < lines.size(); i++) {
    const Limit& line = lines[i];
    if (line.what != Limit::What::threshold) continue;
    if (line.sid != 0)
      of_one[{line.gid, line.sid}] = {&line, i};
    else
      of_many.try_emplace({line.gid, 0}, &line, i);
  }
  const auto find = [](const auto& among, const Name& name) {
    const auto found = among.find(name);
    return found == among.end() ? std::pair<const Limit*, std::size_t>{} : found->second;
  };
  for (Rule& rule : rules) {
    auto [line, at] = find(of_one, {rule.gid, rule.sid});
    if (line == nullptr) {
      if (rule.threshold) continue;
      const auto all = find(of_many, {0, 0}), of_gid = find(of_many, {rule.gid, 0});
      const bool first = of_gid.first == nullptr || (all.first != nullptr && all.second < of_gid.second);
      line = first ? all.first : of_gid.first;
    }
    if (line != nullptr) rule.threshold = line->threshold;
  }
}

u64 rate_filters(std::span<const Limit> lines) {
  return static_cast<u64>(std::count_if(
      lines.begin(), lines.end(), [](const Limit& line) { return line.what == Limit::What::rate_filter; }));
}

std::vector<gpu::Suppression> suppressions_of(std::span<const Limit> lines) {
  std::vector<gpu::Suppression> made;
  for (const Limit& line : lines)
    if (line.what == Limit::What::suppress)
      made.push_back({line.gid, line.sid, whose_of(line.by), lower_addresses(line.addresses)});
  std::stable_sort(made.begin(), made.end(), [](const auto& one, const auto& other) {
    return Name(one.gid, one.sid) < Name(other.gid, other.sid);
  });
  return made;
}

gpu::AlertLimit limit_of(const Rule& rule) {
  if (!rule.threshold) return {};
  const auto& [type, track, count, seconds] = *rule.threshold;
  return {type_of(type), track_of(track), count, seconds};
}

std::optional<std::string> not_limited(const Rule& rule) {
  if (!rule.threshold) return {};
  const bool only_alerts =
      rule.header.action == Action::alert || rule.threshold->type == Threshold::Type::limit;
  if (!only_alerts) return "what it does to packets depends on how often it matched";
  if (rule.threshold->count > gpu::kMostAlertCount)
    return fmt::format("it counts further than {}", gpu::kMostAlertCount);
  return {};
}

}  // namespace xdpgpu::rules
