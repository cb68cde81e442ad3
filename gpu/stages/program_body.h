/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_body.h: the image's words of a stage that runs a program (trait programs), for whoever
 * reads them beside the stage.
 */
#ifndef XDPGPU_STAGES_PROGRAM_BODY_H
#define XDPGPU_STAGES_PROGRAM_BODY_H

#include "gpu/stages/table.h"

/* The body, behind XG_BODY_STATEFUL words: four that hash the maps and their first contents, XG_BODY_FIRST
 * and XG_BODY_FIRST_WORDS, and these. */
#define XG_PROGRAM_BODY_LAYOUT 10u
#define XG_PROGRAM_BODY_CODE 16u   /* -> programs::Image::code */
#define XG_PROGRAM_BODY_TABLES 17u /* -> its tables */
#define XG_PROGRAM_BODY_STATE 18u  /* without a table: -> its state, which nobody changes */
#define XG_PROGRAM_BODY_STEPS XG_BODY_STEPS
#define XG_PROGRAM_BODY_COUNTS 20u   /* with a table: not 0: its program only counts there */
#define XG_PROGRAM_COUNTS_AHEAD 1u   /* and its packets need not wait for those of other batches */
#define XG_PROGRAM_COUNTS_IN_TURN 2u /* on a device whose batches are at the tables one by one: they wait */
#define XG_PROGRAM_BODY_NAME 21u     /* two: gpu::programs::name_of its code */
#define XG_PROGRAM_BODY_LINES 23u    /* of a packet that it may write to: 0, where other stages follow */
/* -> its interfaces: their count, and of each its number and its port. */
#define XG_PROGRAM_BODY_INTERFACES 24u
#define XG_PROGRAM_BODY_EVENTS 25u /* not 0: it may put something out, of its pipeline's programs alone */
/* -> the body of the stage whose routes it looks up (gpu/stages/forward_body.h); 0: there is none. */
#define XG_PROGRAM_BODY_ROUTES 26u
/* Its packets are ordered by a key: so many of the highest bits of its hash say by which set; 0: they are
 * all of one. */
#define XG_PROGRAM_BODY_KEY_BITS 27u
#define XG_PROGRAM_BODY_WORDS 28u

/* Of the key of an xg_touch: where a copy of the packet's beginning stands, in memory that those who take the
 * packet see, its first byte there, and how many there are. */
#define XG_PROGRAM_TOUCH_COPY 5u
#define XG_PROGRAM_TOUCH_BYTES 8u
#define XG_PROGRAM_TOUCH_EDITS 9u /* the CPU device's */

#endif
