// SPDX-License-Identifier: MIT
//
// userspace/policy/table_stages.hpp: stages that remember what they saw, from JSON.
#pragma once

#include "userspace/policy/reader.hpp"

namespace xdpgpu::policy {

// A table's "entries" and "evict".
void read_table(Report& report, const Fields& fields, TableSpec& table);
// The time under `key` after which something is forgotten, in milliseconds.
void read_timeout(Report& report, const Fields& fields, const char* key, u32& ms);

RateLimitStage read_rate_limit(Report& report, const Place& place);
ConntrackStage read_conntrack(Report& report, const Place& place);

// Whether a stage remembers packets, and so has to see all of them.
bool has_table(const Stage& stage);
// The first such stage of the pipeline, as "stage 2 (conntrack)".
std::optional<std::string> table_in(const Pipeline& pipeline);

// Whether some stage is to be shown what the host sends (maps/egress.h).
bool wants_egress(const Policy& policy);
// What follows for stages that are not, and where a stage behind drops by its own table, a sentence each.
std::vector<std::string> conntrack_notes(const Policy& policy);

}  // namespace xdpgpu::policy
