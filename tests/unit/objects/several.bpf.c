/* SPDX-License-Identifier: MIT
 *
 * Several programs, one of them no XDP program, one for packets of several buffers and one for a devmap's
 * entries; an array of maps; and tail calls.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct inner {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 8);
  __type(key, __u32);
  __type(value, __u64);
};
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
  __uint(max_entries, 2);
  __type(key, __u32);
  __array(values, struct inner);
} tables SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
  __uint(max_entries, 4);
  __type(key, __u32);
  __type(value, __u32);
} next SEC(".maps");

SEC("xdp")
int first(struct xdp_md* ctx) {
  bpf_tail_call(ctx, &next, ctx->rx_queue_index & 3);
  return XDP_PASS;
}

SEC("xdp/second")
int second(struct xdp_md* ctx) {
  __u32 key = 1;
  void* table = bpf_map_lookup_elem(&tables, &key);
  if (!table) return XDP_DROP;
  __u64* value = bpf_map_lookup_elem(table, &key);
  if (!value) return XDP_DROP;
  *value += 1;
  return XDP_TX;
}

SEC("xdp.frags")
int long_packets(struct xdp_md* ctx) { return bpf_xdp_adjust_head(ctx, 4) ? XDP_ABORTED : XDP_PASS; }

SEC("xdp/devmap")
int for_a_devmap(struct xdp_md* ctx) { return ctx->egress_ifindex ? XDP_PASS : XDP_DROP; }

SEC("tc")
int for_tc(struct __sk_buff* skb) {
  bpf_tail_call(skb, &next, 0);
  return skb->len ? 0 : 2;
}

char LICENSE[] SEC("license") = "GPL";
