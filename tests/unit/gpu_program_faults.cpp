// SPDX-License-Identifier: MIT
//
// What becomes of programs that no verifier has seen, in the sequential definition: each ends, with the
// reason. And what the definition chooses, where the kernel promises nothing.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "gpu/reference/program.hpp"
#include "tests/kernel/programs/assembler.hpp"
#include "tests/unit/dataplane_random.hpp"

namespace xdpgpu::gpu::reference {
namespace {

using namespace test;  // NOLINT: the assembler's words

programs::Map map_of(u32 type, u32 key_bytes, u32 value_bytes, u32 entries, u32 flags = 0) {
  programs::Map map;
  map.name = "map";
  map.type = type;
  map.key_bytes = key_bytes;
  map.value_bytes = value_bytes;
  map.entries = entries;
  map.flags = flags;
  return map;
}

ProgramAnswer answer_of(const Code& code, const std::vector<programs::Map>& settings = {}) {
  ProgramMaps maps(settings);
  ProgramSet set(maps);
  return set.run(set.add(code), {.bytes = std::vector<u8>(60)});
}

ProgramFault fault_of(const Code& code, const std::vector<programs::Map>& settings = {}) {
  const ProgramAnswer answer = answer_of(code, settings);
  if (answer.fault != ProgramFault::none) {
    EXPECT_EQ(answer.action, XDP_ABORTED);
  }
  EXPECT_EQ(answer.packet.size(), 60u);
  return answer.fault;
}

TEST(ProgramFaults, Bounds) {
  const auto loads_packet = [](int at, int size) {
    return Code{load(BPF_W, r2, r1, 0), load(size, r0, r2, at), leave()};
  };
  EXPECT_EQ(fault_of(loads_packet(0, BPF_B)), ProgramFault::none);
  EXPECT_EQ(fault_of(loads_packet(-1, BPF_B)), ProgramFault::out_of_bounds) << "there is no metadata";
  EXPECT_EQ(fault_of(loads_packet(59, BPF_B)), ProgramFault::none);
  EXPECT_EQ(fault_of(loads_packet(60, BPF_B)), ProgramFault::out_of_bounds);
  EXPECT_EQ(fault_of(loads_packet(52, BPF_DW)), ProgramFault::none);
  EXPECT_EQ(fault_of(loads_packet(53, BPF_DW)), ProgramFault::out_of_bounds);
  const auto stores_stack = [](int at) { return Code{store_k(BPF_DW, r10, at, 1), move_k(r0, 2), leave()}; };
  EXPECT_EQ(fault_of(stores_stack(-8)), ProgramFault::none);
  EXPECT_EQ(fault_of(stores_stack(-7)), ProgramFault::out_of_bounds);
  EXPECT_EQ(fault_of(stores_stack(-512)), ProgramFault::none);
  EXPECT_EQ(fault_of(stores_stack(-513)), ProgramFault::out_of_bounds);
  // Numbers that are no pointers, or that were made of one.
  for (u64 address : {u64{0}, u64{8}, u64{1} << 32, u64{3} << 32, u64{17} << 32, u64{24} << 32, u64{1} << 60,
                      u64{1} << 61, ~u64{0}}) {
    Assembly a;
    a(number(r2, address), load(BPF_DW, r0, r2, 0), leave());
    EXPECT_EQ(fault_of(a.code()), ProgramFault::out_of_bounds) << address;
  }
  const auto loads_context = [](int at, int size) { return Code{load(size, r0, r1, at), leave()}; };
  EXPECT_EQ(fault_of(loads_context(20, BPF_W)), ProgramFault::none);
  EXPECT_EQ(fault_of(loads_context(24, BPF_W)), ProgramFault::out_of_bounds);
  EXPECT_EQ(fault_of(loads_context(2, BPF_W)), ProgramFault::out_of_bounds);
  EXPECT_EQ(fault_of(loads_context(0, BPF_DW)), ProgramFault::out_of_bounds);
  EXPECT_EQ(fault_of({store_k(BPF_W, r1, 0, 1), move_k(r0, 2), leave()}), ProgramFault::read_only);
}

// A value is its own bytes and no more, and a map is none.
TEST(ProgramFaults, Maps) {
  const std::vector<programs::Map> maps{map_of(BPF_MAP_TYPE_ARRAY, 4, 12, 1),
                                        map_of(BPF_MAP_TYPE_ARRAY, 4, 12, 1, BPF_F_RDONLY_PROG),
                                        map_of(BPF_MAP_TYPE_DEVMAP, 4, 4, 2), map_of(999, 4, 4, 2)};
  const auto stores = [](u32 number, u32 at) {
    Assembly a;
    a(map_value(r1, number, at), store_k(BPF_DW, r1, 0, 1), move_k(r0, 2), leave());
    return a.code();
  };
  EXPECT_EQ(fault_of(stores(0, 4), maps), ProgramFault::none);
  EXPECT_EQ(fault_of(stores(0, 5), maps), ProgramFault::out_of_bounds);
  EXPECT_EQ(fault_of(stores(1, 4), maps), ProgramFault::read_only);
  EXPECT_EQ(fault_of(stores(2, 0), maps), ProgramFault::wrong_map);
  EXPECT_EQ(fault_of(stores(3, 0), maps), ProgramFault::wrong_map);
  EXPECT_EQ(fault_of(stores(4, 0), maps), ProgramFault::wrong_map);
  const auto calls = [](int helper, const Code& first) {
    Assembly a;
    a(first, store_k(BPF_DW, r10, -8, 0), move(r2, r10), alu_k(BPF_ADD, r2, -8), move(r3, r10),
      alu_k(BPF_ADD, r3, -8), move_k(r4, 0), call(helper), leave());
    return a.code();
  };
  for (int helper : {BPF_FUNC_map_lookup_elem, BPF_FUNC_map_update_elem, BPF_FUNC_map_delete_elem,
                     BPF_FUNC_redirect_map, BPF_FUNC_tail_call})
    EXPECT_EQ(fault_of(calls(helper, {move_k(r1, 7)}), maps), ProgramFault::wrong_map) << helper;
  EXPECT_EQ(fault_of(calls(BPF_FUNC_map_update_elem, map(r1, 2)), maps), ProgramFault::wrong_map);
  EXPECT_EQ(fault_of(calls(BPF_FUNC_map_update_elem, map(r1, 0)), maps), ProgramFault::out_of_bounds)
      << "a value of 12 bytes where there are 8";
  EXPECT_EQ(fault_of(calls(9999, map(r1, 0)), maps), ProgramFault::unknown_helper);
}

TEST(ProgramFaults, Instructions) {
  const auto first = [](const Instruction& i) { return Code{i, move_k(r0, 2), leave()}; };
  EXPECT_EQ(fault_of(first(move_k(r10, 2))), ProgramFault::unknown_instruction)
      << "the stack's place is nobody's";
  EXPECT_EQ(fault_of(first(move_k(11, 2))), ProgramFault::unknown_instruction);
  EXPECT_EQ(fault_of(first(move(r0, 15))), ProgramFault::unknown_instruction);
  EXPECT_EQ(fault_of(first(alu_k(0xe0, r0, 1))), ProgramFault::unknown_instruction);
  EXPECT_EQ(fault_of(first(jump_k(0xe0, r0, 1))), ProgramFault::unknown_instruction);
  EXPECT_EQ(fault_of(first(made(BPF_ALU | BPF_MOV | BPF_X, r0, r1, 32, 0))),
            ProgramFault::unknown_instruction);
  EXPECT_EQ(fault_of(first(made(BPF_ALU64 | BPF_DIV, r0, 0, 2, 1))), ProgramFault::unknown_instruction);
  EXPECT_EQ(fault_of(first(made(BPF_ALU | BPF_END, r0, 0, 0, 8))), ProgramFault::unknown_instruction);
  EXPECT_EQ(fault_of(first(made(BPF_LD | BPF_ABS | BPF_W, r0, 0, 0, 8))), ProgramFault::unknown_instruction);
  EXPECT_EQ(fault_of(first(load_signed(BPF_DW, r0, r10, -8))), ProgramFault::unknown_instruction);
  EXPECT_EQ(fault_of(first(atomically(BPF_DW, 0xe0, r10, -8, r0))), ProgramFault::unknown_instruction);
  EXPECT_EQ(fault_of(first(atomically(BPF_DW, 0xf0, r10, -8, r0))), ProgramFault::unknown_instruction);
  EXPECT_EQ(fault_of(first(atomically(BPF_H, BPF_ADD, r10, -8, r0))), ProgramFault::unknown_instruction);
  EXPECT_EQ(fault_of({two(r0, 9, 0, 0)[0], two(r0, 9, 0, 0)[1], leave()}), ProgramFault::unknown_instruction);
}

TEST(ProgramFaults, WhereThereIsNoProgram) {
  EXPECT_EQ(fault_of({}), ProgramFault::outside_program);
  EXPECT_EQ(fault_of({move_k(r0, 2)}), ProgramFault::outside_program);
  EXPECT_EQ(fault_of({always(1), leave()}), ProgramFault::outside_program);
  EXPECT_EQ(fault_of({always(-2), leave()}), ProgramFault::outside_program);
  EXPECT_EQ(fault_of({made(BPF_JMP32 | BPF_JA, 0, 0, 0, 0x7fffffff), leave()}),
            ProgramFault::outside_program);
  EXPECT_EQ(fault_of({made(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, -3), leave()}),
            ProgramFault::outside_program);
  EXPECT_EQ(fault_of({number(r0, 1)[0]}), ProgramFault::outside_program);
  EXPECT_EQ(fault_of({move_k(r1, 3), move_k(r4, 0), call(BPF_FUNC_loop), leave()}),
            ProgramFault::outside_program);
}

// Who lets helpers work for it has as many steps as that work takes.
TEST(ProgramFaults, StepsOfHelpers) {
  const auto steps_of = [](std::int32_t by) {
    ProgramMaps maps({});
    ProgramSet set(maps);
    const Code code{move_k(r2, by), call(BPF_FUNC_xdp_adjust_tail), leave()};
    return set.run(set.add(code), {.bytes = std::vector<u8>(60)}).steps;
  };
  EXPECT_EQ(steps_of(-8), 3u);
  EXPECT_EQ(steps_of(800), 103u);
  EXPECT_EQ(steps_of(100'000), 3u) << "nothing came of it";
}

TEST(ProgramFaults, WithoutEnd) {
  EXPECT_EQ(fault_of({always(-1)}), ProgramFault::too_many_instructions);
  EXPECT_EQ(fault_of({made(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, -1), leave()}),
            ProgramFault::too_many_calls);
  // What helpers copy counts: a value of 4 MiB a turn.
  Assembly a;
  a(map(r6, 0), map_value(r7, 1, 0), store_k(BPF_W, r10, -4, 0));
  a.label("again")(move(r1, r6), move(r2, r10), alu_k(BPF_ADD, r2, -4), move(r3, r7), move_k(r4, 0),
                   call(BPF_FUNC_map_update_elem))
      .to("again", always());
  const auto large = map_of(BPF_MAP_TYPE_ARRAY, 4, 4 << 20, 1);
  const ProgramAnswer answer = answer_of(a.code(), {large, large});
  EXPECT_EQ(answer.fault, ProgramFault::too_many_instructions);
  EXPECT_LT(answer.steps, kMostProgramSteps + (1 << 20));
}

// An array has as many entries as it says, and none before they are asked for.
TEST(ProgramMapsOf, SizesThatMakeNoSense) {
  EXPECT_EQ(ProgramMap::of(map_of(BPF_MAP_TYPE_ARRAY, 8, 4, 4)), nullptr);
  EXPECT_EQ(ProgramMap::of(map_of(BPF_MAP_TYPE_ARRAY, 4, 0, 4)), nullptr);
  EXPECT_EQ(ProgramMap::of(map_of(BPF_MAP_TYPE_HASH, 0, 4, 4)), nullptr);
  EXPECT_EQ(ProgramMap::of(map_of(BPF_MAP_TYPE_HASH, 4, 4, 0)), nullptr);
  EXPECT_EQ(ProgramMap::of(map_of(BPF_MAP_TYPE_LPM_TRIE, 4, 4, 4)), nullptr);
  EXPECT_NE(ProgramMap::of(map_of(BPF_MAP_TYPE_ARRAY, 4, 4 << 20, ~0u)), nullptr);
}

// An LRU hash that is full: the one that was not used for the longest time goes, in every order of uses.
TEST(ProgramMapsOf, LruVictims) {
  constexpr u32 kEntries = 8;
  const auto map = ProgramMap::of(map_of(BPF_MAP_TYPE_LRU_HASH, 4, 4, kEntries));
  std::vector<u8> order;  // the one used last at the end
  dataplane::Random random(3);
  const auto key_of = [](u8 number) { return std::vector<u8>{number, 0, 0, 0}; };
  for (int step = 0; step < 20'000; ++step) {
    const u8 number = static_cast<u8>(random() % 24);
    const auto at = std::ranges::find(order, number);
    const bool is_there = at != order.end();
    const auto key = key_of(number);
    switch (random() % 4) {
      case 0:
        ASSERT_EQ(map->look_up(key, 0) != nullptr, is_there);
        if (!is_there) continue;
        break;
      case 1:
        ASSERT_EQ(map->erase(key) == 0, is_there);
        if (is_there) order.erase(at);
        continue;
      default:
        ASSERT_EQ(map->update(key, key, BPF_ANY, 0), 0);
        if (!is_there && order.size() == kEntries) order.erase(order.begin());
    }
    std::erase(order, number);
    order.push_back(number);
    std::vector<u8> expected = order, has;
    std::ranges::sort(expected);
    for (const ProgramEntry& entry : map->entries()) has.push_back(entry.key[0]);
    ASSERT_EQ(has, expected) << "step " << step;
  }
}

// Who holds a pointer to a value keeps it as it was, when its entry is replaced or deleted.
TEST(ProgramMapsOf, ValuesThatAreHeld) {
  for (u32 type : {BPF_MAP_TYPE_HASH, BPF_MAP_TYPE_LRU_HASH}) {
    const auto map = ProgramMap::of(map_of(type, 4, 4, 2));
    const std::vector<u8> key(4), one{1, 0, 0, 0}, two{2, 0, 0, 0};
    map->update(key, one, BPF_ANY, 0);
    const auto held = map->look_up(key, 0);
    map->update(key, two, BPF_ANY, 0);
    EXPECT_EQ(held->bytes, one);
    EXPECT_EQ(map->look_up(key, 0)->bytes, two);
    map->erase(key);
    EXPECT_EQ(held->bytes, one);
    EXPECT_EQ(map->look_up(key, 0), nullptr);
  }
}

// Any bytes at all, as a program: it ends, and nothing is touched that is not its own (the sanitizers look).
TEST(ProgramFaults, AnyBytesAreAProgram) {
  dataplane::Random random(9);
  const std::vector<programs::Map> settings{
      map_of(BPF_MAP_TYPE_ARRAY, 4, 16, 4), map_of(BPF_MAP_TYPE_HASH, 4, 16, 4),
      map_of(BPF_MAP_TYPE_LPM_TRIE, 8, 16, 4), map_of(BPF_MAP_TYPE_ARRAY, 4, 16, 1)};
  const u8 opcodes[]{0x05, 0x06, 0x07, 0x0f, 0x15, 0x18, 0x1d, 0x25, 0x2f, 0x3f, 0x61, 0x62,
                     0x63, 0x69, 0x6a, 0x6b, 0x71, 0x72, 0x73, 0x79, 0x7a, 0x7b, 0x81, 0x85,
                     0x85, 0x85, 0x91, 0x9f, 0xb7, 0xbf, 0xbf, 0xc3, 0xdb, 0xd7, 0xdc, 0x95};
  std::array<u32, 9> seen{};
  for (int run = 0; run < 20'000; ++run) {
    Code code;
    for (u32 i = 0; i < 24; ++i) {
      Instruction one;
      one.opcode = random() % 8 == 0 ? static_cast<u8>(random()) : opcodes[random() % std::size(opcodes)];
      one.destination = static_cast<u8>(random() % 11);
      one.source = static_cast<u8>(random() % 2 == 0 ? 0 : random() % 11);
      one.offset = static_cast<std::int16_t>(random() % 3 == 0 ? 0 : random() % 16 - 8);
      one.immediate = static_cast<std::int32_t>(random() % 4 == 0 ? random() : random() % 70);
      code.push_back(one);
    }
    code.push_back(leave());
    seen[static_cast<u32>(answer_of(code, settings).fault)]++;
  }
  for (ProgramFault fault :
       {ProgramFault::out_of_bounds, ProgramFault::unknown_instruction, ProgramFault::unknown_helper,
        ProgramFault::wrong_map, ProgramFault::outside_program, ProgramFault::too_many_instructions})
    EXPECT_NE(seen[static_cast<u32>(fault)], 0u) << name_of(fault);
}

}  // namespace
}  // namespace xdpgpu::gpu::reference
