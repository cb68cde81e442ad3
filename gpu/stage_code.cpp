// SPDX-License-Identifier: MIT
#include "gpu/stage_code.hpp"

#include <algorithm>
#include <bit>
#include <span>
#include <variant>

#include "gpu/stages/stages.hpp"
#include "gpu/stages/table.h"

namespace xdpgpu::gpu {

namespace {

// Words behind the sets that the stage's device code takes each entry to have.
u32 record_words(const StageSettings& stage) {
  return std::visit(
      []<class Settings>(const Settings& what) {
        if constexpr (requires { Settings::kRecordWords; }) return u32{Settings::kRecordWords};
        if constexpr (requires { what.record_words(); }) return what.record_words();
        return u32{0};
      },
      stage);
}

// Of the body of a stage with a table: how many of its first words linking leaves alone.
u32 fixed_words(const StageSettings& stage) {
  return std::visit(
      []<class Settings>(const Settings&) {
        if constexpr (requires { Settings::kFixedWords; }) return u32{Settings::kFixedWords};
        return u32{XG_BODY_STATEFUL};
      },
      stage);
}

// Whether the body is the settings', as far as a device writes by it.
bool is_of(const StageSettings& stage, std::span<const u32> body) {
  return std::visit(
      [&](const auto& what) {
        if constexpr (requires { what.is_of(body); }) return what.is_of(body);
        return true;
      },
      stage);
}

// Whether linking changes no word twice, none that is not there, and none of the body's that say how large
// the table is or where its changes are.
bool changes_are_apart(const StageCode& code, u32 fixed_words, bool has_names) {
  const u64 words = code.words.size();
  std::vector<bool> changed(words, false);
  std::fill_n(changed.begin() + code.placed.body, fixed_words, true);
  if (has_names) changed[code.placed.body + XG_BODY_CHANGES] = true;
  const auto change = [&](u64 word) {
    if (word >= words || changed[word]) return false;
    changed[word] = true;
    return true;
  };
  for (const CodeRange& range : code.pointers)
    for (u64 i = 0; i < range.count; i++)
      if (!change(u64{range.first} + i) || code.words[range.first + i] > words) return false;
  for (const RewriteWord& one : code.rewrite_words)
    if (!change(one.word) || one.rewrite >= code.rewrites.size()) return false;
  return code.placed.behind == 0 || change(code.placed.behind);
}

}  // namespace

bool is_linkable(const StageSettings& stage, const StageCode& code) {
  if (traits_of(stage).programs) return false;
  const u64 words = code.words.size();
  const auto inside = [&](u64 first, u64 count) { return first <= words && count <= words - first; };
  const Placed& placed = code.placed;
  const bool has_table = placed.entries != 0;
  if (words > kImageMaxWords || code.payload > XG_PACKET_MAX || (has_table && !traits_of(stage).remembers) ||
      !inside(placed.body, has_table                ? fixed_words(stage)
                           : traits_of(stage).names ? XG_BODY_CHANGES + 1
                                                    : XG_BODY_TTL + 1) ||
      placed.record != (has_table ? record_words(stage) : 0))
    return false;
  if (has_table && !is_of(stage, std::span(code.words).subspan(placed.body))) return false;
  const bool has_two = has_table && traits_of(stage).inspects;
  if (has_two ? !inside(placed.inspects, XG_BODY_ROUND + 1) : placed.inspects != 0) return false;
  const u32 sets = has_table ? code.words[placed.body + XG_BODY_SETS] : 1;
  if (!std::has_single_bit(sets) || u64{sets} * XG_WAYS > kMaxTableEntries) return false;
  if (has_table && placed.own != 0 && (placed.own < placed.body + XG_BODY_SETS || placed.own > words))
    return false;
  return code.backends.size() == code.rewrites.size() &&
         changes_are_apart(code, has_table ? fixed_words(stage) : 0, traits_of(stage).names);
}

}  // namespace xdpgpu::gpu
