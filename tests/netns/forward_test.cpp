// SPDX-License-Identifier: MIT
//
// tests/netns/forward_test.cpp: the stage `forward` on the wire: the host routes between left and right with
// its own forwarding switched off, and what is not for a fast path is answered by its stack.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr std::uint16_t kPort = 7000;

class Forward : public OnTheWire {
 protected:
  // Both neighbours by their host routes. mtu: of the next hop on the right.
  std::string policy(unsigned mtu, bool cache) const {
    const auto hop = [](const Interface& to, const Interface& out) {
      return fmt::format(R"({{"mac": "{}", "src_mac": "{}", "to": "{}")", to_string(to.mac()),
                         to_string(out.mac()), out.ifname());
    };
    return inspect_all(
        fmt::format(R"({{"stage": "forward",
          "next_hops": {{"right": {}, "mtu": {}}}, "left": {}}}}},
          "routes": [{{"prefix": ["10.9.1.2", "fd09:1::2", "10.9.1.128/25"], "next_hop": "right"}},
                     {{"prefix": ["10.9.0.2", "fd09::2"], "next_hop": "left"}},
                     {{"prefix": "10.9.1.192/26", "next_hop": "drop"}}], "cache": {}}})",
                    hop(right_port(), host_second()), mtu, hop(left_port(), host_port()), cache),
        fmt::format(R"("fragments": "{}")", fragments_));
  }
  // The payloads that come to right of `frames`, which begin with "probe", up to a frame that surely does,
  // and a while longer, as other flows may be later.
  std::vector<std::string> come_right(const std::vector<Frame>& frames) const {
    Sniffer right(right_port());
    for (const Frame& frame : frames) Sender(left_port()).send(frame);
    const PacketSpec last = to_right("probe's end");
    Sender(left_port()).send(build(last));
    std::vector<std::string> payloads;
    bool ended = false;
    while (!ended) {
      const auto got = right.take(1, 10s, with_payload("probe"));
      if (got.empty()) break;
      payloads.push_back(parse(got[0].frame)->payload);
      ended = payloads.back() == last.payload;
    }
    EXPECT_TRUE(ended);
    for (const Captured& one : right.drain(50ms, 1s, with_payload("probe")))
      payloads.push_back(parse(one.frame)->payload);
    std::erase(payloads, last.payload);
    return payloads;
  }
  // A count of the host's own IP layer: "InHdrErrors".
  std::uint64_t ip_count(const std::string& name) const {
    return host_->run([&] {
      std::ifstream file("/proc/thread-self/net/snmp");
      std::string names, values;
      std::getline(file, names);
      std::getline(file, values);
      std::istringstream name_words(names), value_words(values);
      std::string word, value;
      while (name_words >> word && value_words >> value)
        if (word == name) return static_cast<std::uint64_t>(std::stoull(value));
      throw Error("no count " + name);
    });
  }
  void add_routes() const {
    left_port().add_route("10.9.1.0/24", "10.9.0.1");
    left_port().add_route("fd09:1::/64", "fd09:0::1");
    right_port().add_route("10.9.0.0/24", "10.9.1.1");
    right_port().add_route("fd09:0::/64", "fd09:1::1");
  }
  PacketSpec to_right(std::string payload, bool six = false) const {
    PacketSpec spec = from_left(1000, kPort, std::move(payload));
    spec.dst_ip = six ? "fd09:1::2" : "10.9.1.2";
    if (six) spec.src_ip = "fd09::2";
    return spec;
  }
  // As it comes out towards right.
  void expect_forwarded(const PacketSpec& sent, const std::vector<Captured>& got) const {
    PacketSpec wanted = sent;
    wanted.src = host_second().mac();
    wanted.dst = right_port().mac();
    wanted.ttl--;
    ASSERT_EQ(got.size(), 1U) << sent.payload;
    EXPECT_EQ(got[0].frame, build(wanted)) << sent.payload;
  }
  // The type of the ICMP or ICMPv6 message that the host sends left about a packet like this one.
  std::optional<std::uint8_t> answer_to(const PacketSpec& spec) const {
    Sniffer sniffer(left_port());
    Sender(left_port()).send(build(spec));
    const bool six = spec.src_ip.find(':') != std::string::npos;
    const auto answers = sniffer.take(1, 2000ms, [&](const Captured& one) {
      const auto parsed = parse(one.frame);
      return parsed && parsed->protocol == (six ? kIcmp6 : kIcmp) &&
             parsed->src_ip == (six ? "fd09::1" : "10.9.0.1") && parsed->dst_ip == spec.src_ip &&
             one.frame[six ? 54 : 34] != 135 && one.frame[six ? 54 : 34] != 136;
    });
    if (answers.empty()) return std::nullopt;
    return answers[0].frame[six ? 54 : 34];
  }
  std::string fragments_ = "inspect";
  // Before Linux 6.3 the kernel program sends nothing out of a veth (cache_test.cpp).
  bool kernel_transmits() const { return generic() || kernel_at_least(6, 3); }
};
INSTANTIATE_TEST_SUITE_P(Netns, Forward, kNativeAndGeneric, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, Forward, kSplit, config_name);

TEST_P(Forward, CarriesPingAndTcpBothWays) {
  add_routes();
  for (const bool cached : {false, true}) {
    SCOPED_TRACE(cached ? "cached" : "not cached");
    attach_both(policy(1500, cached));
    for (const char* address : {"10.9.1.2", "fd09:1::2"}) {
      // Enough for the counts below: what answers a transfer a host that joins segments sends few of.
      EXPECT_EQ(ping(*left_, address, {.count = 20, .interval = 2ms}).received, 20U) << address;
      EXPECT_EQ(
          ping(*right_, *address == '1' ? "10.9.0.2" : "fd09::2", {.count = 20, .interval = 2ms}).received,
          20U);
      const TransferResult result = tcp_transfer(*left_, *right_, address, {.bytes = 2 << 20});
      EXPECT_TRUE(result.intact) << address << ": " << result.problem;
    }
    for (std::size_t port : {0, 1}) {
      const Pins& pins = attached_->pins(port);
      EXPECT_GT(pins.worker("redirected"), cached ? 3U : 100U) << "port " << port;
      if (cached && kernel_transmits()) {
        EXPECT_GT(pins.kernel("redirect_flow"), 30U) << "port " << port;
      }
      expect_conserved(pins);
    }
    attached_.reset();
  }
}

// The same frame from user space as from the kernel, which has the flow's verdict.
TEST_P(Forward, TakesAHopOffEachPacket) {
  for (const bool cached : {false, true}) {
    SCOPED_TRACE(cached ? "cached" : "not cached");
    attach_both(policy(1500, cached));
    Sniffer right(right_port());
    for (const bool six : {false, true})
      for (const bool tagged : {false, true})
        for (const int ttl : {64, 2, 255}) {
          PacketSpec spec = to_right(fmt::format("probe {} {} {}", six, tagged, ttl), six);
          spec.ttl = static_cast<std::uint8_t>(ttl);
          if (tagged) spec.vlans = {{10}};
          Sender(left_port()).send(build(spec));
          expect_forwarded(spec, right.take(1, 2000ms, with_payload(spec.payload)));
          std::this_thread::sleep_for(20ms);  // so that a cached verdict may act
        }
    const Pins& pins = attached_->pins();
    // All but the first ones of four flows; several queues each have a first one.
    const auto by_kernel = pins.kernel("redirect_flow");
    if (cached && kernel_transmits()) {
      EXPECT_GE(by_kernel, 8U / queues());
    } else {
      EXPECT_EQ(by_kernel, 0U);
    }
    EXPECT_EQ(by_kernel + pins.worker("redirected"), 12U);
    attached_.reset();
  }
}

// As traceroute asks: the host's own stack answers, whether the kernel has the flow's verdict or not.
TEST_P(Forward, TheStackAnswersPacketsOnTheirLastHop) {
  constexpr std::uint8_t kTimeExceeded4 = 11, kTimeExceeded6 = 3;
  host_->sysctl("ipv4/ip_forward", "1");
  host_->sysctl("ipv6/conf/all/forwarding", "1");
  attach_both(policy(1500, true));
  Sniffer right(right_port());
  for (const bool six : {false, true}) {
    PacketSpec spec = to_right("reaches it", six);
    for (int i = 0; i < 2; ++i) {
      spec.ttl = 64;
      Sender(left_port()).send(build(spec));
      expect_forwarded(spec, right.take(1, 2000ms, with_payload(spec.payload)));
      spec.ttl = 1;
      EXPECT_EQ(answer_to(spec), six ? kTimeExceeded6 : kTimeExceeded4) << spec.dst_ip << ", time " << i;
    }
  }
  EXPECT_EQ(attached_->pins().worker("passed"), 4U);
  EXPECT_TRUE(right.drain(50ms, 1s, with_payload("reaches it")).empty());
}

// Whether the kernel has the flow's verdict or not, and though the host's own stack forwards: they are
// somebody else's, and were flooded by a switch or sent on purpose.
TEST_P(Forward, TakesOnlyFramesForItsPortsAddress) {
  host_->sysctl("ipv4/ip_forward", "1");
  host_->sysctl("ipv6/conf/all/forwarding", "1");
  for (const bool cached : {false, true}) {
    SCOPED_TRACE(cached ? "cached" : "not cached");
    attach_both(policy(1500, cached));
    std::vector<Frame> foreign;
    for (const bool six : {false, true})
      for (const bool tagged : {false, true}) {
        PacketSpec spec = to_right("probe of its own", six);
        if (tagged) spec.vlans = {{10}};
        EXPECT_EQ(come_right({build(spec)}).size(), 1U);
        std::this_thread::sleep_for(20ms);  // so that a cached verdict may act
        spec.payload = "probe of a stranger's";
        spec.dst = {0x02, 0, 0x5e, 0x12, 0x34, 0x56};
        foreign.push_back(build(spec));
        spec.dst = host_port().mac();
        spec.dst[5] ^= 1;
        foreign.push_back(build(spec));
      }
    EXPECT_EQ(come_right(foreign), std::vector<std::string>{});
    EXPECT_TRUE(eventually([&] { return attached_->pins().worker("passed") == foreign.size(); }));
    expect_conserved(attached_->pins());
    attached_.reset();
  }
}

// RFC 1812 5.2.2. The stack drops it, and counts that.
TEST_P(Forward, SendsOnNoWrongHeaderChecksum) {
  host_->sysctl("ipv4/ip_forward", "1");
  for (const bool cached : {false, true}) {
    SCOPED_TRACE(cached ? "cached" : "not cached");
    attach_both(policy(1500, cached));
    const auto errors = ip_count("InHdrErrors");
    const PacketSpec spec = to_right("probe");
    EXPECT_EQ(come_right({build(spec)}).size(), 1U);
    std::this_thread::sleep_for(20ms);
    std::vector<Frame> wrong(2, build(spec));
    wrong[0][14 + 10] ^= 0x40;  // the checksum itself
    wrong[1][14 + 1] ^= 0x04;   // the type of service
    EXPECT_EQ(come_right(wrong), std::vector<std::string>{});
    EXPECT_TRUE(eventually([&] { return attached_->pins().worker("passed") == wrong.size(); }));
    EXPECT_TRUE(eventually([&] { return ip_count("InHdrErrors") == errors + wrong.size(); }))
        << ip_count("InHdrErrors") - errors;
    attached_.reset();
  }
}

// A later fragment has its first one's result, but comes in a frame of its own.
TEST_P(Forward, FollowedFragmentsAreLookedAtEachForItself) {
  fragments_ = "track";
  attach_both(policy(1500, false));
  Sniffer right(right_port());
  const auto fragments = build_fragments(to_right("fragment " + std::string(1000, 'f')), 400);
  ASSERT_EQ(fragments.size(), 3U);
  std::vector<Frame> sent = fragments;
  sent[1][5] ^= 1;
  sent[2][14 + 10] ^= 0x40;
  for (const Frame& fragment : sent) Sender(left_port()).send(fragment);
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("passed") == 2; }));
  const auto got = right.drain(50ms, 1s, [](const Captured& one) {
    const auto parsed = parse(one.frame);
    return parsed && parsed->fragment;
  });
  EXPECT_EQ(got.size(), 1U);
  EXPECT_EQ(attached_->pins().worker("redirected"), 1U);
}

// The port's address as it is now counts, for what is routed and for what the stack takes.
TEST_P(Forward, FollowsThePortsAddress) {
  attach_both(policy(1500, true));
  const Mac after{0x02, 0, 0x5e, 0x77, 0x66, 0x55};
  PacketSpec old_one = to_right("probe to the old address"), new_one = to_right("probe to the new address");
  new_one.dst = after;
  EXPECT_EQ(come_right({build(old_one), build(new_one)}), std::vector<std::string>{old_one.payload});
  host_port().set_mac(after);
  const UdpSocket host(*host_, "10.9.0.1", kPort);
  Sniffer right(right_port());
  EXPECT_TRUE(eventually(
      [&] {
        Sender(left_port()).send(build(new_one));
        return right.take(1, 100ms, with_payload(new_one.payload)).size() == 1;
      },
      8s))
      << "is routed again";
  Sender(left_port()).send(build(old_one));
  PacketSpec to_host = from_left(1000, kPort, "to the host");
  to_host.dst = after;
  Sender(left_port()).send(build(to_host));
  EXPECT_EQ(host.receive(2000ms), to_host.payload) << "and what is passed reaches the stack";
  EXPECT_TRUE(right.drain(50ms, 1s, with_payload(old_one.payload)).empty());
  EXPECT_NE(attached_->detach().err.find("MAC address 02:00:5e:77:66:55"), std::string::npos);
}

TEST_P(Forward, TheStackAnswersPacketsThatAreTooLong) {
  constexpr std::uint8_t kPacketTooBig = 2;
  host_->sysctl("ipv6/conf/all/forwarding", "1");
  host_second().set_mtu(1400);
  attach_both(policy(1400, true));
  Sniffer right(right_port());
  PacketSpec spec = to_right(std::string(1400 - 48, 'x'), true);
  Sender(left_port()).send(build(spec));
  expect_forwarded(spec, right.take(1, 2000ms, with_payload(spec.payload)));
  std::this_thread::sleep_for(20ms);
  spec.payload += 'x';
  EXPECT_EQ(answer_to(spec), kPacketTooBig);
  EXPECT_TRUE(right.drain(50ms, 1s, with_payload("xxx")).empty());
}

TEST_P(Forward, FragmentsGoOnAndTheRestAsTheRoutesSay) {
  attach_both(policy(1500, true));
  Sniffer right(right_port());
  const UdpSocket host(*host_, "10.9.0.1", kPort);
  PacketSpec spec = to_right("fragment " + std::string(1000, 'f'));
  for (const Frame& fragment : build_fragments(spec, 400)) Sender(left_port()).send(fragment);
  spec.src = host_second().mac();
  spec.dst = right_port().mac();
  spec.ttl--;
  const auto wanted = build_fragments(spec, 400);
  const auto got = right.take(wanted.size(), 2000ms, [&](const Captured& one) {
    const auto parsed = parse(one.frame);
    return parsed && parsed->fragment;
  });
  ASSERT_EQ(got.size(), wanted.size());
  for (std::size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i].frame, wanted[i]) << "fragment " << i;

  PacketSpec other = from_left(1000, kPort, "to the host");  // no route: to the stack
  Sender(left_port()).send(build(other));
  EXPECT_EQ(host.receive(2000ms), other.payload);
  other.dst_ip = "10.9.1.200";
  Sender(left_port()).send(build(other));
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("dropped") == 1; }));
  other.dst_ip = "10.9.1.130";
  other.payload = "by the shorter prefix";
  Sender(left_port()).send(build(other));
  EXPECT_EQ(right.take(1, 2000ms, with_payload(other.payload)).size(), 1U);
  EXPECT_EQ(attached_->pins().worker("flows_cached"), 3U - (kernel_transmits() ? 0 : 1))
      << "the fragments' is none";
  expect_conserved(attached_->pins());
}

}  // namespace
}  // namespace xdpgpu::lab
