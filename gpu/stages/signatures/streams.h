/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/streams.h: rules on what TCP connections say (gpu/signatures.hpp, "streams", and
 * settings.hpp). The part of `signatures` that has a table: it stands in front of the one that inspects
 * packets, and leaves it the rules that fire in the packet's xg_alerts.
 *
 * Of each side three blocks are kept, from the first byte of T(e) on. New bytes come behind what is whole, or
 * farther on, where they wait. What has come to be whole is looked for as in a packet's payload, a block's
 * part at a time. Which patterns are in the text is remembered as long as it begins at the same byte.
 *
 * Of what is not kept any more there are digests: byte i of the stream counts byte * point^i, modulo
 * 2^31 - 1, in two sums with a secret point each (Carter, Wegman 1979). What they are is noted where packets
 * end, so that what comes again from one such place to another one can be told from anything else, but for
 * one chance in 2^40 with packets of 1,500 bytes.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_STREAMS_H
#define XDPGPU_STAGES_SIGNATURES_STREAMS_H

#include "gpu/stages/inner.h"
#include "gpu/stages/keys.h"
#include "gpu/stages/signatures/hello.h"

#define XG_STREAM_FIN 1u
#define XG_STREAM_SYN 2u
#define XG_STREAM_RST 4u
#define XG_STREAM_ACK 16u

/* xg_touch.more of a packet. Its facts: which side sent it, and from bit 8 on its TCP flags. */
#define XG_STREAM_NUMBER 0u /* of its first descriptor */
#define XG_STREAM_SEQUENCE 1u
#define XG_STREAM_ACKNOWLEDGED 2u
#define XG_STREAM_NEAR 3u /* 0, or 1 + its place in xg_batch.near; the device puts it there, and the bit */
#define XG_STREAM_HELPED 0x80000000u

XG_FN xg_touch xg_signatures_touch(xg_batch b, xg_way way, xg_view p, u32) {
  xg_touch other = xg_untracked();
  other.facts = XG_STREAM_OTHER;
  u32 parts = XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT | XG_PKT_MALFORMED;
  if (p.family == 0u || p.protocol != 6u || (p.flags & parts) != 0u || p.has_ports == 0u) return other;
  xg_touch t = xg_untracked();
  if (!xg_inside(p, p.l4_offset, 20u) ||
      !xg_connection_key(p.protocol, p.ports & 0xffffu, p.ports >> 16, p, t))
    return other;
  t.facts |= xg_view8(p, p.l4_offset + 13u) << 8;
  t.now = xg_word_pair(xg_metadata32(p, 0u), xg_metadata32(p, 1u)) * XG_TICKS_PER_NS;
  t.more[XG_STREAM_NUMBER] = p.number;
  t.more[XG_STREAM_SEQUENCE] = xg_swap32(xg_view32(p, p.l4_offset + 4u));
  t.more[XG_STREAM_ACKNOWLEDGED] = xg_swap32(xg_view32(p, p.l4_offset + 8u));
  t.more[XG_STREAM_NEAR] = 0u;
  xg_touch_hash(b, way.body, t);
  return t;
}

/* The largest window that TCP has (RFC 7323): what is farther ahead nobody takes. */
#define XG_STREAM_REACH 0x3fffffffu

/* Numbers of bytes, and sequence numbers, come round: whether a is behind b. */
XG_FN bool xg_is_behind(u32 a, u32 b) { return a - b - 1u < 0x7fffffffu; }

/* ---- one side --------------------------------------------------------------------------------------------
 */

struct xg_stream {
  xg_state s;
  u32 side;  /* where its words begin */
  u32 body;  /* of this part */
  u32 rules; /* of the one that inspects packets */
  u32 window;
  u32 helped; /* 1: the other lanes of a CUDA warp wait to help (streams_warp.hpp) */
};

XG_FN u32 xg_side(xg_stream a, u32 word) { return a.s.v[a.side + word]; }
XG_FN void xg_set_side(xg_stream a, u32 word, u32 value) { a.s.v[a.side + word] = value; }
XG_FN xg_state xg_side_found(xg_stream a) {
  return XG_AT(xg_state, a.s, u64(a.side + XG_SIDE_FOUND) * u64(4u));
}

/* The first bytes of what stands in the words from `at` on. */
XG_FN xg_payload_cursor xg_words_text(xg_state s, u32 at, u32 bytes) {
  xg_payload_cursor c;
  c.end = c.behind = c.bytes = bytes;
  c.words = XG_WORDS_OF(s, at);
  c.shift = c.first = c.next = c.second = 0u;
  c.at = u64(0);
  return c;
}
/* The text's first bytes. */
XG_FN xg_payload_cursor xg_side_text(xg_stream a, u32 bytes) {
  return xg_words_text(a.s, a.side + XG_SIDE_BYTES, bytes);
}

/* The stream is whole up to here, and a packet ends. */
XG_FN void xg_side_mark(xg_stream a, u32 pos) {
  u32 marks = xg_side(a, XG_SIDE_MARKS);
  u32 mark = XG_SIDE_MARK + marks % XG_SIDE_MOST_MARKS * XG_SIDE_MARK_WORDS;
  xg_set_side(a, mark, pos);
  for (u32 which = 0u; which < 2u; which++)
    xg_set_side(a, mark + 1u + which, xg_side(a, XG_SIDE_SUMS + which));
  xg_set_side(a, XG_SIDE_MARKS, marks + 1u);
}

XG_FN void xg_side_begin(xg_stream a, u32 first) {
  for (u32 i = 0u; i < XG_SIDE_MARK; i++) xg_set_side(a, i, 0u);
  xg_set_side(a, XG_SIDE_STATE, XG_SIDE_IS_THERE);
  xg_set_side(a, XG_SIDE_FIRST, first);
  for (u32 which = 0u; which < 2u; which++) xg_set_side(a, XG_SIDE_POWERS + which, 1u);
  xg_side_mark(a, 0u);
}

XG_FN void xg_side_put(xg_stream a, u32 at, u32 byte) {
  u32 word = XG_SIDE_BYTES + (at >> 2);
  u32 shift = (at & 3u) * 8u;
  xg_set_side(a, word, (xg_side(a, word) & ~(0xffu << shift)) | (byte << shift));
}

/* So many of the packet's bytes, from `from` on, come to stand at `at` of the text; this lane's part of them.
 */
XG_SELDOM void xg_side_copy(XG_IN(xg_batch) b, XG_IN(xg_stream) a, XG_INOUT(xg_payload_cursor) c, u32 from,
                            u32 at, u32 bytes, u32 lane, u32 lanes) {
  u32 head = (0u - at) & 3u;
  if (head > bytes) head = bytes;
  u32 whole = (bytes - head) & ~3u;
  xg_signatures_run run = xg_signatures_run_at(b, c, from + head);
  for (u32 word = lane * 4u; word < whole; word += lanes * 4u)
    xg_set_side(a, XG_SIDE_BYTES + ((at + head + word) >> 2), xg_signatures_run_load(b, c, run, word));
  if (lane != 0u) return;
  for (u32 i = 0u; i < bytes; i++) {
    if (i == head) i += whole;
    if (i < bytes) xg_side_put(a, at + i, xg_payload8(b, c, from + i));
  }
}

/* Whether these are the bytes that stand there, as far as this lane looks. */
XG_SELDOM bool xg_side_has(XG_IN(xg_batch) b, XG_IN(xg_stream) a, XG_INOUT(xg_payload_cursor) c, u32 from,
                           u32 at, u32 bytes, u32 lane, u32 lanes) {
  xg_signatures_run run = xg_signatures_run_at(b, c, from);
  for (u32 i = lane * 4u; i < bytes; i += lanes * 4u) {
    u32 word = a.side + XG_SIDE_BYTES + ((at + i) >> 2);
    u32 other = xg_signatures_run_load(b, c, run, i) ^ XG_UNALIGNED(a.s, word, (at + i) & 3u);
    if (bytes - i < 4u) other &= (1u << ((bytes - i) * 8u)) - 1u;
    if (other != 0u) return false;
  }
  return true;
}

/* ---- digests ---------------------------------------------------------------------------------------------
 */

#define XG_DIGEST_PRIME 0x7fffffffu

XG_FN u32 xg_digest_plus(u32 a, u32 b) { return a + b >= XG_DIGEST_PRIME ? a + b - XG_DIGEST_PRIME : a + b; }
XG_FN u32 xg_digest_times(u32 a, u32 b) {
  u64 product = u64(a) * u64(b);
  return xg_digest_plus(u32(product) & XG_DIGEST_PRIME, u32(product >> 31));
}
XG_FN u32 xg_digest_point(xg_batch b, xg_stream a, u32 which) {
  return 2u + b.image.v[a.body + XG_BODY_HASH_KEY + 2u + which] % (XG_DIGEST_PRIME - 3u);
}

/* A sum, and what the next byte counts in it: `power`, and behind that so many times the point's powers. */
struct xg_digest {
  u32 sum;
  u32 power;
  u32 point;
  u32 square;
  u32 cube;
  u32 fourth;
};
XG_FN xg_digest xg_digest_of(xg_batch b, xg_stream a, u32 which, u32 sum, u32 power) {
  xg_digest d;
  d.sum = sum;
  d.power = power;
  d.point = xg_digest_point(b, a, which);
  d.square = xg_digest_times(d.point, d.point);
  d.cube = xg_digest_times(d.square, d.point);
  d.fourth = xg_digest_times(d.square, d.square);
  return d;
}
/* Adds so many of a word's bytes, up to four. */
XG_FN void xg_digest_add(XG_INOUT(xg_digest) d, u32 word, u32 bytes) {
  if (bytes < 4u) word &= (1u << (bytes * 8u)) - 1u;
  /* Less than 2^42. */
  u64 four = u64(word & 0xffu) + u64((word >> 8) & 0xffu) * u64(d.point) +
             u64((word >> 16) & 0xffu) * u64(d.square) + u64(word >> 24) * u64(d.cube);
  u32 counts = xg_digest_plus(u32(four) & XG_DIGEST_PRIME, u32(four >> 31));
  d.sum = xg_digest_plus(d.sum, xg_digest_times(d.power, counts));
  u32 on = bytes >= 4u ? d.fourth : bytes == 3u ? d.cube : bytes == 2u ? d.square : d.point;
  d.power = xg_digest_times(d.power, on);
}

/* Adds the text's bytes from `from` up to `to`. */
XG_SELDOM void xg_side_add(XG_IN(xg_batch) b, XG_IN(xg_stream) a, u32 from, u32 to) {
  xg_digest one = xg_digest_of(b, a, 0u, xg_side(a, XG_SIDE_SUMS), xg_side(a, XG_SIDE_POWERS));
  xg_digest two = xg_digest_of(b, a, 1u, xg_side(a, XG_SIDE_SUMS + 1u), xg_side(a, XG_SIDE_POWERS + 1u));
  for (u32 i = from; i < to; i = (i | 3u) + 1u) {
    u32 end = (i | 3u) + 1u < to ? (i | 3u) + 1u : to;
    u32 word = xg_side(a, XG_SIDE_BYTES + (i >> 2)) >> ((i & 3u) * 8u);
    xg_digest_add(one, word, end - i);
    xg_digest_add(two, word, end - i);
  }
  xg_set_side(a, XG_SIDE_SUMS, one.sum);
  xg_set_side(a, XG_SIDE_SUMS + 1u, two.sum);
  xg_set_side(a, XG_SIDE_POWERS, one.power);
  xg_set_side(a, XG_SIDE_POWERS + 1u, two.power);
}

/* Of the text's first words those behind `by` come to stand so much farther in front. */
XG_FN void xg_side_slide(xg_stream a, u32 by, u32 words) {
  for (u32 i = by; i < words; i++) xg_set_side(a, XG_SIDE_BYTES + i - by, xg_side(a, XG_SIDE_BYTES + i));
}

#ifdef __CUDA_ARCH__
#include "gpu/stages/signatures/streams_warp.hpp"
#else
#define XG_SIDE_COPY(b, a, c, from, at, bytes) xg_side_copy((b), (a), (c), (from), (at), (bytes), 0u, 1u)
#define XG_SIDE_HAS(b, a, c, from, at, bytes) xg_side_has((b), (a), (c), (from), (at), (bytes), 0u, 1u)
#define XG_SIDE_ADD(b, a, from, to) xg_side_add((b), (a), (from), (to))
#define XG_SIDE_SLIDE(b, a, by, words) xg_side_slide((a), (by), (words))
#define XG_SIDE_SEARCH(b, a, windows, c, from) \
  xg_signatures_search_from((b), (a).rules, (windows), (c), 0u, (from), (c).end, xg_side_found(a), 0u, 1u)
#endif

/* ---- what came early -------------------------------------------------------------------------------------
 */

/* The first byte of a piece that came early, or the one behind its last. */
XG_FN u32 xg_side_piece(xg_stream a, u32 i, u32 end) { return xg_side(a, XG_SIDE_PIECE + i * 2u + end); }

/* Whether what came early of these bytes is the same. pos: the position in the stream of the packet's byte
 * `from`. */
XG_FN bool xg_side_agrees(xg_batch b, xg_stream a, XG_INOUT(xg_payload_cursor) c, u32 from, u32 pos,
                          u32 bytes) {
  u32 pieces = xg_side(a, XG_SIDE_PIECES);
  for (u32 i = 0u; i < pieces; i++) {
    u32 first = xg_side_piece(a, i, 0u);
    u32 end = xg_side_piece(a, i, 1u);
    if (first < pos) first = pos;
    if (end > pos + bytes) end = pos + bytes;
    if (first < end &&
        !XG_SIDE_HAS(b, a, c, from + first - pos, first - xg_side(a, XG_SIDE_TEXT), end - first))
      return false;
  }
  return true;
}

/* Takes `count` of the pieces out, from number i on. */
XG_FN void xg_side_drop_pieces(xg_stream a, u32 i, u32 count) {
  u32 pieces = xg_side(a, XG_SIDE_PIECES) - count;
  for (; i < pieces; i++)
    for (u32 end = 0u; end < 2u; end++)
      xg_set_side(a, XG_SIDE_PIECE + i * 2u + end, xg_side_piece(a, i + count, end));
  xg_set_side(a, XG_SIDE_PIECES, pieces);
}

/* Notes that these bytes are there, early. False: there are too many pieces. */
XG_FN bool xg_side_note_piece(xg_stream a, u32 first, u32 end) {
  u32 pieces = xg_side(a, XG_SIDE_PIECES);
  u32 i = 0u;
  while (i < pieces && xg_side_piece(a, i, 1u) < first) i++;
  u32 joined = 0u;
  while (i + joined < pieces && xg_side_piece(a, i + joined, 0u) <= end) joined++;
  if (joined == 0u) {
    if (pieces == XG_SIDE_MOST_PIECES) return false;
    for (u32 at = pieces; at > i; at--)
      for (u32 which = 0u; which < 2u; which++)
        xg_set_side(a, XG_SIDE_PIECE + at * 2u + which, xg_side_piece(a, at - 1u, which));
    xg_set_side(a, XG_SIDE_PIECES, pieces + 1u);
  } else {
    u32 last = xg_side_piece(a, i + joined - 1u, 1u);
    if (xg_side_piece(a, i, 0u) < first) first = xg_side_piece(a, i, 0u);
    if (last > end) end = last;
    xg_side_drop_pieces(a, i, joined - 1u);
  }
  xg_set_side(a, XG_SIDE_PIECE + i * 2u, first);
  xg_set_side(a, XG_SIDE_PIECE + i * 2u + 1u, end);
  return true;
}

/* ---- what comes again ------------------------------------------------------------------------------------
 */

/* The mark at the position; 0: there is none. */
XG_FN u32 xg_side_mark_at(xg_stream a, u32 pos) {
  u32 marks = xg_side(a, XG_SIDE_MARKS);
  for (u32 i = 0u; i < marks && i < XG_SIDE_MOST_MARKS; i++) {
    u32 mark = XG_SIDE_MARK + i * XG_SIDE_MARK_WORDS;
    if (xg_side(a, mark) == pos) return mark;
  }
  return 0u;
}

/* What is known of bytes that come anew, from the position `pos` on. */
#define XG_SIDE_UNKNOWN 0u
#define XG_SIDE_SAME 1u
#define XG_SIDE_OTHERS 2u
XG_SELDOM u32 xg_side_compare(XG_IN(xg_batch) b, XG_IN(xg_stream) a, XG_INOUT(xg_payload_cursor) c, u32 from,
                              u32 pos, u32 bytes) {
  u32 first = xg_side_mark_at(a, pos);
  u32 last = xg_side_mark_at(a, pos + bytes);
  if (first == 0u || last == 0u) return XG_SIDE_UNKNOWN;
  xg_digest one = xg_digest_of(b, a, 0u, xg_side(a, first + 1u), 1u);
  xg_digest two = xg_digest_of(b, a, 1u, xg_side(a, first + 2u), 1u);
  for (u32 bit = 0x80000000u; bit != 0u; bit >>= 1) {
    one.power = xg_digest_times(one.power, one.power);
    two.power = xg_digest_times(two.power, two.power);
    if ((pos & bit) == 0u) continue;
    one.power = xg_digest_times(one.power, one.point);
    two.power = xg_digest_times(two.power, two.point);
  }
  xg_signatures_run run = xg_signatures_run_at(b, c, from);
  for (u32 i = 0u; i < bytes; i += 4u) {
    u32 word = xg_signatures_run_load(b, c, run, i);
    xg_digest_add(one, word, bytes - i);
    xg_digest_add(two, word, bytes - i);
  }
  bool same = one.sum == xg_side(a, last + 1u) && two.sum == xg_side(a, last + 2u);
  return same ? XG_SIDE_SAME : XG_SIDE_OTHERS;
}

/* ---- what stands in the text -----------------------------------------------------------------------------
 */

/* Nothing is known of the text. */
XG_FN void xg_stream_forget(xg_batch b, xg_stream a) {
  xg_state f = xg_side_found(a);
  f.v[XG_SIGNATURES_FOUND_OVER] = 0u;
  f.v[XG_SIGNATURES_FOUND_PATTERNS] = 0u;
  for (u32 i = 0u; i < XG_SIGNATURES_SEEN; i++) f.v[XG_SIGNATURES_FOUND_SEEN + i] = 0u;
  xg_set_side(a, XG_SIDE_VERSION, b.image.v[a.body + XG_STREAMS_VERSION]);
  xg_set_side(a, XG_SIDE_SEARCHED, 0u);
}

/* The text begins a block later. end: of what is kept. */
XG_SELDOM void xg_stream_slide(XG_IN(xg_batch) b, XG_IN(xg_stream) a, u32 end) {
  u32 by = a.window >> 2;
  u32 words = (end - xg_side(a, XG_SIDE_TEXT) + 3u) >> 2;
  XG_SIDE_SLIDE(b, a, by, words);
  xg_set_side(a, XG_SIDE_TEXT, xg_side(a, XG_SIDE_TEXT) + a.window);
  xg_stream_forget(b, a);
}

/* What a packet brings that makes a stream whole. */
struct xg_stream_packet {
  xg_view p;
  xg_payload_cursor c;
  xg_signatures_packet seen;
  u32 connection; /* XG_CONNECTION_* */
  u32 work;
  u32 over; /* 1: it takes more than it may */
  u32 end;  /* the position behind its payload */
  u32 record;
};

/* What rules ask of a ClientHello: as of a DNS message that is read, with a name (xg_signatures_applies()).
 */
#define XG_HELLO_IS_SAID (XG_DNS_IS | XG_DNS_IS_READ | (1u << XG_DNS_NAMES))

/* What is looked at: the text's first `bytes`, of which `before` are not new, or a server's name of so many
 * bytes, with a dot in front. */
struct xg_stream_looked_at {
  u32 before;
  u32 bytes;
  u32 name; /* 0: the text */
};

/* Whether the rule comes to hold with one of the new bytes, or holds for the name. Its fast pattern stands in
 * it, first at `seen_at`; of `least` bytes it does not. Steps are inspected at one place alone: those who
 * inline it all would have them many times. */
XG_SELDOM bool xg_stream_fires(XG_IN(xg_batch) b, XG_IN(xg_stream) a, XG_IN(xg_stream_packet) k, u32 rule,
                               XG_IN(xg_stream_looked_at) l, u32 seen_at, u32 least, u32 most,
                               XG_INOUT(u32) work) {
  bool negates = (b.image.v[rule + XG_SIGNATURE_FLAGS] & XG_SIGNATURE_NEGATES) != 0u;
  u32 steps = rule + XG_SIGNATURE_STEPS;
  u32 name = b.image.v[rule + XG_SIGNATURE_DNS];
  u32 names = l.name != 0u ? XG_ASKS_NAMES(b.image.v[name]) : 0u;
  u32 bytes = l.bytes;
  u32 ask = bytes;
  u32 step = 0u;
  name += 1u;
  /* Name by name. Or, of the text: of all bytes; of those that are not new; of half as many more each time,
   * up to the first that are enough; and of these with what is negated. */
  for (;;) {
    xg_payload_cursor c = xg_side_text(a, ask);
    u32 begin = 0u;
    if (l.name != 0u) {
      c = xg_words_text(a.s, k.record + XG_STREAM_NAME, l.name);
      begin = (b.image.v[name + XG_NAME_SIZES + 1u] & XG_NAME_DOT_PREFIX) != 0u ? 0u : 1u;
      if (!xg_signatures_has_size(b.image, name, l.name - begin)) return false;
      if (!xg_signatures_in_sets(b, name, c, begin, l.name - begin, work)) return false;
      steps = name + XG_NAME_STEPS;
    }
    bool holds = xg_signatures_inspect(b, b.image.v[steps], b.image.v[steps + 1u], c, begin, c.end - begin,
                                       seen_at, l.name != 0u || step == 3u, most, work);
    if (l.name != 0u) {
      names -= 1u;
      if (!holds || names == 0u) return holds;
      name += XG_SIGNATURES_NAME;
      continue;
    }
    if (step == 3u) return holds;
    if (step == 0u && !holds) return false;
    if (step == 1u && holds) return false;
    if (step == 2u && holds) bytes = ask;
    if (step == 0u && l.before > least) {
      ask = l.before;
      step = 1u;
      continue;
    }
    if (step != 0u && !holds) least = ask;
    if (!negates) return true;
    step = bytes - least > 1u && work <= most ? 2u : 3u;
    ask = step == 2u ? least + (bytes - least) / 2u : bytes;
  }
  return false;
}

/* Notes the rules of a list that fire. seen: a word of XG_SIGNATURES_FOUND_SEEN, 0: of those that no pattern
 * finds. */
XG_FN void xg_stream_try(xg_batch b, xg_stream a, XG_INOUT(xg_stream_packet) k, xg_stream_looked_at l,
                         u32 seen) {
  u32 most = b.image.v[a.rules + XG_SIGNATURES_WORK];
  bool in_front = xg_side(a, XG_SIDE_TEXT) != 0u || (xg_side(a, XG_SIDE_STATE) & XG_SIDE_IS_CUT) != 0u;
  u32 list = a.body + XG_STREAMS_HELLO_RULES;
  u32 least = 0u;
  if (seen != 0u) {
    u32 pattern = b.image.v[a.rules + XG_SIGNATURES_PATTERNS] +
                  (XG_SIGNATURES_SEEN_PATTERN(seen) - 1u) * XG_SIGNATURES_PATTERN;
    list = pattern + XG_PATTERN_RULES;
    least = XG_SIGNATURES_SEEN_AT(seen) + (b.image.v[pattern + XG_PATTERN_SIZE] & ~XG_PATTERN_NOCASE) - 1u;
  }
  u32 numbers = b.image.v[list];
  u32 count = b.image.v[list + 1u];
  u32 i = 0u;
  while (i < count && k.over == 0u) {
    u32 number = 0u;
    u32 rule = 0u;
    bool applies = false;
    for (; i < count && !applies; i++) {
      number = b.image.v[numbers + i];
      rule = b.image.v[a.rules + XG_SIGNATURES_RULES] + number * XG_SIGNATURES_RULE;
      bool starts = (b.image.v[rule + XG_SIGNATURE_FLAGS] & XG_SIGNATURE_FROM_START) != 0u;
      applies =
          !(in_front && starts) && xg_signatures_applies(b, rule, k.p, k.c, k.seen,
                                                         l.name != 0u ? XG_HELLO_IS_SAID : 0u, k.connection);
    }
    if (!applies) return;
    u32 work = 0u;
    bool fires = xg_stream_fires(b, a, k, rule, l, XG_SIGNATURES_SEEN_AT(seen), least, most, work);
    k.work += work;
    if (work > most || k.work > most) k.over = 1u;
    if (fires && k.over == 0u) xg_signatures_note(xg_side_found(a), number);
  }
}

/* Whether the client's hello may be whole with the stream's first `bytes`. */
XG_FN bool xg_stream_asks_hello(xg_batch b, xg_stream a, XG_IN(xg_stream_packet) k, u32 bytes) {
  return b.image.v[a.body + XG_STREAMS_HELLOS] != 0u && (k.connection & XG_CONNECTION_ANSWERS) == 0u &&
         xg_side(a, XG_SIDE_TEXT) == 0u && (xg_side(a, XG_SIDE_STATE) & XG_SIDE_IS_CUT) == 0u &&
         bytes >= a.s.v[k.record + XG_STREAM_HELLO];
}

/* Reads it. Returns the bytes of the server's name, with a dot in front; 0: it is not whole, or there is
 * none. */
XG_FN u32 xg_stream_hello(xg_batch b, xg_stream a, XG_INOUT(xg_stream_packet) k, u32 bytes) {
  xg_payload_cursor c = xg_side_text(a, bytes);
  u32 most = 2u * a.window;
  xg_hello_reader r;
  u32 state = xg_hello_find(b, c, bytes, r);
  if (state == XG_HELLO_IS_CUT && bytes != most) {
    a.s.v[k.record + XG_STREAM_HELLO] = r.needs < most ? r.needs : most;
    return 0u;
  }
  a.s.v[k.record + XG_STREAM_HELLO] = ~0u;
  /* What is longer is not kept. */
  if (state == XG_HELLO_IS_CUT) k.over = 1u;
  if (state != XG_HELLO_IS_READ) return 0u;
  return xg_hello_name(b, c, r, a.s, k.record + XG_STREAM_NAME);
}

/* Looks for rules that fire: with what is new in the text's first `bytes`, and with a hello that is whole by
 * them. Behind that nothing is known of the text: the name has patterns of its own. */
XG_SELDOM void xg_stream_look(XG_IN(xg_batch) b, XG_IN(xg_stream) a, XG_INOUT(xg_stream_packet) k, u32 before,
                              u32 bytes) {
  xg_state f = xg_side_found(a);
  xg_stream_looked_at l;
  l.before = before;
  l.bytes = bytes;
  l.name = 0u;
  for (u32 round = 0u; round < 2u; round++) {
    u32 longest = b.image.v[a.body + XG_STREAMS_LONGEST];
    u32 searched = xg_side(a, XG_SIDE_SEARCHED);
    u32 from = searched < longest ? 0u : searched + 1u - longest;
    u32 windows = a.body + XG_STREAMS_WINDOWS;
    xg_payload_cursor c = xg_side_text(a, bytes);
    if (round != 0u) {
      if (!xg_stream_asks_hello(b, a, k, bytes)) return;
      l.name = xg_stream_hello(b, a, k, bytes);
      if (l.name == 0u) return;
      xg_stream_forget(b, a);
      from = 0u;
      windows = a.body + XG_STREAMS_NAME_WINDOWS;
      c = xg_words_text(a.s, k.record + XG_STREAM_NAME, l.name);
    }
    XG_SIDE_SEARCH(b, a, windows, c, from);
    xg_set_side(a, XG_SIDE_SEARCHED, bytes);
    if (f.v[XG_SIGNATURES_FOUND_OVER] != 0u) k.over = 1u;
    for (u32 place = 0u; place <= XG_SIGNATURES_SEEN && k.over == 0u; place++) {
      u32 seen = 0u;
      for (; place < XG_SIGNATURES_SEEN && seen == 0u; place++) seen = f.v[XG_SIGNATURES_FOUND_SEEN + place];
      if (seen != 0u) place -= 1u;
      /* Those that no pattern finds are of names. */
      if (seen != 0u || round != 0u) xg_stream_try(b, a, k, l, seen);
    }
    if (round != 0u) xg_stream_forget(b, a);
  }
}

/* The side's stream is whole up to `end`. */
XG_FN void xg_stream_advance(xg_batch b, xg_stream a, u32 end, XG_INOUT(xg_stream_packet) k) {
  u32 next = xg_side(a, XG_SIDE_NEXT);
  while (next < end) {
    u32 text = xg_side(a, XG_SIDE_TEXT);
    u32 block = (next / a.window + 1u) * a.window;
    u32 to = block < end ? block : end;
    xg_stream_look(b, a, k, next - text, to - text);
    while (next < to) {
      u32 up_to = next < k.end && k.end < to ? k.end : to;
      XG_SIDE_ADD(b, a, next - text, up_to - text);
      if (up_to == k.end) xg_side_mark(a, k.end);
      next = up_to;
    }
    xg_set_side(a, XG_SIDE_NEXT, to);
    if (to - text != 2u * a.window) continue;
    u32 pieces = xg_side(a, XG_SIDE_PIECES);
    u32 kept = pieces != 0u ? xg_side_piece(a, pieces - 1u, 1u) : end;
    xg_stream_slide(b, a, kept > end ? kept : end);
  }
}

/* ---- a connection ----------------------------------------------------------------------------------------
 */

/* What the packet's rules that fire are to do; XG_STREAM_*. */
XG_FN u32 xg_stream_verdict(xg_batch b, xg_stream a, u32 record, XG_INOUT(xg_stream_packet) k) {
  xg_state f = xg_side_found(a);
  u32 state = a.s.v[record + XG_STREAM_STATE];
  if (k.over != 0u) {
    if (XG_VERDICT_ACTION(b.image.v[a.rules + XG_SIGNATURES_LIMIT]) == XG_DROP)
      a.s.v[record + XG_STREAM_STATE] = state | XG_STREAM_DROPPED;
    return XG_STREAM_LIMIT;
  }
  u32 first = f.v[XG_SIGNATURES_FOUND_RULES];
  if (first == ~0u) return XG_STREAM_INSPECTED;
  u32 rule = b.image.v[a.rules + XG_SIGNATURES_RULES] + first * XG_SIGNATURES_RULE;
  u32 action = XG_SIGNATURE_ACTION(b.image.v[rule + XG_SIGNATURE_FLAGS]);
  if (action == XG_SIGNATURE_PASS) state |= XG_STREAM_PASSED;
  if (action == XG_SIGNATURE_DROP) state |= XG_STREAM_DROPPED;
  a.s.v[record + XG_STREAM_STATE] = state;
  xg_signatures_tell(b, k.p, f);
  return XG_STREAM_INSPECTED | XG_STREAM_FIRES;
}

/* `bytes` of the packet, from `from` on, which nobody has brought before, at the position `pos`. */
XG_SELDOM u32 xg_stream_take(XG_IN(xg_batch) b, XG_IN(xg_stream) a, u32 record, XG_INOUT(xg_stream_packet) k,
                             u32 from, u32 pos, u32 bytes) {
  u32 room = 3u * a.window;
  u32 end = pos + bytes;
  if (!xg_side_agrees(b, a, k.c, from, pos, bytes)) return XG_STREAM_CHANGED;
  if (pos > xg_side(a, XG_SIDE_NEXT)) {
    u32 text = xg_side(a, XG_SIDE_TEXT);
    if (end - text > room || !xg_side_note_piece(a, pos, end)) return XG_STREAM_GAP;
    XG_SIDE_COPY(b, a, k.c, from, pos - text, bytes);
    return XG_STREAM_INSPECTED;
  }
  xg_state f = xg_side_found(a);
  if (xg_side(a, XG_SIDE_VERSION) != b.image.v[a.body + XG_STREAMS_VERSION]) xg_stream_forget(b, a);
  f.v[XG_SIGNATURES_FOUND_CONNECTION] = 0u;
  for (u32 i = 0u; i < XG_MAX_ALERTS; i++) f.v[XG_SIGNATURES_FOUND_RULES + i] = ~0u;
  k.end = end;
  for (u32 next = pos; next < end; next = xg_side(a, XG_SIDE_NEXT)) {
    u32 text = xg_side(a, XG_SIDE_TEXT);
    u32 to = end - text > room ? text + room : end;
    XG_SIDE_COPY(b, a, k.c, from + next - pos, next - text, to - next);
    while (xg_side(a, XG_SIDE_PIECES) != 0u && xg_side_piece(a, 0u, 0u) <= to) {
      u32 behind = xg_side_piece(a, 0u, 1u);
      if (behind > to) to = behind;
      xg_side_drop_pieces(a, 0u, 1u);
    }
    xg_stream_advance(b, a, to, k);
  }
  if (xg_side(a, XG_SIDE_NEXT) != end) xg_side_mark(a, xg_side(a, XG_SIDE_NEXT));
  return xg_stream_verdict(b, a, record, k);
}

/* The packet's payload, of a side that has begun. */
XG_FN u32 xg_stream_payload(xg_batch b, xg_stream a, u32 record, u32 sequence, XG_INOUT(xg_stream_packet) k) {
  u32 next = xg_side(a, XG_SIDE_NEXT);
  u32 depth = b.image.v[a.body + XG_STREAMS_DEPTH];
  u32 from = k.seen.payload;
  u32 bytes = k.seen.payload_bytes;
  u32 pos = sequence - xg_side(a, XG_SIDE_FIRST);
  bool drops_gaps = XG_VERDICT_ACTION(b.image.v[a.body + XG_STREAMS_ON_GAP]) == XG_DROP;
  bool gap = false;
  if (pos - next <= XG_STREAM_REACH && xg_is_behind(pos + bytes, xg_side(a, XG_SIDE_FARTHEST)))
    xg_set_side(a, XG_SIDE_FARTHEST, pos + bytes);
  if (xg_is_behind(next, pos)) {
    u32 anew = next - pos < bytes ? next - pos : bytes;
    u32 text = xg_side(a, XG_SIDE_TEXT);
    u32 front = xg_is_behind(text, pos) ? text - pos : 0u;
    if (front > anew) front = anew;
    u32 end = pos + front;
    u32 acked = xg_side(a, XG_SIDE_ACKED);
    gap = front != 0u && xg_is_behind(end, acked);
    if (gap) {
      u32 known = xg_is_behind(acked, pos) ? acked - pos : 0u;
      u32 what = xg_side_compare(b, a, k.c, from + known, pos + known, anew - known);
      if (what == XG_SIDE_OTHERS) return XG_STREAM_CHANGED;
      gap = what == XG_SIDE_UNKNOWN;
    }
    if (gap && drops_gaps) return XG_STREAM_GAP;
    if (front < anew && !XG_SIDE_HAS(b, a, k.c, from + front, end - text, anew - front))
      return XG_STREAM_CHANGED;
    from += anew;
    pos += anew;
    bytes -= anew;
  }
  if (pos >= depth) bytes = 0u;
  if (bytes > depth - pos) bytes = depth - pos;
  u32 what = bytes == 0u ? XG_STREAM_INSPECTED : xg_stream_take(b, a, record, k, from, pos, bytes);
  return gap && what == XG_STREAM_INSPECTED ? XG_STREAM_GAP : what;
}

/* Which side began a connection of which this is the first packet: XG_STREAM_UPPER_CLIENT or 0. */
XG_FN u32 xg_stream_client(u32 flags, u32 which, xg_touch t) {
  if ((flags & XG_STREAM_SYN) != 0u) {
    bool answers = (flags & XG_STREAM_ACK) != 0u;
    return (which != 0u) != answers ? XG_STREAM_UPPER_CLIENT : 0u;
  }
  u32 lower = t.key[8] & 0xffffu;
  u32 upper = t.key[8] >> 16;
  bool is_lower = (xg_swap32(lower) >> 16) > (xg_swap32(upper) >> 16);
  return is_lower ? 0u : XG_STREAM_UPPER_CLIENT;
}

XG_FN u32 xg_stream_side_at(u32 record, u32 window, u32 which) {
  return record + XG_STREAM_HEAD + which * XG_SIDE_WORDS(window);
}

/* A packet that acknowledges what the side has sent. Bytes that have not come here, and are acknowledged,
 * come no more: the stream begins anew behind them. */
XG_FN void xg_stream_acknowledge(xg_batch b, xg_stream a, u32 number) {
  u32 state = xg_side(a, XG_SIDE_STATE);
  if ((state & XG_SIDE_IS_THERE) == 0u) return;
  u32 to = number - xg_side(a, XG_SIDE_FIRST);
  u32 next = xg_side(a, XG_SIDE_NEXT);
  if (xg_is_behind(to, next)) {
    u32 farthest = xg_side(a, XG_SIDE_FARTHEST);
    bool drops_gaps = XG_VERDICT_ACTION(b.image.v[a.body + XG_STREAMS_ON_GAP]) == XG_DROP;
    if (!xg_is_behind(to, farthest) && !drops_gaps && next < b.image.v[a.body + XG_STREAMS_DEPTH]) {
      xg_side_begin(a, number);
      xg_set_side(a, XG_SIDE_STATE, state | XG_SIDE_IS_CUT);
      xg_set_side(a, XG_SIDE_FARTHEST, farthest - to);
      return;
    }
    to = next;
  }
  if (xg_is_behind(to, xg_side(a, XG_SIDE_ACKED))) xg_set_side(a, XG_SIDE_ACKED, to);
}

/* Of a packet of the connection: a is the side that sent it, `other` the one that it is for. */
XG_FN u32 xg_stream_packet_of(xg_batch b, xg_stream a, xg_stream other, u32 record, xg_touch t,
                              XG_INOUT(xg_stream_packet) k) {
  u32 flags = t.facts >> 8;
  u32 which = t.facts & 1u;
  u32 marks = flags & (XG_STREAM_SYN | XG_STREAM_RST | XG_STREAM_FIN);
  u32 sequence = t.more[XG_STREAM_SEQUENCE];
  u32 state = a.s.v[record + XG_STREAM_STATE];
  if ((state & XG_STREAM_DROPPED) != 0u) return XG_STREAM_DROP;
  bool there = (xg_side(a, XG_SIDE_STATE) & XG_SIDE_IS_THERE) != 0u;
  if ((marks & XG_STREAM_RST) != 0u) {
    if (there && sequence == xg_side(a, XG_SIDE_FIRST) + xg_side(a, XG_SIDE_NEXT))
      a.s.v[record + XG_STREAM_STATE] = state | XG_STREAM_RESET;
    return XG_STREAM_OTHER;
  }
  if ((marks & XG_STREAM_SYN) != 0u) {
    if (marks != XG_STREAM_SYN) return XG_STREAM_OTHER;
    sequence += 1u;
    if (!there) xg_side_begin(a, sequence);
    if (xg_side(a, XG_SIDE_FIRST) != sequence) return XG_STREAM_OTHER;
    there = true;
  }
  if ((flags & XG_STREAM_ACK) != 0u) xg_stream_acknowledge(b, other, t.more[XG_STREAM_ACKNOWLEDGED]);
  if (there && (marks & XG_STREAM_FIN) != 0u)
    xg_set_side(a, XG_SIDE_STATE, xg_side(a, XG_SIDE_STATE) | XG_SIDE_IS_OVER);
  if (k.seen.payload_bytes == 0u || (state & XG_STREAM_PASSED) != 0u) return XG_STREAM_OTHER;
  if (!there) {
    if (b.image.v[a.body + XG_STREAMS_MIDSTREAM] == 0u) return XG_STREAM_GAP;
    xg_side_begin(a, sequence);
  }
  k.connection = XG_CONNECTION_SEEN | XG_CONNECTION_HAS;
  if (((state & XG_STREAM_UPPER_CLIENT) != 0u) != (which != 0u)) k.connection |= XG_CONNECTION_ANSWERS;
  if ((flags & (XG_STREAM_ACK | XG_STREAM_SYN)) == XG_STREAM_ACK) k.connection |= XG_CONNECTION_ESTABLISHED;
  return xg_stream_payload(b, a, record, sequence, k);
}

XG_FN bool xg_stream_is_over(xg_stream a, xg_stream other, u32 record) {
  return (a.s.v[record + XG_STREAM_STATE] & XG_STREAM_RESET) != 0u ||
         (xg_side(a, XG_SIDE_STATE) & xg_side(other, XG_SIDE_STATE) & XG_SIDE_IS_OVER) != 0u;
}

XG_FN void xg_stream_begin(xg_stream a, xg_stream other, u32 record, u32 client) {
  a.s.v[record + XG_STREAM_STATE] = client;
  a.s.v[record + XG_STREAM_HELLO] = 0u;
  xg_set_side(a, XG_SIDE_STATE, 0u);
  xg_set_side(other, XG_SIDE_STATE, 0u);
}

/* The packet, whether or not the device has brought it nearer. */
XG_FN bool xg_stream_see(xg_batch b, xg_touch t, u32 limit, XG_INOUT(xg_view) p,
                         XG_INOUT(xg_payload_cursor) c) {
  u32 number = t.more[XG_STREAM_NUMBER];
#ifdef __CUDA_ARCH__
  u32 near = t.more[XG_STREAM_NEAR] & ~XG_STREAM_HELPED;
  if (near != 0u) {
    u64 place = u64(near - 1u) * u64(XG_NEAR_QUADS * 16u);
    xg_words said;
    said.v = reinterpret_cast<xg_word*>(reinterpret_cast<u8*>(b.near.v) + place);
    xg_descriptor there;
    there.offset = xg_word_pair(said.v[0], said.v[1]);
    there.length = said.v[2];
    there.flags = said.v[3];
    xg_descriptor here = there;
    here.offset = u64(XG_METADATA_SIZE) + (there.offset & u64(15));
    xg_batch nearer = b;
    nearer.frames.v = said.v + 4;
    nearer.frames_bytes = u64((XG_NEAR_QUADS - 1u) * 16u);
    if (!xg_view_packet(nearer, number, here, p)) return false;
    xg_view_of(there, number, p);
    xg_look_inside(b, p);
    c = xg_payload_of(b, p, limit);
    /* From the batch's frames the copy is so far away: addresses come round. */
    c.at = reinterpret_cast<u64>(nearer.frames.v) + here.offset - reinterpret_cast<u64>(b.frames.v);
    xg_payload_enter(b, c.at, 0u, c.bytes, c.second, c);
    return true;
  }
#endif
  if (!xg_view_packet(b, number, b.descriptors.v[number], p)) return false;
  xg_look_inside(b, p);
  c = xg_payload_of(b, p, limit);
  return true;
}

/* What comes of the packet: for those of one connection in their order. */
#if defined(XG_GLSL) && !defined(XG_INSPECTS_IN_TURN)
XG_FN u32 xg_signatures_apply(xg_batch, u32, xg_touch) { return XG_STREAM_OTHER; }
#else
XG_SELDOM u32 xg_signatures_apply(XG_IN(xg_batch) b, u32 body, XG_IN(xg_touch) t) {
  xg_stream a;
  a.s = xg_state_of(b, body);
  a.body = body;
  a.rules = b.image.v[body + XG_STREAMS_RULES];
  a.window = b.image.v[body + XG_STREAMS_WINDOW];
  a.helped = t.more[XG_STREAM_NEAR] / XG_STREAM_HELPED;
  xg_stream_packet k;
  if (!xg_stream_see(b, t, b.image.v[a.rules + XG_SIGNATURES_REACH], k.p, k.c)) return XG_STREAM_OTHER;
  if (!xg_signatures_see(b, k.p, k.c, k.seen)) return XG_STREAM_OTHER;
  k.work = k.over = k.connection = k.end = 0u;
  bool brings = k.seen.payload_bytes != 0u;

  u64 now = u64(0);
  u32 set = xg_come(a.s, t, now);
  u32 evict = b.image.v[body + XG_BODY_EVICT];
  u32 flags = t.facts >> 8;
  u32 marks = flags & (XG_STREAM_SYN | XG_STREAM_RST | XG_STREAM_FIN);
  bool begins = marks == XG_STREAM_SYN;
  u32 entry = xg_find(a.s, set, now, evict, t);
  bool is_new = entry == 0u;
  if (is_new) {
    bool takes_up = b.image.v[body + XG_STREAMS_MIDSTREAM] != 0u && brings;
    if (begins || (takes_up && (marks & (XG_STREAM_SYN | XG_STREAM_RST)) == 0u))
      entry = xg_insert(a.s, set, now, evict, now, t);
    if (entry == 0u) return brings && (marks & XG_STREAM_RST) == 0u ? XG_STREAM_GAP : XG_STREAM_OTHER;
  }
  u32 way = (entry - set - XG_SET_HEAD) / XG_ENTRY_WORDS;
  u32 record =
      xg_set_at(b.image.v[body + XG_BODY_SETS]) + (t.set * XG_WAYS + way) * XG_STREAM_RECORD(a.window);
  xg_stream other = a;
  a.side = xg_stream_side_at(record, a.window, t.facts & 1u);
  other.side = xg_stream_side_at(record, a.window, 1u - (t.facts & 1u));
  k.record = record;
  if (is_new || (begins && xg_stream_is_over(a, other, record)))
    xg_stream_begin(a, other, record, xg_stream_client(flags, t.facts & 1u, t));
  u32 what = xg_stream_packet_of(b, a, other, record, t, k);
  if ((a.s.v[record + XG_STREAM_STATE] & XG_STREAM_PASSED) != 0u) what |= XG_STREAM_PASSES;
  u32 time = !brings && xg_stream_is_over(a, other, record) ? XG_STREAMS_CLOSED : XG_STREAMS_IDLE;
  xg_set_state64(a.s, entry + XG_ENTRY_DEADLINE,
                 now + xg_word_pair(b.image.v[body + time], b.image.v[body + time + 1u]));
  return what;
}
#endif

XG_FN u32 xg_signatures_settle(xg_batch b, u32 body, u32 outcome, xg_view, XG_INOUT(xg_result) r) {
  u32 what = outcome & ~(XG_STREAM_FIRES | XG_STREAM_PASSES);
  u32 count = b.image.v[body + XG_STREAMS_COUNT];
  if (what != XG_STREAM_OTHER) xg_count(xg_state_of(b, body), XG_TABLE_OWN + what);
  if ((outcome & XG_STREAM_FIRES) != 0u) r.detail |= XG_SIGNATURES_FIRED;
  if ((outcome & XG_STREAM_PASSES) != 0u) r.detail |= XG_SIGNATURES_PASSED;
  if (what == XG_STREAM_LIMIT) return b.image.v[b.image.v[body + XG_STREAMS_RULES] + XG_SIGNATURES_LIMIT];
  if (what == XG_STREAM_CHANGED) return XG_VERDICT(XG_DROP, 0u, 0u, count + 2u);
  if (what == XG_STREAM_GAP) return b.image.v[body + XG_STREAMS_ON_GAP];
  if (what == XG_STREAM_DROP) return XG_VERDICT(XG_DROP, 0u, 0u, count + 4u);
  return XG_NEXT;
}

#endif
