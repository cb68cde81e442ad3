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

Program of_code(Code code, std::vector<Map> maps = {}) {
  return {.name = "test", .instructions = std::move(code), .maps = std::move(maps), .license = "GPL"};
}

TEST(ProgramPackets, WhatIsTooLongForAnEventIsNamedWhereItIsPlain) {
  const auto of = [](const Code& code) {
    const auto output = too_long_output_of(of_code(code));
    return output ? std::to_string(output->instruction) + ": " + output->what : std::string();
  };
  EXPECT_EQ(of(with({move_k(r2, 112), move_k(r3, 0), call(BPF_FUNC_ringbuf_reserve)})), "");
  EXPECT_EQ(of(with({move_k(r2, 113), move_k(r3, 0), call(BPF_FUNC_ringbuf_reserve)})),
            "2: calls bpf_ringbuf_reserve for 113 bytes");
  EXPECT_EQ(of(with({alu32_k(BPF_MOV, r3, 200), call(BPF_FUNC_ringbuf_output)})),
            "1: calls bpf_ringbuf_output for 200 bytes");
  EXPECT_EQ(of(with({move_k(r5, 200), call(BPF_FUNC_perf_event_output)})),
            "1: calls bpf_perf_event_output for 200 bytes");
  // It is not known any more.
  EXPECT_EQ(of(with({move_k(r3, 200), alu_k(BPF_AND, r3, 15), call(BPF_FUNC_ringbuf_output)})), "");
  EXPECT_EQ(of(with({move_k(r3, 200), move(r3, r6), call(BPF_FUNC_ringbuf_output)})), "");
  EXPECT_EQ(of(with({move_k(r3, 200), load(BPF_B, r3, r6, 0), call(BPF_FUNC_ringbuf_output)})), "");
  EXPECT_EQ(of(with({move_k(r3, 200), call(BPF_FUNC_ktime_get_ns), call(BPF_FUNC_ringbuf_output)})), "");
  EXPECT_EQ(
      of(with({move_k(r3, 8), jump_k(BPF_JEQ, r6, 0, 1), move_k(r3, 200), call(BPF_FUNC_ringbuf_output)})),
      "");
}

TEST(ProgramPackets, BroadcastsAreNamedWhereTheyArePlain) {
  const auto of = [](const Code& code) { return broadcast_of(of_code(code)).has_value(); };
  EXPECT_FALSE(of(with({move_k(r3, BPF_F_EXCLUDE_INGRESS), call(BPF_FUNC_redirect_map)})));
  EXPECT_TRUE(of(with({move_k(r3, BPF_F_BROADCAST), call(BPF_FUNC_redirect_map)})));
  EXPECT_TRUE(
      of(with({move_k(r3, BPF_F_BROADCAST | BPF_F_EXCLUDE_INGRESS | 2), call(BPF_FUNC_redirect_map)})));
  EXPECT_FALSE(of(with({move_k(r3, BPF_F_BROADCAST), call(BPF_FUNC_redirect)})));
  EXPECT_FALSE(of(with({load(BPF_B, r3, r6, 0), call(BPF_FUNC_redirect_map)})));
}

TEST(ProgramPackets, WhoRedirectsToInterfacesIsKnown) {
  const auto of = [](const Code& code, u32 type) {
    Map map;
    map.type = type;
    return redirects_to_interfaces(of_code(code, {map}));
  };
  const Code by_map = with({call(BPF_FUNC_redirect_map)});
  EXPECT_TRUE(of(by_map, BPF_MAP_TYPE_DEVMAP));
  EXPECT_TRUE(of(by_map, BPF_MAP_TYPE_DEVMAP_HASH));
  EXPECT_FALSE(of(by_map, BPF_MAP_TYPE_CPUMAP));
  EXPECT_FALSE(of(by_map, BPF_MAP_TYPE_XSKMAP));
  EXPECT_TRUE(of(with({call(BPF_FUNC_redirect)}), BPF_MAP_TYPE_CPUMAP));
  EXPECT_FALSE(of(kEnd, BPF_MAP_TYPE_DEVMAP));
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
