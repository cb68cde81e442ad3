// SPDX-License-Identifier: MIT
//
// gpu/stages/signatures/streams.comp: what comes of the packets that wait for a table of streams in the round
// `first_round`: the outcome is put above where the packet waits, for settle.comp. As pipeline.comp's KIND 2,
// whose push constants it has; a shader of its own, as drivers take long to compile it.
//
// With ALONE by one invocation: without barriers software Vulkan compiles it in a fraction of the time, and it
// takes a packet at a time anyway. llvmpipe ends each loop of an invocation after its first turn, once all have
// had 65,535 (LP_MAX_TGSI_LOOP_ITERATIONS): a packet that takes more is told by a last loop.
#version 460
#define XG_GLSL 1
#define XG_INSPECTS_IN_TURN 1
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "gpu/stages/pipeline.h"

#ifdef ALONE
#define INVOCATIONS 1u
#else
#define INVOCATIONS 128u
#endif

layout(local_size_x = INVOCATIONS) in;
layout(push_constant, scalar) uniform Arguments {
  xg_batch batch;
  xg_state marks;
  u32 begin;
  u32 end;
  xg_state inspections;
  xg_state failed;  // one word: set to 1 where a packet takes more than software can, and is not inspected whole
  u32 first_round;
  u32 end_round;
};

// Nothing is asked of programs.
u32 xg_program_outcomes(u32 packet) { return 0u; }
u32 xg_program_answer(u32 packet) { return 0u; }

// Whether the packet waits here. Then way is where, and t what it brings.
bool waits(u32 i, u32 mark, out xg_way way, out xg_touch t) {
  if (mark == 0u) return false;
  xg_view seen;
  xg_view_packet(batch, i, batch.descriptors.v[i], seen);
  xg_look_inside(batch, seen);
  way = xg_way_from((mark & 0xffffu) - 1u);
  xg_resume(batch, seen, way);
  if (way.kind != XG_KIND_SIGNATURES + XG_KIND_STATEFUL) return false;
  if (batch.image.v[way.body + XG_BODY_ROUND] != first_round) return false;
  t = xg_signatures_touch(batch, way, seen, 0u);
  return true;
}

#ifdef ALONE

void main() {
  for (u32 i = begin; i < end; i++) {
    u32 mark = marks.v[i];
    xg_way way;
    xg_touch t;
    if (!waits(i, mark, way, t)) continue;
    u32 outcome = t.facts;
    if (t.tag != XG_UNTRACKED) outcome = xg_signatures_apply(batch, way.body, t);
    marks.v[i] = mark | outcome << 16;
  }
  u32 turns = 0u;
  for (u32 i = begin; i <= end; i++) turns++;
  if (turns <= end - begin) failed.v[0] = 1u;
}

#else

#define APPLY(packet) xg_signatures_apply(batch, bodies[packet], touches[packet])
#include "gpu/stages/turns.glsl"

void main() {
  u32 mine = gl_LocalInvocationID.x;
  begin_turns(mine);
  for (u32 first = begin; first < end; first += INVOCATIONS) {
    u32 i = first + mine;
    u32 mark = i < end ? marks.v[i] : 0u;
    xg_way way;
    xg_touch t;
    bool here = waits(i, mark, way, t);
    bool tracked = false;
    u32 group = 0u;
    if (here) {
      touches[mine] = t;
      bodies[mine] = way.body;
      outcomes[mine] = t.facts;
      tracked = t.tag != XG_UNTRACKED;
      group = group_of(mine);
      if (tracked) join(group, mine);
    }
    take_turns(group, mine, tracked);
    if (here) marks.v[i] = mark | outcomes[mine] << 16;
  }
}

#endif
