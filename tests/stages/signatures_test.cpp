// SPDX-License-Identifier: MIT
//
// `signatures` by hand, on every device: what becomes of a packet, what is told of it, and where its work
// ends.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

namespace sig = gpu::signatures;
using gpu::PipelineSettings;
using gpu::SignaturesSettings;
using Bytes = std::vector<u8>;

sig::Addresses any_address() {
  sig::Address v4{}, v6{};
  std::fill_n(v4.begin(), 4, u8{0xff});
  v6.fill(0xff);
  return {{{sig::Address{}, v4}}, {{sig::Address{}, v6}}};
}
void put(Bytes& to, std::initializer_list<u32> bytes) {
  for (const u32 byte : bytes) to.push_back(static_cast<u8>(byte));
}
void put16(Bytes& to, u32 value) { put(to, {value >> 8, value}); }

gpu::RateLimitSettings limit() {
  gpu::RateLimitSettings settings;
  settings.packets_per_second = 1000;
  settings.burst_packets = 5;
  settings.table.entries = 64;
  return settings;
}

SignaturesSettings with(std::vector<sig::Signature> rules) {
  SignaturesSettings settings;
  settings.rules.signatures = std::make_shared<const std::vector<sig::Signature>>(std::move(rules));
  return settings;
}

class Signatures : public testing::TestWithParam<Target> {
 protected:
  // answers: those of batches of the last size.
  void check(const Traffic& traffic, const std::vector<PipelineSettings>& settings,
             std::initializer_list<u32> batches, Answers& answers) {
    const auto pipelines = gpu::Pipelines::compile(settings);
    ASSERT_TRUE(pipelines) << pipelines.error();
    XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
    auto queue = device->open_queue(GetParam().queue(1024 + 64, 3));
    ASSERT_TRUE(queue) << queue.error();
    const Answers should = expected(traffic, settings);
    for (const u32 batch : batches) {
      SCOPED_TRACE(fmt::format("{}, batches of {}, XDPGPU_TEST_SEED={}", device->info().description, batch,
                               test_seed()));
      ASSERT_TRUE(device->load(kGeneration, *pipelines));
      answers = judge(**queue, traffic.descriptors, batch, kGeneration);
      expect_equal(answers, should, traffic.descriptors);
      // Its tables go with it.
      device->unload(kGeneration);
      if (HasFailure()) return;
    }
  }
  void check(const Traffic& traffic, const std::vector<PipelineSettings>& settings,
             std::initializer_list<u32> batches) {
    Answers answers;
    check(traffic, settings, batches, answers);
  }
};

Bytes datagram(const std::string& payload) {
  Bytes frame(12, 2);
  put(frame, {8, 0, 0x45, 0});
  put16(frame, 28 + static_cast<u32>(payload.size()));
  put(frame, {0, 1, 0, 0, 64, 17, 0, 0, 192, 0, 2, 1, 192, 0, 2, 2, 0, 9, 0, 80});
  put16(frame, 8 + static_cast<u32>(payload.size()));
  put16(frame, 0);
  frame.insert(frame.end(), payload.begin(), payload.end());
  return frame;
}

sig::Signature rule_for(const std::string& content, sig::Action action = sig::Action::alert) {
  sig::Signature rule;
  rule.action = action;
  rule.header.protocols.set();
  rule.header.src = rule.header.dst = any_address();
  sig::Content wanted;
  wanted.bytes = content;
  rule.payload.push_back(wanted);
  rule.fast_pattern = sig::FastPattern{0, 0, static_cast<u32>(content.size())};
  return rule;
}

// Random rules, as the conformance suite has them, behind one table and behind two.
TEST_P(Signatures, StandBehindTables) {
  Random random(test_seed());
  const auto& all = conformance_cases();
  const auto with_none = std::find_if(all.begin(), all.end(),
                                      [](const ConformanceCase& one) { return one.name == "signatures"; });
  ASSERT_NE(with_none, all.end());
  for (const std::size_t tables : {1u, 2u}) {
    std::vector<PipelineSettings> settings = with_none->pipelines(random);
    std::erase_if(settings, [](const PipelineSettings& one) { return one.inner; });
    for (PipelineSettings& pipeline : settings)
      pipeline.stages.insert(pipeline.stages.begin(), tables, gpu::StageSettings(limit()));
    check(with_none->traffic(random, 1200, static_cast<u32>(settings.size())), settings, {37, 1024});
  }
}

TEST_P(Signatures, SayWhatBecomesOfAPacket) {
  std::vector<sig::Signature> rules{rule_for("fine", sig::Action::pass), rule_for("bad", sig::Action::drop),
                                    rule_for("worse", sig::Action::reject)};
  for (const char* const content : {"a", "ab", "abc", "abcd", "abcde", "bcde", "cde", "e"})
    rules.push_back(rule_for(content));
  struct Case {
    std::string payload;
    u32 action, rule;
    std::vector<u16> told;
    bool more = false;
  };
  for (const auto& [payload, action, rule, told, more] :
       {Case{"nothing", XG_PASS, 0, {}}, Case{"fine and bad", XG_PASS, 0, {}},
        Case{"so bad", XG_DROP, 2, {1, 3}}, Case{"worst, worse, bad", XG_DROP, 2, {1, 2, 3, 10}},
        Case{"worse", XG_DROP, 3, {2, 10}}, Case{"ABCDE", XG_PASS, 0, {}},
        Case{"xxabcdxx", XG_PASS, 0, {3, 4, 5, 6}}, Case{"abcde", XG_PASS, 0, {3, 4, 5, 6, 7, 8, 9}, true}}) {
    SCOPED_TRACE(payload);
    Answers answers;
    check(single_frame(datagram(payload), 0), {{"rules", {with(rules)}}}, {1}, answers);
    if (IsSkipped() || HasFailure()) return;
    const Answer& answer = answers.at(0);
    EXPECT_EQ(XG_VERDICT_ACTION(answer.verdict), action);
    EXPECT_EQ(XG_VERDICT_RULE(answer.verdict), rule);
    EXPECT_EQ(XG_VERDICT_STAGE(answer.verdict), action == XG_DROP ? 1u : 0u);
    EXPECT_EQ((answer.flags & XG_RES_ALERTS) != 0, !told.empty());
    EXPECT_EQ(answer.alerts.count, told.size() | (more ? XG_ALERTS_MORE : 0));
    for (std::size_t i = 0; i < told.size(); i++) EXPECT_EQ(answer.alerts.rules[i], told[i]);
  }
}

// Of 1,400 bytes each place is one at which the first content stands, and the second nearly does.
sig::Signature dear_rule() {
  sig::Signature rule = rule_for("a");
  std::get<sig::Content>(rule.payload[0]).tried_again = true;
  sig::Content second;
  second.bytes = "aaaaab";
  second.distance = sig::Amount{0, {}};
  rule.payload.push_back(second);
  return rule;
}

TEST_P(Signatures, EndWhereAPacketTakesMoreWorkThanItMay) {
  const std::string payload(1400, 'a');
  for (const u32 work : {256u, 1000u, gpu::kMostWork})
    for (const auto limit : {gpu::Action::drop, gpu::Action::pass}) {
      SCOPED_TRACE(work);
      SignaturesSettings settings = with({dear_rule(), rule_for("aa")});
      settings.work = work;
      settings.limit = limit;
      Answers answers;
      check(single_frame(datagram(payload), 0), {{"rules", {settings}}}, {1}, answers);
      if (IsSkipped() || HasFailure()) return;
      EXPECT_EQ(XG_VERDICT_ACTION(answers.at(0).verdict), limit == gpu::Action::drop ? XG_DROP : XG_PASS);
      EXPECT_EQ(XG_VERDICT_RULE(answers.at(0).verdict), 3u);
      EXPECT_EQ(answers.at(0).flags & XG_RES_ALERTS, 0u);
    }
}

TEST_P(Signatures, TakeSoManyPatternsInAPacketAndNoMore) {
  std::vector<sig::Signature> rules;
  std::string payload;
  for (u32 i = 0; i <= sig::kMostPatterns; i++) {
    rules.push_back(rule_for(fmt::format("p{:02}.", i)));
    payload += fmt::format("p{:02}.", i);
  }
  for (const bool all : {false, true}) {
    SCOPED_TRACE(all);
    Answers answers;
    check(single_frame(datagram(all ? payload : payload.substr(4) + payload.substr(4)), 0),
          {{"rules", {with(rules)}}}, {1}, answers);
    if (IsSkipped() || HasFailure()) return;
    EXPECT_EQ(XG_VERDICT_ACTION(answers.at(0).verdict), all ? XG_DROP : XG_PASS);
    EXPECT_EQ(answers.at(0).alerts.count, all ? 0u : XG_MAX_ALERTS | XG_ALERTS_MORE);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Signatures, testing::ValuesIn(all_targets()), target_name);

TEST(SignaturesPlace, IsBehindAllTablesAndNoOtherIsLikeIt) {
  const auto error_of = [](std::vector<gpu::StageSettings> stages) {
    const auto made = gpu::Pipelines::compile({{"p", std::move(stages)}});
    return made ? std::string() : made.error();
  };
  EXPECT_EQ(error_of({limit(), SignaturesSettings{}}), "");
  EXPECT_EQ(error_of({SignaturesSettings{}, gpu::L2fwdSettings{}, limit()}),
            "pipeline \"p\", stage 1 (signatures): stage 3 (rate_limit) behind it has a table, and would "
            "lose what it "
            "tells: put it behind that one");
  EXPECT_EQ(
      error_of({SignaturesSettings{}, SignaturesSettings{}}),
      "pipeline \"p\", stage 2 (signatures): stage 1 tells of rules, too, and one of a pipeline can: put all "
      "rules into one");
  EXPECT_EQ(error_of({with({rule_for("a"), rule_for("b", sig::Action::drop)})}),
            "pipeline \"p\", stage 1 (signatures): its rules are not in order: those that pass come first, "
            "then those "
            "that drop");
  EXPECT_EQ(error_of({with({rule_for(std::string(9000, 'a'))})}),
            "pipeline \"p\", stage 1 (signatures): its rule 1:0 has a step with a length, a mask or a "
            "variable that no "
            "device takes");
}

}  // namespace
}  // namespace xdpgpu::tests
