// SPDX-License-Identifier: MIT
//
// gpu/name_changes.hpp: entries of lists of names (gpu/domain_names.hpp) that are added and removed one at a
// time, while packets flow: no list is compiled for it. A stage that asks a list then decides as if the list
// had been compiled with the entries that were added and without those that were removed. An entry is what
// its line says: to remove ".example.com" leaves "www.example.com" where that stands in a list, too.
//
//   Device::change_words(generation, changed_words(pipelines, changes))
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/pipelines.hpp"
#include "gpu/stages/values.hpp"

namespace xdpgpu::gpu {

// Entries that were changed, of all lists together.
inline constexpr std::size_t kMostNameChanges = 65'536;

// What stages are told of all lists, by their words.
std::vector<ChangedWords> changed_words(const Pipelines& pipelines, const NameChanges& changes);

// Whether a list has the entry as it was compiled; nothing: no stage asks the list. entry: a line as
// gpu/domain_names.hpp has them.
std::optional<bool> has_name(const Pipelines& pipelines, std::string_view list, std::string_view entry);

// The list with the changes made, by its text. For whoever has it: each change goes through all of it.
DomainNames with_changes(const DomainNames& names, const NameEntries& entries);

}  // namespace xdpgpu::gpu
