/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/reputation/device.h: `reputation`, addresses against lists of prefixes, the longest one counts
 * (settings.hpp).
 */
#ifndef XDPGPU_STAGES_REPUTATION_DEVICE_H
#define XDPGPU_STAGES_REPUTATION_DEVICE_H

#include "gpu/stages/prefix_tree.h"

/* The body: the value of a prefix is 1 + the number of its list. */
#define XG_REP_SIDES 2u /* XG_REP_SRC, XG_REP_DST or both: whose address is looked up, source first */
#define XG_REP_SRC 1u
#define XG_REP_DST 2u
#define XG_REP_OTHERWISE 3u /* action word where no list has the address */
#define XG_REP_ACTIONS 4u   /* -> action words, one a list */
#define XG_REP_V4 5u        /* a table of prefixes each */
#define XG_REP_V6 10u
#define XG_REP_WORDS 15u

/* 1 + the number of the list that has the address, 0: none. The address as in the packet. */
XG_FN u32 xg_reputation_of(xg_words image, u32 body, u32 family, u32 a, u32 b, u32 c, u32 d) {
  if (family == 4u) return xg_tree(image, body + XG_REP_V4, xg_swap32(a), 0u, 0u, 0u);
  return xg_tree(image, body + XG_REP_V6, xg_swap32(a), xg_swap32(b), xg_swap32(c), xg_swap32(d));
}

/* Returns an action word. */
XG_FN u32 xg_reputation_decide(xg_batch b, u32 body, xg_view p, XG_INOUT(xg_result) r) {
  u32 list = 0u;
  if (p.family != 0u) {
    u32 sides = b.image.v[body + XG_REP_SIDES];
    if ((sides & XG_REP_SRC) != 0u)
      list = xg_reputation_of(b.image, body, p.family, p.src[0], p.src[1], p.src[2], p.src[3]);
    if (list == 0u && (sides & XG_REP_DST) != 0u)
      list = xg_reputation_of(b.image, body, p.family, p.dst[0], p.dst[1], p.dst[2], p.dst[3]);
  }
  u32 action = b.image.v[body + XG_REP_OTHERWISE];
  if (list != 0u) action = b.image.v[b.image.v[body + XG_REP_ACTIONS] + list - 1u];
  if (XG_VERDICT_ACTION(action) != XG_NEXT) xg_set_cache(b, body, p, XG_REWRITE_NONE, r);
  return action;
}

#endif
