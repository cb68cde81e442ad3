// SPDX-License-Identifier: MIT
//
// gpu/stages/pipeline.comp: the Vulkan entry: one invocation a packet. The push constants are the batch.
#version 460
#define XG_GLSL 1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "pipeline.h"

layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Arguments { xg_batch batch; };

void main() {
  if (gl_GlobalInvocationID.x < batch.count) xg_run(batch, gl_GlobalInvocationID.x);
}
