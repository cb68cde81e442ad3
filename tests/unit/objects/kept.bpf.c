/* SPDX-License-Identifier: MIT
 *
 * Of UDP over IPv4, maps of each kind that is kept in step with a device's: `mode`, which is only read and
 * says in its first entry whether the packet is dropped; `counts`, in which packets are counted by the lowest
 * bits of the port that they are to, on each CPU, and `sizes`, by a prefix of it; and, which are changed,
 * `last`, which has the longest datagram to each port, `recent`, which has the ports of late, and `known`,
 * which has what came to each of those of late.
 */
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 2);
  __type(key, __u32);
  __type(value, __u64);
} mode SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 16);
  __type(key, __u32);
  __type(value, __u64);
} counts SEC(".maps");

struct prefix {
  __u32 length;
  __be16 port;
  __u16 zero;
};
struct packets_and_name {
  __u64 packets;
  __u64 name;
};
struct {
  __uint(type, BPF_MAP_TYPE_LPM_TRIE);
  __uint(max_entries, 64);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __type(key, struct prefix);
  __type(value, struct packets_and_name);
} sizes SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 64);
  __type(key, __u16); /* as people write it */
  __type(value, __u32);
} last SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 8);
  __type(key, __u16);
  __type(value, __u32);
} recent SEC(".maps");

struct packets_and_length {
  __u32 packets, longest;
};
struct {
  __uint(type, BPF_MAP_TYPE_LRU_HASH);
  __uint(max_entries, 256);
  __type(key, __u16);
  __type(value, struct packets_and_length);
} known SEC(".maps");

static __always_inline struct udphdr* udp_of(struct xdp_md* ctx) {
  void* const end = (void*)(long)ctx->data_end;
  struct ethhdr* const ethernet = (void*)(long)ctx->data;
  struct iphdr* const ip = (void*)(ethernet + 1);
  struct udphdr* const udp = (void*)(ip + 1);
  if ((void*)(udp + 1) > end || ethernet->h_proto != bpf_htons(ETH_P_IP) || ip->ihl != 5 ||
      ip->protocol != IPPROTO_UDP || ip->frag_off & bpf_htons(0x3fff))
    return 0;
  return udp;
}

static __always_inline int by_mode(void) {
  const __u32 first = 0;
  const __u64* const drops = bpf_map_lookup_elem(&mode, &first);
  return drops && *drops ? XDP_DROP : XDP_PASS;
}

SEC("xdp/counting")
int counting(struct xdp_md* ctx) {
  const struct udphdr* const udp = udp_of(ctx);
  if (!udp) return XDP_PASS;
  const __u32 index = bpf_ntohs(udp->dest) & 15;
  __u64* const count = bpf_map_lookup_elem(&counts, &index);
  if (count) *count += 1;
  const struct prefix port = {.length = 16, .port = udp->dest};
  struct packets_and_name* const all = bpf_map_lookup_elem(&sizes, &port);
  if (all) __sync_fetch_and_add(&all->packets, 1);
  return by_mode();
}

SEC("xdp/noting")
int noting(struct xdp_md* ctx) {
  const struct udphdr* const udp = udp_of(ctx);
  if (!udp) return XDP_PASS;
  const __u16 port = bpf_ntohs(udp->dest);
  const __u32 length = bpf_ntohs(udp->len);
  bpf_map_update_elem(&recent, &port, &length, BPF_ANY);
  const __u32* const before = bpf_map_lookup_elem(&last, &port);
  if (!before || *before < length) bpf_map_update_elem(&last, &port, &length, BPF_ANY);
  return by_mode();
}

SEC("xdp/knowing")
int knowing(struct xdp_md* ctx) {
  const struct udphdr* const udp = udp_of(ctx);
  if (!udp) return XDP_PASS;
  const __u32 index = bpf_ntohs(udp->dest) & 15;
  __u64* const count = bpf_map_lookup_elem(&counts, &index);
  if (count) *count += 1;
  const __u16 port = bpf_ntohs(udp->dest);
  const __u32 length = bpf_ntohs(udp->len);
  struct packets_and_length* const before = bpf_map_lookup_elem(&known, &port);
  if (before) {
    before->packets += 1;
    if (before->longest < length) before->longest = length;
  } else {
    const struct packets_and_length first = {.packets = 1, .longest = length};
    bpf_map_update_elem(&known, &port, &first, BPF_ANY);
  }
  return by_mode();
}

char LICENSE[] SEC("license") = "GPL";
