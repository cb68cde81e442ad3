// SPDX-License-Identifier: MIT
//
// userspace/dataplane/encapsulation.hpp: puts a packet inside of outer headers, in the headroom of its frame,
// as the XDP program does with cached flows (maps/encapsulation.h), and takes one out of those that it came
// in. Each is done once, by whoever sends the packet, and only where what the device says of it (xg_adjust)
// agrees with the packet and its chunk: what it says is not trusted.
#pragma once

#include "maps/encapsulation.h"
#include "userspace/dataplane/buffers.hpp"

namespace xdpgpu::dataplane {

// Whether the packet's IP packet is whole, as long as the device takes it for, and short enough for these
// headers, and its chunk has room for them. `rewrite` encapsulates.
bool fits_inside(const u8* region, Buffers packet, const xg_adjust& adjust,
                 const xg_rewrite& rewrite) noexcept;
// frame: a whole, well-formed IP packet, its metadata right in front of it, and in front of them as much room
// as makes XG_OUTER_MAX bytes in all; all that may be overwritten. `rewrite` encapsulates. The Ethernet
// header and its tags move in front of the outer headers, with the outer EtherType. Returns by how many bytes
// the frame begins earlier than before.
u32 encapsulate(u8* frame, const xg_rewrite& rewrite, u32 flow_hash) noexcept;

// Whether behind what is to go stands an IP packet of the family and the length that the device names, whole,
// its header in the first buffer.
bool holds_inner(const u8* region, Buffers packet, const xg_adjust& adjust) noexcept;
// Of a packet that holds one: the Ethernet header and its tags move in front of it, with its EtherType.
// `moved`, as long as the packet, become its buffers; returns how many of them are left, as it ends with the
// inner packet.
u32 decapsulate(u8* region, Buffers packet, const xg_adjust& adjust, xg_descriptor* moved) noexcept;

// Says in the IP header of `family`, 20 or 40 bytes at `ip`, that congestion was experienced. Nothing where
// it says so already.
void mark_congestion(u8* ip, u32 family) noexcept;

}  // namespace xdpgpu::dataplane
