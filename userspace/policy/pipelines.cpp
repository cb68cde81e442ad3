// SPDX-License-Identifier: MIT
#include "userspace/policy/pipelines.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "maps/packet.h"
#include "userspace/policy/caching.hpp"
#include "userspace/policy/ddos.hpp"
#include "userspace/policy/load_balance.hpp"
#include "userspace/policy/routes.hpp"
#include "userspace/policy/table_stages.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::policy {
namespace {

constexpr u32 kMaxReputationLists = 4095;

class StageReader {
 public:
  StageReader(Report& report, const KnownLists& lists, const NamedFileReader& files)
      : report_(report), lists_(lists), files_(files) {}

  std::optional<Stage> stage(const Place& place) {
    const auto* members = place.node->as<Object>();
    if (members == nullptr) {
      report_.at(place, fmt::format("a stage must be an object, is {}", place.node->type_name()));
      return std::nullopt;
    }
    const Node* kind = nullptr;
    for (const auto& member : *members)
      if (member.key == "stage") kind = &member.value;
    if (kind == nullptr) {
      report_.at(place,
                 fmt::format("a stage needs the key \"stage\", which is {}", quoted_list(words::kStage)));
      return std::nullopt;
    }
    Place kind_place{kind, &place, "stage"};
    const auto* name = kind->as<std::string>();
    if (name != nullptr && find_word(words::kStageAbsent, *name)) {
      report_.at(kind_place, fmt::format("this version does not have the stage \"{}\"; it has {}", *name,
                                         quoted_list(words::kStage)));
      return std::nullopt;
    }
    auto which = read_word(report_, kind_place, words::kStage);
    if (!which) return std::nullopt;
    if (*which == 0) return acl(place);
    if (*which == 1) return read_load_balance(report_, place, files_);
    if (*which == 2) return l2fwd(place);
    if (*which == 3) return reputation(place);
    if (*which == 4) return forward(place);
    if (*which == 5) return read_rate_limit(report_, place);
    if (*which == 6) return read_conntrack(report_, place);
    return read_ddos(report_, place);
  }

 private:
  Stage acl(const Place& place) {
    AclStage stage;
    Fields fields(report_, place, keys::kAcl, "the stage acl");
    if (auto rules = fields.require("rules")) {
      const auto* items = rules->node->as<Array>();
      const bool fit = items == nullptr || items->size() <= kMaxAclRules;
      if (!fit)
        report_.at(*rules, fmt::format("the stage acl has room for {} rules, here are {}: use a prefix list "
                                       "for addresses",
                                       kMaxAclRules, items->size()));
      else
        each_element(report_, *rules,
                     [&](const Place& one) { stage.rules.push_back(acl_rule(one, stage.rules.size() + 1)); });
    }
    if (auto otherwise = fields.get("default"))
      if (auto word = read_word(report_, *otherwise, words::kAclDefault))
        stage.otherwise = words::kAclDefault[*word];
    stage.cache_ms = read_cache(report_, fields);
    return stage;
  }

  AclStageRule acl_rule(const Place& place, u64 number) {
    AclStageRule rule;
    rule.name = fmt::format("rule {}", number);
    Fields fields(report_, place, keys::kAclRule, "a rule of the stage acl");
    if (auto name = fields.get("name"))
      if (auto text = read_string(report_, *name, 128)) rule.name = *text;
    if (auto match = fields.get("match"))
      rule.match = read_match(report_, *match, keys::kAclMatch, "the match of a stage's rule", nullptr);
    if (auto decision = fields.require("action")) action(*decision, rule.action, rule.to);
    return rule;
  }

  // One of the words, or {"redirect": IF}.
  void action(const Place& place, std::string& into, std::string& to) {
    if (place.node->as<Object>() != nullptr) {
      Fields target(report_, place, keys::kRedirect, "this action");
      into = "redirect";
      if (auto port = target.require("redirect")) to = interface(*port);
    } else if (const auto* text = place.node->as<std::string>(); text != nullptr && *text == "redirect") {
      report_.at(place, "name the interface to send to: {\"redirect\": \"eth1\"}");
    } else if (auto word = read_word(report_, place, words::kAclAction)) {
      into = words::kAclAction[*word];
    }
  }

  Stage l2fwd(const Place& place) {
    L2fwdStage stage;
    Fields fields(report_, place, keys::kL2fwd, "the stage l2fwd");
    if (auto to = fields.get("to")) stage.to = interface(*to);
    stage.cache_ms = read_cache(report_, fields);
    return stage;
  }

  Stage reputation(const Place& place) {
    ReputationStage stage;
    Fields fields(report_, place, keys::kReputation, "the stage reputation");
    if (auto of = fields.get("of"))
      if (auto word = read_word(report_, *of, words::kReputationOf)) stage.of = words::kReputationOf[*word];
    if (auto lists = fields.require("lists")) {
      const auto* items = lists->node->as<Array>();
      if (items != nullptr && (items->empty() || items->size() > kMaxReputationLists))
        report_.at(*lists, fmt::format("the stage reputation needs 1 to {} lists, here are {}",
                                       kMaxReputationLists, items->size()));
      if (items == nullptr || items->size() <= kMaxReputationLists)
        each_element(report_, *lists, [&](const Place& one) { reputation_list(one, stage.lists); });
    }
    if (auto otherwise = fields.get("default"))
      if (auto word = read_word(report_, *otherwise, words::kAclDefault))
        stage.otherwise = words::kAclDefault[*word];
    stage.cache_ms = read_cache(report_, fields);
    return stage;
  }

  void reputation_list(const Place& place, std::vector<ReputationEntry>& into) {
    ReputationEntry entry;
    Fields fields(report_, place, keys::kReputationList, "a list of the stage reputation");
    if (auto list = fields.require("list")) {
      entry.list = read_list_name(report_, *list, lists_);
      if (!entry.list.empty() &&
          std::any_of(into.begin(), into.end(), [&](const auto& other) { return other.list == entry.list; }))
        report_.at(*list, fmt::format("list \"{}\" stands here twice, and the first time decides; name each "
                                      "once",
                                      entry.list));
    }
    if (auto decision = fields.require("action")) action(*decision, entry.action, entry.to);
    into.push_back(std::move(entry));
  }

  Stage forward(const Place& place) {
    ForwardStage stage;
    Fields fields(report_, place, keys::kForward, "the stage forward");
    if (auto hops = fields.require("next_hops")) stage.next_hops = read_next_hops(report_, *hops);
    if (auto routes = fields.require("routes"); routes && routes_ <= kMaxPrefixes)
      stage.routes = read_routes(report_, *routes, stage.next_hops, files_);
    routes_ += count_routes(stage);
    if (auto otherwise = fields.get("default"))
      if (auto word = read_word(report_, *otherwise, words::kAclDefault))
        stage.otherwise = words::kAclDefault[*word];
    stage.cache_ms = read_cache(report_, fields);
    return stage;
  }

  std::string interface(const Place& place) { return read_interface(report_, place); }

  Report& report_;
  const KnownLists& lists_;
  const NamedFileReader& files_;
  u64 routes_ = 0;  // of all stages so far
};

bool may_drop(const Stage& stage) {
  return !std::holds_alternative<LoadBalanceStage>(stage) && !std::holds_alternative<L2fwdStage>(stage);
}

}  // namespace

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
  StageReader reader(report, lists, files);
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
        auto stage = reader.stage(one);
        if (!stage) return;
        if (const auto table = table_in(pipeline); table && cache_of(*stage) && !may_drop(*stage))
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
