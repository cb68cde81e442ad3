/* SPDX-License-Identifier: MIT
 *
 * A program with what objects of one program can have: variables of every section, a function that is called
 * and one that bpf_loop calls, an atomic, a bounded loop, maps of several types, and one that it does not
 * use.
 */
#include <linux/bpf.h>

#include <bpf/bpf_helpers.h>

struct {
  __uint(type, BPF_MAP_TYPE_HASH);
  __uint(max_entries, 1000);
  __type(key, __u32);
  __type(value, __u64);
} sources SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, 16);
  __type(key, __u32);
  __type(value, __u64);
} nobody_asks SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, 4);
  __type(key, __u32);
  __type(value, __u64);
  __uint(pinning, LIBBPF_PIN_BY_NAME);
} counts SEC(".maps");

const volatile __u32 shortest = 14;
__u64 bytes = 7;
__u64 packets;

struct walk {
  __u32 length, sum;
};

static long one_round(__u32 index, struct walk* walk) {
  walk->sum += index * walk->length;
  return 0;
}

static __attribute__((noinline)) __u32 fold(__u32 value) {
#pragma clang loop unroll(disable)
  for (int i = 0; i < 8; i++) value = (value >> 1) ^ (value & 1 ? 0xedb88320 : bpf_get_prandom_u32());
  return value;
}

SEC("xdp")
int everything(struct xdp_md* ctx) {
  const __u32 length = ctx->data_end - ctx->data;
  struct walk walk = {.length = length};
  __u32 key = fold(length);
  if (length < shortest) return XDP_DROP;
  __sync_fetch_and_add(&packets, 1);
  bytes += length;
  bpf_loop(4, one_round, &walk, 0);
  __u64* count = bpf_map_lookup_elem(&sources, &key);
  const __u64 first = walk.sum;
  if (count)
    __sync_fetch_and_add(count, 1);
  else
    bpf_map_update_elem(&sources, &key, &first, BPF_ANY);
  key &= 3;
  count = bpf_map_lookup_elem(&counts, &key);
  if (count) *count += 1;
  return XDP_PASS;
}

char LICENSE[] SEC("license") = "Dual MIT/GPL";
