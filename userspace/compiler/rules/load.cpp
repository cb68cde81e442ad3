// SPDX-License-Identifier: MIT
#include "userspace/compiler/rules/load.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace xdpgpu::rules {
namespace {

constexpr std::string_view kClass = "config classification:";
constexpr std::string_view kReference = "config reference:";
constexpr u8 kUsualPriority = 3;

Result<void> take_datasets(Rule& rule, Datasets& datasets) {
  Result<void> taken;
  each_dataset(rule, [&](Dataset& one) {
    if (taken) taken = datasets.take(rule.place, one);
  });
  return taken;
}

// What of a set is in its file is not all that is in it where a rule puts strings in, or takes some out.
void tell_changes(std::vector<Rule>& rules) {
  std::map<std::string, std::string> changed_by;
  for (const Rule& rule : rules)
    each_dataset(rule, [&](const Dataset& one) {
      if (one.what == Dataset::Do::set || one.what == Dataset::Do::unset)
        changed_by.try_emplace(in_lower_case(one.name), fmt::format("{}:{}", rule.gid, rule.sid));
    });
  for (Rule& rule : rules)
    each_dataset(rule, [&](Dataset& one) {
      if (const auto found = changed_by.find(in_lower_case(one.name)); found != changed_by.end())
        one.changed_by = found->second;
    });
}

}  // namespace

Result<Classes> parse_classes(const RuleFile& file) {
  Classes classes;
  for (const auto& [text, place, enabled] : rule_texts(file.content, file.name)) {
    const auto parts =
        at_commas(text.starts_with(kClass) ? std::string_view(text).substr(kClass.size()) : "");
    const auto priority = parts.size() == 3 ? number(parts[2], 255) : std::nullopt;
    if (!priority || *priority == 0 || parts[0].empty())
      return tl::unexpected(
          fmt::format("{}: \"{}\" is not \"{} NAME,DESCRIPTION,PRIORITY\"", where(place), text, kClass));
    classes.emplace(parts[0], Class{std::string(parts[1]), static_cast<u8>(*priority)});
  }
  return classes;
}

Result<References> parse_references(const RuleFile& file) {
  References references;
  for (const auto& [text, place, enabled] : rule_texts(file.content, file.name)) {
    const auto said =
        trimmed(text.starts_with(kReference) ? std::string_view(text).substr(kReference.size()) : "");
    const auto space = said.find_first_of(" \t");
    if (space == std::string_view::npos)
      return tl::unexpected(
          fmt::format("{}: \"{}\" is not \"{} SYSTEM PREFIX\"", where(place), text, kReference));
    references.emplace(in_lower_case(said.substr(0, space)), trimmed(said.substr(space)));
  }
  return references;
}

std::vector<std::string> addresses_of(const Rule& rule, const References& references,
                                      std::vector<WrongRule>& notes) {
  std::vector<std::string> addresses;
  for (const auto& [system, value] : rule.references) {
    const auto found = references.find(in_lower_case(system));
    if (found != references.end())
      addresses.push_back(found->second + value);
    else
      notes.push_back({rule.place, fmt::format("no reference.config has the system \"{}\"", system)});
  }
  return addresses;
}

Loaded load_rules(const std::vector<RuleFile>& files, const Variables& variables, const Classes& classes,
                  const Selection& selection, const ReadFile& read) {
  Loaded loaded;
  Datasets datasets(read);
  std::map<std::pair<u32, u32>, Rule> rules;
  for (const auto& file : files)
    for (auto& written : rule_texts(file.content, file.name, true)) {
      const Place place = written.place;
      auto chosen = selected(std::move(written), selection);
      if (!chosen) {
        loaded.wrong.push_back({place, std::move(chosen.error())});
        continue;
      }
      const RuleText& text = *chosen;
      if (!text.enabled) {
        loaded.disabled++;
        continue;
      }
      auto rule = parse_rule(text, variables);
      if (!rule) {
        loaded.wrong.push_back({text.place, std::move(rule.error())});
        continue;
      }
      if (auto taken = take_datasets(*rule, datasets); !taken) {
        loaded.wrong.push_back({text.place, std::move(taken.error())});
        continue;
      }
      const auto found = classes.find(rule->classtype);
      if (!rule->classtype.empty() && found == classes.end() && !classes.empty())
        loaded.notes.push_back(
            {text.place, fmt::format("no classification has \"{}\": its priority is {}", rule->classtype,
                                     rule->priority.value_or(kUsualPriority))});
      if (!rule->priority) rule->priority = found != classes.end() ? found->second.priority : kUsualPriority;
      const auto [at, is_new] = rules.try_emplace({rule->gid, rule->sid}, std::move(*rule));
      if (is_new) continue;
      if (rule->rev > at->second.rev) {
        loaded.notes.push_back(
            {at->second.place, fmt::format("revision {} of it counts ({})", rule->rev, where(text.place))});
        at->second = *std::move(rule);
      } else {
        loaded.wrong.push_back({text.place, fmt::format("sid {} is there already, with revision {} ({})",
                                                        rule->sid, at->second.rev, where(at->second.place))});
      }
    }
  loaded.rules.reserve(rules.size());
  for (auto& [id, rule] : rules) loaded.rules.push_back(std::move(rule));
  tell_changes(loaded.rules);
  const auto by_place = [](const WrongRule& one, const WrongRule& other) {
    return std::tie(one.place.file, one.place.line) < std::tie(other.place.file, other.place.line);
  };
  std::stable_sort(loaded.wrong.begin(), loaded.wrong.end(), by_place);
  std::stable_sort(loaded.notes.begin(), loaded.notes.end(), by_place);
  return loaded;
}

}  // namespace xdpgpu::rules
