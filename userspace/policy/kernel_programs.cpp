// SPDX-License-Identifier: MIT
#include "userspace/policy/kernel_programs.hpp"

#include <algorithm>
#include <cstring>

namespace xdpgpu::policy {

bool runs_in_kernel(const Pipeline& pipeline) {
  return std::any_of(pipeline.stages.begin(), pipeline.stages.end(), [](const Stage& stage) {
    const auto program = gpu::program_of(stage);
    return program && program->in_kernel;
  });
}

std::vector<u16> kernel_pipelines(const Policy& policy) {
  std::vector<u16> places;
  for (std::size_t i = 0; i < policy.pipelines.size(); i++)
    if (runs_in_kernel(policy.pipelines[i])) places.push_back(static_cast<u16>(i));
  return places;
}

std::vector<std::string> names_in_kernel(const Policy& policy) {
  std::vector<std::string> names;
  for (const u16 place : kernel_pipelines(policy)) names.push_back(policy.pipelines[place].name);
  return names;
}

void lead_to_programs(const xg_policy& header, xg_line* lines, const std::vector<u16>& pipelines) {
  auto* const first = reinterpret_cast<u8*>(lines + header.rules_line);
  for (u32 i = header.management_count; i < header.rule_count; i++) {
    xg_rule rule;
    std::memcpy(&rule, first + i * sizeof(rule), sizeof(rule));
    if (rule.action != XG_RULE_INSPECT) continue;
    const auto place = std::find(pipelines.begin(), pipelines.end(), rule.pipeline);
    if (place == pipelines.end()) continue;
    rule.action = XG_RULE_PROGRAM;
    rule.pipeline = static_cast<u16>(place - pipelines.begin());
    std::memcpy(first + i * sizeof(rule), &rule, sizeof(rule));
  }
}

}  // namespace xdpgpu::policy
