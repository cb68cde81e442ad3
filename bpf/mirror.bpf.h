/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/mirror.bpf.h: what a mirror rule does to its packet: what the pipeline has said of the flow, where the
 * rule stands, or else a copy of the packet's first bytes into this CPU's ring (maps/mirror.h).
 *
 * The verdict acts here and not in front of the rules, as a flow's verdict from user space does: so rules
 * and limits ahead see every packet, whatever is remembered, and a verdict on a packet that the rules tell
 * by its TCP flags counts for no packet that they treat otherwise.
 */
#ifndef XDPGPU_BPF_MIRROR_H
#define XDPGPU_BPF_MIRROR_H

#include "bpf/flow.bpf.h"
#include "maps/mirror.h"

#define XG_MIRROR_NOTHING 0 /* the pipeline has seen enough of the flow, or cannot be reached */
#define XG_MIRROR_SHOWN 1
#define XG_MIRROR_DROP 2

/* A flow as a mirror's pipeline knows it. */
struct xg_watched {
  xg_flow_key key __attribute__((aligned(8))); /* with the pipeline in it */
  u32 hash;
  u32 generation;
};

/* The action that the pipeline's verdict on the flow names; XG_ABORTED if there is none. */
XG_INLINE u32 xg_mirror_verdict(const xg_config* settings, u32 queue, const struct xg_watched* flow,
                                u64 bytes) {
  struct xg_cached cached;
  if (queue >= settings->queues) return XG_ABORTED;
  const u32 shard = settings->queues + queue;
  const u64 generations = XG_GENERATIONS(flow->generation, flow->generation);
  if (!xg_flow_find(settings, shard, &flow->key, flow->hash, generations, &cached)) return XG_ABORTED;
  const u32 index = cached.index;
  xg_flow_stats* stats = bpf_map_lookup_elem(&flow_stats, &index);
  const u64 now = xg_coarse_ns();
  if (!stats || xg_flow_dead(&cached, stats, now)) return XG_ABORTED;
  stats->packets++;
  stats->bytes += bytes;
  stats->last_seen_ns = now;
  return cached.action;
}

/* Everything but the ticket. False if the packet cannot be read. */
XG_INLINE int xg_mirror_fill(xg_mirror_record* record, struct xdp_md* ctx, u32 limit, u32 length) {
  u32 bytes = length < limit ? length : limit;
  if (bytes < 1 || bytes > XG_MIRROR_BYTES) return 0;
  /* The same number, in a form in which Linux 6.1's verifier sees that it is 1 to 256; to it, not 0 is no
   * bound. */
  u32 less = bytes - 1;
  asm volatile("" : "+r"(less));
  bytes = (less & (XG_MIRROR_BYTES - 1)) + 1;
  if (bpf_xdp_load_bytes(ctx, 0, record->packet, bytes) != 0) return 0;
  record->captured = bytes;
  record->wire_length = length;
  record->queue = (u16)ctx->rx_queue_index;
  return 1;
}

/* The ring's next record, or NULL: it is full, or is not there. */
XG_INLINE xg_mirror_record* xg_mirror_slot(xg_mirror_state* state, u32 cpu, u32 slots) {
  const u64 head = state->head;
  if (head - state->consumed_seen >= slots) {
    const u64 consumed = XG_READ(state->consumed);
    if (head - consumed >= slots) {
      XG_WRITE(state->overruns, state->overruns + 1);
      return NULL;
    }
    state->consumed_seen = consumed;
  }
  const u32 index = cpu * slots + ((u32)head & (slots - 1));
  return bpf_map_lookup_elem(&mirror_rings, &index);
}

/* Counts the packet as an overrun where the ring is full. A CPU's ring has one producer, as XDP programs
 * are not interrupted by each other. */
XG_INLINE int xg_mirror_show(struct xdp_md* ctx, const xg_config* settings, const xg_packet* packet,
                             const struct xg_watched* flow, u32 pipeline, u32 length) {
  const u32 cpu = bpf_get_smp_processor_id();
  xg_mirror_state* state = bpf_map_lookup_elem(&mirror_state, &cpu);
  if (!state) return XG_MIRROR_NOTHING;
  xg_mirror_record* record = xg_mirror_slot(state, cpu, settings->mirror_slots);
  if (!record || !xg_mirror_fill(record, ctx, settings->mirror_bytes, length)) return XG_MIRROR_NOTHING;
  const u64 ticket = state->head + 1;
  record->port = (u8)settings->port;
  record->metadata.rx_time_ns = bpf_ktime_get_ns();
  record->metadata.generation = flow->generation;
  record->metadata.sequence = (u32)ticket;
  record->metadata.pipeline = (u16)pipeline;
  xg_metadata_from(&record->metadata, packet, flow->hash);
  record->key = flow->key;
  XG_WRITE_FENCE();
  XG_WRITE(record->ticket, ticket);
  XG_WRITE(state->head, ticket);
  return XG_MIRROR_SHOWN;
}

/* A function of its own for the verifier, which then need not follow it on each turn of the rule walk.
 * Returns one of XG_MIRROR_. */
__noinline int xg_mirror(struct xdp_md* ctx, const xg_packet* packet, u32 generation, u32 flow_hash,
                         u32 pipeline) {
  const u32 zero = 0;
  const xg_config* settings = bpf_map_lookup_elem(&config, &zero);
  if (!packet || !settings) return XG_MIRROR_NOTHING;
  const u32 length = (u32)xg_frame_bytes(ctx);
  struct xg_watched flow = {.key = packet->key, .hash = flow_hash, .generation = generation};
  flow.key.mirror = (u8)(pipeline + 1);
  if (xg_has_flow(packet)) {
    const u32 action = xg_mirror_verdict(settings, ctx->rx_queue_index, &flow, length);
    if (action == XG_DROP) return XG_MIRROR_DROP;
    if (action == XG_PASS) return XG_MIRROR_NOTHING;
  }
  if (XG_READ(settings->state) != XG_STATE_RUNNING) return XG_MIRROR_NOTHING;
  return xg_mirror_show(ctx, settings, packet, &flow, pipeline, length);
}

#endif
