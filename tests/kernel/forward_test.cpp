// SPDX-License-Identifier: MIT
//
// Cached verdicts that forward: the kernel takes a hop off the TTL as the devices do, and hands up what it
// may not send on. And what the program tells devices that a router has to know.
#include <algorithm>
#include <random>

#include "maps/router.h"
#include "tests/kernel/captures.hpp"
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

Frame checked(Frame frame, std::size_t ip = 14) {
  set_checksum(frame, ip, right_checksum(frame, ip));
  return frame;
}

u64 own(const Frame& mac) { return xg_mac_number(mac.data()) | XG_MAC_KNOWN; }

const std::string kRouter = R"("pipelines": {"route": [{"stage": "forward",
    "next_hops": {"up": {"mac": "02:01:02:03:04:05"}},
    "routes": [{"prefix": ["0.0.0.0/0", "::/0"], "next_hop": "up"}]}]})";

class ForwardTest : public KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (IsSkipped()) return;
    program_ = std::make_unique<Program>();
    program_->config().mac = own(kDstMac);
    program_->install(policy_text(R"("default": "drop", )" + kRouter));  // a miss is a drop_default
    program_->rewrite(kIndex) =
        rewrite(program_->generation(), XG_REWRITE_DST_MAC | XG_REWRITE_SRC_MAC | XG_REWRITE_FORWARD);
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

// The same number more, in ones' complement (RFC 1624); the identification is such that it was right before.
TEST_F(ForwardTest, UpdatesWhateverChecksumIsRight) {
  Frame frame = ethernet() + ipv4({}, udp(1000, 53, 20));
  const struct {
    u32 before, after;
  } cases[] = {{0, 0x0100}, {1, 0x0101},    {0xfefe, 0xfffe}, {0xfeff, 0},
               {0xff00, 1}, {0xfffe, 0xff}, {0xffff, 0x0100}};
  for (const auto& one : cases) {
    frame[14 + 4] = frame[14 + 5] = 0;
    u32 id = right_checksum(frame, 14) + (~one.before & 0xffff);
    if (id > 0xffff) id -= 0xffff;
    frame[14 + 4] = static_cast<u8>(id >> 8);
    frame[14 + 5] = static_cast<u8>(id);
    set_checksum(frame, 14, one.before);
    EXPECT_EQ(checksum_of(forward(frame, frame).frame, 14), one.after) << std::hex << one.before;
  }
}

// RFC 1812 4.2.2.5.
TEST_F(ForwardTest, HandsUpAWrongChecksum) {
  for (const std::vector<u16>& tags : {std::vector<u16>{}, {10}, {10, 20}}) {
    const std::size_t ip = 14 + 4 * tags.size();
    const Frame right = checked(ethernet(tags) + ipv4({}, udp(1000, 53, 20)), ip);
    EXPECT_EQ(forward(right, right).reason, "tx_flow");
    // In the fields that are neither the key's nor lengths.
    for (const std::size_t at : {1, 4, 5, 8, 10, 11})
      for (u32 bit = 0; bit < 8; ++bit) {
        Frame wrong = right;
        wrong[ip + at] = static_cast<u8>(wrong[ip + at] ^ 1u << bit);
        expect_miss(right, wrong, "byte " + std::to_string(at) + ", bit " + std::to_string(bit));
      }
  }
}

TEST_F(ForwardTest, TakesOnlyFramesForItsPortsAddress) {
  const Frame four = checked(ethernet() + ipv4({}, udp(1000, 53, 20)));
  const Frame six = ethernet() + ipv6({}, udp(1000, 53, 20));
  for (const Frame& frame : {four, six}) {
    EXPECT_EQ(forward(frame, frame).reason, "tx_flow");
    for (std::size_t at = 0; at < 6; ++at) {
      Frame foreign = frame;
      foreign[at] = static_cast<u8>(foreign[at] ^ 0x40);
      expect_miss(frame, foreign, "byte " + std::to_string(at) + " of the address");
    }
    Frame moved = kDstMac;
    moved[5] = 9;
    program_->config().mac = own(moved);
    expect_miss(frame, frame, "the port has another address now");
    program_->config().mac = 0;
    expect_miss(frame, frame, "it is not known");
    program_->config().mac = XG_MAC_ANY;
    EXPECT_EQ(forward(frame, frame).reason, "tx_flow");
    program_->config().mac = own(kDstMac);
  }
  program_->policy(program_->generation() & 1).routes = 0;
  expect_miss(four, four, "nobody has looked");
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
  const Frame four = checked(ethernet() + ipv4({}, udp(1000, 53, 20)));
  const Frame six = ethernet() + ipv6({}, udp(1000, 53, 20));
  for (u8 ttl : {u8{0}, u8{1}}) {
    Frame last = four;
    last[14 + kTtl4] = ttl;
    expect_miss(four, checked(last), "IPv4, its last hop");
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
  const auto four = [](std::size_t bytes) {
    return checked(ethernet() + ipv4({}, udp(1000, 53, bytes - 28)));
  };
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
  Frame frame = checked(ethernet() + ipv4({}, udp(1000, 53, 20)));
  const u32 index = program_->publish(frame, XG_TX, {.rewrite = kIndex});
  frame[14 + kTtl4] = 1;
  EXPECT_EQ(program_->run(frame).reason, "drop_default");
  EXPECT_EQ(program_->stats(index).packets, 0u);
}

// ---- what devices are told ---------------------------------------------------------------------------

class RouterTest : public KernelTest {
 protected:
  // What the metadata says of an inspected frame.
  static u32 seen(Program& program, const Frame& frame) {
    program.renew(0, 1);
    const Outcome outcome = program.run(frame);
    EXPECT_EQ(outcome.reason, "inspected");
    EXPECT_TRUE(outcome.metadata);
    return outcome.metadata.value_or(xg_metadata{}).router;
  }
  static void start(Program& program, const std::string& pipelines) {
    program.config().mac = own(kDstMac);
    program.install(policy_text(R"("default": "drop", "fragments": "track", "malformed": "inspect", )" +
                                pipelines + R"(, "rules": [{"action": {"inspect": "route"}}])"));
    program.connect(0, 1);
  }
};

TEST_F(RouterTest, TheMetadataSayWhatARouterMaySendOn) {
  Program program;
  start(program, kRouter);
  const Frame four = checked(ethernet() + ipv4({}, udp(1000, 53, 20)));
  EXPECT_EQ(seen(program, four), XG_ROUTER_ALL);
  EXPECT_EQ(seen(program, checked(ethernet({10, 20}) + ipv4({}, udp(1000, 53, 20)), 22)), XG_ROUTER_ALL);
  EXPECT_EQ(seen(program, ethernet({10}) + ipv6({}, udp(1000, 53, 20))), XG_ROUTER_ALL);
  EXPECT_EQ(seen(program, ethernet() + ipv4({}, udp(1000, 53, 20))), XG_ROUTER_ADDRESSED);
  EXPECT_EQ(seen(program, ethernet() + ipv4({.options = bytes(4, 1)}, udp(1000, 53, 20))), XG_ROUTER_ALL)
      << "is not looked at: it is the stack's";
  Frame foreign = four;
  foreign[5] = 9;
  EXPECT_EQ(seen(program, foreign), XG_ROUTER_CHECKSUM);
  foreign[14 + kTtl4]--;
  EXPECT_EQ(seen(program, foreign), 0u);
  EXPECT_EQ(seen(program, ethernet() + be16(0x88b5) + bytes(46)), 0u) << "no IP";
}

TEST_F(RouterTest, FollowedFragmentsAreLookedAtEachForItself) {
  Program program;
  start(program, kRouter);
  const auto fragment = [](u16 field) { return ipv4({.id = 7, .fragment = field}, udp(1000, 53, 24)); };
  EXPECT_EQ(seen(program, checked(ethernet() + fragment(0x2000))), XG_ROUTER_ALL);
  EXPECT_EQ(seen(program, checked(ethernet() + fragment(0x2004))), XG_ROUTER_ALL);
  Frame foreign = checked(ethernet() + fragment(0x2008));
  foreign[0] ^= 4;
  EXPECT_EQ(seen(program, foreign), XG_ROUTER_CHECKSUM);
  EXPECT_EQ(seen(program, ethernet() + fragment(0x200c)), XG_ROUTER_ADDRESSED);
}

TEST_F(RouterTest, NobodyLooksWhereNothingRoutes) {
  Program program;
  start(program, R"("pipelines": {"route": [{"stage": "l2fwd"}]})");
  EXPECT_EQ(seen(program, checked(ethernet() + ipv4({}, udp(1000, 53, 20)))), 0u);
}

// Random bytes, whatever they are, of every length that a header may be cut at; and captures.
TEST_F(RouterTest, KernelAndUserSpaceSeeTheSame) {
  Program program;
  start(program, kRouter);
  std::mt19937 random(20261123);
  std::vector<Frame> frames;
  for (u32 i = 0; i < 400; ++i) {
    Frame frame = ethernet(std::vector<u16>(i % 3, 10)) +
                  (i % 2 ? ipv4({}, udp(1000, 53, random() % 40)) : ipv6({}, udp(1000, 53, random() % 40)));
    const std::size_t ip = 14 + 4 * (i % 3);
    if (i % 2 && i % 5) frame = checked(frame, ip);
    if (i % 7 == 0) frame[random() % frame.size()] = static_cast<u8>(random());
    if (i % 11 == 0) frame.resize(14 + random() % (frame.size() - 14));
    frames.push_back(frame);
  }
  for (const auto& entry : std::filesystem::directory_iterator(capture_directory()))
    if (entry.path().extension() == ".pcap")
      for (const Frame& frame : read_capture(entry.path())) frames.push_back(frame);
  u32 all = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const Frame& frame = frames[i];
    const u64 mac = i % 4 ? own(frame) : own(kSrcMac);
    program.config().mac = mac;
    program.renew(0, 1);
    const Outcome outcome = program.run(frame);
    if (!outcome.metadata) continue;
    xg_packet packet;
    xg_parse(frame.data(), frame.data() + frame.size(), 3, &packet);
    xg_router_look(frame.data(), frame.data() + frame.size(), mac, &packet);
    ASSERT_EQ(outcome.metadata->router, packet.router);
    const std::size_t ip = packet.l3_offset;
    if (packet.key.family == 4 && frame[ip] == 0x45) {
      const u32 said = checksum_of(frame, ip), right = right_checksum(frame, ip);
      ASSERT_EQ((packet.router & XG_ROUTER_CHECKSUM) != 0, said % 0xffff == right % 0xffff);
    }
    all += packet.router == XG_ROUTER_ALL;
  }
  EXPECT_GT(all, 300u);
}

}  // namespace
}  // namespace xdpgpu::test
