// SPDX-License-Identifier: MIT
//
// Mirrored packets: what stands in the ring, and that the packet goes on whatever becomes of its copy; what
// a mirror's verdict does, and to whom.
#include <sched.h>

#include "maps/hash.h"
#include "maps/parse.h"
#include "tests/kernel/kernel_test.hpp"

namespace xdpgpu::test {
namespace {

const Frame kFlow = ethernet({10}) + ipv4({.protocol = 6}, tcp(40000, 80) + bytes(200));
const Frame kUdp = ethernet() + ipv4({}, udp(1000, 53, 20));
const Frame kUdp6 = ethernet() + ipv6({}, udp(1000, 53, 20));

const std::string kPipelines = R"("pipelines": {
    "other": [{"stage": "acl", "rules": []}],
    "scrub": [{"stage": "acl", "rules": [], "default": "drop", "cache": true}]})";
constexpr u8 kOther = 1, kScrub = 2;  // as keys name them

std::string mirror_then(const std::string& rules, const std::string& more = R"("default": "drop")") {
  return policy_text(kPipelines + ", " + more + R"(, "rules": [{"action": {"mirror": "scrub"}})" + rules +
                     "]");
}

class MirrorTest : public KernelTest {
 protected:
  // Runs happen on one CPU, whose ring is then the one to look at.
  void SetUp() override {
    KernelTest::SetUp();
    if (IsSkipped()) return;
    sched_getaffinity(0, sizeof(before_), &before_);
    cpu_ = static_cast<u32>(sched_getcpu());
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu_, &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
  }
  void TearDown() override {
    if (!IsSkipped()) sched_setaffinity(0, sizeof(before_), &before_);
  }

  cpu_set_t before_{};
  u32 cpu_ = 0;
};

TEST_F(MirrorTest, TheRecordHoldsTheFirstBytesTheMetadataAndTheKey) {
  Program program({.mirror_bytes = 100});
  program.install(mirror_then(""));
  const u64 before = monotonic_ns();
  const Outcome outcome = program.run(kFlow);
  EXPECT_EQ(outcome.reason, "drop_default") << "it went on";
  EXPECT_EQ(outcome.frame, kFlow);
  EXPECT_FALSE(outcome.metadata);
  ASSERT_EQ(program.mirror_state(cpu_).head, 1u);
  EXPECT_EQ(program.mirror_state(cpu_).overruns, 0u);

  const xg_mirror_record& record = program.mirrored(cpu_, 0);
  EXPECT_EQ(record.ticket, 1u);
  EXPECT_EQ(record.captured, 100u);
  EXPECT_EQ(record.wire_length, kFlow.size());
  EXPECT_EQ(record.queue, 0u);
  EXPECT_EQ(record.port, 3u);
  EXPECT_EQ(Frame(record.packet, record.packet + 100), Frame(kFlow.begin(), kFlow.begin() + 100));
  for (u32 i = 100; i < XG_MIRROR_BYTES; ++i) EXPECT_EQ(record.packet[i], 0u) << "byte " << i;

  xg_packet packet;
  xg_parse(kFlow.data(), kFlow.data() + kFlow.size(), 3, &packet);
  xg_metadata expected{};
  xg_metadata_from(&expected, &packet, xg_flow_hash(&packet.key, &program.config().flow_keys));
  expected.generation = 1;
  expected.sequence = 1;
  expected.pipeline = 1;
  xg_metadata got = record.metadata;
  EXPECT_GE(got.rx_time_ns, before);
  EXPECT_LE(got.rx_time_ns, monotonic_ns());
  got.rx_time_ns = 0;
  EXPECT_EQ(std::memcmp(&got, &expected, sizeof(got)), 0);
  packet.key.mirror = kScrub;
  EXPECT_EQ(std::memcmp(&record.key, &packet.key, sizeof(packet.key)), 0);
}

TEST_F(MirrorTest, ShortPacketsAreShownWhole) {
  Program program;
  program.install(mirror_then(""));
  const Frame shortest = ethernet() + be16(0x88b5);
  u64 n = 0;
  for (const Frame& frame : {kUdp, kUdp6, shortest, Frame(ethernet() + be16(46) + bytes(46))}) {
    program.run(frame);
    const xg_mirror_record& record = program.mirrored(cpu_, n++);
    EXPECT_EQ(record.ticket, n);
    ASSERT_EQ(record.captured, frame.size());
    EXPECT_EQ(record.wire_length, frame.size());
    EXPECT_EQ(Frame(record.packet, record.packet + frame.size()), frame);
  }
}

TEST_F(MirrorTest, OfEveryLengthAsMuchAsIsAskedFor) {
  for (u32 limit : {64u, 65u, 127u, 128u, 255u, 256u}) {
    Program program({.mirror_bytes = limit});
    program.install(mirror_then(""));
    u32 shown = 0;
    for (std::size_t length : {63u, 64u, 65u, 128u, 255u, 256u, 257u, 1500u}) {
      program.run(Frame(ethernet() + be16(0x88b5)) + bytes(length - 14));
      ASSERT_EQ(program.mirror_state(cpu_).head, shown + 1) << length;
      EXPECT_EQ(program.mirrored(cpu_, shown).captured, std::min<std::size_t>(limit, length));
      EXPECT_EQ(program.mirrored(cpu_, shown).wire_length, length);
      ++shown;
    }
  }
}

TEST_F(MirrorTest, ThePacketMeetsTheNextRules) {
  struct {
    const char* rules;
    const char* reason;
  } const cases[] = {
      {R"(, {"match": {"proto": "udp"}, "action": "pass"})", "pass_rule"},
      {R"(, {"action": "drop"})", "drop_rule"},
      {R"(, {"match": {"proto": "udp"}, "action": {"inspect": "other"}})", "inspected"},
      {R"(, {"limit": {"per": "rule", "pps": 1, "burst": 1}}, {"action": "pass"})", "pass_rule"},
      {"", "drop_default"},
  };
  for (const auto& c : cases) {
    Program program;
    program.install(mirror_then(c.rules));
    program.connect(0, 1);
    EXPECT_EQ(program.run(kUdp).reason, c.reason);
    EXPECT_EQ(program.mirror_state(cpu_).head, 1u) << c.reason;
    EXPECT_EQ(program.rule_counter(0).packets, 1u) << c.reason;
  }
}

TEST_F(MirrorTest, OnlyWhatTheRuleMatchesAndNoOtherRuleDecidedBefore) {
  Program program;
  program.install(policy_text(kPipelines + R"(, "rules": [
      {"match": {"family": "ipv6"}, "action": "pass"},
      {"match": {"proto": "udp"}, "action": {"mirror": "scrub"}}])"));
  program.run(kUdp6);
  program.run(kFlow);
  EXPECT_EQ(program.mirror_state(cpu_).head, 0u);
  program.run(kUdp);
  EXPECT_EQ(program.mirror_state(cpu_).head, 1u);
}

TEST_F(MirrorTest, SeveralRulesEachShowIt) {
  Program program;
  program.install(policy_text(kPipelines + R"(, "rules": [
      {"action": {"mirror": "other"}}, {"match": {"proto": "tcp"}, "action": {"mirror": "scrub"}},
      {"match": {"proto": "udp"}, "action": {"mirror": "scrub"}}, {"action": "drop"}])"));
  EXPECT_EQ(program.run(kUdp).reason, "drop_rule");
  ASSERT_EQ(program.mirror_state(cpu_).head, 2u);
  EXPECT_EQ(program.mirrored(cpu_, 0).metadata.pipeline, 0u);
  EXPECT_EQ(program.mirrored(cpu_, 1).metadata.pipeline, 1u);
  EXPECT_EQ(program.mirrored(cpu_, 0).key.mirror, kOther);
  EXPECT_EQ(program.mirrored(cpu_, 1).key.mirror, kScrub);
}

TEST_F(MirrorTest, AsManyMirrorsAndLimitsAsAPolicyMayHave) {
  std::string rules;
  for (u32 i = 0; i < XG_MAX_MIRROR_RULES; ++i)
    rules += R"({"action": {"mirror": "scrub"}}, {"limit": {"per": "rule", "pps": 1, "burst": 3}}, )";
  Program program({.mirror_slots = 64});
  program.install(policy_text(kPipelines + ", \"rules\": [" + rules + R"({"action": "pass"}])"));
  EXPECT_EQ(program.run(kUdp).reason, "pass_rule");
  EXPECT_EQ(program.mirror_state(cpu_).head, XG_MAX_MIRROR_RULES);
}

TEST_F(MirrorTest, AFullRingCountsOverrunsAndHoldsNobodyUp) {
  Program program({.mirror_slots = 8});
  program.install(mirror_then(R"(, {"action": "pass"})"));
  for (int i = 0; i < 13; ++i) EXPECT_EQ(program.run(kUdp).reason, "pass_rule");
  xg_mirror_state& state = program.mirror_state(cpu_);
  EXPECT_EQ(state.head, 8u);
  EXPECT_EQ(state.overruns, 5u);
  EXPECT_EQ(program.rule_counter(0).packets, 8u) << "of the rule count those that were shown";
  EXPECT_EQ(program.mirrored(cpu_, 0).ticket, 1u) << "nothing is overwritten";
  state.consumed = 3;
  for (int i = 0; i < 5; ++i) program.run(kUdp);
  EXPECT_EQ(state.head, 11u);
  EXPECT_EQ(state.overruns, 7u);
  EXPECT_EQ(program.mirrored(cpu_, 8).ticket, 9u);
  EXPECT_EQ(program.mirrored(cpu_, 10).ticket, 11u);
  EXPECT_EQ(program.mirrored(cpu_, 3).ticket, 4u);
  state.consumed = 12;  // what has not been shown cannot have been consumed
  program.run(kUdp);
  EXPECT_EQ(state.head, 11u);
  EXPECT_EQ(state.overruns, 8u);
  state.consumed = 11;
  program.run(kUdp);
  EXPECT_EQ(state.head, 12u);
}

TEST_F(MirrorTest, DropDropsTheFlowWhereTheRuleStands) {
  Program program;
  program.install(policy_text(kPipelines + R"(, "rules": [
      {"match": {"src": "192.0.2.9"}, "action": "pass"}, {"action": {"mirror": "scrub"}}, {"action": "pass"}])"));
  const u32 index = program.publish(kFlow, XG_DROP, {}, 0, kScrub);
  EXPECT_EQ(program.run(kUdp).reason, "pass_rule") << "another flow";
  const Outcome outcome = program.run(kFlow);
  EXPECT_EQ(outcome.reason, "drop_flow");
  EXPECT_EQ(outcome.action, XDP_DROP);
  EXPECT_EQ(program.mirror_state(cpu_).head, 1u) << "only the other flow";
  EXPECT_EQ(program.stats(index).packets, 1u);
  EXPECT_EQ(program.stats(index).bytes, kFlow.size());
  EXPECT_NE(program.stats(index).last_seen_ns, 0u);
  EXPECT_EQ(program.rule_counter(1).packets, 2u) << "one shown, one dropped";
}

TEST_F(MirrorTest, PassStopsTheMirroringAndNothingElse) {
  Program program;
  program.install(mirror_then(R"(, {"match": {"proto": "tcp"}, "action": "drop"})"));
  program.publish(kFlow, XG_PASS, {}, 0, kScrub);
  EXPECT_EQ(program.run(kFlow).reason, "drop_rule");
  EXPECT_EQ(program.mirror_state(cpu_).head, 0u);
  EXPECT_EQ(program.rule_counter(0).packets, 0u);
}

TEST_F(MirrorTest, OtherVerdictsOnTheFlowAreNotTheMirrors) {
  Program program({.queues = 2});
  program.install(mirror_then(R"(, {"action": "pass"})"));
  program.publish(kFlow, XG_DROP, {}, 0, kOther);  // another pipeline's
  program.publish(kFlow, XG_DROP, {}, 1, kScrub);  // of another queue
  EXPECT_EQ(program.run(kFlow).reason, "pass_rule");
  EXPECT_EQ(program.mirror_state(cpu_).head, 1u);
  program.publish(kFlow, XG_DROP, {}, 0, kScrub);
  EXPECT_EQ(program.run(kFlow).reason, "drop_flow") << "its own stands behind them in the bucket";
}

TEST_F(MirrorTest, StaleVerdictsAreNone) {
  Program program;
  const std::string policy = mirror_then(R"(, {"action": "pass"})");
  program.install(policy);
  const u32 index = program.publish(kFlow, XG_DROP, {}, 0, kScrub);
  EXPECT_EQ(program.run(kFlow).reason, "drop_flow");
  program.verdict(index).expires_ms = static_cast<u32>(monotonic_ns() / 1'000'000) - 20;
  EXPECT_EQ(program.run(kFlow).reason, "pass_rule");
  program.verdict(index).expires_ms = 0;
  program.install(policy);
  EXPECT_EQ(program.run(kFlow).reason, "pass_rule") << "of the policy before";
  EXPECT_EQ(program.mirrored(cpu_, 1).metadata.generation, 2u);
}

// What is remembered gets nobody round a limit ahead, nor a rule on TCP flags.
TEST_F(MirrorTest, RulesAheadSeeThePacketsOfACondemnedFlow) {
  Program program;
  program.install(policy_text(kPipelines + R"(, "rules": [
      {"match": {"proto": "tcp", "tcp_flags": "syn"}, "action": "pass"},
      {"limit": {"per": "src", "pps": 1, "burst": 2}},
      {"match": {"proto": "tcp"}, "action": {"mirror": "scrub"}}, {"action": "pass"}])"));
  const auto with = [](u8 flags) { return ethernet() + ipv4({.protocol = 6}, tcp(40000, 80, flags)); };
  program.publish(with(0x10), XG_DROP, {}, 0, kScrub);
  EXPECT_EQ(program.run(with(0x02)).reason, "pass_rule");
  EXPECT_EQ(program.run(with(0x10)).reason, "drop_flow");
  EXPECT_EQ(program.run(with(0x10)).reason, "drop_flow");
  EXPECT_EQ(program.run(with(0x10)).reason, "drop_limit");
}

// A mirror of SYNs alone: its verdict is remembered, and counts for the flow's SYNs alone.
TEST_F(MirrorTest, AVerdictOnSynsCountsForSyns) {
  Program program;
  program.install(policy_text(kPipelines + R"(, "rules": [
      {"match": {"proto": "tcp", "tcp_flags": "syn,!ack"}, "action": {"mirror": "scrub"}}, {"action": "pass"}])"));
  const auto with = [](u8 flags) { return ethernet() + ipv4({.protocol = 6}, tcp(40000, 80, flags)); };
  EXPECT_EQ(program.run(with(0x02)).reason, "pass_rule");
  EXPECT_EQ(program.mirror_state(cpu_).head, 1u);
  program.publish(with(0x02), XG_DROP, {}, 0, kScrub);
  EXPECT_EQ(program.run(with(0x02)).reason, "drop_flow");
  EXPECT_EQ(program.run(with(0x10)).reason, "pass_rule");
}

TEST_F(MirrorTest, FragmentsAsThePolicySays) {
  const Frame fragment = ethernet() + ipv4({.fragment = 0x2000}, udp(1000, 53, 24, 2000));
  for (const bool inspect : {false, true}) {
    Program program;
    program.install(mirror_then("", inspect ? R"("default": "drop", "fragments": "inspect")"
                                            : R"("default": "drop", "fragments": "pass")"));
    program.publish(fragment, XG_DROP, {}, 0, kScrub);
    EXPECT_EQ(program.run(fragment).reason, inspect ? "drop_default" : "pass_fragment") << "it has no flow";
    EXPECT_EQ(program.mirror_state(cpu_).head, inspect ? 1u : 0u);
  }
}

TEST_F(MirrorTest, NothingIsShownWhileDraining) {
  Program program;
  program.install(mirror_then(R"(, {"action": "pass"})"));
  program.publish(kFlow, XG_DROP, {}, 0, kScrub);
  program.config().state = XG_STATE_DRAINING;
  EXPECT_EQ(program.run(kUdp).reason, "pass_rule");
  EXPECT_EQ(program.run(kFlow).reason, "drop_flow");
  EXPECT_EQ(program.mirror_state(cpu_).head, 0u);
  EXPECT_EQ(program.mirror_state(cpu_).overruns, 0u);
}

TEST_F(MirrorTest, WhatAMirrorMayNotSayIsNothing) {
  for (const u8 action : {u8{0}, u8{XG_TX}, u8{XG_REDIRECT}}) {
    Program program;
    program.install(mirror_then(R"(, {"action": "pass"})"));
    program.publish(kFlow, action, {}, 0, kScrub);
    EXPECT_EQ(program.run(kFlow).reason, "pass_rule");
    EXPECT_EQ(program.mirror_state(cpu_).head, 1u);
  }
}

// A queue without a worker has no shard: its packets are shown, and nothing is remembered.
TEST_F(MirrorTest, AQueueWithoutAShardIsShown) {
  Program program;
  program.install(mirror_then(R"(, {"action": "pass"})"));
  program.publish(kUdp, XG_DROP, {}, 0, kScrub);
  program.config().queues = 0;
  EXPECT_EQ(program.run(kUdp).reason, "pass_rule");
  EXPECT_EQ(program.mirror_state(cpu_).head, 1u);
}

}  // namespace
}  // namespace xdpgpu::test
