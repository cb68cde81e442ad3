// SPDX-License-Identifier: MIT
//
// userspace/control/region_size.hpp: how many frames a queue needs to hold a burst at line rate.
#pragma once

#include "maps/types.h"
#include "userspace/control/result.hpp"

namespace xdpgpu::control {

struct Burst {
  u64 ns = 0;         // of line rate
  u64 link_mbps = 0;  // the link's speed
  u32 queues = 1;     // over which the link's packets are spread evenly
  u32 least = 0;      // frames a queue needs in any case: a ring and a batch
};

// What Ethernet's smallest frame takes of the wire: its 64 bytes, preamble and gap.
inline constexpr u32 kSmallestOnWire = 64 + 20;

// Link rate / 8 x burst time / 84 bytes / queues, rounded up, and at least `least`. A link at line rate may
// bring its smallest frames, each of which takes a 2 KiB chunk; of longer ones, of several chunks too, the
// same time brings fewer chunks. The error says by what the need exceeds the most that a queue can have.
Result<u32> burst_frames(const Burst& burst);

}  // namespace xdpgpu::control
