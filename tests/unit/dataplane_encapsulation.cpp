// SPDX-License-Identifier: MIT
//
// The outer headers that user space puts in front, byte for byte what the kernel does
// (tests/kernel/encapsulation_test.cpp).
#include "userspace/dataplane/encapsulation.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "tests/kernel/encapsulated.hpp"

namespace xdpgpu::dataplane {
namespace {

using test::Encapsulated;
using test::Frame;
using test::operator+;

// The frame where it stands in its chunk, and the metadata in front of it.
struct Chunk {
  explicit Chunk(const Frame& frame) {
    xg_packet packet;
    xg_parse_part(frame.data(), frame.data() + frame.size(), static_cast<u32>(frame.size()), 0, &packet);
    xg_metadata metadata{};
    xg_metadata_from(&metadata, &packet, 0);
    std::memcpy(bytes + XG_FRAME_DATA - XG_METADATA_SIZE, &metadata, sizeof(metadata));
    std::memcpy(bytes + XG_FRAME_DATA, frame.data(), frame.size());
  }
  alignas(64) u8 bytes[XG_CHUNK_SIZE] = {};
};

u32 flow_hash(const Encapsulated& e) { return e.inner == 4 ? 0x9934 : 0x63c5; }

TEST(Encapsulation, MakesTheBytesThatOthersMake) {
  for (const Encapsulated& e : test::encapsulated())
    for (const std::vector<u16>& tags : {std::vector<u16>{}, {10}, {10, 20}})
      for (const std::size_t padding : {std::size_t{0}, std::size_t{6}}) {
        const Frame inner = test::inner_frame(e, tags) + test::bytes(padding, 0);
        Chunk chunk(inner);
        const u32 bytes = encapsulate(chunk.bytes + XG_FRAME_DATA, test::outer_headers(e, 1), flow_hash(e));
        const u8* const begin = chunk.bytes + XG_FRAME_DATA - bytes;
        EXPECT_EQ(Frame(begin, begin + bytes + inner.size()), test::outer_frame(e, inner, tags.size(), true))
            << testing::PrintToString(e) << ", " << tags.size() << " tags";
      }
}

TEST(Encapsulation, TheKernelsHashIsTheDevices) {
  for (const Encapsulated& e : test::encapsulated()) {
    const Frame inner = test::inner_frame(e, {10});
    xg_packet packet;
    xg_parse_part(inner.data(), inner.data() + inner.size(), static_cast<u32>(inner.size()), 5, &packet);
    const xg_rewrite rewrite = test::outer_headers(e, 1);
    EXPECT_EQ(xg_outer_hash(&packet, &rewrite), flow_hash(e)) << testing::PrintToString(e);
  }
}

TEST(Encapsulation, AnAddressAloneIsNotSpread) {
  for (const Encapsulated& e : test::encapsulated()) {
    xg_rewrite rewrite = test::outer_headers(e, 1);
    rewrite.spread = 0;
    const Frame inner = test::inner_frame(e, {});
    Chunk chunk(inner);
    const u32 bytes = encapsulate(chunk.bytes + XG_FRAME_DATA, rewrite, flow_hash(e));
    const u8* const outer = chunk.bytes + XG_FRAME_DATA - bytes + 14;
    const Frame source = test::address(e.outer == 4 ? "10.1.2.0" : "fd01::");
    EXPECT_EQ(std::memcmp(outer + (e.outer == 4 ? 12 : 8), source.data(), source.size()), 0);
    if (e.outer == 6) continue;
    u32 sum = 0;
    for (u32 i = 0; i < 20; i += 2) sum += outer[i] * 256u + outer[i + 1];
    EXPECT_EQ((sum & 0xffff) + (sum >> 16), 0xffffu) << "the header's checksum (RFC 1071)";
  }
}

}  // namespace
}  // namespace xdpgpu::dataplane
