/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/payload.h: the bytes of a packet, over all of its buffers, for stages with the trait
 * reads_payload.
 *
 *     xg_payload_cursor c = xg_payload_of(b, p, b.image.v[body + XG_MINE_BYTES]);
 *     for (u32 at = xg_payload_start(c, p); at != 0u && at < c.end; at++) sum += xg_payload8(b, c, at);
 *
 * Offsets count from the frame's first byte. What can be read are the bytes in front of c.end: of the packet,
 * as far as its buffers lie in the frame region; a buffer that does not, and all behind it, are not there.
 * None of it is outside of the region, whatever descriptors and metadata say. A load that is not wholly in
 * front of c.end gives 0.
 *
 * The cursor knows the buffer that it was at last: reading on costs no search, and reading back begins again
 * at the first one. Where the packet is of one buffer no descriptor is looked at.
 */
#ifndef XDPGPU_STAGES_PAYLOAD_H
#define XDPGPU_STAGES_PAYLOAD_H

#include "gpu/stages/view.h"

struct xg_payload_cursor {
  u32 end; /* bytes that can be read */
  /* The buffer that it is at. */
  xg_words words; /* the aligned word in which it starts */
  u32 shift;      /* bytes of that in front of it */
  u32 first;      /* the packet's bytes in front of it, and up to its end */
  u32 behind;
  u32 next; /* descriptor of the one behind, 0: there is none */
  /* The first one. */
  u64 at; /* in the frames */
  u32 bytes;
  u32 second; /* descriptor of the one behind */
};

/* Of a packet's later buffers: one that lies in the region. In front of it nothing is read, but at so low an
 * offset nothing is received, and so staging can name none. */
XG_FN bool xg_buffer_valid(xg_descriptor d, u64 frames_bytes) {
  return d.length <= XG_CHUNK_SIZE && d.offset >= u64(XG_METADATA_SIZE) && d.offset <= frames_bytes &&
         u64(d.length) <= frames_bytes - d.offset;
}

XG_FN void xg_payload_enter(xg_batch b, u64 at, u32 first, u32 bytes, u32 next,
                            XG_INOUT(xg_payload_cursor) c) {
  c.shift = u32(at) & 3u;
  c.words = XG_AT(xg_words, b.frames, at - u64(c.shift));
  c.first = first;
  c.behind = first + bytes;
  c.next = next;
}

/* At the frame's first byte. limit: bytes that the stage reads at most; more than its payload_bytes() said
 * cannot be read in any case. */
XG_FN xg_payload_cursor xg_payload_of(xg_batch b, xg_view p, u32 limit) {
  u32 said = b.image.v[b.image.v[XG_IMAGE_TABLE_AT] + p.pipeline * XG_PIPELINE_WORDS + XG_PIPELINE_PAYLOAD];
  u32 most = limit < said ? limit : said;
  xg_payload_cursor c;
  c.at = p.at;
  c.bytes = p.length;
  c.second = p.more;
  c.end = p.length;
  for (u32 next = p.more; c.end < most && next != 0u && next < b.count;) {
    xg_descriptor d = b.descriptors.v[next];
    if (!xg_buffer_valid(d, b.frames_bytes)) break;
    c.end += d.length;
    next = (d.flags & XG_DESC_MORE) != 0u ? next + 1u : 0u;
  }
  if (c.end > most) c.end = most;
  xg_payload_enter(b, c.at, 0u, c.bytes, c.second, c);
  return c;
}

/* Where the L4 payload begins by the packet's metadata, or inside of its tunnel; 0: it has none, or it is not
 * among what can be read.
 */
XG_FN u32 xg_payload_start(xg_payload_cursor c, xg_view p) {
  return p.payload_offset < c.end ? p.payload_offset : 0u;
}

XG_FN bool xg_payload_has(xg_payload_cursor c, u32 offset, u32 bytes) {
  return bytes <= c.end && offset <= c.end - bytes;
}

/* To the buffer that has a byte in front of c.end. */
XG_FN void xg_payload_seek(xg_batch b, u32 offset, XG_INOUT(xg_payload_cursor) c) {
  if (offset < c.first) xg_payload_enter(b, c.at, 0u, c.bytes, c.second, c);
  while (offset >= c.behind) {
    xg_descriptor d = b.descriptors.v[c.next];
    xg_payload_enter(b, d.offset, c.behind, d.length, (d.flags & XG_DESC_MORE) != 0u ? c.next + 1u : 0u, c);
  }
}

XG_FN u32 xg_payload8(xg_batch b, XG_INOUT(xg_payload_cursor) c, u32 offset) {
  if (!xg_payload_has(c, offset, 1u)) return 0u;
  xg_payload_seek(b, offset, c);
  u32 at = c.shift + offset - c.first;
  return (c.words.v[at >> 2] >> ((at & 3u) * 8u)) & 0xffu;
}

/* Two bytes, as a number in network order. */
XG_FN u32 xg_payload16(xg_batch b, XG_INOUT(xg_payload_cursor) c, u32 offset) {
  if (!xg_payload_has(c, offset, 2u)) return 0u;
  u32 high = xg_payload8(b, c, offset);
  return high << 8 | xg_payload8(b, c, offset + 1u);
}

/* Four bytes as they stand, byte 0 in the low bits. */
XG_FN u32 xg_payload32(xg_batch b, XG_INOUT(xg_payload_cursor) c, u32 offset) {
  if (!xg_payload_has(c, offset, 4u)) return 0u;
  xg_payload_seek(b, offset, c);
  if (c.behind - offset >= 4u) {
    u32 at = c.shift + offset - c.first;
    return XG_UNALIGNED(c.words, at >> 2, at & 3u);
  }
  u32 word = 0u;
  for (u32 i = 0u; i < 4u; i++) word |= xg_payload8(b, c, offset + i) << (i * 8u);
  return word;
}

/* Upper-case letters among the four bytes as lower-case ones. */
XG_FN u32 xg_lower32(u32 word) {
  u32 low = word & 0x7f7f7f7fu;
  u32 upper = (low + 0x3f3f3f3fu) & ~(low + 0x25252525u) & ~word & 0x80808080u;
  return word | (upper >> 2);
}

#endif
