/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_numbers.h: the numbers of an XDP program in the form that devices run, and the machine
 * that runs it. Of gpu/stages/program_code.h.
 *
 * An instruction has four words. What RFC 9669 lets be wrong was found when they were made: operations,
 * registers, jumps and maps are known to be there, so only memory and steps are looked at here.
 *
 *   0     operation | destination << 8 | source << 12 | log2 of a memory's bytes << 16 |
 *         XG_PROGRAM_X, _32, _SIGNED | an eighth of the stack's bytes that a function which begins here needs
 * << 24 1     what is added to an address; where a jump goes; a map's number 2, 3  the immediate with its
 * sign, the lower half first
 *
 * The programs of a set stand one behind the other, and jumps go by places among them all.
 *
 * Pointers are those of gpu/reference/program_memory.hpp, but for values (gpu/stages/program_maps.h has their
 * numbers). Of memory that threads share, no change but the three that count is atomic here: of any other
 * program that writes to maps, or that looks an LRU hash up, packets that meet there come one after the
 * other.
 */
#ifndef XDPGPU_STAGES_PROGRAM_NUMBERS_H
#define XDPGPU_STAGES_PROGRAM_NUMBERS_H

#include "gpu/stages/dialect.h"

/* Numbers of gpu/reference/program.hpp, which are the kernel's. */
#define XG_PROGRAM_STEPS 1048576u
#define XG_PROGRAM_FRAMES 8u
#define XG_PROGRAM_TAIL_CALLS 33u
#define XG_PROGRAM_LOOPS 8388608u
#define XG_PROGRAM_STACK 512u
#define XG_PROGRAM_HEADROOM 256u
#define XG_PROGRAM_KEPT 40u
#define XG_PROGRAM_FRAME 3776u
#define XG_PROGRAM_LEAST 14u
#define XG_PROGRAM_MOST_METADATA 252u

/* Places for what is loaded to be counted up. */
#define XG_PROGRAM_COUNTED 16u

/* XG_PROGRAM_NEAR, where it is defined: a device may have a copy of so many bytes of a packet, the first
 * ones. */

/* Private memory. A device may have less of it: of stacks as many bytes as DeviceCode::stack_bytes says, a
 * multiple of 8; of lines as many as it likes, and what writes to more of them ends with the reason. */
#ifndef XG_PROGRAM_STACK_BYTES
#define XG_PROGRAM_STACK_BYTES (XG_PROGRAM_FRAMES * XG_PROGRAM_STACK)
#endif
#define XG_PROGRAM_LINE_WORDS 16u
#define XG_PROGRAM_ALL_LINES ((XG_PROGRAM_FRAME / 4u + XG_PROGRAM_LINE_WORDS - 1u) / XG_PROGRAM_LINE_WORDS)
#ifndef XG_PROGRAM_LINES
#define XG_PROGRAM_LINES XG_PROGRAM_ALL_LINES
#endif
/* Which ones they are is in one word then. */
#ifdef XG_GLSL
#define XG_PROGRAM_FEW_LINES
#elif XG_PROGRAM_LINES <= 4u
#define XG_PROGRAM_FEW_LINES
#endif

#define XG_PROGRAM_X 0x100000u
#define XG_PROGRAM_32 0x200000u
#define XG_PROGRAM_SIGNED 0x400000u

#define XG_PROGRAM_ADD 0u
#define XG_PROGRAM_SUB 1u
#define XG_PROGRAM_MUL 2u
#define XG_PROGRAM_DIV 3u
#define XG_PROGRAM_MOD 4u
#define XG_PROGRAM_OR 5u
#define XG_PROGRAM_AND 6u
#define XG_PROGRAM_XOR 7u
#define XG_PROGRAM_LSH 8u
#define XG_PROGRAM_RSH 9u
#define XG_PROGRAM_ARSH 10u
#define XG_PROGRAM_MOV 11u /* word 1: how many bits count, with their sign */
#define XG_PROGRAM_NEG 12u
#define XG_PROGRAM_SWAP 13u /* word 1: bits */
#define XG_PROGRAM_CUT 14u  /* word 1: bits */
/* Conditions: a jump if it holds. */
#define XG_PROGRAM_JEQ 16u
#define XG_PROGRAM_JNE 17u
#define XG_PROGRAM_JGT 18u
#define XG_PROGRAM_JGE 19u
#define XG_PROGRAM_JLT 20u
#define XG_PROGRAM_JLE 21u
#define XG_PROGRAM_JSET 22u
#define XG_PROGRAM_JSGT 23u
#define XG_PROGRAM_JSGE 24u
#define XG_PROGRAM_JSLT 25u
#define XG_PROGRAM_JSLE 26u
#define XG_PROGRAM_JA 27u
#define XG_PROGRAM_LOAD 32u
#define XG_PROGRAM_STORE 33u
#define XG_PROGRAM_ATOMIC 34u /* the immediate: as in RFC 9669 */
#define XG_PROGRAM_NUMBER 35u
#define XG_PROGRAM_CALL 36u /* of a function: word 1 */
#define XG_PROGRAM_EXIT 37u
#define XG_PROGRAM_NONE 38u /* the second half of a number: no instruction */
/* Of a program that only counts in maps, whose packets go side by side (gpu/program_counts.hpp). */
#define XG_PROGRAM_LOAD_COUNT 39u /* keeps what it loads at the place that word 2 says */
#define XG_PROGRAM_ADD_UP 40u     /* a store: adds by how much its register is more than what is kept there */
#define XG_PROGRAM_ADD_TO 41u     /* an atomic addition */
/* Helpers. */
#define XG_PROGRAM_LOOK_UP 48u
#define XG_PROGRAM_UPDATE 49u
#define XG_PROGRAM_ERASE 50u
#define XG_PROGRAM_ADJUST_HEAD 51u
#define XG_PROGRAM_ADJUST_META 52u
#define XG_PROGRAM_ADJUST_TAIL 53u
#define XG_PROGRAM_CSUM_DIFF 54u
#define XG_PROGRAM_TIME 55u
#define XG_PROGRAM_RANDOM 56u
#define XG_PROGRAM_QUEUE 57u
#define XG_PROGRAM_REDIRECT 58u
#define XG_PROGRAM_REDIRECT_MAP 59u
#define XG_PROGRAM_TAIL_CALL 60u
#define XG_PROGRAM_LOOP 61u
#define XG_PROGRAM_PERF_OUTPUT 62u /* bpf_perf_event_output */
#define XG_PROGRAM_RING_OUTPUT 63u /* bpf_ringbuf_output */
#define XG_PROGRAM_FIB_LOOKUP 64u
#define XG_PROGRAM_RESERVE 65u /* bpf_ringbuf_reserve */
#define XG_PROGRAM_SUBMIT 66u  /* bpf_ringbuf_submit */
#define XG_PROGRAM_DISCARD 67u /* bpf_ringbuf_discard */

/* Upper halves of pointers. */
#define XG_PROGRAM_CONTEXT 1u
#define XG_PROGRAM_PACKET 2u
#define XG_PROGRAM_FUNCTION 3u
#define XG_PROGRAM_RECORD 4u /* that the run has reserved of a ringbuf */
#define XG_PROGRAM_STACKS 16u
#define XG_PROGRAM_MAPS 0x10000000u
#define XG_PROGRAM_VALUES 0x20000000u

/* Why one was ended: ProgramFault's numbers, and one that devices alone have. */
#define XG_PROGRAM_OUT_OF_BOUNDS 1u
#define XG_PROGRAM_READ_ONLY 2u
#define XG_PROGRAM_UNKNOWN_INSTRUCTION 3u
#define XG_PROGRAM_WRONG_MAP 5u
#define XG_PROGRAM_OUTSIDE 6u
#define XG_PROGRAM_TOO_MANY_STEPS 7u
#define XG_PROGRAM_TOO_MANY_CALLS 8u
#define XG_PROGRAM_WRITES_PACKET 9u     /* where packets are only read */
#define XG_PROGRAM_TOO_MUCH_WRITTEN 10u /* to more than XG_PROGRAM_LINES lines of a packet */
#define XG_PROGRAM_KEY_FOUND 11u        /* what a run with `seeks_key` ends with: no reason of a program's */

/* xg_program_machine.record */
#define XG_PROGRAM_HAS_RECORD 0x80000000u
#define XG_PROGRAM_RECORD_BYTES(record) (((record) >> 16) & 0x7fffu)
#define XG_PROGRAM_RECORD_MAP(record) ((record)&0xffffu)

/* xg_program_machine.seeks_key */
#define XG_PROGRAM_SEEKS 1u
#define XG_PROGRAM_IS_AHEAD 2u

/* bpf.h's flags, errno.h's numbers, actions. */
#define XG_PROGRAM_NOEXIST 1u
#define XG_PROGRAM_EXIST 2u
#define XG_PROGRAM_LOCK 4u
#define XG_PROGRAM_BROADCAST 8u
#define XG_PROGRAM_EXCLUDE_INGRESS 16u
#define XG_PROGRAM_WAKE_UPS 3u         /* BPF_RB_NO_WAKEUP, BPF_RB_FORCE_WAKEUP */
#define XG_PROGRAM_MOST_ASKED 0xfffffu /* of BPF_F_CTXLEN_MASK */
#define XG_PROGRAM_ITS_OWN 0xffffffffu /* BPF_F_CURRENT_CPU */
#define XG_PROGRAM_ENOENT 2u
#define XG_PROGRAM_E2BIG 7u
#define XG_PROGRAM_EAGAIN 11u
#define XG_PROGRAM_ENOMEM 12u
#define XG_PROGRAM_EACCES 13u
#define XG_PROGRAM_EFAULT 14u
#define XG_PROGRAM_EEXIST 17u
#define XG_PROGRAM_EINVAL 22u
#define XG_PROGRAM_ENOSPC 28u
#define XG_PROGRAM_EOPNOTSUPP 95u
#define XG_PROGRAM_REDIRECTED 4u
/* xg_program_machine.redirect_to: by a cpumap, which is here */
#define XG_PROGRAM_TO_PROCESSOR 3u

/* Where a compiler keeps no arrays of an invocation's own (gpu/stages/program/program.comp), what a machine
 * has of them stands in memory: XG_PROGRAM_OWN_BYTES, the stack first, a multiple of 8, and the lines of the
 * packet right behind it. Of these each has the bytes beside it, too, XG_PROGRAM_MARGIN on either side: what
 * stands across two lines is read from one of them. What a run that goes on later has to know is last. */
#define XG_PROGRAM_OWN_BYTES 5192u
#ifdef XG_PROGRAM_IN_BUFFER
#define XG_PROGRAM_MARGIN 8u
#define XG_PROGRAM_LINE_BYTES (XG_PROGRAM_LINE_WORDS * 4u)
#define XG_PROGRAM_WIDE_LINE (XG_PROGRAM_LINE_BYTES + 2u * XG_PROGRAM_MARGIN) /* bytes, with the margins */
#define XG_PROGRAM_LATER_WORDS 19u
layout(buffer_reference, scalar, buffer_reference_align = 8) buffer xg_program_own {
  u32 stack[XG_PROGRAM_STACK_BYTES / 4u];
  u64 lines[XG_PROGRAM_LINES * XG_PROGRAM_WIDE_LINE / 8u];
  u64 r[11];
  u64 saved[4u * XG_PROGRAM_FRAMES];
  u64 loop_turns[XG_PROGRAM_FRAMES], loop_turn[XG_PROGRAM_FRAMES], loop_context[XG_PROGRAM_FRAMES];
  u32 stack_from[XG_PROGRAM_FRAMES], stack_bytes[XG_PROGRAM_FRAMES];
  u32 return_to[XG_PROGRAM_FRAMES], loop_function[XG_PROGRAM_FRAMES];
  u32 later[XG_PROGRAM_LATER_WORDS];
};
#define XG_PROGRAM_OWN m.own
/* Eight bytes of a line of the machine's. */
#define XG_PROGRAM_OWN_PAIR(line, pair) \
  m.own.lines[(line) * (XG_PROGRAM_WIDE_LINE / 8u) + XG_PROGRAM_MARGIN / 8u + (pair)]
#define XG_PROGRAM_TURN() m.turns++
#else
#define XG_PROGRAM_OWN m
#define XG_PROGRAM_OWN_PAIR(line, pair)                                \
  (u64(m.lines[(line)*XG_PROGRAM_LINE_WORDS + (pair)*2u + 1u]) << 32 | \
   u64(m.lines[(line)*XG_PROGRAM_LINE_WORDS + (pair)*2u]))
#define XG_PROGRAM_TURN()
#endif

/* One packet's run. What is in the first two groups is set before; the third is what the program left. */
XG_RECORD(xg_program_machine) {
  xg_words code, tables; /* of the set: DeviceCode */
  xg_state state;
  xg_words frame;     /* where the packet stands */
  xg_words arguments; /* the host's, where it does something to maps */
  xg_words image;     /* where the stage's body stands, and routes */
  u32 body;
  u32 frame_bias; /* of the frame's place p there: byte p + frame_bias, in 32 bits */
#ifdef XG_PROGRAM_NEAR
  xg_words near; /* a copy of the packet's beginning, which is faster to read: as the frame, up to place
                    near_end */
  u32 near_bias, near_end;
#endif

  u64 time;
  u32 random, queue, ingress, egress;
  u32 meta, data, end; /* places in the frame, of which the packet's first is XG_PROGRAM_HEADROOM */
  u32 most_steps;      /* XG_PROGRAM_STEPS at most */
  u32 most_lines;      /* of the packet that it may write to; 0: a program that writes to it ends */
#ifndef XG_PROGRAM_IN_BUFFER
  u32 seeks_key; /* XG_PROGRAM_SEEKS: the run leaves nothing behind, and ends where it would be in a map that
                    is sharded, with the hash of the key in key_hash; XG_PROGRAM_IS_AHEAD: it leaves nothing
                    behind in maps but its record, and ends likewise where that has no room
                    (gpu/stages/program_ahead.h) */
  u32 key_bits;  /* not 0: so many of the highest bits of that have to be key_set, or the run ends */
  u32 key_set;
  xg_state ahead; /* the record */
  u32 ahead_how, ahead_map, ahead_slot, ahead_counted;
#endif
  xg_quads event; /* where its xg_event goes; 0: nobody asks for it */

  u64 r[11];
  u32 fault;
  u32 steps;
  u32 redirect_to; /* 0: nowhere; 1: to the interface; 2: by the map; XG_PROGRAM_TO_PROCESSOR */
  u32 redirect_map, redirect_key, redirect_ifindex, redirect_flags;
  u32 has_event; /* 1: it has put something out */
  u32 record;    /* what it has reserved: XG_PROGRAM_HAS_RECORD, its bytes, the map; 0: nothing */

  u32 next, frames, tails;
  u32 gives_back; /* not 0: values wait for the end of the run */
  u32 key_hash;   /* of the key of the last update or deletion */
  /* Bytes of the frame that are still those that came: from first on, behind last there are zeros. */
  u32 first, last;
  u32 lines_used;
#ifdef XG_PROGRAM_FEW_LINES
  u32 line_numbers; /* a byte a line of the machine's: which of the frame's it is */
#else
  u32 line_of[(XG_PROGRAM_ALL_LINES + 3u) /
              4u];                 /* a byte a line of the frame: 1 + its place in lines; 0: as it came */
#endif
#ifndef XG_PROGRAM_IN_BUFFER
  u32 lines[XG_PROGRAM_LINES * XG_PROGRAM_LINE_WORDS];
#endif
#ifdef XG_PROGRAM_IN_BUFFER
  /* What is reserved stands in the event. */
  xg_program_own own;
  u32 turns;  /* of loops inside of instructions */
  u32 begins; /* 1: a function, at `next` */
  u32 moved;  /* of an instruction that takes several turns: bytes that it is through with */
};
#else
  u64 counted[XG_PROGRAM_COUNTED]; /* as they were loaded */
  u32 stack[XG_PROGRAM_STACK_BYTES / 4u];
  /* By function, the entry's first. */
  u32 stack_from[XG_PROGRAM_FRAMES], stack_bytes[XG_PROGRAM_FRAMES]; /* in the stack */
  u32 return_to[XG_PROGRAM_FRAMES];
  u32 loop_function[XG_PROGRAM_FRAMES]; /* where turns is not 0 */
  u64 loop_turns[XG_PROGRAM_FRAMES], loop_turn[XG_PROGRAM_FRAMES], loop_context[XG_PROGRAM_FRAMES];
  u64 saved[4u * XG_PROGRAM_FRAMES];
  u32 record_words[XG_EVENT_BYTES / 4u];
};
#endif

/* How a machine is handed on. GLSL knows no references, and copies what is handed on, as large as it is:
 * there an invocation has one machine, which all know by its name. */
#ifdef XG_GLSL
xg_program_machine m;
#define XG_PROGRAM_MACHINE u32 which_machine
#define XG_PROGRAM_MACHINE_READ u32 which_machine
#define XG_PROGRAM_IT 0u
#else
#define XG_PROGRAM_MACHINE XG_INOUT(xg_program_machine) m
#define XG_PROGRAM_MACHINE_READ XG_IN(xg_program_machine) m
#define XG_PROGRAM_IT m
#endif

XG_FN u64 xg_program_pointer(u32 object, u32 offset) { return (u64(object) << 32) | u64(offset); }
XG_FN u64 xg_program_error(u32 number) { return u64(0) - u64(number); }
XG_FN u32 xg_program_low(u64 x) { return u32(x & u64(0xffffffffu)); }

#endif
