// SPDX-License-Identifier: MIT
//
// An XDP program a packet, as a CUDA device would run it: for the compiler alone (gpu_program_code.cpp).
#define XG_PROGRAM_STACK_BYTES 512u
#define XG_PROGRAM_LINES 8u
#include "gpu/stages/program_code.h"

__global__ void run_programs(xg_words code, xg_words tables, xg_state state, xg_words frames, u32 bias,
                             u32 bytes, u32* answers) {
  xg_program_machine m;
  m.code = code;
  m.tables = tables;
  m.state = state;
  m.frame = frames;
  m.frame_bias = bias;
  m.event.v = nullptr;
  m.time = 0;
  m.most_steps = XG_PROGRAM_STEPS;
  m.most_lines = XG_PROGRAM_LINES;
  m.random = m.queue = m.ingress = m.egress = 0;
  m.meta = m.data = XG_PROGRAM_HEADROOM;
  m.end = XG_PROGRAM_HEADROOM + bytes;
  xg_program_run(m, 0u);
  answers[threadIdx.x] = m.fault != 0u ? 0u : xg_program_low(m.r[0]);
  answers[threadIdx.x + 32u] = xg_program_frame_byte(m, m.data);
}
