// SPDX-License-Identifier: MIT
//
// gpu/flow_table.hpp: the writer's side of one shard of the flow verdict table
// (maps/flow.h), in the kernel's memory through mmap: publishing a verdict costs no system call.
#pragma once

#include <span>

#include "maps/flow.h"

namespace xdpgpu::gpu {

// What is to be remembered for a flow.
struct FlowVerdict {
  xg_flow_key key{};
  u32 flow_hash = 0;
  u32 generation = 0;
  u32 verdict = 0;  // verdict word; its action and target port are what XDP does
  u16 rewrite = XG_REWRITE_NONE;
  u8 idle_s = 0;
  u8 flags = 0;
  u32 ttl_ms = 0;  // 0: as long as the generation lives
};

enum class Published { fresh, updated, unchanged, evicted };

// One shard: a port's one receive queue. Exactly one writer at a time; readers are the XDP program and
// whoever dumps the map. No allocation.
class FlowTable {
 public:
  // `entries` and `stats` are the shard's own part of the two maps, equally long: a power of two, at
  // least XG_FLOW_WAYS.
  FlowTable(std::span<xg_flow_verdict> entries, std::span<xg_flow_stats> stats);

  // Publishes by the protocol of maps/flow.h. Within the flow's bucket it takes the entry of the same
  // key, else an empty, stale (another generation) or expired one, else the one that was used or
  // published the longest ago. A live entry of the same key that says the same is left untouched.
  Published publish(const FlowVerdict& flow, u64 now_ns) noexcept;

 private:
  bool dead(u32 index, u32 generation, u64 now_ns) const noexcept;
  u64 last_used(u32 index) const noexcept;
  void write(u32 index, const FlowVerdict& flow, u64 now_ns) noexcept;

  std::span<xg_flow_verdict> entries_;
  std::span<xg_flow_stats> stats_;
};

// The writer's side for a rewrite (maps/flow.h) that the XDP program may be reading: `record`, of this
// generation. A record that says so already is left untouched.
void write_rewrite(xg_rewrite& to, xg_rewrite record, u32 generation) noexcept;

// The reader's side of the protocol, as the XDP program does it: false if the entry was being written,
// is empty, or is another flow's or generation's. For tests and dumps.
bool read_entry(const xg_flow_verdict& entry, xg_flow_verdict& out) noexcept;

}  // namespace xdpgpu::gpu
