// SPDX-License-Identifier: MIT
//
// userspace/policy/fragments.hpp: what fragments get around. They have no ports and no TCP flags, so that a
// rule which asks for them says nothing of fragments.
#pragma once

#include <string>
#include <vector>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

// A sentence for each way on which the policy's `fragments` lets a fragment around a rule with ports or TCP
// flags, around a pipeline, or past "default": "drop".
std::vector<std::string> fragment_notes(const Policy& policy);

}  // namespace xdpgpu::policy
