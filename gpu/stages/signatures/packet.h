/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/signatures/packet.h: a packet as rules see it.
 */
#ifndef XDPGPU_STAGES_SIGNATURES_PACKET_H
#define XDPGPU_STAGES_SIGNATURES_PACKET_H

#include "gpu/stages/payload.h"
#include "gpu/stages/signatures/layout.h"

/* A packet as rules see it. Offsets are of the frame; 0: there is none. */
struct xg_signatures_packet {
  u32 ip;
  u32 protocol;
  u32 fragment; /* 1: one of several */
  u32 has_fragment_offset;
  u32 fragment_offset;
  u32 transport;
  u32 payload;
  u32 payload_bytes;
  u32 has_ports;
  u32 src_port;
  u32 dst_port;
};

/* The four bytes from `at` on, byte 0 in the low bits; zeros stand for those behind what can be read. */
XG_FN u32 xg_signatures_load(xg_batch b, XG_INOUT(xg_payload_cursor) c, u32 at) {
  if (at >= c.end) return 0u;
  if (c.end - at >= 4u) return xg_payload32(b, c, at);
  u32 word = 0u;
  for (u32 i = 0u; i < 4u; i++) word |= xg_payload8(b, c, at + i) << (i * 8u);
  return word;
}

/* Words of the packet from a place on, as long as they are in one buffer: read without looking for it. */
struct xg_signatures_run {
  xg_words words;
  u32 word; /* the first byte's */
  u32 shift;
  u32 at;
  u32 bytes; /* that there are */
};

XG_FN xg_signatures_run xg_signatures_run_at(xg_batch b, XG_INOUT(xg_payload_cursor) c, u32 at) {
  xg_signatures_run run;
  run.words = c.words;
  run.word = run.shift = run.bytes = 0u;
  run.at = at;
  if (at >= c.end) return run;
  xg_payload_seek(b, at, c);
  u32 place = c.shift + at - c.first;
  run.words = c.words;
  run.word = place >> 2;
  run.shift = place & 3u;
  run.bytes = (c.behind < c.end ? c.behind : c.end) - at;
  return run;
}
/* As xg_signatures_load() at `from` bytes, a multiple of 4, behind its beginning. */
XG_FN u32 xg_signatures_run_load(xg_batch b, XG_INOUT(xg_payload_cursor) c, xg_signatures_run run, u32 from) {
  if (from + 4u > run.bytes) return xg_signatures_load(b, c, run.at + from);
  return XG_UNALIGNED(run.words, run.word + (from >> 2), run.shift);
}

/* A route's or a timestamp's pointer to its next free place: one of the places, or behind them. */
XG_FN bool xg_option_points(u32 pointer, u32 first, u32 size, u32 bytes) {
  return pointer >= first && (pointer - first) % size == 0u && pointer <= bytes + 1u;
}

/* Walks the IPv4 header's options. False: they cannot be walked. Else `has`: one of this type is there. */
XG_SELDOM bool xg_signatures_option(XG_IN(xg_batch) b, XG_INOUT(xg_payload_cursor) c, u32 ip, u32 wanted,
                                    XG_INOUT(bool) has) {
  u32 at = ip + 20u;
  u32 end = ip + (xg_payload8(b, c, ip) & 15u) * 4u;
  has = false;
  while (at < end) {
    u32 type = xg_payload8(b, c, at);
    if (type <= 1u) {
      if (type == wanted) has = true;
      if (type == 0u) break;
      at += 1u;
      continue;
    }
    if (end - at < 2u) break;
    u32 bytes = xg_payload8(b, c, at + 1u);
    if (bytes < 2u || bytes > end - at) return false;
    if (type == wanted) {
      u32 third = bytes > 2u ? xg_payload8(b, c, at + 2u) : 0u;
      u32 fourth = bytes > 3u ? xg_payload8(b, c, at + 3u) & 15u : 0u;
      if (type == 7u || type == 131u || type == 137u) {
        if (bytes >= 3u && third % 4u == 0u && xg_option_points(third, 4u, 4u, bytes)) has = true;
      } else if (type == 68u) {
        if (bytes >= 5u && xg_option_points(third, 5u, fourth == 1u || fourth == 3u ? 8u : 4u, bytes))
          has = true;
      } else if (type == 130u || type == 133u) {
        if (bytes >= 3u) has = true;
      } else if (type == 136u) {
        if (bytes == 4u) has = true;
      }
    }
    at += bytes;
  }
  return true;
}

/* IPv6's extension headers. -> the last one's number, 0: there is none. What a fragment's header says is in
 * `s`. */
XG_SELDOM u32 xg_signatures_extensions(XG_IN(xg_batch) b, XG_INOUT(xg_payload_cursor) c,
                                       XG_INOUT(xg_signatures_packet) s) {
  u32 next = xg_payload8(b, c, s.ip + 6u);
  u32 at = s.ip + 40u;
  u32 last = 0u;
  for (u32 i = 0u; i <= XG_SIGNATURES_EXTENSIONS && xg_payload_has(c, at, 8u); i++) {
    if (next != 0u && next != 43u && next != 44u && next != 51u && next != 60u) break;
    last = next;
    u32 bytes = (xg_payload8(b, c, at + 1u) + 1u) * 8u;
    if (next == 51u) bytes = (xg_payload8(b, c, at + 1u) + 2u) * 4u;
    if (next == 44u) {
      bytes = 8u;
      u32 field = xg_payload16(b, c, at + 2u);
      if (s.has_fragment_offset == 0u) {
        s.fragment_offset = field & 0xfff8u;
        if ((field & 0xfff9u) != 0u) s.fragment = 1u;
      }
      s.has_fragment_offset = 1u;
    }
    next = xg_payload8(b, c, at);
    at += bytes;
  }
  return last;
}

/* Where the payload of ICMP begins, by the message's type: behind its header and what belongs to it. */
XG_FN u32 xg_signatures_icmp(xg_batch b, XG_INOUT(xg_payload_cursor) c, u32 message, u32 bytes) {
  u32 type = xg_payload8(b, c, message);
  u32 header = 8u;
  if (type == 13u || type == 14u) header = 20u;
  if (type == 9u) header += xg_payload8(b, c, message + 4u) * xg_payload8(b, c, message + 5u) * 4u;
  return header <= bytes ? header : 8u;
}

/* The transport header and the payload, in `bytes` bytes at `message`. False: that one is not whole, or
 * contradicts its length. */
XG_FN bool xg_signatures_payload(XG_IN(xg_batch) b, XG_IN(xg_view) p, XG_INOUT(xg_payload_cursor) c,
                                 u32 message, u32 bytes, XG_INOUT(xg_signatures_packet) s) {
  u32 header = 0u;
  if (s.protocol == 6u || s.protocol == 17u || s.protocol == 132u) {
    header = s.protocol == 6u ? 20u : s.protocol == 17u ? 8u : 12u;
    if (bytes < header) return false;
    s.transport = message;
    s.has_ports = 1u;
    s.src_port = xg_payload16(b, c, message);
    s.dst_port = xg_payload16(b, c, message + 2u);
    if (s.protocol == 6u) {
      u32 said = (xg_payload8(b, c, message + 12u) >> 4) * 4u;
      if (said < header || said > bytes) return false;
      header = said;
    }
    if (s.protocol == 17u) {
      u32 said = xg_payload16(b, c, message + 4u);
      if (said < header || said > bytes) return false;
      bytes = said;
    }
  } else if (s.protocol == 1u) {
    if (bytes < 8u) return false;
    s.transport = message;
    header = xg_signatures_icmp(b, c, message, bytes);
  } else if (s.protocol == 58u && p.family == 6u) {
    if (bytes < 8u) return false;
    s.transport = message;
    u32 type = xg_payload8(b, c, message);
    u32 code = xg_payload8(b, c, message + 1u);
    bool whole = (type == 128u || type == 129u) && code == 0u;
    if (type == 1u) whole = code <= 6u;
    if (type == 2u) whole = code == 0u;
    if (type == 3u) whole = code <= 1u;
    if (type == 4u) whole = code <= 2u;
    header = whole ? 8u : 4u;
    /* Suricata leaves as many at the end out. */
    if (!whole) bytes = bytes > 12u ? bytes - 8u : 4u;
  } else if (s.protocol == 50u) {
    if (bytes < 8u) return false;
    header = 8u;
  } else {
    return true;
  }
  s.payload = message + header;
  s.payload_bytes = bytes - header;
  return true;
}

/* False: no rule is about such a packet. Fields are read one by one: of the four bytes that they stand in at
 * a time NVIDIA's Vulkan made others (driver 580.159). */
XG_SELDOM bool xg_signatures_see(XG_IN(xg_batch) b, XG_IN(xg_view) p, XG_INOUT(xg_payload_cursor) c,
                                 XG_INOUT(xg_signatures_packet) s) {
  s.ip = p.l3_offset;
  s.protocol = p.protocol;
  s.fragment = s.has_fragment_offset = s.fragment_offset = s.transport = s.payload = s.payload_bytes = 0u;
  s.has_ports = s.src_port = s.dst_port = 0u;
  if (p.family == 0u || (p.flags & XG_PKT_MALFORMED) != 0u) return false;
  bool more = false;
  u32 end = 0u;
  if (p.family == 4u) {
    u32 header = (xg_payload8(b, c, s.ip) & 15u) * 4u;
    if (header < 20u || !xg_payload_has(c, s.ip, header)) return false;
    bool has = false;
    more = header > 20u;
    if (more && !xg_signatures_option(b, c, s.ip, 0u, has)) return false;
    u32 field = xg_payload16(b, c, s.ip + 6u);
    s.fragment = (field & 0x3fffu) != 0u ? 1u : 0u;
    s.has_fragment_offset = 1u;
    s.fragment_offset = field & 0x1fffu;
    end = s.ip + xg_payload16(b, c, s.ip + 2u);
  } else {
    if (!xg_payload_has(c, s.ip, 40u)) return false;
    u32 last = xg_signatures_extensions(b, c, s);
    if (s.fragment != 0u) s.protocol = 44u;
    if (s.protocol == 59u) s.protocol = last;
    end = s.ip + 40u + xg_payload16(b, c, s.ip + 4u);
    more = end > s.ip + 40u;
    if (s.protocol == 1u) return false;
  }
  if (s.protocol == 0u && more) return false;
  if (s.fragment != 0u) return true;
  u32 message = p.l4_offset != 0u ? p.l4_offset : end;
  if (end > c.end) end = c.end;
  if (message > end) message = end;
  return xg_signatures_payload(b, p, c, message, end - message, s);
}

#endif
