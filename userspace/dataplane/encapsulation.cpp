// SPDX-License-Identifier: MIT
#include "userspace/dataplane/encapsulation.hpp"

#include <cstring>

namespace xdpgpu::dataplane {

u32 encapsulate(u8* frame, const xg_rewrite& rewrite, u32 flow_hash) noexcept {
  xg_metadata metadata;
  std::memcpy(&metadata, frame - XG_METADATA_SIZE, sizeof(metadata));
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

}  // namespace xdpgpu::dataplane
