// SPDX-License-Identifier: MIT
//
// gpu/stages/program/program.comp: runs the programs of a batch's packets (gpu/stages/program/device.h) for
// the Vulkan entries of gpu/stages/pipeline.comp, which read what came of them. The push constants are the
// batch, and more.
//
//   KIND 0   those that change no map: an invocation a packet, of each packet all of its pipeline, whether it
//            comes to them or not. XG_PROGRAM_OUTCOME_BITS an outcome, by the stage's number among them
//            (XG_BODY_ROUND), in the packet's word of `outcomes`.
//   KIND 1   those that have a table of the round `round`: one invocation, packet after packet, of those that
//            wait for it. The outcome is in the upper half of the packet's mark.
//
// What the last program of a pipeline made of its packet is an xg_patch in `left`, for patches.comp. What one
// put out is an xg_event behind those of all of the batch's packets, for events.comp.
//
// It is apart from them as the interpreter is long, and once more where it is called: and what it keeps
// stands in memory, XG_PROGRAM_OWN_BYTES an invocation, as drivers without arrays of an invocation's own make
// much of those. So a dispatch may end behind any instruction, and the next one goes on. `dispatch` has how
// many groups are needed then, and how many invocations are not through.
#version 460
#define XG_GLSL 1
#define XG_PROGRAM_IN_BUFFER 1
#define XG_PROGRAM_LINES 4u
#if KIND == 1
#define XG_PROGRAM_IN_ORDER 1
#define INVOCATIONS 1
#else
#define INVOCATIONS 64
#endif
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "gpu/stages/program/device.h"
#include "gpu/stages/program/turn.h"

layout(local_size_x = INVOCATIONS) in;
layout(push_constant, scalar) uniform Arguments {
  xg_words frames;
  xg_descriptors descriptors;
  xg_words image;
  xg_words states;
  u64 frames_bytes;
  u32 count;
  u32 generation;
  xg_state marks;     // KIND 1
  xg_state outcomes;  // KIND 0
  xg_quads left;      // an xg_patch a packet, of those that are changed; then an xg_event a packet
  u64 machines;       // XG_PROGRAM_OWN_BYTES an invocation
  xg_state dispatch;  // groups, 1, 1, and the number of invocations that are not through
  xg_state failed;    // set to 1 where `last` is and an invocation is not through
  u32 round;
  u32 kind;        // the stage's, as it is in the image
  u32 most_steps;  // of a dispatch: instructions and packets' stages that are looked at
  u32 most_turns;  // in all of an invocation's instructions, of the loops in them, before the next one begins
  u32 most_beyond;  // more than these in the last one: it may not have come to its end
                    // (LP_MAX_TGSI_LOOP_ITERATIONS)
  u32 begins;       // 1: this is the first dispatch of the batch's, all invocations begin
  u32 last;
};

// A run begins, of a packet of so many bytes, at the first instruction of the first program.
void set_out(u32 bytes) {
  for (u32 i = 0u; i < 11u; i++) m.own.r[i] = u64(0);
  m.own.r[1] = xg_program_pointer(XG_PROGRAM_CONTEXT, 0u);
  m.own.r[10] = xg_program_pointer(XG_PROGRAM_STACKS, XG_PROGRAM_STACK);
  m.own.loop_turns[0] = u64(0);
  m.own.loop_context[0] = u64(0);
  m.meta = XG_PROGRAM_HEADROOM;
  m.data = XG_PROGRAM_HEADROOM;
  m.end = XG_PROGRAM_HEADROOM + bytes;
  m.last = m.end;
  m.lines_used = 0u;
  m.line_numbers = ~0u;
  m.moved = 0u;
  m.tails = 0u;
  m.has_event = 0u;
  m.record = 0u;
  m.redirect_to = 0u;
  m.redirect_key = 0u;
  m.redirect_ifindex = 0u;
  m.redirect_flags = 0u;
  m.steps = 0u;
  m.gives_back = 0u;
  m.frames = 1u;
  m.next = m.tables.v[m.tables.v[XG_PROGRAM_TABLE_FIRST]];
  m.begins = 1u;
}

void main() {
  const u32 lane = gl_GlobalInvocationID.x;
  const u32 step = gl_NumWorkGroups.x * INVOCATIONS;
  m.own = xg_program_own(machines + u64(lane * XG_PROGRAM_OWN_BYTES));
  u32 packet = lane;
  u32 position = 0u;  // of the stage, in the packet's pipeline
  u32 word = 0u;      // KIND 0: the packet's outcomes
  bool runs = false;  // the program of the stage
  if (begins == 0u) {
    packet = m.own.later[0];
    if (packet >= count) return;
    position = m.own.later[1];
    word = m.own.later[2];
    runs = m.own.later[3] != 0u;
    m.next = m.own.later[4];
    m.frames = m.own.later[5];
    m.steps = m.own.later[6];
    m.gives_back = m.own.later[7];
    m.meta = m.own.later[8];
    m.data = m.own.later[9];
    m.end = m.own.later[10];
    m.last = m.own.later[11];
    m.lines_used = m.own.later[12];
    m.line_numbers = m.own.later[13];
    m.moved = m.own.later[14];
    m.redirect_to = m.own.later[15] & 3u;
    m.redirect_flags = (m.own.later[15] >> 2) & 31u;
    m.tails = (m.own.later[15] >> 7) & 0xffu;
    m.has_event = m.own.later[15] >> 31;
    m.redirect_key = m.own.later[16];
    m.redirect_ifindex = m.own.later[17];
    m.record = m.own.later[18];
  }
  m.fault = 0u;
  m.begins = 0u;
  m.turns = 0u;
  m.queue = 0u;
  m.egress = 0u;
  bool knows = false;  // what the machine is told of packet and stage
  u32 bytes = 0u;      // the packet's
  u32 shift_of_outcome = 0u, body_of_stage = 0u;

  for (u32 turn = 0u; packet < count && turn < most_steps && m.turns < most_turns; turn++) {
    bool leaves = false;  // the packet
    if (!knows) {
      // Whether it is a packet, and its stage one to be run.
      const xg_descriptor d = descriptors.v[packet];
#if KIND == 1
      const u32 mark = marks.v[packet];
      bool judged = mark != 0u;
      position = (mark & 0xffffu) - 1u;
#else
      bool judged = xg_descriptor_valid(d, frames_bytes);
      if (packet > 0u && (descriptors.v[packet - 1u].flags & XG_DESC_MORE) != 0u) judged = false;
#endif
      if ((d.flags & XG_DESC_MORE) != 0u) judged = false;
      bool is_one = false;
      xg_view p;
      u32 pipeline = 0u;
      if (judged) {
        const u64 start = d.offset - u64(XG_METADATA_SIZE);
        p.shift = xg_program_low(start) & 3u;
        p.words = XG_AT(xg_words, frames, start - u64(p.shift));
        pipeline = xg_metadata32(p, 7u) & 0xffffu;
#if KIND == 0
        judged = xg_metadata32(p, 2u) == generation && pipeline < image.v[XG_IMAGE_PIPELINES_AT] &&
                 (xg_metadata32(p, 5u) & XG_PKT_EGRESS) == 0u;
#endif
      }
      if (judged) {
        const u32 at = image.v[XG_IMAGE_TABLE_AT] + pipeline * XG_PIPELINE_WORDS;
        judged = position < image.v[at + 1u];
        const u32 stage = image.v[at] + position * 2u;
        const u32 found = judged ? image.v[stage] : 0u;
        const u32 body = judged ? image.v[stage + 1u] : 0u;
        const u32 number = image.v[body + XG_BODY_ROUND];
#if KIND == 1
        judged = found == kind && number == round;
        is_one = judged;
#else
        is_one = judged && found == kind;
#endif
        if (is_one) {
          shift_of_outcome = number * XG_PROGRAM_OUTCOME_BITS;
          m.code = XG_AT(xg_words, image, u64(image.v[body + XG_PROGRAM_BODY_CODE]) * u64(4u));
          m.tables = XG_AT(xg_words, image, u64(image.v[body + XG_PROGRAM_BODY_TABLES]) * u64(4u));
#if KIND == 1
          const u32 table = image.v[body + XG_BODY_STATE] * XG_STATE_WORDS;
          m.state =
              xg_state(xg_word_pair(states.v[table], states.v[table + 1u]) + u64(XG_PROGRAM_TABLE_AT * 4u));
#else
          m.state = xg_state(u64(image) + u64(image.v[body + XG_PROGRAM_BODY_STATE]) * u64(4u));
#endif
          const u32 shift = xg_program_low(d.offset) & 3u;
          m.frame = XG_AT(xg_words, frames, d.offset - u64(shift));
          m.frame_bias = shift - XG_PROGRAM_HEADROOM;
          bytes = d.length;
          m.image = image;
          m.body = body;
          m.most_steps = image.v[body + XG_PROGRAM_BODY_STEPS];
          m.most_lines = image.v[body + XG_PROGRAM_BODY_LINES];
          m.event = XG_AT(xg_quads, left, u64(count) * u64(XG_PATCH_QUADS * 16u) +
                                              u64(packet) * u64(XG_EVENT_QUADS * 16u));
          m.time = xg_word_pair(xg_metadata32(p, 0u), xg_metadata32(p, 1u));
          xg_batch b;
          b.image = image;
          m.random = xg_program_random(b, body, p);
          m.ingress = xg_program_ingress(b, body, p);
          body_of_stage = body;
          knows = true;
          if (!runs) set_out(bytes);
          runs = true;
        }
      }
      leaves = !judged;
      if (!is_one) position++;
    } else {
      xg_program_turn(XG_PROGRAM_IT);
    }
    if (m.begins != 0u) xg_program_begins(XG_PROGRAM_IT);
    m.begins = 0u;
    if (runs && (m.frames == 0u || m.fault != 0u)) {
#if KIND == 1
      if (m.gives_back != 0u) xg_program_give_back(XG_PROGRAM_IT);
#endif
      u32 outcome = xg_program_outcome_of(m.fault, xg_program_low(m.own.r[0]));
      xg_batch b;
      b.image = image;
      b.patches = left;
      if (outcome == XG_PROGRAM_NOWHERE_TO_GO && m.redirect_to == XG_PROGRAM_TO_PROCESSOR)
        outcome = XG_PROGRAM_PASSED;
      else if (outcome == XG_PROGRAM_NOWHERE_TO_GO && m.redirect_to != 0u)
        outcome = xg_program_redirected(b, body_of_stage, m.redirect_ifindex, m.redirect_flags);
      if (outcome == XG_PROGRAM_PASSED || XG_PROGRAM_OUTCOME(outcome) >= XG_PROGRAM_SENT) {
        outcome = xg_program_patch(b, packet, bytes, outcome, XG_PROGRAM_IT);
      }
#if KIND == 1
      marks.v[packet] |= (m.has_event != 0u ? outcome | XG_PROGRAM_HAS_EVENT : outcome) << 16;
      leaves = true;
#else
      word |= XG_PROGRAM_OUTCOME(outcome) << shift_of_outcome;
      if (m.has_event != 0u) word |= XG_PROGRAM_EVENT_THERE;
      // Others behind it are never asked.
      if (XG_PROGRAM_OUTCOME(outcome) >= XG_PROGRAM_FORWARDED && (word & XG_PROGRAM_HAS_PORT) == 0u &&
          XG_PROGRAM_OUTCOME(outcome) != XG_PROGRAM_CHANGED_PASSED &&
          XG_PROGRAM_OUTCOME(outcome) != XG_PROGRAM_CHANGED_SENT)
        word |= XG_PROGRAM_HAS_PORT | XG_PROGRAM_PORT(outcome) << XG_PROGRAM_PORT_AT;
      position++;
#endif
      m.fault = 0u;
      runs = false;
      knows = false;
    }
    if (leaves) {
#if KIND == 0
      outcomes.v[packet] = word;
#endif
      packet += step;
      position = 0u;
      word = 0u;
    }
  }

  if (packet >= count) {
    if (atomicAdd(dispatch.v[3], 0xffffffffu) == 1u) dispatch.v[0] = 0u;
  }
  if ((last != 0u && packet < count) || m.turns > most_turns + most_beyond) failed.v[0] = 1u;
  m.own.later[0] = packet;
  m.own.later[1] = position;
  m.own.later[2] = word;
  m.own.later[3] = runs ? 1u : 0u;
  m.own.later[4] = m.next;
  m.own.later[5] = m.frames;
  m.own.later[6] = m.steps;
  m.own.later[7] = m.gives_back;
  m.own.later[8] = m.meta;
  m.own.later[9] = m.data;
  m.own.later[10] = m.end;
  m.own.later[11] = m.last;
  m.own.later[12] = m.lines_used;
  m.own.later[13] = m.line_numbers;
  m.own.later[14] = m.moved;
  m.own.later[15] = m.redirect_to | m.redirect_flags << 2 | m.tails << 7 | m.has_event << 31;
  m.own.later[16] = m.redirect_key;
  m.own.later[17] = m.redirect_ifindex;
  m.own.later[18] = m.record;
}
