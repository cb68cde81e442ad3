// SPDX-License-Identifier: MIT
#include "userspace/policy/table_stages.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace xdpgpu::policy {

std::string stage_text(const Pipeline& pipeline, u64 at) {
  return fmt::format("stage {} ({})", at + 1, gpu::stage_name(pipeline.stages[at]));
}

std::optional<std::string> table_in(const Pipeline& pipeline) {
  for (u64 i = 0; i < pipeline.stages.size(); ++i)
    if (gpu::remembers(pipeline.stages[i])) return stage_text(pipeline, i);
  return std::nullopt;
}

bool wants_egress(const Policy& policy) {
  return std::any_of(policy.pipelines.begin(), policy.pipelines.end(), [](const Pipeline& pipeline) {
    return std::any_of(pipeline.stages.begin(), pipeline.stages.end(),
                       [](const Stage& stage) { return gpu::sees_egress(stage); });
  });
}

}  // namespace xdpgpu::policy
