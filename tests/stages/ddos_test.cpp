// SPDX-License-Identifier: MIT
//
// `ddos` in the reference against what the settings promise: when alarms begin and end, what is dropped, who
// is named. Devices are held against the reference in tables.cpp.
#include "gpu/stages/ddos/device.h"

#include <fmt/format.h>

#include "tests/backends/judge.hpp"

namespace xdpgpu::tests {
namespace {

using gpu::DdosMetric;
using gpu::DdosSettings;
using OnDetect = gpu::DdosSettings::OnDetect;

constexpr u64 kMs = 1'000'000;
constexpr u64 kBegin = 3'600'000 * kMs;  // a multiple of every window here

struct Sent {
  u32 source = 1;
  u8 protocol = 17;
  u8 tcp_flags = 0x02;
  u16 src_port = 1000;
  u32 target = 1;
};

DdosSettings settings_of(DdosMetric metric, u64 threshold) {
  DdosSettings settings;
  settings.thresholds[static_cast<u32>(metric)] = threshold;
  settings.hold_ms = 5000;
  settings.cache = true;
  return settings;
}

// One stage, packets one after the other.
class Guard {
 public:
  explicit Guard(const DdosSettings& settings) : judge_({{"scrub", {settings}}}) {}

  xg_result at(u64 ms, const Sent& sent) {
    std::vector<u8> frame(14 + 20 + 20);
    const std::vector<u8> head{0x02, 0, 0,    0,    0,    0x0a,          0x02, 0, 0,
                               0,    0, 0x0b, 0x08, 0x00, 0x45,          0,    0, 40,
                               0,    0, 0,    0,    64,   sent.protocol, 0,    0};
    std::copy(head.begin(), head.end(), frame.begin());
    const auto put = [&](u32 at, u32 value) {
      for (u32 i = 0; i < 4; i++) frame[at + i] = static_cast<u8>(value >> (24 - 8 * i));
    };
    put(26, 0x0a000000 | sent.source);
    put(30, 0xc6336400 | sent.target);
    frame[34] = static_cast<u8>(sent.src_port >> 8);
    frame[35] = static_cast<u8>(sent.src_port);
    frame[37] = 80;
    if (sent.protocol == 6) {
      frame[46] = 0x50;
      frame[47] = sent.tcp_flags;
    } else {
      frame[39] = 20;
    }
    const Traffic traffic = single_frame(frame, 0);
    const u64 time_ns = kBegin + ms * kMs;
    std::memcpy(traffic.region.base() + traffic.descriptors[0].offset - XG_METADATA_SIZE +
                    offsetof(xg_metadata, rx_time_ns),
                &time_ns, sizeof(time_ns));
    xg_result result{};
    judge_.decide(traffic.region.bytes(), traffic.descriptors, kGeneration, {&result, 1});
    return result;
  }
  bool drops(u64 ms, const Sent& sent) { return XG_VERDICT_ACTION(at(ms, sent).verdict) == XG_DROP; }
  // The first of so many packets, a millisecond apart, that is dropped; `packets`: none.
  u32 first_drop(u64 ms, u32 packets, const Sent& sent) {
    for (u32 i = 0; i < packets; i++)
      if (drops(ms + i, sent)) return i;
    return packets;
  }
  // Word of the only target's record.
  u32 word(u32 at) const {
    const auto words = judge_.tables().at(0);
    const u64 sets = settings_sets(words.size());
    const u64 records = XG_TABLE_HEAD + sets * XG_SET_WORDS;
    for (u64 way = 0; way < sets * XG_WAYS; way++)
      if (words[XG_TABLE_HEAD + way / XG_WAYS * XG_SET_WORDS + XG_SET_TAGS + way % XG_WAYS] != 0)
        return words[records + way * XG_DDOS_RECORD + at];
    ADD_FAILURE() << "there is no target";
    return 0;
  }
  u32 metric(DdosMetric which, u32 at) const {
    return word(XG_DDOS_METRIC_AT + static_cast<u32>(which) * XG_DDOS_METRIC + at);
  }

 private:
  static u64 settings_sets(u64 words) {
    return (words - XG_TABLE_HEAD) / (XG_SET_WORDS + XG_WAYS * XG_DDOS_RECORD);
  }
  gpu::reference::Judge judge_;
};

TEST(Ddos, AnAlarmBeginsAtTheThresholdAndEndsAfterTheHold) {
  Guard guard(settings_of(DdosMetric::udp, 100));
  EXPECT_EQ(guard.first_drop(0, 200, {}), 99u) << "the hundredth reaches it";
  EXPECT_EQ(guard.metric(DdosMetric::udp, XG_DDOS_COUNT), 1u);
  EXPECT_EQ(guard.metric(DdosMetric::udp, XG_DDOS_VALUE), 100u);
  // Then 60 a second: that is below the threshold, but not below half of it, and keeps the alarm up.
  for (u64 ms = 200; ms < 20'000; ms += 1000 / 60) EXPECT_TRUE(guard.drops(ms, {})) << ms;
  // Then 30, which is below: it ends when the hold is over.
  u64 last = 0;
  for (u64 ms = 20'000; ms < 40'000; ms += 1000 / 30)
    if (guard.drops(ms, {})) last = ms;
  EXPECT_GT(last, 24'900u);
  EXPECT_LT(last, 26'000u);
  EXPECT_EQ(guard.metric(DdosMetric::udp, XG_DDOS_COUNT), 1u);
  EXPECT_GE(guard.metric(DdosMetric::udp, XG_DDOS_PEAK), 140u);
  EXPECT_EQ(guard.first_drop(41'000, 200, {}), 99u) << "and begins anew";
  EXPECT_EQ(guard.metric(DdosMetric::udp, XG_DDOS_COUNT), 2u);
}

TEST(Ddos, AWindowSlides) {
  // 60 in the second half of a window and 60 in the first half of the next one are 120 in a second.
  Guard guard(settings_of(DdosMetric::udp, 100));
  EXPECT_EQ(guard.first_drop(900, 60, {}), 60u);
  const u32 first = guard.first_drop(1000, 60, {});
  EXPECT_GT(first, 38u);
  EXPECT_LT(first, 48u);
}

TEST(Ddos, OnlyTheKindIsDroppedAndOnlyForItsTarget) {
  Guard guard(settings_of(DdosMetric::syn, 50));
  EXPECT_EQ(guard.first_drop(0, 100, {.protocol = 6}), 49u);
  EXPECT_FALSE(guard.drops(100, {.protocol = 6, .tcp_flags = 0x12}));
  EXPECT_FALSE(guard.drops(100, {.protocol = 6, .tcp_flags = 0x10}));
  EXPECT_FALSE(guard.drops(100, {.protocol = 17}));
  EXPECT_FALSE(guard.drops(100, {.protocol = 6, .target = 2}));
  EXPECT_TRUE(guard.drops(100, {.source = 777, .protocol = 6})) << "whoever sends it";
}

TEST(Ddos, DnsIsWhatComesFromItsPort) {
  Guard guard(settings_of(DdosMetric::dns_bytes, 5'400));
  EXPECT_EQ(guard.first_drop(0, 200, {.src_port = 1000}), 200u);
  EXPECT_EQ(guard.first_drop(300, 200, {.src_port = 53}), 99u) << "of 54 bytes each";
  EXPECT_EQ(guard.at(500, {.src_port = 53}).verdict,
            XG_VERDICT(XG_DROP, 0u, 1u, 1u + static_cast<u32>(DdosMetric::dns_bytes)));
}

TEST(Ddos, ADropIsCachedForWhatIsLeftOfTheAlarm) {
  auto settings = settings_of(DdosMetric::icmp, 10);
  settings.cache_ttl_ms = 2000;
  Guard guard(settings);
  EXPECT_EQ(guard.first_drop(0, 20, {.protocol = 1}), 9u);
  xg_result result = guard.at(30, {.protocol = 1});
  EXPECT_NE(result.flags & XG_RES_CACHE, 0u);
  EXPECT_EQ(result.cache_ttl_ms, 2000u);
  result = guard.at(4'900, {.protocol = 1});
  EXPECT_EQ(XG_VERDICT_ACTION(result.verdict), XG_DROP);
  EXPECT_GT(result.cache_ttl_ms, 100u);
  EXPECT_LT(result.cache_ttl_ms, 140u);
}

TEST(Ddos, DifferentSourcesAreEstimated) {
  Guard guard(settings_of(DdosMetric::sources, 1000));
  u32 first = 0;
  while (first < 3000 && !guard.drops(first / 10, {.source = first})) first++;
  EXPECT_GT(first, 750u);
  EXPECT_LT(first, 1300u);
  Guard calm(settings_of(DdosMetric::sources, 1000));
  for (u32 i = 0; i < 20'000; i++) ASSERT_FALSE(calm.drops(i / 10, {.source = i % 600})) << i;
}

TEST(Ddos, FlowsThatWereThereAreNotNew) {
  Guard guard(settings_of(DdosMetric::new_flows, 300));
  // 2,000 flows that go on for ever are none of them new, not even when the target is seen first.
  for (u32 i = 0; i < 20'000; i++)
    ASSERT_FALSE(guard.drops(i / 4, {.source = 1, .src_port = static_cast<u16>(i % 2000)})) << i;
  u32 first = 0;
  while (first < 3000 && !guard.drops(5'000 + first / 4, {.source = 2, .src_port = static_cast<u16>(first)}))
    first++;
  EXPECT_LT(first, 1500u) << "beside those, new ones are told with the error of all";
}

TEST(Ddos, OnlySourcesWithTheirShareAreDropped) {
  auto settings = settings_of(DdosMetric::udp, 1000);
  settings.on_detect = OnDetect::drop_sources;
  settings.share_percent = 20;
  Guard guard(settings);
  // Half of the packets are one source's, the others come from 500.
  u32 dropped_heavy = 0, dropped_others = 0;
  for (u32 i = 0; i < 20'000; i++) {
    const bool heavy = i % 2 == 0;
    const bool drop = guard.drops(i / 10, {.source = heavy ? 9999u : i % 500});
    (heavy ? dropped_heavy : dropped_others) += drop ? 1 : 0;
  }
  EXPECT_GT(dropped_heavy, 8'500u);
  // Some share both of their places with it.
  EXPECT_LT(dropped_others, 200u);
  bool named = false;
  for (u32 i = 0; i < XG_DDOS_TOP; i++)
    named = named || guard.word(XG_DDOS_TOP_AT + i * XG_DDOS_TOP_WORDS) == 0x0f27000a;
  EXPECT_TRUE(named) << "10.0.39.15";
}

TEST(Ddos, ReportsAloneWhereItIsToldTo) {
  auto settings = settings_of(DdosMetric::packets, 10);
  settings.on_detect = OnDetect::pass;
  Guard guard(settings);
  EXPECT_EQ(guard.first_drop(0, 300, {}), 300u);
  EXPECT_EQ(guard.metric(DdosMetric::packets, XG_DDOS_COUNT), 1u);
}

}  // namespace
}  // namespace xdpgpu::tests
