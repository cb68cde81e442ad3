// SPDX-License-Identifier: MIT
#include "userspace/policy/kernel_programs.hpp"

#include <algorithm>
#include <cstring>

namespace xdpgpu::policy {

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
