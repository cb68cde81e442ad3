/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/view.h: a batch as the device gets it, and one packet of it as the stages see it: the
 * fields that the metadata points to, loaded once, checked once.
 *
 * A device reads nothing outside the frame region, whatever the descriptor and the metadata say.
 */
#ifndef XDPGPU_STAGES_VIEW_H
#define XDPGPU_STAGES_VIEW_H

#include "gpu/stages/dialect.h"
#include "gpu/stages/image.h"

#define XG_PATCH_QUADS 17u /* of an xg_patch; a line's are 4 */
#define XG_EVENT_QUADS 8u  /* of an xg_event */

/* The kernel's argument in CUDA and the push constants in Vulkan. */
struct xg_batch {
  xg_words frames; /* the frame region, or the staging buffer that stands in for it */
  xg_descriptors descriptors;
  xg_results results;
  xg_quads edits;   /* an xg_edit for each packet, by its number; 0: nobody sends them (gpu/mirror.h) */
  xg_quads adjusts; /* likewise an xg_adjust */
  xg_quads alerts;  /* likewise an xg_alerts, two of them a packet */
  xg_quads patches; /* likewise an xg_patch, XG_PATCH_QUADS of them a packet */
  xg_words image;
  xg_words states; /* addresses of the image's tables, XG_STATE_WORDS each; only where it has any */
  u64 frames_bytes;
  u32 count;
  u32 generation;
#ifndef XG_GLSL
  /* An xg_event for each packet, XG_EVENT_QUADS of them. In Vulkan programs are apart from the stages. */
  xg_quads events;
  /* Of a device whose programs run ahead of their turns: XG_PROGRAM_RECORDS records
   * (gpu/stages/program_record.h). */
  xg_state ahead;
  /* Of a device that brings packets nearer for stages that read much of them: XG_NEAR_QUADS for each of the
   * packets that it takes to tables at a time. The first one is the packet's descriptor; behind it stands the
   * frame with its metadata, as far in front of a multiple of 16 bytes as in the region. */
  xg_quads near;
  xg_words changes; /* the image's, where they do not stand in it (gpu/stages/changes.h); 0: they do */
#endif
};

#define XG_NEAR_QUADS 114u /* the descriptor, and 15 + XG_METADATA_SIZE + XG_FRAME_MAX bytes, rounded up */

struct xg_view {
  xg_words words; /* the aligned word in which the metadata starts */
  u32 shift;      /* bytes of it in front of the metadata */
  u32 number;     /* of its first descriptor in the batch */
  u32 length;
  u32 flags; /* XG_PKT_* */
  u32 pipeline;
  u32 protocol;
  /* As the metadata have them, and not checked; with what is inside of a tunnel, its own
   * (gpu/stages/inner.h). */
  u32 l3_offset;
  u32 l4_offset;
  u32 payload_offset;
  u32 family; /* 4 or 6: src and dst are there; else 0 */
  u32 src[4]; /* as in the packet, byte 0 in the low bits */
  u32 dst[4];
  u32 has_ports;
  u32 ports; /* as in the packet: source port in bytes 0-1, destination port in bytes 2-3 */
  u32 more;  /* descriptor of the packet's second buffer, 0: there is none */
  u64 at;    /* where the frame stands in the batch's frames, of which `words` may have a copy */
};

/* Four bytes from the frame's byte `offset`; the caller has seen to it that they are in the frame. */
XG_FN u32 xg_view32(xg_view p, u32 offset) {
  u32 at = p.shift + XG_METADATA_SIZE + offset;
  return XG_UNALIGNED(p.words, at >> 2, at & 3u);
}

/* One byte, and two as a number in network order; likewise. */
XG_FN u32 xg_view8(xg_view p, u32 offset) {
  u32 at = p.shift + XG_METADATA_SIZE + offset;
  return (p.words.v[at >> 2] >> ((at & 3u) * 8u)) & 0xffu;
}
XG_FN u32 xg_view16(xg_view p, u32 offset) { return xg_view8(p, offset) << 8 | xg_view8(p, offset + 1u); }

XG_FN u32 xg_metadata32(xg_view p, u32 word) { return XG_UNALIGNED(p.words, word, p.shift); }

/* The outermost IP header, whatever the view is of: its place, and whether it is IPv4's. */
XG_FN u32 xg_outer_l3(xg_view p) { return (xg_metadata32(p, 5u) >> 16) & 0xffu; }
XG_FN bool xg_outer_ipv4(xg_view p) { return (xg_metadata32(p, 5u) & XG_PKT_IPV4) != 0u; }
XG_FN u32 xg_router_bits(xg_view p) { return xg_metadata32(p, 5u) >> 24; } /* XG_ROUTER_* */

XG_FN bool xg_inside(xg_view p, u32 offset, u32 bytes) { return offset != 0u && offset + bytes <= p.length; }

/* A descriptor that names a frame with its metadata, wholly inside the region. */
XG_FN bool xg_descriptor_valid(xg_descriptor d, u64 frames_bytes) {
  return d.length >= 14u && d.length <= XG_CHUNK_SIZE && d.offset >= u64(XG_METADATA_SIZE) &&
         d.offset <= frames_bytes && u64(d.length) <= frames_bytes - d.offset;
}

/* Where the packet is, whose first descriptor is d, number i. For whoever has seen a copy of it. */
XG_FN void xg_view_of(xg_descriptor d, u32 i, XG_INOUT(xg_view) p) {
  p.number = i;
  p.at = d.offset;
  p.more = (d.flags & XG_DESC_MORE) != 0u ? i + 1u : 0u;
}

/* number: the descriptor's. False: the packet is not to be judged (XG_ABORTED). A packet whose metadata
 * claims a header that is not in the frame is refused, unless the parser has marked it malformed: then the
 * header counts as not there. So is one whose metadata are not those that its descriptor expects. */
XG_FN bool xg_view_packet(xg_batch b, u32 number, xg_descriptor d, XG_INOUT(xg_view) p) {
  xg_view_of(d, number, p);
  if (!xg_descriptor_valid(d, b.frames_bytes)) return false;
  u64 start = d.offset - u64(XG_METADATA_SIZE);
  p.shift = u32(start) & 3u;
  p.words = XG_AT(xg_words, b.frames, start - u64(p.shift));
  p.length = d.length;

  u32 generation = xg_metadata32(p, 2u);
  u32 flags_l3 = xg_metadata32(p, 5u);
  u32 l4_payload = xg_metadata32(p, 6u);
  u32 last = xg_metadata32(p, 7u);
  u32 l3_offset = (flags_l3 >> 16) & 0xffu;
  u32 l4_offset = l4_payload & 0xffffu;
  p.flags = flags_l3 & 0xffffu;
  p.pipeline = last & 0xffffu;
  p.protocol = (last >> 16) & 0xffu;
  p.l3_offset = l3_offset;
  p.l4_offset = l4_offset;
  p.payload_offset = l4_payload >> 16;
  if (generation != b.generation || p.pipeline >= b.image.v[XG_IMAGE_PIPELINES_AT]) return false;
  if ((d.flags & XG_DESC_EXPECT) != 0u &&
      (d.flags != XG_DESC_EXPECTED(last >> 24, xg_metadata32(p, 3u)) || (p.flags & XG_PKT_EGRESS) != 0u))
    return false;

  bool malformed = (p.flags & XG_PKT_MALFORMED) != 0u;
  u32 ip = p.flags & (XG_PKT_IPV4 | XG_PKT_IPV6);
  for (u32 i = 0u; i < 4u; i++) {
    p.src[i] = 0u;
    p.dst[i] = 0u;
  }
  p.family = 0u;
  if (ip == XG_PKT_IPV4 && xg_inside(p, l3_offset, 20u)) {
    p.family = 4u;
    p.src[0] = xg_view32(p, l3_offset + 12u);
    p.dst[0] = xg_view32(p, l3_offset + 16u);
  } else if (ip == XG_PKT_IPV6 && xg_inside(p, l3_offset, 40u)) {
    p.family = 6u;
    for (u32 i = 0u; i < 4u; i++) {
      p.src[i] = xg_view32(p, l3_offset + 8u + i * 4u);
      p.dst[i] = xg_view32(p, l3_offset + 24u + i * 4u);
    }
  } else if (ip != 0u && !malformed) {
    return false;
  }

  p.has_ports = 0u;
  p.ports = 0u;
  if ((p.flags & XG_PKT_PORTS) != 0u) {
    if (xg_inside(p, l4_offset, 4u)) {
      p.has_ports = 1u;
      p.ports = xg_view32(p, l4_offset);
    } else if (!malformed) {
      return false;
    }
  }
  return true;
}

/* A verdict is a flow's verdict only where the packet has a flow: whole IP packets in good order. */
XG_FN bool xg_cacheable(xg_view p) {
  return p.family != 0u &&
         (p.flags & (XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT | XG_PKT_TRACKED | XG_PKT_MALFORMED)) == 0u;
}

/* rewrite: what the kernel is to do to the flow's later packets, XG_RES_REWRITE. */
XG_FN void xg_set_cache(xg_batch b, u32 body, xg_view p, u32 rewrite, XG_INOUT(xg_result) r) {
  if (b.image.v[body + XG_BODY_CACHE] != 0u && xg_cacheable(p)) {
    r.flags |= XG_RES_CACHE | (rewrite << 16);
    r.cache_ttl_ms = b.image.v[body + XG_BODY_TTL];
  }
}

/* Has the packet's addresses set, each as two words: bytes 0-3, and 4-5 in the low half; and, with
 * XG_EDIT_TTL in `sets`, its TTL, and the IPv4 header's checksum as it stands there. */
XG_FN void xg_set_edit(xg_batch b, xg_view p, u32 sets, u32 dst_0, u32 dst_1, u32 src_0, u32 src_1, u32 ttl,
                       u32 checksum, XG_INOUT(xg_result) r) {
  r.flags |= XG_RES_EDIT;
  if (!XG_IS_THERE(b.edits)) return;
  b.edits.v[p.number] = XG_QUAD(dst_0, (dst_1 & 0xffffu) | src_0 << 16, src_0 >> 16 | src_1 << 16,
                                checksum | ttl << 16 | sets << 24);
}

/* Has outer headers put in front of the packet, whose IP packet is so long then: those of a rewrite of the
 * generation's, with the flow's hash. */
XG_FN void xg_push(xg_batch b, xg_view p, u32 bytes, u32 ip_bytes, u32 outer, u32 flow_hash, u32 ether_type,
                   XG_INOUT(xg_result) r) {
  r.flags |= XG_RES_ADJUST;
  if (!XG_IS_THERE(b.adjusts)) return;
  b.adjusts.v[p.number] = XG_QUAD(bytes << 16, ip_bytes, outer | flow_hash << 16, ether_type);
}

/* Has the outer headers taken from the packet, all that stands in front of what it carries. */
XG_FN void xg_pop(xg_batch b, xg_view p, u32 bytes, u32 ip_bytes, u32 ether_type, XG_INOUT(xg_result) r) {
  r.flags |= XG_RES_ADJUST;
  if (!XG_IS_THERE(b.adjusts)) return;
  b.adjusts.v[p.number] = XG_QUAD(bytes, ip_bytes, 0u, ether_type);
}

/* Of a packet that is dropped: its sender is to be told how long an IP packet may be. */
XG_FN void xg_too_long(xg_batch b, xg_view p, u32 longest, XG_INOUT(xg_result) r) {
  r.flags |= XG_RES_TOO_LONG;
  if (!XG_IS_THERE(b.adjusts)) return;
  b.adjusts.v[p.number] = XG_QUAD(0u, 0u, 0u, longest << 16);
}

XG_FN xg_result xg_no_result() {
  xg_result r;
  r.verdict = XG_ABORTED;
  r.flags = 0u;
  r.cache_ttl_ms = 0u;
  r.detail = 0u;
  return r;
}

#endif
