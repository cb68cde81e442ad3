// SPDX-License-Identifier: MIT
//
// What `conntrack` lets in, told packet by packet: each conversation on every device, in batches of one and
// in one, and by the sequential reference.
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "gpu/stages/conntrack/device.h"
#include "tests/backends/judge.hpp"
#include "tests/backends/targets.hpp"
#include "tests/kernel/frame.hpp"

namespace xdpgpu::tests {
namespace {

using namespace test;
using test::operator+;
using Action = gpu::AclRule::Action;

constexpr u8 kFin = 1, kSyn = 2, kRst = 4, kAck = 16;
constexpr u32 kHostIsn = 0xfffff000, kPeerIsn = 77'000;  // the host's numbers come round
constexpr gpu::CompileOptions kOptions{{0x0123456789abcdef, 0xfedcba9876543210}};

// A packet and what is to become of it. The host is 192.0.2.1:4000, its peer 198.51.100.2:80.
struct Said {
  test::Frame frame;
  bool sent = false;  // by the host, as the egress program shows it
  u32 verdict = XG_PASS;
  u32 ip_length = 0;  // that its header says, where the frame has but the beginning; 0: the frame's
  u64 years_ns = 0;   // later than it would be
};

struct Tcp {
  u8 flags = kAck;
  u32 seq = 1;  // of its sender's, behind the ISN
  u32 ack = 1;  // of the other side's
  u32 bytes = 0;
  u16 window = 1000;
  int scale = -1;
  std::vector<u16> vlans = {};
};

test::Frame tcp_frame(const Tcp& t, bool by_host) {
  const u32 seq = (by_host ? kHostIsn : kPeerIsn) + t.seq;
  const u32 ack = (t.flags & kAck) != 0 ? (by_host ? kPeerIsn : kHostIsn) + t.ack : 0;
  test::Frame options;
  if (t.scale >= 0) options = test::Frame{2, 4, 5, 0xb4, 1, 3, 3, static_cast<u8>(t.scale)};
  const test::Frame segment = be16(by_host ? 4000 : 80) + be16(by_host ? 80 : 4000) + be32(seq) + be32(ack) +
                              test::Frame{static_cast<u8>((5 + options.size() / 4) << 4), t.flags} +
                              be16(t.window) + be32(0) + options + bytes(t.bytes);
  test::Frame frame = ethernet(t.vlans) + ipv4({.src = by_host ? "192.0.2.1" : "198.51.100.2",
                                                .dst = by_host ? "198.51.100.2" : "192.0.2.1",
                                                .protocol = 6},
                                               segment);
  return frame;
}

// By the peer, or by who claims to be; by somebody who claims to be the host; by the host itself.
Said peer(const Tcp& t, u32 verdict = XG_PASS) { return {tcp_frame(t, false), false, verdict}; }
Said forged(const Tcp& t, u32 verdict = XG_PASS) { return {tcp_frame(t, true), false, verdict}; }
Said host(const Tcp& t) { return {tcp_frame(t, true), true, XG_PASS}; }

test::Frame datagram(bool by_host, const std::vector<u16>& vlans = {}) {
  return ethernet(vlans) + ipv4({.src = by_host ? "192.0.2.1" : "198.51.100.2",
                                 .dst = by_host ? "198.51.100.2" : "192.0.2.1",
                                 .protocol = 17},
                                by_host ? udp(4000, 53, 20) : udp(53, 4000, 20));
}

u32 dropped(u32 rule, u32 stage = 1) { return XG_VERDICT(XG_DROP, 0u, stage, rule); }
const u32 kNew = dropped(gpu::kConntrackNew), kInvalid = dropped(gpu::kConntrackInvalid);

gpu::ConntrackSettings tracks(bool fed, Action on_new = Action::next) {
  gpu::ConntrackSettings stage;
  stage.egress = fed;
  stage.on_new = on_new;
  stage.table.entries = 64;
  return stage;
}

class Connections : public testing::TestWithParam<Target> {
 protected:
  static constexpr u64 kTick = 1'000'000;

  Traffic traffic_of(const std::vector<Said>& talk) {
    Traffic traffic{FrameRegion((talk.size() + 1) / 2 * 4096), {}};
    for (u32 i = 0; i < talk.size(); i++) {
      const u64 at = u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA;
      traffic.descriptors.push_back(place(traffic.region, at, talk[i].frame, 0, i));
      u8* const metadata = traffic.region.base() + at - XG_METADATA_SIZE;
      if (talk[i].ip_length != 0) {
        traffic.region.base()[at + 16] = static_cast<u8>(talk[i].ip_length >> 8);
        traffic.region.base()[at + 17] = static_cast<u8>(talk[i].ip_length);
      }
      if (talk[i].sent) metadata[offsetof(xg_metadata, flags) + 1] |= XG_PKT_EGRESS >> 8;
      const u64 now = 3'600'000'000'000 + i * kTick + talk[i].years_ns;
      std::memcpy(metadata + offsetof(xg_metadata, rx_time_ns), &now, sizeof(now));
    }
    return traffic;
  }

  // Tables: as the reference has them in the end.
  void expect_talk(const std::vector<gpu::StageSettings>& stages, const std::vector<Said>& talk) {
    const std::vector<gpu::PipelineSettings> settings{{"p", stages}};
    const Traffic traffic = traffic_of(talk);
    gpu::reference::Judge reference(settings, kOptions);
    const Answers should = answers_of(reference, traffic.region.bytes(), traffic.descriptors, kGeneration);
    for (u32 i = 0; i < talk.size(); i++)
      EXPECT_EQ(should[i].verdict, talk[i].verdict) << "packet " << i << ", by the reference";
    tables_ = reference.tables();

    const auto pipelines = gpu::Pipelines::compile(settings, kOptions);
    ASSERT_TRUE(pipelines) << pipelines.error();
    XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
    auto queue = device->open_queue(GetParam().queue(static_cast<u32>(talk.size()) + 64, 2));
    ASSERT_TRUE(queue) << queue.error();
    for (const u32 batch : {1u, static_cast<u32>(talk.size())}) {
      SCOPED_TRACE(fmt::format("batches of {}", batch));
      ASSERT_TRUE(device->load(kGeneration, *pipelines));
      expect_equal(judge(**queue, traffic.descriptors, batch, kGeneration), should, traffic.descriptors);
      for (u32 table = 0; table < tables_.size(); table++) {
        std::vector<u32> words((*pipelines)->states()[table].words);
        ASSERT_TRUE(device->read_state(kGeneration, table, 0, words));
        EXPECT_EQ(words, tables_[table]) << "table " << table;
      }
      device->unload(kGeneration);
    }
  }

  u32 made(u32 table = 0) const { return tables_[table][2 * XG_TABLE_INSERTED]; }
  // A word of the entries' values.
  std::vector<u32> values(u32 word = 0) const {
    std::vector<u32> all;
    const u32 sets = 8;
    for (u32 way = 0; way < sets * XG_WAYS; way++) {
      const u32 set = XG_TABLE_HEAD + way / XG_WAYS * XG_SET_WORDS;
      if (tables_[0][set + XG_SET_TAGS + way % XG_WAYS] != 0)
        all.push_back(tables_[0][set + XG_SET_HEAD + way % XG_WAYS * XG_ENTRY_WORDS + XG_ENTRY_VALUE + word]);
    }
    return all;
  }
  u32 state() const { return values().empty() ? ~0u : values().front() & 0xff; }

  std::vector<std::vector<u32>> tables_;
};
INSTANTIATE_TEST_SUITE_P(Backends, Connections, testing::ValuesIn(all_targets()), target_name);

std::vector<Said> handshake(u16 window = 1000, int scale = -1) {
  return {host({.flags = kSyn, .seq = 0, .window = window, .scale = scale}),
          peer({.flags = kSyn | kAck, .seq = 0, .window = window, .scale = scale}), host({.window = window})};
}
std::vector<Said> operator+(std::vector<Said> a, const std::vector<Said>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// ---- What is dropped changes nothing -------------------------------------------------------------------

TEST_P(Connections, AForgedSynOfTheHostsOpensNothing) {
  expect_talk({tracks(true, Action::drop)},
              {forged({.flags = kSyn, .seq = 0}, kNew), peer({.flags = kSyn | kAck, .seq = 0}, kInvalid),
               peer({}, kInvalid)});
  EXPECT_EQ(made(), 0u);
}

TEST_P(Connections, AForgedDatagramOfTheHostsOpensNothing) {
  expect_talk(
      {tracks(true, Action::drop)},
      {{datagram(true), false, kNew}, {datagram(false), false, kNew}, {datagram(false), false, kNew}});
  EXPECT_EQ(made(), 0u);
}

// What comes in of what the host has begun is let in, and renews it; what is dropped of it does not.
TEST_P(Connections, AnswersToTheHostComeInWhereNobodyMayBegin) {
  expect_talk(
      {tracks(true, Action::drop)},
      {{datagram(true), true}, {datagram(true), false, kNew}, {datagram(false), false}, {datagram(false)}});
  EXPECT_EQ(made(), 1u);
  expect_talk({tracks(true, Action::drop)},
              handshake() + std::vector<Said>{peer({.bytes = 10}), host({.ack = 11})});
}

TEST_P(Connections, WhatALaterStageDropsOpensNothing) {
  gpu::AclSettings acl;
  acl.rules.resize(1);
  acl.rules[0].protocols = {6};
  acl.rules[0].dst_ports = {{80, 80}};
  acl.rules[0].action = Action::drop;
  for (const bool fed : {false, true}) {
    expect_talk({tracks(fed), acl}, {forged({.flags = kSyn, .seq = 0}, dropped(1, 2)),
                                     peer({.flags = kSyn | kAck, .seq = 0}, kInvalid)});
    EXPECT_EQ(made(), 0u);
  }
}

// The pipeline lets it in; the host, which never sends it, does not own it.
TEST_P(Connections, WhatTheHostWasNotShownToSendIsNotAnswered) {
  expect_talk({tracks(true)},
              {forged({.flags = kSyn, .seq = 0}), peer({.flags = kSyn | kAck, .seq = 0}, kInvalid)});
  EXPECT_NE(values().at(0) & XG_CT_WAITS, 0u);
  // The same where nobody shows what the host sends.
  expect_talk({tracks(false)}, {forged({.flags = kSyn, .seq = 0}), peer({.flags = kSyn | kAck, .seq = 0})});
}

// A router's stack sends on what has come in: the egress program of the other port shows that.
TEST_P(Connections, WhatTheStackForwardsIsAnswered) {
  expect_talk({tracks(true)},
              {forged({.flags = kSyn, .seq = 0}), host({.flags = kSyn, .seq = 0}),
               peer({.flags = kSyn | kAck, .seq = 0}), forged({}), host({}), peer({.bytes = 9})});
}

TEST_P(Connections, AServersAnswerConfirmsItsClient) {
  std::vector<Said> talk{peer({.flags = kSyn, .seq = 0}), host({.flags = kSyn | kAck, .seq = 0}), peer({}),
                         peer({.bytes = 100}), host({.ack = 101})};
  expect_talk({tracks(true)}, talk);
  EXPECT_EQ(state(), XG_CT_OPEN);
  EXPECT_EQ(values().at(0) & XG_CT_UNCONFIRMED, 0u);
  // Also where somebody has claimed to be the host just before, or in between.
  talk.insert(talk.begin(), forged({.flags = kSyn, .seq = 0x5000}));
  expect_talk({tracks(true)}, talk);
  talk.erase(talk.begin());
  talk.insert(talk.begin() + 1, forged({.flags = kSyn, .seq = 0x5000}));
  expect_talk({tracks(true)}, talk);
}

TEST_P(Connections, WhatATableMayHaveDroppedGivesWayFirst) {
  gpu::RateLimitSettings limit;
  limit.per = gpu::RateLimitSettings::Per::flow;
  limit.packets_per_second = limit.burst_packets = 1000;
  auto stage = tracks(false);
  stage.table = {8, gpu::TableSettings::Evict::refuse};
  const auto from = [](u8 last, u8 flags) {
    test::Frame frame = tcp_frame({.flags = flags, .seq = flags == kSyn ? 0u : 1u}, true);
    frame[14 + 15] = last;
    return frame;
  };
  const auto answer = [](u8 last) {
    test::Frame frame = tcp_frame({.flags = kSyn | kAck, .seq = 0}, false);
    frame[14 + 19] = last;
    return frame;
  };
  // One that was answered and went on, and SYNs of more others than there is room for.
  std::vector<Said> talk{{from(1, kSyn)}, {answer(1)}, {from(1, kAck)}};
  for (u8 other = 2; other < 40; other++) talk.push_back({from(other, kSyn)});
  talk.push_back({from(1, kAck)});
  talk.push_back({answer(39)});
  expect_talk({stage, limit}, talk);
  EXPECT_EQ(tables_[0][2 * XG_TABLE_REFUSED], 0u);
  EXPECT_EQ(tables_[0][2 * XG_TABLE_EVICTED], 39u - 8u);
}

// Ticks of 1/64 ns came round after 2^58 ns, 9.1 years: what followed stood before what was known, for ever.
TEST_P(Connections, AreForgottenAfterYears) {
  const u32 fresh = XG_VERDICT(XG_PASS, 0u, 1u, gpu::kConntrackNew);
  constexpr u64 kRound = u64{1} << 58;
  constexpr u64 kYear = 31'556'952'000'000'000;
  auto at = [](bool by_host, u64 years_ns, u32 verdict = XG_PASS) {
    return Said{datagram(by_host), false, verdict, 0, years_ns};
  };
  expect_talk({tracks(false, Action::pass)},
              {at(false, 0, fresh), at(true, 0), at(true, kRound, fresh), at(false, kRound),
               at(false, kRound + kYear / 2, fresh), at(true, kRound + 9 * kYear, fresh),
               at(true, 60 * kYear, fresh), at(false, 60 * kYear), at(false, 136 * kYear, fresh)});

  gpu::RateLimitSettings limit;
  limit.packets_per_second = 1;
  limit.burst_packets = 1;
  limit.table.entries = 64;
  const u32 excess = dropped(0);
  expect_talk({limit}, {at(true, 0), at(true, 0, excess), at(true, kRound), at(true, kRound, excess),
                        at(true, 3 * kRound - kYear), at(true, 3 * kRound - kYear, excess),
                        at(true, 3 * kRound), at(true, 136 * kYear), at(true, 136 * kYear, excess)});
}

// ---- Windows -------------------------------------------------------------------------------------------

TEST_P(Connections, AForgedRstClosesNothing) {
  for (const bool fed : {true, false}) {
    auto talk =
        handshake() + std::vector<Said>{host({.bytes = 500}), peer({.seq = 1, .ack = 501, .bytes = 300})};
    if (!fed)
      for (Said& one : talk) one.sent = false;
    const auto with = [&](const std::vector<Said>& more) { expect_talk({tracks(fed)}, talk + more); };
    with({peer({.flags = kRst, .seq = 0x40000000}, kInvalid), peer({.seq = 301, .ack = 501})});
    EXPECT_EQ(state(), XG_CT_OPEN);
    with({peer({.flags = kRst | kAck, .seq = 301, .ack = 0x40000000})});
    EXPECT_EQ(state(), XG_CT_CLOSED) << "its number is the next one";
    // In the window, but not what the other side waits for: the host asks back (RFC 5961).
    with({peer({.flags = kRst, .seq = 400}), peer({.seq = 301, .ack = 501})});
    EXPECT_EQ(state(), XG_CT_OPEN);
    with({peer({.flags = kRst, .seq = 301}), peer({.seq = 301, .ack = 501}, kInvalid)});
    EXPECT_EQ(state(), XG_CT_CLOSED);
    with({forged({.flags = kRst, .seq = 0x30000000}, kInvalid)});
    EXPECT_EQ(state(), XG_CT_OPEN);
  }
}

TEST_P(Connections, AForgedSynOfAnOpenConnectionGoesByOnInvalid) {
  const std::vector<Said> syns{peer({.flags = kSyn, .seq = 0x40000000}, kInvalid),
                               peer({.flags = kSyn | kAck, .seq = 0x40000000, .ack = 1}, kInvalid),
                               peer({.flags = kSyn, .seq = 1}), peer({.bytes = 1})};
  expect_talk({tracks(true)}, handshake() + syns);
  EXPECT_EQ(state(), XG_CT_OPEN);
}

TEST_P(Connections, AnAnswerAcknowledgesTheHostsSyn) {
  expect_talk({tracks(true)},
              {host({.flags = kSyn, .seq = 0}), peer({.flags = kSyn | kAck, .seq = 0, .ack = 2}, kInvalid),
               peer({.flags = kSyn | kAck, .seq = 0, .ack = 0}, kInvalid),
               peer({.flags = kRst | kAck, .seq = 0, .ack = 0x1000}, kInvalid),
               peer({.flags = kRst, .seq = 0}, kInvalid), peer({.flags = kSyn | kAck, .seq = 0, .ack = 1})});
  EXPECT_EQ(state(), XG_CT_SYN_RECEIVED);
  expect_talk({tracks(true)},
              {host({.flags = kSyn, .seq = 0}), peer({.flags = kRst | kAck, .seq = 0, .ack = 1})});
  EXPECT_EQ(state(), XG_CT_CLOSED) << "refused";
}

TEST_P(Connections, DataStaysWithinTheWindows) {
  // The host is shown by another way than the peer, which may be behind: what is outside goes on, and changes
  // nothing.
  for (const bool fed : {false, true}) {
    const u32 outside = fed ? u32{XG_PASS} : kInvalid;
    auto talk = handshake(1000);
    if (!fed)
      for (Said& one : talk) one.sent = false;
    const auto with = [&](const std::vector<Said>& more) { expect_talk({tracks(fed)}, talk + more); };
    with({peer({.bytes = 1000}), peer({.seq = 1001, .bytes = fed ? 1001u : 1u}, outside)});
    with({peer({.seq = 1, .ack = fed ? 1002u : 2u}, outside)});
    with({peer({.seq = 0u - 1001u}, outside), peer({.seq = 0, .bytes = 1}),
          peer({.seq = 1, .ack = 0u - 70'000u}, outside)});
    with({peer({.flags = kFin | kAck, .seq = 0x50000000}, outside)});
    EXPECT_EQ(state(), XG_CT_OPEN);
  }
}

TEST_P(Connections, WindowsAreScaledWhereBothSidesSayHow) {
  const std::vector<Said> both = handshake(1000, 7);
  expect_talk({tracks(false)}, [&] {
    auto talk = both;
    for (Said& one : talk) one.sent = false;
    return talk + std::vector<Said>{peer({.bytes = 1400}), peer({.seq = 100'000, .bytes = 1400}),
                                    peer({.seq = 128'001, .bytes = 1}, kInvalid)};
  }());
  auto one = handshake(1000, 7);
  one[1] = peer({.flags = kSyn | kAck, .seq = 0});
  for (Said& each : one) each.sent = false;
  expect_talk({tracks(false)},
              one + std::vector<Said>{peer({.bytes = 1000}), peer({.seq = 100'000}, kInvalid)});
}

// What the host sends has the length that its IP header says, however little of it is shown.
TEST_P(Connections, LongPacketsOfTheHostCountWhole) {
  expect_talk({tracks(true)},
              handshake(65'535) +
                  std::vector<Said>{Said{tcp_frame({}, true), true, XG_PASS, 60'040}, peer({.ack = 60'001})});
  EXPECT_EQ(values(1).at(0), kHostIsn + 60'001) << "of the lower address";
}

// Of those that began before anybody looked the windows are not known.
TEST_P(Connections, WhatIsTakenUpInTheMiddleIsNotHeldToWindows) {
  const std::vector<Said> talk{host({}), peer({.seq = 0x10000000}),
                               peer({.seq = 0x20000000, .ack = 0x30000000}),
                               peer({.flags = kRst, .seq = 0x60000000}), peer({.seq = 5})};
  expect_talk({tracks(true)}, talk);
  EXPECT_EQ(state(), XG_CT_OPEN) << "but a RST has to be the right one";
  auto loose = tracks(false);
  loose.loose = true;
  expect_talk({loose}, {forged({}), peer({.seq = 0x10000000}), peer({.seq = 3, .ack = 0x30000000})});
  // The host's numbers are far ahead of what was shown: much of it was missed.
  expect_talk({tracks(true)},
              handshake() + std::vector<Said>{host({.seq = 5'000'000, .bytes = 10}), peer({.ack = 9'000'000}),
                                              peer({.seq = 0x10000000})});
  EXPECT_NE(values().at(0) & XG_CT_LIBERAL, 0u);
}

// Each worker shows the host's SYNs to its own queue: one that does so late may come behind the connection's
// end, and what still follows that comes in.
TEST_P(Connections, ASynThatIsShownLateBeginsNothing) {
  const auto late = [](u64 packets, u32 seq = 0) {
    Said syn = host({.flags = kSyn, .seq = seq});
    syn.years_ns = 0 - packets * kTick;
    return syn;
  };
  for (const bool loose : {false, true}) {
    auto stage = tracks(true, Action::drop);
    stage.loose = loose;
    const auto closed =
        handshake() + std::vector<Said>{host({.flags = kFin | kAck}), peer({.flags = kFin | kAck, .ack = 2})};
    expect_talk({stage},
                closed + std::vector<Said>{late(5), peer({.seq = 2, .ack = 2}), host({.seq = 2, .ack = 2})});
    EXPECT_EQ(state(), XG_CT_TIME_WAIT);
    const std::vector<Said> refused{host({.flags = kSyn, .seq = 0}),
                                    peer({.flags = kRst | kAck, .seq = 0, .ack = 1})};
    expect_talk({stage}, refused + std::vector<Said>{late(2)});
    EXPECT_EQ(state(), XG_CT_CLOSED);
    // The host takes the ports again.
    for (const Said& again : {late(0), late(0, 70'000), late(5, 70'000)}) {
      expect_talk({stage}, closed + std::vector<Said>{again});
      EXPECT_EQ(state(), XG_CT_SYN_SENT);
    }
  }
}

// ---- What has no connection, and whose -----------------------------------------------------------------

TEST_P(Connections, WhatHasNoConnectionGoesByOnUntracked) {
  auto stage = tracks(true, Action::drop);
  stage.on_untracked = Action::drop;
  const u32 untracked = dropped(gpu::kConntrackUntracked);
  const test::Frame timestamp =
      ethernet() + ipv4({.src = "198.51.100.2", .dst = "192.0.2.1", .protocol = 1}, icmp(13, 0) + bytes(12));
  const test::Frame fragment =
      ethernet() +
      ipv4({.src = "198.51.100.2", .dst = "192.0.2.1", .protocol = 17, .fragment = 0x2000}, udp(1, 2, 8));
  const test::Frame not_ip = ethernet() + be16(0x88cc) + bytes(46);
  const std::vector<test::Frame> frames{timestamp, fragment, not_ip};
  std::vector<Said> talk;
  talk.reserve(2 * frames.size());
  for (const auto& frame : frames) talk.push_back({frame, false, untracked});
  for (const auto& frame : frames) talk.push_back({frame, true, XG_PASS});
  expect_talk({stage}, talk);
  stage.on_untracked = Action::next;
  for (Said& one : talk) one.verdict = XG_PASS;
  expect_talk({stage}, talk);
}

TEST_P(Connections, AnAnswerFromAnotherVlanIsNone) {
  const auto in = [](std::vector<u16> vlans, u32 verdict = XG_PASS) {
    return peer({.flags = kSyn | kAck, .seq = 0, .vlans = std::move(vlans)}, verdict);
  };
  for (const bool fed : {false, true}) {
    std::vector<Said> talk{host({.flags = kSyn, .seq = 0, .vlans = {10}}), in({20}, kInvalid),
                           in({}, kInvalid), in({10, 20}, kInvalid), in({10})};
    talk[0].sent = fed;
    expect_talk({tracks(fed)}, talk);
    talk = {host({.flags = kSyn, .seq = 0, .vlans = {10, 20}}), in({10}, kInvalid), in({10, 21}, kInvalid),
            in({20, 10}, kInvalid), in({10, 20})};
    talk[0].sent = fed;
    expect_talk({tracks(fed)}, talk);
  }
  EXPECT_EQ(made(), 1u);
}

// They would share IPv4's keys.
TEST_P(Connections, AddressesThatStandForIpv4AreNone) {
  const test::Frame mapped =
      ethernet() +
      ipv6({.src = "::ffff:198.51.100.2", .dst = "::ffff:192.0.2.1", .next = 17}, udp(53, 4000, 20));
  expect_talk({tracks(true, Action::drop)},
              {{datagram(true), true}, {mapped, false, kInvalid}, {datagram(false)}});
}

}  // namespace
}  // namespace xdpgpu::tests
