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
  xg_http_span method;
  xg_http_span uri;      /* empty: there is none */
  xg_http_span protocol; /* likewise */
};

/* Without what ends it. */
XG_FN u32 xg_http_line_end(xg_state s, u32 base, u32 begin, u32 end) {
  while (end > begin) {
    u32 byte = xg_http_byte(s, base, end - 1u);
    if (byte != XG_HTTP_LF && byte != XG_HTTP_CR) break;
    end -= 1u;
  }
  return end;
}
XG_FN u32 xg_http_skip_spaces(xg_state s, u32 base, u32 at, u32 end) {
  while (at < end && xg_http_is_space(xg_http_byte(s, base, at))) at += 1u;
  return at;
}
XG_FN u32 xg_http_skip_word(xg_state s, u32 base, u32 at, u32 end) {
  while (at < end && !xg_http_is_space(xg_http_byte(s, base, at))) at += 1u;
  return at;
}

/* The line's words; end: without what ends it. */
XG_SELDOM xg_http_line xg_http_read_line(xg_state s, u32 base, u32 begin, u32 end) {
  xg_http_line made;
  u32 at = xg_http_skip_spaces(s, base, begin, end);
  made.method.begin = at;
  at = made.method.end = xg_http_skip_word(s, base, at, end);
  at = xg_http_skip_spaces(s, base, at, end);
  made.uri.begin = made.uri.end = at;
  made.protocol.begin = made.protocol.end = end;
  if (at == end) return made;
  u32 to = xg_http_find(s, base, at, end, 32u, 32u);
  if (to == end) to = xg_http_skip_word(s, base, at, end);
  made.uri.end = to;
  made.protocol.begin = xg_http_skip_spaces(s, base, to, end);
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
XG_SELDOM bool xg_http_begins(XG_IN(xg_batch) b, u32 body, xg_state s, u32 base, u32 begin, u32 end) {
  end = xg_http_line_end(s, base, begin, end);
  xg_http_line line = xg_http_read_line(s, base, begin, end);
  if (xg_http_bytes(line.protocol) >= 5u &&
      xg_lower32(xg_http_load(s, base, line.protocol.begin)) == 0x70747468u &&
      xg_http_byte(s, base, line.protocol.begin + 4u) == 47u)
    return true;
  u32 methods = b.image.v[body + XG_STREAMS_HTTP_NAMED] + XG_HTTP_NAMED * XG_HTTP_WORD;
  return xg_http_which(b, methods, XG_HTTP_METHODS, s, base, line.method) < XG_HTTP_METHODS;
}

/* ---- a head that is read
 * -----------------------------------------------------------------------------------
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
XG_FN void xg_http_append_span(XG_INOUT(xg_http_head) h, u32 span) {
  xg_http_copy(h.s, h.base, h.used, h.base, span & 0xffffu, span >> 16);
  h.used += span >> 16;
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
  u32 value_end = end;
  while (value_end > value && xg_http_is_blank(xg_http_byte(h.s, h.base, value_end - 1u))) value_end -= 1u;
  u32 span = begin | (name - begin) << 16;
  u32 hash = name - begin;
  for (u32 at = begin; at < name; at += 4u) {
    u32 four = xg_lower32(xg_http_load(h.s, h.base, at));
    if (name - at < 4u) four &= (1u << ((name - at) * 8u)) - 1u;
    hash = (hash ^ four) * 0x9e3779b1u;
  }
  u32 line = xg_http_line_at(h, h.lines);
  u32 says = 0u;
  for (u32 i = 0u; i < h.lines && says == 0u; i++) {
    u32 other = xg_http_line_at(h, i);
    if (h.s.v[other + 2u] != hash || (h.s.v[other + 3u] & XG_HTTP_LINE_AGAIN) != 0u) continue;
    if (!xg_http_same(h, h.s.v[other], span)) continue;
    h.s.v[other + 3u] = h.s.v[other + 3u] | XG_HTTP_LINE_MORE;
    says = XG_HTTP_LINE_AGAIN;
  }
  if (says == 0u) {
    u32 named = xg_http_which(b, b.image.v[h.body + XG_STREAMS_HTTP_NAMED], XG_HTTP_NAMED, h.s, h.base,
                              xg_http_span_of(begin, name));
    if (named < XG_HTTP_NAMED) says = (named + 1u) << 8;
  }
  h.s.v[line] = span;
  h.s.v[line + 1u] = value | (value_end - value) << 16;
  h.s.v[line + 2u] = hash;
  h.s.v[line + 3u] = says;
  h.lines += 1u;
}

/* Puts the lines from `at` to `end` of the words from `from` on there, without their ends, those that go on
 * with those in front of them, and notes them. */
XG_SELDOM void xg_http_unfold(XG_IN(xg_batch) b, XG_INOUT(xg_http_head) h, u32 from, u32 at, u32 end) {
  bool went_on = false;
  bool is_open = false;
  u32 begin = h.used;
  while (at < end) {
    u32 behind = xg_http_find(h.s, from, at, end, XG_HTTP_LF, XG_HTTP_LF) + 1u;
    u32 to = xg_http_line_end(h.s, from, at, behind);
    u32 first = at < to ? xg_http_byte(h.s, from, at) : 1u;
    if (at < to) went_on = first == 0u || xg_http_is_blank(first);
    if (!went_on || !is_open) {
      if (is_open) xg_http_note(b, h, begin);
      while (at < to && (first == 0u || xg_http_is_blank(first))) {
        at += 1u;
        first = at < to ? xg_http_byte(h.s, from, at) : 1u;
      }
      begin = h.used;
      is_open = true;
    }
    xg_http_copy(h.s, h.base, h.used, from, at, to - at);
    h.used += to - at;
    at = behind;
  }
  if (is_open) xg_http_note(b, h, begin);
}

/* ---- the URI
 * -----------------------------------------------------------------------------------------------
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

/* Appends the bytes, each %XX and with `words` each %uXXXX as one; of a path "\" as "/", and several of those
 * as one. */
XG_SELDOM void xg_http_decode(XG_IN(xg_batch) b, XG_INOUT(xg_http_head) h, xg_http_span some, bool words,
                              bool is_path) {
  u32 before = 0u;
  u32 at = some.begin;
  while (at < some.end) {
    u32 byte = xg_http_byte(h.s, h.base, at);
    u32 size = 1u;
    if (byte == 37u) {
      bool is_word = words && some.end - at > 1u && (xg_http_byte(h.s, h.base, at + 1u) | 32u) == 117u;
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
    if (is_path && byte == 92u) byte = 47u;
    if (is_path && byte == 47u && before == 47u) continue;
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
    while (have < more && at < end && goes_on) {
      u32 byte = xg_http_byte(h.s, h.base, at);
      u32 least = 0x80u;
      u32 behind = 0xc0u;
      if (have == 0u && first == 0xedu) behind = 0xa0u;
      if (have == 0u && first == 0xf4u) behind = 0x90u;
      goes_on = byte >= least && byte < behind;
      if (!goes_on) break;
      code = code << 6 | (byte & 0x3fu);
      have += 1u;
      at += 1u;
    }
    bool is_cut = more != 0u && have < more;
    if (is_cut && goes_on) continue; /* at the end */
    u32 byte = is_cut || (more == 0u && first >= 0x80u) ? XG_HTTP_NO_FIT : xg_http_fit(b, h.body, code);
    xg_http_set(h.s, h.base, to, byte);
    to += 1u;
  }
  h.used = to;
}

/* Whether `bytes` bytes at `at` are there, and are "/", dots and "/", as far as they are so many. */
XG_FN bool xg_http_has_dots(xg_http_head h, u32 at, u32 end, u32 slash, u32 dots) {
  u32 size = slash + dots;
  if (end - at < size) return false;
  if (slash != 0u && xg_http_byte(h.s, h.base, at) != 47u) return false;
  for (u32 i = slash; i < size; i++)
    if (xg_http_byte(h.s, h.base, at + i) != 46u) return false;
  return end - at == size || xg_http_byte(h.s, h.base, at + size) == 47u;
}

/* Takes segments "." and ".." out, from `at` up to what is used. */
XG_SELDOM void xg_http_walk(XG_INOUT(xg_http_head) h, u32 at) {
  u32 begin = at;
  u32 to = at;
  u32 end = h.used;
  while (at < end) {
    bool is_slash = xg_http_byte(h.s, h.base, at) == 47u;
    u32 slash = is_slash ? 1u : 0u;
    u32 dots = xg_http_has_dots(h, at, end, slash, 1u)   ? 1u
               : xg_http_has_dots(h, at, end, slash, 2u) ? 2u
                                                         : 0u;
    if (dots == 0u) {
      do {
        xg_http_set(h.s, h.base, to, xg_http_byte(h.s, h.base, at));
        to += 1u;
        at += 1u;
      } while (at < end && xg_http_byte(h.s, h.base, at) != 47u);
      continue;
    }
    if (!is_slash) {
      /* Its slash, too. */
      at += dots + 1u;
      if (at > end) at = end;
      continue;
    }
    at += dots + 1u;
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
  xg_http_span path;
  xg_http_span query; /* from "?" on, if there is one */
  xg_http_span fragment;
};
XG_FN u32 xg_http_find_or(xg_http_head h, u32 from, u32 end, u32 one, u32 two, u32 three) {
  u32 found = xg_http_find(h.s, h.base, from, end, one, two);
  return xg_http_find(h.s, h.base, from, found, three, three);
}
XG_SELDOM xg_http_uri xg_http_read_uri(xg_http_head h, xg_http_span all) {
  xg_http_uri made;
  u32 at = all.begin;
  made.authority = xg_http_span_of(at, at);
  made.has_authority = 0u;
  if (at < all.end && xg_http_byte(h.s, h.base, at) != 47u) {
    u32 colon = xg_http_find(h.s, h.base, at, all.end, 58u, 58u);
    if (colon < all.end) {
      at = colon + 1u;
      if (all.end - at > 2u && (xg_http_load(h.s, h.base, at) & 0xffffu) == 0x2f2fu &&
          xg_http_byte(h.s, h.base, at + 2u) != 47u) {
        made.has_authority = 1u;
        made.authority = xg_http_span_of(at + 2u, xg_http_find_or(h, at + 2u, all.end, 63u, 47u, 35u));
        at = made.authority.end;
      }
    }
  }
  made.path = xg_http_span_of(at, xg_http_find(h.s, h.base, at, all.end, 63u, 35u));
  at = made.path.end;
  made.query = xg_http_span_of(at, at);
  if (at < all.end && xg_http_byte(h.s, h.base, at) == 63u)
    made.query.end = xg_http_find(h.s, h.base, at, all.end, 35u, 35u);
  made.fragment = xg_http_span_of(made.query.end, all.end);
  return made;
}

/* Puts the URI as it is normalized. `raw`: where it stands. */
XG_SELDOM void xg_http_normalize(XG_IN(xg_batch) b, XG_INOUT(xg_http_head) h, xg_http_uri uri, u32 raw) {
  if (!xg_http_fits(h, raw)) return;
  u32 begin = h.used;
  xg_http_decode(b, h, uri.path, true, true);
  xg_http_narrow(b, h, begin);
  xg_http_walk(h, begin);
  for (u32 part = 0u; part < 2u; part++) {
    xg_http_span some = uri.query;
    if (part != 0u) some = uri.fragment;
    if (some.begin == some.end) continue;
    xg_http_append(h, part != 0u ? 35u : 63u, 1u);
    xg_http_decode(b, h, xg_http_span_of(some.begin + 1u, some.end), part != 0u, false);
  }
  xg_http_is(h, XG_HTTP_URI, begin, h.used);
  h.used = begin + raw;
}

/* ---- hosts -----------------------------------------------------------------------------------------------
 */

/* Puts the host with a dot in front, in lower case, of what a Host header says or, `in_uri`, of an authority.
 */
XG_SELDOM void xg_http_host(XG_IN(xg_batch) b, XG_INOUT(xg_http_head) h, xg_http_span some, bool in_uri) {
  u32 room = 1u + xg_http_bytes(some);
  if (!xg_http_fits(h, room)) return;
  if (in_uri) {
    u32 at = xg_http_find(h.s, h.base, some.begin, some.end, 64u, 64u);
    if (at < some.end) some.begin = at + 1u;
  } else {
    some.begin = xg_http_skip_spaces(h.s, h.base, some.begin, some.end);
    while (some.end > some.begin && xg_http_is_space(xg_http_byte(h.s, h.base, some.end - 1u)))
      some.end -= 1u;
    if (some.begin == some.end) {
      h.used += room;
      return;
    }
  }
  bool is_v6 = some.begin < some.end && xg_http_byte(h.s, h.base, some.begin) == 91u;
  u32 until = is_v6 ? 93u : 58u;
  u32 end = xg_http_find(h.s, h.base, some.begin, some.end, until, until);
  if (is_v6 && end == some.end && !in_uri) {
    h.used += room;
    return;
  }
  if (is_v6 && end < some.end) end += 1u;
  if (!in_uri && !is_v6)
    while (end > some.begin && xg_http_is_space(xg_http_byte(h.s, h.base, end - 1u))) end -= 1u;
  u32 begin = h.used;
  xg_http_append(h, 46u, 1u);
  if (in_uri)
    xg_http_decode(b, h, xg_http_span_of(some.begin, end), true, false);
  else
    for (u32 at = some.begin; at < end; at++) {
      xg_http_set(h.s, h.base, h.used, xg_http_byte(h.s, h.base, at));
      h.used += 1u;
    }
  u32 to = h.used;
  while (in_uri && to > begin + 1u && xg_http_byte(h.s, h.base, to - 1u) == 46u) to -= 1u;
  for (u32 at = begin + 1u; at < to; at++)
    xg_http_set(h.s, h.base, at, xg_http_lower(xg_http_byte(h.s, h.base, at)));
  xg_http_is(h, XG_HTTP_HOST, begin + 1u, to);
  h.used = begin + room;
}

/* ---- headers ---------------------------------------------------------------------------------------------
 */

/* Bytes of all values of the n-th line's name. */
XG_FN u32 xg_http_value_bytes(xg_http_head h, u32 n) {
  u32 line = xg_http_line_at(h, n);
  u32 bytes = h.s.v[line + 1u] >> 16;
  u32 says = h.s.v[line + 3u];
  if ((says & XG_HTTP_LINE_MORE) == 0u ||
      XG_HTTP_LINE_NAMED(says) == XG_HTTP_CONTENT_LENGTH - XG_HTTP_RAW_HOST + 1u)
    return bytes;
  for (u32 i = n + 1u; i < h.lines; i++) {
    u32 other = xg_http_line_at(h, i);
    if (h.s.v[other + 2u] == h.s.v[line + 2u] && xg_http_same(h, h.s.v[other], h.s.v[line]))
      bytes += 2u + (h.s.v[other + 1u] >> 16);
  }
  return bytes;
}
/* Appends them. */
XG_SELDOM void xg_http_append_value(XG_INOUT(xg_http_head) h, u32 n) {
  u32 line = xg_http_line_at(h, n);
  u32 says = h.s.v[line + 3u];
  xg_http_append_span(h, h.s.v[line + 1u]);
  if ((says & XG_HTTP_LINE_MORE) == 0u ||
      XG_HTTP_LINE_NAMED(says) == XG_HTTP_CONTENT_LENGTH - XG_HTTP_RAW_HOST + 1u)
    return;
  for (u32 i = n + 1u; i < h.lines; i++) {
    u32 other = xg_http_line_at(h, i);
    if (h.s.v[other + 2u] != h.s.v[line + 2u] || !xg_http_same(h, h.s.v[other], h.s.v[line])) continue;
    xg_http_append(h, 0x202cu, 2u);
    xg_http_append_span(h, h.s.v[other + 1u]);
  }
}

/* The first number that stands in the bytes; 0 where there is none, or one that is too large. */
XG_FN u32 xg_http_number(xg_http_head h, u32 span) {
  u32 at = span & 0xffffu;
  u32 end = at + (span >> 16);
  while (at < end && xg_http_byte(h.s, h.base, at) - 48u >= 10u) at += 1u;
  u32 value = 0u;
  for (; at < end; at++) {
    u32 digit = xg_http_byte(h.s, h.base, at) - 48u;
    if (digit >= 10u) break;
    if (value > (XG_HTTP_MOST_BODY - digit) / 10u) return 0u;
    value = value * 10u + digit;
  }
  return value;
}

/* Whether "chunked" stands in them. */
XG_FN bool xg_http_is_chunked(xg_http_head h, u32 n) {
  u32 line = xg_http_line_at(h, n);
  for (u32 i = n; i < h.lines; i++) {
    u32 other = xg_http_line_at(h, i);
    if (i != n && (h.s.v[other + 2u] != h.s.v[line + 2u] || !xg_http_same(h, h.s.v[other], h.s.v[line])))
      continue;
    u32 at = h.s.v[other + 1u] & 0xffffu;
    u32 end = at + (h.s.v[other + 1u] >> 16);
    for (; end - at >= 7u; at++)
      if (xg_lower32(xg_http_load(h.s, h.base, at)) == 0x6e756863u &&
          (xg_lower32(xg_http_load(h.s, h.base, at + 4u)) & 0xffffffu) == 0x64656bu)
        return true;
  }
  return false;
}

/* Puts all lines' names, or all lines but cookies, as they are asked for. */
XG_SELDOM void xg_http_all_lines(XG_INOUT(xg_http_head) h, bool names) {
  u32 bytes = names ? 4u : 0u;
  u32 count = 0u;
  for (u32 pass = 0u; pass < 2u; pass++) {
    u32 begin = h.used;
    if (pass != 0u && names) xg_http_append(h, 0x0a0du, 2u);
    for (u32 n = 0u; n < h.lines; n++) {
      u32 line = xg_http_line_at(h, n);
      u32 says = h.s.v[line + 3u];
      bool is_cookie = XG_HTTP_LINE_NAMED(says) == XG_HTTP_COOKIE - XG_HTTP_RAW_HOST + 1u;
      if ((says & XG_HTTP_LINE_AGAIN) != 0u || (!names && is_cookie)) continue;
      if (pass == 0u) {
        count += 1u;
        bytes += (h.s.v[line] >> 16) + 2u + (names ? 0u : 2u + xg_http_value_bytes(h, n));
        continue;
      }
      xg_http_append_span(h, h.s.v[line]);
      if (!names) {
        xg_http_append(h, 0x203au, 2u);
        xg_http_append_value(h, n);
      }
      xg_http_append(h, 0x0a0du, 2u);
    }
    if (pass == 0u && (count == 0u || !xg_http_fits(h, bytes))) return;
    if (pass == 0u) continue;
    if (names) xg_http_append(h, 0x0a0du, 2u);
    xg_http_is(h, names ? XG_HTTP_HEADER_NAMES : XG_HTTP_HEADER, begin, h.used);
  }
}

/* The values of headers that have a part. */
XG_SELDOM void xg_http_values(XG_INOUT(xg_http_head) h) {
  for (u32 n = 0u; n < h.lines; n++) {
    u32 line = xg_http_line_at(h, n);
    u32 says = h.s.v[line + 3u];
    u32 named = XG_HTTP_LINE_NAMED(says);
    if (named == 0u) continue;
    named -= 1u;
    u32 span = h.s.v[line + 1u];
    if (named == XG_HTTP_TRANSFER_ENCODING) {
      if (xg_http_is_chunked(h, n)) h.is_chunked = 1u;
      continue;
    }
    u32 part = XG_HTTP_RAW_HOST + named;
    if (part == XG_HTTP_CONTENT_LENGTH) h.body_bytes = xg_http_number(h, span);
    bool asked = xg_http_wants(h, part) || (part == XG_HTTP_RAW_HOST && xg_http_wants(h, XG_HTTP_HOST));
    if (!asked) continue;
    u32 begin = span & 0xffffu;
    u32 end = begin + (span >> 16);
    if ((says & XG_HTTP_LINE_MORE) != 0u && part != XG_HTTP_CONTENT_LENGTH) {
      if (!xg_http_fits(h, xg_http_value_bytes(h, n))) continue;
      begin = h.used;
      xg_http_append_value(h, n);
      end = h.used;
    }
    xg_http_is(h, part, begin, end);
  }
}

/* Reads the head that stands in the words from `from` on, from byte `at` up to `end`. `h` says which words
 * have room, and what is asked for. */
XG_SELDOM void xg_http_read(XG_IN(xg_batch) b, XG_INOUT(xg_http_head) h, u32 from, u32 at, u32 end) {
  h.used = h.over = h.lines = h.is_connect = h.is_chunked = h.body_bytes = 0u;
  for (u32 i = 0u; i < XG_HTTP_COUNT; i++) h.s.v[h.room + XG_HTTP_PARTS + i] = XG_HTTP_ABSENT;
  u32 behind = xg_http_find(h.s, from, at, end, XG_HTTP_LF, XG_HTTP_LF) + 1u;
  u32 to = xg_http_line_end(h.s, from, at, behind);
  xg_http_copy(h.s, h.base, 0u, from, at, to - at);
  h.used = to - at;
  xg_http_line line = xg_http_read_line(h.s, h.base, 0u, h.used);
  xg_http_is(h, XG_HTTP_REQUEST_LINE, 0u, h.used);
  xg_http_is(h, XG_HTTP_METHOD, line.method.begin, line.method.end);
  if (line.uri.begin != line.uri.end) xg_http_is(h, XG_HTTP_RAW_URI, line.uri.begin, line.uri.end);
  if (line.protocol.begin != line.protocol.end)
    xg_http_is(h, XG_HTTP_PROTOCOL, line.protocol.begin, line.protocol.end);
  h.is_connect =
      xg_http_bytes(line.method) == 7u &&
              xg_lower32(xg_http_load(h.s, h.base, line.method.begin)) == 0x6e6e6f63u &&
              (xg_lower32(xg_http_load(h.s, h.base, line.method.begin + 4u)) & 0xffffffu) == 0x746365u
          ? 1u
          : 0u;
  /* Up to the empty line. */
  u32 last = end;
  if (behind < end)
    last = end - (end - behind >= 2u && xg_http_byte(h.s, from, end - 2u) == XG_HTTP_CR ? 2u : 1u);
  if (behind < end && last < behind) last = behind;
  xg_http_unfold(b, h, from, behind, last);
  xg_http_values(h);
  xg_http_uri uri = xg_http_read_uri(h, line.uri);
  if (xg_http_wants(h, XG_HTTP_URI) && line.uri.begin != line.uri.end)
    xg_http_normalize(b, h, uri, xg_http_bytes(line.uri));
  if (xg_http_wants(h, XG_HTTP_HOST)) {
    u32 host = h.s.v[h.room + XG_HTTP_PARTS + XG_HTTP_RAW_HOST];
    if (uri.has_authority != 0u)
      xg_http_host(b, h, uri.authority, true);
    else if (host != XG_HTTP_ABSENT)
      xg_http_host(b, h, xg_http_span_of(host & 0xffffu, (host & 0xffffu) + (host >> 16)), false);
  }
  if (xg_http_wants(h, XG_HTTP_HEADER)) xg_http_all_lines(h, false);
  if (xg_http_wants(h, XG_HTTP_HEADER_NAMES)) xg_http_all_lines(h, true);
}

#endif
