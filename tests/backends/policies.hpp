// SPDX-License-Identifier: MIT
//
// tests/backends/policies.hpp: the pipelines that the conformance suite judges its traffic by: of each stage
// (tests/stages), and composed; and what stages' tests share.
#pragma once

#include <string>
#include <vector>

#include "gpu/pipelines.hpp"
#include "tests/backends/traffic.hpp"
#include "tests/stages/stage_tests.hpp"

namespace xdpgpu::tests {

// The stages' cases, and those of several stages, by name; and the pipelines of one.
std::vector<ConformanceCase> conformance_cases();
std::vector<gpu::PipelineSettings> policy_case(const std::string& name, Random& random);

// Of the stages, in tests/stages/<name>.cpp, for pipelines of several.
gpu::AclSettings random_acl(Random& random, u32 rules);
// Whose rules let most of what they match go on.
gpu::AclSettings mostly_next(Random& random);
gpu::AclSettings only(gpu::AclRule::Action otherwise, bool cache);
gpu::AclRule rule_of(gpu::AclRule::Action action, u32 target = 0);
gpu::LoadBalanceSettings random_load_balance(Random& random, u32 backends);
// By maglev.
gpu::LoadBalanceSettings random_maglev(Random& random, u32 backends);
// With addresses for its backends, and encapsulation to them.
gpu::LoadBalanceSettings with_outer_headers(Random& random, gpu::LoadBalanceSettings settings);
gpu::ReputationSettings random_reputation(Random& random, u32 prefixes);
gpu::ForwardSettings random_forward(Random& random, u32 routes);
// Of so many packets and bytes a second, 0: of any number; with bursts of 3 packets and 400 bytes.
gpu::RateLimitSettings limit(gpu::RateLimitSettings::Per per, u64 pps, u64 bps, gpu::TableSettings table);
gpu::ConntrackSettings conntrack(bool loose, gpu::TableSettings table);

// Of an address of the pools.
gpu::Prefix random_prefix(Random& random);
gpu::Prefix prefix4(u32 address, u8 length);
gpu::Prefix prefix6(std::span<const u8> address, u8 length);

}  // namespace xdpgpu::tests
