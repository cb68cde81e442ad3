/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/sample/device.h: `sample`, one in so many packets or flows, by a keyed hash (settings.hpp).
 */
#ifndef XDPGPU_STAGES_SAMPLE_DEVICE_H
#define XDPGPU_STAGES_SAMPLE_DEVICE_H

#include "gpu/stages/keys.h"

/* The body, behind XG_BODY_STATEFUL words */
#define XG_SAMPLE_FLOWS 10u /* 1: flows are chosen; 0: packets */
#define XG_SAMPLE_MOST 11u  /* what has no larger hash is chosen; two words */
#define XG_SAMPLE_KEY 13u   /* of that hash: k0, k1, two words each */
#define XG_SAMPLE_IDLE 17u  /* ticks, two words */
#define XG_SAMPLE_WORDS 19u

/* An entry's value: when what is told of was received, in ticks, two words; the chosen packets << 1, and
 * bit 0, set where that packet goes from the entry's second end to its first one. Of flows that packet is
 * the first one, of packets the newest. */
#define XG_SAMPLE_TIME 0u
#define XG_SAMPLE_COUNT 2u

#define XG_SAMPLE_SAMPLED 0u
#define XG_SAMPLE_OTHERS 1u
#define XG_SAMPLE_NO_PLACE 2u /* chosen, and there is no place for its flow */
#define XG_SAMPLE_NO_KEY 3u   /* no addresses */

/* Of two ends, as they stand in the packet: whether the source is the larger one. */
XG_FN bool xg_sample_turned(xg_view p, u32 ports) {
  for (u32 i = 0u; i < 4u; i++)
    if (p.src[i] != p.dst[i]) return xg_swap32(p.src[i]) > xg_swap32(p.dst[i]);
  u32 swapped = xg_swap32(ports);
  return (swapped >> 16) > (swapped & 0xffffu);
}

XG_FN xg_touch xg_sample_touch(xg_batch b, xg_way way, xg_view p, u32) {
  u32 body = way.body;
  xg_touch t = xg_untracked();
  if (p.family == 0u) {
    t.facts = XG_SAMPLE_NO_KEY;
    return t;
  }
  u32 ports = (p.flags & XG_PKT_FRAGMENT) != 0u ? 0u : p.ports;
  bool turned = xg_sample_turned(p, ports);
  for (u32 i = 0u; i < 4u; i++) {
    t.key[i] = turned ? p.dst[i] : p.src[i];
    t.key[4u + i] = turned ? p.src[i] : p.dst[i];
  }
  t.key[8] = turned ? ports >> 16 | ports << 16 : ports;
  t.key[9] = p.family | p.protocol << 8;

  u64 received = xg_word_pair(xg_metadata32(p, 0u), xg_metadata32(p, 1u));
  u32 at = body + XG_SAMPLE_KEY;
  u64 k0 = xg_word_pair(b.image.v[at], b.image.v[at + 1u]);
  u64 k1 = xg_word_pair(b.image.v[at + 2u], b.image.v[at + 3u]);
  u64 tail = u64(XG_KEY_WORDS * 4u);
  XG_SIP_BEGIN(k0, k1);
  for (u32 i = 0u; i < XG_KEY_WORDS; i += 2u) {
    u64 m = xg_word_pair(t.key[i], t.key[i + 1u]);
    XG_SIP_WORD(m);
  }
  if (b.image.v[body + XG_SAMPLE_FLOWS] == 0u) {
    XG_SIP_WORD(received);
    tail += u64(8u);
  }
  tail = tail << 56;
  XG_SIP_WORD(tail);
  XG_SIP_END();
  at = body + XG_SAMPLE_MOST;
  if ((v0 ^ v1 ^ v2 ^ v3) > xg_word_pair(b.image.v[at], b.image.v[at + 1u])) {
    t.facts = XG_SAMPLE_OTHERS;
    return t;
  }
  t.facts = turned ? 1u : 0u;
  t.now = received * XG_TICKS_PER_NS;
  xg_touch_hash(b, body, t);
  return t;
}

XG_FN u32 xg_sample_apply(xg_batch b, u32 body, xg_touch t) {
  xg_state s = xg_state_of(b, body);
  u32 evict = b.image.v[body + XG_BODY_EVICT];
  u64 now = u64(0);
  u32 set = xg_come(s, t, now);
  u32 at = body + XG_SAMPLE_IDLE;
  u64 deadline = now + xg_word_pair(b.image.v[at], b.image.v[at + 1u]);
  u32 entry = xg_find(s, set, now, evict, t);
  u32 count = 0u;
  if (entry == 0u) {
    entry = xg_insert(s, set, now, evict, deadline, t);
    if (entry == 0u) return XG_SAMPLE_NO_PLACE;
  } else {
    count = s.v[entry + XG_ENTRY_VALUE + XG_SAMPLE_COUNT];
    xg_set_state64(s, entry + XG_ENTRY_DEADLINE, deadline);
  }
  u32 direction = count & 1u;
  if (count == 0u || b.image.v[body + XG_SAMPLE_FLOWS] == 0u) {
    xg_set_state64(s, entry + XG_ENTRY_VALUE + XG_SAMPLE_TIME, t.now);
    direction = t.facts;
  }
  count = count >> 1;
  if (count != 0x7fffffffu) count += 1u;
  s.v[entry + XG_ENTRY_VALUE + XG_SAMPLE_COUNT] = count << 1 | direction;
  return XG_SAMPLE_SAMPLED;
}

/* Returns an action word. */
XG_FN u32 xg_sample_settle(xg_batch b, u32 body, u32 outcome, xg_view, XG_INOUT(xg_result)) {
  xg_count(xg_state_of(b, body), XG_TABLE_OWN + outcome);
  return XG_NEXT;
}

#endif
