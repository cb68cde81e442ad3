// SPDX-License-Identifier: MIT
#include "userspace/compiler/pipelines.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "userspace/policy/document.hpp"
#include "userspace/policy/stage_names.hpp"

namespace xdpgpu::compiler {
namespace {

using Problem = tl::unexpected<policy::Diagnostic>;

// The first interface that is not among the ports.
std::optional<policy::Diagnostic> unknown_port(const policy::Pipeline& pipeline, std::size_t stage,
                                               const std::vector<std::string>& ports) {
  for (const auto& [name, pointer] : policy::ports_of(pipeline.stages[stage])) {
    if (std::find(ports.begin(), ports.end(), name) != ports.end()) continue;
    policy::Diagnostic problem;
    problem.pointer = policy::stage_pointer(pipeline, stage) + pointer;
    problem.message = fmt::format("interface \"{}\" is not attached here; attached {}: {}", name,
                                  ports.size() == 1 ? "is" : "are", fmt::join(ports, ", "));
    return problem;
  }
  return std::nullopt;
}

}  // namespace

tl::expected<std::vector<gpu::PipelineSettings>, policy::Diagnostic> pipeline_settings(
    const policy::Policy& policy, const std::vector<std::string>& ports, const DownBackends& down) {
  std::vector<gpu::PipelineSettings> settings;
  for (const auto& pipeline : policy.pipelines) {
    gpu::PipelineSettings made{pipeline.name, pipeline.stages, pipeline.inner};
    for (std::size_t i = 0; i < made.stages.size(); i++) {
      if (auto problem = unknown_port(pipeline, i, ports)) return Problem(std::move(*problem));
      policy::resolve(
          made.stages[i],
          [&](const std::string& name) {
            return static_cast<u32>(std::find(ports.begin(), ports.end(), name) - ports.begin());
          },
          policy.lists);
      gpu::set_down(made.stages[i], [&](const gpu::HealthCheck& check) {
        return down.contains({check.address, check.health});
      });
    }
    settings.push_back(std::move(made));
  }
  return settings;
}

std::vector<std::string> mentioned_ports(const policy::Policy& policy) {
  std::vector<std::string> names;
  for (const auto& pipeline : policy.pipelines)
    for (const auto& stage : pipeline.stages)
      for (auto& port : policy::ports_of(stage))
        if (std::find(names.begin(), names.end(), port.name) == names.end())
          names.push_back(std::move(port.name));
  return names;
}

}  // namespace xdpgpu::compiler
