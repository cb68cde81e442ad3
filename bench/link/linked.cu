// SPDX-License-Identifier: MIT
//
// bench/link/linked.cu: the kernels without the function, which they are linked with when they are loaded.
extern "C" __device__ unsigned judge(unsigned src0, unsigned src3, unsigned dst0, unsigned dst3,
                                     unsigned ports, unsigned protocol, unsigned length);

#include "bench/link/decider.cuh"
