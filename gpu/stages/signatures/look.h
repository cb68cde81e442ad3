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
#include "gpu/stages/signatures/messages.h"
#include "gpu/stages/signatures/side.h"

/* Nothing is known of the text. */
XG_FN void xg_stream_forget(xg_batch b, xg_stream a) {
  xg_found_forget(xg_side_found(a));
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
  u32 over;    /* 1: it takes more than it may */
  u32 ends;    /* 1: with what is looked at its side's stream does */
  u32 encoded; /* 1: it brings an answer's head whose body is */
  u32 end;     /* the position behind its payload */
  u32 record;
};

/* What rules ask of a ClientHello, a request or an answer: as of a DNS message that is read, with a name
 * (xg_signatures_applies()). */
#define XG_HELLO_IS_SAID (XG_DNS_IS | XG_DNS_IS_READ | (1u << XG_DNS_NAMES))

/* What is looked at: the text's first `bytes`; a server's name, with a dot in front; the parts of a request's
 * or an answer's head; or what has come of its body. Of the text and a body `before` bytes are not new. */
#define XG_LOOKS_AT_TEXT 0u
#define XG_LOOKS_AT_NAME 1u
#define XG_LOOKS_AT_HEAD 2u
#define XG_LOOKS_AT_BODY 3u
struct xg_stream_looked_at {
  u32 what;
  u32 words; /* of a state, in which it stands from byte `begin` on; but for a head */
  u32 begin;
  u32 bytes;
  u32 before;
  u32 text;        /* bytes of it */
  u32 size;        /* of all that has come of a body */
  u32 part;        /* of a head, whose patterns are there; the body's: none */
  u32 rest;        /* -> the rules that no pattern finds, and how many; 0: they are not asked */
  u32 has_pattern; /* 1: patterns are looked for */
  u32 asked;       /* XG_SIGNATURE_WHEN_WHOLE and XG_SIGNATURE_AT_END, as far as such rules are asked of it */
};

/* Bytes of the words of a state, from byte `begin` up to `end`. */
struct xg_stream_part {
  xg_payload_cursor c;
  u32 begin;
};
/* A part of the head that is looked at; a host's has a dot in front of it. False: it has none. */
XG_FN bool xg_stream_part_of(xg_stream a, u32 part, XG_INOUT(xg_stream_part) found) {
  u32 span = a.s.v[a.room + XG_HTTP_PARTS + part - xg_http_first_part(a)];
  if (span == XG_HTTP_ABSENT) return false;
  found.begin = span & 0xffffu;
  found.c = xg_words_text(a.s, a.room + XG_HTTP_BYTES(XG_HTTP_MOST_LINES), found.begin + (span >> 16));
  return true;
}

/* Whether the rule comes to hold with one of the new bytes, or holds for the name or the head. Its fast
 * pattern stands in it, first at `seen_at`; of `least` bytes it does not. knows_head: its other parts than
 * the body are known to match. Steps are inspected at one place alone: those who inline it all would have
 * them many times.
 */
XG_SELDOM bool xg_stream_fires(XG_IN(xg_batch) b, XG_IN(xg_stream) a, u32 rule, XG_IN(xg_stream_looked_at) l,
                               u32 seen_at, u32 least, bool knows_head, u32 most, XG_INOUT(u32) work) {
  u32 flags = b.image.v[rule + XG_SIGNATURE_FLAGS];
  bool negates = (flags & XG_SIGNATURE_NEGATES) != 0u;
  u32 steps = rule + XG_SIGNATURE_STEPS;
  u32 name = b.image.v[rule + XG_SIGNATURE_DNS];
  bool goes_on = l.what == XG_LOOKS_AT_TEXT; /* what is asked about is a text, or a body */
  u32 names = goes_on ? 0u : XG_ASKS_NAMES(b.image.v[name]);
  u32 body = 0u; /* what is asked of that */
  u32 bytes = l.bytes;
  u32 ask = bytes;
  u32 step = 0u;
  name += 1u;
  /* Name by name. Then, of the text or the body: of all bytes; of those that are not new; of half as many
   * more each time, up to the first that are enough; and of these with what is negated. */
  for (;;) {
    if (!goes_on && names == 0u) {
      if (l.what != XG_LOOKS_AT_BODY) return true;
      goes_on = true;
      steps = body + XG_NAME_STEPS;
      if (!xg_signatures_has_size(b.image, body, l.size)) return false;
    }
    xg_stream_part text;
    text.c = xg_words_text(a.s, l.words, l.begin + ask);
    text.begin = l.begin;
    if (!goes_on) {
      u32 at = name;
      names -= 1u;
      name += XG_SIGNATURES_NAME;
      if (l.what != XG_LOOKS_AT_NAME) {
        u32 part = b.image.v[at + XG_NAME_PART];
        if (part == xg_http_body_part(a)) body = at;
        if (part == xg_http_body_part(a) || knows_head) continue;
        if (!xg_stream_part_of(a, part, text)) return false;
      }
      bool dotted = (b.image.v[at + XG_NAME_SIZES + 1u] & XG_NAME_DOT_PREFIX) != 0u;
      if (l.what == XG_LOOKS_AT_NAME && !dotted) text.begin += 1u;
      if (l.what != XG_LOOKS_AT_NAME && dotted) text.begin -= 1u;
      if (!xg_signatures_has_size(b.image, at, text.c.end - text.begin)) return false;
      if (!xg_signatures_in_sets(b, at, text.c, text.begin, text.c.end - text.begin, work)) return false;
      steps = at + XG_NAME_STEPS;
    }
    bool holds = xg_signatures_inspect(b, b.image.v[steps], b.image.v[steps + 1u], text.c, text.begin,
                                       text.c.end - text.begin, seen_at,
                                       l.what != XG_LOOKS_AT_TEXT || step == 3u, most, work);
    if (!goes_on) {
      if (!holds) return false;
      continue;
    }
    if (step == 3u) return holds;
    if (step == 0u && (!holds || (flags & XG_SIGNATURE_WHEN_WHOLE) != 0u)) return holds;
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

/* Whether the rule is one that is asked of what is looked at. */
XG_FN bool xg_stream_asks(xg_batch b, xg_stream a, u32 rule, xg_stream_looked_at l) {
  u32 flags = b.image.v[rule + XG_SIGNATURE_FLAGS];
  bool is_first = true; /* it begins at byte 0 */
  if (l.what == XG_LOOKS_AT_TEXT)
    is_first = xg_side(a, XG_SIDE_TEXT) == 0u && (xg_side(a, XG_SIDE_STATE) & XG_SIDE_IS_CUT) == 0u;
  if (l.what == XG_LOOKS_AT_BODY) {
    is_first = l.size == l.bytes;
    if ((flags & (XG_SIGNATURE_WHEN_WHOLE | XG_SIGNATURE_AT_END) & ~l.asked) != 0u) return false;
  }
  return is_first || l.what == XG_LOOKS_AT_HEAD || (flags & XG_SIGNATURE_FROM_START) == 0u;
}

/* A rule of which all but the body is known to match, that is asked of that. */
XG_FN void xg_stream_await(xg_stream a, u32 number, XG_INOUT(u32) over) {
  u32 awaited = a.room + XG_HTTP_AWAITED;
  u32 count = a.s.v[awaited];
  if (count == XG_HTTP_MOST_AWAITED) {
    over = 1u;
    return;
  }
  a.s.v[awaited + 1u + count] = number;
  a.s.v[awaited] = count + 1u;
}

/* Notes the rules of a list that fire. seen: a word of XG_SIGNATURES_FOUND_SEEN, 0: of those that no pattern
 * finds. */
XG_FN void xg_stream_try(xg_batch b, xg_stream a, XG_INOUT(xg_stream_packet) k, xg_stream_looked_at l,
                         u32 seen) {
  u32 most = b.image.v[a.rules + XG_SIGNATURES_WORK];
  u32 list = l.rest;
  u32 least = 0u;
  bool awaited = seen == 0u && l.what == XG_LOOKS_AT_BODY;
  u32 numbers = a.room + XG_HTTP_AWAITED + 1u;
  u32 count = 0u;
  if (awaited) count = a.s.v[numbers - 1u];
  if (seen != 0u) {
    u32 pattern = b.image.v[a.rules + XG_SIGNATURES_PATTERNS] +
                  (XG_SIGNATURES_SEEN_PATTERN(seen) - 1u) * XG_SIGNATURES_PATTERN;
    list = pattern + XG_PATTERN_RULES;
    least = XG_SIGNATURES_SEEN_AT(seen) + (b.image.v[pattern + XG_PATTERN_SIZE] & ~XG_PATTERN_NOCASE) - 1u;
  }
  if (!awaited) {
    numbers = b.image.v[list];
    count = b.image.v[list + 1u];
  }
  u32 i = 0u;
  while (i < count && k.over == 0u) {
    u32 number = 0u;
    u32 rule = 0u;
    bool applies = false;
    for (; i < count && !applies; i++) {
      number = awaited ? a.s.v[numbers + i] : b.image.v[numbers + i];
      rule = b.image.v[a.rules + XG_SIGNATURES_RULES] + number * XG_SIGNATURES_RULE;
      applies = xg_stream_asks(b, a, rule, l) &&
                xg_signatures_applies(b, rule, k.p, k.c, k.seen,
                                      l.what != XG_LOOKS_AT_TEXT ? XG_HELLO_IS_SAID : 0u, k.connection);
    }
    if (!applies) return;
    u32 work = 0u;
    bool fires = xg_stream_fires(b, a, rule, l, XG_SIGNATURES_SEEN_AT(seen), least, awaited, most, work);
    k.work += work;
    if (work > most || k.work > most) k.over = 1u;
    if (!fires || k.over != 0u) continue;
    bool asks_body = (b.image.v[rule + XG_SIGNATURE_FLAGS] & XG_SIGNATURE_BODY) != 0u;
    if (asks_body && l.what == XG_LOOKS_AT_HEAD)
      xg_stream_await(a, number, k.over);
    else
      xg_signatures_note(xg_side_found(a), number);
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

/* Whether the side is read as HTTP: a client's where anything is asked for, as what answers are hangs on the
 * requests, and a server's where answers are; of sides whose first byte is known. */
XG_FN bool xg_stream_asks_http(xg_batch b, xg_stream a) {
  if (a.room == 0u || (xg_side(a, XG_SIDE_STATE) & XG_SIDE_IS_CUT) != 0u) return false;
  return b.image.v[a.body + XG_STREAMS_HTTP] >> xg_http_first_part(a) != 0u;
}

/* What has come of a body is to be looked at. */
XG_FN void xg_stream_body(xg_batch b, xg_stream a, XG_INOUT(xg_stream_looked_at) l) {
  u32 room = a.room;
  xg_http_data d = xg_http_data_of(a, room);
  l.what = XG_LOOKS_AT_BODY;
  l.words = d.words;
  l.begin = d.begin;
  l.bytes = d.bytes;
  l.size = a.s.v[room + XG_HTTP_SO_FAR];
  u32 front = l.size - l.bytes; /* what is not kept any more */
  u32 looked = a.s.v[room + XG_HTTP_LOOKED];
  l.before = looked > front ? looked - front : 0u;
  a.s.v[room + XG_HTTP_LOOKED] = l.size;
  l.has_pattern = (b.image.v[a.body + XG_STREAMS_HTTP_SEARCHED] >> xg_http_body_part(a)) & 1u;
  u32 says = a.s.v[room + XG_HTTP_BODY];
  bool in_first = (says & XG_HTTP_BODY_IS_CUT) != 0u ? a.s.v[room + XG_HTTP_KEPT] != 0u : l.begin < a.window;
  l.asked = 0u;
  if (l.text == 2u * a.window && in_first) l.asked = XG_SIGNATURE_WHEN_WHOLE;
  if ((says & XG_HTTP_BODY_IS_WHOLE) != 0u) l.asked = XG_SIGNATURE_WHEN_WHOLE | XG_SIGNATURE_AT_END;
}

/* What is looked at behind `l`: the text; a hello that is whole; of each request or answer each part of its
 * head that patterns are looked for in, those rules that none finds, and its body. False: nothing more. */
XG_FN bool xg_stream_next_look(xg_batch b, xg_stream a, XG_INOUT(xg_stream_packet) k,
                               XG_INOUT(xg_stream_looked_at) l) {
  l.rest = 0u;
  l.has_pattern = 1u;
  if (l.what == XG_LOOKS_AT_TEXT) {
    l.what = XG_LOOKS_AT_NAME;
    l.bytes = xg_stream_asks_hello(b, a, k, l.text) ? xg_stream_hello(b, a, k, l.text) : 0u;
    l.words = k.record + XG_STREAM_NAME;
    l.begin = 0u;
    l.rest = a.body + XG_STREAMS_HELLO_RULES;
    if (l.bytes != 0u) return true;
  }
  if (l.what == XG_LOOKS_AT_NAME) {
    l.part = xg_http_body_part(a);
    if (!xg_stream_asks_http(b, a)) return false;
  }
  l.rest = 0u;
  u32 searched = b.image.v[a.body + XG_STREAMS_HTTP_SEARCHED];
  u32 body = xg_http_body_part(a);
  u32 rest = a.body + (a.answers != 0u ? XG_STREAMS_ANSWER_RULES : XG_STREAMS_HTTP_RULES);
  do {
    if (l.part == body) {
      u32 says = xg_http_next(b, a, k.record, l.text, k.ends != 0u, k.over);
      if (says == XG_HTTP_SAYS_NOTHING) return false;
      if (says == XG_HTTP_SAYS_BODY) {
        xg_stream_body(b, a, l);
        return true;
      }
      l.what = XG_LOOKS_AT_HEAD;
      if ((a.s.v[a.room + XG_HTTP_BODY] & XG_HTTP_BODY_IS_ENCODED) != 0u) k.encoded = 1u;
      k.work += XG_HTTP_WORK;
      if (k.work > b.image.v[a.rules + XG_SIGNATURES_WORK]) k.over = 1u;
      l.part = xg_http_first_part(a);
    } else {
      l.part += 1u;
    }
    while (l.part < body &&
           (((searched >> l.part) & 1u) == 0u ||
            a.s.v[a.room + XG_HTTP_PARTS + l.part - xg_http_first_part(a)] == XG_HTTP_ABSENT))
      l.part += 1u;
    if (l.part < body) return true;
  } while (b.image.v[rest + 1u] == 0u);
  l.rest = rest;
  l.has_pattern = 0u;
  return true;
}

/* Looks for rules that fire: with what is new in the text's first `bytes`, if anything is, and with a hello,
 * requests and answers that are whole by them. These have patterns of their own: where there is no room for
 * what is found in them, behind them nothing is known of the text. */
XG_SELDOM void xg_stream_look(XG_IN(xg_batch) b, XG_IN(xg_stream) a, XG_INOUT(xg_stream_packet) k, u32 before,
                              u32 bytes) {
  u32 room = a.room;
  xg_stream_looked_at l;
  l.what = XG_LOOKS_AT_TEXT;
  l.words = a.side + XG_SIDE_BYTES;
  l.before = before;
  l.bytes = l.text = bytes;
  l.begin = l.size = l.part = l.rest = l.asked = 0u;
  u32 longest = b.image.v[a.body + XG_STREAMS_LONGEST];
  l.has_pattern = longest != 0u && bytes != before ? 1u : 0u;
  do {
    bool is_text = l.what == XG_LOOKS_AT_TEXT;
    bool is_body = l.what == XG_LOOKS_AT_BODY;
    bool keeps = is_text || room != 0u; /* the text's own stays known */
    u32 found = !is_text && room != 0u ? room + XG_HTTP_FOUND : a.side + XG_SIDE_FOUND;
    xg_state f = xg_found_at(a, found);
    u32 searched = 0u;
    if (is_text) searched = xg_side(a, XG_SIDE_SEARCHED);
    if (is_body) {
      searched = a.s.v[room + XG_HTTP_SEARCHED];
      longest = b.image.v[a.body + (a.answers != 0u ? XG_STREAMS_ANSWER_LONGEST : XG_STREAMS_BODY_LONGEST)];
    }
    if (!is_text && searched == 0u) xg_found_forget(f);
    u32 windows = a.body + XG_STREAMS_WINDOWS;
    xg_stream_part text;
    text.c = xg_words_text(a.s, l.words, l.begin + l.bytes);
    text.begin = l.begin;
    if (l.what == XG_LOOKS_AT_NAME) windows = a.body + XG_STREAMS_NAME_WINDOWS;
    if (is_body || l.what == XG_LOOKS_AT_HEAD) {
      u32 part = is_body ? xg_http_body_part(a) : l.part;
      windows = b.image.v[a.body + XG_STREAMS_HTTP_WINDOWS] + part * XG_STREAMS_HTTP_WINDOW;
      if (!is_body && l.has_pattern != 0u) {
        xg_stream_part_of(a, part, text);
        if (part == XG_HTTP_HOST) text.begin -= 1u;
      }
    }
    u32 from = text.begin + (searched == 0u || searched < longest ? 0u : searched + 1u - longest);
    if (l.has_pattern != 0u) XG_SIDE_SEARCH(b, a, windows, text.c, text.begin, from, found);
    if (is_text) xg_set_side(a, XG_SIDE_SEARCHED, bytes);
    if (is_body) a.s.v[room + XG_HTTP_SEARCHED] = l.bytes;
    if (f.v[XG_SIGNATURES_FOUND_OVER] != 0u) k.over = 1u;
    /* Where no pattern is, none of the places is read; nor of a text that is not new. */
    bool has_seen = f.v[XG_SIGNATURES_FOUND_PATTERNS] != 0u && (!is_text || bytes != before);
    u32 first = has_seen ? 0u : XG_SIGNATURES_SEEN;
    for (u32 place = first; place <= XG_SIGNATURES_SEEN && k.over == 0u; place++) {
      u32 seen = 0u;
      for (; place < XG_SIGNATURES_SEEN && seen == 0u; place++) seen = f.v[XG_SIGNATURES_FOUND_SEEN + place];
      if (seen != 0u) place -= 1u;
      /* Those that no pattern finds. */
      if (seen != 0u || l.rest != 0u || is_body) xg_stream_try(b, a, k, l, seen);
    }
    if (!keeps) xg_stream_forget(b, a);
  } while (xg_stream_next_look(b, a, k, l));
}

/* The side's stream is whole up to `end`: by new bytes, or its FIN is. */
XG_FN void xg_stream_advance(xg_batch b, xg_stream a, u32 end, XG_INOUT(xg_stream_packet) k) {
  u32 next = xg_side(a, XG_SIDE_NEXT);
  do {
    u32 text = xg_side(a, XG_SIDE_TEXT);
    u32 block = (next / a.window + 1u) * a.window;
    u32 to = block < end ? block : end;
    /* So that what ends there hangs on no cut. */
    u32 last = xg_side(a, XG_SIDE_END);
    if (last - next - 1u < to - next) to = last;
    k.ends = to == last ? 1u : 0u;
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
    if (a.room != 0u) xg_http_slide(a);
  } while (next < end);
}

#endif
