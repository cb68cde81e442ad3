// SPDX-License-Identifier: MIT
//
// tests/netns/path_test.cpp: each verdict by way of user space, seen from the other hosts.
#include <fmt/format.h>

#include <algorithm>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

class Path : public OnTheWire {};
INSTANTIATE_TEST_SUITE_P(Netns, Path, kConfigs, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, Path, kModes, config_name);

constexpr const char* kPass = R"({"stage": "acl", "rules": [], "default": "pass"})";
constexpr const char* kDrop = R"({"stage": "acl", "rules": [], "default": "drop"})";
constexpr const char* kBounce = R"({"stage": "l2fwd"})";

// Frames of many lengths and kinds, all UDP to `dst_port`, "seq N" in front of the payload.
std::vector<Frame> assorted(PacketSpec spec, std::size_t count) {
  std::vector<Frame> frames;
  for (std::size_t i = 0; i < count; ++i) {
    spec.vlans = i % 4 == 1   ? std::vector<Vlan>{{static_cast<std::uint16_t>(1 + i % 4000)}}
                 : i % 4 == 3 ? std::vector<Vlan>{{7, 0x88a8}, {static_cast<std::uint16_t>(1 + i % 4000)}}
                              : std::vector<Vlan>{};
    spec.src_ip = i % 3 == 2 ? "fd09::2" : "10.9.0.2";
    spec.dst_ip = i % 3 == 2 ? "fd09::1" : "10.9.0.1";
    spec.src_port = static_cast<std::uint16_t>(1024 + i % 16);
    spec.payload = fmt::format("seq {} ", i) + std::string(i * 37 % 1400, static_cast<char>('a' + i % 26));
    frames.push_back(build(spec));
  }
  return frames;
}

std::vector<Frame> swapped(std::vector<Frame> frames) {
  for (Frame& frame : frames) frame = with_macs_swapped(std::move(frame));
  std::sort(frames.begin(), frames.end());
  return frames;
}

TEST_P(Path, StatusTellsHowTheDeviceIsDriven) {
  attach(inspect_all(kPass));
  const Json status = attached_->status();
  // On the CPU `auto` is inline.
  const std::string mode = GetParam().mode.empty() ? "inline" : GetParam().mode;
  if (device_under_test() == "cpu") {
    EXPECT_EQ(status.at("device").at("mode"), mode);
  }
  EXPECT_EQ(status.at("device").at("auto"), GetParam().mode.empty());
  // What was said decides by itself; what `auto` has chosen has a reason.
  const std::string text = product(*host_, {"status", host_port().ifname()}).out;
  if (GetParam().mode.empty()) {
    const std::string because = status.at("device").at("because");
    if (device_under_test() == "cpu") {
      EXPECT_EQ(because, "a thread that stays would take a second core for each queue");
    } else if (device_under_test().starts_with("cuda")) {
      EXPECT_EQ(status.at("device").at("mode"), "persistent") << "nothing has come yet";
      EXPECT_EQ(because, "it keeps up, and this is the quickest");
    }
    const std::string said =
        fmt::format("mode {} (auto, because {})", status.at("device").at("mode").get<std::string>(), because);
    EXPECT_NE(text.find(said), text.npos) << text;
  } else {
    EXPECT_FALSE(status.at("device").contains("because"));
    EXPECT_EQ(text.find("(auto"), text.npos) << text;
  }
  EXPECT_EQ(status.at("device").at("publishes_flows"), device_under_test().starts_with("cuda"));
  for (const Json& queue : status.at("ports").at(0).at("queues")) {
    EXPECT_EQ(queue.at("compute_mode"), status.at("device").at("mode"));
    EXPECT_EQ(queue.contains("because"), GetParam().mode.empty());
    EXPECT_EQ(queue.at("retire_cpu") >= 0, mode == "split");
  }
}

TEST_P(Path, PassReachesTheStack) {
  Sniffer sent(left_port(), Sniffer::Direction::outgoing);
  attach(inspect_all(kPass));
  for (const char* address : {"10.9.0.1", "fd09::1"}) {
    const PingResult result = ping(*left_, address, {.count = 10, .interval = 2ms});
    EXPECT_EQ(result.received, 10U) << address;
    EXPECT_EQ(result.duplicates, 0U) << address;
  }
  // What the stack answered came by way of user space, not around it. The far end's own stack may have said
  // something meanwhile, too: on a slow host it tells of its multicast groups late.
  const auto passed = attached_->pins().worker("passed");
  EXPECT_GE(passed, 20U);
  EXPECT_LE(passed, sent.drain(50ms).size());
  for (const char* address : {"10.9.0.1", "fd09::1"}) {
    const TransferResult in = tcp_transfer(*left_, *host_, address, {.bytes = 4 << 20});
    EXPECT_TRUE(in.intact) << address << " towards the host: " << in.problem;
  }
  const TransferResult out = tcp_transfer(*host_, *left_, "10.9.0.2", {.bytes = 4 << 20});
  EXPECT_TRUE(out.intact) << "from the host: " << out.problem;
  expect_conserved(attached_->pins());
}

// Both ports inspect what comes in, and the host routes between them.
TEST_P(Path, PassedPacketsAreRouted) {
  host_->sysctl("ipv4/ip_forward", "1");
  host_->sysctl("ipv6/conf/all/forwarding", "1");
  left_port().add_route("10.9.1.0/24", "10.9.0.1");
  left_port().add_route("fd09:1::/64", "fd09:0::1");
  right_port().add_route("10.9.0.0/24", "10.9.1.1");
  right_port().add_route("fd09:0::/64", "fd09:1::1");
  attach_both(inspect_all(kPass));
  for (const char* address : {"10.9.1.2", "fd09:1::2"}) {
    EXPECT_EQ(ping(*left_, address, {.count = 5, .interval = 2ms}).received, 5U) << address;
    const TransferResult result = tcp_transfer(*left_, *right_, address, {.bytes = 2 << 20});
    EXPECT_TRUE(result.intact) << address << ": " << result.problem;
  }
  for (std::size_t port : {0, 1}) {
    EXPECT_GT(attached_->pins(port).worker("passed"), 10U) << "port " << port;
    expect_conserved(attached_->pins(port));
  }
}

TEST_P(Path, PassKeepsVlanTags) {
  const VlanShim host_shim(host_port(), 42), left_shim(left_port(), 42);
  {
    attach(inspect_all(kPass));
    Sniffer leaving(left_port(), Sniffer::Direction::outgoing);
    EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 5, .interval = 2ms}).received, 5U);
    EXPECT_EQ(ping(*left_, "fd09::1", {.count = 5, .interval = 2ms}).received, 5U);
    const auto sent = leaving.drain(50ms);
    ASSERT_GE(sent.size(), 10U);
    for (const Captured& captured : sent) {
      EXPECT_TRUE(captured.tag_in_frame);
      EXPECT_EQ(parse(captured.frame)->vlans, std::vector<Vlan>{{42}});
    }
    const TransferResult result = tcp_transfer(*left_, *host_, "10.9.0.1", {.bytes = 2 << 20});
    EXPECT_TRUE(result.intact) << result.problem;
    EXPECT_GE(attached_->pins().worker("passed"), 10U + (2U << 20) / 1500);
    EXPECT_EQ(attached_->detach().status, 0);
    // The shim's own qdisc stays, nothing of xdpgpu's.
    EXPECT_EQ(leftovers(*host_, {host_port().ifname(), host_second().ifname()}),
              std::vector<std::string>{fmt::format("qdisc {} clsact", host_port().ifname())});
    attached_.reset();
  }
}

// A peer on veth leaves checksums to hardware that does not exist.
TEST_P(Path, PartialChecksumsArriveRight) {
  left_port().feature("tx-checksum-ip-generic", true);
  // Generic XDP sees what the sender's stack made; native XDP on veth switches this off by itself.
  for (const char* offload : {"tx-tcp-segmentation", "tx-tcp6-segmentation", "tx-tcp-ecn-segmentation",
                              "tx-tcp-mangleid-segmentation"})
    left_port().feature(offload, false);
  const std::string stages = fmt::format(
      R"({{"stage": "acl", "rules": [{{"match": {{"proto": "udp", "dst_port": 7001}}, "action": {{"redirect": "{}"}}}},
                                     {{"match": {{"proto": "udp", "dst_port": 7002}}, "action": "tx"}}],
          "default": "pass"}})",
      host_second().ifname());
  attach_both(inspect_all(stages));
  Sniffer right(right_port()), left(left_port());
  for (const bool v6 : {false, true}) {
    const std::string here = v6 ? "fd09::2" : "10.9.0.2", there = v6 ? "fd09::1" : "10.9.0.1";
    UdpSocket receiver(*host_, there, 7000);
    const UdpSocket sender(*left_, here, 0);
    for (int i = 0; i < 20; ++i) sender.send_to(there, 7000, fmt::format("pass {}", i));
    for (int i = 0; i < 20; ++i) EXPECT_EQ(receiver.receive(2000ms), fmt::format("pass {}", i));
    sender.send_to(there, 7001, "redirected");
    sender.send_to(there, 7002, "bounced");
    for (auto* sniffer : {&right, &left}) {
      const char* payload = sniffer == &right ? "redirected" : "bounced";
      const auto seen = sniffer->take(1, 2000ms, with_payload(payload));
      ASSERT_EQ(seen.size(), 1U) << payload << " " << there;
      EXPECT_TRUE(parse(seen[0].frame)->checksums_right) << payload << " " << there;
    }
    const TransferResult result = tcp_transfer(*left_, *host_, there, {.bytes = 2 << 20});
    EXPECT_TRUE(result.intact) << there << ": " << result.problem;
  }
  EXPECT_GE(attached_->pins().worker("checksums_repaired"), 40U);
  const Outcome status = product(*host_, {"status", host_port().ifname()});
  EXPECT_NE(status.out.find("with partial checksums that are sent on are never cached"), std::string::npos)
      << status.out;
  const Outcome json = product(*host_, {"status", host_port().ifname(), "-o", "json"});
  const Json why = Json::parse(json.out).at("never_cached");
  ASSERT_EQ(why.size(), 1U) << why;
  EXPECT_EQ(why[0].at("reason"), "partial_checksums");
  EXPECT_GE(why[0].at("packets").get<std::uint64_t>(), 40U);
}

TEST_P(Path, BounceComesBackSwappedAndOtherwiseByteExact) {
  attach(inspect_udp(7000, kBounce));
  Sniffer left(left_port());
  const auto frames = assorted(from_left(0, 7000, ""), 400);
  Sender(left_port()).send_paced(frames, 20000);
  const auto seen = left.take(frames.size(), 5000ms, udp_to(7000));
  EXPECT_EQ(sorted_frames(seen), swapped(frames));
  EXPECT_TRUE(left.drain(100ms).empty()) << "more came back than was sent";
  EXPECT_EQ(attached_->pins().worker("transmitted"), frames.size());
  expect_conserved(attached_->pins());
}

TEST_P(Path, OneFlowComesBackInOrder) {
  attach(inspect_udp(7000, kBounce));
  Sniffer left(left_port());
  const auto frames = numbered(1000, 7000, 5000);
  // As many at a time as a queue has credits for: whatever else the host and its GPU do, none is shed.
  constexpr std::size_t kTogether = 1000;
  for (std::size_t at = 0; at < frames.size(); at += kTogether) {
    const auto first = frames.begin() + static_cast<std::ptrdiff_t>(at);
    Sender(left_port()).send_paced({first, first + kTogether}, 50000);
    const auto seen = left.take(kTogether, 5000ms, udp_to(7000));
    ASSERT_EQ(seen.size(), kTogether);
    for (std::size_t i = 0; i < kTogether; ++i)
      ASSERT_EQ(seen[i].frame, with_macs_swapped(frames[at + i])) << "frame " << at + i;
  }
}

TEST_P(Path, RedirectArrivesAtTheThirdHostAndNowhereElse) {
  attach_both(inspect_udp(7000, fmt::format(R"({{"stage": "l2fwd", "to": "{}"}})", host_second().ifname())));
  Sniffer left(left_port()), right(right_port());
  UdpSocket on_host(*host_, "10.9.0.1", 7000);
  const auto frames = assorted(from_left(0, 7000, ""), 400);
  Sender(left_port()).send_paced(frames, 20000);
  const auto seen = right.take(frames.size(), 5000ms, udp_to(7000));
  EXPECT_EQ(sorted_frames(seen), swapped(frames));
  EXPECT_TRUE(right.drain(100ms).empty());
  EXPECT_TRUE(left.drain(50ms).empty()) << "something came back to the sender";
  EXPECT_EQ(on_host.receive(50ms), std::nullopt) << "the host's own stack got it too";
  EXPECT_EQ(attached_->pins(0).worker("redirected"), frames.size());
  EXPECT_EQ(attached_->pins(1).kernel("received"), 0U);
  expect_conserved(attached_->pins(0));
}

TEST_P(Path, DropIsSilenceAndSaysWhy) {
  attach_both(inspect_udp(7000, kDrop));
  Sniffer left(left_port()), right(right_port());
  UdpSocket on_host(*host_, "10.9.0.1", 7000), beside(*host_, "10.9.0.1", 7001);
  const auto frames = many_flows(7000, 8, 50);
  Sender sender(left_port());
  sender.send_paced(frames, 20000);
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("dropped") == frames.size(); }))
      << attached_->pins().worker("dropped") << " of " << frames.size() << " counted as dropped";
  EXPECT_EQ(on_host.receive(100ms), std::nullopt);
  EXPECT_TRUE(left.drain(50ms, 10s, udp_to(7000)).empty());
  EXPECT_TRUE(right.drain(50ms, 10s, udp_to(7000)).empty());
  sender.send(build(from_left(1000, 7001, "beside it")));
  EXPECT_EQ(beside.receive(1000ms), "beside it");
  EXPECT_EQ(attached_->pins().kernel("inspected"), frames.size());
  EXPECT_GE(attached_->pins().kernel("pass_default"), 1U);
  expect_conserved(attached_->pins());
}

// In generic mode a reinjected packet must not meet the program again, or it goes round for ever.
TEST_P(Path, TheProgramRunsOnceAPacket) {
  const BpfStatistics statistics;
  attach(inspect_all(kPass));
  const std::uint32_t program = xdp_state(host_port()).program_id;
  const auto runs = program_runs(program), received = attached_->pins().kernel("received");
  Sniffer towards_host(left_port(), Sniffer::Direction::outgoing);
  EXPECT_EQ(ping(*left_, "10.9.0.1", {.count = 20, .interval = 2ms}).received, 20U);
  const auto packets = towards_host.drain(100ms).size();
  EXPECT_GE(packets, 20U);
  EXPECT_EQ(program_runs(program) - runs, packets);
  EXPECT_EQ(attached_->pins().kernel("received") - received, packets);
}

TEST_P(Path, WorkIsSpreadOverTheQueues) {
  attach(inspect_udp(7000, kBounce));
  Sniffer left(left_port());
  const auto frames = many_flows(7000, 64, 10);
  Sender(left_port()).send_paced(frames, 5000);
  EXPECT_EQ(left.take(frames.size(), 5000ms, udp_to(7000)).size(), frames.size());
  // Generic XDP on veth gets all packets as queue 0's: veth notes the queue only for its own NAPI.
  for (std::uint32_t queue = 0; queue < (generic() ? 1 : queues()); ++queue)
    EXPECT_GT(attached_->pins().worker_counts(queue).at("received"), 0U) << "queue " << queue;
}

TEST_P(Path, FragmentsGoWhereThePolicySays) {
  PacketSpec spec = from_left(1000, 7000, std::string(3000, 'f'));
  spec.ip_id = 99;
  const auto fragments = build_fragments(spec, 1000);
  for (const char* what : {"pass", "drop", "inspect"}) {
    attach(inspect_all(kPass, fmt::format(R"("fragments": "{}")", what)));
    UdpSocket on_host(*host_, "10.9.0.1", 7000);
    Sender(left_port()).send(fragments);
    const auto got = on_host.receive(std::string(what) == "drop" ? 150ms : 2000ms);
    EXPECT_EQ(got.value_or(""), std::string(what) == "drop" ? "" : spec.payload) << what;
    const auto counts = attached_->pins().kernel_counts();
    EXPECT_EQ(counts.at("pass_fragment"), std::string(what) == "pass" ? fragments.size() : 0) << what;
    EXPECT_EQ(counts.at("drop_fragment"), std::string(what) == "drop" ? fragments.size() : 0) << what;
    EXPECT_EQ(counts.at("inspected"), std::string(what) == "inspect" ? fragments.size() : 0) << what;
    attached_.reset();
    ++spec.ip_id;
  }
}

}  // namespace
}  // namespace xdpgpu::lab
