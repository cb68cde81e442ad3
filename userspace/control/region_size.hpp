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
  u32 mtu = 1500;     // the interface's
  u32 buffers = 1;    // that a full-sized frame takes
  u32 queues = 1;     // over which the link's packets are spread evenly
  u32 least = 0;      // frames a queue needs in any case: a ring and a batch
};

// Link rate / 8 x burst time / frame size / queues, rounded up, and at least `least`. The frame size is
// that of a full-sized frame on the wire (MTU and 38 bytes: Ethernet header, checksum, preamble and gap),
// which fills one 2 KiB chunk, or the `buffers` chunks that it takes; smaller packets need as many more as
// they are smaller. The error says by what the need exceeds the most that a queue can have.
Result<u32> burst_frames(const Burst& burst);

}  // namespace xdpgpu::control
