/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/prefix_tree.h: longest-prefix match (gpu/stages/image.h says how the prefixes are laid out). A
 * look-up follows one node or jump each time that prefixes around the address part from each other, at most 4
 * for IPv4 and some 20 for IPv6.
 */
#ifndef XDPGPU_STAGES_PREFIX_TREE_H
#define XDPGPU_STAGES_PREFIX_TREE_H

#include "gpu/stages/view.h"

/* Do x and y agree in their first `bits`? Any number of bits, those beyond 32 counting as 32. */
XG_FN bool xg_tree_agree(u32 x, u32 y, u32 bits) {
  if (bits == 0u) return true;
  return bits >= 32u ? x == y : (x ^ y) >> (32u - bits) == 0u;
}
XG_FN u32 xg_tree_less(u32 bits, u32 by) { return bits > by ? bits - by : 0u; }

/* The 32 bits from bit `from` on of two words; from is below 32. */
XG_FN u32 xg_tree_bits(u32 x, u32 y, u32 from) { return from == 0u ? x : x << from | y >> (32u - from); }

/* The value of the longest prefix that holds the address, 0: none. a, b, c, d: the address's words, the most
 * significant one first; of IPv4 a, and 0. */
XG_FN u32 xg_tree(xg_words image, u32 table, u32 a, u32 b, u32 c, u32 d) {
  u32 taken = image.v[table + XG_TREE_FIRST];
  u32 entry = image.v[image.v[table + XG_TREE_ENTRIES] + (a >> (32u - taken))];
  u32 nodes = image.v[table + XG_TREE_NODES];
  /* What is left of the address, its next bits on top. */
  u32 at = xg_tree_bits(a, b, taken);
  u32 at1 = xg_tree_bits(b, c, taken);
  u32 at2 = xg_tree_bits(c, d, taken);
  u32 at3 = d << taken;
  while ((entry & XG_TREE_LEAF) == 0u) {
    u32 node = nodes + entry * XG_TREE_NODE;
    u32 children = image.v[node];
    u32 leaves = image.v[node + 1u];
    if ((children | leaves) == 0u) {
      u32 jump = image.v[table + XG_TREE_JUMPS] + image.v[node + 2u] * XG_TREE_JUMP;
      u32 bits = image.v[jump + 4u];
      if (!xg_tree_agree(image.v[jump], a, bits) ||
          !xg_tree_agree(image.v[jump + 1u], b, xg_tree_less(bits, 32u)) ||
          !xg_tree_agree(image.v[jump + 2u], c, xg_tree_less(bits, 64u)) ||
          !xg_tree_agree(image.v[jump + 3u], d, xg_tree_less(bits, 96u)))
        return image.v[jump + 6u];
      entry = image.v[jump + 5u];
      u32 words = bits >> 5;
      u32 w0 = words == 0u ? a : words == 1u ? b : words == 2u ? c : words == 3u ? d : 0u;
      u32 w1 = words == 0u ? b : words == 1u ? c : words == 2u ? d : 0u;
      u32 w2 = words == 0u ? c : words == 1u ? d : 0u;
      u32 w3 = words == 0u ? d : 0u;
      at = xg_tree_bits(w0, w1, bits & 31u);
      at1 = xg_tree_bits(w1, w2, bits & 31u);
      at2 = xg_tree_bits(w2, w3, bits & 31u);
      at3 = w3 << (bits & 31u);
    } else {
      u32 bit = 1u << (at >> (32u - XG_TREE_STEP));
      if ((children & bit) == 0u) {
        u32 leaf = image.v[node + 3u] + XG_BITS_SET(leaves & ((bit << 1) - 1u)) - 1u;
        return image.v[image.v[table + XG_TREE_LEAVES] + leaf];
      }
      entry = image.v[node + 2u] + XG_BITS_SET(children & (bit - 1u));
      at = xg_tree_bits(at, at1, XG_TREE_STEP);
      at1 = xg_tree_bits(at1, at2, XG_TREE_STEP);
      at2 = xg_tree_bits(at2, at3, XG_TREE_STEP);
      at3 = at3 << XG_TREE_STEP;
    }
  }
  return entry & ~XG_TREE_LEAF;
}

#endif
