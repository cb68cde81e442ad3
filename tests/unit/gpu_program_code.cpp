// SPDX-License-Identifier: MIT
//
// Programs in the form that devices run, as a CPU runs it, answer what the reference answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "tests/unit/program_devices.hpp"

namespace xdpgpu::gpu::programs {
namespace {

using namespace test;  // NOLINT: the assembler's words

static_assert(XG_PROGRAM_STEPS == reference::kMostProgramSteps);
static_assert(XG_PROGRAM_FRAMES == reference::kMostProgramFrames &&
              XG_PROGRAM_STACK == reference::kProgramStackBytes);
static_assert(XG_PROGRAM_FRAME == reference::kProgramHeadroomBytes + reference::kProgramPacketBytes);
static_assert(XG_PROGRAM_HEADROOM == reference::kProgramHeadroomBytes);
static_assert(XG_PROGRAM_KEPT == reference::kProgramFrameBytes &&
              XG_PROGRAM_LEAST == reference::kLeastProgramPacket);
static_assert(XG_PROGRAM_MOST_METADATA == reference::kMostProgramMetadata);
static_assert(XG_PROGRAM_OUT_OF_BOUNDS == static_cast<u32>(ProgramFault::out_of_bounds) &&
              XG_PROGRAM_READ_ONLY == static_cast<u32>(ProgramFault::read_only) &&
              XG_PROGRAM_WRONG_MAP == static_cast<u32>(ProgramFault::wrong_map) &&
              XG_PROGRAM_TOO_MANY_STEPS == static_cast<u32>(ProgramFault::too_many_instructions) &&
              XG_PROGRAM_TOO_MANY_CALLS == static_cast<u32>(ProgramFault::too_many_calls));

void random_programs(const RandomKind& kind, u32 batches) {
  const std::vector<Map> maps = random_maps(kind);
  for (u32 batch = 0; batch < batches; ++batch) {
    DeviceTwins twins(maps);
    for (u32 i = 0; i < 50; ++i) {
      const u32 seed = batch * 50 + i;
      dataplane::Random random(seed);
      const Code code = random_program(random, kind);
      const u32 number = twins.add(code);
      for (u32 run = 0; run < 3; ++run) {
        const ProgramPacket packet = random_packet(random, kQueues);
        ASSERT_EQ(twins.run(number, packet, true, random() % 9), "") << "seed " << seed << "\n"
                                                                     << test::text_of(code);
        ASSERT_EQ(twins.answer().fault, ProgramFault::none);
      }
    }
  }
}
TEST(ProgramCode, AnswersAreTheReferences) { random_programs({.version4 = true, .arrays_only = true}, 12); }
TEST(ProgramCode, AnswersWithAnyMapAreTheReferences) { random_programs({.reserves = true}, 40); }

// Each adjustment by each amount, one after another.
TEST(ProgramCode, Adjustments) {
  dataplane::Random random(4);
  for (int helper : {BPF_FUNC_xdp_adjust_head, BPF_FUNC_xdp_adjust_meta, BPF_FUNC_xdp_adjust_tail})
    for (int other : {BPF_FUNC_xdp_adjust_head, BPF_FUNC_xdp_adjust_meta, BPF_FUNC_xdp_adjust_tail}) {
      Assembly a;
      a(move(r6, r1), load(BPF_W, r7, r1, 0), load(BPF_W, r2, r7, 0), load(BPF_W, r8, r7, 4));
      a(call(helper), move(r9, r0), move(r1, r6), move(r2, r8), call(other), alu_k(BPF_MUL, r0, 1000),
        alu(BPF_ADD, r0, r9), leave());
      DeviceTwins twins({});
      const u32 number = twins.add(a.code());
      for (std::size_t size : {14u, 60u, 1514u, 3520u})
        for (std::int32_t by = -310; by <= 3600; by += by < 310 ? 1 : 7) {
          ProgramPacket packet{.bytes = Bytes(size, 0x5a), .metadata = Bytes(random() % 64 * 4, 0x77)};
          const std::int32_t then = static_cast<std::int32_t>(random() % 600) - 300;
          std::memcpy(packet.bytes.data(), &by, 4);
          std::memcpy(packet.bytes.data() + 4, &then, 4);
          ASSERT_EQ(twins.run(number, packet, false, random() % 4), "")
              << helper << " by " << by << ", " << other << " by " << then;
        }
    }
}

// What a program that no verifier has seen does is the same fault, or is refused before.
TEST(ProgramCode, AnyBytesAreAProgram) {
  dataplane::Random random(10);
  const std::vector<Map> maps{map_of("one", BPF_MAP_TYPE_ARRAY, 4, 16, 1)};
  std::array<u32, 9> seen{};
  u32 refused = 0;
  for (int run = 0; run < 60'000; ++run) {
    const Code code = any_code(random);
    if (looks_up_routes(program_of(code, maps))) continue;  // nobody runs it where there are none
    const auto made = image_of(program_of(code, maps));
    if (!made) {
      refused++;
      continue;
    }
    reference::ProgramMaps state(maps);
    reference::ProgramSet set(state);
    const ProgramPacket packet = random_packet(random, kQueues);
    const ProgramAnswer expected = set.run(set.add(code), packet), answer = Device(*made).run(0, packet);
    ASSERT_EQ(answer.fault, expected.fault) << test::text_of(code);
    ASSERT_EQ(answer.action, expected.action) << test::text_of(code);
    ASSERT_EQ(answer.packet, expected.packet) << test::text_of(code);
    seen[static_cast<u32>(answer.fault)]++;
  }
  EXPECT_NE(refused, 0u);
  for (ProgramFault fault :
       {ProgramFault::none, ProgramFault::out_of_bounds, ProgramFault::too_many_instructions})
    EXPECT_NE(seen[static_cast<u32>(fault)], 0u) << name_of(fault);
}

TEST(ProgramCode, WhatDevicesDoNotHave) {
  const auto why = [](const Code& code, const std::vector<Map>& maps = {}) {
    const auto made = image_of(program_of(code, maps));
    return made ? std::string() : made.error();
  };
  EXPECT_EQ(why({move_k(r0, 2), leave()}), "");
  EXPECT_EQ(why({call(BPF_FUNC_jiffies64), leave()}),
            "the program test: instruction 0 calls helper 118, which devices do not have");
  EXPECT_EQ(why({leave()}, {map_of("packets", BPF_MAP_TYPE_QUEUE, 0, 4, 8)}),
            "the map packets is of type 22, which devices do not have");
  for (const Map& ring : {map_of("events", BPF_MAP_TYPE_RINGBUF, 4, 0, 4096),
                          map_of("events", BPF_MAP_TYPE_RINGBUF, 0, 4, 4096),
                          map_of("events", BPF_MAP_TYPE_RINGBUF, 0, 0, 12'288),
                          map_of("events", BPF_MAP_TYPE_RINGBUF, 0, 0, 0)})
    EXPECT_EQ(why({leave()}, {ring}), fmt::format("the map events has keys, values or a size ({}) that a "
                                                  "ringbuf does not have",
                                                  ring.entries));
  EXPECT_EQ(why({leave()}, {map_of("events", BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 8, 8)}),
            "the map events has values of 8 bytes, which maps of its type 4 do not have");
  EXPECT_EQ(why({leave()}, {map_of("keys", BPF_MAP_TYPE_HASH, 513, 4, 8)}),
            "the map keys has keys of 513 bytes, which maps of its type 1 do not have");
  EXPECT_EQ(why({leave()}, {map_of("ports", BPF_MAP_TYPE_DEVMAP, 4, 12, 8)}),
            "the map ports has values of 12 bytes, which maps of its type 14 do not have");
  EXPECT_EQ(why({leave()}, {map_of("large", BPF_MAP_TYPE_ARRAY, 4, 1 << 20, 1 << 20)}),
            "the map large has 1099511627776 bytes: devices have 1 GiB for all maps");
  EXPECT_EQ(why({always(1), leave()}), "the program test: instruction 0 goes to 2, where there is none");
  EXPECT_EQ(why({always(1), number(r0, 1)[0], number(r0, 1)[1], leave()}),
            "the program test: instruction 0 goes to 2, where there is none");
  EXPECT_EQ(why({move_k(r0, 2)}), "the program test: the program goes on behind its last instruction");
  EXPECT_EQ(why({move_k(r10, 2), leave()}),
            "the program test: instruction 0 (opcode 0xb7) is none that devices know");
  EXPECT_EQ(why({}), "the program test: the program has no instruction");
}

}  // namespace
}  // namespace xdpgpu::gpu::programs
