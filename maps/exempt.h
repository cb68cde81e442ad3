/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/exempt.h: what passes ahead of the rules, and what holds it: the flows of management that were seen,
 * so that an answer is one to a flow, and the rates of the control protocols (config/rules.md).
 */
#ifndef XDPGPU_MAPS_EXEMPT_H
#define XDPGPU_MAPS_EXEMPT_H

#include "packet.h"
#include "parse.h"
#include "tables.h"

/* Map `management_flows` (LRU hash), one for all ports of an attach, as the answer may come in by another one
 * than the request: the flows that met a management entry in its own direction. Written by the XDP programs
 * alone. The key has neither port nor VLAN tags: a router may have changed both on the way. Addresses and
 * ports stand as in the packet. The ports of an ICMP echo are 0 and the identifier; what has no ports, and
 * fragments, have 0. */
XG_RECORD(xg_management_flow) {
  u32 src[4];
  u32 dst[4];
  u16 src_port;
  u16 dst_port;
  u8 protocol;
  u8 family;
  u8 reserved[2];
};
XG_ASSERT_SIZE(xg_management_flow, 40);
XG_RECORD(xg_management_seen) { u64 seen_ns; /* CLOCK_MONOTONIC of a packet of the flow, see below */ };
#define XG_MANAGEMENT_FLOWS 65536u
#define XG_MANAGEMENT_IDLE_NS 300000000000ul /* without a packet in its own direction a flow is forgotten */
#define XG_MANAGEMENT_NOTED_NS 1000000000ul  /* seen_ns may be that much older than the last one */

/* Map `management_senders` (LRU hash) by xg_mac_number: the MAC addresses that a port's management packets
 * came from, in their entry's own direction. Written by the XDP program alone. */
#define XG_MANAGEMENT_SENDERS 256u
XG_RECORD(xg_management_sender) { u64 first_seen_ns; };

/* Map `gateways`, one entry: the MAC addresses of the default routes' next hops, as the host's neighbour
 * table has them, or had them last; unused ones are 0. Written by the broker alone. */
#define XG_GATEWAYS 8u
XG_RECORD(xg_gateways) { u64 mac[8]; /* xg_mac_number */ };
XG_ASSERT_SIZE(xg_gateways, 64);

/* Map `exempt_states`: what counts against the rate XG_RATE_*, CLOCK_MONOTONIC ns << 8 as in xg_limit_state.
 * A protocol that has answers has three shares, which no two kinds of sender use up for each other: a quarter
 * for known senders (gateways and management_senders), a quarter for answers, half for requests. */
#define XG_SHARE_KNOWN 0u
#define XG_SHARE_ANSWERS 1u
#define XG_SHARE_REQUESTS 2u
#define XG_SHARE_ALL 2u /* of those that have no shares */
XG_RECORD(xg_exempt_state) {
  u64 tat[3];
  u64 reserved[5]; /* a cache line each */
};
XG_ASSERT_SIZE(xg_exempt_state, 64);

/* Map `exempt_counters` (per CPU), index XG_RATE_*. */
XG_RECORD(xg_exempt_counter) {
  u64 passed;
  u64 excess; /* met the rules */
};
XG_ASSERT_SIZE(xg_exempt_counter, 16);

#ifndef XG_GLSL

/* What is written down of a management packet and, with `reverse`, what its answer asks for. */
XG_FN void xg_management_flow_of(const xg_packet* p, int reverse, xg_management_flow* flow) {
  const xg_flow_key* key = &p->key;
  __builtin_memset(flow, 0, sizeof(*flow));
  XG_UNROLL
  for (int i = 0; i < 4; i++) {
    flow->src[i] = reverse ? key->dst[i] : key->src[i];
    flow->dst[i] = reverse ? key->src[i] : key->dst[i];
  }
  flow->protocol = key->protocol;
  flow->family = key->family;
  if (p->flags & XG_PKT_FRAGMENT) return;
  if (p->flags & XG_PKT_ICMP) {
    flow->dst_port = key->dst_port; /* an echo's identifier, both ways */
    return;
  }
  flow->src_port = reverse ? key->dst_port : key->src_port;
  flow->dst_port = reverse ? key->src_port : key->dst_port;
}

/* May the packet be a request or, with `reverse`, an answer at all? Of ICMP only echoes are. */
XG_FN int xg_management_kind(const xg_packet* p, int reverse) {
  if (p->key.family == 0 || p->flags & XG_PKT_MALFORMED) return 0;
  if (!(p->flags & XG_PKT_ICMP) || p->flags & XG_PKT_FRAGMENT) return 1;
  const u32 type = p->key.src_port & 0xffu;
  if (p->key.family == 6) return type == (reverse ? 129u : 128u);
  return type == (reverse ? 0u : 8u);
}

/* TCP's answers bear ACK or RST, and a SYN alone begins something. */
XG_FN int xg_management_tcp_answer(u32 tcp_flags) {
  if ((tcp_flags & (XG_TCP_SYN | XG_TCP_ACK)) == XG_TCP_SYN) return 0;
  return (tcp_flags & (XG_TCP_ACK | XG_TCP_RST)) != 0;
}

#endif /* XG_GLSL */
#endif
