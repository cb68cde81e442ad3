/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program/device.h: `program`, an XDP program on each packet (settings.hpp,
 * gpu/stages/program_code.h).
 *
 * On GPUs the interpreter is in kernels of its own (XG_WITH_PROGRAMS), which pipelines without a program
 * never meet: it takes memory of each thread. Where they are linked (XG_PROGRAMS_LINKED), what runs a program
 * is no part of them (gpu/stages/program_units.h). Those of Vulkan are apart from the stages
 * (gpu/stages/program/program.comp), and these are told of outcomes (XG_PROGRAMS_HAVE_RUN).
 */
#ifndef XDPGPU_STAGES_PROGRAM_DEVICE_H
#define XDPGPU_STAGES_PROGRAM_DEVICE_H

#include "gpu/stages/program_body.h"
#include "gpu/stages/table.h"

#if !defined(XG_GLSL) && !defined(__CUDACC__)
#define XG_WITH_PROGRAMS 1
#define XG_PROGRAM_LINES 4u
#endif
#ifdef XG_PROGRAMS_LINKED
#include "gpu/stages/program_maps.h"
#include "gpu/stages/program_units.h"
#elif defined(XG_WITH_PROGRAMS)
#include "gpu/stages/program_code.h"
#elif defined(XG_PROGRAM_IN_BUFFER)
#include "gpu/stages/program_numbers.h"
#endif

/* What comes of a packet, counted at XG_TABLE_OWN + it. Of those that are dropped, as the settings say, it is
 * the verdict's rule, too. */
#define XG_PROGRAM_DROPPED 1u
#define XG_PROGRAM_PASSED 0u
#define XG_PROGRAM_ENDED 2u /* + ProgramEnd */
#define XG_PROGRAM_NOWHERE_TO_GO 4u
#define XG_PROGRAM_TOO_LARGE 14u
#define XG_PROGRAM_TOO_LONG 15u
#define XG_PROGRAM_SENT 16u
#define XG_PROGRAM_FORWARDED 17u
/* And as the program left it. */
#define XG_PROGRAM_CHANGED_PASSED 18u
#define XG_PROGRAM_CHANGED_SENT 19u
#define XG_PROGRAM_CHANGED_FORWARDED 20u
#define XG_PROGRAM_OUTCOMES 21u
/* That one takes. Above it stands the port that the packet is redirected to. */
#define XG_PROGRAM_OUTCOME_BITS 5u
/* Above that, whether the program has put something out. */
#define XG_PROGRAM_HAS_EVENT 0x400u
/* The run was ahead of its turn: what its record says is still to be counted. */
#define XG_PROGRAM_RAN_AHEAD 0x800u
#define XG_PROGRAM_OUTCOME(word) ((word) & ((1u << XG_PROGRAM_OUTCOME_BITS) - 1u))
#define XG_PROGRAM_PORT(word) (((word) >> XG_PROGRAM_OUTCOME_BITS) & 31u)
/* On Vulkan, in the word that has the outcomes of programs that change no map, behind five of them. */
#define XG_PROGRAM_PORT_AT 25u
#define XG_PROGRAM_HAS_PORT 0x40000000u
#define XG_PROGRAM_EVENT_THERE 0x80000000u /* of the one that puts something out */
/* Where the maps begin in a table of one set. */
#define XG_PROGRAM_TABLE_AT (XG_TABLE_HEAD + XG_SET_WORDS)

/* The lower half of a hash of what the metadata say. */
XG_FN u32 xg_program_random(xg_batch b, u32 body, xg_view p) {
  u32 at = body + XG_BODY_HASH_KEY;
  u64 k0 = xg_word_pair(b.image.v[at], b.image.v[at + 1u]);
  u64 k1 = xg_word_pair(b.image.v[at + 2u], b.image.v[at + 3u]);
  u64 time = xg_word_pair(xg_metadata32(p, 0u), xg_metadata32(p, 1u));
  u64 which = xg_word_pair(xg_metadata32(p, 3u), xg_metadata32(p, 4u));
  u64 tail = u64(16u) << 56;
  XG_SIP_BEGIN(k0, k1);
  XG_SIP_WORD(time);
  XG_SIP_WORD(which);
  XG_SIP_WORD(tail);
  XG_SIP_END();
  return u32((v0 ^ v1 ^ v2 ^ v3) & u64(0xffffffffu));
}

/* Of a run that is over: why it was ended, 0: it was not; and its answer. */
XG_FN u32 xg_program_outcome_of(u32 fault, u32 action) {
  /* There is no fault 4 here. */
  if (fault != 0u) return XG_PROGRAM_ENDED + fault + (fault < 4u ? 2u : 1u);
  if (action == XG_PASS) return XG_PROGRAM_PASSED;
  if (action == XG_DROP) return XG_PROGRAM_DROPPED;
  if (action == XG_TX) return XG_PROGRAM_SENT;
  if (action == XG_ABORTED) return XG_PROGRAM_ENDED;
  return action == XG_REDIRECT ? XG_PROGRAM_NOWHERE_TO_GO : XG_PROGRAM_ENDED + 1u;
}

/* Returns an action word. `word`: outcome and port, and whether there is an event. */
XG_FN u32 xg_program_action(u32 word, XG_INOUT(xg_result) r) {
  const u32 outcome = XG_PROGRAM_OUTCOME(word);
  if ((word & XG_PROGRAM_HAS_EVENT) != 0u) r.flags |= XG_RES_EVENT;
  if (outcome == XG_PROGRAM_PASSED) return XG_NEXT;
  if (outcome >= XG_PROGRAM_CHANGED_PASSED) r.flags |= XG_RES_PATCH;
  /* Behind a program that changes packets there is no stage to go on to. */
  if (outcome == XG_PROGRAM_CHANGED_PASSED) return XG_VERDICT(XG_PASS, 0u, 0u, 0u);
  if (outcome == XG_PROGRAM_FORWARDED || outcome == XG_PROGRAM_CHANGED_FORWARDED)
    return XG_VERDICT(XG_REDIRECT, XG_PROGRAM_PORT(word), 0u, 0u);
  if (outcome >= XG_PROGRAM_SENT) return XG_VERDICT(XG_TX, 0u, 0u, 0u);
  return XG_VERDICT(XG_DROP, 0u, 0u, outcome);
}

#if defined(XG_WITH_PROGRAMS) || defined(XG_PROGRAMS_HAVE_RUN)
#ifdef XG_WITH_PROGRAMS
XG_FN xg_state xg_program_maps(xg_batch b, u32 body) {
  return XG_AT(xg_state, xg_state_of(b, body), u64(XG_PROGRAM_TABLE_AT * 4u));
}
/* Of a packet of that number in the batch. */
XG_FN xg_state xg_program_record_of(xg_batch b, u32 number) {
  return XG_AT(xg_state, b.ahead, u64(number % XG_PROGRAM_RECORDS) * u64(XG_PROGRAM_AHEAD_WORDS * 4u));
}
#endif
XG_FN u32 xg_program_settle(xg_batch b, u32 body, u32 outcome, xg_view p, XG_INOUT(xg_result) r) {
#ifdef XG_WITH_PROGRAMS
  if ((outcome & XG_PROGRAM_RAN_AHEAD) != 0u && XG_IS_THERE(b.ahead))
    xg_program_count_up(xg_program_record_of(b, p.number), xg_program_maps(b, body));
#endif
  xg_count(xg_state_of(b, body), XG_TABLE_OWN + XG_PROGRAM_OUTCOME(outcome));
  return xg_program_action(outcome, r);
}
#endif

#if defined(XG_WITH_PROGRAMS) || defined(XG_PROGRAM_IN_BUFFER)

/* The number that the program knows the interface by which the packet came; 0: none. */
XG_FN u32 xg_program_ingress(xg_batch b, u32 body, xg_view p) {
  const u32 list = b.image.v[body + XG_PROGRAM_BODY_INTERFACES], port = xg_metadata32(p, 7u) >> 24;
  for (u32 i = 0u; i < b.image.v[list]; i++) {
    XG_PROGRAM_TURN();
    if (b.image.v[list + 2u + i * 2u] == port) return b.image.v[list + 1u + i * 2u];
  }
  return 0u;
}
/* What comes of a redirect to the interface of that number, with these flags. */
XG_FN u32 xg_program_redirected(xg_batch b, u32 body, u32 ifindex, u32 flags) {
  const u32 list = b.image.v[body + XG_PROGRAM_BODY_INTERFACES];
  for (u32 i = 0u; i < b.image.v[list] && flags == 0u; i++) {
    XG_PROGRAM_TURN();
    if (b.image.v[list + 1u + i * 2u] == ifindex)
      return XG_PROGRAM_FORWARDED | b.image.v[list + 2u + i * 2u] << XG_PROGRAM_OUTCOME_BITS;
  }
  return XG_PROGRAM_NOWHERE_TO_GO;
}

/* Eight bytes of the machine's line `own`, which is the frame's line `line`: of the packet's alone. */
XG_FN u64 xg_program_left_pair(XG_PROGRAM_MACHINE_READ, u32 own, u32 line, u32 pair) {
  const u32 place = line * XG_PATCH_LINE_BYTES + pair * 8u;
  u64 keeps = ~u64(0);
  if (place < m.data) keeps = m.data - place < 8u ? keeps << ((m.data - place) * 8u) : u64(0);
  if (place + 8u > m.end) keeps &= place < m.end ? ~u64(0) >> ((place + 8u - m.end) * 8u) : u64(0);
  return XG_PROGRAM_OWN_PAIR(own, pair) & keeps;
}

/* Sixteen of them. */
XG_FN xg_quad xg_program_left_quad(XG_PROGRAM_MACHINE_READ, u32 own, u32 line, u32 quad) {
  const u64 first = xg_program_left_pair(XG_PROGRAM_IT, own, line, quad * 2u);
  const u64 second = xg_program_left_pair(XG_PROGRAM_IT, own, line, quad * 2u + 1u);
  return XG_QUAD(xg_program_low(first), u32(first >> 32), xg_program_low(second), u32(second >> 32));
}
/* What the machine left of a packet of `bytes` that goes on, in the packet's xg_patch, where it changed it.
 * -> the outcome. */
XG_SELDOM u32 xg_program_patch(xg_batch b, u32 number, u32 bytes, u32 outcome, XG_PROGRAM_MACHINE_READ) {
  const u32 came = XG_PROGRAM_HEADROOM + bytes;
  if (m.lines_used == 0u && m.data == XG_PROGRAM_HEADROOM && m.end == came && m.last == came) return outcome;
  if (m.end - m.data > bytes && m.end > XG_PATCH_BEFORE + XG_FRAME_MAX) return XG_PROGRAM_TOO_LARGE;
  if (XG_IS_THERE(b.patches)) {
    xg_quads record = XG_AT(xg_quads, b.patches, u64(number) * u64(XG_PATCH_QUADS * 16u));
    const u32 lines = m.lines_used == 0u ? 0u : m.line_numbers & (~0u >> (32u - m.lines_used * 8u));
    record.v[0] = XG_QUAD(m.data | m.end << 16, m.last | m.lines_used << 16, lines, 0u);
    for (u32 own = 0u; own < m.lines_used; own++) {
      XG_PROGRAM_TURN();
      const u32 line = (lines >> (own * 8u)) & 0xffu;
      /* No loop: none waits for another's loads. */
      const u32 at = 1u + own * 4u;
      record.v[at] = xg_program_left_quad(XG_PROGRAM_IT, own, line, 0u);
      record.v[at + 1u] = xg_program_left_quad(XG_PROGRAM_IT, own, line, 1u);
      record.v[at + 2u] = xg_program_left_quad(XG_PROGRAM_IT, own, line, 2u);
      record.v[at + 3u] = xg_program_left_quad(XG_PROGRAM_IT, own, line, 3u);
    }
  }
  if (outcome == XG_PROGRAM_PASSED) return XG_PROGRAM_CHANGED_PASSED;
  return outcome + (XG_PROGRAM_CHANGED_SENT - XG_PROGRAM_SENT);
}

#endif

#ifdef XG_WITH_PROGRAMS

/* A copy of the packet's first bytes, from the word's byte `at` on, which is faster to read than the frame;
 * of no bytes: there is none. */
XG_RECORD(xg_program_beginning) {
  xg_words words;
  u32 at, bytes;
};
XG_FN xg_program_beginning xg_program_no_beginning(xg_batch b) {
  xg_program_beginning copy;
  copy.words = b.frames;
  copy.at = 0u;
  copy.bytes = 0u;
  return copy;
}
/* What the packet is seen in, where that is not the frame. */
XG_FN xg_program_beginning xg_program_beginning_of(xg_batch b, xg_view p) {
  xg_program_beginning copy = xg_program_no_beginning(b);
#ifdef XG_PROGRAM_NEAR
  if (p.words.v == XG_AT(xg_words, b.frames, p.at - u64(XG_METADATA_SIZE + p.shift)).v) return copy;
  copy.words = p.words;
  copy.at = p.shift + XG_METADATA_SIZE;
  copy.bytes = p.length < XG_PROGRAM_NEAR ? p.length : XG_PROGRAM_NEAR;
#else
  (void)p;
#endif
  return copy;
}

/* Of a run that seeks its key or is ahead of its turn: it has one. */
#define XG_PROGRAM_HAS_KEY 0x80000000u
/* And its record has an outcome. */
#define XG_PROGRAM_HAS_RUN 0x40000000u
#define XG_PROGRAM_SET 0x3fffffffu
/* Of an xg_touch: it has run, and did no more than find an element. Its `more` says which; below that is the
 * outcome. */
#define XG_PROGRAM_HAS_FOUND_ONLY 0x20000000u
/* It has none to itself. */
#define XG_PROGRAM_NO_SET 0xffffffffu

/* Of a packet of one buffer, of that number in the batch, whose frame stands at `frame` in the batch's
 * frames: its outcome; `set` is the one that it has to itself. With XG_PROGRAM_SEEKS: XG_PROGRAM_HAS_KEY and
 * the set of the key that orders it; 0: it comes to no map whose packets are ordered. With
 * XG_PROGRAM_IS_AHEAD likewise, and XG_PROGRAM_HAS_RUN with that: its record has the outcome; without
 * XG_PROGRAM_HAS_KEY: the outcome; 0: it turned back before it had a key. */
XG_SELDOM u32 xg_program_outcome(xg_batch b, u32 body, xg_state state, u32 number, u64 frame, u32 bytes,
                                 u64 time, u32 random, u32 ingress, xg_program_beginning copy, u32 seeks_key,
                                 u32 set) {
  xg_program_machine m;
  m.seeks_key = seeks_key;
  m.key_bits = seeks_key != 0u ? 0u : b.image.v[body + XG_PROGRAM_BODY_KEY_BITS];
  m.key_set = set;
  m.ahead = b.ahead;
  if (seeks_key == XG_PROGRAM_IS_AHEAD) m.ahead = xg_program_record_of(b, number);
  xg_program_keep_nothing(XG_PROGRAM_IT);
  const u32 shift = xg_program_low(frame) & 3u;
  m.code = XG_AT(xg_words, b.image, u64(b.image.v[body + XG_PROGRAM_BODY_CODE]) * u64(4u));
  m.tables = XG_AT(xg_words, b.image, u64(b.image.v[body + XG_PROGRAM_BODY_TABLES]) * u64(4u));
  m.state = state;
  m.image = b.image;
  m.body = body;
  m.frame = XG_AT(xg_words, b.frames, frame - u64(shift));
  m.frame_bias = shift - XG_PROGRAM_HEADROOM;
#ifdef XG_PROGRAM_NEAR
  m.near = copy.words;
  m.near_bias = copy.at - XG_PROGRAM_HEADROOM;
  m.near_end = XG_PROGRAM_HEADROOM + copy.bytes;
#else
  (void)copy;
#endif
  m.time = time;
  m.random = random;
  m.queue = 0u;
  m.ingress = ingress;
  m.egress = 0u;
  m.meta = XG_PROGRAM_HEADROOM;
  m.data = XG_PROGRAM_HEADROOM;
  m.end = XG_PROGRAM_HEADROOM + bytes;
  m.most_steps = b.image.v[body + XG_PROGRAM_BODY_STEPS];
  m.most_lines = b.image.v[body + XG_PROGRAM_BODY_LINES];
  m.event =
      XG_IS_THERE(b.events) ? XG_AT(xg_quads, b.events, u64(number) * u64(XG_EVENT_QUADS * 16u)) : b.events;
#ifdef XG_PROGRAMS_LINKED
  /* What is translated does nothing to these itself. */
  m.has_event = 0u;
  m.last = m.end;
  m.lines_used = 0u;
  xg_program_run_there(
      m, xg_word_pair(b.image.v[body + XG_PROGRAM_BODY_NAME], b.image.v[body + XG_PROGRAM_BODY_NAME + 1u]));
#else
  xg_program_run(XG_PROGRAM_IT, 0u);
#endif
  u32 key = 0u;
  if (seeks_key == XG_PROGRAM_SEEKS ? m.fault == XG_PROGRAM_KEY_FOUND
                                    : (m.ahead_how & XG_PROGRAM_HAS_ASKED) != 0u)
    key = XG_PROGRAM_HAS_KEY | m.key_hash >> (32u - b.image.v[body + XG_PROGRAM_BODY_KEY_BITS]);
  if (seeks_key == XG_PROGRAM_SEEKS || m.fault == XG_PROGRAM_KEY_FOUND ||
      (m.ahead_how & XG_PROGRAM_HAS_NO_ROOM) != 0u)
    return key;
  u32 outcome = xg_program_outcome_of(m.fault, xg_program_low(XG_PROGRAM_OWN.r[0]));
  if (outcome == XG_PROGRAM_NOWHERE_TO_GO && m.redirect_to == XG_PROGRAM_TO_PROCESSOR)
    outcome = XG_PROGRAM_PASSED;
  else if (outcome == XG_PROGRAM_NOWHERE_TO_GO && m.redirect_to != 0u)
    outcome = xg_program_redirected(b, body, m.redirect_ifindex, m.redirect_flags);
  if (m.most_lines != 0u && (outcome == XG_PROGRAM_PASSED || XG_PROGRAM_OUTCOME(outcome) >= XG_PROGRAM_SENT))
    outcome = xg_program_patch(b, number, bytes, outcome, m);
  if (m.has_event != 0u) outcome |= XG_PROGRAM_HAS_EVENT;
  if (seeks_key == 0u) return outcome;
  outcome |= XG_PROGRAM_RAN_AHEAD;
  m.ahead.v[XG_PROGRAM_AHEAD_COUNTED] = m.ahead_counted;
  if (key == 0u) return outcome;
  m.ahead.v[XG_PROGRAM_AHEAD_HOW] = m.ahead_how;
  m.ahead.v[XG_PROGRAM_AHEAD_OUTCOME] = outcome;
  return key | XG_PROGRAM_HAS_RUN;
}

/* Of a program that changes no map. */
XG_FN u32 xg_program_decide(xg_batch b, u32 body, xg_view p, XG_INOUT(xg_result) r) {
  if (p.more != 0u) return xg_program_action(XG_PROGRAM_TOO_LONG, r);
  xg_words first = XG_AT(xg_words, b.image, u64(b.image.v[body + XG_PROGRAM_BODY_STATE]) * u64(4u));
  u64 time = xg_word_pair(xg_metadata32(p, 0u), xg_metadata32(p, 1u));
  return xg_program_action(
      xg_program_outcome(b, body, xg_state{reinterpret_cast<u32*>(first.v)}, p.number, p.at, p.length, time,
                         xg_program_random(b, body, p), xg_program_ingress(b, body, p),
                         xg_program_beginning_of(b, p), 0u, XG_PROGRAM_NO_SET),
      r);
}

/* What the packet's run takes, in its turn or before. */
XG_FN xg_touch xg_program_bring(xg_batch b, u32 body, xg_view p) {
  xg_touch t = xg_untracked();
  t.size = p.length;
  t.now = xg_word_pair(xg_metadata32(p, 0u), xg_metadata32(p, 1u));
  t.key[0] = u32(p.at & u64(0xffffffffu));
  t.key[1] = u32(p.at >> 32);
  t.key[2] = xg_program_random(b, body, p);
  t.key[3] = p.number;
  t.key[4] = xg_program_ingress(b, body, p);
#ifdef XG_PROGRAM_NEAR
  const xg_program_beginning copy = xg_program_beginning_of(b, p);
  const u64 words = reinterpret_cast<u64>(copy.words.v);
  t.key[XG_PROGRAM_TOUCH_COPY] = u32(words & u64(0xffffffffu));
  t.key[XG_PROGRAM_TOUCH_COPY + 1u] = u32(words >> 32);
  t.key[XG_PROGRAM_TOUCH_COPY + 2u] = copy.at;
  t.key[XG_PROGRAM_TOUCH_BYTES] = copy.bytes;
#endif
  return t;
}
/* As xg_program_outcome(). */
XG_FN u32 xg_program_run_of(xg_batch b, u32 body, XG_IN(xg_touch) t, u32 seeks_key, u32 set) {
  xg_program_beginning copy = xg_program_no_beginning(b);
#ifdef XG_PROGRAM_NEAR
  copy.words.v = reinterpret_cast<XG_WORD*>(
      xg_word_pair(t.key[XG_PROGRAM_TOUCH_COPY], t.key[XG_PROGRAM_TOUCH_COPY + 1u]));
  copy.at = t.key[XG_PROGRAM_TOUCH_COPY + 2u];
  copy.bytes = t.key[XG_PROGRAM_TOUCH_BYTES];
#endif
  return xg_program_outcome(b, body, xg_program_maps(b, body), t.key[3], xg_word_pair(t.key[0], t.key[1]),
                            t.size, t.now, t.key[2], t.key[4], copy, seeks_key, set);
}

/* All packets are of one set, but for those
 *   of a program that only counts: they are of none, and run here, once each, beside others that do;
 *   of one that orders them by a key: they run here ahead of their turns (gpu/stages/program_ahead.h) where
 * the device has room for records, else up to where the key is known, which leaves nothing behind; and are of
 * its hash's set. Those that never come that far only count. */
XG_FN xg_touch xg_program_touch(xg_batch b, xg_way way, xg_view p, u32) {
  if (p.more != 0u) {
    xg_touch none = xg_untracked();
    none.facts = XG_PROGRAM_TOO_LONG;
    return none;
  }
  xg_touch t = xg_program_bring(b, way.body, p);
  bool counts = b.image.v[way.body + XG_PROGRAM_BODY_COUNTS] != 0u;
  if (b.image.v[way.body + XG_PROGRAM_BODY_KEY_BITS] != 0u) {
    u32 key = 0u;
    if (XG_IS_THERE(b.ahead)) key = xg_program_run_of(b, way.body, t, XG_PROGRAM_IS_AHEAD, XG_PROGRAM_NO_SET);
    if (key != 0u && (key & XG_PROGRAM_HAS_KEY) == 0u) {
      t.facts = key;
      return t;
    }
    if (key == 0u) key = xg_program_run_of(b, way.body, t, XG_PROGRAM_SEEKS, XG_PROGRAM_NO_SET);
    counts = key == 0u;
    t.set = key & XG_PROGRAM_SET;
    t.facts = key & XG_PROGRAM_HAS_RUN;
    if (t.facts != 0u) {
      const xg_state record = xg_program_record_of(b, p.number);
      if (xg_program_only_found(record.v[XG_PROGRAM_AHEAD_HOW])) {
        t.facts |= XG_PROGRAM_HAS_FOUND_ONLY | record.v[XG_PROGRAM_AHEAD_OUTCOME];
        t.more[0] = record.v[XG_PROGRAM_AHEAD_HEADER];
        t.more[1] = record.v[XG_PROGRAM_AHEAD_ELEMENT];
        t.more[2] = record.v[XG_PROGRAM_AHEAD_STANDING];
        t.more[3] = record.v[XG_PROGRAM_AHEAD_STAMP];
      }
    }
  }
  if (counts)
    t.facts = xg_program_run_of(b, way.body, t, 0u, XG_PROGRAM_NO_SET);
  else
    t.tag = 1u;
  return t;
}

/* The packet's run was ahead of its turn, which has come. Its outcome; 0: it has to be run now. */
XG_SELDOM u32 xg_program_turn_of(xg_batch b, u32 body, u32 number) {
  xg_program_machine m;
  m.tables = XG_AT(xg_words, b.image, u64(b.image.v[body + XG_PROGRAM_BODY_TABLES]) * u64(4u));
  m.state = xg_program_maps(b, body);
  m.ahead = xg_program_record_of(b, number);
  m.seeks_key = 0u;
  m.queue = 0u;
  /* Nothing points to what waits. */
  m.frames = 0u;
  for (u32 i = 0u; i < 10u; i++) m.r[i] = u64(0);
#ifdef XG_PROGRAMS_LINKED
  const bool holds = xg_program_turn_taken(m);
#else
  const bool holds = xg_program_takes_its_turn(XG_PROGRAM_IT);
#endif
  return holds ? m.ahead.v[XG_PROGRAM_AHEAD_OUTCOME] : 0u;
}
XG_FN u32 xg_program_found_outcome(xg_touch t) {
  return t.facts & ~(XG_PROGRAM_HAS_RUN | XG_PROGRAM_HAS_FOUND_ONLY);
}
/* Of a packet that has run, and did no more than find an element (t.facts): its shard's clock then. Where all
 * packets that are taken at a time and come to the shard are so, each one's stamp is this and 1 more than its
 * place among those taken, and the clock is XG_PROGRAM_RECORDS later. */
XG_FN u64 xg_program_clock_of(xg_batch b, xg_touch t) {
  const xg_state record = xg_program_record_of(b, t.key[3]);
  return xg_word_pair(record.v[XG_PROGRAM_AHEAD_CLOCK], record.v[XG_PROGRAM_AHEAD_CLOCK + 1u]);
}
XG_FN u32 xg_program_apply(xg_batch b, u32 body, xg_touch t) {
  if ((t.facts & XG_PROGRAM_HAS_FOUND_ONLY) != 0u) {
    if (xg_program_finds_again(xg_program_maps(b, body), t.more[0], t.more[1], t.more[2], t.more[3]))
      return xg_program_found_outcome(t);
  } else if (t.facts != 0u) {
    const u32 outcome = xg_program_turn_of(b, body, t.key[3]);
    if (outcome != 0u) return outcome;
  }
  return xg_program_run_of(b, body, t, 0u, t.set);
}

#elif defined(XG_PROGRAMS_HAVE_RUN)

/* What came of the stage's program, for the batch's packet of that number: of the programs that change no
 * map, XG_PROGRAM_OUTCOME_BITS each, and from XG_PROGRAM_PORT_AT on the port of the first of them that
 * redirects the packet: others behind it are never asked; and whether there is an event; and of the one whose
 * table the packet waits for. */
u32 xg_program_outcomes(u32 packet);
u32 xg_program_answer(u32 packet);

u32 xg_program_decide(xg_batch b, u32 body, xg_view p, inout xg_result r) {
  if (p.more != 0u) return xg_program_action(XG_PROGRAM_TOO_LONG, r);
  const u32 word = xg_program_outcomes(p.number);
  const u32 outcome = XG_PROGRAM_OUTCOME(word >> (b.image.v[body + XG_BODY_ROUND] * XG_PROGRAM_OUTCOME_BITS));
  const bool puts_out = b.image.v[body + XG_PROGRAM_BODY_EVENTS] != 0u;
  const u32 event = puts_out && (word & XG_PROGRAM_EVENT_THERE) != 0u ? XG_PROGRAM_HAS_EVENT : 0u;
  return xg_program_action(event | outcome | ((word >> XG_PROGRAM_PORT_AT) & 31u) << XG_PROGRAM_OUTCOME_BITS,
                           r);
}
xg_touch xg_program_touch(xg_batch b, xg_way way, xg_view p, u32 bytes) {
  xg_touch t = xg_untracked();
  t.facts = p.more != 0u ? XG_PROGRAM_TOO_LONG : xg_program_answer(p.number);
  return t;
}
u32 xg_program_apply(xg_batch b, u32 body, xg_touch t) { return 0u; }

#else

/* Never called: who holds a program has other kernels. */
XG_FN u32 xg_program_decide(xg_batch, u32, xg_view, XG_INOUT(xg_result)) { return XG_ABORTED; }
XG_FN xg_touch xg_program_touch(xg_batch, xg_way, xg_view, u32) { return xg_untracked(); }
XG_FN u32 xg_program_apply(xg_batch, u32, xg_touch) { return 0u; }
XG_FN u32 xg_program_settle(xg_batch, u32, u32, xg_view, XG_INOUT(xg_result)) { return XG_ABORTED; }

#endif

#endif
