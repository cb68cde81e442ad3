// SPDX-License-Identifier: MIT
//
// tests/netns/exempt_test.cpp: what passes ahead of the rules of a policy that drops by default
// (config/rules.md): answers to management through a router, and control protocols in a flood of them.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <net/if_arp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <future>
#include <random>

#include "tests/netns/product.hpp"

namespace xdpgpu::lab {
namespace {

class Exempt : public testing::Test {
 protected:
  void SetUp() override {
    if (const auto why = why_unavailable(); !why.empty()) GTEST_SKIP() << why;
  }
};

// ---- Management through a router ----------------------------------------------------------------------

// The request comes in by one interface and its answer by the other one.
TEST_F(Exempt, AnAnswerIsOneToAFlowThatCameInByAnotherInterface) {
  const Namespace manager("manager"), router("router"), host("host");
  const Veth near(router, "r0", manager, "m0"), far(router, "r1", host, "h0");
  near.address("10.9.0.1/24", "10.9.0.2/24");
  far.address("10.9.1.1/24", "10.9.1.2/24");
  near.checksums_in_software();
  far.checksums_in_software();
  near.up();
  far.up();
  router.sysctl("ipv4/conf/all/forwarding", "1");
  near.b().add_route("10.9.1.0/24", "10.9.0.1");
  far.b().add_route("10.9.0.0/24", "10.9.1.1");
  Attached attached(router, {.interfaces = {"r0", "r1"}, .policy = R"({"version": 1, "default": "drop",
      "management": [{"src": "10.9.0.0/24", "proto": "udp", "dst_port": 161},
                     {"src": "10.9.0.0/24", "proto": "tcp", "dst_port": 22}]})"});
  const UdpSocket asks(manager, "10.9.0.2", 0), other(manager, "10.9.0.2", 0), answers(host, "10.9.1.2", 161);

  answers.send_to("10.9.0.2", other.port(), "nobody asked");
  asks.send_to("10.9.1.2", 161, "question");
  EXPECT_EQ(answers.receive(2000ms), "question");
  answers.send_to("10.9.0.2", asks.port(), "answer");
  EXPECT_EQ(asks.receive(2000ms), "answer");
  answers.send_to("10.9.0.2", other.port(), "nobody asked");
  EXPECT_EQ(other.receive(300ms), std::nullopt);
  EXPECT_GE(attached.pins(1).kernel("drop_default"), 2U) << attached.pins(1).summary();

  EXPECT_TRUE(tcp_connects(manager, host, "10.9.1.2", 22));
  EXPECT_FALSE(tcp_connects(host, manager, "10.9.0.2", 22, 300ms));
}

// ---- A flood of ARP -----------------------------------------------------------------------------------

// From as many strangers.
std::vector<Frame> arp_requests(std::size_t count) {
  std::vector<Frame> frames;
  std::mt19937 random(1);
  for (std::size_t i = 0; i < count; ++i) {
    Frame frame{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2};
    for (int byte = 0; byte < 5; ++byte) frame.push_back(static_cast<std::uint8_t>(random()));
    for (const int byte : {8, 6, 0, 1, 8, 0, 6, 4, 0, 1}) frame.push_back(static_cast<std::uint8_t>(byte));
    frame.insert(frame.end(), frame.begin() + 6, frame.begin() + 12);
    for (const int byte : {10, 9, 0, 77, 0, 0, 0, 0, 0, 0, 10, 9, 0, 1})
      frame.push_back(static_cast<std::uint8_t>(byte));
    frame.resize(60);
    frames.push_back(std::move(frame));
  }
  return frames;
}
Frame lacp_frame(const Mac& from) {
  Frame frame{1, 0x80, 0xc2, 0, 0, 2};
  frame.insert(frame.end(), from.begin(), from.end());
  frame.insert(frame.end(), {0x88, 0x09, 1, 1});
  frame.resize(124);
  return frame;
}

// The host's neighbour table loses it.
void forget_neighbour(const Namespace& ns, const std::string& ifname, std::uint32_t address) {
  ns.run([&] {
    const Fd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    arpreq request{};
    auto* inet = reinterpret_cast<sockaddr_in*>(&request.arp_pa);
    inet->sin_family = AF_INET;
    inet->sin_addr.s_addr = htonl(address);
    std::strncpy(request.arp_dev, ifname.c_str(), sizeof(request.arp_dev) - 1);
    ioctl(socket.get(), SIOCDARP, &request);
  });
}

TEST_F(Exempt, AFloodOfArpLeavesTheGatewayTheLinkAndManagementAlone) {
  const Namespace host("host"), gateway("gateway");
  const Veth wire(host, "h0", gateway, "g0", {.queues = 2});
  wire.a().add_address("10.9.0.1/24");
  wire.b().add_address("10.9.0.2/24");
  wire.checksums_in_software();
  wire.up();
  wire.a().add_route("0.0.0.0/0", "10.9.0.2");
  ASSERT_GT(ping(host, "10.9.0.2").received, 0U);  // the neighbour table knows the gateway
  Attached attached(host, {.interfaces = {"h0"}, .policy = R"({"version": 1, "default": "drop",
      "rates": {"arp": {"pps": 400, "burst": 40}},
      "management": [{"src": "10.9.0.0/24", "proto": "tcp", "dst_port": 22}],
      "rules": [{"match": {"proto": "icmp"}, "action": "pass"}]})"});

  constexpr auto kFlood = 8000ms;
  const auto strangers = arp_requests(4096);
  const auto start = std::chrono::steady_clock::now();
  auto flood =
      std::async(std::launch::async, [&] { return Sender(wire.b(), true).blast(strangers, ~0ull, kFlood); });
  std::atomic<unsigned> lacp_sent = 0;
  auto link = std::async(std::launch::async, [&] {
    Sender sender(wire.b());
    const Frame frame = lacp_frame(wire.b().mac());
    while (flood.wait_for(100ms) != std::future_status::ready) {
      sender.send(frame);
      ++lacp_sent;
    }
  });
  unsigned resolved = 0, tries = 0, managed = 0;
  while (flood.wait_for(200ms) != std::future_status::ready) {
    forget_neighbour(host, "h0", 0x0a090002);
    resolved += ping(host, "10.9.0.2", {.count = 1, .timeout = 1500ms}).received;
    managed += tcp_connects(gateway, host, "10.9.0.1", 22, 1500ms);
    ++tries;
  }
  const auto sent = flood.get();
  link.get();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  const Json rates = attached.status().at("ports").at(0).at("rates");
  const auto arp_passed = rates.at("arp").at("passed").get<std::uint64_t>();
  const auto lacp_passed = rates.at("lacp").at("passed").get<std::uint64_t>();
  fmt::print(
      "{} ARP requests in {:.1f} s ({:.0f} a second), {} passed; gateway resolved {} of {} times, management "
      "connected {}; {} of {} LACP frames passed\n",
      sent, took.count(), static_cast<double>(sent) / took.count(), arp_passed, resolved, tries, managed,
      lacp_passed, lacp_sent.load());
  EXPECT_GT(sent, 100'000U) << "that is no flood";
  EXPECT_LE(static_cast<double>(arp_passed), 400 * took.count() + 100);
  EXPECT_GT(rates.at("arp").at("over").get<std::uint64_t>(), arp_passed);
  EXPECT_GE(resolved, (tries + 1) / 2);
  EXPECT_GE(managed, (tries + 1) / 2);
  EXPECT_EQ(rates.at("lacp").at("over").get<std::uint64_t>(), 0U);
  // What the wire itself loses to the flood never came to the program.
  EXPECT_GE(lacp_passed, lacp_sent * 9 / 10);
}

}  // namespace
}  // namespace xdpgpu::lab
