// SPDX-License-Identifier: MIT
#include "bench/worker/answers.hpp"

#include <x86intrin.h>

#include "bench/worker/rings.hpp"

namespace xdpgpu::bench {

u64 StepClock::ticks() noexcept { return __rdtsc(); }

Answers::Answers(const AnswerOptions& options, StepClock& clock)
    : options_(options),
      clock_(clock),
      descriptors_(std::size_t{options.depth} * options.batch),
      results_(std::size_t{options.depth} * options.batch),
      edits_(results_.size()),
      adjusts_(results_.size()),
      alerts_(results_.size(), xg_alerts{1, {}, 0, {}}),
      patches_(results_.size()),
      slots_(options.depth),
      order_(options.depth) {
  for (u32 i = 0; i < options.depth; i++) {
    slots_[i].descriptors = descriptors_.data() + std::size_t{i} * options.batch;
    slots_[i].results = results_.data() + std::size_t{i} * options.batch;
    slots_[i].edits = edits_.data() + std::size_t{i} * options.batch;
    slots_[i].adjusts = adjusts_.data() + std::size_t{i} * options.batch;
    slots_[i].alerts = alerts_.data() + std::size_t{i} * options.batch;
    slots_[i].patches = patches_.data() + std::size_t{i} * options.batch;
    slots_[i].capacity = options.batch;
    slots_[i].index = i;
    free_.push_back(i);
  }
}

void Answers::write(gpu::Slot& slot) noexcept {
  using Cache = AnswerOptions::Cache;
  constexpr xg_edit kEdit{.dst_mac = {2, 0, 0, 0, 0, 0},
                          .src_mac = {2, 0x0a, 0, 0, 0, 0},
                          .l3_checksum = 0,
                          .ttl = 0,
                          .sets = XG_EDIT_DST_MAC | XG_EDIT_SRC_MAC};
  constexpr std::array<u32, 4> kActions{XG_DROP, XG_TX, XG_REDIRECT, XG_PASS};
  const u32 rule = options_.cache == Cache::written ? number_++ & 0xffffu : 1;
  for (u32 i = 0; i < slot.count; i++) {
    const auto way = options_.way == Way::mixed ? random_() >> 8 & 3 : static_cast<u32>(options_.way);
    const u32 action = kActions[way];
    xg_result result{};
    result.verdict = XG_VERDICT(action, action == XG_REDIRECT ? 1u : 0u, 1u, rule);
    if (options_.cache != Cache::none) result.flags |= XG_RES_CACHE;
    if (options_.cache == Cache::by_device) result.flags |= XG_RES_PUBLISHED;
    if (action == XG_TX || action == XG_REDIRECT) {
      result.flags |= XG_RES_EDIT;
      slot.edits[i] = kEdit;
    }
    if (options_.rule_in != 0 && i % options_.rule_in == 0) {
      result.flags |= XG_RES_ALERTS;
      slot.alerts[i].count = 1;
    }
    slot.results[i] = result;
  }
  if (!options_.cold) return;
  flush_from_caches(slot.results, slot.count * sizeof(xg_result));
  flush_from_caches(slot.edits, slot.count * sizeof(xg_edit));
  _mm_mfence();
}

gpu::Slot* Answers::acquire() noexcept {
  clock_.begin(Step::feed);
  if (free_.empty()) return nullptr;
  gpu::Slot* slot = &slots_[free_.back()];
  free_.pop_back();
  return slot;
}

gpu::Submit Answers::submit(gpu::Slot* slot, u32 count, u32 generation) noexcept {
  clock_.begin(Step::device);
  slot->count = count;
  slot->generation = generation;
  write(*slot);
  order_[submitted_++ % order_.size()] = slot->index;
  clock_.fed();
  return gpu::Submit::ok;
}

gpu::Slot* Answers::poll() noexcept {
  clock_.begin(Step::device);
  gpu::Slot* slot =
      submitted_ - polled_ > options_.lag ? &slots_[order_[polled_++ % order_.size()]] : nullptr;
  if (slot)
    clock_.begin(Step::route);
  else
    clock_.otherwise();
  return slot;
}

void Answers::release(gpu::Slot* slot) noexcept {
  free_.push_back(slot->index);
  clock_.otherwise();
}

}  // namespace xdpgpu::bench
