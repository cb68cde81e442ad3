// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tests/backends/policies.hpp"
#include "tests/stages/list.hpp"

namespace xdpgpu::tests {
namespace {

using gpu::AclRule;
using gpu::AclSettings;
using gpu::PipelineSettings;
using gpu::PortRange;
using Action = gpu::AclRule::Action;

PortRange random_range(Random& random) {
  const u16 a = pool_port(random);
  const u16 b = random.one_in(2) ? a : pool_port(random);
  return {std::min(a, b), std::max(a, b)};
}

template <class T>
std::vector<T> some(Random& random, T (*make)(Random&)) {
  std::vector<T> values;
  if (random.one_in(2)) return values;
  for (u32 left = random.between(1, 3); left > 0; left--) values.push_back(make(random));
  return values;
}

gpu::TcpFlags random_flags(Random& random) {
  // Few bits, so that some packets match.
  const u32 mask = 1u << random.below(8) | (random.one_in(2) ? 1u << random.below(8) : 0u);
  return {static_cast<u8>(mask), static_cast<u8>(mask & random.bits())};
}

gpu::VlanRange random_vlan(Random& random) {
  if (random.one_in(4))
    return random.pick(std::array<gpu::VlanRange, 4>{{{7, 10}, {8, 100}, {1, 4094}, {101, 4094}}});
  const u16 id = random.pick(std::array<u16, 6>{0, 0, 10, 100, XG_VLAN_PRIORITY, 7});
  return {id, id};
}

// A rule with every field named, so that few packets match it and the later rules count too.
AclRule narrow_rule(Random& random) {
  AclRule rule;
  if (random.one_in(2)) {
    for (auto* side : {&rule.src, &rule.dst})
      side->push_back(prefix4(pool_address4(random), static_cast<u8>(random.between(29, 32))));
  } else {
    for (auto* side : {&rule.src, &rule.dst}) {
      std::array<u8, 16> address{};
      pool_address6(random, address);
      side->push_back(prefix6(address, random.pick(std::array<u8, 4>{80, 112, 127, 128})));
    }
  }
  rule.protocols.push_back(pool_protocol(random));
  if (random.one_in(2)) rule.dst_ports.push_back(random_range(random));
  return rule;
}

// One condition a rule, at the ends of its range.
AclSettings edges() {
  AclSettings acl;
  const auto add = [&](Action action, auto change) {
    AclRule rule = rule_of(action, 31);
    change(rule);
    acl.rules.push_back(rule);
  };
  constexpr std::array<u8, 16> all_ones{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                        0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  constexpr std::array<u8, 16> six{0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2};
  add(Action::drop, [](AclRule& r) { r.src_ports = {{0, 0}}; });
  add(Action::drop, [](AclRule& r) { r.dst_ports = {{65535, 65535}}; });
  add(Action::tx, [](AclRule& r) { r.src = {prefix4(0xffffffff, 32), prefix4(0, 32)}; });
  add(Action::redirect, [](AclRule& r) { r.src = {prefix4(0x0a000001, 32)}; });
  add(Action::redirect, [&](AclRule& r) { r.dst = {prefix6(six, 128), prefix6(all_ones, 128)}; });
  add(Action::pass, [&](AclRule& r) { r.src = {prefix6(six, 127), prefix6(six, 96), prefix6(six, 64)}; });
  add(Action::drop, [](AclRule& r) { r.protocols = {0, 255, 132}; });
  add(Action::next, [](AclRule& r) {
    r.dst = {prefix4(0, 0)};
    r.protocols = {17};
  });
  add(Action::tx, [](AclRule& r) { r.src_ports = {{1, 79}, {50, 8050}, {8051, 65534}}; });
  add(Action::pass, [](AclRule& r) { r.src = {prefix4(0, 0)}; });
  add(Action::drop, [&](AclRule& r) { r.dst = {prefix6(all_ones, 0)}; });
  acl.otherwise = Action::drop;
  acl.cache = true;
  acl.cache_ttl_ms = 1;
  return acl;
}

std::vector<PipelineSettings> acl_random(Random& random) {
  std::vector<PipelineSettings> pipelines;
  for (u32 rules : {1u, 2u, 31u, 32u, 33u, 63u, 64u, 65u, 200u})
    pipelines.push_back({fmt::format("{} rules", rules), {random_acl(random, rules)}});
  return pipelines;
}

std::vector<PipelineSettings> acl_edges(Random&) {
  return {{"edges", {edges()}},
          {"no rules, next", {only(Action::next, true)}},
          {"no rules, drop", {only(Action::drop, true)}},
          {"no rules, pass", {only(Action::pass, false)}}};
}

// Flags and VLANs alone, with each other, and with protocols that have no flags.
std::vector<PipelineSettings> acl_flags(Random& random) {
  std::vector<PipelineSettings> pipelines;
  const auto add = [&](const char* name, u32 rules, auto change) {
    AclSettings acl;
    for (u32 i = 0; i < rules; i++) {
      AclRule rule = rule_of(random.pick(std::array{Action::drop, Action::pass, Action::tx}));
      change(rule);
      acl.rules.push_back(rule);
    }
    acl.cache = true;
    pipelines.push_back({name, {acl}});
  };
  add("flags", 12, [&](AclRule& r) {
    r.tcp_flags = random_flags(random);
    r.dst_ports.push_back(random_range(random));
  });
  add("all flags", 256, [i = 0](AclRule& r) mutable {
    r.tcp_flags = gpu::TcpFlags{0xff, static_cast<u8>(i++)};
  });
  add("any flags", 1, [&](AclRule& r) { r.tcp_flags = gpu::TcpFlags{}; });
  add("flags of none", 1, [&](AclRule& r) {
    r.tcp_flags = gpu::TcpFlags{};
    r.protocols = {47};
  });
  add("flags of protocols", 40, [&](AclRule& r) {
    r.tcp_flags = random_flags(random);
    r.protocols = {pool_protocol(random), pool_protocol(random)};
  });
  add("protocols beside flags", 20, [&](AclRule& r) {
    r.protocols = {pool_protocol(random)};
    if (random.one_in(2)) r.dst_ports.push_back(random_range(random));
    if (r.protocols[0] == 6) r.tcp_flags = random_flags(random);
  });
  add("VLANs", 3, [&](AclRule& r) { r.vlans = {random_vlan(random)}; });
  add("VLANs and flags", 30, [&](AclRule& r) {
    r.vlans = {random_vlan(random), random_vlan(random)};
    if (random.one_in(2)) r.tcp_flags = random_flags(random);
    r.src_ports.push_back(random_range(random));
  });
  return pipelines;
}

// Every rule meets many others in every field: what packets match is in few of the rows that they have.
std::vector<PipelineSettings> acl_overlapping(Random& random) {
  std::vector<PipelineSettings> pipelines;
  for (u32 rules : {300u, 2000u}) {
    AclSettings acl;
    for (u32 i = 0; i < rules; i++) {
      AclRule rule = rule_of(random.pick(std::array{Action::drop, Action::pass, Action::tx}));
      rule.src = {prefix4(pool_address4(random), static_cast<u8>(random.between(22, 32)))};
      rule.dst = {prefix4(pool_address4(random), static_cast<u8>(random.between(22, 32)))};
      for (auto* ports : {&rule.src_ports, &rule.dst_ports}) {
        const u32 port = pool_port(random);
        *ports = {{static_cast<u16>(port - random.below(std::min(port + 1, 9000u))),
                   static_cast<u16>(port + random.below(std::min(65536 - port, 9000u)))}};
      }
      if (random.one_in(3)) rule.tcp_flags = random_flags(random);
      acl.rules.push_back(rule);
    }
    pipelines.push_back({fmt::format("{} rules", rules), {acl}});
  }
  // Each word of rules promises a match in both dimensions, and has none, but for the last rule.
  AclSettings crossing;
  for (u32 i = 0; i < 3000; i++) {
    AclRule rule = rule_of(Action::drop);
    const u16 own = static_cast<u16>(10000 + i);
    (i % 2 == 0 ? rule.src_ports : rule.dst_ports) = {{0, 9999}};
    (i % 2 == 0 ? rule.dst_ports : rule.src_ports) = {{own, own}};
    crossing.rules.push_back(rule);
  }
  crossing.rules.push_back(rule_of(Action::tx));
  crossing.rules.back().dst_ports = {{80, 80}};
  pipelines.push_back({"crossing", {crossing}});
  return pipelines;
}

// Enough narrow rules that every word of the summary is used, with a broad one at the very end.
std::vector<PipelineSettings> acl_thousands(Random& random) {
  std::vector<PipelineSettings> pipelines;
  for (u32 rules : {1023u, 1025u, 4096u}) {
    AclSettings acl;
    for (u32 i = 0; i < rules; i++) {
      AclRule rule = narrow_rule(random);
      rule.action = random.pick(std::array{Action::drop, Action::pass, Action::tx});
      acl.rules.push_back(rule);
    }
    acl.rules.push_back(rule_of(Action::redirect, 5));
    acl.rules.back().protocols = {6};
    acl.otherwise = Action::pass;
    pipelines.push_back({fmt::format("{} rules", rules), {acl}});
  }
  return pipelines;
}

SettingsCase settings() {
  const std::string at = "/pipelines/p/0/rules/0/match";
  return {"Acl", R"({"version": 1, "rules": [{"action": {"inspect": "p"}}], "pipelines": {"p": [
            {"stage": "acl", "description": "what", "default": "next", "cache": true, "rules": [
              {"name": "one", "match": {"proto": "tcp"}, "action": "drop"}]}]}})",
          together({each("/pipelines/p/0/default", kStageDefaults), each("/pipelines/p/0/cache", kCache),
                    each("/pipelines/p/0/rules/0/action",
                         {R"("next")", R"("drop")", R"("pass")", R"("tx")", R"({"redirect": "IF1"})"}),
                    address_values(at), port_values(at), vlan_values(at), flag_values(at),
                    protocol_values("/pipelines/p/0/rules/0/match")})};
}

}  // namespace

AclRule rule_of(Action action, u32 target) {
  AclRule rule;
  rule.action = action;
  rule.target = target;
  return rule;
}

AclSettings only(AclRule::Action otherwise, bool cache) {
  AclSettings acl;
  acl.otherwise = otherwise;
  acl.cache = cache;
  return acl;
}

AclSettings mostly_next(Random& random) {
  AclSettings acl = random_acl(random, 40);
  for (AclRule& rule : acl.rules)
    if (!random.one_in(5)) rule.action = Action::next;
  acl.otherwise = Action::next;
  return acl;
}

AclSettings random_acl(Random& random, u32 rules) {
  AclSettings acl;
  for (u32 i = 0; i < rules; i++) {
    AclRule rule = random.one_in(2) ? narrow_rule(random) : AclRule{};
    if (rule.src.empty()) {
      rule.src = some(random, random_prefix);
      rule.dst = some(random, random_prefix);
      rule.protocols = some(random, pool_protocol);
      rule.src_ports = some(random, random_range);
      rule.dst_ports = some(random, random_range);
      // Two of three conditions at least, else one rule swallows most of the traffic.
      if (rule.dst.empty()) rule.dst.push_back(random_prefix(random));
      if (rule.dst_ports.empty()) rule.dst_ports.push_back(random_range(random));
    }
    if (random.one_in(5)) rule.tcp_flags = random_flags(random);
    if (random.one_in(5)) rule.vlans = some(random, random_vlan);
    rule.action =
        random.pick(std::array{Action::next, Action::drop, Action::pass, Action::tx, Action::redirect});
    rule.target = random.below(XG_MAX_PORTS);
    acl.rules.push_back(rule);
  }
  acl.otherwise = random.pick(std::array{Action::next, Action::drop, Action::pass});
  acl.cache = random.one_in(2);
  acl.cache_ttl_ms = random.below(100000);
  return acl;
}

StageTests acl_tests() {
  return {.conformance = {{"acl_edges", acl_edges, {.verdicts = 9, .cached = 500, .cached_below = 9000}},
                          {"acl_random", acl_random, {.verdicts = 40}},
                          {"acl_thousands", acl_thousands, {.verdicts = 300}},
                          // Fewer of its packets meet a rule of their own.
                          {"acl_flags", acl_flags, {.verdicts = 150}, 15'000},
                          {"acl_overlapping", acl_overlapping, {.verdicts = 100}}},
          .settings = {settings()}};
}

}  // namespace xdpgpu::tests
