/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/ddos/device.h: `ddos`, floods to (or from) each target (settings.hpp says what is counted, when
 * an alarm begins and ends, and what it does).
 *
 * A target has an entry of the table and, behind the table's sets, a record, at the same place among the
 * records as the entry has among the ways. It hangs on the target's set alone, so that packets of one set
 * taken in order are all that exactness needs. Distinct flows and sources are counted by HyperLogLog
 * (Flajolet et al., AofA 2007; linear counting where few are there), sources' packets by a count-min sketch
 * (Cormode and Muthukrishnan, 2005) that is halved from window to window, all over the table's keyed hash: an
 * attacker cannot aim at a register.
 *
 * An entry's value is the number of alarms that began and the time of the last one, so that who looks for
 * news reads sets alone.
 */
#ifndef XDPGPU_STAGES_DDOS_DEVICE_H
#define XDPGPU_STAGES_DDOS_DEVICE_H

#include "gpu/stages/keys.h"

/* The body, behind XG_BODY_STATEFUL words. Metrics, by number: what is counted of a target. */
#define XG_DDOS_SYN 0u
#define XG_DDOS_UDP 1u
#define XG_DDOS_UDP_BYTES 2u
#define XG_DDOS_DNS 3u
#define XG_DDOS_DNS_BYTES 4u
#define XG_DDOS_ICMP 5u
#define XG_DDOS_PACKETS 6u
#define XG_DDOS_BYTES 7u
#define XG_DDOS_NEW_FLOWS 8u
#define XG_DDOS_SOURCE_COUNT 9u
#define XG_DDOS_METRICS 10u
#define XG_DDOS_PER 10u   /* targets are sources (XG_KEY_SRC) or destinations (XG_KEY_DST) */
#define XG_DDOS_BITS4 11u /* bits of their addresses that count */
#define XG_DDOS_BITS6 12u
#define XG_DDOS_WINDOW 13u /* ticks, two words, as hold and forget */
#define XG_DDOS_OWN 15u    /* so many words are the table's; those behind are the policy's */
#define XG_DDOS_HOLD 15u   /* from the last value that is not below the release threshold on */
#define XG_DDOS_FORGET 17u /* a target without a packet */
#define XG_DDOS_MODE 19u   /* of packets in alarms: */
#define XG_DDOS_PASSES 0u
#define XG_DDOS_DROPS 1u
#define XG_DDOS_DROPS_SOURCES 2u /* those of sources that have XG_DDOS_SHARE percent of the packets */
#define XG_DDOS_SHARE 20u
#define XG_DDOS_WATCHED 21u    /* bit a metric that has a threshold */
#define XG_DDOS_THRESHOLDS 22u /* by metric, in a window: to detect, and to release; two words each */
#define XG_DDOS_LINEAR 62u     /* by registers that are 0, 0 to 256: how many different ones that means */
#define XG_DDOS_WORDS 319u

/* What becomes of a packet: counted from XG_TABLE_OWN on. */
#define XG_DDOS_WITHIN 0u
#define XG_DDOS_ALARMED 1u /* of a kind for which there is an alarm, and let go on */
#define XG_DDOS_DROPPED 2u
#define XG_DDOS_NO_PLACE 3u /* its target has no place in the table */
#define XG_DDOS_NO_KEY 4u   /* no addresses */
/* More counters, likewise. */
#define XG_DDOS_DETECTED 5u   /* alarms that began */
#define XG_DDOS_DROPPED_BY 6u /* by metric: packets dropped by its alarm */
#define XG_DDOS_COUNTERS (XG_DDOS_DROPPED_BY + XG_DDOS_METRICS)

/* An outcome: one of the above, metric << 3, and the time for which it may be cached in milliseconds << 7. */
#define XG_DDOS_OUTCOME 7u
#define XG_DDOS_OUTCOME_METRIC(outcome) (((outcome) >> 3) & 15u)
#define XG_DDOS_OUTCOME_TTL(outcome) ((outcome) >> 7)
#define XG_DDOS_TICKS_PER_MS (XG_TICKS_PER_NS * 1000000ul)

/* A record. Two words (low, high) where it says so. */
#define XG_DDOS_START 0u        /* of the window, ticks: a multiple of its length; two words */
#define XG_DDOS_LEARNED 2u      /* 0: its first window is not over, so that nothing is known of older flows */
#define XG_DDOS_CURRENT 3u      /* which of the two arrays of flows' registers is this window's: 0, 1 */
#define XG_DDOS_ALARMS 4u       /* bit a metric: those whose alarm was on at the last packet */
#define XG_DDOS_DETECTIONS 5u   /* alarms that began, ever */
#define XG_DDOS_TOTAL 6u        /* packets in the sketch */
#define XG_DDOS_FLOWS_BEFORE 7u /* in the window before */
#define XG_DDOS_SOURCES 8u      /* what the registers add up to, see xg_ddos_note: three words */
#define XG_DDOS_FLOWS 11u       /* of this window; three words */
#define XG_DDOS_BOTH 14u        /* of the larger of this window's and the last one's; three words */
#define XG_DDOS_DROPPED_ALL 18u /* packets dropped, two words */
#define XG_DDOS_METRIC_AT 32u   /* XG_DDOS_METRIC words each */
#define XG_DDOS_SOURCES_AT 192u
#define XG_DDOS_FLOWS_AT 256u /* two arrays */
#define XG_DDOS_SKETCH_AT 384u
#define XG_DDOS_TOP_AT 512u
#define XG_DDOS_RECORD 560u
/* A metric; two words each but for the counter. */
#define XG_DDOS_METRIC 16u
#define XG_DDOS_NOW 0u         /* in this window */
#define XG_DDOS_BEFORE 2u      /* in the last one */
#define XG_DDOS_UNTIL 4u       /* end of the alarm, ticks; 0: there was none */
#define XG_DDOS_SINCE 6u       /* its beginning */
#define XG_DDOS_VALUE 8u       /* what began it */
#define XG_DDOS_PEAK 10u       /* largest value in it */
#define XG_DDOS_COUNT 12u      /* alarms that began; one word */
#define XG_DDOS_DROPPED_IN 14u /* packets dropped in it */
/* Registers: four to a word, the first one in the low bits. */
#define XG_DDOS_REGISTERS 256u
#define XG_DDOS_REGISTER_WORDS 64u
#define XG_DDOS_ONE 0x100000000ul /* 2^-0 */
#define XG_DDOS_ALPHA 47072ul     /* 256^2 x 0.7213 / (1 + 1.079 / 256) */
#define XG_DDOS_FEW 640ul         /* 2.5 x 256: up to here by linear counting */
/* The sketch: two rows. */
#define XG_DDOS_ROW 64u
/* Sources with most packets: the address, and the packets as the sketch has them; 0: none. */
#define XG_DDOS_TOP 8u
#define XG_DDOS_TOP_WORDS 5u
#define XG_DDOS_TOP_PACKETS 4u

/* xg_touch.facts: kinds of packet, by metric; register of the flow << 10, its rank << 18. key[4] to key[7]:
 * the other end's address; key[8]: its register, rank << 8, places in the sketch's rows << 14 and << 20. */
#define XG_DDOS_KINDS 1023u

/* Rank of a hash, 1 to 32: number of the first of its upper bits that is set. */
XG_FN u32 xg_ddos_rank(u64 hash) { return XG_LOWEST_BIT(u32(hash >> 32) | 0x80000000u) + 1u; }

XG_FN u32 xg_ddos_kinds(xg_view p) {
  u32 kinds = 1u << XG_DDOS_PACKETS | 1u << XG_DDOS_BYTES | 1u << XG_DDOS_SOURCE_COUNT;
  if (p.protocol != 6u) kinds |= 1u << XG_DDOS_NEW_FLOWS;
  if (p.protocol == 17u) {
    kinds |= 1u << XG_DDOS_UDP | 1u << XG_DDOS_UDP_BYTES;
    if (p.has_ports != 0u && (p.ports & 0xffffu) == 0x3500u)
      kinds |= 1u << XG_DDOS_DNS | 1u << XG_DDOS_DNS_BYTES;
  }
  if (p.protocol == 1u || p.protocol == 58u) kinds |= 1u << XG_DDOS_ICMP;
  u32 l4 = xg_l4(p, true);
  if (l4 >= XG_L4_TCP && (l4 & 0x12u) == 0x02u) kinds |= 1u << XG_DDOS_SYN | 1u << XG_DDOS_NEW_FLOWS;
  return kinds;
}

XG_FN xg_touch xg_ddos_touch(xg_batch b, xg_way way, xg_view p, u32 bytes) {
  u32 body = way.body;
  xg_touch t = xg_untracked();
  if (p.family == 0u) {
    t.facts = XG_DDOS_NO_KEY;
    return t;
  }
  bool leaves = b.image.v[body + XG_DDOS_PER] == XG_KEY_SRC;
  u64 flow_hash = u64(0);
  if ((b.image.v[body + XG_DDOS_WATCHED] & (1u << XG_DDOS_NEW_FLOWS)) != 0u) {
    xg_touch flow = xg_untracked();
    xg_flow_touch(p, flow);
    flow_hash = xg_key_hash(b, body + XG_BODY_HASH_KEY, flow);
  }
  xg_touch other = xg_untracked();
  for (u32 i = 0u; i < 4u; i++) other.key[4u + i] = leaves ? p.dst[i] : p.src[i];
  other.key[9] = p.family;
  u64 other_hash = xg_key_hash(b, body + XG_BODY_HASH_KEY, other);

  u32 bits = b.image.v[body + (p.family == 4u ? XG_DDOS_BITS4 : XG_DDOS_BITS6)];
  for (u32 i = 0u; i < 4u; i++) t.key[i] = xg_masked(leaves ? p.src[i] : p.dst[i], xg_bits_behind(bits, i));
  t.key[9] = p.family;
  t.size = bytes;
  t.now = xg_word_pair(xg_metadata32(p, 0u), xg_metadata32(p, 1u)) * XG_TICKS_PER_NS;
  xg_touch_hash(b, body, t);

  t.facts = xg_ddos_kinds(p) | (u32(flow_hash) & 0xffu) << 10 | xg_ddos_rank(flow_hash) << 18;
  for (u32 i = 0u; i < 4u; i++) t.key[4u + i] = other.key[4u + i];
  u32 places = (u32(other_hash) >> 8) & 0xfffu;
  t.key[8] = (u32(other_hash) & 0xffu) | xg_ddos_rank(other_hash) << 8 | places << 14;
  return t;
}

XG_FN u64 xg_image64(xg_batch b, u32 at) { return xg_word_pair(b.image.v[at], b.image.v[at + 1u]); }

/* Registers that are all 0 add up to this. */
XG_FN void xg_ddos_none(xg_state s, u32 sum) {
  xg_set_state64(s, sum, u64(XG_DDOS_REGISTERS) * XG_DDOS_ONE);
  s.v[sum + 2u] = XG_DDOS_REGISTERS;
}

/* A register goes up. sum: the sum of 2^-register in units of 2^-32, and the number of registers that are 0.
 */
XG_FN void xg_ddos_note(xg_state s, u32 sum, u32 from, u32 to) {
  xg_set_state64(s, sum, xg_state64(s, sum) - (XG_DDOS_ONE >> from) + (XG_DDOS_ONE >> to));
  if (from == 0u) s.v[sum + 2u] -= 1u;
}

XG_FN u32 xg_ddos_register(xg_state s, u32 registers, u32 number) {
  return (s.v[registers + (number >> 2)] >> ((number & 3u) * 8u)) & 0xffu;
}
XG_FN void xg_ddos_set_register(xg_state s, u32 registers, u32 number, u32 value) {
  u32 shift = (number & 3u) * 8u;
  u32 at = registers + (number >> 2);
  s.v[at] = (s.v[at] & ~(0xffu << shift)) | value << shift;
}

/* How many different ones the registers have seen. */
XG_FN u64 xg_ddos_estimate(xg_batch b, u32 body, xg_state s, u32 sum) {
  u64 many = (XG_DDOS_ALPHA << 32) / xg_state64(s, sum);
  u32 zeros = s.v[sum + 2u];
  if (zeros != 0u && many <= XG_DDOS_FEW) return u64(b.image.v[body + XG_DDOS_LINEAR + zeros]);
  return many < 0xfffffffful ? many : 0xfffffffful;
}

XG_FN void xg_ddos_clear(xg_state s, u32 record, u64 start) {
  /* Four at a time: software Vulkan has a bound on the turns of loops (gpu/vulkan/queue.cpp). */
  for (u32 at = record; at < record + XG_DDOS_RECORD; at += 4u) {
    s.v[at] = 0u;
    s.v[at + 1u] = 0u;
    s.v[at + 2u] = 0u;
    s.v[at + 3u] = 0u;
  }
  xg_set_state64(s, record + XG_DDOS_START, start);
  xg_ddos_none(s, record + XG_DDOS_SOURCES);
  xg_ddos_none(s, record + XG_DDOS_FLOWS);
  xg_ddos_none(s, record + XG_DDOS_BOTH);
}

/* On to the window in which `now` is, `windows` after the record's. */
XG_FN void xg_ddos_turn(xg_batch b, u32 body, xg_state s, u32 record, u64 windows) {
  bool next = windows == u64(1);
  for (u32 m = 0u; m < XG_DDOS_METRICS; m++) {
    u32 metric = record + XG_DDOS_METRIC_AT + m * XG_DDOS_METRIC;
    xg_set_state64(s, metric + XG_DDOS_BEFORE, next ? xg_state64(s, metric + XG_DDOS_NOW) : u64(0));
    xg_set_state64(s, metric + XG_DDOS_NOW, u64(0));
  }
  u32 flows = record + XG_DDOS_FLOWS_AT;
  u32 current = 1u - s.v[record + XG_DDOS_CURRENT];
  s.v[record + XG_DDOS_LEARNED] = 1u;
  s.v[record + XG_DDOS_CURRENT] = current;
  s.v[record + XG_DDOS_FLOWS_BEFORE] = next ? u32(xg_ddos_estimate(b, body, s, record + XG_DDOS_FLOWS)) : 0u;
  if (next) {
    for (u32 i = 0u; i < 3u; i++) s.v[record + XG_DDOS_BOTH + i] = s.v[record + XG_DDOS_FLOWS + i];
  } else {
    xg_ddos_none(s, record + XG_DDOS_BOTH);
  }
  xg_ddos_none(s, record + XG_DDOS_FLOWS);
  xg_ddos_none(s, record + XG_DDOS_SOURCES);
  for (u32 i = 0u; i < XG_DDOS_REGISTER_WORDS; i++) {
    s.v[record + XG_DDOS_SOURCES_AT + i] = 0u;
    s.v[flows + current * XG_DDOS_REGISTER_WORDS + i] = 0u;
    if (!next) s.v[flows + (1u - current) * XG_DDOS_REGISTER_WORDS + i] = 0u;
  }
  u32 halvings = windows < u64(31) ? u32(windows) : 31u;
  s.v[record + XG_DDOS_TOTAL] >>= halvings;
  for (u32 i = 0u; i < XG_DDOS_ROW; i++) {
    s.v[record + XG_DDOS_SKETCH_AT + i] >>= halvings;
    s.v[record + XG_DDOS_SKETCH_AT + XG_DDOS_ROW + i] >>= halvings;
  }
  for (u32 i = 0u; i < XG_DDOS_TOP; i++)
    s.v[record + XG_DDOS_TOP_AT + i * XG_DDOS_TOP_WORDS + XG_DDOS_TOP_PACKETS] >>= halvings;
}

/* Counts the packet in its metrics. */
XG_FN void xg_ddos_count(xg_batch b, u32 body, xg_state s, u32 record, u32 watched, xg_touch t) {
  u32 at = record + XG_DDOS_METRIC_AT + XG_DDOS_NOW;
  for (u32 left = t.facts & watched & ((1u << XG_DDOS_NEW_FLOWS) - 1u); left != 0u; left &= left - 1u) {
    u32 m = XG_LOWEST_BIT(left);
    bool bytes = m == XG_DDOS_UDP_BYTES || m == XG_DDOS_DNS_BYTES || m == XG_DDOS_BYTES;
    u32 metric = at + m * XG_DDOS_METRIC;
    xg_set_state64(s, metric, xg_state64(s, metric) + u64(bytes ? t.size : 1u));
  }
  if ((watched & (1u << XG_DDOS_SOURCE_COUNT)) != 0u) {
    u32 number = t.key[8] & 0xffu;
    u32 rank = (t.key[8] >> 8) & 63u;
    u32 was = xg_ddos_register(s, record + XG_DDOS_SOURCES_AT, number);
    if (was < rank) {
      xg_ddos_set_register(s, record + XG_DDOS_SOURCES_AT, number, rank);
      xg_ddos_note(s, record + XG_DDOS_SOURCES, was, rank);
      xg_set_state64(s, at + XG_DDOS_SOURCE_COUNT * XG_DDOS_METRIC,
                     xg_ddos_estimate(b, body, s, record + XG_DDOS_SOURCES));
    }
  }
  if ((watched & (1u << XG_DDOS_NEW_FLOWS)) != 0u) {
    u32 number = (t.facts >> 10) & 0xffu;
    u32 rank = (t.facts >> 18) & 63u;
    u32 current = s.v[record + XG_DDOS_CURRENT];
    u32 flows = record + XG_DDOS_FLOWS_AT;
    u32 was = xg_ddos_register(s, flows + current * XG_DDOS_REGISTER_WORDS, number);
    if (was < rank) {
      xg_ddos_set_register(s, flows + current * XG_DDOS_REGISTER_WORDS, number, rank);
      xg_ddos_note(s, record + XG_DDOS_FLOWS, was, rank);
      u32 before = xg_ddos_register(s, flows + (1u - current) * XG_DDOS_REGISTER_WORDS, number);
      if (before < was) before = was;
      if (before < rank) {
        xg_ddos_note(s, record + XG_DDOS_BOTH, before, rank);
        u64 all = xg_ddos_estimate(b, body, s, record + XG_DDOS_BOTH);
        u64 known = u64(s.v[record + XG_DDOS_FLOWS_BEFORE]);
        bool says = s.v[record + XG_DDOS_LEARNED] != 0u && all > known;
        xg_set_state64(s, at + XG_DDOS_NEW_FLOWS * XG_DDOS_METRIC, says ? all - known : u64(0));
      }
    }
  }
}

/* Begins, prolongs and ends alarms. kinds: metrics that the packet may have raised. -> the alarms that are
 * on, a bit a metric. */
XG_FN u32 xg_ddos_judge(xg_batch b, u32 body, xg_state s, u32 record, u32 kinds, u64 rest, u64 now) {
  u32 watched = b.image.v[body + XG_DDOS_WATCHED];
  u64 share = rest * u64(1024) / xg_image64(b, body + XG_DDOS_WINDOW);
  u32 were = s.v[record + XG_DDOS_ALARMS];
  u32 alarms = 0u;
  for (u32 left = (kinds | were) & watched; left != 0u; left &= left - 1u) {
    u32 m = XG_LOWEST_BIT(left);
    u32 metric = record + XG_DDOS_METRIC_AT + m * XG_DDOS_METRIC;
    u64 until = xg_state64(s, metric + XG_DDOS_UNTIL);
    if ((kinds & (1u << m)) != 0u) {
      u64 value = xg_state64(s, metric + XG_DDOS_NOW);
      u64 before = (xg_state64(s, metric + XG_DDOS_BEFORE) * share) >> 10;
      /* What came is more by what came before; who came is not more for having come before, too. */
      if (m < XG_DDOS_NEW_FLOWS)
        value += before;
      else if (before > value)
        value = before;
      u32 threshold = body + XG_DDOS_THRESHOLDS + m * 4u;
      u64 end = now + xg_image64(b, body + XG_DDOS_HOLD);
      if (until > now) {
        if (value > xg_state64(s, metric + XG_DDOS_PEAK)) xg_set_state64(s, metric + XG_DDOS_PEAK, value);
        if (value >= xg_image64(b, threshold + 2u)) until = end;
      } else if (value >= xg_image64(b, threshold)) {
        until = end;
        xg_set_state64(s, metric + XG_DDOS_SINCE, now);
        xg_set_state64(s, metric + XG_DDOS_VALUE, value);
        xg_set_state64(s, metric + XG_DDOS_PEAK, value);
        xg_set_state64(s, metric + XG_DDOS_DROPPED_IN, u64(0));
        s.v[metric + XG_DDOS_COUNT] += 1u;
        s.v[record + XG_DDOS_DETECTIONS] += 1u;
        xg_count(s, XG_TABLE_OWN + XG_DDOS_DETECTED);
      }
      xg_set_state64(s, metric + XG_DDOS_UNTIL, until);
    }
    if (until > now) alarms |= 1u << m;
  }
  s.v[record + XG_DDOS_ALARMS] = alarms;
  return alarms;
}

/* Counts the packet for its other end. -> that one's packets, as the sketch has them. */
XG_FN u32 xg_ddos_sketch(xg_state s, u32 record, xg_touch t) {
  s.v[record + XG_DDOS_TOTAL] += 1u;
  u32 first = record + XG_DDOS_SKETCH_AT + ((t.key[8] >> 14) & 63u);
  u32 second = record + XG_DDOS_SKETCH_AT + XG_DDOS_ROW + ((t.key[8] >> 20) & 63u);
  s.v[first] += 1u;
  s.v[second] += 1u;
  u32 packets = s.v[first] < s.v[second] ? s.v[first] : s.v[second];
  u32 least = record + XG_DDOS_TOP_AT; /* the one that has fewest, the first of equals */
  for (u32 i = 0u; i < XG_DDOS_TOP; i++) {
    u32 top = record + XG_DDOS_TOP_AT + i * XG_DDOS_TOP_WORDS;
    u32 has = s.v[top + XG_DDOS_TOP_PACKETS];
    u32 different = has == 0u ? 1u : 0u;
    for (u32 k = 0u; k < 4u; k++) different |= s.v[top + k] ^ t.key[4u + k];
    if (different == 0u) {
      s.v[top + XG_DDOS_TOP_PACKETS] = packets;
      return packets;
    }
    if (has < s.v[least + XG_DDOS_TOP_PACKETS]) least = top;
  }
  if (packets > s.v[least + XG_DDOS_TOP_PACKETS]) {
    for (u32 k = 0u; k < 4u; k++) s.v[least + k] = t.key[4u + k];
    s.v[least + XG_DDOS_TOP_PACKETS] = packets;
  }
  return packets;
}

XG_FN u32 xg_ddos_apply(xg_batch b, u32 body, xg_touch t) {
  xg_state s = xg_state_of(b, body);
  u32 evict = b.image.v[body + XG_BODY_EVICT];
  xg_touch target = t;
  for (u32 i = 4u; i < 9u; i++) target.key[i] = 0u;
  u64 now = u64(0);
  u32 set = xg_come(s, target, now);
  u32 entry = xg_find(s, set, now, evict, target);
  bool known = entry != 0u;
  u64 deadline = now + xg_image64(b, body + XG_DDOS_FORGET);
  if (known) {
    xg_set_state64(s, entry + XG_ENTRY_DEADLINE, deadline);
  } else {
    entry = xg_insert(s, set, now, evict, deadline, target);
    if (entry == 0u) return XG_DDOS_NO_PLACE;
  }
  u32 way = (entry - set - XG_SET_HEAD) / XG_ENTRY_WORDS;
  u32 record = xg_set_at(b.image.v[body + XG_BODY_SETS]) + (t.set * XG_WAYS + way) * XG_DDOS_RECORD;
  u64 window = xg_image64(b, body + XG_DDOS_WINDOW);
  u64 start = now - now % window;
  if (!known) {
    for (u32 i = 0u; i < 3u; i++) s.v[entry + XG_ENTRY_VALUE + i] = 0u;
    xg_ddos_clear(s, record, start);
  } else if (start != xg_state64(s, record + XG_DDOS_START)) {
    xg_ddos_turn(b, body, s, record, (start - xg_state64(s, record + XG_DDOS_START)) / window);
    xg_set_state64(s, record + XG_DDOS_START, start);
  }

  u32 watched = b.image.v[body + XG_DDOS_WATCHED];
  u32 kinds = t.facts & XG_DDOS_KINDS;
  xg_ddos_count(b, body, s, record, watched, t);
  /* Any packet may be a new flow's. */
  u32 alarms = xg_ddos_judge(b, body, s, record, kinds | 1u << XG_DDOS_NEW_FLOWS, start + window - now, now);
  if (s.v[entry + XG_ENTRY_VALUE] != s.v[record + XG_DDOS_DETECTIONS]) {
    s.v[entry + XG_ENTRY_VALUE] = s.v[record + XG_DDOS_DETECTIONS];
    xg_set_state64(s, entry + XG_ENTRY_VALUE + 1u, now);
  }
  u32 sketched = alarms != 0u ? alarms : watched;
  u32 packets = 0u;
  if ((kinds & sketched) != 0u) packets = xg_ddos_sketch(s, record, t);
  u32 hit = kinds & alarms;
  if (hit == 0u) return XG_DDOS_WITHIN;

  u32 mode = b.image.v[body + XG_DDOS_MODE];
  u64 needed = u64(s.v[record + XG_DDOS_TOTAL]) * u64(b.image.v[body + XG_DDOS_SHARE]);
  if (mode == XG_DDOS_PASSES || (mode == XG_DDOS_DROPS_SOURCES && u64(packets) * u64(100) < needed))
    return XG_DDOS_ALARMED;
  u32 m = XG_LOWEST_BIT(hit);
  u32 metric = record + XG_DDOS_METRIC_AT + m * XG_DDOS_METRIC;
  xg_set_state64(s, metric + XG_DDOS_DROPPED_IN, xg_state64(s, metric + XG_DDOS_DROPPED_IN) + u64(1));
  xg_set_state64(s, record + XG_DDOS_DROPPED_ALL, xg_state64(s, record + XG_DDOS_DROPPED_ALL) + u64(1));
  u64 ttl = (xg_state64(s, metric + XG_DDOS_UNTIL) - now) / XG_DDOS_TICKS_PER_MS;
  u64 most = u64(b.image.v[body + XG_BODY_TTL]);
  if (most != u64(0) && ttl > most) ttl = most;
  return XG_DDOS_DROPPED | m << 3 | u32(ttl) << 7;
}

/* Returns an action word. */
XG_FN u32 xg_ddos_settle(xg_batch b, u32 body, u32 outcome, xg_view p, XG_INOUT(xg_result) r) {
  xg_state s = xg_state_of(b, body);
  u32 what = outcome & XG_DDOS_OUTCOME;
  xg_count(s, XG_TABLE_OWN + what);
  if (what != XG_DDOS_DROPPED) return XG_NEXT;
  u32 metric = XG_DDOS_OUTCOME_METRIC(outcome);
  xg_count(s, XG_TABLE_OWN + XG_DDOS_DROPPED_BY + metric);
  u32 ttl = XG_DDOS_OUTCOME_TTL(outcome);
  if (ttl != 0u) {
    xg_set_cache(b, body, p, XG_REWRITE_NONE, r);
    if ((r.flags & XG_RES_CACHE) != 0u) r.cache_ttl_ms = ttl;
  }
  return XG_VERDICT(XG_DROP, 0u, 0u, metric + 1u);
}

#endif
