// SPDX-License-Identifier: MIT
//
// From a policy's pipelines to the devices' settings: names become ports.
#include "userspace/compiler/pipelines.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "userspace/compiler/compiled_policy.hpp"

namespace xdpgpu::control {
namespace {

compiler::PolicySource source(std::string text) {
  return {"p.json", std::move(text), {{"bad.txt", "192.0.2.0/24\n"}}};
}

constexpr const char* kEverything = R"({
  "version": 1,
  "lists": { "bad": { "file": "bad.txt" } },
  "rules": [ { "name": "bad", "match": { "src": "@bad" }, "action": "drop" },
             { "name": "all", "match": {}, "action": { "inspect": "second" } } ],
  "pipelines": {
    "first": [
      { "stage": "acl", "default": "drop", "cache": "5s", "rules": [
        { "name": "a", "match": { "src": ["203.0.113.7/32", "10.0.0.0/8"], "proto": "tcp", "dst_port": [80, "8000-8099"] },
          "action": { "redirect": "eth1" } },
        { "match": { "dst": "2001:db8::/32" }, "action": "tx" },
        { "match": { "tcp_flags": "syn,!ack", "vlan": ["none", 7, "100-199"] }, "action": "next" } ] } ],
    "second": [
      { "stage": "load_balance", "cache": true, "backends": [
        { "name": "b1", "mac": "02:00:00:00:00:01", "weight": 3 },
        { "name": "b2", "mac": "02:00:00:00:00:02", "to": "eth1" } ] },
      { "stage": "load_balance",
        "encapsulation": { "type": "gue", "port": 9000, "mtu": 1400,
                           "source": { "ipv4": "10.0.9.0/24", "ipv6": "2001:db8::5" } },
        "backends": [ { "mac": "02:00:00:00:00:01", "address": "192.0.2.7" } ] },
      { "stage": "l2fwd", "to": "eth0" } ] }
})";

TEST(ControlPipelines, EverySettingArrives) {
  const auto compiled = compiler::compile_policy(source(kEverything), {"eth0", "eth1"});
  ASSERT_TRUE(compiled) << compiled.error().sentence;
  const auto& settings = compiled->pipelines->settings();
  ASSERT_EQ(settings.size(), 2u);
  EXPECT_EQ(settings[0].name, "first");
  const auto& acl = std::get<gpu::AclSettings>(settings[0].stages.at(0));
  EXPECT_TRUE(acl.cache);
  EXPECT_EQ(acl.cache_ttl_ms, 5000u);
  EXPECT_EQ(acl.otherwise, gpu::AclRule::Action::drop);
  ASSERT_EQ(acl.rules.size(), 3u);
  const auto& a = acl.rules[0];
  EXPECT_EQ(a.name, "a");
  ASSERT_EQ(a.src.size(), 2u);
  EXPECT_EQ(a.src[0].address[0], 203);
  EXPECT_EQ(a.src[0].length, 32);
  EXPECT_EQ(a.protocols, std::vector<u8>{6});
  ASSERT_EQ(a.dst_ports.size(), 2u);
  EXPECT_EQ(a.dst_ports[1].first, 8000);
  EXPECT_EQ(a.dst_ports[1].last, 8099);
  EXPECT_EQ(a.action, gpu::AclRule::Action::redirect);
  EXPECT_EQ(a.target, 1u);
  EXPECT_EQ(acl.rules[1].action, gpu::AclRule::Action::tx);
  ASSERT_EQ(acl.rules[1].dst.size(), 1u);
  EXPECT_EQ(acl.rules[1].dst[0].family, 6);
  EXPECT_EQ(acl.rules[1].dst[0].length, 32);
  EXPECT_EQ(acl.rules[1].dst[0].address[1], 1);
  EXPECT_EQ(acl.rules[2].action, gpu::AclRule::Action::next);
  EXPECT_FALSE(acl.rules[1].tcp_flags);
  ASSERT_TRUE(acl.rules[2].tcp_flags);
  EXPECT_EQ(acl.rules[2].tcp_flags->mask, 0x12);
  EXPECT_EQ(acl.rules[2].tcp_flags->value, 0x02);
  ASSERT_EQ(acl.rules[2].vlans.size(), 3u);
  EXPECT_EQ(acl.rules[2].vlans[0].last, 0);
  EXPECT_EQ(acl.rules[2].vlans[1].first, 7);
  EXPECT_EQ(acl.rules[2].vlans[2].first, 100);
  EXPECT_EQ(acl.rules[2].vlans[2].last, 199);

  const auto& balance = std::get<gpu::LoadBalanceSettings>(settings[1].stages.at(0));
  EXPECT_TRUE(balance.cache);
  EXPECT_EQ(balance.cache_ttl_ms, 0u) << "true: while the generation lives";
  ASSERT_EQ(balance.backends.size(), 2u);
  EXPECT_EQ(balance.backends[0].weight, 3u);
  EXPECT_FALSE(balance.backends[0].to_port);
  EXPECT_EQ(balance.backends[0].mac, (gpu::Mac{2, 0, 0, 0, 0, 1}));
  EXPECT_TRUE(balance.backends[1].to_port);
  EXPECT_EQ(balance.backends[1].target, 1u);
  EXPECT_FALSE(balance.encapsulation);
  const auto& routed = std::get<gpu::LoadBalanceSettings>(settings[1].stages.at(1));
  ASSERT_TRUE(routed.encapsulation);
  EXPECT_EQ(routed.encapsulation->type, gpu::EncapsulationSettings::Type::gue);
  EXPECT_EQ(routed.encapsulation->port, 9000);
  EXPECT_EQ(routed.encapsulation->mtu, 1400u);
  EXPECT_EQ(routed.encapsulation->source4->length, 24);
  EXPECT_EQ(routed.encapsulation->source6->address[15], 5);
  EXPECT_EQ(routed.encapsulation->hash_key, (std::array<u64, 2>{})) << "no key file";
  EXPECT_EQ(routed.backends[0].address.family, 4);
  EXPECT_EQ(routed.backends[0].address.address[3], 7);
  const auto& forward = std::get<gpu::L2fwdSettings>(settings[1].stages.at(2));
  EXPECT_TRUE(forward.to_port);
  EXPECT_EQ(forward.target, 0u);
  EXPECT_FALSE(forward.cache);
}

TEST(ControlPipelines, AnUnknownInterfaceIsNamedWithItsPlace) {
  struct Case {
    std::vector<std::string> ports;
    const char* pointer;
  };
  for (const auto& c : {Case{{"eth0"}, "/pipelines/first/0/rules/0/action/redirect"},
                        Case{{"eth1"}, "/pipelines/second/2/to"}}) {
    const auto compiled = compiler::compile_policy(source(kEverything), c.ports);
    ASSERT_FALSE(compiled);
    EXPECT_NE(compiled.error().sentence.find(c.pointer), std::string::npos) << compiled.error().sentence;
    EXPECT_EQ(compiled.error().sentence.find("p.json:"), 0u) << compiled.error().sentence;
    EXPECT_EQ(compiled.error().sentence.find("p.json:0"), std::string::npos)
        << "no line: " << compiled.error().sentence;
    EXPECT_NE(compiled.error().sentence.find(c.ports[0]), std::string::npos) << "names what there is";
    EXPECT_EQ(compiled.error().sentence.find('\n'), std::string::npos);
  }
}

TEST(ControlPipelines, AnObjectsStagesArriveAndAreFound) {
  const char* policy = R"({"version": 1, "pipelines": {
    "p": {"inner": true, "stages": [{"stage": "acl", "rules": []}, {"stage": "l2fwd", "to": "eth1"}]},
    "q": {"stages": [{"stage": "l2fwd"}]}}})";
  const auto compiled = compiler::compile_policy(source(policy), {"eth0", "eth1"});
  ASSERT_TRUE(compiled) << compiled.error().sentence;
  const auto& settings = compiled->pipelines->settings();
  ASSERT_EQ(settings.size(), 2u);
  EXPECT_TRUE(settings[0].inner);
  EXPECT_EQ(settings[0].stages.size(), 2u);
  EXPECT_FALSE(settings[1].inner);
  const auto unknown = compiler::compile_policy(source(policy), {"eth0"});
  ASSERT_FALSE(unknown);
  EXPECT_NE(unknown.error().sentence.find("p.json:2:"), std::string::npos) << unknown.error().sentence;
  EXPECT_NE(unknown.error().sentence.find("/pipelines/p/stages/1/to"), std::string::npos);
}

// What only compiling finds has its place like what reading finds.
TEST(ControlPipelines, WhatTheRulesNeedTooMuchOfIsPlaced) {
  // Port p stands in rule i if bit i of p is set: as many kinds of ports as there are ports.
  std::string rules;
  for (u32 i = 0; i < 16; i++) {
    std::string ports;
    for (u32 first = 1u << i; first < 65536; first += 2u << i)
      ports += fmt::format("{}\"{}-{}\"", ports.empty() ? "" : ",", first, first + (1u << i) - 1);
    rules += fmt::format("{}{{\"action\":\"drop\",\"match\":{{\"dst_port\":[{}]}}}}",
                         rules.empty() ? "" : ",\n", ports);
  }
  const auto compiled =
      compiler::compile_policy(source("{\"version\": 1,\n  \"rules\": [" + rules + "]}"), {"eth0"});
  ASSERT_FALSE(compiled);
  EXPECT_THAT(compiled.error().sentence,
              testing::StartsWith(
                  "p.json:2:12: /rules: the rules tell more than 65535 kinds of destination port apart"));
}

TEST(ControlPipelines, WhatAStageNeedsTooMuchOfIsPlaced) {
  const std::string unequal =
      R"({ "stage": "load_balance", "algorithm": "maglev", "table_size": 251, "backends": [
      { "name": "a", "mac": "02:00:00:00:00:01", "weight": 1000 },
      { "name": "b", "mac": "02:00:00:00:00:02" } ] })";
  std::string ten;
  for (u32 i = 0; i < 10; i++) ten += "{ \"stage\": \"l2fwd\" },";
  const std::string alone = "\"p\": [\n " + unequal + "]";
  const std::string last = "\"a\": [{ \"stage\": \"l2fwd\" }], \"p\": [" + ten + "\n   " + unequal + "]";
  for (const auto& [pipelines, place] :
       {std::pair(alone, "p.json:2:2: /pipelines/p/0: pipeline \"p\", stage 1 (load_balance)"),
        std::pair(last, "p.json:2:4: /pipelines/p/10: pipeline \"p\", stage 11 (load_balance)")}) {
    const auto compiled =
        compiler::compile_policy(source("{ \"version\": 1, \"pipelines\": { " + pipelines + "} }"), {"eth0"});
    ASSERT_FALSE(compiled);
    EXPECT_THAT(compiled.error().sentence,
                testing::StartsWith(place + std::string(": backend \"b\" has no share")));
  }
}

TEST(ControlPipelines, WithoutInterfacesEachNameIsOne) {
  const auto compiled = compiler::compile_policy_anywhere(source(kEverything), "(ingress)");
  ASSERT_TRUE(compiled) << compiled.error().sentence;
  EXPECT_EQ(compiler::mentioned_ports(compiled->policy), (std::vector<std::string>{"eth1", "eth0"}));
  EXPECT_EQ(compiled->ports, (std::vector<std::string>{"(ingress)", "eth1", "eth0"}));
}

TEST(ControlPipelines, NextHopsAndRoutesArrive) {
  const std::string text =
      R"({ "version": 1, "pipelines": { "p": [ { "stage": "forward", "cache": "2s", "default": "drop",
    "next_hops": { "up": { "mac": "02:00:00:00:00:01", "mtu": 1400 },
                   "down": { "mac": "02:00:00:00:00:02", "src_mac": "02:00:00:00:00:03", "to": "eth1" } },
    "routes": [ { "prefix": ["::/0", "0.0.0.0/0"], "next_hop": "up" }, { "file": "bad.txt" } ] } ] } })";
  compiler::PolicySource from = source(text);
  from.files["bad.txt"] = "10.0.0.0/8 down\n192.0.2.1 pass\n192.0.2.2 drop\n";
  const auto compiled = compiler::compile_policy(from, {"eth0", "eth1"});
  ASSERT_TRUE(compiled) << compiled.error().sentence;
  const auto& router = std::get<gpu::ForwardSettings>(compiled->pipelines->settings()[0].stages.at(0));
  EXPECT_TRUE(router.cache);
  EXPECT_EQ(router.cache_ttl_ms, 2000u);
  EXPECT_EQ(router.otherwise, gpu::AclRule::Action::drop);
  ASSERT_EQ(router.next_hops.size(), 2u);
  const gpu::NextHop &up = router.next_hops[0], &down = router.next_hops[1];
  EXPECT_EQ(up.name, "up");
  EXPECT_EQ(up.mac, (gpu::Mac{2, 0, 0, 0, 0, 1}));
  EXPECT_FALSE(up.own_source);
  EXPECT_FALSE(up.to_port);
  EXPECT_EQ(up.mtu, 1400u);
  EXPECT_TRUE(down.own_source);
  EXPECT_EQ(down.source, (gpu::Mac{2, 0, 0, 0, 0, 3}));
  EXPECT_TRUE(down.to_port);
  EXPECT_EQ(down.target, 1u);
  EXPECT_EQ(down.mtu, 65535u);
  ASSERT_EQ(router.routes.size(), 5u);
  EXPECT_EQ(router.routes[0].prefix.family, 6);
  EXPECT_EQ(router.routes[1].next_hop, 0u);
  EXPECT_EQ(router.routes[2].prefix.address[0], 10);
  EXPECT_EQ(router.routes[2].prefix.length, 8);
  EXPECT_EQ(router.routes[2].next_hop, 1u);
  EXPECT_EQ(router.routes[3].next_hop, gpu::kRoutePass);
  EXPECT_EQ(router.routes[4].next_hop, gpu::kRouteDrop);
  EXPECT_EQ(compiler::mentioned_ports(compiled->policy), std::vector<std::string>{"eth1"});
  const auto refused = compiler::compile_policy(from, {"eth0"});
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().sentence.find("/pipelines/p/0/next_hops/down/to"), std::string::npos)
      << refused.error().sentence;
  EXPECT_EQ(refused.error().sentence.find("p.json:3:"), 0u) << refused.error().sentence;
}

TEST(ControlPipelines, AMissingFileOfTheSourceIsADiagnostic) {
  auto incomplete = source(kEverything);
  incomplete.files.clear();
  const auto compiled = compiler::compile_policy(std::move(incomplete), {"eth0", "eth1"});
  ASSERT_FALSE(compiled);
  EXPECT_NE(compiled.error().sentence.find("bad.txt"), std::string::npos) << compiled.error().sentence;
}

TEST(ControlPipelines, PassingEverythingIsAPolicy) {
  const auto compiled = compiler::compile_policy(compiler::pass_everything(), {"eth0"});
  ASSERT_TRUE(compiled) << compiled.error().sentence;
  EXPECT_EQ(compiled->policy.default_action, policy::Do::pass);
  EXPECT_TRUE(compiled->policy.rules.empty());
}

}  // namespace
}  // namespace xdpgpu::control
