// SPDX-License-Identifier: MIT
#include "userspace/policy/one_sided.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "userspace/policy/notes.hpp"
#include "userspace/policy/rule_files.hpp"

namespace xdpgpu::policy {
namespace {

constexpr u8 kTcp = 6;
constexpr std::size_t kMostCompared = 1000;  // rules of a pipeline, each with each

bool has_tcp(const Match& match) {
  return match.control.empty() &&
         (match.protocols.empty() ||
          std::find(match.protocols.begin(), match.protocols.end(), kTcp) != match.protocols.end());
}

// As the answers to its packets are.
Match turned(Match match) {
  std::swap(match.src, match.dst);
  std::swap(match.src_lists, match.dst_lists);
  std::swap(match.src_ports, match.dst_ports);
  return match;
}

std::vector<const Rule*> rules_to(const Policy& policy, const Pipeline& pipeline) {
  std::vector<const Rule*> rules;
  for (const Rule& rule : policy.rules)
    if (rule.action == Rule::Action::inspect && rule.pipeline == pipeline.name && has_tcp(rule.match))
      rules.push_back(&rule);
  return rules;
}

bool follows_streams(const Stage& stage) {
  return std::visit([](const auto& one) { return streams_of(one) != rules::Streams::none; }, stage);
}

std::string lead(const std::vector<std::string>& rules) {
  return rules.size() == 1 ? fmt::format("the rule {} leads", named(rules))
                           : fmt::format("the rules {} lead", named(rules));
}

}  // namespace

Sides sides_of(const Policy& policy, const Pipeline& pipeline) {
  Sides sides;
  const auto rules = rules_to(policy, pipeline);
  if (rules.empty() || rules.size() > kMostCompared) return sides;
  sides.to_server = sides.to_client = false;
  for (const Rule* const rule : rules) {
    const Match answer = turned(rule->match);
    const bool answered = std::any_of(
        rules.begin(), rules.end(), [&](const Rule* other) { return covers(policy, other->match, answer); });
    if (!answered) sides.one_way.push_back(rule->name);
    if (rule->match.tcp_flags_mask) sides.by_flags.push_back(rule->name);
    const bool by_server = !answered && !rule->match.dst_ports.empty() && rule->match.src_ports.empty();
    const bool by_client = !answered && !rule->match.src_ports.empty() && rule->match.dst_ports.empty();
    sides.to_server = sides.to_server || !by_client;
    sides.to_client = sides.to_client || !by_server;
  }
  return sides;
}

std::vector<std::string> one_sided_notes(const Policy& policy) {
  std::vector<std::string> notes;
  for (const Pipeline& pipeline : policy.pipelines) {
    const bool follows = std::any_of(pipeline.stages.begin(), pipeline.stages.end(), follows_streams);
    const bool sends = std::any_of(pipeline.stages.begin(), pipeline.stages.end(),
                                   [](const Stage& stage) { return gpu::sends_undecided(stage) != nullptr; });
    if (!follows && !sends) continue;
    const Sides sides = sides_of(policy, pipeline);
    const std::string what = follows ? "follows TCP streams" : "sends flows on to be inspected";
    if (!sides.one_way.empty())
      notes.push_back(fmt::format(
          "one-sided: {} to the pipeline \"{}\", which {}, and no rule leads the answers there: "
          "rules find nothing in them{}; where they come in by an attached interface, add a rule "
          "with source and destination exchanged",
          lead(sides.one_way), pipeline.name, what, follows ? ", and nothing is known as acknowledged" : ""));
    if (!sides.by_flags.empty())
      notes.push_back(fmt::format(
          "{} to the pipeline \"{}\", which {}, by TCP flags: the other packets of its connections "
          "do not come there; take \"tcp_flags\" out",
          lead(sides.by_flags), pipeline.name, what));
  }
  return notes;
}

}  // namespace xdpgpu::policy
