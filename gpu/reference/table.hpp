// SPDX-License-Identifier: MIT
//
// gpu/reference/table.hpp: what stages remember (TableSettings), as plain as it can be said: a set is eight
// entries, or nothing where there has been none, and packets come one after the other.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "gpu/pipelines.hpp"

namespace xdpgpu::gpu::reference {

// Two addresses of 16 bytes, two ports as in packets, four bytes more; a stage says what stands there.
using Key = std::array<u8, 40>;

u64 siphash13(std::span<const u8> message, const std::array<u64, 2>& secret);

struct Entry {
  Key key{};
  u32 tag = 0;  // what the table knows the key's hash by
  u64 deadline = 0;
  u32 rank = 0;                // when it was made or last used, in its set's turns, or how often it was used
  std::array<u32, 3> value{};  // the stage's
  std::array<u32, 16> record{};  // likewise, behind the sets; only `conntrack` has one
};

class Table {
 public:
  Table(const TableSettings& settings, const std::array<u64, 2>& secret);

  // A packet of this key comes at `now` (ticks). What is done next is about it.
  void come(const Key& key, u64 now);
  // The latest time that its set has seen.
  u64 now() const { return set_->clock; }
  // Its entry, nullptr if there is none. uses: the entry is used.
  Entry* find(bool uses);
  void use(Entry& entry) const;
  // A new entry for it, its value all 0; nullptr: there is no place. Only where find() found none. first:
  // entries with one of these bits in their first word give way before others, also where none would.
  Entry* insert(u64 deadline, u32 first = 0);
  // Where an entry of the packet's set stands among all, from 0.
  u64 place_of(const Entry& entry) const;
  u64 places() const { return sets_.size() * 8; }
  // Counts an outcome of the stage's own.
  void count(u32 outcome) { outcomes_[outcome]++; }

  // Everything, laid out as devices have it (gpu/stages/table.h). records: with what stands behind the sets.
  std::vector<u32> words(bool records = false) const;

 private:
  struct Set {
    u64 clock = 0;
    u32 turns = 0;
    std::array<std::optional<Entry>, 8> ways;
  };
  std::optional<Entry>* choose_way(u32 first);

  TableSettings settings_;
  std::array<u64, 2> secret_;
  std::vector<Set> sets_;
  Set* set_ = nullptr;
  Key key_{};
  u32 tag_ = 0;
  u64 touches_ = 0, hits_ = 0, inserted_ = 0, evicted_ = 0, refused_ = 0, occupied_ = 0;
  std::array<u64, 24> outcomes_{};
};

}  // namespace xdpgpu::gpu::reference
