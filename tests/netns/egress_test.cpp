// SPDX-License-Identifier: MIT
//
// tests/netns/egress_test.cpp: connections that follow what the host itself sends: its own go through while
// strays, and whatever nobody asked for, are dropped.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr const char* kStrict = R"({"stage": "conntrack", "on_invalid": "drop"})";
// Nobody may begin anything with the host.
constexpr const char* kOnlyAnswers = R"({"stage": "conntrack", "on_new": "drop", "on_invalid": "drop"})";
const TransferOptions kMegabyte{.bytes = 1 << 20};

class Egress : public OnTheWire {
 protected:
  // A TCP packet from left to the host that no connection has.
  Frame stray(std::uint8_t flags, std::uint16_t port = 7100) const {
    PacketSpec spec = from_left(5000, port, "");
    spec.protocol = kTcp;
    spec.tcp_flags = flags;
    return build(spec);
  }
  void expect_dropped(std::uint8_t flags) {
    const auto before = attached_->pins().worker("dropped");
    Sender(left_port()).send(stray(flags));
    EXPECT_TRUE(eventually([&] { return attached_->pins().worker("dropped") == before + 1; }))
        << "flags " << int{flags} << ": " << attached_->pins().summary();
  }
  bool udp_is_answered(std::uint16_t port) const {
    const UdpSocket server(*left_, "10.9.0.2", port), client(*host_, "10.9.0.1", port);
    client.send_to("10.9.0.2", port, "who is there?");
    const auto asked = server.receive(2000ms);
    if (asked) server.send_to("10.9.0.1", port, "me");
    return asked && client.receive(2000ms) == "me";
  }
};
INSTANTIATE_TEST_SUITE_P(Netns, Egress, kConfigs, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, Egress, kSplit, config_name);

TEST_P(Egress, TheHostsOwnConnectionsGoThroughAndStraysDoNot) {
  attach(inspect_all(kStrict));
  const Pins& pins = attached_->pins();
  EXPECT_EQ(tcp_transfer(*host_, *left_, "10.9.0.2", kMegabyte).problem, "");
  EXPECT_EQ(tcp_transfer(*host_, *left_, "fd09::2", kMegabyte).problem, "");
  EXPECT_EQ(tcp_transfer(*left_, *host_, "10.9.0.1", kMegabyte).problem, "") << "from outside";
  // A datagram each; how many acknowledgements the host sends hangs on how what comes in was put together.
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(udp_is_answered(static_cast<std::uint16_t>(7300 + i)));
  EXPECT_EQ(ping(*host_, "10.9.0.2", {.count = 5}).received, 5U);
  EXPECT_EQ(ping(*host_, "fd09::2", {.count = 5}).received, 5U);
  EXPECT_EQ(pins.worker("dropped"), 0U) << pins.summary();
  EXPECT_GT(pins.worker("egress_seen"), 100U);
  EXPECT_EQ(pins.worker("egress_missed"), 0U);
  for (const int flags : {kSyn | kAck, int{kAck}, kFin | kAck, int{kRst}})
    expect_dropped(static_cast<std::uint8_t>(flags));
  expect_conserved(pins);
  EXPECT_EQ(attached_->detach().status, 0);
  EXPECT_EQ(leftovers(*host_, {host_port().ifname(), host_second().ifname()}), std::vector<std::string>{});
}

TEST_P(Egress, OnlyAnswersComeInWhereNobodyMayBegin) {
  attach(inspect_all(kOnlyAnswers));
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(tcp_connects(*host_, *left_, "10.9.0.2", static_cast<std::uint16_t>(7400 + i))) << i;
  EXPECT_TRUE(udp_is_answered(7301));
  EXPECT_EQ(ping(*host_, "10.9.0.2").received, 3U);
  EXPECT_EQ(attached_->pins().worker("dropped"), 0U) << attached_->pins().summary();
  EXPECT_FALSE(tcp_connects(*left_, *host_, "10.9.0.1", 7500, 300ms));
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 2, .timeout = 100ms}).received, 0U);
  const UdpSocket on_host(*host_, "10.9.0.1", 7501), outside(*left_, "10.9.0.2", 7501);
  outside.send_to("10.9.0.1", 7501, "let me in");
  EXPECT_EQ(on_host.receive(100ms), std::nullopt);
  expect_conserved(attached_->pins());
}

// Both directions come in, and both go out: a router, and a strict one.
TEST_P(Egress, RoutedConnectionsGoThroughUnderStrict) {
  host_->sysctl("ipv4/conf/all/forwarding", "1");
  host_->sysctl("ipv6/conf/all/forwarding", "1");
  left_port().add_route("10.9.1.0/24", "10.9.0.1");
  left_port().add_route("fd09:1::/64", "fd09:0::1");
  right_port().add_route("10.9.0.0/24", "10.9.1.1");
  right_port().add_route("fd09:0::/64", "fd09:1::1");
  for (const bool egress : {true, false}) {
    SCOPED_TRACE(egress);
    attach_both(inspect_all(fmt::format(
        R"({{"stage": "conntrack", "on_invalid": "drop", "loose": false, "egress": {}}})", egress)));
    EXPECT_EQ(tcp_transfer(*left_, *right_, "10.9.1.2", kMegabyte).problem, "");
    EXPECT_EQ(tcp_transfer(*right_, *left_, "10.9.0.2", kMegabyte).problem, "");
    EXPECT_EQ(tcp_transfer(*left_, *right_, "fd09:1::2", kMegabyte).problem, "");
    EXPECT_EQ(ping(*left_, "10.9.1.2").received, 3U);
    for (const std::size_t port : {0, 1}) {
      EXPECT_EQ(attached_->pins(port).worker("dropped"), 0U) << attached_->pins(port).summary();
      EXPECT_EQ(attached_->pins(port).worker("egress_seen") > 0, egress);
      expect_conserved(attached_->pins(port));
    }
    EXPECT_EQ(tcp_connects(*host_, *left_, "10.9.0.2", 7600, 300ms), egress) << "the router's own";
    expect_dropped(kSyn | kAck);
    attached_.reset();
  }
}

class EgressOnce : public OnOneWire {};

// The client's port of the connection to `port` that stands in this namespace; 0: there is none.
std::uint16_t client_of(const Namespace& ns, std::uint16_t port) {
  return ns.run([&]() -> std::uint16_t {
    std::ifstream sockets("/proc/thread-self/net/tcp");
    std::string line;
    std::getline(sockets, line);
    while (std::getline(sockets, line)) {
      unsigned number = 0, local = 0, remote = 0, state = 0;
      if (std::sscanf(line.c_str(), " %u: %*8x:%4x %*8x:%4x %2x", &number, &local, &remote, &state) != 4)
        continue;
      if (local == port && state == 1) return static_cast<std::uint16_t>(remote);
    }
    return 0;
  });
}

// Somebody on the wire says that he is the host: what he sends opens nothing for whom it is for.
TEST_F(EgressOnce, WhoSaysThatHeIsTheHostOpensNothing) {
  for (const char* stage : {kOnlyAnswers, kStrict}) {
    SCOPED_TRACE(stage);
    const bool strict = stage == kStrict;
    attach(inspect_all(stage));
    const Pins& pins = attached_->pins();
    const UdpSocket on_host(*host_, "10.9.0.1", 7801), outside(*left_, "10.9.0.2", 7802);
    PacketSpec forged = from_left(7801, 7802, "from the host");
    forged.src_ip = "10.9.0.1";
    forged.dst_ip = "10.9.0.2";
    Sender(left_port()).send(build(forged));
    forged.protocol = kTcp;
    forged.tcp_flags = kSyn;
    Sender(left_port()).send(build(forged));
    PacketSpec answer = from_left(7802, 7801, "");
    answer.protocol = kTcp;
    answer.tcp_flags = kSyn | kAck;
    answer.tcp_seq = 9;
    const auto passed = [&] { return pins.worker("passed"); };
    const auto decided = [&] { return pins.worker("passed") + pins.worker("dropped"); };
    EXPECT_TRUE(eventually([&] { return decided() >= 2; }));
    const auto before = decided();
    const auto let_in = passed();
    Sender(left_port()).send(build(answer));
    EXPECT_TRUE(eventually([&] { return decided() > before; }));
    EXPECT_EQ(passed(), let_in) << "an answer to what the host has not sent";
    outside.send_to("10.9.0.1", 7801, "let me in");
    EXPECT_EQ(on_host.receive(200ms).has_value(), strict) << "where anybody may begin";
    attached_.reset();
  }
}

// One RST, and a SYN, of somebody who does not know the connection's numbers.
TEST_F(EgressOnce, AForgedRstClosesNoConnection) {
  attach(inspect_all(kStrict));
  const Pins& pins = attached_->pins();
  const auto forge = [&] {
    const std::uint16_t client = client_of(*host_, 7810);
    EXPECT_NE(client, 0);
    const auto dropped = pins.worker("dropped");
    PacketSpec spec = from_left(client, 7810, "");
    spec.protocol = kTcp;
    // Two that are far from each other: one of them at least is outside of any window.
    for (const std::uint32_t number : {0x01234567U, 0x81234567U})
      for (const std::uint8_t flags : {kRst, kSyn}) {
        spec.tcp_seq = number;
        spec.tcp_flags = flags;
        Sender(left_port()).send(build(spec));
      }
    EXPECT_TRUE(eventually([&] { return pins.worker("dropped") >= dropped + 2; })) << pins.summary();
  };
  const auto result =
      tcp_transfer(*left_, *host_, "10.9.0.1", {.bytes = 4 << 20, .port = 7810, .half_way = forge});
  EXPECT_EQ(result.problem, "");
  expect_conserved(pins);
}

// Between policies that want to be shown and those that do not.
TEST_F(EgressOnce, IsPutOnAndTakenOffWithThePolicy) {
  const std::string deaf = inspect_all(R"({"stage": "conntrack", "egress": false})");
  attach(deaf);
  const Pins& pins = attached_->pins();
  EXPECT_EQ(tcp_transfer(*host_, *left_, "10.9.0.2", kMegabyte).problem, "") << "loose";
  EXPECT_EQ(pins.worker("egress_seen"), 0U);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(attached_->apply(inspect_all(kOnlyAnswers)).status, 0);
    EXPECT_TRUE(tcp_connects(*host_, *left_, "10.9.0.2", static_cast<std::uint16_t>(7400 + i)));
    const auto seen = pins.worker("egress_seen");
    EXPECT_GT(seen, 0U);
    EXPECT_EQ(attached_->apply(deaf).status, 0);
    EXPECT_TRUE(tcp_connects(*host_, *left_, "10.9.0.2", static_cast<std::uint16_t>(7450 + i)));
    EXPECT_LE(pins.worker("egress_seen"), seen + 8) << "of the connection before, at most";
  }
  expect_conserved(pins);
}

// A connection that stood before: the host speaks for it.
TEST_F(EgressOnce, ConnectionsFromBeforeGoOn) {
  const std::string pass = policy("");
  attach(pass);
  std::atomic<bool> swapped{false};
  TransferResult result;
  // The policy changes under its first half, and the other half waits for that.
  std::thread transfer([&] {
    const auto half_way = [&] { EXPECT_TRUE(eventually([&] { return swapped.load(); })); };
    result = tcp_transfer(*host_, *left_, "10.9.0.2", {.bytes = 64 << 20, .half_way = half_way});
  });
  EXPECT_TRUE(eventually([&] { return attached_->pins().kernel("received") > 50; }));
  EXPECT_EQ(attached_->apply(inspect_all(kStrict)).status, 0);
  swapped = true;
  transfer.join();
  EXPECT_EQ(result.problem, "");
  EXPECT_GT(attached_->pins().worker("passed"), 50U);
}

// What is killed leaves nothing that the next attach, or detach, does not clear.
TEST_F(EgressOnce, NothingStaysOfAKilledProcess) {
  attach(inspect_all(kStrict));
  const pid_t data_plane = attached_->data_plane();
  attached_->process().signal(SIGKILL);
  EXPECT_TRUE(eventually([&] { return !attached_->process().alive(); }));
  kill(data_plane, SIGKILL);
  EXPECT_TRUE(eventually([&] { return product(*host_, {"detach", host_port().ifname()}).status == 0; }));
}

TEST_F(EgressOnce, AManagementConnectionNeedsNoneOfIt) {
  attach(inspect_all(kOnlyAnswers,
                     R"("management": [{"src": "10.9.0.0/24", "proto": "tcp", "dst_port": 7700}])"));
  EXPECT_EQ(tcp_transfer(*left_, *host_, "10.9.0.1", {.bytes = 1 << 20, .port = 7700}).problem, "");
  EXPECT_FALSE(tcp_connects(*left_, *host_, "10.9.0.1", 7701, 300ms));
}

// A page of one line, to one client after the other.
class WebServer {
 public:
  WebServer(const Namespace& ns, const char* address, std::uint16_t port)
      : listener_(ns.run([] { return socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); })) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    inet_pton(AF_INET, address, &at.sin_addr);
    if (bind(listener_.get(), reinterpret_cast<const sockaddr*>(&at), sizeof(at)) != 0 ||
        listen(listener_.get(), 8) != 0)
      throw Error("cannot serve a page");
    thread_ = std::thread([this] {
      for (;;) {
        const Fd client(accept(listener_.get(), nullptr, nullptr));
        if (!client) return;
        char request[4096];
        if (recv(client.get(), request, sizeof(request), 0) <= 0) continue;
        const std::string answer = "HTTP/1.0 200 OK\r\nContent-Length: 9\r\n\r\nthe page\n";
        send(client.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
      }
    });
  }
  ~WebServer() {
    shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
  }
  WebServer(const WebServer&) = delete;
  WebServer& operator=(const WebServer&) = delete;

 private:
  Fd listener_;
  std::thread thread_;
};

TEST_F(EgressOnce, CurlFetchesAPage) {
  if (access("/usr/bin/curl", X_OK) != 0)
    GTEST_SKIP() << "no /usr/bin/curl here; the tests above connect, too";
  const WebServer server(*left_, "10.9.0.2", 7800);
  attach(inspect_all(kOnlyAnswers));
  const Outcome fetched =
      run_program(*host_, {"/usr/bin/curl", "-s", "-S", "--max-time", "10", "http://10.9.0.2:7800/"});
  EXPECT_EQ(fetched.status, 0) << fetched.err;
  EXPECT_EQ(fetched.out, "the page\n");
  EXPECT_EQ(attached_->pins().worker("dropped"), 0U) << attached_->pins().summary();
}

}  // namespace
}  // namespace xdpgpu::lab
