// SPDX-License-Identifier: MIT
#include "gpu/stages/acl/classes.hpp"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "gpu/prefix_tree_image.hpp"
#include "gpu/stages/acl/device.h"
#include "gpu/stages/compiler.hpp"

namespace xdpgpu::gpu {
namespace {

TreeAddress address_of(const Prefix& prefix) {
  TreeAddress address{};
  const u32 bytes = prefix.family == 4 ? 4 : 16;
  for (u32 i = 0; i < bytes; i++) address[i / 4] |= u32{prefix.address[i]} << (24 - i % 4 * 8);
  for (u32 i = 0; i < 4; i++) {
    const u32 kept = prefix.length > i * 32 ? std::min(prefix.length - i * 32, 32u) : 0;
    if (kept < 32) address[i] &= kept == 0 ? 0 : ~u32{0} << (32 - kept);
  }
  return address;
}

struct PlacedPrefix {
  TreeAddress address;
  u32 length;
  u32 rule;
  bool same_prefix(const PlacedPrefix& other) const {
    return length == other.length && address == other.address;
  }
};

bool inside(const PlacedPrefix& one, const PlacedPrefix& around) {
  if (one.length < around.length) return false;
  for (u32 i = 0, left = around.length; left != 0; i++) {
    const u32 bits = std::min(left, 32u);
    if ((one.address[i] ^ around.address[i]) >> (32 - bits) != 0) return false;
    left -= bits;
  }
  return true;
}

// One family's prefixes with the classes that they lead to. Of nested ones the inner one's class has the
// outer ones' rules too, so that the longest prefix that holds an address names the address's class.
template <class To>
LargeVector<To> name_classes(std::span<const u64> always, std::vector<PlacedPrefix>& prefixes,
                             AclClasses& classes) {
  std::sort(prefixes.begin(), prefixes.end(), [](const PlacedPrefix& a, const PlacedPrefix& b) {
    return std::tie(a.address, a.length) < std::tie(b.address, b.length);
  });
  LargeVector<To> named;
  named.reserve(prefixes.size());
  struct Around {
    PlacedPrefix prefix;
    std::vector<u64> rules;
    u32 number;
  };
  std::vector<Around> around;
  for (std::size_t i = 0; i < prefixes.size() && !classes.full();) {
    const PlacedPrefix one = prefixes[i];
    while (!around.empty() && !inside(one, around.back().prefix)) around.pop_back();
    Around inner{one, {}, around.empty() ? 0 : around.back().number};
    const std::span<const u64> outer = around.empty() ? always : around.back().rules;
    inner.rules.assign(outer.begin(), outer.end());
    for (; i < prefixes.size() && prefixes[i].same_prefix(one); i++)
      inner.rules[prefixes[i].rule / 64] |= u64{1} << prefixes[i].rule % 64;
    const u32 number = classes.number_of(inner.rules);
    if (number != inner.number) named.emplace_back(one.address, one.length, number);
    inner.number = number;
    around.push_back(std::move(inner));
  }
  return named;
}

}  // namespace

u32 AclClasses::number_of(std::span<const u64> rules) {
  const std::size_t hash =
      std::hash<std::string_view>{}({reinterpret_cast<const char*>(rules.data()), rules.size_bytes()});
  for (auto [known, end] = by_hash_.equal_range(hash); known != end; ++known)
    if (std::equal(rules.begin(), rules.end(), (*this)[known->second].begin())) return known->second;
  if (size() == most_ || (sets_.size() + words_) * 2 > kImageMaxWords) full_ = true;
  if (full_) return 0;
  const u32 number = size();
  sets_.insert(sets_.end(), rules.begin(), rules.end());
  by_hash_.emplace(hash, number);
  return number;
}

std::vector<u16> add_ranges(std::span<const u64> always, std::span<const AclRange> ranges, u32 size,
                            AclClasses& classes) {
  struct Event {
    u32 at;
    u32 rule;
    bool begins;
  };
  std::vector<Event> events;
  events.reserve(ranges.size() * 2);
  for (const AclRange& range : ranges) {
    events.push_back({range.first, range.rule, true});
    events.push_back({range.last + 1, range.rule, false});
  }
  std::sort(events.begin(), events.end(), [](const Event& a, const Event& b) { return a.at < b.at; });

  std::vector<u16> of_value(size, 0);
  std::vector<u64> holding(always.begin(), always.end());
  // A rule's ranges may overlap: how many of them hold.
  std::vector<u32> depth(always.size() * 64, 0);
  for (std::size_t i = 0; i < events.size() && !classes.full();) {
    const u32 from = events[i].at;
    for (; i < events.size() && events[i].at == from; i++) {
      const u32 rule = events[i].rule;
      depth[rule] += events[i].begins ? 1u : ~0u;
      const u64 bit = u64{1} << rule % 64;
      holding[rule / 64] = depth[rule] != 0 ? holding[rule / 64] | bit : holding[rule / 64] & ~bit;
    }
    const u32 to = i < events.size() ? events[i].at : size;
    if (from >= to) continue;
    const u32 number = classes.number_of(holding);
    std::fill(of_value.begin() + from, of_value.begin() + to, static_cast<u16>(number));
  }
  return of_value;
}

Result<void> append_addresses(std::span<const u64> always, const std::vector<AclPrefix>& prefixes,
                              AclClasses& classes, std::vector<u32>& image, u32* trees) {
  std::vector<PlacedPrefix> v4, v6;
  for (const AclPrefix& one : prefixes)
    (one.prefix.family == 4 ? v4 : v6).push_back({address_of(one.prefix), one.prefix.length, one.rule});
  auto named4 = name_classes<TreePrefix4>(always, v4, classes);
  auto named6 = name_classes<TreePrefix6>(always, v6, classes);
  return append_prefix_tree(std::move(named4), image, trees).and_then([&] {
    return append_prefix_tree(std::move(named6), image, trees + XG_TREE_WORDS);
  });
}

}  // namespace xdpgpu::gpu
