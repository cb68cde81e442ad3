// SPDX-License-Identifier: MIT
//
// tests/stages/stage_tests.hpp: what a stage is tested by, as plain values. tests/stages/<name>.cpp has
// `StageTests <name>_tests()`, which the header that tests/stages/stages.cmake makes of stages.def
// (tests/stages/list.hpp) declares. Who uses them: tests/backends/conformance.cpp and tables.cpp,
// tests/netns/settings_test.cpp. There is no GoogleTest in here: fuzz targets link it, too.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "gpu/pipelines.hpp"
#include "tests/backends/traffic.hpp"
#include "tests/stages/settings_case.hpp"

namespace xdpgpu::tests {

using MakeTraffic = Traffic (*)(Random&, u32 packets, u32 pipelines);

// What a case's traffic reaches: the comparison is worth something only if it does. 0: it need not.
struct Reached {
  u32 verdicts = 0;             // different ones, at least
  std::vector<u32> of_these{};  // among them
  // More packets than
  u32 cached = 0;
  u32 rewritten = 0;  // with another destination MAC
  u32 swapped = 0;    // MACs
  u32 ttls = 0;       // with another TTL
  u32 encapsulated = 0;
  u32 too_long = 0;
  u32 decapsulated = 0;
  u32 congested = 0;  // marked so
  u32 alerts = 0;     // of which rules are told
  // And fewer than
  u32 cached_below = 0;
};

// Pipelines that every device is to judge as the reference does, however the stream is cut.
struct ConformanceCase {
  std::string name;  // of all cases another one
  std::vector<gpu::PipelineSettings> (*pipelines)(Random&);
  Reached reached{};
  u32 packets = 10'000;  // that it takes to reach it
  MakeTraffic traffic = random_traffic;
};

// Pipelines of stages that remember: also what is in their tables at the end is to be the reference's.
struct TableCase {
  std::string name;  // of all cases another one
  std::vector<gpu::PipelineSettings> (*pipelines)();
  u32 outcomes = 2;       // so many of the stages' own counters count something, from XG_TABLE_OWN on
  bool refuses = true;    // some table is so full that it does not take a packet's key
  u32 sent_by_host = 10;  // more than one packet of so many is
  MakeTraffic traffic = conversations;
  bool too_much_for_software = false;  // Vulkan's, which ends loops after so many turns
};

struct StageTests {
  std::vector<ConformanceCase> conformance{};
  std::vector<TableCase> tables{};  // of a stage that remembers
  // With each key, word and form that its settings have: the schema says which.
  std::vector<SettingsCase> settings{};
  std::map<std::string, std::string> files{};  // that these name, with what is in them
};

inline void PrintTo(const ConformanceCase& one, std::ostream* out) { *out << one.name; }
inline void PrintTo(const TableCase& one, std::ostream* out) { *out << one.name; }

// All stages', in the order of stages.def.
const std::vector<StageTests>& stage_tests();

}  // namespace xdpgpu::tests
