// SPDX-License-Identifier: MIT
//
// gpu/cuda/publish.hpp: what the kernels know of a port's flow verdict table.
#pragma once

#include "maps/flow.h"

namespace xdpgpu::gpu::cuda {

// What stands in an entry, as the device knows without looking there; device memory.
struct Way {
  xg_flow_verdict entry;
  u64 used_ns;  // when it was published, or a later use that is known of
  u64 publications;
};
static_assert(sizeof(Way) == 80);

struct PortTable {
  xg_flow_verdict* entries = nullptr;  // registered host memory, all queues
  xg_flow_stats* stats = nullptr;      // likewise
  Way* ways = nullptr;                 // device memory, by entry
  u32* locks = nullptr;                // device memory, by bucket: 1: a thread is at work there
  u32 entries_per_queue = 0;
  u32 queues = 0;
  u32 caches_transmit = 0;    // TX and REDIRECT out of this port may be done by the kernel
  u32 repairs_checksums = 0;  // flows whose partial checksums are completed may not be sent by the kernel
};

}  // namespace xdpgpu::gpu::cuda
