// SPDX-License-Identifier: MIT
//
// Handing packets to user space: credits, heartbeat, order, metadata.
#include <algorithm>

#include "maps/hash.h"
#include "maps/parse.h"
#include "tests/kernel/kernel_test.hpp"
#include "tests/kernel/samples.hpp"

namespace xdpgpu::test {
namespace {

const Frame kUdp = ethernet({10}) + ipv4({}, udp(1000, 53, 20));
const std::string kSecondPipeline = policy_text(R"("on_overload": "drop", "on_failure": "drop",
    "pipelines": {"a": [{"stage": "l2fwd"}], "b": [{"stage": "l2fwd"}]},
    "rules": [{"match": {"proto": "tcp"}, "action": {"inspect": "a"}}, {"action": {"inspect": "b"}}])");

class InspectTest : public KernelTest {};

TEST_F(InspectTest, WritesTheMetadata) {
  Program program;
  program.install(kSecondPipeline);
  program.connect(0, 10);
  program.queue(0).admitted = 41;
  program.queue(0).granted = 51;
  const u64 before = monotonic_ns();
  const Outcome outcome = program.run(kUdp);
  EXPECT_EQ(outcome.action, XDP_REDIRECT);
  EXPECT_EQ(outcome.reason, "inspected");
  EXPECT_EQ(outcome.frame, kUdp);
  ASSERT_TRUE(outcome.metadata);
  const xg_metadata& m = *outcome.metadata;
  EXPECT_GE(m.rx_time_ns, before);
  EXPECT_LE(m.rx_time_ns, monotonic_ns());
  EXPECT_EQ(m.generation, 1u);
  EXPECT_EQ(m.sequence, 41u);
  EXPECT_EQ(m.flags, XG_PKT_IPV4 | XG_PKT_UDP | XG_PKT_PORTS | XG_PKT_VLAN);
  EXPECT_EQ(m.l3_offset, 18);
  EXPECT_EQ(m.l4_offset, 38);
  EXPECT_EQ(m.payload_offset, 46);
  EXPECT_EQ(m.pipeline, 1);
  EXPECT_EQ(m.protocol, 17);
  EXPECT_EQ(m.port, 3);
  EXPECT_EQ(program.queue(0).admitted, 42u);
  EXPECT_EQ(program.order_slot(m.flow_hash & (XG_ORDER_SLOTS - 1)), 42u) << "one past the sequence";
}

TEST_F(InspectTest, StopsWhenOutOfCredit) {
  Program program;
  program.install(kSecondPipeline);
  program.connect(0, 3);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(program.run(kUdp).reason, "inspected");
  for (int i = 0; i < 2; ++i) EXPECT_EQ(program.run(kUdp).reason, "drop_overload");
  EXPECT_EQ(program.queue(0).admitted, 3u) << "what is not admitted takes no sequence";
  program.queue(0).granted += 1;
  EXPECT_EQ(program.run(kUdp).reason, "inspected");
  EXPECT_EQ(program.run(kUdp).reason, "drop_overload");
}

TEST_F(InspectTest, CreditsWrap) {
  Program program;
  program.install(kSecondPipeline);
  program.connect(0, 0);
  program.queue(0).admitted = 0xfffffffe;
  program.queue(0).granted = 1;
  for (u32 sequence : {0xfffffffeu, 0xffffffffu, 0u}) {
    const Outcome outcome = program.run(kUdp);
    EXPECT_EQ(outcome.reason, "inspected");
    EXPECT_EQ(outcome.metadata.value_or(xg_metadata{}).sequence, sequence);
  }
  EXPECT_EQ(program.run(kUdp).reason, "drop_overload");
}

// Eighths of the ring are kept for what is more important.
TEST_F(InspectTest, ShedsTheLeastImportantFirst) {
  const auto port = [](u16 number) { return ethernet() + ipv4({}, udp(1000, number, 20)); };
  const std::string rule = R"(, "action": {"inspect": "a"}})";
  Program program;
  program.install(policy_text(
      R"("on_overload": "drop", "on_failure": "pass", "pipelines": {"a": [{"stage": "l2fwd"}]}, "rules": [
      {"match": {"proto": "udp", "dst_port": 1}, "priority": 1)" +
      rule + R"(,
      {"match": {"proto": "udp", "dst_port": 3})" +
      rule + R"(,
      {"match": {"proto": "udp", "dst_port": 4}, "priority": 4)" +
      rule + "]"));
  program.connect(0, 80);
  program.queue(0).window = 80;
  const auto admitted = [&](u16 number) {
    u32 packets = 0;
    while (program.run(port(number)).reason == "inspected" && packets < 100) ++packets;
    return packets;
  };
  EXPECT_EQ(admitted(1), 50u) << "three eighths of 80 are left to the others";
  EXPECT_EQ(admitted(3), 20u) << "one eighth, to the most important";
  EXPECT_EQ(admitted(1), 0u);
  EXPECT_EQ(admitted(4), 10u) << "nobody in this policy is above it";
  EXPECT_EQ(program.rule_shed(0).overload.packets, 2u);
  EXPECT_EQ(program.rule_shed(0).overload.bytes, 2 * port(1).size());
  EXPECT_EQ(program.rule_shed(1).overload.packets, 1u);
  EXPECT_EQ(program.rule_shed(2).overload.packets, 1u);
  EXPECT_EQ(program.rule_shed(0).failure.packets, 0u);
  program.queue(0).beat_ns = 0;
  EXPECT_EQ(program.run(port(3)).reason, "pass_failure");
  EXPECT_EQ(program.rule_shed(1).failure.packets, 1u);
  EXPECT_EQ(program.rule_shed(1).overload.packets, 1u);
}

// What generic XDP is shown uncut: a rule that only passes or drops takes it as it is, the others want its
// segments, and so does a flow verdict that sends it out. Without the pair that cuts it goes by on_failure.
TEST_F(InspectTest, WantsSegmentsOfWhatIsTooLong) {
  const auto of_length = [](std::size_t payload, u16 port) {
    return ethernet() + ipv4({}, udp(1000, port, payload));
  };
  Program program;
  program.install(
      policy_text(R"("default": "drop", "on_failure": "pass", "pipelines": {"a": [{"stage": "l2fwd"}]},
    "rules": [{"match": {"proto": "udp", "dst_port": 1}, "action": "pass"},
              {"match": {"proto": "udp", "dst_port": 2}, "action": "drop"},
              {"match": {"proto": "udp", "dst_port": 3}, "limit": {"per": "src", "pps": 1000, "burst": 1000}},
              {"match": {"proto": "udp"}, "action": {"inspect": "a"}}])"));
  program.connect(0, 10);
  program.config().most_bytes = 1000;
  for (const std::size_t payload : {100, 2000}) {
    EXPECT_EQ(program.run(of_length(payload, 1)).reason, "pass_rule");
    EXPECT_EQ(program.run(of_length(payload, 2)).reason, "drop_rule");
    EXPECT_EQ(program.run(of_length(payload, 4)).reason, payload > 1000 ? "pass_failure" : "inspected");
  }
  program.set_tx_port(XG_CUTTER, 1);
  for (const u16 port : {u16{3}, u16{4}}) {
    const Outcome outcome = program.run(of_length(2000, port));
    EXPECT_EQ(outcome.reason, "cut") << port;
    EXPECT_EQ(outcome.action, XDP_REDIRECT);
  }
  EXPECT_EQ(program.rule_counter(2).packets, 0u);
  EXPECT_EQ(program.rule_counter(3).packets, 1u) << "its segments count there, and not it";
  EXPECT_EQ(program.queue(0).admitted, 1u);
  const Frame flow = of_length(2000, 5);
  program.publish(flow, XG_TX);
  EXPECT_EQ(program.run(flow).reason, "cut");
  program.publish(flow, XG_DROP);
  EXPECT_EQ(program.run(flow).reason, "drop_flow");
  program.config().most_bytes = 0;
  EXPECT_EQ(program.run(of_length(2000, 4)).reason, "inspected") << "native XDP is shown none";
}

TEST_F(InspectTest, OnOverloadPasses) {
  Program program;
  program.install(policy_text(R"("on_overload": "pass", "on_failure": "drop", "default": "drop",
      "pipelines": {"a": [{"stage": "l2fwd"}]}, "rules": [{"action": {"inspect": "a"}}])"));
  program.connect(0, 0);
  const Outcome outcome = program.run(kUdp);
  EXPECT_EQ(outcome.reason, "pass_overload");
  EXPECT_EQ(outcome.action, XDP_PASS);
  EXPECT_FALSE(outcome.metadata);
}

TEST_F(InspectTest, FailsWithoutAHeartbeat) {
  Program program;
  program.install(kSecondPipeline);
  program.connect(0, 100);
  program.config().beat_timeout_ns = 5'000'000'000;
  program.renew(0, 100);
  EXPECT_EQ(program.run(kUdp).reason, "inspected");
  program.queue(0).beat_ns = monotonic_ns() - 6'000'000'000;
  EXPECT_EQ(program.run(kUdp).reason, "drop_failure");
  program.queue(0).beat_ns = 0;
  EXPECT_EQ(program.run(kUdp).reason, "drop_failure");
  program.queue(0).beat_ns = monotonic_ns() + 10'000'000;  // another CPU's clock is a little ahead
  EXPECT_EQ(program.run(kUdp).reason, "inspected");
}

TEST_F(InspectTest, FailsWhileTheDeviceDoesNotAnswer) {
  Program program;
  program.install(kSecondPipeline);
  program.connect(0, 100);
  program.config().beat_timeout_ns = 5'000'000'000;
  const auto with = [&](u64 device_beat_ns) {
    program.queue(0).beat_ns = monotonic_ns();
    program.queue(0).device_beat_ns = device_beat_ns;
    return program.run(kUdp).reason;
  };
  EXPECT_EQ(with(monotonic_ns()), "inspected");
  EXPECT_EQ(with(monotonic_ns() - 6'000'000'000), "drop_failure");
  EXPECT_EQ(with(0), "drop_failure") << "there is none yet";
  EXPECT_EQ(with(monotonic_ns() - 1'000'000'000), "inspected") << "it has answered";
  EXPECT_EQ(program.queue(0).admitted, 2u);
}

TEST_F(InspectTest, FailsWithoutASocketAndTakesNoCredit) {
  Program program;
  program.install(kSecondPipeline);
  program.renew(0, 10);
  program.config().beat_timeout_ns = 60'000'000'000;
  EXPECT_EQ(program.run(kUdp).reason, "drop_failure");
  EXPECT_EQ(program.queue(0).admitted, 0u);
}

TEST_F(InspectTest, AQueueWithoutAWorkerFails) {
  Program program;
  program.install(kSecondPipeline);
  program.connect(0, 10);
  program.config().queues = 0;
  EXPECT_EQ(program.run(kUdp).reason, "drop_failure");
}

// on_failure and on_overload by what is known of the flow; `kept_since` of the one rule is `since`.
class KnownTest : public KernelTest {
 protected:
  static policy::Tables tables(const std::string& what, u32 since = 0) {
    const std::string text = policy_text(
        what +
        R"(, "default": "drop", "pipelines": {"a": [{"stage": "l2fwd"}]}, "rules": [{"action": {"inspect": "a"}}])");
    auto parsed = policy::parse(text, "test.json", policy::read_files_of({}));
    if (!parsed) throw std::runtime_error(parsed.error().at(0).sentence());
    auto made = policy::compile(*parsed).value();
    reinterpret_cast<xg_rule*>(&made.lines[made.header.rules_line])->kept_since = since;
    return made;
  }
  static constexpr const char* kDropNew =
      R"("on_failure": {"known": "keep", "new": "drop"}, "on_overload": {"known": "keep", "new": "drop"})";
  static constexpr const char* kPassNew =
      R"("on_failure": {"known": "keep", "new": "pass"}, "on_overload": {"known": "keep", "new": "pass"})";
};
const Frame kKnown = ethernet() + ipv4({.protocol = 6}, tcp(40000, 80) + bytes(20));

// A verdict does not act while earlier packets of its flow are in user space, which may be for long. Where
// nobody is there any more it need not wait for them.
TEST_F(KnownTest, AVerdictThatWaitsForItsTurnCountsAtLast) {
  for (const char* what : {R"("on_failure": "drop", "on_overload": "drop")", kDropNew, kPassNew}) {
    const bool known = std::string(what).find("known") != std::string::npos;
    const std::string fresh = what == kPassNew ? "pass" : "drop";
    Program program;
    program.install(tables(what));
    program.connect(0, 2);
    const Frame other = ethernet() + ipv4({.protocol = 6}, tcp(40001, 80) + bytes(20));
    EXPECT_EQ(program.run(kKnown).reason, "inspected");
    program.publish(kKnown, XG_PASS);
    EXPECT_EQ(program.run(kKnown).reason, "inspected") << "the first one is still in user space";
    EXPECT_EQ(program.run(kKnown).reason, known ? "pass_flow" : "drop_overload") << what;
    EXPECT_EQ(program.run(other).reason, fresh + "_overload") << what;
    program.queue(0).beat_ns = 0;
    const Outcome outcome = program.run(kKnown);
    EXPECT_EQ(outcome.reason, "pass_flow") << what;
    EXPECT_EQ(outcome.action, XDP_PASS);
    EXPECT_FALSE(outcome.metadata);
    EXPECT_EQ(program.run(other).reason, fresh + "_failure") << what;
  }
}

TEST_F(KnownTest, VerdictsOfEarlierGenerationsCountAsFarBackAsTheRuleSays) {
  struct {
    u32 since;
    const char* reason;
  } const cases[] = {{0, "drop_failure"}, {3, "drop_failure"}, {2, "pass_flow"}, {1, "pass_flow"}};
  for (const auto& c : cases) {
    Program program;
    program.install(tables(kDropNew));
    program.install(tables(kDropNew));
    program.publish(kKnown, XG_PASS);  // generation 2
    program.connect(0, 1);
    program.install(tables(kDropNew, c.since));
    EXPECT_EQ(program.run(kKnown).reason, "inspected") << "while a worker can, it decides anew";
    EXPECT_EQ(program.run(kKnown).reason, c.since == 1 || c.since == 2 ? "pass_flow" : "drop_overload")
        << c.since;
    program.queue(0).beat_ns = 0;
    EXPECT_EQ(program.run(kKnown).reason, c.reason) << c.since;
  }
}

TEST_F(KnownTest, WhatIsNoVerdictOnThePacketDoesNotCount) {
  Program program;
  program.install(tables(kDropNew));
  const u32 now_ms = static_cast<u32>(monotonic_ns() / 1'000'000);
  const u32 index = program.publish(kKnown, XG_PASS, {.expires_ms = now_ms - 10});
  EXPECT_EQ(program.run(kKnown).reason, "drop_failure") << "it has expired";
  program.verdict(index).expires_ms = 0;
  EXPECT_EQ(program.run(kKnown).reason, "pass_flow");
  program.policy(program.generation() & 1).tcp_special[0] = ~0ul;
  EXPECT_EQ(program.run(kKnown).reason, "drop_failure") << "a rule asks for its TCP flags";
}

TEST_F(KnownTest, AConnectionsEndGoesAsTheFlowDoesAndItsBeginIsNew) {
  Program program;
  program.install(tables(kDropNew));
  const auto with = [](u32 flags) {
    Frame frame = kKnown;
    frame[14 + 20 + 13] = static_cast<u8>(flags);
    return frame;
  };
  program.publish(kKnown, XG_PASS, {.flags = XG_FLOW_HAND_UP_TCP_END});
  EXPECT_EQ(program.run(kKnown).reason, "pass_flow");
  for (u32 end : {XG_TCP_FIN, XG_TCP_RST}) EXPECT_EQ(program.run(with(end)).reason, "pass_flow");
  EXPECT_EQ(program.run(with(XG_TCP_SYN)).reason, "drop_failure");
}

TEST_F(KnownTest, ARewriteOfAnEarlierGenerationIsTakenFromThere) {
  Program program;
  program.install(tables(kDropNew));
  program.rewrite(XG_REWRITE_INDEX(XG_REWRITE_FIRST, 1)) = rewrite(1, XG_REWRITE_DST_MAC);
  program.publish(kKnown, XG_TX, {.rewrite = XG_REWRITE_INDEX(XG_REWRITE_FIRST, 1)});
  program.install(tables(kDropNew, 1));
  const Outcome outcome = program.run(kKnown);
  EXPECT_EQ(outcome.reason, "tx_flow");
  EXPECT_EQ(outcome.frame[5], 5) << "the record's MAC address";
  // Two generations on the record is another one's.
  program.rewrite(XG_REWRITE_INDEX(XG_REWRITE_FIRST, 1)) = rewrite(3, XG_REWRITE_DST_MAC);
  program.install(tables(kDropNew, 1));
  EXPECT_EQ(program.run(kKnown).reason, "drop_failure");
}

// The kernel parses as user space does, whatever is cut off.
TEST_F(InspectTest, MetadataIsWhatUserSpaceParses) {
  Program program;
  program.install(kInspectAll);
  program.connect(0, 1);
  for (const auto& sample : samples())
    for (std::size_t length = sample.frame.size(); length >= 14; --length) {
      const Frame frame(sample.frame.begin(), sample.frame.begin() + static_cast<long>(length));
      program.renew(0, 1);
      const Outcome outcome = program.run(frame);
      ASSERT_EQ(outcome.reason, "inspected") << sample.name << " cut to " << length;
      xg_packet packet;
      xg_parse(frame.data(), frame.data() + frame.size(), 3, &packet);
      xg_metadata expected{};
      xg_metadata_from(&expected, &packet, xg_flow_hash(&packet.key, &program.config().flow_keys));
      xg_metadata got = outcome.metadata.value_or(xg_metadata{});
      got.rx_time_ns = 0, got.generation = 0, got.sequence = 0;
      ASSERT_EQ(std::memcmp(&got, &expected, sizeof got), 0)
          << sample.name << " cut to " << length << ": kernel flags " << got.flags << ", user space "
          << expected.flags;
    }
}

}  // namespace
}  // namespace xdpgpu::test
