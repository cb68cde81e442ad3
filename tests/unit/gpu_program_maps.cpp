// SPDX-License-Identifier: MIT
//
// Each type of map as devices have it, against the definition: what programs and user space do to it in any
// order, what they are answered, and what is in it afterwards; full ones, keys that meet in one bucket,
// values that are held.
#include <gtest/gtest.h>

#include "gpu/program_shards.hpp"
#include "tests/kernel/programs/map_programs.hpp"
#include "tests/unit/program_devices.hpp"

namespace xdpgpu::gpu::programs {
namespace {

using namespace test;  // NOLINT: the assembler's words
using dataplane::Random;

struct MapCase {
  std::string name;
  Map map;
  u32 keys = 8;  // how many different ones are asked for
};
void PrintTo(const MapCase& c, std::ostream* out) { *out << c.name; }

class DeviceMap : public testing::TestWithParam<MapCase> {};

// Which of several answers there were: a test that sees none of one kind shows nothing of it.
struct Seen {
  u32 found = 0, done = 0, refused = 0;
};

void many(DeviceTwins& twins, u32 program, const MapCase& c, u32 runs, bool user_space, Seen& seen) {
  Random random(11);
  for (u32 run = 0; run < runs; ++run) {
    const Bytes key = random_key(c.map, random() % c.keys, random);
    Bytes value = random_value(random);
    // So that devmaps have some without an interface.
    if (random() % 8 == 0) value = Bytes(16);
    const u64 flags = random_flags(random);
    const Bytes short_key(key.begin(), key.begin() + c.map.key_bytes);
    if (user_space && random() % 8 == 0) {
      const Bytes short_value(value.begin(), value.begin() + c.map.value_bytes);
      if (random() % 2 == 0)
        ASSERT_TRUE(twins.update(0, short_key, short_value, flags & 3, random() % kQueues))
            << "flags " << (flags & 3);
      else
        ASSERT_TRUE(twins.erase(0, short_key));
      ASSERT_EQ(twins.difference_of_maps(), "") << "step " << run;
    }
    const u8 what = static_cast<u8>(random() % 6);
    ASSERT_EQ(twins.run(program, {.bytes = map_packet(what, flags, key, value), .queue = random() % kQueues}),
              "")
        << "step " << run << ": " << int{what} << " flags " << flags << " key " << int{key[0]};
    if (twins.answer().fault != ProgramFault::none) continue;
    const auto answer = static_cast<std::int64_t>(word(twins.answer().packet, kAnswer));
    seen.found += (what == kLookUp || what == kAdd) && answer == 1;
    seen.done += (what == kUpdate || what == kErase) && answer == 0;
    seen.refused += answer < 0;
  }
}

bool is_of_devices(const Map& map) {
  return map.type == BPF_MAP_TYPE_DEVMAP || map.type == BPF_MAP_TYPE_DEVMAP_HASH;
}

TEST_P(DeviceMap, ByProgramsAndUserSpace) {
  const MapCase& c = GetParam();
  DeviceTwins twins({c.map});
  Seen seen;
  many(twins, twins.add(map_program(0, c.map, false)), c, 3000, true, seen);
  EXPECT_GT(seen.found, 20u);
  EXPECT_GT(seen.done + (is_of_devices(c.map) ? 100 : 0), 20u);
  EXPECT_GT(seen.refused + (is_of_devices(c.map) ? 100 : 0), 20u);
}

TEST_P(DeviceMap, InAMapOfMaps) {
  const MapCase& c = GetParam();
  Map outer = map_of("outer", BPF_MAP_TYPE_ARRAY_OF_MAPS, 4, 4, 2);
  outer.inner = 1;
  DeviceTwins twins({outer, c.map}, {c.map, c.map});
  const u32 program = twins.add(map_program(0, c.map, true));
  Seen seen;
  many(twins, program, c, 10, false, seen);  // nothing is there yet
  ASSERT_FALSE(HasFatalFailure());
  twins.put_map(0, 0, 0);
  many(twins, program, c, 600, false, seen);
  if (HasFatalFailure()) return;
  twins.put_map(0, 0, 1);  // instead of it
  many(twins, program, c, 200, false, seen);
}

// Of those that programs change.
class ChangedDeviceMap : public DeviceMap {};

// Pointers to what is not in the map any more, far more often than there are spare elements, and again in the
// next run.
TEST_P(ChangedDeviceMap, ValuesThatAreHeld) {
  const MapCase& c = GetParam();
  constexpr int kKey = -16, kValue = -32, kPlaces = -360;
  for (bool erases : {false, true})
    for (int turns : {1, 50, 2000}) {
      DeviceTwins twins({c.map});
      Assembly a;
      const auto arguments = [&] {
        a(map(r1, 0), move(r2, r10), alu_k(BPF_ADD, r2, kKey), move(r3, r10), alu_k(BPF_ADD, r3, kValue),
          move_k(r4, 0));
      };
      // Forty pointers to what the entry had at the end of turns 0 to 39, in the stack, and one in a
      // register.
      a(store_k(BPF_DW, r10, kKey, 1), store_k(BPF_DW, r10, kKey + 8, 0), store_k(BPF_DW, r10, kValue, 7),
        store_k(BPF_DW, r10, kValue + 8, 7), move_k(r6, 0));
      a.label("turn");
      if (erases) {
        arguments();
        a(call(BPF_FUNC_map_delete_elem));
      }
      a(store(BPF_W, r10, kValue, r6));
      arguments();
      a(call(BPF_FUNC_map_update_elem));
      arguments();
      a(call(BPF_FUNC_map_lookup_elem));
      a.to("lost", jump_k(BPF_JEQ, r0, 0)).to("next", jump_k(BPF_JGT, r6, 39));
      a(move(r7, r0)).to("next", jump_k(BPF_JEQ, r6, 39));
      a(move(r1, r6), alu_k(BPF_MUL, r1, 8), move(r2, r10), alu(BPF_ADD, r2, r1),
        store(BPF_DW, r2, kPlaces, r0));
      a.label("next")(alu_k(BPF_ADD, r6, 1)).to("turn", jump_k(BPF_JLT, r6, turns));
      a(move_k(r0, 0), load(BPF_W, r0, r7, 0), move_k(r6, 0));
      a.label("read")(move(r1, r6), alu_k(BPF_MUL, r1, 8), move(r2, r10), alu(BPF_ADD, r2, r1),
                      load(BPF_DW, r2, r2, kPlaces))
          .to("out", jump_k(BPF_JEQ, r2, 0));
      a(load(BPF_W, r2, r2, 0), alu_k(BPF_MUL, r0, 31), alu(BPF_ADD, r0, r2), alu_k(BPF_ADD, r6, 1));
      a.to("read", jump_k(BPF_JLT, r6, 40)).label("out")(leave()).label("lost")(move_k(r0, 12345), leave());
      const u32 program = twins.add(a.code());
      for (int run = 0; run < 3; ++run) {
        ASSERT_EQ(twins.run(program, {.bytes = Bytes(60)}), "") << turns << " turns, run " << run;
        ASSERT_EQ(twins.answer().fault, ProgramFault::none);
        EXPECT_NE(twins.answer().action, 12345u);
      }
    }
}

const MapCase kMaps[]{
    {"array", map_of("array", BPF_MAP_TYPE_ARRAY, 4, 16, 6)},
    {"array_of_small", map_of("array", BPF_MAP_TYPE_ARRAY, 4, 4, 6)},
    {"array_of_odd", map_of("array", BPF_MAP_TYPE_ARRAY, 4, 13, 6)},
    {"percpu_array", map_of("percpu_array", BPF_MAP_TYPE_PERCPU_ARRAY, 4, 16, 6)},
    {"hash", map_of("hash", BPF_MAP_TYPE_HASH, 8, 16, 6), 9},
    {"hash_of_one", map_of("hash", BPF_MAP_TYPE_HASH, 4, 16, 1), 3},
    {"hash_of_small", map_of("hash", BPF_MAP_TYPE_HASH, 4, 4, 6), 9},
    {"hash_of_odd", map_of("hash", BPF_MAP_TYPE_HASH, 7, 12, 6), 9},
    {"hash_of_bytes", map_of("hash", BPF_MAP_TYPE_HASH, 1, 9, 6), 9},
    {"percpu_hash", map_of("percpu_hash", BPF_MAP_TYPE_PERCPU_HASH, 8, 16, 6), 9},
    {"lru_hash", map_of("lru_hash", BPF_MAP_TYPE_LRU_HASH, 8, 16, 6), 9},
    {"lru_hash_of_one", map_of("lru_hash", BPF_MAP_TYPE_LRU_HASH, 4, 16, 1), 3},
    {"lpm_trie", map_of("lpm_trie", BPF_MAP_TYPE_LPM_TRIE, 8, 8, 12, BPF_F_NO_PREALLOC)},
    {"lpm_trie_of_odd", map_of("lpm_trie", BPF_MAP_TYPE_LPM_TRIE, 11, 8, 12, BPF_F_NO_PREALLOC)},
    {"lpm_trie_of_long", map_of("lpm_trie", BPF_MAP_TYPE_LPM_TRIE, 16, 16, 20, BPF_F_NO_PREALLOC)},
    {"devmap", map_of("devmap", BPF_MAP_TYPE_DEVMAP, 4, 4, 6), 9},
    {"devmap_of_long", map_of("devmap", BPF_MAP_TYPE_DEVMAP, 4, 8, 6), 9},
    {"devmap_hash", map_of("devmap_hash", BPF_MAP_TYPE_DEVMAP_HASH, 4, 8, 6), 9},
};
std::string name_of_case(const testing::TestParamInfo<MapCase>& one) { return one.param.name; }
INSTANTIATE_TEST_SUITE_P(Types, DeviceMap, testing::ValuesIn(kMaps), name_of_case);
std::vector<MapCase> changed_ones() {
  std::vector<MapCase> changed(std::begin(kMaps), std::end(kMaps));
  std::erase_if(changed, [](const MapCase& c) { return is_of_devices(c.map); });
  return changed;
}
INSTANTIATE_TEST_SUITE_P(Types, ChangedDeviceMap, testing::ValuesIn(changed_ones()), name_of_case);

// Keys of one bucket, which who knows the hash's key can choose.
std::vector<Bytes> in_one_bucket(DeviceTwins& twins, u32 program, std::size_t count) {
  twins.run(program, {.bytes = Bytes(60)});
  const xg_program_machine& m = twins.device().machine();
  const u32 mask = xg_program_map_word(m, 0, XG_PROGRAM_MAP_BUCKET_MASK);
  std::vector<Bytes> keys;
  for (u32 number = 0; keys.size() < count; ++number)
    if ((xg_program_hash(m, xg_program_number_key(number)) & mask) == 3) keys.push_back(bytes_of(number));
  return keys;
}

TEST(DeviceMaps, KeysInOneBucket) {
  for (u32 type : {BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_LRU_HASH}) {
    const Map settings = map_of("map", type, 4, 8, 32);
    DeviceTwins twins({settings});
    const u32 program = twins.add(map_program(0, settings, false));
    const std::vector<Bytes> keys = in_one_bucket(twins, program, 40);
    Random random(3);
    for (int run = 0; run < 4000; ++run) {
      Bytes key = keys[random() % keys.size()];
      key.resize(16);
      const u8 what = static_cast<u8>(random() % 6);
      ASSERT_EQ(twins.run(program, {.bytes = map_packet(what, 0, key, random_value(random))}), "") << run;
    }
  }
}

TEST(DeviceMaps, ABucketHasAnEnd) {
  const Map settings = map_of("map", BPF_MAP_TYPE_HASH, 4, 8, 128);
  DeviceTwins twins({settings});
  const u32 program = twins.add(map_program(0, settings, false));
  const std::vector<Bytes> keys = in_one_bucket(twins, program, XG_PROGRAM_CHAIN + 1);
  DeviceState state = twins.device().state();
  for (u32 i = 0; i < XG_PROGRAM_CHAIN; ++i) ASSERT_EQ(state.update(0, keys[i], Bytes(8, 1)), 0) << i;
  EXPECT_EQ(state.update(0, keys.back(), Bytes(8, 1)), -ENOMEM);
  EXPECT_EQ(state.update(0, keys.front(), Bytes(8, 2)), 0) << "it is there";
  EXPECT_EQ(state.erase(0, keys[30]), 0);
  EXPECT_EQ(state.erase(0, keys[30]), -ENOENT);
  EXPECT_EQ(state.update(0, keys.back(), Bytes(8, 1)), 0);
  EXPECT_EQ(state.entries(0).size(), XG_PROGRAM_CHAIN);
}

TEST(DeviceMaps, AnEntryIsFoundByItsKeyAlone) {
  for (const u32 type : {BPF_MAP_TYPE_ARRAY, BPF_MAP_TYPE_PERCPU_ARRAY, BPF_MAP_TYPE_HASH,
                         BPF_MAP_TYPE_PERCPU_HASH, BPF_MAP_TYPE_LRU_HASH, BPF_MAP_TYPE_LPM_TRIE}) {
    SCOPED_TRACE(type);
    Map settings = map_of("map", type, type == BPF_MAP_TYPE_LPM_TRIE ? 8 : 4, 8, 16);
    if (type == BPF_MAP_TYPE_LPM_TRIE) settings.flags = BPF_F_NO_PREALLOC;
    const Program one = program_of({move_k(r0, XDP_PASS), leave()}, {settings});
    auto made = image_of(one);
    ASSERT_TRUE(made) << made.error();
    DeviceState state(made->tables, made->state);
    Bytes key(settings.key_bytes);
    for (u8 i = 0; i < 10; i++) {
      key[0] = i;
      ASSERT_EQ(state.update(0, key, Bytes(8, i)), 0);
    }
    const auto before = made->state;
    for (const auto& entry : state.entries(0)) {
      const auto found = state.find(0, entry.key);
      ASSERT_TRUE(found);
      EXPECT_EQ(found->key, entry.key);
      EXPECT_EQ(found->values, entry.values);
    }
    key[0] = 20;
    EXPECT_FALSE(state.find(0, key));
    EXPECT_FALSE(state.find(0, Bytes(3)));
    EXPECT_EQ(made->state, before) << "nothing is used by that";
  }
}

// Which keys meet is another question with another key of the hash.
TEST(DeviceMaps, TheHashIsKeyed) {
  const Map settings = map_of("map", BPF_MAP_TYPE_HASH, 4, 8, 128);
  DeviceTwins twins({settings});
  const u32 program = twins.add(map_program(0, settings, false));
  const std::vector<Bytes> keys = in_one_bucket(twins, program, 40);
  const Program one = program_of(map_program(0, settings, false), {settings});
  auto made = image_of(std::span(&one, 1), {.queues = 1, .key = {1, 2}});
  ASSERT_TRUE(made);
  DeviceState state(made->tables, made->state);
  for (const Bytes& key : keys) ASSERT_EQ(state.update(0, key, Bytes(8, 1)), 0);
  const u32* record = &made->tables[XG_PROGRAM_TABLE_WORDS];
  u32 used = 0;
  for (u32 i = 0; i <= record[XG_PROGRAM_MAP_BUCKET_MASK]; ++i)
    used += made->state[record[XG_PROGRAM_MAP_BUCKETS] + i] != 0;
  EXPECT_GT(used, 20u);
}

// The victim is the one that was not used for the longest time, in large maps, too.
TEST(DeviceMaps, VictimsOfALargeLruHash) {
  const Map settings = map_of("flows", BPF_MAP_TYPE_LRU_HASH, 8, 16, 300);
  DeviceTwins twins({settings});
  const u32 program = twins.add(map_program(0, settings, false));
  Random random(5);
  for (int run = 0; run < 6000; ++run) {
    Bytes key = bytes_of(u64{random() % 400});
    key.resize(16);
    const u8 what = random() % 3 == 0 ? kLookUp : random() % 20 == 0 ? kErase : kUpdate;
    ASSERT_EQ(twins.run(program, {.bytes = map_packet(what, 0, key, random_value(random))}, run % 50 == 0),
              "")
        << run;
  }
}

// The same, shard by shard, of maps that have just two of them, and of ones that have many.
TEST(DeviceMaps, VictimsOfShards) {
  for (const u32 entries : {256u, 5000u}) {
    const Map settings = map_of("flows", BPF_MAP_TYPE_LRU_HASH, 8, 16, entries);
    const Shards shards = shards_of(settings);
    DeviceTwins twins({settings}, {}, true);
    const u32 program = twins.add(map_program(0, settings, false));
    Random random(5);
    for (u32 run = 0; run < entries * 8; ++run) {
      Bytes key = bytes_of(u64{random() % (entries * 3)});
      key.resize(16);
      const u8 what = random() % 3 == 0 ? kLookUp : random() % 20 == 0 ? kErase : kUpdate;
      if (random() % 16 == 0) {
        const Bytes of_user(key.begin(), key.begin() + 8);
        if (random() % 4 == 0)
          ASSERT_TRUE(twins.erase(0, of_user));
        else
          ASSERT_TRUE(twins.update(0, of_user, random_value(random), 0));
      }
      ASSERT_EQ(
          twins.run(program, {.bytes = map_packet(what, 0, key, random_value(random))}, run % entries == 0),
          "")
          << run;
    }
    const auto all = twins.device().state().entries(0).size();
    EXPECT_GT(all, shards.all() * 8 / 10);
    EXPECT_LE(all, shards.all());
  }
}

// A run that would come to a shard that is not its own ends there, and has done nothing.
TEST(DeviceMaps, ARunIsInItsOwnShardAlone) {
  const Map settings = map_of("flows", BPF_MAP_TYPE_LRU_HASH, 8, 16, 4096);
  DeviceTwins twins({settings}, {}, true);
  const u32 program = twins.add(map_program(0, settings, false));
  Device& device = twins.device();
  Random random(5);
  for (u32 run = 0; run < 300; ++run) {
    Bytes key = bytes_of(u64{random()});
    key.resize(16);
    const auto packet = map_packet(kUpdate, 0, key, random_value(random));
    device.key_bits = 0;
    device.run(program, {.bytes = packet});
    device.key_bits = shards_of(settings).bits;
    device.key_set = device.machine().key_hash >> (32 - device.key_bits);
    for (const u8 what : {kLookUp, kUpdate, kErase, kUpdate}) {
      const auto own = device.run(program, {.bytes = map_packet(what, 0, key, random_value(random))});
      ASSERT_EQ(own.fault, ProgramFault::none);
    }
    device.key_set ^= 1u + random() % 3;
    const std::vector<u32> before = device.code().state;
    for (const u8 what : {kLookUp, kUpdate, kErase}) {
      const auto others = device.run(program, {.bytes = map_packet(what, 0, key, random_value(random))});
      ASSERT_EQ(others.fault, ProgramFault::wrong_map);
    }
    ASSERT_EQ(device.code().state, before);
  }
}

// As many as it was made for have room, whatever their keys are; and all shards are used.
TEST(DeviceMaps, ShardsHaveRoomForTheMapsEntries) {
  for (const u32 entries : {256u, 1000u, 65'536u, 300'001u}) {
    const Map settings = map_of("flows", BPF_MAP_TYPE_LRU_HASH, 8, 8, entries);
    const Shards shards = shards_of(settings);
    EXPECT_GE(shards.bits, 1u);
    EXPECT_LE(shards.all(), u64{entries} * 2);
    const Program one = program_of(map_program(0, settings, false), {settings});
    auto made = image_of(std::span(&one, 1), {.queues = 1, .key = kKey, .by_key = true});
    ASSERT_TRUE(made) << made.error();
    DeviceState state(made->tables, made->state);
    for (u64 number = 0; number < entries; ++number)
      ASSERT_EQ(state.update(0, bytes_of(number), Bytes(8, 1)), 0);
    EXPECT_EQ(state.entries(0).size(), entries);
    for (u64 number = 0; number < entries; number += 97) EXPECT_TRUE(state.find(0, bytes_of(number)));
  }
  EXPECT_EQ(shards_of(map_of("few", BPF_MAP_TYPE_LRU_HASH, 8, 8, 255)).bits, 0u);
  EXPECT_EQ(shards_of(map_of("hash", BPF_MAP_TYPE_HASH, 8, 8, 65'536)).bits, 0u);
}

// A value has an end, and so has what stands behind it.
TEST(DeviceMaps, BoundsAreOfOneValue) {
  const std::vector<Map> maps{map_of("array", BPF_MAP_TYPE_ARRAY, 4, 5, 4),
                              map_of("hash", BPF_MAP_TYPE_HASH, 4, 5, 4),
                              map_of("read", BPF_MAP_TYPE_ARRAY, 4, 8, 1, BPF_F_RDONLY_PROG)};
  DeviceTwins twins(maps);
  u32 faults = 0, reads = 0;
  for (u32 number : {0u, 1u})
    for (int size : {BPF_B, BPF_H, BPF_W, BPF_DW})
      for (int at = -9; at < 18; ++at) {
        Assembly a;
        a(store_k(BPF_W, r10, -4, 1), store_k(BPF_DW, r10, -16, 9), map(r1, number), move(r2, r10),
          alu_k(BPF_ADD, r2, -4), move(r3, r10), alu_k(BPF_ADD, r3, -16), move_k(r4, 0),
          call(BPF_FUNC_map_update_elem));
        a(map(r1, number), move(r2, r10), alu_k(BPF_ADD, r2, -4), call(BPF_FUNC_map_lookup_elem));
        a(load(size, r3, r0, at), move(r0, r3), leave());
        ASSERT_EQ(twins.run(twins.add(a.code()), {.bytes = Bytes(60)}), "")
            << number << " " << size << " at " << at;
        (twins.answer().fault == ProgramFault::none ? reads : faults)++;
      }
  EXPECT_EQ(reads, 2u * (5 + 4 + 2));
  EXPECT_GT(faults, 100u);
  const auto fault_of = [&](const auto&... parts) {
    Assembly a;
    a(parts..., move_k(r0, 2), leave());
    EXPECT_EQ(twins.run(twins.add(a.code()), {.bytes = Bytes(60)}), "");
    return twins.answer().fault;
  };
  EXPECT_EQ(fault_of(map_value(r1, 2, 4), load(BPF_W, r2, r1, 0)), ProgramFault::none);
  EXPECT_EQ(fault_of(map_value(r1, 2, 4), store_k(BPF_W, r1, 0, 1)), ProgramFault::read_only);
  EXPECT_EQ(fault_of(map(r1, 2), move(r2, r10), alu_k(BPF_ADD, r2, -4), move(r3, r10),
                     alu_k(BPF_ADD, r3, -16), call(BPF_FUNC_map_update_elem)),
            ProgramFault::read_only);
}

}  // namespace
}  // namespace xdpgpu::gpu::programs
