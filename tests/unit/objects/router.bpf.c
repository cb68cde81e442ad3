/* SPDX-License-Identifier: MIT
 *
 * A router of IPv4 and IPv6: sends packets on by the routes that bpf_fib_lookup knows, and leaves to the host
 * all that has no route, no neighbour, or is at its last hop.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define AF_INET 2
#define AF_INET6 10

SEC("xdp")
int router(struct xdp_md* ctx) {
  void* const end = (void*)(long)ctx->data_end;
  struct ethhdr* const eth = (void*)(long)ctx->data;
  struct iphdr* const ip = (void*)(eth + 1);
  struct ipv6hdr* const ip6 = (void*)(eth + 1);
  struct bpf_fib_lookup route = {};
  if ((void*)(eth + 1) > end) return XDP_PASS;
  if (eth->h_proto == bpf_htons(ETH_P_IP)) {
    if ((void*)(ip + 1) > end || ip->ttl <= 1) return XDP_PASS;
    route.family = AF_INET;
    route.tos = ip->tos;
    route.l4_protocol = ip->protocol;
    route.tot_len = bpf_ntohs(ip->tot_len);
    route.ipv4_src = ip->saddr;
    route.ipv4_dst = ip->daddr;
  } else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
    if ((void*)(ip6 + 1) > end || ip6->hop_limit <= 1) return XDP_PASS;
    route.family = AF_INET6;
    route.l4_protocol = ip6->nexthdr;
    route.tot_len = bpf_ntohs(ip6->payload_len) + sizeof(*ip6);
    __builtin_memcpy(route.ipv6_src, &ip6->saddr, 16);
    __builtin_memcpy(route.ipv6_dst, &ip6->daddr, 16);
  } else {
    return XDP_PASS;
  }
  route.ifindex = ctx->ingress_ifindex;
  switch (bpf_fib_lookup(ctx, &route, sizeof(route), 0)) {
    case BPF_FIB_LKUP_RET_SUCCESS:
      break;
    case BPF_FIB_LKUP_RET_BLACKHOLE:
      return XDP_DROP;
    default:
      return XDP_PASS;
  }
  if (route.family == AF_INET) {
    __u32 sum = ip->check + bpf_htons(0x0100);
    ip->check = (__u16)(sum + (sum >= 0xffff));
    ip->ttl--;
  } else {
    ip6->hop_limit--;
  }
  __builtin_memcpy(eth->h_dest, route.dmac, ETH_ALEN);
  __builtin_memcpy(eth->h_source, route.smac, ETH_ALEN);
  return bpf_redirect(route.ifindex, 0);
}

char LICENSE[] SEC("license") = "GPL";
