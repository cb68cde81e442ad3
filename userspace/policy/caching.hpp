// SPDX-License-Identifier: MIT
//
// userspace/policy/caching.hpp: which verdicts may be remembered for a flow. A flow's later packets then
// meet no rule, so every rule must have the same to say of each of them. Two kinds of rules look at
// more than the flow: limits, which must see every packet, and conditions on TCP flags.
#pragma once

#include <optional>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

// TCP flags of a packet in the middle of a connection. Flow verdicts are made of, and act on, packets that
// all rules treat as such a one; others (a SYN, where a rule asks for it) meet the rules, cached or not.
inline constexpr u8 kOrdinaryTcpFlags = 0x10;  // ACK

// The first limit ahead of rule `rule`, an inspect rule whose pipeline caches, that may have to count
// packets of the flows that would be cached. May name one that no packet meets before the rule, where
// long lists would have to be compared; never misses one.
std::optional<u32> limit_ahead_of_cache(const Policy& policy, u32 rule);

// Does any stage of the pipeline cache?
bool caches(const Pipeline& pipeline);

}  // namespace xdpgpu::policy
