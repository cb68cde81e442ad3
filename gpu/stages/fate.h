/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/fate.h: what the stages behind one do with a packet. Included by gpu/stages/list.h alone, which
 * defines xg_stage().
 */
#ifndef XDPGPU_STAGES_FATE_H
#define XDPGPU_STAGES_FATE_H

/* A packet's fate behind the stage at `position`, as far as no table is asked. For those few that it matters
 * of, where it is not the same for all (XG_BEHIND_ASKS_EACH). */
XG_SELDOM u32 xg_fate(xg_batch b, xg_view p, u32 position) {
  u32 pipeline = b.image.v[XG_IMAGE_TABLE_AT] + p.pipeline * XG_PIPELINE_WORDS;
  u32 stages = b.image.v[pipeline];
  u32 count = b.image.v[pipeline + 1u];
  /* Nothing is decided yet. */
  b.edits = XG_HANDLE(xg_quads, u64(0));
  b.adjusts = XG_HANDLE(xg_quads, u64(0));
  b.alerts = XG_HANDLE(xg_quads, u64(0));
  b.patches = XG_HANDLE(xg_quads, u64(0));
#ifndef XG_GLSL
  b.events = XG_HANDLE(xg_quads, u64(0));
#endif
  for (u32 at = position + 1u; at < count; at++) {
    u32 kind = b.image.v[stages + at * 2u];
    if (kind >= XG_KIND_STATEFUL) return XG_FATE_UNDECIDED;
    xg_result unused = xg_no_result();
    u32 action = XG_VERDICT_ACTION(xg_stage(b, kind, b.image.v[stages + at * 2u + 1u], p, unused));
    if (action == XG_NEXT) continue;
    if (action == XG_PASS) return XG_FATE_TO_HOST;
    return action == XG_TX || action == XG_REDIRECT ? XG_FATE_SENT_ON : XG_FATE_DROPPED;
  }
  return XG_FATE_TO_HOST;
}

#endif
