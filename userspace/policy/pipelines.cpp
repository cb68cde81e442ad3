// SPDX-License-Identifier: MIT
#include "userspace/policy/pipelines.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "maps/packet.h"
#include "userspace/policy/stage_reader.hpp"
#include "userspace/policy/table_stages.hpp"

namespace xdpgpu::policy {

std::vector<Pipeline> read_pipelines(Report& report, const Place& place, const KnownLists& lists,
                                     const NamedFileReader& files) {
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
  StageContext context{lists, files};
  for (const auto& member : *members) {
    Place at{&member.value, &place, member.key};
    if (!is_identifier(member.key))
      report.at(at, fmt::format("a pipeline's name is 1 to 64 letters, digits, '_', '-' and '.', not \"{}\"",
                                member.key.substr(0, 80)));
    Pipeline pipeline{member.key, {}};
    const auto* stages = member.value.as<Array>();
    if (stages != nullptr && (stages->empty() || stages->size() > XG_MAX_STAGES))
      report.at(at,
                fmt::format("a pipeline needs 1 to {} stages, here are {}", XG_MAX_STAGES, stages->size()));
    if (stages == nullptr || stages->size() <= XG_MAX_STAGES)
      each_element(report, at, [&](const Place& one) {
        auto stage = read_stage(report, one, context);
        if (!stage) return;
        if (const auto table = table_in(pipeline);
            table && gpu::cache_of(*stage) && !gpu::traits_of(*stage).drops)
          report.at(
              one,
              fmt::format("{} has to see every packet of a flow, so that verdicts of a stage behind it are "
                          "not cached unless they drop: take \"cache\" out here",
                          *table));
        if (std::string text = read_description(report, one); !text.empty())
          pipeline.descriptions[static_cast<u32>(pipeline.stages.size())] = std::move(text);
        pipeline.stages.push_back(std::move(*stage));
      });
    pipelines.push_back(std::move(pipeline));
  }
  return pipelines;
}

}  // namespace xdpgpu::policy
