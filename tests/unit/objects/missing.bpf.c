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
  struct bpf_fib_lookup route = {.ifindex = ctx->ingress_ifindex};
  const long result = bpf_fib_lookup(ctx, &route, sizeof(route), 0);
  bpf_ringbuf_output(&events, &route, sizeof(route), 0);
  return result ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
