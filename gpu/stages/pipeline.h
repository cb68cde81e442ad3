/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/pipeline.h: one packet's way through its pipeline. Each device's entry file calls
 * these for every descriptor of a batch. Packets do not depend on each other but in stages with tables, where
 * those of one set have to be taken in their order (gpu/stages/table.h).
 */
#ifndef XDPGPU_STAGES_PIPELINE_H
#define XDPGPU_STAGES_PIPELINE_H

#include "gpu/stages/inner.h"
#include "gpu/stages/inspection.h"
#include "gpu/stages/list.h"

/* Ends a packet's way by the action of the stage that it stands at. A packet that a table has let go on is
 * not the last of its flow that the table is to see: only a drop holds for those that follow. */
XG_FN void xg_end(xg_batch b, u32 pipeline, u32 action, XG_INOUT(xg_way) way, XG_INOUT(xg_result) r) {
  u32 number = way.position + (way.position > b.image.v[pipeline + XG_PIPELINE_TWICE] ? 0u : 1u);
  r.verdict = action | (number << 8);
  way.kind = 0u;
  if (way.position > b.image.v[pipeline + 2u] && XG_VERDICT_ACTION(action) != XG_DROP) {
    r.flags &= ~(XG_RES_CACHE | 0xffff0000u);
    r.cache_ttl_ms = 0u;
  }
}

/* From the stage at way.position on to the next one with a table, or to the packet's end. A packet that the
 * host sends meets those alone that follow connections. */
XG_FN void xg_advance(xg_batch b, xg_view p, XG_INOUT(xg_way) way, XG_INOUT(xg_result) r) {
  u32 pipeline = b.image.v[XG_IMAGE_TABLE_AT] + p.pipeline * XG_PIPELINE_WORDS;
  u32 stages = b.image.v[pipeline];
  u32 count = b.image.v[pipeline + 1u];
  bool leaves = (p.flags & XG_PKT_EGRESS) != 0u;
  for (; way.position < count; way.position++) {
    way.kind = b.image.v[stages + way.position * 2u];
    way.body = b.image.v[stages + way.position * 2u + 1u];
    if (leaves && !xg_stage_sees_egress(way.kind)) continue;
    if (way.kind >= XG_KIND_STATEFUL) return;
    u32 action = xg_stage(b, way.kind, way.body, p, r);
    if (XG_VERDICT_ACTION(action) != XG_NEXT) {
      xg_end(b, pipeline, action, way, r);
      return;
    }
  }
  way.kind = 0u;
  r.verdict = XG_PASS;
}

/* The same of a packet that has met no table yet. Where it comes to its pipeline's end undecided, that is an
 * answer, too, which may be cached. Behind tables there is none such: their kernels do without this. */
XG_FN void xg_set_out(xg_batch b, xg_view p, XG_INOUT(xg_way) way, XG_INOUT(xg_result) r) {
  xg_advance(b, p, way, r);
  /* A stage that decides says its number beside the action. */
  if (way.kind != 0u || r.verdict != XG_PASS || (p.flags & XG_PKT_EGRESS) != 0u) return;
  u32 pipeline = b.image.v[XG_IMAGE_TABLE_AT] + p.pipeline * XG_PIPELINE_WORDS;
  xg_set_cache(b, pipeline + XG_PIPELINE_UNDECIDED, p, XG_REWRITE_NONE, r);
}

/* Of a packet that stands at a table: which one that is. */
XG_FN void xg_resume(xg_batch b, xg_view p, XG_INOUT(xg_way) way) {
  u32 stage = b.image.v[b.image.v[XG_IMAGE_TABLE_AT] + p.pipeline * XG_PIPELINE_WORDS] + way.position * 2u;
  way.kind = b.image.v[stage];
  way.body = b.image.v[stage + 1u];
}

/* After the table's answer to the packet: on to the next stage with a table, or to its end. */
XG_FN void xg_settle(xg_batch b, xg_view p, u32 outcome, XG_INOUT(xg_way) way, XG_INOUT(xg_result) r) {
  u32 action = xg_stage_settle(b, way.kind, way.body, outcome, p, r);
  if (XG_VERDICT_ACTION(action) != XG_NEXT && (p.flags & XG_PKT_EGRESS) == 0u) {
    xg_end(b, b.image.v[XG_IMAGE_TABLE_AT] + p.pipeline * XG_PIPELINE_WORDS, action, way, r);
    return;
  }
  way.position++;
  xg_advance(b, p, way, r);
}

/* After an inspection, for its last part: on to the packet's end. */
XG_FN void xg_conclude(xg_batch b, xg_view p, xg_state f, XG_INOUT(xg_way) way, XG_INOUT(xg_result) r) {
  u32 action = xg_stage_conclude(b, way.kind, way.body, p, f, r);
  if (XG_VERDICT_ACTION(action) != XG_NEXT) {
    xg_end(b, b.image.v[XG_IMAGE_TABLE_AT] + p.pipeline * XG_PIPELINE_WORDS, action, way, r);
    return;
  }
  way.position++;
  xg_advance(b, p, way, r);
}

/* The way of a packet that stands at a stage: its first one, 0. */
XG_FN xg_way xg_way_from(u32 position) {
  xg_way way;
  way.position = position;
  way.kind = 0u;
  way.body = 0u;
  return way;
}

/* Packet i, by its outer headers: xg_look_inside() has to follow. False: it is not to be judged, the result
 * is xg_no_result(). */
XG_FN bool xg_begin(xg_batch b, u32 i, XG_INOUT(xg_view) p) {
  /* The later buffers of a packet: its answer stands at the first one. */
  if (i > 0u && (b.descriptors.v[i - 1u].flags & XG_DESC_MORE) != 0u) return false;
  return xg_view_packet(b, i, b.descriptors.v[i], p);
}

/* Bytes of the packet that begins at descriptor i. */
XG_FN u32 xg_packet_bytes(xg_batch b, u32 i) {
  u32 bytes = b.descriptors.v[i].length;
  for (u32 at = i; at + 1u < b.count && (b.descriptors.v[at].flags & XG_DESC_MORE) != 0u; at++)
    bytes += b.descriptors.v[at + 1u].length;
  return bytes;
}

/* The stages of a pipeline without tables, from number `first` on. */
XG_FN xg_result xg_go_on(xg_batch b, u32 first, xg_view p) {
  xg_result r = xg_no_result();
  xg_way way = xg_way_from(first);
  xg_set_out(b, p, way, r);
  if (way.kind != 0u) r = xg_no_result();
  return r;
}

/* Of a pipeline without tables. p: what was seen of the packet, for whoever publishes the verdict; only where
 * one is to be cached. */
XG_FN xg_result xg_decide(xg_batch b, u32 i, XG_INOUT(xg_view) p) {
  if (!xg_begin(b, i, p)) return xg_no_result();
  xg_look_inside(b, p);
  return xg_go_on(b, 0u, p);
}

#endif
