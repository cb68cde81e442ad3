// SPDX-License-Identifier: MIT
#include "gpu/table_report.hpp"

#include <algorithm>

#include "gpu/image_words.hpp"
#include "gpu/stages/conntrack.h"
#include "gpu/stages/ddos.h"
#include "gpu/stages/rate_limit.h"

namespace xdpgpu::gpu {
namespace {

struct Outcome {
  std::string_view name;
  u32 number;
};
struct StageKind {
  std::string_view name;
  std::vector<Outcome> outcomes;
};

StageKind kind_of(const StageSettings& stage) {
  if (std::holds_alternative<ConntrackSettings>(stage))
    return {"conntrack",
            {{"new", XG_CT_NEW},
             {"established", XG_CT_ESTABLISHED},
             {"related", XG_CT_RELATED},
             {"invalid", XG_CT_INVALID},
             {"no_place", XG_CT_NO_PLACE},
             {"untracked", XG_CT_UNTRACKED}}};
  if (std::holds_alternative<RateLimitSettings>(stage))
    return {"rate_limit",
            {{"within", XG_RATE_WITHIN},
             {"excess", XG_RATE_EXCESS},
             {"no_place", XG_RATE_NO_PLACE},
             {"no_key", XG_RATE_NO_KEY}}};
  if (std::holds_alternative<DdosSettings>(stage))
    return {"ddos",
            {{"within", XG_DDOS_WITHIN},
             {"alarmed", XG_DDOS_ALARMED},
             {"dropped", XG_DDOS_DROPPED},
             {"no_place", XG_DDOS_NO_PLACE},
             {"no_key", XG_DDOS_NO_KEY}}};
  if (std::holds_alternative<LoadBalanceSettings>(stage)) return {"load_balance", {}};
  return {"stage", {}};
}

const StageSettings& stage_of(const Pipelines& pipelines, const StateSpec& spec) {
  const auto settings = std::find_if(pipelines.settings().begin(), pipelines.settings().end(),
                                     [&](const auto& pipeline) { return pipeline.name == spec.pipeline; });
  return settings->stages[spec.stage];
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
    const std::string_view name = kind_of(stage_of(pipelines, spec)).name;
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
    const StageKind kind = kind_of(stage_of(pipelines, spec));
    const u64 sets = std::min(kCountedSets, spec.entries / XG_WAYS);
    words.resize(XG_TABLE_HEAD + sets * XG_SET_WORDS);
    if (auto read = device.read_state(generation, i, 0, words); !read) return tl::unexpected(read.error());
    const auto counter = [&](u32 number) { return word_pair_at(words, u64{number} * 2); };

    TableReport& report = reports.emplace_back();
    report.pipeline = spec.pipeline;
    report.kind = kind.name;
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
    for (const Outcome& outcome : kind.outcomes)
      report.outcomes.emplace_back(outcome.name, counter(XG_TABLE_OWN + outcome.number));
  }
  return reports;
}

}  // namespace xdpgpu::gpu
