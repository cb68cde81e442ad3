// SPDX-License-Identifier: MIT
//
// Which changes of maps are counts, and what is none, and why.
#include "gpu/program_counts.hpp"

#include <gtest/gtest.h>

#include <thread>

#include "tests/kernel/programs/counting.hpp"
#include "tests/unit/program_devices.hpp"

namespace xdpgpu::gpu::programs {
namespace {

using namespace test;  // NOLINT: the assembler's words

constexpr u8 kXadd = BPF_ADD;

std::vector<Map> two_maps() {
  return {map_of("counts", BPF_MAP_TYPE_ARRAY, 4, 16, 8), map_of("other", BPF_MAP_TYPE_PERCPU_HASH, 4, 16, 8),
          map_of("one", BPF_MAP_TYPE_ARRAY, 4, 8, 1)};
}

// R0 is the value under the number at R10 - 4 in a map, R6 the context, and there is one.
void look_up(Assembly& a, u32 number, const std::string& none = "none") {
  a(store_k(BPF_W, r10, -4, 1), map(r1, number), move(r2, r10), alu_k(BPF_ADD, r2, -4),
    call(BPF_FUNC_map_lookup_elem));
  a.to(none, jump_k(BPF_JEQ, r0, 0));
}
Code ended(Assembly& a) {
  a.label("none")(move_k(r0, XDP_PASS), leave());
  return a.code();
}
template <class... Parts>
Code with_value(const Parts&... parts) {
  Assembly a;
  a(move(r6, r1));
  look_up(a, 0);
  a(parts...);
  return ended(a);
}

Taken taken(const Code& code, std::vector<Map> maps = two_maps()) {
  return how_taken({.name = "test", .instructions = code, .maps = std::move(maps), .license = "GPL"});
}
void counts(const Code& code, std::size_t stores, std::size_t atomics = 0) {
  const Taken how = taken(code);
  EXPECT_EQ(how.how, Taking::counting) << how.why << "\n" << test::text_of(code);
  EXPECT_EQ(how.counts.stores.size(), stores);
  EXPECT_EQ(how.counts.atomics.size(), atomics);
}
void no(const Code& code, std::string_view why, std::vector<Map> maps = two_maps()) {
  const Taken how = taken(code, std::move(maps));
  EXPECT_EQ(how.how, Taking::in_order) << test::text_of(code);
  EXPECT_NE(how.why.find(why), std::string::npos) << how.why << "\n" << test::text_of(code);
  EXPECT_TRUE(how.counts.stores.empty() && how.counts.loads.empty() && how.counts.atomics.empty());
}

TEST(ProgramCounts, WhatChangesNothingGoesSideBySide) {
  EXPECT_EQ(taken({move_k(r0, XDP_PASS), leave()}).how, Taking::side_by_side);
  EXPECT_EQ(taken({store_k(BPF_W, r7, 0, 1), move_k(r0, 1), leave()}, {}).how, Taking::side_by_side);
  EXPECT_EQ(taken(with_value(load(BPF_DW, r1, r0, 0))).why, "it changes no map");
}

TEST(ProgramCounts, AtomicAdditions) {
  counts(with_value(move_k(r1, 1), atomically(BPF_DW, kXadd, r0, 0, r1)), 0, 1);
  counts(with_value(move_k(r1, 1), atomically(BPF_W, kXadd, r0, 12, r1)), 0, 1);
  EXPECT_EQ(taken(with_value(move_k(r1, 1), atomically(BPF_W, kXadd, r0, 12, r1))).counted,
            (std::vector<CountedBytes>{{0, 12, 4}}));
  no(with_value(move_k(r1, 1), atomically(BPF_DW, kXadd | BPF_FETCH, r0, 0, r1)),
     "instruction 9 changes the map counts atomically, but not by an addition alone");
  no(with_value(move_k(r1, 1), atomically(BPF_DW, BPF_OR, r0, 0, r1)), "not by an addition alone");
  no(with_value(move_k(r1, 1), atomically(BPF_DW, kXadd, r0, 4, r1)),
     "instruction 9 adds to the map counts at byte 4, by 8 bytes, which is no counter's place");
}

TEST(ProgramCounts, LoadsSumsAndStores) {
  counts(with_value(load(BPF_DW, r1, r0, 0), alu_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 0, r1)), 1);
  counts(with_value(load(BPF_W, r1, r0, 8), alu32_k(BPF_ADD, r1, 1), store(BPF_W, r0, 8, r1)), 1);
  counts(with_value(load(BPF_DW, r1, r0, 0), alu_k(BPF_SUB, r1, 3), store(BPF_DW, r0, 0, r1)), 1);
  // The number first.
  counts(with_value(load(BPF_DW, r1, r0, 0), move_k(r2, 64), alu(BPF_ADD, r2, r1), store(BPF_DW, r0, 0, r2)),
         1);
  // The packet's length, which no count has a part in.
  counts(with_value(load(BPF_W, r2, r6, 4), load(BPF_W, r3, r6, 0), alu(BPF_SUB, r2, r3),
                    load(BPF_DW, r1, r0, 8), alu(BPF_ADD, r1, r2), store(BPF_DW, r0, 8, r1)),
         1);
  // Each by itself.
  counts(with_value(load(BPF_DW, r1, r0, 0), alu_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 0, r1),
                    load(BPF_DW, r1, r0, 8), alu_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 8, r1)),
         2);
  no(with_value(load(BPF_DW, r1, r0, 0), alu_k(BPF_MUL, r1, 3), store(BPF_DW, r0, 0, r1)),
     "instruction 10 stores to the map counts, and not what was there with a number added");
  no(with_value(load(BPF_DW, r1, r0, 0), alu_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 8, r1)),
     "not what was there");
  no(with_value(load(BPF_H, r1, r0, 0), alu_k(BPF_ADD, r1, 1), store(BPF_H, r0, 0, r1)),
     "not what was there");
  no(with_value(load(BPF_W, r1, r0, 0), alu_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 0, r1)),
     "not what was there");
  no(with_value(load(BPF_DW, r1, r0, 0), alu32_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 0, r1)),
     "not what was there");
  no(with_value(store_k(BPF_DW, r0, 0, 1)), "not what was there");
  no(with_value(load(BPF_DW, r1, r0, 0), move_k(r2, 5), alu(BPF_SUB, r2, r1), store(BPF_DW, r0, 0, r2)),
     "not what was there");
}

// A record of a ringbuf is the run's own: what is written to it is nobody's count, and may not hang on one.
TEST(ProgramCounts, RecordsAreTheRunsOwn) {
  const auto reserving = [](const auto&... parts) {
    Assembly a;
    a(move(r6, r1));
    look_up(a, 0);
    a(move(r7, r0), map(r1, 3), move_k(r2, 16), move_k(r3, 0), call(BPF_FUNC_ringbuf_reserve), move(r9, r0));
    a.to("none", jump_k(BPF_JEQ, r9, 0));
    a(parts...);
    a(move(r1, r9), move_k(r2, 0), call(BPF_FUNC_ringbuf_submit));
    return ended(a);
  };
  std::vector<Map> maps = two_maps();
  maps.push_back(map_of("ring", BPF_MAP_TYPE_RINGBUF, 0, 0, 4096));
  const Code adds{load(BPF_DW, r1, r7, 0), alu_k(BPF_ADD, r1, 1), store(BPF_DW, r7, 0, r1)};
  const Taken how =
      taken(reserving(adds, load(BPF_W, r2, r6, 12), store(BPF_DW, r9, 0, r2), load(BPF_DW, r3, r9, 0),
                      atomically(BPF_DW, BPF_OR | BPF_FETCH, r9, 8, r3), move(r4, r9), alu(BPF_ADD, r4, r3)),
            maps);
  EXPECT_EQ(how.how, Taking::counting) << how.why;
  EXPECT_EQ(how.counts.stores.size(), 1u);
  EXPECT_TRUE(how.counts.atomics.empty());
  no(reserving(adds, load(BPF_DW, r2, r7, 0), store(BPF_DW, r9, 0, r2)), "puts out what it counts", maps);
  no(reserving(adds, load(BPF_DW, r2, r7, 0), move_k(r0, 1), atomically(BPF_DW, BPF_ADD, r9, 0, r2)),
     "puts out what it counts", maps);
  no(reserving(adds, load(BPF_DW, r0, r7, 0), atomically(BPF_DW, BPF_CMPXCHG, r9, 0, r8)),
     "puts out what it counts", maps);
}

// What was loaded is no beginning any more once something else was added there.
TEST(ProgramCounts, NothingComesBetween) {
  no(with_value(load(BPF_DW, r1, r0, 0), alu_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 0, r1),
                alu_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 0, r1)),
     "instruction 12 stores to the map counts, and not what was there");
  no(with_value(load(BPF_DW, r1, r0, 0), move_k(r2, 1), atomically(BPF_DW, kXadd, r0, 0, r2),
                alu_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 0, r1)),
     "instruction 12 stores to the map counts, and not what was there");
  // Another look-up may find the same value.
  Assembly a;
  look_up(a, 0);
  a(move(r7, r0), load(BPF_DW, r8, r7, 0));
  look_up(a, 0);
  a(load(BPF_DW, r1, r0, 0), alu_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 0, r1), alu_k(BPF_ADD, r8, 1),
    store(BPF_DW, r7, 0, r8));
  no(ended(a), "and not what was there");
  // Not in another map.
  Assembly b;
  look_up(b, 0);
  b(move(r7, r0), load(BPF_DW, r8, r7, 0));
  look_up(b, 1);
  b(load(BPF_DW, r1, r0, 0), alu_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 0, r1), alu_k(BPF_ADD, r8, 1),
    store(BPF_DW, r7, 0, r8));
  counts(ended(b), 2);
}

// Flags below a counter.
TEST(ProgramCounts, BitsThatAreReadDoNotChange) {
  const auto with_flags = [](int mask, int by) {
    Assembly a;
    look_up(a, 0);
    a(load(BPF_DW, r1, r0, 0), move(r2, r1), alu_k(BPF_AND, r2, mask));
    a.to("none", jump_k(BPF_JEQ, r2, 0));
    a(alu_k(BPF_ADD, r1, by), store(BPF_DW, r0, 0, r1));
    return ended(a);
  };
  counts(with_flags(3, 64), 1);
  counts(with_flags(63, 64), 1);
  no(with_flags(64, 64), "instruction 10 decides by what it counts");
  no(with_flags(3, 66), "instruction 10 decides by what it counts");
  counts(with_flags(1, 66), 1);
  // By a condition on bits, and by any number that is a multiple of 64.
  Assembly a;
  a(move(r6, r1));
  look_up(a, 0);
  a(load(BPF_DW, r1, r0, 0));
  a.to("none", jump_k(BPF_JSET, r1, 4));
  a(load(BPF_W, r2, r6, 12), alu_k(BPF_LSH, r2, 6), alu(BPF_ADD, r1, r2), store(BPF_DW, r0, 0, r1));
  counts(ended(a), 1);
  // What is read of it beside: another width, at another place.
  counts(with_value(load(BPF_B, r3, r0, 0), alu_k(BPF_AND, r3, 31), load(BPF_DW, r1, r0, 0),
                    alu_k(BPF_ADD, r1, 64), store(BPF_DW, r0, 0, r1), jump_k(BPF_JEQ, r3, 0), move(r4, r3)),
         1);
  no(with_value(load(BPF_B, r3, r0, 1), load(BPF_DW, r1, r0, 0), alu_k(BPF_ADD, r1, 64),
                store(BPF_DW, r0, 0, r1), jump_k(BPF_JEQ, r3, 0)),
     "decides by what it counts");
}

TEST(ProgramCounts, NothingHangsOnWhatIsCounted) {
  const auto then = [](const auto&... parts) {
    return with_value(move_k(r2, 1), atomically(BPF_DW, kXadd, r0, 0, r2), load(BPF_DW, r7, r0, 0), parts...);
  };
  counts(then(), 0, 1);
  counts(then(store(BPF_DW, r10, -16, r7)), 0, 1);
  no(then(jump_k(BPF_JGT, r7, 5)), "instruction 11 decides by what it counts");
  no(then(move(r0, r7), leave()), "instruction 12 ends with what it counts");
  no(then(load(BPF_W, r3, r6, 0), alu(BPF_ADD, r3, r7), load(BPF_B, r4, r3, 0)),
     "instruction 13 loads from an address that is not known beforehand");
  no(then(store(BPF_W, r10, -4, r7), map(r1, 1), move(r2, r10), alu_k(BPF_ADD, r2, -4),
          call(BPF_FUNC_map_lookup_elem)),
     "gives a helper what it counts");
  no(then(map(r1, 1), move(r2, r0), call(BPF_FUNC_map_lookup_elem)), "gives a helper what it counts");
  counts(then(map(r1, 1), move(r2, r0), alu_k(BPF_ADD, r2, 8)), 0, 1);
  no(then(load(BPF_DW, r3, r0, 8), alu(BPF_ADD, r3, r7), store(BPF_DW, r0, 8, r3)),
     "adds to a map by what it counts");
  // Read in front of the count, by the next packet's turn of it.
  no(with_value(load(BPF_DW, r7, r0, 0), move_k(r2, 1), atomically(BPF_DW, kXadd, r0, 0, r2),
                jump_k(BPF_JGT, r7, 5)),
     "decides by what it counts");
  // In another map, or at another place of the value, nobody changes it.
  counts(with_value(move_k(r2, 1), atomically(BPF_DW, kXadd, r0, 0, r2), load(BPF_DW, r7, r0, 8),
                    jump_k(BPF_JGT, r7, 5)),
         0, 1);
}

TEST(ProgramCounts, WidthsDoNotMix) {
  no(with_value(move_k(r1, 1), atomically(BPF_DW, kXadd, r0, 0, r1), atomically(BPF_W, kXadd, r0, 4, r1)),
     "adds to bytes of the map counts by");
  counts(with_value(move_k(r1, 1), atomically(BPF_W, kXadd, r0, 0, r1), atomically(BPF_W, kXadd, r0, 4, r1)),
         0, 2);
}

// Registers that are put on the stack and come back.
TEST(ProgramCounts, TheStackIsFollowed) {
  counts(with_value(store(BPF_DW, r10, -16, r0), load(BPF_DW, r1, r0, 0), store(BPF_DW, r10, -24, r1),
                    load(BPF_DW, r3, r10, -16), load(BPF_DW, r2, r10, -24), alu_k(BPF_ADD, r2, 2),
                    store(BPF_DW, r3, 0, r2)),
         1);
  counts(with_value(load(BPF_W, r1, r0, 0), store(BPF_W, r10, -24, r1), load(BPF_W, r2, r10, -24),
                    alu_k(BPF_ADD, r2, 2), store(BPF_W, r0, 0, r2)),
         1);
  no(with_value(store(BPF_DW, r10, -16, r0), store_k(BPF_B, r10, -16, 0), load(BPF_DW, r3, r10, -16),
                move_k(r1, 1), atomically(BPF_DW, kXadd, r3, 0, r1)),
     "stores to an address that is not known beforehand");
  no(with_value(load(BPF_B, r1, r6, 0), move(r2, r10), alu_k(BPF_ADD, r2, -64), alu(BPF_ADD, r2, r1),
                store_k(BPF_B, r2, 0, 1)),
     "stores to an address that is not known beforehand");
}

// Ways that meet with values of different look-ups, as compilers make one tail of all that count.
TEST(ProgramCounts, WaysMeet) {
  const auto met = [](u32 second, bool same) {
    Assembly a;
    a(move(r6, r1), load(BPF_W, r9, r6, 12));
    look_up(a, 0);
    a(load(BPF_DW, r1, r0, 0), move(r7, r0));
    a.to("met", jump_k(BPF_JEQ, r9, 1));
    look_up(a, second);
    a(load(BPF_DW, r1, r0, 0));
    if (same) a(move(r7, r0));
    a.label("met")(alu_k(BPF_ADD, r1, 1), store(BPF_DW, r7, 0, r1));
    return ended(a);
  };
  counts(met(1, true), 1);
  counts(met(0, true), 1);
  EXPECT_EQ(taken(met(1, true)).counts.loads.size(), 2u);
  // On one way R1 is another value's than R7.
  no(met(1, false), "and not what was there");
  no(met(0, false), "and not what was there");
}

TEST(ProgramCounts, Loops) {
  // A packet's bytes, one after the other, as far as its first one says: it is counted at each.
  Assembly a;
  a(move(r6, r1), move_k(r9, 0));
  a.label("again");
  look_up(a, 0);
  a(load(BPF_DW, r1, r0, 0), alu_k(BPF_ADD, r1, 1), store(BPF_DW, r0, 0, r1), alu_k(BPF_ADD, r9, 1));
  a.to("again", jump_k(BPF_JLT, r9, 10));
  counts(ended(a), 1);
  // What a turn before has found is not what is there now.
  Assembly b;
  b(move_k(r9, 0), move_k(r8, 0), move_k(r7, 0));
  b.label("again");
  look_up(b, 0);
  b.to("first", jump_k(BPF_JEQ, r9, 0));
  b(alu_k(BPF_ADD, r8, 1), store(BPF_DW, r7, 0, r8));
  b.label("first")(move(r7, r0), load(BPF_DW, r8, r7, 0), alu_k(BPF_ADD, r9, 1));
  b.to("again", jump_k(BPF_JLT, r9, 10));
  no(ended(b), "stores to");
}

TEST(ProgramCounts, OnlyValuesOfMaps) {
  counts({[] {
           Assembly a;
           a(map_value(r1, 2, 0), load(BPF_DW, r2, r1, 0), alu_k(BPF_ADD, r2, 1), map_value(r3, 2, 0),
             store(BPF_DW, r3, 0, r2));
           return ended(a);
         }()},
         1);
  no(with_value(load(BPF_DW, r1, r0, 8), store_k(BPF_W, r1, 0, 1)),
     "instruction 9 stores to an address that is not known beforehand");
  no(with_value(load(BPF_DW, r1, r0, 8), move_k(r2, 1), atomically(BPF_DW, kXadd, r0, 0, r2),
                load(BPF_W, r2, r1, 0)),
     "instruction 11 loads from an address that is not known beforehand");
  no(with_value(load(BPF_W, r1, r6, 12), alu_k(BPF_AND, r1, 8), alu(BPF_ADD, r0, r1), move_k(r2, 1),
                atomically(BPF_DW, kXadd, r0, 0, r2)),
     "instruction 12 stores to the map counts at a place that is not known beforehand");
  // Loads at any place of what nobody changes are nobody's matter.
  counts(with_value(move_k(r2, 1), atomically(BPF_DW, kXadd, r0, 0, r2), map_value(r3, 2, 0),
                    load(BPF_W, r1, r6, 12), alu_k(BPF_AND, r1, 7), alu(BPF_ADD, r3, r1),
                    load(BPF_B, r4, r3, 0), jump_k(BPF_JEQ, r4, 3)),
         0, 1);
}

TEST(ProgramCounts, HelpersAndMapsThatChange) {
  const Code add = {move_k(r1, 1), atomically(BPF_DW, kXadd, r0, 0, r1)};
  no(with_value(add, map(r1, 0), move(r2, r10), alu_k(BPF_ADD, r2, -4), call(BPF_FUNC_map_delete_elem)),
     "deletes an entry of a map");
  no(with_value(add, map(r1, 0), move(r2, r10), alu_k(BPF_ADD, r2, -4), move(r3, r10),
                alu_k(BPF_ADD, r3, -32), move_k(r4, 0), call(BPF_FUNC_map_update_elem)),
     "updates an entry of a map");
  counts(with_value(add, move_k(r1, 6), move_k(r2, 2), call(BPF_FUNC_redirect)), 0, 1);
  no(with_value(add, load(BPF_DW, r1, r0, 0), move_k(r2, 2), call(BPF_FUNC_redirect)),
     "gives a helper what it counts");
  no(with_value(add, move_k(r1, 6), move_k(r2, 2), call(BPF_FUNC_clone_redirect)),
     "calls helper 13, which is not followed");
  counts(with_value(add, call(BPF_FUNC_ktime_get_ns), call(BPF_FUNC_get_prandom_u32)), 0, 1);
  no(with_value(add),
     "the map counts, an LRU hash, has too few entries (8) for packets to be ordered by its key",
     {map_of("counts", BPF_MAP_TYPE_LRU_HASH, 4, 16, 8)});
  Assembly a;
  look_up(a, 0);
  a(add).call_function("other")(move_k(r0, 2), leave());
  a.label("other");
  no(ended(a), "calls a function of its own, which is not followed");
  // A checksum's difference over what is counted.
  no(with_value(add, move(r1, r0), move_k(r2, 8), move_k(r3, 0), move_k(r4, 0), move_k(r5, 0),
                call(BPF_FUNC_csum_diff)),
     "gives a helper what it counts");
}

// What a packet is made of is its own; but nobody's packet tells what has been counted.
TEST(ProgramCounts, PacketsAreChangedBesideCounting) {
  const Code add = {move_k(r1, 1), atomically(BPF_DW, kXadd, r0, 0, r1)};
  for (const int helper : {BPF_FUNC_xdp_adjust_head, BPF_FUNC_xdp_adjust_meta, BPF_FUNC_xdp_adjust_tail})
    counts(with_value(add, move(r1, r6), move_k(r2, -4), call(helper), load(BPF_W, r7, r6, 0),
                      store_k(BPF_DW, r7, 2, 5), load(BPF_B, r1, r7, 3), store(BPF_B, r7, 4, r1)),
           0, 1);
  no(with_value(add, load(BPF_DW, r1, r0, 0), load(BPF_W, r7, r6, 0), store(BPF_DW, r7, 0, r1)),
     "writes to the packet by what it counts");
  no(with_value(add, load(BPF_DW, r2, r0, 0), move(r1, r6), call(BPF_FUNC_xdp_adjust_tail)),
     "moves the packet by what it counts");
  no(with_value(add, load(BPF_W, r7, r6, 0), move_k(r1, 1), atomically(BPF_DW, kXadd, r7, 0, r1)),
     "changes the packet atomically");
}

// Whatever it is, it ends.
// Devices refuse these, but only later; UBSan looks at what is computed of them.
TEST(ProgramCounts, BytesAreSwappedBySixteenThirtyTwoOrSixtyFourBits) {
  for (const int bits : {-64, -1, 0, 1, 8, 17, 63, 65})
    for (const auto& swap : {alu_k(BPF_END, r1, bits), alu32_k(BPF_END, r1, bits)})
      no(with_value(load(BPF_DW, r1, r0, 0), swap, store(BPF_DW, r0, 0, r1)), "not what was there");
}

TEST(ProgramCounts, TheTimeIsBounded) {
  Code code;
  for (u32 i = 0; i < 1'000'000; ++i) code.push_back(alu_k(BPF_ADD, r2, 1));
  code.insert(code.end(), {store_k(BPF_W, r9, 0, 1), leave()});
  EXPECT_EQ(taken(code).how, Taking::counting);
  for (u32 i = 0; i + 5 < 1'000'000; ++i)
    if (i % 7 == 0) code[i] = jump_k(BPF_JEQ, r2, 0, i % 5 == 0 && i > 32000 ? -30000 : 3);
  no(code, "it has too many jumps to be followed");
  // Few jumps, each back to the beginning, with more of the stack in use each time.
  Assembly a;
  a.label("again");
  for (int i = 0; i < 3000; ++i) {
    a(store(BPF_DW, r10, -8 * (1 + i % 64), r2), alu_k(BPF_ADD, r2, i)).to("again", jump_k(BPF_JEQ, r2, i));
  }
  a(store_k(BPF_W, r9, 0, 1));
  taken(ended(a));
}

// Ways that leave other things at other places of the stack, and meet in front of what looks there.
TEST(ProgramCounts, APlaceOnTheStackMayBeOneOfSeveral) {
  const auto meeting = [](const auto&... parts) {
    Assembly a;
    a(move(r6, r1), load(BPF_W, r7, r6, 0), load(BPF_B, r8, r7, 0), store_k(BPF_DW, r10, -8, 1),
      store_k(BPF_DW, r10, -24, 2), store_k(BPF_DW, r10, -40, 0), move(r2, r10), alu_k(BPF_ADD, r2, -24));
    a.to("meet", jump_k(BPF_JEQ, r8, 0));
    a(move(r2, r10), alu_k(BPF_ADD, r2, -8));
    a.label("meet")(parts...);
    a(map(r1, 0), call(BPF_FUNC_map_lookup_elem));
    a.to("none", jump_k(BPF_JEQ, r0, 0));
    a(move_k(r1, 1), atomically(BPF_DW, kXadd, r0, 0, r1));
    return ended(a);
  };
  counts(meeting(), 0, 1);
  counts(meeting(load(BPF_W, r3, r2, 0), store(BPF_W, r2, 4, r3)), 0, 1);
  // What may have been written there is not known any more: that is no pointer.
  no(meeting(store(BPF_DW, r10, -8, r7), store_k(BPF_W, r2, 0, 1), load(BPF_DW, r3, r10, -8),
             load(BPF_W, r4, r3, 0)),
     "loads from an address that is not known beforehand");
  no(meeting(load(BPF_DW, r3, r2, 4)), "comes to a place on the stack that is not known beforehand");
  no(meeting(alu_k(BPF_ADD, r2, 16), store_k(BPF_DW, r2, 0, 1)),
     "comes to a place on the stack that is not known beforehand");
  // Counts that may be there.
  const auto counted = [](int place) {
    Assembly a;
    a(move(r6, r1), load(BPF_W, r7, r6, 0), load(BPF_B, r8, r7, 0), store_k(BPF_DW, r10, -8, 1),
      store_k(BPF_DW, r10, -24, 2));
    look_up(a, 0);
    a(load(BPF_DW, r3, r0, 0), store(BPF_DW, r10, place, r3), move_k(r1, 1),
      atomically(BPF_DW, kXadd, r0, 0, r1), move(r2, r10), alu_k(BPF_ADD, r2, -24));
    a.to("meet", jump_k(BPF_JEQ, r8, 0));
    a(move(r2, r10), alu_k(BPF_ADD, r2, -16));
    a.label("meet")(load(BPF_DW, r4, r2, 0));
    a.to("none", jump_k(BPF_JEQ, r4, 7));
    return ended(a);
  };
  no(counted(-24), "decides by what it counts");
  no(counted(-16), "decides by what it counts");
  counts(counted(-32), 0, 1);
}

// Threads side by side on the same maps: the answers and the maps' end are the sequential definition's.
TEST(ProgramCounts, SumsAreExactWhateverRunsBeside) {
  constexpr u32 kThreads = 4, kPackets = 400;
  dataplane::Random random(7);
  const auto below = [&](u32 n) { return random() % n; };
  const std::vector<Map> maps = counted_maps();
  for (u32 number = 0; number < 60; ++number) {
    const Program program = program_of(counting_program(below), maps);
    const Taken how = how_taken(program);
    ASSERT_EQ(how.how, Taking::counting) << how.why << "\n" << test::text_of(program.instructions);
    Image image =
        programs::image_of(std::span(&program, 1), {.queues = 1, .key = kKey, .counts = &how.counts}).value();
    DeviceState state(image.tables, image.state);
    reference::ProgramMaps expected_maps(maps);
    fill(maps, state, expected_maps, [&](const Map& map) { return counted_value(below, map); });
    reference::ProgramSet set(expected_maps);
    set.add(program.instructions);
    std::vector<ProgramPacket> packets(kPackets);
    std::vector<u32> expected(kPackets), answers(kPackets);
    for (u32 i = 0; i < kPackets; ++i) {
      packets[i] = random_packet(random, 1);
      packets[i].metadata.clear();
      packets[i].queue = 0;
      packets[i].most_lines = 0;
      const ProgramAnswer answer = set.run(0, packets[i]);
      EXPECT_EQ(answer.fault, ProgramFault::none);
      expected[i] = answer.action;
    }
    const auto run = [&](u32 thread) {
      const auto m = std::make_unique<xg_program_machine>();
      std::vector<u32> frame;
      for (u32 i = thread; i < kPackets; i += kThreads) {
        set_machine(*m, image, packets[i], frame);
        xg_program_run(*m, 0);
        answers[i] = m->fault == 0 ? static_cast<u32>(m->r[0]) : ~0u;
      }
    };
    std::vector<std::thread> threads;
    for (u32 i = 0; i < kThreads; ++i) threads.emplace_back(run, i);
    for (std::thread& one : threads) one.join();
    ASSERT_EQ(answers, expected) << test::text_of(program.instructions);
    for (u32 map = 0; map < maps.size(); ++map)
      ASSERT_EQ(contents_of(state, map, maps[map]), contents_of(expected_maps[map]))
          << maps[map].name << "\n"
          << test::text_of(program.instructions);
  }
}

// Programs that count, with an instruction or two changed by chance: where they are still found to do no
// more, packets in the contrary order get the same answers, and leave the same in the maps, as if each store
// were one.
TEST(ProgramCounts, WhatIsFoundToCountDoesNoMore) {
  constexpr u32 kPackets = 12;
  dataplane::Random random(11);
  const auto below = [&](u32 n) { return random() % n; };
  const std::vector<Map> maps = counted_maps();
  u32 counting = 0, in_order = 0;
  for (u32 number = 0; number < 6000; ++number) {
    Program program = program_of(counting_program(below), maps);
    auto& all = program.instructions;
    for (u32 changes = 1 + below(2); changes != 0; --changes) {
      Instruction& one = all[below(static_cast<u32>(all.size()))];
      const Instruction& other = all[below(static_cast<u32>(all.size()))];
      switch (below(6)) {
        case 0:
          one.destination = static_cast<u8>(below(10));
          break;
        case 1:
          one.source = static_cast<u8>(below(10));
          break;
        case 2:
          one.offset = static_cast<std::int16_t>(one.offset + static_cast<int>(below(9)) - 4);
          break;
        case 3:
          one.immediate ^= static_cast<std::int32_t>(1u << below(8));
          break;
        case 4:
          one.opcode = other.opcode;
          break;
        default:
          one = other;
      }
    }
    const Taken how = how_taken(program);
    (how.how == Taking::counting ? counting : in_order)++;
    if (how.how != Taking::counting) continue;
    const ImageSettings settings{.queues = 1, .key = kKey};
    auto sequential = programs::image_of(std::span(&program, 1), settings);
    if (!sequential) continue;
    std::vector<ProgramPacket> packets(kPackets);
    for (ProgramPacket& packet : packets) packet = random_packet(random, 1);
    DeviceState state(sequential->tables, sequential->state);
    for (u32 map = 0; map < maps.size(); ++map)
      for (u8 key = 0; key < 3; ++key)
        EXPECT_EQ(state.update(map, {{key, 0, 0, 0}}, counted_value(below, maps[map])), 0);
    const std::vector<u32> first = sequential->state;
    const auto run = [&](const Counts* counts, bool backwards) {
      ImageSettings with = settings;
      with.counts = counts;
      Image image = programs::image_of(std::span(&program, 1), with).value();
      image.state = first;
      Device device(std::move(image));
      std::vector<u64> answers(kPackets);
      for (u32 turn = 0; turn < kPackets; ++turn) {
        const u32 i = backwards ? kPackets - 1 - turn : turn;
        ProgramPacket packet = packets[i];
        packet.metadata.clear();
        packet.queue = 0;
        packet.most_lines = 0;
        packet.most_steps = 2000;
        const ProgramAnswer answer = device.run(0, packet);
        answers[i] = u64{static_cast<u32>(answer.fault)} << 32 | answer.action;
      }
      return std::pair(answers, device.code().state);
    };
    const auto should = run(nullptr, false);
    ASSERT_EQ(run(&how.counts, false), should) << test::text_of(all);
    ASSERT_EQ(run(&how.counts, true), should) << test::text_of(all);
  }
  EXPECT_GT(counting, 500u);
  EXPECT_GT(in_order, 500u);
}

}  // namespace
}  // namespace xdpgpu::gpu::programs
