// SPDX-License-Identifier: MIT
//
// The outer headers that user space puts in front, byte for byte what the kernel does
// (tests/kernel/encapsulation_test.cpp), and the packets that it takes out of them.
#include "userspace/dataplane/encapsulation.hpp"

#include <gtest/gtest.h>

#include <cstring>

#include "gpu/pipelines.hpp"
#include "gpu/stages/pipeline.h"
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
    metadata.generation = 1;
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

// The other end of the tunnel: what `decapsulate` says of a frame that is a chunk's.
struct TakenOut {
  xg_result result{};
  xg_edit edit{};
  xg_adjust adjust{};
  Frame frame;  // as it is sent; empty: it is not
};
TakenOut taken_out(Chunk& chunk, u32 length) {
  gpu::DecapsulateSettings settings;
  settings.addresses = {{4, {192, 168, 7, 9}, 32},
                        {6, {0x20, 0x01, 0x0d, 0xb8, 0, 0x0b, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9}, 128}};
  const auto pipelines = gpu::Pipelines::compile({{"end", {settings}}}).value();
  TakenOut out;
  xg_descriptor descriptor{XG_FRAME_DATA, length, 0};
  alignas(16) xg_edit edit{};
  alignas(16) xg_adjust adjust{};
  xg_batch batch{};
  batch.frames.v = reinterpret_cast<xg_word*>(chunk.bytes);
  batch.frames_bytes = sizeof(chunk.bytes);
  batch.descriptors.v = &descriptor;
  batch.edits.v = reinterpret_cast<xg_quad*>(&edit);
  batch.adjusts.v = reinterpret_cast<xg_quad*>(&adjust);
  batch.image.v = const_cast<xg_word*>(pipelines->image().data());
  batch.count = 1;
  batch.generation = 1;
  xg_view seen;
  out.result = xg_decide(batch, 0, seen);
  out.edit = edit;
  out.adjust = adjust;
  const Buffers packet(&descriptor, 1);
  if (!(out.result.flags & XG_RES_ADJUST) || !holds_inner(chunk.bytes, packet, adjust)) return out;
  xg_descriptor moved;
  if (decapsulate(chunk.bytes, packet, adjust, &moved) == 1)
    out.frame.assign(chunk.bytes + moved.offset, chunk.bytes + moved.offset + moved.length);
  return out;
}

TEST(Decapsulation, WhatWasPutInsideComesOutAsItWas) {
  for (const Encapsulated& e : test::encapsulated())
    for (const std::vector<u16>& tags : {std::vector<u16>{}, {10}, {10, 20}})
      for (const std::size_t padding : {std::size_t{0}, std::size_t{6}}) {
        const Frame inner = test::inner_frame(e, tags);
        Chunk sent(inner + test::bytes(padding, 0));
        const u32 bytes = encapsulate(sent.bytes + XG_FRAME_DATA, test::outer_headers(e, 1), flow_hash(e));
        const u8* const begin = sent.bytes + XG_FRAME_DATA - bytes;
        Chunk received(Frame(begin, begin + bytes + inner.size() + padding));
        const TakenOut out = taken_out(received, static_cast<u32>(bytes + inner.size() + padding));
        EXPECT_EQ(out.result.verdict, XG_VERDICT(XG_PASS, 0u, 1u, 0u));
        EXPECT_EQ(out.result.detail, e.outer == 4 ? 0u : 1u);
        EXPECT_EQ(out.adjust.popped, bytes);
        EXPECT_EQ(out.frame, inner) << testing::PrintToString(e) << ", " << tags.size() << " tags";
      }
}

TEST(Decapsulation, WhatIsNotWholeIsDropped) {
  for (const Encapsulated& e : test::encapsulated()) {
    const Frame inner = test::inner_frame(e, {});
    const Frame outer = test::outer_frame(e, inner, 0, true);
    const std::size_t at = outer.size() - inner.size() + 14;  // of the inner IP header
    const auto verdict = [&](const Frame& frame) {
      Chunk chunk(frame);
      return taken_out(chunk, static_cast<u32>(frame.size())).result.verdict;
    };
    const u32 malformed = XG_VERDICT(XG_DROP, 0u, 1u, gpu::decapsulate_rule::kMalformed);
    Frame longer = outer;
    ++longer[at + (e.inner == 4 ? 3 : 5)];
    EXPECT_EQ(verdict(longer), malformed) << testing::PrintToString(e);
    EXPECT_EQ(verdict(longer + test::bytes(9)), malformed)
        << "what is behind the outer packet is not its own";
    Frame version = outer;
    version[at] = static_cast<u8>(version[at] ^ 0x10);
    EXPECT_EQ(verdict(version), malformed);
    EXPECT_EQ(verdict(Frame(outer.begin(), outer.end() - 1)), malformed) << "nor is what is cut off there";
    Frame elsewhere = outer;
    ++elsewhere[14 + (e.outer == 4 ? 19 : 39)];
    EXPECT_EQ(verdict(elsewhere), XG_PASS) << "another address";
  }
}

TEST(Decapsulation, CongestionOfThePathIsTheInnerPackets) {
  for (const Encapsulated& e : test::encapsulated())
    for (const u8 ecn : {u8{0}, u8{1}, u8{2}, u8{3}}) {
      const Frame inner = test::inner_frame(e, {});
      Frame outer = test::outer_frame(e, inner, 0, true);
      const std::size_t at = outer.size() - inner.size() + 14;
      const auto set = [&](std::size_t ip, u8 family, u32 value) {
        const u32 shift = family == 4 ? 0 : 4;
        outer[ip + 1] = static_cast<u8>((outer[ip + 1] & ~(3u << shift)) | value << shift);
      };
      set(14, e.outer, 3);
      set(at, e.inner, ecn);
      Chunk chunk(outer);
      const TakenOut out = taken_out(chunk, static_cast<u32>(outer.size()));
      if (ecn == 0) {
        EXPECT_EQ(out.result.verdict, XG_VERDICT(XG_DROP, 0u, 1u, gpu::decapsulate_rule::kCongested));
        continue;
      }
      EXPECT_EQ(out.result.flags & XG_RES_EDIT, ecn == 3 ? 0u : XG_RES_EDIT);
      if (ecn != 3) {
        EXPECT_EQ(out.edit.sets, XG_EDIT_CE);
      }
    }
}

TEST(Decapsulation, MarkingCongestionKeepsTheChecksumRight) {
  Frame ip = test::ipv4({.protocol = 6}, test::bytes(20));
  const auto sum = [&] {
    u32 words = 0;
    for (u32 i = 0; i < 20; i += 2) words += ip[i] * 256u + ip[i + 1];
    return (words & 0xffff) + (words >> 16);
  };
  for (const u8 tos : {u8{0xb9}, u8{0x02}, u8{0xfd}}) {
    ip[1] = tos;
    ip[10] = ip[11] = 0;
    const u32 right = 0xffff - sum();
    ip[10] = static_cast<u8>(right >> 8), ip[11] = static_cast<u8>(right);
    mark_congestion(ip.data(), 4);
    EXPECT_EQ(ip[1], tos | 3);
    EXPECT_EQ(sum(), 0xffffu);
    const Frame once = ip;
    mark_congestion(ip.data(), 4);
    EXPECT_EQ(ip, once) << "doing it twice is harmless";
  }
  Frame six(40, 0x20);
  mark_congestion(six.data(), 6);
  EXPECT_EQ(six[1], 0x30);
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
