// SPDX-License-Identifier: MIT
//
// What `sample` chooses is what its definition says, the same on all devices and after a restart; and what it
// tells of that.
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>

#include "gpu/flow_events.hpp"
#include "gpu/table_report.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

using gpu::FlowEvent;
using gpu::SampleSettings;
using Per = SampleSettings::Per;

constexpr u64 kBegin = 3'600'000'000'000;
// The bytes 0 to 15.
constexpr std::array<u64, 2> kKey{0x0706050403020100, 0x0f0e0d0c0b0a0908};

SampleSettings one_in(u32 many, Per per, u32 entries = 1024) {
  return {.per = per, .one_in = many, .key = kKey, .idle_ms = 1000, .table = {entries}};
}

struct Udp {
  u64 at_ns = 0;  // behind kBegin
  u16 port = 1000;
  bool back = false;
  bool ip = true;
};

class Sampling {
 public:
  explicit Sampling(gpu::Device& device) : device_(device) {
    EXPECT_TRUE(device_.register_frames(region_.data(), region_.size(), gpu::Frames::automatic));
    queue_ = device_.open_queue({.batch_capacity = 1, .depth = 1}).value();
  }
  void load(const SampleSettings& settings, std::array<u64, 2> hash_key = {1, 2}) {
    pipelines_ = gpu::Pipelines::compile({{"p", {settings}}}, {hash_key}).value();
    ASSERT_TRUE(device_.load(++generation_, pipelines_));
    if (generation_ > 1) device_.unload(generation_ - 1);
  }
  // UDP between 10.0.0.1 and 192.0.2.7's port 53.
  void come(Udp packet) {
    u8* const frame = region_.data() + XG_FRAME_DATA;
    std::memset(frame, 0, 64);
    xg_metadata metadata{};
    metadata.rx_time_ns = kBegin + packet.at_ns;
    metadata.generation = generation_;
    metadata.flags = packet.ip ? XG_PKT_IPV4 | XG_PKT_PORTS : 0;
    metadata.l3_offset = 14;
    metadata.l4_offset = 34;
    metadata.protocol = 17;
    const u32 one = packet.back ? 30 : 26, other = packet.back ? 26 : 30;
    const u32 port = packet.back ? 36 : 34, dns = packet.back ? 34 : 36;
    frame[one] = 10;
    frame[one + 3] = 1;
    frame[other] = 192;
    frame[other + 2] = 2;
    frame[other + 3] = 7;
    frame[port] = static_cast<u8>(packet.port >> 8);
    frame[port + 1] = static_cast<u8>(packet.port);
    frame[dns + 1] = 53;
    std::memcpy(frame - sizeof(metadata), &metadata, sizeof(metadata));
    gpu::Slot* slot = queue_->acquire();
    slot->descriptors[0] = {XG_FRAME_DATA, 64, 0};
    ASSERT_EQ(queue_->submit(slot, 1, generation_), gpu::Submit::ok);
    gpu::Slot* done = nullptr;
    while (done == nullptr) done = queue_->poll();
    EXPECT_EQ(done->results[0].verdict & 0xffU, u32{XG_PASS});
    queue_->release(done);
  }
  // Packets, by what became of them.
  std::map<std::string_view, u64> outcomes() {
    const auto reports = gpu::report_tables(device_, generation_, *pipelines_, kBegin).value();
    return {reports[0].outcomes.begin(), reports[0].outcomes.end()};
  }
  std::vector<FlowEvent> look() { return watch_.look(device_, generation_, *pipelines_).value(); }

 private:
  alignas(4096) std::array<u8, 4096> region_{};
  gpu::Device& device_;
  std::unique_ptr<gpu::Queue> queue_;
  std::shared_ptr<const gpu::Pipelines> pipelines_;
  u32 generation_ = 0;
  gpu::FlowEventWatch watch_;
};

class Sample : public testing::Test {
 protected:
  std::unique_ptr<gpu::Device> device_ = gpu::open_device("cpu").value();
  Sampling sampling_{*device_};
};

// Counted by a SipHash-1-3 of its own, of the bytes that settings.hpp names.
TEST_F(Sample, FlowsAreChosenAsItIsDefined) {
  for (const bool back : {false, true}) {
    // What the tables are hashed by has nothing to do with it.
    sampling_.load(one_in(8, Per::flow), {back ? 5u : 3u, 4});
    for (u16 port = 1001; port <= 1040; port++) sampling_.come({port, port, back});
    std::set<u32> chosen;
    for (const FlowEvent& event : sampling_.look())
      chosen.insert(xg_host16(back ? event.flow.dst_port : event.flow.src_port) - 1000u);
    EXPECT_EQ(chosen, (std::set<u32>{3, 16, 22, 24, 25, 27, 30, 33, 35, 38, 40}))
        << (back ? "towards 10.0.0.1" : "from 10.0.0.1");
  }
}

TEST_F(Sample, PacketsAreChosenAsItIsDefined) {
  sampling_.load(one_in(8, Per::packet));
  std::set<u64> chosen;
  for (u64 time = 1; time <= 40; time++) {
    sampling_.come({time});
    for (const FlowEvent& event : sampling_.look()) chosen.insert(event.at_ns - kBegin);
  }
  EXPECT_EQ(chosen, (std::set<u64>{1}));
}

TEST_F(Sample, PacketsAreCountedByWhatBecomesOfThem) {
  auto settings = one_in(1, Per::flow, 8);
  settings.table.evict = gpu::TableSettings::Evict::refuse;
  sampling_.load(settings);
  for (u16 port = 1; port <= 9; port++) sampling_.come({port, port});
  sampling_.come({.ip = false});
  EXPECT_EQ(sampling_.look().size(), 8u);
  EXPECT_EQ(sampling_.outcomes(),
            (std::map<std::string_view, u64>{{"sampled", 8}, {"others", 0}, {"no_place", 1}, {"no_key", 1}}));
}

TEST_F(Sample, OneInSoManyIsChosen) {
  for (const Per per : {Per::packet, Per::flow}) {
    sampling_.load(one_in(10, per, 4096));
    for (u16 i = 0; i < 4000; i++) sampling_.come({per == Per::packet ? u64{i} * 1000 : 0, i});
    // Within five standard deviations.
    EXPECT_NEAR(static_cast<double>(sampling_.look().size()), 400, 95);
  }
}

TEST_F(Sample, AFlowIsToldOfOnceInTheDirectionThatItBeganIn) {
  sampling_.load(one_in(1, Per::flow));
  EXPECT_TRUE(sampling_.look().empty());
  sampling_.come({1, 1000, true});
  sampling_.come({2, 1000, false});
  auto events = sampling_.look();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].pipeline, "p");
  EXPECT_EQ(events[0].stage, 0u);
  EXPECT_EQ(events[0].stage_name, "sample");
  EXPECT_EQ(events[0].what, "sampled");
  EXPECT_EQ(events[0].flow.src[0], 0x070200c0u);
  EXPECT_EQ(events[0].flow.dst[0], 0x0100000au);
  EXPECT_EQ(xg_host16(events[0].flow.src_port), 53);
  EXPECT_EQ(xg_host16(events[0].flow.dst_port), 1000);
  EXPECT_EQ(events[0].flow.protocol, 17);
  EXPECT_EQ(events[0].flow.family, 4);
  EXPECT_EQ(events[0].packets, 2u);
  EXPECT_EQ(events[0].at_ns, kBegin + 1);
  sampling_.come({3});
  EXPECT_TRUE(sampling_.look().empty());
  sampling_.come({2'000'000'000});
  events = sampling_.look();
  ASSERT_EQ(events.size(), 1u) << "it was forgotten, and is another one";
  EXPECT_EQ(events[0].packets, 1u);
}

TEST_F(Sample, APacketIsToldOfEachTime) {
  sampling_.load(one_in(1, Per::packet));
  for (u32 i = 1; i <= 3; i++) {
    sampling_.come({7});
    const auto events = sampling_.look();
    ASSERT_EQ(events.size(), 1u) << "although the times are the same";
    EXPECT_EQ(events[0].packets, i);
  }
  sampling_.come({8});
  sampling_.come({9, 1000, true});
  const auto events = sampling_.look();
  ASSERT_EQ(events.size(), 1u) << "two at once of one flow";
  EXPECT_EQ(events[0].packets, 5u);
  EXPECT_EQ(events[0].at_ns, kBegin + 9);
  EXPECT_EQ(xg_host16(events[0].flow.src_port), 53) << "in the newest one's direction";
}

TEST_F(Sample, WhatIsToldGoesOnUnderAPolicyWithTheSameStage) {
  sampling_.load(one_in(1, Per::flow));
  sampling_.come({1});
  EXPECT_EQ(sampling_.look().size(), 1u);
  sampling_.load(one_in(1, Per::flow));
  sampling_.come({2});
  EXPECT_TRUE(sampling_.look().empty());
  sampling_.load(one_in(1, Per::flow, 2048));
  sampling_.come({3});
  EXPECT_EQ(sampling_.look().size(), 1u) << "another table knows nobody";
}

}  // namespace
}  // namespace xdpgpu::tests
