// SPDX-License-Identifier: MIT
//
// A rule that leads to a program of the policy's own in XDP itself: what that one answers is the answer, on
// the packet as it came, behind the rules and limits in front of it; and where none is, the packet is lost.
#include <bpf/bpf.h>

#include "tests/kernel/kernel_test.hpp"
#include "tests/kernel/programs/assembler.hpp"
#include "userspace/kernel/verifier.hpp"
#include "userspace/policy/kernel_programs.hpp"

namespace xdpgpu::test {
namespace {

kernel::Fd loaded(const Code& code, bool fragments = false) {
  auto loaded = kernel::load({.name = "of_a_policy", .instructions = code, .maps = {}, .license = "GPL"},
                             fragments, {});
  EXPECT_TRUE(loaded.program) << loaded.verdict.why;
  return std::move(loaded.program);
}
kernel::Fd answers(int action, bool fragments = false) {
  return loaded({move_k(r0, action), leave()}, fragments);
}

// Rules of `rules`, of which those that inspect go on with program 0.
void install(Program& program, const std::string& body) {
  const std::string text = policy_text(R"("pipelines": {"own": [{"stage": "l2fwd"}]}, )" + body);
  const auto parsed = policy::parse(text, "test.json", policy::read_files_of({}));
  ASSERT_TRUE(parsed) << parsed.error().at(0).sentence();
  auto tables = policy::compile(*parsed);
  ASSERT_TRUE(tables) << tables.error().at(0).sentence();
  policy::lead_to_programs(tables->header, tables->lines.data(), {0});
  program.install(*tables);
}
const std::string kAll = R"("rules": [{"action": {"inspect": "own"}}])";

Frame packet() { return ethernet() + ipv4({}, udp(1000, 2000, 20)); }

class UserProgram : public KernelTest {};

TEST_F(UserProgram, WhatItAnswersIsTheAnswer) {
  Program program;
  install(program, kAll);
  for (const int action : {XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX, XDP_REDIRECT}) {
    const auto own = answers(action);
    ASSERT_TRUE(program.put_program(0, own.get()));
    const Outcome outcome = program.run(packet());
    EXPECT_EQ(outcome.action, action);
    EXPECT_EQ(outcome.reason, "program");
    EXPECT_EQ(outcome.frame, packet());
    EXPECT_FALSE(outcome.metadata) << "it is the packet as it came";
  }
  EXPECT_EQ(program.rule_counter(0).packets, 5u);
  EXPECT_EQ(program.rule_counter(0).bytes, 5 * packet().size());
}

TEST_F(UserProgram, MayChangeThePacket) {
  Program program;
  install(program, kAll);
  // Four bytes less at the head.
  const auto own = loaded({move_k(r2, 4), call(BPF_FUNC_xdp_adjust_head), move_k(r0, XDP_TX), leave()});
  ASSERT_TRUE(program.put_program(0, own.get()));
  const Outcome outcome = program.run(packet());
  EXPECT_EQ(outcome.action, XDP_TX);
  const Frame whole = packet();
  EXPECT_EQ(outcome.frame, Frame(whole.begin() + 4, whole.end()));
}

TEST_F(UserProgram, WhereThereIsNoneThePacketIsLost) {
  Program program;
  install(program, kAll);
  for (int i = 0; i < 3; i++) {
    const Outcome outcome = program.run(packet());
    EXPECT_EQ(outcome.action, XDP_DROP);
    EXPECT_EQ(outcome.reason, "error_program");
  }
  EXPECT_EQ(program.counter(XG_KERNEL_program), 0u);
  const auto own = answers(XDP_PASS);
  ASSERT_TRUE(program.put_program(0, own.get()));
  EXPECT_EQ(program.run(packet()).reason, "program");
  // Nor is another one's of the policy, or what is beyond them all.
  for (const u16 number : {u16{1}, u16{XG_MAX_PROGRAMS}, u16{0xffff}}) {
    const auto parsed = policy::parse(policy_text(R"("pipelines": {"own": [{"stage": "l2fwd"}]}, )" + kAll),
                                      "test.json", policy::read_files_of({}));
    auto tables = policy::compile(*parsed);
    policy::lead_to_programs(tables->header, tables->lines.data(), {0});
    auto* const rule = reinterpret_cast<xg_rule*>(&tables->lines[tables->header.rules_line]);
    ASSERT_EQ(rule->action, XG_RULE_PROGRAM);
    rule->pipeline = number;
    program.install(*tables);
    ASSERT_TRUE(program.put_program(0, own.get()));
    EXPECT_EQ(program.run(packet()).reason, "error_program") << number;
  }
}

TEST_F(UserProgram, OldAndNewPolicyHaveEachItsOwn) {
  Program program;
  install(program, kAll);
  const auto passes = answers(XDP_PASS), drops = answers(XDP_DROP);
  ASSERT_TRUE(program.put_program(0, passes.get()));
  const u64 before = program.config().active;
  install(program, kAll);
  ASSERT_TRUE(program.put_program(0, drops.get()));
  EXPECT_EQ(program.run(packet()).action, XDP_DROP);
  program.config().active = before;
  EXPECT_EQ(program.run(packet()).action, XDP_PASS);
}

TEST_F(UserProgram, RulesAndLimitsInFrontOfItHold) {
  Program program;
  install(program, R"("rules": [
      {"match": {"dst_port": 7}, "action": "drop"},
      {"limit": {"per": "rule", "pps": 1, "burst": 2}},
      {"action": {"inspect": "own"}}])");
  const auto own = answers(XDP_PASS);
  ASSERT_TRUE(program.put_program(0, own.get()));
  EXPECT_EQ(program.run(ethernet() + ipv4({}, udp(1, 7))).reason, "drop_rule");
  EXPECT_EQ(program.run(packet()).reason, "program");
  EXPECT_EQ(program.run(packet()).reason, "program");
  EXPECT_EQ(program.run(packet()).reason, "drop_limit");
  EXPECT_EQ(program.rule_counter(2).packets, 2u);
}

// As for a device, `fragments` and `malformed` say what of them it is to see.
TEST_F(UserProgram, FragmentsComeToItWhereThePolicySaysSo) {
  const Frame first = ethernet() + ipv4({.fragment = 0x2000}, udp(1000, 2000, 20));
  for (const std::string what : {"drop", "pass", "inspect"}) {
    Program program;
    install(program, std::string(R"("fragments": ")").append(what).append("\", ").append(kAll));
    const auto own = answers(XDP_TX);
    ASSERT_TRUE(program.put_program(0, own.get()));
    EXPECT_EQ(program.run(first).reason, what == "inspect" ? "program" : what + "_fragment");
  }
}

// Neither a worker nor a device is asked.
TEST_F(UserProgram, GoesOnWithoutADataPlane) {
  Program program;
  install(program, R"("on_failure": "drop", )" + kAll);
  const auto own = answers(XDP_PASS);
  ASSERT_TRUE(program.put_program(0, own.get()));
  for (const u32 state : {XG_STATE_RUNNING, XG_STATE_DRAINING, XG_STATE_CUT_OFF}) {
    program.config().state = state;
    EXPECT_EQ(program.run(packet()).reason, "program") << state;
  }
  program.config().state = XG_STATE_BYPASS;
  EXPECT_EQ(program.run(packet()).reason, "pass_bypass");
}

TEST_F(UserProgram, FramesThatAreToBeCutAreCutFirst) {
  Program program;
  install(program, kAll);
  const auto own = answers(XDP_PASS);
  ASSERT_TRUE(program.put_program(0, own.get()));
  program.config().most_bytes = 40;
  program.set_tx_port(XG_CUTTER, 1);
  EXPECT_EQ(program.run(packet()).reason, "cut");
}

// Where an interface has packets of several buffers, and where it has not: the kernel mixes no programs.
TEST_F(UserProgram, TakesPacketsOfSeveralBuffersAsThePortDoes) {
  const auto one = answers(XDP_PASS), several = answers(XDP_PASS, true);
  for (const bool multi_buffer : {false, true}) {
    Program program({.multi_buffer = multi_buffer});
    install(program, kAll);
    EXPECT_EQ(program.put_program(0, one.get()), !multi_buffer);
    EXPECT_EQ(program.put_program(0, several.get()), multi_buffer);
    EXPECT_EQ(program.run(packet()).reason, "program");
    if (multi_buffer) {
      EXPECT_EQ(program.run(packet() + Frame(5000)).reason, "program");
    }
  }
}

}  // namespace
}  // namespace xdpgpu::test
