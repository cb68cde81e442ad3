// SPDX-License-Identifier: MIT
//
// userspace/dataplane/buffers.hpp: a packet as its buffers: one descriptor, or several with XG_DESC_MORE on
// all but the last.
#pragma once

#include <span>

#include "maps/packet.h"

namespace xdpgpu::dataplane {

// One packet's, in order, at least one. The headers and, in front of them, the metadata are in the first.
using Buffers = std::span<const xg_descriptor>;
// Those of a packet that has one: what is written for any number has no loop for it.
using OneBuffer = std::span<const xg_descriptor, 1>;

// Those of the packet that begins at descriptors[0].
inline Buffers packet_at(const xg_descriptor* descriptors) noexcept {
  u32 count = 1;
  while (descriptors[count - 1].flags & XG_DESC_MORE) ++count;
  return {descriptors, count};
}

inline u32 bytes_of(Buffers packet) noexcept {
  u32 bytes = 0;
  for (const xg_descriptor& buffer : packet) bytes += buffer.length;
  return bytes;
}

}  // namespace xdpgpu::dataplane
