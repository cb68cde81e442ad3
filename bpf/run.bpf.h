/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/run.bpf.h: what one run of the program knows about its packet, and how it ends: each packet is
 * counted once as received and once under the outcome that it is finished with.
 */
#ifndef XDPGPU_BPF_RUN_H
#define XDPGPU_BPF_RUN_H

#include "bpf/maps.bpf.h"
#include "bpf/memory.bpf.h"
#include "maps/hash.h"
#include "maps/parse.h"

/* Set before loading: 1 where frames may be of several buffers, which have to be asked for their length. To
 * the verifier it is a constant, and the program of an ordinary MTU makes no such call. */
const volatile u32 multi_buffer = 0;

#define XG_CONTINUE (-1) /* not finished: go on to the next step */

struct xg_run {
  struct xdp_md* ctx;
  const xg_config* config;
  const xg_policy* policy;
  u32 generation; /* of the policy in force when the packet came; with its slot from one 64-bit load */
  u32 flow_hash;  /* of packets that have a flow or are inspected */
  u32 bytes;      /* of the whole frame, in all its buffers */
  u16 slot;
  u16 queue; /* an interface has 4,096 at most. Narrow, as the stack of all calls together is full */
  xg_packet* packet;
};

XG_INLINE u64 xg_frame_bytes(struct xdp_md* ctx) {
  return multi_buffer ? bpf_xdp_get_buff_len(ctx) : (u64)((long)ctx->data_end - (long)ctx->data);
}

XG_INLINE void xg_add(void* map, u32 index, u64 bytes) {
  xg_counter* counter = bpf_map_lookup_elem(map, &index);
  if (!counter) return;
  counter->packets++;
  counter->bytes += bytes;
}

XG_INLINE int xg_finish(const struct xg_run* run, enum xg_kernel_reason reason, int action) {
  xg_add(&counters, reason, run->bytes);
  return action;
}

_Static_assert(XG_KERNEL_would_drop_failure - XG_KERNEL_would_drop_flow ==
                   XG_KERNEL_drop_failure - XG_KERNEL_drop_flow,
               "what would be dropped is counted in the order of what is");

/* For the reasons to drop that the policy has. audit: 1 lets the packet go, and counts that. */
XG_INLINE int xg_drop_unless(const struct xg_run* run, u32 audit, enum xg_kernel_reason reason) {
  if (audit) return xg_finish(run, reason + XG_KERNEL_would_drop_flow - XG_KERNEL_drop_flow, XDP_PASS);
  return xg_finish(run, reason, XDP_DROP);
}
XG_INLINE int xg_drop(const struct xg_run* run, enum xg_kernel_reason reason) {
  return xg_drop_unless(run, run->policy->audit, reason);
}

/* For the settings that say pass or drop. */
XG_INLINE int xg_finish_as(const struct xg_run* run, u32 what, enum xg_kernel_reason passed,
                           enum xg_kernel_reason dropped) {
  return what & XG_DO_DROP ? xg_drop(run, dropped) : xg_finish(run, passed, XDP_PASS);
}

/* CLOCK_MONOTONIC in a tick's resolution, late by another one at most. Of the coarse clock, which moves by
 * ticks, a CPU asks once a tick: the number of the tick is one load, the clock a call into the kernel. */
XG_INLINE u64 xg_coarse_ns(void) {
  const u32 zero = 0;
  const u64 tick = bpf_jiffies64();
  struct xg_clock* clock = bpf_map_lookup_elem(&clocks, &zero);
  if (!clock) return bpf_ktime_get_coarse_ns();
  if (clock->tick != tick) {
    clock->ns = bpf_ktime_get_coarse_ns();
    clock->tick = tick;
  }
  return clock->ns;
}

/* Nothing is known of the packet. */
XG_INLINE int xg_fail(const struct xg_run* run) {
  return xg_finish_as(run, run->policy->on_failure, XG_KERNEL_pass_failure, XG_KERNEL_drop_failure);
}

/* Does what beat then still live? */
XG_INLINE int xg_beats(const struct xg_run* run, u64 beat, u64 now) {
  return beat && (long)(now - beat) <= (long)run->config->beat_timeout_ns;
}
XG_INLINE int xg_worker_lives(const struct xg_run* run, const xg_queue_state* state, u64 now) {
  return xg_beats(run, XG_READ(state->beat_ns), now);
}
XG_INLINE int xg_device_lives(const struct xg_run* run, const xg_queue_state* state, u64 now) {
  return xg_beats(run, XG_READ(state->device_beat_ns), now);
}

/* Do the rules treat this packet unlike the others of its connection, by its TCP flags? */
XG_INLINE int xg_is_special(const struct xg_run* run) {
  if (!(run->packet->flags & XG_PKT_TCP)) return 0;
  const u8 flags = run->packet->tcp_flags;
  return run->policy->tcp_special[(flags >> 6) & 3] >> (flags & 63) & 1;
}

/* Too long for a frame of user space's, and for other ports? Only generic XDP meets such. */
XG_INLINE int xg_is_uncut(const struct xg_run* run) {
  const u32 most = XG_READ(run->config->most_bytes);
  return most && run->bytes > most;
}
#define XG_CUTTER_MOST \
  (65535 + 14) /* the pair's MTU; longer ones the kernel would lose behind the redirect */

/* Its segments come in by themselves. */
XG_INLINE int xg_cut(const struct xg_run* run) {
  if (run->bytes > XG_CUTTER_MOST) return xg_finish(run, XG_KERNEL_error_too_long, XDP_DROP);
  if (bpf_redirect_map(&tx_ports, XG_CUTTER, XDP_ABORTED) != XDP_REDIRECT) return xg_fail(run);
  return xg_finish(run, XG_KERNEL_cut, XDP_REDIRECT);
}

/* Takes the policy in force and counts the packet. False if there is nothing to decide with. */
XG_INLINE int xg_begin(struct xg_run* run, struct xdp_md* ctx, xg_packet* packet) {
  const u32 zero = 0;
  __builtin_memset(packet, 0, sizeof(*packet));
  run->ctx = ctx;
  run->packet = packet;
  run->flow_hash = 0;
  run->bytes = xg_frame_bytes(ctx);
  run->queue = ctx->rx_queue_index;
  xg_add(&counters, XG_KERNEL_received, run->bytes);
  run->config = bpf_map_lookup_elem(&config, &zero);
  if (!run->config) return 0;
  const u64 active = XG_READ(run->config->active);
  run->generation = XG_ACTIVE_GENERATION(active);
  run->slot = XG_ACTIVE_SLOT(active);
  const u32 slot = run->slot;
  run->policy = bpf_map_lookup_elem(&policy, &slot);
  const u32 state = XG_READ(run->config->state);
  return run->policy && run->generation && state != XG_STATE_STARTING && state != XG_STATE_BYPASS;
}

#endif
