// SPDX-License-Identifier: MIT
//
// Cached verdicts that encapsulate: the kernel puts the same outer headers in front as user space does
// (tests/unit/dataplane_encapsulation.cpp), byte for byte.
#include <net/if.h>

#include "tests/kernel/encapsulated.hpp"
#include "tests/kernel/kernel_test.hpp"

namespace xdpgpu::test {
namespace {

constexpr u32 kIndex = XG_REWRITE_FIRST + 7;

class EncapsulationTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped()) load();
  }
  void load(const ProgramOptions& options = {}) {
    program_ = std::make_unique<Program>(options);
    program_->install(policy_text(R"("default": "drop")"));  // a miss is a drop_default
  }
  // The flow's verdict applied to another packet of the flow.
  Outcome encapsulate(const Encapsulated& e, const Frame& flow, const Frame& frame, u32 mtu = 1400) {
    program_->rewrite(kIndex) = outer_headers(e, program_->generation());
    program_->rewrite(kIndex).mtu = mtu;
    program_->publish(flow, XG_TX, {.rewrite = kIndex});
    return program_->run(frame);
  }
  std::unique_ptr<Program> program_;
};

TEST_F(EncapsulationTest, PutsTheOuterHeadersBehindTheTags) {
  for (const Encapsulated& e : encapsulated())
    for (const std::vector<u16>& tags : {std::vector<u16>{}, {10}, {10, 20}}) {
      const Frame frame = inner_frame(e, tags);
      const Outcome outcome = encapsulate(e, frame, frame);
      EXPECT_EQ(outcome.reason, "tx_flow");
      EXPECT_EQ(outcome.action, XDP_TX);
      EXPECT_EQ(outcome.frame, outer_frame(e, frame, tags.size()))
          << testing::PrintToString(e) << ", " << tags.size() << " tags";
    }
}

TEST_F(EncapsulationTest, SendsOutOfAnotherPort) {
  const Encapsulated& e = encapsulated()[0];
  const Frame frame = inner_frame(e, {});
  program_->rewrite(kIndex) = outer_headers(e, program_->generation());
  program_->publish(frame, XG_REDIRECT, {.target = 5, .rewrite = kIndex});
  program_->set_tx_port(5, if_nametoindex("lo"));
  const Outcome outcome = program_->run(frame);
  EXPECT_EQ(outcome.reason, "redirect_flow");
  EXPECT_EQ(outcome.frame, outer_frame(e, frame, 0));
}

TEST_F(EncapsulationTest, PaddingIsNoneOfThePacket) {
  for (const Encapsulated& e : encapsulated()) {
    const Frame frame = inner_frame(e, {});
    const Frame padded = frame + bytes(9, 0);
    EXPECT_EQ(encapsulate(e, frame, padded).frame, outer_frame(e, padded, 0)) << testing::PrintToString(e);
  }
}

TEST_F(EncapsulationTest, TheShortestPacketsHaveRoom) {
  for (const Encapsulated& e : encapsulated()) {
    const Frame frame =
        e.inner == 4 ? ethernet() + ipv4({.protocol = 59}, {}) : ethernet() + ipv6({.next = 59}, {});
    const Outcome outcome = encapsulate(e, frame, frame);
    EXPECT_EQ(outcome.reason, "tx_flow") << testing::PrintToString(e);
    EXPECT_EQ(outcome.frame.size(), frame.size() + std::string(e.bytes).size() / 2);
    EXPECT_TRUE(std::equal(frame.begin() + 14, frame.end(),
                           outcome.frame.end() - static_cast<long>(frame.size()) + 14));
  }
}

TEST_F(EncapsulationTest, HandsUpWhatWouldNotFit) {
  for (const Encapsulated& e : encapsulated()) {
    const auto of = [&](u32 bytes) {
      return e.inner == 4 ? ethernet() + ipv4({}, udp(1000, 53, bytes - 28))
                          : ethernet() + ipv6({}, udp(1000, 53, bytes - 48));
    };
    EXPECT_EQ(encapsulate(e, of(100), of(700), 700).reason, "tx_flow");
    const u32 index = program_->publish(of(100), XG_TX, {.rewrite = kIndex});
    const u64 before = program_->stats(index).packets;
    const Outcome outcome = encapsulate(e, of(100), of(701), 700);
    EXPECT_EQ(outcome.reason, "drop_default") << testing::PrintToString(e);
    EXPECT_EQ(outcome.frame, of(701)) << "what is handed up is as it came";
    EXPECT_EQ(program_->stats(index).packets, before);
  }
}

TEST_F(EncapsulationTest, TakesFramesOfSeveralBuffers) {
  load({.multi_buffer = true});
  const Encapsulated& e = encapsulated()[3];
  const Frame frame = ethernet({10}) + ipv4({.protocol = 6}, tcp(40000, 80) + bytes(8900));
  const Outcome outcome = encapsulate(e, frame, frame, 9000);
  EXPECT_EQ(outcome.reason, "tx_flow");
  ASSERT_EQ(outcome.frame.size(), frame.size() + 48);
  EXPECT_TRUE(std::equal(frame.begin() + 18, frame.end(), outcome.frame.begin() + 18 + 48));
  EXPECT_EQ(outcome.frame[16] * 256 + outcome.frame[17], 0x86dd);
}

// Ports tell flows apart where there are some; an ICMP message's type is none.
TEST_F(EncapsulationTest, TheHashIsThatOfTheFlow) {
  const Encapsulated& e = encapsulated()[2];
  const auto port_of = [](const Frame& frame) { return frame[14 + 20] * 256u + frame[14 + 21]; };
  const auto sent = [&](const Frame& frame) { return encapsulate(e, frame, frame).frame; };
  const Ipv4 ip{.protocol = 6};
  const u32 port = port_of(sent(ethernet() + ipv4(ip, tcp(40000, 80))));
  EXPECT_EQ(port, 0x9934u | 0xc000u);
  EXPECT_NE(port, port_of(sent(ethernet() + ipv4(ip, tcp(40001, 80)))));
  for (u8 type : {u8{8}, u8{3}})
    EXPECT_EQ(port_of(sent(ethernet() + ipv4({.protocol = 1}, icmp(type, 0, 77)))), 0xd817u) << +type;
}

}  // namespace
}  // namespace xdpgpu::test
