// SPDX-License-Identifier: MIT
//
// tests/netns/reject_test.cpp: what a rule rejects, as the sockets at both ends of it see it: connections
// that are reset, datagrams that are prohibited, to whom the rule says, and no more often than that is
// allowed.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr std::uint16_t kPort = 7000, kClosed = 7001;

struct Address {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};
Address address_of(bool six, const char* text, std::uint16_t port) {
  Address made;
  if (six) {
    auto* to = reinterpret_cast<sockaddr_in6*>(&made.storage);
    to->sin6_family = AF_INET6;
    to->sin6_port = htons(port);
    inet_pton(AF_INET6, text, &to->sin6_addr);
    made.size = sizeof(*to);
  } else {
    auto* to = reinterpret_cast<sockaddr_in*>(&made.storage);
    to->sin_family = AF_INET;
    to->sin_port = htons(port);
    inet_pton(AF_INET, text, &to->sin_addr);
    made.size = sizeof(*to);
  }
  return made;
}
Address server_address(bool six, std::uint16_t port) {
  return address_of(six, six ? "fd09::1" : "10.9.0.1", port);
}

void set_timeout(const Fd& fd, Millis timeout) {
  const timeval value{timeout.count() / 1000, timeout.count() % 1000 * 1000};
  setsockopt(fd.get(), SOL_SOCKET, SO_RCVTIMEO, &value, sizeof(value));
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &value, sizeof(value));
}
Fd socket_in(const Namespace& ns, bool six, int type, int protocol = 0) {
  Fd fd = ns.run([&] { return Fd(socket(six ? AF_INET6 : AF_INET, type | SOCK_CLOEXEC, protocol)); });
  if (!fd) throw Error(fmt::format("cannot open a socket: {}", std::strerror(errno)));
  set_timeout(fd, 10s);
  return fd;
}
void say(const Fd& fd, std::string_view what) {
  EXPECT_EQ(send(fd.get(), what.data(), what.size(), MSG_NOSIGNAL), static_cast<ssize_t>(what.size()))
      << std::strerror(errno);
}
// What comes, or the error's name, or nothing.
std::string heard(const Fd& fd, Millis timeout = 10s) {
  set_timeout(fd, timeout);
  std::string data(2048, '\0');
  const ssize_t bytes = recv(fd.get(), data.data(), data.size(), 0);
  if (bytes < 0) return errno == EAGAIN ? "nothing" : strerrorname_np(errno);
  data.resize(static_cast<std::size_t>(bytes));
  return data.empty() ? "closed" : data;
}

class Rejecting : public OnTheWire {
 protected:
  void SetUp() override {
    OnTheWire::SetUp();
    std::string name = "/tmp/xdpgpu-reject-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::ofstream(folder_ + "/a.rules") << fmt::format(
        "reject tcp any any -> any {} (sid:1;)\n"
        "reject tcp-pkt any any -> any any (content:\"evil\"; sid:2;)\n"
        "rejectdst tcp-pkt any any -> any any (content:\"worse\"; sid:3;)\n"
        "rejectboth tcp-pkt any any -> any any (content:\"worst\"; sid:4;)\n"
        "rejectsrc udp any any -> any any (content:\"evil\"; sid:5;)\n"
        "rejectdst udp any any -> any any (content:\"worse\"; sid:6;)\n"
        "rejectboth udp any any -> any any (content:\"worst\"; sid:7;)\n",
        kClosed);
  }
  void TearDown() override {
    OnTheWire::TearDown();
    std::filesystem::remove_all(folder_);
  }

  void attach_here(std::vector<std::string> more = {}) {
    attach(policy(fmt::format(
               R"("fragments": "reassemble", "io": {{"heartbeat": "5s"}},
        "rules": [{{"match": {{"proto": ["tcp", "udp"]}}, "action": {{"inspect": "ids"}}}}],
        "pipelines": {{"ids": [{{"stage": "signatures", "rules": ["{}/a.rules"]}}]}})",
               folder_)),
           std::move(more));
  }
  std::uint64_t answered() const { return attached_->pins().worker("rejected_answered"); }

  struct Connection {
    Fd client, server;
  };
  // From left to the host, over which something was said.
  Connection connect_both(bool six) const {
    const Fd listener = socket_in(*host_, six, SOCK_STREAM);
    const int on = 1;
    setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    const Address at = server_address(six, kPort);
    EXPECT_EQ(bind(listener.get(), at.get(), at.size), 0) << std::strerror(errno);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    Connection made{socket_in(*left_, six, SOCK_STREAM), {}};
    EXPECT_EQ(connect(made.client.get(), at.get(), at.size), 0) << std::strerror(errno);
    made.server = Fd(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    say(made.client, "hello");
    EXPECT_EQ(heard(made.server), "hello");
    return made;
  }
  // UDP, from left to the host.
  Fd datagrams(bool six) const {
    Fd fd = socket_in(*left_, six, SOCK_DGRAM);
    const Address to = server_address(six, kPort);
    EXPECT_EQ(connect(fd.get(), to.get(), to.size), 0) << std::strerror(errno);
    return fd;
  }

  std::string folder_;
};
INSTANTIATE_TEST_SUITE_P(Netns, Rejecting, kConfigs, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, Rejecting, kSplit, config_name);

TEST_P(Rejecting, ConnectionsAreResetToWhomTheRuleSays) {
  attach_here();
  for (const bool six : {false, true}) {
    SCOPED_TRACE(six ? "IPv6" : "IPv4");
    const Connection source = connect_both(six);
    say(source.client, "evil");
    EXPECT_EQ(heard(source.client), "ECONNRESET");
    EXPECT_EQ(heard(source.server, 100ms), "nothing");

    const Connection destination = connect_both(six);
    say(destination.client, "worse");
    EXPECT_EQ(heard(destination.server), "ECONNRESET");
    EXPECT_EQ(heard(destination.client, 100ms), "nothing");

    const Connection both = connect_both(six);
    say(both.client, "worst");
    EXPECT_EQ(heard(both.client), "ECONNRESET");
    EXPECT_EQ(heard(both.server), "ECONNRESET");

    const Fd refused = socket_in(*left_, six, SOCK_STREAM);
    const Address closed = server_address(six, kClosed);
    EXPECT_EQ(connect(refused.get(), closed.get(), closed.size), -1);
    EXPECT_EQ(errno, ECONNREFUSED) << std::strerror(errno);
  }
  EXPECT_GE(answered(), 8u);
  EXPECT_EQ(attached_->pins().worker("transmitted"), 0u) << "the answer to one that is counted";
  expect_conserved(attached_->pins());
}

TEST_P(Rejecting, DatagramsAreProhibitedToWhomTheRuleSays) {
  attach_here();
  for (const bool six : {false, true}) {
    SCOPED_TRACE(six ? "IPv6" : "IPv4");
    const std::string prohibited = six ? "EACCES" : "EHOSTUNREACH";
    const Fd receiver = socket_in(*host_, six, SOCK_DGRAM);
    const Address at = server_address(six, kPort);
    ASSERT_EQ(bind(receiver.get(), at.get(), at.size), 0) << std::strerror(errno);
    const Fd errors = socket_in(*host_, six, SOCK_RAW, six ? int{IPPROTO_ICMPV6} : int{IPPROTO_ICMP});
    // Which a receiver was told from left.
    const auto told = [&](Millis timeout) {
      for (;;) {
        const std::string data = heard(errors, timeout);
        const std::size_t icmp = six ? 0 : 20;
        if (data == "nothing" || data.size() < icmp + 8) return std::string("nothing");
        if (data.substr(icmp, 2) == (six ? "\1\1" : "\3\12")) return data.substr(icmp + 8);
      }
    };
    const Fd sender = datagrams(six);
    say(sender, "hello");
    EXPECT_EQ(heard(receiver), "hello");
    say(sender, "evil");
    EXPECT_EQ(heard(sender), prohibited);
    EXPECT_EQ(told(100ms), "nothing");

    say(sender, "worse");
    const std::string quoted = told(10s);
    EXPECT_EQ(quoted.size(), (six ? 40u : 20u) + 8 + 5);
    EXPECT_EQ(quoted.substr(quoted.size() - 5), "worse");
    EXPECT_EQ(heard(sender, 100ms), "nothing");

    say(sender, "worst");
    EXPECT_EQ(heard(sender), prohibited);
    EXPECT_NE(told(10s), "nothing");
    EXPECT_EQ(heard(receiver, 50ms), "nothing");
  }
  EXPECT_EQ(answered(), 6u);
  EXPECT_EQ(attached_->pins().worker("dropped"), 6u);
  expect_conserved(attached_->pins());
}

TEST_P(Rejecting, ADatagramInFragmentsIsAnsweredOnce) {
  attach_here();
  for (const bool six : {false, true}) {
    SCOPED_TRACE(six ? "IPv6" : "IPv4");
    const Fd sender = datagrams(six);
    say(sender, std::string(3000, 'a') + "evil");
    EXPECT_EQ(heard(sender), six ? "EACCES" : "EHOSTUNREACH");
  }
  EXPECT_EQ(attached_->pins().worker("reassembled"), 2u);
  EXPECT_EQ(attached_->pins().worker("dropped"), 6u);
  EXPECT_EQ(answered(), 2u);
  expect_conserved(attached_->pins());
}

TEST_P(Rejecting, WhatIsAuditedIsNotAnswered) {
  attach_here({"--audit"});
  UdpSocket receiver(*host_, "10.9.0.1", kPort);
  Sender(left_port()).send(build(from_left(1000, kPort, "worst")));
  EXPECT_EQ(receiver.receive(5000ms), "worst");
  EXPECT_EQ(attached_->pins().worker("would_drop"), 1u);
  EXPECT_EQ(answered(), 0u);
}

TEST_P(Rejecting, AFloodIsAnsweredNoMoreOftenThanIsAllowed) {
  attach_here();
  Sniffer sniffer(left_port());
  const auto prohibited = [](const Captured& one) {
    return one.frame.size() > 36 && one.frame[12] == 8 && one.frame[13] == 0 && one.frame[23] == 1 &&
           one.frame[34] == 3 && one.frame[35] == 10;
  };
  std::vector<Frame> flood;
  for (std::uint16_t i = 0; i < 4000; ++i)
    flood.push_back(build(from_left(static_cast<std::uint16_t>(2000 + i), kPort, "evil")));
  const auto begin = std::chrono::steady_clock::now();
  Sender(left_port()).send(flood);
  EXPECT_TRUE(eventually([&] { return answered() != 0; }, 10s)) << attached_->pins().summary();
  const std::uint64_t seen = sniffer.drain(300ms, 10s, prohibited).size();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(seen, 50u);
  EXPECT_LE(static_cast<double>(seen), queues() * (50 + 1000 * took.count()));
  EXPECT_EQ(sniffer.lost(), 0u);
  EXPECT_EQ(answered(), seen);
  expect_conserved(attached_->pins());
}

}  // namespace
}  // namespace xdpgpu::lab
