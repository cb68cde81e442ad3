// SPDX-License-Identifier: MIT
//
// gpu/reference/packet.hpp: a packet as its metadata describes it.
#pragma once

#include <span>

#include "maps/packet.h"

namespace xdpgpu::gpu::reference {

struct Packet {
  xg_metadata metadata{};
  std::span<const u8> frame;
  std::span<const u8> src;  // 4 or 16 bytes, or none
  std::span<const u8> dst;
  std::span<const u8> ports;  // 4 bytes, or none
  std::span<const u8> tcp;    // 20 bytes, or none
  u16 vlan = 0;               // outer tag's id, 0: none, XG_VLAN_PRIORITY: id 0
  u32 bytes = 0;              // of all its buffers

  bool is(u32 flag) const { return (metadata.flags & flag) != 0; }
};

// `bytes` of the frame from `offset`, nothing where they are not in it.
inline std::span<const u8> header(const Packet& packet, u32 offset, u32 bytes) {
  if (offset == 0 || offset + bytes > packet.frame.size()) return {};
  return packet.frame.subspan(offset, bytes);
}

}  // namespace xdpgpu::gpu::reference
