// SPDX-License-Identifier: MIT
//
// gpu/stages/hashed_set.hpp: writes a set that devices find names or strings in (hashed_set.h).
#pragma once

#include <algorithm>
#include <array>
#include <vector>

#include "gpu/stages/dialect.h"
#include "gpu/stages/hashed_set.h"

namespace xdpgpu::gpu {

inline u64 hashed_slots(u64 strings) { return strings + strings / 3 + 1; }

// In `slots` slots of an image, which are all 0 at first, from `table` on.
class HashedSet {
 public:
  HashedSet(std::vector<u32>& image, u32 table, u32 slots) : image_(image), table_(table), slots_(slots) {}

  // What the set has of the string, which is for the caller to write: 0 if it is new. It must not stay 0.
  u32& at(const xg_hashed& hash) {
    const std::array<u32, 3> upper{static_cast<u32>(hash.low >> 32), static_cast<u32>(hash.high),
                                   static_cast<u32>(hash.high >> 32)};
    for (u32 slot = xg_hashed_slot(slots_, hash);; slot = slot + 1 == slots_ ? 0 : slot + 1) {
      u32* const words = &image_[table_ + u64{slot} * XG_HASHED_SLOT];
      if (words[3] == 0) std::copy(upper.begin(), upper.end(), words);
      if (std::equal(upper.begin(), upper.end(), words)) return words[3];
    }
  }

 private:
  std::vector<u32>& image_;
  const u32 table_, slots_;
};

}  // namespace xdpgpu::gpu
