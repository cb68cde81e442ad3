/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/packet.h: what travels with a packet: its metadata (kernel to worker and device), its
 * descriptor (worker to device) and its result (device to worker).
 */
#ifndef XDPGPU_MAPS_PACKET_H
#define XDPGPU_MAPS_PACKET_H

#include "types.h"

/* A frame's chunk in the frame region is XG_CHUNK_SIZE bytes. The packet starts at XG_FRAME_DATA from
 * the chunk's start (XDP_PACKET_HEADROOM 256 + UMEM frame_headroom XG_FRAME_HEADROOM) and its metadata
 * stands in the 32 bytes in front of it, so that metadata and the first 96 bytes of headers share one
 * 128-byte line. */
#define XG_CHUNK_SIZE 2048u
#define XG_FRAME_HEADROOM 32u
#define XG_FRAME_DATA 288u
#define XG_FRAME_MAX (XG_CHUNK_SIZE - XG_FRAME_DATA) /* longest frame that fits: 1,760 bytes */
#define XG_METADATA_SIZE 32u
/* A longer one is of several buffers, each in a chunk of its own from XG_FRAME_DATA on. The kernel joins 17
 * and more to a packet when it sends (MAX_SKB_FRAGS). */
#define XG_PACKET_BUFFERS 16u
#define XG_PACKET_MAX (XG_PACKET_BUFFERS * XG_FRAME_MAX) /* 28,160 bytes */

/* xg_metadata.flags */
#define XG_PKT_IPV4 0x0001u
#define XG_PKT_IPV6 0x0002u
#define XG_PKT_TCP 0x0004u
#define XG_PKT_UDP 0x0008u
#define XG_PKT_ICMP 0x0010u /* ICMP or ICMPv6 */
#define XG_PKT_SCTP 0x0020u
#define XG_PKT_FRAGMENT 0x0040u       /* any fragment, the first one included: never matches a flow verdict */
#define XG_PKT_LATER_FRAGMENT 0x0080u /* offset > 0: no L4 header in this packet */
#define XG_PKT_MALFORMED                                                                          \
  0x0100u                    /* headers contradict each other or the frame's length; L3/L4 fields \
                                are valid only as far as the offsets say */
#define XG_PKT_PORTS 0x0200u /* l4_offset points to readable source and destination ports */
#define XG_PKT_MANAGEMENT 0x0400u
#define XG_PKT_VLAN 0x0800u     /* at least one tag stands in the frame */
#define XG_PKT_UNCACHED 0x1000u /* its verdict holds for it alone (xg_policy.tcp_special): never cached */
#define XG_PKT_EGRESS \
  0x2000u /* the host sends it (maps/egress.h): shown to stages that follow connections, decided by none */
#define XG_PKT_AUDIT 0x4000u /* a verdict that drops it is counted, and it passes (xg_policy.audit) */
/* A fragment of a datagram that is followed (maps/fragments.h). The first one stands as a packet with ports,
 * without XG_PKT_FRAGMENT, and has no flow; later ones have that flag, too, and get its result. */
#define XG_PKT_TRACKED 0x8000u

/* xg_metadata.router: what a router has to have seen of a packet that it sends on (maps/router.h). Each bit
 * says that something is in order. An IPv6 header has no checksum, and that of an IPv4 header with options,
 * whose packet is the host's stack's, is not looked at: both count as right. */
#define XG_ROUTER_ADDRESSED 0x01u /* the frame is to the MAC address of the port that it came in on */
#define XG_ROUTER_CHECKSUM 0x02u  /* the IPv4 header's checksum is right */
#define XG_ROUTER_ALL (XG_ROUTER_ADDRESSED | XG_ROUTER_CHECKSUM)

/* Written by the XDP program in front of each inspected frame (bpf_xdp_adjust_meta), or by the worker
 * where the port does not deliver metadata. Offsets count from the frame's first byte; an offset that
 * is 0 means "not there". payload_offset is the first byte behind the L4 header. */
XG_RECORD(xg_metadata) {
  u64 rx_time_ns; /* CLOCK_MONOTONIC at XDP, or the capture's own time in replay */
  u32 generation; /* policy generation that sent the packet here */
  u32 sequence;   /* per receive queue, counts inspected packets, wraps */
  u32 flow_hash;  /* xg_flow_hash of the key; picks bucket and order slot */
  u16 flags;      /* XG_PKT_* */
  u8 l3_offset;
  u8 router; /* XG_ROUTER_*; 0: nobody looked, as no pipeline of the policy routes */
  u16 l4_offset;
  u16 payload_offset;
  u16 pipeline; /* index into the generation's pipelines */
  u8 protocol;  /* L4 protocol after extension headers, else 0 */
  u8 port;      /* index of the port it came in on */
};
XG_ASSERT_SIZE(xg_metadata, 32);
XG_ASSERT_OFFSET(xg_metadata, flow_hash, 16);
XG_ASSERT_OFFSET(xg_metadata, pipeline, 28);

/* What the worker hands to a compute device. offset: bytes from the frame region's start to the
 * packet's first byte; the metadata stands right before it. A packet is one descriptor, or several with
 * XG_DESC_MORE on all but the last (multi-buffer frames). */
#define XG_DESC_MORE 0x1u
/* Of a packet of one descriptor whose metadata nobody has read on the way here: which port's they have to be,
 * and which sequence's. A device judges no packet whose metadata are others', as those that its frame's last
 * packet left: it answers XG_ABORTED. */
#define XG_DESC_EXPECT 0x2u
#define XG_DESC_EXPECTED(port, sequence) (XG_DESC_EXPECT | ((port)&31u) << 2 | (sequence) << 7)
XG_RECORD(xg_descriptor) {
  u64 offset;
  u32 length;
  u32 flags;
};
XG_ASSERT_SIZE(xg_descriptor, 16);

/* Verdict word: bits 0-2 action (XDP's own numbers), 3-7 target port, 8-13 stage (its position in the
 * pipeline + 1; 0: no stage decided, the pipeline's end), 14-31 rule within the stage. */
#define XG_ABORTED 0u
#define XG_DROP 1u
#define XG_PASS 2u
#define XG_TX 3u
#define XG_REDIRECT 4u
#define XG_VERDICT(action, port, stage, rule) ((action) | ((port) << 3) | ((stage) << 8) | ((rule) << 14))
#define XG_VERDICT_ACTION(v) ((v)&7u)
#define XG_VERDICT_PORT(v) (((v) >> 3) & 31u)
#define XG_VERDICT_STAGE(v) (((v) >> 8) & 63u)
#define XG_VERDICT_RULE(v) (((v) >> 14) & 0x3ffffu)
#define XG_MAX_PORTS 32u
#define XG_MAX_STAGES 62u
#define XG_MAX_STAGE_RULES 0x3ffffu

/* xg_result.flags */
#define XG_RES_EDIT 0x01u      /* the packet's xg_edit is to be applied */
#define XG_RES_ADJUST 0x02u    /* and its xg_adjust */
#define XG_RES_CACHE 0x04u     /* the flow's later packets get the same verdict: cache it in the kernel */
#define XG_RES_PUBLISHED 0x08u /* with XG_RES_CACHE: the device has published the verdict itself */
#define XG_RES_EVICTED 0x10u   /* with XG_RES_PUBLISHED: another flow's live verdict gave way */
#define XG_RES_SWAP_MACS 0x20u /* the frame's source and destination change places; not with XG_RES_EDIT */
#define XG_RES_PATCH 0x40u     /* its xg_patch is to be applied; with none of the others that change it */
#define XG_RES_TOO_LONG \
  0x80u /* with XG_DROP: longer than its xg_adjust.longest, which its sender is to be told */
#define XG_RES_REFUSED \
  0x100u /* with XG_DROP: a DNS query, whose sender is to be told that there is no such domain */
#define XG_RES_ALERTS 0x200u /* rules that hold for the packet are told: its xg_alerts */
/* With XG_DROP, from the host alone, never from a device: a rule rejects the packet, and whoever sent it is
 * told, or whom it is for; or both are. */
#define XG_RES_REJECT_SENDER 0x400u
#define XG_RES_REJECT_RECEIVER 0x800u
#define XG_RES_EVENT 0x1000u /* a program has put something out for the packet: its xg_event */
/* Upper half, with XG_RES_CACHE: number of the rewrite that the kernel is to apply: one of these, or, from
 * XG_REWRITE_FIRST on, one of the generation's own (maps/flow.h). */
#define XG_RES_REWRITE(flags) ((flags) >> 16)
#define XG_REWRITE_NONE 0u
#define XG_REWRITE_SWAP_MACS 1u
#define XG_REWRITE_FIRST 2u

/* A device's answer for one packet. Devices do not change frames: what is to become of one stands in the edit
 * records that have the packet's number in its batch, each in an array of its own beside the results, so that
 * a packet that is not edited takes sixteen bytes of the bus, and one that is takes no more than it needs.
 * They are absolute values, applied once, by whoever sends the packet: deciding again is harmless. */
XG_RECORD(xg_result) {
  u32 verdict;
  u32 flags;        /* XG_RES_*; upper half: XG_RES_REWRITE */
  u32 cache_ttl_ms; /* 0: as long as the policy generation lives */
  u32 detail;       /* stage's own: backend index for load_balance, next hop's for forward */
};
XG_ASSERT_SIZE(xg_result, 16);

/* xg_edit.sets */
#define XG_EDIT_DST_MAC 0x01u
#define XG_EDIT_SRC_MAC 0x02u
#define XG_EDIT_TTL 0x04u /* and the IPv4 header checksum that goes with it */
#define XG_EDIT_CE 0x08u  /* where outer headers are popped: ECN of the inner one (RFC 6040) */

/* What is set in the frame, where it stands: with XG_RES_EDIT. */
XG_RECORD(xg_edit) {
  u8 dst_mac[6];
  u8 src_mac[6];
  u16 l3_checksum; /* with XG_EDIT_TTL: of the IP header that the metadata name, its bytes as in the packet */
  u8 ttl;          /* or hop limit; IPv6: no checksum */
  u8 sets;         /* XG_EDIT_* */
};
XG_ASSERT_SIZE(xg_edit, 16);
XG_ASSERT_OFFSET(xg_edit, src_mac, 6);
XG_ASSERT_OFFSET(xg_edit, l3_checksum, 12);
XG_ASSERT_OFFSET(xg_edit, sets, 15);

/* What becomes of a packet's beginning and length: with XG_RES_ADJUST, it loses `popped` bytes behind its
 * Ethernet header and tags, or gets `pushed` there; never both. Then its last EtherType is `ether_type`, and
 * behind it stand `ip_bytes` of an IP packet. A packet that lost outer headers ends with that; one that got
 * some keeps what stood behind it. Whoever applies this checks it against the packet and its chunk, and
 * refuses the packet where they do not agree. */
XG_RECORD(xg_adjust) {
  u16 popped;
  u16 pushed;
  u32 ip_bytes;
  /* With `pushed`: what the outer headers are made of (maps/encapsulation.h). */
  u16 outer;      /* number of the rewrite that has their addresses, from XG_REWRITE_FIRST on */
  u16 flow_hash;  /* the flow's */
  u16 ether_type; /* host order */
  u16 longest;    /* with XG_RES_TOO_LONG, and nothing else then: longest IP packet that would do, bytes */
};
XG_ASSERT_SIZE(xg_adjust, 16);
XG_ASSERT_OFFSET(xg_adjust, ip_bytes, 4);
XG_ASSERT_OFFSET(xg_adjust, outer, 8);
XG_ASSERT_OFFSET(xg_adjust, ether_type, 12);

/* What `conntrack` says of a packet to a stage behind it that inspects, in xg_result.detail until that one or
 * another stage decides. 0: no such stage has seen it. */
#define XG_CONNECTION_SEEN 1u
#define XG_CONNECTION_HAS 2u         /* it is of a connection; the others only with this */
#define XG_CONNECTION_ANSWERS 4u     /* it goes to whoever began that */
#define XG_CONNECTION_ESTABLISHED 8u /* TCP: it was open before the packet; else both sides have sent */
/* Told apart from others between the same ends, by the time of its first packet; 0 where none was noted. */
#define XG_CONNECTION_BIRTH 0x1ffffff0u

/* With XG_RES_ALERTS: the rules that hold for the packet and are to be told of, in the order in which their
 * stage has them, which is the pipeline's only one of its kind. */
#define XG_MAX_ALERTS 7u
#define XG_ALERTS_MORE 0x8000u /* and more rules hold than there is room for */
XG_RECORD(xg_alerts) {
  u16 count; /* of those that are named; XG_ALERTS_MORE */
  u16 rules[7];
  u32 connection; /* XG_CONNECTION_* */
  u32 reserved[3];
};
XG_ASSERT_SIZE(xg_alerts, 32);
XG_ASSERT_OFFSET(xg_alerts, rules, 2);
XG_ASSERT_OFFSET(xg_alerts, connection, 16);

/* A packet of one buffer as a program left it: with XG_RES_PATCH. Its bytes are counted from XG_PATCH_BEFORE
 * bytes in front of the first one that came. Those of `lines` are XG_PATCH_LINE_BYTES each, the program's; of
 * all others, those that came are kept up to `kept`, and the rest are 0. Whoever applies this checks it
 * against the packet and its chunk, and refuses the packet where they do not agree. */
#define XG_PATCH_BEFORE 256u
#define XG_PATCH_LINES 4u
#define XG_PATCH_LINE_BYTES 64u
XG_RECORD(xg_patch) {
  u16 begin; /* the packet's first byte now */
  u16 end;   /* behind its last one */
  u16 kept;  /* from here on, but for lines, nothing is kept; not beyond the end of what came */
  u8 count;  /* of lines */
  u8 reserved;
  u8 lines[XG_PATCH_LINES]; /* where each begins, in XG_PATCH_LINE_BYTES; each once */
  u32 reserved2;
  u8 bytes[XG_PATCH_LINES][XG_PATCH_LINE_BYTES];
};
XG_ASSERT_SIZE(xg_patch, 272);
XG_ASSERT_OFFSET(xg_patch, kept, 4);
XG_ASSERT_OFFSET(xg_patch, lines, 8);
XG_ASSERT_OFFSET(xg_patch, bytes, 16);

/* What a packet's program put out, whatever became of the packet: with XG_RES_EVENT. Behind the 16 bytes
 * around the last one of `length`, nothing is written. Whoever tells of it checks it against the program and
 * the packet. */
#define XG_EVENT_BYTES 112u
XG_RECORD(xg_event) {
  u16 map;    /* the program's number of it */
  u16 length; /* of what was put out */
  u32 asked;  /* so many of the packet's first bytes are to be told, too */
  u32 reserved[2];
  u8 bytes[XG_EVENT_BYTES];
};
XG_ASSERT_SIZE(xg_event, 128);
XG_ASSERT_OFFSET(xg_event, asked, 4);
XG_ASSERT_OFFSET(xg_event, bytes, 16);

#endif
