/* SPDX-License-Identifier: MIT
 *
 * Maps whose first values are other things of the object: programs and maps.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

int last(struct xdp_md* ctx);

struct {
  __uint(type, BPF_MAP_TYPE_PROG_ARRAY);
  __uint(max_entries, 4);
  __type(key, __u32);
  __array(values, int(struct xdp_md*));
} next SEC(".maps") = {.values = {[2] = (void*)&last}};

struct inner {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 8);
  __type(key, __u32);
  __type(value, __u64);
} one SEC(".maps");
struct {
  __uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
  __uint(max_entries, 2);
  __type(key, __u32);
  __array(values, struct inner);
} tables SEC(".maps") = {.values = {[1] = &one}};

SEC("xdp")
int last(struct xdp_md* ctx) {
  (void)ctx;
  return XDP_TX;
}

SEC("xdp")
int first(struct xdp_md* ctx) {
  bpf_tail_call(ctx, &next, 2);
  return XDP_PASS;
}

SEC("xdp")
int table(struct xdp_md* ctx) {
  __u32 key = 1;
  (void)ctx;
  return bpf_map_lookup_elem(&tables, &key) ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
