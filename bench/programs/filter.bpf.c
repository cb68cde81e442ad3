/* SPDX-License-Identifier: MIT
 *
 * bench/programs/filter.bpf.c: a packet filter that changes nothing: IPv4 from a source that the trie
 * `sources` holds is dropped, and so is TCP and UDP to a port that `ports` has. All else passes. Ports of
 * fragments are not looked at.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct prefix {
  __u32 length; /* bits */
  __u32 address;
};

struct {
  __uint(type, BPF_MAP_TYPE_LPM_TRIE);
  __uint(max_entries, 16384);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, struct prefix);
  __type(value, __u32);
} sources SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 16384);
  __type(key, __u16); /* as it stands in the header */
  __type(value, __u32);
} ports SEC(".maps");

SEC("xdp")
int filter(struct xdp_md* ctx) {
  void* const end = (void*)(long)ctx->data_end;
  struct ethhdr* const ethernet = (void*)(long)ctx->data;
  struct iphdr* const ip = (void*)(ethernet + 1);
  if ((void*)(ip + 1) > end || ethernet->h_proto != bpf_htons(ETH_P_IP)) return XDP_PASS;
  struct prefix source = {32, ip->saddr};
  if (bpf_map_lookup_elem(&sources, &source)) return XDP_DROP;
  if (ip->protocol != IPPROTO_UDP && ip->protocol != IPPROTO_TCP) return XDP_PASS;
  if (ip->frag_off & bpf_htons(0x3fff)) return XDP_PASS;
  /* Both headers begin with their ports. */
  struct udphdr* const udp = (void*)ip + ip->ihl * 4;
  if ((void*)(udp + 1) > end) return XDP_PASS;
  const __u16 port = udp->dest;
  return bpf_map_lookup_elem(&ports, &port) ? XDP_DROP : XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
