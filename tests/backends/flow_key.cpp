// SPDX-License-Identifier: MIT
//
// gpu/flow_key.h and gpu/checksum.h against the parser.
#include "gpu/flow_key.h"

#include <gtest/gtest.h>

#include <cstring>

#include "maps/parse.h"
#include "tests/backends/policies.hpp"
#include "tests/backends/traffic.hpp"

namespace xdpgpu::tests {
namespace {

// How many packets had a flow; each one's key as a device sees it is the parser's.
u32 compare(const Traffic& traffic, u32 pipelines) {
  std::vector<u32> image(XG_IMAGE_HEADER, 0);
  image[XG_IMAGE_PIPELINES_AT] = pipelines;
  xg_batch batch{};
  batch.frames.v = reinterpret_cast<xg_word*>(traffic.region.base());
  batch.frames_bytes = traffic.region.size();
  batch.image.v = image.data();
  batch.generation = kGeneration;
  u32 flows = 0;
  for (const xg_descriptor& descriptor : traffic.descriptors) {
    if (!xg_descriptor_valid(descriptor, traffic.region.size())) continue;
    const u8* frame = traffic.region.base() + descriptor.offset;
    xg_metadata metadata;
    std::memcpy(&metadata, frame - sizeof(metadata), sizeof(metadata));
    xg_packet parsed;
    xg_parse(frame, frame + descriptor.length, metadata.port, &parsed);
    xg_metadata honest = metadata;
    xg_metadata_from(&honest, &parsed, metadata.flow_hash);
    xg_view seen;
    if (std::memcmp(&honest, &metadata, sizeof(metadata)) != 0 || !xg_view_packet(batch, descriptor, seen))
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
  const char* const elsewhere = std::getenv("XDPGPU_TEST_CAPTURES");
  const Traffic traffic = captured_traffic(elsewhere ? elsewhere : XDPGPU_TEST_CAPTURES, 1);
  EXPECT_GT(compare(traffic, 1), 100u);
}

}  // namespace
}  // namespace xdpgpu::tests
