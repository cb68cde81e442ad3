// SPDX-License-Identifier: MIT
//
// The load balancer of config/examples/balancer: in the kernel, by definition, and in the form that devices
// run.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>

#include "tests/kernel/frame.hpp"
#include "tests/kernel/programs/object.hpp"
#include "tests/stages/program_object.hpp"
#include "tests/unit/program_devices.hpp"

namespace xdpgpu::test {
namespace {

Frame padded(Frame bytes, std::size_t size) {
  bytes.resize(size);
  return bytes;
}

class BalancerTest : public ProgramTest {
 protected:
  void SetUp() override {
    ProgramTest::SetUp();
    if (IsSkipped()) return;
    const std::string path = fmt::format("{}balancer.{}.o", testing::TempDir(), getpid());
    std::ofstream(path, std::ios::binary) << tests::balancer_object();
    object_ = read_object(path);
    std::remove(path.c_str());
    twins_ = std::make_unique<Twins>(object_.maps);
    devices_ = std::make_unique<gpu::programs::DeviceTwins>(object_.maps, std::vector<Map>(), true);
    const auto program = twins_->add(object_.code);
    ASSERT_TRUE(program) << twins_->refusal();
    number_ = *program;
    on_device_ = devices_->add(object_.code);
    put("services", padded(address("203.0.113.10"), 16) + be16(443) + Frame{6, 4}, three(0, 3, 0));
    put("services", address("2001:db8:10::10") + be16(53) + Frame{17, 6}, three(3, 2, 1));
    put("services", padded(address("203.0.113.10"), 16) + be16(80) + Frame{6, 4}, three(0, 0, 2));
    for (u32 i = 0; i < 5; ++i) put("ring", bytes_of(i), bytes_of(i + 1));
    for (u32 i = 1; i < 4; ++i)
      put("servers", bytes_of(i), padded(address(fmt::format("198.51.100.{}", i)), 16));
    for (u32 i = 4; i < 6; ++i) put("servers", bytes_of(i), address(fmt::format("2001:db8:20::{}", i)));
    put("way", bytes_of(0u),
        kGateway + Frame{0, 0} + padded(address("203.0.113.10"), 16) + address("2001:db8:10::10"));
  }
  static Bytes three(u32 a, u32 b, u32 c) { return bytes_of(a) + bytes_of(b) + bytes_of(c); }
  void put(const std::string& map, const Bytes& key, const Bytes& value) {
    ASSERT_TRUE(twins_->update(object_.map(map), key, value)) << map;
    ASSERT_TRUE(devices_->update(object_.map(map), key, value)) << map;
  }
  // Its answer; the same in all.
  const ProgramAnswer& run(const Frame& frame, bool maps = false) {
    EXPECT_EQ(twins_->run(number_, {.bytes = frame}, maps), "");
    EXPECT_EQ(devices_->run(on_device_, {.bytes = frame}, maps), "");
    return twins_->answer();
  }

  static const Frame kGateway;
  Object object_;
  std::unique_ptr<Twins> twins_;
  std::unique_ptr<gpu::programs::DeviceTwins> devices_;
  u32 number_ = 0, on_device_ = 0;
};
const Frame BalancerTest::kGateway{2, 0, 0x5e, 0, 0x53, 1};

Frame to_service(u16 port, u8 flags, std::size_t payload = 10) {
  Frame segment = tcp(port, 443) + bytes(payload);
  segment[13] = flags;
  return ethernet() + ipv4({.src = "192.0.2.7", .dst = "203.0.113.10", .protocol = 6}, segment);
}

TEST_F(BalancerTest, SendsAFlowToItsServerInsideOfAnotherPacket) {
  const Frame syn = to_service(1000, 2);
  ASSERT_EQ(run(syn).action, XDP_TX);
  const Frame sent = run(syn).packet;
  ASSERT_EQ(sent.size(), syn.size() + 20);
  EXPECT_EQ(Frame(sent.begin(), sent.begin() + 6), kGateway);
  EXPECT_EQ(Frame(sent.begin() + 6, sent.begin() + 12), kDstMac);
  EXPECT_EQ(sent[23], 4);
  EXPECT_EQ(Frame(sent.begin() + 26, sent.begin() + 30), address("203.0.113.10"));
  EXPECT_EQ(Frame(sent.begin() + 34, sent.end()), Frame(syn.begin() + 14, syn.end()));
  u32 sum = 0;
  for (int i = 14; i < 34; i += 2) sum += sent[i] * 256u + sent[i + 1];
  EXPECT_EQ((sum & 0xffff) + (sum >> 16), 0xffffu);
  // Later ones go there, too, whatever becomes of the ring; new flows do not.
  for (u32 i = 0; i < 3; ++i) put("ring", bytes_of(i), bytes_of(sent[33] % 3 + 1u));
  const Frame later = run(to_service(1000, 16, 100)).packet;
  EXPECT_EQ(later[33], sent[33]);
  EXPECT_NE(run(to_service(1001, 2)).packet[33], sent[33]);
  EXPECT_EQ(run(to_service(1000, 16), true).action, XDP_TX);
}

TEST_F(BalancerTest, LetsAllElseGoOn) {
  for (const Frame& frame :
       {arp(), ethernet() + ipv4({.dst = "203.0.113.11", .protocol = 6}, tcp(1, 443)),
        ethernet() + ipv4({.dst = "203.0.113.10", .protocol = 17}, udp(1, 443)),
        ethernet() + ipv4({.dst = "203.0.113.10", .protocol = 6, .fragment = 0x2000}, tcp(1, 443)),
        ethernet() + ipv4({.dst = "203.0.113.10", .protocol = 6, .options = bytes(4, 1)}, tcp(1, 443)),
        ethernet() + ipv4({.dst = "203.0.113.10", .protocol = 6}, be16(1) + be16(443))}) {
    EXPECT_EQ(run(frame).action, XDP_PASS);
    EXPECT_EQ(twins_->answer().packet, frame);
  }
  // A service without servers.
  EXPECT_EQ(run(ethernet() + ipv4({.dst = "203.0.113.10", .protocol = 6}, tcp(1, 80))).action, XDP_DROP);
}

TEST_F(BalancerTest, SpreadsFlowsAndRemembersThem) {
  dataplane::Random random(1);
  std::map<u8, u32> chosen;
  for (int i = 0; i < 2'000; ++i) {
    const u16 port = static_cast<u16>(1'000 + random() % 500);
    Frame frame = random() % 3 == 0 ? ethernet() + ipv6({.src = fmt::format("2001:db8::{:x}", random() % 100),
                                                         .dst = "2001:db8:10::10",
                                                         .next = 17},
                                                        udp(port, 53, random() % 200))
                                    : to_service(port, random() % 2 == 0 ? 2 : 16, random() % 200);
    if (random() % 16 == 0) frame.resize(std::max<std::size_t>(14, random() % frame.size()));
    run(frame, i % 500 == 499);
    if (HasFailure()) return;
    if (twins_->answer().action == XDP_TX) {
      const Frame& sent = twins_->answer().packet;
      chosen[sent[12] == 8 ? sent[33] : sent[53]]++;
    }
  }
  ASSERT_EQ(chosen.size(), 5u);
  for (const auto& [server, times] : chosen) EXPECT_GT(times, 100u) << server;
}

}  // namespace
}  // namespace xdpgpu::test
