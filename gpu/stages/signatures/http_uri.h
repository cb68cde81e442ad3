/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/http_uri.h: a request's URI as it is normalized, and its host (gpu/signatures.hpp,
 * "HTTP").
 */
#ifndef XDPGPU_STAGES_SIGNATURES_HTTP_URI_H
#define XDPGPU_STAGES_SIGNATURES_HTTP_URI_H

#include "gpu/stages/signatures/http_lines.h"

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

#endif
