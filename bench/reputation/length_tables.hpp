// SPDX-License-Identifier: MIT
//
// bench/reputation/length_tables.hpp: longest-prefix match the plain way, on one CPU: a hash table, looked up
// once for each prefix length that there is, the longest first.
#pragma once

#include <bitset>
#include <vector>

#include "userspace/policy/policy.hpp"

namespace xdpgpu::bench {

class LengthTables {
 public:
  // Room for so many prefixes.
  explicit LengthTables(u64 prefixes);
  // list: 1 or more. Of equal prefixes the first one counts.
  void add(const policy::Prefix& prefix, u32 list);
  // The list of the longest prefix that holds the address, 0: none. As many bytes as the family has.
  u32 find(u8 family, const u8* address) const;

 private:
  struct Entry {
    u64 high = 0, low = 0;
    u32 kind = 0;  // family and length; 0: free
    u32 list = 0;
  };
  const Entry& slot(u64 high, u64 low, u32 kind) const;

  std::vector<Entry> entries_;
  std::bitset<129> lengths_[2];
};

}  // namespace xdpgpu::bench
