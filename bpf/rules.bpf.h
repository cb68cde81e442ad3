/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * bpf/rules.bpf.h: the rule walk: the first matching rule that decides, with limits and mirrors on the
 * way, and what it does to the packet.
 */
#ifndef XDPGPU_BPF_RULES_H
#define XDPGPU_BPF_RULES_H

#include "bpf/classify.bpf.h"
#include "bpf/exempt.bpf.h"
#include "bpf/inspect.bpf.h"
#include "bpf/mirror.bpf.h"
#include "bpf/program.bpf.h"
#include "maps/fragments.h"

#define XG_NO_RULE (-1)
#define XG_BROKEN (-2)   /* the tables are not there or contradict each other */
#define XG_EXCEEDED (-3) /* a limit's excess; counted under its rule */
#define XG_WATCHED (-4)  /* what a mirror's pipeline has condemned; counted under its rule */

#define XG_WHOLE (-5) /* a frame that has to be cut comes to a rule that looks at packets one by one */

/* Does a packet of this flow conform to the limit of rule `index`? Counts it if so. A function of its
 * own for the verifier, which then need not follow it anew on each turn of the walk. */
__noinline int xg_conforms(const xg_flow_key* flow, const xg_rule* rule, u32 index, u32 generation) {
  if (!flow || !rule) return 0;
  xg_limit_key key = {.generation = generation, .rule = (u16)index};
  if (rule->limit_per != XG_LIMIT_PER_RULE) key.family = flow->family;
  if (rule->limit_per == XG_LIMIT_PER_SRC) __builtin_memcpy(key.address, flow->src, sizeof(key.address));
  if (rule->limit_per == XG_LIMIT_PER_DST) __builtin_memcpy(key.address, flow->dst, sizeof(key.address));
  const u64 now = bpf_ktime_get_ns() << 8;
  xg_limit_state* state = bpf_map_lookup_elem(&limits, &key);
  if (!state) {
    const xg_limit_state first = {.tat = now + rule->interval_ns};
    if (bpf_map_update_elem(&limits, &key, &first, BPF_NOEXIST) == 0) return 1;
    state = bpf_map_lookup_elem(&limits, &key); /* another CPU was first */
  }
  return !state || xg_gcra(&state->tat, now, rule->interval_ns, rule->burst_ns);
}

XG_INLINE const xg_rule* xg_rule_at(const struct xg_run* run, const struct xg_tables* tables, u32 index) {
  return xg_entry_at(tables, run->policy->rules_line * 2 + index, sizeof(xg_rule));
}

XG_INLINE void xg_count_rule(const struct xg_run* run, u32 index) {
  xg_add(&rule_counters, run->slot * XG_MAX_RULES + index, run->bytes);
}

/* Pass and drop are one thing for a frame and its segments; the others count or show packets. */
XG_INLINE int xg_wants_segments(const xg_rule* rule) {
  return rule->action == XG_RULE_INSPECT || rule->action == XG_RULE_LIMIT || rule->action == XG_RULE_MIRROR ||
         rule->action == XG_RULE_PROGRAM;
}

/* A walk over the words that may hold matching rules, and the rules in them. */
struct xg_walk {
  const struct xg_run* run;
  const struct xg_tables* tables;
  struct xg_matches matches;
  u64 bits; /* matching rules of word `word` that are still to be asked */
  u32 word;
  int result; /* index of the first matching rule that decides, or XG_NO_RULE, XG_EXCEEDED, XG_WATCHED,
                 XG_WHOLE, XG_BROKEN */
  u8 action;  /* of the rule that decided: one of XG_RULE_. Narrow, as the stack of all calls is full */
  u8 divert_port, divert_word, divert_words; /* likewise: as xg_rule has them */
  struct xg_inspection inspection;           /* likewise: for XG_RULE_INSPECT */
};

XG_INLINE void xg_next_word(struct xg_walk* walk) {
  walk->word = xg_lowest_bit(walk->matches.words);
  walk->matches.words = xg_without_lowest_bit(walk->matches.words);
  walk->bits = xg_matches_in(&walk->matches, walk->word);
}

/* Packets that `fragments` and `malformed` decide about where no rule passes or drops them. */
XG_INLINE int xg_is_odd(const struct xg_run* run) {
  return run->packet->flags & (XG_PKT_FRAGMENT | XG_PKT_MALFORMED);
}
/* May a pipeline see one of them? */
XG_INLINE int xg_inspects_odd(const struct xg_run* run) {
  const u32 flags = run->packet->flags;
  return !(flags & XG_PKT_FRAGMENT && run->policy->fragments != XG_DO_INSPECT) &&
         !(flags & XG_PKT_MALFORMED && run->policy->malformed != XG_DO_INSPECT);
}

/* A mirror rule. Returns 1 if the packet ends here. */
XG_INLINE int xg_walk_mirror(struct xg_walk* walk, const xg_rule* rule, u32 index) {
  const struct xg_run* run = walk->run;
  if (xg_is_odd(run) && !xg_inspects_odd(run)) return 0;
  const int done = xg_mirror(run->ctx, run->packet, run->generation, run->flow_hash, rule->pipeline);
  if (done != XG_MIRROR_NOTHING) xg_count_rule(run, index);
  if (done != XG_MIRROR_DROP) return 0;
  walk->result = XG_WATCHED;
  return 1;
}

/* A management entry turned around. The table is asked once: for an entry that this packet answers it answers
 * the flow, whichever entry wrote that down. Returns 1 if the packet passes. */
XG_INLINE int xg_walk_answer(struct xg_walk* walk) {
  if (walk->inspection.uncached) return 0;
  if (xg_is_answer(walk->run->packet, walk->run->slot)) return 1;
  walk->inspection.uncached = 1;
  return 0;
}

/* One turn takes the next rule, from the next word if the last one is used up. Returns 1 at the end. */
static long xg_walk_on(u32 turn, struct xg_walk* walk) {
  (void)turn;
  if (!walk->bits) {
    if (!walk->matches.words) {
      walk->result = XG_NO_RULE;
      return 1;
    }
    xg_next_word(walk);
    if (!walk->bits) return 0;
  }
  const u32 index = walk->word * 64 + xg_lowest_bit(walk->bits);
  walk->bits = xg_without_lowest_bit(walk->bits);
  const struct xg_run* run = walk->run;
  if (index >= run->policy->rule_count) { /* conditions are left */
    walk->result = XG_NO_RULE;
    return 1;
  }
  const xg_rule* rule = xg_rule_at(run, walk->tables, index);
  if (!rule) return 1;
  if (rule->action == XG_RULE_ANSWER && !xg_walk_answer(walk)) return 0;
  if (rule->action == XG_RULE_MANAGEMENT && run->packet->flags & XG_PKT_MALFORMED) return 0;
  if (xg_wants_segments(rule) && xg_is_uncut(run)) {
    walk->result = XG_WHOLE;
    return 1;
  }
  if (rule->action == XG_RULE_MIRROR) return xg_walk_mirror(walk, rule, index);
  if (rule->action != XG_RULE_LIMIT) {
    walk->action = rule->action;
    walk->inspection.rule = index;
    walk->inspection.kept_since = rule->kept_since;
    walk->inspection.pipeline = rule->pipeline;
    walk->inspection.reserve = rule->reserve;
    walk->divert_port = rule->divert_port;
    walk->divert_word = rule->divert_word;
    walk->divert_words = rule->divert_words;
    walk->result = (int)index;
    return 1;
  }
  if (xg_conforms(&run->packet->key, rule, index, run->generation)) return 0;
  xg_count_rule(run, index);
  walk->result = XG_EXCEEDED;
  return 1;
}

/* Asks the rules in turn, of `matches`, which has some words. By bpf_loop: of a loop written out,
 * verifiers since Linux 7 follow too many turns. The first word is opened before, as older ones take
 * what is constant on entry for constant on each turn. There are as many management rules as rules for their
 * answers, and a malformed packet may go by them all. */
XG_INLINE void xg_walk(struct xg_walk* walk) {
  walk->action = 0;
  walk->divert_words = 0;
  __builtin_memset(&walk->inspection, 0, sizeof(walk->inspection));
  walk->result = XG_BROKEN;
  xg_next_word(walk);
  bpf_loop(XG_RULE_WORDS + 2 * XG_MAX_ANSWER_RULES + XG_MAX_LIMIT_RULES + XG_MAX_MIRROR_RULES, xg_walk_on,
           walk, 0);
}

/* Does the packet meet a condition by which it leaves its rule's pipeline for others? Not if it comes from
 * there. The walk has not come to the words of conditions, which are behind all rules'. */
XG_INLINE int xg_diverts(const struct xg_walk* walk) {
  if (walk->run->packet->key.port == walk->divert_port) return 0;
  const u32 first = walk->divert_word & 63;
  u64 words = walk->matches.words >> first & ((1ul << (walk->divert_words & 15)) - 1);
#pragma clang loop unroll(disable)
  for (u32 i = 0; words && i < XG_DIVERT_WORDS; i++) {
    if (xg_matches_in(&walk->matches, first + xg_lowest_bit(words))) return 1;
    words = xg_without_lowest_bit(words);
  }
  return 0;
}

/* What the policy says of one of them that no rule passed or dropped, and no pipeline may see. */
XG_INLINE int xg_odd(const struct xg_run* run) {
  const int fragment = run->packet->flags & XG_PKT_FRAGMENT;
  if (fragment && run->policy->fragments != XG_DO_INSPECT)
    return xg_finish_as(run, run->policy->fragments, XG_KERNEL_pass_fragment, XG_KERNEL_drop_fragment);
  if (!fragment && run->policy->malformed == XG_DO_PASS)
    return xg_finish(run, XG_KERNEL_pass_malformed, XDP_PASS);
  return xg_finish_as(run, run->policy->default_action, XG_KERNEL_pass_default, XG_KERNEL_drop_default);
}

XG_INLINE int xg_no_rule(struct xg_run* run) {
  if (xg_is_odd(run)) return xg_odd(run);
  return xg_finish_as(run, run->policy->default_action, XG_KERNEL_pass_default, XG_KERNEL_drop_default);
}

/* Decides by the rules, the default included: always finishes the packet. */
XG_INLINE int xg_rules(struct xg_run* run) {
  const u32 slot = run->slot;
  if (run->policy->rule_count == 0) return xg_no_rule(run);
  struct xg_tables tables = {
      .slot = slot, .first = xg_chunk_at(slot, 0), .rows = bpf_map_lookup_elem(&policy_rows, &slot)};
  if (!tables.first || !tables.rows) return xg_fail(run);
  struct xg_walk walk;
  const enum xg_classified classified = xg_classify(run->policy, &tables, run->packet, &walk.matches);
  if (classified == XG_CLASSIFIED_BROKEN) return xg_fail(run);
  if (classified == XG_CLASSIFIED_NONE) return xg_no_rule(run);
  walk.run = run;
  walk.tables = &tables;
  xg_walk(&walk);
  if (walk.result == XG_EXCEEDED) return xg_drop(run, XG_KERNEL_drop_limit);
  if (walk.result == XG_WATCHED) return xg_drop(run, XG_KERNEL_drop_flow);
  if (walk.result == XG_NO_RULE) return xg_no_rule(run);
  if (walk.result == XG_WHOLE) return xg_cut(run);
  if (walk.result < 0) return xg_fail(run);
  run->packet->rule = (u16)walk.result;
  xg_count_rule(run, (u32)walk.result);
  switch (walk.action) {
    case XG_RULE_PASS:
      return xg_finish(run, XG_KERNEL_pass_rule, XDP_PASS);
    case XG_RULE_DROP:
      return xg_drop(run, XG_KERNEL_drop_rule);
    case XG_RULE_MANAGEMENT:
      xg_note_management(run->ctx, run->packet);
      return xg_finish(run, XG_KERNEL_pass_management, XDP_PASS);
    case XG_RULE_ANSWER:
      return xg_finish(run, XG_KERNEL_pass_management, XDP_PASS);
    case XG_RULE_PROGRAM:
      if (xg_is_odd(run) && !xg_inspects_odd(run)) return xg_odd(run);
      return xg_go_on(run, walk.inspection.pipeline);
    default:
      if (xg_is_odd(run) && !xg_inspects_odd(run)) return xg_odd(run);
      if (walk.divert_words && xg_diverts(&walk)) {
        run->packet->rule |= XG_FRAGMENT_DIVERTED;
        return xg_flow_redirect(run, walk.divert_port, XG_KERNEL_redirect_rule);
      }
      return xg_inspect(run, &walk.inspection);
  }
}

#endif
