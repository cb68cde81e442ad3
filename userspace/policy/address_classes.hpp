// SPDX-License-Identifier: MIT
//
// userspace/policy/address_classes.hpp: one address dimension of the rules: from prefixes and lists to
// classes and the boundaries between them, in both families.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "userspace/policy/policy.hpp"
#include "userspace/policy/rule_set.hpp"
#include "userspace/policy/trie.hpp"

namespace xdpgpu::policy {

class AddressClasses {
 public:
  // lists must outlive this.
  explicit AddressClasses(const std::map<std::string, List>& lists) : lists_(lists) {}

  // The rule is met by addresses in any of these; family, if given, leaves the other one out.
  void add(u32 rule, const std::vector<Prefix>& prefixes, const std::vector<std::string>& lists,
           std::optional<u8> family);
  // The rule is met by every address, and by packets without one.
  void add_any(u32 rule) { any_.add(rule); }

  // Sorts and sweeps; call once, after the last rule. The first low subtree gets the number first_low.
  void build(u32 first_low);

  const Classes& classes() const { return classes_; }
  const std::vector<Boundary>& boundaries4() const { return boundaries4_; }
  const std::vector<Boundary>& boundaries6() const { return boundaries6_; }
  u64 boundary_count() const { return boundaries4_.size() + boundaries6_.size() + low_boundaries_.size(); }
  // Low halves: subtree i has the boundaries [low_starts[i], low_starts[i + 1]) of low_boundaries.
  u32 low_count() const { return static_cast<u32>(low_starts_.size() - 1); }
  std::span<const Boundary> low(u32 i) const {
    return std::span(low_boundaries_).subspan(low_starts_[i], low_starts_[i + 1] - low_starts_[i]);
  }

 private:
  // A group of prefixes that stand or fall together, and the rules that they meet.
  struct Atom {
    const std::vector<Prefix>* prefixes;
    std::optional<u8> family;
    RuleSet rules;
  };
  struct Entry6 {
    u64 high, low;
    u32 length_and_atom;
    bool operator<(const Entry6& other) const {
      return std::tie(high, low, length_and_atom) < std::tie(other.high, other.low, other.length_and_atom);
    }
  };
  u32 atom_of_list(const std::string& name, std::optional<u8> family);
  void collect(std::vector<u64>& entries4, std::vector<Entry6>& entries6) const;
  void sweep4(const std::vector<u64>& entries);
  void sweep6(const std::vector<Entry6>& entries, u32 first_low);
  u32 join(u32 of, u32 atom);

  const std::map<std::string, List>& lists_;
  RuleSet any_;
  std::vector<Atom> atoms_;
  std::map<std::pair<std::string, u8>, u32> list_atoms_;
  Classes classes_;
  std::vector<Boundary> boundaries4_, boundaries6_, low_boundaries_;
  std::vector<u64> low_starts_{0};
  struct Joined {
    u64 key = ~0ull;
    u32 result = 0;
  };
  std::vector<Joined> joined_;  // a direct-mapped cache of join()
};

}  // namespace xdpgpu::policy
