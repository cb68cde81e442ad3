// SPDX-License-Identifier: MIT
//
// userspace/policy/mirroring.hpp: which pipelines packets may be mirrored to. A mirrored packet has gone
// on by the time that its pipeline answers, so only the flow's later packets can have anything of the
// answer: drop has the rule drop them, pass has it look at them no more.
#pragma once

#include <optional>
#include <string>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

// Pipelines that may be mirrored to stand among so many first ones: a flow key names them by a byte.
inline constexpr u32 kMirrorPipelines = 255;

// Does any rule mirror?
bool mirrors(const Policy& policy);

// The first thing in the pipeline that would send the packet out again, in words ("stage 1 (acl), rule
// \"x\""); nothing where it only drops and passes.
std::optional<std::string> sender_in(const Pipeline& pipeline);

}  // namespace xdpgpu::policy
