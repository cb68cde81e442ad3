// SPDX-License-Identifier: MIT
//
// userspace/control/list_changes.hpp: what an operator adds to the policy's lists of names and removes from
// them, one name at a time (gpu/name_changes.hpp): what is asked, whether it can be done, and what is left of
// it under another policy.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/name_changes.hpp"
#include "userspace/control/result.hpp"
#include "userspace/policy/policy.hpp"

namespace xdpgpu::control {

struct ListOrder {
  std::string list;
  bool add = true;                 // else: remove
  std::vector<std::string> names;  // as a file of the list would have them
};

// Entries as lists have them (gpu/domain_names.hpp), in their order.
struct ListChanged {
  std::vector<std::string> changed;
  std::vector<std::string> unchanged;  // they were there already, or were not there
  gpu::NameChanges names;              // all changes there are then, of all lists
};

// Whether it can be done, and what comes of it; nothing is done. pipelines: the policy's. The error is a
// sentence.
Result<ListChanged> plan_changes(const policy::Policy& policy, const gpu::Pipelines& pipelines,
                                 const gpu::NameChanges& now, const ListOrder& order);

// What is left of changes under a policy that has come: not what its lists say by themselves, nor what was
// changed of lists that it has not, of which each is told in a sentence.
struct SettledChanges {
  gpu::NameChanges names;
  std::vector<std::string> lost;
};
SettledChanges settle_changes(const policy::Policy& policy, const gpu::Pipelines& pipelines,
                              const gpu::NameChanges& names);

// As text, a line each, and back; nothing: it is none.
std::string text_of(const gpu::NameChanges& names);
std::optional<gpu::NameChanges> read_names(std::string_view text);

// What is told of it.
struct ListReport {
  std::string list;
  std::optional<std::string> file;
  bool asked = false;  // by some stage
  u64 added = 0, removed = 0;
  static void fields(auto& self, auto& field) {
    field("list", self.list);
    field("file", self.file);
    field("asked", self.asked);
    field("added", self.added);
    field("removed", self.removed);
  }
};
struct NameReport {
  std::string name, change;  // "added" or "removed"
  static void fields(auto& self, auto& field) {
    field("name", self.name);
    field("change", self.change);
  }
};
struct ListsReport {
  std::vector<ListReport> lists;
  std::optional<std::vector<NameReport>> changes;  // where one list is asked for
  u64 left_out = 0;                                // of these
  static void fields(auto& self, auto& field) {
    field("lists", self.lists);
    field("changes", self.changes);
    field("left_out", self.left_out);
  }
};
// list: empty: all lists of names. At most `limit` changes. The error is a sentence.
Result<ListsReport> report_lists(const policy::Policy& policy, const gpu::Pipelines& pipelines,
                                 const gpu::NameChanges& names, const std::string& list, u64 limit);

}  // namespace xdpgpu::control
