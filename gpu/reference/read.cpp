// SPDX-License-Identifier: MIT
#include "gpu/reference/read.hpp"

#include <cstring>

#include "gpu/reference/stage.hpp"

namespace xdpgpu::gpu::reference {
namespace {

// Where the IP packet ends, which has addresses.
u32 ip_end(const Packet& packet) {
  const u32 l3 = packet.l3;
  if (packet.src.size() == 4) return l3 + number(packet.frame, l3 + 2);
  const u32 payload = number(packet.frame, l3 + 4);
  const bool jumbogram = payload == 0 && packet.frame[l3 + 6] == 0;
  return jumbogram ? static_cast<u32>(packet.frame.size()) : l3 + 40 + payload;
}

std::span<const u8> tcp_header(const Packet& packet) {
  const xg_metadata& metadata = packet.metadata;
  if (packet.src.empty() || !packet.is(XG_PKT_TCP) || packet.is(XG_PKT_FRAGMENT) || metadata.protocol != 6)
    return {};
  // Whatever is well-formed has its header in the packet.
  if (packet.is(XG_PKT_MALFORMED) && metadata.l4_offset + 20u > ip_end(packet)) return {};
  return header(packet, metadata.l4_offset, 20);
}

u16 outer_vlan(const Packet& packet) {
  if (!packet.is(XG_PKT_VLAN) || packet.frame.size() < 18) return 0;
  const u32 id = number(packet.frame, 14) & 0xfff;
  return static_cast<u16>(id != 0 ? id : XG_VLAN_PRIORITY);
}

}  // namespace

std::optional<Packet> read_packet(std::span<const u8> region, const xg_descriptor& descriptor) {
  if (descriptor.length < 14 || descriptor.length > XG_CHUNK_SIZE) return std::nullopt;
  if (descriptor.offset < XG_METADATA_SIZE || descriptor.offset > region.size() ||
      region.size() - descriptor.offset < descriptor.length)
    return std::nullopt;
  Packet packet;
  std::memcpy(&packet.metadata, &region[descriptor.offset - XG_METADATA_SIZE], XG_METADATA_SIZE);
  packet.outer = packet.metadata;
  packet.l3 = packet.metadata.l3_offset;
  packet.frame = region.subspan(descriptor.offset, descriptor.length);
  const bool v4 = packet.is(XG_PKT_IPV4);
  const bool v6 = packet.is(XG_PKT_IPV6);
  if (v4 != v6) {
    const auto ip = header(packet, packet.metadata.l3_offset, v4 ? 20 : 40);
    if (!ip.empty()) {
      packet.src = v4 ? ip.subspan(12, 4) : ip.subspan(8, 16);
      packet.dst = v4 ? ip.subspan(16, 4) : ip.subspan(24, 16);
    }
  }
  if (packet.is(XG_PKT_PORTS)) packet.ports = header(packet, packet.metadata.l4_offset, 4);
  packet.tcp = tcp_header(packet);
  packet.vlan = outer_vlan(packet);

  const bool contradiction =
      ((v4 || v6) && packet.src.empty()) || (packet.is(XG_PKT_PORTS) && packet.ports.empty());
  if (contradiction && !packet.is(XG_PKT_MALFORMED)) return std::nullopt;
  return packet;
}

}  // namespace xdpgpu::gpu::reference
