// SPDX-License-Identifier: MIT
#include "tests/backends/policies.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace xdpgpu::tests {
namespace {

using gpu::AclSettings;
using gpu::ForwardSettings;
using gpu::L2fwdSettings;
using gpu::PipelineSettings;
using gpu::Prefix;
using gpu::ReputationSettings;
using Action = gpu::AclRule::Action;

// Cached for so long.
AclSettings next_for(u32 ttl_ms) {
  AclSettings acl = only(Action::next, true);
  acl.cache_ttl_ms = ttl_ms;
  acl.rules.push_back(rule_of(Action::drop, 1));
  acl.rules.back().dst_ports = {{0, 1023}};
  return acl;
}

ReputationSettings random_reputation_for(Random& random, u32 ttl_ms) {
  ReputationSettings stage = random_reputation(random, 20);
  stage.otherwise = Action::next;
  stage.cache = true;
  stage.cache_ttl_ms = ttl_ms;
  return stage;
}

ForwardSettings routes_nothing() {
  ForwardSettings stage;
  stage.next_hops.resize(1);
  stage.otherwise = Action::next;
  stage.cache = true;
  return stage;
}

std::vector<PipelineSettings> composed(Random& random) {
  PipelineSettings longest{"62 stages", {}};
  for (u32 i = 0; i + 1 < XG_MAX_STAGES; i++) longest.stages.emplace_back(only(Action::next, false));
  longest.stages.emplace_back(L2fwdSettings{true, 9, true, 5});
  return {{"no stages", {}},
          {"acl, then load balancer", {mostly_next(random), random_load_balance(random, 5)}},
          {"acl, then maglev, then hash",
           {mostly_next(random), random_maglev(random, 9), random_load_balance(random, 2)}},
          {"acl, then l2fwd", {mostly_next(random), L2fwdSettings{false, 0, true, 10}}},
          {"load balancer, then l2fwd", {random_load_balance(random, 3), L2fwdSettings{true, 2, false, 0}}},
          {"reputation, then load balancer", {random_reputation(random, 10), random_load_balance(random, 4)}},
          {"acl, then router", {mostly_next(random), random_forward(random, 60)}},
          {"two routers", {random_forward(random, 8), random_forward(random, 500)}},
          {"two acls, then nothing", {mostly_next(random), mostly_next(random)}},
          {"what neither decides is cached", {next_for(0), next_for(7), random_reputation_for(random, 9)}},
          {"and as long as the policy is", {next_for(0)}},
          {"one stage does not cache", {next_for(5), only(Action::next, false)}},
          {"a router is asked each time", {next_for(5), routes_nothing()}},
          {"l2fwd hides what follows", {L2fwdSettings{}, only(Action::drop, false)}},
          longest};
}

// By what is inside of tunnels, beside one that is not.
std::vector<PipelineSettings> inner(Random& random) {
  std::vector<PipelineSettings> pipelines{
      {"acl", {random_acl(random, 12)}},
      {"many rules", {random_acl(random, 300)}},
      {"reputation", {random_reputation(random, 40)}},
      {"load balancer", {random_load_balance(random, 7)}},
      {"outer headers", {with_outer_headers(random, random_maglev(random, 5))}},
      {"hash, outer headers", {with_outer_headers(random, random_load_balance(random, 3))}},
      {"composed",
       {random_reputation(random, 4), mostly_next(random), random_maglev(random, 3), L2fwdSettings{}}}};
  for (PipelineSettings& pipeline : pipelines) {
    pipeline.inner = true;
    for (gpu::StageSettings& stage : pipeline.stages)
      std::visit(
          [](auto& what) {
            if constexpr (requires { what.cache; }) what.cache = false;
          },
          stage);
  }
  pipelines.push_back({"by outer headers", {random_acl(random, 12)}});
  return pipelines;
}

}  // namespace

Prefix prefix4(u32 address, u8 length) {
  Prefix prefix;
  prefix.family = 4;
  prefix.length = length;
  for (u32 i = 0; i < 4; i++) prefix.address[i] = static_cast<u8>(address >> (24 - 8 * i));
  return prefix;
}

Prefix prefix6(std::span<const u8> address, u8 length) {
  Prefix prefix;
  prefix.family = 6;
  prefix.length = length;
  std::copy(address.begin(), address.end(), prefix.address.begin());
  return prefix;
}

Prefix random_prefix(Random& random) {
  if (random.one_in(2)) {
    constexpr std::array<u8, 9> lengths{0, 8, 16, 23, 24, 29, 30, 31, 32};
    return prefix4(pool_address4(random), random.pick(lengths));
  }
  constexpr std::array<u8, 10> lengths{0, 32, 48, 64, 65, 96, 120, 126, 127, 128};
  std::array<u8, 16> address{};
  pool_address6(random, address);
  return prefix6(address, random.pick(lengths));
}

std::vector<ConformanceCase> conformance_cases() {
  std::vector<ConformanceCase> cases{
      {"composed", composed, {.verdicts = 8}},
      {"inner", inner, {.verdicts = 25}, ConformanceCase{}.packets, packets_in_tunnels}};
  for (const StageTests& stage : stage_tests())
    cases.insert(cases.end(), stage.conformance.begin(), stage.conformance.end());
  std::sort(cases.begin(), cases.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return cases;
}

std::vector<PipelineSettings> policy_case(const std::string& name, Random& random) {
  for (const ConformanceCase& one : conformance_cases())
    if (one.name == name) return one.pipelines(random);
  throw std::out_of_range("there is no case " + name);
}

}  // namespace xdpgpu::tests
