// SPDX-License-Identifier: MIT
//
// bench/link/orders.hpp: what the host and the kernel that stays say to each other, in pinned memory.
#pragma once

#include "maps/types.h"

namespace xdpgpu::bench::link {

constexpr u32 kEnd = ~u32{0};

struct Mail {
  u32 order;  // counts up with each batch; kEnd: the kernel is to go
  u32 unused[31];
  u32 done;  // of the last batch that is through
};

}  // namespace xdpgpu::bench::link
