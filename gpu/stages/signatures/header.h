/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/header.h: a rule's header, and its conditions on the packet's.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_HEADER_H
#define XDPGPU_STAGES_SIGNATURES_HEADER_H

#include "gpu/stages/signatures/packet.h"

/* Whether a port is in one of the ranges. */
XG_FN bool xg_signatures_in_ports(xg_words image, u32 at, u32 port) {
  u32 count = image.v[at];
  for (u32 i = 1u; i <= count; i++) {
    u32 range = image.v[at + i];
    if (port >= (range & 0xffffu) && port <= range >> 16) return true;
  }
  return false;
}

/* Whether the four words at `at` are a number that is less than the address, most significant word first. */
XG_FN bool xg_signatures_below(xg_words image, u32 at, u32 a0, u32 a1, u32 a2, u32 a3) {
  u32 w = image.v[at];
  if (w != a0) return w < a0;
  w = image.v[at + 1u];
  if (w != a1) return w < a1;
  w = image.v[at + 2u];
  if (w != a2) return w < a2;
  return image.v[at + 3u] < a3;
}

XG_FN bool xg_signatures_in_addresses(xg_words image, u32 at, u32 family, u32 a0, u32 a1, u32 a2, u32 a3) {
  u32 four = family == 4u ? 1u : 0u;
  u32 count = image.v[at + (1u - four) * 2u];
  u32 ranges = image.v[at + (1u - four) * 2u + 1u];
  u32 words = four != 0u ? 2u : 8u;
  /* The first range that does not end in front of the address. */
  u32 low = 0u;
  u32 high = count;
  while (low < high) {
    u32 middle = low + (high - low) / 2u;
    u32 last = ranges + middle * words + words / 2u;
    bool before = false;
    if (four != 0u)
      before = image.v[last] < a0;
    else
      before = xg_signatures_below(image, last, a0, a1, a2, a3);
    if (before)
      low = middle + 1u;
    else
      high = middle;
  }
  if (low == count) return false;
  u32 first = ranges + low * words;
  if (four != 0u) return image.v[first] <= a0;
  if (xg_signatures_below(image, first, a0, a1, a2, a3)) return true;
  return image.v[first] == a0 && image.v[first + 1u] == a1 && image.v[first + 2u] == a2 &&
         image.v[first + 3u] == a3;
}

XG_FN bool xg_signatures_one_way(xg_words image, u32 rule, xg_view p, XG_INOUT(xg_signatures_packet) s,
                                 bool turned) {
  u32 flags = image.v[rule + XG_SIGNATURE_FLAGS];
  if ((flags & XG_SIGNATURE_ANY_SRC_PORT) == 0u &&
      (s.has_ports == 0u || !xg_signatures_in_ports(image, image.v[rule + XG_SIGNATURE_SRC_PORTS],
                                                    turned ? s.dst_port : s.src_port)))
    return false;
  if ((flags & XG_SIGNATURE_ANY_DST_PORT) == 0u &&
      (s.has_ports == 0u || !xg_signatures_in_ports(image, image.v[rule + XG_SIGNATURE_DST_PORTS],
                                                    turned ? s.src_port : s.dst_port)))
    return false;
  if ((flags & XG_SIGNATURE_ANY_SRC) == 0u &&
      !xg_signatures_in_addresses(
          image, image.v[rule + XG_SIGNATURE_SRC], p.family, xg_swap32(turned ? p.dst[0] : p.src[0]),
          xg_swap32(turned ? p.dst[1] : p.src[1]), xg_swap32(turned ? p.dst[2] : p.src[2]),
          xg_swap32(turned ? p.dst[3] : p.src[3])))
    return false;
  return (flags & XG_SIGNATURE_ANY_DST) != 0u ||
         xg_signatures_in_addresses(
             image, image.v[rule + XG_SIGNATURE_DST], p.family, xg_swap32(turned ? p.src[0] : p.dst[0]),
             xg_swap32(turned ? p.src[1] : p.dst[1]), xg_swap32(turned ? p.src[2] : p.dst[2]),
             xg_swap32(turned ? p.src[3] : p.dst[3]));
}

XG_FN bool xg_signatures_bits(u32 mode, u32 bits, u32 wanted) {
  if (mode == XG_BITS_EXACTLY) return bits == wanted;
  if (mode == XG_BITS_ALL) return (bits & wanted) == wanted;
  if (mode == XG_BITS_ANY) return (bits & wanted) != 0u;
  return (bits & wanted) != wanted;
}

/* A field's value. False: the packet has none. */
XG_FN bool xg_signatures_field(xg_batch b, u32 field, xg_view p, XG_INOUT(xg_payload_cursor) c,
                               XG_INOUT(xg_signatures_packet) s, XG_INOUT(u32) value) {
  bool v4 = p.family == 4u;
  bool tcp = s.protocol == 6u && s.transport != 0u;
  bool icmp = s.protocol == (v4 ? 1u : 58u) && s.transport != 0u;
  value = 0u;
  if (field == XG_FIELD_PAYLOAD_BYTES) {
    value = s.payload_bytes;
    return true;
  }
  if (field == XG_FIELD_TTL) {
    value = xg_payload8(b, c, s.ip + (v4 ? 8u : 7u));
    return true;
  }
  if (field == XG_FIELD_TOS) {
    value = xg_payload8(b, c, s.ip + 1u);
    return v4;
  }
  if (field == XG_FIELD_IP_ID) {
    value = xg_payload16(b, c, s.ip + 4u);
    return v4;
  }
  if (field == XG_FIELD_FRAGMENT_OFFSET) {
    value = s.fragment_offset;
    return s.has_fragment_offset != 0u;
  }
  if (field == XG_FIELD_ICMP_TYPE || field == XG_FIELD_ICMP_CODE) {
    value = xg_payload8(b, c, s.transport + (field == XG_FIELD_ICMP_TYPE ? 0u : 1u));
    return icmp;
  }
  if (field == XG_FIELD_ICMP_ID || field == XG_FIELD_ICMP_SEQ) {
    if (!icmp) return false;
    u32 type = xg_payload8(b, c, s.transport);
    bool has = v4 ? type == 0u || type == 8u || (type >= 13u && type <= 18u) : type == 128u || type == 129u;
    if (v4 || xg_payload8(b, c, s.transport + 1u) == 0u)
      value = xg_payload16(b, c, s.transport + (field == XG_FIELD_ICMP_ID ? 4u : 6u));
    return has;
  }
  if (field == XG_FIELD_TCP_WINDOW) {
    value = xg_payload16(b, c, s.transport + 14u);
    return tcp;
  }
  value = xg_swap32(xg_payload32(b, c, s.transport + (field == XG_FIELD_TCP_SEQ ? 4u : 8u)));
  return tcp;
}

XG_FN bool xg_signatures_condition(xg_batch b, u32 at, xg_view p, XG_INOUT(xg_payload_cursor) c,
                                   XG_INOUT(xg_signatures_packet) s, u32 connection) {
  u32 word = b.image.v[at];
  u32 kind = XG_CONDITION_KIND(word);
  u32 argument = XG_CONDITION_ARGUMENT(word);
  if (kind == XG_CONDITION_FIELD_IS) {
    u32 value = 0u;
    if (!xg_signatures_field(b, argument, p, c, s, value)) return false;
    bool inside = value >= b.image.v[at + 1u] && value <= b.image.v[at + 2u];
    return inside != ((word & XG_CONDITION_NEGATED) != 0u);
  }
  if (kind == XG_CONDITION_TCP_FLAGS) {
    if (s.protocol != 6u || s.transport == 0u) return false;
    u32 flags = xg_payload8(b, c, s.transport + 13u);
    u32 wanted = b.image.v[at + 1u] & 0xffu;
    u32 some = b.image.v[at + 2u];
    if ((some & 0xffu) != 0u && (flags & some & 0xffu) == 0u) return false;
    if ((some >> 8) != 0u && (flags & (some >> 8)) == 0u) return false;
    if (wanted == 0u && flags != 0u) return argument == XG_BITS_NOT_ALL;
    return xg_signatures_bits(argument, flags & (b.image.v[at + 1u] >> 8), wanted);
  }
  if (kind == XG_CONDITION_FRAGMENT_BITS) {
    if (p.family != 4u) return false;
    u32 bits = xg_payload8(b, c, s.ip + 6u) >> 5;
    u32 wanted = b.image.v[at + 1u];
    return xg_signatures_bits(argument, bits, wanted) && (argument != XG_BITS_ALL || bits != wanted);
  }
  if (kind == XG_CONDITION_IP_OPTION) {
    bool has = false;
    return p.family == 4u && xg_signatures_option(b, c, s.ip, argument, has) && has;
  }
  if (kind == XG_CONDITION_CONNECTION) return (connection & b.image.v[at + 1u]) == b.image.v[at + 2u];
  return p.src[0] == p.dst[0] && p.src[1] == p.dst[1] && p.src[2] == p.dst[2] && p.src[3] == p.dst[3];
}

/* Whether the message is one that the rule asks for, its names aside. said: XG_SIGNATURES_FOUND_DNS. */
XG_FN bool xg_signatures_asks_for(xg_words image, u32 asks, u32 said) {
  u32 wanted = image.v[asks];
  bool is_answer = (said & XG_DNS_IS_ANSWER) != 0u;
  if ((said & XG_DNS_IS) == 0u) return false;
  if ((wanted & (is_answer ? XG_ASKS_ANSWERS : XG_ASKS_QUERIES)) == 0u) return false;
  u32 operations = XG_ASKS_OPERATIONS(wanted);
  if (operations + XG_ASKS_NAMES(wanted) == 0u) return true;
  if ((said & XG_DNS_IS_READ) == 0u) return false;
  if (XG_ASKS_NAMES(wanted) != 0u && (said >> XG_DNS_NAMES) == 0u) return false;
  for (u32 i = 1u; i <= operations; i++) {
    u32 operation = image.v[asks + i];
    if (((operation & 0xffu) == XG_DNS_OPERATION(said)) == ((operation & XG_ASKS_NOT) != 0u)) return false;
  }
  return true;
}

/* Whether the packet is one that the rule's payload is looked for in. said: XG_SIGNATURES_FOUND_DNS;
 * connection: XG_CONNECTION_*. */
XG_FN bool xg_signatures_applies(XG_IN(xg_batch) b, u32 rule, XG_IN(xg_view) p, XG_INOUT(xg_payload_cursor) c,
                                 XG_INOUT(xg_signatures_packet) s, u32 said, u32 connection) {
  u32 flags = b.image.v[rule + XG_SIGNATURE_FLAGS];
  if ((flags & (p.family == 4u ? XG_SIGNATURE_V4 : XG_SIGNATURE_V6)) == 0u) return false;
  u32 protocols = b.image.v[rule + XG_SIGNATURE_PROTOCOLS];
  if (((b.image.v[protocols + (s.protocol >> 5)] >> (s.protocol & 31u)) & 1u) == 0u) return false;
  if (b.image.v[rule + XG_SIGNATURE_STEPS + 1u] != 0u && s.payload_bytes == 0u) return false;
  u32 asks = b.image.v[rule + XG_SIGNATURE_DNS];
  if (asks != 0u && !xg_signatures_asks_for(b.image, asks, said)) return false;
  if (!xg_signatures_one_way(b.image, rule, p, s, false) &&
      ((flags & XG_SIGNATURE_BOTH_WAYS) == 0u || !xg_signatures_one_way(b.image, rule, p, s, true)))
    return false;
  u32 conditions = b.image.v[rule + XG_SIGNATURE_CONDITIONS];
  u32 count = b.image.v[rule + XG_SIGNATURE_CONDITIONS + 1u];
  for (u32 i = 0u; i < count; i++)
    if (!xg_signatures_condition(b, conditions + i * XG_SIGNATURES_CONDITION, p, c, s, connection))
      return false;
  return true;
}

#endif
