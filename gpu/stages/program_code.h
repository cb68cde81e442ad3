/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_code.h: an XDP program run on a device: one packet, one thread, an instruction after the
 * other. gpu/program_code.hpp makes the words of it. What it answers is what gpu/reference/program.hpp says.
 *
 *   program_numbers.h     what instructions are made of, and the machine
 *   program_operations.h  what they compute
 *   program_record.h      what a run keeps that is ahead of its turn
 *   program_memory.h      what pointers point into
 *   program_maps.h        the maps' memory, its layout, its elements
 *   program_map_calls.h   look-ups, updates, deletions
 *   program_ahead.h       look-ups and updates of such a run
 *   program_helpers.h     what programs call
 */
#ifndef XDPGPU_STAGES_PROGRAM_CODE_H
#define XDPGPU_STAGES_PROGRAM_CODE_H

#include "gpu/stages/program_helpers.h"

XG_FN void xg_program_forget(XG_PROGRAM_MACHINE) {
  for (u32 i = 1u; i < 6u; i++) XG_PROGRAM_OWN.r[i] = u64(0);
}

/* The last function is at its beginning, at instruction `at`: it has a stack, all 0, as large as it needs. */
XG_FN void xg_program_begin(XG_PROGRAM_MACHINE, u32 at) {
  const u32 last = m.frames - 1u;
  const u32 from =
      last == 0u ? 0u : XG_PROGRAM_OWN.stack_from[last - 1u] + XG_PROGRAM_OWN.stack_bytes[last - 1u];
  u32 bytes = ((m.code.v[at * 4u] >> 24) & 0x7fu) * 8u;
  /* Not where the machine is as large as it was asked to be. */
  if (bytes > XG_PROGRAM_STACK_BYTES - from) bytes = XG_PROGRAM_STACK_BYTES - from;
  XG_PROGRAM_OWN.stack_from[last] = from;
  XG_PROGRAM_OWN.stack_bytes[last] = bytes;
  for (u32 i = 0u; i < bytes / 4u; i++) XG_PROGRAM_OWN.stack[from / 4u + i] = 0u;
  m.next = at;
}
/* A call of what begins at `at`. */
XG_FN void xg_program_enter(XG_PROGRAM_MACHINE, u32 at) {
  if (m.frames == XG_PROGRAM_FRAMES) {
    m.fault = XG_PROGRAM_TOO_MANY_CALLS;
    return;
  }
  XG_PROGRAM_OWN.return_to[m.frames] = m.next;
  XG_PROGRAM_OWN.loop_turns[m.frames] = u64(0);
  XG_PROGRAM_OWN.loop_context[m.frames] = u64(0);
  for (u32 i = 0u; i < 4u; i++) XG_PROGRAM_OWN.saved[m.frames * 4u + i] = XG_PROGRAM_OWN.r[6u + i];
  XG_PROGRAM_OWN.r[10] = xg_program_pointer(XG_PROGRAM_STACKS + m.frames, XG_PROGRAM_STACK);
  m.frames++;
  xg_program_begin(XG_PROGRAM_IT, at);
}

/* One of a loop's calls begins. */
XG_FN void xg_program_take_turn(XG_PROGRAM_MACHINE) {
  const u32 last = m.frames - 1u;
  xg_program_forget(XG_PROGRAM_IT);
  XG_PROGRAM_OWN.r[1] = XG_PROGRAM_OWN.loop_turn[last];
  XG_PROGRAM_OWN.r[2] = XG_PROGRAM_OWN.loop_context[last];
  xg_program_begin(XG_PROGRAM_IT, XG_PROGRAM_OWN.loop_function[last]);
}
XG_FN void xg_program_loop(XG_PROGRAM_MACHINE) {
  const u64 turns = XG_PROGRAM_OWN.r[1], context = XG_PROGRAM_OWN.r[3];
  const u32 function = xg_program_low(XG_PROGRAM_OWN.r[2]);
  if (u32(XG_PROGRAM_OWN.r[2] >> 32) != XG_PROGRAM_FUNCTION ||
      function >= m.tables.v[XG_PROGRAM_TABLE_INSTRUCTIONS]) {
    m.fault = XG_PROGRAM_OUTSIDE;
    return;
  }
  if (XG_PROGRAM_OWN.r[4] != u64(0) || turns > u64(XG_PROGRAM_LOOPS) || turns == u64(0)) {
    /* Of the two errors one is of 64 bits and one of 32. */
    XG_PROGRAM_OWN.r[0] = turns == u64(0) ? u64(0) : u64(0u - XG_PROGRAM_E2BIG);
    if (XG_PROGRAM_OWN.r[4] != u64(0)) XG_PROGRAM_OWN.r[0] = xg_program_error(XG_PROGRAM_EINVAL);
    xg_program_forget(XG_PROGRAM_IT);
    return;
  }
  xg_program_enter(XG_PROGRAM_IT, function);
  if (m.fault != 0u) return;
  const u32 last = m.frames - 1u;
  XG_PROGRAM_OWN.loop_turns[last] = turns;
  XG_PROGRAM_OWN.loop_turn[last] = u64(0);
  XG_PROGRAM_OWN.loop_function[last] = function;
  XG_PROGRAM_OWN.loop_context[last] = context;
  xg_program_take_turn(XG_PROGRAM_IT);
}

XG_FN void xg_program_leave(XG_PROGRAM_MACHINE) {
  const u32 last = m.frames - 1u;
  const bool loops = XG_PROGRAM_OWN.loop_turns[last] != u64(0);
  if (loops) {
    XG_PROGRAM_OWN.loop_turn[last] += u64(1);
    if (XG_PROGRAM_OWN.r[0] == u64(0) && XG_PROGRAM_OWN.loop_turn[last] < XG_PROGRAM_OWN.loop_turns[last]) {
      xg_program_take_turn(XG_PROGRAM_IT);
      return;
    }
  }
  m.frames = last;
  if (last == 0u) return;
  if (loops) XG_PROGRAM_OWN.r[0] = XG_PROGRAM_OWN.loop_turn[last];
  for (u32 i = 0u; i < 4u; i++) XG_PROGRAM_OWN.r[6u + i] = XG_PROGRAM_OWN.saved[last * 4u + i];
  XG_PROGRAM_OWN.r[10] = xg_program_pointer(XG_PROGRAM_STACKS + last - 1u, XG_PROGRAM_STACK);
  m.next = XG_PROGRAM_OWN.return_to[last];
  xg_program_forget(XG_PROGRAM_IT);
}

/* The other program takes this function's place. Where there is none, this one goes on. */
XG_FN void xg_program_tail_call(XG_PROGRAM_MACHINE) {
  u32 map = 0u;
  if (!xg_program_map_at(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[2], map)) return;
  if (xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_TYPE) != XG_PROGRAM_PROGRAMS) {
    m.fault = XG_PROGRAM_WRONG_MAP;
    return;
  }
  if (XG_PROGRAM_OWN.r[1] != xg_program_pointer(XG_PROGRAM_CONTEXT, 0u)) {
    m.fault = XG_PROGRAM_OUT_OF_BOUNDS;
    return;
  }
  const u32 index = xg_program_low(XG_PROGRAM_OWN.r[3]);
  xg_program_forget(XG_PROGRAM_IT);
  u32 program = 0u;
  if (index < xg_program_map_word(XG_PROGRAM_IT, map, XG_PROGRAM_MAP_ENTRIES))
    program = m.state.v[xg_program_value_at(XG_PROGRAM_IT, map, index)];
  if (program == 0u || m.tails >= XG_PROGRAM_TAIL_CALLS) return;
  if (program > m.tables.v[XG_PROGRAM_TABLE_PROGRAMS]) {
    m.fault = XG_PROGRAM_OUTSIDE;
    return;
  }
  m.tails++;
  XG_PROGRAM_OWN.r[1] = xg_program_pointer(XG_PROGRAM_CONTEXT, 0u);
  xg_program_begin(XG_PROGRAM_IT, m.tables.v[m.tables.v[XG_PROGRAM_TABLE_FIRST] + program - 1u]);
}

XG_FN void xg_program_step(XG_PROGRAM_MACHINE) {
  const u32 at = m.next * 4u;
  const u32 flags = m.code.v[at], what = m.code.v[at + 1u];
  const u32 operation = flags & 0xffu, d = (flags >> 8) & 15u, s = (flags >> 12) & 15u;
  const u64 immediate = (u64(m.code.v[at + 3u]) << 32) | u64(m.code.v[at + 2u]);
  const u64 operand = (flags & XG_PROGRAM_X) != 0u ? XG_PROGRAM_OWN.r[s] : immediate;
  const u32 bytes = 1u << ((flags >> 16) & 3u);
  const u64 offset = xg_program_signed(u64(what), 32u);
  m.next++;
  if (operation < XG_PROGRAM_JEQ) {
    XG_PROGRAM_OWN.r[d] = xg_program_computed(operation, flags, what, XG_PROGRAM_OWN.r[d], operand);
  } else if (operation <= XG_PROGRAM_JA) {
    if (xg_program_holds(operation, flags, XG_PROGRAM_OWN.r[d], operand)) m.next = what;
  } else if (operation == XG_PROGRAM_LOAD || operation == XG_PROGRAM_LOAD_COUNT) {
    const u64 value = xg_program_load(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[s] + offset, bytes);
    if (operation == XG_PROGRAM_LOAD_COUNT) XG_PROGRAM_OWN.counted[xg_program_low(immediate)] = value;
    XG_PROGRAM_OWN.r[d] = (flags & XG_PROGRAM_SIGNED) != 0u ? xg_program_signed(value, bytes * 8u) : value;
  } else if (operation == XG_PROGRAM_STORE) {
    xg_program_store(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[d] + offset, bytes, operand);
  } else if (operation == XG_PROGRAM_ATOMIC) {
    const u32 change = u32(immediate & u64(0xffu));
    const u64 before = xg_program_load(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[d] + offset, bytes);
    const u64 after = xg_program_changed(change, before, XG_PROGRAM_OWN.r[s],
                                         xg_program_cut(XG_PROGRAM_OWN.r[0], bytes * 8u));
    if (m.fault == 0u) xg_program_store(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[d] + offset, bytes, after);
    if ((change & 0xf0u) == 0xf0u)
      XG_PROGRAM_OWN.r[0] = before;
    else if ((change & 1u) != 0u)
      XG_PROGRAM_OWN.r[s] = before;
  } else if (operation == XG_PROGRAM_ADD_UP) {
    xg_program_add_to(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[d] + offset, bytes,
                      XG_PROGRAM_OWN.r[s] - XG_PROGRAM_OWN.counted[xg_program_low(immediate)]);
  } else if (operation == XG_PROGRAM_ADD_TO) {
    xg_program_add_to(XG_PROGRAM_IT, XG_PROGRAM_OWN.r[d] + offset, bytes, XG_PROGRAM_OWN.r[s]);
  } else if (operation == XG_PROGRAM_NUMBER) {
    XG_PROGRAM_OWN.r[d] = immediate;
    m.next++; /* its second half, which is no instruction */
  } else if (operation == XG_PROGRAM_CALL) {
    xg_program_enter(XG_PROGRAM_IT, what);
  } else if (operation == XG_PROGRAM_EXIT) {
    xg_program_leave(XG_PROGRAM_IT);
  } else if (operation == XG_PROGRAM_TAIL_CALL) {
    xg_program_tail_call(XG_PROGRAM_IT);
  } else if (operation == XG_PROGRAM_LOOP) {
    xg_program_loop(XG_PROGRAM_IT);
  } else if (operation == XG_PROGRAM_NONE) {
    m.fault = XG_PROGRAM_UNKNOWN_INSTRUCTION;
  } else {
    XG_PROGRAM_OWN.r[0] = xg_program_help(XG_PROGRAM_IT, operation);
    xg_program_forget(XG_PROGRAM_IT);
  }
}

/* At a program's beginning: all of a machine but the first two groups. */
XG_FN void xg_program_start(XG_PROGRAM_MACHINE, u32 program) {
  for (u32 i = 0u; i < 11u; i++) XG_PROGRAM_OWN.r[i] = u64(0);
  for (u32 i = 0u; i < XG_PROGRAM_COUNTED; i++) XG_PROGRAM_OWN.counted[i] = u64(0);
  XG_PROGRAM_OWN.r[1] = xg_program_pointer(XG_PROGRAM_CONTEXT, 0u);
  XG_PROGRAM_OWN.r[10] = xg_program_pointer(XG_PROGRAM_STACKS, XG_PROGRAM_STACK);
  m.first = m.meta;
  m.last = m.end;
  m.lines_used = 0u;
#ifndef XG_PROGRAM_FEW_LINES
  for (u32 i = 0u; i < (XG_PROGRAM_ALL_LINES + 3u) / 4u; i++) m.line_of[i] = 0u;
#endif
  m.steps = 0u;
  m.fault = 0u;
  m.tails = 0u;
  m.gives_back = 0u;
  m.redirect_to = 0u;
  m.has_event = 0u;
  m.record = 0u;
  XG_PROGRAM_OWN.loop_turns[0] = u64(0);
  XG_PROGRAM_OWN.loop_context[0] = u64(0);
  m.frames = 1u;
  xg_program_begin(XG_PROGRAM_IT, m.tables.v[m.tables.v[XG_PROGRAM_TABLE_FIRST] + program]);
}
/* From wherever it is. */
XG_FN void xg_program_finish(XG_PROGRAM_MACHINE) {
  while (m.frames != 0u && m.fault == 0u) {
    m.steps++;
    if (m.steps > m.most_steps)
      m.fault = XG_PROGRAM_TOO_MANY_STEPS;
    else
      xg_program_step(XG_PROGRAM_IT);
  }
  if (m.gives_back != 0u) xg_program_give_back(XG_PROGRAM_IT);
}

/* Runs a program for the machine's packet, of which the first two groups are set. R0 is the action, where
 * `fault` is 0. With the action XDP_REDIRECT `redirect_to` says where. */
XG_FN void xg_program_run(XG_PROGRAM_MACHINE, u32 program) {
#ifndef XG_PROGRAM_IN_BUFFER
  xg_program_keep_nothing(XG_PROGRAM_IT);
#endif
  xg_program_start(XG_PROGRAM_IT, program);
  xg_program_finish(XG_PROGRAM_IT);
}

#endif
