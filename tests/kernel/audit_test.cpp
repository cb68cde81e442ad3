// SPDX-License-Identifier: MIT
//
// --audit: whatever would be dropped is counted as that, by reason, and passes.
#include "tests/kernel/kernel_test.hpp"

namespace xdpgpu::test {
namespace {

const Frame kUdp = ethernet() + ipv4({}, udp(1000, 53, 20));
const Frame kFragment = ethernet() + ipv4({.fragment = 0x2000}, udp(1000, 53, 24, 2000));
const Frame kMalformed = ethernet() + ipv4({}, udp(1000, 53, 20, 60));
const std::string kPipeline = R"("pipelines": {"p": [{"stage": "acl", "rules": [], "cache": true}]})";
const std::string kInspect = kPipeline + R"(, "rules": [{"action": {"inspect": "p"}}])";

class AuditTest : public KernelTest {
 protected:
  // In force, with --audit.
  void install(const std::string& members) {
    const auto parsed = policy::parse(policy_text(members), "test.json", policy::read_files_of({}));
    if (!parsed) throw std::runtime_error(parsed.error().at(0).sentence());
    auto tables = policy::compile(*parsed).value();
    tables.header.audit = 1;
    program_.emplace();
    program_->install(tables);
  }
  std::string outcome(const Frame& frame = kUdp) {
    const Outcome outcome = program_->run(frame);
    return outcome.reason + (outcome.action == XDP_PASS ? " passes" : "");
  }
  std::optional<Program> program_;
};

TEST_F(AuditTest, EveryReasonToDropIsCountedAndPasses) {
  install(R"("default": "drop")");
  EXPECT_EQ(outcome(), "would_drop_default passes");
  program_->publish(kUdp, XG_DROP);
  EXPECT_EQ(outcome(), "would_drop_flow passes");
  install(R"("rules": [{"action": "drop"}])");
  EXPECT_EQ(outcome(), "would_drop_rule passes");
  EXPECT_EQ(program_->rule_counter(0).packets, 1u);
  install(R"("fragments": "drop")");
  EXPECT_EQ(outcome(kFragment), "would_drop_fragment passes");
  EXPECT_EQ(outcome(kMalformed), "would_drop_malformed passes");
  install(R"("rules": [{"limit": {"per": "src", "pps": 1, "burst": 1}}])");
  EXPECT_EQ(outcome(), "pass_default passes");
  EXPECT_EQ(outcome(), "would_drop_limit passes");
  install(R"("on_failure": "drop", "on_overload": {"known": "keep", "new": "drop"}, )" + kInspect);
  EXPECT_EQ(outcome(), "would_drop_failure passes");
  program_->connect(0, 0);
  EXPECT_EQ(outcome(), "would_drop_overload passes");
  EXPECT_EQ(program_->rule_shed(0).overload.packets, 1u);
  install(kPipeline + R"(, "rules": [{"action": {"mirror": "p"}}])");
  program_->publish(kUdp, XG_DROP, {}, 0, 1);
  EXPECT_EQ(outcome(), "would_drop_flow passes") << "condemned by a mirror's pipeline";
}

TEST_F(AuditTest, WhatPassesPassesAndUserSpaceIsTold) {
  install(R"("management": [{"proto": "udp", "dst_port": 53}], "default": "drop")");
  EXPECT_EQ(outcome(), "pass_management passes");
  install(kInspect);
  program_->connect(0, 1);
  const Outcome inspected = program_->run(kUdp);
  EXPECT_EQ(inspected.reason, "inspected");
  EXPECT_EQ(inspected.metadata.value_or(xg_metadata{}).flags & XG_PKT_AUDIT, XG_PKT_AUDIT);
}

// What passes may not overtake: a verdict to drop acts at once, one that lets go does not.
TEST_F(AuditTest, WhatIsLetGoKeepsItsPlace) {
  install(kInspect);
  program_->connect(0, 10);
  EXPECT_EQ(outcome(), "inspected");
  program_->publish(kUdp, XG_DROP);
  EXPECT_EQ(outcome(), "inspected") << "the first one is still in user space";
  program_->queue(0).retired = 2;
  EXPECT_EQ(outcome(), "would_drop_flow passes");
}

}  // namespace
}  // namespace xdpgpu::test
