// SPDX-License-Identifier: MIT
#include "gpu/stages/acl/rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "gpu/large_vector.hpp"
#include "gpu/rule_grid.hpp"
#include "gpu/stages/acl/classes.hpp"
#include "gpu/stages/acl/device.h"
#include "gpu/stages/compiler.hpp"

namespace xdpgpu::gpu {
namespace {

constexpr u32 kMostClasses = 1u << 20;  // of addresses
constexpr u32 kMostIndexed = 65536;     // that a table of 16-bit numbers can name
constexpr u8 kTcp = 6;
constexpr u64 kMaxCells = u64{1} << 18;
constexpr u32 kWorstBlocks = 4;  // to look into, where the most have to be
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

void ask_vlans(const std::vector<VlanRange>& vlans, u32 rule, Asked& asked) {
  if (vlans.empty()) asked.nothing(rule);
  for (const VlanRange& range : vlans) {
    if (range.first == 0)
      asked.ranges.push_back({XG_ACL_NO_VLAN, XG_ACL_NO_VLAN, rule});
    else
      asked.ranges.push_back({range.first, range.last, rule});
  }
}

void ask_l4(const AclRule& rule, u32 number, Asked& asked) {
  const auto& protocols = rule.protocols;
  const bool tcp =
      protocols.empty() || std::find(protocols.begin(), protocols.end(), kTcp) != protocols.end();
  if (rule.tcp_flags) {
    for (u32 flags = 0; flags < 256 && tcp; flags++)
      if ((flags & rule.tcp_flags->mask) == rule.tcp_flags->value)
        asked.ranges.push_back({XG_L4_TCP + flags, XG_L4_TCP + flags, number});
    return;
  }
  if (protocols.empty()) asked.nothing(number);
  for (const u32 protocol : protocols) asked.ranges.push_back({protocol, protocol, number});
  if (!protocols.empty() && tcp) asked.ranges.push_back({XG_L4_TCP, XG_L4S - 1, number});
}

// 64-rule words in a block, a power of two, so that there are at most 64 blocks.
u32 block_of(u32 words) {
  u32 block = 1;
  while (block * 64 < words) block *= 2;
  return block;
}

class Builder {
 public:
  Builder(const AclSettings& settings, Compiled& to)
      : settings_(settings), to_(to), image_(to.image), rules_(static_cast<u32>(settings.rules.size())) {
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
    point_here(XG_ACL_ACTIONS);
    for (u32 i = 0; i < rules_; i++)
      image_.push_back(action_word(settings_.rules[i].action, settings_.rules[i].target, i + 1));
    for (u32 d = 0; d < XG_ACL_DIMENSIONS; d++)
      if (auto classified = classify(d); !classified) return tl::unexpected(classified.error());
    const bool flags = std::any_of(settings_.rules.begin(), settings_.rules.end(),
                                   [](const AclRule& rule) { return rule.tcp_flags.has_value(); });
    if (flags) body_[XG_ACL_USED] |= XG_ACL_USES_FLAGS;
    if (words_needed() > kImageMaxWords) return too_large();
    write();
    if (too_large_ || image_.size() > kImageMaxWords) return too_large();
    const u32 at = position();
    image_.insert(image_.end(), body_.begin(), body_.end());
    for (const u32 word : pointers_) to_.points(at + word);
    for (const u32 trees : {XG_ACL_SRC_TREES, XG_ACL_DST_TREES})
      for (const u32 family : {0u, XG_TREE_WORDS}) to_.tree_at(at + trees + family);
    return at;
  }

 private:
  u32 position() const { return static_cast<u32>(image_.size()); }
  // The body's word says where what is appended next begins.
  void point_here(u32 word) {
    body_[word] = position();
    pointers_.push_back(word);
  }
  u32 blocks() const { return (dimensions_[0].words() + block_ - 1) / block_; }
  // What is known of the size before it is written.
  u64 words_needed() const {
    u64 classes = 0;
    for (const AclClasses& dimension : dimensions_) classes += dimension.size();
    return image_.size() + classes * (blocks() + XG_ACL_HEAD);
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
    constexpr std::array<u32, XG_ACL_DIMENSIONS> kSizes{0,      0,           XG_ACL_PORTS, XG_ACL_PORTS,
                                                        XG_L4S, XG_ACL_VLANS};
    const Asked asked = this->asked(dimension);
    AclClasses& classes = dimensions_[dimension];
    classes.number_of(asked.always);
    if (kSizes[dimension] == 0) {
      u32* const trees = &body_[dimension == XG_ACL_SRC ? XG_ACL_SRC_TREES : XG_ACL_DST_TREES];
      if (auto appended = append_addresses(asked.always, asked.prefixes, classes, image_, trees); !appended)
        return appended;
    } else if (!asked.ranges.empty() || !holds_all(asked.always, rules_)) {
      point_here(XG_ACL_TABLES + dimension);
      const auto of_value = add_ranges(asked.always, asked.ranges, kSizes[dimension], classes);
      for (std::size_t i = 0; i < of_value.size(); i += 2)
        image_.push_back(of_value[i] | u32{of_value[i + 1]} << 16);
    }
    if (classes.full()) return too_large();
    if (classes.size() > 1 || !holds_all(classes[0], rules_)) body_[XG_ACL_USED] |= 1u << dimension;
    return {};
  }

  // Returns where the block's bits are, which do not lie across a boundary of their own size.
  u32 store(std::span<const u64> bits) {
    const std::size_t hash =
        std::hash<std::string_view>{}({reinterpret_cast<const char*>(bits.data()), bits.size_bytes()});
    std::vector<u32> words(block_ * 2, 0);
    for (u32 w = 0; w < bits.size(); w++) {
      words[w * 2] = static_cast<u32>(bits[w]);
      words[w * 2 + 1] = static_cast<u32>(bits[w] >> 32);
    }
    for (auto [known, end] = stored_.equal_range(hash); known != end; ++known)
      if (std::equal(words.begin(), words.end(), image_.begin() + known->second)) return known->second;
    align(block_ * 2);
    const u32 at = position();
    too_large_ |= image_.size() + words.size() > kImageMaxWords;
    if (too_large_) return 0;
    image_.insert(image_.end(), words.begin(), words.end());
    stored_.emplace(hash, at);
    return at;
  }
  // At most to kCodeAlign, as that is what the code is aligned to.
  void align(u32 words) { image_.resize((image_.size() + words - 1) / words * words, 0); }

  std::span<const u64> bits(u32 dimension, u32 number, u32 block) const {
    const auto rules = dimensions_[dimension][number].subspan(u64{block} * block_);
    return rules.first(std::min<std::size_t>(rules.size(), block_));
  }

  // By block and class: where the bits are. Neighbours differ in few blocks.
  std::vector<u32> store_rows(u32 dimension) {
    const u32 classes = dimensions_[dimension].size();
    std::vector<u32> rows;
    rows.reserve(u64{blocks()} * classes);
    for (u32 block = 0; block < blocks(); block++)
      for (u32 id = 0; id < classes; id++) {
        const auto own = bits(dimension, id, block);
        const bool same = id != 0 && std::ranges::equal(own, bits(dimension, id - 1, block));
        rows.push_back(same ? rows.back() : store(own));
      }
    return rows;
  }

  u64 blocks_in(std::span<const u64> rules) const {
    u64 blocks = 0;
    for (u32 w = 0; w < rules.size(); w++) blocks |= u64{rules[w] != 0} << w / block_;
    return blocks;
  }

  void write() {
    std::vector<RuleClasses> all;
    for (const AclClasses& classes : dimensions_)
      all.push_back({classes[0].data(), classes.words(), classes.size()});
    const RuleGrid grid = build_rule_grid(all, rules_, {kMaxCells, kWorstBlocks, block_});
    const u64 used = image_.size();
    image_.reserve(words_needed() + grid.cells.size() * 2 + kRoom);
    // A packet reads a few words here and there.
    advise_huge_pages(image_.data() + used, (image_.capacity() - used) * sizeof(u32));
    point_here(XG_ACL_CELLS);
    for (const u64 blocks : grid.cells)
      image_.insert(image_.end(), {static_cast<u32>(blocks), static_cast<u32>(blocks >> 32)});
    for (u32 d = 0; d < XG_ACL_DIMENSIONS; d++) {
      const AclClasses& classes = dimensions_[d];
      const auto rows = store_rows(d);
      point_here(XG_ACL_ROWS + d);
      body_[XG_ACL_CLASSES + d] = classes.size();
      to_.points(position(), static_cast<u32>(rows.size()));
      image_.insert(image_.end(), rows.begin(), rows.end());
      align(XG_ACL_HEAD);
      point_here(XG_ACL_HEADS + d);
      for (u32 id = 0; id < classes.size(); id++) {
        const u64 blocks = blocks_in(classes[id]);
        // Two words a cell.
        image_.insert(image_.end(),
                      {grid.coarse[d][id] * 2, static_cast<u32>(blocks), static_cast<u32>(blocks >> 32), 0});
      }
    }
  }

  static constexpr u64 kRoom = u64{1} << 20;  // words for the bits, where they are few, and for what follows

  const AclSettings& settings_;
  Compiled& to_;
  std::vector<u32>& image_;
  u32 rules_;
  u32 block_ = 1;
  bool too_large_ = false;
  std::vector<AclClasses> dimensions_;
  std::array<u32, XG_ACL_WORDS> body_{};
  std::vector<u32> pointers_;                         // of the body's words
  std::unordered_multimap<std::size_t, u32> stored_;  // hash of a block's bits -> where they are
};

}  // namespace

Result<u32> append_acl(const AclSettings& settings, Compiled& to) { return Builder(settings, to).build(); }

}  // namespace xdpgpu::gpu
