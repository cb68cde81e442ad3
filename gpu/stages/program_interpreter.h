/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_interpreter.h: the interpreter as a unit of its own (gpu/stages/program_units.h).
 */
#ifndef XDPGPU_STAGES_PROGRAM_INTERPRETER_H
#define XDPGPU_STAGES_PROGRAM_INTERPRETER_H

#include "gpu/stages/program_code.h"
#include "gpu/stages/program_units.h"

XG_UNIT void xg_program_interpret(xg_program_machine& m) { xg_program_run(m, 0u); }
XG_UNIT void xg_program_prepare(xg_program_machine& m) { xg_program_start(m, 0u); }
XG_UNIT void xg_program_one(xg_program_machine& m) { xg_program_step(m); }
XG_UNIT void xg_program_go_on(xg_program_machine& m) { xg_program_finish(m); }
XG_UNIT u64 xg_program_loaded(xg_program_machine& m, u64 address, u32 bytes) {
  return xg_program_load(m, address, bytes);
}
XG_UNIT void xg_program_stored(xg_program_machine& m, u64 address, u32 bytes, u64 value) {
  xg_program_store(m, address, bytes, value);
}
XG_UNIT bool xg_program_turn_taken(xg_program_machine& m) { return xg_program_takes_its_turn(m); }
XG_UNIT u64 xg_program_adjusted(xg_program_machine& m, u32 operation, u32 by) {
  if (operation == XG_PROGRAM_ADJUST_HEAD) return xg_program_adjust_head(m, by);
  if (operation == XG_PROGRAM_ADJUST_META) return xg_program_adjust_meta(m, by);
  return xg_program_adjust_tail(m, by);
}

#endif
