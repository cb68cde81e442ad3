// SPDX-License-Identifier: MIT
//
// gpu/cpu/group.hpp: several packets side by side on one CPU. A packet's way through large tables is a chain
// of loads that hang on each other, and a CPU that follows it to its end waits for memory at every step: so
// a stage at the head of a pipeline that looks ahead (`acl`) takes each step for all packets of a group, and
// where stages have tables the group's packets come to each table together, their sets and entries on their
// way into the cache. The other stages decide packet by packet, in order. The answers are those of one packet
// after the other.
#pragma once

#include <array>

#include "gpu/cpu/set_locks.hpp"
#include "gpu/stages/list_together.hpp"
#include "gpu/stages/pipeline.h"

namespace xdpgpu::gpu::cpu {

class Group {
 public:
  static constexpr u32 kPackets = 16;

  Group(const xg_batch& batch, SetLocks& sets)
      : batch_(batch), image_(batch.image), sets_(sets), inner_(batch.image.v[XG_IMAGE_INNER_AT] != 0) {}

  // Decides packets first..first + count - 1 of the batch, at most kPackets. Where the batch's pipelines have
  // tables, the groups come in their order; other queues may be at other sets of them meanwhile.
  void decide(u32 first, u32 count) {
    u32 heads = 0;
    for (u32 i = 0; i < count; i++) {
      Packet& packet = packets_[i];
      packet.head = 0;
      packet.there = xg_begin(batch_, first + i, packet.seen);
      if (!packet.there) continue;
      if (inner_) look_inside(packet.seen);
      if ((packet.seen.flags & XG_PKT_EGRESS) == 0) look_at_head(packet);
      heads += packet.head != 0 ? 1 : 0;
    }
    if (heads != 0)
      each_kind_that_looks_ahead([&](u32 kind) {
        u32 ahead = 0;
        for (u32 i = 0; i < count; i++)
          if (packets_[i].head != 0 && packets_[i].head_kind == kind) ahead_[ahead++] = &packets_[i];
        look_ahead(kind, image_, ahead_.data(), ahead);
      });
    u32 waiting = 0;
    for (u32 i = 0; i < count; i++) {
      Packet& packet = packets_[i];
      packet.number = first + i;
      set_out(packet);
      if (packet.way.kind != 0) waiting_[waiting++] = &packet;
    }
    for (u32 round = 0; waiting != 0; round++) waiting = go_through_tables(waiting, round);
    for (u32 i = 0; i < count; i++) batch_.results.v[first + i] = packets_[i].result;
  }

 private:
  struct Packet {
    xg_view seen;
    bool there;
    u32 head;  // body of the first stage where that one looks ahead, else 0
    u32 head_kind;
    StageAhead ahead;
    u32 number;  // in the batch
    xg_way way;
    xg_touch touch;  // where way.kind is not 0
    xg_result result;
  };

  // Apart: what looks into tunnels takes the registers of what does not.
  [[gnu::noinline]] void look_inside(xg_view& seen) const { xg_look_inside(batch_, seen); }

  void look_at_head(Packet& packet) const {
    const u32 entry = image_.v[XG_IMAGE_TABLE_AT] + packet.seen.pipeline * XG_PIPELINE_WORDS;
    const u32 stages = image_.v[entry];
    if (image_.v[entry + 1] == 0 || !looks_ahead(image_.v[stages])) return;
    packet.head_kind = image_.v[stages];
    packet.head = image_.v[stages + 1];
  }

  // As far as the packet comes without a table.
  void set_out(Packet& packet) const {
    packet.result = xg_no_result();
    packet.way = xg_way_from(0);
    if (!packet.there) return;
    if (packet.head != 0) {
      const u32 action =
          decide_ahead(packet.head_kind, batch_, packet.head, packet.seen, packet.ahead, packet.result);
      if (XG_VERDICT_ACTION(action) != XG_NEXT) {
        const u32 pipeline = image_.v[XG_IMAGE_TABLE_AT] + packet.seen.pipeline * XG_PIPELINE_WORDS;
        return xg_end(batch_, pipeline, action, packet.way, packet.result);
      }
      packet.way.position = 1;
    }
    xg_set_out(batch_, packet.seen, packet.way, packet.result);
    arrive(packet);
  }

  // Of a packet that waits: nobody has to be waited for where it is to be inspected.
  void arrive(Packet& packet) const {
    if (packet.way.kind >= XG_KIND_INSPECTS) inspect(packet);
    if (packet.way.kind != 0) come(packet);
  }
  [[gnu::noinline]] void inspect(Packet& packet) const {
    std::array<u32, XG_INSPECTION_WORDS> words;
    const xg_state f{words.data()};
    const xg_way way = packet.way;
    xg_begin_inspection(f, packet.result.detail, 0, 1);
    xg_stage_look(batch_, way.kind, way.body, packet.seen, f, 0, 1);
    xg_stage_try(batch_, way.kind, way.body, packet.seen, f, 0, 1);
    xg_conclude(batch_, packet.seen, f, packet.way, packet.result);
  }

  void come(Packet& packet) const {
    packet.touch = sets_.touch(batch_, packet.way, packet.seen, xg_packet_bytes(batch_, packet.number));
    if (packet.touch.tag == XG_UNTRACKED) return;
    const u32* const table = xg_state_of(batch_, packet.way.body).v;
    __builtin_prefetch(table + xg_set_at(packet.touch.set), 1);
    sets_.prefetch(table, packet.touch.set);
  }

  // Who is at the set may be writing: what is seen here is only a guess of where to look next.
  void fetch_entry(const Packet& packet) const {
    // A program has no sets there.
    if (packet.touch.tag == XG_UNTRACKED || xg_stage_runs_programs(packet.way.kind)) return;
    const xg_state state = xg_state_of(batch_, packet.way.body);
    const u32 set = xg_set_at(packet.touch.set);
    const u32 body = packet.way.body;
    const u32 record = xg_stage_record_ahead(packet.way.kind, image_, body, packet.touch);
    for (u32 way = 0; way < XG_WAYS; way++) {
      if (state.v[set + XG_SET_TAGS + way] != packet.touch.tag) continue;
      __builtin_prefetch(state.v + xg_entry_at(set, way), 1);
      if (record != 0)
        __builtin_prefetch(
            state.v + xg_set_at(image_.v[body + XG_BODY_SETS]) + (packet.touch.set * XG_WAYS + way) * record,
            1);
    }
  }

  // Of the first `count` packets in waiting_ those that stand at a table of this round; the others' comes
  // later. -> how many wait for another one, in the same order.
  u32 go_through_tables(u32 count, u32 round) {
    const auto is_now = [&](const Packet& packet) {
      return image_.v[packet.way.body + XG_BODY_ROUND] == round;
    };
    for (u32 k = 0; k < count; k++)
      if (is_now(*waiting_[k])) fetch_entry(*waiting_[k]);
    u32 waiting = 0;
    for (u32 k = 0; k < count; k++) {
      Packet& packet = *waiting_[k];
      if (is_now(packet)) {
        auto outcome = sets_.apply(batch_, packet.way.kind, packet.way.body, packet.touch);
        while (!outcome) {
          come(packet);
          outcome = sets_.apply(batch_, packet.way.kind, packet.way.body, packet.touch);
        }
        xg_settle(batch_, packet.seen, *outcome, packet.way, packet.result);
        arrive(packet);
        if (packet.way.kind == 0) continue;
      }
      waiting_[waiting++] = &packet;
    }
    return waiting;
  }

  const xg_batch& batch_;
  const xg_words image_;
  SetLocks& sets_;
  const bool inner_;
  std::array<Packet, kPackets> packets_;
  std::array<Packet*, kPackets> ahead_;
  std::array<Packet*, kPackets> waiting_;
};

}  // namespace xdpgpu::gpu::cpu
