/* SPDX-License-Identifier: MIT
 *
 * A program that needs helpers and maps which no device has.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
  __uint(type, BPF_MAP_TYPE_QUEUE);
  __uint(max_entries, 16);
  __type(value, __u64);
} events SEC(".maps");

SEC("xdp")
int missing(struct xdp_md* ctx) {
  __u64 now = bpf_jiffies64();
  bpf_map_push_elem(&events, &now, 0);
  return now ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
