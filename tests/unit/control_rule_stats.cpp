// SPDX-License-Identifier: MIT
//
// Which rules held for packets: counted by generation, whatever policy comes and goes, and listed.
#include "userspace/control/rule_stats.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <linux/bpf.h>

#include <cstring>

#include "maps/packet.h"
#include "userspace/compiler/programs/exchange.hpp"

namespace xdpgpu::control {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

using PolicyPtr = std::shared_ptr<const compiler::CompiledPolicy>;

// Rules by sid, each found by a text; of an empty one by its header alone.
PolicyPtr policy_of(const std::vector<std::pair<u32, std::string>>& rules) {
  std::string text;
  for (const auto& [sid, content] : rules)
    text += fmt::format("alert udp any any -> any any (msg:\"of {0}\"; {1} sid:{0};)\n", sid,
                        content.empty() ? "dsize:>0;" : fmt::format("content:\"{}\";", content));
  auto made = compiler::compile_policy({"p.json",
                                        R"({"version": 1, "rules": [{"action": {"inspect": "ids"}}],
           "pipelines": {"ids": [{"stage": "signatures", "rules": ["a.rules"]}]}})",
                                        {{"a.rules", text}}},
                                       {"eth0"});
  if (!made) throw std::runtime_error(made.error().sentence);
  return std::make_shared<const compiler::CompiledPolicy>(std::move(*made));
}

class RuleStatistics : public testing::Test {
 protected:
  RuleStatistics() {
    slot_.descriptors = &descriptor_;
    slot_.results = &result_;
    slot_.alerts = &alerts_;
    batch_.slot = &slot_;
    batch_.count = 1;
    batch_.ports = {0};
  }
  void come(u32 generation) {
    xg_metadata metadata{};
    metadata.generation = generation;
    std::memcpy(region_.data() + XG_FRAME_DATA - XG_METADATA_SIZE, &metadata, sizeof(metadata));
    descriptor_ = {XG_FRAME_DATA, 60, 0};
  }
  // A packet of that generation, for which a rule holds, by its position.
  void hold(dataplane::EventLog& worker, u32 generation, u16 rule) {
    come(generation);
    result_ = {XG_VERDICT(u32{XG_PASS}, 0u, 0u, 0u), XG_RES_ALERTS, 0, 0};
    alerts_ = {1, {rule}, 0, {}};
    ASSERT_TRUE(worker.finisher().wanted());
    worker.finisher().finish(batch_, region_.data());
  }
  std::vector<std::pair<u32, u64>> top(const PolicyPtr& policy, const RuleQuery& query = {}) const {
    std::vector<std::pair<u32, u64>> made;
    for (const auto& one : stats_.top(*policy, query).top) made.emplace_back(one.sid, one.matched);
    return made;
  }

  std::vector<u8> region_ = std::vector<u8>(XG_CHUNK_SIZE);
  xg_descriptor descriptor_{};
  xg_result result_{};
  xg_alerts alerts_{};
  gpu::Slot slot_{};
  dataplane::Batch batch_;
  dataplane::EventSelection selection_;
  dataplane::EventLog first_{selection_, 0}, second_{selection_, 1};
  RuleStats stats_{selection_, {&first_, &second_}};
};

TEST(AlertRulesOf, WhatIsInsideOfAnotherPacketIsNotAnswered) {
  auto pipeline = policy_of({{1, "a"}})->pipelines->settings().front();
  EXPECT_TRUE(alert_rules_of(pipeline).answers);
  pipeline.inner = true;
  EXPECT_FALSE(alert_rules_of(pipeline).answers);
}

TEST_F(RuleStatistics, AreOfAllWorkersAndGenerations) {
  EXPECT_FALSE(first_.finisher().wanted()) << "there are no rules";
  const auto one = policy_of({{1, "a"}, {2, "b"}, {3, "c"}}), two = policy_of({{2, "b"}, {3, "c"}, {4, "d"}});
  stats_.coming(one, 1);
  EXPECT_THAT(top(one), IsEmpty());
  hold(first_, 1, 1);
  hold(second_, 1, 1);
  hold(second_, 1, 2);
  EXPECT_THAT(top(one), ElementsAre(std::pair(2u, 2u), std::pair(3u, 1u)));
  stats_.coming(two, 2);
  hold(first_, 2, 0);
  hold(first_, 1, 1);
  EXPECT_THAT(top(two), ElementsAre(std::pair(2u, 4u), std::pair(3u, 1u))) << "of both, by what rule it is";
  stats_.forget_before(1);
  hold(first_, 1, 1);
  EXPECT_THAT(top(two), ElementsAre(std::pair(2u, 5u), std::pair(3u, 1u))) << "a device has it still";
  stats_.forget_before(2);
  hold(first_, 1, 1);
  EXPECT_THAT(top(two), ElementsAre(std::pair(2u, 5u), std::pair(3u, 1u)))
      << "there is no such packet any more";
  EXPECT_EQ(XG_VERDICT_ACTION(result_.verdict), XG_ABORTED) << "and if there is one, it is not let go on";
  // Put in force anew, and one that did not come to be.
  for (u32 i = 0; i < 20; i++) stats_.coming(one, 3);
  hold(first_, 2, 0);
  EXPECT_THAT(top(two), ElementsAre(std::pair(2u, 6u), std::pair(3u, 1u))) << "the one in force is known";
  stats_.coming(two, 3);
  stats_.coming(two, 4);
  stats_.forget_before(4);
  hold(second_, 4, 2);
  hold(second_, 4, 0);
  EXPECT_THAT(top(two), ElementsAre(std::pair(2u, 7u), std::pair(3u, 1u), std::pair(4u, 1u)));
  // What no policy has any more is forgotten.
  stats_.coming(one, 5);
  stats_.forget_before(5);
  stats_.coming(two, 6);
  stats_.forget_before(6);
  EXPECT_THAT(top(two), ElementsAre(std::pair(2u, 7u), std::pair(3u, 1u)));
}

TEST_F(RuleStatistics, AreListedByWhatIsAsked) {
  const auto policy = policy_of({{1, "abcdefgh"}, {2, ""}, {3, "a"}, {4, "abcd"}});
  stats_.coming(policy, 1);
  hold(first_, 1, 0);
  const auto costs = stats_.top(*policy, {RuleQuery::By::cost, 3});
  EXPECT_EQ(costs.rules, 4u);
  EXPECT_EQ(costs.holding, 1u);
  EXPECT_EQ(costs.left_out, 1u);
  ASSERT_EQ(costs.top.size(), 3u);
  EXPECT_EQ(costs.top[0].sid, 2u) << "each packet is inspected for it";
  EXPECT_GT(costs.top[1].cost, costs.top[2].cost);
  EXPECT_EQ(costs.top[0].signature, "of 2");
  EXPECT_EQ(costs.top[0].pipeline, "ids");
  EXPECT_THAT(top(policy, {RuleQuery::By::matches, 3}), ElementsAre(std::pair(1u, 1u)));
  EXPECT_THAT(top(policy, {RuleQuery::By::matches, 0}), IsEmpty());
}

TEST_F(RuleStatistics, AreOfPoliciesThatHaveRules) {
  auto made = compiler::compile_policy({"p.json", R"({"version": 1, "default": "pass"})", {}}, {"eth0"});
  ASSERT_TRUE(made);
  const auto none = std::make_shared<const compiler::CompiledPolicy>(std::move(*made));
  const auto some = policy_of({{1, "a"}});
  stats_.coming(some, 1);
  EXPECT_TRUE(first_.finisher().wanted());
  stats_.coming(none, 2);
  EXPECT_TRUE(first_.finisher().wanted()) << "packets of the one before may be under way";
  stats_.forget_before(2);
  EXPECT_FALSE(first_.finisher().wanted());
  EXPECT_EQ(stats_.top(*none, {}).rules, 0u);
}

// A program that has no map: what it decided is counted by workers alone.
PolicyPtr policy_of_programs(const std::string& pipelines) {
  programs::ObjectProgram object;
  object.section = "xdp";
  object.program = {.name = "drops",
                    .instructions = {{.opcode = BPF_ALU64 | BPF_MOV | BPF_K, .immediate = XDP_DROP},
                                     {.opcode = BPF_JMP | BPF_EXIT}},
                    .maps = {},
                    .license = "GPL"};
  auto made = compiler::compile_policy(
      {"p.json",
       fmt::format(R"({{"version": 1, "rules": [{{"action": {{"inspect": "own"}}}}], "pipelines": {{{}}}}})",
                   pipelines),
       {{policy::program_key("p.o", {}), programs::to_bytes(object).value()}}},
      {"eth0"});
  if (!made) throw std::runtime_error(made.error().sentence);
  return std::make_shared<const compiler::CompiledPolicy>(std::move(*made));
}
constexpr const char* kAcl = R"({"stage": "acl", "rules": []})";
constexpr const char* kProgram = R"({"stage": "program", "object": "p.o"})";

TEST_F(RuleStatistics, WhatProgramsDecideIsCountedByItsReason) {
  const auto policy = policy_of_programs(fmt::format(R"("own": [{}, {}])", kAcl, kProgram));
  stats_.coming(policy, 1);
  ASSERT_TRUE(first_.finisher().wanted());
  const auto decide = [&](dataplane::EventLog& worker, u32 generation, u32 verdict) {
    come(generation);
    result_ = {verdict, 0, 0, 0};
    alerts_ = {};
    worker.finisher().finish(batch_, region_.data());
    EXPECT_EQ(result_.verdict, verdict) << "it is counted, and no more";
  };
  const auto counts = [&](const PolicyPtr& of) {
    std::map<std::string, u64> nonzero;
    const auto programs = stats_.programs(*of);
    for (const auto& one : programs)
      for (const auto& [name, count] : one.packets)
        if (count != 0) nonzero[fmt::format("{} {} {}", one.pipeline, one.stage, name)] += count;
    return nonzero;
  };
  using Counts = std::map<std::string, u64>;
  EXPECT_EQ(counts(policy), Counts());
  ASSERT_EQ(stats_.programs(*policy).size(), 1u);
  EXPECT_EQ(stats_.programs(*policy)[0].stage, 2u);
  EXPECT_TRUE(stats_.programs(*policy)[0].packets.contains("aborted"));

  decide(first_, 1, XG_VERDICT(XG_DROP, 0u, 2u, 1u));
  decide(second_, 1, XG_VERDICT(XG_DROP, 0u, 2u, 1u));
  decide(first_, 1, XG_VERDICT(XG_TX, 0u, 2u, 0u));
  decide(first_, 1, XG_VERDICT(XG_DROP, 0u, 2u, 2u + static_cast<u32>(gpu::ProgramEnd::aborted)));
  decide(first_, 1, XG_VERDICT(XG_DROP, 0u, 2u, 2u + static_cast<u32>(gpu::ProgramEnd::out_of_bounds)));
  decide(first_, 1, XG_VERDICT(XG_DROP, 0u, 2u, 2u + static_cast<u32>(gpu::ProgramEnd::too_long)));
  decide(first_, 1, XG_VERDICT(XG_DROP, 0u, 1u, 1u));        // the acl's
  decide(first_, 1, XG_VERDICT(u32{XG_PASS}, 0u, 0u, 0u));   // nobody's
  decide(first_, 1, XG_VERDICT(XG_DROP, 0u, 2u, 0x3ffffu));  // a rule that no program has
  decide(first_, 9, XG_VERDICT(XG_DROP, 0u, 2u, 1u));        // of no policy that is known
  const Counts all{{"own 2 dropped", 2},
                   {"own 2 sent", 1},
                   {"own 2 aborted", 1},
                   {"own 2 out_of_bounds", 1},
                   {"own 2 too_long", 1}};
  EXPECT_EQ(counts(policy), all);

  stats_.coming(policy, 2);
  stats_.forget_before(2);
  EXPECT_EQ(counts(policy), all) << "it goes on where the same stage is a program again";
  const auto other = policy_of_programs(fmt::format(R"("own": [{}, {}])", kProgram, kAcl));
  stats_.coming(other, 3);
  stats_.forget_before(3);
  EXPECT_EQ(counts(other), Counts());
  stats_.coming(policy_of({{1, "a"}}), 4);
  stats_.forget_before(4);
  stats_.coming(policy, 5);
  EXPECT_EQ(counts(policy), Counts());
}

}  // namespace
}  // namespace xdpgpu::control
