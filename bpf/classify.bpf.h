/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/classify.bpf.h: which rules a packet matches (the tables of maps/tables.h).
 *
 * A map lookup is a call here (inner maps are not inlined by the kernel), so the first chunk of lines is
 * looked up once, dimensions in which all packets are alike are skipped, and rows are only looked up
 * when the heads leave a word to look into. Comparisons with a whole line are arithmetic, not branches:
 * which way they go is random, and a mispredicted branch costs more than the line's work.
 */
#ifndef XDPGPU_BPF_CLASSIFY_H
#define XDPGPU_BPF_CLASSIFY_H

#include "bpf/run.bpf.h"

/* The tables of one slot. */
struct xg_tables {
  u32 slot;
  const xg_chunk* first; /* chunk of lines */
  void* rows;
};

/* The matching rules: a word of 64 rules has a bit in `words` if it may hold a match. */
struct xg_matches {
  u64 words;
  const xg_class_row* row[XG_DIMS];
};

/* Index of the lowest bit set; x is not 0. BPF has no such instruction. */
XG_INLINE u32 xg_lowest_bit(u64 x) {
  static const u8 position[64] = {0,  1,  2,  53, 3,  7,  54, 27, 4,  38, 41, 8,  34, 55, 48, 28,
                                  62, 5,  39, 46, 44, 42, 22, 9,  24, 35, 59, 56, 49, 18, 29, 11,
                                  63, 52, 6,  26, 37, 40, 33, 47, 61, 45, 43, 21, 23, 58, 17, 10,
                                  51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12};
  return position[((x & -x) * 0x022fdd63cc95386dul) >> 58];
}

/* x without its lowest bit. Not x & (x - 1): from that the verifier learns a smaller upper bound on each
 * turn of a loop, and then no two turns are alike to it. */
XG_INLINE u64 xg_without_lowest_bit(u64 x) {
  u64 lowest = x & -x;
  asm volatile("" : "+r"(lowest));
  return x ^ lowest;
}

/* 1 if a < b, for any numbers: the borrow of a - b. */
XG_INLINE u64 xg_below_full(u64 a, u64 b) { return ((~a & b) | (~(a ^ b) & (a - b))) >> 63; }

XG_INLINE const xg_chunk* xg_chunk_at(u32 slot, u32 index) {
  void* lines = bpf_map_lookup_elem(&policy_lines, &slot);
  return lines ? bpf_map_lookup_elem(lines, &index) : NULL;
}

/* The entry of `bytes` bytes with that index, of the lines taken as a table of such entries; NULL if it is
 * not there. */
XG_INLINE const void* xg_entry_at(const struct xg_tables* tables, u32 index, u32 bytes) {
  const u32 entries = sizeof(xg_chunk) / bytes; /* a chunk's */
  const xg_chunk* chunk = tables->first;
  u32 within = index & (entries - 1);
  asm volatile("" : "+r"(within)); /* the mask is for the verifier; the compiler knows better */
  if (index >= entries) {
    chunk = xg_chunk_at(tables->slot, index / entries);
    if (!chunk) return NULL;
  }
  return (const u8*)chunk + within * bytes;
}

XG_INLINE const xg_line* xg_line_at(const struct xg_tables* tables, u32 index) {
  return xg_entry_at(tables, index, sizeof(xg_line));
}

XG_INLINE u64 xg_word_at(const struct xg_tables* tables, u32 index) {
  const u64* word = xg_entry_at(tables, index, sizeof(u64));
  return word ? *word : 0;
}

/* Entry `index` of a table of u16 that starts at a line. */
XG_INLINE u32 xg_index_at(const struct xg_tables* tables, u32 first_line, u32 index) {
  const u16* entry = xg_entry_at(tables, first_line * 32 + index, sizeof(u16));
  return entry ? *entry : 0;
}

/* By halves, as the boundaries ascend: branches here, as three of them wait for no load where arithmetic
 * would wait for one after the other. The first boundary is never above the key. */
XG_INLINE u32 xg_leaf_value(const struct xg_tables* tables, u64 leaf, u64 key) {
  const xg_line* line = xg_line_at(tables, XG_LPM_INDEX(leaf) / XG_LINE_WORDS);
  if (!line) return 0;
  u32 at = XG_LPM_INDEX(leaf) % XG_LINE_WORDS;
  const u32 end = at + XG_LPM_COUNT(leaf);
#pragma unroll
  for (u32 step = XG_LINE_WORDS / 2; step; step /= 2)
    if (at + step < end && line->word[(at + step) % XG_LINE_WORDS] <= (key | 0xffffff)) at += step;
  return XG_LPM_VALUE(line->word[at % XG_LINE_WORDS]);
}

XG_INLINE u32 xg_split_number(const struct xg_tables* tables, u32 index, u64 key) {
  const xg_line* line = xg_line_at(tables, index);
  if (!line) return 0;
  u32 not_above = 0;
#pragma unroll
  for (u32 i = 0; i < XG_LPM_SPLIT_KEYS; i++) not_above += (u32)xg_below_full(key, line->word[i]) ^ 1;
  return ((const u32*)line)[2 * XG_LPM_SPLIT_KEYS + not_above];
}

/* What the word behind the block that matches, or behind the base, says: the rare case. */
static __noinline u32 xg_block_number(const xg_line* line, u64 key) {
  u32 at = 0;
  for (u32 i = 0; i < XG_LINE_WORDS - 1; i++)
    if ((key ^ line->word[i]) >> XG_LPM_BLOCK_SPAN(line->word[i]) == 0) at = i;
  return XG_LPM_BLOCK_NUMBER(line->word[at + 1]);
}

XG_INLINE u32 xg_block_value(const struct xg_tables* tables, u32 index, u64 key) {
  const xg_line* line = xg_line_at(tables, index);
  if (!line) return 0;
  u64 value = XG_LPM_BLOCK_BASE(line->word[0]);
  key = XG_LPM_BLOCK_KEY(key);
#pragma unroll
  for (u32 i = 0; i < XG_LINE_WORDS; i++) {
    const u64 block = line->word[i];
    const u64 matches = (((key ^ block) >> XG_LPM_BLOCK_SPAN(block)) - 1) >> 63;
    value ^= matches * XG_LPM_BLOCK_CLASS(block);
  }
  return value == XG_LPM_ESCAPE ? xg_block_number(line, key) : (u32)value;
}

/* The value for a 64-bit key, from the root word at `index` of the slot's lines. */
XG_INLINE u32 xg_trie_walk(const struct xg_tables* tables, u32 index, u64 key) {
  for (int depth = 0; depth < (int)XG_LPM_MAX_DEPTH; depth++) {
    const u64 word = xg_word_at(tables, index);
    const u32 kind = XG_LPM_KIND(word);
    if (kind == XG_LPM_CLASS) return XG_LPM_VALUE(word);
    key <<= XG_LPM_SKIP(word);
    if (kind == XG_LPM_LEAF) return xg_leaf_value(tables, word, key);
    u32 at = XG_LPM_INDEX(word);
    if (kind != XG_LPM_SPLIT) {
      const u32 bits = XG_LPM_BITS(word);
      at += (u32)(key >> ((64 - bits) & 63));
      key <<= bits;
    }
    if (kind != XG_LPM_BRANCH) {
      at = kind == XG_LPM_BLOCKS ? xg_block_value(tables, at, key) : xg_split_number(tables, at, key);
      if (!(at & XG_LPM_GO_ON)) return at;
      at &= ~XG_LPM_GO_ON;
    }
    index = at;
  }
  return 0;
}

#define XG_NO_ROOT (~0u)

/* The values for two keys, the source's in the low half of everything: both in one call, as a call costs as
 * much as a walk. Of a root XG_NO_ROOT: 0. A global function, which the verifier proves once for all its
 * callers; such functions take no map pointers, hence the slot. */
__noinline u64 xg_trie_walks(const xg_chunk* first, u32 slot, u64 roots, u64 src, u64 dst) {
  if (!first) return 0;
  const struct xg_tables tables = {.slot = slot, .first = first};
  const u32 src_root = (u32)roots, dst_root = (u32)(roots >> 32);
  const u32 src_value = src_root == XG_NO_ROOT ? 0 : xg_trie_walk(&tables, src_root, src);
  const u32 dst_value = dst_root == XG_NO_ROOT ? 0 : xg_trie_walk(&tables, dst_root, dst);
  return xg_pair(src_value, dst_value);
}

XG_INLINE u64 xg_address_half(const u32* words) { return __builtin_bswap64(xg_pair(words[0], words[1])); }

/* The second half of an IPv6 address, where the first one's value says that it matters. */
XG_INLINE u32 xg_low_root(const xg_policy* policy, u32 value) {
  return value < XG_LPM_LOW ? XG_NO_ROOT : policy->low_base + (value - XG_LPM_LOW);
}

/* The classes of both addresses, the source's in the low half; of a dimension that is not looked up, 0. */
XG_INLINE u64 xg_address_classes(const xg_policy* policy, const struct xg_tables* tables,
                                 const xg_flow_key* key) {
  const u32 src = policy->dims & 1u << XG_DIM_SRC, dst = policy->dims & 1u << XG_DIM_DST;
  if (key->family == 4)
    return xg_trie_walks(tables->first, tables->slot,
                         xg_pair(src ? policy->src4_root : XG_NO_ROOT, dst ? policy->dst4_root : XG_NO_ROOT),
                         (u64)xg_host32(key->src[0]) << 32, (u64)xg_host32(key->dst[0]) << 32);
  if (key->family != 6) return 0;
  const u64 high =
      xg_trie_walks(tables->first, tables->slot,
                    xg_pair(src ? policy->src6_root : XG_NO_ROOT, dst ? policy->dst6_root : XG_NO_ROOT),
                    xg_address_half(key->src), xg_address_half(key->dst));
  const u32 src_root = xg_low_root(policy, (u32)high), dst_root = xg_low_root(policy, (u32)(high >> 32));
  if ((src_root & dst_root) == XG_NO_ROOT) return high;
  const u64 low = xg_trie_walks(tables->first, tables->slot, xg_pair(src_root, dst_root),
                                xg_address_half(key->src + 2), xg_address_half(key->dst + 2));
  return xg_pair(src_root == XG_NO_ROOT ? (u32)high : (u32)low,
                 (u32)((dst_root == XG_NO_ROOT ? high : low) >> 32));
}

XG_INLINE u32 xg_port_index(const xg_packet* packet, u16 port) {
  if (!(packet->flags & XG_PKT_PORTS) || (packet->flags & XG_PKT_FRAGMENT)) return XG_PORT_NONE;
  return xg_host16(port);
}

/* A control protocol that the policy names has an index of its own. */
XG_INLINE int xg_control_named(const xg_policy* policy, const xg_packet* packet) {
  return policy->control_named >> (packet->control & 31) & 1;
}

XG_INLINE u32 xg_l4_index(const xg_policy* policy, const xg_packet* packet) {
  if (packet->control == XG_CONTROL_NONE || !xg_control_named(policy, packet)) return packet->l4_index;
  return XG_L4_CONTROL + packet->control;
}

XG_INLINE u32 xg_class_of(const xg_policy* policy, const struct xg_tables* tables, const xg_packet* packet,
                          u32 dimension, u64 addresses) {
  const xg_flow_key* key = &packet->key;
  switch (dimension) {
    case XG_DIM_SRC:
      return (u32)addresses;
    case XG_DIM_DST:
      return (u32)(addresses >> 32);
    case XG_DIM_SPORT:
      return xg_index_at(tables, policy->sport_line, xg_port_index(packet, key->src_port));
    case XG_DIM_DPORT:
      return xg_index_at(tables, policy->dport_line, xg_port_index(packet, key->dst_port));
    case XG_DIM_L4:
      return xg_index_at(tables, policy->l4_line, xg_l4_index(policy, packet));
    default:
      return xg_index_at(tables, policy->vlan_line, key->vlan_outer ? key->vlan_outer : XG_VLAN_NONE);
  }
}

enum xg_classified {
  XG_CLASSIFIED_BROKEN, /* the tables contradict each other or are not there: nothing may be concluded */
  XG_CLASSIFIED_NONE,   /* no rule matches; `matches` is not to be looked at */
  XG_CLASSIFIED_SOME,   /* the words in `matches` may hold some */
};

/* Finds the words that may hold matches. */
XG_INLINE enum xg_classified xg_classify(const xg_policy* policy, const struct xg_tables* tables,
                                         const xg_packet* packet, struct xg_matches* matches) {
  u32 row[XG_DIMS] = {};
  u32 any = policy->first_row[0];
  u32 cell = 0;
  u64 words = ~0ul;
  u64 addresses = 0;
  if (policy->dims & (1u << XG_DIM_SRC | 1u << XG_DIM_DST))
    addresses = xg_address_classes(policy, tables, &packet->key);
#pragma unroll
  for (u32 d = 0; d < XG_DIMS; d++) {
    if (!(policy->dims >> d & 1)) continue;
    any = policy->first_row[d] + xg_class_of(policy, tables, packet, d, addresses);
    row[d] = any;
    const xg_class_head* head = xg_entry_at(tables, policy->heads_line * 4 + any, sizeof(*head));
    if (!head) return XG_CLASSIFIED_BROKEN;
    words &= head->aggregate;
    cell += head->coarse;
  }
  words &= xg_word_at(tables, policy->grid_line * XG_LINE_WORDS + cell);
  if (!words) return XG_CLASSIFIED_NONE;
  matches->words = words;
  /* A dimension that was skipped borrows another one's row: ANDing that twice changes nothing. */
  const xg_class_row* borrowed = bpf_map_lookup_elem(tables->rows, &any);
  if (!borrowed) return XG_CLASSIFIED_BROKEN;
#pragma unroll
  for (u32 d = 0; d < XG_DIMS; d++) {
    const int own = (policy->dims >> d & 1) && row[d] != any;
    matches->row[d] = own ? bpf_map_lookup_elem(tables->rows, &row[d]) : borrowed;
    if (!matches->row[d]) return XG_CLASSIFIED_BROKEN;
  }
  return XG_CLASSIFIED_SOME;
}

/* The matching rules of word `w`. */
XG_INLINE u64 xg_matches_in(const struct xg_matches* matches, u32 w) {
  u64 bits = ~0ul;
#pragma unroll
  for (u32 d = 0; d < XG_DIMS; d++) bits &= matches->row[d]->rules[w & (XG_RULE_WORDS - 1)];
  return bits;
}

#endif
