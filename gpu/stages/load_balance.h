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

/* Length of the IP packet, as its header has it; a jumbogram is longer than any. */
XG_FN u32 xg_ip_bytes(xg_view p) {
  u32 l3 = xg_l3_offset(p);
  if (p.family == 4u) return xg_view16(p, l3 + 2u);
  u32 payload = xg_view16(p, l3 + 4u);
  return payload == 0u && xg_view8(p, l3 + 6u) == 0u ? 0xffffffffu : 40u + payload;
}

/* Sends the packet to backend `number`. Returns an action word. */
XG_FN u32 xg_balance_to(xg_batch b, u32 body, u32 backends, u32 number, xg_view p, XG_INOUT(xg_result) r) {
  u32 chosen = backends + number * XG_LB_BACKEND;
  u32 outer = b.image.v[chosen + XG_LB_OUTER];
  r.detail = number;
  if (outer != 0u) {
    if ((p.flags & XG_PKT_MALFORMED) != 0u) return XG_VERDICT(XG_DROP, 0u, 0u, XG_LB_RULE_MALFORMED);
    if (xg_ip_bytes(p) > b.image.v[outer + XG_OUTER_LONGEST]) {
      r.flags |= XG_RES_TOO_LONG;
      r.dst_mac[0] = b.image.v[outer + XG_OUTER_LONGEST];
      return XG_VERDICT(XG_DROP, 0u, 0u, XG_LB_RULE_TOO_LONG);
    }
  }
  r.flags |= XG_RES_SET_DST_MAC | XG_RES_SET_SRC_MAC;
  r.dst_mac[0] = b.image.v[chosen + XG_LB_MAC];
  r.dst_mac[1] = b.image.v[chosen + XG_LB_MAC + 1u];
  r.src_mac[0] = xg_view32(p, 0u);
  r.src_mac[1] = xg_view32(p, 4u) & 0xffffu;
  if (outer != 0u) {
    xg_touch t = xg_untracked();
    xg_flow_touch(p, t);
    r.flags |= XG_RES_ENCAPSULATE;
    r.dst_mac[1] |= b.image.v[outer + XG_OUTER_REWRITE] << 16;
    r.src_mac[1] |= u32(xg_key_hash(b, outer + XG_OUTER_HASH_KEY, t)) << 16;
  }
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

/* What becomes of a packet, and with it the number of its backend: outcome << 16 | number. */
#define XG_AFFINITY_KEPT 0u     /* it goes where its flow went */
#define XG_AFFINITY_NEW 1u      /* nothing is known of its flow */
#define XG_AFFINITY_MOVED 2u    /* the backend of its flow is gone */
#define XG_AFFINITY_NO_PLACE 3u /* as with new, but there is no place to note it */
#define XG_AFFINITY_NO_KEY 4u   /* no addresses: it goes on */

/* facts: number of the backend that Maglev would choose. */
XG_FN xg_touch xg_affinity_touch(xg_batch b, u32 body, xg_view p) {
  xg_touch t = xg_untracked();
  if (p.family == 0u) {
    t.facts = XG_AFFINITY_NO_KEY << 16;
    return t;
  }
  if (b.image.v[body + XG_AFFINITY_PER] == XG_RATE_SRC) {
    for (u32 i = 0u; i < 4u; i++) t.key[i] = p.src[i];
    t.key[9] = p.family;
  } else {
    xg_flow_touch(p, t);
  }
  t.now = xg_word_pair(xg_metadata32(p, 0u), xg_metadata32(p, 1u)) * XG_TICKS_PER_NS;
  u64 hash = xg_touch_hash(b, body, t);
  t.facts = xg_maglev_backend(b, body + XG_AFFINITY_MAGLEV, hash);
  return t;
}

#define XG_NO_BACKEND 0xffffffffu

/* Number of the backend with this id that keeps what it has, XG_NO_BACKEND: there is none. */
XG_FN u32 xg_backend_with(xg_batch b, u32 body, u64 id) {
  u32 low = b.image.v[body + XG_AFFINITY_IDS]; /* -> the last one that is not above it */
  u32 count = b.image.v[body + XG_AFFINITY_COUNT];
  while (count > 1u) {
    u32 step_size = count >> 1;
    u32 middle = low + step_size * XG_LB_KEPT;
    if (xg_word_pair(b.image.v[middle], b.image.v[middle + 1u]) <= id) low = middle;
    count -= step_size;
  }
  if (xg_word_pair(b.image.v[low], b.image.v[low + 1u]) != id) return XG_NO_BACKEND;
  return b.image.v[low + 2u];
}

XG_FN u32 xg_affinity_apply(xg_batch b, u32 body, xg_touch t) {
  xg_state s = xg_state_of(b, body);
  u32 evict = b.image.v[body + XG_BODY_EVICT];
  u64 now = u64(0);
  u32 set = xg_come(s, t, now);
  u32 entry = xg_find(s, set, now, evict, t);
  u32 at = body + XG_AFFINITY_IDLE;
  u64 deadline = now + xg_word_pair(b.image.v[at], b.image.v[at + 1u]);
  u32 outcome = XG_AFFINITY_NEW << 16;
  if (entry != 0u) {
    xg_set_state64(s, entry + XG_ENTRY_DEADLINE, deadline);
    u32 kept = xg_backend_with(b, body, xg_state64(s, entry + XG_ENTRY_VALUE));
    if (kept != XG_NO_BACKEND) return XG_AFFINITY_KEPT << 16 | kept;
    outcome = XG_AFFINITY_MOVED << 16;
  } else {
    entry = xg_insert(s, set, now, evict, deadline, t);
    if (entry == 0u) return XG_AFFINITY_NO_PLACE << 16 | t.facts;
  }
  u32 backend =
      b.image.v[body + XG_AFFINITY_MAGLEV + XG_MAGLEV_BACKENDS] + t.facts * XG_LB_BACKEND + XG_LB_ID;
  s.v[entry + XG_ENTRY_VALUE] = b.image.v[backend];
  s.v[entry + XG_ENTRY_VALUE + 1u] = b.image.v[backend + 1u];
  return outcome | t.facts;
}

/* Returns an action word. */
XG_FN u32 xg_affinity_settle(xg_batch b, u32 body, u32 outcome, xg_view p, XG_INOUT(xg_result) r) {
  xg_count(xg_state_of(b, body), XG_TABLE_OWN + (outcome >> 16));
  if (outcome >> 16 == XG_AFFINITY_NO_KEY) return XG_NEXT;
  u32 backends = b.image.v[body + XG_AFFINITY_MAGLEV + XG_MAGLEV_BACKENDS];
  return xg_balance_to(b, body, backends, outcome & 0xffffu, p, r);
}

#endif
