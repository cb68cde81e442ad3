/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/side.h: what one side of a TCP connection says, as far as it is kept
 * (gpu/stages/signatures/settings.hpp).
 *
 * Three blocks are kept, from the first byte of T(e) on. New bytes come behind what is whole, or farther on,
 * where they wait.
 *
 * Of what is not kept any more there are digests: byte i of the stream counts byte * point^i, modulo
 * 2^31 - 1, in two sums with a secret point each (Carter, Wegman 1979). What they are is noted where packets
 * end, so that what comes again from one such place to another one can be told from anything else, but for
 * one chance in 2^40 with packets of 1,500 bytes.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_SIDE_H
#define XDPGPU_STAGES_SIGNATURES_SIDE_H

#include "gpu/stages/keys.h"
#include "gpu/stages/signatures/packet.h"

/* Numbers of bytes, and sequence numbers, come round: whether a is behind b. */
XG_FN bool xg_is_behind(u32 a, u32 b) { return a - b - 1u < 0x7fffffffu; }

struct xg_stream {
  xg_state s;
  u32 side;  /* where its words begin */
  u32 body;  /* of this part */
  u32 rules; /* of the one that inspects packets */
  u32 window;
  u32 reads;   /* XG_STREAMS_READS_* */
  u32 answers; /* 1: it is the server's */
  u32 room;    /* where what is known of it as HTTP begins; 0: it is not read as that */
  u32 helped;  /* 1: the other lanes of a CUDA warp wait to help (streams_warp.hpp) */
};

XG_FN u32 xg_side(xg_stream a, u32 word) { return a.s.v[a.side + word]; }
XG_FN void xg_set_side(xg_stream a, u32 word, u32 value) { a.s.v[a.side + word] = value; }
/* What an inspection has found, in the words from `word` on. */
XG_FN xg_state xg_found_at(xg_stream a, u32 word) { return XG_AT(xg_state, a.s, u64(word) * u64(4u)); }
XG_FN xg_state xg_side_found(xg_stream a) { return xg_found_at(a, a.side + XG_SIDE_FOUND); }

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
  xg_set_side(a, XG_SIDE_END, ~0u);
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
#define XG_SIDE_SEARCH(b, a, windows, c, first, from, found)                          \
  xg_signatures_search_from((b), (a).rules, (windows), (c), (first), (from), (c).end, \
                            xg_found_at((a), (found)), 0u, 1u)
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

#endif
