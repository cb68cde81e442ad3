// SPDX-License-Identifier: MIT
//
// userspace/policy/kept_verdicts.hpp: of which rules a new policy says what the one before it said, so that
// flow verdicts made under that one may stand in where nothing else decides (XG_DO_KNOWN in maps/tables.h).
//
// A packet that comes to an inspect rule of the new policy has met none of the rules ahead of it. Where the
// policy before had the same rule with the same pipeline, and each of its rules ahead of that one either
// stands ahead of the new one as well or can match none of its packets, the packet would have come to that
// rule there, too: what was remembered for its flow is that rule's verdict. So no rule that was changed,
// added or taken out can have had a say. Rules are the same if name, condition (what is in the lists
// included) and action are; what takes long to tell counts as changed.
#pragma once

#include <optional>
#include <vector>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

// By position in after.rules: the position in before.rules of the rule whose flow verdicts still hold for the
// packets that come to it; nothing for the others, and for rules that do not inspect. Both policies are
// compiled for the same ports and backends.
std::vector<std::optional<u32>> kept_verdicts(const Policy& before, const Policy& after);

}  // namespace xdpgpu::policy
