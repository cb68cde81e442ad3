// SPDX-License-Identifier: MIT
//
// gpu/stages/program/events.comp: what programs put out (program.comp), to where the batch has its events: of
// those packets whose results name one. Programs are run for packets that never come to them, too. An
// invocation a quad, so that those of a packet go over the bus together.
#version 460
#define XG_GLSL 1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "gpu/stages/view.h"

layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Arguments {
  xg_results results;
  xg_quads left;    // XG_EVENT_QUADS a packet
  xg_quads events;  // likewise
  u32 count;        // packets
};

void main() {
  const u32 packet = gl_GlobalInvocationID.x / XG_EVENT_QUADS, quad = gl_GlobalInvocationID.x % XG_EVENT_QUADS;
  if (packet >= count || (results.v[packet].flags & XG_RES_EVENT) == 0u) return;
  const u32 bytes = left.v[packet * XG_EVENT_QUADS].x >> 16;
  if (quad * 16u >= bytes + 16u) return;
  xg_quad words = left.v[gl_GlobalInvocationID.x];
  // They are written by eight bytes.
  if (quad != 0u && quad * 16u - 8u >= bytes) words.zw = uvec2(0u);
  events.v[gl_GlobalInvocationID.x] = words;
}
