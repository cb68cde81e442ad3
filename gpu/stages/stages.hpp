// SPDX-License-Identifier: MIT
//
// gpu/stages/stages.hpp: what can be asked of any stage by those who do not know it. The answers are the
// stage's own (gpu/stages/<name>/compile.cpp); what a stage has not said in gpu/stages/stages.def is not so.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "gpu/program_source.hpp"
#include "gpu/programs.hpp"
#include "gpu/rule_source.hpp"
#include "gpu/stages/alarm_reader.hpp"
#include "gpu/stages/event_reader.hpp"
#include "gpu/stages/list.hpp"
#include "maps/packet.h"

namespace xdpgpu::gpu {

// As policies name it.
std::string_view stage_name(const StageSettings& stage);
const StageTraits& traits_of(const StageSettings& stage);
// What a verdict's rule means, for people, behind the stage's name: " rule 3 (web)"; "": nothing. result: of
// the packet, where there is one.
std::string rule_text(const StageSettings& stage, u32 rule, const xg_result* result);

// Whether it has a table of what it saw, and so has to see every packet.
bool remembers(const StageSettings& stage);
// What of it sends packets on, past the host's stack, in words: "rule \"x\""; "": all of it; nothing: it does
// not.
std::optional<std::string> sends(const StageSettings& stage);
// Whether it drops packets, ever.
bool drops(const StageSettings& stage);
// For how many milliseconds the kernel remembers its verdicts, 0: while the generation lives; nothing: not at
// all.
std::optional<u32> cache_of(const StageSettings& stage);
// Why it cannot stand in a pipeline that goes by what is inside of tunnels, as half a sentence; nothing: it
// can.
std::optional<std::string> why_not_inner(const StageSettings& stage);
// Whether it is shown what the host sends.
bool sees_egress(const StageSettings& stage);

// A rule of a stage that has ordered ones.
struct StageRule {
  std::string_view name;
  const Conditions& conditions;
  Action action;
};
std::vector<StageRule> rules_of(const StageSettings& stage);

// The rules of files by which it decides; nullptr: it does not.
const FileRules* file_rules(const StageSettings& stage);
FileRules* file_rules(StageSettings& stage);

// The interface to which it has flows sent that its rules' `undecided` are for; nullptr: none.
const std::string* sends_undecided(const StageSettings& stage);

// The XDP program that it runs, as a policy names it; nothing: it runs none.
struct ProgramOf {
  const std::string& object;
  const std::string& section;
  const std::vector<ProgramMapFile>& maps;
  const std::shared_ptr<const programs::Program>& program;  // nullptr: not read
  // What its maps have at first, beside what the program says; nullptr: nothing.
  const std::shared_ptr<const std::vector<ProgramMapContents>>& contents;
  bool in_kernel;  // the host is to have XDP itself run it
  // What interfaces are called in it.
  struct Numbered {
    std::string_view interface;
    u32 ifindex;
  };
  std::vector<Numbered> interfaces;
};
std::optional<ProgramOf> program_of(const StageSettings& stage);
// The stage that runs a program, with an interface that it may redirect to, and what it is told nothing else
// of; nothing: this build has none.
std::optional<StageSettings> stage_with(std::shared_ptr<const programs::Program> program);

// The stage that has the routes which programs look up, without any; nothing: this build has none.
std::optional<StageSettings> stage_with_routes();

// Whether what it is told hangs together; else why not, as half a sentence. Nothing is compiled.
tl::expected<void, std::string> check_settings(const StageSettings& stage);

// How much work it may be to inspect a packet, of a stage that counts that; 0: it does not.
u32 work_of(const StageSettings& stage);
// Software Vulkan (llvmpipe) ends all loops of an invocation after 65,536 turns, and each loop of the code
// that stands between two steps is a turn, whether or not it is gone through. More would have rules missed
// there, so that it takes no more.
inline constexpr u32 kMostSoftwareWork = 512;

// Where a stage stands.
struct StagePlace {
  std::string_view pipeline;
  std::span<const StageSettings> stages;  // of the pipeline
  std::size_t at = 0;                     // which of them
  std::span<const StageSettings> behind() const { return stages.subspan(at + 1); }
  std::string where() const;  // " of pipeline \"web\", stage 2"
};
// What is likely not meant, a sentence each.
std::vector<std::string> notes_of(const StagePlace& place);

// The longest IP packet that it sends inside of outer headers, in bytes, by the name of the interface; "":
// the one that the packet came in on.
std::vector<std::pair<std::string, u32>> outer_mtus(const StageSettings& stage);

// What is connected to, to see whether a part of the stage is up.
struct HealthCheck {
  std::string name;
  Prefix address;
  HealthSettings health;
};
std::vector<HealthCheck> health_checks(const StageSettings& stage);
// Takes what is checked for down where `is_down` says so.
void set_down(StageSettings& stage, const std::function<bool(const HealthCheck&)>& is_down);

// Who reads its table's alarms; nullptr: it has none.
std::unique_ptr<AlarmReader> alarm_reader(const StageSettings& stage);
// Who reads what it tells of flows; nullptr: nothing.
std::unique_ptr<EventReader> event_reader(const StageSettings& stage);

// Whether packets can come from it and go to it: not unspecified, nor multicast, nor broadcast.
bool is_unicast(const Prefix& address);

// What conditions ask for, as far as it can contradict itself. Families: bit 0 IPv4, bit 1 IPv6.
struct Asked {
  std::span<const u8> protocols;
  bool flags = false, ports = false;
  u32 src_families = 3, dst_families = 3;
};
// Why no packet can meet them; empty: one can.
std::string_view never_met(const Asked& asked);

}  // namespace xdpgpu::gpu
