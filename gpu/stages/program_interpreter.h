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

#endif
