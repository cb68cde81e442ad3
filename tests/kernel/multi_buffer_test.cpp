// SPDX-License-Identifier: MIT
//
// Frames of several buffers: BPF_PROG_TEST_RUN lays out what is longer than a page so. Nothing of them is
// treated otherwise than of a short frame, and their whole length counts.
#include "maps/hash.h"
#include "maps/parse.h"
#include "tests/kernel/kernel_test.hpp"
#include "tests/kernel/samples.hpp"

namespace xdpgpu::test {
namespace {

constexpr ProgramOptions kOptions{.multi_buffer = true};
const Frame kJumbo = ethernet({10}) + ipv4({.protocol = 6}, tcp(40000, 80) + bytes(8900));
const Frame kJumbo6 = ethernet() + ipv6({}, udp(1000, 53, 8900));

class MultiBufferTest : public KernelTest {};

TEST_F(MultiBufferTest, IsInspectedWithTheMetadataOfTheWholeFrame) {
  for (const Frame& frame : {kJumbo, kJumbo6}) {
    Program program(kOptions);
    program.install(kInspectAll);
    program.connect(0, 10);
    const Outcome outcome = program.run(frame);
    EXPECT_EQ(outcome.action, XDP_REDIRECT);
    EXPECT_EQ(outcome.reason, "inspected") << "counted with all its bytes";
    EXPECT_EQ(outcome.frame, frame);
    ASSERT_TRUE(outcome.metadata);
    xg_packet packet;
    xg_parse(frame.data(), frame.data() + frame.size(), 3, &packet);
    EXPECT_EQ(packet.flags & XG_PKT_MALFORMED, 0);
    EXPECT_EQ(outcome.metadata->flags, packet.flags);
    EXPECT_EQ(outcome.metadata->l4_offset, packet.l4_offset);
    EXPECT_EQ(outcome.metadata->payload_offset, packet.payload_offset);
    EXPECT_EQ(program.queue(0).admitted, 1u) << "a packet, not its buffers, takes a credit";
  }
}

TEST_F(MultiBufferTest, AFlowVerdictSpeaksForIt) {
  for (const Frame& frame : {kJumbo, kJumbo6}) {
    Program program(kOptions);
    program.install(policy_text(R"("default": "drop")"));
    const u32 index = program.publish(frame, XG_TX, {.rewrite = XG_REWRITE_SWAP_MACS});
    const Outcome outcome = program.run(frame);
    EXPECT_EQ(outcome.reason, "tx_flow");
    EXPECT_EQ(outcome.action, XDP_TX);
    Frame swapped = kSrcMac + kDstMac;
    swapped.insert(swapped.end(), frame.begin() + 12, frame.end());
    EXPECT_EQ(outcome.frame, swapped);
    EXPECT_EQ(program.stats(index).bytes, frame.size());
  }
}

TEST_F(MultiBufferTest, RulesSeeItsPorts) {
  Program program(kOptions);
  program.install(policy_text(R"("default": "drop",
      "rules": [{"match": {"proto": "tcp", "dst_port": 80}, "action": "pass"}])"));
  EXPECT_EQ(program.run(kJumbo).reason, "pass_rule");
  EXPECT_EQ(program.run(kJumbo6).reason, "drop_default");
}

TEST_F(MultiBufferTest, AMirrorIsToldTheWholeLength) {
  Program program(kOptions);
  program.install(policy_text(
      R"("default": "drop", "pipelines": {"scrub": [{"stage": "acl", "rules": [], "default": "drop", "cache": true}]},
      "rules": [{"action": {"mirror": "scrub"}}])"));
  EXPECT_EQ(program.run(kJumbo).reason, "drop_default");
  u32 shown = 0;
  for (u32 cpu = 0; cpu < program.mirror_rings(); ++cpu) {
    if (program.mirror_state(cpu).head == 0) continue;
    ++shown;
    EXPECT_EQ(program.mirrored(cpu, 0).wire_length, kJumbo.size());
    EXPECT_EQ(program.mirrored(cpu, 0).metadata.flags & XG_PKT_MALFORMED, 0);
  }
  EXPECT_EQ(shown, 1u);
}

// Where frames may be of several buffers, those of one are treated as everywhere.
TEST_F(MultiBufferTest, ShortFramesAreTreatedAlike) {
  Program several(kOptions), one;
  for (Program* program : {&several, &one}) {
    program->install(kInspectAll);
    program->connect(0, 1000);
  }
  for (const Sample& sample : samples()) {
    const Outcome outcome = several.run(sample.frame), wanted = one.run(sample.frame);
    EXPECT_EQ(outcome.action, wanted.action) << sample.name;
    EXPECT_EQ(outcome.reason, wanted.reason) << sample.name;
    EXPECT_EQ(outcome.frame, wanted.frame) << sample.name;
    ASSERT_EQ(outcome.metadata.has_value(), wanted.metadata.has_value()) << sample.name;
    if (!wanted.metadata) continue;
    EXPECT_EQ(outcome.metadata->flags, wanted.metadata->flags) << sample.name;
    EXPECT_EQ(outcome.metadata->l4_offset, wanted.metadata->l4_offset) << sample.name;
  }
}

// The kernel's buffers are longer than ours, which devices read: headers further back count as not there.
TEST_F(MultiBufferTest, HeadersBehindOurFirstBufferAreNotLookedFor) {
  Program program(kOptions);
  program.install(kInspectAll);
  program.connect(0, 10);
  for (const u8 units : {u8{2}, u8{3}}) {
    const Frame frame = ethernet() + ipv6({.next = 60}, extension(60, 100) + extension(60, 100) +
                                                            extension(17, units) + udp(1000, 53, 6000));
    const Outcome outcome = program.run(frame);
    EXPECT_EQ(outcome.reason, "inspected");
    ASSERT_TRUE(outcome.metadata);
    EXPECT_EQ((outcome.metadata->flags & XG_PKT_MALFORMED) != 0, units == 3);
    EXPECT_LE(outcome.metadata->payload_offset, XG_FRAME_MAX);
  }
}

// Its IP header promises more than there is, in all buffers together.
TEST_F(MultiBufferTest, ACutOneIsMalformed) {
  Program program(kOptions);
  program.install(kInspectAll);
  program.connect(0, 10);
  const Outcome outcome = program.run(Frame(kJumbo.begin(), kJumbo.end() - 1));
  ASSERT_TRUE(outcome.metadata);
  EXPECT_NE(outcome.metadata->flags & XG_PKT_MALFORMED, 0);
}

}  // namespace
}  // namespace xdpgpu::test
