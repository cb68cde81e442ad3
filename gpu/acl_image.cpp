// SPDX-License-Identifier: MIT
#include "gpu/acl_image.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "gpu/acl_classes.hpp"
#include "gpu/acl_grid.hpp"
#include "gpu/stages/image.h"

namespace xdpgpu::gpu {
namespace {

constexpr u32 kMostClasses = 1u << 20;  // of addresses
constexpr u32 kMostIndexed = 65536;     // that a table of 16-bit numbers can name
constexpr u8 kTcp = 6;
static_assert(XG_ACL_PRIORITY_VLAN == XG_VLAN_PRIORITY);

// What the rules ask of one field: the values for which each one's condition holds, and those without any.
struct Asked {
  explicit Asked(u32 words) : always(words, 0) {}
  void nothing(u32 rule) { always[rule / 64] |= u64{1} << rule % 64; }

  std::vector<u64> always;
  std::vector<AclRange> ranges;
  std::vector<AclPrefix> prefixes;
};

void ask(const std::vector<Prefix>& prefixes, u32 rule, Asked& asked) {
  if (prefixes.empty()) asked.nothing(rule);
  for (const Prefix& prefix : prefixes) asked.prefixes.push_back({prefix, rule});
}

void ask(const std::vector<PortRange>& ports, u32 rule, Asked& asked) {
  if (ports.empty()) asked.nothing(rule);
  for (const PortRange& range : ports) asked.ranges.push_back({range.first, range.last, rule});
}

void ask_vlans(const std::vector<u16>& vlans, u32 rule, Asked& asked) {
  if (vlans.empty()) asked.nothing(rule);
  for (const u32 id : vlans) {
    const u32 index = id == 0 ? XG_ACL_NO_VLAN : id;
    asked.ranges.push_back({index, index, rule});
  }
}

void ask_l4(const AclRule& rule, u32 number, Asked& asked) {
  const auto& protocols = rule.protocols;
  const bool tcp =
      protocols.empty() || std::find(protocols.begin(), protocols.end(), kTcp) != protocols.end();
  if (rule.tcp_flags) {
    for (u32 flags = 0; flags < 256 && tcp; flags++)
      if ((flags & rule.tcp_flags->mask) == rule.tcp_flags->value)
        asked.ranges.push_back({XG_ACL_L4_TCP + flags, XG_ACL_L4_TCP + flags, number});
    return;
  }
  if (protocols.empty()) asked.nothing(number);
  for (const u32 protocol : protocols) asked.ranges.push_back({protocol, protocol, number});
  if (!protocols.empty() && tcp) asked.ranges.push_back({XG_ACL_L4_TCP, XG_ACL_L4S - 1, number});
}

// 64-rule words in a block, a power of two, so that there are at most 64 blocks.
u32 block_of(u32 words) {
  u32 block = 1;
  while (block * 64 < words) block *= 2;
  return block;
}

class Builder {
 public:
  Builder(const AclSettings& settings, std::vector<u32>& image)
      : settings_(settings), image_(image), rules_(static_cast<u32>(settings.rules.size())) {
    dimensions_.reserve(XG_ACL_DIMENSIONS);
    for (u32 d = 0; d < XG_ACL_DIMENSIONS; d++)
      dimensions_.emplace_back(rules_, d == XG_ACL_SRC || d == XG_ACL_DST ? kMostClasses : kMostIndexed);
    block_ = block_of(dimensions_[0].words());
  }

  Result<u32> build() {
    body_[XG_BODY_CACHE] = settings_.cache ? 1 : 0;
    body_[XG_BODY_TTL] = settings_.cache_ttl_ms;
    body_[XG_ACL_BLOCK] = block_ * 2;
    body_[XG_ACL_OTHERWISE] = action_word(settings_.otherwise, 0, 0);
    body_[XG_ACL_ACTIONS] = position();
    for (u32 i = 0; i < rules_; i++)
      image_.push_back(action_word(settings_.rules[i].action, settings_.rules[i].target, i + 1));
    for (u32 d = 0; d < XG_ACL_DIMENSIONS; d++)
      if (auto classified = classify(d); !classified) return tl::unexpected(classified.error());
    const bool flags = std::any_of(settings_.rules.begin(), settings_.rules.end(),
                                   [](const AclRule& rule) { return rule.tcp_flags.has_value(); });
    if (flags) body_[XG_ACL_USED] |= XG_ACL_USES_FLAGS;
    if (words_needed() > kImageMaxWords) return too_large();
    write();
    if (image_.size() > kImageMaxWords) return too_large();
    const u32 at = position();
    image_.insert(image_.end(), body_.begin(), body_.end());
    return at;
  }

 private:
  u32 position() const { return static_cast<u32>(image_.size()); }
  u32 row_words() const { return (dimensions_[0].words() + block_ - 1) / block_ * block_ * 2; }
  u64 words_needed() const {
    u64 classes = 1;
    for (const AclClasses& dimension : dimensions_) classes += dimension.size();
    return image_.size() + classes * (row_words() + XG_ACL_HEAD);
  }
  tl::unexpected<std::string> too_large() const {
    return tl::unexpected(
        fmt::format("its {} rules overlap so much that their table would exceed {} MiB: give it fewer rules",
                    rules_, kImageMaxWords * sizeof(u32) >> 20));
  }

  Asked asked(u32 dimension) const {
    Asked asked(dimensions_[dimension].words());
    for (u32 i = 0; i < rules_; i++) {
      const AclRule& rule = settings_.rules[i];
      if (dimension == XG_ACL_SRC) ask(rule.src, i, asked);
      if (dimension == XG_ACL_DST) ask(rule.dst, i, asked);
      if (dimension == XG_ACL_SRC_PORT) ask(rule.src_ports, i, asked);
      if (dimension == XG_ACL_DST_PORT) ask(rule.dst_ports, i, asked);
      if (dimension == XG_ACL_L4) ask_l4(rule, i, asked);
      if (dimension == XG_ACL_VLAN) ask_vlans(rule.vlans, i, asked);
    }
    return asked;
  }

  // Finds the dimension's classes and appends what leads to them.
  Result<void> classify(u32 dimension) {
    constexpr std::array<u32, XG_ACL_DIMENSIONS> kSizes{0,          0,           XG_ACL_PORTS, XG_ACL_PORTS,
                                                        XG_ACL_L4S, XG_ACL_VLANS};
    const Asked asked = this->asked(dimension);
    AclClasses& classes = dimensions_[dimension];
    classes.number_of(asked.always);
    if (kSizes[dimension] == 0) {
      u32* const trees = &body_[dimension == XG_ACL_SRC ? XG_ACL_SRC_TREES : XG_ACL_DST_TREES];
      if (auto appended = append_addresses(asked.always, asked.prefixes, classes, image_, trees); !appended)
        return appended;
    } else if (!asked.ranges.empty()) {
      body_[XG_ACL_TABLES + dimension] = position();
      const auto of_value = add_ranges(asked.always, asked.ranges, kSizes[dimension], classes);
      for (std::size_t i = 0; i < of_value.size(); i += 2)
        image_.push_back(of_value[i] | u32{of_value[i + 1]} << 16);
    }
    if (classes.full()) return too_large();
    if (classes.size() > 1) body_[XG_ACL_USED] |= 1u << dimension;
    return {};
  }

  // Returns where the row starts: no block of it lies across a boundary of its own size.
  u32 write_row(std::span<const u64> rules) {
    image_.resize((image_.size() + block_ * 2 - 1) / (block_ * 2) * (block_ * 2), 0);
    const u32 at = position();
    image_.resize(at + row_words(), 0);
    for (u32 w = 0; w < rules.size(); w++) {
      image_[at + w * 2] = static_cast<u32>(rules[w]);
      image_[at + w * 2 + 1] = static_cast<u32>(rules[w] >> 32);
    }
    return at;
  }

  u64 blocks_in(std::span<const u64> rules) const {
    u64 blocks = 0;
    for (u32 w = 0; w < rules.size(); w++) blocks |= u64{rules[w] != 0} << w / block_;
    return blocks;
  }

  void write() {
    std::vector<u64> all(dimensions_[0].words(), 0);
    for (u32 i = 0; i < rules_; i++) all[i / 64] |= u64{1} << i % 64;
    body_[XG_ACL_ANY] = write_row(all);
    const AclGrid grid = build_acl_grid(dimensions_, rules_, block_);
    body_[XG_ACL_CELLS] = position();
    for (const u64 blocks : grid.cells)
      image_.insert(image_.end(), {static_cast<u32>(blocks), static_cast<u32>(blocks >> 32)});
    for (u32 d = 0; d < XG_ACL_DIMENSIONS; d++) {
      std::vector<u32> heads;
      for (u32 id = 0; id < dimensions_[d].size(); id++) {
        const u64 blocks = blocks_in(dimensions_[d][id]);
        // Two words a cell.
        heads.insert(heads.end(), {grid.coarse[d][id] * 2, write_row(dimensions_[d][id]),
                                   static_cast<u32>(blocks), static_cast<u32>(blocks >> 32)});
      }
      image_.resize((image_.size() + XG_ACL_HEAD - 1) / XG_ACL_HEAD * XG_ACL_HEAD, 0);
      body_[XG_ACL_HEADS + d] = position();
      image_.insert(image_.end(), heads.begin(), heads.end());
    }
  }

  const AclSettings& settings_;
  std::vector<u32>& image_;
  u32 rules_;
  u32 block_ = 1;
  std::vector<AclClasses> dimensions_;
  std::array<u32, XG_ACL_WORDS> body_{};
};

}  // namespace

u32 action_word(AclRule::Action action, u32 target, u32 rule) {
  switch (action) {
    case AclRule::Action::next:
      return XG_NEXT;
    case AclRule::Action::drop:
      return XG_VERDICT(XG_DROP, 0u, 0u, rule);
    case AclRule::Action::pass:
      return XG_VERDICT(XG_PASS, 0u, 0u, rule);
    case AclRule::Action::tx:
      return XG_VERDICT(XG_TX, 0u, 0u, rule);
    case AclRule::Action::redirect:
      return XG_VERDICT(XG_REDIRECT, target, 0u, rule);
  }
  return XG_ABORTED;
}

Result<u32> append_acl(const AclSettings& settings, std::vector<u32>& image) {
  return Builder(settings, image).build();
}

}  // namespace xdpgpu::gpu
