// SPDX-License-Identifier: MIT
//
// gpu/flow_key.h against the parser; gpu/staging.hpp against what keys and checksums are read from.
#include "gpu/flow_key.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "gpu/checksum.h"
#include "gpu/staging.hpp"
#include "maps/parse.h"
#include "tests/backends/captures.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/traffic.hpp"

namespace xdpgpu::tests {
namespace {

xg_batch batch_of(const u8* frames, u64 bytes, const std::vector<u32>& image) {
  xg_batch batch{};
  batch.frames.v = reinterpret_cast<xg_word*>(const_cast<u8*>(frames));
  batch.frames_bytes = bytes;
  batch.image.v = const_cast<u32*>(image.data());
  batch.generation = kGeneration;
  return batch;
}

// How many packets had a flow; each one's key as a device sees it is the parser's.
u32 compare(const Traffic& traffic, u32 pipelines) {
  std::vector<u32> image(XG_IMAGE_HEADER, 0);
  image[XG_IMAGE_PIPELINES_AT] = pipelines;
  const xg_batch batch = batch_of(traffic.region.base(), traffic.region.size(), image);
  u32 flows = 0;
  for (const xg_descriptor& descriptor : traffic.descriptors) {
    if (!xg_descriptor_valid(descriptor, traffic.region.size())) continue;
    const u8* frame = traffic.region.base() + descriptor.offset;
    xg_metadata metadata;
    std::memcpy(&metadata, frame - sizeof(metadata), sizeof(metadata));
    xg_packet parsed;
    xg_parse(frame, frame + descriptor.length, metadata.port, &parsed);
    parsed.router = metadata.router;
    xg_metadata honest = metadata;
    xg_metadata_from(&honest, &parsed, metadata.flow_hash);
    xg_view seen;
    if (std::memcmp(&honest, &metadata, sizeof(metadata)) != 0 || !xg_view_packet(batch, 0, descriptor, seen))
      continue;
    EXPECT_EQ(xg_cacheable(seen), xg_has_flow(&parsed) != 0);
    if (!xg_has_flow(&parsed)) continue;
    const xg_flow_key key = xg_view_key(seen);
    EXPECT_EQ(std::memcmp(&key, &parsed.key, sizeof(key)), 0) << "packet at " << descriptor.offset;
    ++flows;
  }
  return flows;
}

TEST(FlowKey, IsTheParsers) {
  Random random(test_seed());
  EXPECT_GT(compare(random_traffic(random, 20'000, 4), 4), 5'000u);
}

TEST(FlowKey, OfCapturedPacketsIsTheParsers) {
  const Traffic traffic = captured_traffic(captures_directory(), 1);
  EXPECT_GT(compare(traffic, 1), 100u);
}

u32 partial_field(const u8* frame, u32 length) {
  xg_metadata metadata;
  std::memcpy(&metadata, frame - sizeof(metadata), sizeof(metadata));
  return xg_partial_checksum(frame, length, &metadata).field;
}

// Has the packet carry a checksum that is only begun, where it can: one of 65,536 is.
bool make_partial(u8* frame, u32 length) {
  xg_metadata metadata;
  std::memcpy(&metadata, frame - sizeof(metadata), sizeof(metadata));
  const u32 field = metadata.l4_offset + ((metadata.flags & XG_PKT_TCP) != 0 ? 16u : 6u);
  if ((metadata.flags & (XG_PKT_TCP | XG_PKT_UDP)) == 0 || field + 2 > length) return false;
  for (u32 sum = 0; sum < 0x10000; sum++) {
    std::memcpy(frame + field, &sum, 2);
    if (partial_field(frame, length) == field) return true;
  }
  return false;
}

// A device that publishes reads keys and checksums from the staged frames as well.
TEST(Staging, KeepsWhatKeysAndChecksumsAreReadFrom) {
  Random random(test_seed());
  SCOPED_TRACE(test_seed());
  const Traffic traffic = random_traffic(random, 2000, 4);
  std::vector<u32> image(XG_IMAGE_HEADER, 0);
  image[XG_IMAGE_PIPELINES_AT] = 4;
  const xg_batch batch = batch_of(traffic.region.base(), traffic.region.size(), image);
  std::vector<bool> first(traffic.descriptors.size());  // buffers of their packets, and valid
  for (std::size_t i = 0; i < first.size(); i++)
    first[i] = (i == 0 || (traffic.descriptors[i - 1].flags & XG_DESC_MORE) == 0) &&
               xg_descriptor_valid(traffic.descriptors[i], traffic.region.size());
  u32 tries = 0;
  for (std::size_t i = 0; i < first.size() && tries < 300; i++)
    if (first[i] &&
        make_partial(traffic.region.base() + traffic.descriptors[i].offset, traffic.descriptors[i].length))
      tries++;

  const u32 count = static_cast<u32>(traffic.descriptors.size());
  const FrameRegion staging(gpu::staging_bytes(count));
  std::memset(staging.base(), kPoison, staging.size());
  std::vector<xg_descriptor> staged(count);
  const auto pipelines = gpu::Pipelines::compile({4, gpu::PipelineSettings{"none", {}}});
  ASSERT_TRUE(pipelines) << pipelines.error();
  gpu::stage_frames(traffic.region.base(), traffic.region.size(), traffic.descriptors.data(), count,
                    **pipelines, staging.base(), staged.data());
  const xg_batch copy = batch_of(staging.base(), staging.size(), image);
  u32 keys = 0, partial = 0;
  for (u32 i = 0; i < count; i++) {
    const xg_descriptor& descriptor = traffic.descriptors[i];
    xg_view seen, seen_staged;
    if (!first[i] || !xg_view_packet(batch, 0, descriptor, seen)) continue;
    ASSERT_TRUE(xg_view_packet(copy, 0, staged[i], seen_staged)) << "packet " << i;
    const u32 field = partial_field(traffic.region.base() + descriptor.offset, descriptor.length);
    EXPECT_EQ(partial_field(staging.base() + staged[i].offset, staged[i].length), field) << "packet " << i;
    partial += field != 0;
    if (!xg_cacheable(seen)) continue;
    const xg_flow_key key = xg_view_key(seen), key_staged = xg_view_key(seen_staged);
    EXPECT_EQ(std::memcmp(&key, &key_staged, sizeof(key)), 0) << "packet " << i;
    keys++;
  }
  EXPECT_GT(keys, 500u);
  EXPECT_GT(partial, 100u);
}

// Where no stage reads payload that is the headers, of the first buffer alone.
TEST(Staging, TakesHeadersAlone) {
  const auto pipelines = gpu::Pipelines::compile({{"none", {gpu::L2fwdSettings{}}}});
  ASSERT_TRUE(pipelines) << pipelines.error();
  EXPECT_EQ((*pipelines)->payload_bytes(), 0u);
  struct Frame {
    u16 flags;
    u8 l3, l4;
    u32 length, bytes;  // of these, staged
  };
  const std::array<Frame, 9> frames{{{XG_PKT_IPV4 | XG_PKT_TCP | XG_PKT_PORTS, 14, 34, 1500, 14 + 40},
                                     {XG_PKT_IPV4 | XG_PKT_TCP | XG_PKT_PORTS, 14, 34, 54, 54},
                                     {XG_PKT_IPV4 | XG_PKT_UDP | XG_PKT_PORTS, 18, 38, 1500, 18 + 40},
                                     {XG_PKT_IPV6 | XG_PKT_UDP | XG_PKT_PORTS, 14, 54, 1500, 54 + 20},
                                     {XG_PKT_IPV6 | XG_PKT_ICMP, 14, 54, 1500, 54 + 76},
                                     {XG_PKT_IPV4 | XG_PKT_UDP, 14, 200, 1500, 200 + 20},
                                     {XG_PKT_IPV4 | XG_PKT_UDP, 14, 200, 210, 210},
                                     {0, 0, 0, 1500, 40},
                                     {0, 0, 0, 14, 14}}};
  const FrameRegion region(4096);
  Random random(test_seed());
  for (const Frame& frame : frames) {
    SCOPED_TRACE(
        fmt::format("flags {:x}, {} bytes, XDPGPU_TEST_SEED={}", frame.flags, frame.length, test_seed()));
    // Byte 13 of what TCP's header is says no SYN.
    for (u64 i = 0; i < region.size(); i++) region.base()[i] = static_cast<u8>(random.bits() & 0xfd);
    xg_metadata metadata{};
    metadata.flags = frame.flags;
    metadata.l3_offset = frame.l3;
    metadata.l4_offset = frame.l4;
    metadata.payload_offset = 60;
    std::memcpy(region.base() + 64, &metadata, sizeof(metadata));
    const std::array<xg_descriptor, 2> buffers{{{96, frame.length, XG_DESC_MORE}, {2048, 1000, 0}}};
    std::vector<u8> staging(gpu::staging_bytes(2), kPoison);
    std::array<xg_descriptor, 2> staged{};
    const u64 used = gpu::stage_frames(region.base(), region.size(), buffers.data(), 2, **pipelines,
                                       staging.data(), staged.data());
    EXPECT_EQ(used, (XG_METADATA_SIZE + frame.bytes + 15) & ~15u);
    EXPECT_EQ(std::memcmp(staging.data(), region.base() + 64, XG_METADATA_SIZE + frame.bytes), 0);
    EXPECT_TRUE(std::all_of(staging.begin() + XG_METADATA_SIZE + frame.bytes, staging.end(),
                            [](u8 byte) { return byte == kPoison; }));
    EXPECT_EQ(staged[0].offset, XG_METADATA_SIZE);
    EXPECT_EQ(staged[0].length, frame.length);
    EXPECT_EQ(staged[0].flags, XG_DESC_MORE);
    EXPECT_EQ(staged[1].offset, 0u) << "it names nothing";
    EXPECT_EQ(staged[1].length, 1000u);
    EXPECT_EQ(staged[1].flags, 0u);
  }
}

}  // namespace
}  // namespace xdpgpu::tests
