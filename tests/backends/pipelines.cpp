// SPDX-License-Identifier: MIT
//
// What Pipelines::compile refuses, and what it says.
#include "gpu/pipelines.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
  EXPECT_THAT(error_of(acl_with(rule)),
              AllOf(HasSubstr("\"web\""), HasSubstr("stage 2 (acl)"),
                    HasSubstr("\"dst_port\" of \"match\" of \"1\" of \"rules\""), HasSubstr("90-80")));
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
  rule.vlans = {{0, 0}, {XG_VLAN_PRIORITY, XG_VLAN_PRIORITY}, {4000, XG_VLAN_PRIORITY + 1}};
  EXPECT_THAT(error_of(acl_with(rule)), HasSubstr("VLAN 4097"));
  for (const gpu::VlanRange range : {gpu::VlanRange{0, 10}, {20, 10}, {10, XG_VLAN_PRIORITY}}) {
    rule.vlans = {range};
    EXPECT_THAT(error_of(acl_with(rule)), HasSubstr("is no range of VLANs"));
  }
  rule = AclRule{};
  rule.action = AclRule::Action::redirect;
  rule.target = XG_MAX_PORTS;
  EXPECT_THAT(error_of(acl_with(rule)), HasSubstr("target port 32"));
  AclSettings acl;
  acl.otherwise = AclRule::Action::redirect;
  EXPECT_THAT(error_of(acl), HasSubstr("\"default\" has a value that is none of its words"));
  acl.otherwise = AclRule::Action::next;
  acl.rules.resize(gpu::kAclMaxRules + 1);
  EXPECT_THAT(error_of(acl), HasSubstr("\"rules\" has 16385 elements, 0 to 16384 are possible"));

  LoadBalanceSettings balancer;
  EXPECT_THAT(error_of(balancer), HasSubstr("\"backends\" has 0 elements"));
  balancer.backends.resize(257);
  EXPECT_THAT(error_of(balancer), HasSubstr("\"backends\" has 257 elements"));
  balancer.backends = {{"alpha", {}, 0}};
  EXPECT_THAT(error_of(balancer), AllOf(HasSubstr("alpha"), HasSubstr("weight 0")));
  balancer.backends = {{"alpha", {}, 1001}};
  EXPECT_THAT(error_of(balancer),
              HasSubstr("\"weight\" of \"0\" of \"backends\" is 1001, which is not in 0 to 1000"));
  balancer.backends = {{"alpha", {}, 1, true, 40}};
  EXPECT_THAT(error_of(balancer), HasSubstr("\"to\" of \"0\" of \"backends\" target port 40"));
  balancer.backends = {{"alpha", {}, 1000}, {"beta", {}, 1}};
  balancer.algorithm = LoadBalanceSettings::Algorithm::maglev;
  EXPECT_EQ(error_of(balancer), "accepted");
  balancer.table_size = 65'536;
  EXPECT_THAT(error_of(balancer), HasSubstr("table_size 65536 is not a prime"));
  balancer.table_size = 251;
  EXPECT_THAT(error_of(balancer), HasSubstr("\"beta\" has no share in a table of 251"));
  balancer.backends[1].name = "alpha";
  EXPECT_THAT(error_of(balancer), HasSubstr("two backends have the name \"alpha\""));
  balancer.backends[1] = {"beta", {}, 1000};
  balancer.backends[1].address = prefix6(std::array<u8, 16>{0x20, 1}, 128);
  balancer.encapsulation = gpu::EncapsulationSettings{};
  EXPECT_THAT(error_of(balancer),
              HasSubstr("\"alpha\" has an IPv4 address, for which there is no outer source"));
  balancer.encapsulation->source4 = prefix4(0x0a000001, 32);
  EXPECT_THAT(error_of(balancer),
              HasSubstr("\"beta\" has an IPv6 address, for which there is no outer source"));
  balancer.encapsulation->source6 = prefix4(0x0a000001, 32);
  EXPECT_THAT(error_of(balancer),
              HasSubstr("\"ipv6\" of \"source\" of \"encapsulation\" is of the other address family"));
  balancer.encapsulation->source6 = balancer.backends[1].address;
  EXPECT_EQ(error_of(balancer), "accepted");
  balancer.encapsulation->mtu = 575;
  EXPECT_THAT(error_of(balancer),
              HasSubstr("\"mtu\" of \"encapsulation\" is 575, which is not in 576 to 65535"));
  balancer.encapsulation->mtu = 65535;
  balancer.encapsulation->port = 0;
  EXPECT_EQ(error_of(balancer), "accepted");
  balancer.encapsulation->type = gpu::EncapsulationSettings::Type::gue;
  EXPECT_THAT(error_of(balancer),
              HasSubstr("\"port\" of \"encapsulation\" is 0, which is not in 1 to 65535"));
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

TEST(Compile, EncapsulationPutsTheOuterHeadersIntoTheRewrites) {
  LoadBalanceSettings balancer;
  balancer.backends = {{"alpha", {2, 1}}, {"beta", {2, 2}}};
  balancer.backends[0].address = prefix4(0xc0a80105, 32);
  balancer.backends[1].address = prefix6(std::array<u8, 16>{0x20, 1, 0xd, 0xb8}, 128);
  balancer.encapsulation = gpu::EncapsulationSettings{};
  balancer.encapsulation->source4 = prefix4(0x0a00ff37, 28);
  balancer.encapsulation->source6 = prefix6(std::array<u8, 16>{0xfd}, 64);
  balancer.encapsulation->hash_key = {7, 8};
  const auto compiled = Pipelines::compile({{"web", {balancer}}});
  ASSERT_TRUE(compiled) << compiled.error();
  EXPECT_TRUE(gpu::encapsulates(**compiled));
  ASSERT_EQ((*compiled)->rewrites().size(), 2u) << "without a cache, too: user space reads them";
  EXPECT_EQ((*compiled)->backend_of(XG_REWRITE_FIRST + 1), "beta");
  const xg_rewrite& four = (*compiled)->rewrites()[0];
  EXPECT_EQ(four.flags, XG_REWRITE_DST_MAC | XG_REWRITE_SRC_FROM_DST | XG_REWRITE_ENCAPSULATE);
  EXPECT_EQ(four.outer_family, 4);
  EXPECT_EQ(four.mtu, 1480u);
  EXPECT_EQ(four.udp_port, 0);
  EXPECT_EQ(four.spread, 0x0f00) << "as in the packet: the four bits of the last byte";
  EXPECT_EQ(four.outer_src[0], 0x30ff000au) << "without these bits";
  EXPECT_EQ(four.outer_dst[0], 0x0501a8c0u);
  EXPECT_EQ(four.hash_key[1], 8u);
  const xg_rewrite& six = (*compiled)->rewrites()[1];
  EXPECT_EQ(six.outer_family, 6);
  EXPECT_EQ(six.mtu, 1460u);
  EXPECT_EQ(six.spread, 0xffff) << "no more than the hash has";
  EXPECT_EQ(six.outer_dst[0], 0xb80d0120u);

  balancer.encapsulation->type = gpu::EncapsulationSettings::Type::gue;
  balancer.cache = true;
  const auto gue = Pipelines::compile({{"web", {balancer}}});
  ASSERT_TRUE(gue) << gue.error();
  EXPECT_EQ((*gue)->rewrites()[0].mtu, 1472u);
  EXPECT_EQ((*gue)->rewrites()[0].udp_port, 0xc017) << "6080, as in the packet";
  EXPECT_EQ((*gue)->rewrites()[1].mtu, 1452u);
}

TEST(Compile, RefusesMoreEncapsulatedBackendsThanThereAreRewrites) {
  LoadBalanceSettings balancer;
  balancer.backends.resize(256);
  for (auto& backend : balancer.backends) backend.address = prefix4(1, 32);
  balancer.encapsulation = gpu::EncapsulationSettings{};
  balancer.encapsulation->source4 = prefix4(2, 32);
  std::vector<gpu::PipelineSettings> pipelines(7, {"web", {balancer}});
  EXPECT_TRUE(Pipelines::compile(pipelines));
  pipelines.push_back({"last", {balancer}});
  const auto compiled = Pipelines::compile(pipelines);
  ASSERT_FALSE(compiled);
  EXPECT_THAT(compiled.error(), AllOf(HasSubstr("\"last\""), HasSubstr("can encapsulate to 2046 backends")));
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
