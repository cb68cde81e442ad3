/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/image.h: the pipelines image, what a policy generation's pipelines are compiled into
 * (gpu/pipelines.cpp, gpu/acl_image.cpp) and what the stages read. An array of u32 words, the same for
 * every device; it holds no addresses: "-> x" below is the index of x's first word in the image.
 *
 *   header     XG_IMAGE_HEADER words
 *   pipelines  two words each: -> its stages, number of stages
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
#define XG_IMAGE_HEADER 4u
#define XG_IMAGE_MAGIC_AT 0u
#define XG_IMAGE_WORDS_AT 1u     /* words in the image */
#define XG_IMAGE_PIPELINES_AT 2u /* number of pipelines */
#define XG_IMAGE_TABLE_AT 3u     /* -> pipelines */

#define XG_NEXT 7u

#define XG_KIND_ACL_BITS 1u
#define XG_KIND_LOAD_BALANCE 2u
#define XG_KIND_L2FWD 3u
#define XG_KIND_REPUTATION 4u
#define XG_KIND_FORWARD 5u

/* First words of every body. */
#define XG_BODY_CACHE 0u /* 1: verdicts of this stage may be cached in the kernel */
#define XG_BODY_TTL 1u   /* xg_result.cache_ttl_ms */

/* XG_KIND_ACL_BITS: aggregated bit vectors (Baboescu and Varghese, SIGCOMM 2001). Each field of the
 * packet falls into one interval of its dimension; the interval names a row with one bit a rule: the
 * rules whose condition on that field holds. The lowest bit set in the rows of all five fields is the
 * first rule that matches. In front of a row's bits stands its summary, one bit for each word of them
 * that is not 0. A field that the packet lacks (address of a packet that is not IP, port where there
 * is none) has a row of its own.
 *
 * A dimension is three words: -> starts, number of intervals n, -> rows. starts: the intervals' first
 * values in ascending order, the first one 0; one word each, in IPv6 dimensions four (most significant
 * first). rows: n times "-> row". */
#define XG_ACL_BITS 2u    /* words of bits in a row */
#define XG_ACL_SUMMARY 3u /* words of summary in front of them */
#define XG_ACL_ACTIONS 4u /* -> action words, one a rule */
#define XG_ACL_OTHERWISE 5u
#define XG_ACL_NO_SRC 6u /* -> row of packets without addresses */
#define XG_ACL_NO_DST 7u
#define XG_ACL_SRC4 8u
#define XG_ACL_DST4 11u
#define XG_ACL_SRC6 14u
#define XG_ACL_DST6 17u
#define XG_ACL_SRC_PORT 20u
#define XG_ACL_DST_PORT 23u
#define XG_ACL_PROTOCOL 26u
#define XG_ACL_WORDS 29u
#define XG_ACL_NO_PORT 65536u   /* value of the port dimensions where the packet has no ports */
#define XG_ACL_NO_PROTOCOL 256u /* value of the protocol dimension where the packet is not IP */

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

/* XG_KIND_LOAD_BALANCE: backend i owns the residues from the end of backend i-1 to its own. */
#define XG_LB_TOTAL 2u    /* sum of the weights, 1 or more */
#define XG_LB_COUNT 3u    /* backends, 1 or more */
#define XG_LB_BACKENDS 4u /* XG_LB_BACKEND words each follow */
#define XG_LB_BACKEND 5u
#define XG_LB_END 0u /* first residue that is not its own */
#define XG_LB_MAC 1u /* two words, as in xg_result */
#define XG_LB_ACTION 3u
#define XG_LB_REWRITE                                                                   \
  4u /* number of the rewrite, XG_LB_NO_REWRITE: none was left, verdicts are not cached \
      */
#define XG_LB_NO_REWRITE 0u

/* XG_KIND_L2FWD */
#define XG_L2FWD_ACTION 2u
#define XG_L2FWD_WORDS 3u

#endif
