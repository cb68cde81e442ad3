/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/http_lines.h: the lines of a request's or an answer's head by HTTP/1
 * (gpu/signatures.hpp, "HTTP"), in the text of a side's stream or behind the connection's sides.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_HTTP_LINES_H
#define XDPGPU_STAGES_SIGNATURES_HTTP_LINES_H

#include "gpu/stages/signatures/packet.h"

#define XG_HTTP_LF 10u
#define XG_HTTP_CR 13u
#define XG_HTTP_NO_FIT 63u /* gpu/best_fit.hpp */

XG_FN bool xg_http_is_space(u32 byte) { return byte == 32u || byte - 9u < 5u; }
XG_FN bool xg_http_is_blank(u32 byte) { return byte == 32u || byte == 9u; }
XG_FN u32 xg_http_lower(u32 byte) { return byte - 65u < 26u ? byte + 32u : byte; }

/* ---- bytes in words of a state, from the word `base` on
 * ------------------------------------------------------
 */

XG_FN u32 xg_http_byte(xg_state s, u32 base, u32 at) {
  return (s.v[base + (at >> 2)] >> ((at & 3u) * 8u)) & 0xffu;
}
XG_FN u32 xg_http_load(xg_state s, u32 base, u32 at) { return XG_UNALIGNED(s, base + (at >> 2), at & 3u); }
XG_FN void xg_http_set(xg_state s, u32 base, u32 at, u32 byte) {
  u32 word = base + (at >> 2);
  u32 shift = (at & 3u) * 8u;
  s.v[word] = (s.v[word] & ~(0xffu << shift)) | (byte << shift);
}
/* Four bytes. What stands behind them in their last word is lost. */
XG_FN void xg_http_put(xg_state s, u32 base, u32 at, u32 four) {
  u32 word = base + (at >> 2);
  u32 shift = (at & 3u) * 8u;
  if (shift == 0u) {
    s.v[word] = four;
    return;
  }
  s.v[word] = (s.v[word] & ((1u << shift) - 1u)) | (four << shift);
  s.v[word + 1u] = four >> (32u - shift);
}
/* As many as are wanted, from words that they do not overlap. */
XG_SELDOM void xg_http_copy(xg_state s, u32 base, u32 to, u32 from_base, u32 from, u32 bytes) {
  for (u32 i = 0u; i < bytes; i += 4u) xg_http_put(s, base, to + i, xg_http_load(s, from_base, from + i));
}

/* A bit for each byte of the word that is `byte`; right for the lowest one. */
XG_FN u32 xg_http_matches(u32 word, u32 byte) {
  u32 other = word ^ (byte * 0x01010101u);
  return (other - 0x01010101u) & ~other & 0x80808080u;
}
/* Where one of two bytes stands first from `from` on; `end`: nowhere in front of that. */
XG_SELDOM u32 xg_http_find(xg_state s, u32 base, u32 from, u32 end, u32 one, u32 other) {
  for (u32 at = from; at < end; at += 4u) {
    u32 word = xg_http_load(s, base, at);
    u32 found = xg_http_matches(word, one) | xg_http_matches(word, other);
    if (found == 0u) continue;
    u32 place = at + (XG_LOWEST_BIT(found) >> 3);
    return place < end ? place : end;
  }
  return end;
}

/* Behind the line that goes on from `from` on; more than `end`: what ends it is not there. by_cr: a CR that
 * neither CR nor LF follows does, too. */
XG_SELDOM u32 xg_http_line_behind(xg_state s, u32 base, u32 from, u32 end, bool by_cr) {
  u32 at = from;
  for (;;) {
    at = xg_http_find(s, base, at, end, XG_HTTP_LF, by_cr ? XG_HTTP_CR : XG_HTTP_LF);
    if (at >= end) return end + 1u;
    if (xg_http_byte(s, base, at) == XG_HTTP_LF) return at + 1u;
    at += 1u;
    if (at == end) return end + 1u;
    u32 next = xg_http_byte(s, base, at);
    if (next != XG_HTTP_CR && next != XG_HTTP_LF) return at;
  }
}

/* ---- a request's line ------------------------------------------------------------------------------------
 */

/* Bytes from one to another one. */
struct xg_http_span {
  u32 begin;
  u32 end;
};
XG_FN xg_http_span xg_http_span_of(u32 begin, u32 end) {
  xg_http_span made;
  made.begin = begin;
  made.end = end;
  return made;
}
XG_FN u32 xg_http_bytes(xg_http_span some) { return some.end - some.begin; }

struct xg_http_line {
  xg_http_span all;    /* without what ends it */
  xg_http_span first;  /* a method; an answer's protocol */
  xg_http_span second; /* a URI, a status; empty: there is none */
  xg_http_span third;  /* a protocol, a message; likewise */
  u32 behind;          /* what ends it */
};

/* Without what ends a line. */
XG_FN u32 xg_http_line_end(xg_state s, u32 base, u32 begin, u32 end) {
  while (end > begin) {
    u32 byte = xg_http_byte(s, base, end - 1u);
    if (byte != XG_HTTP_LF && byte != XG_HTTP_CR) break;
    end -= 1u;
  }
  return end;
}

/* The words of the line that begins at `begin`, and is no longer than up to `most`: the first one; the
 * second, of a request up to a space or, if there is none, another one that parts words; and all behind that.
 */
XG_SELDOM xg_http_line xg_http_read_line(xg_state s, u32 base, u32 begin, u32 most, bool is_answer) {
  xg_http_line made;
  made.behind = xg_http_line_behind(s, base, begin, most, is_answer);
  if (made.behind > most) made.behind = most;
  u32 end = xg_http_line_end(s, base, begin, made.behind);
  made.all = xg_http_span_of(begin, end);
  u32 at = begin;
  u32 word = 0u;
  u32 first_space = end;
  bool parts = true; /* what stands in front parts words */
  made.first = made.second = made.third = xg_http_span_of(end, end);
  for (; at < end && word < 3u; at++) {
    u32 byte = xg_http_byte(s, base, at);
    bool is_space = xg_http_is_space(byte);
    if (parts && is_space) continue;
    if (parts) {
      parts = false;
      if (word == 0u) made.first.begin = at;
      if (word == 1u) made.second.begin = at;
      if (word == 2u) made.third.begin = at;
      if (word == 2u) word = 3u;
      continue;
    }
    if (!is_space) continue;
    if (word == 1u && byte != 32u && !is_answer) {
      if (first_space == end) first_space = at;
      continue;
    }
    if (word == 0u) made.first.end = at;
    if (word == 1u) made.second.end = at;
    word += 1u;
    parts = true;
  }
  /* No space is behind the second one. */
  if (word == 1u && !parts && first_space != end) {
    made.second.end = first_space;
    at = first_space;
    while (at < end && xg_http_is_space(xg_http_byte(s, base, at))) at += 1u;
    made.third.begin = at;
  }
  return made;
}

/* Which of so many words that are compared these bytes are, in whatever case; `count`: none. `words`: ->
 * XG_HTTP_WORD words each. */
XG_SELDOM u32 xg_http_which(XG_IN(xg_batch) b, u32 words, u32 count, xg_state s, u32 base,
                            xg_http_span some) {
  u32 bytes = xg_http_bytes(some);
  for (u32 i = 0u; i < count; i++) {
    u32 word = words + i * XG_HTTP_WORD;
    bool same = b.image.v[word] == bytes;
    for (u32 at = 0u; at < bytes && same; at += 4u) {
      u32 four = xg_lower32(xg_http_load(s, base, some.begin + at));
      if (bytes - at < 4u) four &= (1u << ((bytes - at) * 8u)) - 1u;
      same = four == b.image.v[word + 1u + (at >> 2)];
    }
    if (same) return i;
  }
  return count;
}

/* Where something begins behind spaces and NULs; `end`: nothing does. */
XG_FN u32 xg_http_behind_spaces(xg_state s, u32 base, u32 at, u32 end) {
  while (at < end) {
    u32 byte = xg_http_byte(s, base, at);
    if (byte != 0u && !xg_http_is_space(byte)) break;
    at += 1u;
  }
  return at;
}
/* Whether an answer begins at `at`, of bytes up to `end`. */
XG_FN bool xg_http_begins_answer(xg_state s, u32 base, u32 at, u32 end) {
  return end - at >= 4u && xg_lower32(xg_http_load(s, base, at)) == 0x70747468u;
}

/* Whether a line begins a request. */
XG_FN bool xg_http_begins(XG_IN(xg_batch) b, u32 body, xg_state s, u32 base, xg_http_line line) {
  for (u32 i = 0u; i < 2u; i++) {
    xg_http_span word = line.third;
    if (i != 0u) word = line.second;
    if (xg_http_bytes(word) >= 5u && xg_lower32(xg_http_load(s, base, word.begin)) == 0x70747468u &&
        xg_http_byte(s, base, word.begin + 4u) == 47u)
      return true;
  }
  u32 methods = b.image.v[body + XG_STREAMS_HTTP_NAMED] + XG_HTTP_NAMED * XG_HTTP_WORD;
  return xg_http_which(b, methods, XG_HTTP_METHODS, s, base, line.first) < XG_HTTP_METHODS;
}

/* ---- a head that is read
 * -----------------------------------------------------------------------------------
 *
 * Each loop through bytes stands here once: those who inline it all, as Vulkan's compilers do, would have it
 * as often as it is called.
 */

struct xg_http_head {
  xg_state s;
  u32 body; /* of the part that follows streams */
  u32 room; /* where its words begin */
  u32 base; /* and the bytes */
  u32 most; /* bytes */
  u32 used;
  u32 over; /* 1: there is too little room */
  u32 lines;
  u32 wants; /* a bit for each part that is asked for */
  /* Of a request, or an answer: its first part; the one that is the first header's value; that of its
   * Content-Length; that of all headers. The names that are compared, how many, and which one is
   * Transfer-Encoding. */
  u32 first;
  u32 values;
  u32 length;
  u32 header;
  u32 names;
  u32 named;
  u32 coding;
  u32 is_answer;
  u32 parts; /* 1: a line that goes on is one of its own where it and those in front have colons */
  /* What is behind it: */
  u32 is_chunked;
  u32 is_encoded;
  u32 has_length; /* 1: a Content-Length says body_bytes */
  u32 body_bytes;
};

XG_FN bool xg_http_wants(xg_http_head h, u32 part) { return ((h.wants >> part) & 1u) != 0u; }
/* Where its part's word is. */
XG_FN u32 xg_http_part(xg_http_head h, u32 part) { return h.room + XG_HTTP_PARTS + part - h.first; }
XG_FN void xg_http_is(xg_http_head h, u32 part, u32 begin, u32 end) {
  h.s.v[xg_http_part(h, part)] = begin | (end - begin) << 16;
}
/* Whether there is room for so many bytes. */
XG_FN bool xg_http_fits(XG_INOUT(xg_http_head) h, u32 bytes) {
  if (bytes <= h.most - h.used && h.over == 0u) return true;
  h.over = 1u;
  return false;
}
XG_FN void xg_http_append(XG_INOUT(xg_http_head) h, u32 four, u32 bytes) {
  xg_http_put(h.s, h.base, h.used, four);
  h.used += bytes;
}

/* The words of its n-th line. */
XG_FN u32 xg_http_line_at(xg_http_head h, u32 n) { return h.room + XG_HTTP_LINES + n * XG_HTTP_LINE; }

/* Whether two names of one hash are the same, in whatever case. */
XG_FN bool xg_http_same(xg_http_head h, u32 one, u32 other) {
  if (one >> 16 != other >> 16) return false;
  u32 bytes = one >> 16;
  for (u32 i = 0u; i < bytes; i += 4u) {
    u32 differ = xg_lower32(xg_http_load(h.s, h.base, (one & 0xffffu) + i)) ^
                 xg_lower32(xg_http_load(h.s, h.base, (other & 0xffffu) + i));
    if (bytes - i < 4u) differ &= (1u << ((bytes - i) * 8u)) - 1u;
    if (differ != 0u) return false;
  }
  return true;
}

/* Notes the header that stands in the bytes from `begin` up to what is used. */
XG_SELDOM void xg_http_note(XG_IN(xg_batch) b, XG_INOUT(xg_http_head) h, u32 begin) {
  u32 end = h.used;
  u32 name = begin;
  u32 value = begin;
  u32 colon = xg_http_find(h.s, h.base, begin, end, 58u, h.is_answer != 0u ? 58u : 0u);
  if (colon < end && xg_http_byte(h.s, h.base, colon) == 58u) {
    name = colon;
    while (name > begin && xg_http_is_blank(xg_http_byte(h.s, h.base, name - 1u))) name -= 1u;
    value = colon + 1u;
    while (value < end && xg_http_is_blank(xg_http_byte(h.s, h.base, value))) value += 1u;
  }
  while (end > value && xg_http_is_blank(xg_http_byte(h.s, h.base, end - 1u))) end -= 1u;
  u32 span = begin | (name - begin) << 16;
  u32 hash = name - begin;
  for (u32 at = begin; at < name; at += 4u) {
    u32 four = xg_lower32(xg_http_load(h.s, h.base, at));
    if (name - at < 4u) four &= (1u << ((name - at) * 8u)) - 1u;
    hash = (hash ^ four) * 0x9e3779b1u;
  }
  u32 first = h.lines;
  for (u32 i = 0u; i < h.lines && first == h.lines; i++) {
    u32 other = xg_http_line_at(h, i);
    if (h.s.v[other + 2u] == hash && XG_HTTP_LINE_FIRST(h.s.v[other + 3u]) == i &&
        xg_http_same(h, h.s.v[other], span))
      first = i;
  }
  u32 line = xg_http_line_at(h, h.lines);
  u32 says = 0u;
  if (first != h.lines) {
    u32 other = xg_http_line_at(h, first) + 3u;
    says = h.s.v[other];
    h.s.v[other] = says | XG_HTTP_LINE_MORE;
  } else {
    says = first | xg_http_which(b, h.names, h.named, h.s, h.base, xg_http_span_of(begin, name)) << 8;
  }
  h.s.v[line] = span;
  h.s.v[line + 1u] = value | (end - value) << 16;
  h.s.v[line + 2u] = hash;
  h.s.v[line + 3u] = says;
  h.lines += 1u;
}

/* Whether a line that goes on, from `at` to `to` of the words from `from` on, is one of its own. begin: of
 * what is in front of it. */
XG_FN bool xg_http_parts(xg_http_head h, u32 begin, u32 from, u32 at, u32 to) {
  if (h.parts == 0u) return false;
  u32 base = h.base;
  u32 first = begin;
  u32 end = h.used;
  for (u32 i = 0u; i < 2u; i++) {
    if (xg_http_find(h.s, base, first, end, 58u, 58u) == end) return false;
    base = from;
    first = at;
    end = to;
  }
  return true;
}

/* Puts the lines from `at` to `end` of the words from `from` on there, without their ends, those that go on
 * with those in front of them, and notes them; but the first one is no header. */
XG_SELDOM void xg_http_unfold(XG_IN(xg_batch) b, XG_INOUT(xg_http_head) h, u32 from, u32 at, u32 end) {
  bool went_on = false;
  bool is_open = false;
  bool is_header = false;
  u32 begin = h.used;
  for (;;) {
    u32 behind = xg_http_line_behind(h.s, from, at, end, h.is_answer != 0u);
    if (behind > end) behind = end;
    u32 to = xg_http_line_end(h.s, from, at, behind);
    u32 first = at < to ? xg_http_byte(h.s, from, at) : 1u;
    if (at < to) went_on = first == 0u || xg_http_is_blank(first);
    bool goes_on = went_on && is_open && at < end;
    bool parts = goes_on && xg_http_parts(h, begin, from, at, to);
    if (is_open && (!goes_on || parts)) xg_http_note(b, h, begin);
    if (at >= end) return;
    if (parts) {
      at += 1u;
      begin = h.used;
    } else if (!goes_on) {
      while (is_header && at < to && (first == 0u || xg_http_is_blank(first))) {
        at += 1u;
        first = at < to ? xg_http_byte(h.s, from, at) : 1u;
      }
      begin = h.used;
      is_open = is_header;
    }
    xg_http_copy(h.s, h.base, h.used, from, at, to - at);
    h.used += to - at;
    at = behind;
    if (!is_header) went_on = false;
    is_header = true;
  }
}

#endif
