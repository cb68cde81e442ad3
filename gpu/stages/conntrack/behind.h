/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/conntrack/behind.h: what a packet brings to `conntrack`, with what the stages behind do with it.
 */
#ifndef XDPGPU_STAGES_CONNTRACK_BEHIND_H
#define XDPGPU_STAGES_CONNTRACK_BEHIND_H

#include "gpu/stages/conntrack/device.h"
#include "gpu/stages/fate.h"

XG_FN xg_touch xg_conntrack_touch(xg_batch b, xg_way way, xg_view p, u32) {
  xg_touch t = xg_ct_touch(b, way.body, p);
  u32 mode = b.image.v[way.body + XG_CT_MODE];
  u32 fate = XG_FATE_UNDECIDED;
  if (xg_ct_asks_fate(mode, t))
    fate = (mode & XG_BEHIND_ASKS_EACH) != 0u ? xg_fate(b, p, way.position) : XG_BEHIND_FATE(mode);
  if (t.tag != XG_UNTRACKED) t.facts |= fate << 5;
  return t;
}

#endif
