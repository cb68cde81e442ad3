// SPDX-License-Identifier: MIT
//
// What a worker tells of its packets: which ones, how much of each, how many, and what it counts in place of
// waiting.
#include "userspace/dataplane/event_log.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstring>
#include <thread>
#include <tuple>
#include <vector>

#include "maps/parse.h"
#include "userspace/dataplane/dns_question.hpp"

namespace xdpgpu::dataplane {
namespace {

constexpr u64 kNow = 10'000'000'000;

// ---- the rate -----------------------------------------------------------------------------------------

TEST(EventLimit, GivesItsRateAndNoMore) {
  EventLimit limit;
  EXPECT_FALSE(limit.take(kNow)) << "nothing was said";
  limit.set(100);
  u32 taken = 0;
  while (limit.take(kNow)) taken++;
  EXPECT_EQ(taken, 100u) << "a second's worth at once";
  for (u64 ms = 1; ms <= 10'000; ms++) taken += limit.take(kNow + ms * 1'000'000);
  EXPECT_NEAR(taken, 1100, 1);
}

TEST(EventLimit, IsForAllThreadsTogether) {
  EventLimit limit;
  limit.set(5000);
  std::atomic<u32> taken{0};
  {
    const auto take_all = [&] {
      for (u32 n = 0; n < 20'000; n++)
        if (limit.take(kNow)) taken++;
    };
    const std::array<std::jthread, 4> threads{std::jthread(take_all), std::jthread(take_all),
                                              std::jthread(take_all), std::jthread(take_all)};
  }
  EXPECT_EQ(taken, 5000u);
}

// ---- a DNS question -----------------------------------------------------------------------------------

// A stranger's message, of any length: in memory that ends where it does, so that a sanitizer sees more.
TEST(DnsQuestion, IsNeverReadBeyondItsMessage) {
  std::vector<u8> whole(300, 1);  // labels of one byte
  std::memset(whole.data(), 0, kDnsHeader);
  whole[5] = 1;
  EXPECT_FALSE(read_dns_question(whole.data(), 300)) << "a name of more than 255 bytes";
  whole[kDnsHeader + 254] = 0;
  const auto question = read_dns_question(whole.data(), 300);
  ASSERT_TRUE(question);
  EXPECT_EQ(question->name_bytes, 255u);
  EXPECT_EQ(question->type, 0x0101u);
  for (u32 bytes = 0; bytes < kDnsHeader + 255 + 4; bytes++) {
    const std::vector<u8> part(whole.begin(), whole.begin() + bytes);
    EXPECT_FALSE(read_dns_question(part.data(), bytes)) << bytes;
  }
  for (u32 length = 64; length < 256; length++) {
    whole[kDnsHeader] = static_cast<u8>(length);
    EXPECT_FALSE(read_dns_question(whole.data(), 300)) << "no label, or compression";
  }
}

// ---- a batch ------------------------------------------------------------------------------------------

class EventLogs : public ::testing::Test {
 protected:
  EventLogs() : region_(64 * XG_CHUNK_SIZE) {
    slot_.descriptors = descriptors_.data();
    slot_.results = results_.data();
    slot_.alerts = alerts_.data();
    slot_.events = programs_.data();
    batch_.slot = &slot_;
    batch_.ports.resize(64);
  }

  void tell(std::vector<EventKind> kinds, u32 per_second = 1000, u32 payload = 0, u32 per_rule = 1000) {
    selection_.tell(kinds, per_second, per_rule, payload);
  }
  u8* frame(u32 at) { return region_.data() + std::size_t{at} * XG_CHUNK_SIZE + XG_FRAME_DATA; }
  // A UDP datagram, received on port 1 for pipeline 2, and what was decided. Returns its place.
  u32 add(u32 action, u16 to_port = 53, const std::vector<u8>& payload = {1, 2, 3}) {
    const u32 at = batch_.count++;
    u8* const bytes = frame(at);
    const auto ip = static_cast<u16>(28 + payload.size());
    const u8 headers[42] = {2,
                            0,
                            0,
                            0,
                            0,
                            1,
                            2,
                            0,
                            0,
                            0,
                            0,
                            2,
                            8,
                            0,
                            0x45,
                            0,
                            static_cast<u8>(ip >> 8),
                            static_cast<u8>(ip),
                            0,
                            0,
                            0,
                            0,
                            64,
                            17,
                            0,
                            0,
                            10,
                            0,
                            0,
                            1,
                            10,
                            0,
                            0,
                            2,
                            0x4e,
                            0x20,
                            static_cast<u8>(to_port >> 8),
                            static_cast<u8>(to_port),
                            0,
                            static_cast<u8>(ip - 20),
                            0,
                            0};
    std::memcpy(bytes, headers, sizeof(headers));
    std::memcpy(bytes + 42, payload.data(), payload.size());
    const auto length = static_cast<u32>(42 + payload.size());
    xg_packet parsed;
    xg_parse(bytes, bytes + length, 1, &parsed);
    xg_metadata metadata{};
    xg_metadata_from(&metadata, &parsed, 0);
    metadata.rx_time_ns = 77 + at;
    metadata.generation = 5;
    metadata.pipeline = 2;
    std::memcpy(bytes - XG_METADATA_SIZE, &metadata, sizeof(metadata));
    descriptors_[at] = {static_cast<u64>(bytes - region_.data()), length, 0};
    results_[at] = {XG_VERDICT(action, 0u, 1u, 4u), 0, 0, 0};
    batch_.ports[at] = 1;
    return at;
  }
  xg_metadata& metadata(u32 at) { return *reinterpret_cast<xg_metadata*>(frame(at) - XG_METADATA_SIZE); }
  void retire(u64 now_ns = kNow) {
    if (log_.finisher().wanted()) log_.finisher().finish(batch_, region_.data());
    log_.tell(batch_, region_.data(), now_ns);
  }
  std::vector<Event> taken() {
    std::vector<Event> events;
    for (const Event* event; (event = log_.oldest()) != nullptr; log_.take()) events.push_back(*event);
    return events;
  }

  static std::vector<u8> query() { return {0, 7, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 'a', 0, 0, 1, 0, 1}; }
  void look_at_dns() {
    const std::vector<u16> pipelines{2};
    const std::vector<std::pair<u16, u16>> ports{{53, 53}};
    selection_.look_at_dns(pipelines, ports, true);
  }

  alignas(64) std::array<xg_descriptor, 64> descriptors_{};
  std::array<xg_result, 64> results_{};
  std::array<xg_alerts, 64> alerts_{};
  std::array<xg_event, 64> programs_{};
  std::vector<u8> region_;
  gpu::Slot slot_{};
  Batch batch_;
  EventSelection selection_;
  EventLog log_{selection_};
};

TEST_F(EventLogs, DropsAreToldWithWhatWasDecided) {
  EXPECT_FALSE(log_.wanted());
  tell({EventKind::drop});
  EXPECT_TRUE(log_.wanted());
  add(XG_PASS);
  const u32 dropped = add(XG_DROP);
  add(XG_TX);
  add(XG_ABORTED);
  results_[dropped].flags = XG_RES_REFUSED;
  retire();
  const auto events = taken();
  ASSERT_EQ(events.size(), 1u);
  const Event& event = events[0];
  EXPECT_EQ(event.kind, EventKind::drop);
  EXPECT_EQ(event.at_ns, 78u);
  EXPECT_EQ(event.generation, 5u);
  EXPECT_EQ(event.verdict, results_[dropped].verdict);
  EXPECT_EQ(event.flags, XG_RES_REFUSED);
  EXPECT_EQ(event.pipeline, 2u);
  EXPECT_EQ(event.port, 1u);
  EXPECT_EQ(event.length, 45u);
  EXPECT_EQ(event.bytes, 45u);
  EXPECT_EQ(std::memcmp(event.packet, frame(dropped), event.bytes), 0);
  EXPECT_EQ(log_.counts(EventKind::drop).told, 1u);
  selection_.tell_nothing();
  retire();
  EXPECT_TRUE(taken().empty());
}

TEST_F(EventLogs, OnlyAsMuchAsIsAskedForIsTaken) {
  tell({EventKind::drop});
  add(XG_DROP, 53, std::vector<u8>(1000, 'x'));
  retire();
  EXPECT_EQ(taken().at(0).bytes, 128u) << "the headers";
  tell({EventKind::drop}, 1000, 100);
  retire();
  EXPECT_EQ(taken().at(0).bytes, 228u);
  EXPECT_EQ(taken().size(), 0u);
  tell({EventKind::drop}, 1000, 60000);
  EXPECT_EQ(selection_.payload(), kMostEventPayload);
  metadata(0).payload_offset = 60000;  // whoever wrote that
  retire();
  const auto events = taken();
  EXPECT_EQ(events.at(0).bytes, 1042u) << "never more than there is";
  metadata(0).payload_offset = 42;
  descriptors_[0].length = 1700;
  retire();
  EXPECT_EQ(taken().at(0).bytes, 128u + 1024u);
}

TEST_F(EventLogs, APacketOfSeveralBuffersIsToldOnceAndWhole) {
  tell({EventKind::drop});
  for (int i = 0; i < 3; i++) add(XG_DROP);
  descriptors_[0].flags = descriptors_[1].flags = XG_DESC_MORE;
  batch_.ports[1] = batch_.ports[2] = Batch::kLaterBuffer;
  retire();
  const auto events = taken();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].length, 3 * 45u);
  ASSERT_EQ(events[0].bytes, 128u);
  for (u32 i = 0; i < 128; i++) EXPECT_EQ(events[0].packet[i], frame(i / 45)[i % 45]) << i;
}

// As of a datagram that was put together: its headers stand in a buffer of their own.
TEST_F(EventLogs, DnsMessagesAreReadAcrossBuffers) {
  tell({EventKind::dns});
  look_at_dns();
  const u32 at = add(XG_PASS, 53, query());
  const u32 length = descriptors_[at].length;
  descriptors_[at].length = 42;
  descriptors_[at].flags = XG_DESC_MORE;
  for (const auto& [from, to, flags] : {std::tuple{42u, 51u, XG_DESC_MORE}, {51u, length, 0u}}) {
    const u32 next = batch_.count++;
    descriptors_[next] = {descriptors_[at].offset + from, to - from, flags};
    batch_.ports[next] = Batch::kLaterBuffer;
  }
  retire();
  const auto events = taken();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].bytes, length);
  EXPECT_EQ(std::memcmp(events[0].packet, frame(at), length), 0);
  descriptors_[at].flags = 0;
  batch_.count = 1;
  retire();
  EXPECT_TRUE(taken().empty()) << "without them there is no question";
}

// What the host sends is decided by nobody, an audited packet passes, and a batch that failed has no results.
TEST_F(EventLogs, WhatIsNotDroppedIsNotTold) {
  tell({EventKind::drop});
  add(XG_DROP);
  batch_.ports[0] = Batch::kEgress | 1;
  retire();
  batch_.ports[0] = 1;
  batch_.audit = true;
  retire();
  batch_.audit = false;
  batch_.outcome = Outcome::device_failed;
  retire();
  EXPECT_TRUE(taken().empty());
  EXPECT_EQ(log_.counts(EventKind::drop).told, 0u);
}

TEST_F(EventLogs, DnsMessagesAreToldWhatBecomesOfThem) {
  tell({EventKind::dns});
  look_at_dns();
  for (const u32 action : {XG_PASS, XG_DROP, XG_TX}) add(action, 53, query());
  add(XG_ABORTED, 53, query());
  add(XG_PASS, 54, query());
  add(XG_PASS, 53, {1, 2, 3});
  metadata(add(XG_PASS, 53, query())).pipeline = 3;
  metadata(add(XG_PASS, 53, query())).flags |= XG_PKT_FRAGMENT;
  metadata(add(XG_PASS, 53, query())).flags |= XG_PKT_MALFORMED;
  metadata(add(XG_PASS, 53, query())).payload_offset = 60000;
  metadata(add(XG_PASS, 53, query())).l4_offset = 60000;
  metadata(add(XG_PASS, 53, query())).pipeline = 60000;
  const u32 answer = add(XG_PASS, 9999, query());
  frame(answer)[35] = 53;
  frame(answer)[34] = 0;
  retire();
  const auto events = taken();
  ASSERT_EQ(events.size(), 4u);
  for (u32 i = 0; i < 4; i++) {
    EXPECT_EQ(events[i].kind, EventKind::dns);
    EXPECT_EQ(events[i].at_ns, 77u + (i < 3 ? i : answer));
  }
  EXPECT_EQ(log_.counts(EventKind::dns).told, 4u);
}

TEST_F(EventLogs, APacketMayBeToldTwice) {
  tell({EventKind::dns, EventKind::drop});
  look_at_dns();
  add(XG_DROP, 53, query());
  retire();
  const auto events = taken();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, EventKind::dns);
  EXPECT_EQ(events[1].kind, EventKind::drop);
}

// While a policy takes another one's place packets go by either.
TEST_F(EventLogs, WhatIsLookedAtForTwoPoliciesIsBoths) {
  look_at_dns();
  const std::vector<u16> pipelines{70};
  const std::vector<std::pair<u16, u16>> ports{{5353, 5354}};
  selection_.look_at_dns(pipelines, ports, false);
  EXPECT_TRUE(selection_.is_dns_pipeline(2) && selection_.is_dns_pipeline(70));
  EXPECT_TRUE(selection_.is_dns_port(53) && selection_.is_dns_port(5353) && selection_.is_dns_port(5354));
  selection_.look_at_dns(pipelines, ports, true);
  EXPECT_FALSE(selection_.is_dns_pipeline(2) || selection_.is_dns_port(53) || selection_.is_dns_port(5355));
  EXPECT_TRUE(selection_.is_dns_pipeline(70) && selection_.is_dns_port(5354));
  const std::vector<std::pair<u16, u16>> all{{0, 65535}};
  selection_.look_at_dns({}, all, true);
  EXPECT_TRUE(selection_.is_dns_port(0) && selection_.is_dns_port(65535));
}

TEST_F(EventLogs, EachKindHasARateOfItsOwn) {
  tell({EventKind::dns, EventKind::drop}, 10);
  look_at_dns();
  for (int i = 0; i < 30; i++) add(XG_DROP, i % 2 ? 53 : 54, query());
  retire();
  EXPECT_EQ(taken().size(), 20u);
  EXPECT_EQ(log_.counts(EventKind::drop).told, 10u);
  EXPECT_EQ(log_.counts(EventKind::drop).over_rate, 20u);
  EXPECT_EQ(log_.counts(EventKind::dns).told, 10u);
  EXPECT_EQ(log_.counts(EventKind::dns).over_rate, 5u);
  retire(kNow + 500'000'000);
  EXPECT_EQ(taken().size(), 10u) << "half a second's worth";
}

TEST_F(EventLogs, RulesThatHoldAreToldEachWithinARateOfItsOwn) {
  tell({EventKind::alert}, 1000, 0, 2);
  const auto alert = [&](u32 action, std::vector<u16> rules, bool more) {
    const u32 at = add(action);
    results_[at].flags = XG_RES_ALERTS;
    alerts_[at] = {};
    alerts_[at].count = static_cast<u16>(rules.size() | (more ? XG_ALERTS_MORE : 0));
    std::copy(rules.begin(), rules.end(), alerts_[at].rules);
  };
  add(XG_DROP);
  alert(XG_DROP, {3, 9}, true);
  alert(XG_PASS, {3}, false);
  alert(XG_PASS, {3, 10}, false);
  alert(XG_PASS, {3}, false);
  retire();
  const auto events = taken();
  ASSERT_EQ(events.size(), 3u);
  const auto rules = [](const Event& event) {
    const u32 count = event.alerts.count & ~XG_ALERTS_MORE;
    return std::vector<u16>(event.alerts.rules, event.alerts.rules + count);
  };
  EXPECT_EQ(rules(events[0]), (std::vector<u16>{3, 9}));
  EXPECT_TRUE(events[0].alerts.count & XG_ALERTS_MORE);
  EXPECT_EQ(XG_VERDICT_ACTION(events[0].verdict), XG_DROP);
  EXPECT_EQ(rules(events[1]), std::vector<u16>{3});
  EXPECT_EQ(rules(events[2]), std::vector<u16>{10}) << "its third 3 is over the rate";
  EXPECT_EQ(log_.counts(EventKind::alert).told, 3u);
  EXPECT_EQ(log_.counts(EventKind::alert).over_rate, 2u);
}

TEST_F(EventLogs, WhatProgramsPutOutIsToldWhateverBecomesOfThePacket) {
  const auto put_out = [&](u32 action, u16 length, u32 asked) {
    const u32 at = add(action);
    results_[at].flags = XG_RES_EVENT;
    programs_[at] = {.map = 3, .length = length, .asked = asked, .reserved = {}, .bytes = {7, 8, 9}};
  };
  add(XG_PASS);
  put_out(XG_PASS, 3, 0);
  put_out(XG_DROP, 0, 40);
  put_out(XG_TX, XG_EVENT_BYTES, 0xfffff);
  // What no program can.
  put_out(XG_PASS, XG_EVENT_BYTES + 1, 0);
  put_out(XG_PASS, 0xffff, 0);
  retire();
  EXPECT_TRUE(taken().empty()) << "nobody asked";
  tell({EventKind::program, EventKind::drop});
  retire();
  const auto events = taken();
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].kind, EventKind::program);
  EXPECT_EQ(events[0].program.map, 3u);
  EXPECT_EQ(events[0].program.length, 3u);
  EXPECT_EQ(events[0].program.bytes[2], 9u);
  EXPECT_EQ(events[0].program.asked, 0u);
  EXPECT_EQ(events[1].kind, EventKind::program) << "before that it is dropped";
  EXPECT_EQ(events[1].program.asked, 40u);
  EXPECT_EQ(events[2].kind, EventKind::drop);
  EXPECT_EQ(events[3].program.asked, 45u) << "never more than came";
  const EventCounts counts = log_.counts(EventKind::program);
  EXPECT_EQ(counts.told, 3u);
  EXPECT_EQ(counts.wrong, 2u);
  EXPECT_EQ(log_.counts(EventKind::drop).wrong, 0u);
}

TEST_F(EventLogs, OfWhatAProgramAsksForThereIsNoMoreThanABound) {
  tell({EventKind::program});
  const u32 at = add(XG_DROP, 53, std::vector<u8>(1'600, 'x'));
  results_[at].flags = XG_RES_EVENT;
  programs_[at] = {.map = 0, .length = 0, .asked = 1'500, .reserved = {}, .bytes = {}};
  retire();
  auto events = taken();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].program.asked, kMostEventPayload);
  EXPECT_EQ(events[0].bytes, kMostEventPayload);
  EXPECT_EQ(std::memcmp(events[0].packet, frame(at), kMostEventPayload), 0);
  // No program is run for a packet of several buffers, and without records there is nothing to tell.
  descriptors_[at].flags = XG_DESC_MORE;
  add(XG_DROP);
  batch_.ports[at + 1] = Batch::kLaterBuffer;
  retire();
  EXPECT_TRUE(taken().empty());
  EXPECT_EQ(log_.counts(EventKind::program).wrong, 1u);
  descriptors_[at].flags = 0;
  slot_.events = nullptr;
  retire();
  EXPECT_TRUE(taken().empty());
}

TEST_F(EventLogs, ProgramsHaveARateOfTheirOwn) {
  tell({EventKind::program, EventKind::drop}, 5);
  for (int i = 0; i < 8; i++) results_[add(XG_DROP)].flags = XG_RES_EVENT;
  retire();
  EXPECT_EQ(taken().size(), 10u);
  EXPECT_EQ(log_.counts(EventKind::program).over_rate, 3u);
  EXPECT_EQ(log_.counts(EventKind::drop).over_rate, 3u);
}

TEST_F(EventLogs, ARulesOwnLimitIsByWhoItIsAbout) {
  tell({EventKind::alert});
  const gpu::AlertLimit once{gpu::AlertLimit::Type::limit, gpu::AlertLimit::Track::by_src, 1, 60};
  const auto rules = std::make_shared<const std::vector<gpu::RuleHead>>(
      std::vector<gpu::RuleHead>{{1, 1, 1, 3, "", "", once}, {1, 2, 1, 3, "", "", {}}});
  // add() makes packets of generation 5, for pipeline 2.
  const auto matches = std::make_shared<RuleMatches>(2, 1);
  selection_.rules().set({{5, {{}, {}, {rules, nullptr, matches}}}}, {});
  const auto alert = [&](u8 src) {
    const u32 at = add(XG_PASS);
    frame(at)[26 + 3] = src;
    results_[at].flags = XG_RES_ALERTS;
    alerts_[at] = {2, {0, 1}, 0, {}};
  };
  for (const u8 src : {u8{1}, u8{2}, u8{1}, u8{1}}) alert(src);
  retire();
  std::vector<u32> told;
  for (const Event& event : taken()) told.push_back(event.alerts.count);
  EXPECT_EQ(told, (std::vector<u32>{2, 2, 1, 1}));
  EXPECT_EQ(log_.counts(EventKind::alert).limited, 2u);
  EXPECT_EQ(log_.counts(EventKind::alert).told, 4u);
  EXPECT_EQ(matches->of(0), 4u);
  // They are counted whether or not somebody wants to be told.
  selection_.tell_nothing();
  EXPECT_FALSE(log_.wanted());
  batch_.count = 0;
  alert(1);
  retire();
  EXPECT_TRUE(taken().empty());
  EXPECT_EQ(matches->of(0), 5u);
  EXPECT_EQ(log_.counts(EventKind::alert).limited, 3u);
}

// ---- what is decided late -------------------------------------------------------------------------------

TEST_F(EventLogs, WhatARuleDropsLateIsDroppedAndTold) {
  tell({EventKind::alert, EventKind::drop});
  gpu::RuleHead drops{1, 1, 1, 3, "", "", {}}, rejects{1, 2, 1, 3, "", "", {}};
  drops.late = true;
  drops.action = gpu::signatures::Action::drop;
  rejects.action = gpu::signatures::Action::reject;
  const auto rules = std::make_shared<const std::vector<gpu::RuleHead>>(std::vector{drops, rejects});
  AlertRules::Pipeline of;
  of.rules = rules;
  of.stage = 3;
  selection_.rules().set({{5, {{}, {}, of}}}, {});
  const auto alert = [&](u32 verdict, u16 rule, u32 flags = 0) {
    const u32 at = add(XG_PASS);
    results_[at].verdict = verdict;
    results_[at].flags = XG_RES_ALERTS | flags;
    alerts_[at] = {1, {rule}, 0, {}};
  };
  const u32 passed = XG_VERDICT(XG_PASS, 0u, 4u, 1u), dropped = XG_VERDICT(XG_DROP, 0u, 3u, 2u);
  const u32 later = XG_VERDICT(XG_DROP, 0u, 4u, 1u), failed = XG_VERDICT(XG_ABORTED, 0u, 0u, 0u);
  alert(passed, 0, XG_RES_EDIT | XG_RES_CACHE);
  alert(dropped, 1, XG_RES_REJECT_RECEIVER);
  alert(later, 0);
  alert(failed, 0);
  const u32 other = add(XG_PASS);
  results_[other].flags = XG_RES_REJECT_SENDER;
  retire();
  EXPECT_EQ(results_[0].verdict, XG_VERDICT(XG_DROP, 0u, 3u, 1u));
  EXPECT_EQ(results_[0].flags, XG_RES_ALERTS) << "nothing of what a later stage wanted done";
  EXPECT_EQ(results_[1].verdict, dropped);
  EXPECT_EQ(results_[1].flags, XG_RES_ALERTS | XG_RES_REJECT_SENDER) << "as the rule says, not the device";
  EXPECT_EQ(results_[2].verdict, XG_VERDICT(XG_DROP, 0u, 3u, 1u)) << "it comes before";
  EXPECT_EQ(results_[3].verdict, failed);
  EXPECT_EQ(results_[other].flags, 0u) << "no device rejects";
  EXPECT_EQ(taken().size(), 6u);
}

TEST_F(EventLogs, WhatADeviceSaysOfRulesIsNotReadBeyondItsRecord) {
  tell({EventKind::alert});
  const u32 at = add(XG_PASS);
  results_[at].flags = XG_RES_ALERTS;
  alerts_[at].count = 0x7fff;
  retire();
  const auto events = taken();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_LE(events[0].alerts.count, XG_MAX_ALERTS);
}

TEST_F(EventLogs, AFullRingIsCountedAndNobodyWaits) {
  tell({EventKind::drop}, 1'000'000);
  for (int i = 0; i < 60; i++) add(XG_DROP);
  for (int i = 0; i < 20; i++) retire();
  EXPECT_EQ(log_.counts(EventKind::drop).told, u64{EventLog::kEvents});
  EXPECT_EQ(log_.counts(EventKind::drop).ring_full, 1200u - EventLog::kEvents);
  EXPECT_EQ(taken().size(), std::size_t{EventLog::kEvents});
  retire();
  EXPECT_EQ(taken().size(), 60u);
}

// One thread tells, another one takes: each event is there whole, once, and in its order.
TEST_F(EventLogs, TwoThreadsShareTheRing) {
  tell({EventKind::drop}, 1'000'000);
  for (int i = 0; i < 50; i++) add(XG_DROP);
  std::atomic<bool> done{false};
  std::thread worker([&] {
    for (int i = 0; i < 400; i++) {
      for (u32 p = 0; p < 50; p++) {
        metadata(p).rx_time_ns++;
        frame(p)[44] = static_cast<u8>(metadata(p).rx_time_ns);
      }
      retire(kNow + static_cast<u64>(i) * 1'000'000);
    }
    done = true;
  });
  u64 seen = 0;
  while (!done || log_.oldest() != nullptr) {
    const Event* event = log_.oldest();
    if (event == nullptr) continue;
    seen++;
    EXPECT_EQ(event->packet[44], static_cast<u8>(event->at_ns));
    log_.take();
  }
  worker.join();
  const EventCounts counts = log_.counts(EventKind::drop);
  EXPECT_EQ(seen, counts.told);
  EXPECT_EQ(counts.told + counts.ring_full + counts.over_rate, 20'000u);
}

}  // namespace
}  // namespace xdpgpu::dataplane
