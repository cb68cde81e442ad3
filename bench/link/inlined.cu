// SPDX-License-Identifier: MIT
//
// bench/link/inlined.cu: the function as a part of the kernels, known when they are compiled.
#define XG_JUDGE static __device__ __forceinline__
#include "bench/link/function.h"

#include "bench/link/decider.cuh"
