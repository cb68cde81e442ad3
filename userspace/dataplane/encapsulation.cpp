// SPDX-License-Identifier: MIT
#include "userspace/dataplane/encapsulation.hpp"

#include <algorithm>
#include <cstring>

namespace xdpgpu::dataplane {
namespace {

constexpr u32 kEthernet = 14;

xg_metadata metadata_of(const u8* frame) noexcept {
  xg_metadata metadata;
  std::memcpy(&metadata, frame - XG_METADATA_SIZE, sizeof(metadata));
  return metadata;
}

// Whether an IP packet of that family and length stands behind `at` bytes of the packet.
bool is_ip_at(const u8* region, Buffers packet, u32 at, u32 family, u32 ip_bytes) noexcept {
  const u32 header = family == 4 ? 20 : 40;
  if (at + header > packet.front().length || ip_bytes < header) return false;
  const u8* const ip = region + packet.front().offset + at;
  return ip[0] >> 4 == family && xg_inner_packet(ip, family).bytes == ip_bytes &&
         u64{at} + ip_bytes <= bytes_of(packet);
}

}  // namespace

bool fits_inside(const u8* region, Buffers packet, const xg_adjust& adjust,
                 const xg_rewrite& rewrite) noexcept {
  const u64 offset = packet.front().offset;
  const xg_metadata metadata = metadata_of(region + offset);
  const u32 bytes = xg_outer_bytes(&rewrite), inner = adjust.ip_bytes - bytes;
  return adjust.pushed == bytes && adjust.popped == 0 && adjust.ip_bytes > bytes && inner <= rewrite.mtu &&
         adjust.ether_type == (rewrite.outer_family == 4 ? XG_ETH_IPV4 : XG_ETH_IPV6) &&
         metadata.l3_offset >= kEthernet && offset % XG_CHUNK_SIZE >= bytes &&
         is_ip_at(region, packet, metadata.l3_offset, metadata.flags & XG_PKT_IPV6 ? 6 : 4, inner);
}

u32 encapsulate(u8* frame, const xg_rewrite& rewrite, u32 flow_hash) noexcept {
  const xg_metadata metadata = metadata_of(frame);
  const u32 l3 = metadata.l3_offset;
  const xg_inner inner = xg_inner_packet(frame + l3, metadata.flags & XG_PKT_IPV6 ? 6 : 4);
  const u32 bytes = xg_outer_bytes(&rewrite);
  std::memmove(frame - bytes, frame, l3);
  u8* const outer = frame - bytes + l3;
  const bool v4 = rewrite.outer_family == 4;
  xg_store16(outer - 2, xg_host16(v4 ? XG_ETH_IPV4 : XG_ETH_IPV6));
  if (v4)
    xg_write_outer4(&rewrite, &inner, flow_hash, outer);
  else
    xg_write_outer6(&rewrite, &inner, flow_hash, outer);
  if (rewrite.udp_port) xg_write_outer_udp(&rewrite, &inner, flow_hash, outer + (v4 ? 20 : 40));
  return bytes;
}

bool holds_inner(const u8* region, Buffers packet, const xg_adjust& adjust) noexcept {
  const bool v4 = adjust.ether_type == XG_ETH_IPV4;
  const u32 l3 = metadata_of(region + packet.front().offset).l3_offset;
  return (v4 || adjust.ether_type == XG_ETH_IPV6) && adjust.pushed == 0 && adjust.popped != 0 &&
         l3 >= kEthernet && is_ip_at(region, packet, l3 + adjust.popped, v4 ? 4 : 6, adjust.ip_bytes);
}

u32 decapsulate(u8* region, Buffers packet, const xg_adjust& adjust, xg_descriptor* moved) noexcept {
  u8* const frame = region + packet.front().offset;
  const u32 l3 = metadata_of(frame).l3_offset;
  u8* const begin = frame + adjust.popped;
  std::memmove(begin, frame, l3);
  xg_store16(begin + l3 - 2, xg_host16(adjust.ether_type));
  std::copy(packet.begin(), packet.end(), moved);
  moved[0].offset += adjust.popped;
  moved[0].length -= adjust.popped;
  u32 buffers = 0;
  for (u32 left = l3 + adjust.ip_bytes; left; ++buffers) {
    moved[buffers].length = std::min(moved[buffers].length, left);
    left -= moved[buffers].length;
  }
  return buffers;
}

void mark_congestion(u8* ip, u32 family) noexcept {
  constexpr u32 kExperienced = 3;
  if (family == 6) {
    ip[1] |= kExperienced << 4;
    return;
  }
  // RFC 1624, equation 3, of the header's first word, by bytes as in the packet.
  const u32 before = xg_load16(ip);
  ip[1] |= kExperienced;
  u32 sum = (~u32{xg_load16(ip + 10)} & 0xffffu) + (~before & 0xffffu) + xg_load16(ip);
  sum = (sum & 0xffffu) + (sum >> 16);
  sum = (sum & 0xffffu) + (sum >> 16);
  xg_store16(ip + 10, ~sum);
}

}  // namespace xdpgpu::dataplane
