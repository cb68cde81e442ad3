// SPDX-License-Identifier: MIT
#include "userspace/dataplane/rewrites.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "userspace/dataplane/router.hpp"

namespace xdpgpu::dataplane {
namespace {

xg_result result(u32 n, u32 flags = XG_RES_SET_DST_MAC | XG_RES_SET_SRC_MAC) {
  xg_result out{};
  out.flags = flags;
  out.dst_mac[0] = n;
  out.dst_mac[1] = 0x1122;
  out.src_mac[0] = ~n;
  out.src_mac[1] = 0x3344;
  return out;
}

struct Map {
  std::vector<xg_rewrite> records = std::vector<xg_rewrite>(XG_REWRITE_ENTRIES);
};

TEST(Rewrites, NothingAndSwapHaveFixedIndexes) {
  Map map;
  Rewrites rewrites(map.records, 0, 1);
  EXPECT_EQ(rewrites.intern(1, xg_result{}), static_cast<int>(XG_REWRITE_NONE));
  EXPECT_EQ(rewrites.intern(1, result(1, XG_RES_CACHE_SWAP | XG_RES_SET_DST_MAC | XG_RES_SET_SRC_MAC)),
            static_cast<int>(XG_REWRITE_SWAP_MACS));
  EXPECT_EQ(rewrites.used(), 0u);
}

TEST(Rewrites, WritesTheRecordAndFindsItAgain) {
  Map map;
  Rewrites rewrites(map.records, 0, 1);
  const int first = rewrites.intern(4, result(0xa1b2c3d4));
  ASSERT_GT(first, static_cast<int>(XG_REWRITE_SWAP_MACS));
  const xg_rewrite& record = map.records[static_cast<std::size_t>(first)];
  EXPECT_EQ(record.generation, 4u);
  EXPECT_EQ(record.flags, XG_RES_SET_DST_MAC | XG_RES_SET_SRC_MAC);
  const u8 expected[6] = {0xd4, 0xc3, 0xb2, 0xa1, 0x22, 0x11};
  EXPECT_EQ(std::memcmp(record.dst_mac, expected, 6), 0);
  EXPECT_EQ(rewrites.intern(4, result(0xa1b2c3d4)), first);
  EXPECT_NE(rewrites.intern(4, result(0xa1b2c3d5)), first);
  EXPECT_NE(rewrites.intern(4, result(0xa1b2c3d4, XG_RES_SET_DST_MAC)), first);
  EXPECT_EQ(rewrites.used(), 3u);
}

TEST(Rewrites, AGenerationLeavesThePreviousOnesRecordsAlone) {
  Map map;
  Rewrites rewrites(map.records, 0, 1);
  std::map<int, xg_rewrite> old;
  for (u32 n = 0; n < 500; ++n) {
    const int index = rewrites.intern(6, result(n));
    old[index] = map.records[static_cast<std::size_t>(index)];
  }
  for (u32 n = 0; n < 500; ++n) {
    const int index = rewrites.intern(7, result(n + 1));
    EXPECT_GE(index, static_cast<int>(XG_REWRITE_HALF));
    EXPECT_EQ(old.count(index), 0u);
  }
  for (const auto& [index, record] : old)
    EXPECT_EQ(std::memcmp(&map.records[static_cast<std::size_t>(index)], &record, sizeof(record)), 0);
}

TEST(Rewrites, QueuesShareOutTheTable) {
  Map map;
  std::vector<Rewrites> queues;
  for (u32 i = 0; i < 3; ++i) queues.emplace_back(map.records, i, 3);
  for (const u32 generation : {2u, 3u}) {
    std::set<int> seen;
    for (u32 q = 0; q < 3; ++q)
      for (u32 n = 0; n < queues[q].capacity(); ++n) {
        const int index = queues[q].intern(generation, result(n));
        ASSERT_GE(index, 2);
        ASSERT_LT(index, static_cast<int>(XG_REWRITE_ENTRIES));
        ASSERT_EQ(static_cast<u32>(index) >= XG_REWRITE_HALF, (generation & 1) != 0);
        ASSERT_TRUE(seen.insert(index).second);
      }
    // A full share says so, and still knows what it has.
    EXPECT_EQ(queues[1].intern(generation, result(1'000'000)), -1);
    EXPECT_GE(queues[1].intern(generation, result(5)), 2);
  }
}

// In generic mode a packet of the former policy can come behind one of the next.
TEST(Rewrites, ALatePacketOfAnOlderPolicyCostsTheNewOneNothing) {
  Map map;
  Rewrites rewrites(map.records, 0, 1);
  const int index = rewrites.intern(7, result(1));
  const xg_rewrite before = map.records[static_cast<std::size_t>(index)];
  EXPECT_EQ(rewrites.intern(6, result(2)), -1);
  EXPECT_NE(rewrites.intern(7, result(3)), index);
  EXPECT_EQ(rewrites.intern(7, result(1)), index);
  EXPECT_EQ(std::memcmp(&map.records[static_cast<std::size_t>(index)], &before, sizeof(before)), 0);
}

TEST(ApplyRewrite, WritesWhatTheFlagsName) {
  u8 frame[14];
  std::memset(frame, 0xee, sizeof(frame));
  apply_rewrite(frame, result(0x04030201, XG_RES_SET_SRC_MAC));
  for (int i = 0; i < 6; ++i) EXPECT_EQ(frame[i], 0xee);
  const u8 source[6] = {0xfe, 0xfd, 0xfc, 0xfb, 0x44, 0x33};
  EXPECT_EQ(std::memcmp(frame + 6, source, 6), 0);
  EXPECT_EQ(frame[12], 0xee);
  apply_rewrite(frame, result(0x04030201, XG_RES_SET_DST_MAC));
  const u8 destination[6] = {1, 2, 3, 4, 0x22, 0x11};
  EXPECT_EQ(std::memcmp(frame, destination, 6), 0);
}

}  // namespace
}  // namespace xdpgpu::dataplane
