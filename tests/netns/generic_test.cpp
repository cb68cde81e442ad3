// SPDX-License-Identifier: MIT
//
// tests/netns/generic_test.cpp: generic XDP behind senders that leave it to their device to cut what they
// send into frames (TSO, UDP segmentation), as hosts do whose device is a veth or virtio: the XDP program is
// shown up to 64 KiB at once.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <signal.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr const char* kPass = R"({"stage": "acl", "rules": [], "default": "pass"})";
constexpr const char* kDrop = R"({"stage": "acl", "rules": [], "default": "drop"})";

class Uncut : public OnTheWire {
 protected:
  void SetUp() override {
    OnTheWire::SetUp();
    if (IsSkipped()) return;
    for (const Interface* end : {&left_port(), &right_port()})
      for (const char* offload : {"tx-checksum-ip-generic", "tx-scatter-gather", "tx-tcp-segmentation",
                                  "tx-tcp6-segmentation", "tx-udp-segmentation"})
        end->feature(offload, true);
  }

  // `count` datagrams of `bytes` each, to UDP port 7000 of the host, in one send: a frame for the kernel's
  // stack, which no device between here and there has to cut.
  void send_udp(std::size_t count, std::uint16_t bytes) const {
    const std::string payload(count * bytes, 'u');
    left_->run([&] {
      const Fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
      const int segment = bytes;
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(7000);
      inet_pton(AF_INET, "10.9.0.1", &to.sin_addr);
      if (setsockopt(fd.get(), IPPROTO_UDP, UDP_SEGMENT, &segment, sizeof(segment)) != 0 ||
          sendto(fd.get(), payload.data(), payload.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                 sizeof(to)) != static_cast<ssize_t>(payload.size()))
        throw Error(fmt::format("cannot send {} datagrams at once: {}", count, std::strerror(errno)));
    });
  }
  std::string text() const { return product(*host_, {"status", host_port().ifname()}).out; }
};
INSTANTIATE_TEST_SUITE_P(Netns, Uncut, testing::Values(Config{true, 1}, Config{true, 2}), config_name);
INSTANTIATE_TEST_SUITE_P(Modes, Uncut, testing::Values(Config{true, 2, "split"}), config_name);

TEST_P(Uncut, BulkTcpReachesTheStack) {
  attach(inspect_all(kPass));
  const Pins& pins = attached_->pins();
  for (const char* address : {"10.9.0.1", "fd09::1"}) {
    const TransferResult in = tcp_transfer(*left_, *host_, address, {.bytes = 32 << 20});
    EXPECT_TRUE(in.intact) << address << ": " << in.problem;
    fmt::print("{}: {:.2f} Gbit/s towards the host\n", address, in.gbit_per_s());
  }
  EXPECT_GT(pins.kernel("cut"), 100U) << pins.summary();
  EXPECT_GT(pins.worker("passed"), 60U << 20 >> 11) << "segments, not frames of many";
  EXPECT_EQ(pins.kernel("error_too_long"), 0U);
  EXPECT_NE(text().find("cut into segments"), std::string::npos) << text();
  expect_conserved(pins);
  const Outcome end = attached_->detach();
  EXPECT_EQ(end.status, 0) << end.out << end.err;  // frames and packets balanced
}

// What leaves by another port has to fit there, whether user space sends it or the kernel does by a flow
// verdict.
TEST_P(Uncut, BulkTcpIsForwarded) {
  left_port().add_route("10.9.1.0/24", "10.9.0.1");
  right_port().add_route("10.9.0.0/24", "10.9.1.1");
  const auto hop = [](const Interface& to, const Interface& out) {
    return fmt::format(R"({{"mac": "{}", "src_mac": "{}", "to": "{}"}})", to_string(to.mac()),
                       to_string(out.mac()), out.ifname());
  };
  for (const bool cached : {false, true}) {
    SCOPED_TRACE(cached ? "cached" : "not cached");
    attach_both(inspect_all(fmt::format(
        R"({{"stage": "forward", "next_hops": {{"right": {}, "left": {}}},
             "routes": [{{"prefix": "10.9.1.2", "next_hop": "right"}}, {{"prefix": "10.9.0.2", "next_hop": "left"}}],
             "cache": {}}})",
        hop(right_port(), host_second()), hop(left_port(), host_port()), cached)));
    const TransferResult result = tcp_transfer(*left_, *right_, "10.9.1.2", {.bytes = 32 << 20});
    EXPECT_TRUE(result.intact) << result.problem;
    fmt::print("{:.2f} Gbit/s to the other side\n", result.gbit_per_s());
    const Pins& pins = attached_->pins();
    EXPECT_GT(pins.kernel("cut"), 100U) << pins.summary();
    expect_conserved(pins);
    attached_.reset();
  }
}

TEST_P(Uncut, EachDatagramIsOnePacket) {
  attach(inspect_udp(7000, kDrop));
  const Pins& pins = attached_->pins();
  for (int i = 0; i < 5; ++i) send_udp(20, 1000);
  EXPECT_TRUE(eventually([&] { return pins.worker("dropped") == 100; })) << pins.summary();
  EXPECT_EQ(pins.kernel("cut"), 5U);
  expect_conserved(pins);
  const Json packets = attached_->status().at("packets");
  EXPECT_EQ(packets.at("in_flight"), 0U);
  const auto in = packets.at("in").get<std::uint64_t>();
  EXPECT_EQ(in, pins.kernel("received") - 5) << "what was cut counts by its segments";
  EXPECT_EQ(in, packets.at("pass").get<std::uint64_t>() + 100);
}

TEST_P(Uncut, ALimitCountsDatagrams) {
  attach(policy(R"("default": "drop", "rules": [
    {"name": "few", "match": {"proto": "udp", "dst_port": 7000}, "limit": {"per": "src", "pps": 1, "burst": 10}},
    {"name": "rest", "match": {"proto": "udp", "dst_port": 7000}, "action": "pass"}])"));
  const Pins& pins = attached_->pins();
  send_udp(40, 1000);
  EXPECT_TRUE(eventually([&] { return pins.kernel("drop_limit") >= 29; })) << pins.summary();
  EXPECT_LE(pins.kernel("drop_limit"), 30U);
  EXPECT_EQ(pins.kernel("pass_rule") + pins.kernel("drop_limit"), 40U);
}

// Rules that only pass and drop need no segments.
TEST_P(Uncut, WhatARulePassesStaysWhole) {
  attach(policy(R"("default": "drop", "rules": [{"name": "all", "match": {}, "action": "pass"}])"));
  const TransferResult in = tcp_transfer(*left_, *host_, "10.9.0.1", {.bytes = 32 << 20});
  EXPECT_TRUE(in.intact) << in.problem;
  EXPECT_EQ(attached_->pins().kernel("cut"), 0U);
}

// Somebody deletes the pair that cuts, and has something else of its name then.
TEST_P(Uncut, ThePairIsMadeAnewAsSoonAsItCanBe) {
  attach(inspect_udp(7000, kDrop));
  const auto name = [&](char end) { return fmt::format("xg{}{}", host_port().ifindex(), end); };
  const auto said = [&](const char* words) {
    return eventually([&] { return attached_->process().err().find(words) != std::string::npos; }, 5000ms);
  };
  attached_->process().signal(SIGSTOP);
  Interface(*host_, name('c')).remove();
  auto other = std::make_unique<Veth>(*host_, name('s'), *left_, "other");
  attached_->process().signal(SIGCONT);
  EXPECT_TRUE(said("cannot be made anew")) << attached_->process().err();
  other.reset();
  EXPECT_TRUE(said("and is made anew")) << attached_->process().err();
  const Pins& pins = attached_->pins();
  send_udp(20, 1000);
  EXPECT_TRUE(eventually([&] { return pins.worker("dropped") == 20; })) << pins.summary();
  EXPECT_EQ(pins.kernel("cut"), 1U);
  expect_conserved(pins);
  const Outcome end = attached_->detach();
  EXPECT_EQ(end.status, 0) << end.out << end.err;
}

}  // namespace
}  // namespace xdpgpu::lab
