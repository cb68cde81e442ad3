// SPDX-License-Identifier: MIT
#include <algorithm>
#include "gpu/stages/compilers.hpp"

#include "gpu/stages/acl/device.h"
#include "gpu/stages/acl/rows.hpp"

namespace xdpgpu::gpu {
Result<Placed> emit(const AclSettings& stage, Compiled& to) {
  return append_acl(stage, to).map([](u32 body) { return Placed{body}; });
}

std::optional<std::string> sends(const AclSettings& stage) {
  const auto rule = std::find_if(stage.rules.begin(), stage.rules.end(),
                                 [](const AclRule& one) { return sends(one.action); });
  if (rule == stage.rules.end()) return std::nullopt;
  return fmt::format("rule \"{}\"", rule->name);
}

bool drops(const AclSettings& stage) {
  return stage.otherwise == Action::drop ||
         std::any_of(stage.rules.begin(), stage.rules.end(),
                     [](const AclRule& one) { return one.action == Action::drop; });
}

std::vector<StageRule> rules_of(const AclSettings& stage) {
  std::vector<StageRule> rules;
  rules.reserve(stage.rules.size());
  for (const AclRule& one : stage.rules) rules.push_back({one.name, one, one.action});
  return rules;
}

void settle(AclSettings& stage, const Written& written) {
  for (std::size_t i = 0; i < stage.rules.size(); i++)
    if (stage.rules[i].name.empty()) stage.rules[i].name = fmt::format("rule {}", i + 1);
  const auto families = [](const std::vector<Prefix>& prefixes) {
    u32 seen = prefixes.empty() ? 3 : 0;
    for (const Prefix& one : prefixes) seen |= one.family == 4 ? 1 : 2;
    return seen;
  };
  written.each("rules", stage.rules.size(), [&](std::size_t i, const Written& rule) {
    const AclRule& one = stage.rules[i];
    const auto why = never_met({.protocols = one.protocols,
                                .flags = one.tcp_flags.has_value(),
                                .ports = !one.src_ports.empty() || !one.dst_ports.empty(),
                                .src_families = families(one.src),
                                .dst_families = families(one.dst)});
    if (!why.empty()) rule.refuse("match", std::string(why));
  });
}

std::optional<u32> cached_undecided(const AclSettings& stage) {
  return stage.cache ? std::optional(stage.cache_ttl_ms) : std::nullopt;
}

std::string describe(const AclSettings& stage, u32 rule, const xg_result*) {
  if (rule == 0) return " otherwise";
  const bool named = rule <= stage.rules.size() && !stage.rules[rule - 1].name.empty();
  return fmt::format(" rule {}{}", rule, named ? " (" + stage.rules[rule - 1].name + ")" : "");
}

}  // namespace xdpgpu::gpu
