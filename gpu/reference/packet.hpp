// SPDX-License-Identifier: MIT
//
// gpu/reference/packet.hpp: a packet as its metadata describes it, or what is inside of its tunnel, and its
// payload.
#pragma once

#include <span>
#include <vector>

#include "maps/packet.h"

namespace xdpgpu::gpu::reference {

struct Packet {
  // Where it is of what is inside of a tunnel, flags, protocol, L4 and payload offset are (inner.hpp).
  xg_metadata metadata{};
  xg_metadata outer{};  // as it came
  u32 l3 = 0;           // where the IP header stands
  std::span<const u8> frame;
  std::span<const u8> src;  // 4 or 16 bytes, or none
  std::span<const u8> dst;
  std::span<const u8> ports;  // 4 bytes, or none
  std::span<const u8> tcp;    // 20 bytes, or none
  u16 vlan = 0;               // the frame's outer tag's id, 0: none, XG_VLAN_PRIORITY: id 0
  u32 bytes = 0;              // of all its buffers
  std::span<const u8> region;
  std::span<const xg_descriptor> later;  // of its other buffers

  bool is(u32 flag) const { return (metadata.flags & flag) != 0; }
};

// `bytes` of the frame from `offset`, nothing where they are not in it.
inline std::span<const u8> header(const Packet& packet, u32 offset, u32 bytes) {
  if (offset == 0 || offset + bytes > packet.frame.size()) return {};
  return packet.frame.subspan(offset, bytes);
}

// The packet's first bytes, `most` of them where it has so many. A later buffer that does not lie in the
// region, in the first 32 bytes of which there is none, ends what is there of the packet.
inline std::vector<u8> first_bytes(const Packet& packet, u32 most) {
  std::vector<u8> bytes(packet.frame.begin(), packet.frame.end());
  for (const xg_descriptor& buffer : packet.later) {
    if (buffer.length > XG_CHUNK_SIZE || buffer.offset < 32 || buffer.offset > packet.region.size() ||
        buffer.length > packet.region.size() - buffer.offset)
      break;
    const auto part = packet.region.subspan(buffer.offset, buffer.length);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  if (bytes.size() > most) bytes.resize(most);
  return bytes;
}

}  // namespace xdpgpu::gpu::reference
