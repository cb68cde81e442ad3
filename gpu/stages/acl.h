/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/acl.h: `acl`, ordered rules, first match wins (gpu/pipelines.hpp says what a rule matches,
 * gpu/stages/image.h how the rules are laid out).
 *
 * What one field says takes a few loads that hang on each other, the fields' loads do not: their number is
 * about the same whether there are ten rules or ten thousand, but not how near the tables are.
 */
#ifndef XDPGPU_STAGES_ACL_H
#define XDPGPU_STAGES_ACL_H

#include "prefix_tree.h"

/* A TCP header of 20 bytes stands at `l4`, in the packet itself and not in what pads its frame. Only of
 * malformed packets the parser has not seen to that. */
XG_FN bool xg_acl_tcp_inside(xg_view p, u32 l4) {
  if (!xg_inside(p, l4, 20u)) return false;
  if ((p.flags & XG_PKT_MALFORMED) == 0u) return true;
  u32 l3 = xg_l3_offset(p);
  if (p.family == 4u) return l4 + 20u <= l3 + xg_view16(p, l3 + 2u);
  u32 payload = xg_view16(p, l3 + 4u);
  /* The length of a jumbogram stands elsewhere: the frame's has to do. */
  if (payload == 0u && xg_view8(p, l3 + 6u) == 0u) return true;
  return l4 + 20u <= l3 + 40u + payload;
}

/* Index in the table of protocols; the packet has addresses. */
XG_FN u32 xg_acl_l4(xg_view p, bool flags) {
  if (!flags || p.protocol != 6u || (p.flags & (XG_PKT_TCP | XG_PKT_FRAGMENT)) != XG_PKT_TCP)
    return p.protocol;
  u32 l4 = xg_metadata32(p, 6u) & 0xffffu;
  return xg_acl_tcp_inside(p, l4) ? XG_ACL_L4_TCP + xg_view8(p, l4 + 13u) : p.protocol;
}

/* Index in the table of VLANs. */
XG_FN u32 xg_acl_vlan(xg_view p) {
  if ((p.flags & XG_PKT_VLAN) == 0u || !xg_inside(p, 14u, 4u)) return XG_ACL_NO_VLAN;
  u32 id = xg_view16(p, 14u) & 0xfffu;
  return id == 0u ? XG_ACL_PRIORITY_VLAN : id;
}

/* Entry `index` of a table of classes. */
XG_FN u32 xg_acl_class(xg_words image, u32 table, u32 index) {
  return (image.v[table + (index >> 1)] >> ((index & 1u) * 16u)) & 0xffffu;
}

/* The class of the packet's address in the trees of one side. a, b, c, d as in the packet. */
XG_FN u32 xg_acl_address(xg_words image, u32 trees, u32 family, u32 a, u32 b, u32 c, u32 d) {
  if (family == 4u) return xg_tree(image, trees, xg_swap32(a), 0u, 0u, 0u);
  if (family == 6u)
    return xg_tree(image, trees + XG_TREE_WORDS, xg_swap32(a), xg_swap32(b), xg_swap32(c), xg_swap32(d));
  return 0u;
}

/* The packet's class in a dimension in which packets are told apart. */
XG_FN u32 xg_acl_class_of(xg_words image, u32 body, u32 dimension, xg_view p, bool flags) {
  if (dimension == XG_ACL_SRC)
    return xg_acl_address(image, body + XG_ACL_SRC_TREES, p.family, p.src[0], p.src[1], p.src[2], p.src[3]);
  if (dimension == XG_ACL_DST)
    return xg_acl_address(image, body + XG_ACL_DST_TREES, p.family, p.dst[0], p.dst[1], p.dst[2], p.dst[3]);
  u32 index;
  if (dimension == XG_ACL_VLAN) {
    index = xg_acl_vlan(p);
  } else if (dimension == XG_ACL_L4) {
    if (p.family == 0u) return 0u;
    index = xg_acl_l4(p, flags);
  } else {
    if (p.has_ports == 0u || (p.flags & XG_PKT_FRAGMENT) != 0u) return 0u;
    u32 ports = xg_swap32(p.ports);
    index = dimension == XG_ACL_SRC_PORT ? ports >> 16 : ports & 0xffffu;
  }
  return xg_acl_class(image, image.v[body + XG_ACL_TABLES + dimension], index);
}

/* The action word of the first rule in `block` that is in the classes' rows of all `used` dimensions;
 * XG_ACL_NO_RULE: none is. */
XG_FN u32 xg_acl_block(xg_words image, u32 body, u32 used, u32 block, u32 classes[XG_ACL_DIMENSIONS]) {
  u32 rows[XG_ACL_DIMENSIONS];
  for (u32 d = 0u; d < XG_ACL_DIMENSIONS; d++) {
    rows[d] = 0u;
    if (((used >> d) & 1u) != 0u)
      rows[d] =
          image.v[image.v[body + XG_ACL_ROWS + d] + block * image.v[body + XG_ACL_CLASSES + d] + classes[d]];
  }
  u32 words = image.v[body + XG_ACL_BLOCK];
  for (u32 w = 0u; w < words; w++) {
    u32 rules = ~0u;
    for (u32 d = 0u; d < XG_ACL_DIMENSIONS; d++)
      if (((used >> d) & 1u) != 0u) rules &= image.v[rows[d] + w];
    if (rules != 0u)
      return image.v[image.v[body + XG_ACL_ACTIONS] + (block * words + w) * 32u + XG_LOWEST_BIT(rules)];
  }
  return XG_ACL_NO_RULE;
}

/* Where a packet stands among the rules. The steps from it to the answer are apart for the CPU device, which
 * takes each for several packets together (gpu/cpu/group.hpp). */
struct xg_acl_place {
  u32 classes[XG_ACL_DIMENSIONS];
  u32 cell; /* -> its set of blocks */
  u32 low;  /* blocks in which all classes have rules */
  u32 high;
};

/* By the classes. */
XG_FN void xg_acl_locate(xg_words image, u32 body, XG_INOUT(xg_acl_place) place) {
  u32 used = image.v[body + XG_ACL_USED];
  place.cell = image.v[body + XG_ACL_CELLS];
  place.low = ~0u;
  place.high = ~0u;
  for (u32 d = 0u; d < XG_ACL_DIMENSIONS; d++) {
    if (((used >> d) & 1u) != 0u) {
      u32 head = image.v[body + XG_ACL_HEADS + d] + place.classes[d] * XG_ACL_HEAD;
      place.cell += image.v[head];
      place.low &= image.v[head + 1u];
      place.high &= image.v[head + 2u];
    }
  }
}

/* The action word of the first rule that matches, or the body's "otherwise". */
XG_FN u32 xg_acl_first(xg_words image, u32 body, xg_acl_place place) {
  u32 used = image.v[body + XG_ACL_USED];
  u32 low = place.low & image.v[place.cell];
  u32 high = place.high & image.v[place.cell + 1u];
  while ((low | high) != 0u) {
    u32 block;
    if (low != 0u) {
      block = XG_LOWEST_BIT(low);
      low &= low - 1u;
    } else {
      block = 32u + XG_LOWEST_BIT(high);
      high &= high - 1u;
    }
    u32 action = xg_acl_block(image, body, used, block, place.classes);
    if (action != XG_ACL_NO_RULE) return action;
  }
  return image.v[body + XG_ACL_OTHERWISE];
}

/* Returns an action word. */
XG_FN u32 xg_acl_answer(xg_batch b, u32 body, xg_view p, xg_acl_place place, XG_INOUT(xg_result) r) {
  u32 action = xg_acl_first(b.image, body, place);
  if (XG_VERDICT_ACTION(action) != XG_NEXT) xg_set_cache(b, body, p, XG_REWRITE_NONE, r);
  return action;
}

XG_FN u32 xg_stage_acl(xg_batch b, u32 body, xg_view p, XG_INOUT(xg_result) r) {
  u32 used = b.image.v[body + XG_ACL_USED];
  xg_acl_place place;
  for (u32 d = 0u; d < XG_ACL_DIMENSIONS; d++) {
    place.classes[d] = 0u;
    if (((used >> d) & 1u) != 0u)
      place.classes[d] = xg_acl_class_of(b.image, body, d, p, (used & XG_ACL_USES_FLAGS) != 0u);
  }
  xg_acl_locate(b.image, body, place);
  return xg_acl_answer(b, body, p, place, r);
}

#endif
