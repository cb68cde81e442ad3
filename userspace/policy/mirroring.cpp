// SPDX-License-Identifier: MIT
#include "userspace/policy/mirroring.hpp"

#include <algorithm>

#include "userspace/policy/table_stages.hpp"

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
    if (gpu::remembers(pipeline.stages[i]) && !gpu::traits_of(pipeline.stages[i]).estimates)
      return stage_text(pipeline, i);
  return std::nullopt;
}

std::optional<std::string> inspector_in(const Pipeline& pipeline) {
  for (u64 i = 0; i < pipeline.stages.size(); ++i)
    if (gpu::traits_of(pipeline.stages[i]).inspects) return stage_text(pipeline, i);
  return std::nullopt;
}

std::optional<std::string> sender_in(const Pipeline& pipeline) {
  for (u64 i = 0; i < pipeline.stages.size(); ++i)
    if (const auto what = gpu::sends(pipeline.stages[i]))
      return stage_text(pipeline, i) + (what->empty() ? "" : ", " + *what);
    else if (gpu::traits_of(pipeline.stages[i]).edits)
      return stage_text(pipeline, i);
  return std::nullopt;
}

}  // namespace xdpgpu::policy
