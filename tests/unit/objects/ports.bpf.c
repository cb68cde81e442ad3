/* SPDX-License-Identifier: MIT
 *
 * Sends packets on to the interface that their second MAC address's last byte is the number of, and writes
 * that to the first one's.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
  __uint(type, BPF_MAP_TYPE_DEVMAP);
  __uint(max_entries, 8);
  __type(key, __u32);
  __type(value, __u32);
} ports SEC(".maps");

SEC("xdp")
int to_ports(struct xdp_md* ctx) {
  __u8* const frame = (__u8*)(long)ctx->data;
  if (frame + 14 > (__u8*)(long)ctx->data_end) return XDP_DROP;
  frame[5] = frame[11];
  return bpf_redirect_map(&ports, frame[11], XDP_PASS);
}

char LICENSE[] SEC("license") = "GPL";
