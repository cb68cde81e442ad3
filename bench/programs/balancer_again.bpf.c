/* SPDX-License-Identifier: MIT
 *
 * The load balancer of config/examples/balancer, which then takes its outer headers off again and puts the
 * frame's own one back: so the kernel can run it on the same packet many times in one system call.
 */
#include "config/examples/balancer/balancer.bpf.c"

SEC("xdp/again")
int again(struct xdp_md* ctx) {
  const struct ethhdr* const first = (void*)(long)ctx->data;
  if ((void*)(first + 1) > (void*)(long)ctx->data_end) return XDP_PASS;
  const struct ethhdr before = *first;
  const int action = balanced(ctx);
  if (action != XDP_TX) return action;
  const int outer = before.h_proto == bpf_htons(ETH_P_IP) ? sizeof(struct iphdr) : sizeof(struct ipv6hdr);
  if (bpf_xdp_adjust_head(ctx, outer)) return XDP_ABORTED;
  struct ethhdr* const own = (void*)(long)ctx->data;
  if ((void*)(own + 1) > (void*)(long)ctx->data_end) return XDP_ABORTED;
  *own = before;
  return action;
}
