/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/rate_limit/device.h: `rate_limit`, a token bucket for each key, in packets and in bytes
 * (settings.hpp). It is kept as the time at which the bucket would be full again (GCRA, ITU-T I.371): a
 * packet fits if with it that time is not further away than the burst allows. A bucket that is full is not
 * kept.
 */
#ifndef XDPGPU_STAGES_RATE_LIMIT_DEVICE_H
#define XDPGPU_STAGES_RATE_LIMIT_DEVICE_H

#include "gpu/stages/keys.h"

/* The body, behind XG_BODY_STATEFUL words */
#define XG_RATE_PER 10u   /* XG_KEY_SRC and so on: what keys have */
#define XG_RATE_BITS4 11u /* bits of an address that count */
#define XG_RATE_BITS6 12u
#define XG_RATE_PACKET                                                                \
  13u /* ticks that a packet takes; two words as all that follow; 0: packets are free \
       */
#define XG_RATE_PACKET_BURST 15u /* ticks that a bucket holds */
#define XG_RATE_BYTE 17u         /* 2^-XG_RATE_BYTE_SHIFT ticks that a byte takes */
#define XG_RATE_BYTE_SHIFT 20u
#define XG_RATE_BYTE_BURST 19u
#define XG_RATE_ACTION 21u /* of what is too much, one word */
#define XG_RATE_WORDS 22u

#define XG_RATE_WITHIN 0u
#define XG_RATE_EXCESS 1u
#define XG_RATE_NO_PLACE 2u /* no bucket could be made: not limited */
#define XG_RATE_NO_KEY 3u   /* no addresses: not limited */

XG_FN xg_touch xg_rate_limit_touch(xg_batch b, xg_way way, xg_view p, u32 bytes) {
  u32 body = way.body;
  xg_touch t = xg_untracked();
  if (p.family == 0u) {
    t.facts = XG_RATE_NO_KEY;
    return t;
  }
  u32 per = b.image.v[body + XG_RATE_PER];
  u32 bits = b.image.v[body + (p.family == 4u ? XG_RATE_BITS4 : XG_RATE_BITS6)];
  for (u32 i = 0u; i < 4u; i++) {
    u32 kept = xg_bits_behind(bits, i);
    if ((per & XG_KEY_SRC) != 0u) t.key[i] = xg_masked(p.src[i], kept);
    if ((per & XG_KEY_DST) != 0u) t.key[4u + i] = xg_masked(p.dst[i], kept);
  }
  t.key[9] = p.family;
  if ((per & XG_KEY_PORTS) != 0u) {
    /* Only the first fragment of a packet has ports. */
    t.key[8] = (p.flags & XG_PKT_FRAGMENT) != 0u ? 0u : p.ports;
    t.key[9] |= p.protocol << 8;
  }
  t.size = bytes;
  t.now = xg_word_pair(xg_metadata32(p, 0u), xg_metadata32(p, 1u)) * XG_TICKS_PER_NS;
  xg_touch_hash(b, body, t);
  return t;
}

XG_FN u32 xg_rate_limit_apply(xg_batch b, u32 body, xg_touch t) {
  xg_state s = xg_state_of(b, body);
  u32 evict = b.image.v[body + XG_BODY_EVICT];
  u64 now = u64(0);
  u32 set = xg_come(s, t, now);
  u32 entry = xg_find(s, set, now, evict, t);
  /* When each bucket is full again. The later one is the entry's deadline. */
  u64 packets = now;
  u64 bytes = now;
  if (entry != 0u) {
    u64 later = xg_state64(s, entry + XG_ENTRY_DEADLINE);
    u64 earlier = xg_state64(s, entry + XG_ENTRY_VALUE);
    bool packets_later = s.v[entry + XG_ENTRY_VALUE + 2u] != 0u;
    packets = packets_later ? later : earlier;
    bytes = packets_later ? earlier : later;
    if (packets < now) packets = now;
    if (bytes < now) bytes = now;
  }
  u32 at = body + XG_RATE_PACKET;
  packets += xg_word_pair(b.image.v[at], b.image.v[at + 1u]);
  at = body + XG_RATE_BYTE;
  bytes += (xg_word_pair(b.image.v[at], b.image.v[at + 1u]) * u64(t.size)) >> XG_RATE_BYTE_SHIFT;
  at = body + XG_RATE_PACKET_BURST;
  bool fits = packets - now <= xg_word_pair(b.image.v[at], b.image.v[at + 1u]);
  at = body + XG_RATE_BYTE_BURST;
  fits = fits && bytes - now <= xg_word_pair(b.image.v[at], b.image.v[at + 1u]);
  if (!fits) return XG_RATE_EXCESS;

  bool packets_later = packets > bytes;
  u64 later = packets_later ? packets : bytes;
  if (entry == 0u) {
    entry = xg_insert(s, set, now, evict, later, t);
    if (entry == 0u) return XG_RATE_NO_PLACE;
  } else {
    xg_set_state64(s, entry + XG_ENTRY_DEADLINE, later);
  }
  xg_set_state64(s, entry + XG_ENTRY_VALUE, packets_later ? bytes : packets);
  s.v[entry + XG_ENTRY_VALUE + 2u] = packets_later ? 1u : 0u;
  return XG_RATE_WITHIN;
}

/* Returns an action word. */
XG_FN u32 xg_rate_limit_settle(xg_batch b, u32 body, u32 outcome, xg_view, XG_INOUT(xg_result)) {
  xg_count(xg_state_of(b, body), XG_TABLE_OWN + outcome);
  return outcome == XG_RATE_EXCESS ? b.image.v[body + XG_RATE_ACTION] : XG_NEXT;
}

#endif
