// SPDX-License-Identifier: MIT
#include "userspace/control/policy_diff.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "userspace/control/describe.hpp"
#include "userspace/policy/hash.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::control {
namespace {

constexpr std::size_t kFirstEntries = 5;    // of a set that are told
constexpr std::size_t kLongestValue = 200;  // bytes of one that are shown

// ---- normal form ------------------------------------------------------------------------------------

// Any of the values will do, in whichever order they stand.
void put_in_order(Json& match) {
  if (!match.is_object()) return;
  for (auto& [key, value] : match.items()) {
    if (!value.is_array()) continue;
    std::sort(value.begin(), value.end());
    value.erase(std::unique(value.begin(), value.end()), value.end());
    if (value.size() == 1) value = Json(value[0]);
  }
}

void put_rules_in_order(Json& rules) {
  if (!rules.is_array()) return;
  for (auto& rule : rules) {
    if (!rule.is_object()) continue;
    rule.erase("description");
    if (rule.contains("match")) put_in_order(rule["match"]);
  }
}

Json normal_form(const policy::Policy& policy) {
  Json json = Json::parse(policy::to_json(policy));
  for (const char* key : {"description", "version", "lists"}) json.erase(key);
  for (auto& entry : json["management"]) {
    entry.erase("description");
    put_in_order(entry);
  }
  put_rules_in_order(json["rules"]);
  for (auto& [name, pipeline] : json["pipelines"].items()) {
    if (pipeline.is_array()) pipeline = Json{{"inner", false}, {"stages", pipeline}};
    pipeline.erase("description");
    for (auto& stage : pipeline["stages"]) {
      stage.erase("description");
      if (stage.contains("rules")) put_rules_in_order(stage["rules"]);
    }
  }
  return json;
}

std::string shown(const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>()
                                             : value.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.size() <= kLongestValue ? text : text.substr(0, kLongestValue) + "...";
}

// ---- sets -------------------------------------------------------------------------------------------

template <class T, class Write>
std::optional<EntryChanges> compare_sets(std::vector<T> first, std::vector<T> second, Write&& write) {
  for (auto* set : {&first, &second}) {
    std::sort(set->begin(), set->end());
    set->erase(std::unique(set->begin(), set->end()), set->end());
  }
  EntryChanges changes;
  std::vector<T> only;
  std::set_difference(second.begin(), second.end(), first.begin(), first.end(), std::back_inserter(only));
  changes.added = only.size();
  for (std::size_t i = 0; i < std::min(only.size(), kFirstEntries); i++)
    changes.first_added.push_back(write(only[i]));
  only.clear();
  std::set_difference(first.begin(), first.end(), second.begin(), second.end(), std::back_inserter(only));
  changes.removed = only.size();
  for (std::size_t i = 0; i < std::min(only.size(), kFirstEntries); i++)
    changes.first_removed.push_back(write(only[i]));
  if (changes.added == 0 && changes.removed == 0) return std::nullopt;
  return changes;
}

std::vector<std::string_view> lines_of(const gpu::DomainNames& names) {
  std::vector<std::string_view> lines;
  if (names.count == 0 || !names.text) return lines;
  const std::string_view text = *names.text;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

u64 entries_of(const policy::List& list) {
  return list.type == policy::List::Type::domain ? list.names.count : list.prefixes.size();
}

// ---- comparison -------------------------------------------------------------------------------------

// Positions of a longest increasing sequence: those that stay where they are while others move.
std::vector<bool> stays_in_order(const std::vector<std::size_t>& positions) {
  std::vector<std::size_t> tails, before(positions.size(), positions.size());
  for (std::size_t i = 0; i < positions.size(); i++) {
    const auto at = std::lower_bound(tails.begin(), tails.end(), i, [&](std::size_t tail, std::size_t now) {
      return positions[tail] < positions[now];
    });
    if (at != tails.begin()) before[i] = *std::prev(at);
    if (at == tails.end())
      tails.push_back(i);
    else
      *at = i;
  }
  std::vector<bool> stays(positions.size(), false);
  if (!tails.empty())
    for (std::size_t i = tails.back(); i < positions.size(); i = before[i]) stays[i] = true;
  return stays;
}

class Comparison {
 public:
  std::vector<Difference> found;

  void add(const std::string& part, const char* change, std::string at, std::optional<Json> was,
           std::optional<Json> is) {
    found.push_back({part, change, std::move(at), std::move(was), std::move(is), {}, {}});
  }

  // Objects key by key, what has names by names, all else as it is. at: what is compared, in words.
  void compare(const std::string& part, const std::string& at, const Json& was, const Json& is) {
    if (was == is) return;
    if (was.is_object() && is.is_object()) {
      for (const auto& [key, value] : was.items())
        if (!is.contains(key))
          add(part, "removed", below(at, key), value, {});
        else
          compare(part, below(at, key), value, is[key]);
      for (const auto& [key, value] : is.items())
        if (!was.contains(key)) add(part, "added", below(at, key), {}, value);
      return;
    }
    if (is_of_objects(was) && is_of_objects(is)) return compare_ordered(part, at, "", was, is);
    add(part, "changed", at, was, is);
  }

  // Rules, backends, and what else stands in an order. kind: what one of them is called.
  void compare_ordered(const std::string& part, const std::string& at, const std::string& kind,
                       const Json& was, const Json& is) {
    const auto first = identities(was), second = identities(is);
    std::map<std::string, std::size_t> places;
    for (std::size_t i = 0; i < second.size(); i++) places[second[i]] = i;
    std::vector<std::size_t> gone, common, positions;
    std::set<std::size_t> met;
    for (std::size_t i = 0; i < first.size(); i++) {
      const auto place = places.find(first[i]);
      if (place == places.end()) {
        gone.push_back(i);
        continue;
      }
      common.push_back(i);
      positions.push_back(place->second);
      met.insert(place->second);
    }
    const auto name = [&](const Json& array, std::size_t i) { return below(at, called(kind, array[i], i)); };
    for (std::size_t i = 0; i < is.size(); i++) {
      if (met.contains(i)) continue;
      // The same by another name.
      const auto same = std::find_if(gone.begin(), gone.end(), [&](std::size_t before) {
        return nameless(was[before]) == nameless(is[i]);
      });
      if (same != gone.end()) {
        add(part, "renamed", name(was, *same), was[*same].value("name", Json()), is[i].value("name", Json()));
        gone.erase(same);
      } else {
        add(part, "added", fmt::format("{}, as number {}", name(is, i), i + 1), {}, is[i]);
      }
    }
    for (const std::size_t i : gone)
      add(part, "removed", fmt::format("{}, number {}", name(was, i), i + 1), was[i], {});
    const auto stays = stays_in_order(positions);
    for (std::size_t i = 0; i < common.size(); i++) {
      const Json& before = was[common[i]];
      const Json& now = is[positions[i]];
      if (!stays[i]) add(part, "moved", name(is, positions[i]), common[i] + 1, positions[i] + 1);
      if (before != now && nameless(before) != nameless(now))
        compare(part, name(is, positions[i]), before, now);
    }
  }

 private:
  static std::string below(const std::string& at, const std::string& key) {
    return at.empty() ? key : key.starts_with('"') ? at + " " + key : at + ": " + key;
  }
  static bool is_of_objects(const Json& value) {
    return value.is_array() &&
           std::all_of(value.begin(), value.end(), [](const Json& one) { return one.is_object(); });
  }
  // One that is named by its place alone is known by what it says.
  static bool is_named(const Json& one, std::size_t i) {
    return one.contains("name") && one["name"].is_string() && one["name"] != fmt::format("rule {}", i + 1);
  }
  static Json nameless(Json one) {
    one.erase("name");
    return one;
  }
  static std::vector<std::string> identities(const Json& array) {
    std::vector<std::string> all;
    std::map<std::string, u64> seen;
    for (std::size_t i = 0; i < array.size(); i++) {
      std::string identity =
          is_named(array[i], i) ? "n" + array[i]["name"].get<std::string>() : "c" + nameless(array[i]).dump();
      const u64 before = seen[identity]++;
      if (before > 0) identity += fmt::format("\n{}", before);
      all.push_back(std::move(identity));
    }
    return all;
  }
  static std::string called(const std::string& kind, const Json& one, std::size_t i) {
    const std::string name = one.value("name", Json()).is_string() ? one["name"].get<std::string>() : "";
    if (kind.empty()) return name.empty() ? fmt::format("number {}", i + 1) : fmt::format("\"{}\"", name);
    return name.empty() ? fmt::format("{} {}", kind, i + 1) : fmt::format("{} \"{}\"", kind, name);
  }
};

void compare_lists(Comparison& all, const ComparedPolicy& first, const ComparedPolicy& second) {
  const auto count = [](const policy::List& list) {
    const bool names = list.type == policy::List::Type::domain;
    const u64 entries = entries_of(list);
    return Json(names          ? counted(entries, "name")
                : entries == 1 ? std::string("1 prefix")
                               : fmt::format("{} prefixes", entries));
  };
  for (const auto& [name, was] : first.lists) {
    const auto at = second.lists.find(name);
    if (at == second.lists.end()) {
      all.add("lists", "removed", fmt::format("list \"{}\"", name), count(was), {});
      continue;
    }
    const policy::List& is = at->second;
    if (was.type != is.type) {
      all.add("lists", "changed", fmt::format("list \"{}\"", name), count(was), count(is));
      continue;
    }
    auto changes = was.type == policy::List::Type::domain
                       ? compare_sets(lines_of(was.names), lines_of(is.names),
                                      [](std::string_view line) { return std::string(line); })
                       : compare_sets(was.prefixes, is.prefixes, policy::write_prefix);
    if (!changes) continue;
    all.add("lists", "changed", fmt::format("list \"{}\"", name), count(was), count(is));
    all.found.back().entries = std::move(changes);
  }
  for (const auto& [name, is] : second.lists)
    if (!first.lists.contains(name))
      all.add("lists", "added", fmt::format("list \"{}\"", name), {}, count(is));
}

void compare_files(Comparison& all, const ComparedPolicy& first, const ComparedPolicy& second) {
  const auto at = [](const std::string& name) {
    return fmt::format("file {}", name.substr(0, name.find('\0')));
  };
  const auto size = [](const FileDigest& file) { return Json(counted(file.bytes, "byte")); };
  for (const auto& [name, was] : first.files) {
    const auto other = second.files.find(name);
    if (other == second.files.end()) {
      all.add("files", "removed", at(name), size(was), {});
      continue;
    }
    const bool told = !was.digest.empty() && !other->second.digest.empty();
    if (was.bytes != other->second.bytes || (told && was.digest != other->second.digest))
      all.add("files", "changed", at(name), size(was), size(other->second));
  }
  for (const auto& [name, is] : second.files)
    if (!first.files.contains(name)) all.add("files", "added", at(name), {}, size(is));
}

// The order of management's entries says nothing.
void compare_management(Comparison& all, const Json& was, const Json& is) {
  const auto lacks = [](const Json& entries, const Json& one) {
    return std::find(entries.begin(), entries.end(), one) == entries.end();
  };
  for (const auto& entry : was)
    if (lacks(is, entry)) all.add("management", "removed", "management", entry, {});
  for (const auto& entry : is)
    if (lacks(was, entry)) all.add("management", "added", "management", {}, entry);
}

void compare_stages(Comparison& all, const std::string& at, const Json& was, const Json& is) {
  // Those of one kind that stand in the same order are the same; at both ends first.
  const auto kind = [](const Json& stage) { return stage.value("stage", std::string()); };
  const std::size_t n = was.size(), m = is.size();
  std::vector<std::vector<u32>> longest(n + 1, std::vector<u32>(m + 1, 0));
  for (std::size_t i = n; i-- > 0;)
    for (std::size_t j = m; j-- > 0;)
      longest[i][j] = kind(was[i]) == kind(is[j]) ? longest[i + 1][j + 1] + 1
                                                  : std::max(longest[i + 1][j], longest[i][j + 1]);
  const auto name = [&](const Json& stage, std::size_t i) {
    return fmt::format("{}: stage {} ({})", at, i + 1, kind(stage));
  };
  std::size_t i = 0, j = 0;
  while (i < n || j < m) {
    if (i < n && j < m && kind(was[i]) == kind(is[j])) {
      all.compare("pipelines", name(is[j], j), was[i], is[j]);
      i++, j++;
    } else if (j == m || (i < n && longest[i + 1][j] >= longest[i][j + 1])) {
      all.add("pipelines", "removed", name(was[i], i), was[i], {});
      i++;
    } else {
      all.add("pipelines", "added", name(is[j], j), {}, is[j]);
      j++;
    }
  }
}

void compare_pipelines(Comparison& all, const Json& was, const Json& is) {
  for (const auto& [name, pipeline] : was.items()) {
    const std::string at = fmt::format("pipeline \"{}\"", name);
    if (!is.contains(name)) {
      all.add("pipelines", "removed", at, pipeline["stages"], {});
      continue;
    }
    all.compare("pipelines", at + ": inner", pipeline["inner"], is[name]["inner"]);
    compare_stages(all, at, pipeline["stages"], is[name]["stages"]);
  }
  for (const auto& [name, pipeline] : is.items())
    if (!was.contains(name))
      all.add("pipelines", "added", fmt::format("pipeline \"{}\"", name), {}, pipeline["stages"]);
}

}  // namespace

ComparedPolicy compared(const policy::Policy& policy, std::map<std::string, FileDigest> files) {
  return {normal_form(policy), policy.lists, std::move(files)};
}

std::map<std::string, FileDigest> digests_of(const policy::Policy& policy, const policy::FileContents& files,
                                             bool secret) {
  std::set<std::string> of_lists, keys;
  for (const auto& [name, list] : policy.lists) of_lists.insert(list.file);
  const Json settings = Json::parse(policy::to_json(policy));
  for (const auto& pipeline : settings["pipelines"])
    for (const auto& stage : pipeline.is_array() ? pipeline : pipeline["stages"])
      if (stage.contains("key_file")) keys.insert(stage["key_file"].get<std::string>());
  std::map<std::string, FileDigest> digests;
  for (const auto& [name, content] : files) {
    if (of_lists.contains(name)) continue;
    FileDigest digest{name, content.size()};
    if (!secret || !keys.contains(name)) {
      policy::Hash hash;
      hash.add(content);
      digest.digest = fmt::format("{:016x}", hash.value());
    }
    digests.emplace(name, std::move(digest));
  }
  return digests;
}

std::vector<Difference> differences(const ComparedPolicy& first, const ComparedPolicy& second) {
  Comparison all;
  const auto at = [](const ComparedPolicy& policy, const char* key) {
    return policy.settings.value(key, Json());
  };
  Json was = first.settings, is = second.settings;
  for (const char* key : {"management", "rules", "pipelines", "io", "compute", "log"}) {
    was.erase(key);
    is.erase(key);
  }
  all.compare("settings", "", was, is);
  compare_management(all, at(first, "management"), at(second, "management"));
  compare_lists(all, first, second);
  all.compare_ordered("rules", "", "rule", at(first, "rules"), at(second, "rules"));
  compare_pipelines(all, at(first, "pipelines"), at(second, "pipelines"));
  compare_files(all, first, second);
  const Json none = Json::object();
  all.compare("log", "log", first.settings.value("log", none), second.settings.value("log", none));
  for (const char* part : {"io", "compute"}) {
    const std::size_t before = all.found.size();
    all.compare(part, part, at(first, part), at(second, part));
    for (std::size_t i = before; i < all.found.size(); i++) all.found[i].at_attach = true;
  }
  return std::move(all.found);
}

std::string text_of(const Difference& one) {
  const auto value = [](const std::optional<Json>& json) {
    return json ? shown(*json) : std::string("none");
  };
  std::string text;
  if (one.change == "added")
    text = fmt::format("+ {}: {}", one.at, value(one.is));
  else if (one.change == "removed")
    text = fmt::format("- {}: {}", one.at, value(one.was));
  else if (one.change == "moved")
    text = fmt::format("> {}: from number {} to number {}", one.at, value(one.was), value(one.is));
  else if (one.change == "renamed")
    text = fmt::format("= {}: now \"{}\"", one.at, value(one.is));
  else
    text = fmt::format("~ {}: {} -> {}", one.at, value(one.was), value(one.is));
  if (one.entries) {
    const auto some = [](u64 all, const std::vector<std::string>& first) {
      return fmt::format("{}{}{}", fmt::join(first, ", "), all > first.size() ? ", and more" : "", "");
    };
    if (one.entries->added > 0)
      text += fmt::format("; {} added ({})", one.entries->added,
                          some(one.entries->added, one.entries->first_added));
    if (one.entries->removed > 0)
      text += fmt::format("; {} removed ({})", one.entries->removed,
                          some(one.entries->removed, one.entries->first_removed));
  }
  return text;
}

}  // namespace xdpgpu::control
