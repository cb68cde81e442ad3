/* SPDX-License-Identifier: MIT
 *
 * Programs that want to be fitted to the running kernel's structures: one that fits as it is, one whose
 * structure the kernel has otherwise, one whose structure it has not, and one that asks.
 */
#include <linux/types.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct xdp_md {
  __u32 data, data_end, data_meta, ingress_ifindex;
};
struct iphdr {
  __u8 ihl : 4, version : 4;
  __u8 tos;
  __u16 tot_len, id, frag_off;
  __u8 ttl, protocol;
  __u16 check;
};
struct iphdr___moved {
  __u16 tot_len;
};
struct nobody_has_this {
  __u32 first, second;
};
#pragma clang attribute pop

SEC("xdp")
int headers(struct xdp_md* ctx) {
  void *const end = (void*)(long)ctx->data_end, *const begin = (void*)(long)ctx->data;
  const struct iphdr* const ip = begin + 14;
  if ((void*)(ip + 1) > end) return 1;
  return ip->protocol == 17 && ip->ihl == 5 && ip->tot_len != 0 ? 2 : 1;
}

SEC("xdp")
int moved(struct xdp_md* ctx) {
  void *const end = (void*)(long)ctx->data_end, *const begin = (void*)(long)ctx->data;
  const struct iphdr___moved* const ip = begin + 14;
  if ((void*)(ip + 1) > end) return 1;
  return ip->tot_len != 0 ? 2 : 1;
}

SEC("xdp")
int strange(struct xdp_md* ctx) { return ((const struct nobody_has_this*)ctx)->second ? 2 : 1; }

SEC("xdp")
int asks_where(struct xdp_md* ctx) { return bpf_core_field_exists(struct iphdr, check) ? 2 : 1; }

char LICENSE[] SEC("license") = "GPL";
