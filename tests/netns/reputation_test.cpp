// SPDX-License-Identifier: MIT
//
// tests/netns/reputation_test.cpp: the stage `reputation` on the wire: what each list's action did, as the
// other hosts see it, and lists that are edited and applied while traffic flows.
#include <fmt/format.h>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr std::uint16_t kPort = 7000;

// Addresses that nobody has: only the lists know them.
class Reputation : public OnTheWire {
 protected:
  void listen() {
    left_sniffer_.emplace(left_port());
    right_sniffer_.emplace(right_port());
    ipv4_.emplace(*host_, "10.9.0.1", kPort);
    ipv6_.emplace(*host_, "fd09::1", kPort);
  }

  // Packets that came to nothing, by kernel and workers.
  std::uint64_t drops() const {
    std::uint64_t sum = attached_->pins().worker("dropped");
    for (const auto& [reason, packets] : attached_->pins().kernel_counts())
      if (reason.starts_with("drop")) sum += packets;
    return sum;
  }

  // Sends a packet from `source` (without `destination`: to the host) and says where it came out: "drop" if
  // it is counted so, and "nowhere" if nothing becomes of it for long.
  std::string fate(const std::string& source, const std::string& destination = "") {
    const bool six = source.find(':') != std::string::npos;
    PacketSpec spec = from_left(1000, kPort, fmt::format("probe {}", ++probes_));
    spec.src_ip = source;
    spec.dst_ip = !destination.empty() ? destination : six ? "fd09::1" : "10.9.0.1";
    const std::uint64_t before = drops();
    Sender(left_port()).send(build(spec));
    const auto end = std::chrono::steady_clock::now() + 10s;
    while (std::chrono::steady_clock::now() < end) {
      const bool dropped = drops() > before;
      // What is counted so is not to come out after all.
      const auto patience = dropped ? 50ms : 5ms;
      if (!left_sniffer_->take(1, patience, with_payload(spec.payload)).empty()) return "tx";
      if (!right_sniffer_->take(1, patience, with_payload(spec.payload)).empty()) return "redirect";
      if ((six ? *ipv6_ : *ipv4_).receive(patience) == spec.payload) return "pass";
      if (dropped) return "drop";
    }
    return "nowhere";
  }

  std::optional<Sniffer> left_sniffer_, right_sniffer_;
  std::optional<UdpSocket> ipv4_, ipv6_;
  int probes_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Netns, Reputation, kNativeAndGeneric, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, Reputation, kSplit, config_name);

// `of` and default as given; four lists, each with an action of its own.
std::string by_lists(const std::string& of, const std::string& otherwise, const std::string& redirect_to) {
  return inspect_udp(kPort,
                     fmt::format(R"({{"stage": "reputation", "of": "{}", "default": "{}", "lists": [
        {{"list": "@bad", "action": "drop"}}, {{"list": "@back", "action": "tx"}},
        {{"list": "@aside", "action": {{"redirect": "{}"}}}}, {{"list": "@good", "action": "pass"}},
        {{"list": "@ask", "action": "next"}}]}},
        {{"stage": "acl", "rules": [{{"match": {{"src_port": 1000}}, "action": "tx"}}]}})",
                                 of, otherwise, redirect_to),
                     R"("lists": {"bad": ["198.18.0.0/16", "2001:db8:bad::/48", "0.0.0.0/1"],
                   "back": ["198.18.7.0/24", "2001:db8:bad:7::/64"],
                   "aside": ["198.18.7.128/25", "2001:db8:bad:7:8000::/65"],
                   "good": ["10.9.0.2", "fd09::2", "198.18.7.129", "2001:db8:bad:7:8000::1"],
                   "ask": ["198.18.9.9", "10.9.0.1"]})");
}

TEST_P(Reputation, EveryListsActionIsSeenByTheOtherHosts) {
  attach_both(by_lists("src", "drop", host_second().ifname()));
  listen();
  EXPECT_EQ(fate("10.9.0.2"), "pass") << "longer than 0.0.0.0/1";
  EXPECT_EQ(fate("198.18.0.1"), "drop");
  EXPECT_EQ(fate("198.18.7.1"), "tx");
  EXPECT_EQ(fate("198.18.7.130"), "redirect");
  EXPECT_EQ(fate("198.18.9.9"), "tx") << "by the stage behind";
  EXPECT_EQ(fate("198.19.0.1"), "drop") << "in no list";
  EXPECT_EQ(fate("2001:db8:bad::1"), "drop");
  EXPECT_EQ(fate("2001:db8:bad:7::1"), "tx");
  EXPECT_EQ(fate("2001:db8:bad:7:8000::2"), "redirect");
  EXPECT_EQ(fate("fd09::2"), "pass");
  const Pins& pins = attached_->pins();
  EXPECT_EQ(pins.worker("dropped"), 3U);
  EXPECT_EQ(pins.worker("transmitted"), 3U);
  EXPECT_EQ(pins.worker("redirected"), 2U);
  EXPECT_EQ(pins.worker("passed"), 2U);
  expect_conserved(pins);
}

TEST_P(Reputation, LooksAtTheDestinationWhereItIsToldTo) {
  attach_both(by_lists("dst", "drop", host_second().ifname()));
  listen();
  EXPECT_EQ(fate("10.9.0.2"), "tx") << "10.9.0.1 is in \"ask\"";
  EXPECT_EQ(fate("10.9.0.2", "198.18.7.1"), "tx");
  EXPECT_EQ(fate("10.9.0.2", "198.18.7.131"), "redirect");
  EXPECT_EQ(fate("198.18.7.1", "198.18.0.1"), "drop");
  EXPECT_EQ(attached_->apply(by_lists("either", "pass", host_second().ifname())).status, 0);
  EXPECT_EQ(fate("198.18.7.131"), "redirect") << "the source's list counts first";
  EXPECT_EQ(fate("198.19.0.1"), "tx") << "no list has the source, \"ask\" the destination";
  EXPECT_EQ(fate("2001:db8:1::1"), "pass") << "no list has either";
}

// A list file with ten thousand entries is edited and applied, with verdicts cached in the kernel.
TEST_P(Reputation, AnEditedListHoldsFromItsApplicationOn) {
  std::string entries = "# a feed\n";
  for (int i = 0; i < 10'000; ++i) entries += fmt::format("172.{}.{}.0/24\n", 16 + i / 1000, i % 1000 / 4);
  const TemporaryFile list(entries, ".txt");
  const std::string text = inspect_udp(
      kPort, R"({"stage": "reputation", "lists": [{"list": "@feed", "action": "drop"}], "default": "pass",
                 "cache": true})",
      fmt::format(R"("lists": {{"feed": {{"file": "{}"}}}})", list.path()));
  attach(text);
  listen();
  EXPECT_EQ(fate("172.16.0.1"), "drop");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(fate("198.18.0.1"), "pass");
  list.write(entries + "198.18.0.1  # added\n");
  EXPECT_EQ(fate("198.18.0.1"), "pass") << "the file alone changes nothing";
  EXPECT_EQ(attached_->apply(text).status, 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(fate("198.18.0.1"), "drop");
  EXPECT_EQ(fate("172.16.0.1"), "drop");
  list.write("alert ip [198.18.0.2,2001:db8::/32] any -> $HOME_NET any (msg:\"others\"; sid:1;)\n");
  EXPECT_EQ(attached_->apply(text).status, 0);
  EXPECT_EQ(fate("198.18.0.1"), "pass");
  EXPECT_EQ(fate("198.18.0.2"), "drop");
  EXPECT_EQ(fate("2001:db8::9"), "drop");
  list.write("198.18.0.2\nnonsense\n");
  const Outcome refused = attached_->apply(text);
  EXPECT_EQ(refused.status, 2);
  EXPECT_NE(refused.err.find(":2:1: /lists/feed/file: \"nonsense\""), std::string::npos) << refused.err;
  EXPECT_EQ(fate("2001:db8::9"), "drop") << "a refused list changes nothing";
}

}  // namespace
}  // namespace xdpgpu::lab
