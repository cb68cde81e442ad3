/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/inspection.h: packets whose payload several threads look at together, for stages with the trait
 * inspects: a warp's of a GPU, or a workgroup's; on CPUs it is one. The packet comes to such a stage as to a
 * table, and waits there; it stands behind all tables. In three parts, behind each of which the threads wait
 * for each other:
 *
 *   xg_NAME_look(b, body, p, f, lane, lanes)   each lane its part
 *   xg_NAME_try(b, body, p, f, lane, lanes)    likewise, with what all have found
 *   xg_NAME_conclude(b, body, p, f, r)         one lane alone: the action word
 *
 * f: words that the lanes share, XG_INSPECTION_WORDS of them, and change by XG_ADD, XG_MIN and XG_SWAP_IF.
 * They are 0 at first, but for the stage's own XG_INSPECTION_ONES, which are ~0, and
 * XG_INSPECTION_CONNECTION: what `conntrack` in front has said of the packet (XG_CONNECTION_*).
 */
#ifndef XDPGPU_STAGES_INSPECTION_H
#define XDPGPU_STAGES_INSPECTION_H

#include "gpu/stages/view.h"

#define XG_INSPECTION_WORDS 160u
#define XG_INSPECTION_CONNECTION 3u
#define XG_INSPECTION_ONES 4u /* the first of them, and their number */
#define XG_INSPECTION_ONES_COUNT 7u

/* connection: the packet's xg_result.detail. */
XG_FN void xg_begin_inspection(xg_state f, u32 connection, u32 lane, u32 lanes) {
  for (u32 i = lane; i < XG_INSPECTION_WORDS; i += lanes) {
    u32 word = i == XG_INSPECTION_CONNECTION ? connection : 0u;
    f.v[i] = i - XG_INSPECTION_ONES < XG_INSPECTION_ONES_COUNT ? ~0u : word;
  }
}

#endif
