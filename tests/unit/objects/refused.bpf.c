/* SPDX-License-Identifier: MIT
 *
 * A program that the kernel refuses: it reads a packet without asking where that ends.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

SEC("xdp")
int reads_beyond(struct xdp_md* ctx) { return *(__u8*)(long)ctx->data ? XDP_DROP : XDP_PASS; }

char LICENSE[] SEC("license") = "GPL";
