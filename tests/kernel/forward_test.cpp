// SPDX-License-Identifier: MIT
//
// Cached verdicts that forward: the kernel takes a hop off the TTL as the devices do, and hands up what it
// may not send on.
#include <algorithm>

#include "tests/kernel/kernel_test.hpp"

namespace xdpgpu::test {
namespace {

constexpr u32 kIndex = XG_REWRITE_FIRST + 5;
constexpr std::size_t kTtl4 = 8, kTtl6 = 7;  // in the IP header

u32 checksum_of(const Frame& frame, std::size_t ip) { return frame[ip + 10] * 256u + frame[ip + 11]; }
void set_checksum(Frame& frame, std::size_t ip, u32 value) {
  frame[ip + 10] = static_cast<u8>(value >> 8);
  frame[ip + 11] = static_cast<u8>(value);
}
// RFC 1071, of an IPv4 header without options.
u32 right_checksum(const Frame& frame, std::size_t ip) {
  u32 sum = 0;
  for (std::size_t at = ip; at < ip + 20; at += 2)
    if (at != ip + 10) sum += frame[at] * 256u + frame[at + 1];
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return ~sum & 0xffff;
}

class ForwardTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (IsSkipped()) return;
    program_ = std::make_unique<Program>();
    program_->install(policy_text(R"("default": "drop")"));  // a miss is a drop_default
    program_->rewrite(kIndex) =
        rewrite(program_->generation(), XG_RES_SET_DST_MAC | XG_RES_SET_SRC_MAC | XG_REWRITE_FORWARD);
    program_->rewrite(kIndex).mtu = 1500;
  }
  // The verdict is the flow's, whatever else stands in the frame.
  Outcome forward(const Frame& flow, const Frame& frame) {
    program_->publish(flow, XG_TX, {.rewrite = kIndex});
    return program_->run(frame);
  }
  void expect_miss(const Frame& flow, const Frame& frame, const std::string& why) {
    const Outcome outcome = forward(flow, frame);
    EXPECT_EQ(outcome.reason, "drop_default") << why;
    EXPECT_EQ(outcome.frame, frame) << why << ": what is handed up is as it came";
  }
  static Frame with_macs(Frame frame) {
    const Frame macs{2, 1, 2, 3, 4, 5, 2, 9, 8, 7, 6, 5};
    std::copy(macs.begin(), macs.end(), frame.begin());
    return frame;
  }
  std::unique_ptr<Program> program_;
};

TEST_F(ForwardTest, TakesAHopAndUpdatesTheChecksum) {
  for (const std::vector<u16>& tags : {std::vector<u16>{}, {10}, {10, 20}}) {
    const std::size_t ip = 14 + 4 * tags.size();
    Frame frame = ethernet(tags) + ipv4({.protocol = 6}, tcp(40000, 80) + bytes(20));
    for (u32 ttl : {2u, 64u, 255u}) {
      frame[ip + kTtl4] = static_cast<u8>(ttl);
      set_checksum(frame, ip, right_checksum(frame, ip));
      const Outcome outcome = forward(frame, frame);
      EXPECT_EQ(outcome.reason, "tx_flow");
      Frame expected = with_macs(frame);
      expected[ip + kTtl4]--;
      set_checksum(expected, ip, right_checksum(expected, ip));
      EXPECT_EQ(outcome.frame, expected) << "TTL " << ttl << ", " << tags.size() << " tags";
    }
  }
}

// Whatever it was before: the same number more, in ones' complement (RFC 1624).
TEST_F(ForwardTest, AWrongChecksumStaysWrong) {
  Frame frame = ethernet() + ipv4({}, udp(1000, 53, 20));
  const struct {
    u32 before, after;
  } cases[] = {{0, 0x0100}, {1, 0x0101},    {0xfefe, 0xfffe}, {0xfeff, 0},
               {0xff00, 1}, {0xfffe, 0xff}, {0xffff, 0x0100}};
  for (const auto& one : cases) {
    set_checksum(frame, 14, one.before);
    EXPECT_EQ(checksum_of(forward(frame, frame).frame, 14), one.after) << std::hex << one.before;
  }
}

TEST_F(ForwardTest, TakesAHopOfIpv6) {
  Frame frame = ethernet({10}) + ipv6({}, udp(1000, 53, 20));
  for (u32 limit : {2u, 64u, 255u}) {
    frame[18 + kTtl6] = static_cast<u8>(limit);
    Frame expected = with_macs(frame);
    expected[18 + kTtl6]--;
    EXPECT_EQ(forward(frame, frame).frame, expected);
  }
}

TEST_F(ForwardTest, HandsUpWhatTheKernelMayNotSendOn) {
  const Frame four = ethernet() + ipv4({}, udp(1000, 53, 20));
  const Frame six = ethernet() + ipv6({}, udp(1000, 53, 20));
  for (u8 ttl : {u8{0}, u8{1}}) {
    Frame last = four;
    last[14 + kTtl4] = ttl;
    expect_miss(four, last, "IPv4, its last hop");
    last = six;
    last[14 + kTtl6] = ttl;
    expect_miss(six, last, "IPv6, its last hop");
  }
  expect_miss(four, ethernet() + ipv4({.options = bytes(4, 1)}, udp(1000, 53, 20)), "options");
  expect_miss(six, ethernet() + ipv6({.next = 0}, extension(17) + udp(1000, 53, 20)), "hop-by-hop options");
  Frame broadcast = four;
  std::fill_n(broadcast.begin(), 6, u8{0xff});
  expect_miss(four, broadcast, "a broadcast frame");
  EXPECT_EQ(forward(six, ethernet() + ipv6({.next = 60}, extension(17) + udp(1000, 53, 20))).reason,
            "tx_flow")
      << "options for the destination are none of a router's";
}

TEST_F(ForwardTest, HandsUpWhatIsLongerThanTheNextHopTakes) {
  const auto four = [](std::size_t bytes) { return ethernet() + ipv4({}, udp(1000, 53, bytes - 28)); };
  const auto six = [](std::size_t bytes) { return ethernet() + ipv6({}, udp(1000, 53, bytes - 48)); };
  for (u32 mtu : {600u, 1280u}) {
    program_->rewrite(kIndex).mtu = mtu;
    EXPECT_EQ(forward(four(100), four(mtu)).reason, "tx_flow");
    expect_miss(four(100), four(mtu + 1), "IPv4");
    EXPECT_EQ(forward(six(100), six(mtu)).reason, "tx_flow");
    expect_miss(six(100), six(mtu + 1), "IPv6");
    EXPECT_EQ(forward(four(100), four(mtu) + bytes(9)).reason, "tx_flow") << "padding is not the packet's";
  }
}

TEST_F(ForwardTest, CountsNothingForWhatItHandsUp) {
  Frame frame = ethernet() + ipv4({}, udp(1000, 53, 20));
  const u32 index = program_->publish(frame, XG_TX, {.rewrite = kIndex});
  frame[14 + kTtl4] = 1;
  EXPECT_EQ(program_->run(frame).reason, "drop_default");
  EXPECT_EQ(program_->stats(index).packets, 0u);
}

}  // namespace
}  // namespace xdpgpu::test
