// SPDX-License-Identifier: MIT
//
// gpu/stages/reputation/settings.hpp: what `reputation` can be told, and what it does.
#pragma once

#include <string>
#include <vector>

#include "gpu/stages/values.hpp"

namespace xdpgpu::gpu {

// `reputation`: an address of the packet against lists of prefixes, each with an action. Of all prefixes that
// hold the address the longest one counts, wherever it stands; of equal ones the one in the first list.
// Packets without addresses, and addresses that no list has: `otherwise`. `next` ends the stage: the packet
// goes on to the next one. Verdict's rule: the list's position + 1; 0: `otherwise`. At most 4,095 lists.
struct ReputationList {
  std::string name;
  std::vector<Prefix> prefixes;
  Action action = Action::drop;
  u32 target = 0;  // port index, for redirect
};
struct ReputationSettings {
  enum class Of {
    src,
    dst,
    either
  } of = Of::src;  // either: the source's, or, if no list has it, the other's
  std::vector<ReputationList> lists;
  Action otherwise = Action::next;  // next, drop or pass
  bool cache = false;               // publish the verdict to the kernel
  u32 cache_ttl_ms = 0;             // 0: while the generation lives
};
inline constexpr u32 kMaxReputationLists = 4095;  // what the verdict's rule has room for

}  // namespace xdpgpu::gpu
