// SPDX-License-Identifier: MIT
//
// gpu/cpu/counts.hpp: what a queue counts at its tables while it decides a batch. The counters in the tables'
// heads are every queue's: cores that counted there at each packet would wait for each other, however far
// apart their sets are. So a batch's counts come to the head at its end, before anybody hears that it is
// decided.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "gpu/cpu/loaded.hpp"
#include "gpu/stages/table.h"

namespace xdpgpu::gpu::cpu {

// Of one thread.
class Counts {
 public:
  // -> what xg_batch.states is for a batch of this generation, until add_up(). Where there are more than
  // kTables tables they are counted in their heads.
  const u32* begin(const Loaded& loaded) noexcept {
    tables_ = static_cast<u32>(loaded.tables.size());
    if (tables_ > kTables) tables_ = 0;
    if (tables_ == 0) return loaded.addresses.data();
    std::copy_n(loaded.addresses.data(), tables_ * XG_STATE_WORDS, states_.data());
    for (u32 table = 0; table < tables_; table++) {
      const u64 at = reinterpret_cast<std::uintptr_t>(counts_[table].data());
      states_[table * XG_STATE_WORDS + 2] = static_cast<u32>(at);
      states_[table * XG_STATE_WORDS + 3] = static_cast<u32>(at >> 32);
    }
    return states_.data();
  }

  // The batch's counts, into the heads.
  void add_up(const Loaded& loaded) noexcept {
    for (u32 table = 0; table < tables_; table++) {
      u32* const head = loaded.tables[table]->data();
      for (u32 i = 0; i < kCounters; i++) {
        u32& count = counts_[table][i];
        if (count == 0) continue;
        xg_add_count(head + u64{2} * i, count);
        count = 0;
      }
    }
  }

 private:
  static constexpr u32 kTables = 32;
  static constexpr u32 kCounters = XG_TABLE_HEAD / 2;

  u32 tables_ = 0;
  std::array<u32, kTables * XG_STATE_WORDS> states_{};
  alignas(64) std::array<std::array<u32, kCounters>, kTables> counts_{};
};

}  // namespace xdpgpu::gpu::cpu
