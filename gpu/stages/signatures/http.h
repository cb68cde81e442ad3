/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/http.h: the head of a request by HTTP/1 as rules see it (gpu/signatures.hpp, "HTTP"),
 * in the text of a client's stream. One lane reads it, and puts its parts behind the connection's sides.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_HTTP_H
#define XDPGPU_STAGES_SIGNATURES_HTTP_H

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
  xg_http_span all; /* without what ends it */
  xg_http_span method;
  xg_http_span uri;      /* empty: there is none */
  xg_http_span protocol; /* likewise */
  u32 behind;            /* what ends it */
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
 * second, up to a space or, if there is none, another one that parts words; and all behind that. */
XG_SELDOM xg_http_line xg_http_read_line(xg_state s, u32 base, u32 begin, u32 most) {
  xg_http_line made;
  made.behind = xg_http_find(s, base, begin, most, XG_HTTP_LF, XG_HTTP_LF);
  if (made.behind < most) made.behind += 1u;
  u32 end = xg_http_line_end(s, base, begin, made.behind);
  made.all = xg_http_span_of(begin, end);
  u32 at = begin;
  u32 word = 0u;
  u32 first_space = end;
  bool parts = true; /* what stands in front parts words */
  made.method = made.uri = made.protocol = xg_http_span_of(end, end);
  for (; at < end && word < 3u; at++) {
    u32 byte = xg_http_byte(s, base, at);
    bool is_space = xg_http_is_space(byte);
    if (parts && is_space) continue;
    if (parts) {
      parts = false;
      if (word == 0u) made.method.begin = at;
      if (word == 1u) made.uri.begin = at;
      if (word == 2u) made.protocol.begin = at;
      if (word == 2u) word = 3u;
      continue;
    }
    if (!is_space) continue;
    if (word == 1u && byte != 32u) {
      if (first_space == end) first_space = at;
      continue;
    }
    if (word == 0u) made.method.end = at;
    if (word == 1u) made.uri.end = at;
    word += 1u;
    parts = true;
  }
  /* No space is behind the second one. */
  if (word == 1u && !parts && first_space != end) {
    made.uri.end = first_space;
    at = first_space;
    while (at < end && xg_http_is_space(xg_http_byte(s, base, at))) at += 1u;
    made.protocol.begin = at;
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

/* Whether a line begins a request. */
XG_FN bool xg_http_begins(XG_IN(xg_batch) b, u32 body, xg_state s, u32 base, xg_http_line line) {
  for (u32 i = 0u; i < 2u; i++) {
    xg_http_span word = line.protocol;
    if (i != 0u) word = line.uri;
    if (xg_http_bytes(word) >= 5u && xg_lower32(xg_http_load(s, base, word.begin)) == 0x70747468u &&
        xg_http_byte(s, base, word.begin + 4u) == 47u)
      return true;
  }
  u32 methods = b.image.v[body + XG_STREAMS_HTTP_NAMED] + XG_HTTP_NAMED * XG_HTTP_WORD;
  return xg_http_which(b, methods, XG_HTTP_METHODS, s, base, line.method) < XG_HTTP_METHODS;
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
  /* What is behind it: */
  u32 is_connect;
  u32 is_chunked;
  u32 body_bytes;
};

XG_FN bool xg_http_wants(xg_http_head h, u32 part) { return ((h.wants >> part) & 1u) != 0u; }
XG_FN void xg_http_is(xg_http_head h, u32 part, u32 begin, u32 end) {
  h.s.v[h.room + XG_HTTP_PARTS + part] = begin | (end - begin) << 16;
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
  u32 colon = xg_http_find(h.s, h.base, begin, end, 58u, 0u);
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
    says = first | xg_http_which(b, b.image.v[h.body + XG_STREAMS_HTTP_NAMED], XG_HTTP_NAMED, h.s, h.base,
                                 xg_http_span_of(begin, name))
                       << 8;
  }
  h.s.v[line] = span;
  h.s.v[line + 1u] = value | (end - value) << 16;
  h.s.v[line + 2u] = hash;
  h.s.v[line + 3u] = says;
  h.lines += 1u;
}

/* Puts the lines from `at` to `end` of the words from `from` on there, without their ends, those that go on
 * with those in front of them, and notes them; but the first one is a request's. */
XG_SELDOM void xg_http_unfold(XG_IN(xg_batch) b, XG_INOUT(xg_http_head) h, u32 from, u32 at, u32 end) {
  bool went_on = false;
  bool is_open = false;
  bool is_request = true;
  u32 begin = h.used;
  for (;;) {
    u32 behind = xg_http_find(h.s, from, at, end, XG_HTTP_LF, XG_HTTP_LF) + 1u;
    if (behind > end) behind = end;
    u32 to = xg_http_line_end(h.s, from, at, behind);
    u32 first = at < to ? xg_http_byte(h.s, from, at) : 1u;
    if (at < to) went_on = first == 0u || xg_http_is_blank(first);
    bool goes_on = went_on && is_open && at < end;
    if (is_open && !goes_on) xg_http_note(b, h, begin);
    if (at >= end) return;
    if (!goes_on) {
      while (!is_request && at < to && (first == 0u || xg_http_is_blank(first))) {
        at += 1u;
        first = at < to ? xg_http_byte(h.s, from, at) : 1u;
      }
      begin = h.used;
      is_open = !is_request;
    }
    xg_http_copy(h.s, h.base, h.used, from, at, to - at);
    h.used += to - at;
    at = behind;
    if (is_request) went_on = false;
    is_request = false;
  }
}

/* ---- URIs and hosts
 * ----------------------------------------------------------------------------------------
 */

/* The value of a hexadecimal digit; 16: it is none. */
XG_FN u32 xg_http_digit(u32 byte) {
  if (byte - 48u < 10u) return byte - 48u;
  u32 letter = byte | 32u;
  return letter - 97u < 6u ? letter - 87u : 16u;
}

/* The single byte for a character. */
XG_FN u32 xg_http_fit(xg_batch b, u32 body, u32 code) {
  if (code < 0x100u) return code;
  u32 fits = b.image.v[body + XG_STREAMS_HTTP_FITS];
  u32 first = 0u;
  u32 end = b.image.v[body + XG_STREAMS_HTTP_FITS + 1u];
  while (first < end) {
    u32 middle = (first + end) >> 1;
    u32 word = b.image.v[fits + middle];
    if ((word >> 8) == code) return word & 0xffu;
    if ((word >> 8) < code)
      first = middle + 1u;
    else
      end = middle;
  }
  return XG_HTTP_NO_FIT;
}

#define XG_HTTP_BYTES_DECODED 1u /* each %XX is a byte */
#define XG_HTTP_WORDS_DECODED 2u /* and each %uXXXX */
#define XG_HTTP_IS_PATH 4u       /* "\" is "/", and several of those are one */
#define XG_HTTP_LOWER_CASE 8u
/* Appends the bytes, as `how` says. */
XG_SELDOM void xg_http_decode(XG_IN(xg_batch) b, XG_INOUT(xg_http_head) h, xg_http_span some, u32 how) {
  u32 before = 0u;
  u32 at = some.begin;
  while (at < some.end) {
    u32 byte = xg_http_byte(h.s, h.base, at);
    u32 size = 1u;
    if (byte == 37u && (how & XG_HTTP_BYTES_DECODED) != 0u) {
      bool is_word = (how & XG_HTTP_WORDS_DECODED) != 0u && some.end - at > 1u &&
                     (xg_http_byte(h.s, h.base, at + 1u) | 32u) == 117u;
      u32 digits = is_word ? 4u : 2u;
      u32 skip = is_word ? 2u : 1u;
      u32 value = 0u;
      bool there = some.end - at >= skip + digits;
      for (u32 i = 0u; i < digits && there; i++) {
        u32 digit = xg_http_digit(xg_http_byte(h.s, h.base, at + skip + i));
        there = digit < 16u;
        value = value << 4 | digit;
      }
      if (there) {
        byte = xg_http_fit(b, h.body, value);
        size = skip + digits;
      }
    }
    at += size;
    if ((how & XG_HTTP_IS_PATH) != 0u && byte == 92u) byte = 47u;
    if ((how & XG_HTTP_IS_PATH) != 0u && byte == 47u && before == 47u) continue;
    if ((how & XG_HTTP_LOWER_CASE) != 0u) byte = xg_http_lower(byte);
    before = byte;
    xg_http_set(h.s, h.base, h.used, byte);
    h.used += 1u;
  }
}

/* How many bytes follow a character's first one; 0: it is none of several. */
XG_FN u32 xg_http_more(u32 first) {
  if (first < 0xc0u || first > 0xf4u) return 0u;
  return first < 0xe0u ? 1u : first < 0xf0u ? 2u : 3u;
}

/* UTF-8 as single bytes, from `at` up to what is used. */
XG_SELDOM void xg_http_narrow(XG_IN(xg_batch) b, XG_INOUT(xg_http_head) h, u32 at) {
  u32 to = at;
  u32 end = h.used;
  while (at < end) {
    u32 first = xg_http_byte(h.s, h.base, at);
    u32 code = first;
    u32 more = xg_http_more(first);
    u32 have = 0u;
    at += 1u;
    if (more != 0u) code = first & (0x3fu >> more);
    bool goes_on = true;
    while (have < more && at < end) {
      u32 byte = xg_http_byte(h.s, h.base, at);
      u32 behind = have != 0u ? 0xc0u : first == 0xedu ? 0xa0u : first == 0xf4u ? 0x90u : 0xc0u;
      goes_on = byte >= 0x80u && byte < behind;
      if (!goes_on) break;
      code = code << 6 | (byte & 0x3fu);
      have += 1u;
      at += 1u;
    }
    bool is_cut = have < more;
    if (is_cut && goes_on) break; /* at the end */
    bool is_none = is_cut || (more == 0u && first >= 0x80u);
    u32 byte = xg_http_fit(b, h.body, code);
    xg_http_set(h.s, h.base, to, is_none ? XG_HTTP_NO_FIT : byte);
    to += 1u;
  }
  h.used = to;
}

/* How many dots, one or two, are all of a segment at `at`; 0: none are. */
XG_FN u32 xg_http_dots(xg_http_head h, u32 at, u32 end) {
  u32 dots = 0u;
  while (dots < 3u && at + dots < end && xg_http_byte(h.s, h.base, at + dots) == 46u) dots += 1u;
  if (dots == 3u) return 0u;
  return at + dots == end || xg_http_byte(h.s, h.base, at + dots) == 47u ? dots : 0u;
}

/* Takes segments "." and ".." out, from `at` up to what is used. */
XG_SELDOM void xg_http_walk(XG_INOUT(xg_http_head) h, u32 at) {
  u32 begin = at;
  u32 to = at;
  u32 end = h.used;
  while (at < end) {
    u32 slash = xg_http_byte(h.s, h.base, at) == 47u ? 1u : 0u;
    u32 dots = xg_http_dots(h, at + slash, end);
    if (dots == 0u) {
      do {
        xg_http_set(h.s, h.base, to, xg_http_byte(h.s, h.base, at));
        to += 1u;
        at += 1u;
      } while (at < end && xg_http_byte(h.s, h.base, at) != 47u);
      continue;
    }
    /* With the slash in front of it or, where there is none, behind it. */
    at += dots + 1u;
    if (at > end) at = end;
    if (slash == 0u) continue;
    /* Of the slash that is left at the end nothing is. */
    if (end - at == 1u) at = end;
    if (dots == 1u) continue;
    while (to > begin && xg_http_byte(h.s, h.base, to - 1u) != 47u) to -= 1u;
    if (to > begin) to -= 1u;
  }
  h.used = to;
}

struct xg_http_uri {
  xg_http_span authority;
  u32 has_authority;
  u32 path; /* begins here */
  u32 query;
  u32 fragment;
  u32 end;
};
XG_SELDOM xg_http_uri xg_http_read_uri(xg_http_head h, xg_http_span all) {
  xg_http_uri made;
  made.authority = xg_http_span_of(all.begin, all.begin);
  made.has_authority = 0u;
  made.path = all.begin;
  made.query = made.fragment = made.end = all.end;
  bool may_be_scheme = all.begin < all.end && xg_http_byte(h.s, h.base, all.begin) != 47u;
  bool in_authority = false;
  for (u32 at = all.begin; at < all.end; at++) {
    u32 byte = xg_http_byte(h.s, h.base, at);
    if (may_be_scheme && byte == 58u) {
      may_be_scheme = false;
      made.path = at + 1u;
      made.query = made.fragment = all.end;
      if (all.end - at > 3u && (xg_http_load(h.s, h.base, at + 1u) & 0xffffu) == 0x2f2fu &&
          xg_http_byte(h.s, h.base, at + 3u) != 47u) {
        in_authority = true;
        made.has_authority = 1u;
        made.authority = xg_http_span_of(at + 3u, all.end);
        made.path = all.end;
        at += 2u;
      }
      continue;
    }
    if (in_authority) {
      if (byte != 63u && byte != 47u && byte != 35u) continue;
      in_authority = false;
      made.authority.end = made.path = at;
    }
    if (byte == 63u && made.query == all.end && made.fragment == all.end) made.query = at;
    if (byte == 35u && made.fragment == all.end) made.fragment = at;
  }
  if (made.query == all.end) made.query = made.fragment;
  return made;
}

/* Where the host stands in what a Host header says or, `in_uri`, in an authority. False: there is none. */
XG_SELDOM bool xg_http_find_host(xg_http_head h, XG_INOUT(xg_http_span) some, bool in_uri) {
  u32 begin = some.begin;
  u32 end = some.end;
  if (!in_uri) {
    while (begin < end && xg_http_is_space(xg_http_byte(h.s, h.base, begin))) begin += 1u;
    while (end > begin && xg_http_is_space(xg_http_byte(h.s, h.base, end - 1u))) end -= 1u;
    if (begin == end) return false;
  }
  bool may_be_user = in_uri;
  bool is_v6 = false;
  u32 until = end;
  for (u32 at = begin; at < end; at++) {
    u32 byte = xg_http_byte(h.s, h.base, at);
    if (may_be_user && byte == 64u) {
      may_be_user = false;
      begin = at + 1u;
      until = end;
      is_v6 = false;
      continue;
    }
    if (at == begin && byte == 91u) is_v6 = true;
    if (until == end && byte == (is_v6 ? 93u : 58u)) until = at;
  }
  u32 last = until;
  if (is_v6 && until == end && !in_uri) return false;
  if (is_v6 && until < end) last = until + 1u;
  while (!in_uri && !is_v6 && last > begin && xg_http_is_space(xg_http_byte(h.s, h.base, last - 1u)))
    last -= 1u;
  some = xg_http_span_of(begin, last);
  return true;
}

/* Puts the URI as it is normalized, and the host with a dot in front, in lower case. `raw`: the URI; host:
 * what it is taken from, where that is not the URI's authority. */
XG_SELDOM void xg_http_spell(XG_IN(xg_batch) b, XG_INOUT(xg_http_head) h, xg_http_span raw, u32 host) {
  xg_http_uri uri = xg_http_read_uri(h, raw);
  bool wants_uri = xg_http_wants(h, XG_HTTP_URI) && raw.begin != raw.end;
  bool in_uri = uri.has_authority != 0u;
  xg_http_span from = uri.authority;
  if (!in_uri) from = xg_http_span_of(host & 0xffffu, (host & 0xffffu) + (host >> 16));
  u32 rooms[2];
  rooms[0] = xg_http_bytes(raw);
  rooms[1] = 1u + xg_http_bytes(from);
  u32 begin = h.used;
  /* Path, query, fragment; host. */
  for (u32 piece = 0u; piece < 4u; piece++) {
    bool is_host = piece == 3u;
    xg_http_span some = xg_http_span_of(uri.path, uri.query);
    if (piece == 1u) some = xg_http_span_of(uri.query, uri.fragment);
    if (piece == 2u) some = xg_http_span_of(uri.fragment, uri.end);
    if (!is_host && (!wants_uri || (piece != 0u && some.begin == some.end))) continue;
    if (piece == 0u && !xg_http_fits(h, rooms[0])) wants_uri = false;
    if (!is_host && !wants_uri) continue;
    if (is_host) {
      begin = h.used;
      if (!xg_http_wants(h, XG_HTTP_HOST) || (!in_uri && host == XG_HTTP_ABSENT)) return;
      if (!xg_http_fits(h, rooms[1])) return;
      if (!xg_http_find_host(h, from, in_uri)) {
        h.used = begin + rooms[1];
        return;
      }
      some = from;
    }
    u32 how = XG_HTTP_BYTES_DECODED | XG_HTTP_WORDS_DECODED;
    if (piece == 0u) how |= XG_HTTP_IS_PATH;
    if (piece == 1u) how = XG_HTTP_BYTES_DECODED;
    if (is_host) how = XG_HTTP_LOWER_CASE | (in_uri ? how : 0u);
    if (piece != 0u) xg_http_append(h, is_host ? 46u : piece == 1u ? 63u : 35u, 1u);
    if (!is_host && piece != 0u) some.begin += 1u;
    xg_http_decode(b, h, some, how);
    if (piece == 0u) {
      xg_http_narrow(b, h, begin);
      xg_http_walk(h, begin);
    }
    if (!is_host) {
      xg_http_is(h, XG_HTTP_URI, begin, h.used);
      if (piece == 2u || (piece == 1u && uri.fragment == uri.end) || (piece == 0u && uri.query == uri.end))
        h.used = begin + rooms[0];
    } else {
      u32 to = h.used;
      while (in_uri && to > begin + 1u && xg_http_byte(h.s, h.base, to - 1u) == 46u) to -= 1u;
      xg_http_is(h, XG_HTTP_HOST, begin + 1u, to);
      h.used = begin + rooms[1];
    }
  }
}

/* ---- headers ---------------------------------------------------------------------------------------------
 */

/* The first number that stands in the bytes; 0 where there is none, or one that is too large. */
XG_FN u32 xg_http_number(xg_http_head h, u32 span) {
  u32 at = span & 0xffffu;
  u32 end = at + (span >> 16);
  u32 value = 0u;
  bool has_begun = false;
  for (; at < end; at++) {
    u32 digit = xg_http_byte(h.s, h.base, at) - 48u;
    if (digit >= 10u && has_begun) break;
    if (digit >= 10u) continue;
    has_begun = true;
    if (value > (XG_HTTP_MOST_BODY - digit) / 10u) return 0u;
    value = value * 10u + digit;
  }
  return value;
}

/* Whether "chunked" stands in them. */
XG_FN bool xg_http_is_chunked(xg_http_head h, u32 span) {
  u32 at = span & 0xffffu;
  u32 end = at + (span >> 16);
  for (; end - at >= 7u; at++)
    if (xg_lower32(xg_http_load(h.s, h.base, at)) == 0x6e756863u &&
        (xg_lower32(xg_http_load(h.s, h.base, at + 4u)) & 0xffffffu) == 0x64656bu)
      return true;
  return false;
}

/* The values of headers that have a part, as long as one line has them; and what they say of the body.
 * Returns a bit for each part that several lines have. */
XG_SELDOM u32 xg_http_values(XG_INOUT(xg_http_head) h) {
  u32 several = 0u;
  for (u32 n = 0u; n < h.lines; n++) {
    u32 line = xg_http_line_at(h, n);
    u32 says = h.s.v[line + 3u];
    u32 named = XG_HTTP_LINE_NAMED(says);
    u32 span = h.s.v[line + 1u];
    if (named == XG_HTTP_TRANSFER_ENCODING && xg_http_is_chunked(h, span)) h.is_chunked = 1u;
    if (named >= XG_HTTP_TRANSFER_ENCODING || XG_HTTP_LINE_FIRST(says) != n) continue;
    u32 part = XG_HTTP_RAW_HOST + named;
    if (part == XG_HTTP_CONTENT_LENGTH) h.body_bytes = xg_http_number(h, span);
    if ((says & XG_HTTP_LINE_MORE) != 0u && part != XG_HTTP_CONTENT_LENGTH) several |= 1u << part;
    h.s.v[h.room + XG_HTTP_PARTS + part] = span;
  }
  return several;
}

/* Puts a part that many lines make: the values of one name, all headers but cookies, or all names. */
XG_SELDOM void xg_http_gather(XG_INOUT(xg_http_head) h, u32 part) {
  bool all = part == XG_HTTP_HEADER;
  bool names = part == XG_HTTP_HEADER_NAMES;
  u32 begin = h.used;
  u32 bytes = names ? 4u : 0u;
  u32 count = 0u;
  /* First how many bytes there are. */
  for (u32 pass = 0u; pass < 2u; pass++) {
    if (pass != 0u && names) xg_http_append(h, 0x0a0du, 2u);
    for (u32 n = 0u; n < h.lines; n++) {
      u32 says = h.s.v[xg_http_line_at(h, n) + 3u];
      u32 named = XG_HTTP_LINE_NAMED(says);
      if (XG_HTTP_LINE_FIRST(says) != n || (all && named == XG_HTTP_COOKIE - XG_HTTP_RAW_HOST)) continue;
      if (!all && !names && named != part - XG_HTTP_RAW_HOST) continue;
      count += 1u;
      bool once =
          (says & XG_HTTP_LINE_MORE) == 0u || names || named == XG_HTTP_CONTENT_LENGTH - XG_HTTP_RAW_HOST;
      /* The name; its value; and those of other lines of this name. */
      u32 m = n;
      u32 word = all || names ? 0u : 1u;
      for (;;) {
        u32 line = xg_http_line_at(h, m);
        u32 span = h.s.v[line + word];
        u32 front = word == 0u || (m == n && !all) ? 0u : m == n ? 0x203au : 0x202cu;
        if (pass == 0u) {
          bytes += (span >> 16) + (front != 0u ? 2u : 0u);
        } else {
          if (front != 0u) xg_http_append(h, front, 2u);
          xg_http_copy(h.s, h.base, h.used, h.base, span & 0xffffu, span >> 16);
          h.used += span >> 16;
        }
        if (names) break;
        if (word != 0u) {
          if (once) break;
          do {
            m += 1u;
          } while (m < h.lines && XG_HTTP_LINE_FIRST(h.s.v[xg_http_line_at(h, m) + 3u]) != n);
          if (m == h.lines) break;
        }
        word = 1u;
      }
      if (!all && !names) continue;
      bytes += 2u;
      if (pass != 0u) xg_http_append(h, 0x0a0du, 2u);
    }
    if (pass == 0u && (count == 0u || !xg_http_fits(h, bytes))) return;
  }
  if (names) xg_http_append(h, 0x0a0du, 2u);
  xg_http_is(h, part, begin, h.used);
}

/* Reads the head that stands in the words from `from` on, from byte `at` up to `end`; line: its first one.
 * `h` says which words have room, and what is asked for. */
XG_SELDOM void xg_http_read(XG_IN(xg_batch) b, XG_INOUT(xg_http_head) h, u32 from, xg_http_line line,
                            u32 end) {
  for (u32 i = 0u; i < XG_HTTP_COUNT; i++) h.s.v[h.room + XG_HTTP_PARTS + i] = XG_HTTP_ABSENT;
  u32 at = line.all.begin;
  /* Up to the empty line. */
  u32 last = end;
  if (line.behind < end) last -= 1u;
  if (line.behind < last && xg_http_byte(h.s, from, last - 1u) == XG_HTTP_CR) last -= 1u;
  xg_http_unfold(b, h, from, at, last);
  xg_http_is(h, XG_HTTP_REQUEST_LINE, 0u, xg_http_bytes(line.all));
  xg_http_is(h, XG_HTTP_METHOD, line.method.begin - at, line.method.end - at);
  xg_http_span uri = xg_http_span_of(line.uri.begin - at, line.uri.end - at);
  if (uri.begin != uri.end) xg_http_is(h, XG_HTTP_RAW_URI, uri.begin, uri.end);
  if (line.protocol.begin != line.protocol.end)
    xg_http_is(h, XG_HTTP_PROTOCOL, line.protocol.begin - at, line.protocol.end - at);
  u32 begins = xg_lower32(xg_http_load(h.s, h.base, line.method.begin - at));
  u32 goes_on = xg_lower32(xg_http_load(h.s, h.base, line.method.begin - at + 4u)) & 0xffffffu;
  if (xg_http_bytes(line.method) == 7u && begins == 0x6e6e6f63u && goes_on == 0x746365u) h.is_connect = 1u;
  u32 several = xg_http_values(h);
  u32 made = h.wants & (several | 1u << XG_HTTP_HEADER | 1u << XG_HTTP_HEADER_NAMES);
  if (xg_http_wants(h, XG_HTTP_HOST)) made |= several & (1u << XG_HTTP_RAW_HOST);
  while (made != 0u) {
    u32 part = XG_LOWEST_BIT(made);
    made &= made - 1u;
    xg_http_gather(h, part);
  }
  xg_http_spell(b, h, uri, h.s.v[h.room + XG_HTTP_PARTS + XG_HTTP_RAW_HOST]);
}

#endif
