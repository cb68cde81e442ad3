// SPDX-License-Identifier: MIT
//
// userspace/control/pipelines.hpp: a policy's pipelines as the compute devices take them. Interface names
// become port indexes here, and only here.
#pragma once

#include <memory>
#include <string>
#include <tl/expected.hpp>
#include <vector>

#include "gpu/pipelines.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::control {

// ports: interface names by port index. An unknown name is a diagnostic with its JSON pointer (file, line
// and column are left to the caller, who has the text) that names the ports there are.
tl::expected<std::vector<gpu::PipelineSettings>, policy::Diagnostic> pipeline_settings(
    const policy::Policy& policy, const std::vector<std::string>& ports);

// The interface names that a policy's pipelines mention, each once, in the order of their mention.
std::vector<std::string> mentioned_ports(const policy::Policy& policy);

}  // namespace xdpgpu::control
