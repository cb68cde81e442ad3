/* SPDX-License-Identifier: MIT OR GPL-2.0-only
 *
 * maps/tables.h: the compiled policy as the XDP program reads it.
 *
 * A policy occupies a slot (0 or 1): policy[slot], and two inner maps, policy_lines[slot] (an array of
 * 64-byte lines, in chunks of XG_CHUNK_LINES) and policy_rows[slot] (an array of class rows). A swap fills
 * the idle slot and then stores xg_config.active. Inner maps are created with XG_TABLE_FLAGS: INNER_MAP lets
 * them differ in size from the maps that the program was loaded with, and MMAPABLE lets user space fill them
 * with plain stores; the kernel takes both together since 5.10.
 *
 * Classification. Each packet gets one class id a dimension: source and destination address by an
 * interval trie, ports, L4 and VLAN by direct index tables of u16. A class's row holds the bitmap of
 * the rules whose condition in that dimension the class meets; its head holds an aggregate with one bit
 * a 64-rule word, set where the word is not zero. (Aggregated bit vectors, Baboescu and Varghese, SIGCOMM
 * 2001.) Heads stand apart from the rows, so that they are dense in the caches. Before the rows are
 * walked, the aggregates are ANDed with one word of the grid: each class has a coarse coordinate a
 * dimension, the coordinates together name a grid cell, and the cell's mask says which words hold a rule
 * that touches the cell at all. So adversarially overlapping rules do not lead through all words. The
 * grid only prunes: what matches is decided by the rows.
 *
 * A packet that is not IP has class 0 in both address dimensions: class 0 is the addresses that stand in
 * no prefix of any rule (unless a rule names 0.0.0.0/0 and ::/0, no IP packet need have it).
 */
#ifndef XDPGPU_MAPS_TABLES_H
#define XDPGPU_MAPS_TABLES_H

#include "types.h"

#define XG_MAX_RULES 4096u
#define XG_RULE_WORDS 64u         /* XG_MAX_RULES / 64 */
#define XG_LINE_WORDS 8u          /* u64 words a line */
#define XG_MAX_LIMIT_RULES 64u    /* in one policy: a packet may have to pass them all */
#define XG_MAX_MIRROR_RULES 64u   /* likewise */
#define XG_MAX_ANSWER_RULES 2048u /* likewise: a management entry makes two rules */
#define XG_TABLE_FLAGS (BPF_F_INNER_MAP | BPF_F_MMAPABLE)

XG_RECORD(xg_line) { u64 word[8]; };
XG_ASSERT_SIZE(xg_line, 64);

/* What one lookup in `policy_lines` finds: in most policies all the lines that there are. */
#define XG_CHUNK_LINES 16384u
#ifndef XG_GLSL
XG_RECORD(xg_chunk) { xg_line line[XG_CHUNK_LINES]; };
XG_ASSERT_SIZE(xg_chunk, 1048576);
#endif

/* Interval trie over a 64-bit key (IPv4: address << 32 in host order; IPv6: its first 8 bytes, then, in
 * a low-half subtree, the other 8). Word index = line * 8 + word. A word is one of
 *   kind 0  CLASS   bits 0-23: value
 *   kind 1  BRANCH  bits 0-31: word index of the first child, bits 32-37: key bits consumed (1-22)
 *   kind 2  LEAF    bits 0-31: word index of the first boundary, bits 32-35: count (1-8, within a line)
 *   kind 3  SPLIT   bits 0-31: line index
 *   kind 4  BLOCKS  bits 0-31: line index of the first child, bits 32-37: key bits consumed (1-22)
 * with the kind in bits 60-63 and, for kinds 1 to 4, in bits 40-45 how many leading bits of the remaining
 * key are skipped first (they are known to be equal for all keys that come here): key <<= skip.
 * A leaf's boundaries are (remaining key's top 40 bits) << 24 | value, ascending, the first with boundary
 * 0; the last one with boundary <= (key | 0xffffff), compared as 64-bit numbers, decides.
 * A split's line has 5 keys (words 0-4, ascending, whole remaining keys) and 6 u32 (words 5-7, low half
 * first): the one whose number is the count of keys <= key decides. Keys that are not used
 * are all ones, and the u32 behind them repeat the last one, so that all five are compared. With bit 31 set,
 * a u32's bits 0-30 are the word index where the walk goes on with the key as it is; else it is a value.
 * Children of BLOCKS are lines of up to eight blocks: disjoint ranges of keys, each as long as a power of
 * two and aligned to it. A block's word has the range's first key (remaining key, bits 21-63), how many
 * key bits the range spans (bits 0-5, at least 21) and a class, XORed with the line's base, in bits 6-12.
 * A key in none of the blocks is of the line's base, bits 13-19 of word 0. XG_LPM_ESCAPE stands for what
 * does not fit in seven bits: then the word behind (behind word 0 for the base) has in bits 21-52 a
 * number as a split has. Such words, and words to spare, have bit 20 set and span 1, so they match no
 * key. A large list is one line of blocks away from its root.
 * Values below XG_LPM_LOW are classes; others (only met on the first half of an IPv6 address) name a
 * low-half subtree: the walk begins anew with the low half at word index xg_policy.low_base +
 * (value - XG_LPM_LOW). */
#define XG_LPM_KIND(w) ((u32)((w) >> 60))
#define XG_LPM_CLASS 0u
#define XG_LPM_BRANCH 1u
#define XG_LPM_LEAF 2u
#define XG_LPM_SPLIT 3u
#define XG_LPM_BLOCKS 4u
#define XG_LPM_ESCAPE 127u
#define XG_LPM_BLOCK_KEY(w) ((w) & ~0x1ffffful) /* of a block or of a key */
#define XG_LPM_BLOCK_SPAN(w) ((u32)(w)&63u)
#define XG_LPM_BLOCK_CLASS(w) ((u32)((w) >> 6) & 127u)
#define XG_LPM_BLOCK_BASE(w) ((u32)((w) >> 13) & 127u)
#define XG_LPM_BLOCK_NUMBER(w) ((u32)((w) >> 21))
#define XG_LPM_NO_BLOCK (1ul << 20 | 1ul)
#define XG_LPM_VALUE(w) ((u32)(w)&0xffffffu)
#define XG_LPM_INDEX(w) ((u32)(w))
#define XG_LPM_BITS(w) ((u32)((w) >> 32) & 63u)
#define XG_LPM_COUNT(w) ((u32)((w) >> 32) & 15u)
#define XG_LPM_SKIP(w) ((u32)((w) >> 40) & 63u)
#define XG_LPM_LOW 0x800000u
#define XG_LPM_GO_ON 0x80000000u /* in a split */
#define XG_LPM_SPLIT_KEYS 5u
#define XG_LPM_MAX_DEPTH 10u /* words read on one half of an address, the last (CLASS or LEAF) included */

/* Dimensions of the classifier. */
#define XG_DIM_SRC 0u
#define XG_DIM_DST 1u
#define XG_DIM_SPORT 2u
#define XG_DIM_DPORT 3u
#define XG_DIM_L4 4u
#define XG_DIM_VLAN 5u
#define XG_DIMS 6u

/* Index tables of u16 class ids, 32 a line. Ports: host order port, XG_PORT_NONE where the packet has
 * none (other protocols, fragments). L4: XG_L4_* below. VLAN: outer id, XG_VLAN_NONE untagged,
 * XG_VLAN_PRIORITY for a priority tag. */
#define XG_PORT_NONE 65536u
#define XG_PORT_INDEXES 65568u /* rounded up to full lines */
#define XG_L4_V4 0u            /* + protocol, when not TCP or when a fragment */
#define XG_L4_V4_TCP 256u      /* + TCP flag byte */
#define XG_L4_V6 512u
#define XG_L4_V6_TCP 768u
#define XG_L4_OTHER 1024u /* not IP */
#define XG_L4_CONTROL \
  1032u /* + XG_CONTROL_*: packets of a control protocol that a rule names; no other index */
#define XG_L4_INDEXES 1056u
#define XG_VLAN_NONE 4097u
#define XG_VLAN_INDEXES 4128u

/* Control protocols, numbers for XG_L4_CONTROL and bits of xg_policy.control_named. */
#define XG_CONTROL_ARP 0u
#define XG_CONTROL_ND 1u
#define XG_CONTROL_DHCP 2u
#define XG_CONTROL_LACP 3u
#define XG_CONTROL_LLDP 4u
#define XG_CONTROL_STP 5u
#define XG_CONTROL_NONE 0xffu

/* A class of one dimension; index of head and row: first_row[dimension] + class. Every dimension has at
 * least class 0. `coarse` is its grid coordinate, already multiplied into place: a cell's index is the sum
 * over the dimensions, always below 2^grid_bits. */
XG_RECORD(xg_class_head) {
  u64 aggregate;
  u32 coarse;
  u32 reserved;
};
XG_ASSERT_SIZE(xg_class_head, 16);
XG_RECORD(xg_class_row) { u64 rules[64]; };
XG_ASSERT_SIZE(xg_class_row, 512);

/* What a matching rule does. */
#define XG_RULE_PASS 0u
#define XG_RULE_DROP 1u
#define XG_RULE_INSPECT 2u
#define XG_RULE_LIMIT 3u      /* counts; drops the excess; what conforms goes on to the next rule */
#define XG_RULE_MANAGEMENT 4u /* pass, and its flow is written down (maps/exempt.h) */
/* Shows the packet to the pipeline (maps/mirror.h); it goes on to the next rule. */
#define XG_RULE_MIRROR 5u
/* A management entry turned around: what answers a flow that is written down passes, the rest goes on to the
 * next rule, and verdicts on it are not cached: its flow's next packet may be an answer. */
#define XG_RULE_ANSWER 6u
/* The policy's own program decides, in place of this one, and its answer is XDP's: number `pipeline` of those
 * that a slot has. */
#define XG_RULE_PROGRAM 7u
#define XG_MAX_PROGRAMS 16u /* of a policy; map `user_programs`: index slot * XG_MAX_PROGRAMS + number */
#define XG_DIVERT_WORDS 8u  /* of conditions, 64 each, that one pipeline has */
#define XG_LIMIT_PER_SRC 0u
#define XG_LIMIT_PER_DST 1u
#define XG_LIMIT_PER_RULE 2u

XG_RECORD(xg_rule) {
  u8 action;
  u8 limit_per;
  u16 pipeline;    /* for XG_RULE_INSPECT, XG_RULE_MIRROR and XG_RULE_PROGRAM */
  u32 number;      /* position in the policy's `rules`, counted from 0; what counters and logs name */
  u64 interval_ns; /* for XG_RULE_LIMIT: 1e9 / pps, in ns << 8 (24.8 fixed point) */
  u64 burst_ns;    /* (burst - 1) * interval: a packet conforms while tat - now <= burst_ns (GCRA), and
                      then tat = max(tat, now) + interval */
  /* For XG_RULE_INSPECT, where the policy has XG_DO_KNOWN: the flow verdicts of this generation and later
   * ones are what the policy in force, too, says of the packets that come to the rule. 0: its own alone. */
  u32 kept_since;
  /* Likewise: eighths of a queue's credits that its packets leave to those of rules of a higher priority. */
  u8 reserve;
  /* Likewise: of the packets that come to the rule those leave by entry `divert_port` of `tx_ports` instead
   * that meet one of the conditions in these words of the matches, but for those that came in there. 0 words:
   * none do. Conditions stand behind all rules, are compiled like them, and decide nothing by themselves. */
  u8 divert_port;
  u8 divert_word;
  u8 divert_words; /* XG_DIVERT_WORDS at most */
};
XG_ASSERT_SIZE(xg_rule, 32);

/* xg_policy.on_*, default_action, fragments and malformed */
#define XG_DO_PASS 0u
#define XG_DO_DROP 1u
/* For `fragments` only. Fragments meet the rules as packets without ports, and what a rule passes, drops
 * or limits is done. `fragments` decides for those that match an inspect rule or none: PASS, DROP, or
 * INSPECT (the matching rule's pipeline; the default where none matches). Only with INSPECT are they
 * mirrored. */
#define XG_DO_INSPECT 2u
/* Likewise for `malformed`, but that DROP drops those packets ahead of everything else. With PASS and INSPECT
 * no management rule matches them, and they count as no control protocol's. Malformed fragments that DROP
 * leaves are `fragments`' to decide on. */
/* For `fragments` only: the first one of a datagram meets the rules with its ports, the others get its fate
 * (maps/fragments.h). */
#define XG_DO_TRACK 3u
/* For on_failure and on_overload, with one of the first two: what the flow's verdict says, if it has one that
 * counts; PASS or DROP are for the others. */
#define XG_DO_KNOWN 4u

/* Rates of what passes ahead of the rules (maps/exempt.h): XG_CONTROL_*, and behind them management's answers
 * by TCP whose flow was not seen. GCRA as in xg_rule; what is over the rate meets the rules. interval_ns may
 * be one of these as well. */
#define XG_RATE_ANSWERS 6u
#define XG_RATES 7u
#define XG_RATE_ALL 0ul   /* everything conforms */
#define XG_RATE_NONE ~0ul /* nothing does */
XG_RECORD(xg_rate) {
  u64 interval_ns;
  u64 burst_ns;
};
XG_ASSERT_SIZE(xg_rate, 16);

XG_RECORD(xg_trie) { u32 root; /* word index of the root word */ };

/* Map `policy`, two entries (slots), mmapable. */
XG_RECORD(xg_policy) {
  u32 generation;
  u8 default_action;
  u8 on_failure;
  u8 on_overload;
  u8 fragments;
  u32 rule_count; /* management rules included; they come first. Conditions (xg_rule.divert_word) are none */
  u32 management_count;
  u32 control_named; /* bit a XG_CONTROL_*: a rule names it, so rules decide */
  u32 dims;          /* bit a dimension: more than one class there; the others need no lookup: class 0
                        holds every rule and has coordinate 0 */
  u32 src4_root;     /* word indexes in policy_lines */
  u32 src6_root;
  u32 dst4_root;
  u32 dst6_root;
  u32 low_base;
  u32 sport_line; /* first lines of the index tables */
  u32 dport_line;
  u32 l4_line;
  u32 vlan_line;
  u32 rules_line; /* two xg_rule a line */
  u32 heads_line; /* four xg_class_head a line */
  u32 grid_line;  /* 2^grid_bits words */
  u32 grid_bits;
  u32 first_row[6]; /* first head and row of each dimension; its index = first_row[d] + class */
  u8 feeds_egress;  /* 1: some pipeline wants to know what the host sends (maps/egress.h) */
  u8 audit;         /* 1: what would be dropped is counted as that and passes */
  u8 malformed;     /* XG_DO_* */
  u8 routes;        /* 1: some pipeline has a router, who wants packets looked at (maps/router.h) */
  /* Bit a value of the TCP flags: some rule, or some stage of a pipeline that caches, treats packets with
   * them unlike the others of a connection (those with ACK alone). Such packets meet the rules whether their
   * flow has a verdict or not, and verdicts on them are not cached. */
  u64 tcp_special[4];
  xg_rate rates[8]; /* XG_RATES are used */
};
XG_ASSERT_SIZE(xg_policy, 264);
XG_ASSERT_OFFSET(xg_policy, tcp_special, 104);

/* Key of the `limits` map (LRU hash): one bucket a rule and address. Value: theoretical arrival time. */
XG_RECORD(xg_limit_key) {
  u32 generation;
  u16 rule;
  u8 family; /* of the address: 4, 6, or 0: none */
  u8 reserved;
  u32 address[4];
};
XG_ASSERT_SIZE(xg_limit_key, 24);
XG_RECORD(xg_limit_state) { u64 tat; /* CLOCK_MONOTONIC ns << 8, wraps never in practice (2^56 ns) */ };

  /* Map `rule_counters` (per CPU): index slot * XG_MAX_RULES + compiled rule index. The packets that the
   * rule decided; for a limit, the excess that it dropped; for a mirror, those that it showed to its
   * pipeline or dropped by its verdict. */

#endif
