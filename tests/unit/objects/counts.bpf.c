/* SPDX-License-Identifier: MIT
 *
 * Programs that count: one that does no more, and one that decides by what it has counted.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct total {
  __u64 packets, bytes;
  __u32 flags;
};
struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 4);
  __type(key, __u32);
  __type(value, struct total);
} totals SEC(".maps");

__u64 all = 0;

SEC("xdp/counts")
int counts(struct xdp_md* ctx) {
  __u8* const data = (void*)(long)ctx->data;
  void* const end = (void*)(long)ctx->data_end;
  if ((void*)(data + 14) > end) return XDP_PASS;
  __u32 key = data[13] & 3;
  struct total* const total = bpf_map_lookup_elem(&totals, &key);
  if (!total) return XDP_PASS;
  total->packets++;
  total->bytes += (__u64)((void*)end - (void*)data);
  __sync_fetch_and_add(&all, 1);
  return total->flags & 1 ? XDP_DROP : XDP_PASS;
}

SEC("xdp/reads")
int reads(struct xdp_md* ctx) {
  all++;
  return all % 4 == 3 ? XDP_DROP : XDP_PASS;
}

char LICENSE[] SEC("license") = "GPL";
