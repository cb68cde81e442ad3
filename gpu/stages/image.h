/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/image.h: the pipelines image, what a policy generation's pipelines are compiled into
 * (gpu/pipelines.cpp, the stages' compile.cpp) and what the stages read. An array of u32 words, the same for
 * every device; it holds no addresses: "-> x" below is the index of x's first word in the image.
 *
 *   header     XG_IMAGE_HEADER words
 *   pipelines  XG_PIPELINE_WORDS each: -> its stages, number of stages, position of the first one with a
 *              table (the number of stages: none has one), and as in a body's first words whether, and for
 *              how long, what no stage decides may be cached; how many bytes of a packet its stages may read,
 *              0: its headers alone; and 1 if its stages see what is inside of tunnels (gpu/stages/inner.h)
 *   stages     two words each: kind, -> body
 *   bodies     one a stage, laid out as its folder's device.h says
 *   changes    what the host may change while packets flow (gpu/stages/changes.h)
 *
 * An action word is a verdict word without its stage; XG_NEXT in its action field means that the
 * packet goes on to the next stage.
 */
#ifndef XDPGPU_STAGES_IMAGE_H
#define XDPGPU_STAGES_IMAGE_H

#define XG_IMAGE_MAGIC 0x31504758u /* "XGP1" */
#define XG_IMAGE_HEADER 12u
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
#define XG_IMAGE_PAYLOAD_AT 7u  /* most of XG_PIPELINE_PAYLOAD of all pipelines */
#define XG_IMAGE_INNER_AT 8u    /* 1: some pipeline has XG_PIPELINE_INNER */
#define XG_IMAGE_INSPECTS_AT 9u /* 1: some pipeline has a stage that inspects */
#define XG_IMAGE_CHANGES_AT 10u /* -> changes, which go on to the image's end */
#define XG_IMAGE_AHEAD_AT 11u   /* 1: packets of some program may run ahead of their turns */
#define XG_PIPELINE_UNDECIDED 3u
#define XG_PIPELINE_PAYLOAD 5u
#define XG_PIPELINE_INNER 6u
/* Position of a stage that has two places, one behind the other: with a table, and to inspect; ~0: none. Each
 * stage behind it has one number less than its place. */
#define XG_PIPELINE_TWICE 7u
#define XG_PIPELINE_WORDS 8u
/* Of a packet whose pipeline has it, so many bytes are read for the headers inside of its tunnel. */
#define XG_INNER_REACH 512u

#define XG_NEXT 7u

/* A stage's kind is its number (gpu/stages/stages.def); of a stage with a table, and of one that inspects,
 * this and its number. Packets wait at both. The second's body has no round: the word is ~0 (XG_BODY_ROUND).
 */
#define XG_KIND_STATEFUL 64u
#define XG_KIND_INSPECTS 128u

/* First words of every body. */
#define XG_BODY_CACHE 0u /* 1: verdicts of this stage may be cached in the kernel */
#define XG_BODY_TTL 1u   /* xg_result.cache_ttl_ms */
/* And of a stage's that asks lists of names: where among the changes its own begin. */
#define XG_BODY_CHANGES 2u

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

#endif
