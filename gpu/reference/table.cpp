// SPDX-License-Identifier: MIT
#include "gpu/reference/table.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include "gpu/stages/table.h"

namespace xdpgpu::gpu::reference {
namespace {

void round(std::array<u64, 4>& v) {
  v[0] += v[1], v[1] = std::rotl(v[1], 13) ^ v[0], v[0] = std::rotl(v[0], 32);
  v[2] += v[3], v[3] = std::rotl(v[3], 16) ^ v[2];
  v[0] += v[3], v[3] = std::rotl(v[3], 21) ^ v[0];
  v[2] += v[1], v[1] = std::rotl(v[1], 17) ^ v[2], v[2] = std::rotl(v[2], 32);
}

void put64(std::vector<u32>& words, u64 at, u64 value) {
  words[at] = static_cast<u32>(value);
  words[at + 1] = static_cast<u32>(value >> 32);
}

}  // namespace

// SipHash (Aumasson and Bernstein, 2012) with one round a word and three at the end.
u64 siphash13(std::span<const u8> message, const std::array<u64, 2>& secret) {
  std::array<u64, 4> v{secret[0] ^ 0x736f6d6570736575, secret[1] ^ 0x646f72616e646f6d,
                       secret[0] ^ 0x6c7967656e657261, secret[1] ^ 0x7465646279746573};
  // In words of eight bytes, the last one ending in the number of bytes.
  std::vector<u64> words(message.size() / 8 + 1);
  std::memcpy(words.data(), message.data(), message.size());
  words.back() |= u64{message.size()} << 56;
  for (const u64 word : words) {
    v[3] ^= word;
    round(v);
    v[0] ^= word;
  }
  v[2] ^= 0xff;
  for (int i = 0; i < 3; i++) round(v);
  return v[0] ^ v[1] ^ v[2] ^ v[3];
}

Table::Table(const TableSettings& settings, const std::array<u64, 2>& secret)
    : settings_(settings), secret_(secret), sets_(std::bit_ceil((settings.entries + 7) / 8)) {}

void Table::come(const Key& key, u64 now) {
  const u64 hash = siphash13(key, secret_);
  key_ = key;
  tag_ = static_cast<u32>(hash >> 32) | 1;
  set_ = &sets_[hash % sets_.size()];
  set_->clock = std::max(set_->clock, now);
  set_->turns++;
  touches_++;
}

Entry* Table::find(bool uses) {
  for (auto& way : set_->ways) {
    if (!way || way->deadline <= set_->clock || way->key != key_) continue;
    hits_++;
    if (uses) use(*way);
    return &*way;
  }
  return nullptr;
}

void Table::use(Entry& entry) const {
  if (settings_.evict == TableSettings::Evict::lru) entry.rank = set_->turns;
  if (settings_.evict == TableSettings::Evict::lfu) entry.rank = std::max(entry.rank, entry.rank + 1);
}

// nullptr: none.
std::optional<Entry>* Table::choose_way(u32 first) {
  using Evict = TableSettings::Evict;
  for (auto& way : set_->ways) {
    if (!way) occupied_++;
    if (!way || way->deadline <= set_->clock) return &way;
  }
  std::vector<std::optional<Entry>*> ways;
  for (auto& way : set_->ways)
    if ((way->value[0] & first) != 0) ways.push_back(&way);
  const bool some = !ways.empty();
  if (!some && settings_.evict == Evict::refuse) {
    refused_++;
    return nullptr;
  }
  evicted_++;
  if (!some && settings_.evict == Evict::random) return &set_->ways[tag_ / 256 % 8];
  if (!some)
    for (auto& way : set_->ways) ways.push_back(&way);
  if (settings_.evict == Evict::lfu)
    return *std::min_element(ways.begin(), ways.end(),
                             [](const auto* a, const auto* b) { return (*a)->rank < (*b)->rank; });
  const u32 turns = set_->turns;
  return *std::max_element(ways.begin(), ways.end(), [turns](const auto* a, const auto* b) {
    return turns - (*a)->rank < turns - (*b)->rank;
  });
}

Entry* Table::insert(u64 deadline, u32 first) {
  auto* way = choose_way(first);
  if (way == nullptr) return nullptr;
  inserted_++;
  const u32 rank = settings_.evict == TableSettings::Evict::lfu ? 1 : set_->turns;
  way->emplace(Entry{key_, tag_, deadline, rank, {}, {}});
  return &**way;
}

u64 Table::place_of(const Entry& entry) const {
  u64 way = 0;
  while (!set_->ways[way] || &*set_->ways[way] != &entry) way++;
  return static_cast<u64>(set_ - sets_.data()) * 8 + way;
}

std::vector<u32> Table::words(bool records) const {
  std::vector<u32> words(XG_TABLE_HEAD + sets_.size() * XG_SET_WORDS);
  put64(words, 2 * XG_TABLE_TOUCHES, touches_);
  put64(words, 2 * XG_TABLE_HITS, hits_);
  put64(words, 2 * XG_TABLE_INSERTED, inserted_);
  put64(words, 2 * XG_TABLE_EVICTED, evicted_);
  put64(words, 2 * XG_TABLE_REFUSED, refused_);
  put64(words, 2 * XG_TABLE_OCCUPIED, occupied_);
  for (u32 i = 0; i < outcomes_.size(); i++) put64(words, 2 * (XG_TABLE_OWN + i), outcomes_[i]);
  u64 at = XG_TABLE_HEAD;
  for (const Set& set : sets_) {
    put64(words, at + XG_SET_TIME, set.clock);
    words[at + XG_SET_TURNS] = set.turns;
    for (u32 i = 0; i < set.ways.size(); i++) {
      if (!set.ways[i]) continue;
      const Entry& entry = *set.ways[i];
      words[at + XG_SET_TAGS + i] = entry.tag;
      u32* const to = &words[at + XG_SET_HEAD + i * XG_ENTRY_WORDS];
      std::memcpy(to + XG_ENTRY_KEY, entry.key.data(), entry.key.size());
      to[XG_ENTRY_DEADLINE] = static_cast<u32>(entry.deadline);
      to[XG_ENTRY_DEADLINE + 1] = static_cast<u32>(entry.deadline >> 32);
      to[XG_ENTRY_RANK] = entry.rank;
      std::copy(entry.value.begin(), entry.value.end(), to + XG_ENTRY_VALUE);
    }
    at += XG_SET_WORDS;
  }
  if (!records) return words;
  for (const Set& set : sets_)
    for (const auto& way : set.ways) {
      const std::array<u32, 16> record = way ? way->record : std::array<u32, 16>{};
      words.insert(words.end(), record.begin(), record.end());
    }
  return words;
}

}  // namespace xdpgpu::gpu::reference
