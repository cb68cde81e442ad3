// SPDX-License-Identifier: MIT
//
// `domains` by hand: which list has a name, on every device; and what such a stage means for the stages
// behind it.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"
#include "tests/stages/dns_queries.hpp"

namespace xdpgpu::tests {
namespace {

using gpu::Action;
using gpu::DomainsSettings;

class DomainNames : public testing::TestWithParam<Target> {
 protected:
  // About each frame: the rule that decides, or all of it.
  static std::vector<u32> rules(gpu::Device& device, const FrameRegion& region,
                                const DomainsSettings& settings, const std::vector<std::vector<u8>>& frames) {
    std::vector<u32> rules;
    for (const Answer& answer : answers(device, region, settings, frames))
      rules.push_back(XG_VERDICT_RULE(answer.verdict));
    return rules;
  }
  static Answers answers(gpu::Device& device, const FrameRegion& region, const DomainsSettings& settings,
                         const std::vector<std::vector<u8>>& frames) {
    const auto pipelines = gpu::Pipelines::compile({{"dns", {settings}}}).value();
    EXPECT_TRUE(device.load(kGeneration, pipelines));
    std::vector<xg_descriptor> stream;
    for (u32 i = 0; i < frames.size(); i++)
      stream.push_back(place(region, i * u64{XG_CHUNK_SIZE} + XG_FRAME_DATA, frames[i], 0, i));
    const auto queue = device.open_queue({64, 2, gpu::Drive::launched}).value();
    return judge(*queue, stream, 64, kGeneration);
  }
};
INSTANTIATE_TEST_SUITE_P(Backends, DomainNames, testing::ValuesIn(all_targets()), target_name);

TEST_P(DomainNames, TheEntryWithTheMostLabelsDecides) {
  const FrameRegion region(64 * XG_CHUNK_SIZE);
  XDPGPU_OPEN_OR_SKIP(GetParam(), region.base(), region.size());
  DomainsSettings settings;
  settings.lists = {list_of("a", ".example.com\n*.net\norg\n"),
                    list_of("b", "www.example.com\n*.ads.example.com\nexample.com\n", Action::pass),
                    list_of("c", "*.www.example.com\nads.example.com\nnet\n")};
  settings.otherwise = Action::pass;
  const std::vector<std::pair<std::string, u32>> names{{"example.com", 1},
                                                       {"EXAMPLE.com", 1},
                                                       {"x.example.com", 1},
                                                       {"www.example.com", 2},
                                                       {"a.www.example.com", 3},
                                                       {"ads.example.com", 3},
                                                       {"z.y.ads.example.com", 2},
                                                       {"badexample.com", 0},
                                                       {"com", 0},
                                                       {"net", 3},
                                                       {"a.net", 1},
                                                       {"org", 1},
                                                       {"a.org", 0},
                                                       {"", 0}};
  std::vector<std::vector<u8>> frames;
  std::vector<u32> expected;
  for (const auto& [name, rule] : names) {
    frames.push_back(query(name));
    expected.push_back(rule);
  }
  // A name that a part of another one only looks like: a label that has the dot in it.
  frames.push_back(query("xxexample.com"));
  frames.back()[42 + 12] = 9;
  frames.back()[42 + 12 + 2] = '.';
  expected.push_back(0);
  EXPECT_EQ(rules(*device, region, settings, frames), expected);
}

// All that a resolver does not take for a question, and other protocols.
TEST_P(DomainNames, WhatCannotBeReadIsMalformed) {
  const FrameRegion region(64 * XG_CHUNK_SIZE);
  XDPGPU_OPEN_OR_SKIP(GetParam(), region.base(), region.size());
  DomainsSettings settings;
  settings.lists = {list_of("a", ".example.com\n")};
  settings.otherwise = Action::pass;
  constexpr u32 kDns = 42, kMalformed = 2, kTcp = 3;
  std::vector<std::vector<u8>> frames;
  std::vector<u32> expected;
  const auto changed = [&](u32 rule, auto&& change) {
    frames.push_back(query("www.example.com"));
    change(frames.back());
    expected.push_back(rule);
  };
  changed(1, [](auto&) {});
  changed(0, [](auto& frame) { frame[kDns + 5] = 0; });
  changed(kMalformed, [](auto& frame) { frame[kDns + 5] = 2; });
  changed(kMalformed, [](auto& frame) { frame[kDns + 4] = 1; });
  changed(kMalformed, [](auto& frame) { frame[kDns + 12] = 0xc0; });
  changed(kMalformed, [](auto& frame) { frame[kDns + 12] = 64; });
  changed(kMalformed, [](auto& frame) { frame.pop_back(); });
  changed(kMalformed, [](auto& frame) { frame.resize(kDns + 20); });
  changed(kMalformed, [](auto& frame) { frame.resize(kDns + 11); });
  changed(kMalformed, [](auto& frame) { frame.resize(kDns); });
  changed(1, [](auto& frame) { frame.resize(frame.size() + 40); });
  changed(0, [](auto& frame) { frame[37] = 54; });  // another port: it goes on
  changed(1, [](auto& frame) { std::swap(frame[35], frame[37]), std::swap(frame[34], frame[36]); });
  changed(kTcp, [](auto& frame) { frame[23] = 6, frame[46] = 0x50; });
  EXPECT_EQ(rules(*device, region, settings, frames), expected);
}

// Who asks is told; what comes back from a server, and what asks for something else, is dropped.
TEST_P(DomainNames, QueriesAreRefused) {
  const FrameRegion region(64 * XG_CHUNK_SIZE);
  XDPGPU_OPEN_OR_SKIP(GetParam(), region.base(), region.size());
  DomainsSettings settings;
  settings.lists = {list_of("a", "a.example\n", Action::refuse), list_of("b", "b.example\n")};
  std::vector<std::vector<u8>> frames(4, query("a.example"));
  frames[1][42 + 2] = 0x81;
  frames[2][42 + 2] = 0x28;
  frames[3][42 + 2] = 0x07;
  frames.push_back(query("b.example"));
  const Answers all = answers(*device, region, settings, frames);
  const std::vector<u32> flags{XG_RES_REFUSED, 0, 0, XG_RES_REFUSED, 0};
  for (std::size_t i = 0; i < all.size(); i++) {
    EXPECT_EQ(all[i].flags, flags[i]) << i;
    EXPECT_EQ(all[i].verdict, XG_VERDICT(XG_DROP, 0u, 1u, i < 4 ? 1u : 2u)) << i;
  }
}

// The next query of the flow asks for another name.
TEST(DomainsInPipelines, NothingBehindThemIsCached) {
  DomainsSettings settings;
  settings.lists = {list_of("a", "example.com\n")};
  const auto compiled = gpu::Pipelines::compile({{"dns", {settings, only(Action::pass, true)}}});
  ASSERT_FALSE(compiled);
  EXPECT_THAT(compiled.error(),
              testing::HasSubstr("pipeline \"dns\", stage 2 (acl): stage 1 (domains) in front"));
  EXPECT_TRUE(gpu::Pipelines::compile({{"dns", {only(Action::next, true), settings}}}));
  EXPECT_TRUE(gpu::Pipelines::compile({{"dns", {settings, only(Action::pass, false)}}}));
}

TEST(DomainsInPipelines, NamesThatAreNoneAreRefused) {
  for (const char* lines : {"Example.com\n", "a..b\n", ".\n", "*.\n", "\n", "a b\n", "a", "a\nb"}) {
    DomainsSettings settings;
    settings.lists = {list_of("a", lines)};
    EXPECT_FALSE(gpu::Pipelines::compile({{"dns", {settings}}})) << lines;
  }
}

}  // namespace
}  // namespace xdpgpu::tests
