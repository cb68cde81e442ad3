/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/look.h: which rules fire with what a side of a connection says next
 * (gpu/signatures.hpp, "streams").
 *
 * What has come to be whole is looked for as in a packet's payload, a block's part at a time. Which patterns
 * are in the text is remembered as long as it begins at the same byte.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_LOOK_H
#define XDPGPU_STAGES_SIGNATURES_LOOK_H

#include "gpu/stages/signatures/hello.h"
#include "gpu/stages/signatures/requests.h"
#include "gpu/stages/signatures/side.h"

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

/* What rules ask of a ClientHello or of a request: as of a DNS message that is read, with a name
 * (xg_signatures_applies()). */
#define XG_HELLO_IS_SAID (XG_DNS_IS | XG_DNS_IS_READ | (1u << XG_DNS_NAMES))

/* What is looked at: the text's first `bytes`, of which `before` are not new; a server's name of so many
 * bytes, with a dot in front; or a request's parts. */
#define XG_LOOKS_AT_TEXT 0u
#define XG_LOOKS_AT_NAME 1u
#define XG_LOOKS_AT_REQUEST 2u
struct xg_stream_looked_at {
  u32 what;
  u32 before;
  u32 bytes;
  u32 name;
  u32 part;        /* of a request, whose patterns are there */
  u32 rest;        /* -> the rules that no pattern finds, and how many; 0: they are not asked */
  u32 has_pattern; /* 1: patterns are looked for */
};

/* Bytes of the words of a state, from byte `begin` up to `end`. */
struct xg_stream_part {
  xg_payload_cursor c;
  u32 begin;
};
/* A part of the request that is looked at; a host's has a dot in front of it. False: it has none. */
XG_FN bool xg_stream_part_of(xg_stream a, u32 record, u32 part, XG_INOUT(xg_stream_part) found) {
  u32 room = xg_http_room(record, a.window);
  u32 span = a.s.v[room + XG_HTTP_PARTS + part];
  if (span == XG_HTTP_ABSENT) return false;
  found.begin = span & 0xffffu;
  found.c = xg_words_text(a.s, room + XG_HTTP_BYTES(XG_HTTP_MOST_LINES), found.begin + (span >> 16));
  return true;
}

/* Whether the rule comes to hold with one of the new bytes, or holds for the name. Its fast pattern stands in
 * it, first at `seen_at`; of `least` bytes it does not. Steps are inspected at one place alone: those who
 * inline it all would have them many times. */
XG_SELDOM bool xg_stream_fires(XG_IN(xg_batch) b, XG_IN(xg_stream) a, XG_IN(xg_stream_packet) k, u32 rule,
                               XG_IN(xg_stream_looked_at) l, u32 seen_at, u32 least, u32 most,
                               XG_INOUT(u32) work) {
  bool negates = (b.image.v[rule + XG_SIGNATURE_FLAGS] & XG_SIGNATURE_NEGATES) != 0u;
  bool is_text = l.what == XG_LOOKS_AT_TEXT;
  u32 steps = rule + XG_SIGNATURE_STEPS;
  u32 name = b.image.v[rule + XG_SIGNATURE_DNS];
  u32 names = is_text ? 0u : XG_ASKS_NAMES(b.image.v[name]);
  u32 bytes = l.bytes;
  u32 ask = bytes;
  u32 step = 0u;
  name += 1u;
  /* Name by name. Or, of the text: of all bytes; of those that are not new; of half as many more each time,
   * up to the first that are enough; and of these with what is negated. */
  for (;;) {
    xg_stream_part text;
    text.c = xg_side_text(a, ask);
    text.begin = 0u;
    if (!is_text) {
      bool dotted = (b.image.v[name + XG_NAME_SIZES + 1u] & XG_NAME_DOT_PREFIX) != 0u;
      if (l.what == XG_LOOKS_AT_REQUEST) {
        if (!xg_stream_part_of(a, k.record, b.image.v[name + XG_NAME_PART], text)) return false;
        if (dotted) text.begin -= 1u;
      } else {
        text.c = xg_words_text(a.s, k.record + XG_STREAM_NAME, l.name);
        if (!dotted) text.begin = 1u;
      }
      if (!xg_signatures_has_size(b.image, name, text.c.end - text.begin)) return false;
      if (!xg_signatures_in_sets(b, name, text.c, text.begin, text.c.end - text.begin, work)) return false;
      steps = name + XG_NAME_STEPS;
    }
    bool holds = xg_signatures_inspect(b, b.image.v[steps], b.image.v[steps + 1u], text.c, text.begin,
                                       text.c.end - text.begin, seen_at, !is_text || step == 3u, most, work);
    if (!is_text) {
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
  u32 list = l.rest;
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
      applies = !(in_front && starts) &&
                xg_signatures_applies(b, rule, k.p, k.c, k.seen,
                                      l.what != XG_LOOKS_AT_TEXT ? XG_HELLO_IS_SAID : 0u, k.connection);
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

/* Whether requests are asked for, and the side is a client's whose first byte is known. */
XG_FN bool xg_stream_asks_http(xg_batch b, xg_stream a, XG_IN(xg_stream_packet) k) {
  return a.http != 0u && b.image.v[a.body + XG_STREAMS_HTTP] != 0u &&
         (k.connection & XG_CONNECTION_ANSWERS) == 0u && (xg_side(a, XG_SIDE_STATE) & XG_SIDE_IS_CUT) == 0u;
}

/* What is looked at behind `l`: the text; a hello that is whole; of each request each part that patterns are
 * looked for in, and those rules that none finds. False: nothing more. */
XG_FN bool xg_stream_next_look(xg_batch b, xg_stream a, XG_INOUT(xg_stream_packet) k,
                               XG_INOUT(xg_stream_looked_at) l) {
  l.rest = 0u;
  l.has_pattern = 1u;
  if (l.what == XG_LOOKS_AT_TEXT) {
    l.what = XG_LOOKS_AT_NAME;
    l.name = xg_stream_asks_hello(b, a, k, l.bytes) ? xg_stream_hello(b, a, k, l.bytes) : 0u;
    l.rest = a.body + XG_STREAMS_HELLO_RULES;
    if (l.name != 0u) return true;
  }
  if (l.what == XG_LOOKS_AT_NAME) {
    l.what = XG_LOOKS_AT_REQUEST;
    l.part = XG_HTTP_COUNT;
    if (!xg_stream_asks_http(b, a, k)) return false;
  }
  l.rest = 0u;
  u32 searched = b.image.v[a.body + XG_STREAMS_HTTP_SEARCHED];
  u32 parts = xg_http_room(k.record, a.window) + XG_HTTP_PARTS;
  do {
    if (l.part == XG_HTTP_COUNT) {
      if (!xg_http_next(b, a, k.record, l.bytes, k.over)) return false;
      k.work += XG_HTTP_WORK;
      if (k.work > b.image.v[a.rules + XG_SIGNATURES_WORK]) k.over = 1u;
      l.part = 0u;
    } else {
      l.part += 1u;
    }
    while (l.part < XG_HTTP_COUNT &&
           (((searched >> l.part) & 1u) == 0u || a.s.v[parts + l.part] == XG_HTTP_ABSENT))
      l.part += 1u;
    if (l.part < XG_HTTP_COUNT) return true;
  } while (b.image.v[a.body + XG_STREAMS_HTTP_RULES + 1u] == 0u);
  l.rest = a.body + XG_STREAMS_HTTP_RULES;
  l.has_pattern = 0u;
  return true;
}

/* Looks for rules that fire: with what is new in the text's first `bytes`, and with a hello and requests that
 * are whole by them. Behind these nothing is known of the text: they have patterns of their own. */
XG_SELDOM void xg_stream_look(XG_IN(xg_batch) b, XG_IN(xg_stream) a, XG_INOUT(xg_stream_packet) k, u32 before,
                              u32 bytes) {
  xg_state f = xg_side_found(a);
  xg_stream_looked_at l;
  l.what = XG_LOOKS_AT_TEXT;
  l.before = before;
  l.bytes = bytes;
  l.name = l.part = l.rest = 0u;
  l.has_pattern = 1u;
  do {
    u32 longest = b.image.v[a.body + XG_STREAMS_LONGEST];
    u32 searched = xg_side(a, XG_SIDE_SEARCHED);
    u32 from = searched < longest ? 0u : searched + 1u - longest;
    u32 windows = a.body + XG_STREAMS_WINDOWS;
    xg_stream_part text;
    text.c = xg_side_text(a, bytes);
    text.begin = 0u;
    if (l.what != XG_LOOKS_AT_TEXT) {
      xg_stream_forget(b, a);
      if (l.what == XG_LOOKS_AT_NAME) {
        windows = a.body + XG_STREAMS_NAME_WINDOWS;
        text.c = xg_words_text(a.s, k.record + XG_STREAM_NAME, l.name);
      } else if (l.has_pattern != 0u) {
        windows = b.image.v[a.body + XG_STREAMS_HTTP_WINDOWS] + l.part * XG_STREAMS_HTTP_WINDOW;
        xg_stream_part_of(a, k.record, l.part, text);
        if (l.part == XG_HTTP_HOST) text.begin -= 1u;
      }
      from = text.begin;
    }
    if (l.has_pattern != 0u) XG_SIDE_SEARCH(b, a, windows, text.c, text.begin, from);
    if (l.what == XG_LOOKS_AT_TEXT) xg_set_side(a, XG_SIDE_SEARCHED, bytes);
    if (f.v[XG_SIGNATURES_FOUND_OVER] != 0u) k.over = 1u;
    for (u32 place = 0u; place <= XG_SIGNATURES_SEEN && k.over == 0u; place++) {
      u32 seen = 0u;
      for (; place < XG_SIGNATURES_SEEN && seen == 0u; place++) seen = f.v[XG_SIGNATURES_FOUND_SEEN + place];
      if (seen != 0u) place -= 1u;
      /* Those that no pattern finds. */
      if (seen != 0u || l.rest != 0u) xg_stream_try(b, a, k, l, seen);
    }
    if (l.what != XG_LOOKS_AT_TEXT) xg_stream_forget(b, a);
  } while (xg_stream_next_look(b, a, k, l));
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

#endif
