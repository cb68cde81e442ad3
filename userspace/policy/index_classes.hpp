// SPDX-License-Identifier: MIT
//
// userspace/policy/index_classes.hpp: one dimension of the rules whose values index a table directly:
// ports, L4, VLAN.
#pragma once

#include <span>
#include <vector>

#include "userspace/policy/rule_set.hpp"

namespace xdpgpu::policy {

struct IndexRange {
  u32 first, last;  // inclusive
};

class IndexClasses {
 public:
  explicit IndexClasses(u32 indexes) : table_(indexes) {}

  // The rule is met by these indexes, in any order, overlapping or not.
  void add(u32 rule, std::vector<IndexRange> ranges);
  void add_any(u32 rule) { any_.add(rule); }
  // Call once, after the last rule.
  void build();

  const Classes& classes() const { return classes_; }
  std::span<const u16> table() const { return table_; }  // class by index

 private:
  struct Event {
    u32 index;
    u32 rule;
    bool enters;
  };
  std::vector<Event> events_;
  RuleSet any_;
  Classes classes_;
  std::vector<u16> table_;
};

}  // namespace xdpgpu::policy
