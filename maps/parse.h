/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/parse.h: the packet parser: one source for the XDP program and for user space, which parses
 * where a port delivers no metadata and in `replay`.
 *
 *   xg_packet p;
 *   xg_parse(data, data_end, port, &p);
 *
 * Of a frame of several buffers it reads the first one, where the headers have to stand (xg_parse_part).
 *
 * It reads Ethernet, up to two VLAN tags, IPv4 with options, IPv6 with up to XG_PARSE_EXTENSIONS
 * extension headers within XG_PARSE_REACH bytes, TCP, UDP, ICMP, ICMPv6 and SCTP; anything else by its outer
 * headers. It never reads beyond data_end, nor beyond the IP packet's own end (what follows is Ethernet
 * padding), and it always answers: what cannot be read stays zero, XG_PKT_MALFORMED says that something is
 * wrong, and `malformed` what (maps/malformed.h).
 *
 * A malformed packet has no flow, like a fragment: it never matches a flow verdict and its verdict must
 * not be cached. Nor is it ever of a control protocol.
 *
 * Fragments (RFC 791, RFC 8200; an IPv6 "atomic" fragment counts as one) are keyed by addresses and
 * identification, which stands in the key's port fields, so that all fragments of a datagram share one
 * flow hash. The key's protocol is then the one that the fragment header names.
 */
#ifndef XDPGPU_MAPS_PARSE_H
#define XDPGPU_MAPS_PARSE_H

#include "flow.h"
#include "malformed.h"
#include "packet.h"
#include "tables.h"

#define XG_PARSE_EXTENSIONS 8
/* Where extension headers may reach: the longest L4 header behind them stands in a frame's first buffer too,
 * for the kernel, whose buffers are longer, as for user space and devices. */
#define XG_PARSE_REACH (XG_FRAME_MAX - 60u)

#define XG_ETH_IPV4 0x0800u
#define XG_ETH_IPV6 0x86ddu
#define XG_IPPROTO_HOPOPTS 0u
#define XG_IPPROTO_ICMP 1u
#define XG_IPPROTO_IPIP 4u
#define XG_IPPROTO_TCP 6u
#define XG_IPPROTO_UDP 17u
#define XG_IPPROTO_IPV6 41u
#define XG_IPPROTO_ROUTING 43u
#define XG_IPPROTO_FRAGMENT 44u
#define XG_IPPROTO_AH 51u
#define XG_IPPROTO_ICMPV6 58u
#define XG_IPPROTO_NONE 59u
#define XG_IPPROTO_DSTOPTS 60u
#define XG_IPPROTO_SCTP 132u

/* TCP flag byte. */
#define XG_TCP_FIN 0x01u
#define XG_TCP_SYN 0x02u
#define XG_TCP_RST 0x04u
#define XG_TCP_ACK 0x10u

typedef struct xg_packet xg_packet;
struct xg_packet {
  xg_flow_key key;
  u32 fragment_id;    /* host order; 0 unless XG_PKT_FRAGMENT */
  u32 ip_end;         /* offset of the first byte behind the IP packet, within the frame; 0: not IP */
  u16 flags;          /* XG_PKT_* */
  u16 l3_offset;      /* behind Ethernet and VLAN tags; 0: the frame ends before */
  u16 l4_offset;      /* 0: none in this frame */
  u16 payload_offset; /* behind the L4 header (later fragments: behind the IP headers); 0: unknown */
  u16 l4_index;       /* XG_L4_*: the classifier's index; control protocols by their ordinary index */
  u8 protocol;        /* L4 protocol after extension headers, else 0 */
  u8 tcp_flags;
  u8 control;          /* XG_CONTROL_* */
  u8 malformed;        /* XG_MALFORMED_*: the first contradiction; 0 unless XG_PKT_MALFORMED */
  u8 fragment_more;    /* 1: others of its datagram come behind it */
  u8 answer;           /* 1: of a control protocol, and what one asked for; 0: a request, or neither */
  u16 fragment_offset; /* of its payload in the reassembled packet's, bytes */
  u16 fragment_end;    /* first byte behind it, likewise */
  u16 first_src_port;  /* of a first fragment that has them; network order */
  u16 first_dst_port;
  u16 rule;  /* not the parser's: of the rule that decided */
  u8 router; /* nor this: XG_ROUTER_* (maps/router.h) */
};

/* Loads in network order and in host order. The BPF machine loads unaligned words as they are; user
 * space goes through memcpy, which compiles to the same load. Both run on little-endian CPUs. */
#ifdef __bpf__
#define XG_READABLE(at, bytes, end) ((at) + (bytes) <= (end))
/* Hides from the compiler how a pointer was made, so that it checks and uses the same register. */
#define XG_OPAQUE(pointer) asm volatile("" : "+r"(pointer))
#define XG_UNROLL _Pragma("unroll")
XG_FN u16 xg_load16(const u8* at) { return *(const u16*)at; }
XG_FN u32 xg_load32(const u8* at) { return *(const u32*)at; }
XG_FN void xg_load_address(u32* to, const u8* at) { /* 8-aligned; as wide as the flow hash reads it */
  *(u64*)to = *(const u64*)at;
  *(u64*)(to + 2) = *(const u64*)(at + 8);
}
#else
#define XG_READABLE(at, bytes, end) ((end) - (at) >= (long)(bytes))
#define XG_OPAQUE(pointer)
#define XG_UNROLL
XG_FN u16 xg_load16(const u8* at) {
  u16 value;
  __builtin_memcpy(&value, at, sizeof(value));
  return value;
}
XG_FN u32 xg_load32(const u8* at) {
  u32 value;
  __builtin_memcpy(&value, at, sizeof(value));
  return value;
}
XG_FN void xg_load_address(u32* to, const u8* at) { __builtin_memcpy(to, at, 16); }
#endif
#ifdef __CUDACC__ /* which has no such builtins for the GPU */
XG_FN u16 xg_host16(u16 value) { return (u16)(value << 8 | value >> 8); }
XG_FN u32 xg_host32(u32 value) { return (u32)xg_host16((u16)value) << 16 | xg_host16((u16)(value >> 16)); }
#else
XG_FN u16 xg_host16(u16 value) { return __builtin_bswap16(value); }
XG_FN u32 xg_host32(u32 value) { return __builtin_bswap32(value); }
#endif

/* The six bytes as a number, in the order of a little-endian load. */
XG_FN u64 xg_mac_number(const u8* mac) { return (u64)xg_load16(mac + 4) << 32 | xg_load32(mac); }

XG_FN void xg_parse_set(xg_packet* p, u32 flag) { p->flags = (u16)(p->flags | flag); }
XG_FN void xg_parse_malformed(xg_packet* p, u32 kind) {
  const u32 none = (p->malformed - 1u) >> 31; /* without a branch, which the verifier would follow */
  p->malformed = (u8)(p->malformed | (kind & (0u - none)));
  xg_parse_set(p, XG_PKT_MALFORMED);
}

/* The cursor: `at` and `offset` name the same byte, `end` is the offset that the current layer ends at
 * (never beyond the frame). */
typedef struct xg_cursor xg_cursor;
struct xg_cursor {
  const u8* at;
  const u8* data_end;
  u32 offset;
  u32 end;
};

XG_FN void xg_advance(xg_cursor* c, u32 bytes) {
  c->at += bytes;
  c->offset += bytes;
  XG_OPAQUE(c->at);
}

/* Are `bytes` (a constant) there, both in the frame and in the layer? */
#define XG_HAS(c, bytes) (XG_READABLE((c)->at, bytes, (c)->data_end) && (c)->offset + (bytes) <= (c)->end)

XG_FN void xg_parse_ports(const xg_cursor* c, xg_packet* p) {
  xg_parse_set(p, XG_PKT_PORTS);
  if (p->flags & XG_PKT_FRAGMENT) {
    p->first_src_port = xg_load16(c->at);
    p->first_dst_port = xg_load16(c->at + 2);
    return;
  }
  p->key.src_port = xg_load16(c->at);
  p->key.dst_port = xg_load16(c->at + 2);
}

/* A header that is cut short contradicts the packet's length, unless the rest is in another fragment. */
XG_FN void xg_parse_short(xg_packet* p, u32 kind) {
  if (!(p->flags & XG_PKT_FRAGMENT)) xg_parse_malformed(p, kind);
}

XG_FN void xg_parse_tcp(const xg_cursor* c, xg_packet* p) {
  xg_parse_set(p, XG_PKT_TCP);
  if (!XG_HAS(c, 4u)) return xg_parse_short(p, XG_MALFORMED_transport_cut);
  xg_parse_ports(c, p);
  if (!XG_HAS(c, 20u)) return xg_parse_short(p, XG_MALFORMED_transport_cut);
  const u32 length = (u32)(c->at[12] >> 4) * 4;
  p->tcp_flags = c->at[13];
  if (!(p->flags & XG_PKT_FRAGMENT))
    p->l4_index = (u16)((p->key.family == 6 ? XG_L4_V6_TCP : XG_L4_V4_TCP) + p->tcp_flags);
  if (length < 20) return xg_parse_malformed(p, XG_MALFORMED_tcp_length);
  if (c->offset + length > c->end) return xg_parse_short(p, XG_MALFORMED_tcp_length);
  p->payload_offset = (u16)(c->offset + length);
}

/* Between a client and a server, and between servers and relays; clients do not speak to each other. */
XG_FN void xg_parse_dhcp(xg_packet* p) {
  const u32 v6 = p->key.family == 6;
  const u32 client = v6 ? 546 : 68, server = v6 ? 547 : 67;
  const u32 to = xg_host16(p->key.dst_port);
  if (to != client && to != server) return;
  const u32 from = xg_host16(p->key.src_port);
  if (from != server && (from != client || to != server)) return;
  p->control = XG_CONTROL_DHCP;
  p->answer = to == client;
}

XG_FN void xg_parse_udp(const xg_cursor* c, xg_packet* p) {
  xg_parse_set(p, XG_PKT_UDP);
  if (!XG_HAS(c, 4u)) return xg_parse_short(p, XG_MALFORMED_transport_cut);
  xg_parse_ports(c, p);
  if (!XG_HAS(c, 8u)) return xg_parse_short(p, XG_MALFORMED_transport_cut);
  p->payload_offset = (u16)(c->offset + 8);
  const u32 length = xg_host16(xg_load16(c->at + 4));
  if (length < 8) xg_parse_malformed(p, XG_MALFORMED_udp_length);
  if (c->offset + length > c->end) xg_parse_short(p, XG_MALFORMED_udp_length);
  if (p->flags & (XG_PKT_FRAGMENT | XG_PKT_MALFORMED)) return;
  xg_parse_dhcp(p);
}

XG_FN void xg_parse_sctp(const xg_cursor* c, xg_packet* p) {
  xg_parse_set(p, XG_PKT_SCTP);
  if (!XG_HAS(c, 4u)) return xg_parse_short(p, XG_MALFORMED_transport_cut);
  xg_parse_ports(c, p);
  if (!XG_HAS(c, 12u)) return xg_parse_short(p, XG_MALFORMED_transport_cut);
  p->payload_offset = (u16)(c->offset + 12);
}

/* ICMPv6 types of neighbour discovery. */
#define XG_ND_FIRST 133u
#define XG_ND_ROUTER_ADVERTISEMENT 134u
#define XG_ND_NEIGHBOUR_SOLICITATION 135u
#define XG_ND_NEIGHBOUR_ADVERTISEMENT 136u
#define XG_ND_REDIRECT 137u
#define XG_ND_LAST 137u

/* As RFC 4861 has it validated: what a router forwarded is forged, routers speak from link-local addresses,
 * and each type has its least length. */
XG_FN void xg_parse_nd(const xg_cursor* c, xg_packet* p, u32 hop_limit) {
  const u32 type = c->at[0];
  const u32 router = type == XG_ND_ROUTER_ADVERTISEMENT || type == XG_ND_REDIRECT;
  u32 least = type == XG_ND_ROUTER_ADVERTISEMENT ? 16 : 8;
  if (type == XG_ND_NEIGHBOUR_SOLICITATION || type == XG_ND_NEIGHBOUR_ADVERTISEMENT) least = 24;
  if (type == XG_ND_REDIRECT) least = 40;
  if (p->flags & XG_PKT_MALFORMED || hop_limit != 255 || c->at[1] != 0 || c->end - c->offset < least) return;
  if (router && (p->key.src[0] & 0xc0ffu) != 0x80feu) return; /* fe80::/10 */
  p->control = XG_CONTROL_ND;
  p->answer = type == XG_ND_ROUTER_ADVERTISEMENT || type == XG_ND_NEIGHBOUR_ADVERTISEMENT;
}

XG_FN void xg_parse_icmp(const xg_cursor* c, xg_packet* p, u32 hop_limit) {
  xg_parse_set(p, XG_PKT_ICMP);
  if (!XG_HAS(c, 8u)) return xg_parse_short(p, XG_MALFORMED_transport_cut);
  p->payload_offset = (u16)(c->offset + 8);
  if (p->flags & XG_PKT_FRAGMENT) return;
  const u32 type = c->at[0];
  const u32 v6 = p->key.family == 6;
  p->key.src_port = xg_load16(c->at);
  if (v6 ? type == 128 || type == 129 : type == 8 || type == 0) p->key.dst_port = xg_load16(c->at + 4);
  if (v6 && type >= XG_ND_FIRST && type <= XG_ND_LAST) xg_parse_nd(c, p, hop_limit);
}

/* The cursor stands behind the IP headers of a packet that is not a later fragment. */
XG_FN void xg_parse_l4(const xg_cursor* c, xg_packet* p, u32 hop_limit) {
  const u32 icmp = p->key.family == 6 ? XG_IPPROTO_ICMPV6 : XG_IPPROTO_ICMP;
  if (c->offset >= c->end) {
    if (p->protocol == XG_IPPROTO_TCP || p->protocol == XG_IPPROTO_UDP || p->protocol == XG_IPPROTO_SCTP ||
        p->protocol == icmp)
      xg_parse_short(p, XG_MALFORMED_transport_cut);
    return;
  }
  p->l4_offset = (u16)c->offset;
  if (p->protocol == XG_IPPROTO_TCP)
    xg_parse_tcp(c, p);
  else if (p->protocol == XG_IPPROTO_UDP)
    xg_parse_udp(c, p);
  else if (p->protocol == XG_IPPROTO_SCTP)
    xg_parse_sctp(c, p);
  else if (p->protocol == icmp)
    xg_parse_icmp(c, p, hop_limit);
}

XG_FN void xg_parse_protocol(xg_packet* p, u32 protocol) {
  p->protocol = (u8)protocol;
  p->l4_index = (u16)((p->key.family == 6 ? XG_L4_V6 : XG_L4_V4) + protocol);
}

/* A fragment's identification takes the ports' place in the key. `end` is where its payload ends in the
 * reassembled packet's, `reach` in the packet. */
XG_FN void xg_parse_fragment(xg_packet* p, u32 identification, u32 protocol, u32 offset, u32 end, u32 reach) {
  xg_parse_set(p, offset ? XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT : XG_PKT_FRAGMENT);
  if (reach > 65535) xg_parse_malformed(p, XG_MALFORMED_fragment_reach);
  p->fragment_offset = (u16)offset;
  p->fragment_end = (u16)end;
  p->fragment_id = identification;
  p->key.src_port = (u16)identification;
  p->key.dst_port = (u16)(identification >> 16);
  p->key.protocol = (u8)protocol;
}

/* Where the IP packet ends by its own header: at most where the frame does. */
XG_FN void xg_parse_length(xg_cursor* c, xg_packet* p, u32 length, u32 kind) {
  if (c->offset + length > c->end)
    xg_parse_malformed(p, kind);
  else
    c->end = c->offset + length;
  p->ip_end = c->end;
}

XG_FN void xg_parse_ipv4(xg_cursor* c, xg_packet* p) {
  if (!XG_READABLE(c->at, 20, c->data_end)) return xg_parse_malformed(p, XG_MALFORMED_ipv4_header);
  const u32 header = (u32)(c->at[0] & 15) * 4;
  if (c->at[0] >> 4 != 4 || header < 20) return xg_parse_malformed(p, XG_MALFORMED_ipv4_header);
  const u32 total = xg_host16(xg_load16(c->at + 2));
  const u32 fragment = xg_host16(xg_load16(c->at + 6));
  const u32 protocol = c->at[9];
  xg_parse_set(p, XG_PKT_IPV4);
  p->key.family = 4;
  p->key.protocol = (u8)protocol;
  p->key.src[0] = xg_load32(c->at + 12);
  p->key.dst[0] = xg_load32(c->at + 16);
  xg_parse_protocol(p, protocol);
  xg_parse_length(c, p, total, XG_MALFORMED_ipv4_length);
  if (fragment & 0x3fff) {
    const u32 offset = (fragment & 0x1fff) * 8;
    xg_parse_fragment(p, xg_host16(xg_load16(c->at + 4)), protocol, offset, offset + total - header,
                      offset + total);
    p->fragment_more = (fragment & 0x2000) != 0;
  }
  if (total < header || c->offset + header > c->end) return xg_parse_malformed(p, XG_MALFORMED_ipv4_length);
  xg_advance(c, header);
  if (p->flags & XG_PKT_LATER_FRAGMENT)
    p->payload_offset = (u16)c->offset;
  else
    xg_parse_l4(c, p, 0);
}

/* Walks the extension headers; returns whether the cursor stands before an L4 header. */
XG_FN int xg_parse_extensions(xg_cursor* c, xg_packet* p, u32 next) {
  u32 why = XG_MALFORMED_no;
  XG_UNROLL
  for (int i = 0; i <= XG_PARSE_EXTENSIONS; i++) {
    if (next != XG_IPPROTO_HOPOPTS && next != XG_IPPROTO_ROUTING && next != XG_IPPROTO_FRAGMENT &&
        next != XG_IPPROTO_AH && next != XG_IPPROTO_DSTOPTS) {
      xg_parse_protocol(p, next);
      return 1;
    }
    why = i == XG_PARSE_EXTENSIONS ? XG_MALFORMED_extension_count : XG_MALFORMED_extension_cut;
    if (i == XG_PARSE_EXTENSIONS || !XG_HAS(c, 8u)) break;
    if (next == XG_IPPROTO_HOPOPTS && i > 0) xg_parse_malformed(p, XG_MALFORMED_hop_by_hop);
    u32 length = ((u32)c->at[1] + 1) * 8;
    if (next == XG_IPPROTO_AH) length = ((u32)c->at[1] + 2) * 4;
    if (next == XG_IPPROTO_FRAGMENT) {
      length = 8;
      const u32 field = xg_host16(xg_load16(c->at + 2));
      const u32 offset = field & 0xfff8u;
      const u32 end = offset + c->end - c->offset - 8;
      if (p->flags & XG_PKT_FRAGMENT) xg_parse_malformed(p, XG_MALFORMED_fragment_twice);
      xg_parse_fragment(p, xg_host32(xg_load32(c->at + 4)), c->at[0], offset, end, end);
      p->fragment_more = field & 1;
    }
    next = c->at[0];
    if (c->offset + length > c->end) break;
    why = XG_MALFORMED_extension_reach;
    if (c->offset + length > XG_PARSE_REACH) break;
    xg_advance(c, length);
    if (p->flags & XG_PKT_LATER_FRAGMENT) {
      xg_parse_protocol(p, next);
      p->payload_offset = (u16)c->offset;
      return 0;
    }
  }
  xg_parse_malformed(p, why);
  xg_parse_protocol(p, next);
  return 0;
}

XG_FN void xg_parse_ipv6(xg_cursor* c, xg_packet* p) {
  if (!XG_READABLE(c->at, 40, c->data_end) || c->at[0] >> 4 != 6)
    return xg_parse_malformed(p, XG_MALFORMED_ipv6_header);
  const u32 payload = xg_host16(xg_load16(c->at + 4));
  const u32 next = c->at[6];
  const u32 hop_limit = c->at[7];
  xg_parse_set(p, XG_PKT_IPV6);
  p->key.family = 6;
  xg_load_address(p->key.src, c->at + 8);
  xg_load_address(p->key.dst, c->at + 24);
  /* A jumbogram (RFC 2675) has its length in a hop-by-hop option: the frame's length has to do. */
  if (payload == 0 && next == XG_IPPROTO_HOPOPTS)
    p->ip_end = c->end;
  else
    xg_parse_length(c, p, 40 + payload, XG_MALFORMED_ipv6_length);
  xg_advance(c, 40);
  const int l4 = xg_parse_extensions(c, p, next);
  if (!(p->flags & XG_PKT_FRAGMENT)) p->key.protocol = p->protocol;
  if (l4) xg_parse_l4(c, p, hop_limit);
}

XG_FN int xg_is_vlan(u32 ethertype) {
  return ethertype == 0x8100 || ethertype == 0x88a8 || ethertype == 0x9100;
}

/* A tag's id as the key has it. Leaves the cursor before the inner EtherType's payload. */
XG_FN u16 xg_parse_tag(xg_cursor* c, xg_packet* p, u32* ethertype) {
  const u32 id = xg_host16(xg_load16(c->at)) & 0xfffu;
  *ethertype = xg_host16(xg_load16(c->at + 2));
  xg_parse_set(p, XG_PKT_VLAN);
  xg_advance(c, 4);
  return (u16)(id ? id : XG_VLAN_PRIORITY);
}

/* The group addresses 01:80:c2:00:00:XX, which no bridge forwards. */
XG_FN int xg_is_to_group(const u8* frame, u32 last) {
  return xg_load16(frame) == 0x8001 && xg_load32(frame + 2) == (0x000000c2 | last << 24);
}

/* IEEE 802.3 with LLC, to the bridge group address, SAP 0x42: a spanning tree BPDU. */
XG_FN int xg_is_stp(const u8* frame, const xg_cursor* c, u32 ethertype) {
  if (ethertype > 1500 || !XG_READABLE(c->at, 3, c->data_end)) return 0;
  return xg_is_to_group(frame, 0) && xg_load16(c->at) == 0x4242 && c->at[2] == 3;
}

/* LACP and its markers (IEEE 802.1AX), of the slow protocols alone. */
XG_FN int xg_is_lacp(const u8* frame, const xg_cursor* c) {
  if (!XG_READABLE(c->at, 1, c->data_end)) return 0;
  return xg_is_to_group(frame, 2) && (c->at[0] == 1 || c->at[0] == 2);
}

/* To one of the three addresses of IEEE 802.1AB. */
XG_FN int xg_is_lldp(const u8* frame) {
  return xg_is_to_group(frame, 0x0e) || xg_is_to_group(frame, 3) || xg_is_to_group(frame, 0);
}

/* RFC 826: a request or an answer, for IPv4 on Ethernet. */
XG_FN void xg_parse_arp(const xg_cursor* c, xg_packet* p) {
  if (!XG_READABLE(c->at, 28, c->data_end)) return;
  if (xg_load32(c->at) != 0x00080100 || xg_load16(c->at + 4) != 0x0406 || c->at[6] != 0) return;
  if (c->at[7] != 1 && c->at[7] != 2) return;
  p->control = XG_CONTROL_ARP;
  p->answer = c->at[7] == 2;
}

/* Of what is not IP: a control protocol in its proper form, from one sender, or nothing that is known. What
 * bridges say to each other on a cable is of no VLAN. */
XG_FN void xg_parse_control(const u8* frame, const xg_cursor* c, xg_packet* p, u32 ethertype) {
  if (frame[6] & 1) return;
  if (ethertype == 0x0806) return xg_parse_arp(c, p);
  if (p->key.vlan_inner || (p->key.vlan_outer && p->key.vlan_outer != XG_VLAN_PRIORITY)) return;
  if (ethertype == 0x8809) {
    if (xg_is_lacp(frame, c)) p->control = XG_CONTROL_LACP;
  } else if (ethertype == 0x88cc) {
    if (xg_is_lldp(frame)) p->control = XG_CONTROL_LLDP;
  } else if (xg_is_stp(frame, c, ethertype)) {
    p->control = XG_CONTROL_STP;
  }
}

/* Parses a frame of `length` bytes that came in on `port`, of which [data, data_end) can be read: all of it,
 * or the first of its buffers. All of *p is 0 before. */
XG_FN void xg_parse_zeroed(const u8* data, const u8* data_end, u32 length, u8 port, xg_packet* p) {
  p->key.port = port;
  p->control = XG_CONTROL_NONE;
  p->l4_index = XG_L4_OTHER;
  xg_cursor c = {data, data_end, 0, length};
  if (!XG_READABLE(c.at, 14, data_end)) return xg_parse_malformed(p, XG_MALFORMED_frame);
  u32 ethertype = xg_host16(xg_load16(data + 12));
  xg_advance(&c, 14);
  if (xg_is_vlan(ethertype)) {
    if (!XG_READABLE(c.at, 4, data_end)) return xg_parse_malformed(p, XG_MALFORMED_frame);
    p->key.vlan_outer = xg_parse_tag(&c, p, &ethertype);
    if (xg_is_vlan(ethertype)) {
      if (!XG_READABLE(c.at, 4, data_end)) return xg_parse_malformed(p, XG_MALFORMED_frame);
      p->key.vlan_inner = xg_parse_tag(&c, p, &ethertype);
      if (xg_is_vlan(ethertype)) xg_parse_malformed(p, XG_MALFORMED_tags);
    }
  }
  p->l3_offset = (u16)c.offset;
  if (ethertype == XG_ETH_IPV4)
    xg_parse_ipv4(&c, p);
  else if (ethertype == XG_ETH_IPV6)
    xg_parse_ipv6(&c, p);
  else
    xg_parse_control(data, &c, p, ethertype);
}

/* The same for any *p. */
XG_FN void xg_parse_part(const u8* data, const u8* data_end, u32 length, u8 port, xg_packet* p) {
  __builtin_memset(p, 0, sizeof(*p));
  xg_parse_zeroed(data, data_end, length, port, p);
}

/* Parses the frame [data, data_end), all of it, that came in on `port`. Fills all of *p. */
XG_FN void xg_parse(const u8* data, const u8* data_end, u8 port, xg_packet* p) {
  xg_parse_part(data, data_end, (u32)(data_end - data), port, p);
}

/* Does the packet have a flow, that is: may a flow verdict be looked up or cached for it? */
XG_FN int xg_has_flow(const xg_packet* p) {
  return p->key.family != 0 && !(p->flags & (XG_PKT_FRAGMENT | XG_PKT_TRACKED | XG_PKT_MALFORMED));
}

/* The parsed part of a packet's metadata. */
XG_FN void xg_metadata_from(xg_metadata* metadata, const xg_packet* p, u32 flow_hash) {
  metadata->flow_hash = flow_hash;
  metadata->flags = p->flags;
  metadata->l3_offset = (u8)p->l3_offset; /* 22 at most */
  metadata->router = p->router;
  metadata->l4_offset = p->l4_offset;
  metadata->payload_offset = p->payload_offset;
  metadata->protocol = p->protocol;
  metadata->port = p->key.port;
}

#endif
