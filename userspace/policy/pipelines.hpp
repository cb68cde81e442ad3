// SPDX-License-Identifier: MIT
//
// userspace/policy/pipelines.hpp: the policy's "pipelines", from JSON.
#pragma once

#include "userspace/policy/match.hpp"

namespace xdpgpu::policy {

// Reads the object of pipelines, in the order of the text. lists: what "@name" may name; files: reads the
// files that are named, rule_files those of rules, named_by_rules what these name, and programs those of
// objects.
std::vector<Pipeline> read_pipelines(Report& report, const Place& place, const KnownLists& lists,
                                     const NamedFileReader& files, const NamedFileReader& map_files,
                                     const NamedFilesReader& rule_files, const PathReader& named_by_rules,
                                     const NamedProgramReader& programs);

}  // namespace xdpgpu::policy
