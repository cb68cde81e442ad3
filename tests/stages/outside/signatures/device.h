/* SPDX-License-Identifier: MIT
 *
 * tests/stages/outside/signatures/device.h: `signatures`, rules of intrusion detection systems on single
 * packets (settings.hpp; gpu/signatures.hpp says what a rule means).
 *
 * Search goes in three steps. A filter: at each place of the payload the bytes that stand there, in lower
 * case, are hashed, and a bit vector says whether a pattern has them. Confirmation: the patterns that have
 * them at some place are compared. Evaluation: the rules that are found by a pattern that is there.
 */
#ifndef XDPGPU_OUTSIDE_SIGNATURES_DEVICE_H
#define XDPGPU_OUTSIDE_SIGNATURES_DEVICE_H

#include "gpu/stages/inspection.h"
#include "gpu/stages/payload.h"

/* The body, behind its own words. */
#define XG_SIGNATURES_REACH 2u    /* bytes of a packet that are looked at */
#define XG_SIGNATURES_NO_ROUND 3u /* ~0: it stands where tables have their round (XG_BODY_ROUND) */
#define XG_SIGNATURES_RULES 4u    /* -> XG_SIGNATURES_RULE words each, in the order in which they count */
#define XG_SIGNATURES_ALWAYS 5u   /* -> the numbers of the rules that no pattern finds, and how many */
#define XG_SIGNATURES_PATTERNS 7u /* -> XG_SIGNATURES_PATTERN words each */
#define XG_SIGNATURES_WORK 8u     /* most work on a packet */
#define XG_SIGNATURES_LIMIT 9u    /* action word of a packet that takes more */
#define XG_SIGNATURES_WINDOWS 10u /* XG_SIGNATURES_WINDOW words each: windows of one, two and four bytes */
#define XG_SIGNATURES_WORDS 22u

/* Windows of one length. A hash's highest bits are its place in the filter, and fewer of them its bucket. */
#define XG_SIGNATURES_WINDOW 4u
#define XG_WINDOW_FILTER 0u      /* -> the bit vector */
#define XG_WINDOW_FILTER_BITS 1u /* of a hash: its place there, 5 to 27; 0: no pattern has such a window */
#define XG_WINDOW_BUCKETS 2u     /* -> where each bucket's entries begin, and the last one's end */
#define XG_WINDOW_BUCKET_BITS 3u /* of a hash: its bucket, 1 to 20 */
/* Entry: the window; the pattern's number in the low 24 bits, and its byte at which the window stands. */
#define XG_SIGNATURES_ENTRY 2u

#define XG_SIGNATURES_PATTERN 4u
#define XG_PATTERN_BYTES 0u /* -> the bytes, four a word; in lower case where case does not count */
#define XG_PATTERN_SIZE 1u  /* bytes; XG_PATTERN_NOCASE */
#define XG_PATTERN_RULES 2u /* -> the numbers of the rules that it finds, and how many */
#define XG_PATTERN_NOCASE 0x80000000u

#define XG_SIGNATURES_RULE 10u
#define XG_SIGNATURE_FLAGS 0u
#define XG_SIGNATURE_PROTOCOLS 1u /* -> a bit each, 8 words */
#define XG_SIGNATURE_SRC 2u       /* -> addresses */
#define XG_SIGNATURE_DST 3u
#define XG_SIGNATURE_SRC_PORTS 4u /* -> ports: how many ranges, and each as first | last << 16 */
#define XG_SIGNATURE_DST_PORTS 5u
#define XG_SIGNATURE_CONDITIONS 6u /* -> XG_SIGNATURES_CONDITION words each; how many */
#define XG_SIGNATURE_STEPS 8u      /* -> XG_SIGNATURES_STEP words each; how many */
/* XG_SIGNATURE_FLAGS */
#define XG_SIGNATURE_V4 1u
#define XG_SIGNATURE_V6 2u
#define XG_SIGNATURE_BOTH_WAYS 4u
#define XG_SIGNATURE_ANY_SRC 8u
#define XG_SIGNATURE_ANY_DST 16u
#define XG_SIGNATURE_ANY_SRC_PORT 32u
#define XG_SIGNATURE_ANY_DST_PORT 64u
#define XG_SIGNATURE_ACTION(flags) ((flags) >> 8)
#define XG_SIGNATURE_ALERT 0u
#define XG_SIGNATURE_PASS 1u
#define XG_SIGNATURE_DROP 2u

/* Addresses: how many ranges of IPv4, -> first and last, two words each; how many of IPv6, -> the same, eight
 * words each. By first address; words as numbers, the most significant one first. */
#define XG_SIGNATURES_ADDRESSES 4u

#define XG_SIGNATURES_CONDITION 3u
/* The first word: kind, and for fields the field in bits 8 to 15. */
#define XG_CONDITION_KIND(word) ((word)&0xffu)
#define XG_CONDITION_FIELD_IS 0u /* first and last value */
#define XG_CONDITION_TCP_FLAGS \
  1u /* mode in bits 8 to 15; flags | mask << 8; two sets of which one is there */
#define XG_CONDITION_FRAGMENT_BITS 2u
#define XG_CONDITION_IP_OPTION 3u
#define XG_CONDITION_SAME_ADDRESSES 4u
#define XG_CONDITION_NEGATED 0x10000u
#define XG_CONDITION_ARGUMENT(word) (((word) >> 8) & 0xffu)

/* As signatures::Field has them. */
#define XG_FIELD_PAYLOAD_BYTES 0u
#define XG_FIELD_TTL 1u
#define XG_FIELD_TOS 2u
#define XG_FIELD_IP_ID 3u
#define XG_FIELD_FRAGMENT_OFFSET 4u
#define XG_FIELD_ICMP_TYPE 5u
#define XG_FIELD_ICMP_CODE 6u
#define XG_FIELD_ICMP_ID 7u
#define XG_FIELD_ICMP_SEQ 8u
#define XG_FIELD_TCP_SEQ 9u
#define XG_FIELD_TCP_ACK 10u
#define XG_FIELD_TCP_WINDOW 11u

/* As signatures::Bits has them. */
#define XG_BITS_EXACTLY 0u
#define XG_BITS_ALL 1u
#define XG_BITS_ANY 2u
#define XG_BITS_NOT_ALL 3u

/* Steps: the first word has the kind and flags; an amount is a number, or that of a variable. */
#define XG_SIGNATURES_STEP 8u
#define XG_STEP_KIND(word) ((word)&7u)
#define XG_STEP_CONTENT 0u
#define XG_STEP_TEST 1u
#define XG_STEP_JUMP 2u
#define XG_STEP_EXTRACT 3u
#define XG_STEP_MATH 4u
#define XG_STEP_DATA_AT 5u
#define XG_STEP_NEGATED 0x8u
#define XG_STEP_RELATIVE 0x10u
/* Which of its amounts are variables: */
#define XG_STEP_VAR_OFFSET 0x20u
#define XG_STEP_VAR_DEPTH 0x40u
#define XG_STEP_VAR_DISTANCE 0x80u
#define XG_STEP_VAR_WITHIN 0x100u
#define XG_STEP_VAR_VALUE 0x200u
/* A content. Words: -> bytes, size, offset, depth, distance, within. */
#define XG_STEP_NOCASE 0x400u
#define XG_STEP_ENDS 0x800u
#define XG_STEP_DEPTH 0x1000u
#define XG_STEP_DISTANCE 0x2000u
#define XG_STEP_WITHIN 0x4000u
#define XG_STEP_TRIED_AGAIN 0x8000u
/* The others: word 1 is the number's bytes | base << 8 | XG_NUMBER_*, word 2 its offset, word 3 a mask, a
 * multiplier, words 4 and 5 a value, low and high, word 6 what is said below. */
#define XG_STEP_MASK 0x10000u
#define XG_STEP_ALIGN 0x20000u
#define XG_STEP_ARGUMENT(word)                                                \
  ((word) >> 24) /* of a test and of math the operation; of a jump from where \
                  */
#define XG_NUMBER_TEXT 0x10000u
#define XG_NUMBER_LITTLE 0x20000u
#define XG_TEST_LESS 0u
#define XG_TEST_MORE 1u
#define XG_TEST_EQUAL 2u
#define XG_TEST_LESS_OR_EQUAL 3u
#define XG_TEST_MORE_OR_EQUAL 4u
#define XG_TEST_COMMON_BITS 5u
#define XG_TEST_DIFFERS 6u
#define XG_JUMP_FROM_NUMBER 0u
#define XG_JUMP_FROM_START 1u
#define XG_JUMP_FROM_END 2u /* word 4: the post offset */
/* Extract: word 4 is the alignment; extract and math: word 6 is the variable. */
#define XG_MATH_ADD 0u
#define XG_MATH_SUBTRACT 1u
#define XG_MATH_MULTIPLY 2u
#define XG_MATH_DIVIDE 3u
#define XG_MATH_SHIFT_LEFT 4u
#define XG_MATH_SHIFT_RIGHT 5u

#define XG_SIGNATURES_TRIES 3000u       /* signatures::kMostTries */
#define XG_SIGNATURES_VARIABLES 16u     /* signatures::kMostVariables */
#define XG_SIGNATURES_CHOICES 32u       /* signatures::kMostTriedAgain */
#define XG_SIGNATURES_MOST_PATTERNS 48u /* signatures::kMostPatterns, on a packet */
#define XG_SIGNATURES_SEEN 64u          /* places for their numbers */
#define XG_SIGNATURES_PER_WORK 16u      /* places that a content was looked for at, for one of work */
#define XG_SIGNATURES_EXTENSIONS 8u     /* XG_PARSE_EXTENSIONS */

/* A packet as rules see it. Offsets are of the frame; 0: there is none. */
struct xg_signatures_packet {
  u32 ip;
  u32 protocol;
  u32 fragment; /* 1: one of several */
  u32 has_fragment_offset;
  u32 fragment_offset;
  u32 transport;
  u32 payload;
  u32 payload_bytes;
  u32 has_ports;
  u32 src_port;
  u32 dst_port;
};

/* ---- the packet ---- */

/* Upper-case letters among the four bytes as lower-case ones. */
XG_FN u32 xg_signatures_lower(u32 word) {
  u32 low = word & 0x7f7f7f7fu;
  u32 upper = (low + 0x3f3f3f3fu) & ~(low + 0x25252525u) & ~word & 0x80808080u;
  return word | (upper >> 2);
}

/* The four bytes from `at` on, byte 0 in the low bits; zeros stand for those behind what can be read. */
XG_FN u32 xg_signatures_load(xg_batch b, XG_INOUT(xg_payload_cursor) c, u32 at) {
  if (at >= c.end) return 0u;
  if (c.end - at >= 4u) return xg_payload32(b, c, at);
  u32 word = 0u;
  for (u32 i = 0u; i < 4u; i++) word |= xg_payload8(b, c, at + i) << (i * 8u);
  return word;
}

/* A route's or a timestamp's pointer to its next free place: one of the places, or behind them. */
XG_FN bool xg_option_points(u32 pointer, u32 first, u32 size, u32 bytes) {
  return pointer >= first && (pointer - first) % size == 0u && pointer <= bytes + 1u;
}

/* Walks the IPv4 header's options. False: they cannot be walked. Else `has`: one of this type is there. */
XG_SELDOM bool xg_signatures_option(xg_batch b, XG_INOUT(xg_payload_cursor) c, u32 ip, u32 wanted,
                                    XG_INOUT(bool) has) {
  u32 at = ip + 20u;
  u32 end = ip + (xg_payload8(b, c, ip) & 15u) * 4u;
  has = false;
  while (at < end) {
    u32 type = xg_payload8(b, c, at);
    if (type <= 1u) {
      if (type == wanted) has = true;
      if (type == 0u) break;
      at += 1u;
      continue;
    }
    if (end - at < 2u) break;
    u32 bytes = xg_payload8(b, c, at + 1u);
    if (bytes < 2u || bytes > end - at) return false;
    if (type == wanted) {
      u32 third = bytes > 2u ? xg_payload8(b, c, at + 2u) : 0u;
      u32 fourth = bytes > 3u ? xg_payload8(b, c, at + 3u) & 15u : 0u;
      if (type == 7u || type == 131u || type == 137u) {
        if (bytes >= 3u && third % 4u == 0u && xg_option_points(third, 4u, 4u, bytes)) has = true;
      } else if (type == 68u) {
        if (bytes >= 5u && xg_option_points(third, 5u, fourth == 1u || fourth == 3u ? 8u : 4u, bytes))
          has = true;
      } else if (type == 130u || type == 133u) {
        if (bytes >= 3u) has = true;
      } else if (type == 136u) {
        if (bytes == 4u) has = true;
      }
    }
    at += bytes;
  }
  return true;
}

/* IPv6's extension headers. -> the last one's number, 0: there is none. What a fragment's header says is in
 * `s`. */
XG_SELDOM u32 xg_signatures_extensions(xg_batch b, XG_INOUT(xg_payload_cursor) c,
                                       XG_INOUT(xg_signatures_packet) s) {
  u32 next = xg_payload8(b, c, s.ip + 6u);
  u32 at = s.ip + 40u;
  u32 last = 0u;
  for (u32 i = 0u; i <= XG_SIGNATURES_EXTENSIONS && xg_payload_has(c, at, 8u); i++) {
    if (next != 0u && next != 43u && next != 44u && next != 51u && next != 60u) break;
    last = next;
    u32 bytes = (xg_payload8(b, c, at + 1u) + 1u) * 8u;
    if (next == 51u) bytes = (xg_payload8(b, c, at + 1u) + 2u) * 4u;
    if (next == 44u) {
      bytes = 8u;
      u32 field = xg_payload16(b, c, at + 2u);
      if (s.has_fragment_offset == 0u) {
        s.fragment_offset = field & 0xfff8u;
        if ((field & 0xfff9u) != 0u) s.fragment = 1u;
      }
      s.has_fragment_offset = 1u;
    }
    next = xg_payload8(b, c, at);
    at += bytes;
  }
  return last;
}

/* Where the payload of ICMP begins, by the message's type: behind its header and what belongs to it. */
XG_FN u32 xg_signatures_icmp(xg_batch b, XG_INOUT(xg_payload_cursor) c, u32 message, u32 bytes) {
  u32 type = xg_payload8(b, c, message);
  u32 header = 8u;
  if (type == 13u || type == 14u) header = 20u;
  if (type == 9u) header += xg_payload8(b, c, message + 4u) * xg_payload8(b, c, message + 5u) * 4u;
  return header <= bytes ? header : 8u;
}

/* The transport header and the payload, in `bytes` bytes at `message`. False: that one is not whole, or
 * contradicts its length. */
XG_SELDOM bool xg_signatures_payload(xg_batch b, xg_view p, XG_INOUT(xg_payload_cursor) c, u32 message,
                                     u32 bytes, XG_INOUT(xg_signatures_packet) s) {
  u32 header = 0u;
  if (s.protocol == 6u || s.protocol == 17u || s.protocol == 132u) {
    header = s.protocol == 6u ? 20u : s.protocol == 17u ? 8u : 12u;
    if (bytes < header) return false;
    s.transport = message;
    s.has_ports = 1u;
    s.src_port = xg_payload16(b, c, message);
    s.dst_port = xg_payload16(b, c, message + 2u);
    if (s.protocol == 6u) {
      u32 said = (xg_payload8(b, c, message + 12u) >> 4) * 4u;
      if (said < header || said > bytes) return false;
      header = said;
    }
    if (s.protocol == 17u) {
      u32 said = xg_payload16(b, c, message + 4u);
      if (said < header || said > bytes) return false;
      bytes = said;
    }
  } else if (s.protocol == 1u) {
    if (bytes < 8u) return false;
    s.transport = message;
    header = xg_signatures_icmp(b, c, message, bytes);
  } else if (s.protocol == 58u && p.family == 6u) {
    if (bytes < 8u) return false;
    s.transport = message;
    u32 type = xg_payload8(b, c, message);
    u32 code = xg_payload8(b, c, message + 1u);
    bool whole = (type == 128u || type == 129u) && code == 0u;
    if (type == 1u) whole = code <= 6u;
    if (type == 2u) whole = code == 0u;
    if (type == 3u) whole = code <= 1u;
    if (type == 4u) whole = code <= 2u;
    header = whole ? 8u : 4u;
    /* Suricata leaves as many at the end out. */
    if (!whole) bytes = bytes > 12u ? bytes - 8u : 4u;
  } else if (s.protocol == 50u) {
    if (bytes < 8u) return false;
    header = 8u;
  } else {
    return true;
  }
  s.payload = message + header;
  s.payload_bytes = bytes - header;
  return true;
}

/* False: no rule is about such a packet. */
XG_SELDOM bool xg_signatures_see(xg_batch b, xg_view p, XG_INOUT(xg_payload_cursor) c,
                                 XG_INOUT(xg_signatures_packet) s) {
  s.ip = p.l3_offset;
  s.protocol = p.protocol;
  s.fragment = s.has_fragment_offset = s.fragment_offset = s.transport = s.payload = s.payload_bytes = 0u;
  s.has_ports = s.src_port = s.dst_port = 0u;
  if (p.family == 0u || (p.flags & XG_PKT_MALFORMED) != 0u) return false;
  bool more = false;
  u32 end = 0u;
  if (p.family == 4u) {
    u32 header = (xg_payload8(b, c, s.ip) & 15u) * 4u;
    if (header < 20u || !xg_payload_has(c, s.ip, header)) return false;
    bool has = false;
    more = header > 20u;
    if (more && !xg_signatures_option(b, c, s.ip, 0u, has)) return false;
    u32 field = xg_payload16(b, c, s.ip + 6u);
    s.fragment = (field & 0x3fffu) != 0u ? 1u : 0u;
    s.has_fragment_offset = 1u;
    s.fragment_offset = field & 0x1fffu;
    end = s.ip + xg_payload16(b, c, s.ip + 2u);
  } else {
    if (!xg_payload_has(c, s.ip, 40u)) return false;
    u32 last = xg_signatures_extensions(b, c, s);
    if (s.fragment != 0u) s.protocol = 44u;
    if (s.protocol == 59u) s.protocol = last;
    end = s.ip + 40u + xg_payload16(b, c, s.ip + 4u);
    more = end > s.ip + 40u;
    if (s.protocol == 1u) return false;
  }
  if (s.protocol == 0u && more) return false;
  if (s.fragment != 0u) return true;
  u32 message = p.l4_offset != 0u ? p.l4_offset : end;
  if (end > c.end) end = c.end;
  if (message > end) message = end;
  return xg_signatures_payload(b, p, c, message, end - message, s);
}

/* ---- a rule's header and conditions ---- */

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
                                   XG_INOUT(xg_signatures_packet) s) {
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
  return p.src[0] == p.dst[0] && p.src[1] == p.dst[1] && p.src[2] == p.dst[2] && p.src[3] == p.dst[3];
}

/* Whether the packet is one that the rule's payload is looked for in. */
XG_SELDOM bool xg_signatures_applies(xg_batch b, u32 rule, xg_view p, XG_INOUT(xg_payload_cursor) c,
                                     XG_INOUT(xg_signatures_packet) s) {
  u32 flags = b.image.v[rule + XG_SIGNATURE_FLAGS];
  if ((flags & (p.family == 4u ? XG_SIGNATURE_V4 : XG_SIGNATURE_V6)) == 0u) return false;
  u32 protocols = b.image.v[rule + XG_SIGNATURE_PROTOCOLS];
  if (((b.image.v[protocols + (s.protocol >> 5)] >> (s.protocol & 31u)) & 1u) == 0u) return false;
  if (b.image.v[rule + XG_SIGNATURE_STEPS + 1u] != 0u && s.payload_bytes == 0u) return false;
  if (!xg_signatures_one_way(b.image, rule, p, s, false) &&
      ((flags & XG_SIGNATURE_BOTH_WAYS) == 0u || !xg_signatures_one_way(b.image, rule, p, s, true)))
    return false;
  u32 conditions = b.image.v[rule + XG_SIGNATURE_CONDITIONS];
  u32 count = b.image.v[rule + XG_SIGNATURE_CONDITIONS + 1u];
  for (u32 i = 0u; i < count; i++)
    if (!xg_signatures_condition(b, conditions + i * XG_SIGNATURES_CONDITION, p, c, s)) return false;
  return true;
}

/* ---- the payload ---- */

/* Whether bytes of the packet are the pattern's, of which `word` is the first one's place in the image. */
XG_FN bool xg_signatures_same(xg_batch b, XG_INOUT(xg_payload_cursor) c, u32 at, u32 word, u32 size,
                              bool nocase) {
  for (u32 i = 0u; i < size; i += 4u) {
    u32 bytes = xg_signatures_load(b, c, at + i);
    if (nocase) bytes = xg_signatures_lower(bytes);
    u32 other = (bytes ^ b.image.v[word + (i >> 2)]);
    if (size - i < 4u) other &= (1u << ((size - i) * 8u)) - 1u;
    if (other != 0u) return false;
  }
  return true;
}

/* How an inspection of the payload stands: see gpu/signatures.hpp. */
struct xg_signatures_inspection {
  u32 payload; /* where it begins */
  u32 bytes;
  u32 position;
  u32 work;
  u64 variables[XG_SIGNATURES_VARIABLES];
};

XG_FN u64 xg_signatures_value(u32 low, u32 high, bool variable, XG_INOUT(xg_signatures_inspection) n) {
  if (variable) return n.variables[low];
  return u64(low) | u64(high) << 32;
}

/* The first place from `first` on at which a content stands that ends at `end` at the latest; ~0: none. */
XG_FN u32 xg_signatures_find(xg_batch b, u32 step, XG_INOUT(xg_payload_cursor) c,
                             XG_INOUT(xg_signatures_inspection) n, u32 first, u32 end) {
  u32 flags = b.image.v[step];
  u32 word = b.image.v[step + 1u];
  u32 size = b.image.v[step + 2u];
  n.work += 1u;
  if ((flags & XG_STEP_ENDS) != 0u && end < n.bytes) return ~0u;
  if (end < first || end - first < size) return ~0u;
  bool nocase = (flags & XG_STEP_NOCASE) != 0u;
  u32 mask = size >= 4u ? ~0u : (1u << (size * 8u)) - 1u;
  u32 begins = b.image.v[word];
  u32 last = end - size;
  u32 found = ~0u;
  u32 bytes = xg_signatures_load(b, c, n.payload + first);
  for (u32 at = first; found == ~0u && at <= last; at += 4u) {
    u32 next = xg_signatures_load(b, c, n.payload + at + 4u);
    u32 candidates = 0u;
    for (u32 i = 0u; i < 4u; i++) {
      u32 here = i == 0u ? bytes : (bytes >> (i * 8u)) | (next << (32u - i * 8u));
      if (nocase) here = xg_signatures_lower(here);
      if (((here ^ begins) & mask) == 0u && last - at >= i) candidates |= 1u << i;
    }
    while (candidates != 0u && found == ~0u) {
      u32 i = XG_LOWEST_BIT(candidates);
      candidates &= candidates - 1u;
      if (size > 4u) n.work += (size + 15u) / XG_SIGNATURES_PER_WORK;
      if (size <= 4u || xg_signatures_same(b, c, n.payload + at + i, word, size, nocase)) found = at + i;
    }
    bytes = next;
  }
  n.work += ((found == ~0u ? last : found) - first + 1u) / XG_SIGNATURES_PER_WORK;
  return found;
}

/* A content's window, in the payload. */
XG_FN void xg_signatures_window(xg_words image, u32 step, XG_INOUT(xg_signatures_inspection) n,
                                XG_INOUT(u32) first, XG_INOUT(u32) end) {
  u32 flags = image.v[step];
  u32 offset = u32(xg_signatures_value(image.v[step + 3u], 0u, (flags & XG_STEP_VAR_OFFSET) != 0u, n));
  u32 depth = u32(xg_signatures_value(image.v[step + 4u], 0u, (flags & XG_STEP_VAR_DEPTH) != 0u, n));
  first = offset;
  end = n.bytes;
  if ((flags & (XG_STEP_DISTANCE | XG_STEP_WITHIN)) == 0u) {
    if ((flags & XG_STEP_DEPTH) != 0u) end = depth;
  } else {
    u32 distance = 0u;
    u32 from = n.position;
    if ((flags & XG_STEP_DISTANCE) != 0u) {
      distance = u32(xg_signatures_value(image.v[step + 5u], 0u, (flags & XG_STEP_VAR_DISTANCE) != 0u, n));
      bool in_front = (distance & 0x80000000u) != 0u && 0u - distance > n.position;
      from = in_front ? 0u : n.position + distance;
    }
    if ((flags & XG_STEP_WITHIN) != 0u) {
      u32 within = n.position + distance +
                   u32(xg_signatures_value(image.v[step + 6u], 0u, (flags & XG_STEP_VAR_WITHIN) != 0u, n));
      /* As numbers with a sign. */
      if ((end ^ 0x80000000u) > (within ^ 0x80000000u)) end = within;
    }
    if ((flags & XG_STEP_DEPTH) != 0u && depth + n.position < end) end = depth + n.position;
    if (from > first) first = from;
  }
  if ((flags & (XG_STEP_VAR_OFFSET | XG_STEP_VAR_DEPTH | XG_STEP_VAR_DISTANCE)) != 0u) end += first;
  if (end > n.bytes) end = n.bytes;
}

/* A digit's value, 255: it is none. */
XG_FN u32 xg_signatures_digit(u32 byte) {
  if (byte >= 48u && byte <= 57u) return byte - 48u;
  u32 letter = byte | 32u;
  return letter >= 97u && letter <= 122u ? letter - 87u : 255u;
}

/* A number that is written as text, as C's strtoull() has it. False: there is none, or it is too large. */
XG_SELDOM bool xg_signatures_text(xg_batch b, XG_INOUT(xg_payload_cursor) c, u32 at, u32 most, u32 base,
                                  XG_INOUT(u64) value, XG_INOUT(u32) bytes) {
  u32 i = 0u;
  u32 byte = most > 0u ? xg_payload8(b, c, at) : 0u;
  while (i < most && (byte == 32u || (byte >= 9u && byte <= 13u))) {
    i += 1u;
    byte = i < most ? xg_payload8(b, c, at + i) : 0u;
  }
  bool minus = byte == 45u;
  if (minus || byte == 43u) {
    i += 1u;
    byte = i < most ? xg_payload8(b, c, at + i) : 0u;
  }
  if (byte == 48u && (base == 0u || base == 16u)) {
    u32 x = i + 1u < most ? xg_payload8(b, c, at + i + 1u) : 0u;
    u32 digit = i + 2u < most ? xg_signatures_digit(xg_payload8(b, c, at + i + 2u)) : 255u;
    if ((x | 32u) == 120u && digit < 16u) {
      i += 2u;
      base = 16u;
    }
  }
  if (base == 0u) base = i < most && xg_payload8(b, c, at + i) == 48u ? 8u : 10u;
  u32 digits = 0u;
  bool large = false;
  value = u64(0);
  while (i < most) {
    u32 digit = xg_signatures_digit(xg_payload8(b, c, at + i));
    if (digit >= base) break;
    u64 high = (value >> 32) * u64(base);
    u64 low = (value & u64(0xffffffffu)) * u64(base) + u64(digit);
    high += low >> 32;
    if ((high >> 32) != u64(0)) large = true;
    value = (high << 32) | (low & u64(0xffffffffu));
    digits += 1u;
    i += 1u;
  }
  bytes = i;
  if (minus) value = u64(0) - value;
  return digits != 0u && !large;
}

/* What a step reads: value, where, and how many bytes. False: it is not there. */
XG_SELDOM bool xg_signatures_number(xg_batch b, u32 step, XG_INOUT(xg_payload_cursor) c,
                                    XG_INOUT(xg_signatures_inspection) n, XG_INOUT(u64) value,
                                    XG_INOUT(u32) at, XG_INOUT(u32) bytes) {
  u32 flags = b.image.v[step];
  u32 number = b.image.v[step + 1u];
  u32 offset = u32(xg_signatures_value(b.image.v[step + 2u], 0u, (flags & XG_STEP_VAR_OFFSET) != 0u, n));
  bool relative = (flags & XG_STEP_RELATIVE) != 0u;
  value = u64(0);
  bytes = number & 0xffu;
  at = relative ? n.position : 0u;
  if (n.bytes == 0u) return false;
  /* Offsets have a sign: what comes to stand in front of the payload is not there. */
  if ((offset & 0x80000000u) != 0u && 0u - offset > at) return false;
  at += offset;
  if (relative && at >= n.bytes && (XG_STEP_KIND(flags) != XG_STEP_JUMP || bytes != 0u)) return false;
  if (at > n.bytes || bytes > n.bytes - at) return false;
  u32 from = n.payload + at;
  if ((number & XG_NUMBER_TEXT) != 0u)
    return xg_signatures_text(b, c, from, bytes, (number >> 8) & 0xffu, value, bytes);
  for (u32 i = 0u; i < bytes; i++) {
    u32 place = (number & XG_NUMBER_LITTLE) != 0u ? bytes - 1u - i : i;
    value = value << 8 | u64(xg_payload8(b, c, from + place));
  }
  return true;
}

/* The bits that the mask has, the lowest one of which comes to the right. */
XG_FN u64 xg_signatures_masked(u64 value, u32 flags, u32 mask) {
  if ((flags & XG_STEP_MASK) == 0u) return value;
  return (value & u64(mask)) >> XG_LOWEST_BIT(mask);
}

/* A step that is no content. */
XG_SELDOM bool xg_signatures_step(xg_batch b, u32 step, XG_INOUT(xg_payload_cursor) c,
                                  XG_INOUT(xg_signatures_inspection) n) {
  u32 flags = b.image.v[step];
  u32 kind = XG_STEP_KIND(flags);
  bool negated = (flags & XG_STEP_NEGATED) != 0u;
  u64 constant =
      xg_signatures_value(b.image.v[step + 4u], b.image.v[step + 5u], (flags & XG_STEP_VAR_VALUE) != 0u, n);
  if (kind == XG_STEP_DATA_AT) {
    if ((flags & XG_STEP_VAR_VALUE) != 0u && constant >= u64(100000000u)) return negated;
    u32 offset = u32(constant);
    bool there = false;
    if ((flags & XG_STEP_RELATIVE) != 0u)
      there = n.position + offset <= n.bytes;
    else
      there = offset < n.bytes;
    return there != negated;
  }
  u64 value = u64(0);
  u32 at = 0u;
  u32 bytes = 0u;
  if (!xg_signatures_number(b, step, c, n, value, at, bytes)) return false;
  u32 mask = b.image.v[step + 3u];
  u32 how = XG_STEP_ARGUMENT(flags);
  if (kind == XG_STEP_TEST) {
    value = xg_signatures_masked(value, flags, mask);
    bool holds = false;
    if (how == XG_TEST_LESS) holds = value < constant;
    if (how == XG_TEST_MORE) holds = value > constant;
    if (how == XG_TEST_EQUAL) holds = value == constant;
    if (how == XG_TEST_LESS_OR_EQUAL) holds = value <= constant;
    if (how == XG_TEST_MORE_OR_EQUAL) holds = value >= constant;
    if (how == XG_TEST_COMMON_BITS) holds = (value & constant) != u64(0);
    if (how == XG_TEST_DIFFERS) holds = value != constant;
    return holds != negated;
  }
  if (kind == XG_STEP_JUMP) {
    value = value * u64(mask);
    if ((flags & XG_STEP_ALIGN) != 0u) value += (u64(4) - (value & u64(3))) & u64(3);
    value += constant;
    if (how == XG_JUMP_FROM_NUMBER) value += u64(at) + u64(bytes);
    if (how == XG_JUMP_FROM_END) value += u64(n.bytes);
    if (value >= u64(0) - (u64(1) << 46)) {
      n.position = 0u;
      return true;
    }
    if (value > u64(n.bytes)) return false;
    n.position = u32(value);
    return true;
  }
  u32 variable = b.image.v[step + 6u];
  if (kind == XG_STEP_EXTRACT) {
    u64 align = constant;
    value = value * u64(mask);
    u64 rest = value % align;
    if (rest != u64(0)) value += align - rest;
    n.position = at + bytes;
    n.variables[variable] = value;
    return true;
  }
  if (how == XG_MATH_DIVIDE && constant == u64(0)) return false;
  if (how == XG_MATH_ADD) value += constant;
  if (how == XG_MATH_SUBTRACT) value -= constant;
  if (how == XG_MATH_MULTIPLY) value = value * constant;
  if (how == XG_MATH_DIVIDE) value = value / constant;
  if (how == XG_MATH_SHIFT_LEFT) value = constant < u64(64) ? value << u32(constant) : u64(0);
  if (how == XG_MATH_SHIFT_RIGHT) value = value >> (u32(constant) & 63u);
  n.position = at + bytes;
  n.variables[variable] = xg_signatures_masked(value, flags, mask);
  return true;
}

/* Whether the payload has what the rule looks for. Adds to `work`, which ends it at `most`. */
XG_SELDOM bool xg_signatures_inspect(xg_batch b, u32 rule, XG_INOUT(xg_payload_cursor) c,
                                     XG_INOUT(xg_signatures_packet) s, u32 most, XG_INOUT(u32) work) {
  u32 steps = b.image.v[rule + XG_SIGNATURE_STEPS];
  u32 count = b.image.v[rule + XG_SIGNATURE_STEPS + 1u];
  xg_signatures_inspection n;
  n.payload = s.payload;
  n.bytes = s.payload_bytes;
  n.position = 0u;
  n.work = work;
  for (u32 i = 0u; i < XG_SIGNATURES_VARIABLES; i++) n.variables[i] = u64(0);
  /* Contents that can be looked for again: the step, and the window that is left. */
  u32 choices[XG_SIGNATURES_CHOICES];
  u32 firsts[XG_SIGNATURES_CHOICES];
  u32 ends[XG_SIGNATURES_CHOICES];
  u32 depth = 0u;
  u32 tries = 0u;
  u32 at = 0u;
  u32 first = 0u;
  u32 end = 0u;
  bool again = false;
  bool holds = true;
  while (at < count && holds && n.work <= most) {
    u32 step = steps + at * XG_SIGNATURES_STEP;
    u32 flags = b.image.v[step];
    bool fails = false;
    if (!again) {
      tries += 1u;
      if (tries == XG_SIGNATURES_TRIES) {
        holds = false;
        break;
      }
    }
    if (XG_STEP_KIND(flags) != XG_STEP_CONTENT) {
      n.work += 1u;
      fails = !xg_signatures_step(b, step, c, n);
    } else {
      bool negated = (flags & XG_STEP_NEGATED) != 0u;
      u32 size = b.image.v[step + 2u];
      if (!again) xg_signatures_window(b.image, step, n, first, end);
      bool looking = true;
      while (looking) {
        looking = false;
        if (first > end || end == 0u) {
          fails = !negated;
        } else {
          u32 found = xg_signatures_find(b, step, c, n, first, end);
          if (negated) {
            fails = found != ~0u && ((flags & XG_STEP_ENDS) == 0u || found + size == end - first);
          } else if (found == ~0u) {
            fails = true;
            /* What is nowhere is nowhere, however the others stand. */
            if ((flags & (XG_STEP_DISTANCE | XG_STEP_WITHIN)) == 0u) depth = 0u;
          } else {
            n.position = found + size;
            first = found + 1u;
            if ((flags & XG_STEP_ENDS) != 0u && n.position != n.bytes) {
              looking = n.work <= most;
            } else if ((flags & XG_STEP_TRIED_AGAIN) != 0u) {
              choices[depth] = at;
              firsts[depth] = first;
              ends[depth] = end;
              depth += 1u;
            } else {
              depth = 0u;
            }
          }
        }
      }
    }
    again = false;
    if (!fails) {
      at += 1u;
    } else if (depth == 0u) {
      holds = false;
    } else {
      depth -= 1u;
      at = choices[depth];
      first = firsts[depth];
      end = ends[depth];
      again = true;
    }
  }
  work = n.work;
  return holds && n.work <= most;
}

/* ---- the stage ---- */

/* Of the inspection's own words: */
#define XG_SIGNATURES_FOUND_WORK 0u
#define XG_SIGNATURES_FOUND_OVER 1u     /* 1: the packet takes more than it may */
#define XG_SIGNATURES_FOUND_PATTERNS 2u /* how many there are */
#define XG_SIGNATURES_FOUND_MORE 3u     /* 1: more rules hold than there is room for */
#define XG_SIGNATURES_FOUND_RULES \
  4u /* XG_MAX_ALERTS words: those that hold, the lowest ones in their order; ~0: none */
#define XG_SIGNATURES_FOUND_SEEN 16u /* 1 + a pattern's number, 0: none */

/* A rule that holds: it takes its place among those that do, and the last one is left out. */
XG_FN void xg_signatures_note(xg_state f, u32 rule) {
  for (u32 i = 0u; i < XG_MAX_ALERTS; i++) {
    u32 before = XG_MIN(f, XG_SIGNATURES_FOUND_RULES + i, rule);
    rule = before > rule ? before : rule;
    if (rule == ~0u) return;
  }
  f.v[XG_SIGNATURES_FOUND_MORE] = 1u;
}

/* A pattern that is there, once. */
XG_FN void xg_signatures_see_pattern(xg_state f, u32 pattern) {
  u32 place = (pattern * 0x9e3779b1u) >> 26;
  for (u32 i = 0u; i < XG_SIGNATURES_SEEN; i++) {
    u32 at = XG_SIGNATURES_FOUND_SEEN + place;
    u32 before = XG_SWAP_IF(f, at, 0u, pattern + 1u);
    if (before == pattern + 1u) return;
    if (before == 0u) {
      if (XG_ADD(f, XG_SIGNATURES_FOUND_PATTERNS, 1u) >= XG_SIGNATURES_MOST_PATTERNS)
        f.v[XG_SIGNATURES_FOUND_OVER] = 1u;
      return;
    }
    place = (place + 1u) & (XG_SIGNATURES_SEEN - 1u);
  }
  f.v[XG_SIGNATURES_FOUND_OVER] = 1u;
}

/* The patterns that have a window of these bytes, which stands at `at`. */
XG_SELDOM void xg_signatures_confirm(xg_batch b, u32 body, u32 windows, u32 hash, u32 bytes, u32 at,
                                     XG_INOUT(xg_payload_cursor) c, XG_INOUT(xg_signatures_packet) s,
                                     xg_state f) {
  u32 bucket =
      b.image.v[windows + XG_WINDOW_BUCKETS] + (hash >> (32u - b.image.v[windows + XG_WINDOW_BUCKET_BITS]));
  u32 entry = b.image.v[bucket];
  u32 end = b.image.v[bucket + 1u];
  for (; entry < end; entry += XG_SIGNATURES_ENTRY) {
    if (b.image.v[entry] != bytes) continue;
    u32 which = b.image.v[entry + 1u];
    u32 pattern = which & 0xffffffu;
    u32 before = which >> 24;
    u32 record = b.image.v[body + XG_SIGNATURES_PATTERNS] + pattern * XG_SIGNATURES_PATTERN;
    u32 size = b.image.v[record + XG_PATTERN_SIZE] & ~XG_PATTERN_NOCASE;
    bool nocase = (b.image.v[record + XG_PATTERN_SIZE] & XG_PATTERN_NOCASE) != 0u;
    if (before > at - s.payload || at - before + size > s.payload + s.payload_bytes) continue;
    if (xg_signatures_same(b, c, at - before, b.image.v[record + XG_PATTERN_BYTES], size, nocase))
      xg_signatures_see_pattern(f, pattern);
  }
}

/* First part: which patterns stand in the payload. Each of the `lanes` takes four places at a time. */
XG_SELDOM void xg_signatures_look(xg_batch b, u32 body, xg_view p, xg_state f, u32 lane, u32 lanes) {
  xg_payload_cursor c = xg_payload_of(b, p, b.image.v[body + XG_SIGNATURES_REACH]);
  xg_signatures_packet s;
  if (!xg_signatures_see(b, p, c, s)) return;
  u32 windows = body + XG_SIGNATURES_WINDOWS;
  u32 end = s.payload + s.payload_bytes;
  for (u32 at = s.payload + lane * 4u; at < end; at += lanes * 4u) {
    if (f.v[XG_SIGNATURES_FOUND_OVER] != 0u) return;
    u32 bytes = xg_signatures_lower(xg_signatures_load(b, c, at));
    u32 next = xg_signatures_lower(xg_signatures_load(b, c, at + 4u));
    u32 left = end - at;
    /* Bit w + 4 * i: a pattern may have the window of kind w at place i. */
    u32 candidates = 0u;
    for (u32 w = 0u; w < 3u; w++) {
      u32 bits = b.image.v[windows + w * XG_SIGNATURES_WINDOW + XG_WINDOW_FILTER_BITS];
      if (bits == 0u) continue;
      u32 table = b.image.v[windows + w * XG_SIGNATURES_WINDOW + XG_WINDOW_FILTER];
      u32 size = w == 2u ? 4u : w + 1u;
      u32 mask = w == 2u ? ~0u : w == 1u ? 0xffffu : 0xffu;
      for (u32 i = 0u; i < 4u; i++) {
        u32 here = (i == 0u ? bytes : (bytes >> (i * 8u)) | (next << (32u - i * 8u))) & mask;
        u32 place = (here * 0x9e3779b1u) >> (32u - bits);
        if (left >= size + i && ((b.image.v[table + (place >> 5)] >> (place & 31u)) & 1u) != 0u)
          candidates |= 1u << (w + 4u * i);
      }
    }
    while (candidates != 0u) {
      u32 bit = XG_LOWEST_BIT(candidates);
      candidates &= candidates - 1u;
      u32 i = bit >> 2;
      u32 w = bit & 3u;
      u32 here = i == 0u ? bytes : (bytes >> (i * 8u)) | (next << (32u - i * 8u));
      here &= w == 2u ? ~0u : w == 1u ? 0xffffu : 0xffu;
      xg_signatures_confirm(b, body, windows + w * XG_SIGNATURES_WINDOW, here * 0x9e3779b1u, here, at + i, c,
                            s, f);
    }
  }
}

/* Second part: the rules that these patterns find, and those that none does. The lanes share them. */
XG_SELDOM void xg_signatures_try(xg_batch b, u32 body, xg_view p, xg_state f, u32 lane, u32 lanes) {
  if (f.v[XG_SIGNATURES_FOUND_OVER] != 0u) return;
  xg_payload_cursor c = xg_payload_of(b, p, b.image.v[body + XG_SIGNATURES_REACH]);
  xg_signatures_packet s;
  if (!xg_signatures_see(b, p, c, s)) return;
  u32 rules = b.image.v[body + XG_SIGNATURES_RULES];
  u32 most = b.image.v[body + XG_SIGNATURES_WORK];
  for (u32 place = 0u; place <= XG_SIGNATURES_SEEN; place++) {
    u32 list = body + XG_SIGNATURES_ALWAYS;
    if (place != XG_SIGNATURES_SEEN) {
      u32 seen = f.v[XG_SIGNATURES_FOUND_SEEN + place];
      if (seen == 0u) continue;
      list =
          b.image.v[body + XG_SIGNATURES_PATTERNS] + (seen - 1u) * XG_SIGNATURES_PATTERN + XG_PATTERN_RULES;
    }
    u32 numbers = b.image.v[list];
    u32 count = b.image.v[list + 1u];
    for (u32 i = lane; i < count; i += lanes) {
      u32 number = b.image.v[numbers + i];
      u32 rule = rules + number * XG_SIGNATURES_RULE;
      if (!xg_signatures_applies(b, rule, p, c, s)) continue;
      u32 work = 0u;
      bool holds = xg_signatures_inspect(b, rule, c, s, most, work);
      u32 before = XG_ADD(f, XG_SIGNATURES_FOUND_WORK, work);
      if (work > most || before > most - work) f.v[XG_SIGNATURES_FOUND_OVER] = 1u;
      if (f.v[XG_SIGNATURES_FOUND_OVER] != 0u) return;
      if (holds) xg_signatures_note(f, number);
    }
  }
}

/* Has the packet's rules told. */
XG_FN void xg_signatures_tell(xg_batch b, xg_view p, xg_state f, XG_INOUT(xg_result) r) {
  r.flags |= XG_RES_ALERTS;
  if (!XG_IS_THERE(b.alerts)) return;
  u32 count = 0u;
  u32 words[4];
  for (u32 i = 0u; i < 4u; i++) words[i] = 0u;
  for (u32 i = 0u; i < XG_MAX_ALERTS; i++) {
    u32 rule = f.v[XG_SIGNATURES_FOUND_RULES + i];
    if (rule == ~0u) break;
    count += 1u;
    words[(i + 1u) >> 1] |= rule << (((i + 1u) & 1u) * 16u);
  }
  if (f.v[XG_SIGNATURES_FOUND_MORE] != 0u) count |= XG_ALERTS_MORE;
  b.alerts.v[p.number] = XG_QUAD(words[0] | count, words[1], words[2], words[3]);
}

/* Third part, of one lane: returns an action word. */
XG_FN u32 xg_signatures_conclude(xg_batch b, u32 body, xg_view p, xg_state f, XG_INOUT(xg_result) r) {
  if (f.v[XG_SIGNATURES_FOUND_OVER] != 0u) return b.image.v[body + XG_SIGNATURES_LIMIT];
  u32 first = f.v[XG_SIGNATURES_FOUND_RULES];
  if (first == ~0u) return XG_NEXT;
  u32 rule = b.image.v[body + XG_SIGNATURES_RULES] + first * XG_SIGNATURES_RULE;
  u32 action = XG_SIGNATURE_ACTION(b.image.v[rule + XG_SIGNATURE_FLAGS]);
  /* Those that pass come first, then those that drop. */
  if (action == XG_SIGNATURE_PASS) return XG_NEXT;
  xg_signatures_tell(b, p, f, r);
  return action == XG_SIGNATURE_DROP ? XG_VERDICT(XG_DROP, 0u, 0u, first + 1u) : XG_NEXT;
}

#endif
