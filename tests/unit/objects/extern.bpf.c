/* SPDX-License-Identifier: MIT
 *
 * A program that calls a function of the kernel, and one that does not.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

extern int bpf_xdp_metadata_rx_hash(const struct xdp_md* ctx, __u32* hash, __u32* type) __ksym;

SEC("xdp")
int asks_the_kernel(struct xdp_md* ctx) {
  __u32 hash = 0, type = 0;
  return bpf_xdp_metadata_rx_hash(ctx, &hash, &type) ? XDP_DROP : XDP_PASS;
}

SEC("xdp")
int asks_nobody(struct xdp_md* ctx) { return XDP_PASS; }

char LICENSE[] SEC("license") = "GPL";
