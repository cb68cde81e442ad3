// SPDX-License-Identifier: MIT
//
// gpu/stages/reputation/settings.hpp: what `reputation` can be told, and what it does.
#pragma once

#include <string>
#include <vector>

#include "gpu/stages/fields.hpp"

namespace xdpgpu::gpu {

// `reputation`: an address of the packet against lists of prefixes, each with an action. Of all prefixes that
// hold the address the longest one counts, wherever it stands; of equal ones the one in the first list.
// Packets without addresses, and addresses that no list has: `otherwise`. `next` ends the stage: the packet
// goes on to the next one. Verdict's rule: the list's position + 1; 0: `otherwise`. At most 4,095 lists.
struct ReputationList {
  std::string name;
  std::vector<Prefix> prefixes;
  Action action = Action::drop;
  u32 target = 0;    // port index, for redirect
  std::string to{};  // the interface's name, where a policy gives it
  bool operator==(const ReputationList&) const = default;
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
  bool operator==(const ReputationSettings&) const = default;
};
inline constexpr u32 kMaxReputationLists = 4095;  // what the verdict's rule has room for
inline constexpr Named<ReputationSettings::Of> kReputationOfNames[] = {
    {ReputationSettings::Of::src, "src"},
    {ReputationSettings::Of::dst, "dst"},
    {ReputationSettings::Of::either, "either"}};

template <class Table>
void fields_of(Table& table, SettingsLike<ReputationList> auto& list) {
  table.list("list", list.name, list.prefixes, "Name of one of the policy's lists, with @ in front.",
             Say{.required = true});
  table.action("action", list.action, list.to, list.target, kActionNames, "", Say{.required = true});
}

template <class Table>
void fields_of(Table& table, SettingsLike<ReputationSettings> auto& s) {
  table.about(
      "An address of the packet against the policy's lists. Of all prefixes that hold it the longest one "
      "counts, "
      "whichever list has it; of equal ones the one in the list that stands first.");
  table.word("of", s.of, kReputationOfNames,
             "Whose address: the source's, the destination's, or the source's and, if no list has that, the "
             "destination's.",
             Say{});
  table.array("lists", s.lists, 1, kMaxReputationLists, "a list of the stage reputation",
              "The lists, each once, and what becomes of their packets.", Say{.required = true});
  table.word(
      "default", s.otherwise, kOtherwiseNames,
      "What becomes of a packet whose address no list has, or that has none; 'next' leaves it to the next "
      "stage.",
      Say{});
  table.cache(s.cache, s.cache_ttl_ms, "", Say{});
}

}  // namespace xdpgpu::gpu
