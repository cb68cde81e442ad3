// SPDX-License-Identifier: MIT
#include "userspace/policy/trie.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <stdexcept>

namespace xdpgpu::policy {
namespace {

constexpr u64 kKindShift = 60;
constexpr u32 kMaxLeaf = XG_LINE_WORDS - 1;  // inner boundaries; the first word is the cell's own value
constexpr u32 kMaxBranchBits = 22;
constexpr u64 kFewForBlocks = 64;     // boundaries: below, lines are less full
constexpr u64 kManyForBlocks = 4096;  // boundaries
constexpr u64 kMeanInLine = 8;        // boundaries a line, at most: half as many blocks
constexpr u32 kFirstBits = 8;
constexpr u32 kBlockKeyBit = 21;  // lowest key bit that a block's word has room for

// A line of blocks being written: the ranges between the boundaries, but for those of the base.
class BlockLine {
 public:
  // The keys from `start` to `last`, `consumed` bits of which are known; nothing where they do not fit.
  static std::optional<BlockLine> of(std::span<const Boundary> inner, u32 first_value, u64 start, u64 last,
                                     u32 consumed) {
    // The base is a value that saves a block wherever it stands: the first one's or its neighbour's.
    std::optional<BlockLine> best;
    for (u32 base : {first_value, inner.empty() ? first_value : inner[0].value}) {
      BlockLine line(base);
      if (line.fill(inner, first_value, start, last, consumed) && (!best || line.used_ < best->used_))
        best = line;
      if (inner.empty()) break;
    }
    return best;
  }
  // All keys of the line are what the number (as in a split) says.
  static BlockLine escape(u32 number) { return BlockLine(number); }
  u64 word(u32 i) const { return words_[i] | (i == 0 ? u64{base_} << 13 : 0); }

 private:
  explicit BlockLine(u32 base) : value_(base), base_(std::min(base, XG_LPM_ESCAPE)) {
    words_.fill(XG_LPM_NO_BLOCK);
    if (base_ == XG_LPM_ESCAPE) {
      words_[1] |= u64{base} << kBlockKeyBit;
      used_ = 2;
    }
  }
  bool fill(std::span<const Boundary> inner, u32 value, u64 start, u64 last, u32 consumed) {
    for (u64 i = 0; i <= inner.size(); ++i) {
      u64 end = i == inner.size() ? last : inner[i].key - 1;
      if (value != value_ && !add_range(start, end, value, consumed)) return false;
      if (i < inner.size()) start = inner[i].key, value = inner[i].value;
    }
    return true;
  }
  // The largest aligned blocks, one after the other.
  bool add_range(u64 start, u64 end, u32 value, u32 consumed) {
    for (;;) {
      u32 span = start == 0 ? 63 : static_cast<u32>(std::countr_zero(start));
      while (span > 0 && ((1ull << span) - 1) > end - start) --span;
      if (span + consumed < kBlockKeyBit || span + consumed > 63) return false;
      if (!add(start << consumed, span + consumed, value)) return false;
      u64 block_end = start + ((1ull << span) - 1);
      if (block_end == end) return true;
      start = block_end + 1;
    }
  }
  bool add(u64 key, u32 span, u32 value) {
    u32 small = std::min(value, XG_LPM_ESCAPE);
    u32 need = small == XG_LPM_ESCAPE ? 2 : 1;
    if (used_ + need > XG_LINE_WORDS) return false;
    words_[used_++] = key | u64{small ^ base_} << 6 | span;
    if (need == 2) words_[used_++] |= u64{value} << kBlockKeyBit;
    return true;
  }

  std::array<u64, XG_LINE_WORDS> words_;
  u32 value_, base_;
  u32 used_ = 0;
};

class TrieBuilder {
 public:
  explicit TrieBuilder(LineStore& store) : store_(store) {}

  u32 deepest() const { return deepest_; }

  // All keys that come here lie in [low, high] and have been shifted by `consumed` bits; `base` holds at
  // low; the boundaries lie inside: low < key <= high.
  // may_block: whether lines of blocks may be tried. They need not make a cell smaller, so what a line
  // sends on is not tried again before it is.
  u64 cell(std::span<const Boundary> inner, u32 base, u64 low, u64 high, u32 consumed,
           bool may_block = true) {
    const Level level(*this);
    if (inner.empty()) return base;
    u32 shared = static_cast<u32>(std::countl_zero(low ^ high));
    u64 skip = u64{shared - consumed} << 40;
    if (inner.size() <= kMaxLeaf && fits_leaf(inner, shared)) return leaf(inner, base, shared) | skip;
    if (inner.size() <= XG_LPM_SPLIT_KEYS) return split(inner, 1, base, low, high, shared) | skip;
    if (u32 bits = may_block ? blocks_bits(inner, shared) : 0; bits != 0)
      return blocks(inner, base, low, high, shared, bits) | skip;
    u32 bits = branch_bits(inner, shared);
    // Where the keys fill a part of the range alone, a few bits first: then blocks fit the parts.
    if (inner.size() >= kManyForBlocks) bits = std::min(bits, kFirstBits);
    if (largest_child(inner, shared, bits) <= inner.size() / 6)
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
  // Inner boundaries of the child that has most, those aside that one word more ends: what makes a leaf, or
  // fits a split. Seven that do neither may all be a single grandchild's again, and so on, bits by bits.
  static u64 largest_child(std::span<const Boundary> inner, u32 shared, u32 bits) {
    u64 largest = 0;
    for (u64 from = 0, to; from < inner.size(); from = to) {
      u64 child = child_of(inner[from].key, shared, bits);
      for (to = from + 1; to < inner.size() && child_of(inner[to].key, shared, bits) == child;) ++to;
      // A boundary at a child's first key is none of its inner ones: it costs nothing there.
      if (shared + bits == 64 || inner[from].key << (shared + bits) == 0) ++from;
      auto own = inner.subspan(from, to - from);
      if (own.size() > XG_LPM_SPLIT_KEYS && (own.size() > kMaxLeaf || !fits_leaf(own, shared + bits)))
        largest = std::max<u64>(largest, own.size());
    }
    return largest;
  }

  static bool fits_block(u64 key, u32 consumed) {
    return key == 0 || static_cast<u32>(std::countr_zero(key)) + consumed >= kBlockKeyBit;
  }
  // How many bits pick a line of blocks; 0 where blocks would not pay: too few boundaries, too many values
  // that need a word of their own, or too many boundaries that crowd in too few lines. As elsewhere, a
  // child is left with a sixth at most, or with what one word more ends.
  static u32 blocks_bits(std::span<const Boundary> inner, u32 shared) {
    if (inner.size() <= kMaxLeaf) return 0;
    u64 mean = inner.size() < kFewForBlocks ? kMeanInLine / 2 : kMeanInLine;
    u32 bits = static_cast<u32>(std::bit_width(inner.size() / mean));
    bits = std::min({bits, kMaxBranchBits, 64 - shared});
    u64 crowded = 0, wide = 0, count = 0, child = ~0ull;
    auto close = [&] { crowded += count > 2 * XG_LINE_WORDS ? count : 0; };
    for (const auto& b : inner) {
      u64 of = child_of(b.key, shared, bits);
      if (of != child) close(), child = of, count = 0;
      ++count;
      wide += b.value >= XG_LPM_ESCAPE && b.value < XG_LPM_LOW ? 1 : 0;
      // A key that a block has no room for takes its whole line along.
      crowded += fits_block(b.key, shared + bits) ? 0 : kMeanInLine;
    }
    close();
    bool pays = crowded <= inner.size() / 4 && wide <= inner.size() / 8;
    return pays && largest_child(inner, shared, bits) <= inner.size() / 6 ? bits : 0;
  }

  u64 leaf(std::span<const Boundary> inner, u32 base, u32 shared) {
    u32 first = store_.add_words(inner.size() + 1);
    store_.word(first) = base;
    for (u64 i = 0; i < inner.size(); ++i)
      store_.word(first + 1 + i) = (inner[i].key << shared) | inner[i].value;
    return u64{XG_LPM_LEAF} << kKindShift | u64{inner.size() + 1} << 32 | first;
  }

  u64 branch(std::span<const Boundary> inner, u32 base, u64 low, u64 high, u32 shared, u32 bits) {
    u32 first = store_.add_words(1ull << bits);
    each_child(inner, base, low, high, shared, bits,
               [&](u64 child, std::span<const Boundary> own, u32 own_base, u64 start, u64 last) {
                 u64 word = cell(own, own_base, start, last, shared + bits);
                 store_.word(first + child) = word;
               });
    return u64{XG_LPM_BRANCH} << kKindShift | u64{bits} << 32 | first;
  }

  u64 blocks(std::span<const Boundary> inner, u32 base, u64 low, u64 high, u32 shared, u32 bits) {
    u32 first = store_.add_lines(1ull << bits);
    each_child(inner, base, low, high, shared, bits,
               [&](u64 child, std::span<const Boundary> own, u32 own_base, u64 start, u64 last) {
                 u64 at = (first + child) * XG_LINE_WORDS;
                 auto line = BlockLine::of(own, own_base, start, last, shared + bits);
                 if (!line) {
                   bool smaller = own.size() <= inner.size() / 6;
                   u64 word = cell(own, own_base, start, last, shared + bits, smaller);
                   line = BlockLine::escape(this->child(word));
                 }
                 for (u32 i = 0; i < XG_LINE_WORDS; ++i) store_.word(at + i) = line->word(i);
               });
    return u64{XG_LPM_BLOCKS} << kKindShift | u64{bits} << 32 | first;
  }

  // Calls f(child, its inner boundaries, its base, its first and last key) for all 2^bits children.
  template <class F>
  static void each_child(std::span<const Boundary> inner, u32 base, u64 low, u64 high, u32 shared, u32 bits,
                         F&& f) {
    u64 step = 1ull << (64 - shared - bits);  // keys a child
    u64 start = shared == 0 ? 0 : low & ~(~0ull >> shared);
    u64 next = 0;
    for (u64 child = 0; child < 1ull << bits; ++child, start += step) {
      u64 last = start + (step - 1);
      if (next < inner.size() && inner[next].key == start) base = inner[next++].value;
      u64 from = next;
      while (next < inner.size() && inner[next].key <= last) ++next;
      f(child, inner.subspan(from, next - from), base, std::max(start, low), std::min(last, high));
      if (next != from) base = inner[next - 1].value;
    }
  }

  // Cuts at every `stride`th boundary.
  u64 split(std::span<const Boundary> inner, u64 stride, u32 base, u64 low, u64 high, u32 shared) {
    u32 line = store_.add_lines(1);
    fill_split(line, inner, stride, base, low, high, shared);
    return u64{XG_LPM_SPLIT} << kKindShift | line;
  }
  void fill_split(u32 line, std::span<const Boundary> inner, u64 stride, u32 base, u64 low, u64 high,
                  u32 shared) {
    u64 first_value = u64{line} * XG_LINE_WORDS + XG_LPM_SPLIT_KEYS;
    auto set_value = [&](u32 i, u32 value) {
      store_.word(first_value + i / 2) |= u64{value} << (32 * (i % 2));
    };
    u32 keys = 0;
    u64 from = 0;
    u64 start = low;
    for (u64 cut = stride - 1;; cut += stride, ++keys) {
      bool is_last = cut >= inner.size();
      u64 end = is_last ? high : inner[cut].key - 1;
      u64 until = is_last ? inner.size() : cut;
      u32 value = base;
      if (until != from) value = child(cell(inner.subspan(from, until - from), base, start, end, shared));
      set_value(keys, value);
      if (is_last) {
        for (; keys < XG_LPM_SPLIT_KEYS; ++keys) {
          store_.word(u64{line} * XG_LINE_WORDS + keys) = ~0ull;
          set_value(keys + 1, value);
        }
        return;
      }
      store_.word(u64{line} * XG_LINE_WORDS + keys) = inner[cut].key << shared;
      base = inner[cut].value;
      start = inner[cut].key;
      from = cut + 1;
    }
  }
  u32 child(u64 word) {
    if (XG_LPM_KIND(word) == XG_LPM_CLASS) return XG_LPM_VALUE(word);
    u32 at = store_.add_words(1);
    store_.word(at) = word;
    return XG_LPM_GO_ON | at;
  }

  // Counts the words that a walk has read when it has read a cell's.
  struct Level {
    explicit Level(TrieBuilder& builder) : depth(builder.depth_) {
      builder.deepest_ = std::max(builder.deepest_, ++depth);
    }
    ~Level() { --depth; }
    u32& depth;
  };

  LineStore& store_;
  u32 depth_ = 0, deepest_ = 0;
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
  TrieBuilder builder(store);
  u64 root = builder.cell(boundaries.subspan(1), boundaries[0].value, 0, ~0ull, 0);
  // A walk that ends early takes an address for one that no list has.
  if (builder.deepest() > XG_LPM_MAX_DEPTH)
    throw std::length_error("more boundaries than a trie has depth for");
  return root;
}

}  // namespace xdpgpu::policy
