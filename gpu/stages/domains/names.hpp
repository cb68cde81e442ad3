// SPDX-License-Identifier: MIT
//
// gpu/stages/domains/names.hpp: the table of the lists' names, as the host writes it and looks into it.
// Devices ask it which list comes first. Which entries each list has the host finds there, too: for most
// names it follows from what devices are told; of the others, those that several entries name, a list's stand
// in the table under a hash of their own, which no name has.
#pragma once

#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "gpu/domain_names.hpp"
#include "gpu/stages/hashed_set.hpp"

namespace xdpgpu::gpu::domains {

// The entries that a list may have of a name, as bits.
inline constexpr u32 kItself = 1, kBeneath = 2, kBoth = 4;
constexpr u32 bit_of(const DomainEntry& entry) {
  return entry.itself && entry.beneath ? kBoth : entry.itself ? kItself : kBeneath;
}

xg_hashed hash_of(std::string_view name, const std::array<u64, 2>& key);

// Writes the table; lists are numbered from 1, and come in their order.
class TableWriter {
 public:
  TableWriter(std::vector<u32>& image, u32 table, u32 slots, const std::array<u64, 2>& key)
      : table_(image, table, slots), key_(key) {}
  void add(const DomainEntry& entry, u32 list);
  // Once all entries are there.
  void finish();

 private:
  struct Again {
    xg_hashed hash;
    u32 list = 0, bit = 0;
    u32 before = 0;  // what the table had of the name
  };
  void finish_name(std::span<const Again> entries);

  HashedSet table_;
  const std::array<u64, 2> key_;
  std::vector<Again> again_;  // of names that were there already
};

// What stands in a stage's body, for whoever looks into its table.
class TableReader {
 public:
  TableReader(std::span<const u32> image, u32 body);
  const std::array<u64, 2>& key() const { return key_; }
  // What devices are told of the name.
  u32 value(const xg_hashed& hash) const { return find(hash); }
  // The list's entries of the name. value: of the same.
  u32 entries(const xg_hashed& hash, u32 value, u32 list) const;

 private:
  u32 find(const xg_hashed& hash) const;
  std::span<const u32> image_;
  std::array<u64, 2> key_;
  u32 table_ = 0, slots_ = 0;
};

}  // namespace xdpgpu::gpu::domains
