/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/inner.h: what is inside of a packet's tunnel, for pipelines that a policy gives "inner". Their
 * stages then see the inner packet's addresses, ports, protocol and flags where the outer ones stood.
 *
 *   tunnel                 by                       inside
 *   IP in IP               protocol 4, 41           IPv4, IPv6 (RFC 2003, 2473, 4213)
 *   GRE                    protocol 47, version 0   IPv4, IPv6, Ethernet (RFC 2784, 2890)
 *   VXLAN                  UDP to port 4789         Ethernet (RFC 7348)
 *   GENEVE                 UDP to port 6081         Ethernet, IPv4, IPv6 (RFC 8926)
 *   GTP-U                  UDP to port 2152         IPv4, IPv6 (3GPP TS 29.281; G-PDUs)
 *   GUE                    UDP to port 6080         IPv4, IPv6 (draft-ietf-intarea-gue, variants 0 and 1)
 *
 * The port is the destination's alone, as it is for who takes packets out: senders choose the other one.
 *
 * A packet without a tunnel is seen as ever. One whose tunnel hides what is inside is seen as malformed and
 * without addresses, so that nothing decides on addresses that its receiver does not go by: its headers are
 * cut off, contradict each other or reach farther than XG_INNER_REACH; its options are not known; it is a
 * fragment, or was malformed already; or what is inside is a tunnel itself. An inner frame that is not IP has
 * no addresses either, and is not malformed.
 *
 * Inner headers are held to the rules of maps/parse.h. They have to stand in the frame's first buffer.
 */
#ifndef XDPGPU_STAGES_INNER_H
#define XDPGPU_STAGES_INNER_H

#include "gpu/stages/view.h"

/* A header's first byte may stand so far from the frame's: what stages read of a transport header, and of the
 * packet that an ICMP error quotes, is then among the XG_INNER_REACH bytes. */
#define XG_INNER_FAR (XG_INNER_REACH - 76u)
#define XG_INNER_EXTENSIONS 8u

/* Of the metadata's flags: those that are not of the packet's headers. */
#define XG_INNER_KEPT (XG_PKT_MANAGEMENT | XG_PKT_VLAN | XG_PKT_UNCACHED | XG_PKT_EGRESS | XG_PKT_AUDIT)

/* What a tunnel header says of what is behind it: an EtherType, or */
#define XG_INNER_NONE 0u   /* there is no packet inside */
#define XG_INNER_HIDDEN 1u /* it cannot be told */
#define XG_INNER_ETHERNET 0x6558u
#define XG_INNER_IPV4 0x0800u
#define XG_INNER_IPV6 0x86ddu

/* Whether a header's bytes are there, in front of `end`, where the layer around it ends. */
XG_FN bool xg_inner_has(xg_view p, u32 end, u32 at, u32 bytes) {
  return at <= XG_INNER_FAR && at + bytes <= end && at + bytes <= p.length;
}

/* By the version in an IP header's first byte. */
XG_FN u32 xg_inner_version(u32 first) {
  u32 version = first >> 4;
  if (version == 4u) return XG_INNER_IPV4;
  return version == 6u ? XG_INNER_IPV6 : XG_INNER_HIDDEN;
}

XG_FN u32 xg_inner_known(u32 type) {
  bool known = type == XG_INNER_ETHERNET || type == XG_INNER_IPV4 || type == XG_INNER_IPV6;
  return known ? type : XG_INNER_HIDDEN;
}

/* Each of these goes from a tunnel header at `at` to what is behind it. */

/* Checksum, key and sequence number may be there, nothing else: routing is of RFC 1701. */
XG_FN u32 xg_inner_gre(xg_view p, u32 end, XG_INOUT(u32) at) {
  if (!xg_inner_has(p, end, at, 4u)) return XG_INNER_HIDDEN;
  u32 bits = xg_view16(p, at);
  if ((bits & 0x4fffu) != 0u) return XG_INNER_HIDDEN;
  u32 type = xg_view16(p, at + 2u);
  at += 4u + 4u * (((bits >> 15) & 1u) + ((bits >> 13) & 1u) + ((bits >> 12) & 1u));
  return xg_inner_known(type);
}

/* Flag I, and at most that of the group policy beside it: others, as of VXLAN-GPE, may mean another payload.
 */
XG_FN u32 xg_inner_vxlan(xg_view p, u32 end, XG_INOUT(u32) at) {
  if (!xg_inner_has(p, end, at, 8u) || (xg_view8(p, at) & 0x7fu) != 0x08u) return XG_INNER_HIDDEN;
  at += 8u;
  return XG_INNER_ETHERNET;
}

XG_FN u32 xg_inner_geneve(xg_view p, u32 end, XG_INOUT(u32) at) {
  if (!xg_inner_has(p, end, at, 8u)) return XG_INNER_HIDDEN;
  u32 first = xg_view8(p, at);
  if (first >> 6 != 0u) return XG_INNER_HIDDEN;
  u32 type = xg_view16(p, at + 2u);
  at += 8u + (first & 63u) * 4u;
  return xg_inner_known(type);
}

/* Version 1 of GTP, not GTP'. Other messages than G-PDUs are the tunnel's own. */
XG_FN u32 xg_inner_gtp(xg_view p, XG_INOUT(u32) end, XG_INOUT(u32) at) {
  if (!xg_inner_has(p, end, at, 8u)) return XG_INNER_HIDDEN;
  u32 bits = xg_view8(p, at);
  if (bits >> 4 != 3u) return XG_INNER_HIDDEN;
  if (xg_view8(p, at + 1u) != 255u) return XG_INNER_NONE;
  u32 own_end = at + 8u + xg_view16(p, at + 2u);
  if (own_end > end) return XG_INNER_HIDDEN;
  end = own_end;
  at += 8u;
  if ((bits & 7u) != 0u) {
    if (!xg_inner_has(p, end, at, 4u)) return XG_INNER_HIDDEN;
    u32 next = (bits & 4u) != 0u ? xg_view8(p, at + 3u) : 0u;
    at += 4u;
    for (u32 i = 0u; next != 0u; i++) {
      if (i == XG_INNER_EXTENSIONS || !xg_inner_has(p, end, at, 4u)) return XG_INNER_HIDDEN;
      u32 bytes = xg_view8(p, at) * 4u;
      if (bytes == 0u || !xg_inner_has(p, end, at + bytes - 1u, 1u)) return XG_INNER_HIDDEN;
      next = xg_view8(p, at + bytes - 1u);
      at += bytes;
    }
  }
  if (!xg_inner_has(p, end, at, 1u)) return XG_INNER_HIDDEN;
  return xg_inner_version(xg_view8(p, at));
}

/* Variant 1 is the inner IP header itself. Of variant 0 no flags are known: they may stand for a fragment, or
 * for something that is done to the payload. Its control messages are the tunnel's own. */
XG_FN u32 xg_inner_gue(xg_view p, u32 end, XG_INOUT(u32) at) {
  if (!xg_inner_has(p, end, at, 4u)) return XG_INNER_HIDDEN;
  u32 first = xg_view8(p, at);
  if (first >> 6 == 1u) return xg_inner_version(first);
  if (first >> 6 != 0u) return XG_INNER_HIDDEN;
  if ((first & 0x20u) != 0u) return XG_INNER_NONE;
  u32 protocol = xg_view8(p, at + 1u);
  u32 flags = xg_view16(p, at + 2u);
  at += 4u + (first & 31u) * 4u;
  if (flags != 0u || (protocol != 4u && protocol != 41u)) return XG_INNER_HIDDEN;
  return protocol == 4u ? XG_INNER_IPV4 : XG_INNER_IPV6;
}

XG_FN bool xg_inner_port(u32 port) {
  return port == 4789u || port == 6081u || port == 2152u || port == 6080u;
}

/* Whether a packet with these headers has a tunnel header. */
XG_FN bool xg_inner_tunnel(xg_view p) {
  if (p.protocol == 4u || p.protocol == 41u || p.protocol == 47u) return true;
  return p.protocol == 17u && p.has_ports != 0u && xg_inner_port(xg_swap32(p.ports) & 0xffffu);
}

/* From the outer transport header to what is behind the tunnel header. */
XG_FN u32 xg_inner_enter(xg_view p, XG_INOUT(u32) end, XG_INOUT(u32) at) {
  if (p.protocol == 4u) return XG_INNER_IPV4;
  if (p.protocol == 41u) return XG_INNER_IPV6;
  if (p.protocol == 47u) return xg_inner_gre(p, end, at);
  if (!xg_inner_has(p, end, at, 8u)) return XG_INNER_HIDDEN;
  u32 udp_end = at + xg_view16(p, at + 4u);
  if (udp_end < end) end = udp_end;
  at += 8u;
  u32 port = xg_swap32(p.ports) & 0xffffu;
  if (port == 4789u) return xg_inner_vxlan(p, end, at);
  if (port == 6081u) return xg_inner_geneve(p, end, at);
  if (port == 2152u) return xg_inner_gtp(p, end, at);
  return xg_inner_gue(p, end, at);
}

/* The inner packet's own headers, into a view that has none. False: they are malformed. */

XG_FN bool xg_inner_l4(u32 end, u32 at, u32 icmp, XG_INOUT(xg_view) p) {
  bool tcp = p.protocol == 6u;
  bool udp = p.protocol == 17u;
  bool sctp = p.protocol == 132u;
  bool echo = p.protocol == icmp;
  bool known = tcp || udp || sctp || echo;
  /* What is missing of a fragment is in another one. */
  bool rest = (p.flags & XG_PKT_FRAGMENT) != 0u;
  if (at >= end) return !known || rest;
  if (at > XG_INNER_FAR) return false;
  p.l4_offset = at;
  if (!known) return true;
  p.flags |= tcp ? XG_PKT_TCP : udp ? XG_PKT_UDP : sctp ? XG_PKT_SCTP : XG_PKT_ICMP;
  if (!echo) {
    if (!xg_inner_has(p, end, at, 4u)) return rest;
    p.flags |= XG_PKT_PORTS;
    p.has_ports = 1u;
    p.ports = xg_view32(p, at);
  }
  u32 bytes = tcp ? 20u : sctp ? 12u : 8u;
  if (!xg_inner_has(p, end, at, bytes)) return rest;
  if (tcp) {
    bytes = (xg_view8(p, at + 12u) >> 4) * 4u;
    if (bytes < 20u) return false;
    if (at + bytes > end) return rest;
  }
  p.payload_offset = at + bytes;
  if (!udp) return true;
  u32 said = xg_view16(p, at + 4u);
  return said >= 8u && (at + said <= end || rest);
}

XG_FN bool xg_inner_ipv4(u32 end, u32 at, XG_INOUT(xg_view) p) {
  if (!xg_inner_has(p, end, at, 20u)) return false;
  u32 first = xg_view8(p, at);
  u32 header = (first & 15u) * 4u;
  u32 total = xg_view16(p, at + 2u);
  if (first >> 4 != 4u || header < 20u || total < header || at + total > end) return false;
  u32 fragment = xg_view16(p, at + 6u);
  u32 offset = (fragment & 0x1fffu) * 8u;
  if ((fragment & 0x3fffu) != 0u) p.flags |= XG_PKT_FRAGMENT;
  if (offset != 0u) p.flags |= XG_PKT_LATER_FRAGMENT;
  if (offset != 0u && offset + total > 65535u) return false;
  p.flags |= XG_PKT_IPV4;
  p.family = 4u;
  p.protocol = xg_view8(p, at + 9u);
  p.src[0] = xg_view32(p, at + 12u);
  p.dst[0] = xg_view32(p, at + 16u);
  if (offset == 0u) return xg_inner_l4(at + total, at + header, 1u, p);
  p.payload_offset = at + header;
  return true;
}

XG_FN bool xg_inner_ipv6(u32 ip_end, u32 start, XG_INOUT(xg_view) p) {
  u32 end = ip_end;
  u32 at = start;
  if (!xg_inner_has(p, end, at, 40u) || xg_view8(p, at) >> 4 != 6u) return false;
  u32 payload = xg_view16(p, at + 4u);
  u32 next = xg_view8(p, at + 6u);
  /* A jumbogram's length is an option's: it ends where the tunnel does. */
  if (payload != 0u || next != 0u) {
    if (at + 40u + payload > end) return false;
    end = at + 40u + payload;
  }
  p.flags |= XG_PKT_IPV6;
  p.family = 6u;
  for (u32 i = 0u; i < 4u; i++) {
    p.src[i] = xg_view32(p, at + 8u + i * 4u);
    p.dst[i] = xg_view32(p, at + 24u + i * 4u);
  }
  at += 40u;
  for (u32 i = 0u; next == 0u || next == 43u || next == 44u || next == 51u || next == 60u; i++) {
    /* Hop-by-hop options stand first. */
    if (i == XG_INNER_EXTENSIONS || (next == 0u && i > 0u) || !xg_inner_has(p, end, at, 8u)) return false;
    u32 units = xg_view8(p, at + 1u);
    u32 bytes = next == 51u ? (units + 2u) * 4u : (units + 1u) * 8u;
    bool later = false;
    if (next == 44u) {
      bytes = 8u;
      u32 offset = xg_view16(p, at + 2u) & 0xfff8u;
      if ((p.flags & XG_PKT_FRAGMENT) != 0u || offset + end - at - 8u > 65535u) return false;
      later = offset != 0u;
      p.flags |= later ? XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT : XG_PKT_FRAGMENT;
    }
    next = xg_view8(p, at);
    if (at + bytes > end) return false;
    at += bytes;
    if (later) {
      p.protocol = next;
      p.payload_offset = at;
      return true;
    }
  }
  p.protocol = next;
  return xg_inner_l4(end, at, 58u, p);
}

/* Behind the Ethernet header, if there is one, and up to two tags: -> the EtherType of what is there. */
XG_FN u32 xg_inner_ethernet(xg_view p, u32 end, XG_INOUT(u32) at) {
  if (!xg_inner_has(p, end, at, 14u)) return XG_INNER_HIDDEN;
  u32 type = xg_view16(p, at + 12u);
  at += 14u;
  for (u32 i = 0u; type == 0x8100u || type == 0x88a8u || type == 0x9100u; i++) {
    if (i == 2u || !xg_inner_has(p, end, at, 4u)) return XG_INNER_HIDDEN;
    type = xg_view16(p, at + 2u);
    at += 4u;
  }
  /* Lengths of IEEE 802.3 are among these. */
  return type > XG_INNER_HIDDEN ? type : XG_INNER_NONE;
}

/* The view of a packet without headers, which is malformed or not. */
XG_FN xg_view xg_inner_nothing(xg_view p, u32 flags) {
  p.flags = (p.flags & XG_INNER_KEPT) | flags;
  p.protocol = 0u;
  p.l3_offset = 0u;
  p.l4_offset = 0u;
  p.payload_offset = 0u;
  p.family = 0u;
  p.has_ports = 0u;
  p.ports = 0u;
  for (u32 i = 0u; i < 4u; i++) {
    p.src[i] = 0u;
    p.dst[i] = 0u;
  }
  return p;
}

/* What the stages are to see of a packet that was seen by its outer headers. frames: the batch's own, of
 * which `p` may have a copy that ends early. */
XG_SELDOM xg_view xg_inner_view(xg_words frames, xg_view seen) {
  xg_view p = seen;
  if (p.family == 0u || !xg_inner_tunnel(p)) return p;
  u64 start = p.at - u64(XG_METADATA_SIZE);
  p.shift = u32(start) & 3u;
  p.words = XG_AT(xg_words, frames, start - u64(p.shift));
  xg_view hidden = xg_inner_nothing(p, XG_PKT_MALFORMED);
  u32 whole = XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT | XG_PKT_TRACKED | XG_PKT_MALFORMED;
  if ((p.flags & whole) != 0u || p.l4_offset == 0u) return hidden;

  u32 l3 = p.l3_offset;
  u32 end = l3 + (p.family == 4u ? xg_view16(p, l3 + 2u) : 40u + xg_view16(p, l3 + 4u));
  u32 at = p.l4_offset;
  u32 type = xg_inner_enter(p, end, at);
  if (type == XG_INNER_NONE) return p;
  if (type == XG_INNER_ETHERNET) {
    type = xg_inner_ethernet(p, end, at);
    if (type != XG_INNER_HIDDEN && type != XG_INNER_IPV4 && type != XG_INNER_IPV6)
      return xg_inner_nothing(p, 0u);
  }
  if (type == XG_INNER_HIDDEN) return hidden;
  xg_view inner = xg_inner_nothing(p, 0u);
  inner.l3_offset = at;
  bool in_order = false;
  if (type == XG_INNER_IPV4)
    in_order = xg_inner_ipv4(end, at, inner);
  else
    in_order = xg_inner_ipv6(end, at, inner);
  if (!in_order || xg_inner_tunnel(inner)) return hidden;
  return inner;
}

/* As the packet's pipeline wants it seen; behind xg_begin() or xg_view_packet(). */
XG_FN void xg_look_inside(xg_batch b, XG_INOUT(xg_view) p) {
  if (b.image.v[XG_IMAGE_INNER_AT] == 0u) return;
  u32 pipeline = b.image.v[XG_IMAGE_TABLE_AT] + p.pipeline * XG_PIPELINE_WORDS;
  if (b.image.v[pipeline + XG_PIPELINE_INNER] != 0u) p = xg_inner_view(b.frames, p);
}

#endif
