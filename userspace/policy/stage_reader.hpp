// SPDX-License-Identifier: MIT
//
// userspace/policy/stage_reader.hpp: a pipeline's stage, from JSON, by the stage's table of fields
// (gpu/stages/fields.hpp).
#pragma once

#include "userspace/policy/match.hpp"

namespace xdpgpu::policy {

struct StageContext {
  const KnownLists& lists;
  const NamedFileReader& files;
  const NamedFileReader& map_files;  // of programs' maps; they are read whole
  const NamedFilesReader& rule_files;
  const PathReader& named_by_rules;
  const NamedProgramReader& programs;
  u64 routes = 0;  // of all stages so far; more than kMaxPrefixes are not read
};

std::optional<Stage> read_stage(Report& report, const Place& place, StageContext& context);

}  // namespace xdpgpu::policy
