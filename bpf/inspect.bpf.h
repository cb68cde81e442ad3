/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/inspect.bpf.h: handing a packet to user space: are worker and device alive, is there credit, in which
 * order, with which metadata; and what the policy says where it cannot be handed over.
 */
#ifndef XDPGPU_BPF_INSPECT_H
#define XDPGPU_BPF_INSPECT_H

#include "bpf/flow.bpf.h"

#define XG_ADMIT_TRIES 8

/* What the rule says that inspects. */
struct xg_inspection {
  u32 rule; /* its index */
  u32 kept_since;
  u16 pipeline;
  u8 reserve;
  u8 uncached; /* 1: no verdict on the packet is its flow's (XG_RULE_ANSWER) */
};

/* Takes one credit and with it the packet's place in the queue's order, if more are left than are reserved
 * for packets of higher priority: so the least important are shed first, and where a worker falls behind, the
 * others still find the ring as empty as that. A queue's packets come on one CPU in native mode; in generic
 * mode several may be here at once, so the count moves by compare-and-exchange and never beyond what the
 * worker granted. */
XG_INLINE int xg_admit(xg_queue_state* state, u32 reserve, u32* sequence) {
  const int reserved = (int)(XG_READ(state->window) / 8 * reserve);
  for (int i = 0; i < XG_ADMIT_TRIES; i++) {
    const u32 admitted = XG_READ(state->admitted);
    if ((int)(XG_READ(state->granted) - admitted) <= reserved) return 0;
    if (__sync_val_compare_and_swap(&state->admitted, admitted, admitted + 1) == admitted) {
      *sequence = admitted;
      return 1;
    }
  }
  return 0;
}

/* Puts the metadata right in front of the frame, over whatever an earlier program left there. Where the
 * driver has no room for any, the packet goes without: the worker then parses for itself. Whether they are
 * there, and the worker need not read them. */
XG_INLINE int xg_attach_metadata(const struct xg_run* run, u32 sequence, const struct xg_inspection* by,
                                 u64 now) {
  struct xdp_md* ctx = run->ctx;
  const int there = (int)((long)ctx->data - (long)ctx->data_meta);
  if (bpf_xdp_adjust_meta(ctx, there - (int)XG_METADATA_SIZE) != 0) return 0;
  xg_metadata* metadata = (void*)(long)ctx->data_meta;
  if ((void*)(metadata + 1) > (void*)(long)ctx->data) return 0;
  metadata->rx_time_ns = now;
  metadata->generation = run->generation;
  metadata->sequence = sequence;
  metadata->pipeline = by->pipeline;
  xg_metadata_from(metadata, run->packet, run->flow_hash);
  if (by->uncached || xg_is_special(run)) metadata->flags |= XG_PKT_UNCACHED;
  if (run->policy->audit) metadata->flags |= XG_PKT_AUDIT;
  return !(run->packet->flags & XG_PKT_TRACKED);
}

/* The worker is told before it can see the packet, and after that was admitted: what it has not taken of
 * those admitted by then it looks at one by one. */
XG_INLINE void xg_note_exception(const struct xg_run* run) {
  const u32 queue = run->queue;
  xg_queue_state* state = bpf_map_lookup_elem(&queue_state, &queue);
  if (state) __sync_fetch_and_add(&state->exceptions, 1);
}

/* The packet's flow-hash slot waits for it: see xg_flow_in_order. */
XG_INLINE void xg_note_order(const struct xg_run* run, u32 sequence) {
  const u32 slot = run->queue * XG_ORDER_SLOTS + (run->flow_hash & (XG_ORDER_SLOTS - 1));
  u32* behind_last = bpf_map_lookup_elem(&order_slots, &slot);
  if (behind_last) XG_WRITE(*behind_last, sequence + 1);
}

enum xg_admission { XG_ADMITTED, XG_FAILED, XG_OVERLOADED };

/* The redirect is asked for before a credit is taken, as it says whether there is a socket at all; it
 * takes effect only when XDP_REDIRECT is returned. */
XG_INLINE enum xg_admission xg_ask(const struct xg_run* run, u32 reserve, u64 now, u32* sequence) {
  const u32 queue = run->queue;
  if (XG_READ(run->config->state) != XG_STATE_RUNNING || queue >= run->config->queues) return XG_FAILED;
  xg_queue_state* state = bpf_map_lookup_elem(&queue_state, &queue);
  if (!state || !xg_worker_lives(run, state, now) || !xg_device_lives(run, state, now)) return XG_FAILED;
  if (bpf_redirect_map(&xsks, queue, XDP_ABORTED) != XDP_REDIRECT) return XG_FAILED;
  return xg_admit(state, reserve, sequence) ? XG_ADMITTED : XG_OVERLOADED;
}

XG_INLINE void xg_count_shed(const struct xg_run* run, enum xg_admission why, u32 rule) {
  const u32 index = run->slot * XG_MAX_RULES + rule;
  xg_rule_shed* shed = bpf_map_lookup_elem(&rule_shed, &index);
  if (!shed) return;
  xg_counter* counter = why == XG_FAILED ? &shed->failure : &shed->overload;
  counter->packets++;
  counter->bytes += run->bytes;
}

/* The packet stays in the kernel: on_failure or on_overload decides. */
XG_INLINE int xg_stays_new(const struct xg_run* run, enum xg_admission why, u32 rule) {
  const u32 what = why == XG_FAILED ? run->policy->on_failure : run->policy->on_overload;
  xg_count_shed(run, why, rule);
  if (why == XG_FAILED) return xg_finish_as(run, what, XG_KERNEL_pass_failure, XG_KERNEL_drop_failure);
  return xg_finish_as(run, what, XG_KERNEL_pass_overload, XG_KERNEL_drop_overload);
}

/* Likewise, and where they say `known`, the flow's verdict first. */
XG_INLINE int xg_stays(const struct xg_run* run, enum xg_admission why, const struct xg_inspection* by) {
  const u32 what = why == XG_FAILED ? run->policy->on_failure : run->policy->on_overload;
  if (what & XG_DO_KNOWN) {
    const u32 oldest = by->kept_since ? by->kept_since : run->generation;
    const int action = xg_flow_verdict_for(run, oldest, XG_FLOW_LAST_WORD);
    if (action != XG_CONTINUE) return action;
  }
  return xg_stays_new(run, why, by->rule);
}

/* An admitted packet goes to user space. */
XG_INLINE int xg_hand_over(const struct xg_run* run, u32 sequence, const struct xg_inspection* by, u64 now) {
  xg_note_order(run, sequence);
  if (!xg_attach_metadata(run, sequence, by, now)) xg_note_exception(run);
  return xg_finish(run, XG_KERNEL_inspected, XDP_REDIRECT);
}

XG_INLINE int xg_inspect(const struct xg_run* run, const struct xg_inspection* by) {
  u32 sequence;
  const u64 now = bpf_ktime_get_ns();
  const enum xg_admission answer = xg_ask(run, by->reserve, now, &sequence);
  if (answer != XG_ADMITTED) return xg_stays(run, answer, by);
  return xg_hand_over(run, sequence, by, now);
}

#endif
