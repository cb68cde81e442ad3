// SPDX-License-Identifier: MIT
//
// What Pipelines::compile refuses, and what it says.
#include "gpu/pipelines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/acl_image.hpp"
#include "gpu/stages/image.h"
#include "tests/backends/policies.hpp"

namespace xdpgpu::tests {
namespace {

using gpu::AclRule;
using gpu::AclSettings;
using gpu::L2fwdSettings;
using gpu::LoadBalanceSettings;
using gpu::Pipelines;
using gpu::StageSettings;
using testing::AllOf;
using testing::HasSubstr;

// The error of a policy whose second pipeline has this as its second stage.
std::string error_of(const StageSettings& stage) {
  const auto compiled = Pipelines::compile({{"first", {}}, {"web", {AclSettings{}, stage}}});
  return compiled ? "accepted" : compiled.error();
}

AclSettings acl_with(AclRule rule) {
  rule.name = "office";
  AclSettings acl;
  acl.rules = {AclRule{}, rule};
  return acl;
}

TEST(Compile, ErrorsNameThePipelineTheStageAndTheRule) {
  AclRule rule;
  rule.dst_ports = {{90, 80}};
  EXPECT_THAT(error_of(acl_with(rule)), AllOf(HasSubstr("\"web\""), HasSubstr("stage 2 (acl)"),
                                              HasSubstr("rule 2 (\"office\")"), HasSubstr("90-80")));
}

TEST(Compile, RefusesWhatAStageCannotDo) {
  AclRule rule;
  rule.src = {prefix4(0, 33)};
  EXPECT_THAT(error_of(acl_with(rule)), HasSubstr("33"));
  rule.src.clear();
  rule.dst = {prefix6(std::array<u8, 16>{}, 129)};
  EXPECT_THAT(error_of(acl_with(rule)), HasSubstr("129"));
  rule.dst = {gpu::Prefix{5, {}, 0}};
  EXPECT_THAT(error_of(acl_with(rule)), HasSubstr("family 5"));
  rule = AclRule{};
  rule.tcp_flags = gpu::TcpFlags{0x02, 0x12};
  EXPECT_THAT(error_of(acl_with(rule)), AllOf(HasSubstr("0x12"), HasSubstr("0x10")));
  rule = AclRule{};
  rule.vlans = {0, XG_VLAN_PRIORITY, XG_VLAN_PRIORITY + 1};
  EXPECT_THAT(error_of(acl_with(rule)), HasSubstr("VLAN 4097"));
  rule = AclRule{};
  rule.action = AclRule::Action::redirect;
  rule.target = XG_MAX_PORTS;
  EXPECT_THAT(error_of(acl_with(rule)), HasSubstr("target port 32"));
  AclSettings acl;
  acl.otherwise = AclRule::Action::redirect;
  EXPECT_THAT(error_of(acl), HasSubstr("next, drop or pass"));
  acl.otherwise = AclRule::Action::next;
  acl.rules.resize(gpu::kAclMaxRules + 1);
  EXPECT_THAT(error_of(acl), HasSubstr("16385 rules"));

  LoadBalanceSettings balancer;
  EXPECT_THAT(error_of(balancer), HasSubstr("0 backends"));
  balancer.backends.resize(257);
  EXPECT_THAT(error_of(balancer), HasSubstr("257 backends"));
  balancer.backends = {{"alpha", {}, 0}};
  EXPECT_THAT(error_of(balancer), AllOf(HasSubstr("alpha"), HasSubstr("weight 0")));
  balancer.backends = {{"alpha", {}, 1001}};
  EXPECT_THAT(error_of(balancer), HasSubstr("weight 1001"));
  balancer.backends = {{"alpha", {}, 1, true, 40}};
  EXPECT_THAT(error_of(balancer), AllOf(HasSubstr("alpha"), HasSubstr("target port 40")));
  balancer.backends = {{"alpha", {}, 1000}, {"beta", {}, 1}};
  balancer.algorithm = LoadBalanceSettings::Algorithm::maglev;
  EXPECT_EQ(error_of(balancer), "accepted");
  balancer.table_size = 65'536;
  EXPECT_THAT(error_of(balancer), HasSubstr("table_size 65536 is not a prime from 251 to 1048573"));
  balancer.table_size = 251;
  EXPECT_THAT(error_of(balancer), HasSubstr("\"beta\" has no share in a table of 251"));
  balancer.backends[1].name = "alpha";
  EXPECT_THAT(error_of(balancer), HasSubstr("two backends have the name \"alpha\""));
  EXPECT_THAT(error_of(L2fwdSettings{true, 32}), HasSubstr("target port 32"));
  EXPECT_EQ(error_of(L2fwdSettings{false, 32}), "accepted");

  gpu::PipelineSettings longest{"long", {}};
  longest.stages.resize(XG_MAX_STAGES + 1);
  const auto compiled = Pipelines::compile({longest});
  ASSERT_FALSE(compiled);
  EXPECT_THAT(compiled.error(), AllOf(HasSubstr("\"long\""), HasSubstr("63 stages")));
}

TEST(Compile, KeepsTheSettingsAndGivesTheImageItsHeader) {
  const auto compiled = Pipelines::compile({{"empty", {}}, {"back", {L2fwdSettings{}}}});
  ASSERT_TRUE(compiled) << compiled.error();
  const auto& image = (*compiled)->image();
  ASSERT_EQ((*compiled)->settings().size(), 2u);
  EXPECT_EQ((*compiled)->settings()[1].name, "back");
  EXPECT_EQ(image[XG_IMAGE_MAGIC_AT], XG_IMAGE_MAGIC);
  EXPECT_EQ(image[XG_IMAGE_WORDS_AT], image.size());
  EXPECT_EQ(image[XG_IMAGE_PIPELINES_AT], 2u);
}

TEST(Compile, KnowsWhichBackendARewriteLeadsTo) {
  gpu::ForwardSettings router;
  router.next_hops = {{"up", {}}};
  router.routes = {{prefix4(0, 0), 0}};
  router.cache = true;
  LoadBalanceSettings balancer;
  balancer.backends = {{"alpha", {}}, {"beta", {}}};
  const auto uncached = balancer;
  balancer.cache = true;
  const auto compiled = Pipelines::compile({{"route", {router}}, {"none", {uncached}}, {"web", {balancer}}});
  ASSERT_TRUE(compiled) << compiled.error();
  EXPECT_EQ((*compiled)->backend_of(XG_REWRITE_NONE), "");
  EXPECT_EQ((*compiled)->backend_of(XG_REWRITE_SWAP_MACS), "");
  EXPECT_EQ((*compiled)->backend_of(XG_REWRITE_FIRST), "");
  EXPECT_EQ((*compiled)->backend_of(XG_REWRITE_FIRST + 1), "alpha");
  EXPECT_EQ((*compiled)->backend_of(XG_REWRITE_FIRST + 2), "beta");
  EXPECT_EQ((*compiled)->backend_of(XG_REWRITE_FIRST + 3), "");
}

// Rows are shared: the table of many rules on few prefixes stays small.
TEST(Compile, ManyRulesOfFewConditionsMakeASmallImage) {
  AclSettings acl;
  for (u32 i = 0; i < gpu::kAclMaxRules; i++) {
    AclRule rule;
    rule.src = {prefix4(0x0a000000 + i % 16 * 256, 24)};
    rule.action = AclRule::Action::drop;
    acl.rules.push_back(rule);
  }
  const auto compiled = Pipelines::compile({{"web", {acl}}});
  ASSERT_TRUE(compiled) << compiled.error();
  EXPECT_LT((*compiled)->image().size(), 40000u);
}

}  // namespace
}  // namespace xdpgpu::tests
