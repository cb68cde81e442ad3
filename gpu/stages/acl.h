/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/acl.h: `acl`, ordered 5-tuple rules, first match wins (gpu/pipelines.hpp says what a rule
 * matches, gpu/stages/image.h how the rules are laid out).
 */
#ifndef XDPGPU_STAGES_ACL_H
#define XDPGPU_STAGES_ACL_H

#include "view.h"

/* -> row of the interval that holds `key`. */
XG_FN u32 xg_acl_row(xg_words image, u32 dimension, u32 key) {
  u32 starts = image.v[dimension];
  u32 count = image.v[dimension + 1u];
  u32 low = 0u;
  while (count > 1u) {
    u32 step_size = count >> 1;
    if (image.v[starts + low + step_size] <= key) low += step_size;
    count -= step_size;
  }
  return image.v[image.v[dimension + 2u] + low];
}

/* a, b, c, d: the address's four words, the most significant one first. */
XG_FN u32 xg_acl_row6(xg_words image, u32 dimension, u32 a, u32 b, u32 c, u32 d) {
  u32 starts = image.v[dimension];
  u32 count = image.v[dimension + 1u];
  u32 low = 0u;
  while (count > 1u) {
    u32 step_size = count >> 1;
    u32 at = starts + (low + step_size) * 4u;
    u32 word = image.v[at];
    u32 key = a;
    if (word == key) {
      word = image.v[at + 1u];
      key = b;
    }
    if (word == key) {
      word = image.v[at + 2u];
      key = c;
    }
    if (word == key) {
      word = image.v[at + 3u];
      key = d;
    }
    if (word <= key) low += step_size;
    count -= step_size;
  }
  return image.v[image.v[dimension + 2u] + low];
}

/* The action word of the first rule that is in all five rows, or the body's "otherwise". */
XG_FN u32 xg_acl_first(xg_words image, u32 body, u32 src, u32 dst, u32 src_port, u32 dst_port, u32 protocol) {
  u32 summaries = image.v[body + XG_ACL_SUMMARY];
  for (u32 s = 0u; s < summaries; s++) {
    u32 words = image.v[src + s] & image.v[dst + s] & image.v[src_port + s] & image.v[dst_port + s] &
                image.v[protocol + s];
    while (words != 0u) {
      u32 word = s * 32u + XG_LOWEST_BIT(words);
      words &= words - 1u;
      u32 at = summaries + word;
      u32 rules = image.v[src + at] & image.v[dst + at] & image.v[src_port + at] & image.v[dst_port + at] &
                  image.v[protocol + at];
      if (rules != 0u) return image.v[image.v[body + XG_ACL_ACTIONS] + word * 32u + XG_LOWEST_BIT(rules)];
    }
  }
  return image.v[body + XG_ACL_OTHERWISE];
}

/* Returns an action word. */
XG_FN u32 xg_stage_acl(xg_batch b, u32 body, xg_view p, XG_INOUT(xg_result) r) {
  u32 src = b.image.v[body + XG_ACL_NO_SRC];
  u32 dst = b.image.v[body + XG_ACL_NO_DST];
  u32 src_port = XG_ACL_NO_PORT;
  u32 dst_port = XG_ACL_NO_PORT;
  u32 protocol = XG_ACL_NO_PROTOCOL;
  if (p.family == 4u) {
    src = xg_acl_row(b.image, body + XG_ACL_SRC4, xg_swap32(p.src[0]));
    dst = xg_acl_row(b.image, body + XG_ACL_DST4, xg_swap32(p.dst[0]));
  } else if (p.family == 6u) {
    src = xg_acl_row6(b.image, body + XG_ACL_SRC6, xg_swap32(p.src[0]), xg_swap32(p.src[1]),
                      xg_swap32(p.src[2]), xg_swap32(p.src[3]));
    dst = xg_acl_row6(b.image, body + XG_ACL_DST6, xg_swap32(p.dst[0]), xg_swap32(p.dst[1]),
                      xg_swap32(p.dst[2]), xg_swap32(p.dst[3]));
  }
  if (p.family != 0u) protocol = p.protocol;
  if (p.has_ports != 0u) {
    u32 ports = xg_swap32(p.ports);
    src_port = ports >> 16;
    dst_port = ports & 0xffffu;
  }
  u32 action = xg_acl_first(b.image, body, src, dst, xg_acl_row(b.image, body + XG_ACL_SRC_PORT, src_port),
                            xg_acl_row(b.image, body + XG_ACL_DST_PORT, dst_port),
                            xg_acl_row(b.image, body + XG_ACL_PROTOCOL, protocol));
  if (XG_VERDICT_ACTION(action) != XG_NEXT) xg_set_cache(b, body, p, XG_REWRITE_NONE, r);
  return action;
}

#endif
