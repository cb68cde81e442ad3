/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/load_balance.h: `load_balance`: weighted backends, chosen by FNV-1a of the 5-tuple or by a keyed
 * hash and Maglev's lookup table (gpu/pipelines.hpp says over which bytes).
 */
#ifndef XDPGPU_STAGES_LOAD_BALANCE_H
#define XDPGPU_STAGES_LOAD_BALANCE_H

#include "table.h"

XG_FN u32 xg_fnv1a_byte(u32 hash, u32 byte_value) { return (hash ^ byte_value) * 16777619u; }

XG_FN u32 xg_fnv1a_word(u32 hash, u32 word) {
  hash = xg_fnv1a_byte(hash, word & 0xffu);
  hash = xg_fnv1a_byte(hash, (word >> 8) & 0xffu);
  hash = xg_fnv1a_byte(hash, (word >> 16) & 0xffu);
  return xg_fnv1a_byte(hash, word >> 24);
}

XG_FN u32 xg_fnv1a_tuple(xg_view p) {
  u32 words = p.family == 6u ? 4u : 1u;
  u32 hash = 2166136261u;
  /* Constant bounds: the compilers unroll them, and the addresses stay in registers. */
  for (u32 i = 0u; i < 4u; i++) {
    if (i < words) hash = xg_fnv1a_word(hash, p.src[i]);
  }
  for (u32 i = 0u; i < 4u; i++) {
    if (i < words) hash = xg_fnv1a_word(hash, p.dst[i]);
  }
  /* All fragments of a packet go to one backend, and only the first one has ports. */
  hash = xg_fnv1a_word(hash, (p.flags & XG_PKT_FRAGMENT) != 0u ? 0u : p.ports);
  return xg_fnv1a_byte(hash, p.protocol);
}

/* Sends the packet to backend `number`. Returns an action word. */
XG_FN u32 xg_balance_to(xg_batch b, u32 body, u32 backends, u32 number, xg_view p, XG_INOUT(xg_result) r) {
  u32 chosen = backends + number * XG_LB_BACKEND;
  r.flags |= XG_RES_SET_DST_MAC | XG_RES_SET_SRC_MAC;
  r.dst_mac[0] = b.image.v[chosen + XG_LB_MAC];
  r.dst_mac[1] = b.image.v[chosen + XG_LB_MAC + 1u];
  r.src_mac[0] = xg_view32(p, 0u);
  r.src_mac[1] = xg_view32(p, 4u) & 0xffffu;
  r.detail = number;
  u32 rewrite = b.image.v[chosen + XG_LB_REWRITE];
  if (rewrite != XG_LB_NO_REWRITE) xg_set_cache(b, body, p, rewrite, r);
  return b.image.v[chosen + XG_LB_ACTION];
}

XG_FN u32 xg_stage_load_balance(xg_batch b, u32 body, xg_view p, XG_INOUT(xg_result) r) {
  if (p.family == 0u) return XG_NEXT;
  u32 residue = xg_fnv1a_tuple(p) % b.image.v[body + XG_LB_TOTAL];
  u32 backends = body + XG_LB_BACKENDS;
  u32 low = 0u; /* the first backend whose end lies above the residue */
  u32 count = b.image.v[body + XG_LB_COUNT];
  while (count > 1u) {
    u32 step_size = count >> 1;
    if (b.image.v[backends + (low + step_size - 1u) * XG_LB_BACKEND + XG_LB_END] <= residue) low += step_size;
    count -= step_size;
  }
  return xg_balance_to(b, body, backends, low, p, r);
}

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

/* at: -> XG_MAGLEV_WORDS words. */
XG_FN u32 xg_maglev_backend(xg_batch b, u32 at, u64 hash) {
  u32 entry = u32(hash >> 32) % b.image.v[at + XG_MAGLEV_SIZE];
  u32 pair = b.image.v[b.image.v[at + XG_MAGLEV_TABLE] + (entry >> 1)];
  return (pair >> ((entry & 1u) * 16u)) & 0xffffu;
}

XG_FN u32 xg_stage_maglev(xg_batch b, u32 body, xg_view p, XG_INOUT(xg_result) r) {
  if (p.family == 0u) return XG_NEXT;
  xg_touch t = xg_untracked();
  xg_flow_touch(p, t);
  u32 at = body + XG_MAGLEV;
  u32 number = xg_maglev_backend(b, at, xg_key_hash(b, body + XG_MAGLEV_HASH_KEY, t));
  return xg_balance_to(b, body, b.image.v[at + XG_MAGLEV_BACKENDS], number, p, r);
}

#endif
