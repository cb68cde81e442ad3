/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/keys.h: what several stages tell packets by: the flow, a part of an address, the protocol with
 * the TCP flags.
 */
#ifndef XDPGPU_STAGES_KEYS_H
#define XDPGPU_STAGES_KEYS_H

#include "gpu/stages/table.h"

/* What a key has: bits. */
#define XG_KEY_SRC 1u
#define XG_KEY_DST 2u
#define XG_KEY_PORTS 4u /* and the protocol */

#define XG_L4_TCP 256u
#define XG_L4S 512u

/* A TCP header of 20 bytes stands at `l4`, in the packet itself and not in what pads its frame. Only of
 * malformed packets the parser has not seen to that. */
XG_FN bool xg_tcp_inside(xg_view p, u32 l4) {
  if (!xg_inside(p, l4, 20u)) return false;
  if ((p.flags & XG_PKT_MALFORMED) == 0u) return true;
  u32 l3 = p.l3_offset;
  if (p.family == 4u) return l4 + 20u <= l3 + xg_view16(p, l3 + 2u);
  u32 payload = xg_view16(p, l3 + 4u);
  /* The length of a jumbogram stands elsewhere: the frame's has to do. */
  if (payload == 0u && xg_view8(p, l3 + 6u) == 0u) return true;
  return l4 + 20u <= l3 + 40u + payload;
}

/* The packet's protocol, or, where its TCP flags are asked for and there, XG_L4_TCP + the flags. It has
 * addresses. */
XG_FN u32 xg_l4(xg_view p, bool flags) {
  if (!flags || p.protocol != 6u || (p.flags & (XG_PKT_TCP | XG_PKT_FRAGMENT)) != XG_PKT_TCP)
    return p.protocol;
  return xg_tcp_inside(p, p.l4_offset) ? XG_L4_TCP + xg_view8(p, p.l4_offset + 13u) : p.protocol;
}

/* The word of an address of which only its first `bits` count; bits: those of this word and all behind it. */
XG_FN u32 xg_masked(u32 word, u32 bits) {
  if (bits >= 32u) return word;
  if (bits == 0u) return 0u;
  return word & xg_swap32(0xffffffffu << (32u - bits));
}

XG_FN u32 xg_bits_behind(u32 bits, u32 word) { return bits > word * 32u ? bits - word * 32u : 0u; }

/* A packet's flow as a key. */
XG_FN void xg_flow_touch(xg_view p, XG_INOUT(xg_touch) t) {
  for (u32 i = 0u; i < 4u; i++) {
    t.key[i] = p.src[i];
    t.key[4u + i] = p.dst[i];
  }
  /* Only the first fragment of a packet has ports. */
  t.key[8] = (p.flags & XG_PKT_FRAGMENT) != 0u ? 0u : p.ports;
  t.key[9] = p.family | p.protocol << 8;
}

/* The ids of a frame's one or two VLAN tags; 0 stands for none. */
XG_FN u32 xg_vlans(xg_view p) {
  if ((p.flags & XG_PKT_VLAN) == 0u || !xg_inside(p, 14u, 4u)) return 0u;
  u32 ids = xg_view16(p, 14u) & 0xfffu;
  u32 next = xg_view16(p, 16u);
  if ((next == 0x8100u || next == 0x88a8u || next == 0x9100u) && xg_inside(p, 18u, 2u))
    ids |= (xg_view16(p, 18u) & 0xfffu) << 12;
  return ids;
}

/* An IPv6 address that stands for an IPv4 one, which is none on the wire (RFC 4291 2.5.5.2). */
XG_FN bool xg_mapped(u32 family, u32 a, u32 b, u32 c) {
  return family == 6u && (a | b) == 0u && c == 0xffff0000u;
}

/* The key of a connection, the same for both directions, and which one it is: in bit 0 of the touch's facts.
 * False: the addresses are none. */
XG_FN bool xg_connection_key(u32 protocol, u32 src_port, u32 dst_port, xg_view p, XG_INOUT(xg_touch) t) {
  bool upper = false; /* the source is */
  bool decided = false;
  for (u32 i = 0u; i < 4u; i++) {
    if (!decided && p.src[i] != p.dst[i]) {
      decided = true;
      upper = p.src[i] > p.dst[i];
    }
  }
  if (!decided) upper = src_port > dst_port;
  if (xg_mapped(p.family, p.src[0], p.src[1], p.src[2]) || xg_mapped(p.family, p.dst[0], p.dst[1], p.dst[2]))
    return false;
  bool v4 = p.family == 4u;
  for (u32 i = 0u; i < 4u; i++) {
    u32 mapped = i == 2u ? 0xffff0000u : 0u;
    u32 from = v4 ? (i == 3u ? p.src[0] : mapped) : p.src[i];
    u32 to = v4 ? (i == 3u ? p.dst[0] : mapped) : p.dst[i];
    t.key[i] = upper ? to : from;
    t.key[4u + i] = upper ? from : to;
  }
  t.key[8] = upper ? dst_port | (src_port << 16) : src_port | (dst_port << 16);
  t.key[9] = protocol | (xg_vlans(p) << 8);
  t.facts |= upper ? 1u : 0u;
  return true;
}

#endif
