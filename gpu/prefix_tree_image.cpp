// SPDX-License-Identifier: MIT
#include "gpu/prefix_tree_image.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "gpu/prefix_order.hpp"
#include "gpu/stages/compiler.hpp"
#include "gpu/stages/image.h"

namespace xdpgpu::gpu {
namespace {

constexpr u32 kSlots = 1u << XG_TREE_STEP;

void clear_behind(TreeAddress& address, u32 length) {
  for (u32 i = 0; i < 4; i++) {
    const u32 kept = length > i * 32 ? std::min(length - i * 32, 32u) : 0;
    if (kept < 32) address[i] &= kept == 0 ? 0 : ~u32{0} << (32 - kept);
  }
}

// As many first bits as about four prefixes share an entry, and as fit the steps behind them.
u32 first_bits(u64 prefixes, u32 width) {
  u32 bits = width % XG_TREE_STEP;
  while (bits + XG_TREE_STEP <= 18 && prefixes >> (bits + 2) != 0) bits += XG_TREE_STEP;
  return bits;
}

template <class Prefix>
class Tree {
 public:
  // The jumps, which are the most, go behind the image at once.
  Tree(LargeVector<Prefix> prefixes, std::vector<u32>& image)
      : prefixes_(std::move(prefixes)), image_(image), jumps_(image.size()) {
    // Address space only, until it is used.
    nodes_.reserve(prefixes_.size() * XG_TREE_NODE);
    leaves_.reserve(prefixes_.size());
  }

  void build(u32 first) {
    const u32 count = 1u << first;
    entries_.assign(count, XG_TREE_LEAF);
    std::vector<Range> children(count);
    std::vector<u32> values(count, 0);
    spread({0, static_cast<u32>(prefixes_.size())}, 0, first, values.data(), children.data());
    for (u32 slot = 0; slot < count; slot++) {
      if (children[slot].empty()) {
        entries_[slot] = XG_TREE_LEAF | values[slot];
        continue;
      }
      const u32 node = add_nodes(1);
      entries_[slot] = node;
      fill(node, children[slot], first, values[slot]);
    }
  }

  // What is not in the image yet.
  u64 words() const { return entries_.size() + nodes_.size() + leaves_.size(); }
  const LargeVector<u32>& entries() const { return entries_; }
  const LargeVector<u32>& nodes() const { return nodes_; }
  const LargeVector<u32>& leaves() const { return leaves_; }
  // Where they begin in the image.
  u64 jumps() const { return jumps_; }

 private:
  struct Range {
    u32 first = 0, end = 0;
    bool empty() const { return first == end; }
  };

  // Of the prefixes in `range`, which agree in the first `depth` bits: those that end within the next `bits`
  // give their slots a value, the others are the slots' children.
  void spread(Range range, u32 depth, u32 bits, u32* values, Range* children) const {
    for (u32 i = range.first; i < range.end; i++) {
      const Prefix& prefix = prefixes_[i];
      const u32 slot = prefix.bits(depth, bits);
      if (prefix.length() <= depth + bits) {
        // A longer one stands behind it, and is written over it.
        std::fill_n(values + slot, 1u << (depth + bits - prefix.length()), prefix.value());
      } else {
        if (children[slot].empty()) children[slot].first = i;
        children[slot].end = i + 1;
      }
    }
  }

  void fill(u32 node, Range range, u32 depth, u32 around) {
    const Prefix& one = prefixes_[range.first];
    if (range.end - range.first == 1)
      return jump(node, one.address(), one.length(), XG_TREE_LEAF | one.value(), around);
    if (const u32 agreed = agreement(range, depth); agreed >= depth + 2 * XG_TREE_STEP) {
      const u32 next = add_nodes(1);
      jump(node, one.address(), agreed, next, around);
      return fill(next, range, agreed, around);
    }
    std::array<Range, kSlots> children{};
    std::array<u32, kSlots> values;
    values.fill(around);
    spread(range, depth, XG_TREE_STEP, values.data(), children.data());
    u32 has_child = 0, new_leaf = 0;
    const u32 first_leaf = static_cast<u32>(leaves_.size());
    for (u32 slot = 0; slot < kSlots; slot++) {
      if (!children[slot].empty()) {
        has_child |= 1u << slot;
      } else if (leaves_.size() == first_leaf || leaves_.back() != values[slot]) {
        new_leaf |= 1u << slot;
        leaves_.push_back(values[slot]);
      }
    }
    u32 child = add_nodes(static_cast<u32>(__builtin_popcount(has_child)));
    const std::array<u32, XG_TREE_NODE> words{has_child, new_leaf, child, first_leaf};
    std::copy(words.begin(), words.end(), nodes_.begin() + u64{node} * XG_TREE_NODE);
    for (u32 slot = 0; slot < kSlots; slot++)
      if (!children[slot].empty()) fill(child++, children[slot], depth + XG_TREE_STEP, values[slot]);
  }

  // The depth of whole steps up to which all of the range agree and none of them ends.
  u32 agreement(Range range, u32 depth) const {
    const TreeAddress low = prefixes_[range.first].address();
    const TreeAddress high = prefixes_[range.end - 1].address();
    u32 bits = 0;
    while (bits < 128 && low[bits / 32] == high[bits / 32]) bits += 32;
    if (bits < 128) bits += static_cast<u32>(__builtin_clz(low[bits / 32] ^ high[bits / 32]));
    if (bits < depth + 2 * XG_TREE_STEP) return depth;
    for (u32 i = range.first; i < range.end; i++) bits = std::min(bits, prefixes_[i].length() - 1);
    return depth + (bits - depth) / XG_TREE_STEP * XG_TREE_STEP;
  }

  void jump(u32 node, TreeAddress address, u32 bits, u32 entry, u32 around) {
    clear_behind(address, bits);
    nodes_[u64{node} * XG_TREE_NODE + 2] = static_cast<u32>((image_.size() - jumps_) / XG_TREE_JUMP);
    image_.insert(image_.end(), {address[0], address[1], address[2], address[3], bits, entry, around, 0});
  }

  // Their words are 0.
  u32 add_nodes(u32 count) {
    const u32 first = static_cast<u32>(nodes_.size() / XG_TREE_NODE);
    nodes_.resize(nodes_.size() + u64{count} * XG_TREE_NODE, 0);
    return first;
  }

  LargeVector<Prefix> prefixes_;
  LargeVector<u32> entries_, nodes_, leaves_;
  std::vector<u32>& image_;
  const u64 jumps_;
};

template <class Prefix>
Result<void> append(LargeVector<Prefix> prefixes, std::vector<u32>& image, u32* table) {
  put_in_order(prefixes);
  const u32 first = first_bits(prefixes.size(), Prefix::kWidth);
  Tree tree(std::move(prefixes), image);
  tree.build(first);
  if (image.size() + tree.words() > kImageMaxWords)
    return tl::unexpected(
        fmt::format("its prefixes need more than the {} MiB that a policy's pipelines may have",
                    kImageMaxWords * sizeof(u32) >> 20));
  table[XG_TREE_FIRST] = first;
  table[XG_TREE_JUMPS] = static_cast<u32>(tree.jumps());
  const LargeVector<u32>* const parts[] = {&tree.entries(), &tree.nodes(), &tree.leaves()};
  for (u32 i = 0; i < std::size(parts); i++) {
    table[XG_TREE_ENTRIES + i] = static_cast<u32>(image.size());
    image.insert(image.end(), parts[i]->begin(), parts[i]->end());
  }
  return {};
}

}  // namespace

void make_room_for_trees(u64 prefixes, std::vector<u32>& image) {
  constexpr u64 kEach = XG_TREE_NODE + XG_TREE_JUMP + 2;
  const u64 used = image.size();
  image.reserve(std::min(used + (prefixes * kEach + 4096), std::max(kImageMaxWords, used)));
  advise_huge_pages(image.data() + used, (image.capacity() - used) * sizeof(u32));
}

Result<void> append_prefix_tree(LargeVector<TreePrefix4> prefixes, std::vector<u32>& image, u32* table) {
  return append(std::move(prefixes), image, table);
}

Result<void> append_prefix_tree(LargeVector<TreePrefix6> prefixes, std::vector<u32>& image, u32* table) {
  return append(std::move(prefixes), image, table);
}

}  // namespace xdpgpu::gpu
