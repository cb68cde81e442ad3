// SPDX-License-Identifier: MIT
//
// gpu/stages/acl/classes.hpp: what the conditions of `acl` rules on one field tell apart: classes of packets
// for which the same rules' conditions hold (gpu/stages/image.h).
#pragma once

#include <algorithm>
#include <span>
#include <unordered_map>
#include <vector>

#include "gpu/pipelines.hpp"

namespace xdpgpu::gpu {

// The classes of a dimension. Class 0 is the rules that have no condition there.
class AclClasses {
 public:
  // most: how many there may be.
  AclClasses(u32 rules, u32 most) : words_(std::max(1u, (rules + 63) / 64)), most_(most) {}

  // The number of the class with these rules, `words()` words with a bit each. Once full() all are class 0.
  u32 number_of(std::span<const u64> rules);
  std::span<const u64> operator[](u32 number) const {
    return std::span(sets_).subspan(u64{number} * words_, words_);
  }
  u32 size() const { return static_cast<u32>(by_hash_.size()); }
  u32 words() const { return words_; }
  // There were more classes than there may be, or than an image has room for.
  bool full() const { return full_; }

 private:
  u32 words_, most_;
  bool full_ = false;
  std::vector<u64> sets_;
  std::unordered_multimap<std::size_t, u32> by_hash_;
};

// Values first..last of a field on which a rule's condition holds.
struct AclRange {
  u32 first;
  u32 last;
  u32 rule;
};
// A prefix in which a rule's condition holds.
struct AclPrefix {
  Prefix prefix;
  u32 rule;
};

// Adds the classes of a field whose values are below `size`. always: the rules that hold on all of them;
// `ranges` may overlap. Returns the class of each value.
std::vector<u16> add_ranges(std::span<const u64> always, std::span<const AclRange> ranges, u32 size,
                            AclClasses& classes);

// Adds the classes of addresses, and appends the tables of prefixes, IPv4's and IPv6's, that name them;
// writes these tables' words to `trees`. Fails as append_prefix_tree does.
Result<void> append_addresses(std::span<const u64> always, const std::vector<AclPrefix>& prefixes,
                              AclClasses& classes, std::vector<u32>& image, u32* trees);

}  // namespace xdpgpu::gpu
