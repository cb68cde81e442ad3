// SPDX-License-Identifier: MIT
//
// gpu/table_report.hpp: how the tables of stages stand (gpu/stages/table.h), for whoever shows it.
#pragma once

#include <string_view>

#include "gpu/pipelines.hpp"

namespace xdpgpu::gpu {

struct TableReport {
  std::string pipeline;
  std::string_view kind;  // the stage, as policies name it
  u32 stage = 0;          // position in the pipeline, from 0
  u64 entries = 0;        // that there is room for
  u64 occupied = 0;       // of them, ever used: what has expired counts until its place is used again
  // Of them, in force at the time of the report: counted in the first sets, and taken as the share of all,
  // since a keyed hash spreads entries evenly; exact where `counted` is `entries`.
  u64 live = 0;
  u64 counted = 0;                                         // entries that were looked at for `live`
  u64 touches = 0;                                         // packets that looked for an entry
  u64 hits = 0;                                            // that found it
  u64 inserted = 0;                                        // entries made
  u64 evicted = 0;                                         // of them, those that took the place of a live one
  u64 refused = 0;                                         // entries not made as there was no place
  std::vector<std::pair<std::string_view, u64>> outcomes;  // packets, by what the stage took them for

  // live / entries in percent, 0 to 100.
  double pressure() const noexcept {
    return entries == 0 ? 0 : 100.0 * static_cast<double>(live) / static_cast<double>(entries);
  }
};

// The stages that have tables, as policies name them, each name once.
std::vector<std::string_view> stages_with_tables(const Pipelines& pipelines);

// Entries that are looked at for `live`: at most so many sets' (XG_WAYS each), a few hundred KiB.
inline constexpr u64 kCountedSets = 512;

// Of all tables of a loaded generation, in the order of pipelines.states(). now_ns: CLOCK_MONOTONIC, as
// packets have it. Control thread, while queues may be running: counts are a moment apart.
Result<std::vector<TableReport>> report_tables(Device& device, u32 generation, const Pipelines& pipelines,
                                               u64 now_ns);

}  // namespace xdpgpu::gpu
