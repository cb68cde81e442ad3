/* SPDX-License-Identifier: MIT
 *
 * A program that wants to be fitted to the running kernel's structures.
 */
#define BPF_NO_PRESERVE_ACCESS_INDEX
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

struct net_device___ours {
  int ifindex;
} __attribute__((preserve_access_index));

SEC("xdp")
int asks_where(struct xdp_md *ctx) {
  return bpf_core_field_exists(struct net_device___ours, ifindex) ? XDP_PASS : XDP_DROP;
}

char LICENSE[] SEC("license") = "GPL";
