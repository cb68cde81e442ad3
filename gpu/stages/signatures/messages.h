/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/messages.h: a client's side as requests by HTTP/1, and a server's as answers, one
 * behind the other (gpu/signatures.hpp, "HTTP"): where each begins and ends, however the stream is cut.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_MESSAGES_H
#define XDPGPU_STAGES_SIGNATURES_MESSAGES_H

#include "gpu/stages/signatures/http.h"
#include "gpu/stages/signatures/side.h"

/* How a side's requests or answers stand. Places are the stream's. */
struct xg_http_place {
  u32 is; /* XG_HTTP_IS_* */
  u32 at;
  u32 seen;
  u32 line;
  u32 lines;
};

XG_FN void xg_http_go(XG_INOUT(xg_http_place) p, u32 is, u32 at) {
  p.is = is;
  p.at = p.line = at;
  p.lines = 0u;
}

XG_FN u32 xg_http_room(u32 record, u32 window, u32 answers) {
  return record + XG_STREAM_HEAD + 2u * XG_SIDE_WORDS(window) + answers * XG_HTTP_WORDS(window);
}
/* The client's, and the server's: the parts that there are, and the last one, which is the body. */
XG_FN u32 xg_http_first_part(xg_stream a) { return a.answers != 0u ? XG_HTTP_STAT_CODE : XG_HTTP_METHOD; }
XG_FN u32 xg_http_body_part(xg_stream a) {
  return a.answers != 0u ? XG_HTTP_RESPONSE_BODY : XG_HTTP_REQUEST_BODY;
}

/* Nothing has been said. */
XG_FN void xg_http_begin(xg_stream a, u32 record) {
  for (u32 answers = 0u; answers < 2u; answers++) {
    if (a.reads <= answers * XG_STREAMS_READS_HTTP) return;
    u32 room = xg_http_room(record, a.window, answers);
    a.s.v[room + XG_HTTP_IN] = XG_HTTP_IS_FIRST;
    a.s.v[room + XG_HTTP_AT] = a.s.v[room + XG_HTTP_SEEN] = 0u;
    a.s.v[room + XG_HTTP_BODY] = 0u;
    a.s.v[room + XG_HTTP_HEADS] = a.s.v[room + XG_HTTP_CONNECTS] = 0u;
    a.s.v[room + XG_HTTP_UNANSWERED] = 0u;
  }
}

/* ---- requests and their answers --------------------------------------------------------------------------
 */

/* Whether a word is "HEAD", or "CONNECT", in whatever case. */
XG_FN bool xg_http_is_head(xg_state s, u32 base, xg_http_span word) {
  return xg_http_bytes(word) == 4u && xg_lower32(xg_http_load(s, base, word.begin)) == 0x64616568u;
}
XG_FN bool xg_http_is_connect(xg_state s, u32 base, xg_http_span word) {
  return xg_http_bytes(word) == 7u && xg_lower32(xg_http_load(s, base, word.begin)) == 0x6e6e6f63u &&
         (xg_lower32(xg_http_load(s, base, word.begin + 4u)) & 0xffffffu) == 0x746365u;
}

/* A request with this line begins. room: the client's. */
XG_FN void xg_http_asks(xg_stream a, u32 words, u32 room, xg_http_line line) {
  u32 count = a.s.v[room + XG_HTTP_UNANSWERED];
  a.s.v[room + XG_HTTP_UNANSWERED] = count + 1u;
  if (count >= XG_HTTP_MOST_ASKED) return;
  if (xg_http_is_head(a.s, words, line.first)) a.s.v[room + XG_HTTP_HEADS] |= 1u << count;
  if (xg_http_is_connect(a.s, words, line.first)) a.s.v[room + XG_HTTP_CONNECTS] |= 1u << count;
}

/* What the first request that has no answer is, which has one now: XG_HTTP_ASKED_*. */
#define XG_HTTP_ASKED_HEAD 1u
#define XG_HTTP_ASKED_CONNECT 2u
XG_FN u32 xg_http_answers(xg_stream a, u32 room) {
  u32 count = a.s.v[room + XG_HTTP_UNANSWERED];
  if (count == 0u) return 0u;
  u32 heads = a.s.v[room + XG_HTTP_HEADS];
  u32 connects = a.s.v[room + XG_HTTP_CONNECTS];
  a.s.v[room + XG_HTTP_UNANSWERED] = count - 1u;
  a.s.v[room + XG_HTTP_HEADS] = heads >> 1;
  a.s.v[room + XG_HTTP_CONNECTS] = connects >> 1;
  return (heads & 1u) * XG_HTTP_ASKED_HEAD | (connects & 1u) * XG_HTTP_ASKED_CONNECT;
}

/* An answer's status; 0: it is none. span: of the bytes behind `base`. */
XG_FN u32 xg_http_status(xg_state s, u32 base, u32 span) {
  if (span == XG_HTTP_ABSENT) return 0u;
  u32 at = span & 0xffffu;
  u32 end = at + (span >> 16);
  u32 value = 0u;
  for (; at < end; at++) {
    u32 digit = xg_http_byte(s, base, at) - 48u;
    if (digit >= 10u || value >= 100u) return 0u;
    value = value * 10u + digit;
  }
  return value >= 100u ? value : 0u;
}

/* Nothing is known of what is looked at. f: what is found in it. */
XG_FN void xg_found_forget(xg_state f) {
  f.v[XG_SIGNATURES_FOUND_OVER] = 0u;
  f.v[XG_SIGNATURES_FOUND_PATTERNS] = 0u;
  for (u32 i = 0u; i < XG_SIGNATURES_SEEN; i++) f.v[XG_SIGNATURES_FOUND_SEEN + i] = 0u;
}

XG_FN xg_http_head xg_http_head_of(xg_batch b, xg_stream a) {
  bool is_answer = a.answers != 0u;
  xg_http_head h;
  h.s = a.s;
  h.body = a.body;
  h.room = a.room;
  h.base = h.room + XG_HTTP_BYTES(XG_HTTP_MOST_LINES);
  h.most = 3u * a.window;
  h.wants = b.image.v[a.body + XG_STREAMS_HTTP];
  h.first = xg_http_first_part(a);
  h.values = is_answer ? XG_HTTP_SERVER : XG_HTTP_RAW_HOST;
  h.length = is_answer ? XG_HTTP_ANSWER_LENGTH : XG_HTTP_CONTENT_LENGTH;
  h.header = is_answer ? XG_HTTP_ANSWER_HEADER : XG_HTTP_HEADER;
  h.names = b.image.v[a.body + XG_STREAMS_HTTP_NAMED];
  if (is_answer) h.names += (XG_HTTP_NAMED + XG_HTTP_METHODS) * XG_HTTP_WORD;
  h.named = is_answer ? XG_HTTP_ANSWER_NAMED : XG_HTTP_NAMED;
  h.coding = is_answer ? XG_HTTP_ANSWER_TRANSFER_ENCODING : XG_HTTP_TRANSFER_ENCODING;
  h.is_answer = a.answers;
  h.parts = h.used = h.over = h.lines = h.is_chunked = h.is_encoded = h.has_length = h.body_bytes = 0u;
  return h;
}

/* What stands behind an answer's head, as far as its status and its request say: XG_HTTP_IS_*. client: that
 * side's room. */
XG_FN u32 xg_http_behind_answer(xg_stream a, xg_http_head h, u32 client) {
  u32 status = xg_http_status(h.s, h.base, h.s.v[xg_http_part(h, XG_HTTP_STAT_CODE)]);
  if (status == 101u) return XG_HTTP_IS_NONE;
  if (status - 100u < 100u) return XG_HTTP_IS_OPTIONAL; /* the answer comes later */
  u32 asked = xg_http_answers(a, client);
  if (asked == XG_HTTP_ASKED_CONNECT && status - 200u < 100u) return XG_HTTP_IS_FIRST;
  if (asked == XG_HTTP_ASKED_HEAD) return XG_HTTP_IS_REQUEST;
  if (status == 204u || status == 304u) return XG_HTTP_IS_OPTIONAL;
  return XG_HTTP_IS_REST;
}

/* Reads the head up to `end`, and says what comes behind it. has_head: else there is none, and the body
 * begins at `end`. False: there is no room for it. */
XG_FN bool xg_http_take(XG_IN(xg_batch) b, XG_IN(xg_stream) a, u32 record, xg_http_line line, u32 text,
                        XG_INOUT(xg_http_place) p, u32 end, bool has_head) {
  xg_http_head h = xg_http_head_of(b, a);
  for (u32 i = 0u; i < XG_HTTP_COUNT; i++) h.s.v[h.room + XG_HTTP_PARTS + i] = XG_HTTP_ABSENT;
  if (has_head) xg_http_read(b, h, a.side + XG_SIDE_BYTES, line, end - text);
  u32 is = XG_HTTP_IS_REST;
  u32 at = XG_HTTP_NOWHERE;
  u32 says = XG_HTTP_BODY_IS_ASKED;
  if (a.answers != 0u)
    is = xg_http_behind_answer(a, h, xg_http_room(record, a.window, 0u));
  else if (xg_http_is_connect(a.s, a.side + XG_SIDE_BYTES, line.first))
    is = XG_HTTP_IS_FIRST;
  else if (h.body_bytes == 0u)
    is = XG_HTTP_IS_REQUEST;
  bool may_be_cut = is == XG_HTTP_IS_REST || (a.answers == 0u && is == XG_HTTP_IS_REQUEST);
  if (h.is_chunked != 0u && (may_be_cut || is == XG_HTTP_IS_OPTIONAL)) {
    if (may_be_cut) is = XG_HTTP_IS_CHUNK;
    says |= XG_HTTP_BODY_IS_CUT;
  } else if (is == XG_HTTP_IS_OPTIONAL && h.body_bytes == 0u) {
    is = XG_HTTP_IS_REQUEST;
  } else if (is == XG_HTTP_IS_REST && h.has_length != 0u) {
    is = h.body_bytes != 0u ? XG_HTTP_IS_BODY : XG_HTTP_IS_REQUEST;
    at = end + h.body_bytes;
  }
  bool has_body =
      is == XG_HTTP_IS_CHUNK || is == XG_HTTP_IS_BODY || is == XG_HTTP_IS_REST || is == XG_HTTP_IS_OPTIONAL;
  if (is != XG_HTTP_IS_BODY && is != XG_HTTP_IS_REST) at = end;
  if (h.is_encoded != 0u) says |= XG_HTTP_BODY_IS_ENCODED;
  if (!has_body || h.over != 0u || !xg_http_wants(h, xg_http_body_part(a))) says = 0u;
  a.s.v[h.room + XG_HTTP_BODY] = says;
  a.s.v[h.room + XG_HTTP_FIRST] = end;
  for (u32 i = XG_HTTP_SO_FAR; i <= XG_HTTP_AWAITED; i++) a.s.v[h.room + i] = 0u;
  /* Whether it is there is not known yet, and so it is asked for. */
  if (is == XG_HTTP_IS_OPTIONAL) {
    a.s.v[h.room + XG_HTTP_KEPT] = h.is_chunked != 0u ? 0u : h.body_bytes;
  }
  a.s.v[h.room + XG_HTTP_VERSION] = b.image.v[a.body + XG_STREAMS_VERSION];
  xg_http_go(p, is, at);
  p.seen = end;
  return h.over == 0u;
}

/* ---- bodies ----------------------------------------------------------------------------------------------
 */

/* What in the text is of the body: bytes in the words from `words` on. */
struct xg_http_data {
  u32 words;
  u32 begin;
  u32 bytes;
};
XG_FN xg_http_data xg_http_data_of(xg_stream a, u32 room) {
  xg_http_data d;
  d.words = room + XG_HTTP_DATA(a.window);
  d.begin = 0u;
  d.bytes = a.s.v[room + XG_HTTP_KEPT] + a.s.v[room + XG_HTTP_KEPT + 1u];
  if ((a.s.v[room + XG_HTTP_BODY] & XG_HTTP_BODY_IS_CUT) != 0u) return d;
  u32 text = xg_side(a, XG_SIDE_TEXT);
  u32 first = a.s.v[room + XG_HTTP_FIRST];
  u32 end = first + a.s.v[room + XG_HTTP_SO_FAR];
  if (first < text) first = text;
  d.words = a.side + XG_SIDE_BYTES;
  d.begin = first - text;
  d.bytes = end - first;
  return d;
}

/* Takes the data up to `to`, which has come. */
XG_FN void xg_http_take_data(xg_stream a, u32 room, XG_INOUT(xg_http_place) p, u32 to) {
  u32 from = p.seen;
  p.seen = to;
  u32 says = a.s.v[room + XG_HTTP_BODY];
  if ((says & XG_HTTP_BODY_IS_ASKED) == 0u || from >= to) return;
  a.s.v[room + XG_HTTP_SO_FAR] += to - from;
  if ((says & XG_HTTP_BODY_IS_CUT) == 0u) return;
  u32 text = xg_side(a, XG_SIDE_TEXT);
  u32 kept = room + XG_HTTP_KEPT;
  xg_http_copy(a.s, room + XG_HTTP_DATA(a.window), a.s.v[kept] + a.s.v[kept + 1u], a.side + XG_SIDE_BYTES,
               from - text, to - from);
  u32 behind = text + a.window; /* the first block */
  u32 in_first = to < behind ? to - from : from < behind ? behind - from : 0u;
  a.s.v[kept] += in_first;
  a.s.v[kept + 1u] += to - from - in_first;
}

/* The text begins a block later. */
XG_FN void xg_http_slide(xg_stream a) {
  u32 room = a.room;
  u32 says = a.s.v[room + XG_HTTP_BODY];
  if ((says & XG_HTTP_BODY_IS_ASKED) == 0u) return;
  a.s.v[room + XG_HTTP_SEARCHED] = 0u;
  if ((says & XG_HTTP_BODY_IS_CUT) == 0u) return;
  u32 data = room + XG_HTTP_DATA(a.window);
  u32 kept = a.s.v[room + XG_HTTP_KEPT + 1u];
  xg_http_copy(a.s, data, 0u, data, a.s.v[room + XG_HTTP_KEPT], kept);
  a.s.v[room + XG_HTTP_KEPT] = kept;
  a.s.v[room + XG_HTTP_KEPT + 1u] = 0u;
}

/* Whether the body is to be looked at: with what is new of it or, as it has ended, once more. */
XG_FN bool xg_http_has_body(xg_batch b, xg_stream a, u32 room, bool is_whole) {
  u32 so_far = a.s.v[room + XG_HTTP_SO_FAR];
  if ((a.s.v[room + XG_HTTP_BODY] & XG_HTTP_BODY_IS_ASKED) == 0u || so_far == 0u) return false;
  if (!is_whole && so_far == a.s.v[room + XG_HTTP_LOOKED]) return false;
  if (a.s.v[room + XG_HTTP_VERSION] != b.image.v[a.body + XG_STREAMS_VERSION]) {
    a.s.v[room + XG_HTTP_BODY] = 0u;
    return false;
  }
  if (is_whole) a.s.v[room + XG_HTTP_BODY] |= XG_HTTP_BODY_IS_WHOLE;
  return true;
}

/* The size of a chunk, by the line that begins at byte `at` of the words from `base` on; more than
 * XG_HTTP_MOST_BODY: it has none. */
XG_FN u32 xg_http_chunk(xg_state s, u32 base, u32 at, u32 end) {
  u32 value = ~0u;
  for (; at < end; at++) {
    u32 byte = xg_http_byte(s, base, at);
    if (value == ~0u && xg_http_is_space(byte)) continue;
    u32 digit = xg_http_digit(byte);
    if (digit == 16u) break;
    if (value != ~0u && value >= 0x8000000u) return ~0u;
    value = value == ~0u ? digit : value << 4 | digit;
  }
  return value;
}

/* What comes of a place where the bytes up to the next line's end are not there. lost: the text will go on
 * without the first of them. begins: they are a request's or an answer's. Returns whether that is too much.
 */
XG_FN bool xg_http_waits(u32 end, bool lost, bool begins, XG_INOUT(xg_http_place) p) {
  if (p.is == XG_HTTP_IS_PASSED || p.is == XG_HTTP_IS_CHUNK_END || (p.is == XG_HTTP_IS_TRAILER && lost)) {
    p.at = end;
    return false;
  }
  if (!lost || p.is == XG_HTTP_IS_TRAILER) return false;
  bool is_request = p.is == XG_HTTP_IS_HEAD || p.is == XG_HTTP_IS_CHUNK || begins;
  xg_http_go(p, p.is == XG_HTTP_IS_FIRST && !is_request ? XG_HTTP_IS_NONE : XG_HTTP_IS_PASSED, end);
  return is_request;
}

/* Goes on with the text's first `bytes`, up to what is to be looked at. ends: nothing comes behind them.
 * over: set to 1 where a head is too long. */
#define XG_HTTP_SAYS_NOTHING 0u /* there is nothing more */
#define XG_HTTP_SAYS_HEAD 1u    /* a head that is whole and read */
#define XG_HTTP_SAYS_BODY 2u
XG_SELDOM u32 xg_http_next(XG_IN(xg_batch) b, XG_IN(xg_stream) a, u32 record, u32 bytes, bool ends,
                           XG_INOUT(u32) over) {
  u32 text = xg_side(a, XG_SIDE_TEXT);
  u32 words = a.side + XG_SIDE_BYTES;
  u32 end = text + bytes;
  u32 room = a.room;
  u32 client = xg_http_room(record, a.window, 0u);
  bool is_answer = a.answers != 0u;
  xg_http_place p;
  p.is = a.s.v[room + XG_HTTP_IN];
  p.at = a.s.v[room + XG_HTTP_AT];
  p.seen = a.s.v[room + XG_HTTP_SEEN];
  p.line = a.s.v[room + XG_HTTP_LINE_AT];
  p.lines = a.s.v[room + XG_HTTP_COUNTED];
  if (p.at < text) p.is = XG_HTTP_IS_NONE;
  /* It has been looked at. */
  if ((a.s.v[room + XG_HTTP_BODY] & XG_HTTP_BODY_IS_WHOLE) != 0u) a.s.v[room + XG_HTTP_BODY] = 0u;
  u32 says = XG_HTTP_SAYS_NOTHING;
  while (p.is != XG_HTTP_IS_NONE && says == XG_HTTP_SAYS_NOTHING) {
    bool ends_body = false;
    bool lost = bytes == 2u * a.window && p.at - text < a.window;
    if (p.is == XG_HTTP_IS_BODY || p.is == XG_HTTP_IS_CHUNK_DATA || p.is == XG_HTTP_IS_REST) {
      xg_http_take_data(a, room, p, p.at < end ? p.at : end);
      if (p.at > end) break;
      ends_body = p.is == XG_HTTP_IS_BODY;
      xg_http_go(p, ends_body ? XG_HTTP_IS_REQUEST : XG_HTTP_IS_CHUNK_END, p.at);
      if (ends_body && xg_http_has_body(b, a, room, true)) says = XG_HTTP_SAYS_BODY;
      continue;
    }
    if (p.is == XG_HTTP_IS_OPTIONAL) {
      u32 there = xg_http_behind_spaces(a.s, words, p.at - text, bytes);
      if (bytes - there < 4u && !ends && !lost) break;
      u32 size = a.s.v[room + XG_HTTP_KEPT];
      a.s.v[room + XG_HTTP_KEPT] = 0u;
      bool is_other = xg_http_begins_answer(a.s, words, there, bytes);
      if (is_other) a.s.v[room + XG_HTTP_BODY] = 0u;
      u32 next = p.at;
      p.seen = next;
      xg_http_go(p,
                 is_other     ? XG_HTTP_IS_REQUEST
                 : size == 0u ? XG_HTTP_IS_CHUNK
                              : XG_HTTP_IS_BODY,
                 is_other ? next : next + size);
      continue;
    }
    if (p.at >= end && !(ends && p.is == XG_HTTP_IS_HEAD)) break;
    /* The next line. */
    u32 begin = (p.is == XG_HTTP_IS_HEAD ? p.line : p.at) - text;
    u32 from = p.seen > text + begin ? p.seen - text : begin;
    bool by_cr =
        is_answer && p.is != XG_HTTP_IS_CHUNK && p.is != XG_HTTP_IS_CHUNK_END && p.is != XG_HTTP_IS_PASSED;
    u32 to = xg_http_line_behind(a.s, words, from, bytes, by_cr);
    bool is_there = to <= bytes;
    /* An answer's head, which the stream's end ends. */
    bool is_cut = is_answer && ends && !is_there && p.is == XG_HTTP_IS_HEAD;
    bool gone = lost || (ends && is_answer && p.is == XG_HTTP_IS_FIRST);
    bool is_empty =
        is_there && (to - begin == 1u || (to - begin == 2u && xg_http_byte(a.s, words, begin) == XG_HTTP_CR));
    bool is_head = p.is == XG_HTTP_IS_HEAD && is_empty;
    bool is_judged =
        (p.is == XG_HTTP_IS_FIRST || p.is == XG_HTTP_IS_REQUEST) && !is_empty && (is_there || gone);
    xg_http_line line;
    bool begins = false;
    bool is_whole = is_head || is_cut;
    if (is_whole || is_judged) {
      line = xg_http_read_line(a.s, words, p.at - text, bytes, is_answer);
      if (is_judged && is_answer)
        begins = xg_http_begins_answer(
            a.s, words, xg_http_behind_spaces(a.s, words, line.all.begin, line.all.end), line.all.end);
      else if (is_judged)
        begins = xg_http_begins(b, a.body, a.s, words, line);
      if (begins && !is_answer) xg_http_asks(a, words, client, line);
    }
    u32 behind = is_cut ? end : text + to;
    /* An answer without a head, to a client that speaks HTTP; and what is no chunk in an answer. Both end
     * with the stream. */
    u32 asked = a.s.v[client + XG_HTTP_IN];
    bool has_head = !(is_answer && is_judged && !begins && p.is == XG_HTTP_IS_FIRST &&
                      asked != XG_HTTP_IS_FIRST && asked != XG_HTTP_IS_NONE);
    u32 size = 0u;
    if (p.is == XG_HTTP_IS_CHUNK && is_there && !is_empty) size = xg_http_chunk(a.s, words, begin, to);
    if (is_answer && p.is == XG_HTTP_IS_CHUNK &&
        (size > XG_HTTP_MOST_BODY || (!is_there && (lost || ends)))) {
      p.is = XG_HTTP_IS_REST;
      p.seen = text + begin;
      p.at = XG_HTTP_NOWHERE;
      continue;
    }
    if (has_head && !is_there && !is_cut) {
      /* What a CR ends is not known yet. */
      p.seen = by_cr && end != text + begin ? end - 1u : end;
      if (xg_http_waits(end, lost, begins, p)) over = 1u;
      break;
    }
    if (!has_head) {
      behind = text + begin;
      is_whole = true;
    } else if (is_judged) {
      if (begins && !is_answer && xg_http_bytes(line.third) == 0u) {
        is_whole = true;
      } else if (begins) {
        p.is = XG_HTTP_IS_HEAD;
        p.line = behind;
        p.lines = 0u;
      } else if (p.is == XG_HTTP_IS_FIRST) {
        p.is = XG_HTTP_IS_NONE;
      } else {
        p.at = behind;
      }
    } else if (p.is == XG_HTTP_IS_HEAD && !is_empty && !is_cut) {
      p.line = behind;
      p.lines += 1u;
      if (p.lines > XG_HTTP_MOST_LINES) {
        over = 1u;
        xg_http_go(p, XG_HTTP_IS_PASSED, behind);
      }
    } else if (p.is == XG_HTTP_IS_PASSED) {
      xg_http_go(p, XG_HTTP_IS_REQUEST, behind);
    } else if (p.is == XG_HTTP_IS_CHUNK_END) {
      xg_http_go(p, XG_HTTP_IS_CHUNK, behind);
    } else if (p.is == XG_HTTP_IS_TRAILER) {
      xg_http_go(p, is_empty ? XG_HTTP_IS_REQUEST : XG_HTTP_IS_TRAILER, behind);
    } else if (is_empty && !is_head) {
      p.at = behind;
    } else if (p.is == XG_HTTP_IS_CHUNK) {
      ends_body = size == 0u || size > XG_HTTP_MOST_BODY;
      if (size > XG_HTTP_MOST_BODY) {
        xg_http_go(p, XG_HTTP_IS_REQUEST, p.at);
      } else if (size == 0u) {
        xg_http_go(p, XG_HTTP_IS_TRAILER, behind);
      } else {
        xg_http_go(p, XG_HTTP_IS_CHUNK_DATA, behind + size);
        p.seen = behind;
      }
    }
    if (is_whole && xg_http_take(b, a, record, line, text, p, behind, has_head))
      says = XG_HTTP_SAYS_HEAD;
    else if (is_whole)
      over = 1u;
    else if (ends_body && xg_http_has_body(b, a, room, true))
      says = XG_HTTP_SAYS_BODY;
  }
  if (says == XG_HTTP_SAYS_NOTHING && xg_http_has_body(b, a, room, ends)) says = XG_HTTP_SAYS_BODY;
  a.s.v[room + XG_HTTP_IN] = p.is;
  a.s.v[room + XG_HTTP_AT] = p.at;
  a.s.v[room + XG_HTTP_SEEN] = p.seen;
  a.s.v[room + XG_HTTP_LINE_AT] = p.line;
  a.s.v[room + XG_HTTP_COUNTED] = p.lines;
  return says;
}

#endif
