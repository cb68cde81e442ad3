/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/streams.h: rules on what TCP connections say (gpu/signatures.hpp, "streams", and
 * settings.hpp). The part of `signatures` that has a table: it stands in front of the one that inspects
 * packets, and leaves it the rules that fire in the packet's xg_alerts.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_STREAMS_H
#define XDPGPU_STAGES_SIGNATURES_STREAMS_H

#include "gpu/stages/inner.h"
#include "gpu/stages/keys.h"
#include "gpu/stages/signatures/look.h"

#define XG_STREAM_FIN 1u
#define XG_STREAM_SYN 2u
#define XG_STREAM_RST 4u
#define XG_STREAM_ACK 16u

/* xg_touch.more of a packet. Its facts: which side sent it, and from bit 8 on its TCP flags. */
#define XG_STREAM_NUMBER 0u /* of its first descriptor */
#define XG_STREAM_SEQUENCE 1u
#define XG_STREAM_ACKNOWLEDGED 2u
#define XG_STREAM_NEAR 3u /* 0, or 1 + its place in xg_batch.near; the device puts it there, and the bit */
#define XG_STREAM_HELPED 0x80000000u

XG_FN xg_touch xg_signatures_touch(xg_batch b, xg_way way, xg_view p, u32) {
  xg_touch other = xg_untracked();
  other.facts = XG_STREAM_OTHER;
  u32 parts = XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT | XG_PKT_MALFORMED;
  if (p.family == 0u || p.protocol != 6u || (p.flags & parts) != 0u || p.has_ports == 0u) return other;
  xg_touch t = xg_untracked();
  if (!xg_inside(p, p.l4_offset, 20u) ||
      !xg_connection_key(p.protocol, p.ports & 0xffffu, p.ports >> 16, p, t))
    return other;
  t.facts |= xg_view8(p, p.l4_offset + 13u) << 8;
  t.now = xg_word_pair(xg_metadata32(p, 0u), xg_metadata32(p, 1u)) * XG_TICKS_PER_NS;
  t.more[XG_STREAM_NUMBER] = p.number;
  t.more[XG_STREAM_SEQUENCE] = xg_swap32(xg_view32(p, p.l4_offset + 4u));
  t.more[XG_STREAM_ACKNOWLEDGED] = xg_swap32(xg_view32(p, p.l4_offset + 8u));
  t.more[XG_STREAM_NEAR] = 0u;
  xg_touch_hash(b, way.body, t);
  return t;
}

/* The largest window that TCP has (RFC 7323): what is farther ahead nobody takes. */
#define XG_STREAM_REACH 0x3fffffffu

/* ---- a connection ----------------------------------------------------------------------------------------
 */

/* What the packet's rules that fire are to do; XG_STREAM_*. */
XG_FN u32 xg_stream_verdict(xg_batch b, xg_stream a, u32 record, XG_INOUT(xg_stream_packet) k) {
  xg_state f = xg_side_found(a);
  u32 state = a.s.v[record + XG_STREAM_STATE];
  if (k.over != 0u) {
    if (a.room != 0u) a.s.v[a.room + XG_HTTP_BODY] = 0u;
    if (XG_VERDICT_ACTION(b.image.v[a.rules + XG_SIGNATURES_LIMIT]) == XG_DROP)
      a.s.v[record + XG_STREAM_STATE] = state | XG_STREAM_DROPPED;
    return XG_STREAM_LIMIT;
  }
  u32 first = f.v[XG_SIGNATURES_FOUND_RULES];
  u32 what = k.encoded != 0u ? XG_STREAM_ENCODED : XG_STREAM_INSPECTED;
  if (k.encoded != 0u && XG_VERDICT_ACTION(b.image.v[a.body + XG_STREAMS_ON_ENCODED]) == XG_DROP) {
    a.s.v[record + XG_STREAM_STATE] = state | XG_STREAM_DROPPED;
    return what;
  }
  if (first == ~0u) return what;
  u32 rule = b.image.v[a.rules + XG_SIGNATURES_RULES] + first * XG_SIGNATURES_RULE;
  u32 action = XG_SIGNATURE_ACTION(b.image.v[rule + XG_SIGNATURE_FLAGS]);
  if (action == XG_SIGNATURE_PASS) state |= XG_STREAM_PASSED;
  if (action == XG_SIGNATURE_DROP) state |= XG_STREAM_DROPPED;
  a.s.v[record + XG_STREAM_STATE] = state;
  xg_signatures_tell(b, k.p, f);
  return what | XG_STREAM_FIRES;
}

/* `bytes` of the packet, from `from` on, which nobody has brought before, at the position `pos`; none: its
 * FIN, which stands there, ends what was being said. */
XG_SELDOM u32 xg_stream_take(XG_IN(xg_batch) b, XG_IN(xg_stream) a, u32 record, XG_INOUT(xg_stream_packet) k,
                             u32 from, u32 pos, u32 bytes) {
  u32 room = 3u * a.window;
  u32 end = pos + bytes;
  if (!xg_side_agrees(b, a, k.c, from, pos, bytes)) return XG_STREAM_CHANGED;
  if (pos > xg_side(a, XG_SIDE_NEXT)) {
    u32 text = xg_side(a, XG_SIDE_TEXT);
    if (end - text > room || !xg_side_note_piece(a, pos, end)) return XG_STREAM_GAP;
    XG_SIDE_COPY(b, a, k.c, from, pos - text, bytes);
    return XG_STREAM_INSPECTED;
  }
  xg_state f = xg_side_found(a);
  if (xg_side(a, XG_SIDE_VERSION) != b.image.v[a.body + XG_STREAMS_VERSION]) xg_stream_forget(b, a);
  f.v[XG_SIGNATURES_FOUND_CONNECTION] = 0u;
  for (u32 i = 0u; i < XG_MAX_ALERTS; i++) f.v[XG_SIGNATURES_FOUND_RULES + i] = ~0u;
  k.end = end;
  u32 next = pos;
  do {
    u32 text = xg_side(a, XG_SIDE_TEXT);
    u32 to = end - text > room ? text + room : end;
    XG_SIDE_COPY(b, a, k.c, from + next - pos, next - text, to - next);
    while (xg_side(a, XG_SIDE_PIECES) != 0u && xg_side_piece(a, 0u, 0u) <= to) {
      u32 behind = xg_side_piece(a, 0u, 1u);
      if (behind > to) to = behind;
      xg_side_drop_pieces(a, 0u, 1u);
    }
    xg_stream_advance(b, a, to, k);
    next = xg_side(a, XG_SIDE_NEXT);
  } while (next < end);
  if (xg_side(a, XG_SIDE_NEXT) != end) xg_side_mark(a, xg_side(a, XG_SIDE_NEXT));
  return xg_stream_verdict(b, a, record, k);
}

/* Whether the side's FIN ends a body, or an answer's line: all in front of it has come. */
XG_FN bool xg_stream_ends(xg_batch b, xg_stream a) {
  u32 next = xg_side(a, XG_SIDE_NEXT);
  if (next != xg_side(a, XG_SIDE_END) || !xg_stream_asks_http(b, a)) return false;
  u32 says = a.s.v[a.room + XG_HTTP_BODY] & (XG_HTTP_BODY_IS_ASKED | XG_HTTP_BODY_IS_WHOLE);
  if (says == XG_HTTP_BODY_IS_ASKED && a.s.v[a.room + XG_HTTP_SO_FAR] != 0u) return true;
  u32 is = a.s.v[a.room + XG_HTTP_IN];
  return a.answers != 0u && a.s.v[a.room + XG_HTTP_AT] < next &&
         (is == XG_HTTP_IS_FIRST || is == XG_HTTP_IS_HEAD || is == XG_HTTP_IS_CHUNK ||
          is == XG_HTTP_IS_OPTIONAL);
}

/* The packet's payload, of a side that has begun, or nothing but a FIN that ends something. */
XG_FN u32 xg_stream_payload(xg_batch b, xg_stream a, u32 record, u32 sequence, XG_INOUT(xg_stream_packet) k) {
  u32 next = xg_side(a, XG_SIDE_NEXT);
  u32 depth = b.image.v[a.body + XG_STREAMS_DEPTH];
  u32 from = k.seen.payload;
  u32 bytes = k.seen.payload_bytes;
  u32 pos = sequence - xg_side(a, XG_SIDE_FIRST);
  bool drops_gaps = XG_VERDICT_ACTION(b.image.v[a.body + XG_STREAMS_ON_GAP]) == XG_DROP;
  bool gap = false;
  if (pos - next <= XG_STREAM_REACH && xg_is_behind(pos + bytes, xg_side(a, XG_SIDE_FARTHEST)))
    xg_set_side(a, XG_SIDE_FARTHEST, pos + bytes);
  if (xg_is_behind(next, pos)) {
    u32 anew = next - pos < bytes ? next - pos : bytes;
    u32 text = xg_side(a, XG_SIDE_TEXT);
    u32 front = xg_is_behind(text, pos) ? text - pos : 0u;
    if (front > anew) front = anew;
    u32 end = pos + front;
    u32 acked = xg_side(a, XG_SIDE_ACKED);
    gap = front != 0u && xg_is_behind(end, acked);
    if (gap) {
      u32 known = xg_is_behind(acked, pos) ? acked - pos : 0u;
      u32 what = xg_side_compare(b, a, k.c, from + known, pos + known, anew - known);
      if (what == XG_SIDE_OTHERS) return XG_STREAM_CHANGED;
      gap = what == XG_SIDE_UNKNOWN;
    }
    if (gap && drops_gaps) return XG_STREAM_GAP;
    if (front < anew && !XG_SIDE_HAS(b, a, k.c, from + front, end - text, anew - front))
      return XG_STREAM_CHANGED;
    from += anew;
    pos += anew;
    bytes -= anew;
  }
  if (pos >= depth) bytes = 0u;
  if (bytes > depth - pos) bytes = depth - pos;
  bool is_end = k.seen.payload_bytes == 0u;
  u32 what = bytes == 0u && !is_end ? XG_STREAM_INSPECTED : xg_stream_take(b, a, record, k, from, pos, bytes);
  return gap && what == XG_STREAM_INSPECTED ? XG_STREAM_GAP : what;
}

/* Which side began a connection of which this is the first packet: XG_STREAM_UPPER_CLIENT or 0. */
XG_FN u32 xg_stream_client(u32 flags, u32 which, xg_touch t) {
  if ((flags & XG_STREAM_SYN) != 0u) {
    bool answers = (flags & XG_STREAM_ACK) != 0u;
    return (which != 0u) != answers ? XG_STREAM_UPPER_CLIENT : 0u;
  }
  u32 lower = t.key[8] & 0xffffu;
  u32 upper = t.key[8] >> 16;
  bool is_lower = (xg_swap32(lower) >> 16) > (xg_swap32(upper) >> 16);
  return is_lower ? 0u : XG_STREAM_UPPER_CLIENT;
}

XG_FN u32 xg_stream_side_at(u32 record, u32 window, u32 which) {
  return record + XG_STREAM_HEAD + which * XG_SIDE_WORDS(window);
}

/* A packet that acknowledges what the side has sent. Bytes that have not come here, and are acknowledged,
 * come no more: the stream begins anew behind them. */
XG_FN void xg_stream_acknowledge(xg_batch b, xg_stream a, u32 number) {
  u32 state = xg_side(a, XG_SIDE_STATE);
  if ((state & XG_SIDE_IS_THERE) == 0u) return;
  u32 to = number - xg_side(a, XG_SIDE_FIRST);
  u32 next = xg_side(a, XG_SIDE_NEXT);
  if (xg_is_behind(to, next)) {
    u32 farthest = xg_side(a, XG_SIDE_FARTHEST);
    bool drops_gaps = XG_VERDICT_ACTION(b.image.v[a.body + XG_STREAMS_ON_GAP]) == XG_DROP;
    if (!xg_is_behind(to, farthest) && !drops_gaps && next < b.image.v[a.body + XG_STREAMS_DEPTH]) {
      xg_side_begin(a, number);
      xg_set_side(a, XG_SIDE_STATE, state | XG_SIDE_IS_CUT);
      xg_set_side(a, XG_SIDE_FARTHEST, farthest - to);
      return;
    }
    to = next;
  }
  if (xg_is_behind(to, xg_side(a, XG_SIDE_ACKED))) xg_set_side(a, XG_SIDE_ACKED, to);
}

/* Of a packet of the connection: a is the side that sent it, `other` the one that it is for. */
XG_FN u32 xg_stream_packet_of(xg_batch b, xg_stream a, xg_stream other, u32 record, xg_touch t,
                              XG_INOUT(xg_stream_packet) k) {
  u32 flags = t.facts >> 8;
  u32 which = t.facts & 1u;
  u32 marks = flags & (XG_STREAM_SYN | XG_STREAM_RST | XG_STREAM_FIN);
  u32 sequence = t.more[XG_STREAM_SEQUENCE];
  u32 state = a.s.v[record + XG_STREAM_STATE];
  if ((state & XG_STREAM_DROPPED) != 0u) return XG_STREAM_DROP;
  bool there = (xg_side(a, XG_SIDE_STATE) & XG_SIDE_IS_THERE) != 0u;
  if ((marks & XG_STREAM_RST) != 0u) {
    if (there && sequence == xg_side(a, XG_SIDE_FIRST) + xg_side(a, XG_SIDE_NEXT))
      a.s.v[record + XG_STREAM_STATE] = state | XG_STREAM_RESET;
    return XG_STREAM_OTHER;
  }
  if ((marks & XG_STREAM_SYN) != 0u) {
    if (marks != XG_STREAM_SYN) return XG_STREAM_OTHER;
    sequence += 1u;
    if (!there) xg_side_begin(a, sequence);
    if (xg_side(a, XG_SIDE_FIRST) != sequence) return XG_STREAM_OTHER;
    there = true;
  }
  if ((flags & XG_STREAM_ACK) != 0u) xg_stream_acknowledge(b, other, t.more[XG_STREAM_ACKNOWLEDGED]);
  bool is_end = false;
  if (there && (marks & XG_STREAM_FIN) != 0u) {
    u32 end = sequence - xg_side(a, XG_SIDE_FIRST) + k.seen.payload_bytes;
    if (xg_side(a, XG_SIDE_END) == ~0u && end - xg_side(a, XG_SIDE_NEXT) <= XG_STREAM_REACH)
      xg_set_side(a, XG_SIDE_END, end);
    xg_set_side(a, XG_SIDE_STATE, xg_side(a, XG_SIDE_STATE) | XG_SIDE_IS_OVER);
    is_end = end == xg_side(a, XG_SIDE_END) && k.seen.payload_bytes == 0u && xg_stream_ends(b, a);
  }
  if ((k.seen.payload_bytes == 0u && !is_end) || (state & XG_STREAM_PASSED) != 0u) return XG_STREAM_OTHER;
  if (!there) {
    if (b.image.v[a.body + XG_STREAMS_MIDSTREAM] == 0u) return XG_STREAM_GAP;
    xg_side_begin(a, sequence);
  }
  k.connection = XG_CONNECTION_SEEN | XG_CONNECTION_HAS;
  if (((state & XG_STREAM_UPPER_CLIENT) != 0u) != (which != 0u)) k.connection |= XG_CONNECTION_ANSWERS;
  if ((flags & (XG_STREAM_ACK | XG_STREAM_SYN)) == XG_STREAM_ACK) k.connection |= XG_CONNECTION_ESTABLISHED;
  return xg_stream_payload(b, a, record, sequence, k);
}

XG_FN bool xg_stream_is_over(xg_stream a, xg_stream other, u32 record) {
  return (a.s.v[record + XG_STREAM_STATE] & XG_STREAM_RESET) != 0u ||
         (xg_side(a, XG_SIDE_STATE) & xg_side(other, XG_SIDE_STATE) & XG_SIDE_IS_OVER) != 0u;
}

XG_FN void xg_stream_begin(xg_stream a, xg_stream other, u32 record, u32 client) {
  a.s.v[record + XG_STREAM_STATE] = client;
  a.s.v[record + XG_STREAM_HELLO] = 0u;
  xg_http_begin(a, record);
  xg_set_side(a, XG_SIDE_STATE, 0u);
  xg_set_side(other, XG_SIDE_STATE, 0u);
}

/* The packet, whether or not the device has brought it nearer. */
XG_FN bool xg_stream_see(xg_batch b, xg_touch t, u32 limit, XG_INOUT(xg_view) p,
                         XG_INOUT(xg_payload_cursor) c) {
  u32 number = t.more[XG_STREAM_NUMBER];
#ifdef __CUDA_ARCH__
  u32 near = t.more[XG_STREAM_NEAR] & ~XG_STREAM_HELPED;
  if (near != 0u) {
    u64 place = u64(near - 1u) * u64(XG_NEAR_QUADS * 16u);
    xg_words said;
    said.v = reinterpret_cast<xg_word*>(reinterpret_cast<u8*>(b.near.v) + place);
    xg_descriptor there;
    there.offset = xg_word_pair(said.v[0], said.v[1]);
    there.length = said.v[2];
    there.flags = said.v[3];
    xg_descriptor here = there;
    here.offset = u64(XG_METADATA_SIZE) + (there.offset & u64(15));
    xg_batch nearer = b;
    nearer.frames.v = said.v + 4;
    nearer.frames_bytes = u64((XG_NEAR_QUADS - 1u) * 16u);
    if (!xg_view_packet(nearer, number, here, p)) return false;
    xg_view_of(there, number, p);
    xg_look_inside(b, p);
    c = xg_payload_of(b, p, limit);
    /* From the batch's frames the copy is so far away: addresses come round. */
    c.at = reinterpret_cast<u64>(nearer.frames.v) + here.offset - reinterpret_cast<u64>(b.frames.v);
    xg_payload_enter(b, c.at, 0u, c.bytes, c.second, c);
    return true;
  }
#endif
  if (!xg_view_packet(b, number, b.descriptors.v[number], p)) return false;
  xg_look_inside(b, p);
  c = xg_payload_of(b, p, limit);
  return true;
}

/* What comes of the packet: for those of one connection in their order. */
#if defined(XG_GLSL) && !defined(XG_INSPECTS_IN_TURN)
XG_FN u32 xg_signatures_apply(xg_batch, u32, xg_touch) { return XG_STREAM_OTHER; }
#else
XG_SELDOM u32 xg_signatures_apply(XG_IN(xg_batch) b, u32 body, XG_IN(xg_touch) t) {
  xg_stream a;
  a.s = xg_state_of(b, body);
  a.body = body;
  a.rules = b.image.v[body + XG_STREAMS_RULES];
  a.window = b.image.v[body + XG_STREAMS_WINDOW] & ~XG_STREAMS_READS;
  a.reads = b.image.v[body + XG_STREAMS_WINDOW] & XG_STREAMS_READS;
  a.room = a.answers = 0u;
  a.helped = t.more[XG_STREAM_NEAR] / XG_STREAM_HELPED;
  xg_stream_packet k;
  if (!xg_stream_see(b, t, b.image.v[a.rules + XG_SIGNATURES_REACH], k.p, k.c)) return XG_STREAM_OTHER;
  if (!xg_signatures_see(b, k.p, k.c, k.seen)) return XG_STREAM_OTHER;
  k.work = k.over = k.ends = k.encoded = k.connection = k.end = 0u;
  bool brings = k.seen.payload_bytes != 0u;

  u64 now = u64(0);
  u32 set = xg_come(a.s, t, now);
  u32 evict = b.image.v[body + XG_BODY_EVICT];
  u32 flags = t.facts >> 8;
  u32 marks = flags & (XG_STREAM_SYN | XG_STREAM_RST | XG_STREAM_FIN);
  bool begins = marks == XG_STREAM_SYN;
  u32 entry = xg_find(a.s, set, now, evict, t);
  bool is_new = entry == 0u;
  if (is_new) {
    bool takes_up = b.image.v[body + XG_STREAMS_MIDSTREAM] != 0u && brings;
    if (begins || (takes_up && (marks & (XG_STREAM_SYN | XG_STREAM_RST)) == 0u))
      entry = xg_insert(a.s, set, now, evict, now, t);
    if (entry == 0u) return brings && (marks & XG_STREAM_RST) == 0u ? XG_STREAM_GAP : XG_STREAM_OTHER;
  }
  u32 way = (entry - set - XG_SET_HEAD) / XG_ENTRY_WORDS;
  u32 record = xg_set_at(b.image.v[body + XG_BODY_SETS]) +
               (t.set * XG_WAYS + way) * XG_STREAM_RECORD(a.window, a.reads);
  xg_stream other = a;
  a.side = xg_stream_side_at(record, a.window, t.facts & 1u);
  other.side = xg_stream_side_at(record, a.window, 1u - (t.facts & 1u));
  k.record = record;
  if (is_new || (begins && xg_stream_is_over(a, other, record)))
    xg_stream_begin(a, other, record, xg_stream_client(flags, t.facts & 1u, t));
  bool upper_is_client = (a.s.v[record + XG_STREAM_STATE] & XG_STREAM_UPPER_CLIENT) != 0u;
  a.answers = upper_is_client != ((t.facts & 1u) != 0u) ? 1u : 0u;
  if (a.reads > a.answers) a.room = xg_http_room(record, a.window, a.answers);
  u32 what = xg_stream_packet_of(b, a, other, record, t, k);
  if ((a.s.v[record + XG_STREAM_STATE] & XG_STREAM_PASSED) != 0u) what |= XG_STREAM_PASSES;
  u32 time = !brings && xg_stream_is_over(a, other, record) ? XG_STREAMS_CLOSED : XG_STREAMS_IDLE;
  xg_set_state64(a.s, entry + XG_ENTRY_DEADLINE,
                 now + xg_word_pair(b.image.v[body + time], b.image.v[body + time + 1u]));
  return what;
}
#endif

XG_FN u32 xg_signatures_settle(xg_batch b, u32 body, u32 outcome, xg_view, XG_INOUT(xg_result) r) {
  u32 what = outcome & ~(XG_STREAM_FIRES | XG_STREAM_PASSES);
  u32 count = b.image.v[body + XG_STREAMS_COUNT];
  if (what != XG_STREAM_OTHER) xg_count(xg_state_of(b, body), XG_TABLE_OWN + what);
  if ((outcome & XG_STREAM_FIRES) != 0u) r.detail |= XG_SIGNATURES_FIRED;
  if ((outcome & XG_STREAM_PASSES) != 0u) r.detail |= XG_SIGNATURES_PASSED;
  if (what == XG_STREAM_LIMIT) return b.image.v[b.image.v[body + XG_STREAMS_RULES] + XG_SIGNATURES_LIMIT];
  if (what == XG_STREAM_CHANGED) return XG_VERDICT(XG_DROP, 0u, 0u, count + 2u);
  if (what == XG_STREAM_GAP) return b.image.v[body + XG_STREAMS_ON_GAP];
  if (what == XG_STREAM_DROP) return XG_VERDICT(XG_DROP, 0u, 0u, count + 4u);
  /* A rule that fires with it says what becomes of it. */
  if (what == XG_STREAM_ENCODED && (outcome & XG_STREAM_FIRES) == 0u)
    return b.image.v[body + XG_STREAMS_ON_ENCODED];
  return XG_NEXT;
}

#endif
