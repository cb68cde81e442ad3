// SPDX-License-Identifier: MIT
//
// Where programs go on: functions, loops, bpf_loop and tail calls, in the kernel and in the reference.
#include <fmt/format.h>

#include "tests/kernel/programs/twins.hpp"

namespace xdpgpu::test {
namespace {

const Map kResults = map_of("results", BPF_MAP_TYPE_ARRAY, 4, 64, 1);
const Map kPrograms = map_of("programs", BPF_MAP_TYPE_PROG_ARRAY, 4, 4, 8);

class ControlTest : public ProgramTest {};

// A packet of four numbers, which is_packet reads into R6 to R9.
Bytes packet_of(u64 a, u64 b = 0, u64 c = 0, u64 d = 0) {
  Bytes packet;
  for (u64 value : {a, b, c, d})
    for (u8 byte : bytes_of(value)) packet.push_back(byte);
  return packet;
}
void read_packet(Assembly& a) {
  a(load(BPF_W, r2, r1, 0), load(BPF_W, r3, r1, 4), move(r4, r2), alu_k(BPF_ADD, r4, 32));
  a.to("short", jump(BPF_JGT, r4, r3));
  a(load(BPF_DW, r6, r2, 0), load(BPF_DW, r7, r2, 8), load(BPF_DW, r8, r2, 16), load(BPF_DW, r9, r2, 24));
}
void end_short(Assembly& a) { a.label("short")(move_k(r0, XDP_DROP), leave()); }
// `value` becomes the n-th result; R1 is not kept.
Code note(int n, u8 value) {
  Code code = map_value(r1, 0, static_cast<u32>(8 * n));
  code.push_back(store(BPF_DW, r1, 0, value));
  return code;
}

// Functions keep R6 to R9 for those who call them, have a stack each, and may write theirs.
TEST_F(ControlTest, Functions) {
  Twins twins({kResults});
  Assembly a;
  read_packet(a);
  a(store(BPF_DW, r10, -8, r6), move(r1, r10), alu_k(BPF_ADD, r1, -8), move(r2, r7), move(r3, r8),
    move(r4, r9), move_k(r5, 5));
  a.call_function("first");
  a(store(BPF_DW, r10, -16, r0), load(BPF_DW, r2, r10, -8), note(0, r2), note(1, r6), note(2, r7),
    note(3, r8), note(4, r9), load(BPF_DW, r2, r10, -16), note(5, r2), move_k(r0, XDP_TX), leave());
  end_short(a);
  a.label("first")(move(r6, r1), move(r7, r2), move(r8, r3), move(r9, r4), store(BPF_DW, r10, -8, r5));
  a(move(r1, r10), alu_k(BPF_ADD, r1, -8), move(r2, r6));
  a.call_function("second");
  a(load(BPF_DW, r1, r10, -8), alu(BPF_ADD, r0, r1), alu(BPF_XOR, r0, r7), alu(BPF_ADD, r0, r8),
    alu(BPF_SUB, r0, r9), leave());
  a.label("second")(load(BPF_DW, r3, r1, 0), load(BPF_DW, r4, r2, 0), alu(BPF_MUL, r4, r3),
                    store(BPF_DW, r2, 0, r4));
  a(store_k(BPF_DW, r1, 0, 77), move_k(r6, 0), move_k(r7, 0), move_k(r8, 0), move_k(r9, 0), move(r0, r3),
    leave());
  const auto program = twins.add(a.code());
  ASSERT_TRUE(program) << twins.refusal();
  for (u64 value : {u64{0}, u64{3}, ~u64{0}, u64{0x123456789abcdef0}})
    ASSERT_EQ(twins.run(*program, {.bytes = packet_of(value, 9, value + 1, 100)}), "");
}

Code deep(int functions) {
  Assembly a;
  a(move_k(r1, 1)).call_function("1")(leave());
  for (int i = 1; i < functions; ++i) {
    a.label(std::to_string(i))(alu_k(BPF_LSH, r1, 1));
    if (i + 1 < functions)
      a.call_function(std::to_string(i + 1))(alu_k(BPF_ADD, r0, 1), leave());
    else
      a(move(r0, r1), leave());
  }
  return a.code();
}

TEST_F(ControlTest, EightFunctionsDeep) {
  Twins twins({});
  for (int functions = 2; functions <= 8; ++functions) {
    const auto program = twins.add(deep(functions));
    ASSERT_TRUE(program) << functions << ": " << twins.refusal();
    ASSERT_EQ(twins.run(*program, {.bytes = Bytes(60)}), "") << functions;
    EXPECT_EQ(twins.answer().action, (1u << (functions - 1)) + static_cast<u32>(functions) - 2);
  }
  EXPECT_FALSE(twins.add(deep(9)));
}

// As often as the packet says, up to a limit that the verifier knows.
TEST_F(ControlTest, Loops) {
  Twins twins({kResults});
  Assembly a;
  read_packet(a);
  a(alu_k(BPF_AND, r6, 0xff), move_k(r2, 0), move_k(r3, 1));
  a.label("again").to("done", jump(BPF_JGE, r2, r6));
  a(alu(BPF_ADD, r3, r7), alu_k(BPF_MUL, r3, 31), alu_k(BPF_ADD, r2, 1)).to("again", always());
  a.label("done")(note(0, r3), move_k(r0, XDP_TX), leave());
  end_short(a);
  const auto program = twins.add(a.code());
  ASSERT_TRUE(program) << twins.refusal();
  for (u64 times : {0, 1, 2, 100, 255, 256})
    ASSERT_EQ(twins.run(*program, {.bytes = packet_of(times, 5)}), "");
}

// Calls a function as often as the first number says, which adds up and stops at the turn that the second
// says.
Code loops(std::int32_t flags) {
  Assembly a;
  read_packet(a);
  a(store_k(BPF_DW, r10, -8, 0), store(BPF_DW, r10, -16, r7), store(BPF_DW, r10, -24, r8), move(r1, r6));
  a.function(r2, "turn")(move(r3, r10), alu_k(BPF_ADD, r3, -24), move_k(r4, flags), call(BPF_FUNC_loop));
  a(note(0, r0), load(BPF_DW, r2, r10, -8), note(1, r2), note(2, r6), note(3, r7), note(4, r8), note(5, r9));
  a(move_k(r0, XDP_TX), leave());
  end_short(a);
  a.label("turn")(load(BPF_DW, r3, r2, 16), alu(BPF_ADD, r3, r1), alu_k(BPF_ADD, r3, 1),
                  store(BPF_DW, r2, 16, r3));
  a(load(BPF_DW, r4, r2, 8), move_k(r6, 1), move_k(r0, 0)).to("go_on", jump(BPF_JNE, r1, r4))(move_k(r0, 1));
  a.label("go_on")(leave());
  return a.code();
}

TEST_F(ControlTest, BpfLoop) {
  if (!lab::kernel_at_least(5, 17)) GTEST_SKIP() << "this kernel has no bpf_loop: Linux 5.17 has";
  Twins twins({kResults});
  const auto program = twins.add(loops(0)), with_flags = twins.add(loops(1));
  ASSERT_TRUE(program && with_flags) << twins.refusal();
  for (u64 turns : {u64{0}, u64{1}, u64{2}, u64{7}, u64{1000}, u64{8 * 1024 * 1024 + 1}, u64{0xffffffff},
                    u64{0x100000005}, ~u64{0}})
    for (u64 last : {u64{0}, u64{1}, u64{6}, u64{7}, ~u64{0}}) {
      ASSERT_EQ(twins.run(*program, {.bytes = packet_of(turns, last, 3, 4)}), "") << turns << " to " << last;
      ASSERT_EQ(twins.run(*with_flags, {.bytes = packet_of(turns, last, 3, 4)}), "") << turns;
    }
}

// Counts itself, and calls the program that the packet's byte names; with what it has, where there is none.
Code chained(u32 number) {
  Assembly a;
  a(move(r9, r1));
  a(map_value(r2, 0, 8 * number), move_k(r3, 1), atomically(BPF_DW, BPF_ADD, r2, 0, r3));
  a(load(BPF_W, r7, r9, 0), load(BPF_W, r3, r9, 4), move(r4, r7), alu_k(BPF_ADD, r4, 32));
  a.to("out", jump(BPF_JGT, r4, r3));
  a(load(BPF_DW, r3, r7, static_cast<int>(8 * number)), move(r1, r9), map(r2, 1), call(BPF_FUNC_tail_call));
  a.label("out")(move_k(r0, static_cast<std::int32_t>(100 + number)), leave());
  return a.code();
}

TEST_F(ControlTest, TailCalls) {
  Twins twins({kResults, kPrograms});
  for (u32 number = 0; number < 4; ++number) {
    const auto program = twins.add(chained(number));
    ASSERT_TRUE(program) << twins.refusal();
    twins.put_program(1, number, *program);
  }
  for (u64 first : {u64{0}, u64{1}, u64{3}, u64{5}, u64{8}, ~u64{0}, u64{0x100000001}})
    for (u64 second : {u64{0}, u64{1}, u64{2}, u64{7}, u64{9}})
      ASSERT_EQ(twins.run(0, {.bytes = packet_of(first, second, 3, 99)}), "") << first << ", " << second;
  // It calls itself, to the limit.
  ASSERT_EQ(twins.run(0, {.bytes = packet_of(0)}), "");
  EXPECT_EQ(twins.answer().action, 100u);
}

// A function's tail is the program's, which returns to who called the function.
TEST_F(ControlTest, TailCallsOfFunctions) {
  if (!lab::kernel_at_least(6, 12)) GTEST_SKIP() << "before Linux 6.12 functions count their tails apart";
  Twins twins({kResults, kPrograms});
  for (u32 number = 0; number < 4; ++number) {
    const auto program = twins.add(chained(number));
    ASSERT_TRUE(program) << twins.refusal();
    twins.put_program(1, number, *program);
  }
  Assembly a;
  a(move(r6, r1), move_k(r7, 7), store_k(BPF_DW, r10, -8, 21)).call_function("one");
  a(move(r8, r0), move(r1, r6)).call_function("one");
  a(alu(BPF_ADD, r0, r8), alu(BPF_ADD, r0, r7), load(BPF_DW, r1, r10, -8), alu(BPF_ADD, r0, r1), leave());
  a.label("one")(store_k(BPF_DW, r10, -8, 1), map(r2, 1), move_k(r3, 0), call(BPF_FUNC_tail_call),
                 move_k(r0, 5), leave());
  const auto program = twins.add(a.code());
  ASSERT_TRUE(program) << twins.refusal();
  for (u64 first : {0, 1, 9})
    for (u64 second : {0, 1, 3}) {
      ASSERT_EQ(twins.run(*program, {.bytes = packet_of(first, second, 3, 99)}), "")
          << first << ", " << second;
    }
}

}  // namespace
}  // namespace xdpgpu::test
