// SPDX-License-Identifier: MIT
#include "tests/backends/policies.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>

namespace xdpgpu::tests {
namespace {

using gpu::AclRule;
using gpu::AclSettings;
using gpu::DecapsulateSettings;
using gpu::ForwardSettings;
using gpu::L2fwdSettings;
using gpu::LoadBalanceSettings;
using gpu::PipelineSettings;
using gpu::PortRange;
using gpu::Prefix;
using gpu::ReputationSettings;
using Action = gpu::AclRule::Action;

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

AclRule rule_of(Action action, u32 target = 0) {
  AclRule rule;
  rule.action = action;
  rule.target = target;
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

std::vector<PipelineSettings> load_balance(Random& random) {
  std::vector<PipelineSettings> pipelines;
  for (u32 backends : {1u, 2u, 3u, 7u, 256u})
    pipelines.push_back({fmt::format("{} backends", backends), {random_load_balance(random, backends)}});
  return pipelines;
}

std::vector<PipelineSettings> maglev(Random& random) {
  std::vector<PipelineSettings> pipelines;
  for (u32 backends : {1u, 2u, 3u, 7u, 256u})
    pipelines.push_back({fmt::format("{} backends", backends), {random_maglev(random, backends)}});
  return pipelines;
}

std::vector<PipelineSettings> encapsulated(Random& random) {
  std::vector<PipelineSettings> pipelines;
  for (u32 backends : {1u, 3u, 250u})
    pipelines.push_back({fmt::format("hash, {} backends", backends),
                         {with_outer_headers(random, random_load_balance(random, backends))}});
  for (u32 backends : {1u, 3u, 100u})
    pipelines.push_back({fmt::format("maglev, {} backends", backends),
                         {with_outer_headers(random, random_maglev(random, backends))}});
  LoadBalanceSettings tight = with_outer_headers(random, random_maglev(random, 5));
  tight.encapsulation->mtu = 576;
  pipelines.push_back({"the least MTU", {tight}});
  pipelines.push_back({"behind others", {mostly_next(random), L2fwdSettings{}, tight}});
  pipelines.push_back({"behind an acl", {mostly_next(random), tight}});
  return pipelines;
}

std::vector<PipelineSettings> decapsulate(Random& random) {
  using Type = DecapsulateSettings::Type;
  const auto addresses = [](u32 of4, u32 of6) {
    std::vector<Prefix> all;
    std::array<u8, 16> six{0x20, 0x01, 0x0d, 0xb8};
    for (u32 i = 0; i < std::max(of4, of6); i++) {
      six[15] = static_cast<u8>(i);
      if (i < of6) all.push_back(prefix6(six, 128));
      if (i < of4) all.push_back(prefix4(0x0a000000 + i, 32));
    }
    return all;
  };
  const DecapsulateSettings any{Type::any, 6080, addresses(7, 2), Action::pass, 0};
  const DecapsulateSettings ipip{Type::ipip, 0, addresses(8, 1), Action::tx, 0};
  const DecapsulateSettings gue{Type::gue, 6080, addresses(8, 3), Action::redirect, 3};
  const DecapsulateSettings other{Type::any, 6081, addresses(8, 3), Action::redirect, 31};
  const DecapsulateSettings one{Type::any, 6080, addresses(1, 0), Action::pass, 0};
  return {{"any kind", {any}},
          {"any kind, one address", {one}},
          {"IP in IP", {ipip}},
          {"GUE", {gue}},
          {"GUE to another port", {other}},
          {"one behind the other", {ipip, gue, L2fwdSettings{}}},
          {"behind an acl", {mostly_next(random), any}},
          {"before a load balancer", {any, with_outer_headers(random, random_load_balance(random, 3))}}};
}

std::vector<PipelineSettings> l2fwd(Random&) {
  return {{"back", {L2fwdSettings{}}},
          {"back, cached", {L2fwdSettings{false, 0, true, 60000}}},
          {"to port 31, cached", {L2fwdSettings{true, 31, true, 0}}},
          {"to port 0", {L2fwdSettings{true, 0, false, 0}}}};
}

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

using Make = std::vector<PipelineSettings> (*)(Random&);
const std::map<std::string, Make>& cases() {
  static const std::map<std::string, Make> table{{"acl_edges", acl_edges},
                                                 {"acl_random", acl_random},
                                                 {"acl_thousands", acl_thousands},
                                                 {"acl_flags", acl_flags},
                                                 {"acl_overlapping", acl_overlapping},
                                                 {"load_balance", load_balance},
                                                 {"l2fwd", l2fwd},
                                                 {"reputation", reputation},
                                                 {"forward", forward},
                                                 {"maglev", maglev},
                                                 {"encapsulated", encapsulated},
                                                 {"decapsulate", decapsulate},
                                                 {"composed", composed},
                                                 {"inner", inner}};
  return table;
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

LoadBalanceSettings random_load_balance(Random& random, u32 backends) {
  LoadBalanceSettings settings;
  for (u32 i = 0; i < backends; i++) {
    gpu::Backend backend;
    backend.name = fmt::format("backend {}", i);
    for (u8& byte : backend.mac) byte = static_cast<u8>(random.bits());
    backend.weight = random.one_in(3) ? random.between(1, 1000) : random.between(1, 3);
    backend.to_port = random.one_in(2);
    backend.target = random.below(XG_MAX_PORTS);
    settings.backends.push_back(backend);
  }
  settings.cache = random.one_in(2);
  settings.cache_ttl_ms = random.below(100000);
  return settings;
}

LoadBalanceSettings random_maglev(Random& random, u32 backends) {
  LoadBalanceSettings settings = random_load_balance(random, backends);
  settings.algorithm = LoadBalanceSettings::Algorithm::maglev;
  // So that the lightest one has its share.
  for (gpu::Backend& backend : settings.backends) backend.weight = random.between(1, 50);
  if (random.one_in(2)) settings.table_size = random.pick(std::array<u32, 3>{20'011, 99'991, 655'373});
  if (random.one_in(2)) settings.key = std::array{random.bits(), random.bits()};
  return settings;
}

LoadBalanceSettings with_outer_headers(Random& random, LoadBalanceSettings settings) {
  using Type = gpu::EncapsulationSettings::Type;
  gpu::EncapsulationSettings outer;
  outer.type = random.one_in(2) ? Type::ipip : Type::gue;
  const auto any6 = [&] {
    std::array<u8, 16> address{};
    for (u8& byte : address) byte = static_cast<u8>(random.bits());
    return address;
  };
  outer.source4 = prefix4(static_cast<u32>(random.bits()), static_cast<u8>(random.between(8, 32)));
  outer.source6 = prefix6(any6(), static_cast<u8>(random.between(64, 128)));
  outer.port = static_cast<u16>(random.between(1, 65535));
  outer.mtu = random.between(576, 1500);
  outer.hash_key = {random.bits(), random.bits()};
  for (gpu::Backend& backend : settings.backends)
    backend.address = random.one_in(2) ? prefix4(static_cast<u32>(random.bits()), 32) : prefix6(any6(), 128);
  settings.encapsulation = outer;
  return settings;
}

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

std::vector<std::string> policy_cases() {
  std::vector<std::string> names;
  for (const auto& [name, make] : cases()) names.push_back(name);
  return names;
}

std::vector<PipelineSettings> policy_case(const std::string& name, Random& random) {
  return cases().at(name)(random);
}

}  // namespace xdpgpu::tests
