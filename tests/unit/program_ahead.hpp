// SPDX-License-Identifier: MIT
//
// tests/unit/program_ahead.hpp: packets that are taken as a GPU takes them whose programs order them by a
// key: so many at a time run ahead of their turns (gpu/stages/program_ahead.h), in any order, and then take
// their turns in their own; those of sets in which all only find something, in any order.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "tests/unit/program_devices.hpp"

namespace xdpgpu::gpu::programs {

struct AheadCounts {
  u32 held = 0;         // answers of runs that were ahead
  u32 at_once = 0;      // of them, whose turns were all at once
  u32 again = 0;        // that did not hold: run once more
  u32 turned_back = 0;  // runs that ended before they had an answer
};

// Fault and action of each, `bits` of their keys' hashes telling their sets. run(m): from the beginning, as
// xg_program_run() does. Throws if a run that is ahead changes the maps.
template <class Run>
std::vector<u32> run_ahead(Image& image, std::span<const ProgramPacket> packets, u32 bits, const Run& run,
                           dataplane::Random& random, AheadCounts& counts) {
  struct Ahead {
    std::vector<u32> record = std::vector<u32>(XG_PROGRAM_AHEAD_WORDS, 0xa5a5a5a5);
    u32 answer = 0, how = 0, set = 0;
    bool is_over = false;
  };
  const auto m = std::make_unique<xg_program_machine>();
  std::vector<u32> frame;
  const auto answer_of = [&] { return m->fault != 0 ? m->fault << 8 : static_cast<u32>(m->r[0]); };
  const auto machine_for = [&](u32 i) {
    std::memset(static_cast<void*>(m.get()), 0x5a, sizeof(*m));
    set_machine(*m, image, packets[i], frame);
#ifdef XG_PROGRAM_NEAR
    m->near_end = 0;
#endif
    m->event = {nullptr};
    xg_program_keep_nothing(*m);
    m->lines_used = m->has_event = 0;
  };
  std::vector<u32> order(packets.size());
  for (u32 i = 0; i < order.size(); ++i) order[i] = i;
  for (u32 i = 1; i < order.size(); ++i) std::swap(order[i], order[random() % (i + 1)]);
  const std::vector<u32> before = image.state;
  std::vector<Ahead> all(packets.size());
  for (const u32 i : order) {
    machine_for(i);
    m->seeks_key = XG_PROGRAM_IS_AHEAD;
    m->ahead = {all[i].record.data()};
    run(*m);
    all[i].answer = answer_of();
    all[i].how = m->ahead_how;
    if ((m->ahead_how & XG_PROGRAM_HAS_ASKED) != 0) all[i].set = m->key_hash >> (32 - bits);
    all[i].is_over = m->fault != XG_PROGRAM_KEY_FOUND && (m->ahead_how & XG_PROGRAM_HAS_NO_ROOM) == 0;
    all[i].record[XG_PROGRAM_AHEAD_HOW] = m->ahead_how;
    all[i].record[XG_PROGRAM_AHEAD_COUNTED] = m->ahead_counted;
  }
  if (image.state != before) throw std::logic_error("a run that was ahead changed the maps");
  std::vector<u32> answers(packets.size());
  std::vector<bool> changes(u64{1} << bits), is_done(packets.size());
  for (const Ahead& one : all)
    if ((one.how & XG_PROGRAM_HAS_ASKED) != 0 && !(one.is_over && xg_program_only_found(one.how)))
      changes[one.set] = true;
  const xg_state state{image.state.data()};
  for (u32 left = static_cast<u32>(order.size()); left-- != 0;) {
    const u32 i = order[left];
    const Ahead& one = all[i];
    if ((one.how & XG_PROGRAM_HAS_ASKED) == 0 || changes[one.set]) continue;
    const auto word = [&](u32 number) { return one.record[number]; };
    const u64 clock = u64{word(XG_PROGRAM_AHEAD_CLOCK + 1)} << 32 | word(XG_PROGRAM_AHEAD_CLOCK);
    const u32 at = word(XG_PROGRAM_AHEAD_STAMP);
    xg_program_set_stamp(state, at, std::max(xg_program_stamp(state, at), clock + 1 + i));
    xg_program_set_stamp(state, word(XG_PROGRAM_AHEAD_HEADER) + XG_PROGRAM_CLOCK, clock + XG_PROGRAM_RECORDS);
    xg_program_count_up({all[i].record.data()}, state);
    answers[i] = one.answer;
    is_done[i] = true;
    ++counts.held;
    ++counts.at_once;
  }
  for (u32 i = 0; i < packets.size(); ++i) {
    if (is_done[i]) continue;
    Ahead& one = all[i];
    bool holds = one.is_over && (one.how & XG_PROGRAM_HAS_ASKED) == 0;
    if (one.is_over && !holds) {
      machine_for(i);
      m->ahead = {one.record.data()};
      m->frames = 0;
      for (u32 at = 0; at < 10; ++at) m->r[at] = 0;
      holds = xg_program_takes_its_turn(*m);
    }
    if (holds) {
      xg_program_count_up({one.record.data()}, state);
      answers[i] = one.answer;
      ++counts.held;
      continue;
    }
    machine_for(i);
    if ((one.how & XG_PROGRAM_HAS_ASKED) != 0) {
      m->key_bits = bits;
      m->key_set = one.set;
    }
    run(*m);
    answers[i] = answer_of();
    ++(one.is_over ? counts.again : counts.turned_back);
  }
  return answers;
}

}  // namespace xdpgpu::gpu::programs
