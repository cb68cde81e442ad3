// SPDX-License-Identifier: MIT
//
// An XDP program a packet, as a Vulkan device would run it: for the compiler alone (gpu_program_code.cpp).
#version 460
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_buffer_reference : require
#extension GL_GOOGLE_include_directive : require

#define XG_GLSL 1
#define XG_PROGRAM_STACK_BYTES 512u
#define XG_PROGRAM_LINES 4u
#include "gpu/stages/program_code.h"

layout(local_size_x = 32) in;
layout(push_constant, scalar) uniform Arguments {
  u64 code, tables, state, frames, answers;
  u32 bias, bytes;
};

void main() {
  m.code = xg_words(code);
  m.tables = xg_words(tables);
  m.state = xg_state(state);
  m.frame = xg_words(frames);
  m.frame_bias = bias;
  m.event = xg_quads(u64(0));
  m.most_steps = XG_PROGRAM_STEPS;
  m.most_lines = XG_PROGRAM_LINES;
  m.time = u64(0);
  m.random = 0u;
  m.queue = 0u;
  m.ingress = 0u;
  m.egress = 0u;
  m.meta = XG_PROGRAM_HEADROOM;
  m.data = XG_PROGRAM_HEADROOM;
  m.end = XG_PROGRAM_HEADROOM + bytes;
  xg_program_run(XG_PROGRAM_IT, 0u);
  xg_words(answers).v[gl_GlobalInvocationID.x] = m.fault != 0u ? 0u : xg_program_low(m.r[0]);
  xg_words(answers).v[gl_GlobalInvocationID.x + 32u] = xg_program_frame_byte(XG_PROGRAM_IT, m.data);
}
