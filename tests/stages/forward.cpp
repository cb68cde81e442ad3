// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <array>

#include "tests/backends/policies.hpp"
#include "tests/stages/list.hpp"

namespace xdpgpu::tests {
namespace {

using gpu::ForwardSettings;
using gpu::PipelineSettings;
using Action = gpu::AclRule::Action;

// No route, a default route alone, and tables of all sizes.
std::vector<PipelineSettings> forward(Random& random) {
  ForwardSettings none;
  none.otherwise = Action::drop;
  none.cache = true;
  ForwardSettings all = random_forward(random, 0);
  all.next_hops.resize(1);
  all.next_hops[0].mtu = 65535;
  all.routes = {{prefix4(0, 0), 0}, {prefix6(std::array<u8, 16>{}, 0), 0}};
  all.cache = true;
  std::vector<PipelineSettings> pipelines{{"no routes", {none}}, {"default routes", {all}}};
  for (u32 routes : {2u, 30u, 400u, 3000u})
    pipelines.push_back({fmt::format("{} routes", routes), {random_forward(random, routes)}});
  return pipelines;
}

SettingsCase settings() {
  return {"Forward", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "forward", "description": "what", "default": "drop", "cache": "1s",
             "next_hops": {"left": {"mac": "52:54:00:00:00:01"},
                           "right": {"mac": "52:54:00:00:00:02", "src_mac": "52:54:00:00:00:03", "to": "IF1",
                                     "mtu": 1400}},
             "routes": [{"prefix": "192.0.2.0/24", "next_hop": "left"},
                        {"prefix": ["198.51.100.0/24", "2001:db8::/32"], "next_hop": "right"},
                        {"prefix": "203.0.113.0/24", "next_hop": "drop"},
                        {"prefix": "203.0.113.128/25", "next_hop": "pass"},
                        {"file": "routes.txt"}]}]}})",
          together({each("/pipelines/p/0/default", kStageDefaults), each("/pipelines/p/0/cache", kCache)})};
}

// What a router leaves to the host, for each reason.
std::vector<u32> left_to_the_host() {
  std::vector<u32> verdicts;
  for (u32 rule = gpu::forward_rule::kInvalid; rule <= gpu::forward_rule::kChecksum; rule++)
    verdicts.push_back(XG_VERDICT(XG_PASS, 0u, 1u, rule));
  return verdicts;
}

}  // namespace

ForwardSettings random_forward(Random& random, u32 routes) {
  ForwardSettings settings;
  for (u32 left = random.between(4, 9); left > 0; left--) {
    gpu::NextHop& hop = settings.next_hops.emplace_back();
    for (u8& byte : hop.mac) byte = static_cast<u8>(random.bits());
    for (u8& byte : hop.source) byte = static_cast<u8>(random.bits());
    hop.own_source = random.one_in(2);
    hop.to_port = random.one_in(2);
    hop.target = random.below(XG_MAX_PORTS);
    if (random.one_in(3)) hop.mtu = random.between(68, 600);
  }
  for (u32 i = 0; i < routes; i++) {
    gpu::Route& route = settings.routes.emplace_back();
    route.prefix = random_prefix(random);
    // Beside the pools' addresses, so that there is something to tell them from.
    if (random.one_in(2)) route.prefix.address[random.below(16)] ^= static_cast<u8>(1u << random.below(8));
    route.next_hop = random.below(static_cast<u32>(settings.next_hops.size()));
    if (random.one_in(8)) route.next_hop = random.pick(std::array{gpu::kRoutePass, gpu::kRouteDrop});
  }
  settings.otherwise = random.pick(std::array{Action::next, Action::drop, Action::pass});
  settings.cache = random.one_in(2);
  settings.cache_ttl_ms = random.below(100000);
  return settings;
}

StageTests forward_tests() {
  return {.conformance = {{"forward",
                           forward,
                           {.verdicts = 14, .of_these = left_to_the_host(), .cached = 300, .ttls = 1500},
                           // Fewer of its packets are sent on.
                           15'000}},
          .settings = {settings()},
          .files = {{"routes.txt", "10.64.0.0/10 left\n2001:db8:1::/48 right\n"}}};
}

}  // namespace xdpgpu::tests
