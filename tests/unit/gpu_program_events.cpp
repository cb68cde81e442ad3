// SPDX-License-Identifier: MIT
//
// What programs put out, in the form that devices run, against the definition; and the answers, one by one.
#include <gtest/gtest.h>

#include <cerrno>

#include "gpu/program_packets.hpp"
#include "tests/unit/program_devices.hpp"

namespace xdpgpu::gpu::programs {
namespace {

using namespace test;  // NOLINT: the assembler's words

const std::vector<Map> kMaps{map_of("perf", BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, 2),
                             map_of("ring", BPF_MAP_TYPE_RINGBUF, 0, 0, 4096),
                             map_of("hash", BPF_MAP_TYPE_HASH, 4, 4, 8)};
constexpr u64 kOwn = 0xffffffff;

ProgramPacket packet_of(std::size_t bytes, u32 queue = 0) {
  ProgramPacket packet{.bytes = Bytes(bytes), .queue = queue};
  for (std::size_t i = 0; i < bytes; ++i) packet.bytes[i] = static_cast<u8>(i * 3 + 1);
  return packet;
}

// Of the packet's bytes from the 14th on, or from the one that the packet begins with.
struct Output {
  bool of_ring = false;
  u64 flags = kOwn;
  int bytes = 8, from = 14;
  u32 map = 0;
};
Code output(const Output& one) {
  Code code{load(BPF_W, r4, r6, 0), alu_k(BPF_ADD, r4, one.from)};
  const auto add = [&](const Code& more) { code.insert(code.end(), more.begin(), more.end()); };
  if (one.of_ring) {
    add({move(r2, r4), move_k(r3, one.bytes)});
    add(number(r4, one.flags));
    add(map(r1, one.map));
    add({call(BPF_FUNC_ringbuf_output)});
  } else {
    add({move_k(r5, one.bytes), move(r1, r6)});
    add(number(r3, one.flags));
    add(map(r2, one.map));
    add({call(BPF_FUNC_perf_event_output)});
  }
  return code;
}
Output perf(u64 flags = kOwn, int bytes = 8, int from = 14, u32 map = 0) {
  return {.flags = flags, .bytes = bytes, .from = from, .map = map};
}
Output ring(u64 flags = 0, int bytes = 8, int from = 14, u32 map = 1) {
  return {.of_ring = true, .flags = flags, .bytes = bytes, .from = from, .map = map};
}

// The last answer is R0.
struct Answered {
  ProgramAnswer answer;
  int r0() const { return static_cast<std::int32_t>(answer.action); }
};
Answered put_out(const std::vector<Output>& outputs, const ProgramPacket& packet = packet_of(100)) {
  Code code{move(r6, r1)};
  for (const Output& one : outputs) {
    const Code more = output(one);
    code.insert(code.end(), more.begin(), more.end());
  }
  code.push_back(leave());
  DeviceTwins twins(kMaps);
  const u32 program = twins.add(code);
  for (const u32 at : {0u, 1u, 3u}) EXPECT_EQ(twins.run(program, packet, true, at), "");
  return {twins.answer()};
}

TEST(ProgramEvents, HaveTheirBytesAndTheirMap) {
  for (int bytes = 0; bytes <= int{XG_EVENT_BYTES}; ++bytes)
    for (const Output& one : {perf(kOwn, bytes, 1 + bytes % 5), ring(0, bytes, 1 + bytes % 5)}) {
      const auto packet = packet_of(120);
      const auto put = put_out({one}, packet);
      ASSERT_EQ(put.answer.fault, ProgramFault::none);
      EXPECT_EQ(put.r0(), 0);
      ASSERT_TRUE(put.answer.event);
      EXPECT_EQ(put.answer.event->map, one.map);
      EXPECT_EQ(put.answer.event->length, bytes);
      EXPECT_EQ(put.answer.event->asked, 0u);
      EXPECT_EQ(std::memcmp(put.answer.event->bytes, &packet.bytes[static_cast<u32>(one.from)],
                            static_cast<u32>(bytes)),
                0);
    }
}

TEST(ProgramEvents, AskForAsMuchOfTheirPacketAsThereIs) {
  EXPECT_EQ(put_out({perf(kOwn | u64{1} << 32)}).answer.event->asked, 1u);
  EXPECT_EQ(put_out({perf(kOwn | u64{100} << 32)}).answer.event->asked, 100u);
  EXPECT_EQ(put_out({perf(kOwn | u64{101} << 32)}).r0(), -EFAULT);
  EXPECT_EQ(put_out({perf(kOwn | u64{0xfffff} << 32)}).r0(), -EFAULT);
  EXPECT_EQ(put_out({perf(kOwn | u64{0x100000} << 32)}).r0(), -EINVAL);
  EXPECT_EQ(put_out({perf(kOwn | u64{1} << 63)}).r0(), -EINVAL);
  EXPECT_FALSE(put_out({perf(kOwn | u64{101} << 32)}).answer.event);
}

TEST(ProgramEvents, GoToThePacketsOwnProcessorAlone) {
  EXPECT_EQ(put_out({perf(0)}).r0(), 0);
  EXPECT_EQ(put_out({perf(1)}).r0(), -EOPNOTSUPP);
  EXPECT_EQ(put_out({perf(2)}).r0(), -E2BIG);
  EXPECT_EQ(put_out({perf(0xfffffffe)}).r0(), -E2BIG);
  EXPECT_EQ(put_out({perf(1)}, packet_of(60, 1)).r0(), 0);
  EXPECT_EQ(put_out({perf(0)}, packet_of(60, 1)).r0(), -EOPNOTSUPP);
  EXPECT_EQ(put_out({perf()}, packet_of(60, 2)).r0(), -E2BIG) << "the map has two";
}

TEST(ProgramEvents, ThereIsRoomForOneOfSoManyBytes) {
  const int most = XG_EVENT_BYTES;
  EXPECT_EQ(put_out({perf(kOwn, most + 1)}, packet_of(200)).r0(), -E2BIG);
  EXPECT_EQ(put_out({ring(0, most + 1)}, packet_of(200)).r0(), -EAGAIN);
  EXPECT_EQ(put_out({perf(), perf()}).r0(), -ENOSPC);
  EXPECT_EQ(put_out({ring(), perf()}).r0(), -ENOSPC);
  EXPECT_EQ(put_out({perf(), ring()}).r0(), -EAGAIN);
  EXPECT_EQ(put_out({ring(), ring()}).r0(), -EAGAIN);
  // What was answered otherwise is none.
  const auto second = put_out({perf(kOwn, most + 1), ring(8), perf(9), ring(1, 5)}, packet_of(200));
  EXPECT_EQ(second.r0(), 0);
  ASSERT_TRUE(second.answer.event);
  EXPECT_EQ(second.answer.event->length, 5u);
}

TEST(ProgramEvents, FlagsOfRingsAreThoseOfWakeUps) {
  for (const u64 flags : {0u, 1u, 2u, 3u}) EXPECT_EQ(put_out({ring(flags)}).r0(), 0) << flags;
  for (const u64 flags : {u64{4}, u64{7}, u64{1} << 32, ~u64{0}})
    EXPECT_EQ(put_out({ring(flags)}).r0(), -EINVAL) << flags;
}

TEST(ProgramEvents, OfAProgramThatIsEndedBehindItTheEventStays) {
  // The first goes beyond the packet.
  const auto astray = put_out({perf(), perf(kOwn, 8, 93)});
  EXPECT_EQ(astray.answer.fault, ProgramFault::out_of_bounds);
  ASSERT_TRUE(astray.answer.event);
  EXPECT_EQ(astray.answer.event->length, 8u);
  for (const Output& one :
       {perf(kOwn, 8, 14, 1), perf(kOwn, 8, 14, 2), ring(0, 8, 14, 0), ring(0, 8, 14, 2)}) {
    const auto wrong = put_out({one});
    EXPECT_EQ(wrong.answer.fault, ProgramFault::wrong_map);
    EXPECT_FALSE(wrong.answer.event);
  }
  DeviceTwins twins(kMaps);
  Assembly a;
  a(move_k(r1, 7), map(r2, 0), number(r3, kOwn), move(r4, r10), move_k(r5, 0),
    call(BPF_FUNC_perf_event_output), leave());
  EXPECT_EQ(twins.run(twins.add(a.code()), packet_of(60)), "");
  EXPECT_EQ(twins.answer().fault, ProgramFault::out_of_bounds) << "no context";
}

// A record of so many bytes, in R0; it is the packet's.
Code reserve(int bytes, int flags = 0, u32 of = 1) {
  Code code = map(r1, of);
  for (const Instruction& one : {move_k(r2, bytes), move_k(r3, flags), call(BPF_FUNC_ringbuf_reserve)})
    code.push_back(one);
  return code;
}
Code leave_record(bool submits, u8 from = r0) {
  return {move(r1, from), move_k(r2, 0), call(submits ? BPF_FUNC_ringbuf_submit : BPF_FUNC_ringbuf_discard)};
}
Answered run_all(const std::vector<Code>& parts) {
  Code code{move(r6, r1)};
  for (const Code& part : parts) code.insert(code.end(), part.begin(), part.end());
  code.push_back(leave());
  DeviceTwins twins(kMaps);
  const u32 program = twins.add(code);
  for (const u32 at : {0u, 3u}) EXPECT_EQ(twins.run(program, packet_of(150), true, at), "");
  return {twins.answer()};
}

TEST(ProgramEvents, RecordsHaveWhatIsWrittenThere) {
  for (int bytes = 0; bytes <= int{XG_EVENT_BYTES}; ++bytes) {
    Code writes{load(BPF_W, r7, r6, 0), move(r9, r0)};
    for (int i = 0; i < bytes; ++i) {
      // By any size, one into another.
      const int size = i % 4 == 0 && i + 8 <= bytes   ? BPF_DW
                       : i % 3 == 0 && i + 4 <= bytes ? BPF_W
                       : i % 2 == 0 && i + 2 <= bytes ? BPF_H
                                                      : BPF_B;
      writes.push_back(load(size, r2, r7, 14 + i));
      writes.push_back(store(size, r9, i, r2));
    }
    if (bytes >= 8) {
      writes.push_back(load(BPF_DW, r2, r9, bytes - 8));
      writes.push_back(atomically(BPF_DW, BPF_XOR | BPF_FETCH, r9, 0, r2));
    }
    const auto put = run_all({reserve(bytes), writes, leave_record(true, r9)});
    ASSERT_EQ(put.answer.fault, ProgramFault::none) << bytes;
    ASSERT_TRUE(put.answer.event);
    EXPECT_EQ(put.answer.event->map, 1);
    EXPECT_EQ(put.answer.event->length, bytes);
  }
}

TEST(ProgramEvents, RecordsBeginWithZeros) {
  const Code fills{store_k(BPF_DW, r0, 0, -1), store_k(BPF_DW, r0, 8, -1)};
  const Code reads{load(BPF_DW, r2, r0, 0), load(BPF_DW, r3, r0, 8), alu(BPF_OR, r2, r3), move(r7, r2)};
  const auto put = run_all(
      {reserve(16), fills, leave_record(false), reserve(16), reads, leave_record(true), Code{move(r0, r7)}});
  EXPECT_EQ(put.r0(), 0);
  ASSERT_TRUE(put.answer.event);
  EXPECT_EQ(put.answer.event->length, 16);
  EXPECT_EQ(put.answer.event->bytes[15], 0);
}

TEST(ProgramEvents, ARecordIsThePacketsEventUntilItIsDiscarded) {
  const Code keeps{move(r9, r0)};
  EXPECT_EQ(run_all({reserve(8), keeps, output(ring()), Code{move(r7, r0)}, leave_record(true, r9),
                     Code{move(r0, r7)}})
                .r0(),
            -EAGAIN);
  EXPECT_EQ(run_all({reserve(8), keeps, output(perf()), Code{move(r7, r0)}, leave_record(true, r9),
                     Code{move(r0, r7)}})
                .r0(),
            -ENOSPC);
  // None is 0.
  EXPECT_EQ(run_all({reserve(8), keeps, reserve(8)}).r0(), 0);
  EXPECT_EQ(run_all({output(ring()), reserve(8)}).r0(), 0);
  EXPECT_EQ(run_all({output(ring()), reserve(8)}).answer.event->length, 8u);
  EXPECT_EQ(run_all({reserve(8), leave_record(true), reserve(0)}).r0(), 0);
  for (const int flags : {1, 2, -1}) EXPECT_EQ(run_all({reserve(8, flags)}).r0(), 0);
  EXPECT_EQ(run_all({reserve(XG_EVENT_BYTES + 1)}).r0(), 0);
  EXPECT_EQ(run_all({reserve(-1)}).r0(), 0);
  const auto discarded = run_all({reserve(8), leave_record(false), output(ring())});
  EXPECT_EQ(discarded.r0(), 0);
  EXPECT_TRUE(discarded.answer.event);
  EXPECT_FALSE(run_all({reserve(8), leave_record(false)}).answer.event);
}

TEST(ProgramEvents, RecordsAreNoOthersMemory) {
  const auto astray = [](const std::vector<Code>& parts, ProgramFault fault = ProgramFault::out_of_bounds) {
    const auto run = run_all(parts);
    EXPECT_EQ(run.answer.fault, fault);
    EXPECT_FALSE(run.answer.event) << "it was not submitted";
  };
  astray({reserve(8), Code{store_k(BPF_W, r0, 5, 1)}});
  astray({reserve(8), Code{load(BPF_B, r2, r0, 8)}});
  astray({reserve(8), Code{load(BPF_B, r2, r0, -1)}});
  astray({reserve(0), Code{load(BPF_B, r2, r0, 0)}});
  astray({reserve(8), Code{move(r9, r0)}, leave_record(false, r9), Code{load(BPF_B, r2, r9, 0)}});
  astray({reserve(8), Code{move(r9, r0)}, leave_record(false, r9), leave_record(true, r9)});
  astray({reserve(8), Code{alu_k(BPF_ADD, r0, 1)}, leave_record(true)});
  astray({leave_record(true, r10)});
  astray({Code{move_k(r0, 0)}, leave_record(false)});
  for (const u32 other : {0u, 2u}) astray({reserve(8, 0, other)}, ProgramFault::wrong_map);
  // A function that is ended with it.
  astray({reserve(8), Code{store_k(BPF_W, r0, 0, 1), move_k(r0, 1)}}, ProgramFault::none);
}

// Nobody looks up or changes what is in them.
TEST(ProgramEvents, TheirMapsHaveNoValues) {
  for (const u32 number : {0u, 1u})
    for (const int helper : {BPF_FUNC_map_lookup_elem, BPF_FUNC_map_update_elem, BPF_FUNC_map_delete_elem,
                             BPF_FUNC_redirect_map}) {
      DeviceTwins twins(kMaps);
      const u32 program = twins.add([&] {
        Assembly a;
        a(store_k(BPF_DW, r10, -8, 0), map(r1, number), move(r2, r10), alu_k(BPF_ADD, r2, -8), move(r3, r2),
          move_k(r4, 0), call(helper), leave());
        return a.code();
      }());
      EXPECT_EQ(twins.run(program, packet_of(60)), "") << helper;
      EXPECT_EQ(twins.answer().fault, ProgramFault::wrong_map) << helper;
    }
}

// Their bytes count as steps, as other helpers' do.
TEST(ProgramEvents, TakeSteps) {
  DeviceTwins twins(kMaps);
  Code code{move(r6, r1)};
  const Code put = output(perf(kOwn, 80));
  code.insert(code.end(), put.begin(), put.end());
  code.push_back(leave());
  const u32 program = twins.add(code);
  for (u64 most = 1; most < 40; ++most) {
    auto packet = packet_of(100);
    packet.most_steps = most;
    EXPECT_EQ(twins.run(program, packet), "") << most;
    // The call itself; and its bytes are behind it.
    EXPECT_EQ(twins.answer().event.has_value(), most >= 8) << most;
    EXPECT_EQ(twins.answer().fault == ProgramFault::none, most >= 19) << most;
  }
}

TEST(ProgramEvents, WhoPutsOneOutIsKnown) {
  const auto of = [](const Code& code) { return output_of(program_of(code)); };
  EXPECT_FALSE(of({call(BPF_FUNC_ktime_get_ns), leave()}));
  EXPECT_EQ(of({move_k(r0, 1), call(BPF_FUNC_perf_event_output), leave()})->instruction, 1u);
  EXPECT_EQ(of({call(BPF_FUNC_ringbuf_output), leave()})->what, "calls bpf_ringbuf_output");
  EXPECT_EQ(of({call(BPF_FUNC_ringbuf_reserve), leave()})->what, "calls bpf_ringbuf_reserve");
  // A function of that number is none.
  Assembly a;
  a(move_k(r0, 1)).call_function("own")(leave());
  for (int i = 0; i < 24; ++i) a(move_k(r0, 1));
  a.label("own")(leave());
  EXPECT_FALSE(of(a.code()));
  Program tailed = program_of({leave()});
  tailed.tails.push_back({"tail", {call(BPF_FUNC_ringbuf_output), leave()}});
  EXPECT_TRUE(output_of(tailed));
}

}  // namespace
}  // namespace xdpgpu::gpu::programs
