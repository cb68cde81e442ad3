// SPDX-License-Identifier: MIT
#include "gpu/name_changes.hpp"

#include <type_traits>

#include "gpu/stages/changes.h"
#include "gpu/stages/compilers.hpp"

namespace xdpgpu::gpu {
namespace {

static_assert(kMostNameChanges == XG_CHANGES_NAMES);

// use(settings, place, first): each stage that asks lists of names, and where its words begin.
template <class Use>
void each_stage(const Pipelines& pipelines, Use use) {
  for (std::size_t p = 0; p < pipelines.settings().size(); p++) {
    const auto& stages = pipelines.settings()[p].stages;
    for (std::size_t s = 0; s < stages.size(); s++)
      std::visit(
          [&](const auto& settings) {
            if constexpr (StageInfo<std::remove_cvref_t<decltype(settings)>>::kTraits.names)
              use(settings, NamesPlace{pipelines.image(), pipelines.body_at(p, s)},
                  pipelines.changes_at(p, s));
          },
          stages[s]);
  }
}

}  // namespace

std::vector<ChangedWords> changed_words(const Pipelines& pipelines, const NameChanges& changes) {
  std::vector<ChangedWords> words;
  each_stage(pipelines, [&](const auto& stage, const NamesPlace& place, u64 first) {
    words.push_back({first, changed_names(stage, place, changes)});
  });
  return words;
}

std::optional<bool> has_name(const Pipelines& pipelines, std::string_view list, std::string_view entry) {
  std::optional<bool> has;
  each_stage(pipelines, [&](const auto& stage, const NamesPlace& place, u64) {
    if (!has) has = has_name(stage, place, list, domain_entry(entry));
  });
  return has;
}

DomainNames with_changes(const DomainNames& names, const NameEntries& entries) {
  std::string text;
  DomainNames changed;
  const auto add = [&](std::string_view line) {
    text += line;
    text += '\n';
    changed.count++;
  };
  if (names.text)
    for (std::string_view rest = *names.text; !rest.empty();) {
      const std::string_view line = rest.substr(0, rest.find('\n'));
      if (!entries.contains(line)) add(line);
      rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    }
  for (const auto& [line, is_there] : entries)
    if (is_there) add(line);
  changed.text = std::make_shared<const std::string>(std::move(text));
  return changed;
}

}  // namespace xdpgpu::gpu
