// SPDX-License-Identifier: MIT
//
// userspace/compiler/refusals.hpp: refusals of what was found wrong, with its place in the policy's text.
#pragma once

#include <string>

#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::compiler {

Refusal refusal(const policy::Diagnostics& diagnostics);
Refusal refusal(std::string sentence);
// With the places of their pointers' values in the text, which is one that was parsed before.
policy::Diagnostics placed(policy::Diagnostics diagnostics, const PolicySource& source);

}  // namespace xdpgpu::compiler
