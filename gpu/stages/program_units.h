/* SPDX-License-Identifier: MIT
 *
 * gpu/stages/program_units.h: where an XDP program's run is code of its own, which is linked to the stages:
 * the interpreter, once; and programs that are translated (gpu/program_translation.hpp), which hand packets
 * over to it. All of them have the same machine, so they are compiled with the same options.
 */
#ifndef XDPGPU_STAGES_PROGRAM_UNITS_H
#define XDPGPU_STAGES_PROGRAM_UNITS_H

#include "gpu/stages/program_numbers.h"

#ifdef __CUDACC__
/* Never called on a host: but what calls them is compiled for both. */
#define XG_UNIT extern "C" __host__ __device__
#define XG_UNIT_CONSTANT static __device__ const
#else
#define XG_UNIT extern "C"
#define XG_UNIT_CONSTANT static const
#endif

/* Runs a machine's program to its end: the one of that name (gpu::programs::name_of), which is the first of
 * its code. The machine's first two groups are set before; `fault`, and R0 where that is 0, say what came of
 * it. */
XG_UNIT void xg_program_run_there(xg_program_machine& m, u64 name);

/* The interpreter's: the whole; the machine at the program's beginning; one instruction, which is not
 * counted; the rest, from wherever it is. */
XG_UNIT void xg_program_interpret(xg_program_machine& m);
XG_UNIT void xg_program_prepare(xg_program_machine& m);
XG_UNIT void xg_program_one(xg_program_machine& m);
XG_UNIT void xg_program_go_on(xg_program_machine& m);
/* Of a packet that may have been written to: 1, 2, 4 or 8 bytes of it; and what moves its ends, R0 of that
 * call. Where `fault` is not 0 then, the run is over. The machine is past its beginning. */
XG_UNIT u64 xg_program_loaded(xg_program_machine& m, u64 address, u32 bytes);
XG_UNIT void xg_program_stored(xg_program_machine& m, u64 address, u32 bytes, u64 value);
XG_UNIT u64 xg_program_adjusted(xg_program_machine& m, u32 operation, u32 by);
/* xg_program_takes_its_turn() */
XG_UNIT bool xg_program_turn_taken(xg_program_machine& m);

#endif
