/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/xdpgpu.bpf.c: the XDP program of one port: a packet's way through the kernel.
 *
 *   begin     take the policy in force; pass everything while starting or bypassed
 *   parse     once; what follows reads the parsed packet. What is malformed is dropped, unless the policy
 *             leaves it to the rules. The flow's hash and the search for its verdict come right behind
 *   control   ARP, neighbour discovery, DHCP, LACP, LLDP and STP pass within their rates, unless a rule names
 *             them
 *   router    if some pipeline routes: is it a packet that a router may send on?
 *   fragment  if the policy tracks them: a later one gets its first one's fate, a first one goes on as a
 *             packet with ports
 *   flow      does a verdict from user space speak for the packet's flow?
 *   rules     the first matching rule decides: pass, drop, limit, inspect, a program of the policy's own,
 *             which goes on in place of this one; else the default. A mirror on the way shows the packet to
 *             a compute device, and the packet goes on
 *   inspect   to the queue's AF_XDP socket, if its worker and device live and it has credit enough for the
 *             rule's priority; else on_failure or on_overload decides, and where it says `known`, the flow's
 *             verdict first
 *
 * Generic XDP is shown frames that the sender left for its device to cut. One that comes to a rule that
 * inspects, limits, mirrors or has a program, or to a flow verdict that sends it out, is cut by the kernel,
 * and its segments come here one by one (maps/control.h, XG_CUTTER); it has no other outcome then.
 *
 * Management rules are the first of the rules and so come behind the flow verdicts; nothing is lost by
 * that: a management packet is never inspected, so its flow has no verdict of the generation in force. What
 * might have been management's answer and is none may be inspected; no verdict on it is cached.
 *
 * A frame may be of several buffers: what is read or rewritten of it stands in the first one, and its length
 * is asked for. Who loads the program says where the interface's MTU needs that, to the program
 * (multi_buffer) and to drivers and libxdp (BPF_F_XDP_HAS_FRAGS): section "xdp" says nothing of it.
 */
#include "bpf/flow.bpf.h"
#include "bpf/fragments.bpf.h"
#include "bpf/rules.bpf.h"
#include "maps/router.h"

/* True for a control packet that no rule is to see. */
XG_INLINE int xg_passes_as_control(const struct xg_run* run) {
  return run->packet->control != XG_CONTROL_NONE && !xg_control_named(run->policy, run->packet) &&
         xg_control_conforms(run->ctx, run->slot, run->packet->control, run->packet->answer);
}

/* Counts a malformed packet; true if no rule is to see it. */
XG_INLINE int xg_refuses_malformed(const struct xg_run* run) {
  xg_add(&counters, XG_MALFORMED_COUNTER(run->packet->malformed), run->bytes);
  return run->policy->malformed == XG_DO_DROP;
}

/* Parses the packet, hashes its flow and looks for the flow's verdict: as XG_FOUND, 0 if there is none. A
 * function of its own for the verifier: the ways through the parser and the ways through the rest then add up
 * where they would multiply. All three in one, as calls are dear; and the verdict's line is on its way while
 * the rest looks whether it counts. xg_begin has zeroed the packet. */
__noinline u64 xg_parse_frame(struct xdp_md* ctx, xg_packet* packet, u32 length, u32 generation,
                              u32* flow_hash) {
  const u32 zero = 0;
  const xg_config* settings = bpf_map_lookup_elem(&config, &zero);
  if (!packet || !flow_hash || !settings) return 0;
  xg_parse_zeroed((void*)(long)ctx->data, (void*)(long)ctx->data_end, length, (u8)settings->port, packet);
  const u32 hash = xg_flow_hash(&packet->key, &settings->flow_keys);
  *flow_hash = hash;
  return xg_flow_found(settings, ctx->rx_queue_index, packet, hash, generation);
}

/* Likewise: packets pay for it only where some pipeline routes. */
__noinline int xg_look_as_router(struct xdp_md* ctx, xg_packet* packet, u64 mac) {
  if (!packet) return 0;
  xg_router_look((void*)(long)ctx->data, (void*)(long)ctx->data_end, mac, packet);
  return 0;
}

/* A fragment of a policy that follows them. */
XG_INLINE int xg_is_tracked(const struct xg_run* run) {
  return run->packet->flags & XG_PKT_FRAGMENT && run->policy->fragments == XG_DO_TRACK;
}

SEC("xdp")
int xdpgpu(struct xdp_md* ctx) {
  struct xg_run run;
  xg_packet packet;
  if (!xg_begin(&run, ctx, &packet)) return xg_finish(&run, XG_KERNEL_pass_bypass, XDP_PASS);

  const u64 found = xg_parse_frame(ctx, &packet, run.bytes, run.generation, &run.flow_hash);
  if (packet.flags & XG_PKT_MALFORMED && xg_refuses_malformed(&run))
    return xg_drop(&run, XG_KERNEL_drop_malformed);
  if (xg_passes_as_control(&run)) return xg_finish(&run, XG_KERNEL_pass_control, XDP_PASS);
  if (run.policy->routes) xg_look_as_router(ctx, &packet, XG_READ(run.config->mac));

  if (xg_is_tracked(&run)) {
    const int fate = xg_fragment_begin(ctx, &packet, run.generation);
    if (fate != XG_FATE_FIRST)
      return xg_fragment_finish(ctx, &packet, run.flow_hash, (u64)run.generation << 32 | run.slot, (u32)fate);
  }
  int action = XG_CONTINUE;
  if (found && !xg_is_special(&run)) {
    action = xg_flow_quick(&run, found);
    if (action == XG_INTRICATE) action = xg_flow_verdict_for(&run, run.generation, 0);
  }
  if (action == XG_CONTINUE) action = xg_rules(&run);
  if (packet.flags & XG_PKT_TRACKED) xg_fragment_end(&packet, run.generation, action);
  return action;
}

char _license[] SEC("license") = "Dual MIT/GPL";
