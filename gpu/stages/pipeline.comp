// SPDX-License-Identifier: MIT
//
// gpu/stages/pipeline.comp: the Vulkan entries. The push constants are the batch.
//
//   KIND 0   decides a batch: one invocation a packet
//   KIND 1   brings a batch's packets to the first stage with a table: one invocation a packet
//   KIND 2   takes them through the tables (gpu/stages/table.h): one workgroup, so many packets at a time as
//   it
//            has invocations. In each round the packets of one set are one invocation's, which applies them
//            in their order; those of different sets do not wait for each other.
//   KIND 3   inspects those that wait for it (gpu/stages/inspection.h): a workgroup a packet
//
// KIND 2 takes packets through some rounds, and may be called once more for others: what takes a shader of its
// own comes between (gpu/stages/signatures/streams.comp). With XG_PROGRAMS_HAVE_RUN for pipelines with the
// stage `program`, whose programs have been run (gpu/stages/program/program.comp).
#version 460
#define XG_GLSL 1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "gpu/stages/pipeline.h"

#if KIND == 3
#define INVOCATIONS 32
#elif KIND == 2
#define INVOCATIONS 128
#else
#define INVOCATIONS 64
#endif

layout(local_size_x = INVOCATIONS) in;
// marks: one word a packet. 0: it is decided; else 1 + the position of the stage that it waits for.
layout(push_constant, scalar) uniform Arguments {
  xg_batch batch;
  xg_state marks;
  u32 begin;  // KIND 2 and 3: packets begin..end - 1
  u32 end;
  xg_state inspections;  // KIND 3: XG_INSPECTION_WORDS a workgroup
  xg_words programs;     // with programs, a packet's word: what came of those that change no map
  u32 first_round;       // KIND 2: rounds first_round..end_round - 1
  u32 end_round;
};

#ifdef XG_PROGRAMS_HAVE_RUN
// What came of the program that a packet waited for stands above its position.
#define POSITION(mark) (((mark)&0xffffu) - 1u)
u32 xg_program_outcomes(u32 packet) { return programs.v[packet]; }
u32 xg_program_answer(u32 packet) { return marks.v[packet] >> 16; }
#else
#define POSITION(mark) ((mark)-1u)
#endif

#if KIND == 0

void main() {
  u32 i = gl_GlobalInvocationID.x;
  if (i >= batch.count) return;
  xg_view seen;
  batch.results.v[i] = xg_decide(batch, i, seen);
}

#elif KIND == 1

void main() {
  u32 i = gl_GlobalInvocationID.x;
  if (i >= batch.count) return;
  xg_view seen;
  xg_way way = xg_way_from(0u);
  xg_result r = xg_no_result();
  if (xg_begin(batch, i, seen)) {
    xg_look_inside(batch, seen);
    xg_set_out(batch, seen, way, r);
  }
  marks.v[i] = way.kind != 0u ? way.position + 1u : 0u;
  batch.results.v[i] = r;
}

#elif KIND == 3

void main() {
  u32 i = begin + gl_WorkGroupID.x;
  u32 mark = marks.v[i];
  if (mark == 0u) return;
  xg_view seen;
  xg_view_packet(batch, i, batch.descriptors.v[i], seen);
  xg_look_inside(batch, seen);
  xg_way way = xg_way_from(mark - 1u);
  xg_resume(batch, seen, way);
  xg_state f = XG_AT(xg_state, inspections, u64(gl_WorkGroupID.x * XG_INSPECTION_WORDS * 4u));
  u32 lane = gl_LocalInvocationID.x;
  xg_begin_inspection(f, batch.results.v[i].detail, lane, INVOCATIONS);
  memoryBarrier();
  barrier();
  xg_stage_look(batch, way.kind, way.body, seen, f, lane, INVOCATIONS);
  memoryBarrier();
  barrier();
  xg_stage_try(batch, way.kind, way.body, seen, f, lane, INVOCATIONS);
  memoryBarrier();
  barrier();
  if (lane != 0u) return;
  xg_result r = batch.results.v[i];
  xg_conclude(batch, seen, f, way, r);
  batch.results.v[i] = r;
}

#else

shared u32 kinds[INVOCATIONS];
#define APPLY(packet) xg_stage_apply(batch, kinds[packet], bodies[packet], touches[packet])
#include "gpu/stages/turns.glsl"

void main() {
  u32 mine = gl_LocalInvocationID.x;
  begin_turns(mine);
  for (u32 first = begin; first < end; first += INVOCATIONS) {
    u32 i = first + mine;
    u32 mark = i < end ? marks.v[i] : 0u;
    xg_view seen;
    xg_result r = xg_no_result();
    xg_way way = xg_way_from(0u);
    if (mark != 0u) {
      xg_view_packet(batch, i, batch.descriptors.v[i], seen);
      xg_look_inside(batch, seen);
      way.position = POSITION(mark);
      xg_resume(batch, seen, way);
      r = batch.results.v[i];
    }
    for (u32 number = first_round; number < end_round; number++) {
      bool here = false;
      bool tracked = false;
      u32 group = 0u;
      if (way.kind != 0u) here = batch.image.v[way.body + XG_BODY_ROUND] == number;
      if (here) {
        touches[mine] = xg_stage_touch(batch, way, seen, xg_packet_bytes(batch, i));
        kinds[mine] = way.kind;
        bodies[mine] = way.body;
        outcomes[mine] = touches[mine].facts;
        tracked = touches[mine].tag != XG_UNTRACKED;
        group = group_of(mine);
        if (tracked) join(group, mine);
      }
      take_turns(group, mine, tracked);
      if (here) xg_settle(batch, seen, outcomes[mine], way, r);
    }
    if (mark == 0u) continue;
    marks.v[i] = way.kind != 0u ? way.position + 1u : 0u;
    batch.results.v[i] = r;
  }
}

#endif
