/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_record_layout.h: the words of what a run keeps that is ahead of its turn
 * (gpu/stages/program_ahead.h).
 */
#ifndef XDPGPU_STAGES_PROGRAM_RECORD_LAYOUT_H
#define XDPGPU_STAGES_PROGRAM_RECORD_LAYOUT_H

/* xg_batch.ahead: records of runs that are ahead of their turns (gpu/stages/program_ahead.h), of as many
 * packets as are taken at a time. */
#define XG_PROGRAM_RECORDS 32768u
/* Words of one. */
#define XG_PROGRAM_AHEAD_HOW 0u
#define XG_PROGRAM_AHEAD_MAP 1u
#define XG_PROGRAM_AHEAD_ELEMENT 2u  /* where the words of what was found begin */
#define XG_PROGRAM_AHEAD_STANDING 3u /* its word XG_PROGRAM_STANDING then */
#define XG_PROGRAM_AHEAD_OUTCOME 4u
#define XG_PROGRAM_AHEAD_COUNTED 5u
#define XG_PROGRAM_AHEAD_HEADER 6u /* of its shard */
#define XG_PROGRAM_AHEAD_STAMP 7u  /* where its stamp is */
#define XG_PROGRAM_AHEAD_CLOCK 8u  /* its shard's then: two words */
#define XG_PROGRAM_AHEAD_KEY 12u
#define XG_PROGRAM_AHEAD_VALUE 28u
/* Four words each: where, 4 or 8 bytes, by how much. */
#define XG_PROGRAM_AHEAD_COUNTS 44u
#define XG_PROGRAM_AHEAD_MOST_BYTES 64u /* of a key, of a value */
#define XG_PROGRAM_AHEAD_MOST_COUNTS 12u
#define XG_PROGRAM_AHEAD_WORDS (XG_PROGRAM_AHEAD_COUNTS + 4u * XG_PROGRAM_AHEAD_MOST_COUNTS)

#endif
