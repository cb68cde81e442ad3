// SPDX-License-Identifier: MIT
//
// gpu/cuda/interpreter.cu: what runs programs that are not translated, linked to the kernels that run
// programs.
#include "gpu/stages/program_interpreter.h"
