/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/fragments.h: the fragments of a datagram, followed by what became of its first one ("fragments":
 * "track"). One source for the XDP program, where all CPUs share the table, and for `replay`.
 *
 * The table is an array of buckets. A datagram's source (address and VLANs) names its bucket by a keyed hash,
 * so that a stranger who sends first fragments fills one bucket. There a source has XG_FRAGMENT_OF_SOURCE
 * entries at most; its next datagram takes the place of its own oldest. Where a bucket is full of others, the
 * oldest of all gives way.
 *
 * An entry is of one policy generation, and lives for XG_FRAGMENT_NS. RFC 791 proposes 15 s for reassembly
 * and RFC 8200 60 s; fragments that belong together come within milliseconds, and IPv4's 16 bits of
 * identification come again within seconds on a fast path (RFC 4963).
 *
 * The loops do not branch on what the entries hold: a verifier would follow each combination.
 */
#ifndef XDPGPU_MAPS_FRAGMENTS_H
#define XDPGPU_MAPS_FRAGMENTS_H

#include "hash.h"
#include "parse.h"

#define XG_FRAGMENT_BUCKETS 2048u
#define XG_FRAGMENT_WAYS 16u
#define XG_FRAGMENT_OF_SOURCE 12u
#define XG_FRAGMENT_NS 2000000000ul
/* Later fragments that one first one lets in: a datagram of 65,535 bytes over the least MTU that IPv4 hosts
 * take (576) has 119. A limit counts the first one alone. */
#define XG_FRAGMENT_LATER 128u

/* What becomes of a datagram's fragments. */
#define XG_FATE_UNKNOWN 0u /* no first one was seen, or it is still under way: `default` decides */
#define XG_FATE_PASS 1u
#define XG_FATE_DROP 2u
#define XG_FATE_INSPECT 3u
#define XG_FATE_MALFORMED 4u /* it contradicts its datagram's first one, or hides a header */
#define XG_FATE_FIRST 5u     /* a first one in good order: the rules decide, by its ports */
#define XG_FATE_DIVERT 6u    /* sent out of the port that its rule says (xg_rule.divert_port) */

#define XG_FRAGMENT_NO_RULE 0xffffu
/* In xg_packet.rule of a first fragment beside its rule: it was diverted. */
#define XG_FRAGMENT_DIVERTED 0x8000u

#ifdef __bpf__
#define XG_LOOP _Pragma("clang loop unroll(disable)") /* a loop to the verifier, too */
#else
#define XG_LOOP
#endif

XG_RECORD(xg_datagram) {
  xg_flow_key key; /* the identification stands where the ports would */
  u32 generation;  /* 0: no entry */
  u64 noted_ns;    /* when the first one came */
  u64 header;      /* the first one's transport header, xg_fragment_header */
  u16 end;         /* first byte behind the first one's payload: where a later one may begin */
  u16 rule;        /* that decided on it; XG_FRAGMENT_NO_RULE */
  u8 fate;         /* XG_FATE_UNKNOWN to XG_FATE_INSPECT, or XG_FATE_DIVERT */
  u8 later;        /* later ones that it has let in */
  u16 reserved;
};
XG_ASSERT_SIZE(xg_datagram, 72);
XG_ASSERT_OFFSET(xg_datagram, noted_ns, 48);

XG_RECORD(xg_fragment_bucket) {
#ifdef __bpf__
  struct bpf_spin_lock lock;
#else
  u32 lock;
#endif
  u32 reserved;
  xg_datagram entries[XG_FRAGMENT_WAYS];
};
XG_ASSERT_SIZE(xg_fragment_bucket, 1160);

/* A datagram's bucket, by its source. */
XG_FN u32 xg_fragment_bucket_of(const xg_flow_key* key, u64 k0, u64 k1) {
  XG_SIP_BEGIN(k0, k1);
  XG_SIP_WORD(xg_pair(key->src[0], key->src[1]));
  XG_SIP_WORD(xg_pair(key->src[2], key->src[3]));
  XG_SIP_WORD(xg_pair(key->vlan_outer | (u32)key->vlan_inner << 16, 20u << 24));
  XG_SIP_END();
  return (u32)(v0 ^ v1 ^ v2 ^ v3) & (XG_FRAGMENT_BUCKETS - 1);
}

/* The key by which all fragments of a first one's datagram are found, whatever xg_track_first has made of
 * its own. */
XG_FN void xg_fragment_key(const xg_packet* p, xg_flow_key* key) {
  *key = p->key;
  key->src_port = (u16)p->fragment_id;
  key->dst_port = (u16)(p->fragment_id >> 16);
}

XG_FN u32 xg_is_zero(u32 x) {
  u32 negative = 0u - x;
  XG_OPAQUE(negative);
  return ((x | negative) >> 31) ^ 1u;
}
/* 1 if a < b, for numbers below 2^63. */
XG_FN u64 xg_is_less(u64 a, u64 b) { return (a - b) >> 63; }

/* Clocks of two CPUs may be read in another order than the bucket is locked in. */
#define XG_FRAGMENT_SLACK_NS 1000000000ul
XG_FN u64 xg_fragment_age(const xg_datagram* entry, u64 now) {
  return (now + XG_FRAGMENT_SLACK_NS - entry->noted_ns) & 0x7ffffffffffffffful;
}
XG_FN u32 xg_fragment_lives(const xg_datagram* entry, u64 now) {
  return (u32)xg_is_less(xg_fragment_age(entry, now), XG_FRAGMENT_NS + XG_FRAGMENT_SLACK_NS) &
         (xg_is_zero(entry->generation) ^ 1u);
}

/* The living entry of this datagram and generation; XG_FRAGMENT_WAYS: there is none. */
XG_FN u32 xg_fragment_find(const xg_datagram* entries, const xg_flow_key* key, u32 generation, u64 now) {
  const u32* sought = (const u32*)key;
  u32 at = 0, any = 0;
  XG_LOOP
  for (u32 i = 0; i < XG_FRAGMENT_WAYS; i++) {
    const u32* held = (const u32*)&entries[i].key;
    u32 differ = entries[i].generation ^ generation;
    XG_UNROLL
    for (u32 w = 0; w < sizeof(xg_flow_key) / sizeof(u32); w++) differ |= held[w] ^ sought[w];
    u32 same = xg_is_zero(differ) & xg_fragment_lives(&entries[i], now);
    XG_OPAQUE(same);
    at |= same * i;
    any |= same;
  }
  return any ? at : XG_FRAGMENT_WAYS;
}

/* The entry that gives way to a new one of this source. */
XG_FN u32 xg_fragment_room(const xg_datagram* entries, const xg_flow_key* key, u64 now) {
  u32 own = 0, own_at = 0, at = 0;
  u64 own_age = 0, oldest = 0;
  XG_LOOP
  for (u32 i = 0; i < XG_FRAGMENT_WAYS; i++) {
    const xg_flow_key* held = &entries[i].key;
    u32 differ = held->vlan_outer ^ key->vlan_outer;
    differ |= held->vlan_inner ^ key->vlan_inner;
    XG_UNROLL
    for (u32 w = 0; w < 4; w++) differ |= held->src[w] ^ key->src[w];
    u32 lives = xg_fragment_lives(&entries[i], now);
    XG_OPAQUE(lives);
    u32 mine = xg_is_zero(differ) & lives;
    XG_OPAQUE(mine);
    /* One that is over is older than any that lives. */
    const u64 age = xg_fragment_age(&entries[i], now) >> 1 | (u64)(lives ^ 1u) << 62;
    u64 older = xg_is_less(oldest, age);
    XG_OPAQUE(older);
    oldest += older * (age - oldest);
    at += (u32)older * (i - at);
    u64 own_older = xg_is_less(own_age, age) & mine;
    XG_OPAQUE(own_older);
    own_age += own_older * (age - own_age);
    own_at += (u32)own_older * (i - own_at);
    own += mine;
  }
  return (own >= XG_FRAGMENT_OF_SOURCE ? own_at : at) & (XG_FRAGMENT_WAYS - 1);
}

/* Notes a first fragment, of which nothing is decided yet. `end`: of its payload. XG_FATE_MALFORMED: another
 * one of the same datagram has been here that differs, and stays as it was. A duplicate gains nothing. */
XG_FN u32 xg_fragment_first(xg_datagram* entries, const xg_flow_key* key, u32 generation, u64 now, u64 header,
                            u32 end) {
  u32 at = xg_fragment_find(entries, key, generation, now);
  if (at < XG_FRAGMENT_WAYS) {
    const xg_datagram* entry = &entries[at & (XG_FRAGMENT_WAYS - 1)];
    return entry->end != end || entry->header != header ? XG_FATE_MALFORMED : XG_FATE_FIRST;
  }
  at = xg_fragment_room(entries, key, now);
  xg_datagram* entry = &entries[at & (XG_FRAGMENT_WAYS - 1)];
  entry->key = *key;
  entry->generation = generation;
  entry->noted_ns = now;
  entry->header = header;
  entry->end = (u16)end;
  entry->rule = XG_FRAGMENT_NO_RULE;
  entry->fate = XG_FATE_UNKNOWN;
  entry->later = 0;
  return XG_FATE_FIRST;
}

/* Says what became of a first fragment that was noted. */
XG_FN void xg_fragment_decide(xg_datagram* entries, const xg_flow_key* key, u32 generation, u64 now, u32 fate,
                              u32 rule) {
  const u32 at = xg_fragment_find(entries, key, generation, now);
  if (at >= XG_FRAGMENT_WAYS) return;
  xg_datagram* entry = &entries[at & (XG_FRAGMENT_WAYS - 1)];
  entry->fate = (u8)fate;
  entry->rule = (u16)rule;
}

/* What becomes of a later fragment that begins at byte `offset` of the datagram's payload, and by which rule.
 * One that reaches into the first one could put other ports there. */
XG_FN u32 xg_fragment_later(xg_datagram* entries, const xg_flow_key* key, u32 generation, u64 now, u32 offset,
                            u16* rule) {
  const u32 at = xg_fragment_find(entries, key, generation, now);
  if (at >= XG_FRAGMENT_WAYS) return XG_FATE_UNKNOWN;
  xg_datagram* entry = &entries[at & (XG_FRAGMENT_WAYS - 1)];
  if (offset < entry->end) return XG_FATE_MALFORMED;
  if (entry->later >= XG_FRAGMENT_LATER) return XG_FATE_UNKNOWN;
  entry->later++;
  *rule = entry->rule;
  return entry->fate;
}

/* Is a first fragment's transport header whole? (RFC 1858, RFC 7112.) */
XG_FN u32 xg_fragment_whole(const xg_packet* p) {
  if (p->flags & (XG_PKT_TCP | XG_PKT_UDP | XG_PKT_SCTP | XG_PKT_ICMP)) return p->payload_offset != 0;
  return p->l4_offset != 0;
}

/* Says whether a fragment hides ports or flags by itself, whatever others there are: then it is malformed. At
 * offset 1 of TCP stand its flags (RFC 1858, 3128). */
XG_FN u32 xg_fragment_hides(xg_packet* p) {
  if (!(p->flags & XG_PKT_LATER_FRAGMENT)) {
    if (!xg_fragment_whole(p)) xg_parse_malformed(p, XG_MALFORMED_fragment_first);
  } else if (p->key.protocol == XG_IPPROTO_TCP && p->fragment_offset == 8) {
    xg_parse_malformed(p, XG_MALFORMED_fragment_flags);
  }
  return p->flags & XG_PKT_MALFORMED;
}

/* The transport header of a first fragment that stands in [data, data_end), as a keyed hash by which two are
 * told apart. */
XG_FN u64 xg_fragment_header(const u8* data, const u8* data_end, const xg_packet* p, u64 k0, u64 k1) {
  const u8* at = data + (p->l4_offset & 2047);
  XG_OPAQUE(at);
  XG_SIP_BEGIN(k0, k1);
  if (p->ip_end >= p->l4_offset + 20u && XG_READABLE(at, 20, data_end)) {
    XG_SIP_WORD(xg_pair(xg_load32(at), xg_load32(at + 4)));
    XG_SIP_WORD(xg_pair(xg_load32(at + 8), xg_load32(at + 12)));
    XG_SIP_WORD(xg_pair(xg_load32(at + 16), 20u << 24));
  } else if (XG_READABLE(at, 8, data_end)) {
    XG_SIP_WORD(xg_pair(xg_load32(at), xg_load32(at + 4)));
  }
  XG_SIP_END();
  return v0 ^ v1 ^ v2 ^ v3;
}

/* Makes of a first fragment what the rules and stages see: a packet with ports and TCP flags. It has no flow
 * all the same (xg_has_flow). */
XG_FN void xg_track_first(xg_packet* p) {
  p->flags = (u16)((p->flags & ~XG_PKT_FRAGMENT) | XG_PKT_TRACKED);
  p->key.src_port = p->first_src_port;
  p->key.dst_port = p->first_dst_port;
  if (p->flags & XG_PKT_TCP)
    p->l4_index = (u16)((p->key.family == 6 ? XG_L4_V6_TCP : XG_L4_V4_TCP) + p->tcp_flags);
}

#endif
