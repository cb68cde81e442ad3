/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/flow.h: the flow key and the flow verdict table.
 *
 * The table is a BPF_F_MMAPABLE array of 64-byte entries. A receive queue of the port has two shards,
 * each with one writer: shard `queue` is its worker's, shard `queues + queue` that of the device which looks
 * at mirrored packets (maps/mirror.h). Entry index = shard * entries_per_queue + bucket * XG_FLOW_WAYS +
 * way, bucket = flow_hash & (entries_per_queue / XG_FLOW_WAYS - 1). flow_hash is that of the flow's key with
 * `mirror` 0 in both.
 *
 * Publication protocol. Writer: store 0 to the entry's first 8 bytes, fence, store the body, fence,
 * store the first 8 bytes (generation, incarnation, action, target) in one 64-bit store. Reader: read the
 * word, the key and the body, read the word again; act only if both words are equal, the generation is
 * the active one and the whole key matches. xg_flow_stats.published_ns belongs to the body. No
 * read-modify-write crosses processors. The incarnation differs from one publication of an entry to the next:
 * else a reader who was slow could take the first one's word and the second one's body for a whole.
 */
#ifndef XDPGPU_MAPS_FLOW_H
#define XDPGPU_MAPS_FLOW_H

#include "packet.h"

/* Directional. Addresses and ports stand in network byte order as in the packet; IPv4 uses word 0 and
 * leaves the others 0. VLAN ids are host order, 0: no such tag (a priority tag, id 0, counts as
 * XG_VLAN_PRIORITY so that it differs from none). ICMP: src_port = type << 8 | code (as a network-order
 * pair: type first), dst_port = 0, or the identifier for echo. */
#define XG_VLAN_PRIORITY 0x1000u
XG_RECORD(xg_flow_key) {
  u32 src[4];
  u32 dst[4];
  u16 src_port;
  u16 dst_port;
  u16 vlan_outer;
  u16 vlan_inner;
  u8 protocol;
  u8 family; /* 4, 6; 0: not IP (such packets have no flow) */
  u8 port;   /* ingress port index */
  u8 mirror; /* 0; of a mirror's verdict on the flow: 1 + the number of its pipeline */
};
XG_ASSERT_SIZE(xg_flow_key, 44);

#define XG_FLOW_WAYS 4u

/* The keys of xg_flow_hash (maps/hash.h), random: xg_hash_keys_from. */
XG_RECORD(xg_hash_keys) {
  u64 scatter; /* odd */
  u64 sum;
  u64 tail;
  u64 ports;
  u64 vlans;
  u64 address[8]; /* IPv4 needs the first two */
};
XG_ASSERT_SIZE(xg_hash_keys, 104);

/* xg_flow_verdict.flags */
#define XG_FLOW_HAND_UP_TCP_END 0x01u /* SYN, FIN and RST of this flow go to user space all the same */

XG_RECORD(xg_flow_verdict) {
  u32 generation;  /* the word: bytes 0-7, 0 = empty */
  u16 incarnation; /* counts the entry's publications, wraps */
  u8 action;       /* XDP's numbers */
  u8 target;       /* port index for XG_REDIRECT */
  xg_flow_key key;
  u32 verdict;    /* verdict word that was cached: says which stage and rule decided */
  u32 expires_ms; /* CLOCK_MONOTONIC in ms, low 32 bits, at most XG_FLOW_MAX_TTL_MS behind the time of
                     publication; 0: never */
  u16 rewrite;    /* index into the `rewrites` map; XG_REWRITE_NONE: none */
  u8 idle_s;      /* seconds without a packet after which the entry is dead; 0: never */
  u8 flags;
};
XG_ASSERT_SIZE(xg_flow_verdict, 64);
XG_ASSERT_OFFSET(xg_flow_verdict, key, 8);
XG_ASSERT_OFFSET(xg_flow_verdict, verdict, 52);
XG_ASSERT_OFFSET(xg_flow_verdict, rewrite, 60);

#define XG_FLOW_MAX_TTL_MS 604800000u /* a week */
/* Is the time over? alive_ns: when the entry was published, or a later time at which it was not over. The 32
 * bits come round every 49.7 days: only how far they are ahead of that time is known. Ages are taken in 64
 * bits; a clock behind alive_ns is no age. */
XG_FN int xg_flow_expired(u32 expires_ms, u64 alive_ns, u64 now_ns) {
  const u32 left_ms = expires_ms - (u32)(alive_ns / 1000000u);
  const u64 age_ns = now_ns - alive_ns;
  if (expires_ms == 0u) return 0;
  return left_ms > XG_FLOW_MAX_TTL_MS + 1u || (age_ns >> 63 == 0u && age_ns >= (u64)left_ms * 1000000u);
}

/* Does an entry that expires at `expires_ms` do for a verdict that is to live for `ttl_ms` from now on (0 in
 * both: for ever)? It may expire early or late by a sixteenth of that and a millisecond: written anew, it
 * would be gone for a moment in which packets come up that would have it written anew. (Late: the packet may
 * be older than the one by which it was published.) */
XG_FN int xg_flow_lives_on(u32 expires_ms, u32 ttl_ms, u32 now_ms) {
  const u32 slack_ms = ttl_ms / 16u + 1u;
  if (expires_ms == 0u || ttl_ms == 0u) return expires_ms == ttl_ms;
  return now_ms + ttl_ms + slack_ms - expires_ms <= 2u * slack_ms;
}

/* Same index as the entry, mmapable. The first half is written by the XDP program, the second by the
 * entry's writer. Nobody zeroes the counts: the writer notes what it found, and what the flow has had is
 * the difference. A writer that publishes an entry with idle_s stores the time of publication in
 * last_seen_ns first, else the entry is as idle as its predecessor. */
XG_RECORD(xg_flow_stats) {
  u64 packets;
  u64 bytes;
  u64 last_seen_ns; /* CLOCK_MONOTONIC */
  u64 kernel_reserved;
  u64 base_packets;
  u64 base_bytes;
  u64 published_ns; /* CLOCK_MONOTONIC */
  u64 publications; /* its low 16 bits are the entry's incarnation */
};
XG_ASSERT_SIZE(xg_flow_stats, 64);
XG_ASSERT_OFFSET(xg_flow_stats, base_packets, 32);

/* Rewrites that cached verdicts name. A generation's rewrites are known when its pipelines are compiled
 * and are numbered from XG_REWRITE_FIRST on; XG_REWRITE_NONE and XG_REWRITE_SWAP_MACS need no record.
 * Number n of generation g stands at XG_REWRITE_INDEX(n, g) of the map: even and odd generations have a
 * half each, so a record is immutable while its generation lives. A reader that is slower than two reloads
 * may still have one changed under it: writers store 0 as the generation, fence, store the body, fence, store
 * the generation, and readers look at the generation before and behind what they read. No two records have
 * the same generation and number. */
#define XG_REWRITE_HALF 2048u
#define XG_REWRITE_ENTRIES 4096u
#define XG_REWRITE_INDEX(number, generation) \
  ((number) < XG_REWRITE_FIRST ? (number) : (number) + ((generation)&1u) * XG_REWRITE_HALF)
/* xg_rewrite.flags */
#define XG_REWRITE_DST_MAC 0x01u
#define XG_REWRITE_SRC_MAC 0x02u
#define XG_REWRITE_SRC_FROM_DST 0x04u /* the frame's former destination becomes its source */
/* The TTL or hop limit goes down by one. Packets for which that is not all (its last hop, header options that
 * a router has to look at, longer than `mtu`) and those that no router sends on (a frame that is not
 * addressed to the port, a wrong header checksum) are user space's: the verdict is none of theirs. */
#define XG_REWRITE_FORWARD 0x08u
/* The packet goes inside of outer headers (maps/encapsulation.h). Those longer than `mtu` are user space's.
 */
#define XG_REWRITE_ENCAPSULATE 0x10u
XG_RECORD(xg_rewrite) {
  u32 generation;
  u32 flags;
  u8 dst_mac[6];
  u8 src_mac[6];
  u32 mtu; /* with XG_REWRITE_FORWARD and XG_REWRITE_ENCAPSULATE: longest IP packet, as it came, bytes */
  /* With XG_REWRITE_ENCAPSULATE: the outer headers. Addresses and ports as in the packet; IPv4 uses word 0.
   */
  u16 udp_port;    /* destination port of the UDP header; 0: there is none, IP stands in IP */
  u16 spread;      /* bits of the source's last two bytes that the flow's hash fills; 0 in outer_src */
  u8 outer_family; /* 4 or 6 */
  u8 reserved[3];
  u32 outer_src[4];
  u32 outer_dst[4];
  u64 hash_key[2]; /* of the flow's hash */
  u64 reserved_end[6];
};
XG_ASSERT_SIZE(xg_rewrite, 128);
XG_ASSERT_OFFSET(xg_rewrite, mtu, 20);
XG_ASSERT_OFFSET(xg_rewrite, outer_src, 32);
XG_ASSERT_OFFSET(xg_rewrite, hash_key, 64);

/* Order: per queue, one past the sequence of the last packet of each flow-hash slot that went to user
 * space. XDP writes order_slots[queue * XG_ORDER_SLOTS + (flow_hash & (XG_ORDER_SLOTS - 1))]; cached
 * PASS, TX and REDIRECT act only once the worker's `retired` has reached it: slot - retired <= 0. */
#define XG_ORDER_SLOTS 4096u

#endif
