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

#endif
