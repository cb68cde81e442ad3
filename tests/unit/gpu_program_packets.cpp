// SPDX-License-Identifier: MIT
//
// What is plain of a program that changes its packets, before it runs.
#include "gpu/program_packets.hpp"

#include <gtest/gtest.h>

#include "tests/kernel/programs/assembler.hpp"

namespace xdpgpu::gpu::programs {
namespace {

using namespace test;  // NOLINT: the assembler's words

std::string change_of(const Code& code) {
  const Program program{.name = "test", .instructions = code, .maps = {}, .license = "GPL"};
  const auto change = change_of_packet(program);
  return change ? std::to_string(change->instruction) + ": " + change->what : std::string();
}

const Code kEnd = {move_k(r0, 2), leave()};
Code with(Code code) {
  code.insert(code.end(), kEnd.begin(), kEnd.end());
  return code;
}

TEST(ProgramPackets, WhatMovesTheirEndsIsNamed) {
  EXPECT_EQ(change_of(with({move_k(r2, -4), call(BPF_FUNC_xdp_adjust_head)})),
            "1: calls bpf_xdp_adjust_head");
  EXPECT_EQ(change_of(with({move_k(r2, -4), call(BPF_FUNC_xdp_adjust_meta)})),
            "1: calls bpf_xdp_adjust_meta");
  EXPECT_EQ(change_of(with({move_k(r2, -4), call(BPF_FUNC_xdp_adjust_tail)})),
            "1: calls bpf_xdp_adjust_tail");
}

TEST(ProgramPackets, StoresAreFoundByWhatTheirRegistersHold) {
  const std::string writes = ": writes to its packet";
  EXPECT_EQ(change_of(with({load(BPF_W, r7, r1, 0), store_k(BPF_B, r7, 0, 1)})), "1" + writes);
  EXPECT_EQ(change_of(with({load(BPF_W, r7, r1, 4), alu_k(BPF_SUB, r7, 1), store_k(BPF_B, r7, 0, 1)})),
            "2" + writes);
  // By way of the stack.
  EXPECT_EQ(change_of(with({load(BPF_W, r7, r1, 0), store(BPF_DW, r10, -8, r7), load(BPF_DW, r3, r10, -8),
                            store_k(BPF_B, r3, 0, 1)})),
            "3" + writes);
  EXPECT_EQ(change_of(with({load(BPF_W, r7, r1, 0), move_k(r2, 1), atomically(BPF_W, BPF_ADD, r7, 0, r2)})),
            "2" + writes);
}

TEST(ProgramPackets, WhatIsNotPlainIsNotNamed) {
  EXPECT_EQ(change_of(kEnd), "");
  EXPECT_EQ(change_of(with({load(BPF_W, r7, r1, 0), load(BPF_B, r2, r7, 0), store(BPF_B, r10, -1, r2)})), "");
  // Only when it runs is it known where that is.
  EXPECT_EQ(change_of(with({load(BPF_W, r7, r1, 0), load(BPF_DW, r2, r7, 0), store_k(BPF_B, r2, 0, 1)})), "");
}

TEST(ProgramPackets, WhatItGoesOnWithChangesThem) {
  Program program{.name = "test", .instructions = kEnd, .maps = {}, .license = "GPL"};
  EXPECT_FALSE(change_of_packet(program));
  program.tails.push_back({"writes", with({load(BPF_W, r7, r1, 0), store_k(BPF_B, r7, 0, 1)})});
  const auto change = change_of_packet(program);
  ASSERT_TRUE(change);
  EXPECT_EQ(change->what, "writes to its packet");
}

// Sixty-four tails of an object with megabytes of variables are not as many copies of them.
TEST(ProgramParts, WhatMapsBeginWithHasTheFirstOneAlone) {
  Map map;
  map.name = "data";
  map.contents.resize(1'000, 7);
  Program program{.name = "test", .instructions = kEnd, .maps = {map}, .license = "GPL"};
  program.tails = {{"one", kEnd}, {"two", kEnd}};
  const auto parts = parts_of(program);
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts[0].maps, program.maps);
  for (const Program& tail : {parts[1], parts[2]}) {
    EXPECT_TRUE(tail.maps.at(0).contents.empty());
    EXPECT_EQ(tail.maps.at(0).name, "data");
    EXPECT_EQ(tail.instructions, kEnd);
  }
}

}  // namespace
}  // namespace xdpgpu::gpu::programs
