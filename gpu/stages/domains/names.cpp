// SPDX-License-Identifier: MIT
#include "gpu/stages/domains/names.hpp"

#include <algorithm>
#include <cstring>
#include <tuple>

#include "gpu/image_words.hpp"
#include "gpu/stages/domains/device.h"

namespace xdpgpu::gpu::domains {
namespace {

// Where a list's entries of a name stand, if they do not follow.
xg_hashed hash_for(const xg_hashed& hash, u32 list) {
  const u64 other = u64{list} * 0x9e3779b97f4a7c15u;
  return {hash.low ^ other, hash.high + other};
}

// A list's entries of the name, as what devices are told says it where no other entry is in the way.
u32 follows(u32 value, u32 list) {
  const bool itself = (value & 0xffff) == list, beneath = value >> 16 == list;
  return itself && beneath ? kBoth : itself ? kItself : beneath ? kBeneath : 0;
}

auto order_of(const xg_hashed& hash) { return std::tuple(hash.low, hash.high); }

}  // namespace

xg_hashed hash_of(std::string_view name, const std::array<u64, 2>& key) {
  XG_SIP_BEGIN(key[0], key[1]);
  for (std::size_t end = name.size();;) {
    const std::size_t dot = name.substr(0, end).rfind('.');
    const std::size_t first = dot == std::string_view::npos ? 0 : dot + 1;
    std::array<char, 64> bytes{};
    bytes[0] = static_cast<char>(end - first);
    std::memcpy(&bytes[1], &name[first], end - first);
    for (std::size_t at = 0; at <= end - first; at += sizeof(u64)) {
      u64 word;
      std::memcpy(&word, &bytes[at], sizeof(word));
      XG_SIP_WORD(word);
    }
    if (first == 0) return xg_hashed_end(v0, v1, v2, v3);
    end = dot;
  }
}

// Of equal names the list that comes first counts.
void TableWriter::add(const DomainEntry& entry, u32 list) {
  const xg_hashed hash = hash_of(entry.name, key_);
  u32& lists = table_.at(hash);
  if (lists != 0) again_.push_back({hash, list, bit_of(entry), lists});
  if (entry.itself && (lists & 0xffff) == 0) lists |= list;
  if (entry.beneath && lists >> 16 == 0) lists |= list << 16;
}

void TableWriter::finish() {
  std::stable_sort(again_.begin(), again_.end(),
                   [](const Again& a, const Again& b) { return order_of(a.hash) < order_of(b.hash); });
  for (auto first = again_.begin(); first != again_.end();) {
    const auto end = std::find_if(
        first, again_.end(), [&](const Again& one) { return order_of(one.hash) != order_of(first->hash); });
    finish_name({first, end});
    first = end;
  }
}

// The table has room: each list that needs a slot of its own has an entry that needs none, or there is an
// entry before them all that does.
void TableWriter::finish_name(std::span<const Again> entries) {
  const Again& second = entries.front();
  const u32 first_list = std::max(second.before & 0xffff, second.before >> 16);
  const u32 value = table_.at(second.hash);
  u32 list = first_list, bits = follows(second.before, first_list);
  const auto write = [&] {
    if (bits != follows(value, list)) table_.at(hash_for(second.hash, list)) = bits;
  };
  for (const Again& one : entries) {
    if (one.list != list) write(), list = one.list, bits = 0;
    bits |= one.bit;
  }
  write();
}

TableReader::TableReader(std::span<const u32> image, u32 body)
    : image_(image),
      key_{word_pair_at(image, body + XG_DOMAINS_KEY), word_pair_at(image, body + XG_DOMAINS_KEY + 2)},
      table_(image[body + XG_DOMAINS_TABLE]),
      slots_(image[body + XG_DOMAINS_SLOTS]) {}

u32 TableReader::find(const xg_hashed& hash) const {
  // It is only read; the handle has no const.
  return xg_hashed_find({const_cast<xg_word*>(image_.data())}, table_, slots_, hash);
}

u32 TableReader::entries(const xg_hashed& hash, u32 value, u32 list) const {
  const u32 own = find(hash_for(hash, list));
  return own != 0 ? own : follows(value, list);
}

}  // namespace xdpgpu::gpu::domains
