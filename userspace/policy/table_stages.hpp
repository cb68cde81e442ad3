// SPDX-License-Identifier: MIT
//
// userspace/policy/table_stages.hpp: stages that remember what they saw.
#pragma once

#include <optional>
#include <string>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

// "stage 2 (conntrack)"
std::string stage_text(const Pipeline& pipeline, u64 at);
// The first stage of the pipeline that remembers packets, and so has to see all of them, as stage_text() has
// it.
std::optional<std::string> table_in(const Pipeline& pipeline);

// Whether some stage is to be shown what the host sends (maps/egress.h).
bool wants_egress(const Policy& policy);

}  // namespace xdpgpu::policy
