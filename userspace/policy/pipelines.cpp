// SPDX-License-Identifier: MIT
#include "userspace/policy/pipelines.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "maps/packet.h"
#include "userspace/compiler/programs/needs.hpp"
#include "userspace/policy/kernel_programs.hpp"
#include "userspace/policy/stage_reader.hpp"
#include "userspace/policy/table_stages.hpp"

namespace xdpgpu::policy {
namespace {

// A stage whose program is to run in the kernel, of so many in its pipeline.
void check_in_kernel(Report& report, const Place& stage, const gpu::ProgramOf& program, std::size_t stages) {
  const Place where = member_of(stage, "where");
  if (stages > 1)
    report.at(where,
              fmt::format("a program that runs in the kernel is its pipeline's only stage, and here are "
                          "{}: give it a pipeline of its own",
                          stages));
  if (program.program == nullptr) return;
  if (std::string why = programs::why_not_in_kernel(*program.program); !why.empty())
    report.at(where, std::move(why));
}

// place: of an array.
void read_stages(Report& report, const Place& place, StageContext& context, Pipeline& pipeline) {
  const auto* stages = place.node->as<Array>();
  if (stages->empty() || stages->size() > XG_MAX_STAGES)
    report.at(place,
              fmt::format("a pipeline needs 1 to {} stages, here are {}", XG_MAX_STAGES, stages->size()));
  if (stages->size() > XG_MAX_STAGES) return;
  each_element(report, place, [&](const Place& one) {
    auto stage = read_stage(report, one, context);
    if (!stage) return;
    if (const auto table = table_in(pipeline);
        table && gpu::cache_of(*stage) && !gpu::traits_of(*stage).drops)
      report.at(one,
                fmt::format("{} has to see every packet of a flow, so that verdicts of a stage behind it are "
                            "not cached unless they drop: take \"cache\" out here",
                            *table));
    if (const auto why = gpu::why_not_inner(*stage); pipeline.inner && why) report.at(one, *why);
    if (pipeline.inner && gpu::sends_undecided(*stage) != nullptr)
      report.at(member_of(one, "on_unsupported"),
                "the kernel tells flows by the outermost headers, and the pipeline goes by the inner ones "
                "(\"inner\"): take one of the two out");
    if (const auto program = gpu::program_of(*stage); program && program->in_kernel)
      check_in_kernel(report, one, *program, stages->size());
    if (std::string text = read_description(report, one); !text.empty())
      pipeline.descriptions[static_cast<u32>(pipeline.stages.size())] = std::move(text);
    pipeline.stages.push_back(std::move(*stage));
  });
}

Pipeline read_pipeline(Report& report, const Place& place, StageContext& context) {
  Pipeline pipeline{std::string(place.key), {}};
  if (place.node->as<Array>() != nullptr) {
    read_stages(report, place, context, pipeline);
    return pipeline;
  }
  if (place.node->as<Object>() == nullptr) {
    report.at(place,
              fmt::format("a pipeline must be an array of stages, or {{\"inner\": true, \"stages\": [...]}}, "
                          "is {}",
                          place.node->type_name()));
    return pipeline;
  }
  Fields fields(report, place, keys::kPipeline, "a pipeline");
  pipeline.in_object = true;
  pipeline.description = read_description(report, place);
  if (const auto inner = fields.get("inner")) pipeline.inner = read_bool(report, *inner).value_or(false);
  const auto stages = fields.require("stages");
  if (!stages) return pipeline;
  if (stages->node->as<Array>() == nullptr)
    report.at(*stages, fmt::format("must be an array of stages, is {}", stages->node->type_name()));
  else
    read_stages(report, *stages, context, pipeline);
  return pipeline;
}

}  // namespace

std::string stage_pointer(const Pipeline& pipeline, std::size_t stage) {
  return fmt::format("/pipelines{}{}/{}", pointer_token(pipeline.name), pipeline.in_object ? "/stages" : "",
                     stage);
}

std::vector<Pipeline> read_pipelines(Report& report, const Place& place, const KnownLists& lists,
                                     const NamedFileReader& files, const NamedFileReader& map_files,
                                     const NamedFilesReader& rule_files, const PathReader& named_by_rules,
                                     const NamedProgramReader& programs) {
  std::vector<Pipeline> pipelines;
  const auto* members = place.node->as<Object>();
  if (members == nullptr) {
    report.at(place, fmt::format("\"pipelines\" must be an object of pipelines by name, is {}",
                                 place.node->type_name()));
    return pipelines;
  }
  if (members->size() > kMaxPipelines) {
    report.at(place,
              fmt::format("a policy has at most {} pipelines, here are {}", kMaxPipelines, members->size()));
    return pipelines;
  }
  StageContext context{lists, files, map_files, rule_files, named_by_rules, programs};
  for (const auto& member : *members) {
    Place at{&member.value, &place, member.key};
    if (!is_identifier(member.key))
      report.at(at, fmt::format("a pipeline's name is 1 to 64 letters, digits, '_', '-' and '.', not \"{}\"",
                                member.key.substr(0, 80)));
    pipelines.push_back(read_pipeline(report, at, context));
  }
  if (const auto count = std::count_if(pipelines.begin(), pipelines.end(), runs_in_kernel);
      count > std::ptrdiff_t{XG_MAX_PROGRAMS})
    report.at(place, fmt::format("a policy has room for {} programs that run in the kernel, here are {}",
                                 XG_MAX_PROGRAMS, count));
  return pipelines;
}

}  // namespace xdpgpu::policy
