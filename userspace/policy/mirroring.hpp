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

// Does this one mirror? to_tables: to a pipeline with a stage that remembers packets.
bool mirrors(const Policy& policy, const Rule& rule, bool to_tables);

// Does any rule mirror to a pipeline with a stage that remembers packets?
bool mirrors_to_tables(const Policy& policy);

// The first stage of the pipeline that has to see every packet, which a mirror does not promise, as "stage 2
// (conntrack)"; nothing where there is none. `ddos` counts what it is shown.
std::optional<std::string> exact_table_in(const Pipeline& pipeline);

// The first thing in the pipeline that would send the packet out again, or change it, in words ("stage 1
// (acl), rule
// Likewise, that looks for rules in whole packets.
std::optional<std::string> inspector_in(const Pipeline& pipeline);
// \"x\""); nothing where it only drops and passes.
std::optional<std::string> sender_in(const Pipeline& pipeline);

}  // namespace xdpgpu::policy
