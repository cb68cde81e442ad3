// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <array>

#include "tests/backends/policies.hpp"
#include "tests/stages/list.hpp"

namespace xdpgpu::tests {
namespace {

using gpu::PipelineSettings;
using gpu::ReputationSettings;
using Action = gpu::AclRule::Action;

ReputationSettings everything(Action action) {
  ReputationSettings all;
  all.lists.push_back({"all", {prefix4(0, 0), prefix6(std::array<u8, 16>{}, 0)}, action, 0});
  return all;
}

// Each address of the pools under prefixes of all lengths, a list for each length.
ReputationSettings nested(Random& random, ReputationSettings::Of of) {
  ReputationSettings all;
  all.of = of;
  for (u8 length :
       {u8{1}, u8{5}, u8{17}, u8{18}, u8{22}, u8{27}, u8{31}, u8{32}, u8{64}, u8{65}, u8{127}, u8{128}}) {
    gpu::ReputationList list{fmt::format("/{}", length), {}, Action::drop, 0};
    for (u32 i = 0; i < 5; i++) {
      std::array<u8, 16> address{};
      pool_address6(random, address);
      list.prefixes.push_back(prefix6(address, length));
      if (length <= 32) list.prefixes.push_back(prefix4(pool_address4(random), length));
    }
    all.lists.push_back(list);
  }
  all.cache = true;
  return all;
}

std::vector<PipelineSettings> reputation(Random& random) {
  using Of = ReputationSettings::Of;
  std::vector<PipelineSettings> pipelines{{"all", {everything(Action::drop)}},
                                          {"all go on", {everything(Action::next)}},
                                          {"nested, source", {nested(random, Of::src)}},
                                          {"nested, either", {nested(random, Of::either)}}};
  for (u32 prefixes : {1u, 2u, 30u, 400u, 3000u})
    pipelines.push_back({fmt::format("{} prefixes", prefixes), {random_reputation(random, prefixes)}});
  return pipelines;
}

SettingsCase settings() {
  return {"Reputation", R"({"version": 1, "lists": {"bad": {"file": "list.txt"}, "good": ["192.0.2.0/24"]},
            "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "reputation", "description": "what", "of": "either", "default": "next", "cache": "1s",
             "lists": [{"list": "@bad", "action": "drop"}, {"list": "@good", "action": "pass"}]}]}})",
          together({each("/pipelines/p/0/of", {R"("src")", R"("dst")", R"("either")"}),
                    each("/pipelines/p/0/default", kStageDefaults), each("/pipelines/p/0/cache", kCache),
                    each("/pipelines/p/0/lists/0/action",
                         {R"("next")", R"("drop")", R"("pass")", R"("tx")", R"({"redirect": "IF1"})"})})};
}

}  // namespace

ReputationSettings random_reputation(Random& random, u32 prefixes) {
  ReputationSettings settings;
  settings.of = random.pick(
      std::array{ReputationSettings::Of::src, ReputationSettings::Of::dst, ReputationSettings::Of::either});
  settings.lists.resize(random.between(1, 6));
  for (std::size_t i = 0; i < settings.lists.size(); i++) {
    gpu::ReputationList& list = settings.lists[i];
    list.name = std::to_string(i);
    list.action =
        random.pick(std::array{Action::next, Action::drop, Action::pass, Action::tx, Action::redirect});
    list.target = random.below(XG_MAX_PORTS);
  }
  for (u32 i = 0; i < prefixes; i++) {
    gpu::ReputationList& list = settings.lists[random.below(static_cast<u32>(settings.lists.size()))];
    list.prefixes.push_back(random_prefix(random));
    // Beside the pools' addresses, so that there is something to tell them from.
    if (random.one_in(2))
      list.prefixes.back().address[random.below(16)] ^= static_cast<u8>(1u << random.below(8));
  }
  settings.otherwise = random.pick(std::array{Action::next, Action::drop, Action::pass});
  settings.cache = random.one_in(2);
  settings.cache_ttl_ms = random.below(100000);
  return settings;
}

StageTests reputation_tests() {
  return {.conformance = {{"reputation", reputation, {.verdicts = 15}}}, .settings = {settings()}};
}

}  // namespace xdpgpu::tests
