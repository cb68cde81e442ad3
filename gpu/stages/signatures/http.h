/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/http.h: the head of a request or an answer by HTTP/1 as rules see it
 * (gpu/signatures.hpp, "HTTP"), in the text of a side's stream. One lane reads it, and puts its parts behind
 * the connection's sides.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_HTTP_H
#define XDPGPU_STAGES_SIGNATURES_HTTP_H

#include "gpu/stages/signatures/http_uri.h"

/* The first number that stands in the bytes; XG_HTTP_NOWHERE where there is none, or one that is too large.
 */
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
    if (value > (XG_HTTP_MOST_BODY - digit) / 10u) return XG_HTTP_NOWHERE;
    value = value * 10u + digit;
  }
  return has_begun ? value : XG_HTTP_NOWHERE;
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

/* Whether they say that a body is encoded: all but "identity" does. */
XG_FN bool xg_http_is_encoded(xg_http_head h, u32 span) {
  if (span >> 16 != 8u) return span >> 16 != 0u;
  return xg_lower32(xg_http_load(h.s, h.base, span & 0xffffu)) != 0x6e656469u ||
         xg_lower32(xg_http_load(h.s, h.base, (span & 0xffffu) + 4u)) != 0x79746974u;
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
    if (named == h.coding && xg_http_is_chunked(h, span)) h.is_chunked = 1u;
    /* The one behind it, if there is one, is Content-Encoding. */
    if (named == h.coding + 1u && named < h.named && xg_http_is_encoded(h, span)) h.is_encoded = 1u;
    if (named >= h.coding || XG_HTTP_LINE_FIRST(says) != n) continue;
    u32 part = h.values + named;
    if (part == h.length) {
      u32 bytes = xg_http_number(h, span);
      h.has_length = bytes != XG_HTTP_NOWHERE ? 1u : 0u;
      h.body_bytes = bytes != XG_HTTP_NOWHERE ? bytes : 0u;
    }
    if ((says & XG_HTTP_LINE_MORE) != 0u && part != h.length) several |= 1u << part;
    h.s.v[xg_http_part(h, part)] = span;
  }
  return several;
}

/* Puts a part that many lines make: the values of one name, all headers but cookies, or all names. */
XG_SELDOM void xg_http_gather(XG_INOUT(xg_http_head) h, u32 part) {
  bool all = part == h.header;
  bool names = part == h.header + XG_HTTP_TO_NAMES;
  u32 begin = h.used;
  u32 bytes = names ? 4u : 0u;
  u32 count = 0u;
  /* First how many bytes there are. */
  for (u32 pass = 0u; pass < 2u; pass++) {
    if (pass != 0u && names) xg_http_append(h, 0x0a0du, 2u);
    for (u32 n = 0u; n < h.lines; n++) {
      u32 says = h.s.v[xg_http_line_at(h, n) + 3u];
      u32 named = XG_HTTP_LINE_NAMED(says);
      if (XG_HTTP_LINE_FIRST(says) != n || (all && named == XG_HTTP_COOKIES)) continue;
      if (!all && !names && named != part - h.values) continue;
      count += 1u;
      bool once = (says & XG_HTTP_LINE_MORE) == 0u || names || named == h.length - h.values;
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
 * `h` says which words have room, what it is, and what is asked for. */
XG_SELDOM void xg_http_read(XG_IN(xg_batch) b, XG_INOUT(xg_http_head) h, u32 from, xg_http_line line,
                            u32 end) {
  bool is_answer = h.is_answer != 0u;
  /* "HTTP/1.1" */
  if (is_answer && xg_http_bytes(line.first) == 8u &&
      xg_http_load(h.s, from, line.first.begin) == 0x50545448u &&
      xg_http_load(h.s, from, line.first.begin + 4u) == 0x312e312fu)
    h.parts = 1u;
  u32 at = line.all.begin;
  /* Up to the empty line. */
  u32 last = end;
  if (line.behind < end && xg_http_byte(h.s, from, last - 1u) == XG_HTTP_LF) last -= 1u;
  if (line.behind < last && xg_http_byte(h.s, from, last - 1u) == XG_HTTP_CR) last -= 1u;
  xg_http_unfold(b, h, from, at, last);
  xg_http_is(h, is_answer ? XG_HTTP_RESPONSE_LINE : XG_HTTP_REQUEST_LINE, 0u, xg_http_bytes(line.all));
  xg_http_is(h, is_answer ? XG_HTTP_ANSWER_PROTOCOL : XG_HTTP_METHOD, line.first.begin - at,
             line.first.end - at);
  xg_http_span uri = xg_http_span_of(line.second.begin - at, line.second.end - at);
  if (uri.begin != uri.end)
    xg_http_is(h, is_answer ? XG_HTTP_STAT_CODE : XG_HTTP_RAW_URI, uri.begin, uri.end);
  if (line.third.begin != line.third.end)
    xg_http_is(h, is_answer ? XG_HTTP_STAT_MSG : XG_HTTP_PROTOCOL, line.third.begin - at,
               line.third.end - at);
  u32 several = xg_http_values(h);
  u32 made = h.wants & (several | 3u << h.header);
  if (!is_answer && xg_http_wants(h, XG_HTTP_HOST)) made |= several & (1u << XG_HTTP_RAW_HOST);
  while (made != 0u) {
    u32 part = XG_LOWEST_BIT(made);
    made &= made - 1u;
    xg_http_gather(h, part);
  }
  if (!is_answer) xg_http_spell(b, h, uri, h.s.v[xg_http_part(h, XG_HTTP_RAW_HOST)]);
}

#endif
