/* SPDX-License-Identifier: MIT
 *
 * A map that is small by its values alone.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 6000000);
  __type(key, __u32);
  __type(value, __u8);
} counts SEC(".maps");

SEC("xdp")
int large(struct xdp_md* context) {
  __u32 key = 0;
  __u8* count = bpf_map_lookup_elem(&counts, &key);
  return count && *count ? XDP_DROP : XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
