/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/inspect.bpf.h: handing a packet to user space: is a worker alive, has it credit, in which order,
 * with which metadata.
 */
#ifndef XDPGPU_BPF_INSPECT_H
#define XDPGPU_BPF_INSPECT_H

#include "bpf/run.bpf.h"

#define XG_ADMIT_TRIES 8

/* Takes one credit and with it the packet's place in the queue's order. A queue's packets come on one
 * CPU in native mode; in generic mode several may be here at once, so the count moves by
 * compare-and-exchange and never beyond what the worker granted. */
XG_INLINE int xg_admit(xg_queue_state* state, u32* sequence) {
  for (int i = 0; i < XG_ADMIT_TRIES; i++) {
    const u32 admitted = XG_READ(state->admitted);
    if ((int)(XG_READ(state->granted) - admitted) <= 0) return 0;
    if (__sync_val_compare_and_swap(&state->admitted, admitted, admitted + 1) == admitted) {
      *sequence = admitted;
      return 1;
    }
  }
  return 0;
}

XG_INLINE int xg_alive(const struct xg_run* run, const xg_queue_state* state, u64 now) {
  const u64 beat = XG_READ(state->beat_ns);
  return beat && (long)(now - beat) <= (long)run->config->beat_timeout_ns;
}

/* Puts the metadata right in front of the frame, over whatever an earlier program left there. Where the
 * driver has no room for any, the packet goes without: the worker then parses for itself. */
XG_INLINE void xg_attach_metadata(const struct xg_run* run, u32 sequence, u32 pipeline, u64 now) {
  struct xdp_md* ctx = run->ctx;
  const int there = (int)((long)ctx->data - (long)ctx->data_meta);
  if (bpf_xdp_adjust_meta(ctx, there - (int)XG_METADATA_SIZE) != 0) return;
  xg_metadata* metadata = (void*)(long)ctx->data_meta;
  if ((void*)(metadata + 1) > (void*)(long)ctx->data) return;
  metadata->rx_time_ns = now;
  metadata->generation = run->generation;
  metadata->sequence = sequence;
  metadata->pipeline = (u16)pipeline;
  xg_metadata_from(metadata, &run->packet, run->flow_hash);
  if (xg_is_special(run)) metadata->flags |= XG_PKT_UNCACHED;
}

/* The packet's flow-hash slot waits for it: see xg_flow_in_order. */
XG_INLINE void xg_note_order(const struct xg_run* run, u32 sequence) {
  const u32 slot = run->queue * XG_ORDER_SLOTS + (run->flow_hash & (XG_ORDER_SLOTS - 1));
  u32* behind_last = bpf_map_lookup_elem(&order_slots, &slot);
  if (behind_last) XG_WRITE(*behind_last, sequence + 1);
}

/* The redirect is asked for before a credit is taken, as it says whether there is a socket at all; it
 * takes effect only when XDP_REDIRECT is returned. */
XG_INLINE int xg_inspect(struct xg_run* run, u32 pipeline) {
  const u32 queue = run->queue;
  u32 sequence;
  if (XG_READ(run->config->state) != XG_STATE_RUNNING || queue >= run->config->queues) return xg_fail(run);
  xg_queue_state* state = bpf_map_lookup_elem(&queue_state, &queue);
  const u64 now = bpf_ktime_get_ns();
  if (!state || !xg_alive(run, state, now)) return xg_fail(run);
  if (bpf_redirect_map(&xsks, queue, XDP_ABORTED) != XDP_REDIRECT) return xg_fail(run);
  if (!xg_admit(state, &sequence))
    return xg_finish_as(run, run->policy->on_overload, XG_KERNEL_pass_overload, XG_KERNEL_drop_overload);
  xg_note_order(run, sequence);
  xg_attach_metadata(run, sequence, pipeline, now);
  return xg_finish(run, XG_KERNEL_inspected, XDP_REDIRECT);
}

#endif
