/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/exempt.bpf.h: what passes ahead of the rules, within bounds (maps/exempt.h): answers to management
 * flows that were seen, and control protocols at a rate of their own. Nothing here runs for other packets.
 */
#ifndef XDPGPU_BPF_EXEMPT_H
#define XDPGPU_BPF_EXEMPT_H

#include "bpf/run.bpf.h"

#define XG_LIMIT_TRIES 16

/* Generic cell rate algorithm (ITU-T I.371) on one 64-bit theoretical arrival time, moved by
 * compare-and-exchange: exact however many CPUs count at once, and nobody waits. */
XG_INLINE int xg_gcra(u64* tat, u64 now, u64 interval, u64 burst) {
  for (int i = 0; i < XG_LIMIT_TRIES; i++) {
    const u64 seen = XG_READ(*tat);
    const long ahead = (long)(seen - now);
    if (ahead > (long)burst) return 0;
    const u64 next = (ahead > 0 ? seen : now) + interval;
    if (__sync_val_compare_and_swap(tat, seen, next) == seen) return 1;
  }
  return 0;
}

#define XG_FOREIGN_TAT (1000000l << 8) /* 1 ms: more than CPUs' clocks and turns differ by */

/* Does one more packet conform to the share (a `parts`-th) of the rate? A time further ahead than the rate
 * lets it be is of another policy's, slower one; it is drawn nearer, to a bucket that is empty. */
XG_INLINE int xg_share_conforms(u64* tat, const xg_rate* rate, u64 parts) {
  const u64 now = bpf_ktime_get_ns() << 8;
  const u64 interval = rate->interval_ns * parts;
  const u64 less = rate->interval_ns * (parts - 1);
  const u64 burst = rate->burst_ns > less ? rate->burst_ns - less : 0;
  const u64 seen = XG_READ(*tat);
  const long beyond = (long)(seen - now) - (long)(burst + interval);
  if (beyond > XG_FOREIGN_TAT) __sync_val_compare_and_swap(tat, seen, now + burst);
  return xg_gcra(tat, now, interval, burst);
}

XG_INLINE int xg_count_exempt(u32 kind, int passes) {
  xg_exempt_counter* counter = bpf_map_lookup_elem(&exempt_counters, &kind);
  if (!counter) return passes;
  if (passes)
    counter->passed++;
  else
    counter->excess++;
  return passes;
}

/* The frame's source as xg_mac_number; 0: it has none. */
XG_INLINE u64 xg_sender(const struct xdp_md* ctx) {
  const u8* frame = (const u8*)(long)ctx->data;
  if (frame + 12 > (const u8*)(long)ctx->data_end) return 0;
  return xg_mac_number(frame + 6);
}

XG_INLINE int xg_is_gateway(u64 mac) {
  const u32 zero = 0;
  const xg_gateways* known = bpf_map_lookup_elem(&gateways, &zero);
  if (!known || mac == 0) return 0;
  int is = 0;
#pragma unroll
  for (u32 i = 0; i < XG_GATEWAYS; i++) is |= XG_READ(known->mac[i]) == mac;
  return is;
}

/* Is a control packet within its protocol's rate? A function of its own, for packets that few are. */
__noinline int xg_control_conforms(struct xdp_md* ctx, u32 slot, u32 kind, u32 answer) {
  if (kind >= XG_RATE_ANSWERS) return 0;
  const xg_policy* active = bpf_map_lookup_elem(&policy, &slot);
  xg_exempt_state* state = bpf_map_lookup_elem(&exempt_states, &kind);
  if (!active || !state) return 0;
  u32 at = kind;
  asm volatile("" : "+r"(at)); /* the mask is for the verifier, who loses sight of `kind` */
  const xg_rate* rate = &active->rates[at & 7];
  if (rate->interval_ns == XG_RATE_ALL) return xg_count_exempt(kind, 1);
  if (rate->interval_ns == XG_RATE_NONE) return xg_count_exempt(kind, 0);
  if (kind > XG_CONTROL_DHCP) /* between neighbours on one cable: there is nobody to tell apart */
    return xg_count_exempt(kind, xg_share_conforms(&state->tat[XG_SHARE_ALL], rate, 1));
  const u64 mac = xg_sender(ctx);
  if ((xg_is_gateway(mac) || bpf_map_lookup_elem(&management_senders, &mac)) &&
      xg_share_conforms(&state->tat[XG_SHARE_KNOWN], rate, 4))
    return xg_count_exempt(kind, 1);
  if (answer) return xg_count_exempt(kind, xg_share_conforms(&state->tat[XG_SHARE_ANSWERS], rate, 4));
  return xg_count_exempt(kind, xg_share_conforms(&state->tat[XG_SHARE_REQUESTS], rate, 2));
}

/* A packet that met a management entry in its own direction: its flow and its sender are written down. */
__noinline int xg_note_management(struct xdp_md* ctx, const xg_packet* packet) {
  if (!packet) return 0;
  const u64 now = bpf_ktime_get_coarse_ns();
  const u64 mac = xg_sender(ctx);
  if (!bpf_map_lookup_elem(&management_senders, &mac)) {
    const xg_management_sender first = {.first_seen_ns = now};
    bpf_map_update_elem(&management_senders, &mac, &first, BPF_ANY);
  }
  if (!xg_management_kind(packet, 0)) return 0;
  xg_management_flow flow;
  xg_management_flow_of(packet, 0, &flow);
  xg_management_seen* seen = bpf_map_lookup_elem(&management_flows, &flow);
  if (!seen) {
    const xg_management_seen first = {.seen_ns = now};
    bpf_map_update_elem(&management_flows, &flow, &first, BPF_ANY);
  } else if (now - XG_READ(seen->seen_ns) >= XG_MANAGEMENT_NOTED_NS) {
    XG_WRITE(seen->seen_ns, now);
  }
  return 1;
}

/* Does the packet, which a management entry turned around matches, answer a flow that was seen? Answers by
 * TCP show by their flags what they are, and pass at a rate where their flow is not known: it may stand from
 * before the attach, or its requests may come in where no program looks. */
__noinline int xg_is_answer(const xg_packet* packet, u32 slot) {
  if (!packet || !xg_management_kind(packet, 1)) return 0;
  const int tcp = (packet->flags & (XG_PKT_TCP | XG_PKT_FRAGMENT)) == XG_PKT_TCP;
  if (tcp && !xg_management_tcp_answer(packet->tcp_flags)) return 0;
  xg_management_flow flow;
  xg_management_flow_of(packet, 1, &flow);
  const xg_management_seen* seen = bpf_map_lookup_elem(&management_flows, &flow);
  if (seen && (long)(bpf_ktime_get_coarse_ns() - XG_READ(seen->seen_ns)) < (long)XG_MANAGEMENT_IDLE_NS)
    return 1;
  if (!tcp) return 0;
  const u32 kind = XG_RATE_ANSWERS;
  const xg_policy* active = bpf_map_lookup_elem(&policy, &slot);
  xg_exempt_state* state = bpf_map_lookup_elem(&exempt_states, &kind);
  if (!active || !state) return 0;
  const xg_rate* rate = &active->rates[XG_RATE_ANSWERS];
  if (rate->interval_ns == XG_RATE_ALL) return xg_count_exempt(kind, 1);
  if (rate->interval_ns == XG_RATE_NONE) return xg_count_exempt(kind, 0);
  return xg_count_exempt(kind, xg_share_conforms(&state->tat[XG_SHARE_ALL], rate, 1));
}

#endif
