// SPDX-License-Identifier: MIT
#include "userspace/policy/fragments.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "userspace/policy/caching.hpp"
#include "userspace/policy/kernel_programs.hpp"

namespace xdpgpu::policy {
namespace {

constexpr u32 kMostPairs = 10'000;  // of rules that are compared for packets in common

bool asks_for_more(const Match& match) {
  return !match.src_ports.empty() || !match.dst_ports.empty() || match.tcp_flags_mask.has_value();
}
bool asks_for_more(const gpu::Conditions& asked) {
  return !asked.src_ports.empty() || !asked.dst_ports.empty() || asked.tcp_flags.has_value();
}

bool lets_in(const Rule& rule) {
  return rule.action == Rule::Action::pass || rule.action == Rule::Action::inspect;
}

// The first rule by name, and how many more there are.
std::string named(const std::vector<std::string>& names) {
  std::string text = fmt::format("\"{}\"", names.front());
  if (names.size() > 1) text += fmt::format(" and {} more", names.size() - 1);
  return text;
}

class Ways {
 public:
  explicit Ways(const Policy& policy) : policy_(policy) {}

  std::vector<std::string> run() {
    if (policy_.fragments == Do::pass) passed();
    if (policy_.fragments == Do::inspect) inspected();
    if (policy_.fragments == Do::inspect || (policy_.fragments == Do::track && !policy_.reassembles))
      one_by_one();
    if (policy_.reassembles && policy_.default_action == Do::pass) ahead_of_the_first();
    return std::move(notes_);
  }

 private:
  // Rules with ports or TCP flags that hold packets back, and whose fragments something behind them lets on.
  std::vector<std::string> holding() {
    std::vector<std::string> names;
    for (u64 i = 0; i < policy_.rules.size(); ++i) {
      const Rule& rule = policy_.rules[i];
      if (rule.action != Rule::Action::pass && asks_for_more(rule.match) && comes_in_behind(i))
        names.push_back(rule.name);
    }
    return names;
  }
  bool comes_in_behind(u64 rule) {
    if (policy_.fragments == Do::pass || policy_.default_action == Do::pass) return true;
    for (u64 i = rule + 1; i < policy_.rules.size(); ++i) {
      if (!lets_in(policy_.rules[i]) || asks_for_more(policy_.rules[i].match)) continue;
      if (++pairs_ > kMostPairs || may_both_match(policy_, policy_.rules[rule].match, policy_.rules[i].match))
        return true;
    }
    return false;
  }
  void around(const std::vector<std::string>& names) {
    if (!names.empty())
      notes_.push_back(
          fmt::format("fragments get around the rule {}: they have no ports and no TCP flags, so it says "
                      "nothing of them, "
                      "and \"fragments\": \"{}\" lets them on; write \"track\"",
                      named(names), policy_.fragments == Do::pass ? "pass" : "inspect"));
  }
  void passed() {
    if (policy_.default_action == Do::drop)
      notes_.push_back(
          "\"fragments\": \"pass\" lets every fragment in that no rule drops, though \"default\" is "
          "\"drop\": "
          "a stranger need but cut packets up; write \"track\"");
    around(holding());
    std::vector<std::string> inspecting;
    for (const auto& rule : policy_.rules)
      if (rule.action == Rule::Action::inspect &&
          std::find(inspecting.begin(), inspecting.end(), rule.pipeline) == inspecting.end())
        inspecting.push_back(rule.pipeline);
    if (!inspecting.empty())
      notes_.push_back(
          fmt::format("fragments get around the pipeline {}: \"fragments\": \"pass\" passes them, and no "
                      "pipeline sees them; write \"{}\"",
                      named(inspecting), kernel_pipelines(policy_).empty() ? "track" : "inspect"));
  }
  void inspected() {
    around(holding());
    for (const auto& pipeline : policy_.pipelines)
      if (std::any_of(policy_.rules.begin(), policy_.rules.end(), [&](const Rule& rule) {
            return rule.action == Rule::Action::inspect && rule.pipeline == pipeline.name &&
                   !asks_for_more(rule.match);
          }))
        in_pipeline(pipeline);
  }
  void in_pipeline(const Pipeline& pipeline) {
    std::vector<std::string> names;
    for (const auto& stage : pipeline.stages)
      for (const auto& rule : gpu::rules_of(stage))
        if (rule.action == gpu::Action::drop && asks_for_more(rule.conditions)) names.emplace_back(rule.name);
    if (names.empty()) return;
    notes_.push_back(fmt::format(
        "fragments get around the rule {} of pipeline \"{}\", which asks for ports or TCP flags: with "
        "\"fragments\": \"inspect\" they come to the pipeline and have none; write \"track\"",
        named(names), pipeline.name));
  }

  void ahead_of_the_first() {
    if (std::any_of(policy_.rules.begin(), policy_.rules.end(),
                    [](const Rule& rule) { return rule.action == Rule::Action::inspect; }))
      notes_.push_back(
          "fragments that come ahead of their datagram's first one pass by \"default\", and no pipeline sees "
          "them: a "
          "receiver may take one for what was looked at; write \"default\": \"drop\", and a rule at the end "
          "that "
          "passes the rest");
  }
  // Rules of files look at payload.
  void one_by_one() {
    for (const auto& pipeline : policy_.pipelines) {
      const bool reads = std::any_of(pipeline.stages.begin(), pipeline.stages.end(),
                                     [](const auto& stage) { return gpu::file_rules(stage) != nullptr; });
      const bool inspects = std::any_of(policy_.rules.begin(), policy_.rules.end(), [&](const Rule& rule) {
        return rule.action == Rule::Action::inspect && rule.pipeline == pipeline.name &&
               (policy_.fragments == Do::track || !asks_for_more(rule.match));
      });
      if (reads && inspects)
        notes_.push_back(
            fmt::format("fragments get around the rule files of pipeline \"{}\": with \"fragments\": \"{}\" "
                        "they come one "
                        "by one, and their payload is not looked at; write \"reassemble\"",
                        pipeline.name, policy_.fragments == Do::track ? "track" : "inspect"));
    }
  }

  const Policy& policy_;
  std::vector<std::string> notes_;
  u32 pairs_ = 0;
};

}  // namespace

std::vector<std::string> fragment_notes(const Policy& policy) { return Ways(policy).run(); }

}  // namespace xdpgpu::policy
