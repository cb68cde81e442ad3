// SPDX-License-Identifier: MIT
//
// gpu/cuda/interpreted.cu: interprets all programs: linked to the kernels of this build, where no program is
// translated.
#include "gpu/stages/program_units.h"

XG_UNIT void xg_program_run_there(xg_program_machine& m, u64) { xg_program_interpret(m); }
