// SPDX-License-Identifier: MIT
//
// Programs in the form that devices run, as a CPU runs it, answer what the reference answers.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "gpu/program_code.hpp"
#include "gpu/reference/program.hpp"
#include "gpu/stages/program_code.h"
#include "tests/kernel/programs/random.hpp"

namespace xdpgpu::gpu::programs {
namespace {

using namespace test;  // NOLINT: the assembler's words

constexpr u32 kQueues = 3;
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

class Device {
 public:
  explicit Device(DeviceCode code)
      : code_(std::move(code)), machine_(std::make_unique<xg_program_machine>()) {}

  ProgramAnswer run(const ProgramPacket& packet) {
    xg_program_machine& m = *machine_;
    m = {};
    auto* frame = reinterpret_cast<u8*>(m.memory) + XG_PROGRAM_FRAMES * XG_PROGRAM_STACK;
    m.data = XG_PROGRAM_HEADROOM;
    m.meta = m.data - static_cast<u32>(packet.metadata.size());
    m.end = m.data + static_cast<u32>(packet.bytes.size());
    std::ranges::copy(packet.metadata, frame + m.meta);
    std::ranges::copy(packet.bytes, frame + m.data);
    m.time = packet.time_ns;
    m.random = packet.random;
    m.queue = packet.queue;
    m.ingress = packet.ingress_ifindex;
    m.egress = packet.egress_ifindex;
    xg_program_run({code_.code.data()}, {code_.maps.data()}, static_cast<u32>(code_.maps.size() / 4),
                   {code_.values.data()}, m);
    ProgramAnswer answer;
    answer.fault = static_cast<ProgramFault>(m.fault);
    answer.action = m.fault == 0 ? static_cast<u32>(m.r[0]) : 0;
    answer.packet.assign(frame + m.data, frame + m.end);
    answer.metadata.assign(frame + m.meta, frame + m.data);
    answer.steps = m.steps;
    return answer;
  }

  // Others of the same maps: their values go on.
  void change(DeviceCode code) {
    code.values = std::move(code_.values);
    code_ = std::move(code);
  }

  Bytes value(u32 map, u32 index, u32 queue) const {
    const u32* const words = &code_.maps[map * 4];
    const auto* first =
        reinterpret_cast<const u8*>(code_.values.data()) + words[2] + queue * words[3] + index * words[1];
    return {first, first + words[1]};
  }

 private:
  DeviceCode code_;
  std::unique_ptr<xg_program_machine> machine_;
};

Program program_of(Code code, std::vector<Map> maps = {}) {
  return {.name = "test", .instructions = std::move(code), .maps = std::move(maps), .license = "GPL"};
}

// All values of the maps, 0 where the reference has none.
std::string difference_of_maps(const Device& device, const std::vector<Map>& maps,
                               const reference::ProgramMaps& other) {
  for (u32 number = 0; number < maps.size(); ++number) {
    const Map& map = maps[number];
    const u32 queues = map.type == BPF_MAP_TYPE_PERCPU_ARRAY ? kQueues : 1;
    std::vector<std::vector<Bytes>> expected(map.entries, std::vector<Bytes>(queues, Bytes(map.value_bytes)));
    for (const auto& entry : other[number].entries())
      for (const auto& [queue, value] : entry.values) expected[entry.key[0]][queue] = value;
    for (u32 index = 0; index < map.entries; ++index)
      for (u32 queue = 0; queue < queues; ++queue)
        if (device.value(number, index, queue) != expected[index][queue])
          return map.name + " " + std::to_string(index) + " of queue " + std::to_string(queue);
  }
  return {};
}

TEST(ProgramCode, AnswersAreTheReferences) {
  const RandomKind kind{.version4 = true, .arrays_only = true};
  const std::vector<Map> maps = random_maps(kind);
  for (u32 batch = 0; batch < 100; ++batch) {
    reference::ProgramMaps state(maps);
    reference::ProgramSet set(state);
    std::optional<Device> device;
    for (u32 i = 0; i < 50; ++i) {
      const u32 seed = batch * 50 + i;
      dataplane::Random random(seed);
      const Code code = random_program(random, kind);
      auto made = device_code(program_of(code, maps), kQueues);
      ASSERT_TRUE(made) << made.error();
      if (device)
        device->change(std::move(*made));
      else
        device.emplace(std::move(*made));
      const u32 number = set.add(code);
      for (int run = 0; run < 3; ++run) {
        const ProgramPacket packet = random_packet(random, kQueues);
        const ProgramAnswer expected = set.run(number, packet), answer = device->run(packet);
        ASSERT_EQ(expected.fault, ProgramFault::none);
        ASSERT_EQ(answer.fault, expected.fault) << "seed " << seed << "\n" << test::text_of(code);
        ASSERT_EQ(answer.action, expected.action) << "seed " << seed << "\n" << test::text_of(code);
        ASSERT_EQ(answer.packet, expected.packet) << "seed " << seed << "\n" << test::text_of(code);
        ASSERT_EQ(answer.metadata, expected.metadata) << "seed " << seed << "\n" << test::text_of(code);
        ASSERT_EQ(answer.steps, expected.steps) << "seed " << seed << "\n" << test::text_of(code);
        ASSERT_EQ(difference_of_maps(*device, maps, state), "") << "seed " << seed << "\n"
                                                                << test::text_of(code);
      }
    }
  }
}

// Each adjustment by each amount, one after another.
TEST(ProgramCode, Adjustments) {
  dataplane::Random random(4);
  for (int helper : {BPF_FUNC_xdp_adjust_head, BPF_FUNC_xdp_adjust_meta, BPF_FUNC_xdp_adjust_tail})
    for (int other : {BPF_FUNC_xdp_adjust_head, BPF_FUNC_xdp_adjust_meta, BPF_FUNC_xdp_adjust_tail}) {
      Assembly a;
      a(move(r6, r1), load(BPF_W, r7, r1, 0), load(BPF_W, r2, r7, 0), load(BPF_W, r8, r7, 4));
      a(call(helper), move(r9, r0), move(r1, r6), move(r2, r8), call(other), alu_k(BPF_MUL, r0, 1000),
        alu(BPF_ADD, r0, r9), leave());
      reference::ProgramMaps state({});
      reference::ProgramSet set(state);
      const u32 number = set.add(a.code());
      auto made = device_code(program_of(a.code()), kQueues);
      ASSERT_TRUE(made) << made.error();
      Device device(std::move(*made));
      for (std::size_t size : {14u, 60u, 1514u, 3520u})
        for (std::int32_t by = -310; by <= 3600; by += by < 310 ? 1 : 7) {
          ProgramPacket packet{.bytes = Bytes(size, 0x5a), .metadata = Bytes(random() % 50 * 4, 0x77)};
          const std::int32_t then = static_cast<std::int32_t>(random() % 600) - 300;
          std::memcpy(packet.bytes.data(), &by, 4);
          std::memcpy(packet.bytes.data() + 4, &then, 4);
          const ProgramAnswer expected = set.run(number, packet), answer = device.run(packet);
          ASSERT_EQ(answer.action, expected.action)
              << helper << " by " << by << ", " << other << " by " << then;
          ASSERT_EQ(answer.packet, expected.packet)
              << helper << " by " << by << ", " << other << " by " << then;
          ASSERT_EQ(answer.metadata, expected.metadata)
              << helper << " by " << by << ", " << other << " by " << then;
        }
    }
}

// What a program that no verifier has seen does is the same fault, or is refused before.
TEST(ProgramCode, AnyBytesAreAProgram) {
  dataplane::Random random(10);
  const u8 opcodes[]{0x05, 0x06, 0x07, 0x0f, 0x15, 0x18, 0x1d, 0x25, 0x2f, 0x3f, 0x61, 0x62,
                     0x63, 0x69, 0x6a, 0x6b, 0x71, 0x72, 0x73, 0x79, 0x7a, 0x7b, 0x81, 0x85,
                     0x85, 0x91, 0x9f, 0xb7, 0xbf, 0xbf, 0xc3, 0xdb, 0xd7, 0xdc, 0x95};
  const std::vector<Map> maps{map_of("one", BPF_MAP_TYPE_ARRAY, 4, 16, 1)};
  std::array<u32, 9> seen{};
  u32 refused = 0;
  for (int run = 0; run < 60'000; ++run) {
    Code code;
    const u32 count = 2 + random() % 8;
    for (u32 i = 0; i < count; ++i)
      code.push_back(
          {.opcode = random() % 16 == 0 ? static_cast<u8>(random()) : opcodes[random() % std::size(opcodes)],
           .destination = static_cast<u8>(random() % 10),
           .source = static_cast<u8>(random() % 2 == 0 ? 0 : random() % 11),
           .offset = static_cast<std::int16_t>(random() % 2 == 0 ? 0 : random() % 16 - 8),
           .immediate = static_cast<std::int32_t>(random() % 2 == 0 ? 0 : random() % 70)});
    code.push_back(leave());
    const auto made = device_code(program_of(code, maps), kQueues);
    if (!made) {
      refused++;
      continue;
    }
    reference::ProgramMaps state(maps);
    reference::ProgramSet set(state);
    const ProgramPacket packet = random_packet(random, kQueues);
    const ProgramAnswer expected = set.run(set.add(code), packet), answer = Device(*made).run(packet);
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
    const auto made = device_code(program_of(code, maps), 1);
    return made ? std::string() : made.error();
  };
  EXPECT_EQ(why({move_k(r0, 2), leave()}), "");
  EXPECT_EQ(why({call(BPF_FUNC_tail_call), leave()}),
            "the program test: instruction 0 calls helper 12, which devices do not have");
  EXPECT_EQ(why({leave()}, {map_of("flows", BPF_MAP_TYPE_HASH, 4, 8, 8)}),
            "the map flows is of type 1, which devices do not have");
  EXPECT_EQ(why({leave()}, {map_of("small", BPF_MAP_TYPE_ARRAY, 4, 4, 8)}),
            "the map small has values of 4 bytes: devices have multiples of 8");
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
