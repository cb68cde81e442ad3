// SPDX-License-Identifier: MIT
//
// gpu/stages/program/patches.comp: what programs made of their packets (program.comp), to where the batch has
// its patches: of those packets whose results name one. Programs are run for packets that never come to them,
// too. An invocation a quad, so that those of a packet go over the bus together.
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
  xg_quads left;     // XG_PATCH_QUADS a packet
  xg_quads patches;  // likewise
  u32 count;         // packets
};

void main() {
  const u32 packet = gl_GlobalInvocationID.x / XG_PATCH_QUADS, quad = gl_GlobalInvocationID.x % XG_PATCH_QUADS;
  if (packet >= count || (results.v[packet].flags & XG_RES_PATCH) == 0u) return;
  const u32 lines = (left.v[packet * XG_PATCH_QUADS].y >> 16) & 0xffu;
  if (quad <= lines * 4u) patches.v[gl_GlobalInvocationID.x] = left.v[gl_GlobalInvocationID.x];
}
