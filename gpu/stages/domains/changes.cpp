// SPDX-License-Identifier: MIT
//
// What devices are told of names that were added to the lists and removed from them: of each such name which
// list comes first now.
#include <algorithm>

#include "gpu/stages/compilers.hpp"
#include "gpu/stages/domains/device.h"
#include "gpu/stages/domains/names.hpp"

namespace xdpgpu::gpu {
namespace {

using domains::kBeneath;
using domains::kBoth;
using domains::kItself;

static_assert(XG_CHANGES_WORDS % 32 == 0 &&
              XG_CHANGES_SET + XG_CHANGES_MOST_SLOTS * XG_HASHED_SLOT <= XG_CHANGES_WORDS);

// What has become of one list's entries of a name.
struct OfList {
  u32 list = 0;  // from 1
  u32 added = 0, removed = 0;
};
using ByName = std::map<std::string_view, std::vector<OfList>>;

ByName by_name(const DomainsSettings& stage, const NameChanges& changes) {
  ByName names;
  for (u32 i = 0; i < stage.lists.size(); i++) {
    const auto of = changes.find(stage.lists[i].name);
    if (of == changes.end()) continue;
    for (const auto& [line, is_there] : of->second) {
      const DomainEntry entry = domain_entry(line);
      std::vector<OfList>& lists = names[entry.name];
      if (lists.empty() || lists.back().list != i + 1) lists.push_back({i + 1});
      (is_there ? lists.back().added : lists.back().removed) |= domains::bit_of(entry);
    }
  }
  return names;
}

// The first list that has one of these entries of the name, 0: none.
u32 first_list(const domains::TableReader& table, const xg_hashed& hash, u32 lists,
               const std::vector<OfList>& changed, u32 entries, u32 compiled_first) {
  const u32 value = table.value(hash);
  const auto of = [&](u32 list) {
    return std::find_if(changed.begin(), changed.end(), [&](const OfList& one) { return one.list == list; });
  };
  u32 first = 0;
  for (const OfList& one : changed) {
    const u32 now = (table.entries(hash, value, one.list) | one.added) & ~one.removed;
    if ((now & entries) != 0 && first == 0) first = one.list;
  }
  if (compiled_first == 0 || (first != 0 && first < compiled_first)) return first;
  // In front of that one no list had them; behind it others may.
  for (u32 list = compiled_first; list <= lists && (first == 0 || list < first); list++)
    if (of(list) == changed.end() && (table.entries(hash, value, list) & entries) != 0) return list;
  return first;
}

}  // namespace

std::optional<bool> has_name(const DomainsSettings& stage, const NamesPlace& at, std::string_view list,
                             const DomainEntry& entry) {
  const auto found = std::find_if(stage.lists.begin(), stage.lists.end(),
                                  [&](const DomainList& one) { return one.name == list; });
  if (found == stage.lists.end()) return std::nullopt;
  const domains::TableReader table(at.image, at.body);
  const xg_hashed hash = domains::hash_of(entry.name, table.key());
  const auto number = static_cast<u32>(found - stage.lists.begin()) + 1;
  return (table.entries(hash, table.value(hash), number) & domains::bit_of(entry)) != 0;
}

std::vector<u32> changed_names(const DomainsSettings& stage, const NamesPlace& at,
                               const NameChanges& changes) {
  std::vector<u32> words(XG_CHANGES_SET, 0);
  const ByName names = by_name(stage, changes);
  if (names.empty()) return words;
  const auto slots = static_cast<u32>(hashed_slots(names.size()));
  words.resize(XG_CHANGES_SET + u64{slots} * XG_HASHED_SLOT, 0);
  const domains::TableReader table(at.image, at.body);
  HashedSet set(words, XG_CHANGES_SET, slots);
  const auto lists = static_cast<u32>(stage.lists.size());
  u32 deepest = 0;
  for (const auto& [name, changed] : names) {
    const xg_hashed hash = domains::hash_of(name, table.key());
    const u32 value = table.value(hash);
    const u32 itself = first_list(table, hash, lists, changed, kItself | kBoth, value & 0xffff);
    const u32 beneath = first_list(table, hash, lists, changed, kBeneath | kBoth, value >> 16);
    set.at(hash) = itself | beneath << 16 | XG_DOMAINS_CHANGED;
    deepest = std::max(deepest, labels_of(name));
  }
  words[XG_CHANGES_SLOTS] = slots;
  words[XG_CHANGES_DEEPEST] = deepest;
  return words;
}

}  // namespace xdpgpu::gpu
