/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/apply_many.h: a set's packets, many at a time, by a device whose threads come in warps
 * (gpu/stages/warp.h). Stages to whose sets many packets come have a way of their own for that (trait
 * apply_many): xg_NAME_apply_many() in their folder's apply_many.h. Other stages' packets are taken one by
 * one.
 */
#ifndef XDPGPU_STAGES_APPLY_MANY_H
#define XDPGPU_STAGES_APPLY_MANY_H

#include "gpu/stages/list_many.h"
#include "gpu/stages/pipeline.h"

/* Applies the lanes' packets, in their order; `has`: this lane has one. -> its outcome. What is in the cache
 * then is for the next call, or for xg_write_back(). */
template <class Warp>
XG_WARP_FN u32 xg_apply_lanes(Warp& warp, xg_batch b, bool has, u32 kind, u32 body, const xg_touch& t,
                              XG_INOUT(xg_record_cache) cache) {
  u32 lane = warp.lane();
  u32 outcome = 0u;
  for (u32 left = warp.ballot(has); left != 0u;) {
    u32 first = XG_LOWEST_BIT(left);
    u32 done = 0u;
    u32 its_kind = warp.from(kind, first);
    if (xg_stage_applies_many(its_kind)) {
      /* Other sets' packets do not matter. */
      u32 its_body = warp.from(body, first);
      u32 elsewhere = (its_body ^ body) | (warp.from(t.set, first) ^ t.set);
      u32 peers = warp.ballot(has && elsewhere == 0u) & left;
      done = xg_stage_apply_many(warp, b, its_kind, its_body, t, peers, cache, outcome);
    }
    if (done == 0u) {
      xg_write_back(warp, b, cache);
      if (lane == first) outcome = xg_stage_apply(b, kind, body, t);
      warp.sync();
      done = 1u << first;
    }
    left &= ~done;
  }
  return outcome;
}

#endif
