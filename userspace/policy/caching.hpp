// SPDX-License-Identifier: MIT
//
// userspace/policy/caching.hpp: which verdicts may be remembered for a flow. A flow's later packets then
// meet no rule, so every rule must have the same to say of each of them. Some look at more than the flow:
// limits and mirrors, which must see every packet, and conditions on TCP flags.
//
// What a mirror's pipeline caches is not meant here: the flow's later packets meet the rules all the same,
// and the verdict acts where the mirror stands (bpf/mirror.bpf.h).
#pragma once

#include <optional>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::policy {

// TCP flags of a packet in the middle of a connection. Flow verdicts are made of, and act on, packets that
// all rules, and the stages of pipelines that cache, treat as such a one; others (a SYN, where one asks for
// it) meet the rules and the pipeline, cached or not.
inline constexpr u8 kOrdinaryTcpFlags = 0x10;  // ACK

// The first limit or mirror ahead of rule `rule`, an inspect rule whose pipeline caches, that may have to
// see packets of the flows that would be cached. May name one that no packet meets before the rule, where
// long lists would have to be compared; never misses one.
std::optional<u32> watcher_ahead_of_cache(const Policy& policy, u32 rule);

// May one packet meet both of these conditions, of rules of this policy? True also where long lists would
// have to be compared.
bool may_both_match(const Policy& policy, const Match& a, const Match& b);

// Does any stage of the pipeline cache?
bool caches(const Pipeline& pipeline);

// The first rule of the pipeline's stages that asks for TCP flags, as `stage 1 (acl), rule "x"`.
std::optional<std::string> flags_asked_in(const Pipeline& pipeline);

// Does a stage of any pipeline that caches treat TCP packets with these flags unlike ordinary ones?
bool stages_tell_apart(const Policy& policy, u8 flags);

}  // namespace xdpgpu::policy
