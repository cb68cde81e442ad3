/* SPDX-License-Identifier: MIT
 *
 * gpu/flow_key.h: the flow key (maps/flow.h) of a packet as a device sees it, from its metadata and the
 * fields that these point to: what maps/parse.h makes of the packet. For C++ and CUDA.
 */
#ifndef XDPGPU_GPU_FLOW_KEY_H
#define XDPGPU_GPU_FLOW_KEY_H

#include "gpu/stages/view.h"
#include "maps/flow.h"

/* A tag's id, from the two bytes at `offset`. */
XG_FN u16 xg_view_tag(const xg_view& p, u32 offset) {
  const u32 bytes = xg_view32(p, offset);
  const u32 id = (bytes & 0x0fu) << 8 | (bytes >> 8 & 0xffu);
  return (u16)(id != 0 ? id : XG_VLAN_PRIORITY);
}

/* The packet is one with a flow: xg_cacheable. */
XG_FN xg_flow_key xg_view_key(const xg_view& p) {
  xg_flow_key key;
  for (u32 i = 0; i < 4u; i++) {
    key.src[i] = p.src[i];
    key.dst[i] = p.dst[i];
  }
  u32 ports = p.has_ports != 0 ? p.ports : 0u;
  const u32 l4 = xg_metadata32(p, 6u) & 0xffffu;
  if ((p.flags & XG_PKT_ICMP) != 0 && xg_inside(p, l4, 8u)) {
    const u32 start = xg_view32(p, l4);
    const u32 type = start & 0xffu;
    const bool echo = p.family == 6u ? type == 128u || type == 129u : type == 8u || type == 0u;
    ports = (start & 0xffffu) | (echo ? xg_view32(p, l4 + 4u) << 16 : 0u);
  }
  key.src_port = (u16)ports;
  key.dst_port = (u16)(ports >> 16);
  key.vlan_outer = 0;
  key.vlan_inner = 0;
  if ((p.flags & XG_PKT_VLAN) != 0) {
    /* The tags fill what lies between the addresses and the IP header. */
    key.vlan_outer = xg_view_tag(p, 14u);
    if (xg_outer_l3(p) >= 22u) key.vlan_inner = xg_view_tag(p, 18u);
  }
  const u32 last = xg_metadata32(p, 7u);
  key.protocol = (u8)(last >> 16);
  key.family = (u8)p.family;
  key.port = (u8)(last >> 24);
  key.mirror = 0;
  return key;
}

#endif
