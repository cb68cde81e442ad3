/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/device.h: `signatures`, rules of intrusion detection systems on single packets
 * (settings.hpp; gpu/signatures.hpp says what a rule means).
 *
 * Search goes in three steps. A filter: at each place of the payload the bytes that stand there, in lower
 * case, are hashed, and a bit vector says whether a pattern has them. Confirmation: the patterns that have
 * them at some place are compared. Evaluation: the rules that are found by a pattern that is there. The names
 * of a DNS message are searched likewise, for patterns of their own, where the first lane has put them.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_DEVICE_H
#define XDPGPU_STAGES_SIGNATURES_DEVICE_H

#include "gpu/stages/inspection.h"
#include "gpu/stages/signatures/dns.h"
#include "gpu/stages/signatures/header.h"
#include "gpu/stages/signatures/sets.h"
#include "gpu/stages/signatures/steps.h"

/* A rule that holds: it takes its place among those that do, and the last one is left out. */
XG_FN void xg_signatures_note(xg_state f, u32 rule) {
  for (u32 i = 0u; i < XG_MAX_ALERTS; i++) {
    u32 before = XG_MIN(f, XG_SIGNATURES_FOUND_RULES + i, rule);
    if (before == rule) return;
    rule = before > rule ? before : rule;
    if (rule == ~0u) return;
  }
  f.v[XG_SIGNATURES_FOUND_CONNECTION] = f.v[XG_SIGNATURES_FOUND_CONNECTION] | XG_SIGNATURES_MORE;
}

/* A pattern that is there, once, and where it stands first. */
XG_FN void xg_signatures_see_pattern(xg_state f, u32 pattern, u32 from_start) {
  u32 word = (pattern + 1u) << 16 | from_start;
  u32 place = (pattern * 0x9e3779b1u) >> 26;
  for (u32 i = 0u; i < XG_SIGNATURES_SEEN; i++) {
    u32 at = XG_SIGNATURES_FOUND_SEEN + place;
    u32 before = XG_SWAP_IF(f, at, 0u, word);
    if (XG_SIGNATURES_SEEN_PATTERN(before) == pattern + 1u) {
      if (word < before) XG_MIN(f, at, word);
      return;
    }
    if (before == 0u) {
      if (XG_ADD(f, XG_SIGNATURES_FOUND_PATTERNS, 1u) >= XG_SIGNATURES_MOST_PATTERNS)
        f.v[XG_SIGNATURES_FOUND_OVER] = 1u;
      return;
    }
    place = (place + 1u) & (XG_SIGNATURES_SEEN - 1u);
  }
  f.v[XG_SIGNATURES_FOUND_OVER] = 1u;
}

/* The patterns that have a window of these bytes, which stands at `at`, and stand from `first` to `last`. */
XG_SELDOM void xg_signatures_confirm(XG_IN(xg_batch) b, u32 body, u32 windows, u32 hash, u32 bytes, u32 at,
                                     XG_INOUT(xg_payload_cursor) c, u32 first, u32 last, xg_state f) {
  u32 bucket =
      b.image.v[windows + XG_WINDOW_BUCKETS] + (hash >> (32u - b.image.v[windows + XG_WINDOW_BUCKET_BITS]));
  u32 entry = b.image.v[bucket];
  u32 end = b.image.v[bucket + 1u];
  for (;;) {
    while (entry < end && b.image.v[entry] != bytes) entry += XG_SIGNATURES_ENTRY;
    if (entry >= end) return;
    u32 which = b.image.v[entry + 1u];
    entry += XG_SIGNATURES_ENTRY;
    u32 pattern = which & 0xffffffu;
    u32 before = which >> 24;
    u32 record = b.image.v[body + XG_SIGNATURES_PATTERNS] + pattern * XG_SIGNATURES_PATTERN;
    u32 size = b.image.v[record + XG_PATTERN_SIZE] & ~XG_PATTERN_NOCASE;
    bool nocase = (b.image.v[record + XG_PATTERN_SIZE] & XG_PATTERN_NOCASE) != 0u;
    if (before > at - first || at - before + size > last) continue;
    if (xg_signatures_same(b, c, at - before, b.image.v[record + XG_PATTERN_BYTES], size, nocase))
      xg_signatures_see_pattern(f, pattern, at - before - first);
  }
}

/* The bit vectors of these windows: the first word of each, and how many bits of a hash it is asked with; 0:
 * no pattern has such a window. */
struct xg_signatures_filters {
  u32 tables[3];
  u32 bits[3];
};

/* The windows that patterns may have at four places: bit w + 4 * i is the one of kind w at place i. bytes,
 * next: the eight bytes there, in lower case. left: bytes that windows may have from the first place on. */
XG_FN u32 xg_signatures_candidates(xg_batch b, xg_signatures_filters filters, u32 bytes, u32 next, u32 left) {
  u32 candidates = 0u;
  for (u32 w = 0u; w < 3u; w++) {
    u32 bits = filters.bits[w];
    u32 size = w == 2u ? 4u : w + 1u;
    u32 mask = w == 2u ? ~0u : w == 1u ? 0xffffu : 0xffu;
    for (u32 i = 0u; i < 4u; i++) {
      u32 here = (i == 0u ? bytes : (bytes >> (i * 8u)) | (next << (32u - i * 8u))) & mask;
      u32 place = (here * 0x9e3779b1u) >> ((32u - bits) & 31u);
      if (bits != 0u && left >= size + i &&
          ((b.image.v[filters.tables[w] + (place >> 5)] >> (place & 31u)) & 1u) != 0u)
        candidates |= 1u << (w + 4u * i);
    }
  }
  return candidates;
}

/* Which patterns of these windows stand from `first` to `end`, as far as their windows stand from `from` on.
 * Each of the `lanes` takes four places at a time. From one place that may have a window to the next goes a
 * loop without anything else in it: where lanes wait for each other, or software has to go through what is
 * skipped, that is most of the time. */
XG_SELDOM void xg_signatures_search_from(XG_IN(xg_batch) b, u32 body, u32 windows,
                                         XG_INOUT(xg_payload_cursor) c, u32 first, u32 from, u32 end,
                                         xg_state f, u32 lane, u32 lanes) {
  xg_signatures_filters filters;
  for (u32 w = 0u; w < 3u; w++) {
    filters.tables[w] = b.image.v[windows + w * XG_SIGNATURES_WINDOW + XG_WINDOW_FILTER];
    filters.bits[w] = b.image.v[windows + w * XG_SIGNATURES_WINDOW + XG_WINDOW_FILTER_BITS];
  }
  u32 at = from + lane * 4u;
  while (at < end) {
    if (f.v[XG_SIGNATURES_FOUND_OVER] != 0u) return;
    xg_signatures_run run = xg_signatures_run_at(b, c, at);
    u32 place = at;
    u32 bytes = 0u;
    u32 next = 0u;
    u32 candidates = 0u;
    while (candidates == 0u && at < end && at - run.at + 8u <= run.bytes) {
      u32 word = run.word + ((at - run.at) >> 2);
      place = at;
      bytes = xg_lower32(XG_UNALIGNED(run.words, word, run.shift));
      next = xg_lower32(XG_UNALIGNED(run.words, word + 1u, run.shift));
      candidates = xg_signatures_candidates(b, filters, bytes, next, end - at);
      at += lanes * 4u;
    }
    /* Near the end of a buffer. */
    if (candidates == 0u && at < end) {
      place = at;
      bytes = xg_lower32(xg_signatures_load(b, c, at));
      next = xg_lower32(xg_signatures_load(b, c, at + 4u));
      candidates = xg_signatures_candidates(b, filters, bytes, next, end - at);
      at += lanes * 4u;
    }
    while (candidates != 0u) {
      u32 bit = XG_LOWEST_BIT(candidates);
      candidates &= candidates - 1u;
      u32 i = bit >> 2;
      u32 w = bit & 3u;
      u32 here = i == 0u ? bytes : (bytes >> (i * 8u)) | (next << (32u - i * 8u));
      here &= w == 2u ? ~0u : w == 1u ? 0xffffu : 0xffu;
      xg_signatures_confirm(b, body, windows + w * XG_SIGNATURES_WINDOW, here * 0x9e3779b1u, here, place + i,
                            c, first, end, f);
    }
  }
}

/* All of them. */
XG_FN void xg_signatures_search(xg_batch b, u32 body, u32 windows, XG_INOUT(xg_payload_cursor) c, u32 first,
                                u32 end, xg_state f, u32 lane, u32 lanes) {
  xg_signatures_search_from(b, body, windows, c, first, first, end, f, lane, lanes);
}

#ifdef XG_AVX2
#include "gpu/stages/signatures/search_avx2.hpp"
#elif defined(__CUDA_ARCH__)
#include "gpu/stages/signatures/search_warp.hpp"
#else
#define XG_SIGNATURES_SEARCH xg_signatures_search
#define XG_SIGNATURES_SEARCH_ALONE(b, body, windows, c, first, end, f) \
  xg_signatures_search((b), (body), (windows), (c), (first), (end), (f), 0u, 1u)
#endif

/* First part: which patterns stand in the payload; the first lane then reads the DNS message, and which stand
 * in its names. */
XG_SELDOM void xg_signatures_look(XG_IN(xg_batch) b, u32 body, XG_IN(xg_view) p, xg_state f, u32 lane,
                                  u32 lanes) {
  xg_payload_cursor c = xg_payload_of(b, p, b.image.v[body + XG_SIGNATURES_REACH]);
  xg_signatures_packet s;
  if (!xg_signatures_see(b, p, c, s)) return;
  /* All lanes together, where they are a warp's. */
  XG_SIGNATURES_SEARCH(b, body, body + XG_SIGNATURES_WINDOWS, c, s.payload, s.payload + s.payload_bytes, f,
                       lane, lanes);
  u32 wants = b.image.v[body + XG_SIGNATURES_DNS];
  if (lane != 0u || wants == 0u) return;
  xg_dns_read(b, c, s, wants, f);
  if (f.v[XG_SIGNATURES_FOUND_OVER] != 0u) return;
  u32 names = f.v[XG_SIGNATURES_FOUND_DNS] >> XG_DNS_NAMES;
  for (u32 i = 0u; i < names; i++) {
    u32 begin = 0u;
    c = xg_dns_name_at(f, i, begin);
    XG_SIGNATURES_SEARCH_ALONE(b, body, body + XG_SIGNATURES_NAME_WINDOWS, c, begin, c.end, f);
  }
}

/* Whether a name of so many bytes has all sizes that a rule wants of it. name: the rule's words of it. */
XG_FN bool xg_signatures_has_size(xg_words image, u32 name, u32 bytes) {
  u32 sizes = image.v[name + XG_NAME_SIZES];
  u32 count = image.v[name + XG_NAME_SIZES + 1u] & 0xffu;
  for (u32 i = 0u; i < count; i++) {
    u32 at = sizes + i * XG_SIGNATURES_SIZE;
    bool inside = bytes >= image.v[at] && bytes <= image.v[at + 1u];
    if (inside == (image.v[at + 2u] != 0u)) return false;
  }
  return true;
}

/* Whether a rule holds for a packet that it applies to: its payload's steps, and for each of its names one of
 * the message's. seen_at: where the fast pattern stands first, if that is the payload's. */
XG_FN bool xg_signatures_holds(XG_IN(xg_batch) b, u32 rule, XG_INOUT(xg_payload_cursor) c,
                               XG_INOUT(xg_signatures_packet) s, xg_state f, u32 seen_at, u32 most,
                               XG_INOUT(u32) work) {
  u32 asks = b.image.v[rule + XG_SIGNATURE_DNS];
  u32 wanted = asks != 0u ? XG_ASKS_NAMES(b.image.v[asks]) : 0u;
  u32 names = f.v[XG_SIGNATURES_FOUND_DNS] >> XG_DNS_NAMES;
  u32 steps = rule + XG_SIGNATURE_STEPS;
  u32 name = asks + 1u + (asks != 0u ? XG_ASKS_OPERATIONS(b.image.v[asks]) : 0u);
  /* The payload; then name by name, those of the message one after the other. */
  for (u32 part = 0u; part <= wanted; part++) {
    bool found = false;
    u32 tries = part == 0u ? 1u : names;
    for (u32 i = 0u; i < tries && !found && work <= most; i++) {
      xg_payload_cursor here = c;
      u32 begin = s.payload;
      u32 end = s.payload + s.payload_bytes;
      if (part != 0u) {
        here = xg_dns_name_at(f, i, begin);
        end = here.end;
        if ((b.image.v[name + XG_NAME_SIZES + 1u] & XG_NAME_DOT_PREFIX) == 0u) begin += 1u;
        if (!xg_signatures_has_size(b.image, name, end - begin)) continue;
        if (!xg_signatures_in_sets(b, name, here, begin, end - begin, work)) continue;
      }
      found = xg_signatures_inspect(b, b.image.v[steps], b.image.v[steps + 1u], here, begin, end - begin,
                                    seen_at, true, most, work);
    }
    if (!found) return false;
    if (part != 0u) name += XG_SIGNATURES_NAME;
    steps = name + XG_NAME_STEPS;
  }
  return true;
}

/* Second part: the rules that these patterns find, and those that none does. */
XG_SELDOM void xg_signatures_try(XG_IN(xg_batch) b, u32 body, XG_IN(xg_view) p, xg_state f, u32 lane,
                                 u32 lanes) {
  if (f.v[XG_SIGNATURES_FOUND_OVER] != 0u) return;
  xg_payload_cursor c = xg_payload_of(b, p, b.image.v[body + XG_SIGNATURES_REACH]);
  xg_signatures_packet s;
  if (!xg_signatures_see(b, p, c, s)) return;
  u32 rules = b.image.v[body + XG_SIGNATURES_RULES];
  u32 most = b.image.v[body + XG_SIGNATURES_WORK];
  u32 said = f.v[XG_SIGNATURES_FOUND_DNS];
  u32 connection = f.v[XG_SIGNATURES_FOUND_CONNECTION];
  /* Each lane has patterns of its own, and behind them its part of the rules that none finds. */
  for (u32 place = lane; place < XG_SIGNATURES_SEEN + lanes; place += lanes) {
    u32 list = body + XG_SIGNATURES_ALWAYS;
    u32 first = lane;
    u32 step = lanes;
    u32 seen_at = 0u;
    if (place < XG_SIGNATURES_SEEN) {
      first = 0u;
      step = 1u;
      u32 seen = f.v[XG_SIGNATURES_FOUND_SEEN + place];
      if (seen == 0u) continue;
      list = b.image.v[body + XG_SIGNATURES_PATTERNS] +
             (XG_SIGNATURES_SEEN_PATTERN(seen) - 1u) * XG_SIGNATURES_PATTERN + XG_PATTERN_RULES;
      seen_at = XG_SIGNATURES_SEEN_AT(seen);
    }
    u32 numbers = b.image.v[list];
    u32 count = b.image.v[list + 1u];
    for (u32 i = first; i < count; i += step) {
      u32 number = b.image.v[numbers + i];
      u32 rule = rules + number * XG_SIGNATURES_RULE;
      if (!xg_signatures_applies(b, rule, p, c, s, said, connection)) continue;
      u32 work = 0u;
      bool holds = xg_signatures_holds(b, rule, c, s, f, seen_at, most, work);
      u32 before = XG_ADD(f, XG_SIGNATURES_FOUND_WORK, work);
      if (work > most || before > most - work) f.v[XG_SIGNATURES_FOUND_OVER] = 1u;
      if (f.v[XG_SIGNATURES_FOUND_OVER] != 0u) return;
      if (holds) xg_signatures_note(f, number);
    }
  }
}

/* Writes the packet's rules down. */
XG_FN void xg_signatures_tell(xg_batch b, xg_view p, xg_state f) {
  if (!XG_IS_THERE(b.alerts)) return;
  u32 count = 0u;
  u32 words[4];
  for (u32 i = 0u; i < 4u; i++) words[i] = 0u;
  for (u32 i = 0u; i < XG_MAX_ALERTS; i++) {
    u32 rule = f.v[XG_SIGNATURES_FOUND_RULES + i];
    if (rule == ~0u) break;
    count += 1u;
    words[(i + 1u) >> 1] |= rule << (((i + 1u) & 1u) * 16u);
  }
  u32 connection = f.v[XG_SIGNATURES_FOUND_CONNECTION];
  if ((connection & XG_SIGNATURES_MORE) != 0u) count |= XG_ALERTS_MORE;
  b.alerts.v[p.number * 2u] = XG_QUAD(words[0] | count, words[1], words[2], words[3]);
  b.alerts.v[p.number * 2u + 1u] =
      XG_QUAD(connection & ~(XG_SIGNATURES_MORE | XG_SIGNATURES_FIRED | XG_SIGNATURES_PASSED), 0u, 0u, 0u);
}

/* The rules that were written down of a packet hold, too. */
XG_FN void xg_signatures_told(xg_batch b, xg_view p, xg_state f) {
  if (!XG_IS_THERE(b.alerts)) return;
  xg_quad told = b.alerts.v[p.number * 2u];
  u32 words[4];
  XG_FOUR_OF(told, words);
  if ((words[0] & XG_ALERTS_MORE) != 0u)
    f.v[XG_SIGNATURES_FOUND_CONNECTION] = f.v[XG_SIGNATURES_FOUND_CONNECTION] | XG_SIGNATURES_MORE;
  u32 count = words[0] & (XG_ALERTS_MORE - 1u);
  for (u32 i = 1u; i <= count && i <= XG_MAX_ALERTS; i++)
    xg_signatures_note(f, (words[i >> 1] >> ((i & 1u) * 16u)) & 0xffffu);
}

/* Third part, of one lane: returns an action word. */
XG_FN u32 xg_signatures_conclude(xg_batch b, u32 body, xg_view p, xg_state f, XG_INOUT(xg_result) r) {
  bool fired = (r.detail & XG_SIGNATURES_FIRED) != 0u;
  bool passed = (r.detail & XG_SIGNATURES_PASSED) != 0u;
  r.detail &= ~(XG_SIGNATURES_FIRED | XG_SIGNATURES_PASSED);
  if (passed) return XG_NEXT;
  if (f.v[XG_SIGNATURES_FOUND_OVER] != 0u) return b.image.v[body + XG_SIGNATURES_LIMIT];
  if (fired) xg_signatures_told(b, p, f);
  u32 first = f.v[XG_SIGNATURES_FOUND_RULES];
  if (first == ~0u) return XG_NEXT;
  u32 rule = b.image.v[body + XG_SIGNATURES_RULES] + first * XG_SIGNATURES_RULE;
  u32 action = XG_SIGNATURE_ACTION(b.image.v[rule + XG_SIGNATURE_FLAGS]);
  /* Those that pass come first, then those that drop. */
  if (action == XG_SIGNATURE_PASS) return XG_NEXT;
  r.flags |= XG_RES_ALERTS;
  xg_signatures_tell(b, p, f);
  return action == XG_SIGNATURE_DROP ? XG_VERDICT(XG_DROP, 0u, 0u, first + 1u) : XG_NEXT;
}

#include "gpu/stages/signatures/streams.h"

#endif
