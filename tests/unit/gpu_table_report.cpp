// SPDX-License-Identifier: MIT
//
// What is told of the tables that stages keep.
#include "gpu/table_report.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

namespace xdpgpu::gpu {
namespace {

constexpr u32 kGeneration = 3;
constexpr u64 kSecond = 1'000'000'000;

class TableReports : public testing::Test {
 protected:
  void load(std::vector<StageSettings> stages) {
    pipelines_ = Pipelines::compile({{"web", std::move(stages)}}).value();
    device_ = open_device("cpu").value();
    ASSERT_TRUE(device_->register_frames(region_.data(), region_.size(), Frames::automatic));
    ASSERT_TRUE(device_->load(kGeneration, pipelines_));
    queue_ = device_->open_queue({.batch_capacity = 1, .depth = 1}).value();
  }
  // A packet without ports of that protocol from 10.x.x.x; 0: it is not IP.
  void come(u32 source, u64 time_ns, u8 protocol = 47) {
    u8* const frame = region_.data() + XG_FRAME_DATA;
    std::memset(frame, 0, 64);
    xg_metadata metadata{};
    metadata.rx_time_ns = time_ns;
    metadata.generation = kGeneration;
    if (protocol != 0) {
      metadata.flags = XG_PKT_IPV4;
      metadata.l3_offset = 14;
      metadata.protocol = protocol;
    }
    frame[26] = 10;
    for (u32 i = 0; i < 3; i++) frame[29 - i] = static_cast<u8>(source >> 8 * i);
    frame[30] = 192;
    std::memcpy(frame - sizeof(metadata), &metadata, sizeof(metadata));
    Slot* slot = queue_->acquire();
    slot->descriptors[0] = {XG_FRAME_DATA, 64, 0};
    ASSERT_EQ(queue_->submit(slot, 1, kGeneration), Submit::ok);
    queue_->release(queue_->poll());
  }
  TableReport report(u64 now_ns, u32 table = 0) {
    return report_tables(*device_, kGeneration, *pipelines_, now_ns).value().at(table);
  }
  static std::map<std::string_view, u64> outcomes(const TableReport& report) {
    return {report.outcomes.begin(), report.outcomes.end()};
  }

  alignas(4096) inline static std::array<u8, 4096> region_;
  std::shared_ptr<const Pipelines> pipelines_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Queue> queue_;
};

TEST_F(TableReports, ConnectionsAreCountedAndForgotten) {
  ConntrackSettings conntrack;
  conntrack.egress = false;
  conntrack.timeouts.other = 1000;
  conntrack.table.entries = 100;
  load({conntrack});
  for (u32 source = 0; source < 10; source++) come(source, kSecond);
  come(0, kSecond);
  come(0, kSecond, 0);
  TableReport now = report(kSecond);
  EXPECT_EQ(now.pipeline, "web");
  EXPECT_EQ(now.kind, "conntrack");
  EXPECT_EQ(now.stage, 0u);
  EXPECT_EQ(now.entries, 128u) << "rounded up";
  EXPECT_EQ(now.counted, 128u);
  EXPECT_EQ(now.touches, 11u);
  EXPECT_EQ(now.hits, 1u);
  EXPECT_EQ(now.inserted, 10u);
  EXPECT_EQ(now.evicted + now.refused, 0u);
  EXPECT_EQ(now.occupied, 10u);
  EXPECT_EQ(now.live, 10u);
  EXPECT_DOUBLE_EQ(now.pressure(), 100.0 * 10 / 128);
  const std::map<std::string_view, u64> should{{"new", 11},    {"established", 0}, {"related", 0},
                                               {"invalid", 0}, {"no_place", 0},    {"untracked", 1}};
  EXPECT_EQ(outcomes(now), should);
  now = report(3 * kSecond);
  EXPECT_EQ(now.live, 0u) << "their time is over";
  EXPECT_EQ(now.occupied, 10u) << "and their places are not used again yet";
  EXPECT_EQ(now.pressure(), 0);
}

TEST_F(TableReports, PressureEndsAtAHundred) {
  RateLimitSettings limit;
  limit.packets_per_second = 1;
  limit.burst_packets = 1;
  limit.table = {.entries = 8, .evict = TableSettings::Evict::refuse};
  RateLimitSettings evicting = limit;
  evicting.table.evict = TableSettings::Evict::lru;
  load({limit, evicting});
  for (u32 source = 0; source < 40; source++) come(source, kSecond);
  const TableReport refusing = report(kSecond, 0);
  EXPECT_EQ(refusing.kind, "rate_limit");
  EXPECT_EQ(refusing.entries, 8u);
  EXPECT_EQ(refusing.pressure(), 100);
  EXPECT_EQ(refusing.refused, 32u);
  EXPECT_EQ(outcomes(refusing).at("within"), 8u);
  EXPECT_EQ(outcomes(refusing).at("no_place"), 32u);
  const TableReport second = report(kSecond, 1);
  EXPECT_EQ(second.stage, 1u);
  EXPECT_EQ(second.pressure(), 100);
  EXPECT_EQ(second.inserted, 40u);
  EXPECT_EQ(second.evicted, 32u);
  come(39, kSecond);
  EXPECT_EQ(outcomes(report(kSecond, 1)).at("excess"), 1u);
}

// Of a large table some sets are looked at.
TEST_F(TableReports, LargeTablesAreEstimated) {
  ConntrackSettings conntrack;
  conntrack.egress = false;
  conntrack.table.entries = 1 << 16;
  load({conntrack});
  for (u32 source = 0; source < 1 << 15; source++) come(source, kSecond);
  const TableReport now = report(kSecond);
  EXPECT_EQ(now.entries, 1u << 16);
  EXPECT_EQ(now.counted, kCountedSets * 8);
  EXPECT_NEAR(static_cast<double>(now.live), 1 << 15, 2500);
  EXPECT_LE(now.live, now.occupied);
  EXPECT_NEAR(now.pressure(), 50, 4);
}

TEST_F(TableReports, StagesWithoutATableAreNotThere) {
  load({L2fwdSettings{}});
  EXPECT_TRUE(report_tables(*device_, kGeneration, *pipelines_, 0).value().empty());
  EXPECT_FALSE(report_tables(*device_, kGeneration + 1,
                             *Pipelines::compile({{"web", {ConntrackSettings{}}}}).value(), 0))
      << "a generation that is not loaded";
}

}  // namespace
}  // namespace xdpgpu::gpu
