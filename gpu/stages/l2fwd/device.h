/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/l2fwd/device.h: `l2fwd`, swaps the MAC addresses and sends the frame on.
 */
#ifndef XDPGPU_STAGES_L2FWD_DEVICE_H
#define XDPGPU_STAGES_L2FWD_DEVICE_H

#include "gpu/stages/view.h"

#define XG_L2FWD_ACTION 2u
#define XG_L2FWD_WORDS 3u

XG_FN u32 xg_l2fwd_decide(xg_batch b, u32 body, xg_view p, XG_INOUT(xg_result) r) {
  r.flags |= XG_RES_SWAP_MACS;
  xg_set_cache(b, body, p, XG_REWRITE_SWAP_MACS, r);
  return b.image.v[body + XG_L2FWD_ACTION];
}

#endif
