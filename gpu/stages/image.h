/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/image.h: the pipelines image, what a policy generation's pipelines are compiled into
 * (gpu/pipelines.cpp, gpu/acl_image.cpp) and what the stages read. An array of u32 words, the same for
 * every device; it holds no addresses: "-> x" below is the index of x's first word in the image.
 *
 *   header     XG_IMAGE_HEADER words
 *   pipelines  XG_PIPELINE_WORDS each: -> its stages, number of stages, position of the first one with a
 *              table (the number of stages: none has one), and as in a body's first words whether, and for
 *              how long, what no stage decides may be cached
 *   stages     two words each: kind, -> body
 *   bodies     one a stage, laid out by its kind
 *
 * The kind names the structure of the body, not only the stage: a stage that gets a second structure
 * gets a second kind, and images of both may be mixed.
 *
 * An action word is a verdict word without its stage; XG_NEXT in its action field means that the
 * packet goes on to the next stage.
 */
#ifndef XDPGPU_STAGES_IMAGE_H
#define XDPGPU_STAGES_IMAGE_H

#define XG_IMAGE_MAGIC 0x31504758u /* "XGP1" */
#define XG_IMAGE_HEADER 7u
#define XG_IMAGE_MAGIC_AT 0u
#define XG_IMAGE_WORDS_AT 1u     /* words in the image */
#define XG_IMAGE_PIPELINES_AT 2u /* number of pipelines */
#define XG_IMAGE_TABLE_AT 3u     /* -> pipelines */
/* Stages with tables (gpu/stages/table.h) are taken in rounds. A table is of one round, and a pipeline meets
 * its tables in ascending rounds: when all packets of a batch are through a round in their order, each table
 * of it has seen its packets in their order. */
#define XG_IMAGE_ROUNDS_AT 4u /* number of rounds, 0: no stage has a table */
#define XG_IMAGE_STATES_AT 5u /* number of tables */
/* Bit a round, of the first 32: one of its tables has sets to which many packets of a batch come. */
#define XG_IMAGE_CROWDED_AT 6u
#define XG_PIPELINE_UNDECIDED 3u
#define XG_PIPELINE_WORDS 5u

#define XG_NEXT 7u

#define XG_KIND_ACL_BITS 1u
#define XG_KIND_LOAD_BALANCE 2u
#define XG_KIND_L2FWD 3u
#define XG_KIND_REPUTATION 4u
#define XG_KIND_FORWARD 5u
#define XG_KIND_MAGLEV 6u
/* From here on kinds with tables. */
#define XG_KIND_STATEFUL 64u
#define XG_KIND_RATE_LIMIT 64u
#define XG_KIND_CONNTRACK 65u
#define XG_KIND_DDOS 66u
#define XG_KIND_AFFINITY 68u

/* First words of every body. */
#define XG_BODY_CACHE 0u /* 1: verdicts of this stage may be cached in the kernel */
#define XG_BODY_TTL 1u   /* xg_result.cache_ttl_ms */

/* XG_KIND_ACL_BITS: aggregated bit vectors (Baboescu and Varghese, SIGCOMM 2001) behind a grid. In each
 * dimension a packet is of one class: the packets for which the same rules' conditions on that field hold.
 * The class has a row with one bit a rule: these rules. The lowest bit set in the rows of all dimensions is
 * the first rule that matches. Class 0 is the rules that have no condition there: that of packets which lack
 * the field. Rows are looked at a block at a time, and only those blocks that may hold a match: of the bits
 * for them, 64 at most, each class has a set in its head, and so has each cell of the grid. A class has a
 * coarse coordinate in its dimension; these, already multiplied into place, add up to the cell. Its set says
 * which blocks have a rule that touches the cell at all, so that rules which overlap in every dimension by
 * itself, but not in all, do not lead through all blocks. Equal blocks of rows are stored once: neighbours
 * differ in few, so that ten thousand rules take a few megabytes.
 *
 * heads   of each dimension: by class, XG_ACL_HEAD words: the coordinate; the blocks in which it has a rule
 *         (two words, the low one first); 0
 * rows    of each dimension: by block and, within it, by class: -> the block's bits
 * cells   two words each: blocks, as in a head
 * tables  of classes, 16 bits each, two a word, the first one in the low half: of ports by number; by
 *         protocol, and behind them, from XG_ACL_L4_TCP on, of TCP by flags; of VLANs by the outer tag's id
 * trees   of addresses: tables of prefixes, below, whose values are classes */
#define XG_ACL_SRC 0u /* dimensions */
#define XG_ACL_DST 1u
#define XG_ACL_SRC_PORT 2u
#define XG_ACL_DST_PORT 3u
#define XG_ACL_L4 4u
#define XG_ACL_VLAN 5u
#define XG_ACL_DIMENSIONS 6u
#define XG_ACL_USED 2u          /* bit a dimension that has more than class 0; the others are not looked at */
#define XG_ACL_USES_FLAGS 0x80u /* ... and this one: some rule asks for TCP flags */
#define XG_ACL_BLOCK 3u         /* words of a row in a block */
#define XG_ACL_ACTIONS 4u       /* -> action words, one a rule */
#define XG_ACL_OTHERWISE 5u
#define XG_ACL_CELLS 6u      /* -> cells */
#define XG_ACL_HEADS 7u      /* by dimension: -> heads */
#define XG_ACL_TABLES 13u    /* by dimension: -> table; those of the addresses are 0 */
#define XG_ACL_ROWS 19u      /* by dimension: -> rows */
#define XG_ACL_CLASSES 25u   /* by dimension: number of classes */
#define XG_ACL_SRC_TREES 31u /* two tables of prefixes, IPv4's and IPv6's */
#define XG_ACL_DST_TREES 41u
#define XG_ACL_WORDS 51u
#define XG_ACL_HEAD 4u
#define XG_ACL_PORTS 65536u /* entries of the tables */
#define XG_ACL_L4_TCP 256u
#define XG_ACL_L4S 512u
#define XG_ACL_PRIORITY_VLAN 4096u /* a tag with id 0 */
#define XG_ACL_NO_VLAN 4097u
#define XG_ACL_VLANS 4098u
#define XG_ACL_NO_RULE 0xffffffffu /* no action word */

/* A table of prefixes of one address family, which names the longest one that holds an address: a tree of
 * nodes that take five bits of the address each, their slots told by bit vectors (Poptrie: Asai and Ohara,
 * SIGCOMM 2015), behind an array that takes its first bits. XG_TREE_WORDS words:
 *
 * entries   one for each value of the first bits: XG_TREE_LEAF | value, or the number of a node. The value is
 *           that of the longest prefix, 0 where none holds the address.
 * nodes     four words: bit vector of the slots that have a child; bit vector of the slots that have none and
 *           another value than the last such slot in front of them; number of the first child, the others'
 *           following; number of the first leaf. Where both vectors are 0, all prefixes beneath agree in more
 *           bits than these, or there is but one: the third word is the number of a jump.
 * leaves    values
 * jumps     eight words: the bits in which they agree, most significant word first, and how many these are;
 *           of an address that has these bits, the number of a node or, XG_TREE_LEAF | value, its value; the
 * value of one that has not; 0 */
#define XG_TREE_FIRST 0u   /* number of first bits, 1 to 31 */
#define XG_TREE_ENTRIES 1u /* -> entries */
#define XG_TREE_NODES 2u   /* -> nodes */
#define XG_TREE_LEAVES 3u  /* -> leaves */
#define XG_TREE_JUMPS 4u   /* -> jumps */
#define XG_TREE_WORDS 5u
#define XG_TREE_STEP 5u /* bits of the address that a node takes */
#define XG_TREE_NODE 4u
#define XG_TREE_JUMP 8u
#define XG_TREE_LEAF 0x80000000u

/* XG_KIND_REPUTATION: the value of a prefix is 1 + the number of its list. */
#define XG_REP_SIDES 2u /* XG_REP_SRC, XG_REP_DST or both: whose address is looked up, source first */
#define XG_REP_SRC 1u
#define XG_REP_DST 2u
#define XG_REP_OTHERWISE 3u /* action word where no list has the address */
#define XG_REP_ACTIONS 4u   /* -> action words, one a list */
#define XG_REP_V4 5u        /* a table of prefixes each */
#define XG_REP_V6 10u
#define XG_REP_WORDS 15u

/* XG_KIND_FORWARD: the value of a prefix is 1 + the number of its next hop. */
#define XG_FWD_OTHERWISE 2u /* action word where there is no route */
#define XG_FWD_HOPS 3u      /* -> next hops, XG_FWD_HOP words each */
#define XG_FWD_V4 4u        /* a table of prefixes each */
#define XG_FWD_V6 9u
#define XG_FWD_WORDS 14u
/* A next hop. Where the action is to drop or to pass, that is all of it. */
#define XG_FWD_HOP 8u
#define XG_FWD_ACTION 0u
#define XG_FWD_DST 1u     /* two words, as in xg_result */
#define XG_FWD_SRC 3u     /* two words, with XG_FWD_OWN_SRC */
#define XG_FWD_OWN_SRC 5u /* 0: the frame's former destination becomes its source */
#define XG_FWD_MTU 6u     /* longest IP packet */
#define XG_FWD_REWRITE 7u /* number of the rewrite, XG_FWD_NO_REWRITE: none was left */
#define XG_FWD_NO_REWRITE 0u
/* The verdict's rule, besides 0 and 1 + the number of the next hop: forward_rule of gpu/pipelines.hpp. */
#define XG_FWD_RULE_PASS 0x30000u
#define XG_FWD_RULE_DROP 0x30001u
#define XG_FWD_RULE_INVALID 0x30002u
#define XG_FWD_RULE_TTL 0x30003u
#define XG_FWD_RULE_OPTIONS 0x30004u
#define XG_FWD_RULE_MTU 0x30005u
#define XG_FWD_RULE_FOREIGN 0x30006u
#define XG_FWD_RULE_CHECKSUM 0x30007u

/* `load_balance` by "hash": backend i owns the residues from the end of backend i-1 to its own. */
#define XG_LB_TOTAL 2u    /* sum of the weights, 1 or more */
#define XG_LB_COUNT 3u    /* backends, 1 or more */
#define XG_LB_BACKENDS 4u /* XG_LB_BACKEND words each follow */
/* A backend, in whichever way it is chosen. */
#define XG_LB_BACKEND 8u
#define XG_LB_END 0u /* by "hash": first residue that is not its own */
#define XG_LB_MAC 1u /* two words, as in xg_result */
#define XG_LB_ACTION 3u
#define XG_LB_REWRITE                                                                   \
  4u /* number of the rewrite, XG_LB_NO_REWRITE: none was left, verdicts are not cached \
      */
#define XG_LB_NO_REWRITE 0u
#define XG_LB_ID 5u    /* what tables know it by, whatever other backends there are: two words (low, high) */
#define XG_LB_OUTER 7u /* -> what its outer headers take, XG_OUTER_WORDS words; 0: there are none */
#define XG_OUTER_REWRITE 0u  /* number of the rewrite that has their addresses */
#define XG_OUTER_LONGEST 1u  /* IP packet that fits inside of them, bytes */
#define XG_OUTER_HASH_KEY 2u /* four words: k0, k1 */
#define XG_OUTER_WORDS 6u
/* The verdict's rule: balance_rule of gpu/pipelines.hpp. */
#define XG_LB_RULE_TOO_LONG 1u
#define XG_LB_RULE_MALFORMED 2u

/* XG_KIND_MAGLEV: `load_balance` by "maglev": a flow's backend is the one whose number stands in the lookup
 * table (gpu/maglev.hpp) at the flow's keyed hash, modulo the table's size. */
#define XG_MAGLEV 2u      /* XG_MAGLEV_WORDS words: */
#define XG_MAGLEV_SIZE 0u /* of the table, a prime */
#define XG_MAGLEV_TABLE \
  1u /* -> numbers of backends, 16 bits each, two a word, the first one in the low half */
#define XG_MAGLEV_BACKENDS 2u /* -> backends, XG_LB_BACKEND words each */
#define XG_MAGLEV_WORDS 3u
#define XG_MAGLEV_HASH_KEY 5u /* four words: k0, k1 */

/* XG_KIND_AFFINITY, behind XG_BODY_STATEFUL words: `load_balance` by "maglev" that keeps flows where they
 * are. An entry's value is the id of its backend. */
#define XG_AFFINITY_PER 10u    /* XG_RATE_SRC: clients; else flows */
#define XG_AFFINITY_OWN 11u    /* so many words are the table's; those behind are the policy's */
#define XG_AFFINITY_MAGLEV 11u /* XG_MAGLEV_WORDS words */
#define XG_AFFINITY_IDLE 14u   /* ticks, two words */
/* -> ids of the backends that keep what they have, in ascending order, XG_LB_KEPT words each: the id, and the
 * backend's number. */
#define XG_AFFINITY_IDS 16u
#define XG_AFFINITY_COUNT 17u /* of ids, 1 or more */
#define XG_AFFINITY_WORDS 18u
#define XG_LB_KEPT 3u

/* XG_KIND_RATE_LIMIT, behind XG_BODY_STATEFUL words */
#define XG_RATE_PER 10u /* XG_RATE_* of what keys have */
#define XG_RATE_SRC 1u
#define XG_RATE_DST 2u
#define XG_RATE_PORTS 4u  /* and the protocol */
#define XG_RATE_BITS4 11u /* bits of an address that count */
#define XG_RATE_BITS6 12u
#define XG_RATE_PACKET                                                                \
  13u /* ticks that a packet takes; two words as all that follow; 0: packets are free \
       */
#define XG_RATE_PACKET_BURST 15u /* ticks that a bucket holds */
#define XG_RATE_BYTE 17u         /* 2^-XG_RATE_BYTE_SHIFT ticks that a byte takes */
#define XG_RATE_BYTE_SHIFT 20u
#define XG_RATE_BYTE_BURST 19u
#define XG_RATE_ACTION 21u /* of what is too much, one word */
#define XG_RATE_WORDS 22u

/* XG_KIND_CONNTRACK, behind XG_BODY_STATEFUL words */
#define XG_CT_MODE 10u   /* bits, below */
#define XG_CT_ON_NEW 11u /* action words */
#define XG_CT_ON_INVALID 12u
#define XG_CT_ON_UNTRACKED 13u
#define XG_CT_TIMEOUTS 14u /* ticks, two words for each state of a connection */
#define XG_CT_STATES 12u
#define XG_CT_WORDS (XG_CT_TIMEOUTS + XG_CT_STATES * 2u)
#define XG_CT_RECORD 16u /* words that each entry has behind the sets */
/* Bits of the stage's own settings: */
#define XG_CT_LOOSE 1u
#define XG_CT_FED 2u        /* it is shown what the host sends */
#define XG_CT_DROPS_NEW 4u  /* XG_CT_ON_NEW does */
#define XG_CT_PASSES_NEW 8u /* likewise */
/* Of the stages behind, which are none of the table's: */
#define XG_CT_SENDS 16u     /* one sends packets on, past the host's stack */
#define XG_CT_ASKS_EACH 32u /* what they do is to be asked for each packet; else all have the fate: */
#define XG_CT_COMMON_FATE(mode) (((mode) >> 6) & 3u)
#define XG_CT_WITH_FATE(fate) ((fate) << 6)

/* XG_KIND_DDOS, behind XG_BODY_STATEFUL words. Metrics, by number: what is counted of a target. */
#define XG_DDOS_SYN 0u
#define XG_DDOS_UDP 1u
#define XG_DDOS_UDP_BYTES 2u
#define XG_DDOS_DNS 3u
#define XG_DDOS_DNS_BYTES 4u
#define XG_DDOS_ICMP 5u
#define XG_DDOS_PACKETS 6u
#define XG_DDOS_BYTES 7u
#define XG_DDOS_NEW_FLOWS 8u
#define XG_DDOS_SOURCE_COUNT 9u
#define XG_DDOS_METRICS 10u
#define XG_DDOS_PER 10u   /* targets are sources (XG_RATE_SRC) or destinations (XG_RATE_DST) */
#define XG_DDOS_BITS4 11u /* bits of their addresses that count */
#define XG_DDOS_BITS6 12u
#define XG_DDOS_WINDOW 13u /* ticks, two words, as hold and forget */
#define XG_DDOS_OWN 15u    /* so many words are the table's; those behind are the policy's */
#define XG_DDOS_HOLD 15u   /* from the last value that is not below the release threshold on */
#define XG_DDOS_FORGET 17u /* a target without a packet */
#define XG_DDOS_MODE 19u   /* of packets in alarms: */
#define XG_DDOS_PASSES 0u
#define XG_DDOS_DROPS 1u
#define XG_DDOS_DROPS_SOURCES 2u /* those of sources that have XG_DDOS_SHARE percent of the packets */
#define XG_DDOS_SHARE 20u
#define XG_DDOS_WATCHED 21u    /* bit a metric that has a threshold */
#define XG_DDOS_THRESHOLDS 22u /* by metric, in a window: to detect, and to release; two words each */
#define XG_DDOS_LINEAR 62u     /* by registers that are 0, 0 to 256: how many different ones that means */
#define XG_DDOS_WORDS 319u

/* XG_KIND_L2FWD */
#define XG_L2FWD_ACTION 2u
#define XG_L2FWD_WORDS 3u

#endif
