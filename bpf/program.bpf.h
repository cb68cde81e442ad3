/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/program.bpf.h: going on with a program of the policy's own ("where": "kernel"): from here on that one
 * runs in place of this one, on the packet as it came, without metadata of ours, and what it answers is XDP's
 * to do.
 *
 * Nobody is told what it answers: so its packets' fragments are not followed, no flow has a verdict of it,
 * and what it drops or sends is counted by its own maps alone.
 */
#ifndef XDPGPU_BPF_PROGRAM_H
#define XDPGPU_BPF_PROGRAM_H

#include "bpf/run.bpf.h"

/* Where no program is, as must not happen, the packet is lost: it was to be judged, and nobody else can. */
XG_INLINE int xg_go_on(const struct xg_run* run, u32 number) {
  const u32 reason = XG_KERNEL_program;
  if (number < XG_MAX_PROGRAMS) {
    xg_add(&counters, reason, run->bytes);
    bpf_tail_call(run->ctx, &user_programs, run->slot * XG_MAX_PROGRAMS + number);
    xg_counter* counted = bpf_map_lookup_elem(&counters, &reason);
    if (counted) {
      counted->packets--;
      counted->bytes -= run->bytes;
    }
  }
  return xg_finish(run, XG_KERNEL_error_program, XDP_DROP);
}

#endif
