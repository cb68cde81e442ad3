/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/steps.h: a rule's steps in a payload or in a name.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_STEPS_H
#define XDPGPU_STAGES_SIGNATURES_STEPS_H

#include "gpu/stages/signatures/packet.h"

/* Whether bytes of the packet, all of which can be read, are the pattern's, of which `word` is the first
 * one's place in the image. */
XG_FN bool xg_signatures_same(xg_batch b, XG_INOUT(xg_payload_cursor) c, u32 at, u32 word, u32 size,
                              bool nocase) {
  xg_signatures_run run = xg_signatures_run_at(b, c, at);
  for (u32 i = 0u; i < size; i += 4u) {
    u32 bytes = xg_signatures_run_load(b, c, run, i);
    if (nocase) bytes = xg_lower32(bytes);
    u32 other = (bytes ^ b.image.v[word + (i >> 2)]);
    if (size - i < 4u) other &= (1u << ((size - i) * 8u)) - 1u;
    if (other != 0u) return false;
  }
  return true;
}

/* How an inspection of the payload, or of a name, stands: see gpu/signatures.hpp. */
struct xg_signatures_inspection {
  u32 payload; /* where it begins, by the cursor */
  u32 bytes;
  u32 position;
  u32 work;
  u32 set; /* a bit for each variable that has a value; the others have 0 */
  u64 variables[XG_SIGNATURES_VARIABLES];
};

XG_FN u64 xg_signatures_value(u32 low, u32 high, bool variable, XG_INOUT(xg_signatures_inspection) n) {
  if (variable) return ((n.set >> low) & 1u) != 0u ? n.variables[low] : u64(0);
  return u64(low) | u64(high) << 32;
}

/* At which of four places the four bytes `begins` stand, as far as `mask` has them: a bit each. bytes, next:
 * the eight bytes there. */
XG_FN u32 xg_signatures_begins(u32 bytes, u32 next, u32 begins, u32 mask, bool nocase) {
  u32 candidates = 0u;
  for (u32 i = 0u; i < 4u; i++) {
    u32 here = i == 0u ? bytes : (bytes >> (i * 8u)) | (next << (32u - i * 8u));
    if (nocase) here = xg_lower32(here);
    if (((here ^ begins) & mask) == 0u) candidates |= 1u << i;
  }
  return candidates;
}

/* The first place from `first` on at which a content stands that ends at `end` at the latest; ~0: none. */
XG_FN u32 xg_signatures_find(xg_batch b, u32 step, XG_INOUT(xg_payload_cursor) c,
                             XG_INOUT(xg_signatures_inspection) n, u32 first, u32 end) {
  u32 flags = b.image.v[step];
  u32 word = b.image.v[step + 1u];
  u32 size = b.image.v[step + 2u];
  n.work += 1u;
  if ((flags & XG_STEP_ENDS) != 0u && end < n.bytes) return ~0u;
  if (end < first || end - first < size) return ~0u;
  bool nocase = (flags & XG_STEP_NOCASE) != 0u;
  u32 mask = size >= 4u ? ~0u : (1u << (size * 8u)) - 1u;
  u32 begins = b.image.v[word];
  u32 last = end - size;
  u32 found = ~0u;
  u32 at = first;
  while (found == ~0u && at <= last) {
    xg_signatures_run run = xg_signatures_run_at(b, c, n.payload + at);
    u32 here = at;
    u32 place = at;
    u32 candidates = 0u;
    while (candidates == 0u && at <= last && at - here + 8u <= run.bytes) {
      u32 of = run.word + ((at - here) >> 2);
      place = at;
      candidates = xg_signatures_begins(XG_UNALIGNED(run.words, of, run.shift),
                                        XG_UNALIGNED(run.words, of + 1u, run.shift), begins, mask, nocase);
      at += 4u;
    }
    /* Near the end of a buffer. */
    if (candidates == 0u && at <= last) {
      place = at;
      candidates = xg_signatures_begins(xg_signatures_load(b, c, n.payload + at),
                                        xg_signatures_load(b, c, n.payload + at + 4u), begins, mask, nocase);
      at += 4u;
    }
    while (candidates != 0u && found == ~0u) {
      u32 i = XG_LOWEST_BIT(candidates);
      candidates &= candidates - 1u;
      if (last - place < i) continue;
      if (size > 4u) n.work += (size + 15u) / XG_SIGNATURES_PER_WORK;
      if (size <= 4u || xg_signatures_same(b, c, n.payload + place + i, word, size, nocase))
        found = place + i;
    }
  }
  n.work += ((found == ~0u ? last : found) - first + 1u) / XG_SIGNATURES_PER_WORK;
  return found;
}

#ifdef XG_AVX2
#include "gpu/stages/signatures/find_avx2.hpp"
#else
#define XG_SIGNATURES_FIND xg_signatures_find
#endif

/* A content's window, in the payload. */
XG_FN void xg_signatures_window(xg_words image, u32 step, XG_INOUT(xg_signatures_inspection) n,
                                XG_INOUT(u32) first, XG_INOUT(u32) end) {
  u32 flags = image.v[step];
  u32 offset = u32(xg_signatures_value(image.v[step + 3u], 0u, (flags & XG_STEP_VAR_OFFSET) != 0u, n));
  u32 depth = u32(xg_signatures_value(image.v[step + 4u], 0u, (flags & XG_STEP_VAR_DEPTH) != 0u, n));
  first = offset;
  end = n.bytes;
  if ((flags & (XG_STEP_DISTANCE | XG_STEP_WITHIN)) == 0u) {
    if ((flags & XG_STEP_DEPTH) != 0u) end = depth;
  } else {
    u32 distance = 0u;
    u32 from = n.position;
    if ((flags & XG_STEP_DISTANCE) != 0u) {
      distance = u32(xg_signatures_value(image.v[step + 5u], 0u, (flags & XG_STEP_VAR_DISTANCE) != 0u, n));
      bool in_front = (distance & 0x80000000u) != 0u && 0u - distance > n.position;
      from = in_front ? 0u : n.position + distance;
    }
    if ((flags & XG_STEP_WITHIN) != 0u) {
      u32 within = n.position + distance +
                   u32(xg_signatures_value(image.v[step + 6u], 0u, (flags & XG_STEP_VAR_WITHIN) != 0u, n));
      /* As numbers with a sign. */
      if ((end ^ 0x80000000u) > (within ^ 0x80000000u)) end = within;
    }
    if ((flags & XG_STEP_DEPTH) != 0u && depth + n.position < end) end = depth + n.position;
    if (from > first) first = from;
  }
  if ((flags & (XG_STEP_VAR_OFFSET | XG_STEP_VAR_DEPTH | XG_STEP_VAR_DISTANCE)) != 0u) end += first;
  if (end > n.bytes) end = n.bytes;
}

/* A digit's value, 255: it is none. */
XG_FN u32 xg_signatures_digit(u32 byte) {
  if (byte >= 48u && byte <= 57u) return byte - 48u;
  u32 letter = byte | 32u;
  return letter >= 97u && letter <= 122u ? letter - 87u : 255u;
}

/* A number that is written as text, as C's strtoull() has it. False: there is none, or it is too large. */
XG_SELDOM bool xg_signatures_text(XG_IN(xg_batch) b, XG_INOUT(xg_payload_cursor) c, u32 at, u32 most,
                                  u32 base, XG_INOUT(u64) value, XG_INOUT(u32) bytes) {
  u32 i = 0u;
  u32 byte = most > 0u ? xg_payload8(b, c, at) : 0u;
  while (i < most && (byte == 32u || (byte >= 9u && byte <= 13u))) {
    i += 1u;
    byte = i < most ? xg_payload8(b, c, at + i) : 0u;
  }
  bool minus = byte == 45u;
  if (minus || byte == 43u) {
    i += 1u;
    byte = i < most ? xg_payload8(b, c, at + i) : 0u;
  }
  if (byte == 48u && (base == 0u || base == 16u)) {
    u32 x = i + 1u < most ? xg_payload8(b, c, at + i + 1u) : 0u;
    u32 digit = i + 2u < most ? xg_signatures_digit(xg_payload8(b, c, at + i + 2u)) : 255u;
    if ((x | 32u) == 120u && digit < 16u) {
      i += 2u;
      base = 16u;
    }
  }
  if (base == 0u) base = i < most && xg_payload8(b, c, at + i) == 48u ? 8u : 10u;
  u32 digits = 0u;
  bool large = false;
  value = u64(0);
  while (i < most) {
    u32 digit = xg_signatures_digit(xg_payload8(b, c, at + i));
    if (digit >= base) break;
    u64 high = (value >> 32) * u64(base);
    u64 low = (value & u64(0xffffffffu)) * u64(base) + u64(digit);
    high += low >> 32;
    if ((high >> 32) != u64(0)) large = true;
    value = (high << 32) | (low & u64(0xffffffffu));
    digits += 1u;
    i += 1u;
  }
  bytes = i;
  if (minus) value = u64(0) - value;
  return digits != 0u && !large;
}

/* What a step reads: value, where, and how many bytes. False: it is not there. */
XG_SELDOM bool xg_signatures_number(XG_IN(xg_batch) b, u32 step, XG_INOUT(xg_payload_cursor) c,
                                    XG_INOUT(xg_signatures_inspection) n, XG_INOUT(u64) value,
                                    XG_INOUT(u32) at, XG_INOUT(u32) bytes) {
  u32 flags = b.image.v[step];
  u32 number = b.image.v[step + 1u];
  u32 offset = u32(xg_signatures_value(b.image.v[step + 2u], 0u, (flags & XG_STEP_VAR_OFFSET) != 0u, n));
  bool relative = (flags & XG_STEP_RELATIVE) != 0u;
  value = u64(0);
  bytes = number & 0xffu;
  at = relative ? n.position : 0u;
  if (n.bytes == 0u) return false;
  /* Offsets have a sign: what comes to stand in front of the payload is not there. */
  if ((offset & 0x80000000u) != 0u && 0u - offset > at) return false;
  at += offset;
  if (relative && at >= n.bytes && (XG_STEP_KIND(flags) != XG_STEP_JUMP || bytes != 0u)) return false;
  if (at > n.bytes || bytes > n.bytes - at) return false;
  u32 from = n.payload + at;
  if ((number & XG_NUMBER_TEXT) != 0u)
    return xg_signatures_text(b, c, from, bytes, (number >> 8) & 0xffu, value, bytes);
  for (u32 i = 0u; i < bytes; i++) {
    u32 place = (number & XG_NUMBER_LITTLE) != 0u ? bytes - 1u - i : i;
    value = value << 8 | u64(xg_payload8(b, c, from + place));
  }
  return true;
}

/* The bits that the mask has, the lowest one of which comes to the right. */
XG_FN u64 xg_signatures_masked(u64 value, u32 flags, u32 mask) {
  if ((flags & XG_STEP_MASK) == 0u) return value;
  return (value & u64(mask)) >> XG_LOWEST_BIT(mask);
}

/* A step that is no content. */
XG_SELDOM bool xg_signatures_step(XG_IN(xg_batch) b, u32 step, XG_INOUT(xg_payload_cursor) c,
                                  XG_INOUT(xg_signatures_inspection) n) {
  u32 flags = b.image.v[step];
  u32 kind = XG_STEP_KIND(flags);
  bool negated = (flags & XG_STEP_NEGATED) != 0u;
  u64 constant =
      xg_signatures_value(b.image.v[step + 4u], b.image.v[step + 5u], (flags & XG_STEP_VAR_VALUE) != 0u, n);
  if (kind == XG_STEP_DATA_AT) {
    if ((flags & XG_STEP_VAR_VALUE) != 0u && constant >= u64(100000000u)) return negated;
    u32 offset = u32(constant);
    bool there = false;
    if ((flags & XG_STEP_RELATIVE) != 0u)
      there = n.position + offset <= n.bytes;
    else
      there = offset < n.bytes;
    return there != negated;
  }
  u64 value = u64(0);
  u32 at = 0u;
  u32 bytes = 0u;
  if (!xg_signatures_number(b, step, c, n, value, at, bytes)) return false;
  u32 mask = b.image.v[step + 3u];
  u32 how = XG_STEP_ARGUMENT(flags);
  if (kind == XG_STEP_TEST) {
    value = xg_signatures_masked(value, flags, mask);
    bool holds = false;
    if (how == XG_TEST_LESS) holds = value < constant;
    if (how == XG_TEST_MORE) holds = value > constant;
    if (how == XG_TEST_EQUAL) holds = value == constant;
    if (how == XG_TEST_LESS_OR_EQUAL) holds = value <= constant;
    if (how == XG_TEST_MORE_OR_EQUAL) holds = value >= constant;
    if (how == XG_TEST_COMMON_BITS) holds = (value & constant) != u64(0);
    if (how == XG_TEST_DIFFERS) holds = value != constant;
    return holds != negated;
  }
  if (kind == XG_STEP_JUMP) {
    value = value * u64(mask);
    if ((flags & XG_STEP_ALIGN) != 0u) value += (u64(4) - (value & u64(3))) & u64(3);
    value += constant;
    if (how == XG_JUMP_FROM_NUMBER) value += u64(at) + u64(bytes);
    if (how == XG_JUMP_FROM_END) value += u64(n.bytes);
    if (value >= u64(0) - (u64(1) << 46)) {
      n.position = 0u;
      return true;
    }
    if (value > u64(n.bytes)) return false;
    n.position = u32(value);
    return true;
  }
  u32 variable = b.image.v[step + 6u];
  if (kind == XG_STEP_EXTRACT) {
    u64 align = constant;
    value = value * u64(mask);
    u64 rest = value % align;
    if (rest != u64(0)) value += align - rest;
    n.position = at + bytes;
    n.variables[variable] = value;
    n.set |= 1u << variable;
    return true;
  }
  if (how == XG_MATH_DIVIDE && constant == u64(0)) return false;
  if (how == XG_MATH_ADD) value += constant;
  if (how == XG_MATH_SUBTRACT) value -= constant;
  if (how == XG_MATH_MULTIPLY) value = value * constant;
  if (how == XG_MATH_DIVIDE) value = value / constant;
  if (how == XG_MATH_SHIFT_LEFT) value = constant < u64(64) ? value << u32(constant) : u64(0);
  if (how == XG_MATH_SHIFT_RIGHT) value = value >> (u32(constant) & 63u);
  n.position = at + bytes;
  n.variables[variable] = xg_signatures_masked(value, flags, mask);
  n.set |= 1u << variable;
  return true;
}

/* Whether the `bytes` bytes at `begin` have what an automaton takes. What it costs is added to `work`, which
 * ends it behind `most`. */
XG_SELDOM bool xg_signatures_regex(XG_IN(xg_batch) b, u32 automaton, XG_INOUT(xg_payload_cursor) c, u32 begin,
                                   u32 bytes, u32 most, XG_INOUT(u32) work) {
  u32 head = b.image.v[automaton];
  if ((head & XG_REGEX_EMPTY) != 0u) return true;
  if (bytes == 0u) return (head & XG_REGEX_EMPTY_AT_END) != 0u;
  u32 words = XG_REGEX_WORDS(head);
  u32 rows = automaton + XG_REGEX_ROWS;
  u32 sets = rows + (XG_REGEX_ROW_POSITIONS + XG_REGEX_POSITIONS(head)) * words;
  u32 may_be[XG_REGEX_MOST_WORDS];
  u32 are[XG_REGEX_MOST_WORDS];
  u32 some = 0u;
  for (u32 w = 0u; w < words; w++) {
    may_be[w] = b.image.v[rows + w];
    some |= may_be[w];
  }
  u32 parts = 0u;
  u32 most_parts = work < most ? ((most - work + 1u) * XG_REGEX_PER_WORK) / (1u + words) + 1u : 0u;
  u32 four = 0u;
  u32 hit = 0u;
  for (u32 i = 0u; i < bytes && some != 0u && hit == 0u && parts <= most_parts; i++) {
    if ((i & 3u) == 0u) four = xg_signatures_load(b, c, begin + i);
    u32 byte = (four >> ((i & 3u) * 8u)) & 0xffu;
    u32 number = (b.image.v[automaton + XG_REGEX_SET_OF + (byte >> 2)] >> ((byte & 3u) * 8u)) & 0xffu;
    u32 set = sets + number * words;
    bool ends = i + 1u == bytes;
    parts += 1u;
    some = 0u;
    u32 carry = 0u;
    for (u32 w = 0u; w < words; w++) {
      u32 row = rows + w;
      u32 here = may_be[w] & b.image.v[set + w];
      hit |= here & b.image.v[row + XG_REGEX_ROW_LAST * words];
      if (ends) hit |= here & b.image.v[row + XG_REGEX_ROW_LAST_AT_END * words];
      u32 on = here & b.image.v[row + XG_REGEX_ROW_NEXT * words];
      u32 stay = here & b.image.v[row + XG_REGEX_ROW_SELF * words];
      u32 next = b.image.v[row + XG_REGEX_ROW_AGAIN * words] | stay | (on << 1) | carry;
      carry = on >> 31;
      are[w] = here & b.image.v[row + XG_REGEX_ROW_BRANCHES * words];
      may_be[w] = next;
      some |= next;
    }
    if (hit != 0u || ends) break;
    for (u32 w = 0u; w < words; w++) {
      u32 left = are[w];
      while (left != 0u) {
        u32 position = w * 32u + XG_LOWEST_BIT(left);
        left &= left - 1u;
        parts += 1u;
        u32 row = rows + (XG_REGEX_ROW_POSITIONS + position) * words;
        for (u32 v = 0u; v < words; v++) {
          u32 next = b.image.v[row + v];
          may_be[v] |= next;
          some |= next;
        }
      }
    }
  }
  work += (parts * (1u + words)) / XG_REGEX_PER_WORK;
  return hit != 0u;
}

/* Whether the `bytes` bytes at `begin` have what so many steps look for. seen_at: in front of which the fast
 * pattern does not stand, if it is of one of them. negated: contents and expressions that are negated are
 * asked, too. Adds to `work`, which ends it at `most`. */
XG_SELDOM bool xg_signatures_inspect(XG_IN(xg_batch) b, u32 steps, u32 count, XG_INOUT(xg_payload_cursor) c,
                                     u32 begin, u32 bytes, u32 seen_at, bool negated, u32 most,
                                     XG_INOUT(u32) work) {
  xg_signatures_inspection n;
  n.payload = begin;
  n.bytes = bytes;
  n.position = 0u;
  n.work = work;
  n.set = 0u;
  /* Contents that can be looked for again: the step, and the window that is left. */
  u32 choices[XG_SIGNATURES_CHOICES];
  u32 firsts[XG_SIGNATURES_CHOICES];
  u32 ends[XG_SIGNATURES_CHOICES];
  u32 depth = 0u;
  u32 tries = 0u;
  u32 at = 0u;
  u32 first = 0u;
  u32 end = 0u;
  bool again = false;
  bool holds = true;
  while (at < count && holds && n.work <= most) {
    u32 step = steps + at * XG_SIGNATURES_STEP;
    u32 flags = b.image.v[step];
    bool fails = false;
    u32 kind = XG_STEP_KIND(flags);
    if (!negated && (flags & XG_STEP_NEGATED) != 0u && (kind == XG_STEP_CONTENT || kind == XG_STEP_REGEX)) {
      at += 1u;
      continue;
    }
    if (!again) {
      tries += 1u;
      if (tries == XG_SIGNATURES_TRIES) {
        holds = false;
        break;
      }
    }
    if (kind == XG_STEP_REGEX) {
      n.work += 1u;
      u32 from = (flags & XG_STEP_RELATIVE) == 0u ? 0u : n.position < n.bytes ? n.position : n.bytes;
      bool is_there =
          xg_signatures_regex(b, b.image.v[step + 1u], c, n.payload + from, n.bytes - from, most, n.work);
      fails = is_there == ((flags & XG_STEP_NEGATED) != 0u);
    } else if (kind != XG_STEP_CONTENT) {
      n.work += 1u;
      fails = !xg_signatures_step(b, step, c, n);
    } else {
      bool is_negated = (flags & XG_STEP_NEGATED) != 0u;
      u32 size = b.image.v[step + 2u];
      if (!again) xg_signatures_window(b.image, step, n, first, end);
      bool looking = true;
      while (looking) {
        looking = false;
        if (first > end || end == 0u) {
          fails = !is_negated;
        } else {
          u32 from = first;
          if ((flags & XG_STEP_FAST) != 0u && seen_at > first + b.image.v[step + 7u])
            from = seen_at - b.image.v[step + 7u];
          u32 found = XG_SIGNATURES_FIND(b, step, c, n, from, end);
          if (is_negated) {
            fails = found != ~0u && ((flags & XG_STEP_ENDS) == 0u || found + size == end - first);
          } else if (found == ~0u) {
            fails = true;
            /* What is nowhere is nowhere, however the others stand. */
            if ((flags & (XG_STEP_DISTANCE | XG_STEP_WITHIN)) == 0u) depth = 0u;
          } else {
            n.position = found + size;
            first = found + 1u;
            if ((flags & XG_STEP_ENDS) != 0u && n.position != n.bytes) {
              looking = n.work <= most;
            } else if ((flags & XG_STEP_TRIED_AGAIN) != 0u) {
              choices[depth] = at;
              firsts[depth] = first;
              ends[depth] = end;
              depth += 1u;
            } else {
              depth = 0u;
            }
          }
        }
      }
    }
    again = false;
    if (!fails) {
      at += 1u;
    } else if (depth == 0u) {
      holds = false;
    } else {
      depth -= 1u;
      at = choices[depth];
      first = firsts[depth];
      end = ends[depth];
      again = true;
    }
  }
  work = n.work;
  return holds && n.work <= most;
}

#endif
