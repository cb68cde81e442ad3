// SPDX-License-Identifier: MIT
//
// Packets as programs have left them: byte for byte what the record's definition says, and nothing where the
// record does not agree with the packet; checksums that are completed on the way out.
#include "userspace/dataplane/patch.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "bench/worker/rings.hpp"
#include "tests/kernel/frame.hpp"
#include "tests/unit/dataplane_patches.hpp"
#include "userspace/dataplane/router.hpp"

namespace xdpgpu::dataplane {
namespace {

using namespace xdpgpu::test;  // frames

constexpr u32 kFrames = 8;

// That leaves it as it came.
xg_patch unchanged(std::size_t length) {
  const auto end = static_cast<u16>(XG_PATCH_BEFORE + length);
  return {XG_PATCH_BEFORE, end, end, 0, 0, {}, 0, {}};
}
// The program has written to this line of what came: `change` gets its bytes.
template <class Change>
void write_line(xg_patch& patch, const Frame& frame, u8 line, Change&& change) {
  u8* const bytes = patch.bytes[patch.count];
  patch.lines[patch.count++] = line;
  for (u32 i = 0; i < XG_PATCH_LINE_BYTES; ++i) {
    const u32 place = line * XG_PATCH_LINE_BYTES + i;
    const bool is_there = place >= XG_PATCH_BEFORE && place - XG_PATCH_BEFORE < frame.size();
    bytes[i] = is_there ? frame[place - XG_PATCH_BEFORE] : u8{0};
  }
  change(bytes);
}
constexpr u8 kFirstLine = XG_PATCH_BEFORE / XG_PATCH_LINE_BYTES;  // of what came

TEST(Patch, MakesWhatItsDefinitionSays) {
  Random random(20261128);
  u32 earlier = 0, longer = 0;
  std::vector<u8> region(3 * XG_CHUNK_SIZE);
  for (u32 round = 0; round < 20'000; ++round) {
    for (u8& byte : region) byte = static_cast<u8>(random());
    const u32 length = 14 + random() % (round % 2 ? 100 : XG_FRAME_MAX - 13);
    const xg_descriptor packet{XG_CHUNK_SIZE + XG_FRAME_DATA, length, XG_DESC_EXPECTED(1, 2)};
    const xg_patch patch = any_patch(random, &region[packet.offset], length);
    ASSERT_TRUE(fits_patch(OneBuffer(&packet, 1), patch)) << round;
    std::vector<u8> should = region;
    const auto bytes = patched(&region[packet.offset], patch);
    std::copy(bytes.begin(), bytes.end(), should.begin() + XG_CHUNK_SIZE + 32 + patch.begin);
    const xg_descriptor made = apply_patch(region.data(), packet, patch);
    ASSERT_EQ(made.offset, XG_CHUNK_SIZE + 32u + patch.begin);
    ASSERT_EQ(made.length, bytes.size());
    ASSERT_EQ(made.flags, 0u);
    ASSERT_EQ(region, should) << round;
    earlier += patch.begin < XG_PATCH_BEFORE;
    longer += made.length > length;
  }
  EXPECT_GT(earlier, 5000u);
  EXPECT_GT(longer, 5000u);
}

TEST(Patch, MayTakeAllOfItsChunk) {
  for (const u32 before : {XG_METADATA_SIZE, 100u, XG_PATCH_BEFORE, XG_FRAME_DATA, XG_CHUNK_SIZE - 60u}) {
    std::vector<u8> region(2 * XG_CHUNK_SIZE, 0xee);
    const xg_descriptor packet{XG_CHUNK_SIZE + before, 60, 0};
    const u32 room = before < XG_PATCH_BEFORE ? XG_PATCH_BEFORE - before : 0;
    const u32 end = XG_PATCH_BEFORE + XG_CHUNK_SIZE - before;
    xg_patch patch = unchanged(60);
    patch.kept = 0;
    patch.begin = static_cast<u16>(room);
    patch.end = static_cast<u16>(end);
    patch.count = 1;
    patch.lines[0] = static_cast<u8>((end - 1) / XG_PATCH_LINE_BYTES);
    ASSERT_TRUE(fits_patch(OneBuffer(&packet, 1), patch)) << before;
    const auto refused = [&](auto&& change) {
      xg_patch other = patch;
      change(other);
      return !fits_patch(OneBuffer(&packet, 1), other);
    };
    EXPECT_TRUE(refused([](xg_patch& p) { ++p.end; })) << before;
    EXPECT_TRUE(refused([](xg_patch& p) { ++p.lines[0]; })) << before;
    if (room != 0) {
      EXPECT_TRUE(refused([](xg_patch& p) { --p.begin; })) << before;
    }
    const xg_descriptor made = apply_patch(region.data(), packet, patch);
    EXPECT_EQ(made.offset + made.length, 2 * XG_CHUNK_SIZE);
    const auto first = static_cast<std::ptrdiff_t>(made.offset);
    EXPECT_TRUE(std::all_of(region.begin(), region.begin() + first, [](u8 byte) { return byte == 0xee; }));
    EXPECT_TRUE(std::all_of(region.begin() + first, region.end(), [](u8 byte) { return byte == 0; }));
  }
}

// A worker of one port, its ring, and the kernel behind it.
class Patching : public testing::Test {
 protected:
  Patching()
      : region_(std::size_t{kFrames} * XG_CHUNK_SIZE),
        share_{0, kFrames, -1, 1},
        free_(share_),
        order_(1, free_.span(), 0),
        tx_(16),
        completion_(16),
        entries_(64),
        stats_(64),
        queue_(PortQueue{.traits = {.repair_checksums = true, .cache_transmit = true},
                         .socket = Socket::over_memory(),
                         .reinject = Socket::over_memory(),
                         .counters = &counters_,
                         .flows = gpu::FlowTable(entries_, stats_),
                         .metadata = MetadataProbe(0, 0),
                         .credits = Credits(0, 64)}) {
    tx_.map(queue_.socket->transmitter.tx, true);
    completion_.map(queue_.socket->transmitter.completion, false);
    queue_.packet_buffers = 3;
    queue_.rewrites = rewrites_.data();
  }
  // Packets that were sent are in no way: each is of a router and a batch of its own. nullopt: it was given
  // up.
  std::optional<Frame> sent(const Frame& frame, const xg_patch& patch, u32 flags = 0, u32 buffers = 1) {
    Router router(region_.data(), {&queue_}, free_, unparsed_, order_);
    const u32 all = free_.size();
    const u64 at = place(frame);
    std::array<xg_descriptor, 4> descriptors{};
    xg_result result{XG_TX, XG_RES_PATCH | flags, 0, 0};
    xg_edit edit{};
    xg_adjust adjust{};
    xg_patch record = patch;
    gpu::Slot slot;
    slot.descriptors = descriptors.data();
    slot.results = &result;
    slot.edits = &edit;
    slot.adjusts = &adjust;
    slot.patches = &record;
    slot.capacity = static_cast<u32>(descriptors.size());
    Batch batch;
    batch.slot = &slot;
    batch.ports.resize(descriptors.size());
    batch.arrivals.resize(descriptors.size());
    batch.add(at, static_cast<u32>(frame.size()), 0, {});
    for (u32 i = 1; i < buffers; ++i) batch.extend(chunk_of(free_.pop()) + XG_FRAME_DATA, 10);
    before_ = region_;
    order_.begin();
    const Routed routed = router.route(batch, 1'000'000'000);
    order_.end(batch.port_mask, batch.next_sequence, routed.passed);
    EXPECT_FALSE(routed.moving) << "the kernel would not do the same";
    std::optional<Frame> out;
    for (; tx_.waiting() != 0; tx_.consume(1)) {
      const xdp_desc& one = tx_.next(0);
      EXPECT_FALSE(out);
      EXPECT_EQ(one.options, 0u);
      out.emplace(&region_[one.addr], &region_[one.addr] + one.len);
      completion_.place(0) = one.addr;
      completion_.produce(1);
    }
    router.collect();
    EXPECT_EQ(free_.size(), all) << "no frame is lost";
    return out;
  }
  u64 place(const Frame& frame) {
    const u64 at = chunk_of(free_.pop()) + XG_FRAME_DATA;
    std::copy(frame.begin(), frame.end(), region_.begin() + static_cast<std::ptrdiff_t>(at));
    xg_packet parsed;
    xg_parse_part(frame.data(), frame.data() + frame.size(), static_cast<u32>(frame.size()), 0, &parsed);
    xg_metadata metadata{};
    xg_metadata_from(&metadata, &parsed, 0);
    metadata.generation = 1;
    std::memcpy(&region_[at - XG_METADATA_SIZE], &metadata, sizeof(metadata));
    return at;
  }

  std::vector<u8> region_, before_;  // before_: as it was when the packet was routed
  FrameShare share_;
  FreeList free_;
  OrderLog order_;
  UnparsedRing unparsed_;
  bench::MemoryRing<xdp_desc> tx_;
  bench::MemoryRing<u64> completion_;
  xg_worker_counters counters_{};
  std::vector<xg_flow_verdict> entries_;
  std::vector<xg_flow_stats> stats_;
  std::vector<xg_rewrite> rewrites_ = std::vector<xg_rewrite>(XG_REWRITE_ENTRIES);
  PortQueue queue_;
};

const Frame kPlain = ethernet() + ipv4({.protocol = 6}, tcp(1, 2) + bytes(200));

TEST_F(Patching, IsSentAndNotCached) {
  EXPECT_EQ(sent(kPlain, unchanged(kPlain.size()), XG_RES_CACHE), kPlain);
  EXPECT_EQ(counters_.transmitted, 1u);
  EXPECT_EQ(counters_.patched, 1u);
  EXPECT_EQ(counters_.flows_cached, 0u);
  EXPECT_EQ(queue_.covered, 0u) << "its metadata stand";
}

TEST_F(Patching, WhereItsMetadataStoodIsSaid) {
  xg_patch patch = unchanged(kPlain.size());
  patch.begin -= 20;
  EXPECT_EQ(sent(kPlain, patch), bytes(20, 0) + kPlain);
  EXPECT_EQ(queue_.covered, 1u);
}

// What a lie would have written, it has not; nor has anything else.
TEST_F(Patching, RefusesWhatDoesNotFit) {
  const auto length = static_cast<u32>(kPlain.size());
  xg_patch patch = unchanged(length);
  patch.begin -= 20;
  patch.end += 20;
  write_line(patch, kPlain, kFirstLine, [](u8* bytes) { bytes[0] ^= 1; });
  ASSERT_TRUE(sent(kPlain, patch));
  u64 refused = 0;
  const auto expect_refused = [&](const char* what, const xg_patch& lie, u32 flags = 0, u32 buffers = 1) {
    EXPECT_FALSE(sent(kPlain, lie, flags, buffers)) << what;
    EXPECT_EQ(region_, before_) << what;
    EXPECT_EQ(counters_.error_edit, ++refused) << what;
  };
  for (u32 i = 0; i < static_cast<u32>(Lie::all); ++i) {
    xg_patch lie = patch;
    tell(static_cast<Lie>(i), lie, length);
    expect_refused(testing::PrintToString(i).c_str(), lie);
  }
  expect_refused("an edit besides", patch, XG_RES_EDIT);
  expect_refused("an adjustment besides", patch, XG_RES_ADJUST);
  expect_refused("swapped addresses besides", patch, XG_RES_SWAP_MACS);
  expect_refused("several buffers", patch, 0, 2);
  EXPECT_EQ(counters_.patched, 1u);
  EXPECT_EQ(counters_.transmitted, 1u);
}

// ---- checksums ------------------------------------------------------------------------------------------

u32 sum_of(const Frame& frame, std::size_t from, std::size_t to, u32 sum = 0) {
  for (std::size_t i = from; i < to; ++i) sum += i % 2 == from % 2 ? frame[i] * 256u : frame[i];
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return sum;
}

// A packet whose checksum is begun: UDP or TCP over IPv4.
struct Partial {
  explicit Partial(bool tcp_ = true) : tcp(tcp_), field(14 + 20 + (tcp ? 16 : 6)) {
    const Frame payload = tcp ? test::tcp(1000, 53) + bytes(180) : udp(1000, 53, 180);
    frame = ethernet() + ipv4({.protocol = static_cast<u8>(tcp ? 6 : 17)}, payload);
    pseudo = sum_of(frame, 26, 34, static_cast<u32>((tcp ? 6 : 17) + payload.size()));
    put(frame, pseudo);
    whole = frame;
    put(whole, 0);
    put(whole, 0xffff - sum_of(whole, 34, whole.size(), pseudo));
  }
  void put(Frame& to, u32 value) const {
    to[field] = static_cast<u8>(value >> 8), to[field + 1] = static_cast<u8>(value);
  }
  bool tcp;
  u32 field, pseudo = 0;
  Frame frame, whole;  // as it came, and complete
};

TEST_F(Patching, CompletesTheChecksumThatTheProgramLeft) {
  for (const bool tcp : {false, true}) {
    const Partial packet(tcp);
    const xg_patch none = unchanged(packet.frame.size());
    EXPECT_EQ(sent(packet.frame, none), packet.whole) << "nothing is written";
    xg_patch line = none;
    write_line(line, packet.frame, kFirstLine, [](u8* bytes) { bytes[3] ^= 1; });
    Frame should = packet.whole;
    should[3] ^= 1;
    EXPECT_EQ(sent(packet.frame, line), should) << "its line is, but not the checksum";
    for (const u32 byte : {0u, 1u}) {
      xg_patch own = none;
      write_line(own, packet.frame, kFirstLine, [&](u8* bytes) { bytes[packet.field + byte] ^= 0x10; });
      should = packet.frame;
      should[packet.field + byte] ^= 0x10;
      EXPECT_EQ(sent(packet.frame, own), should) << "the program has its own";
    }
  }
  EXPECT_EQ(counters_.checksums_repaired, 8u);
  queue_.traits.repair_checksums = false;
  const Partial packet;
  EXPECT_EQ(sent(packet.frame, unchanged(packet.frame.size())), packet.frame) << "of ports with real wires";
}

// A program puts 20 bytes of outer header in front: those of the Ethernet header move along.
TEST_F(Patching, WhatIsPutInsideHasARightChecksum) {
  for (const bool tcp : {false, true}) {
    const Partial packet(tcp);
    xg_patch patch = unchanged(packet.frame.size());
    patch.begin -= 20;
    const Frame outer = ethernet() + ipv4({.protocol = 4}, {});
    write_line(patch, packet.frame, kFirstLine - 1,
               [&](u8* bytes) { std::copy_n(outer.begin(), 20, bytes + XG_PATCH_LINE_BYTES - 20); });
    write_line(patch, packet.frame, kFirstLine, [&](u8* bytes) { std::copy_n(&outer[20], 14, bytes); });
    EXPECT_EQ(sent(packet.frame, patch), outer + Frame(packet.whole.begin() + 14, packet.whole.end()));
  }
  EXPECT_EQ(queue_.covered, 1u) << "and the metadata were there until then";
}

// The checksum goes with the bytes that came: what a program puts in their place later is its own.
TEST_F(Patching, WhatIsCutOffHasNoChecksum) {
  const Partial packet;
  const u32 place = XG_PATCH_BEFORE + packet.field;
  for (const u32 kept : {place, place + 1, place + 2}) {
    xg_patch patch = unchanged(packet.frame.size());
    patch.kept = static_cast<u16>(kept);
    Frame should(packet.frame.size());
    std::copy_n(packet.whole.begin(), kept - XG_PATCH_BEFORE, should.begin());
    EXPECT_EQ(sent(packet.frame, patch), should) << kept;
    write_line(patch, packet.frame, kFirstLine, [](u8*) {});
    std::copy_n(packet.frame.begin(), XG_PATCH_LINE_BYTES, should.begin());
    if (kept == place + 2)
      packet.put(should, packet.whole[packet.field] * 256u + packet.whole[packet.field + 1]);
    EXPECT_EQ(sent(packet.frame, patch), should) << kept;
  }
}

}  // namespace
}  // namespace xdpgpu::dataplane
