/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/forward_body.h: the image's words of a stage that has routes (trait routes), for whoever looks
 * them up beside the stage (gpu/stages/program_routes.h).
 */
#ifndef XDPGPU_STAGES_FORWARD_BODY_H
#define XDPGPU_STAGES_FORWARD_BODY_H

/* The body: the value of a prefix is 1 + the number of its next hop. */
#define XG_FWD_OTHERWISE 2u /* action word where there is no route */
#define XG_FWD_HOPS 3u      /* -> next hops, XG_FWD_HOP words each */
#define XG_FWD_V4 4u        /* a table of prefixes each */
#define XG_FWD_V6 9u
#define XG_FWD_WORDS 14u
/* A next hop. Where the action is to drop or to pass, that is all of it. */
#define XG_FWD_HOP 8u
#define XG_FWD_ACTION 0u
#define XG_FWD_DST 1u     /* two words, as xg_set_edit() takes them */
#define XG_FWD_SRC 3u     /* two words, with XG_FWD_OWN_SRC */
#define XG_FWD_OWN_SRC 5u /* 0: the frame's former destination becomes its source */
#define XG_FWD_MTU 6u     /* longest IP packet */
#define XG_FWD_REWRITE 7u /* number of the rewrite, XG_FWD_NO_REWRITE: none was left */
#define XG_FWD_NO_REWRITE 0u

#endif
