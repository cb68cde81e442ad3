// SPDX-License-Identifier: MIT
//
// tests/netns/reassembly_test.cpp: "fragments": "reassemble" on the wire: a pipeline decides on whole
// datagrams, and each of their fragments goes where they go, as it came.
#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/netns/on_the_wire.hpp"

namespace xdpgpu::lab {
namespace {

constexpr std::uint16_t kIn = 7000, kBack = 7002;
constexpr std::size_t kCut = 1000;

class Reassembly : public OnTheWire {
 protected:
  void SetUp() override {
    OnTheWire::SetUp();
    std::string name = "/tmp/xdpgpu-reassembly-XXXXXX";
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    folder_ = name;
    std::ofstream(folder_ + "/a.rules")
        << "drop udp any any -> any any (msg:\"a worm\"; content:\"WORM-IN-THE-APPLE\"; sid:1;)\n";
  }
  void TearDown() override {
    OnTheWire::TearDown();
    std::filesystem::remove_all(folder_);
  }

  // UDP meets the rules of the file; what comes to kBack is sent back then.
  std::string rules(const std::string& fragments, const std::string& more = "") const {
    return policy(fmt::format(
        R"("default": "drop", "fragments": "{}", "io": {{"heartbeat": "5s"}},
        "rules": [{{"match": {{"proto": "udp"}}, "action": {{"inspect": "p"}}}}],
        "pipelines": {{"p": [{{"stage": "signatures", "rules": ["{}/a.rules"]}},
                            {{"stage": "acl", "rules": [{{"match": {{"dst_port": {}}}, "action": "pass"}}]}},
                            {{"stage": "l2fwd"}}]}},
        "log": {{"outputs": [{{"file": "{}/eve.json"}}], "events": ["alert", "drop"]}}{})",
        fragments, folder_, kIn, folder_, more));
  }
  PacketSpec spec(const std::string& payload, bool v6, std::uint16_t port = kIn) {
    PacketSpec packet = from_left(1000, port, payload);
    packet.ip_id = ++id_;
    if (v6) packet.src_ip = "fd09::2", packet.dst_ip = "fd09::1";
    return packet;
  }
  static std::string text(std::size_t bytes) {
    std::string payload;
    for (std::size_t i = 0; i < bytes; ++i) payload += static_cast<char>('a' + (i * 7 + i / 100) % 26);
    return payload;
  }
  // The words of the rule, on both sides of a fragment's end: UDP's header is in front of the payload.
  static std::string worm() {
    std::string payload = text(2500);
    const std::string words = "WORM-IN-THE-APPLE";
    return payload.replace(kCut - 8 - words.size() / 2, words.size(), words);
  }
  bool counted(const std::string& reason, std::uint64_t count) const {
    return eventually([&] { return attached_->pins().worker(reason) == count; }, 10s);
  }
  // Frames that wait, by the status.
  std::uint64_t waiting() const {
    return attached_->status().at("frames").at("waiting").get<std::uint64_t>();
  }
  std::size_t told(const std::string& type) const {
    std::ifstream stream(folder_ + "/eve.json");
    std::size_t lines = 0;
    for (std::string line; std::getline(stream, line);)
      lines += line.find(fmt::format("\"event_type\":\"{}\"", type)) != std::string::npos;
    return lines;
  }

  std::string folder_;
  std::uint16_t id_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Netns, Reassembly, kConfigs, config_name);
INSTANTIATE_TEST_SUITE_P(Modes, Reassembly, kModes, config_name);

TEST_P(Reassembly, ContentIsFoundAcrossFragments) {
  attach(rules("reassemble"));
  UdpSocket host(*host_, "10.9.0.1", kIn), host6(*host_, "fd09::1", kIn);
  Sender sender(left_port());
  std::uint64_t dropped = 0;
  for (const bool v6 : {false, true}) {
    const auto fragments = build_fragments(spec(worm(), v6), kCut);
    ASSERT_EQ(fragments.size(), 3U);
    sender.send(fragments);
    dropped += fragments.size();
    EXPECT_TRUE(counted("dropped", dropped)) << attached_->pins().summary();
  }
  // In pieces shorter than the words.
  const auto tiny = build_fragments(spec("in WORM-IN-THE-APPLE here", false), 8);
  ASSERT_EQ(tiny.size(), 5U);
  sender.send(tiny);
  dropped += tiny.size();
  EXPECT_TRUE(counted("dropped", dropped)) << attached_->pins().summary();
  EXPECT_EQ(host.receive(100ms), std::nullopt);
  EXPECT_EQ(host6.receive(100ms), std::nullopt);
  EXPECT_EQ(attached_->pins().worker("reassembled"), 3U);
  EXPECT_TRUE(eventually([&] { return told("alert") == 3 && told("drop") == 3; }, 10s)) << "a datagram once";
  std::this_thread::sleep_for(100ms);
  EXPECT_EQ(told("alert"), 3U);
  EXPECT_EQ(told("drop"), 3U);
  EXPECT_EQ(attached_->pins().worker("flows_cached"), 0U);
  expect_conserved(attached_->pins());
}

// What the test above is about: with each fragment looked at by itself, it gets through.
TEST_P(Reassembly, WithoutItContentGetsThrough) {
  attach(rules("track"));
  UdpSocket host(*host_, "10.9.0.1", kIn);
  Sender(left_port()).send(build_fragments(spec(worm(), false), kCut));
  EXPECT_EQ(host.receive(5000ms), worm()) << attached_->pins().summary();
  expect_conserved(attached_->pins());
}

TEST_P(Reassembly, WholeOnesPassByteForByte) {
  attach(rules("reassemble"));
  UdpSocket host(*host_, "10.9.0.1", kIn), host6(*host_, "fd09::1", kIn);
  Sender sender(left_port());
  std::uint64_t passed = 0;
  for (const bool v6 : {false, true})
    for (unsigned round = 0; round < 6; ++round) {
      const std::string payload = text(3500 + round);
      auto fragments = build_fragments(spec(payload, v6), kCut);
      ASSERT_EQ(fragments.size(), 4U);
      for (unsigned i = 0; i < round; ++i) std::next_permutation(fragments.begin() + 1, fragments.end());
      sender.send(fragments);
      passed += fragments.size();
      EXPECT_EQ((v6 ? host6 : host).receive(5000ms), payload) << attached_->pins().summary();
    }
  EXPECT_TRUE(counted("passed", passed)) << attached_->pins().summary();
  EXPECT_EQ(attached_->pins().worker("reassembled"), 12U);
  EXPECT_EQ(waiting(), 0U);
  expect_conserved(attached_->pins());
}

TEST_P(Reassembly, EachIsSentOnAsItCame) {
  attach(rules("reassemble"));
  Sniffer left(left_port());
  auto fragments = build_fragments(spec(text(3500), false, kBack), kCut);
  Sender(left_port()).send(fragments);
  EXPECT_TRUE(counted("transmitted", fragments.size())) << attached_->pins().summary();
  for (Frame& frame : fragments) frame = with_macs_swapped(frame);
  std::sort(fragments.begin(), fragments.end());
  const auto back = left.take(fragments.size(), 5000ms, [&](const Captured& one) {
    return std::find(fragments.begin(), fragments.end(), one.frame) != fragments.end();
  });
  EXPECT_EQ(sorted_frames(back), fragments);
  expect_conserved(attached_->pins());
}

TEST_P(Reassembly, WhatIsNotWholeInTimeIsDropped) {
  attach(rules("reassemble"));
  UdpSocket host(*host_, "10.9.0.1", kIn);
  auto fragments = build_fragments(spec(text(3500), false), kCut);
  fragments.erase(fragments.begin() + 2);
  Sender sender(left_port());
  sender.send(fragments);
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("received") >= 3; }, 5s));
  EXPECT_TRUE(eventually([&] { return waiting() == 3; }, 1500ms)) << attached_->status().dump();
  // Others go on meanwhile.
  sender.send(build(spec("short", false)));
  EXPECT_EQ(host.receive(1000ms), "short") << attached_->pins().summary();
  EXPECT_TRUE(counted("fragments_timed_out", 3)) << attached_->pins().summary();
  EXPECT_TRUE(eventually([&] { return waiting() == 0; }, 1500ms)) << attached_->status().dump();
  EXPECT_EQ(host.receive(100ms), std::nullopt);
  expect_conserved(attached_->pins());
}

TEST_P(Reassembly, WhatOverlapsIsDropped) {
  attach(rules("reassemble"));
  UdpSocket host(*host_, "10.9.0.1", kIn), host6(*host_, "fd09::1", kIn);
  Sender sender(left_port());
  std::uint64_t overlapping = 0;
  for (const bool v6 : {true, false}) {
    const PacketSpec packet = spec(text(3500), v6);
    auto fragments = build_fragments(packet, kCut);
    const Frame other = build_fragments(packet, kCut + 8)[1];  // from byte 1008 on
    sender.send(fragments[0]);
    sender.send(fragments[1]);
    sender.send(other);
    sender.send(fragments[2]);
    sender.send(fragments[3]);
    overlapping += 5;
    EXPECT_TRUE(counted("fragments_overlapping", overlapping)) << attached_->pins().summary();
  }
  EXPECT_EQ(host.receive(100ms), std::nullopt);
  EXPECT_EQ(host6.receive(100ms), std::nullopt);
  EXPECT_EQ(attached_->pins().worker("reassembled"), 0U);
  expect_conserved(attached_->pins());
}

TEST_P(Reassembly, TheFirstBytesStandWhereThePolicySaysSo) {
  attach(rules("reassemble", R"(, "overlapping_fragments": "first")"));
  Sniffer left(left_port());
  const std::string payload = text(3500);
  PacketSpec packet = spec(payload, false, kBack), evil = packet;
  evil.payload = std::string(payload.size(), 'X');
  const auto fragments = build_fragments(packet, kCut);
  const Frame over = build_fragments(evil, kCut + 8)[1];  // bytes 1008 to 2016
  Sender sender(left_port());
  for (const Frame& frame : {fragments[0], fragments[1], over, fragments[2], fragments[3]})
    sender.send(frame);
  EXPECT_TRUE(counted("transmitted", 5)) << attached_->pins().summary();
  // What is sent on of the one that came later has the bytes of the first, and its own where it was the
  // first.
  Frame expected = with_macs_swapped(over);
  std::copy_n(fragments[1].begin() + 34 + 8, 992, expected.begin() + 34);
  EXPECT_EQ(left.take(1, 5000ms, [&](const Captured& one) { return one.frame == expected; }).size(), 1U);
  expect_conserved(attached_->pins());
}

TEST_P(Reassembly, DuplicatesAreDropped) {
  attach(rules("reassemble"));
  UdpSocket host(*host_, "10.9.0.1", kIn);
  const std::string payload = text(3500);
  const auto fragments = build_fragments(spec(payload, false), kCut);
  Sender sender(left_port());
  for (const std::size_t i : {0U, 1U, 0U, 1U, 2U, 3U, 3U}) sender.send(fragments[i]);
  EXPECT_EQ(host.receive(5000ms), payload) << attached_->pins().summary();
  EXPECT_TRUE(counted("fragments_repeated", 3)) << attached_->pins().summary();
  EXPECT_TRUE(counted("passed", 4)) << attached_->pins().summary();
  expect_conserved(attached_->pins());
}

TEST_P(Reassembly, WhatCannotBeShownWholeIsDropped) {
  attach(rules("reassemble"));
  const auto fragments = build_fragments(spec(text(16 * 496), false), 496);
  ASSERT_EQ(fragments.size(), 17U);
  Sender(left_port()).send(fragments);
  EXPECT_TRUE(counted("fragments_too_long", fragments.size())) << attached_->pins().summary();
  expect_conserved(attached_->pins());
}

TEST_P(Reassembly, WhatIsAuditedPasses) {
  attach(rules("reassemble"), {"--audit"});
  UdpSocket host(*host_, "10.9.0.1", kIn);
  auto fragments = build_fragments(spec(text(3500), false), kCut);
  fragments.erase(fragments.begin() + 2);
  Sender(left_port()).send(fragments);
  EXPECT_TRUE(counted("passed", 3)) << attached_->pins().summary();
  expect_conserved(attached_->pins());
}

TEST_P(Reassembly, WhatWaitsAtTheEndIsAccountedFor) {
  attach(rules("reassemble"));
  auto fragments = build_fragments(spec(text(3500), false), kCut);
  fragments.pop_back();
  Sender(left_port()).send(fragments);
  EXPECT_TRUE(eventually([&] { return attached_->pins().worker("received") >= 3; }, 5s));
  const Outcome end = attached_->detach();
  EXPECT_EQ(end.status, 0) << end.out << end.err;
  EXPECT_EQ(attached_->pins().worker("fragments_timed_out"), 3U) << attached_->pins().summary();
  expect_conserved(attached_->pins());
}

}  // namespace
}  // namespace xdpgpu::lab
