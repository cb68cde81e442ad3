/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/encapsulation.h: the headers that an encapsulated packet travels in, from the rewrite that names their
 * addresses (xg_rewrite) and the packet inside. Written by the XDP program for cached flows and by the worker
 * for all others: from here, so that a flow's packets look the same from the first to the last.
 *
 *   Ethernet (and VLAN tags, as they were) | outer IP | UDP, for GUE | the packet, from its IP header on
 *
 * IP in IP: RFC 2003 (IPv4 in IPv4), 4213 (IPv6 in IPv4), 2473 (either in IPv6). GUE: variant 1, where the
 * inner IP header follows the UDP header at once, its version telling which it is
 * (draft-ietf-intarea-gue, section 4; Linux net/ipv4/fou_core.c).
 *
 * Outer TTL and hop limit: 64. DSCP and ECN: the inner ones (RFC 2983 uniform, RFC 6040). IPv4: DF set and id
 * 0 (RFC 6864, 4.1), so what does not fit is not cut up on the way. UDP checksum: 0, "none", in IPv6 as RFC
 * 6935 and 6936 allow tunnels: what is inside has its own. The flow's hash spreads flows over the receiver's
 * queues and over equal paths: it is the UDP source port (49152 and up), the flow label (RFC 6438), and as
 * many of the source address' last bits as the rewrite says.
 *
 * For C++ and BPF C.
 */
#ifndef XDPGPU_MAPS_ENCAPSULATION_H
#define XDPGPU_MAPS_ENCAPSULATION_H

#include "flow.h"
#include "hash.h"
#include "parse.h"

#define XG_OUTER_MAX 48u /* bytes of the outer headers, at most: IPv6 and UDP */
#define XG_OUTER_TTL 64u
#define XG_OUTER_FIRST_PORT 0xc000u
#define XG_GUE_PORT 6080u /* of GUE, by IANA */

#ifdef __bpf__
XG_FN void xg_store16(u8* to, u32 value) { *(u16*)to = (u16)value; }
XG_FN void xg_store32(u8* to, u32 value) { *(u32*)to = value; }
#else
XG_FN void xg_store16(u8* to, u32 value) {
  const u16 narrow = (u16)value;
  __builtin_memcpy(to, &narrow, sizeof(narrow));
}
XG_FN void xg_store32(u8* to, u32 value) { __builtin_memcpy(to, &value, sizeof(value)); }
#endif

XG_FN u32 xg_outer_bytes(const xg_rewrite* rewrite) {
  return (rewrite->outer_family == 4 ? 20u : 40u) + (rewrite->udp_port ? 8u : 0u);
}

/* The packet inside: what its outer headers say of it. */
typedef struct xg_inner xg_inner;
struct xg_inner {
  u32 family;
  u32 bytes; /* of the IP packet; a jumbogram's are more than any */
  u32 tos;   /* DSCP and ECN */
};

/* ip: a header of 20 (IPv4) or 40 (IPv6) bytes. */
XG_FN xg_inner xg_inner_packet(const u8* ip, u32 family) {
  xg_inner inner = {family, 0, 0};
  if (family == 4) {
    inner.bytes = xg_host16(xg_load16(ip + 2));
    inner.tos = ip[1];
  } else {
    const u32 payload = xg_host16(xg_load16(ip + 4));
    inner.bytes = payload == 0 && ip[6] == XG_IPPROTO_HOPOPTS ? ~0u : 40u + payload;
    inner.tos = (xg_host16(xg_load16(ip)) >> 4) & 0xffu;
  }
  return inner;
}

/* The low 16 bits of SipHash-1-3 over the forty bytes of a flow's key in gpu/stages (source and destination
 * in sixteen bytes each, ports, family, protocol, 0, 0). */
XG_FN u32 xg_outer_hash(const xg_packet* packet, const xg_rewrite* rewrite) {
  const xg_flow_key* key = &packet->key;
  const u32 ports = packet->flags & XG_PKT_PORTS ? key->src_port | (u32)key->dst_port << 16 : 0u;
  XG_SIP_BEGIN(rewrite->hash_key[0], rewrite->hash_key[1]);
  XG_SIP_WORD(xg_pair(key->src[0], key->src[1]));
  XG_SIP_WORD(xg_pair(key->src[2], key->src[3]));
  XG_SIP_WORD(xg_pair(key->dst[0], key->dst[1]));
  XG_SIP_WORD(xg_pair(key->dst[2], key->dst[3]));
  XG_SIP_WORD(xg_pair(ports, key->family | (u32)packet->protocol << 8));
  XG_SIP_WORD((u64)40 << 56);
  XG_SIP_END();
  return (u32)(v0 ^ v1 ^ v2 ^ v3) & 0xffffu;
}

XG_FN u32 xg_outer_protocol(const xg_rewrite* rewrite, const xg_inner* inner) {
  if (rewrite->udp_port) return XG_IPPROTO_UDP;
  return inner->family == 4 ? XG_IPPROTO_IPIP : XG_IPPROTO_IPV6;
}

/* The last word of the source: network order, so that its last two bytes are the upper ones. */
XG_FN u32 xg_outer_spread(const xg_rewrite* rewrite, u32 word, u32 hash) {
  return word | (u32)(xg_host16((u16)hash) & rewrite->spread) << 16;
}

/* 20 bytes at `to`. */
XG_FN void xg_write_outer4(const xg_rewrite* rewrite, const xg_inner* inner, u32 hash, u8* to) {
  const u32 bytes = xg_host16((u16)(inner->bytes + xg_outer_bytes(rewrite)));
  const u32 ttl = XG_OUTER_TTL | xg_outer_protocol(rewrite, inner) << 8;
  const u32 src = xg_outer_spread(rewrite, rewrite->outer_src[0], hash);
  const u32 dst = rewrite->outer_dst[0];
  const u32 first = 0x45u | inner->tos << 8;
  const u32 no_fragments = 0x40u;
  u32 sum =
      first + bytes + no_fragments + ttl + (src & 0xffffu) + (src >> 16) + (dst & 0xffffu) + (dst >> 16);
  sum = (sum & 0xffffu) + (sum >> 16);
  sum = (sum & 0xffffu) + (sum >> 16);
  xg_store16(to, first);
  xg_store16(to + 2, bytes);
  xg_store32(to + 4, no_fragments << 16);
  xg_store16(to + 8, ttl);
  xg_store16(to + 10, ~sum);
  xg_store32(to + 12, src);
  xg_store32(to + 16, dst);
}

/* 40 bytes at `to`. */
XG_FN void xg_write_outer6(const xg_rewrite* rewrite, const xg_inner* inner, u32 hash, u8* to) {
  const u32 payload = inner->bytes + xg_outer_bytes(rewrite) - 40u;
  xg_store32(to, xg_host32(6u << 28 | inner->tos << 20 | hash));
  xg_store16(to + 4, xg_host16((u16)payload));
  xg_store16(to + 6, xg_outer_protocol(rewrite, inner) | XG_OUTER_TTL << 8);
  for (u32 i = 0; i < 3u; i++) xg_store32(to + 8 + i * 4, rewrite->outer_src[i]);
  xg_store32(to + 20, xg_outer_spread(rewrite, rewrite->outer_src[3], hash));
  for (u32 i = 0; i < 4u; i++) xg_store32(to + 24 + i * 4, rewrite->outer_dst[i]);
}

/* 8 bytes at `to`. */
XG_FN void xg_write_outer_udp(const xg_rewrite* rewrite, const xg_inner* inner, u32 hash, u8* to) {
  xg_store16(to, xg_host16((u16)(XG_OUTER_FIRST_PORT | hash)));
  xg_store16(to + 2, rewrite->udp_port);
  xg_store16(to + 4, xg_host16((u16)(inner->bytes + 8u)));
  xg_store16(to + 6, 0);
}

#endif
