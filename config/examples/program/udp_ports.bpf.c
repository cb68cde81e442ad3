/* SPDX-License-Identifier: MIT
 *
 * Drops UDP to the ports that the map `ports` has, over IPv4 and IPv6, and lets all else go on. Headers
 * behind IPv6's own, and fragments, are not looked at. To be compiled by
 *
 *   clang -O2 -g -target bpf -c udp_ports.bpf.c -o udp_ports.bpf.o
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1024);
  __type(key, __u16); /* a port as people write it */
  __type(value, __u8);
} ports SEC(".maps");

SEC("xdp")
int drop_udp_ports(struct xdp_md* ctx) {
  void* const end = (void*)(long)ctx->data_end;
  struct ethhdr* const ethernet = (void*)(long)ctx->data;
  if ((void*)(ethernet + 1) > end) return XDP_PASS;
  struct udphdr* udp;
  if (ethernet->h_proto == bpf_htons(ETH_P_IP)) {
    struct iphdr* const ip = (void*)(ethernet + 1);
    if ((void*)(ip + 1) > end || ip->protocol != IPPROTO_UDP) return XDP_PASS;
    if (ip->frag_off & bpf_htons(0x3fff)) return XDP_PASS;
    udp = (void*)ip + ip->ihl * 4;
  } else if (ethernet->h_proto == bpf_htons(ETH_P_IPV6)) {
    struct ipv6hdr* const ip = (void*)(ethernet + 1);
    if ((void*)(ip + 1) > end || ip->nexthdr != IPPROTO_UDP) return XDP_PASS;
    udp = (void*)(ip + 1);
  } else {
    return XDP_PASS;
  }
  if ((void*)(udp + 1) > end) return XDP_PASS;
  const __u16 port = bpf_ntohs(udp->dest);
  return bpf_map_lookup_elem(&ports, &port) ? XDP_DROP : XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
