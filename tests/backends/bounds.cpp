// SPDX-License-Identifier: MIT
//
// The frame region's ends: packets that touch them are judged, packets that cross them are not, and nobody
// reads beyond (the region lies between inaccessible pages).
#include <array>
#include <limits>

#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

class Bounds : public testing::TestWithParam<Target> {};

// An IPv6 packet with ports whose L4 header is the last thing in the frame.
constexpr u32 kLength = 14 + 40 + 4;

void write_packet(const FrameRegion& region, u64 offset) {
  xg_metadata metadata{};
  metadata.generation = kGeneration;
  metadata.flags = XG_PKT_IPV6 | XG_PKT_TCP | XG_PKT_PORTS;
  metadata.l3_offset = 14;
  metadata.l4_offset = 54;
  metadata.protocol = 6;
  for (u32 i = 0; i < kLength; i++) region.base()[offset + i] = static_cast<u8>(offset + i * 7);
  std::memcpy(region.base() + offset - XG_METADATA_SIZE, &metadata, sizeof(metadata));
}

TEST_P(Bounds, PacketsAtTheEndsOfTheRegion) {
  const std::vector<gpu::PipelineSettings> settings{
      {"web", {random_load_balance(*std::make_unique<Random>(1), 5), gpu::L2fwdSettings{}}}};
  for (u64 slip = 0; slip < 5; slip++) {
    Traffic traffic{FrameRegion(8192), {}};
    const u64 first = XG_METADATA_SIZE + slip;
    const u64 last = traffic.region.size() - kLength - slip;
    write_packet(traffic.region, first);
    write_packet(traffic.region, last);
    constexpr u64 most = std::numeric_limits<u64>::max();
    traffic.descriptors = {
        {first, kLength, 0},
        {last, kLength, 0},
        {last, kLength + static_cast<u32>(slip), 0},
        {last, kLength + static_cast<u32>(slip) + 1, 0},  // one byte too far
        {XG_METADATA_SIZE - 1, kLength, 0},               // its metadata would begin before the region
        {0, kLength, 0},
        {traffic.region.size(), kLength, 0},
        {traffic.region.size() - 13, 14, 0},
        {most, kLength, 0},
        {most - kLength + 1, kLength, 0},
        {first, most & 0xffffffff, 0},
        {first, 0, 0},
        {first, 13, 0},
    };
    const auto should = expected(traffic, settings);
    for (std::size_t i : {0, 1, 2}) ASSERT_EQ(XG_VERDICT_STAGE(should[i].verdict), 1u) << i;
    for (std::size_t i = 3; i < should.size(); i++) ASSERT_EQ(should[i].verdict, XG_ABORTED) << i;

    XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
    ASSERT_TRUE(device->load(kGeneration, *gpu::Pipelines::compile(settings)));
    auto queue = device->open_queue(GetParam().queue(64, 1));
    ASSERT_TRUE(queue) << queue.error();
    expect_equal(judge(**queue, traffic.descriptors, 64, kGeneration), should, traffic.descriptors);
  }
}

TEST_P(Bounds, RegistersARegionOnceAndOnlyWholePages) {
  const FrameRegion region(8192);
  auto opened = gpu::open_device(GetParam().kind);
  if (!opened) {
    if (required(GetParam().kind)) FAIL() << opened.error();
    GTEST_SKIP() << opened.error();
  }
  gpu::Device& device = **opened;
  EXPECT_FALSE(device.open_queue({})) << "a queue without a region";
  EXPECT_FALSE(device.register_frames(nullptr, 4096, gpu::Frames::automatic));
  EXPECT_FALSE(device.register_frames(region.base() + 64, 4096, gpu::Frames::automatic));
  EXPECT_FALSE(device.register_frames(region.base(), 4095, gpu::Frames::automatic));
  EXPECT_FALSE(device.register_frames(region.base(), 0, gpu::Frames::automatic));
  const auto registered = device.register_frames(region.base(), region.size(), gpu::Frames::automatic);
  ASSERT_TRUE(registered) << registered.error();
  EXPECT_NE(device.frames(), gpu::Frames::automatic);
  EXPECT_EQ(device.frames() == gpu::Frames::in_place, device.info().in_place);
  EXPECT_FALSE(device.register_frames(region.base(), region.size(), gpu::Frames::automatic));
  EXPECT_FALSE(device.open_queue(GetParam().queue(0, 1)));
  EXPECT_FALSE(device.open_queue(GetParam().queue(65537, 1)));
  EXPECT_FALSE(device.open_queue(GetParam().queue(1, 0)));
}

INSTANTIATE_TEST_SUITE_P(Backends, Bounds, testing::ValuesIn(all_targets()), target_name);

}  // namespace
}  // namespace xdpgpu::tests
