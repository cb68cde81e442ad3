// SPDX-License-Identifier: MIT
//
// userspace/control/policy_diff.hpp: in what two policies differ, by what they mean: equal ones that are
// written differently do not. Defaults count as if they were written, lists by their entries wherever these
// stand, values that may come in any order in any order, descriptions not at all.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "userspace/compiler/compiled_policy.hpp"
#include "userspace/control/fields.hpp"

namespace xdpgpu::control {

// Of a set: how many entries are in one policy's alone, and the first of them.
struct EntryChanges {
  u64 added = 0, removed = 0;
  std::vector<std::string> first_added, first_removed;
  static void fields(auto& self, auto& field) {
    field("added", self.added);
    field("removed", self.removed);
    field("first_added", self.first_added);
    field("first_removed", self.first_removed);
  }
};

struct Difference {
  std::string
      part;  // "rules", "lists", "pipelines", "management", "io", "compute", "log", "files", "settings"
  std::string change;  // added, removed, changed, moved, renamed
  std::string at;      // what it is of, in words: "rule "web": match/dst_port"
  std::optional<Json> was, is;
  std::optional<EntryChanges> entries;
  std::optional<bool> at_attach;  // true: taken at attach, and not by "policy apply"
  static void fields(auto& self, auto& field) {
    field("part", self.part);
    field("change", self.change);
    field("at", self.at);
    field("was", self.was);
    field("is", self.is);
    field("entries", self.entries);
    field("at_attach", self.at_attach);
  }
};

// What of a file that a policy names is compared, where it is no list.
struct FileDigest {
  std::string name;  // as the policy's files have it
  u64 bytes = 0;
  std::string digest{};  // empty: nobody tells (a key)
  static void fields(auto& self, auto& field) {
    field("name", self.name);
    field("bytes", self.bytes);
    field("digest", self.digest);
  }
};

// A policy as it is compared.
struct ComparedPolicy {
  Json settings;  // each, but lists
  std::map<std::string, policy::List> lists;
  std::map<std::string, FileDigest> files;  // but those of lists
};

ComparedPolicy compared(const policy::Policy& policy, std::map<std::string, FileDigest> files);
// Of all files but those that only lists are read from; keys without a digest where `secret`.
std::map<std::string, FileDigest> digests_of(const policy::Policy& policy, const policy::FileContents& files,
                                             bool secret);

// What makes the second policy of the first one.
std::vector<Difference> differences(const ComparedPolicy& first, const ComparedPolicy& second);

// A line each, without what stands around them.
std::string text_of(const Difference& difference);

}  // namespace xdpgpu::control
