// SPDX-License-Identifier: MIT
#include "userspace/policy/mirroring.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "userspace/policy/table_stages.hpp"
#include "userspace/policy/vocabulary.hpp"

namespace xdpgpu::policy {

bool mirrors(const Policy& policy) {
  return std::any_of(policy.rules.begin(), policy.rules.end(),
                     [](const Rule& rule) { return rule.action == Rule::Action::mirror; });
}

bool mirrors(const Policy& policy, const Rule& rule, bool to_tables) {
  if (rule.action != Rule::Action::mirror) return false;
  const auto pipeline = std::find_if(policy.pipelines.begin(), policy.pipelines.end(),
                                     [&](const Pipeline& one) { return one.name == rule.pipeline; });
  return !to_tables || (pipeline != policy.pipelines.end() && table_in(*pipeline));
}

bool mirrors_to_tables(const Policy& policy) {
  return std::any_of(policy.rules.begin(), policy.rules.end(),
                     [&](const Rule& rule) { return mirrors(policy, rule, true); });
}

std::optional<std::string> exact_table_in(const Pipeline& pipeline) {
  for (u64 i = 0; i < pipeline.stages.size(); ++i)
    if (has_table(pipeline.stages[i]) && !std::holds_alternative<DdosStage>(pipeline.stages[i]))
      return fmt::format("stage {} ({})", i + 1, words::kStage[pipeline.stages[i].index()]);
  return std::nullopt;
}

std::optional<std::string> sender_in(const Pipeline& pipeline) {
  for (u64 i = 0; i < pipeline.stages.size(); ++i) {
    const Stage& stage = pipeline.stages[i];
    const std::string where = fmt::format("stage {} ({})", i + 1, words::kStage[stage.index()]);
    const auto sends = [](const auto& one) { return one.action == "tx" || one.action == "redirect"; };
    if (const auto* reputation = std::get_if<ReputationStage>(&stage)) {
      const auto list = std::find_if(reputation->lists.begin(), reputation->lists.end(), sends);
      if (list != reputation->lists.end()) return fmt::format("{}, list \"{}\"", where, list->list);
      continue;
    }
    if (has_table(stage)) continue;
    const auto* acl = std::get_if<AclStage>(&stage);
    if (acl == nullptr) return where;
    const auto rule = std::find_if(acl->rules.begin(), acl->rules.end(), sends);
    if (rule != acl->rules.end()) return fmt::format("{}, rule \"{}\"", where, rule->name);
  }
  return std::nullopt;
}

}  // namespace xdpgpu::policy
