/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_record.h: what a run keeps that is ahead of its turn (gpu/stages/program_ahead.h). Of
 * gpu/stages/program_code.h.
 */
#ifndef XDPGPU_STAGES_PROGRAM_RECORD_H
#define XDPGPU_STAGES_PROGRAM_RECORD_H

#include "gpu/stages/program_numbers.h"
#include "gpu/stages/program_record_layout.h"

#ifndef XG_PROGRAM_IN_BUFFER

/* Bits of XG_PROGRAM_AHEAD_HOW. */
#define XG_PROGRAM_HAS_FOUND 1u
#define XG_PROGRAM_HAS_MISSED 2u
#define XG_PROGRAM_HAS_PUT 4u
#define XG_PROGRAM_HAS_ASKED 8u    /* by its key: key_hash is known */
#define XG_PROGRAM_HAS_NO_ROOM 16u /* for what it counts: it turns back when it is over */

XG_FN bool xg_program_only_found(u32 how) {
  return (how & (XG_PROGRAM_HAS_FOUND | XG_PROGRAM_HAS_PUT)) == XG_PROGRAM_HAS_FOUND;
}
/* Nothing is known of the run. */
XG_FN void xg_program_keep_nothing(XG_PROGRAM_MACHINE) {
  m.ahead_how = 0u;
  m.ahead_counted = 0u;
}
/* The run is to be in its turn. */
XG_FN void xg_program_turn_back(XG_PROGRAM_MACHINE) { m.fault = XG_PROGRAM_KEY_FOUND; }
/* What is added to `bytes` of the maps' memory, from word `index` on. */
XG_FN void xg_program_count_ahead(XG_PROGRAM_MACHINE, u32 index, u32 bytes, u64 by) {
  if (m.ahead_counted == XG_PROGRAM_AHEAD_MOST_COUNTS) {
    m.ahead_how |= XG_PROGRAM_HAS_NO_ROOM;
    return;
  }
  const u32 at = XG_PROGRAM_AHEAD_COUNTS + 4u * m.ahead_counted;
  m.ahead.v[at] = index;
  m.ahead.v[at + 1u] = bytes;
  m.ahead.v[at + 2u] = xg_program_low(by);
  m.ahead.v[at + 3u] = u32(by >> 32);
  m.ahead_counted++;
}

/* The record's answer holds: what it has of counts is added. */
XG_FN void xg_program_count_up(xg_state record, xg_state state) {
  for (u32 i = 0u; i < record.v[XG_PROGRAM_AHEAD_COUNTED]; i++) {
    const u32 at = XG_PROGRAM_AHEAD_COUNTS + 4u * i, index = record.v[at];
    if (record.v[at + 1u] == 8u) {
      const u64 by = (u64(record.v[at + 3u]) << 32) | u64(record.v[at + 2u]);
      XG_ADD64(state, index, by);
    } else {
      XG_ADD(state, index, record.v[at + 2u]);
    }
  }
}

#endif

#endif
