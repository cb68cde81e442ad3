// SPDX-License-Identifier: MIT
//
// A machine with little memory of its own: of a packet only so many lines can be written to, and what writes
// to more ends with the reason. Stacks are as small as the program's functions let them be.
#define XG_PROGRAM_LINES 3u
#define XG_PROGRAM_STACK_BYTES 64u
#include <gtest/gtest.h>

#include <algorithm>

#include "gpu/program_code.hpp"
#include "gpu/stages/program_code.h"
#include "tests/kernel/programs/assembler.hpp"

namespace xdpgpu::gpu::programs {
namespace {

using namespace test;  // NOLINT: the assembler's words

// Packets begin at a line's beginning.
static_assert(XG_PROGRAM_HEADROOM % (XG_PROGRAM_LINE_WORDS * 4) == 0);
constexpr int kLine = XG_PROGRAM_LINE_WORDS * 4;

struct Outcome {
  u32 fault = 0, lines = 0;
  u64 r0 = 0;
  std::vector<u8> packet;
};

Outcome run(const Code& code, std::vector<u8> bytes) {
  const Program program{.name = "test", .instructions = code, .maps = {}, .license = "GPL"};
  auto made = image_of(std::span(&program, 1), {});
  EXPECT_TRUE(made);
  if (!made) return {};
  EXPECT_LE(made->stack_bytes, XG_PROGRAM_STACK_BYTES);
  bytes.resize((bytes.size() + 3) / 4 * 4);
  static xg_program_machine m;
  m.code = {made->code.data()};
  m.tables = {made->tables.data()};
  m.state = {made->state.data()};
  m.frame = {reinterpret_cast<xg_word*>(bytes.data())};
  m.meta = m.data = XG_PROGRAM_HEADROOM;
  m.end = m.data + static_cast<u32>(bytes.size());
  m.frame_bias = 0u - m.meta;
  m.most_steps = XG_PROGRAM_STEPS;
  m.most_lines = XG_PROGRAM_LINES;
  xg_program_run(m, 0);
  Outcome done{.fault = m.fault, .lines = m.lines_used, .r0 = m.r[0], .packet = {}};
  for (u32 at = m.data; at < m.end; ++at)
    done.packet.push_back(static_cast<u8>(xg_program_frame_byte(m, at)));
  return done;
}

std::vector<u8> counted(std::size_t size) {
  std::vector<u8> bytes(size);
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<u8>(i * 7);
  return bytes;
}

TEST(ProgramWindow, WhatIsReadIsNotCopied) {
  Assembly a;
  a(load(BPF_W, r7, r1, 0), move_k(r0, 0));
  for (int at = 0; at < 1500; at += 60) a(load(BPF_B, r2, r7, at), alu(BPF_ADD, r0, r2));
  a(leave());
  const auto bytes = counted(1500);
  const Outcome done = run(a.code(), bytes);
  u64 sum = 0;
  for (std::size_t at = 0; at < 1500; at += 60) sum += bytes[at];
  EXPECT_EQ(done.fault, 0u);
  EXPECT_EQ(done.r0, sum);
  EXPECT_EQ(done.lines, 0u);
}

TEST(ProgramWindow, LinesThatAreWrittenAreCounted) {
  for (int lines = 0; lines <= 5; ++lines) {
    Assembly a;
    a(load(BPF_W, r7, r1, 0));
    auto expected = counted(600);
    for (int line = 0; line < lines; ++line)
      for (int at : {line * kLine * 2, line * kLine * 2 + 5, line * kLine * 2 + kLine - 1}) {
        a(store_k(BPF_B, r7, at, 200 + line));
        expected[static_cast<std::size_t>(at)] = static_cast<u8>(200 + line);
      }
    a(move_k(r0, 2), leave());
    const Outcome done = run(a.code(), counted(600));
    EXPECT_EQ(done.lines, std::min<u32>(static_cast<u32>(lines), XG_PROGRAM_LINES));
    EXPECT_EQ(done.fault, lines <= 3 ? 0u : XG_PROGRAM_TOO_MUCH_WRITTEN) << lines;
    if (lines <= 3) {
      EXPECT_EQ(done.packet, expected) << lines;
    }
  }
}

// One store in two lines needs both.
TEST(ProgramWindow, StoresAcrossLines) {
  Assembly a;
  a(load(BPF_W, r7, r1, 0), store_k(BPF_DW, r7, kLine - 3, -1), load(BPF_DW, r0, r7, kLine - 3), leave());
  const Outcome done = run(a.code(), counted(600));
  EXPECT_EQ(done.fault, 0u);
  EXPECT_EQ(done.r0, ~u64{0});
  EXPECT_EQ(done.lines, 2u);
}

// A header that is pushed costs the lines in front; a packet that grows at its end none.
TEST(ProgramWindow, HeadsAndTails) {
  Assembly a;
  a(move(r6, r1), move_k(r2, -20), call(BPF_FUNC_xdp_adjust_head), move(r1, r6), move_k(r2, 1000),
    call(BPF_FUNC_xdp_adjust_tail), load(BPF_W, r7, r6, 0), store_k(BPF_W, r7, 0, 0x01020304));
  a(load(BPF_W, r0, r7, 20), load(BPF_DW, r2, r7, 1400), alu(BPF_ADD, r0, r2), leave());
  const auto bytes = counted(600);
  const Outcome done = run(a.code(), bytes);
  EXPECT_EQ(done.fault, 0u);
  EXPECT_EQ(done.r0, 0x150e0700u);
  EXPECT_EQ(done.lines, 1u);
  ASSERT_EQ(done.packet.size(), 1620u);
  EXPECT_TRUE(std::equal(bytes.begin(), bytes.end(), done.packet.begin() + 20));
  EXPECT_TRUE(std::all_of(done.packet.begin() + 620, done.packet.end(), [](u8 byte) { return byte == 0; }));
}

}  // namespace
}  // namespace xdpgpu::gpu::programs
