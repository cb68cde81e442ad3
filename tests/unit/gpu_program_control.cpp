// SPDX-License-Identifier: MIT
//
// Where programs go on, and where packets are sent, in the form that devices run, against the definition:
// redirects, tail calls, functions, loops, and how much of a stack functions need.
#include <gtest/gtest.h>

#include "gpu/program_stacks.hpp"
#include "tests/unit/program_devices.hpp"

namespace xdpgpu::gpu::programs {
namespace {

using namespace test;  // NOLINT: the assembler's words

const ProgramPacket kPacket{.bytes = Bytes(60)};

// Two calls, each of redirect or redirect_map, then XDP_REDIRECT or what the last one answered.
struct Redirect {
  bool by_map = true;
  u32 what = 0, flags = 0;
};
Code redirects(const Redirect& one, const Redirect& other, bool always_redirect) {
  Assembly a;
  for (const Redirect& call_of : {one, other}) {
    if (call_of.by_map)
      a(map(r1, 0), move_k(r2, static_cast<std::int32_t>(call_of.what)),
        move_k(r3, static_cast<std::int32_t>(call_of.flags)), call(BPF_FUNC_redirect_map));
    else
      a(move_k(r1, static_cast<std::int32_t>(call_of.what)),
        move_k(r2, static_cast<std::int32_t>(call_of.flags)), call(BPF_FUNC_redirect));
  }
  if (always_redirect) a(move_k(r0, XDP_REDIRECT));
  a(leave());
  return a.code();
}

TEST(DeviceControl, RedirectsAreTheDefinitions) {
  std::vector<Redirect> all;
  for (u32 key : {1u, 2u, 9u, 200u})
    for (u32 flags : {0u, 1u, 2u, 3u, 4u, 8u, 16u, 24u, 26u, 32u}) all.push_back({true, key, flags});
  for (u32 flags : {0u, 1u}) all.push_back({false, 77, flags});
  u32 sent = 0, kept = 0;
  for (u32 type : {BPF_MAP_TYPE_DEVMAP, BPF_MAP_TYPE_DEVMAP_HASH, BPF_MAP_TYPE_CPUMAP})
    for (u32 value_bytes : {4u, 8u})
      for (const Redirect& one : all)
        for (const Redirect& other : all) {
          if (&one - &other > 3 && one.by_map && other.by_map) continue;  // enough of these
          DeviceTwins twins({map_of("ports", type, 4, value_bytes, 16)});
          const u32 program = twins.add(redirects(one, other, (one.what + other.flags) % 2 == 0));
          for (u32 key : {1u, 9u}) {
            Bytes value = bytes_of(100 + key);
            value.resize(value_bytes);
            ASSERT_TRUE(twins.update(0, bytes_of(key), value));
          }
          ASSERT_EQ(twins.run(program, kPacket), "")
              << one.what << " " << one.flags << ", " << other.what << " " << other.flags;
          (twins.answer().redirect ? sent : kept)++;
        }
  EXPECT_GT(sent, 500u);
  EXPECT_GT(kept, 500u);
}

TEST(DeviceControl, RedirectsOfOtherMapsAreFaults) {
  DeviceTwins twins({map_of("array", BPF_MAP_TYPE_ARRAY, 4, 4, 16)});
  EXPECT_EQ(twins.run(twins.add(redirects({}, {}, false)), kPacket), "");
  EXPECT_EQ(twins.answer().fault, ProgramFault::wrong_map);
}

// Counts its calls in a map, and calls the tail of the program that entry `index` of map 1 has.
Code counts_and_goes_to(std::int32_t index, std::int32_t action) {
  Assembly a;
  a(move(r6, r1), map_value(r2, 0, 0), move_k(r3, 1), atomically(BPF_DW, BPF_ADD, r2, 0, r3));
  a(load(BPF_DW, r4, r10, -8), store_k(BPF_DW, r10, -8, 3));  // the next one's stack is 0 again
  a(atomically(BPF_DW, BPF_ADD, r2, 8, r4));
  a(move(r1, r6), map(r2, 1), move_k(r3, index), call(BPF_FUNC_tail_call));
  a(move_k(r0, action), leave());
  return a.code();
}

TEST(DeviceControl, TailCallsAreTheDefinitions) {
  DeviceTwins twins(
      {map_of("count", BPF_MAP_TYPE_ARRAY, 4, 16, 1), map_of("programs", BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 4)});
  const u32 self = twins.add(counts_and_goes_to(0, 5));
  const u32 other = twins.add(counts_and_goes_to(1, 6));
  const u32 outside = twins.add(counts_and_goes_to(4, 7));
  const auto check = [&](u32 program, u32 action) {
    EXPECT_EQ(twins.run(program, kPacket), "");
    EXPECT_EQ(twins.answer().action, action);
  };
  check(self, 5);  // there is none
  ASSERT_TRUE(twins.update(1, bytes_of(u32{0}), bytes_of(other)));
  check(self, 6);
  ASSERT_TRUE(twins.update(1, bytes_of(u32{1}), bytes_of(outside)));
  check(self, 7);
  check(outside, 7);
  ASSERT_TRUE(twins.update(1, bytes_of(u32{1}), bytes_of(self)));  // in turns, as often as may be
  check(self, 6);
  check(other, 5);
  ASSERT_TRUE(twins.update(1, bytes_of(u32{3}), bytes_of(u32{99}), 1));  // refused
  ASSERT_TRUE(twins.update(1, bytes_of(u32{7}), bytes_of(u32{1})));
  ASSERT_TRUE(twins.update(1, bytes_of(u32{0}), bytes_of(u32{99})));
  check(self, 0);
  EXPECT_EQ(twins.answer().fault, ProgramFault::outside_program);
  ASSERT_TRUE(twins.erase(1, bytes_of(u32{0})));
  ASSERT_TRUE(twins.erase(1, bytes_of(u32{0})));
  ASSERT_TRUE(twins.erase(1, bytes_of(u32{9})));
  check(self, 5);
  EXPECT_EQ(twins.difference_of_maps(), "");
  // What no verifier takes: another map, another context.
  Assembly a;
  a(map(r2, 0), move_k(r3, 0), call(BPF_FUNC_tail_call), leave());
  check(twins.add(a.code()), 0);
  EXPECT_EQ(twins.answer().fault, ProgramFault::wrong_map);
  Assembly b;
  b(move_k(r1, 0), map(r2, 1), move_k(r3, 0), call(BPF_FUNC_tail_call), leave());
  check(twins.add(b.code()), 0);
  EXPECT_EQ(twins.answer().fault, ProgramFault::out_of_bounds);
}

// From inside of functions, whose stacks the other program's is behind.
TEST(DeviceControl, TailsOfFunctions) {
  DeviceTwins twins(
      {map_of("count", BPF_MAP_TYPE_ARRAY, 4, 16, 1), map_of("programs", BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 4)});
  Assembly a;
  a(move(r6, r1), store_k(BPF_DW, r10, -8, 41)).call_function("f");
  a(load(BPF_DW, r2, r10, -8), alu(BPF_ADD, r0, r2), leave());
  a.label("f")(store_k(BPF_DW, r10, -16, 9), map(r2, 1), move(r1, r6), move_k(r3, 0),
               call(BPF_FUNC_tail_call), move_k(r0, 1), leave());
  const u32 first = twins.add(a.code());
  Assembly b;
  b(store_k(BPF_DW, r10, -256, 7))
      .call_function("g")(load(BPF_DW, r2, r10, -256), alu(BPF_ADD, r0, r2), leave());
  b.label("g")(store_k(BPF_DW, r10, -512, 100), load(BPF_DW, r0, r10, -512), load(BPF_DW, r2, r10, -8),
               alu(BPF_ADD, r0, r2), leave());
  const u32 second = twins.add(b.code());
  EXPECT_EQ(twins.run(first, kPacket), "");
  EXPECT_EQ(twins.answer().action, 42u);
  ASSERT_TRUE(twins.update(1, bytes_of(u32{0}), bytes_of(second)));
  EXPECT_EQ(twins.run(first, kPacket), "");
  EXPECT_EQ(twins.answer().action, 41u + 107u);
  // The tail of `f` may be the first program's again, with another `f`: 8 bytes for each but the last two.
  EXPECT_EQ(twins.device().code().stack_bytes, 6 * 8u + 256u + 512u);
}

TEST(DeviceControl, LoopsAreTheDefinitions) {
  const auto loop_of = [](u64 turns, std::int32_t flags, std::int32_t stop_at, bool deep) {
    Assembly a;
    a(number(r1, turns))
        .function(r2, "turn")(move(r3, r10), alu_k(BPF_ADD, r3, -16), move_k(r4, flags), call(BPF_FUNC_loop));
    a(load(BPF_DW, r1, r10, -16), alu_k(BPF_MUL, r1, 1000), alu(BPF_ADD, r0, r1), leave());
    a.label("turn")(load(BPF_DW, r3, r2, 0), alu_k(BPF_ADD, r3, 1), store(BPF_DW, r2, 0, r3));
    // A turn's stack is its own.
    a(load(BPF_DW, r4, r10, -8), alu(BPF_ADD, r3, r4), store_k(BPF_DW, r10, -8, 5));
    if (deep) a(move_k(r1, 2)).function(r2, "inner")(move(r3, r10), move_k(r4, 0), call(BPF_FUNC_loop));
    a(move_k(r0, 0)).to("stop", jump_k(BPF_JEQ, r3, stop_at))(leave()).label("stop")(move_k(r0, 1), leave());
    if (deep) a.label("inner")(move_k(r0, 0), leave());
    return a.code();
  };
  DeviceTwins twins({});
  for (u64 turns :
       {u64{0}, u64{1}, u64{7}, u64{5000}, u64{8} << 20, (u64{8} << 20) + 1, u64{1} << 32, ~u64{0}})
    for (std::int32_t flags : {0, 1, -1})
      for (bool deep : {false, true})
        for (std::int32_t stop_at : {-1, 1, 3})
          ASSERT_EQ(twins.run(twins.add(loop_of(turns, flags, stop_at, deep)), kPacket), "")
              << turns << " turns, flags " << flags << ", stops at " << stop_at;
  // No function.
  Assembly a;
  a(move_k(r1, 1), move_k(r2, 0), move_k(r3, 0), move_k(r4, 0), call(BPF_FUNC_loop), leave());
  EXPECT_EQ(twins.run(twins.add(a.code()), kPacket), "");
  EXPECT_EQ(twins.answer().fault, ProgramFault::outside_program);
  // One that calls itself.
  Assembly b;
  b.label("f").call_function("f")(leave());
  EXPECT_EQ(twins.run(twins.add(b.code()), kPacket), "");
  EXPECT_EQ(twins.answer().fault, ProgramFault::too_many_calls);
}

// Of the entry's function.
u32 need_of(const Code& code) { return stack_needs(code).at(0).bytes; }
template <class... Parts>
u32 need_with(const Parts&... parts) {
  Assembly a;
  a(parts..., move_k(r0, 0), leave());
  return need_of(a.code());
}

TEST(DeviceStacks, WhatIsReachedByConstants) {
  EXPECT_EQ(need_with(), 0u);
  EXPECT_EQ(need_with(store_k(BPF_DW, r10, -8, 1)), 8u);
  EXPECT_EQ(need_with(store_k(BPF_B, r10, -1, 1)), 8u);
  EXPECT_EQ(need_with(load(BPF_W, r1, r10, -20)), 24u);
  EXPECT_EQ(need_with(store_k(BPF_B, r10, -512, 1)), 512u);
  EXPECT_EQ(need_with(store_k(BPF_B, r10, -600, 1)), 512u) << "which is a fault";
  EXPECT_EQ(need_with(move(r2, r10), alu_k(BPF_ADD, r2, -64), store_k(BPF_DW, r2, 16, 1)), 48u);
  EXPECT_EQ(need_with(move(r2, r10), alu_k(BPF_SUB, r2, 64), store_k(BPF_DW, r2, -16, 1)), 80u);
  EXPECT_EQ(need_with(atomically(BPF_DW, BPF_ADD, r10, -24, r1)), 24u);
  // A helper's buffer.
  EXPECT_EQ(need_with(move(r2, r10), alu_k(BPF_ADD, r2, -96), call(BPF_FUNC_map_lookup_elem)), 96u);
  EXPECT_EQ(need_with(move(r2, r10), alu_k(BPF_ADD, r2, -96)), 0u) << "it is not used";
}

TEST(DeviceStacks, WhatIsFollowed) {
  // Through the stack.
  EXPECT_EQ(need_with(move(r2, r10), alu_k(BPF_ADD, r2, -128), store(BPF_DW, r10, -8, r2), move_k(r2, 0),
                      load(BPF_DW, r3, r10, -8), load(BPF_B, r4, r3, 0)),
            128u);
  // Through a branch: the lower one of two.
  Assembly a;
  a(move(r2, r10)).to("other", jump_k(BPF_JEQ, r1, 0));
  a(alu_k(BPF_ADD, r2, -40)).to("out", always());
  a.label("other")(alu_k(BPF_ADD, r2, -72)).label("out")(store_k(BPF_B, r2, 0, 1), leave());
  EXPECT_EQ(need_of(a.code()), 72u);
  // Through a loop that ends nowhere that we know.
  Assembly b;
  b(move(r2, r10)).label("again")(alu_k(BPF_ADD, r2, -8), store_k(BPF_B, r2, 0, 1));
  b.to("again", jump_k(BPF_JNE, r1, 0))(leave());
  EXPECT_EQ(need_of(b.code()), 512u);
}

TEST(DeviceStacks, WhatHasAllOfIt) {
  EXPECT_EQ(need_with(move(r2, r10), alu(BPF_ADD, r2, r1), store_k(BPF_B, r2, 0, 1)), 512u);
  EXPECT_EQ(need_with(move(r2, r10), alu_k(BPF_AND, r2, -64), store_k(BPF_B, r2, -8, 1)), 512u);
  EXPECT_EQ(need_with(move(r2, r10), store(BPF_DW, r1, 0, r2)), 512u) << "stored elsewhere";
  EXPECT_EQ(need_with(move(r2, r10), atomically(BPF_DW, BPF_XCHG, r10, -8, r2)), 512u);
  Assembly a;
  a(move(r1, r10))
      .call_function("f")(leave())
      .label("f")(store_k(BPF_B, r1, -1, 3), store_k(BPF_B, r10, -9, 3), leave());
  const auto needs = stack_needs(a.code());
  EXPECT_EQ(needs.at(0).bytes, 512u) << "another function is given it";
  EXPECT_EQ(needs.at(3).bytes, 16u);
  EXPECT_EQ(deepest_stack(std::span(&needs, 1)), 528u);
}

// Functions that all begin in each other are no program of a verifier's; they take no time all the same.
TEST(DeviceStacks, HostileFunctionsTakeNoTime) {
  Code code;
  for (int i = 0; i < 20'000; ++i)
    code.push_back(made(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_CALL, 0, i % 100 - 50));
  code.insert(code.end(), 100, leave());
  for (int i = 0; i < 50; ++i) code[static_cast<std::size_t>(i)].immediate = 50;
  const auto made_of = image_of(program_of(code));
  ASSERT_FALSE(made_of);
  EXPECT_NE(made_of.error().find("functions: devices have 256 at most"), std::string::npos)
      << made_of.error();
}

}  // namespace
}  // namespace xdpgpu::gpu::programs
