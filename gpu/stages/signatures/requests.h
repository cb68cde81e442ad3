/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/requests.h: a client's side as requests by HTTP/1, one behind the other
 * (gpu/signatures.hpp, "HTTP"): where each begins and ends, however the stream is cut.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_REQUESTS_H
#define XDPGPU_STAGES_SIGNATURES_REQUESTS_H

#include "gpu/stages/signatures/http.h"
#include "gpu/stages/signatures/side.h"

/* How a connection's requests stand. Places are the stream's. */
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

XG_FN u32 xg_http_room(u32 record, u32 window) {
  return record + XG_STREAM_HEAD + 2u * XG_SIDE_WORDS(window);
}

XG_FN xg_http_head xg_http_head_of(xg_batch b, xg_stream a, u32 record) {
  xg_http_head h;
  h.s = a.s;
  h.body = a.body;
  h.room = xg_http_room(record, a.window);
  h.base = h.room + XG_HTTP_BYTES(XG_HTTP_MOST_LINES);
  h.most = 3u * a.window;
  h.wants = b.image.v[a.body + XG_STREAMS_HTTP];
  h.used = h.over = h.lines = h.is_connect = h.is_chunked = h.body_bytes = 0u;
  return h;
}

/* Reads the head up to `end`, and says what comes behind it. False: there is no room for it. */
XG_FN bool xg_http_take(XG_IN(xg_batch) b, XG_IN(xg_stream) a, u32 record, xg_http_line line, u32 text,
                        XG_INOUT(xg_http_place) p, u32 end) {
  xg_http_head h = xg_http_head_of(b, a, record);
  xg_http_read(b, h, a.side + XG_SIDE_BYTES, line, end - text);
  u32 is = XG_HTTP_IS_REQUEST;
  u32 at = end;
  if (h.is_connect != 0u) {
    is = XG_HTTP_IS_FIRST;
  } else if (h.is_chunked != 0u) {
    is = XG_HTTP_IS_CHUNK;
  } else if (h.body_bytes != 0u) {
    is = XG_HTTP_IS_BODY;
    at = end + h.body_bytes;
  }
  xg_http_go(p, is, at);
  return h.over == 0u;
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
 * without the first of them. begins: they are a request's. Returns whether that is too much. */
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

/* Goes on with the text's first `bytes`, up to the next head that is whole and read, and returns true. over:
 * set to 1 where one is too long. */
XG_SELDOM bool xg_http_next(XG_IN(xg_batch) b, XG_IN(xg_stream) a, u32 record, u32 bytes,
                            XG_INOUT(u32) over) {
  u32 text = xg_side(a, XG_SIDE_TEXT);
  u32 words = a.side + XG_SIDE_BYTES;
  u32 end = text + bytes;
  xg_http_place p;
  p.is = a.s.v[record + XG_STREAM_HTTP];
  p.at = a.s.v[record + XG_STREAM_HTTP_AT];
  p.seen = a.s.v[record + XG_STREAM_HTTP_SEEN];
  p.line = a.s.v[record + XG_STREAM_HTTP_LINE];
  p.lines = a.s.v[record + XG_STREAM_HTTP_LINES];
  if (p.at < text) p.is = XG_HTTP_IS_NONE;
  bool is_read = false;
  while (p.is != XG_HTTP_IS_NONE && p.at < end && !is_read) {
    if (p.is == XG_HTTP_IS_BODY) {
      xg_http_go(p, XG_HTTP_IS_REQUEST, p.at);
      continue;
    }
    if (p.is == XG_HTTP_IS_CHUNK_DATA) {
      xg_http_go(p, XG_HTTP_IS_CHUNK_END, p.at);
      continue;
    }
    /* The next line. */
    u32 begin = (p.is == XG_HTTP_IS_HEAD ? p.line : p.at) - text;
    u32 from = p.seen > text + begin ? p.seen - text : begin;
    u32 to = xg_http_find(a.s, words, from, bytes, XG_HTTP_LF, XG_HTTP_LF) + 1u;
    bool is_there = to <= bytes;
    bool lost = bytes == 2u * a.window && p.at - text < a.window;
    bool is_empty =
        is_there && (to - begin == 1u || (to - begin == 2u && xg_http_byte(a.s, words, begin) == XG_HTTP_CR));
    bool is_head = p.is == XG_HTTP_IS_HEAD && is_empty;
    bool is_judged =
        (p.is == XG_HTTP_IS_FIRST || p.is == XG_HTTP_IS_REQUEST) && !is_empty && (is_there || lost);
    xg_http_line line;
    bool begins = false;
    bool is_whole = is_head;
    if (is_head || is_judged) {
      line = xg_http_read_line(a.s, words, p.at - text, bytes);
      if (is_judged) begins = xg_http_begins(b, a.body, a.s, words, line);
    }
    u32 behind = text + to;
    if (!is_there) {
      p.seen = end;
      if (xg_http_waits(end, lost, begins, p)) over = 1u;
      break;
    }
    if (is_judged) {
      if (begins && xg_http_bytes(line.protocol) == 0u) {
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
    } else if (p.is == XG_HTTP_IS_HEAD && !is_empty) {
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
      u32 size = xg_http_chunk(a.s, words, begin, to);
      if (size > XG_HTTP_MOST_BODY)
        xg_http_go(p, XG_HTTP_IS_REQUEST, p.at);
      else if (size == 0u)
        xg_http_go(p, XG_HTTP_IS_TRAILER, behind);
      else
        xg_http_go(p, XG_HTTP_IS_CHUNK_DATA, behind + size);
    }
    if (!is_whole) continue;
    is_read = xg_http_take(b, a, record, line, text, p, behind);
    if (!is_read) over = 1u;
  }
  a.s.v[record + XG_STREAM_HTTP] = p.is;
  a.s.v[record + XG_STREAM_HTTP_AT] = p.at;
  a.s.v[record + XG_STREAM_HTTP_SEEN] = p.seen;
  a.s.v[record + XG_STREAM_HTTP_LINE] = p.line;
  a.s.v[record + XG_STREAM_HTTP_LINES] = p.lines;
  return is_read;
}

#endif
