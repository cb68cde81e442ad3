// SPDX-License-Identifier: MIT
#include "userspace/control/list_changes.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "gpu/domain_names.hpp"
#include "userspace/control/describe.hpp"
#include "userspace/policy/domain_file.hpp"

namespace xdpgpu::control {
namespace {

bool is_of_names(const policy::List& list) { return list.type == policy::List::Type::domain; }

std::size_t count(const gpu::NameChanges& names) {
  std::size_t all = 0;
  for (const auto& [list, entries] : names) all += entries.size();
  return all;
}

Result<const policy::List*> find(const policy::Policy& policy, const std::string& name) {
  const auto found = policy.lists.find(name);
  if (found != policy.lists.end()) {
    if (is_of_names(found->second)) return &found->second;
    return Error(fmt::format(
        "list \"{}\" is of addresses, and only lists of names are changed one at a time: edit it, and use "
        "\"xdpgpu policy apply\"",
        name));
  }
  std::vector<std::string_view> others;
  for (const auto& [other, list] : policy.lists)
    if (is_of_names(list)) others.push_back(other);
  return Error(others.empty()
                   ? fmt::format("the policy in force has no list \"{}\", and none of names: write one with "
                                 "\"type\": \"domain\", and use \"xdpgpu policy apply\"",
                                 name)
                   : fmt::format("the policy in force has no list \"{}\"; its lists of names are {}", name,
                                 fmt::join(others, ", ")));
}

// A list that no stage asks has no names on a device.
bool is_asked(const gpu::Pipelines& pipelines, std::string_view list) {
  return gpu::has_name(pipelines, list, "example").has_value();
}

}  // namespace

Result<ListChanged> plan_changes(const policy::Policy& policy, const gpu::Pipelines& pipelines,
                                 const gpu::NameChanges& now, const ListOrder& order) {
  const auto list = find(policy, order.list);
  if (!list) return Error(list.error());
  if (!is_asked(pipelines, order.list))
    return Error(fmt::format(
        "no stage asks list \"{}\", so that a name in it would change nothing: name it in the \"lists\" of a "
        "stage \"domains\", and use \"xdpgpu policy apply\"",
        order.list));
  if (order.names.empty()) return Error(std::string("there is no name to change: say which"));
  ListChanged made;
  made.names = now;
  gpu::NameEntries& entries = made.names[order.list];
  std::set<std::string> seen;
  for (const std::string& name : order.names) {
    auto line = policy::DomainReader::line_of(name, (*list)->subdomains);
    if (!line)
      return Error(fmt::format("{}: list \"{}\" is as it was; write names as its file has them", line.error(),
                               order.list));
    if (!seen.insert(*line).second) continue;
    const bool compiled = gpu::has_name(pipelines, order.list, *line).value_or(false);
    const auto before = entries.find(*line);
    const bool is_there = before == entries.end() ? compiled : before->second;
    if (is_there == order.add) {
      made.unchanged.push_back(*std::move(line));
      continue;
    }
    if (compiled == order.add)
      entries.erase(before);
    else
      entries[*line] = order.add;
    made.changed.push_back(*std::move(line));
  }
  if (entries.empty()) made.names.erase(order.list);
  if (const std::size_t all = count(made.names); all > gpu::kMostNameChanges && !made.changed.empty())
    return Error(fmt::format(
        "there is no room: with these, {} names of lists would be changed, and {} can be; list \"{}\" is as "
        "it was; write changes into the lists' files, and use \"xdpgpu policy apply\"",
        all, gpu::kMostNameChanges, order.list));
  return made;
}

SettledChanges settle_changes(const policy::Policy& policy, const gpu::Pipelines& pipelines,
                              const gpu::NameChanges& names) {
  SettledChanges settled;
  for (const auto& [name, entries] : names) {
    const auto list = policy.lists.find(name);
    if (list == policy.lists.end() || !is_of_names(list->second)) {
      settled.lost.push_back(fmt::format(
          "the policy has no list \"{}\" of names any more: what \"xdpgpu list\" changed of it, {}, "
          "is gone",
          name, counted(entries.size(), "name")));
      continue;
    }
    gpu::NameEntries left;
    for (const auto& [line, is_there] : entries)
      if (gpu::has_name(pipelines, name, line) != is_there) left.emplace(line, is_there);
    if (!left.empty()) settled.names.emplace(name, std::move(left));
  }
  return settled;
}

std::string text_of(const gpu::NameChanges& names) {
  std::string text;
  for (const auto& [list, entries] : names)
    for (const auto& [line, is_there] : entries)
      text += fmt::format("{}{} {}\n", is_there ? '+' : '-', list, line);
  return text;
}

std::optional<gpu::NameChanges> read_names(std::string_view text) {
  gpu::NameChanges names;
  for (std::size_t all = 0; !text.empty(); all++) {
    const auto end = text.find('\n'), blank = text.find(' ');
    if (all >= gpu::kMostNameChanges || end == text.npos || blank >= end || blank < 2 ||
        (text[0] != '+' && text[0] != '-'))
      return std::nullopt;
    const std::string_view line = text.substr(blank + 1, end - blank - 1);
    if (!gpu::is_domain_entry(line)) return std::nullopt;
    names[std::string(text.substr(1, blank - 1))].insert_or_assign(std::string(line), text[0] == '+');
    text.remove_prefix(end + 1);
  }
  return names;
}

Result<ListsReport> report_lists(const policy::Policy& policy, const gpu::Pipelines& pipelines,
                                 const gpu::NameChanges& names, const std::string& list, u64 limit) {
  if (!list.empty())
    if (const auto found = find(policy, list); !found) return Error(found.error());
  ListsReport report;
  for (const auto& [name, one] : policy.lists) {
    if (!is_of_names(one) || (!list.empty() && name != list)) continue;
    ListReport& of = report.lists.emplace_back();
    of.list = name;
    if (!one.file.empty()) of.file = one.file;
    of.asked = is_asked(pipelines, name);
    const auto changed = names.find(name);
    if (changed != names.end())
      for (const auto& [line, is_there] : changed->second) (is_there ? of.added : of.removed)++;
    if (list.empty()) continue;
    auto& changes = report.changes.emplace();
    if (changed == names.end()) continue;
    for (const auto& [line, is_there] : changed->second) {
      if (changes.size() >= limit) break;
      changes.push_back({line, is_there ? "added" : "removed"});
    }
    report.left_out = changed->second.size() - changes.size();
  }
  return report;
}

}  // namespace xdpgpu::control
