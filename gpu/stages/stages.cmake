# Of gpu/stages/stages.def, and of the stages.def of each directory in gpu_extra_stages, which has its stages' folders
# beside it: stage_folders (their paths), stage_includes (what their files are looked for in), and in the folder
# stages_generated the files below. gpu_own_stages, where it is set: of gpu/stages these alone.
#   gpu/stages/list.h         the stages' device code, and what leads a packet to its stage's; all dialects
#   gpu/stages/list_many.h    the same of what takes many packets at a time; C++ and CUDA
#   gpu/stages/list_together.hpp  the same of what takes a group's packets side by side; C++
#   gpu/stages/list.hpp       the settings' types and the traits
#   gpu/stages/compilers.hpp  what each stage's compile.cpp defines
#   gpu/stages/references.hpp what each stage's reference.cpp defines
set(known_traits decides remembers checks drops caches edits sends by_flow egress loosens asks_behind brings_more crowds
                 apply_many settles rules notes estimates asks_router encapsulates checks_health alarms
                 together record_ahead reads_payload flow_events outermost inspects rule_files
                 connections programs routes names)
set(stage_includes ${PROJECT_SOURCE_DIR} ${stages_generated})
set(in_tree ${CMAKE_CURRENT_SOURCE_DIR}/stages)
set(stage_lines)
foreach(directory IN ITEMS ${in_tree} ${gpu_extra_stages})
  get_filename_component(directory ${directory} ABSOLUTE BASE_DIR ${PROJECT_SOURCE_DIR})
  if(NOT EXISTS ${directory}/stages.def)
    message(FATAL_ERROR "${directory} is to have stages, and has no stages.def: write one line a stage, as in "
                        "gpu/stages/stages.def, or take it out of XDPGPU_EXTRA_STAGES")
  endif()
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${directory}/stages.def)
  file(STRINGS ${directory}/stages.def lines REGEX "^XG_STAGE")
  if(gpu_own_stages AND directory STREQUAL in_tree)
    list(JOIN gpu_own_stages "|" own)
    list(FILTER lines INCLUDE REGEX "^XG_STAGE\\((${own}),")
  endif()
  list(TRANSFORM lines PREPEND "${directory}|")
  list(APPEND stage_lines ${lines})
  if(NOT directory STREQUAL in_tree)
    list(APPEND stage_includes ${directory})
  endif()
endforeach()
set(stage_folders)
set(stage_names)
set(stage_numbers)
set(head "/* Made by gpu/stages/stages.cmake. */\n")
foreach(line IN LISTS stage_lines)
  string(REGEX MATCH "^([^|]*)\\|(.*)$" line "${line}")
  set(directory ${CMAKE_MATCH_1})
  set(line "${CMAKE_MATCH_2}")
  set(def ${directory}/stages.def)
  if(NOT line MATCHES "^XG_STAGE\\(([a-z0-9_]+), ([A-Za-z0-9]+), ([0-9]+), ([a-z_ ]+)\\)$")
    message(FATAL_ERROR "${def} has a line that is none: ${line}")
  endif()
  set(name ${CMAKE_MATCH_1})
  set(type ${CMAKE_MATCH_2})
  set(number ${CMAKE_MATCH_3})
  string(REPLACE " " ";" traits "${CMAKE_MATCH_4}")
  if(name IN_LIST stage_names)
    message(FATAL_ERROR "${def} has a stage ${name}, and there is one: take another name")
  endif()
  if(number LESS 1 OR number GREATER 63 OR number IN_LIST stage_numbers)
    message(FATAL_ERROR "${def} gives ${name} the number ${number}, which is another stage's or not in 1 to 63: take "
                        "one that is free, from 63 down where the stage is not of gpu/stages")
  endif()
  if(NOT EXISTS ${directory}/${name}/device.h)
    message(FATAL_ERROR "${def} has a stage ${name}, and ${directory}/${name} has no device.h: see gpu/README.md")
  endif()
  list(APPEND stage_names ${name})
  list(APPEND stage_numbers ${number})
  list(APPEND stage_folders ${directory}/${name})
  set(folder ${name})
  if(directory STREQUAL in_tree)
    set(folder gpu/stages/${name})
  endif()
  string(TOUPPER ${name} upper)
  set(fields)
  foreach(trait IN LISTS traits)
    if(NOT trait IN_LIST known_traits)
      message(FATAL_ERROR "${def} says \"${trait}\" of ${name}, which is no trait: take one of ${known_traits}")
    endif()
  endforeach()
  foreach(trait IN LISTS known_traits)
    if(trait IN_LIST traits)
      string(APPEND fields ".${trait} = true, ")
    endif()
  endforeach()
  string(APPEND includes "#include \"${folder}/device.h\"\n")
  string(APPEND kinds "#define XG_KIND_${upper} ${number}u\n")
  string(APPEND settings_includes "#include \"${folder}/settings.hpp\"\n")
  list(APPEND types ${type})
  string(APPEND infos "template <>\nstruct StageInfo<${type}> {\n  static constexpr std::string_view kName = \"${name}\";\n"
         "  static constexpr u32 kNumber = ${number};\n  static constexpr StageTraits kTraits{${fields}};\n};\n")
  string(APPEND compilers "Result<Placed> emit(const ${type}& stage, Compiled& to);\n"
         "std::string describe(const ${type}& stage, u32 rule, const xg_result* result);\n")
  foreach(one "checks=Result<void> check(const ${type}& stage)" "remembers=std::span<const Outcome> outcomes(const ${type}& stage)" "sends=std::optional<std::string> sends(const ${type}& stage)"
              "drops=bool drops(const ${type}& stage)" "settles=void settle(${type}& stage, const Written& written)"
              "rules=std::vector<StageRule> rules_of(const ${type}& stage)"
              "notes=std::vector<std::string> notes(const ${type}& stage, const StagePlace& place)"
              "alarms=std::unique_ptr<AlarmReader> alarm_reader(const ${type}& stage)"
              "flow_events=std::unique_ptr<EventReader> event_reader(const ${type}& stage)"
              "encapsulates=std::vector<std::pair<std::string, u32>> outer_mtus(const ${type}& stage)"
              "checks_health=std::vector<HealthCheck> health_checks(const ${type}& stage)"
              "checks_health=void set_down(${type}& stage, const std::function<bool(const HealthCheck&)>& is_down)"
              "by_flow=std::optional<u32> cached_undecided(const ${type}& stage)" "egress=bool sees_egress(const ${type}& stage)"
              "names=std::optional<bool> has_name(const ${type}& stage, const NamesPlace& at, std::string_view list, const DomainEntry& entry)"
              "names=std::vector<u32> changed_names(const ${type}& stage, const NamesPlace& at, const NameChanges& changes)"
              "loosens=bool loosen(${type}& stage, u32* body)" "reads_payload=u32 payload_bytes(const ${type}& stage)")
    string(REGEX MATCH "^([a-z_]+)=(.*)$" one "${one}")
    if(CMAKE_MATCH_1 IN_LIST traits)
      string(APPEND compilers "${CMAKE_MATCH_2};\n")
    endif()
  endforeach()
  if("remembers" IN_LIST traits AND "decides" IN_LIST traits)
    string(APPEND compilers "bool remembers(const ${type}& stage);\n")
  endif()
  list(APPEND quoted "\"${name}\"")
  string(APPEND references
         "std::unique_ptr<Stage> reference_of(const ${type}& settings, const std::array<u64, 2>& secret);\n")
  if("together" IN_LIST traits)
    string(APPEND together_includes "#include \"${folder}/together.hpp\"\n")
    string(APPEND together_members "  xg_${name}_ahead ${name};\n")
    string(APPEND together_kinds "  use(${number}u);\n")
    string(APPEND together_is " || kind == ${number}u")
    string(APPEND together_look "  if (kind == ${number}u)\n    xg_${name}_look_ahead(image, count, [&](u32 i) -> xg_view& { return packets[i]->seen; },\n"
           "                       [&](u32 i) { return packets[i]->head; },\n"
           "                       [&](u32 i) -> xg_${name}_ahead& { return packets[i]->ahead.${name}; });\n")
    string(APPEND together_decide "  if (kind == ${number}u) return xg_${name}_decide_ahead(b, body, p, ahead.${name}, r);\n")
  endif()
  if("inspects" IN_LIST traits)
    math(EXPR kind "128 + ${number}")
    string(APPEND look "  if (kind == ${kind}u) xg_${name}_look(b, body, p, f, lane, lanes);\n")
    string(APPEND try "  if (kind == ${kind}u) xg_${name}_try(b, body, p, f, lane, lanes);\n")
    string(APPEND conclude "  if (kind == ${kind}u) return xg_${name}_conclude(b, body, p, f, r);\n")
  endif()
  if("decides" IN_LIST traits AND NOT "inspects" IN_LIST traits)
    string(APPEND decide "  if (kind == ${number}u) return xg_${name}_decide(b, body, p, r);\n")
  endif()
  if("remembers" IN_LIST traits)
    math(EXPR kind "64 + ${number}")
    string(APPEND touch "  if (way.kind == ${kind}u) return xg_${name}_touch(b, way, p, bytes);\n")
    string(APPEND apply "  if (kind == ${kind}u) return xg_${name}_apply(b, body, t);\n")
    string(APPEND settle "  if (kind == ${kind}u) return xg_${name}_settle(b, body, outcome, p, r);\n")
    if("asks_behind" IN_LIST traits)
      string(APPEND behind_includes "#include \"${folder}/behind.h\"\n")
    endif()
    if("egress" IN_LIST traits)
      string(APPEND egress " || kind == ${kind}u")
    endif()
    if("record_ahead" IN_LIST traits)
      string(APPEND record_ahead "  if (kind == ${kind}u) return xg_${name}_record_ahead(image, body, t);\n")
    endif()
    if("brings_more" IN_LIST traits)
      string(APPEND more " || kind == ${kind}u")
    endif()
    if("programs" IN_LIST traits)
      string(APPEND runs_programs " || kind == ${kind}u")
    endif()
    if("apply_many" IN_LIST traits)
      string(APPEND many_includes "#include \"${folder}/apply_many.h\"\n")
      string(APPEND applies_many " || kind == ${kind}u")
      string(APPEND many "  if (kind == ${kind}u) return xg_${name}_apply_many(warp, b, body, t, peers, cache, outcome);\n")
      string(APPEND write_back "  if (cache.kind == ${kind}u) xg_${name}_write_back(warp, b, cache);\n")
      string(APPEND cache_words " && XG_${upper}_CACHE_WORDS <= XG_RECORD_CACHE_WORDS")
    endif()
  endif()
endforeach()
list(LENGTH stage_names count)
list(JOIN quoted ", " quoted)
list(JOIN types ", " types)
set(own_cache "  if (cache.kind != kind) xg_write_back(warp, b, cache);\n  cache.kind = kind;\n")

file(CONFIGURE OUTPUT ${stages_generated}/gpu/stages/list.h @ONLY CONTENT "@head@#ifndef XDPGPU_STAGES_LIST_H
#define XDPGPU_STAGES_LIST_H

@includes@
@kinds@
/* Where some stages are left out, some parameters are not used. */
#ifndef XG_GLSL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \"-Wunused-parameter\"
#endif
/* A stage without a table. Returns an action word. */
XG_FN u32 xg_stage(xg_batch b, u32 kind, u32 body, xg_view p, XG_INOUT(xg_result) r) {
@decide@  return XG_ABORTED;
}

/* A stage that inspects, in three parts (gpu/stages/inspection.h). */
XG_FN void xg_stage_look(xg_batch b, u32 kind, u32 body, xg_view p, xg_state f, u32 lane, u32 lanes) {
@look@}
XG_FN void xg_stage_try(xg_batch b, u32 kind, u32 body, xg_view p, xg_state f, u32 lane, u32 lanes) {
@try@}
XG_FN u32 xg_stage_conclude(xg_batch b, u32 kind, u32 body, xg_view p, xg_state f, XG_INOUT(xg_result) r) { /* NOLINT(misc-unused-parameters) */
@conclude@  return XG_ABORTED;
}

#include \"gpu/stages/fate.h\"
@behind_includes@
/* A stage with a table, in three steps: what the packet brings to the table; what comes of it, which is for
 * the packets of one set in their order; and the action word that follows. bytes: the whole packet's. */
XG_FN xg_touch xg_stage_touch(xg_batch b, xg_way way, xg_view p, u32 bytes) {
@touch@  return xg_untracked();
}

XG_FN u32 xg_stage_apply(xg_batch b, u32 kind, u32 body, xg_touch t) {
  if (t.tag == XG_UNTRACKED) return t.facts;
@apply@  return 0u;
}

XG_FN u32 xg_stage_settle(xg_batch b, u32 kind, u32 body, u32 outcome, xg_view p, XG_INOUT(xg_result) r) {
@settle@  return XG_ABORTED;
}

XG_FN bool xg_stage_sees_egress(u32 kind) { return false@egress@; }
XG_FN bool xg_stage_brings_more(u32 kind) { return false@more@; }
XG_FN bool xg_stage_runs_programs(u32 kind) { return false@runs_programs@; }
/* Words of an entry's record that the packet's turn will read, so that they are worth being fetched: 0: none. */
XG_FN u32 xg_stage_record_ahead(u32 kind, xg_words image, u32 body, xg_touch t) {
@record_ahead@  return 0u;
}

#ifndef XG_GLSL
#pragma GCC diagnostic pop
#endif

#endif
")

file(CONFIGURE OUTPUT ${stages_generated}/gpu/stages/list_many.h @ONLY CONTENT "@head@#ifndef XDPGPU_STAGES_LIST_MANY_H
#define XDPGPU_STAGES_LIST_MANY_H

#include \"gpu/stages/warp.h\"
@many_includes@
/* Where some stages are left out, some parameters are not used. */
#ifndef XG_GLSL
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored \"-Wunused-parameter\"
#endif
static_assert(true@cache_words@, \"a stage's record is larger than a warp's cache\");

XG_WARP_FN bool xg_stage_applies_many(u32 kind) { return false@applies_many@; }

/* Writes back what is in the cache. */
template <class Warp>
XG_WARP_FN void xg_write_back(Warp& warp, xg_batch b, XG_INOUT(xg_record_cache) cache) {
  if (!cache.used) return;
@write_back@}

/* peers: the lanes whose packets come to the first one's set. -> those that are through, the first ones of them,
 * with their outcomes; 0: the first one has to be applied by itself. */
template <class Warp>
XG_WARP_FN u32 xg_stage_apply_many(Warp& warp, xg_batch b, u32 kind, u32 body, const xg_touch& t, u32 peers,
                                   XG_INOUT(xg_record_cache) cache, XG_INOUT(u32) outcome) {
@own_cache@@many@  return 0u;
}

#ifndef XG_GLSL
#pragma GCC diagnostic pop
#endif

#endif
")

file(CONFIGURE OUTPUT ${stages_generated}/gpu/stages/list_together.hpp @ONLY CONTENT "@head@#pragma once

#include \"gpu/stages/list.h\"
@together_includes@
namespace xdpgpu::gpu {

// What a stage has looked up of a packet.
union StageAhead {
  u32 none;
@together_members@};
inline bool looks_ahead([[maybe_unused]] u32 kind) { return false@together_is@; }
template <class Use>
void each_kind_that_looks_ahead([[maybe_unused]] Use use) {
@together_kinds@}
// Of `count` packets that have such a stage in front, with its body at `head`.
template <class Packet>
void look_ahead([[maybe_unused]] u32 kind, [[maybe_unused]] xg_words image, [[maybe_unused]] Packet* const* packets,
                [[maybe_unused]] u32 count) {
@together_look@}
inline u32 decide_ahead([[maybe_unused]] u32 kind, [[maybe_unused]] const xg_batch& b, [[maybe_unused]] u32 body,
                        [[maybe_unused]] const xg_view& p, [[maybe_unused]] const StageAhead& ahead,
                        [[maybe_unused]] xg_result& r) {
@together_decide@  return XG_ABORTED;
}

}  // namespace xdpgpu::gpu
")

file(CONFIGURE OUTPUT ${stages_generated}/gpu/stages/list.hpp @ONLY CONTENT "@head@#pragma once

#include <array>
#include <string_view>
#include <variant>

#include \"gpu/stages/traits.hpp\"
@settings_includes@
namespace xdpgpu::gpu {

@infos@
using StageSettings = std::variant<@types@>;
inline constexpr std::array<std::string_view, @count@> kStageNames{@quoted@};

}  // namespace xdpgpu::gpu
")

file(CONFIGURE OUTPUT ${stages_generated}/gpu/stages/compilers.hpp @ONLY CONTENT "@head@#pragma once

#include \"gpu/stages/compiler.hpp\"

namespace xdpgpu::gpu {

@compilers@
}  // namespace xdpgpu::gpu
")

file(CONFIGURE OUTPUT ${stages_generated}/gpu/stages/references.hpp @ONLY CONTENT "@head@#pragma once

#include \"gpu/reference/stage.hpp\"

namespace xdpgpu::gpu::reference {

@references@
}  // namespace xdpgpu::gpu::reference
")
