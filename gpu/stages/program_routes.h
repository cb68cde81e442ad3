/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_routes.h: bpf_fib_lookup, by the routes of a stage of the policy
 * (gpu/stages/program/settings.hpp). Of gpu/stages/program_helpers.h.
 */
#ifndef XDPGPU_STAGES_PROGRAM_ROUTES_H
#define XDPGPU_STAGES_PROGRAM_ROUTES_H

#include "gpu/stages/forward_body.h"
#include "gpu/stages/prefix_tree.h"
#include "gpu/stages/program_body.h"
#include "gpu/stages/program_memory.h"

/* struct bpf_fib_lookup, in words. */
#define XG_PROGRAM_FIB_BYTES 64u
#define XG_PROGRAM_FIB_FAMILY 0u /* the lowest byte */
#define XG_PROGRAM_FIB_LENGTH 1u /* the upper half: tot_len, and mtu_result */
#define XG_PROGRAM_FIB_IFINDEX 2u
#define XG_PROGRAM_FIB_METRIC 3u
#define XG_PROGRAM_FIB_SRC 4u
#define XG_PROGRAM_FIB_DST 8u
#define XG_PROGRAM_FIB_VLAN 12u
#define XG_PROGRAM_FIB_MACS 13u /* smac, dmac */
#define XG_PROGRAM_FIB_DIRECT 1u
#define XG_PROGRAM_FIB_SKIP_NEIGH 4u
/* BPF_FIB_LKUP_RET_*, and errno.h's. */
#define XG_PROGRAM_FIB_SUCCESS 0u
#define XG_PROGRAM_FIB_BLACKHOLE 1u
#define XG_PROGRAM_FIB_NOT_FWDED 4u
#define XG_PROGRAM_FIB_NO_NEIGH 7u
#define XG_PROGRAM_FIB_FRAG_NEEDED 8u
#define XG_PROGRAM_ENODEV 19u
#define XG_PROGRAM_EAFNOSUPPORT 97u
/* Turns that a look-up in a tree takes at most. */
#define XG_PROGRAM_FIB_TURNS 64u

/* Link-local, multicast or loopback, of IPv6: an address as in a packet. */
XG_FN bool xg_program_fib_is_near(u32 a, u32 b, u32 c, u32 d) {
  const u32 first = a & 0xffu;
  if (first == 0xffu || (first == 0xfeu && ((a >> 8) & 0xc0u) == 0x80u)) return true;
  return (a | b | c) == 0u && d == 0x01000000u;
}

XG_SELDOM u64 xg_program_fib_lookup(XG_PROGRAM_MACHINE) {
  const u64 address = XG_PROGRAM_OWN.r[2];
  const u32 flags = xg_program_low(XG_PROGRAM_OWN.r[4]);
  if (xg_program_low(XG_PROGRAM_OWN.r[3]) < XG_PROGRAM_FIB_BYTES ||
      (flags & ~(XG_PROGRAM_FIB_DIRECT | XG_PROGRAM_FIB_SKIP_NEIGH)) != 0u)
    return xg_program_error(XG_PROGRAM_EINVAL);
  /* Only a stack takes what is answered. */
  xg_program_place place;
  place.at = 1u;
  if (u32(address >> 32) >= XG_PROGRAM_STACKS && u32(address >> 32) < XG_PROGRAM_STACKS + XG_PROGRAM_FRAMES &&
      !xg_program_find(XG_PROGRAM_IT, address, XG_PROGRAM_FIB_BYTES, true, place))
    return u64(0);
  if ((place.at & 3u) != 0u) {
    m.fault = XG_PROGRAM_OUT_OF_BOUNDS;
    return u64(0);
  }
  m.steps += XG_PROGRAM_FIB_BYTES / 8u;
  const u32 at = place.at >> 2;
  const u32 family = XG_PROGRAM_OWN.stack[at + XG_PROGRAM_FIB_FAMILY] & 0xffu;
  const bool is_v6 = family == 10u;
  if (!is_v6 && family != 2u) return xg_program_error(XG_PROGRAM_EAFNOSUPPORT);

  const u32 to = at + XG_PROGRAM_FIB_DST, from = at + XG_PROGRAM_FIB_SRC;
  const u32 d0 = XG_PROGRAM_OWN.stack[to];
  const u32 d1 = is_v6 ? XG_PROGRAM_OWN.stack[to + 1u] : 0u;
  const u32 d2 = is_v6 ? XG_PROGRAM_OWN.stack[to + 2u] : 0u;
  const u32 d3 = is_v6 ? XG_PROGRAM_OWN.stack[to + 3u] : 0u;
  if (is_v6 && (xg_program_fib_is_near(d0, d1, d2, d3) ||
                xg_program_fib_is_near(XG_PROGRAM_OWN.stack[from], XG_PROGRAM_OWN.stack[from + 1u],
                                       XG_PROGRAM_OWN.stack[from + 2u], XG_PROGRAM_OWN.stack[from + 3u])))
    return u64(XG_PROGRAM_FIB_NOT_FWDED);
#ifdef XG_PROGRAM_IN_BUFFER
  m.turns += XG_PROGRAM_FIB_TURNS;
#endif
  const u32 routes = m.image.v[m.body + XG_PROGRAM_BODY_ROUTES];
  const u32 route = xg_tree(m.image, routes + (is_v6 ? XG_FWD_V6 : XG_FWD_V4), xg_swap32(d0), xg_swap32(d1),
                            xg_swap32(d2), xg_swap32(d3));
  u32 hop = 0u, action = XG_PASS;
  if (route != 0u) {
    hop = m.image.v[routes + XG_FWD_HOPS] + (route - 1u) * XG_FWD_HOP;
    action = m.image.v[hop + XG_FWD_ACTION];
  }
  /* Where it leads to: the interface that is asked for, or another one's first number. */
  const u32 asked = XG_PROGRAM_OWN.stack[at + XG_PROGRAM_FIB_IFINDEX];
  const u32 list = m.image.v[m.body + XG_PROGRAM_BODY_INTERFACES];
  u32 ifindex = XG_VERDICT_ACTION(action) == XG_TX ? asked : 0u;
  bool is_known = false;
  for (u32 i = 0u; i < m.image.v[list]; i++) {
    XG_PROGRAM_TURN();
    const u32 number = m.image.v[list + 1u + i * 2u], port = m.image.v[list + 2u + i * 2u];
    if (number == asked) is_known = true;
    if (ifindex == 0u && XG_VERDICT_ACTION(action) == XG_REDIRECT && port == XG_VERDICT_PORT(action))
      ifindex = number;
  }
  if (!is_known) return xg_program_error(XG_PROGRAM_ENODEV);
  if (XG_VERDICT_ACTION(action) == XG_DROP) return u64(XG_PROGRAM_FIB_BLACKHOLE);
  if (ifindex == 0u) return u64(XG_PROGRAM_FIB_NOT_FWDED);

  const u32 length = XG_PROGRAM_OWN.stack[at + XG_PROGRAM_FIB_LENGTH];
  const u32 mtu = m.image.v[hop + XG_FWD_MTU];
  const u32 with_mtu = (length & 0xffffu) | mtu << 16;
  if (length >> 16 > mtu) {
    XG_PROGRAM_OWN.stack[at + XG_PROGRAM_FIB_LENGTH] = with_mtu;
    return u64(XG_PROGRAM_FIB_FRAG_NEEDED);
  }
  XG_PROGRAM_OWN.stack[at + XG_PROGRAM_FIB_METRIC] = 0u;
  XG_PROGRAM_OWN.stack[at + XG_PROGRAM_FIB_IFINDEX] = ifindex;
  if ((flags & XG_PROGRAM_FIB_SKIP_NEIGH) == 0u) {
    if (m.image.v[hop + XG_FWD_OWN_SRC] == 0u) return u64(XG_PROGRAM_FIB_NO_NEIGH);
    const u32 dst_0 = m.image.v[hop + XG_FWD_DST], dst_1 = m.image.v[hop + XG_FWD_DST + 1u];
    const u32 src_1 = m.image.v[hop + XG_FWD_SRC + 1u];
    XG_PROGRAM_OWN.stack[at + XG_PROGRAM_FIB_MACS] = m.image.v[hop + XG_FWD_SRC];
    XG_PROGRAM_OWN.stack[at + XG_PROGRAM_FIB_MACS + 1u] = (src_1 & 0xffffu) | dst_0 << 16;
    XG_PROGRAM_OWN.stack[at + XG_PROGRAM_FIB_MACS + 2u] = dst_0 >> 16 | dst_1 << 16;
  }
  XG_PROGRAM_OWN.stack[at + XG_PROGRAM_FIB_VLAN] = 0u;
  XG_PROGRAM_OWN.stack[at + XG_PROGRAM_FIB_LENGTH] = with_mtu;
  return u64(XG_PROGRAM_FIB_SUCCESS);
}

#endif
