// SPDX-License-Identifier: MIT
//
// "fragments": "track" in the kernel: the first fragment of a datagram meets the rules with its ports, the
// others get its fate; each order of arrival, what contradicts itself, and a stranger's flood.
#include <bpf/libbpf.h>

#include "maps/fragments.h"
#include "tests/kernel/kernel_test.hpp"
#include "tests/netns/lab.hpp"

namespace xdpgpu::test {
namespace {

const std::string kDns = policy_text(R"("default": "drop", "fragments": "track",
    "rules": [{"match": {"dst_port": 53}, "action": "pass"}, {"match": {"dst_port": 54}, "action": "drop"}])");
// What is dropped is so by a rule, and what no first one is known of passes: "default" tells them apart.
const std::string kOpen = policy_text(R"("fragments": "track",
    "rules": [{"match": {"dst_port": 23}, "action": "drop"}, {"match": {"dst_port": 53}, "action": "pass"}])");

struct Datagram {
  u16 dst_port = 53;
  u32 id = 7;
  std::string src = "192.0.2.1";
  u8 payload = 0x5a;
  std::vector<u16> vlans = {};
  u8 protocol = 17;
};
bool is_v6(const Datagram& d) { return d.src.find(':') != std::string::npos; }

// `bytes` of payload from `offset` on, which is a multiple of 8.
Frame piece(const Datagram& d, u32 offset, const Frame& payload, bool more) {
  if (is_v6(d))
    return ethernet(d.vlans) +
           ipv6({.src = d.src, .next = 44},
                fragment_header(d.protocol, static_cast<u16>(offset | (more ? 1 : 0)), d.id) + payload);
  return ethernet(d.vlans) + ipv4({.src = d.src,
                                   .protocol = d.protocol,
                                   .id = static_cast<u16>(d.id),
                                   .fragment = static_cast<u16>((more ? 0x2000 : 0) | offset / 8)},
                                  payload);
}
Frame first(const Datagram& d) { return piece(d, 0, udp(1000, d.dst_port, 24, 88) + Frame{}, true); }
Frame middle(const Datagram& d) { return piece(d, 32, bytes(32, d.payload), true); }
Frame last(const Datagram& d) { return piece(d, 64, bytes(24, d.payload), false); }
const Datagram kV6{.src = "2001:db8::1"};

class TrackTest : public KernelTest {
 protected:
  std::string run(const Frame& frame) { return program().run(frame).reason; }
  Program& program() {
    if (!program_) program_ = std::make_unique<Program>();
    return *program_;
  }

 private:
  std::unique_ptr<Program> program_;
};

TEST_F(TrackTest, LaterOnesGetTheFateOfTheFirst) {
  program().install(kDns);
  for (const Datagram& d : {Datagram{}, kV6, Datagram{.vlans = {10}}, Datagram{.vlans = {20, 30}}}) {
    SCOPED_TRACE(d.src + " " + std::to_string(d.vlans.size()) + " tags");
    EXPECT_EQ(run(first(d)), "pass_rule") << "by its ports";
    EXPECT_EQ(run(middle(d)), "pass_fragment");
    EXPECT_EQ(run(last(d)), "pass_fragment");
    Datagram other = d;
    other.id = 8, other.dst_port = 54;
    EXPECT_EQ(run(first(other)), "drop_rule");
    EXPECT_EQ(run(middle(other)), "drop_fragment");
    other.id = 9, other.dst_port = 99;
    EXPECT_EQ(run(first(other)), "drop_default");
    EXPECT_EQ(run(last(other)), "drop_fragment");
  }
  EXPECT_EQ(program().rule_counter(0).packets, 12u) << "the rule counts all that it decides";
}

TEST_F(TrackTest, WithoutAKnownFirstOneTheDefaultDecides) {
  program().install(kDns);
  for (const Datagram& d : {Datagram{}, kV6}) {
    EXPECT_EQ(run(last(d)), "drop_default");
    EXPECT_EQ(run(first(d)), "pass_rule");
    EXPECT_EQ(run(middle(d)), "pass_fragment");
  }
  program().install(kOpen);
  EXPECT_EQ(run(last({.id = 1})), "pass_default");
}

TEST_F(TrackTest, AllOfTheKeyCounts) {
  program().install(kDns);
  EXPECT_EQ(run(first({})), "pass_rule");
  EXPECT_EQ(run(middle({.id = 8})), "drop_default");
  EXPECT_EQ(run(middle({.src = "192.0.2.2"})), "drop_default");
  EXPECT_EQ(run(middle({.vlans = {10}})), "drop_default");
  EXPECT_EQ(run(middle({.protocol = 132})), "drop_default");
  EXPECT_EQ(run(middle({})), "pass_fragment");
  EXPECT_EQ(run(first({.vlans = {10, 20}})), "pass_rule");
  EXPECT_EQ(run(middle({.vlans = {10, 21}})), "drop_default");
  EXPECT_EQ(run(middle({.vlans = {11, 20}})), "drop_default");
}

TEST_F(TrackTest, TwoDatagramsInterleaved) {
  program().install(kDns);
  const Datagram in{.id = 1}, out{.dst_port = 54, .id = 2};
  EXPECT_EQ(run(first(in)), "pass_rule");
  EXPECT_EQ(run(first(out)), "drop_rule");
  EXPECT_EQ(run(middle(in)), "pass_fragment");
  EXPECT_EQ(run(middle(out)), "drop_fragment");
  EXPECT_EQ(run(last(out)), "drop_fragment");
  EXPECT_EQ(run(last(in)), "pass_fragment");
}

TEST_F(TrackTest, DuplicatesAreLikeTheirOriginals) {
  program().install(kDns);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(first({})), "pass_rule");
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(middle({})), "pass_fragment");
}

TEST_F(TrackTest, ASecondFirstOneThatDiffersIsMalformed) {
  program().install(kDns);
  for (const Datagram& d : {Datagram{}, kV6}) {
    EXPECT_EQ(run(first(d)), "pass_rule");
    Datagram other = d;
    other.dst_port = 54;
    EXPECT_EQ(run(first(other)), "drop_malformed");
    EXPECT_EQ(run(piece(d, 0, udp(1000, 53, 16, 88), true)), "drop_malformed") << "it is shorter";
    EXPECT_EQ(run(middle(d)), "pass_fragment") << "the first one stays";
    other.id = 8;
    EXPECT_EQ(run(first(other)), "drop_rule");
    other.dst_port = 53;
    EXPECT_EQ(run(first(other)), "drop_malformed") << "nor does the other way lead in";
    EXPECT_EQ(run(middle(other)), "drop_fragment");
  }
}

TEST_F(TrackTest, NothingReachesIntoTheFirstOne) {
  program().install(kDns);
  for (const Datagram& d : {Datagram{}, kV6}) {
    EXPECT_EQ(run(first(d)), "pass_rule");
    EXPECT_EQ(run(piece(d, 8, bytes(16), true)), "drop_malformed");
    EXPECT_EQ(run(piece(d, 24, bytes(64), false)), "drop_malformed");
    EXPECT_EQ(run(piece(d, 32, bytes(8), false)), "pass_fragment");
  }
}

TEST_F(TrackTest, TheTransportHeaderIsWholeInTheFirstOne) {
  program().install(kOpen);
  const Frame header = tcp(1000, 80);
  for (std::string src : {"192.0.2.1", "2001:db8::1"}) {
    const Datagram d{.src = src, .protocol = 6};
    for (const std::size_t bytes : {8u, 16u})
      EXPECT_EQ(run(piece(d, 0, Frame(header.begin(), header.begin() + static_cast<long>(bytes)), true)),
                "drop_malformed");
    const Frame options = tcp(1000, 80, 0x02, 10);
    EXPECT_EQ(run(piece(d, 0, Frame(options.begin(), options.begin() + 24), true)), "drop_malformed");
    EXPECT_EQ(run(piece(d, 0, header + bytes(4), true)), "pass_default");
    EXPECT_EQ(run(piece({.id = 99, .src = src, .protocol = 6}, 8, bytes(16), false)), "drop_malformed")
        << "offset 1 of TCP, of a datagram that is not known";
    EXPECT_EQ(run(piece({.id = 99, .src = src}, 8, bytes(16), false)), "pass_default") << "not of UDP";
  }
  // Extension headers behind the fragment header that are cut (RFC 7112).
  EXPECT_EQ(run(ethernet() + ipv6({.next = 44}, fragment_header(60, 1, 5) + Frame{17, 1} + bytes(6))),
            "drop_malformed");
}

TEST_F(TrackTest, WhatIsMalformedIsCountedByKindAndThePolicysToDecide) {
  const Datagram tcp_datagram{.id = 30, .protocol = 6};
  const std::vector<std::pair<u32, Frame>> kinds{
      {XG_MALFORMED_fragment_first, piece(tcp_datagram, 0, bytes(8), true)},
      {XG_MALFORMED_fragment_flags, piece(tcp_datagram, 8, bytes(16), false)},
      {XG_MALFORMED_fragment_differs, first({.dst_port = 54})},
      {XG_MALFORMED_fragment_differs, piece({}, 8, bytes(16), false)},
  };
  for (const std::string what : {"drop", "pass", "inspect"}) {
    program().install(policy_text(R"("fragments": "track", "malformed": ")" + what + R"(",
        "rules": [{"match": {"dst_port": 53}, "action": "pass"}])"));
    EXPECT_EQ(run(first({})), "pass_rule");
    for (const auto& [kind, frame] : kinds) {
      const u64 before = program().malformed(kind).packets;
      EXPECT_EQ(run(frame), what == "drop" ? "drop_malformed" : "pass_default") << what;
      EXPECT_EQ(program().malformed(kind).packets, before + 1);
    }
    EXPECT_EQ(run(middle({})), "pass_fragment") << "the first one stays";
  }
}

TEST_F(TrackTest, ExtensionHeadersMayStandInTheFirstOne) {
  program().install(kDns);
  const Frame header = fragment_header(60, 1, 5);
  EXPECT_EQ(run(ethernet() + ipv6({.next = 44}, header + extension(17) + udp(1000, 53, 24, 88))),
            "pass_rule");
  EXPECT_EQ(run(ethernet() + ipv6({.next = 44}, fragment_header(60, 40 | 1, 5) + bytes(16))),
            "pass_fragment");
  EXPECT_EQ(run(ethernet() + ipv6({.next = 44}, fragment_header(60, 32 | 1, 5) + bytes(16))),
            "drop_malformed");
}

TEST_F(TrackTest, ByTcpFlags) {
  program().install(policy_text(R"("fragments": "track",
      "rules": [{"match": {"tcp_flags": "syn,!ack", "dst_port": 22}, "action": "drop"}])"));
  const Datagram d{.protocol = 6};
  EXPECT_EQ(run(piece(d, 0, tcp(1000, 22, 0x02) + bytes(4), true)), "drop_rule");
  EXPECT_EQ(run(piece(d, 24, bytes(8), false)), "drop_fragment");
  const Datagram ack{.id = 8, .protocol = 6};
  EXPECT_EQ(run(piece(ack, 0, tcp(1000, 22, 0x10) + bytes(4), true)), "pass_default");
  EXPECT_EQ(run(piece(ack, 24, bytes(8), false)), "pass_fragment");
}

// RFC 6946: such a datagram is whole, and many senders use one identification for all of theirs.
TEST_F(TrackTest, AtomicFragmentsAreDatagramsOfTheirOwn) {
  program().install(kDns);
  const auto atomic = [](u16 port) { return piece(kV6, 0, udp(1000, port, 24), false); };
  EXPECT_EQ(run(atomic(53)), "pass_rule");
  EXPECT_EQ(run(middle(kV6)), "drop_default") << "it takes nobody along";
  EXPECT_EQ(run(atomic(54)), "drop_rule");
  EXPECT_EQ(run(atomic(53)), "pass_rule");
}

TEST_F(TrackTest, LimitsCountTheFirstOneAndBoundWhatItTakesAlong) {
  program().install(policy_text(R"("default": "drop", "fragments": "track", "rules": [
      {"match": {"dst_port": 53}, "limit": {"pps": 1, "burst": 1}}, {"match": {"dst_port": 53}, "action": "pass"}])"));
  EXPECT_EQ(run(first({.id = 1})), "pass_rule");
  EXPECT_EQ(run(first({.id = 2})), "drop_limit");
  EXPECT_EQ(run(middle({.id = 2})), "drop_fragment");
  for (u32 i = 0; i < XG_FRAGMENT_LATER; ++i) ASSERT_EQ(run(middle({.id = 1})), "pass_fragment") << i;
  EXPECT_EQ(run(middle({.id = 1})), "drop_default");
}

TEST_F(TrackTest, ManagementIsToldByItsPorts) {
  program().install(policy_text(R"("default": "drop", "fragments": "track",
      "management": [{"src": "192.0.2.0/24", "proto": "udp", "dst_port": 161}])"));
  EXPECT_EQ(run(first({.dst_port = 161})), "pass_management");
  EXPECT_EQ(run(last({.dst_port = 161})), "pass_fragment");
  EXPECT_EQ(run(first({.dst_port = 53, .id = 8})), "drop_default");
  EXPECT_EQ(run(last({.id = 8})), "drop_fragment");
}

TEST_F(TrackTest, AnEntryOfAnOlderPolicyDoesNotDecide) {
  program().install(kOpen);
  EXPECT_EQ(run(first({})), "pass_rule");
  EXPECT_EQ(run(middle({})), "pass_fragment");
  program().install(kDns);
  EXPECT_EQ(run(middle({})), "drop_default");
  EXPECT_EQ(run(first({.dst_port = 54})), "drop_rule") << "nor does it contradict";
  EXPECT_EQ(run(last({})), "drop_fragment");
}

TEST_F(TrackTest, AuditDropsNothing) {
  auto tables = policy::compile(policy::parse(kDns, "test.json", policy::read_files_of({})).value()).value();
  tables.header.audit = 1;
  program().install(tables);
  EXPECT_EQ(run(first({.dst_port = 54})), "would_drop_rule");
  EXPECT_EQ(run(first({.dst_port = 53})), "would_drop_malformed");
  EXPECT_EQ(run(last({.id = 9})), "would_drop_default");
}

TEST_F(TrackTest, ToAPipelineTheyGoTogetherAndUncached) {
  program().install(policy_text(R"("default": "drop", "fragments": "track", "on_failure": "drop",
      "pipelines": {"a": [{"stage": "l2fwd"}], "b": [{"stage": "l2fwd"}]},
      "rules": [{"match": {"dst_port": 53}, "action": {"inspect": "b"}}, {"action": {"inspect": "a"}}])"));
  program().connect(0, 100);
  const Outcome begins = program().run(first({}));
  ASSERT_EQ(begins.reason, "inspected");
  ASSERT_TRUE(begins.metadata);
  EXPECT_EQ(begins.metadata->pipeline, 1);
  EXPECT_EQ(begins.metadata->flags, XG_PKT_IPV4 | XG_PKT_UDP | XG_PKT_PORTS | XG_PKT_TRACKED);
  const Outcome goes_on = program().run(middle({}));
  ASSERT_EQ(goes_on.reason, "inspected");
  EXPECT_EQ(goes_on.metadata->pipeline, 1);
  EXPECT_EQ(goes_on.metadata->flags, XG_PKT_IPV4 | XG_PKT_FRAGMENT | XG_PKT_LATER_FRAGMENT | XG_PKT_TRACKED);
  EXPECT_EQ(begins.metadata->flow_hash, goes_on.metadata->flow_hash) << "in one order";
  EXPECT_EQ(program().run(last({.id = 9})).reason, "drop_default");
  // A verdict on the flow of whole packets is none on its fragments.
  const Frame whole = ethernet() + ipv4({}, udp(1000, 53, 24));
  program().publish(whole, XG_PASS);
  EXPECT_EQ(program().run(whole).reason, "pass_flow");
  EXPECT_EQ(program().run(first({.id = 10})).reason, "inspected");
}

// The worker reads the metadata of few packets, unless it is told to read those of each.
TEST_F(TrackTest, TheWorkerIsToldOfEachBeforeItCanSeeIt) {
  program().install(policy_text(R"("fragments": "track", "pipelines": {"a": [{"stage": "l2fwd"}]},
      "rules": [{"match": {"dst_port": 53}, "action": {"inspect": "a"}}])"));
  program().connect(0, 20);
  const Frame whole = ethernet() + ipv4({}, udp(1000, 53, 20));
  const auto exceptions = [this] { return program().queue(0).exceptions; };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(run(whole), "inspected");
  EXPECT_EQ(exceptions(), 0u);
  EXPECT_EQ(run(first({.id = 11})), "inspected");
  EXPECT_EQ(exceptions(), 1u);
  EXPECT_EQ(run(middle({.id = 11})), "inspected");
  EXPECT_EQ(run(last({.id = 11})), "inspected");
  EXPECT_EQ(exceptions(), 3u);
  EXPECT_EQ(run(whole), "inspected");
  EXPECT_EQ(run(first({.dst_port = 54, .id = 12})), "pass_default") << "it stays in the kernel";
  EXPECT_EQ(exceptions(), 3u);
  EXPECT_EQ(program().queue(1).exceptions, 0u);
}

TEST_F(TrackTest, WhatTheFirstOneMetWithoutAWorkerTheOthersMeet) {
  program().install(policy_text(R"("default": "drop", "fragments": "track", "on_failure": "pass",
      "pipelines": {"a": [{"stage": "l2fwd"}]}, "rules": [{"match": {"dst_port": 53}, "action": {"inspect": "a"}}])"));
  EXPECT_EQ(run(first({})), "pass_failure");
  EXPECT_EQ(run(middle({})), "pass_fragment");
}

TEST_F(TrackTest, MirrorsSeeTheFirstOne) {
  program().install(policy_text(R"("fragments": "track",
      "pipelines": {"a": [{"stage": "acl", "rules": []}]}, "rules": [{"match": {"dst_port": 53}, "action": {"mirror": "a"}}])"));
  EXPECT_EQ(run(first({})), "pass_default");
  EXPECT_EQ(program().rule_counter(0).packets, 1u);
  EXPECT_EQ(run(middle({})), "pass_fragment");
  EXPECT_EQ(program().rule_counter(0).packets, 1u);
}

TEST_F(TrackTest, AStrangersFloodLeavesOthersTheirs) {
  program().install(kDns);
  const Datagram ours{.id = 77}, ours6{.id = 78, .src = "2001:db8::77"};
  EXPECT_EQ(run(first(ours)), "pass_rule");
  EXPECT_EQ(run(first(ours6)), "pass_rule");
  for (u32 i = 0; i < 20'000; ++i)
    program().run_uncounted(first({.id = i * 7919, .src = i % 2 ? "198.51.100.66" : "2001:db8::66"}));
  EXPECT_EQ(run(middle(ours)), "pass_fragment");
  EXPECT_EQ(run(middle(ours6)), "pass_fragment");
}

// One source, more datagrams at once than it has room for: its oldest give way, nobody else's.
TEST_F(TrackTest, ASourceHasItsBound) {
  program().install(kDns);
  for (u32 i = 0; i < XG_FRAGMENT_OF_SOURCE + 3; ++i) EXPECT_EQ(run(first({.id = i})), "pass_rule");
  for (u32 i = 0; i < 3; ++i) EXPECT_EQ(run(middle({.id = i})), "drop_default") << i;
  for (u32 i = 3; i < XG_FRAGMENT_OF_SOURCE + 3; ++i) EXPECT_EQ(run(middle({.id = i})), "pass_fragment") << i;
}

TEST_F(TrackTest, OnAnotherQueueTheFateIsTheSame) {
  if (auto why = lab::why_unavailable(); !why.empty()) GTEST_SKIP() << why;
  const lab::Namespace ns("queues"), far("far");
  const lab::Veth wire(ns, "xgAq0", far, "xgAq1", {.queues = 2, .mtu = 1500});
  wire.up();
  Program both({.queues = 2});
  both.install(policy_text(R"("default": "drop", "fragments": "track", "on_failure": "drop",
      "pipelines": {"a": [{"stage": "l2fwd"}]},
      "rules": [{"match": {"dst_port": 53}, "action": {"inspect": "a"}}, {"match": {"dst_port": 54}, "action": "pass"}])"));
  const int ifindex = static_cast<int>(wire.a().ifindex());
  ns.run([&] {
    ASSERT_EQ(bpf_xdp_attach(ifindex, both.fd(), 1u << 2 /* XDP_FLAGS_DRV_MODE */, nullptr), 0);
    both.connect(0, 10);
    both.connect(1, 10);
    const auto run = [&](const Frame& frame, u32 queue) {
      return both.run(frame, queue, wire.a().ifindex());
    };
    EXPECT_EQ(run(first({.id = 1}), 0).reason, "inspected");
    const Outcome other = run(middle({.id = 1}), 1);
    EXPECT_EQ(other.reason, "inspected");
    EXPECT_EQ(other.metadata.value_or(xg_metadata{}).sequence, 0u) << "queue 1's own";
    EXPECT_EQ(run(first({.dst_port = 54, .id = 2}), 1).reason, "pass_rule");
    EXPECT_EQ(run(last({.id = 2}), 0).reason, "pass_fragment");
    EXPECT_EQ(run(last({.id = 3}), 1).reason, "drop_default");
    bpf_xdp_detach(ifindex, 0, nullptr);
  });
}

// The table's own rules, with a clock of the test's.
class FragmentTable : public testing::Test {
 protected:
  xg_datagram entry(u32 source, u32 id, u64 now) const {
    xg_datagram made{};
    made.key.src[0] = source;
    made.key.src_port = static_cast<u16>(id);
    made.generation = 1;
    made.noted_ns = now;
    made.end = 32;
    return made;
  }
  u32 note(u32 source, u32 id, u64 now) {
    const xg_datagram made = entry(source, id, now);
    const u32 fate = xg_fragment_first(entries_, &made.key, 1, now, made.header, made.end);
    xg_fragment_decide(entries_, &made.key, 1, now, XG_FATE_PASS, 0);
    return fate;
  }
  u32 later(u32 source, u32 id, u64 now) {
    u16 rule = 0;
    const xg_flow_key key = entry(source, id, now).key;
    return xg_fragment_later(entries_, &key, 1, now, 64, &rule);
  }
  xg_datagram entries_[XG_FRAGMENT_WAYS]{};
  static constexpr u64 kStart = 5'000'000'000;
};

TEST_F(FragmentTable, ForgetsInTime) {
  note(1, 1, kStart);
  EXPECT_EQ(later(1, 1, kStart + XG_FRAGMENT_NS - 1), XG_FATE_PASS);
  EXPECT_EQ(later(1, 1, kStart + XG_FRAGMENT_NS), XG_FATE_UNKNOWN);
  EXPECT_EQ(later(1, 1, kStart - 1000), XG_FATE_PASS) << "a CPU whose clock was read first";
  EXPECT_EQ(note(1, 1, kStart + XG_FRAGMENT_NS), XG_FATE_FIRST) << "the identification comes again";
}

TEST_F(FragmentTable, KnowsNothingAtFirst) {
  EXPECT_EQ(later(0, 0, 0), XG_FATE_UNKNOWN);
  EXPECT_EQ(note(0, 0, 0), XG_FATE_FIRST);
  EXPECT_EQ(later(0, 0, 0), XG_FATE_PASS);
}

TEST_F(FragmentTable, OneOfASourceThatIsFullLeavesOthersInTheBucketTheirs) {
  note(9, 1, kStart);
  for (u32 i = 0; i < 1000; ++i) note(1, i, kStart + 1 + i);
  EXPECT_EQ(later(9, 1, kStart + 2000), XG_FATE_PASS);
  EXPECT_EQ(later(1, 999, kStart + 2000), XG_FATE_PASS);
  EXPECT_EQ(later(1, 1000 - XG_FRAGMENT_OF_SOURCE, kStart + 2000), XG_FATE_PASS);
  EXPECT_EQ(later(1, 1000 - XG_FRAGMENT_OF_SOURCE - 1, kStart + 2000), XG_FATE_UNKNOWN);
}

TEST_F(FragmentTable, WhereManySourcesMeetTheOldestGivesWay) {
  for (u32 i = 0; i < XG_FRAGMENT_WAYS + 1; ++i) note(i, 1, kStart + i);
  EXPECT_EQ(later(0, 1, kStart + 100), XG_FATE_UNKNOWN);
  for (u32 i = 1; i < XG_FRAGMENT_WAYS + 1; ++i) EXPECT_EQ(later(i, 1, kStart + 100), XG_FATE_PASS) << i;
}

}  // namespace
}  // namespace xdpgpu::test
