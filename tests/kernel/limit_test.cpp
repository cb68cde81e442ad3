// SPDX-License-Identifier: MIT
//
// Limits: the excess is dropped, to the packet; what conforms goes on to the next rule.
#include <bpf/bpf.h>

#include <thread>

#include "tests/kernel/kernel_test.hpp"

namespace xdpgpu::test {
namespace {

Frame from(const std::string& src, const std::string& dst = "198.51.100.2") {
  return ethernet() + ipv4({.src = src, .dst = dst}, udp(1000, 53));
}
std::string limit(const std::string& per, u32 pps, u32 burst) {
  return policy_text(R"("rules": [{"match": {"proto": "udp"}, "limit": {"per": ")" + per + R"(", "pps": )" +
                     std::to_string(pps) + R"(, "burst": )" + std::to_string(burst) + "}}]");
}

class LimitTest : public KernelTest {};

TEST_F(LimitTest, DropsTheExcessExactly) {
  Program program;
  program.install(limit("src", 1, 10));
  for (int i = 0; i < 10; ++i) EXPECT_EQ(program.run(from("10.0.0.1")).reason, "pass_default") << i;
  for (int i = 0; i < 5; ++i) EXPECT_EQ(program.run(from("10.0.0.1")).reason, "drop_limit") << i;
  EXPECT_EQ(program.rule_counter(0).packets, 5u) << "a limit counts what it drops";
  EXPECT_EQ(program.run(ethernet() + ipv4({.src = "10.0.0.1", .protocol = 1}, icmp(8, 0))).reason,
            "pass_default")
      << "what does not match is not counted";
}

TEST_F(LimitTest, CountsEachAddressByItself) {
  struct {
    const char* per;
    bool other_source, other_destination;  // has it a bucket of its own?
  } const cases[] = {{"src", true, false}, {"dst", false, true}, {"rule", false, false}};
  for (const auto& c : cases) {
    Program program;
    program.install(limit(c.per, 1, 2));
    for (int i = 0; i < 2; ++i) program.run(from("10.0.0.1"));
    EXPECT_EQ(program.run(from("10.0.0.1")).reason, "drop_limit") << c.per;
    EXPECT_EQ(program.run(from("10.0.0.2")).reason, c.other_source ? "pass_default" : "drop_limit") << c.per;
    EXPECT_EQ(program.run(from("10.0.0.1", "10.9.9.9")).reason,
              c.other_destination ? "pass_default" : "drop_limit")
        << c.per;
  }
}

// The bytes of 0a4e:2:: are those of 10.78.0.2 and zeros.
TEST_F(LimitTest, AddressesOfTwoFamiliesAreNeverOne) {
  const Frame v6 = ethernet() + ipv6({.src = "a4e:2::", .dst = "a4e:2::"}, udp(1000, 53));
  for (const char* per : {"src", "dst"}) {
    Program program;
    program.install(limit(per, 1, 2));
    for (int i = 0; i < 2; ++i) program.run(v6);
    EXPECT_EQ(program.run(v6).reason, "drop_limit") << per;
    EXPECT_EQ(program.run(from("10.78.0.2", "10.78.0.2")).reason, "pass_default") << per;
  }
}

TEST_F(LimitTest, FillsUpAgain) {
  Program program;
  // One a second: two runs are never that far apart, not even on an emulated machine that is pressed.
  program.install(limit("src", 1, 1));
  EXPECT_EQ(program.run(from("10.0.0.1")).reason, "pass_default");
  EXPECT_EQ(program.run(from("10.0.0.1")).reason, "drop_limit");
  std::this_thread::sleep_for(std::chrono::milliseconds(1010));
  EXPECT_EQ(program.run(from("10.0.0.1")).reason, "pass_default");
}

TEST_F(LimitTest, WhatConformsMeetsTheNextRules) {
  Program program;
  program.install(policy_text(R"("rules": [
      {"limit": {"per": "rule", "pps": 1, "burst": 5}},
      {"limit": {"per": "src", "pps": 1, "burst": 2}},
      {"match": {"dst_port": 53}, "action": "drop"}])"));
  EXPECT_EQ(program.run(from("10.0.0.1")).reason, "drop_rule");
  EXPECT_EQ(program.run(from("10.0.0.1")).reason, "drop_rule");
  EXPECT_EQ(program.run(from("10.0.0.1")).reason, "drop_limit");
  EXPECT_EQ(program.rule_counter(1).packets, 1u);
  EXPECT_EQ(program.run(from("10.0.0.2")).reason, "drop_rule");
  EXPECT_EQ(program.run(from("10.0.0.3")).reason, "drop_rule") << "the rule's fifth";
  EXPECT_EQ(program.run(from("10.0.0.4")).reason, "drop_limit");
  EXPECT_EQ(program.rule_counter(0).packets, 1u);
}

TEST_F(LimitTest, AsManyLimitsAsAPolicyMayHave) {
  std::string rules;
  for (u32 i = 0; i < XG_MAX_LIMIT_RULES; ++i)
    rules += R"({"limit": {"per": "rule", "pps": 1, "burst": 3}}, )";
  Program program;
  program.install(policy_text("\"rules\": [" + rules + R"({"action": "drop"}])"));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(program.run(from("10.0.0.1")).reason, "drop_rule");
  EXPECT_EQ(program.run(from("10.0.0.1")).reason, "drop_limit");
}

TEST_F(LimitTest, AReloadBeginsAnew) {
  Program program;
  program.install(limit("src", 1, 1));
  program.run(from("10.0.0.1"));
  EXPECT_EQ(program.run(from("10.0.0.1")).reason, "drop_limit");
  program.install(limit("src", 1, 1));
  EXPECT_EQ(program.run(from("10.0.0.1")).reason, "pass_default");
}

// Two CPUs at one bucket: not a packet more, not one less.
TEST_F(LimitTest, IsExactFromSeveralCpus) {
  constexpr u32 kPps = 20, kBurst = 50'000, kRuns = 100'000;
  Program program;
  program.install(limit("rule", kPps, kBurst));
  const u64 start = monotonic_ns();
  std::vector<std::thread> threads;
  threads.reserve(2);
  for (int i = 0; i < 2; ++i) threads.emplace_back([&] { program.nanoseconds(from("10.0.0.1"), kRuns); });
  for (auto& thread : threads) thread.join();
  const u64 seconds = (monotonic_ns() - start) / 1'000'000'000 + 1;
  EXPECT_EQ(program.counter(XG_KERNEL_received), 2u * kRuns);
  EXPECT_GE(program.counter(XG_KERNEL_pass_default), kBurst);
  EXPECT_LE(program.counter(XG_KERNEL_pass_default), kBurst + kPps * seconds);
  EXPECT_EQ(program.counter(XG_KERNEL_pass_default) + program.counter(XG_KERNEL_drop_limit), 2u * kRuns);
}

}  // namespace
}  // namespace xdpgpu::test
