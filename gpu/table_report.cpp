// SPDX-License-Identifier: MIT
#include "gpu/table_report.hpp"

#include <algorithm>
#include <type_traits>

#include "gpu/image_words.hpp"
#include "gpu/stages/compilers.hpp"
#include "gpu/table_reader.hpp"

namespace xdpgpu::gpu {
namespace {

std::span<const Outcome> outcomes_of(const StageSettings& stage) {
  return std::visit(
      [](const auto& what) -> std::span<const Outcome> {
        if constexpr (StageInfo<std::remove_cvref_t<decltype(what)>>::kTraits.remembers)
          return outcomes(what);
        return {};
      },
      stage);
}

// Entries in force at `now` (ticks), in whole sets.
u64 count_live(std::span<const u32> sets, u64 now) {
  u64 live = 0;
  for (u64 set = 0; set < sets.size(); set += XG_SET_WORDS)
    for (u32 way = 0; way < XG_WAYS; way++) {
      const u64 deadline = set + XG_SET_HEAD + u64{way} * XG_ENTRY_WORDS + XG_ENTRY_DEADLINE;
      live += sets[set + XG_SET_TAGS + way] != 0 && word_pair_at(sets, deadline) > now;
    }
  return live;
}

}  // namespace

std::vector<std::string_view> stages_with_tables(const Pipelines& pipelines) {
  std::vector<std::string_view> names;
  for (const StateSpec& spec : pipelines.states()) {
    const std::string_view name = stage_name(stage_of(pipelines, spec));
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

Result<std::vector<TableReport>> report_tables(Device& device, u32 generation, const Pipelines& pipelines,
                                               u64 now_ns) {
  std::vector<TableReport> reports;
  std::vector<u32> words;
  for (u32 i = 0; i < pipelines.states().size(); i++) {
    const StateSpec& spec = pipelines.states()[i];
    const StageSettings& stage = stage_of(pipelines, spec);
    const u64 sets = std::min(kCountedSets, spec.entries / XG_WAYS);
    words.resize(XG_TABLE_HEAD + sets * XG_SET_WORDS);
    if (auto read = device.read_state(generation, i, 0, words); !read) return tl::unexpected(read.error());
    const auto counter = [&](u32 number) { return word_pair_at(words, u64{number} * 2); };

    TableReport& report = reports.emplace_back();
    report.pipeline = spec.pipeline;
    report.kind = stage_name(stage);
    report.stage = spec.stage;
    report.entries = spec.entries;
    report.occupied = std::min(counter(XG_TABLE_OCCUPIED), spec.entries);
    report.counted = sets * XG_WAYS;
    const u64 live = count_live(std::span<const u32>(words).subspan(XG_TABLE_HEAD), now_ns * XG_TICKS_PER_NS);
    // As a share of all it cannot be more than there ever were.
    report.live = std::min(live * (spec.entries / report.counted), report.occupied);
    report.touches = counter(XG_TABLE_TOUCHES);
    report.hits = counter(XG_TABLE_HITS);
    report.inserted = counter(XG_TABLE_INSERTED);
    report.evicted = counter(XG_TABLE_EVICTED);
    report.refused = counter(XG_TABLE_REFUSED);
    for (const Outcome& outcome : outcomes_of(stage))
      report.outcomes.emplace_back(outcome.name, counter(XG_TABLE_OWN + outcome.number));
  }
  return reports;
}

}  // namespace xdpgpu::gpu
