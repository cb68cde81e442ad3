/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/rules.bpf.h: the rule walk: the first matching rule that decides, with limits on the way, and
 * what it does to the packet.
 */
#ifndef XDPGPU_BPF_RULES_H
#define XDPGPU_BPF_RULES_H

#include "bpf/classify.bpf.h"
#include "bpf/inspect.bpf.h"

#define XG_NO_RULE (-1)
#define XG_BROKEN (-2)   /* the tables are not there or contradict each other */
#define XG_EXCEEDED (-3) /* a limit's excess; counted under its rule */

#define XG_LIMIT_TRIES 16

/* Generic cell rate algorithm (ITU-T I.371) on one 64-bit theoretical arrival time, moved by
 * compare-and-exchange: exact however many CPUs count at once, and nobody waits. */
XG_INLINE int xg_gcra(u64* tat, u64 now, const xg_rule* rule) {
  for (int i = 0; i < XG_LIMIT_TRIES; i++) {
    const u64 seen = XG_READ(*tat);
    const long ahead = (long)(seen - now);
    if (ahead > (long)rule->burst_ns) return 0;
    const u64 next = (ahead > 0 ? seen : now) + rule->interval_ns;
    if (__sync_val_compare_and_swap(tat, seen, next) == seen) return 1;
  }
  return 0;
}

/* Does a packet of this flow conform to the limit of rule `index`? Counts it if so. A function of its
 * own for the verifier, which then need not follow it anew on each turn of the walk. */
__noinline int xg_conforms(const xg_flow_key* flow, const xg_rule* rule, u32 index, u32 generation) {
  if (!flow || !rule) return 0;
  xg_limit_key key = {.generation = generation, .rule = index};
  if (rule->limit_per == XG_LIMIT_PER_SRC) __builtin_memcpy(key.address, flow->src, sizeof(key.address));
  if (rule->limit_per == XG_LIMIT_PER_DST) __builtin_memcpy(key.address, flow->dst, sizeof(key.address));
  const u64 now = bpf_ktime_get_ns() << 8;
  xg_limit_state* state = bpf_map_lookup_elem(&limits, &key);
  if (!state) {
    const xg_limit_state first = {.tat = now + rule->interval_ns};
    if (bpf_map_update_elem(&limits, &key, &first, BPF_NOEXIST) == 0) return 1;
    state = bpf_map_lookup_elem(&limits, &key); /* another CPU was first */
  }
  return !state || xg_gcra(&state->tat, now, rule);
}

XG_INLINE const xg_rule* xg_rule_at(const struct xg_run* run, void* lines, u32 index) {
  const xg_line* line = xg_line_at(lines, run->policy->rules_line + index / 2);
  return line ? (const xg_rule*)&line->word[index % 2 * 4] : NULL;
}

XG_INLINE void xg_count_rule(const struct xg_run* run, u32 index) {
  xg_add(&rule_counters, run->slot * XG_MAX_RULES + index, run->bytes);
}

/* The first matching rule that decides, or XG_NO_RULE, XG_EXCEEDED, XG_BROKEN. One loop over words and
 * the rules in them: a turn either opens the next word or takes the next rule. */
XG_INLINE const xg_rule* xg_walk(const struct xg_run* run, void* lines, struct xg_matches* matches,
                                 int* result) {
  u64 bits = 0;
  u32 w = 0;
  *result = XG_NO_RULE;
  for (u32 turn = 0; turn < XG_RULE_WORDS + XG_MAX_LIMIT_RULES + 1; turn++) {
    if (!bits) {
      if (!matches->words) return NULL;
      w = xg_lowest_bit(matches->words);
      matches->words = xg_without_lowest_bit(matches->words);
      bits = xg_matches_in(matches, w);
      if (!bits) continue;
    }
    const u32 index = w * 64 + xg_lowest_bit(bits);
    bits = xg_without_lowest_bit(bits);
    const xg_rule* rule = xg_rule_at(run, lines, index);
    if (!rule) break;
    *result = (int)index;
    if (rule->action != XG_RULE_LIMIT) return rule;
    if (!xg_conforms(&run->packet.key, rule, index, run->generation)) {
      xg_count_rule(run, index);
      *result = XG_EXCEEDED;
      return NULL;
    }
    *result = XG_NO_RULE;
  }
  *result = XG_BROKEN;
  return NULL;
}

/* What the policy's `fragments` says of a fragment that no rule passed or dropped. `rule` is the
 * matching inspect rule, if any. */
XG_INLINE int xg_fragment(struct xg_run* run, const xg_rule* rule) {
  if (run->policy->fragments != XG_DO_INSPECT)
    return xg_finish_as(run, run->policy->fragments, XG_KERNEL_pass_fragment, XG_KERNEL_drop_fragment);
  if (rule) return xg_inspect(run, rule->pipeline);
  return xg_finish_as(run, run->policy->default_action, XG_KERNEL_pass_default, XG_KERNEL_drop_default);
}

XG_INLINE int xg_no_rule(struct xg_run* run) {
  if (run->packet.flags & XG_PKT_FRAGMENT) return xg_fragment(run, NULL);
  return xg_finish_as(run, run->policy->default_action, XG_KERNEL_pass_default, XG_KERNEL_drop_default);
}

/* Decides by the rules, the default included: always finishes the packet. */
XG_INLINE int xg_rules(struct xg_run* run) {
  struct xg_matches matches;
  const u32 slot = run->slot;
  int result;
  if (run->policy->rule_count == 0) return xg_no_rule(run);
  struct xg_tables tables = {.slot = slot,
                             .lines = bpf_map_lookup_elem(&policy_lines, &slot),
                             .rows = bpf_map_lookup_elem(&policy_rows, &slot)};
  if (!tables.lines || !tables.rows) return xg_fail(run);
  const enum xg_classified classified = xg_classify(run->policy, &tables, &run->packet, &matches);
  if (classified == XG_CLASSIFIED_BROKEN) return xg_fail(run);
  if (classified == XG_CLASSIFIED_NONE) return xg_no_rule(run);
  const xg_rule* rule = xg_walk(run, tables.lines, &matches, &result);
  if (result == XG_EXCEEDED) return xg_finish(run, XG_KERNEL_drop_limit, XDP_DROP);
  if (result == XG_NO_RULE) return xg_no_rule(run);
  if (!rule) return xg_fail(run);
  xg_count_rule(run, (u32)result);
  switch (rule->action) {
    case XG_RULE_PASS:
      return xg_finish(run, XG_KERNEL_pass_rule, XDP_PASS);
    case XG_RULE_DROP:
      return xg_finish(run, XG_KERNEL_drop_rule, XDP_DROP);
    case XG_RULE_MANAGEMENT:
      return xg_finish(run, XG_KERNEL_pass_management, XDP_PASS);
    default:
      return run->packet.flags & XG_PKT_FRAGMENT ? xg_fragment(run, rule) : xg_inspect(run, rule->pipeline);
  }
}

#endif
