// SPDX-License-Identifier: MIT
#include "userspace/policy/classify.hpp"

#include <array>
#include <bit>

namespace xdpgpu::policy {
namespace {

// The tables as the XDP program sees them.
class Walk {
 public:
  explicit Walk(const Tables& tables) : tables_(tables), header_(tables.header) {}

  std::array<u32, XG_DIMS> classes_of(const PacketFacts& packet) const {
    return {address(packet.family, packet.src, header_.src4_root, header_.src6_root),
            address(packet.family, packet.dst, header_.dst4_root, header_.dst6_root),
            index(header_.sport_line, packet.src_port),
            index(header_.dport_line, packet.dst_port),
            index(header_.l4_line, packet.l4),
            index(header_.vlan_line, packet.vlan)};
  }

  // The words in which a rule may match.
  u64 candidates(const std::array<u32, XG_DIMS>& classes) const {
    u64 mask = ~0ull;
    u32 cell = 0;
    for (u32 d = 0; d < XG_DIMS; ++d) {
      if (!used(d)) continue;
      u32 row = header_.first_row[d] + classes[d];
      u64 at = u64{header_.heads_line} * XG_LINE_WORDS + u64{row} * 2;
      mask &= word(at);
      cell += static_cast<u32>(word(at + 1));
    }
    return mask & word(u64{header_.grid_line} * XG_LINE_WORDS + cell);
  }
  u64 rules(const std::array<u32, XG_DIMS>& classes, u32 w) const {
    // Where no dimension is used, any row will do.
    u64 found = header_.dims == 0 ? row(header_.first_row[0], w) : ~0ull;
    for (u32 d = 0; d < XG_DIMS; ++d)
      if (used(d)) found &= row(u64{header_.first_row[d]} + classes[d], w);
    return found;
  }

 private:
  bool used(u32 dimension) const { return (header_.dims >> dimension & 1) != 0; }
  // What is not there is 0: no rule.
  u64 word(u64 index) const {
    const u64 line = index / XG_LINE_WORDS;
    return line < tables_.lines.size() ? tables_.lines[line].word[index % XG_LINE_WORDS] : 0;
  }
  u64 row(u64 index, u32 w) const { return index < tables_.rows.size() ? tables_.rows[index].rules[w] : 0; }

  u32 index(u32 first_line, u32 i) const {
    u64 packed = word(u64{first_line} * XG_LINE_WORDS + i / 4);
    return static_cast<u32>(packed >> (16 * (i % 4))) & 0xffff;
  }

  u32 address(u8 family, const u8* bytes, u32 root4, u32 root6) const {
    if (family == 4) return lookup(load_be(bytes, 4) << 32, root4);
    if (family != 6) return 0;
    u32 value = lookup(load_be(bytes, 8), root6);
    return value < XG_LPM_LOW ? value
                              : lookup(load_be(bytes + 8, 8), header_.low_base + (value - XG_LPM_LOW));
  }

  u32 lookup(u64 key, u32 at) const {
    for (u32 depth = 0; depth < XG_LPM_MAX_DEPTH; ++depth) {
      u64 w = word(at);
      key <<= XG_LPM_SKIP(w);
      switch (XG_LPM_KIND(w)) {
        case XG_LPM_CLASS:
          return XG_LPM_VALUE(w);
        case XG_LPM_LEAF:
          return leaf(w, key);
        case XG_LPM_BRANCH:
          at = XG_LPM_INDEX(w) + static_cast<u32>(key >> (64 - XG_LPM_BITS(w)));
          key <<= XG_LPM_BITS(w);
          break;
        default: {
          u32 next = XG_LPM_KIND(w) == XG_LPM_SPLIT ? split(XG_LPM_INDEX(w), key) : blocks(w, key);
          if (XG_LPM_KIND(w) == XG_LPM_BLOCKS) key <<= XG_LPM_BITS(w);
          if ((next & XG_LPM_GO_ON) == 0) return next;
          at = next & ~XG_LPM_GO_ON;
        }
      }
    }
    return 0;
  }
  u32 leaf(u64 w, u64 key) const {
    u32 value = 0;
    for (u32 i = 0; i < XG_LPM_COUNT(w); ++i)
      if (u64 boundary = word(XG_LPM_INDEX(w) + i); boundary <= (key | 0xffffff))
        value = XG_LPM_VALUE(boundary);
    return value;
  }
  u32 split(u32 index, u64 key) const {
    u64 line = u64{index} * XG_LINE_WORDS;
    u32 n = 0;
    while (n < XG_LPM_SPLIT_KEYS && word(line + n) <= key) ++n;
    return static_cast<u32>(word(line + XG_LPM_SPLIT_KEYS + n / 2) >> (32 * (n % 2)));
  }
  u32 blocks(u64 w, u64 key) const {
    u64 first = (u64{XG_LPM_INDEX(w)} + (key >> (64 - XG_LPM_BITS(w)))) * XG_LINE_WORDS;
    key = XG_LPM_BLOCK_KEY(key << XG_LPM_BITS(w));
    u32 base = XG_LPM_BLOCK_BASE(word(first));
    for (u32 i = 0; i < XG_LINE_WORDS; ++i) {
      u64 block = word(first + i);
      if ((key ^ block) >> XG_LPM_BLOCK_SPAN(block) != 0) continue;
      u32 value = XG_LPM_BLOCK_CLASS(block) ^ base;
      return value == XG_LPM_ESCAPE ? XG_LPM_BLOCK_NUMBER(word(first + i + 1)) : value;
    }
    return base == XG_LPM_ESCAPE ? XG_LPM_BLOCK_NUMBER(word(first + 1)) : base;
  }
  static u64 load_be(const u8* bytes, u32 count) {
    u64 value = 0;
    for (u32 i = 0; i < count; ++i) value = value << 8 | bytes[i];
    return value;
  }

  const Tables& tables_;
  const xg_policy& header_;
};

}  // namespace

u32 l4_of(u8 family, u8 protocol, bool fragment, u8 tcp_flags, u32 control, u32 control_named) {
  if (control < 32 && ((control_named >> control) & 1) != 0) return XG_L4_CONTROL + control;
  if (family == 0) return XG_L4_OTHER;
  bool flags = protocol == 6 && !fragment;
  if (family == 4) return flags ? XG_L4_V4_TCP + tcp_flags : XG_L4_V4 + protocol;
  return flags ? XG_L4_V6_TCP + tcp_flags : XG_L4_V6 + protocol;
}

std::vector<u32> classify(const Tables& tables, const PacketFacts& packet) {
  Walk walk(tables);
  auto classes = walk.classes_of(packet);
  std::vector<u32> found;
  for (u64 words = walk.candidates(classes); words != 0; words &= words - 1) {
    u32 w = static_cast<u32>(std::countr_zero(words));
    for (u64 rules = walk.rules(classes, w); rules != 0; rules &= rules - 1)
      found.push_back(w * 64 + static_cast<u32>(std::countr_zero(rules)));
  }
  return found;
}

u32 words_visited(const Tables& tables, const PacketFacts& packet) {
  Walk walk(tables);
  return static_cast<u32>(std::popcount(walk.candidates(walk.classes_of(packet))));
}

}  // namespace xdpgpu::policy
