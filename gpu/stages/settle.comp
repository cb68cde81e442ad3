// SPDX-License-Identifier: MIT
//
// gpu/stages/settle.comp: what follows for the packets whose turn at a table of the round `first_round` a shader
// of its own has had (program/program.comp, signatures/streams.comp): one invocation a packet brings it to its
// next table, or to its end. What came of it stands above where it waits. The push constants are those of
// gpu/stages/pipeline.comp.
#version 460
#define XG_GLSL 1
#define XG_PROGRAMS_HAVE_RUN 1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "gpu/stages/pipeline.h"

layout(local_size_x = 64) in;
layout(push_constant, scalar) uniform Arguments {
  xg_batch batch;
  xg_state marks;
  u32 begin;
  u32 end;
  xg_state inspections;
  xg_words programs;
  u32 first_round;
  u32 end_round;
};

u32 xg_program_outcomes(u32 packet) { return programs.v[packet]; }
u32 xg_program_answer(u32 packet) { return marks.v[packet] >> 16; }

void main() {
  u32 i = gl_GlobalInvocationID.x;
  if (i >= batch.count) return;
  u32 mark = marks.v[i];
  if (mark == 0u) return;
  xg_view seen;
  xg_view_packet(batch, i, batch.descriptors.v[i], seen);
  xg_look_inside(batch, seen);
  xg_way way = xg_way_from((mark & 0xffffu) - 1u);
  xg_resume(batch, seen, way);
  if (way.kind == 0u || batch.image.v[way.body + XG_BODY_ROUND] != first_round) return;
  // What an earlier table has left is in the record.
  xg_result r = batch.results.v[i];
  u32 action;
#ifdef XG_KIND_SIGNATURES
  if (way.kind == XG_KIND_SIGNATURES + XG_KIND_STATEFUL) {
    action = xg_signatures_settle(batch, way.body, mark >> 16, seen, r);
  } else
#endif
#ifdef XG_KIND_PROGRAM
  if (way.kind == XG_KIND_PROGRAM + XG_KIND_STATEFUL) {
    action = xg_program_settle(batch, way.body, xg_program_touch(batch, way, seen, 0u).facts, seen, r);
  } else
#endif
  {
    return;
  }
  if (XG_VERDICT_ACTION(action) != XG_NEXT) {
    xg_end(batch, batch.image.v[XG_IMAGE_TABLE_AT] + seen.pipeline * XG_PIPELINE_WORDS, action, way, r);
  } else {
    way.position++;
    xg_advance(batch, seen, way, r);
  }
  marks.v[i] = way.kind != 0u ? way.position + 1u : 0u;
  batch.results.v[i] = r;
}
