// SPDX-License-Identifier: MIT
//
// userspace/compiler/pipelines.hpp: a policy's pipelines as the compute devices take them. Interface names
// become port indexes here, and only here.
#pragma once

#include <memory>
#include <set>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "gpu/pipelines.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::compiler {

// What is connected to, to see whether a backend is up, and how.
struct HealthTarget {
  gpu::Prefix address;
  gpu::HealthSettings health;
  // NOLINTNEXTLINE(modernize-use-nullptr): clang-tidy 14 sees a 0 in there.
  auto operator<=>(const HealthTarget&) const = default;
};
using DownBackends = std::set<HealthTarget>;

// ports: interface names by port index. down: backends that do not answer. An unknown name is a diagnostic
// with its JSON pointer (file, line and column are left to the caller, who has the text) that names the ports
// there are.
tl::expected<std::vector<gpu::PipelineSettings>, policy::Diagnostic> pipeline_settings(
    const policy::Policy& policy, const std::vector<std::string>& ports, const DownBackends& down = {});

// The interface names that a policy's pipelines mention, each once, in the order of their mention.
std::vector<std::string> mentioned_ports(const policy::Policy& policy);

}  // namespace xdpgpu::compiler
