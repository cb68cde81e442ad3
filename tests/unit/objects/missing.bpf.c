/* SPDX-License-Identifier: MIT
 *
 * A program that needs helpers and maps which no device has.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
  __uint(type, BPF_MAP_TYPE_RINGBUF);
  __uint(max_entries, 4096);
} events SEC(".maps");

SEC("xdp")
int missing(struct xdp_md* ctx) {
  __u64 now = bpf_jiffies64();
  bpf_ringbuf_output(&events, &now, sizeof(now), 0);
  return now ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
