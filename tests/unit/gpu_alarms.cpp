// SPDX-License-Identifier: MIT
//
// What is told of the alarms of `ddos` stages, and when.
#include "gpu/alarms.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace xdpgpu::gpu {
namespace {

constexpr u64 kMs = 1'000'000;
constexpr u64 kBegin = 3'600'000 * kMs;
using What = AlarmEvent::What;

DdosSettings settings_of(u64 udp_pps, u32 entries = 64) {
  DdosSettings settings;
  settings.thresholds[static_cast<u32>(DdosMetric::udp)] = udp_pps;
  settings.window_ms = 500;
  settings.hold_ms = 2000;
  settings.table.entries = entries;
  return settings;
}

class Watch : public testing::Test {
 protected:
  void SetUp() override {
    device_ = open_device("cpu").value();
    ASSERT_TRUE(device_->register_frames(region_.data(), region_.size(), Frames::automatic));
    queue_ = device_->open_queue({.batch_capacity = 1, .depth = 1}).value();
  }
  void load(u32 generation, std::vector<StageSettings> stages) {
    pipelines_ = Pipelines::compile({{"scrub", std::move(stages)}}).value();
    ASSERT_TRUE(device_->load(generation, pipelines_));
    if (generation_ != 0) device_->unload(generation_);
    generation_ = generation;
  }
  // `count` UDP packets from 10.0.0.source to 192.0.2.target within a millisecond.
  void come(u64 ms, u32 count, u8 source = 1, u8 target = 7) {
    u8* const frame = region_.data() + XG_FRAME_DATA;
    std::memset(frame, 0, 64);
    xg_metadata metadata{};
    metadata.rx_time_ns = kBegin + ms * kMs;
    metadata.generation = generation_;
    metadata.flags = XG_PKT_IPV4;
    metadata.l3_offset = 14;
    metadata.protocol = 17;
    frame[26] = 10;
    frame[29] = source;
    frame[30] = 192;
    frame[32] = 2;
    frame[33] = target;
    std::memcpy(frame - sizeof(metadata), &metadata, sizeof(metadata));
    for (u32 i = 0; i < count; i++) {
      Slot* slot = queue_->acquire();
      slot->descriptors[0] = {XG_FRAME_DATA, 64, 0};
      ASSERT_EQ(queue_->submit(slot, 1, generation_), Submit::ok);
      queue_->release(queue_->poll());
    }
  }
  std::vector<AlarmEvent> look(u64 ms) {
    return watch_.look(*device_, generation_, *pipelines_, kBegin + ms * kMs).value();
  }

  alignas(4096) inline static std::array<u8, 4096> region_;
  u32 generation_ = 0;
  std::shared_ptr<const Pipelines> pipelines_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Queue> queue_;
  AlarmWatch watch_;
};

TEST_F(Watch, AnAlarmIsToldOnceWithAllThatIsKnown) {
  load(1, {L2fwdSettings{}, settings_of(100)});
  EXPECT_TRUE(look(0).empty());
  load(2, {settings_of(100)});
  come(0, 30, 1);
  come(1, 19, 2);
  EXPECT_TRUE(look(2).empty()) << "49 in half a second";
  come(2, 11, 2);
  auto events = look(3);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].what, What::detected);
  const Alarm& alarm = events[0].alarm;
  EXPECT_EQ(alarm.pipeline, "scrub");
  EXPECT_EQ(alarm.stage, 0u);
  EXPECT_EQ(alarm.family, 4);
  EXPECT_EQ(alarm.prefix, 32);
  EXPECT_EQ(alarm.target, (std::array<u8, 16>{192, 0, 2, 7}));
  EXPECT_EQ(alarm.metric, "udp_pps");
  EXPECT_EQ(alarm.value, 100u) << "50 in half a second";
  EXPECT_EQ(alarm.threshold, 100u);
  EXPECT_EQ(alarm.peak, 120u);
  EXPECT_EQ(alarm.since_ns, kBegin + 2 * kMs);
  EXPECT_EQ(alarm.until_ns, kBegin + 2002 * kMs);
  EXPECT_EQ(alarm.dropped, 11u);
  ASSERT_EQ(alarm.sources.size(), 2u);
  EXPECT_EQ(alarm.sources[0].address, (std::array<u8, 16>{10, 0, 0, 1}));
  EXPECT_EQ(alarm.sources[0].percent, 50.0);
  EXPECT_TRUE(look(4).empty());
  EXPECT_EQ(watch_.alarms().size(), 1u);
}

TEST_F(Watch, ItsEndIsToldAlthoughNoPacketComes) {
  load(1, {settings_of(100)});
  come(0, 60);
  ASSERT_EQ(look(1).size(), 1u);
  EXPECT_TRUE(look(1999).empty());
  const auto events = look(2001);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].what, What::released);
  EXPECT_EQ(events[0].alarm.dropped, 11u);
  EXPECT_TRUE(watch_.alarms().empty());
  EXPECT_TRUE(look(3000).empty());
  come(4000, 60);
  EXPECT_EQ(look(4001).size(), 1u) << "the next one is another";
  EXPECT_EQ(watch_.detected(), 2u);
  EXPECT_EQ(watch_.ended(), 1u);
}

TEST_F(Watch, WhatWasOverBetweenTwoLooksIsToldToo) {
  load(1, {settings_of(100)});
  come(0, 60);
  come(5000, 60);
  auto events = look(9000);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].what, What::detected);
  EXPECT_EQ(events[1].what, What::released);
  come(10'000, 60);
  ASSERT_EQ(look(10'001).size(), 1u);
  come(15'000, 60);
  events = look(15'001);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].what, What::released);
  EXPECT_EQ(events[1].what, What::detected);
}

TEST_F(Watch, ATargetThatGivesWayTakesItsAlarmWithIt) {
  load(1, {settings_of(100, 8)});
  come(0, 60, 1, 7);
  ASSERT_EQ(look(1).size(), 1u);
  for (u8 target = 100; target < 108; target++) come(1, 1, 1, target);
  const auto events = look(2);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].what, What::forgotten);
  EXPECT_EQ(events[0].alarm.target[3], 7);
}

TEST_F(Watch, AlarmsOutliveAPolicyWithOtherThresholdsAndEndWithTheStage) {
  load(1, {settings_of(100)});
  come(0, 60);
  ASSERT_EQ(look(1).size(), 1u);
  load(2, {settings_of(1000)});
  EXPECT_TRUE(look(2).empty());
  EXPECT_EQ(watch_.alarms().size(), 1u);
  load(3, {L2fwdSettings{}});
  const auto events = look(3);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].what, What::forgotten);
}

}  // namespace
}  // namespace xdpgpu::gpu
