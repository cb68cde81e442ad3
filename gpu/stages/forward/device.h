/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/forward/device.h: `forward`, what a router does with most packets: the longest prefix that holds
 * the destination names a next hop, the TTL goes down by one, the MAC addresses become those of the next hop
 * and of the port towards it. Whatever else a router has to do with a packet is the host's (settings.hpp).
 */
#ifndef XDPGPU_STAGES_FORWARD_DEVICE_H
#define XDPGPU_STAGES_FORWARD_DEVICE_H

#include "gpu/stages/forward_body.h"
#include "gpu/stages/prefix_tree.h"

/* The verdict's rule, besides 0 and 1 + the number of the next hop: forward_rule of gpu/pipelines.hpp. */
#define XG_FWD_RULE_PASS 0x30000u
#define XG_FWD_RULE_DROP 0x30001u
#define XG_FWD_RULE_INVALID 0x30002u
#define XG_FWD_RULE_TTL 0x30003u
#define XG_FWD_RULE_OPTIONS 0x30004u
#define XG_FWD_RULE_MTU 0x30005u
#define XG_FWD_RULE_FOREIGN 0x30006u
#define XG_FWD_RULE_CHECKSUM 0x30007u

/* Does a router send packets from or to that address on? Not "this network", loopback, link-local, multicast,
 * reserved and broadcast (RFC 1122 3.2.1.3, RFC 3927 2.7, RFC 4291 2.5). The address as in the packet. */
XG_FN bool xg_forward_goes(u32 family, u32 a, u32 b, u32 c, u32 d) {
  u32 first = a & 0xffu;
  u32 second = (a >> 8) & 0xffu;
  if (family == 4u) return first != 0u && first != 127u && first < 224u && !(first == 169u && second == 254u);
  if (first == 0xffu || (first == 0xfeu && (second & 0xc0u) == 0x80u)) return false;
  return (a | b | c) != 0u || (d != 0u && d != 0x01000000u);
}

/* An IPv4 header's checksum after its TTL went down by one (RFC 1624, equation 3), bytes as in the packet:
 * the 16-bit word read from there is then one less, too, and the checksum one more. Like the sum of ones'
 * complements it never becomes 0xffff. A wrong one stays wrong. */
XG_FN u32 xg_forward_checksum(u32 checksum) {
  u32 sum = checksum + 1u;
  return (sum >= 0xffffu ? sum + 1u : sum) & 0xffffu;
}

XG_FN u32 xg_forward_route(xg_words image, u32 body, xg_view p) {
  if (p.family == 4u) return xg_tree(image, body + XG_FWD_V4, xg_swap32(p.dst[0]), 0u, 0u, 0u);
  return xg_tree(image, body + XG_FWD_V6, xg_swap32(p.dst[0]), xg_swap32(p.dst[1]), xg_swap32(p.dst[2]),
                 xg_swap32(p.dst[3]));
}

XG_FN u32 xg_forward_pass(u32 rule) { return XG_VERDICT(XG_PASS, 0u, 0u, rule); }

/* Returns an action word. */
XG_FN u32 xg_forward_decide(xg_batch b, u32 body, xg_view p, XG_INOUT(xg_result) r) {
  if (p.family == 0u) return XG_NEXT;
  u32 router = xg_router_bits(p);
  /* The lowest bit of a MAC address: a group's. */
  u32 to_group = xg_view32(p, 0u) & 1u;
  if ((p.flags & XG_PKT_MALFORMED) != 0u || to_group != 0u ||
      !xg_forward_goes(p.family, p.src[0], p.src[1], p.src[2], p.src[3]) ||
      !xg_forward_goes(p.family, p.dst[0], p.dst[1], p.dst[2], p.dst[3]))
    return xg_forward_pass(XG_FWD_RULE_INVALID);
  if ((router & XG_ROUTER_ADDRESSED) == 0u) return xg_forward_pass(XG_FWD_RULE_FOREIGN);

  u32 route = xg_forward_route(b.image, body, p);
  u32 hop = b.image.v[body + XG_FWD_HOPS] + (route - 1u) * XG_FWD_HOP;
  u32 action = b.image.v[body + XG_FWD_OTHERWISE];
  if (route != 0u) action = b.image.v[hop + XG_FWD_ACTION];
  if (XG_VERDICT_ACTION(action) == XG_NEXT) return action;
  if (XG_VERDICT_ACTION(action) == XG_DROP || XG_VERDICT_ACTION(action) == XG_PASS) {
    xg_set_cache(b, body, p, XG_REWRITE_NONE, r);
    return action;
  }

  u32 l3 = p.l3_offset;
  u32 ttl = 0u;
  u32 checksum = 0u;
  u32 options = 0u;
  u32 total = 0u; /* IP packet's length, bytes swapped */
  if (p.family == 4u) {
    u32 first = xg_view32(p, l3);
    u32 third = xg_view32(p, l3 + 8u);
    ttl = third & 0xffu;
    checksum = xg_forward_checksum(third >> 16);
    options = (first & 0xffu) != 0x45u ? 1u : 0u;
    total = first >> 16;
  } else {
    u32 second = xg_view32(p, l3 + 4u);
    ttl = second >> 24;
    options = ((second >> 16) & 0xffu) == 0u ? 1u : 0u; /* hop-by-hop options stand first */
    total = second & 0xffffu;
  }
  total = (total >> 8) | ((total & 0xffu) << 8);
  if (p.family == 6u) total += 40u;
  if ((router & XG_ROUTER_CHECKSUM) == 0u) return xg_forward_pass(XG_FWD_RULE_CHECKSUM);
  if (ttl <= 1u) return xg_forward_pass(XG_FWD_RULE_TTL);
  if (options != 0u) return xg_forward_pass(XG_FWD_RULE_OPTIONS);
  if (total > b.image.v[hop + XG_FWD_MTU]) return xg_forward_pass(XG_FWD_RULE_MTU);

  bool own = b.image.v[hop + XG_FWD_OWN_SRC] != 0u;
  u32 src_0 = own ? b.image.v[hop + XG_FWD_SRC] : xg_view32(p, 0u);
  u32 src_1 = own ? b.image.v[hop + XG_FWD_SRC + 1u] : xg_view32(p, 4u);
  xg_set_edit(b, p, XG_EDIT_DST_MAC | XG_EDIT_SRC_MAC | XG_EDIT_TTL, b.image.v[hop + XG_FWD_DST],
              b.image.v[hop + XG_FWD_DST + 1u], src_0, src_1, ttl - 1u, checksum, r);
  r.detail = route - 1u;
  u32 rewrite = b.image.v[hop + XG_FWD_REWRITE];
  if (rewrite != XG_FWD_NO_REWRITE) xg_set_cache(b, body, p, rewrite, r);
  return action;
}

#endif
