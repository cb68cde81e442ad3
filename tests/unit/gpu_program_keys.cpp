// SPDX-License-Identifier: MIT
//
// Which programs look into their LRU hashes by one key alone, and that packets of other keys do not meet
// theirs.
#include "gpu/program_keys.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "gpu/program_counts.hpp"
#include "gpu/program_shards.hpp"
#include "tests/kernel/programs/keyed.hpp"
#include "tests/unit/program_ahead.hpp"

namespace xdpgpu::gpu::programs {
namespace {

using namespace test;  // NOLINT: the assembler's words

Code ended(Assembly& a) {
  a.label("none")(move_k(r0, XDP_PASS), leave());
  return a.code();
}
Taken taken(const Code& code, std::vector<Map> maps) { return how_taken(program_of(code, std::move(maps))); }

// The key, of two words at R10 - 16, and what is done by it.
constexpr int kKeyPlace = -16;
std::vector<Map> two_lru_maps() {
  return {
      map_of("flows", BPF_MAP_TYPE_LRU_HASH, 8, 16, 4096), map_of("more", BPF_MAP_TYPE_LRU_HASH, 8, 8, 512),
      map_of("few", BPF_MAP_TYPE_LRU_HASH, 8, 8, 255),     map_of("short", BPF_MAP_TYPE_LRU_HASH, 4, 8, 512),
      map_of("counts", BPF_MAP_TYPE_ARRAY, 4, 8, 4),       map_of("hash", BPF_MAP_TYPE_HASH, 8, 8, 512)};
}
template <class... Parts>
Code with_key(const Parts&... parts) {
  Assembly a;
  a(move(r6, r1), load(BPF_W, r7, r1, 0), load(BPF_DW, r2, r7, 0), store(BPF_DW, r10, kKeyPlace, r2),
    store_k(BPF_DW, r10, -32, 1), store_k(BPF_DW, r10, -24, 1));
  a(parts...);
  return ended(a);
}
Code asked(u32 number, int helper, int place = kKeyPlace) {
  return {map(r1, number)[0], map(r1, number)[1],      move(r2, r10), alu_k(BPF_ADD, r2, place),
          move(r3, r10),      alu_k(BPF_ADD, r3, -32), move_k(r4, 0), call(helper)};
}
// One is added to an entry of the map counts; without one `over` instructions are left out.
Code counted_by(std::int16_t over) {
  return {store_k(BPF_W, r10, -8, 1),
          map(r1, 4)[0],
          map(r1, 4)[1],
          move(r2, r10),
          alu_k(BPF_ADD, r2, -8),
          call(BPF_FUNC_map_lookup_elem),
          jump_k(BPF_JEQ, r0, 0, over),
          move_k(r1, 1),
          atomically(BPF_DW, BPF_ADD, r0, 0, r1)};
}
Taken by_key(const Code& code) { return taken(code, two_lru_maps()); }
void expect_by_key(const Code& code, const std::vector<u32>& keyed) {
  const Taken how = by_key(code);
  EXPECT_EQ(how.how, Taking::by_key) << how.why << "\n" << test::text_of(code);
  EXPECT_EQ(how.keyed, keyed);
}
void expect_in_order(const Code& code, std::string_view why) {
  const Taken how = by_key(code);
  EXPECT_EQ(how.how, Taking::in_order) << test::text_of(code);
  EXPECT_NE(how.why.find(why), std::string::npos) << how.why << "\n" << test::text_of(code);
  EXPECT_TRUE(how.keyed.empty() && how.counted.empty());
}

TEST(ProgramKeys, PacketsAreOrderedByTheOnlyKey) {
  const Code look = asked(0, BPF_FUNC_map_lookup_elem), update = asked(0, BPF_FUNC_map_update_elem),
             erase = asked(0, BPF_FUNC_map_delete_elem);
  expect_by_key(with_key(look), {0});
  expect_by_key(with_key(look, update, erase), {0});
  expect_by_key(with_key(update, asked(1, BPF_FUNC_map_lookup_elem)), {0, 1});
  // Whatever is done to what is there.
  const Code none = {jump_k(BPF_JEQ, r0, 0, 4)};
  expect_by_key(with_key(look, none, load(BPF_DW, r1, r0, 0), alu_k(BPF_MUL, r1, 3), store(BPF_H, r0, 3, r1),
                         atomically(BPF_DW, BPF_XCHG, r0, 8, r1)),
                {0});
  // The key's bytes may be written before, and others at any time.
  expect_by_key(with_key(store_k(BPF_W, r10, kKeyPlace, 7), look, store_k(BPF_DW, r10, -8, 7),
                         store_k(BPF_DW, r10, -24, 7), update),
                {0});
  // Or when nothing is asked by it any more.
  expect_by_key(with_key(look, store_k(BPF_W, r10, kKeyPlace, 7)), {0});
  // It counts beside.
  const Code counting = counted_by(2);
  expect_by_key(with_key(counting, look, update), {0});
  const Taken how = by_key(with_key(counting, look));
  ASSERT_EQ(how.counted.size(), 1u);
  EXPECT_EQ(how.counted[0], (CountedBytes{4, 0, 8}));
  EXPECT_EQ(how.why, "it looks into the map flows by one key alone, and only counts in others");
  // Nobody asks for an LRU hash: it counts.
  EXPECT_EQ(by_key(with_key(counting)).how, Taking::counting);
}

TEST(ProgramKeys, WhatIsNotOneKeyIsInOrder) {
  const Code look = asked(0, BPF_FUNC_map_lookup_elem), update = asked(0, BPF_FUNC_map_update_elem);
  expect_in_order(with_key(look, asked(0, BPF_FUNC_map_update_elem, -24)), "look into flows by two keys");
  expect_in_order(with_key(look, store_k(BPF_B, r10, kKeyPlace + 7, 7), update),
                  "changes the key by which it looks into flows");
  expect_in_order(with_key(look, store_k(BPF_DW, r10, kKeyPlace - 4, 7), update),
                  "changes the key by which it looks into flows");
  expect_in_order(with_key(asked(3, BPF_FUNC_map_lookup_elem), look), "are not of one size");
  expect_in_order(with_key(look, asked(2, BPF_FUNC_map_lookup_elem)),
                  "the map few, an LRU hash, has too few");
  // By bytes of the packet, which are no place on the stack.
  expect_in_order(with_key(Code{map(r1, 0)[0], map(r1, 0)[1], move(r2, r7), call(BPF_FUNC_map_lookup_elem)}),
                  "by a key that does not stand at one place of its stack");
  expect_in_order(with_key(look, asked(5, BPF_FUNC_map_update_elem)), "updates an entry of a map");
  Assembly a;
  a(move(r6, r1), load(BPF_W, r7, r1, 0), load(BPF_DW, r2, r7, 0), store(BPF_DW, r10, kKeyPlace, r2),
    store_k(BPF_DW, r10, -32, 1), store_k(BPF_DW, r10, -24, 1), move_k(r8, 0));
  a.label("again")(update, alu_k(BPF_ADD, r8, 1));
  a.to("again", jump_k(BPF_JLT, r8, 5));
  expect_in_order(ended(a), "changes flows in a loop");
  Code many;
  for (int i = 0; i < 9; i++) many.insert(many.end(), update.begin(), update.end());
  expect_in_order(with_key(many), "it changes its LRU hashes at 9 places");
  // What is counted does not come to an LRU hash.
  Code counting = counted_by(20);
  counting.push_back(load(BPF_DW, r9, r0, 0));
  expect_in_order(with_key(counting, look, jump_k(BPF_JEQ, r0, 0, 1), store(BPF_DW, r0, 0, r9)),
                  "writes to an LRU hash");
}

// Packets of one shard in their order, those of others beside them: the answers and the maps' end are the
// sequential definition's, full maps and all.
TEST(ProgramKeys, ShardsDoNotMeet) {
  constexpr u32 kThreads = 4, kPackets = 3000;
  dataplane::Random random(17);
  const auto below = [&](u32 n) { return random() % n; };
  const std::vector<Map> maps = test::keyed_maps();
  u32 evicted = 0;
  for (u32 number = 0; number < 40; ++number) {
    const Program program = program_of(test::keyed_program(below), maps);
    const Taken how = how_taken(program);
    ASSERT_EQ(how.how, Taking::by_key) << how.why << "\n" << test::text_of(program.instructions);
    u32 bits = 32;
    for (const u32 map : how.keyed) bits = std::min(bits, shards_of(maps[map]).bits);
    ASSERT_GE(bits, 1u);
    Image image = programs::image_of(std::span(&program, 1),
                                     {.queues = 1, .key = kKey, .counts = &how.counts, .by_key = true})
                      .value();
    reference::ProgramMaps expected_maps(maps, &kKey);
    reference::ProgramSet set(expected_maps);
    set.add(program.instructions);
    std::vector<ProgramPacket> packets(kPackets);
    std::vector<u32> expected(kPackets), answers(kPackets), shards(kPackets, ~0u);
    for (u32 i = 0; i < kPackets; ++i) {
      packets[i].bytes = Bytes(60);
      for (u8& byte : packets[i].bytes) byte = static_cast<u8>(random());
      // Some 700 keys, of which the smaller map has room for half.
      packets[i].bytes[26] = static_cast<u8>(below(100));
      packets[i].bytes[27] = packets[i].bytes[28] = packets[i].bytes[29] = 0;
      packets[i].bytes[18] = static_cast<u8>(below(7));
      if (i % 50 == 0) packets[i].bytes.resize(20);
      packets[i].most_lines = 0;
      const ProgramAnswer answer = set.run(0, packets[i]);
      EXPECT_EQ(answer.fault, ProgramFault::none);
      expected[i] = answer.action;
    }
    const auto machine_of = [&](xg_program_machine& m, u32 i, std::vector<u32>& frame, bool seeks_key) {
      set_machine(m, image, packets[i], frame);
      m.seeks_key = seeks_key;
      xg_program_run(m, 0);
    };
    // What only seeks the key leaves nothing behind.
    const std::vector<u32> before = image.state;
    const auto seeks = std::make_unique<xg_program_machine>();
    std::vector<u32> frame;
    for (u32 i = 0; i < kPackets; ++i) {
      machine_of(*seeks, i, frame, true);
      const bool has_key = packets[i].bytes.size() >= 34 && packets[i].bytes[20] >= 32;
      ASSERT_EQ(seeks->fault, has_key ? XG_PROGRAM_KEY_FOUND : 0u);
      if (has_key) shards[i] = seeks->key_hash >> (32 - bits);
    }
    ASSERT_EQ(image.state, before);
    const auto run = [&](u32 thread) {
      const auto m = std::make_unique<xg_program_machine>();
      std::vector<u32> own;
      for (u32 i = 0; i < kPackets; ++i) {
        const u32 whose = shards[i] == ~0u ? i : shards[i];
        if (whose % kThreads != thread) continue;
        machine_of(*m, i, own, false);
        answers[i] = m->fault == 0 ? static_cast<u32>(m->r[0]) : ~0u;
      }
    };
    std::vector<std::thread> threads;
    for (u32 i = 0; i < kThreads; ++i) threads.emplace_back(run, i);
    for (std::thread& one : threads) one.join();
    ASSERT_EQ(answers, expected) << test::text_of(program.instructions);
    DeviceState state(image.tables, image.state);
    for (u32 map = 0; map < maps.size(); ++map)
      ASSERT_EQ(contents_of(state, map, maps[map]), contents_of(expected_maps[map]))
          << maps[map].name << "\n"
          << test::text_of(program.instructions);
    const u32 most = shards_of(maps[0]).entries << shards_of(maps[0]).bits;
    EXPECT_LE(state.entries(0).size(), most);
    evicted += state.entries(0).size() > most * 9 / 10;
  }
  EXPECT_GT(evicted, 5u);
}

// Of some hundred keys, in maps that are full at times.
std::vector<ProgramPacket> keyed_packets(dataplane::Random& random, u32 count, u32 keys) {
  std::vector<ProgramPacket> packets(count);
  for (u32 i = 0; i < count; ++i) {
    packets[i].bytes = Bytes(i % 50 == 0 ? 20 : 60);
    for (u8& byte : packets[i].bytes) byte = static_cast<u8>(random());
    packets[i].bytes[18] = static_cast<u8>(random() % 7);
    if (packets[i].bytes.size() > 34) {
      packets[i].bytes[26] = static_cast<u8>(random() % keys);
      packets[i].bytes[27] = packets[i].bytes[28] = packets[i].bytes[29] = 0;
    }
    packets[i].most_lines = 0;
  }
  return packets;
}

// Runs ahead of their turns come to the same, however many are at a time.
TEST(ProgramKeys, RunsAheadOfTheirTurnsComeToTheSame) {
  dataplane::Random random(23);
  const auto below = [&](u32 n) { return random() % n; };
  const std::vector<Map> maps = test::keyed_maps();
  AheadCounts counts;
  for (u32 number = 0; number < 60; ++number) {
    const Program program = program_of(test::keyed_program(below), maps);
    const Taken how = how_taken(program);
    ASSERT_EQ(how.how, Taking::by_key) << how.why;
    u32 bits = 32;
    for (const u32 map : how.keyed) bits = std::min(bits, shards_of(maps[map]).bits);
    Image image = programs::image_of(std::span(&program, 1),
                                     {.queues = 1, .key = kKey, .counts = &how.counts, .by_key = true})
                      .value();
    reference::ProgramMaps expected_maps(maps, &kKey);
    reference::ProgramSet set(expected_maps);
    set.add(program.instructions);
    const u32 keys = number % 3 == 0 ? 4 : 100;
    for (const u32 at_a_time : {1u, 3u, 8u, 40u, 1000u}) {
      const auto packets = keyed_packets(random, at_a_time, keys);
      const auto answers = run_ahead(
          image, packets, bits, [](xg_program_machine& m) { xg_program_run(m, 0); }, random, counts);
      for (u32 i = 0; i < packets.size(); ++i) {
        const ProgramAnswer expected = set.run(0, packets[i]);
        ASSERT_EQ(expected.fault, ProgramFault::none);
        ASSERT_EQ(answers[i], expected.action) << i << "\n" << test::text_of(program.instructions);
      }
      const DeviceState state(image.tables, image.state);
      for (u32 map = 0; map < maps.size(); ++map)
        ASSERT_EQ(contents_of(state, map, maps[map]), contents_of(expected_maps[map]))
            << maps[map].name << "\n"
            << test::text_of(program.instructions);
    }
  }
  EXPECT_GT(counts.held, 10'000u);
  EXPECT_GT(counts.at_once, 300u);
  EXPECT_GT(counts.again, 1'000u);
  EXPECT_GT(counts.turned_back, 1'000u);
}

}  // namespace
}  // namespace xdpgpu::gpu::programs
