// SPDX-License-Identifier: MIT
//
// tests/netns/balance_test.cpp: load balancing on the wire while backends come, drain and go.
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <set>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

using namespace std::chrono_literals;

constexpr std::uint16_t kService = 7000;
constexpr std::size_t kFlows = 48;
const Mac kOne{2, 0, 0, 0, 1, 1}, kTwo{2, 0, 0, 0, 1, 2}, kThree{2, 0, 0, 0, 1, 3};

class Balance : public OnOneWire {
 protected:
  // Backends as {"name": "one", "mac": ...02:00:00:00:01:01, more} by number, in this order.
  std::string balance(const std::vector<std::pair<int, std::string>>& backends,
                      const std::string& more) const {
    constexpr std::array kNames{"", "one", "two", "three"};
    std::string all;
    for (const auto& [number, settings] : backends)
      all += fmt::format(R"({}{{"name": "{}", "mac": "02:00:00:00:01:0{}", "to": "{}"{}}})",
                         all.empty() ? "" : ", ", kNames.at(static_cast<std::size_t>(number)), number,
                         host_second().ifname(), settings);
    return inspect_udp(
        kService,
        fmt::format(R"({{"stage": "load_balance", "algorithm": "maglev", "backends": [{}]{}}})", all, more));
  }

  // Where kFlows flows go, by source port, whose packets are sent once.
  std::map<std::uint16_t, Mac> backends_of(std::uint16_t first_port = 20000) {
    std::vector<Frame> frames;
    for (std::size_t flow = 0; flow < kFlows; ++flow)
      frames.push_back(build(from_left(static_cast<std::uint16_t>(first_port + flow), kService, "x")));
    Sniffer at_right(right_port());
    Sender(left_port()).send_paced(frames, 10000);
    std::map<std::uint16_t, Mac> backends;
    for (const Captured& captured : at_right.take(kFlows, 3000ms, [](const Captured& one) {
           const auto packet = parse(one.frame);
           return packet && packet->protocol == kUdp && packet->dst_port == kService;
         })) {
      const auto packet = parse(captured.frame);
      backends[packet->src_port] = packet->dst;
    }
    EXPECT_EQ(backends.size(), kFlows);
    return backends;
  }
  static std::set<Mac> used(const std::map<std::uint16_t, Mac>& backends) {
    std::set<Mac> macs;
    for (const auto& [port, mac] : backends) macs.insert(mac);
    return macs;
  }
};

TEST_F(Balance, AffinityOutlivesAPolicyWithOtherBackends) {
  const std::string affinity = R"(, "affinity": {"idle": "60s"})";
  attach_both(balance({{1, ""}, {2, ""}}, affinity));
  const auto before = backends_of();
  EXPECT_EQ(used(before), (std::set<Mac>{kOne, kTwo}));
  ASSERT_EQ(attached_->apply(balance({{3, R"(, "weight": 9)"}, {2, R"(, "drain": true)"}, {1, ""}}, affinity))
                .status,
            0);
  EXPECT_EQ(backends_of(), before) << "flows stay, those of the backend that drains as well";
  const auto others = used(backends_of(30000));
  EXPECT_FALSE(others.contains(kTwo)) << "it drains";
  EXPECT_TRUE(others.contains(kThree));
  ASSERT_EQ(attached_->apply(balance({{3, ""}, {1, ""}}, affinity)).status, 0);
  const auto after = backends_of();
  for (const auto& [port, mac] : before) {
    if (mac == kOne) {
      EXPECT_EQ(after.at(port), kOne) << port;
    } else {
      EXPECT_NE(after.at(port), kTwo) << port << ": its backend is gone";
    }
  }
  expect_conserved(attached_->pins());
}

TEST_F(Balance, TheKernelSendsAFlowWhereTheTableDoesAndLetsItComeUpInTime) {
  if (!kernel_at_least(6, 3)) GTEST_SKIP() << "this kernel does not say that veth transmits for XDP";
  const std::string affinity = R"(, "affinity": {"idle": "2s"}, "cache": "1s")";
  attach_both(balance({{1, ""}, {2, ""}}, affinity));
  const Pins& pins = attached_->pins();
  const auto before = backends_of();
  ASSERT_TRUE(eventually([&] { return pins.flows().size() == kFlows; })) << pins.flows().size();
  std::this_thread::sleep_for(50ms);
  EXPECT_EQ(backends_of(), before);
  EXPECT_GT(pins.kernel("redirect_flow"), kFlows / 2) << "the kernel has sent nothing by itself";
  // The kernel deals with the flows for longer than they would be remembered without being seen.
  const auto received = pins.worker("received");
  for (int i = 0; i < 8; ++i) {
    std::this_thread::sleep_for(400ms);
    EXPECT_EQ(backends_of(), before) << i;
  }
  EXPECT_GE(pins.worker("received"), received + kFlows) << "each flow has come up";
  ASSERT_EQ(attached_->apply(balance({{3, R"(, "weight": 9)"}, {1, ""}, {2, ""}}, affinity)).status, 0);
  EXPECT_EQ(backends_of(), before) << "and is known still";
  expect_conserved(pins);
}

TEST_F(Balance, ListedFlowsNameTheirBackends) {
  if (!kernel_at_least(6, 3)) GTEST_SKIP() << "this kernel does not say that veth transmits for XDP";
  const auto policy = balance({{1, ""}, {2, ""}}, R"(, "cache": true)");
  attach_both(policy);
  // Rewrites of odd and even generations stand in different halves of their table.
  for (const bool again : {false, true}) {
    if (again) {
      ASSERT_EQ(attached_->apply(policy).status, 0);
    }
    const auto backends = backends_of();
    ASSERT_TRUE(eventually([&] { return attached_->pins().flows().size() == kFlows; }));
    const Outcome list = product(*host_, {"flows", "list", host_port().ifname(), "-o", "json"});
    ASSERT_EQ(list.status, 0) << list.err;
    const Json listed = Json::parse(list.out);
    ASSERT_EQ(listed.at("flows").size(), kFlows);
    for (const Json& flow : listed.at("flows"))
      EXPECT_EQ(flow.at("backend"),
                backends.at(flow.at("src_port").get<std::uint16_t>()) == kOne ? "one" : "two")
          << flow;
    const Outcome text = product(*host_, {"flows", "list", host_port().ifname()});
    EXPECT_NE(text.out.find("backend one"), std::string::npos) << text.out;
  }
}

// Takes connections on a port of an address.
Fd listener(const Namespace& ns, const std::string& address, std::uint16_t port) {
  return ns.run([&] {
    const bool v6 = address.find(':') != std::string::npos;
    Fd fd(socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const int on = 1;
    setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in6 at6{};
    sockaddr_in at4{};
    at6.sin6_family = AF_INET6;
    at4.sin_family = AF_INET;
    at6.sin6_port = at4.sin_port = htons(port);
    inet_pton(AF_INET6, address.c_str(), &at6.sin6_addr);
    inet_pton(AF_INET, address.c_str(), &at4.sin_addr);
    const auto* at = v6 ? reinterpret_cast<const sockaddr*>(&at6) : reinterpret_cast<const sockaddr*>(&at4);
    if (bind(fd.get(), at, v6 ? sizeof(at6) : sizeof(at4)) != 0 || listen(fd.get(), 4096) != 0)
      throw Error(fmt::format("cannot listen on {} port {}: {}", address, port, std::strerror(errno)));
    return fd;
  });
}

TEST_F(Balance, ABackendThatDoesNotAnswerGetsNoFlowsUntilItDoes) {
  constexpr std::uint16_t kCheck = 7100;
  const std::string more = R"(, "affinity": {"idle": "60s"},
      "health": {"port": 7100, "interval": "100ms", "timeout": "100ms", "fall": 2, "rise": 2})";
  const auto policy = balance({{1, R"(, "address": "10.9.1.2")"}, {2, R"(, "address": "fd09:1::2")"}}, more);
  const Fd one = listener(*right_, "10.9.1.2", kCheck);
  Fd two = listener(*right_, "fd09:1::2", kCheck);
  attach_both(policy);
  const auto is_up = [&](std::size_t backend, bool up) {
    return eventually([&] { return attached_->status().at("health").at(backend).at("up") == up; }, 10s);
  };
  ASSERT_TRUE(is_up(0, true) && is_up(1, true));
  const auto before = backends_of();
  ASSERT_EQ(used(before), (std::set<Mac>{kOne, kTwo}));

  two = Fd();
  ASSERT_TRUE(is_up(1, false));
  EXPECT_TRUE(eventually([&] { return used(backends_of()) == std::set<Mac>{kOne}; })) << "two is down";
  const auto down = attached_->status();
  EXPECT_NE(down.at("health").at(1).at("problem").get<std::string>(), "");
  EXPECT_TRUE(down.at("health").at(0).at("up").get<bool>());
  EXPECT_NE(attached_->process().err().find("backend \"two\" (fd09:1::2 port 7100) is down"),
            std::string::npos)
      << attached_->process().err();
  ASSERT_EQ(attached_->apply(policy).status, 0);
  EXPECT_EQ(used(backends_of(30000)), std::set<Mac>{kOne}) << "what is known outlives a change of policy";

  two = listener(*right_, "fd09:1::2", kCheck);
  ASSERT_TRUE(is_up(1, true));
  EXPECT_TRUE(eventually([&] {
    static std::uint16_t port = 40000;
    return used(backends_of(port = static_cast<std::uint16_t>(port + kFlows))).contains(kTwo);
  })) << "two is up again";
  EXPECT_EQ(used(backends_of()), std::set<Mac>{kOne}) << "flows that have moved stay where they are";
  expect_conserved(attached_->pins());
}

}  // namespace
}  // namespace xdpgpu::lab
