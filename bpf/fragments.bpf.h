/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/fragments.bpf.h: fragments under "fragments": "track" (maps/fragments.h): the first one of a datagram
 * meets the rules with its ports, and what becomes of it becomes of the others, on whichever CPU they come.
 *
 * All of it in functions of their own: fragments are rare, and other packets pay one look at a flag.
 */
#ifndef XDPGPU_BPF_FRAGMENTS_H
#define XDPGPU_BPF_FRAGMENTS_H

#include "bpf/rules.bpf.h"
#include "maps/fragments.h"

XG_INLINE xg_fragment_bucket* xg_bucket_of(const xg_config* settings, const xg_flow_key* key) {
  const u32 index = xg_fragment_bucket_of(key, settings->hash_key[0], settings->hash_key[1]);
  return bpf_map_lookup_elem(&fragments, &index);
}

/* Looks a later fragment up, or notes a first one and makes a packet with ports of it. Returns one of
 * XG_FATE_; with XG_FATE_PASS, DROP, INSPECT and DIVERT the packet's `rule` is its first one's. */
__noinline int xg_fragment_begin(struct xdp_md* ctx, xg_packet* packet, u32 generation) {
  if (!packet) return XG_FATE_UNKNOWN;
  packet->rule = XG_FRAGMENT_NO_RULE;
  if (packet->flags & XG_PKT_MALFORMED) return XG_FATE_UNKNOWN; /* counted, and let on by the policy */
  const int later = packet->flags & XG_PKT_LATER_FRAGMENT;
  if (xg_fragment_hides(packet)) return XG_FATE_MALFORMED;
  /* An "atomic" fragment (RFC 6946) is a datagram of its own. */
  if (!later && !packet->fragment_more) {
    xg_track_first(packet);
    return XG_FATE_FIRST;
  }
  const u64 now = bpf_ktime_get_ns();
  const u32 zero = 0;
  const xg_config* settings = bpf_map_lookup_elem(&config, &zero);
  if (!settings) return XG_FATE_UNKNOWN;
  const u64 header = xg_fragment_header((void*)(long)ctx->data, (void*)(long)ctx->data_end, packet,
                                        settings->hash_key[0], settings->hash_key[1]);
  xg_fragment_bucket* bucket = xg_bucket_of(settings, &packet->key);
  if (!bucket) return XG_FATE_UNKNOWN;
  u32 fate;
  u16 rule = XG_FRAGMENT_NO_RULE;
  bpf_spin_lock(&bucket->lock);
  if (later)
    fate = xg_fragment_later(bucket->entries, &packet->key, generation, now, packet->fragment_offset, &rule);
  else
    fate = xg_fragment_first(bucket->entries, &packet->key, generation, now, header, packet->fragment_end);
  bpf_spin_unlock(&bucket->lock);
  packet->rule = rule;
  if (later) packet->flags |= XG_PKT_TRACKED;
  if (fate == XG_FATE_FIRST) xg_track_first(packet);
  if (fate == XG_FATE_MALFORMED) xg_parse_malformed(packet, XG_MALFORMED_fragment_differs);
  return (int)fate;
}

/* Says what has become of a first fragment. action: the program's. */
__noinline int xg_fragment_end(xg_packet* packet, u32 generation, int action) {
  if (!packet || !packet->fragment_more) return 0;
  xg_flow_key key;
  xg_fragment_key(packet, &key);
  const u32 zero = 0;
  const xg_config* settings = bpf_map_lookup_elem(&config, &zero);
  if (!settings) return 0;
  xg_fragment_bucket* bucket = xg_bucket_of(settings, &key);
  if (!bucket) return 0;
  const u64 now = bpf_ktime_get_ns();
  const int diverted = packet->rule != XG_FRAGMENT_NO_RULE && packet->rule & XG_FRAGMENT_DIVERTED;
  const u32 rule = diverted ? packet->rule & ~XG_FRAGMENT_DIVERTED : packet->rule;
  const u32 fate = action == XDP_PASS       ? XG_FATE_PASS
                   : action != XDP_REDIRECT ? XG_FATE_DROP
                   : diverted               ? XG_FATE_DIVERT
                                            : XG_FATE_INSPECT;
  bpf_spin_lock(&bucket->lock);
  xg_fragment_decide(bucket->entries, &key, generation, now, fate, rule);
  bpf_spin_unlock(&bucket->lock);
  return 0;
}

/* To the pipeline of its first one's rule, or past it. It has no flow that a verdict could speak for. */
XG_INLINE int xg_inspect_later(const struct xg_run* run, u32 index, u32 fate) {
  const u32 slot = run->slot;
  const struct xg_tables tables = {.slot = slot, .first = xg_chunk_at(slot, 0)};
  const xg_rule* rule = tables.first ? xg_rule_at(run, &tables, index) : NULL;
  if (!rule || rule->action != XG_RULE_INSPECT) return xg_fail(run);
  if (fate == XG_FATE_DIVERT) return xg_flow_redirect(run, rule->divert_port, XG_KERNEL_redirect_rule);
  u32 sequence;
  const u64 now = bpf_ktime_get_ns();
  const enum xg_admission answer = xg_ask(run, rule->reserve, now, &sequence);
  if (answer != XG_ADMITTED) return xg_stays_new(run, answer, index);
  const struct xg_inspection by = {.rule = index, .pipeline = rule->pipeline};
  return xg_hand_over(run, sequence, &by, now);
}

/* Finishes a fragment that is not a first one in good order. active: generation << 32 | slot. */
__noinline int xg_fragment_finish(struct xdp_md* ctx, xg_packet* packet, u32 flow_hash, u64 active,
                                  u32 fate) {
  const u32 zero = 0;
  struct xg_run run = {.ctx = ctx, .packet = packet, .flow_hash = flow_hash};
  if (!packet) return XDP_DROP;
  run.generation = XG_ACTIVE_GENERATION(active);
  run.slot = XG_ACTIVE_SLOT(active);
  const u32 slot = run.slot;
  run.config = bpf_map_lookup_elem(&config, &zero);
  run.policy = bpf_map_lookup_elem(&policy, &slot);
  if (!run.config || !run.policy) return XDP_DROP;
  run.queue = ctx->rx_queue_index;
  run.bytes = xg_frame_bytes(ctx);
  const u32 rule = packet->rule;
  if (fate == XG_FATE_MALFORMED) {
    xg_add(&counters, XG_MALFORMED_COUNTER(packet->malformed), run.bytes);
    if (run.policy->malformed == XG_DO_DROP) return xg_drop(&run, XG_KERNEL_drop_malformed);
    fate = XG_FATE_UNKNOWN;
  }
  if (fate == XG_FATE_UNKNOWN)
    return xg_finish_as(&run, run.policy->default_action, XG_KERNEL_pass_default, XG_KERNEL_drop_default);
  if (rule < run.policy->rule_count) xg_count_rule(&run, rule);
  if (fate == XG_FATE_INSPECT || fate == XG_FATE_DIVERT) return xg_inspect_later(&run, rule, fate);
  return xg_finish_as(&run, fate == XG_FATE_DROP ? XG_DO_DROP : XG_DO_PASS, XG_KERNEL_pass_fragment,
                      XG_KERNEL_drop_fragment);
}

#endif
