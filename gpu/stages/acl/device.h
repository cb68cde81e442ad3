/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/acl/device.h: `acl`, ordered rules, first match wins (settings.hpp says what a rule matches,
 * gpu/stages/image.h how the rules are laid out).
 *
 * What one field says takes a few loads that hang on each other, the fields' loads do not: their number is
 * about the same whether there are ten rules or ten thousand, but not how near the tables are.
 */
#ifndef XDPGPU_STAGES_ACL_DEVICE_H
#define XDPGPU_STAGES_ACL_DEVICE_H

#include "gpu/stages/keys.h"
#include "gpu/stages/prefix_tree.h"

/* The body: aggregated bit vectors (Baboescu and Varghese, SIGCOMM 2001) behind a grid. In each
 * dimension a packet is of one class: the packets for which the same rules' conditions on that field hold.
 * The class has a row with one bit a rule: these rules. The lowest bit set in the rows of all dimensions is
 * the first rule that matches. Class 0 is the rules that have no condition there: that of packets which lack
 * the field. Rows are looked at a block at a time, and only those blocks that may hold a match: of the bits
 * for them, 64 at most, each class has a set in its head, and so has each cell of the grid. A class has a
 * coarse coordinate in its dimension; these, already multiplied into place, add up to the cell. Its set says
 * which blocks have a rule that touches the cell at all, so that rules which overlap in every dimension by
 * itself, but not in all, do not lead through all blocks. Equal blocks of rows are stored once: neighbours
 * differ in few, so that ten thousand rules take a few megabytes.
 *
 * heads   of each dimension: by class, XG_ACL_HEAD words: the coordinate; the blocks in which it has a rule
 *         (two words, the low one first); 0
 * rows    of each dimension: by block and, within it, by class: -> the block's bits
 * cells   two words each: blocks, as in a head
 * tables  of classes, 16 bits each, two a word, the first one in the low half: of ports by number; by
 *         protocol, and behind them, from XG_L4_TCP on, of TCP by flags; of VLANs by the outer tag's id
 * trees   of addresses: tables of prefixes, below, whose values are classes */
#define XG_ACL_SRC 0u /* dimensions */
#define XG_ACL_DST 1u
#define XG_ACL_SRC_PORT 2u
#define XG_ACL_DST_PORT 3u
#define XG_ACL_L4 4u
#define XG_ACL_VLAN 5u
#define XG_ACL_DIMENSIONS 6u
#define XG_ACL_USED 2u          /* bit a dimension that has more than class 0; the others are not looked at */
#define XG_ACL_USES_FLAGS 0x80u /* ... and this one: some rule asks for TCP flags */
#define XG_ACL_BLOCK 3u         /* words of a row in a block */
#define XG_ACL_ACTIONS 4u       /* -> action words, one a rule */
#define XG_ACL_OTHERWISE 5u
#define XG_ACL_CELLS 6u      /* -> cells */
#define XG_ACL_HEADS 7u      /* by dimension: -> heads */
#define XG_ACL_TABLES 13u    /* by dimension: -> table; those of the addresses are 0 */
#define XG_ACL_ROWS 19u      /* by dimension: -> rows */
#define XG_ACL_CLASSES 25u   /* by dimension: number of classes */
#define XG_ACL_SRC_TREES 31u /* two tables of prefixes, IPv4's and IPv6's */
#define XG_ACL_DST_TREES 41u
#define XG_ACL_WORDS 51u
#define XG_ACL_HEAD 4u
#define XG_ACL_PORTS 65536u        /* entries of the tables */
#define XG_ACL_PRIORITY_VLAN 4096u /* a tag with id 0 */
#define XG_ACL_NO_VLAN 4097u
#define XG_ACL_VLANS 4098u
#define XG_ACL_NO_RULE 0xffffffffu /* no action word */

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
    index = xg_l4(p, flags);
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

XG_FN u32 xg_acl_decide(xg_batch b, u32 body, xg_view p, XG_INOUT(xg_result) r) {
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
