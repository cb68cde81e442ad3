// SPDX-License-Identifier: MIT
//
// userspace/dataplane/checksum.hpp: completes the partial checksums that local stacks leave to the
// "hardware" of a veth or a container peer. Such a packet carries the pseudo-header's sum, folded but
// not complemented, where the checksum should be (Linux CHECKSUM_PARTIAL). RFC 1071, 9293, 768, 8200.
#pragma once

#include "userspace/dataplane/buffers.hpp"

namespace xdpgpu::dataplane {

// The ones' complement sum of `bytes` bytes, as a 16-bit number in memory order (the sum of big-endian
// words, read as the host reads memory: RFC 1071, section 2(B)). Adding sums and folding is associative.
u16 ones_sum(const u8* data, u32 bytes) noexcept;

// The checksum that was completed.
struct Completed {
  u32 field = 0;   // its offset in the frame; 0: none was
  u16 before = 0;  // what stood there, its bytes as in the packet
  explicit operator bool() const noexcept { return field != 0; }
};

// Completes the TCP or UDP checksum of the packet in place if its field, in the first buffer, holds just the
// pseudo-header's sum. The buffers' offsets count from `region`; offsets and flags from the packet's
// metadata. Fragments, malformed packets, UDP without checksum and anything else are left alone.
//
// A packet whose full checksum happens to look partial is computed anew and comes out the same; only a
// packet that was damaged on the way, and looks partial by chance (1 in 65,536), would be blessed, and
// ports with real wires are not repaired.
Completed complete_checksum(u8* region, Buffers packet, const xg_metadata& metadata) noexcept;

}  // namespace xdpgpu::dataplane
