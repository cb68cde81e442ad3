/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bench/prefilter/loop.h: what the bench and its BPF loop share.
 */
#ifndef XDPGPU_BENCH_PREFILTER_LOOP_H
#define XDPGPU_BENCH_PREFILTER_LOOP_H

#include "maps/flow.h"

#define PREFILTER_PACKETS (1u << 19)      /* different packets a run, 48 bytes each */
#define PREFILTER_PREFIXES (1000000u + 1) /* and one for everything */

struct prefilter_packet {
  xg_flow_key key;
  u16 flags;
  u16 l4_index;
};
struct prefilter_key4 {
  u32 length;
  u8 address[4];
};
struct prefilter_key6 {
  u32 length;
  u8 address[16];
};

#endif
