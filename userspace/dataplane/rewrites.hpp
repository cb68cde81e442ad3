// SPDX-License-Identifier: MIT
//
// userspace/dataplane/rewrites.hpp: the records that cached verdicts name (map `rewrites`), shared out
// among the port's queues so that each worker writes only its own.
#pragma once

#include <span>
#include <vector>

#include "maps/flow.h"

namespace xdpgpu::dataplane {

// One queue's share of a port's rewrite table. A record is immutable while its generation lives: a
// generation uses the half of its own parity, so what the previous generation's entries name stays.
// Single-threaded; no allocation after construction.
class Rewrites {
 public:
  // `table` is the port's whole map (XG_REWRITE_ENTRIES records).
  Rewrites(std::span<xg_rewrite> table, u32 queue, u32 queues);

  // The index of a record with the MAC addresses and flags of `result`, written if there is none yet;
  // XG_REWRITE_NONE if the result rewrites nothing; -1 when this generation's share is full (the
  // verdict is then not cached).
  int intern(u32 generation, const xg_result& result) noexcept;

  u32 capacity() const noexcept { return share_; }  // records of one generation
  u32 used() const noexcept { return used_; }

 private:
  void begin(u32 generation) noexcept;

  std::span<xg_rewrite> table_;
  u32 queue_, share_;
  u32 generation_ = 0;
  u32 first_ = 0;  // of this generation's share
  u32 used_ = 0;
  std::vector<u16> slots_;  // open addressing over the records, 0: free
};

}  // namespace xdpgpu::dataplane
