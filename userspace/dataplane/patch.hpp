// SPDX-License-Identifier: MIT
//
// userspace/dataplane/patch.hpp: a packet becomes what a program has left of it (xg_patch). Done once, by
// whoever sends the packet, and only where what the device says of it agrees with the packet and its chunk:
// what it says is not trusted, and is copied before it is looked at.
#pragma once

#include "userspace/dataplane/buffers.hpp"
#include "userspace/dataplane/checksum.hpp"

namespace xdpgpu::dataplane {

// Whether the packet is one that can become that: of one buffer, its new bytes in the chunk that it stands
// in, and nothing kept that did not come.
bool fits_patch(Buffers packet, const xg_patch& patch) noexcept;

// The packet's checksum was completed after the device had seen it: it stays, where the program has left the
// two bytes that stood there before. frame: as it came, with the complete one.
void keep_checksum(xg_patch& patch, const u8* frame, const Completed& completed) noexcept;

// Of a packet that it fits. Writes the new packet's bytes and no others: its metadata, too, where they are in
// the way. Returns the new packet.
xg_descriptor apply_patch(u8* region, const xg_descriptor& packet, const xg_patch& patch) noexcept;

}  // namespace xdpgpu::dataplane
