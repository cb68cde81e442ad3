// SPDX-License-Identifier: MIT
//
// Each type of map by itself: what programs and user space do to it in any order, what they are answered, and
// what is in it afterwards.
#include <fmt/format.h>

#include "tests/kernel/programs/map_programs.hpp"
#include "tests/kernel/programs/twins.hpp"
#include "tests/unit/dataplane_random.hpp"

namespace xdpgpu::test {
namespace {

using dataplane::Random;

struct MapCase {
  std::string name;
  Map map;
  u32 keys = 8;  // how many different ones are asked for
};
void PrintTo(const MapCase& c, std::ostream* out) { *out << c.name; }

class MapTest : public ProgramTest, public testing::WithParamInterface<MapCase> {};

void many(Twins& twins, u32 program, const MapCase& c, u32 runs, bool user_space) {
  Random random(11);
  for (u32 run = 0; run < runs; ++run) {
    const Bytes key = random_key(c.map, random() % c.keys, random);
    const Bytes value = random_value(random);
    const u64 flags = random_flags(random);
    const Bytes short_key(key.begin(), key.begin() + c.map.key_bytes);
    if (user_space && random() % 8 == 0) {
      const Bytes short_value(value.begin(), value.begin() + c.map.value_bytes);
      if (random() % 2 == 0)
        ASSERT_TRUE(twins.update(0, short_key, short_value, flags & 3)) << "flags " << (flags & 3);
      else
        ASSERT_TRUE(twins.erase(0, short_key));
    }
    const Bytes packet = map_packet(static_cast<u8>(random() % 6), flags, key, value);
    ASSERT_EQ(twins.run(program, {.bytes = packet, .queue = random() % queues()}), "")
        << "step " << run << ": " << int{packet[0]} << " flags " << flags << " key " << int{key[0]};
  }
}

TEST_P(MapTest, ByProgramsAndUserSpace) {
  const MapCase& c = GetParam();
  Twins twins({c.map});
  const auto program = twins.add(map_program(0, c.map, false));
  ASSERT_TRUE(program) << twins.refusal();
  many(twins, *program, c, 6000, true);
}

TEST_P(MapTest, InAMapOfMaps) {
  const MapCase& c = GetParam();
  Map outer = map_of("outer", BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, 4, 2);
  outer.inner = 1;
  Twins twins({outer, c.map});
  const auto program = twins.add(map_program(0, c.map, true));
  ASSERT_TRUE(program) << twins.refusal();
  // Nothing is there yet.
  ASSERT_EQ(twins.run(*program, {.bytes = Bytes(kMapPacketBytes)}), "");
  twins.put_map(0, 0, c.map);
  many(twins, *program, c, 1500, false);
  if (HasFatalFailure()) return;
  twins.put_map(0, 0, c.map);  // instead of it
  many(twins, *program, c, 300, false);
}

const MapCase kMaps[]{
    {"array", map_of("array", BPF_MAP_TYPE_ARRAY, 4, 16, 6)},
    {"array_of_small", map_of("array", BPF_MAP_TYPE_ARRAY, 4, 4, 6)},
    {"percpu_array", map_of("percpu_array", BPF_MAP_TYPE_PERCPU_ARRAY, 4, 16, 6)},
    {"hash", map_of("hash", BPF_MAP_TYPE_HASH, 8, 16, 6), 9},
    {"hash_of_small", map_of("hash", BPF_MAP_TYPE_HASH, 4, 4, 6), 9},
    {"hash_of_odd", map_of("hash", BPF_MAP_TYPE_HASH, 7, 12, 6), 9},
    {"hash_not_preallocated", map_of("hash", BPF_MAP_TYPE_HASH, 16, 16, 6, BPF_F_NO_PREALLOC), 9},
    {"percpu_hash", map_of("percpu_hash", BPF_MAP_TYPE_PERCPU_HASH, 8, 16, 6), 9},
    {"lru_hash", map_of("lru_hash", BPF_MAP_TYPE_LRU_HASH, 8, 16, 4096), 9},
    {"lpm_trie", map_of("lpm_trie", BPF_MAP_TYPE_LPM_TRIE, 8, 8, 12, BPF_F_NO_PREALLOC)},
    {"lpm_trie_of_long", map_of("lpm_trie", BPF_MAP_TYPE_LPM_TRIE, 16, 16, 20, BPF_F_NO_PREALLOC)},
};
INSTANTIATE_TEST_SUITE_P(Types, MapTest, testing::ValuesIn(kMaps),
                         [](const testing::TestParamInfo<MapCase>& one) { return one.param.name; });

class DeviceMapTest : public ProgramTest {};

// Programs look interfaces up, and no more.
TEST_F(DeviceMapTest, IsReadByPrograms) {
  for (u32 type : {BPF_MAP_TYPE_DEVMAP, BPF_MAP_TYPE_DEVMAP_HASH}) {
    Twins twins({map_of("ports", type, 4, 4, 4)});
    Assembly a;
    a(load(BPF_W, r7, r1, 0), load(BPF_W, r3, r1, 4), move(r4, r7), alu_k(BPF_ADD, r4, 14));
    a.to("out", jump(BPF_JGT, r4, r3));
    a(load(BPF_W, r2, r7, 0), store(BPF_W, r10, -4, r2), move(r2, r10), alu_k(BPF_ADD, r2, -4), map(r1, 0),
      call(BPF_FUNC_map_lookup_elem));
    a.to("out", jump_k(BPF_JEQ, r0, 0));
    a(load(BPF_W, r1, r0, 0), store(BPF_W, r7, 4, r1));
    a.label("out")(move_k(r0, XDP_PASS), leave());
    const auto program = twins.add(a.code());
    ASSERT_TRUE(program) << twins.refusal();
    EXPECT_TRUE(twins.update(0, bytes_of(u32{2}), bytes_of(u32{1})));
    EXPECT_TRUE(twins.update(0, bytes_of(u32{2}), bytes_of(u32{1}), BPF_NOEXIST));
    EXPECT_TRUE(twins.update(0, bytes_of(u32{3}), bytes_of(u32{0})));
    EXPECT_TRUE(twins.update(0, bytes_of(u32{4}), bytes_of(u32{1}), 7));
    for (u32 key : {0u, 1u, 2u, 3u, 4u, 0xffffffffu}) {
      Bytes packet(60), bytes = bytes_of(key);
      std::copy(bytes.begin(), bytes.end(), packet.begin());
      ASSERT_EQ(twins.run(*program, {.bytes = packet}), "") << key;
      EXPECT_EQ(twins.answer().packet[4], key == 2 ? 1 : 0);
    }
    EXPECT_TRUE(twins.erase(0, bytes_of(u32{2})));
    EXPECT_TRUE(twins.erase(0, bytes_of(u32{2})));
    EXPECT_TRUE(twins.erase(0, bytes_of(u32{9})));
  }
}

// .data and .rodata.
class GlobalDataTest : public ProgramTest {};

TEST_F(GlobalDataTest, BeginsWithItsContents) {
  Map data = map_of("data", BPF_MAP_TYPE_ARRAY, 4, 24, 1);
  for (u8 i = 0; i < 24; ++i) data.contents.push_back(static_cast<u8>(i * 7));
  Map rodata = data;
  rodata.flags = BPF_F_RDONLY_PROG;
  Twins twins({data, rodata});
  Assembly a;
  a(map_value(r1, 0, 8), map_value(r2, 1, 11), load(BPF_B, r3, r2, 0), load(BPF_DW, r4, r2, -3));
  a(atomically(BPF_DW, BPF_ADD, r1, 0, r4), store(BPF_B, r1, 8, r3), move(r0, r3), leave());
  const auto program = twins.add(a.code());
  ASSERT_TRUE(program) << twins.refusal();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(twins.run(*program, {.bytes = Bytes(60)}), "");
  EXPECT_EQ(twins.answer().action, 77u);
}

}  // namespace
}  // namespace xdpgpu::test
