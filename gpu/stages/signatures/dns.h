/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/dns.h: a DNS message as rules see it (gpu/signatures.hpp says what that is). One lane
 * reads it, and leaves what it says in words that all lanes share.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_DNS_H
#define XDPGPU_STAGES_SIGNATURES_DNS_H

#include "gpu/stages/signatures/packet.h"

#define XG_DNS_PORT 53u
#define XG_DNS_HEADER 12u
#define XG_DNS_RECORD 2u /* bytes of one, at least */
#define XG_DNS_END_WELL 0u
#define XG_DNS_END_CUT 1u   /* bytes are missing */
#define XG_DNS_END_WRONG 2u /* bytes contradict each other */

/* Goes through a message. Places count from its first byte. */
struct xg_dns_reader {
  u32 message; /* where it begins, in the frame */
  u32 bytes;
  u32 at;
  u32 end;   /* of what is read: the message's, or a record's data's */
  u32 steps; /* as DnsMessage counts them */
  /* The names that are kept: how many, and their bytes, each with a dot in front. */
  u32 names;
  u32 kept;
};

/* Puts up to four bytes behind the names that are kept; bytes that are not there are 0. */
XG_FN void xg_dns_put(xg_state f, u32 at, u32 word) {
  u32 place = XG_SIGNATURES_FOUND_NAMES + (at >> 2);
  u32 shift = (at & 3u) * 8u;
  f.v[place] |= word << shift;
  if (shift != 0u && (word >> (32u - shift)) != 0u) f.v[place + 1u] |= word >> (32u - shift);
}

/* Keeps a label of `bytes` bytes, with a dot in front. Where there is no room for it the names are counted as
 * too many. */
XG_FN void xg_dns_keep(xg_batch b, XG_INOUT(xg_payload_cursor) c, XG_INOUT(xg_dns_reader) r, xg_state f,
                       u32 bytes) {
  if (bytes + 1u > XG_SIGNATURES_NAMES_BYTES - r.kept) {
    r.names = XG_SIGNATURES_MOST_NAMES + 1u;
    return;
  }
  xg_dns_put(f, r.kept, 0x2eu);
  for (u32 i = 0u; i < bytes; i += 4u) {
    u32 word = xg_signatures_load(b, c, r.message + r.at + 1u + i);
    if (bytes - i < 4u) word &= (1u << ((bytes - i) * 8u)) - 1u;
    xg_dns_put(f, r.kept + 1u + i, word);
  }
  r.kept += bytes + 1u;
}

/* Whether a pointer at `at` is one to itself: what stands there is the same, up to `end`. */
XG_FN bool xg_dns_is_same(xg_batch b, XG_INOUT(xg_payload_cursor) c, XG_INOUT(xg_dns_reader) r, u32 at,
                          u32 end, u32 to) {
  if (end - at != r.bytes - to) return false;
  if (at == to) return true;
  r.steps += (end - at) / XG_SIGNATURES_PER_WORK;
  for (u32 i = 0u; i < end - at; i += 4u) {
    u32 other = xg_signatures_load(b, c, r.message + at + i) ^ xg_signatures_load(b, c, r.message + to + i);
    if (end - at - i < 4u) other &= (1u << ((end - at - i) * 8u)) - 1u;
    if (other != 0u) return false;
  }
  return true;
}

/* A name. size: bytes of its text. keep: it is one of those that are kept. Moves on if it ends well. */
XG_SELDOM u32 xg_dns_name(XG_IN(xg_batch) b, XG_INOUT(xg_payload_cursor) c, XG_INOUT(xg_dns_reader) r,
                          xg_state f, bool keep, XG_INOUT(u32) size) {
  u32 end = r.end;
  u32 behind = 0u; /* the first pointer, 0: there was none */
  bool cut = false;
  size = 0u;
  for (u32 count = 1u; r.at < end && r.steps <= XG_SIGNATURES_DNS_STEPS; count++) {
    u32 bytes = xg_payload8(b, c, r.message + r.at);
    r.steps += 1u;
    if (bytes == 0u) {
      r.at += 1u;
      break;
    }
    if (bytes < 64u) {
      if (bytes >= end - r.at) return XG_DNS_END_CUT;
      if (!cut) {
        size += size != 0u ? bytes + 1u : bytes;
        if (keep && r.names <= XG_SIGNATURES_MOST_NAMES) xg_dns_keep(b, c, r, f, bytes);
      }
      r.at += 1u + bytes;
    } else if (bytes >= 192u) {
      if (end - r.at < 2u) return XG_DNS_END_CUT;
      u32 to = (bytes & 63u) << 8 | xg_payload8(b, c, r.message + r.at + 1u);
      if (to > r.bytes) return XG_DNS_END_WRONG;
      if (xg_dns_is_same(b, c, r, r.at, end, to)) {
        if (behind == 0u) return XG_DNS_END_WRONG;
        break;
      }
      if (behind == 0u) behind = r.at + 2u;
      r.at = to;
      end = r.bytes;
    } else {
      return XG_DNS_END_WRONG;
    }
    if (count > XG_SIGNATURES_DNS_LABELS) {
      if (behind == 0u) return XG_DNS_END_WRONG;
      break;
    }
    if (size > XG_SIGNATURES_DNS_NAME) {
      size = XG_SIGNATURES_DNS_NAME;
      cut = true;
      if (behind != 0u) break;
    }
  }
  if (behind != 0u) r.at = behind;
  return XG_DNS_END_WELL;
}

/* A number of two bytes. False: it is not whole. */
XG_FN bool xg_dns_number(xg_batch b, XG_INOUT(xg_payload_cursor) c, XG_INOUT(xg_dns_reader) r,
                         XG_INOUT(u32) value) {
  if (r.end - r.at < 2u) return false;
  value = xg_payload16(b, c, r.message + r.at);
  r.at += 2u;
  return true;
}
XG_FN bool xg_dns_skip(XG_INOUT(xg_dns_reader) r, u32 bytes) {
  if (r.end - r.at < bytes) return false;
  r.at += bytes;
  return true;
}

/* A record's data, from r.at to r.end. False: it is empty, or not as its type has it. */
XG_FN bool xg_dns_data(xg_batch b, XG_INOUT(xg_payload_cursor) c, XG_INOUT(xg_dns_reader) r, xg_state f,
                       u32 type) {
  u32 begin = r.at;
  u32 names = 0u;
  u32 before = 0u; /* bytes in front of the names */
  u32 after = 0u;
  if (type == 2u || type == 5u || type == 12u) { /* NS, CNAME, PTR */
    names = 1u;
  } else if (type == 6u) { /* SOA */
    names = 2u;
    after = 20u;
  } else if (type == 15u) { /* MX */
    names = 1u;
    before = 2u;
  } else if (type == 16u) { /* TXT */
    if (r.at == r.end) return false;
    before = 1u + xg_payload8(b, c, r.message + r.at);
  } else if (type == 33u) { /* SRV */
    names = 1u;
    before = 6u;
  } else if (type == 44u) { /* SSHFP */
    before = 2u;
  } else {
    r.at = r.end;
  }
  if (!xg_dns_skip(r, before)) return false;
  u32 size = 0u;
  for (; names != 0u; names--)
    if (xg_dns_name(b, c, r, f, false, size) != XG_DNS_END_WELL) return false;
  return xg_dns_skip(r, after) && r.at != begin;
}

/* Reads the packet's message, if it is one, and says so in the words from XG_SIGNATURES_FOUND_DNS on. wants:
 * what of it rules ask for. */
XG_SELDOM void xg_dns_read(XG_IN(xg_batch) b, XG_INOUT(xg_payload_cursor) c, XG_INOUT(xg_signatures_packet) s,
                           u32 wants, xg_state f) {
  if (s.protocol != 17u || s.transport == 0u || (s.src_port != XG_DNS_PORT && s.dst_port != XG_DNS_PORT))
    return;
  xg_dns_reader r;
  r.message = s.payload;
  r.bytes = r.end = s.payload_bytes;
  r.at = r.steps = r.names = r.kept = 0u;
  if (r.bytes < XG_DNS_HEADER) return;
  u32 flags = xg_payload16(b, c, r.message + 2u);
  u32 questions = xg_payload16(b, c, r.message + 4u);
  u32 records = xg_payload16(b, c, r.message + 6u) + xg_payload16(b, c, r.message + 8u);
  u32 additional = xg_payload16(b, c, r.message + 10u);
  if ((questions + records + additional) * XG_DNS_RECORD + XG_DNS_HEADER > r.bytes) return;
  r.at = XG_DNS_HEADER;
  bool is_answer = (flags & 0x8000u) != 0u;
  u32 said = XG_DNS_IS | (is_answer ? XG_DNS_IS_ANSWER : 0u) | ((flags >> 11) & 15u) << 8;
  if (!is_answer || (wants & XG_DNS_WANTS_ANSWERS) == 0u) records = 0u;
  bool keep = !is_answer && (wants & XG_DNS_WANTS_NAMES) != 0u;
  bool is_read = true;
  u32 size = 0u;
  u32 number = 0u;
  for (u32 i = 0u; i < questions + records && is_read; i++) {
    bool is_question = i < questions;
    r.end = r.bytes;
    u32 end = xg_dns_name(b, c, r, f, keep && is_question, size);
    if (r.steps > XG_SIGNATURES_DNS_STEPS) {
      f.v[XG_SIGNATURES_FOUND_OVER] = 1u;
      return;
    }
    if (is_question && end == XG_DNS_END_WRONG) return;
    u32 type = 0u;
    is_read = end == XG_DNS_END_WELL && xg_dns_number(b, c, r, type) && xg_dns_number(b, c, r, number);
    if (!is_read) break;
    if (is_question) {
      keep = keep && size != 0u;
      if (keep && r.names < XG_SIGNATURES_MOST_NAMES) f.v[XG_SIGNATURES_FOUND_NAME_ENDS + r.names] = r.kept;
      if (keep && r.names <= XG_SIGNATURES_MOST_NAMES) r.names += 1u;
      continue;
    }
    is_read = xg_dns_skip(r, 4u) && xg_dns_number(b, c, r, number) && number <= r.bytes - r.at;
    if (!is_read) break;
    u32 behind = r.at + number;
    r.end = behind;
    is_read = xg_dns_data(b, c, r, f, type);
    r.at = behind;
    if (r.steps > XG_SIGNATURES_DNS_STEPS) {
      f.v[XG_SIGNATURES_FOUND_OVER] = 1u;
      return;
    }
  }
  if (is_read) said |= XG_DNS_IS_READ | r.names << XG_DNS_NAMES;
  if (is_read && r.names > XG_SIGNATURES_MOST_NAMES) f.v[XG_SIGNATURES_FOUND_OVER] = 1u;
  f.v[XG_SIGNATURES_FOUND_DNS] = said;
}

/* A cursor over the n-th name that was kept, with the dot in front of it, by the same offsets as `begin`. */
XG_FN xg_payload_cursor xg_dns_name_at(xg_state f, u32 n, XG_INOUT(u32) begin) {
  begin = n != 0u ? f.v[XG_SIGNATURES_FOUND_NAME_ENDS + n - 1u] : 0u;
  xg_payload_cursor c;
  c.end = c.behind = c.bytes = f.v[XG_SIGNATURES_FOUND_NAME_ENDS + n];
  c.words = XG_WORDS_OF(f, XG_SIGNATURES_FOUND_NAMES);
  c.shift = c.first = c.next = c.second = 0u;
  c.at = u64(0);
  return c;
}

#endif
