/* SPDX-License-Identifier: MIT
 *
 * A program that the kernel takes only because it knows a constant: behind it, a packet is read without
 * asking where that ends.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

const volatile __u32 careful = 1;

SEC("xdp")
int is_careful(struct xdp_md* ctx) {
  if (!careful) return *(__u8*)(long)ctx->data;
  return XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
