/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/pipeline.h: one packet's way through its pipeline. Each device's entry file calls
 * xg_run once for every descriptor of a batch; descriptors do not depend on each other.
 */
#ifndef XDPGPU_STAGES_PIPELINE_H
#define XDPGPU_STAGES_PIPELINE_H

#include "acl.h"
#include "l2fwd.h"
#include "load_balance.h"
#include "reputation.h"

XG_FN xg_result xg_no_result() {
  xg_result r;
  r.verdict = XG_ABORTED;
  r.flags = 0u;
  r.dst_mac[0] = 0u;
  r.dst_mac[1] = 0u;
  r.src_mac[0] = 0u;
  r.src_mac[1] = 0u;
  r.cache_ttl_ms = 0u;
  r.detail = 0u;
  return r;
}

XG_FN u32 xg_stage(xg_batch b, u32 kind, u32 body, xg_view p, XG_INOUT(xg_result) r) {
  if (kind == XG_KIND_ACL_BITS) return xg_stage_acl(b, body, p, r);
  if (kind == XG_KIND_LOAD_BALANCE) return xg_stage_load_balance(b, body, p, r);
  if (kind == XG_KIND_L2FWD) return xg_stage_l2fwd(b, body, p, r);
  if (kind == XG_KIND_REPUTATION) return xg_stage_reputation(b, body, p, r);
  return XG_ABORTED;
}

/* False: nothing is to be decided, the result is xg_no_result(). */
XG_FN bool xg_begin(xg_batch b, u32 i, XG_INOUT(xg_view) p) {
  /* The later buffers of a packet: its answer stands at the first one. */
  if (i > 0u && (b.descriptors.v[i - 1u].flags & XG_DESC_MORE) != 0u) return false;
  return xg_view_packet(b, b.descriptors.v[i], p);
}

/* The stages of the packet's pipeline from number `first` on. */
XG_FN xg_result xg_go_on(xg_batch b, u32 first, xg_view p) {
  xg_result r = xg_no_result();
  u32 pipeline = b.image.v[XG_IMAGE_TABLE_AT] + p.pipeline * 2u;
  u32 stages = b.image.v[pipeline];
  u32 count = b.image.v[pipeline + 1u];
  for (u32 s = first; s < count; s++) {
    u32 action = xg_stage(b, b.image.v[stages + s * 2u], b.image.v[stages + s * 2u + 1u], p, r);
    if (XG_VERDICT_ACTION(action) != XG_NEXT) {
      r.verdict = action | ((s + 1u) << 8);
      return r;
    }
  }
  r.verdict = XG_PASS;
  return r;
}

/* p: what was seen of the packet, for whoever publishes the verdict; only where one is to be cached. */
XG_FN xg_result xg_decide(xg_batch b, u32 i, XG_INOUT(xg_view) p) {
  if (!xg_begin(b, i, p)) return xg_no_result();
  return xg_go_on(b, 0u, p);
}

XG_FN void xg_run(xg_batch b, u32 i) {
  xg_view p;
  b.results.v[i] = xg_decide(b, i, p);
}

#endif
