// SPDX-License-Identifier: MIT
//
// Maps of the kernel, read and changed by their descriptors.
#include "userspace/kernel/map_entries.hpp"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/bpf.h>
#include <unistd.h>

#include <array>
#include <cstring>

namespace xdpgpu::kernel {
namespace {

using ::testing::HasSubstr;

constexpr u64 kMost = u64{1} << 20;

MapBytes bytes_of(u32 number) {
  MapBytes bytes(sizeof(number));
  std::memcpy(bytes.data(), &number, sizeof(number));
  return bytes;
}

class KernelMapEntries : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "needs root";
  }
  static Fd made(bpf_map_type type, u32 entries, u32 key_bytes = 4, u32 value_bytes = 4) {
    bpf_map_create_opts how{};
    how.sz = sizeof(how);
    how.map_flags = type == BPF_MAP_TYPE_LPM_TRIE ? BPF_F_NO_PREALLOC : 0;
    Fd fd(bpf_map_create(type, "entries", key_bytes, value_bytes, entries, &how));
    EXPECT_TRUE(fd) << std::strerror(errno);
    return fd;
  }
  static MapEntries of(const Fd& map) { return read_entries(map.get(), kMost).value(); }
};

TEST_F(KernelMapEntries, HashesAreReadAndChanged) {
  for (const auto type : {BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_LRU_HASH}) {
    const Fd map = made(type, 100);
    EXPECT_TRUE(of(map).empty());
    MapChanges changes;
    for (u32 i = 0; i < 20; i++) changes.put[bytes_of(i)] = bytes_of(i + 1000);
    EXPECT_EQ(write_changes(map.get(), changes, {}).value(), MapLeft{});
    EXPECT_EQ(of(map), changes.put);
    const MapEntries seen = of(map);
    EXPECT_EQ(write_changes(map.get(), {{{bytes_of(1), bytes_of(5)}}, {bytes_of(0)}}, seen).value(),
              MapLeft{});
    EXPECT_EQ(of(map).size(), 19u);
    EXPECT_EQ(of(map).at(bytes_of(1)), bytes_of(5));
  }
}

// Of prefixes within each other each has its own value.
TEST_F(KernelMapEntries, TriesHaveEachPrefix) {
  const Fd map = made(BPF_MAP_TYPE_LPM_TRIE, 10, 8);
  MapEntries all;
  for (const u8 length : std::array<u8, 3>{0, 8, 32})
    all[{length, 0, 0, 0, static_cast<u8>(length != 0 ? 10 : 0), 0, 0, static_cast<u8>(length == 32)}] =
        MapBytes(4, length);
  EXPECT_EQ(write_changes(map.get(), {all, {}}, {}).value(), MapLeft{});
  EXPECT_EQ(of(map), all);
  EXPECT_EQ(write_changes(map.get(), {{}, {{8, 0, 0, 0, 10, 0, 0, 0}}}, all).value(), MapLeft{});
  all.erase({8, 0, 0, 0, 10, 0, 0, 0});
  EXPECT_EQ(of(map), all);
}

TEST_F(KernelMapEntries, MapsOfEachCpuHaveAllValues) {
  const Fd map = made(BPF_MAP_TYPE_PERCPU_ARRAY, 2);
  const auto cpus = static_cast<std::size_t>(libbpf_num_possible_cpus());
  const MapEntries before = of(map);
  ASSERT_EQ(before.size(), 2u) << "an array has all";
  MapBytes value = before.at(bytes_of(1));
  ASSERT_EQ(value, MapBytes(8 * cpus));
  for (std::size_t cpu = 0; cpu < cpus; cpu++) value[8 * cpu] = static_cast<u8>(cpu + 1);
  EXPECT_EQ(write_changes(map.get(), {{{bytes_of(1), value}}, {}}, before).value(), MapLeft{});
  EXPECT_EQ(of(map).at(bytes_of(1)), value);
  EXPECT_EQ(of(map).at(bytes_of(0)), MapBytes(8 * cpus));
}

TEST_F(KernelMapEntries, WhatWasWrittenSinceTheLookStands) {
  const Fd map = made(BPF_MAP_TYPE_HASH, 10);
  const u32 a = 1, b = 2, c = 3, mine = 70;
  for (const u32 key : {a, b}) ASSERT_EQ(bpf_map_update_elem(map.get(), &key, &key, BPF_ANY), 0);
  const MapEntries seen = of(map);
  for (const u32 key : {a, b, c}) ASSERT_EQ(bpf_map_update_elem(map.get(), &key, &mine, BPF_ANY), 0);
  const MapChanges late{{{bytes_of(a), bytes_of(9)}, {bytes_of(c), bytes_of(9)}}, {bytes_of(b)}};
  EXPECT_EQ(write_changes(map.get(), late, seen).value(),
            (MapLeft{{bytes_of(b), bytes_of(a), bytes_of(c)}, {}}));
  for (const u32 key : {a, b, c}) EXPECT_EQ(of(map).at(bytes_of(key)), bytes_of(mine));
}

// What could not be written is named, and all else is done.
TEST_F(KernelMapEntries, WhatTheKernelDoesNotTakeIsLeft) {
  const Fd map = made(BPF_MAP_TYPE_ARRAY, 4);
  const MapEntries seen = of(map);
  const auto left =
      write_changes(map.get(), {{{bytes_of(1), bytes_of(5)}, {bytes_of(2), bytes_of(6)}}, {}}, seen);
  EXPECT_EQ(left.value(), MapLeft{});
  ASSERT_EQ(bpf_map_freeze(map.get()), 0);
  const auto now = of(map);
  const auto frozen =
      write_changes(map.get(), {{{bytes_of(1), bytes_of(7)}, {bytes_of(3), bytes_of(7)}}, {}}, now);
  ASSERT_TRUE(frozen) << frozen.error();
  EXPECT_EQ(frozen->changed, (std::vector<MapBytes>{bytes_of(1), bytes_of(3)}));
  EXPECT_THAT(frozen->problem, HasSubstr("does not write an entry of the map"));
  EXPECT_EQ(of(map), now);
}

TEST_F(KernelMapEntries, WhatFindsNoRoomIsCounted) {
  const Fd map = made(BPF_MAP_TYPE_HASH, 2);
  MapChanges many;
  for (u32 i = 0; i < 5; i++) many.put[bytes_of(i)] = bytes_of(i);
  const auto left = write_changes(map.get(), many, {}).value();
  EXPECT_EQ(left.full.size(), 3u);
  EXPECT_EQ(of(map).size(), 2u);
  for (const MapBytes& key : left.full) EXPECT_FALSE(of(map).contains(key));
  // What is erased makes room.
  const MapEntries seen = of(map);
  const MapChanges other{{{bytes_of(50), bytes_of(1)}}, {seen.begin()->first}};
  EXPECT_EQ(write_changes(map.get(), other, seen).value(), MapLeft{});
  EXPECT_TRUE(of(map).contains(bytes_of(50)));
}

TEST_F(KernelMapEntries, OtherMapsTooLargeOnesAndOtherSizesAreRefused) {
  const Fd devices = made(BPF_MAP_TYPE_DEVMAP, 2), large = made(BPF_MAP_TYPE_HASH, 131073),
           map = made(BPF_MAP_TYPE_HASH, 2);
  EXPECT_THAT(read_entries(devices.get(), kMost).error(), HasSubstr("is of type 14"));
  EXPECT_THAT(read_entries(large.get(), kMost).error(), HasSubstr("131073 entries of 8 bytes each"));
  EXPECT_TRUE(read_entries(large.get(), kMost + 8));
  EXPECT_THAT(read_entries(-1, kMost).error(), HasSubstr("what the map is like"));
  EXPECT_THAT(write_changes(map.get(), {{{MapBytes(3), bytes_of(1)}}, {}}, {}).error(), HasSubstr("size"));
  EXPECT_THAT(write_changes(map.get(), {{{bytes_of(1), MapBytes(3)}}, {}}, {}).error(), HasSubstr("size"));
  EXPECT_THAT(write_changes(map.get(), {{}, {MapBytes(3)}}, {}).error(), HasSubstr("size"));
  EXPECT_TRUE(of(map).empty());
}

// One map of the kernel and one device, as they are kept in step.
TEST_F(KernelMapEntries, CountsOfADeviceAndAnOperatorsAddUp) {
  const Fd map = made(BPF_MAP_TYPE_HASH, 10);
  const CountedWord word{0, 4};
  const u32 key = 1, begun = 5;
  ASSERT_EQ(bpf_map_update_elem(map.get(), &key, &begun, BPF_ANY), 0);
  MapSides last, now;
  now.devices.resize(1);
  const auto step = [&] {
    now.kernel = of(map);
    auto made = step_counts(last, now, {&word, 1});
    EXPECT_EQ(write_changes(map.get(), made.kernel, now.kernel).value(), MapLeft{});
    carry_out(made.devices[0], now.devices[0]);
    last = std::move(made.after);
  };
  step();
  EXPECT_EQ(now.devices[0].at(bytes_of(1)), bytes_of(5));
  now.devices[0][bytes_of(1)] = bytes_of(8);
  const u32 more = 105;
  ASSERT_EQ(bpf_map_update_elem(map.get(), &key, &more, BPF_ANY), 0);
  step();
  EXPECT_EQ(of(map).at(bytes_of(1)), bytes_of(108));
  EXPECT_EQ(now.devices[0].at(bytes_of(1)), bytes_of(108));
}

}  // namespace
}  // namespace xdpgpu::kernel
