/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bench/prefilter/loop.bpf.c: the classifier, and beside it the kernel's own LPM trie, in one loop over many
 * packets. (BPF_PROG_TEST_RUN repeats one packet, whose lines are then always in the nearest cache.)
 */
#include "bench/prefilter/loop.h"
#include "bpf/rules.bpf.h"

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(map_flags, BPF_F_MMAPABLE);
  __uint(max_entries, PREFILTER_PACKETS);
  __type(key, u32);
  __type(value, struct prefilter_packet);
} packets SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_LPM_TRIE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __uint(max_entries, PREFILTER_PREFIXES);
  __type(key, struct prefilter_key4);
  __type(value, __u32);
} trie4 SEC(".maps");
struct {
  __uint(type, BPF_MAP_TYPE_LPM_TRIE);
  __uint(map_flags, BPF_F_NO_PREALLOC);
  __uint(max_entries, PREFILTER_PREFIXES);
  __type(key, struct prefilter_key6);
  __type(value, __u32);
} trie6 SEC(".maps");

/* Set before a run. */
__u32 use_trie = 0;  /* 0: classify alone; 4, 6: and look the source up in that trie */
__u32 dependent = 0; /* each packet's address waits for the last one's result */
__u32 rounds = 0;
__u64 nothing = 0; /* 0, but neither compiler nor CPU knows */

/* Read after it. */
__u64 rule_hits = 0;
__u64 rule_sum = 0; /* of (packet + 1) * (rule + 1) over the packets that a rule decided */
__u64 trie_hits = 0;
__u64 trie_sum = 0; /* of packet + 1 over the packets whose source is in the trie */

/* What one packet hands on to the next; on the stack, of which the classifier leaves little. */
struct progress {
  struct xdp_md* ctx;
  __u64 last; /* what the last packet's lookup loaded */
};

XG_INLINE __u64 look_up_trie(const xg_flow_key* flow) {
  const __u32* listed;
  if (use_trie == 4) {
    struct prefilter_key4 key = {.length = 32};
    __builtin_memcpy(key.address, flow->src, sizeof(key.address));
    listed = bpf_map_lookup_elem(&trie4, &key);
  } else {
    struct prefilter_key6 key = {.length = 128};
    __builtin_memcpy(key.address, flow->src, sizeof(key.address));
    listed = bpf_map_lookup_elem(&trie6, &key);
  }
  return listed ? *listed : 0;
}

/* Not on the stack either. The loop runs on one CPU. */
static xg_packet parsed;

static long one_packet(__u32 number, struct progress* progress) {
  struct xg_run run = {.ctx = progress->ctx, .slot = 0, .generation = 1, .packet = &parsed};
  struct xg_walk walk;
  const __u32 zero = 0, at = number & (PREFILTER_PACKETS - 1);
  const struct prefilter_packet* packet = bpf_map_lookup_elem(&packets, &at);
  run.config = bpf_map_lookup_elem(&config, &zero);
  run.policy = bpf_map_lookup_elem(&policy, &zero);
  if (!packet || !run.config || !run.policy) return 1;
  parsed.key = packet->key;
  parsed.flags = packet->flags;
  parsed.l4_index = packet->l4_index;
  parsed.control = XG_CONTROL_NONE;
  if (dependent) parsed.key.src[0] ^= (__u32)(progress->last & nothing);

  struct xg_tables tables = {
      .slot = 0, .first = xg_chunk_at(0, 0), .rows = bpf_map_lookup_elem(&policy_rows, &zero)};
  if (!tables.first || !tables.rows) return 1;
  const enum xg_classified classified = xg_classify(run.policy, &tables, &parsed, &walk.matches);
  if (classified == XG_CLASSIFIED_BROKEN) return 1;
  progress->last = classified;
  if (classified == XG_CLASSIFIED_SOME) {
    progress->last = walk.matches.words;
    walk.run = &run;
    walk.tables = &tables;
    xg_walk(&walk);
    if (walk.result >= 0) {
      rule_hits++;
      rule_sum += (__u64)(number + 1) * (__u64)(walk.result + 1);
    }
  }
  if (use_trie) {
    const __u64 listed = look_up_trie(&parsed.key);
    progress->last = listed;
    trie_hits += listed;
    trie_sum += listed * (number + 1);
  }
  return 0;
}

SEC("xdp")
int prefilter(struct xdp_md* ctx) {
  struct progress progress = {.ctx = ctx};
  rule_hits = rule_sum = trie_hits = trie_sum = 0;
  bpf_loop(rounds, one_packet, &progress, 0);
  return XDP_PASS;
}

char _license[] SEC("license") = "Dual MIT/GPL";
