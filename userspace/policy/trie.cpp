// SPDX-License-Identifier: MIT
#include "userspace/policy/trie.hpp"

#include <algorithm>
#include <bit>

namespace xdpgpu::policy {
namespace {

constexpr u64 kKindShift = 60;
constexpr u32 kMaxLeaf = XG_LINE_WORDS - 1;  // inner boundaries; the first word is the cell's own value
constexpr u32 kMaxBranchBits = 22;

class TrieBuilder {
 public:
  explicit TrieBuilder(LineStore& store) : store_(store) {}

  // All keys that come here lie in [low, high] and have been shifted by `consumed` bits; `base` holds at
  // low; the boundaries lie inside: low < key <= high.
  u64 cell(std::span<const Boundary> inner, u32 base, u64 low, u64 high, u32 consumed) {
    if (inner.empty()) return base;
    u32 shared = static_cast<u32>(std::countl_zero(low ^ high));
    u64 skip = u64{shared - consumed} << 40;
    if (inner.size() <= kMaxLeaf && fits_leaf(inner, shared)) return leaf(inner, base, shared) | skip;
    if (inner.size() <= XG_LPM_SPLIT_KEYS) return split(inner, 1, base, low, high, shared) | skip;
    u32 bits = branch_bits(inner, shared);
    if (largest_child(inner, shared, bits) <= std::max<u64>(inner.size() / 6, kMaxLeaf))
      return branch(inner, base, low, high, shared, bits) | skip;
    return split(inner, inner.size() / (XG_LPM_SPLIT_KEYS + 1) + 1, base, low, high, shared) | skip;
  }

 private:
  static bool fits_leaf(std::span<const Boundary> inner, u32 shared) {
    return std::all_of(inner.begin(), inner.end(),
                       [&](const Boundary& b) { return ((b.key << shared) & 0xffffff) == 0; });
  }
  static u32 branch_bits(std::span<const Boundary> inner, u32 shared) {
    u32 bits = static_cast<u32>(std::bit_width(inner.size() - 1));
    return std::min({bits, kMaxBranchBits, 64 - shared});
  }
  static u64 child_of(u64 key, u32 shared, u32 bits) { return (key << shared) >> (64 - bits); }
  // A boundary at a child's first key is no inner boundary of it: it costs nothing there.
  static u64 largest_child(std::span<const Boundary> inner, u32 shared, u32 bits) {
    u64 largest = 0, count = 0, child = ~0ull;
    for (const auto& b : inner) {
      u64 of = child_of(b.key, shared, bits);
      if (of != child) child = of, count = 0;
      if ((b.key << shared << bits) != 0) largest = std::max(largest, ++count);
    }
    return largest;
  }

  u64 leaf(std::span<const Boundary> inner, u32 base, u32 shared) {
    u32 first = store_.add_words(inner.size() + 1);
    store_.word(first) = base;
    for (u64 i = 0; i < inner.size(); ++i)
      store_.word(first + 1 + i) = (inner[i].key << shared) | inner[i].value;
    return u64{XG_LPM_LEAF} << kKindShift | u64{inner.size() + 1} << 32 | first;
  }

  u64 branch(std::span<const Boundary> inner, u32 base, u64 low, u64 high, u32 shared, u32 bits) {
    u64 count = 1ull << bits;
    u32 first = store_.add_words(count);
    u64 step = 1ull << (64 - shared - bits);  // keys a child
    u64 start = shared == 0 ? 0 : low & ~(~0ull >> shared);
    u64 next = 0;
    for (u64 child = 0; child < count; ++child, start += step) {
      u64 last = start + (step - 1);
      if (next < inner.size() && inner[next].key == start) base = inner[next++].value;
      u64 from = next;
      while (next < inner.size() && inner[next].key <= last) ++next;
      u64 word = base;
      if (next != from) {
        word = cell(inner.subspan(from, next - from), base, std::max(start, low), std::min(last, high),
                    shared + bits);
        base = inner[next - 1].value;
      }
      store_.word(first + child) = word;
    }
    return u64{XG_LPM_BRANCH} << kKindShift | u64{bits} << 32 | first;
  }

  // Cuts at every `stride`th boundary.
  u64 split(std::span<const Boundary> inner, u64 stride, u32 base, u64 low, u64 high, u32 shared) {
    u32 line = store_.add_lines(1);
    u32 keys = 0;
    u64 from = 0;
    u64 start = low;
    for (u64 cut = stride - 1;; cut += stride, ++keys) {
      bool is_last = cut >= inner.size();
      u64 end = is_last ? high : inner[cut].key - 1;
      u64 until = is_last ? inner.size() : cut;
      u32 value = base;
      if (until != from) value = child(cell(inner.subspan(from, until - from), base, start, end, shared));
      store_.word(u64{line} * XG_LINE_WORDS + XG_LPM_SPLIT_KEYS + keys / 2) |= u64{value}
                                                                               << (32 * (keys % 2));
      if (is_last) break;
      store_.word(u64{line} * XG_LINE_WORDS + keys) = inner[cut].key << shared;
      base = inner[cut].value;
      start = inner[cut].key;
      from = cut + 1;
    }
    return u64{XG_LPM_SPLIT} << kKindShift | u64{keys} << 32 | line;
  }
  u32 child(u64 word) {
    if (XG_LPM_KIND(word) == XG_LPM_CLASS) return XG_LPM_VALUE(word);
    u32 at = store_.add_words(1);
    store_.word(at) = word;
    return XG_LPM_GO_ON | at;
  }

  LineStore& store_;
};

}  // namespace

u32 LineStore::add_lines(u64 count) {
  u32 first = line_count();
  lines_.resize(lines_.size() + count);
  return first;
}

u32 LineStore::add_words(u64 count) {
  if (count >= XG_LINE_WORDS) return add_lines((count + XG_LINE_WORDS - 1) / XG_LINE_WORDS) * XG_LINE_WORDS;
  for (u64 left = count; left < XG_LINE_WORDS; ++left) {
    if (open_[left].empty()) continue;
    u32 line = open_[left].back();
    open_[left].pop_back();
    if (left != count) open_[left - count].push_back(line);
    return line * XG_LINE_WORDS + (XG_LINE_WORDS - static_cast<u32>(left));
  }
  u32 line = add_lines(1);
  open_[XG_LINE_WORDS - count].push_back(line);
  return line * XG_LINE_WORDS;
}

u64 build_trie(LineStore& store, std::span<const Boundary> boundaries) {
  return TrieBuilder(store).cell(boundaries.subspan(1), boundaries[0].value, 0, ~0ull, 0);
}

}  // namespace xdpgpu::policy
