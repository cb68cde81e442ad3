/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/decapsulate/device.h: `decapsulate`, takes packets out of the outer headers that end here
 * (settings.hpp). No byte further than 20 behind the outer IP headers is read: what a GPU has fetched.
 */
#ifndef XDPGPU_STAGES_DECAPSULATE_DEVICE_H
#define XDPGPU_STAGES_DECAPSULATE_DEVICE_H

#include "gpu/stages/view.h"

#define XG_DECAP_TYPES 2u /* XG_DECAP_IPIP, XG_DECAP_GUE or both */
#define XG_DECAP_IPIP 1u
#define XG_DECAP_GUE 2u
#define XG_DECAP_PORT 3u /* of GUE, as xg_view.ports has it in its upper half */
#define XG_DECAP_ACTION 4u
#define XG_DECAP_COUNT 5u     /* of addresses */
#define XG_DECAP_ADDRESSES 6u /* XG_DECAP_ADDRESS words each: family, address as in the packet */
#define XG_DECAP_ADDRESS 5u
/* The verdict's rule: decapsulate_rule of settings.hpp. */
#define XG_DECAP_RULE_MALFORMED 1u
#define XG_DECAP_RULE_CONGESTED 2u

#define XG_DECAP_CE 3u /* of the two bits of ECN */

/* Position of the outer destination among the addresses; their number: it is none of them. */
XG_FN u32 xg_decapsulate_address(xg_batch b, u32 body, xg_view p) {
  u32 count = b.image.v[body + XG_DECAP_COUNT];
  for (u32 i = 0u; i < count; i++) {
    u32 at = body + XG_DECAP_ADDRESSES + i * XG_DECAP_ADDRESS;
    if (b.image.v[at] == p.family && b.image.v[at + 1u] == p.dst[0] && b.image.v[at + 2u] == p.dst[1] &&
        b.image.v[at + 3u] == p.dst[2] && b.image.v[at + 4u] == p.dst[3])
      return i;
  }
  return count;
}

/* Returns an action word. */
XG_FN u32 xg_decapsulate_decide(xg_batch b, u32 body, xg_view p, XG_INOUT(xg_result) r) {
  u32 types = b.image.v[body + XG_DECAP_TYPES];
  bool ipip = (types & XG_DECAP_IPIP) != 0u && (p.protocol == 4u || p.protocol == 41u);
  bool gue = (types & XG_DECAP_GUE) != 0u && p.protocol == 17u && p.has_ports != 0u &&
             p.ports >> 16 == b.image.v[body + XG_DECAP_PORT];
  u32 fragment = p.flags & (XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT | XG_PKT_TRACKED);
  if (p.family == 0u || fragment != 0u || !(ipip || gue)) return XG_NEXT;
  u32 number = xg_decapsulate_address(b, body, p);
  if (number == b.image.v[body + XG_DECAP_COUNT]) return XG_NEXT;
  r.detail = number;

  u32 malformed = XG_VERDICT(XG_DROP, 0u, 0u, XG_DECAP_RULE_MALFORMED);
  u32 l3 = p.l3_offset;
  u32 inner = p.l4_offset + (gue ? 8u : 0u);
  if ((p.flags & XG_PKT_MALFORMED) != 0u || inner < l3 + 20u || !xg_inside(p, inner, 20u)) return malformed;
  /* Where the outer packet ends, by its own headers. */
  u32 end = l3 + (p.family == 4u ? xg_view16(p, l3 + 2u) : 40u + xg_view16(p, l3 + 4u));
  if (gue) {
    u32 udp_end = p.l4_offset + xg_view16(p, p.l4_offset + 4u);
    if (udp_end < end) end = udp_end;
  }
  u32 first = xg_view32(p, inner);
  u32 version = (first >> 4) & 15u;
  u32 bytes = 0u; /* of the inner packet */
  u32 type = 0u;  /* its EtherType */
  u32 ecn = 0u;
  if (version == 4u && p.protocol != 41u) {
    u32 header = (first & 15u) * 4u;
    bytes = xg_swap32(first) & 0xffffu;
    ecn = (first >> 8) & 3u;
    type = 0x0800u;
    if (header < 20u || bytes < header) return malformed;
  } else if (version == 6u && p.protocol != 4u && xg_inside(p, inner, 40u)) {
    u32 second = xg_view32(p, inner + 4u);
    bytes = xg_swap32(second) >> 16;
    /* A jumbogram has hop-by-hop options, which say how long it is. */
    if (bytes == 0u && ((second >> 16) & 0xffu) == 0u) return malformed;
    bytes += 40u;
    ecn = (first >> 12) & 3u;
    type = 0x86ddu;
  } else {
    return malformed;
  }
  if (inner + bytes > end) return malformed;

  u32 traffic_class = xg_view8(p, l3 + 1u);
  if ((p.family == 4u ? traffic_class : traffic_class >> 4) % 4u == XG_DECAP_CE) {
    if (ecn == 0u) return XG_VERDICT(XG_DROP, 0u, 0u, XG_DECAP_RULE_CONGESTED);
    if (ecn != XG_DECAP_CE) xg_set_edit(b, p, XG_EDIT_CE, 0u, 0u, 0u, 0u, 0u, 0u, r);
  }
  xg_pop(b, p, inner - l3, bytes, type, r);
  return b.image.v[body + XG_DECAP_ACTION];
}

#endif
