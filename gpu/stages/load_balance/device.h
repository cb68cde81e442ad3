/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/load_balance/device.h: `load_balance`: weighted backends, chosen by FNV-1a of the 5-tuple or by
 * a keyed hash and Maglev's lookup table (settings.hpp says over which bytes).
 */
#ifndef XDPGPU_STAGES_LOAD_BALANCE_DEVICE_H
#define XDPGPU_STAGES_LOAD_BALANCE_DEVICE_H

#include "gpu/stages/keys.h"

/* Without affinity: how a flow's backend is chosen. */
#define XG_LB_BY 2u
#define XG_LB_BY_HASH 0u
#define XG_LB_BY_MAGLEV 1u
/* By "hash": backend i owns the residues from the end of backend i-1 to its own. */
#define XG_LB_TOTAL 3u    /* sum of the weights, 1 or more */
#define XG_LB_COUNT 4u    /* backends, 1 or more */
#define XG_LB_BACKENDS 5u /* XG_LB_BACKEND words each follow */
/* A backend, in whichever way it is chosen. */
#define XG_LB_BACKEND 8u
#define XG_LB_END 0u /* by "hash": first residue that is not its own */
#define XG_LB_MAC 1u /* two words, as xg_set_edit() takes them */
#define XG_LB_ACTION 3u
#define XG_LB_REWRITE                                                                   \
  4u /* number of the rewrite, XG_LB_NO_REWRITE: none was left, verdicts are not cached \
      */
#define XG_LB_NO_REWRITE 0u
#define XG_LB_ID 5u    /* what tables know it by, whatever other backends there are: two words (low, high) */
#define XG_LB_OUTER 7u /* -> what its outer headers take, XG_OUTER_WORDS words; 0: there are none */
#define XG_OUTER_REWRITE 0u  /* number of the rewrite that has their addresses */
#define XG_OUTER_LONGEST 1u  /* IP packet that fits inside of them, bytes */
#define XG_OUTER_BYTES 2u    /* that they are long */
#define XG_OUTER_TYPE 3u     /* EtherType */
#define XG_OUTER_HASH_KEY 4u /* four words: k0, k1 */
#define XG_OUTER_WORDS 8u
/* The verdict's rule: balance_rule of gpu/pipelines.hpp. */
#define XG_LB_RULE_TOO_LONG 1u
#define XG_LB_RULE_MALFORMED 2u

/* `load_balance` by "maglev": a flow's backend is the one whose number stands in the lookup
 * table (maglev.hpp) at the flow's keyed hash, modulo the table's size. */
#define XG_MAGLEV 3u      /* XG_MAGLEV_WORDS words: */
#define XG_MAGLEV_SIZE 0u /* of the table, a prime */
#define XG_MAGLEV_TABLE \
  1u /* -> numbers of backends, 16 bits each, two a word, the first one in the low half */
#define XG_MAGLEV_BACKENDS 2u /* -> backends, XG_LB_BACKEND words each */
#define XG_MAGLEV_WORDS 3u
#define XG_MAGLEV_HASH_KEY 6u /* four words: k0, k1 */

/* With affinity, behind XG_BODY_STATEFUL words: `load_balance` by "maglev" that keeps flows where they
 * are. An entry's value is the id of its backend. */
#define XG_AFFINITY_PER 10u    /* XG_KEY_SRC: clients; else flows */
#define XG_AFFINITY_OWN 11u    /* so many words are the table's; those behind are the policy's */
#define XG_AFFINITY_MAGLEV 11u /* XG_MAGLEV_WORDS words */
#define XG_AFFINITY_IDLE 14u   /* ticks, two words */
/* -> ids of the backends that keep what they have, in ascending order, XG_LB_KEPT words each: the id, and the
 * backend's number. */
#define XG_AFFINITY_IDS 16u
#define XG_AFFINITY_COUNT 17u /* of ids, 1 or more */
#define XG_AFFINITY_WORDS 18u
#define XG_LB_KEPT 3u

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

/* Length of the IP packet as it came, by its outermost header; a jumbogram is longer than any. */
XG_FN u32 xg_ip_bytes(xg_view p) {
  u32 l3 = xg_outer_l3(p);
  if (xg_outer_ipv4(p)) return xg_view16(p, l3 + 2u);
  u32 payload = xg_view16(p, l3 + 4u);
  return payload == 0u && xg_view8(p, l3 + 6u) == 0u ? 0xffffffffu : 40u + payload;
}

/* Sends the packet to backend `number`. Returns an action word. */
XG_FN u32 xg_balance_to(xg_batch b, u32 body, u32 backends, u32 number, xg_view p, XG_INOUT(xg_result) r) {
  u32 chosen = backends + number * XG_LB_BACKEND;
  u32 outer = b.image.v[chosen + XG_LB_OUTER];
  u32 bytes = 0u; /* of the IP packet, with `outer` */
  r.detail = number;
  if (outer != 0u) {
    if ((p.flags & XG_PKT_MALFORMED) != 0u) return XG_VERDICT(XG_DROP, 0u, 0u, XG_LB_RULE_MALFORMED);
    bytes = xg_ip_bytes(p);
    if (bytes > b.image.v[outer + XG_OUTER_LONGEST]) {
      xg_too_long(b, p, b.image.v[outer + XG_OUTER_LONGEST], r);
      return XG_VERDICT(XG_DROP, 0u, 0u, XG_LB_RULE_TOO_LONG);
    }
  }
  xg_set_edit(b, p, XG_EDIT_DST_MAC | XG_EDIT_SRC_MAC, b.image.v[chosen + XG_LB_MAC],
              b.image.v[chosen + XG_LB_MAC + 1u], xg_view32(p, 0u), xg_view32(p, 4u), 0u, 0u, r);
  if (outer != 0u) {
    xg_touch t = xg_untracked();
    xg_flow_touch(p, t);
    u32 pushed = b.image.v[outer + XG_OUTER_BYTES];
    u32 hash = u32(xg_key_hash(b, outer + XG_OUTER_HASH_KEY, t)) & 0xffffu;
    xg_push(b, p, pushed, bytes + pushed, b.image.v[outer + XG_OUTER_REWRITE], hash,
            b.image.v[outer + XG_OUTER_TYPE], r);
  }
  u32 rewrite = b.image.v[chosen + XG_LB_REWRITE];
  if (rewrite != XG_LB_NO_REWRITE) xg_set_cache(b, body, p, rewrite, r);
  return b.image.v[chosen + XG_LB_ACTION];
}

XG_FN u32 xg_balance_by_hash(xg_batch b, u32 body, xg_view p, XG_INOUT(xg_result) r) {
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

XG_FN u32 xg_balance_by_maglev(xg_batch b, u32 body, xg_view p, XG_INOUT(xg_result) r) {
  if (p.family == 0u) return XG_NEXT;
  xg_touch t = xg_untracked();
  xg_flow_touch(p, t);
  u32 at = body + XG_MAGLEV;
  u32 number = xg_maglev_backend(b, at, xg_key_hash(b, body + XG_MAGLEV_HASH_KEY, t));
  return xg_balance_to(b, body, b.image.v[at + XG_MAGLEV_BACKENDS], number, p, r);
}

XG_FN u32 xg_load_balance_decide(xg_batch b, u32 body, xg_view p, XG_INOUT(xg_result) r) {
  if (b.image.v[body + XG_LB_BY] == XG_LB_BY_HASH) return xg_balance_by_hash(b, body, p, r);
  return xg_balance_by_maglev(b, body, p, r);
}

/* What becomes of a packet, and with it the number of its backend: outcome << 16 | number. */
#define XG_AFFINITY_KEPT 0u     /* it goes where its flow went */
#define XG_AFFINITY_NEW 1u      /* nothing is known of its flow */
#define XG_AFFINITY_MOVED 2u    /* the backend of its flow is gone */
#define XG_AFFINITY_NO_PLACE 3u /* as with new, but there is no place to note it */
#define XG_AFFINITY_NO_KEY 4u   /* no addresses: it goes on */

/* facts: number of the backend that Maglev would choose. */
XG_FN xg_touch xg_load_balance_touch(xg_batch b, xg_way way, xg_view p, u32) {
  u32 body = way.body;
  xg_touch t = xg_untracked();
  if (p.family == 0u) {
    t.facts = XG_AFFINITY_NO_KEY << 16;
    return t;
  }
  if (b.image.v[body + XG_AFFINITY_PER] == XG_KEY_SRC) {
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

XG_FN u32 xg_load_balance_apply(xg_batch b, u32 body, xg_touch t) {
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
XG_FN u32 xg_load_balance_settle(xg_batch b, u32 body, u32 outcome, xg_view p, XG_INOUT(xg_result) r) {
  xg_count(xg_state_of(b, body), XG_TABLE_OWN + (outcome >> 16));
  if (outcome >> 16 == XG_AFFINITY_NO_KEY) return XG_NEXT;
  u32 backends = b.image.v[body + XG_AFFINITY_MAGLEV + XG_MAGLEV_BACKENDS];
  return xg_balance_to(b, body, backends, outcome & 0xffffu, p, r);
}

#endif
