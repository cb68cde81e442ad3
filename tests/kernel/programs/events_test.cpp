// SPDX-License-Identifier: MIT
//
// What programs put out, in the kernel and in the reference: what they are answered for all flags, sizes and
// processors, of what a packet has room for.
#include <fmt/format.h>

#include "tests/kernel/programs/twins.hpp"
#include "tests/unit/dataplane_random.hpp"

namespace xdpgpu::test {
namespace {

const Map kResults = map_of("results", BPF_MAP_TYPE_ARRAY, 4, 64, 1);
const Map kRing = map_of("ring", BPF_MAP_TYPE_RINGBUF, 0, 0, 1 << 20);

void put(Bytes& bytes, std::size_t at, u64 value) {
  for (std::size_t i = 0; i < 8; ++i) bytes.at(at + i) = static_cast<u8>(value >> 8 * i);
}

class EventsTest : public ProgramTest {};

// So many of the stack's bytes as byte 16 says, with the flags in the first eight; R0 is noted.
Code putting_out(bool of_ring) {
  Assembly a;
  a(move(r6, r1), load(BPF_W, r7, r6, 0), load(BPF_W, r3, r6, 4), move(r4, r7), alu_k(BPF_ADD, r4, 24));
  a.to("short", jump(BPF_JGT, r4, r3));
  for (int i = 1; i <= 14; ++i) a(store_k(BPF_DW, r10, -8 * i, i * 0x01010101));
  a(load(BPF_B, r8, r7, 16), load(BPF_DW, r9, r7, 0));
  a.to("short", jump_k(BPF_JGT, r8, XG_EVENT_BYTES));
  if (of_ring)
    a(map(r1, 1), move(r2, r10), alu_k(BPF_ADD, r2, -112), move(r3, r8), move(r4, r9),
      call(BPF_FUNC_ringbuf_output));
  else
    a(move(r1, r6), map(r2, 1), move(r3, r9), move(r4, r10), alu_k(BPF_ADD, r4, -112), move(r5, r8),
      call(BPF_FUNC_perf_event_output));
  a(map_value(r1, 0, 0), store(BPF_DW, r1, 0, r0), move_k(r0, XDP_PASS), leave());
  a.label("short")(move_k(r0, XDP_DROP), leave());
  return a.code();
}

Bytes packet_of(std::size_t size, u64 flags, u8 bytes) {
  Bytes packet(size, 0x5a);
  put(packet, 0, flags);
  packet.at(16) = bytes;
  return packet;
}

TEST_F(EventsTest, OfPerfAreAnsweredAsInTheKernel) {
  const u32 processors = Twins::processors();
  Twins twins({kResults, map_of("perf", BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, processors)});
  const auto program = twins.add(putting_out(false));
  ASSERT_TRUE(program) << twins.refusal();
  constexpr u64 kOwn = BPF_F_CURRENT_CPU;
  for (u32 queue = 0; queue < std::min(processors, 2u); ++queue)
    for (const u64 index : {kOwn, u64{0}, u64{1}, u64{processors}, u64{0xfffffffe}})
      for (const u64 asked : {0u, 1u, 14u, 60u, 61u, 0xfffffu})
        for (const u64 beyond : {u64{0}, u64{1} << 52, u64{1} << 63})
          for (const u8 bytes : std::initializer_list<u8>{0, 1, 8, 112})
            ASSERT_EQ(twins.run(*program, {.bytes = packet_of(60, beyond | asked << 32 | index, bytes),
                                           .queue = queue}),
                      "")
                << "queue " << queue << ", index " << index << ", " << asked << " asked for, " << beyond;
  dataplane::Random random(7);
  for (int i = 0; i < 500; ++i) {
    const u64 flags = u64{random() % 4 == 0 ? random() : random() % 80} << 32 |
                      (random() % 2 == 0 ? u32{kOwn} : random() % 4);
    ASSERT_EQ(
        twins.run(*program, {.bytes = packet_of(24 + random() % 60, flags, static_cast<u8>(random() % 113))}),
        "")
        << flags;
  }
}

TEST_F(EventsTest, OfRingsAreAnsweredAsInTheKernel) {
  Twins twins({kResults, kRing});
  const auto program = twins.add(putting_out(true));
  ASSERT_TRUE(program) << twins.refusal();
  for (const u8 bytes : std::initializer_list<u8>{0, 1, 7, 8, 9, 111, 112})
    for (u32 bit = 0; bit < 64; ++bit)
      for (const u64 flags : {u64{0}, u64{1}, u64{2}, u64{3}, u64{1} << bit, u64{3} | u64{1} << bit})
        ASSERT_EQ(twins.run(*program, {.bytes = packet_of(60, flags, bytes)}), "") << flags;
}

// A record of so many bytes, the packet's from byte 24 on with a sum in its first one, as far as it has room:
// the packet's first byte says whether it is discarded, the second one with what flags, the third one the
// flags with which it is reserved. R0 and what stands in a new record are noted.
Code reserving(int bytes) {
  Assembly a;
  a(move(r6, r1), load(BPF_W, r7, r6, 0), load(BPF_W, r3, r6, 4), move(r4, r7), alu_k(BPF_ADD, r4, 136));
  a.to("short", jump(BPF_JGT, r4, r3));
  a(map(r1, 1), move_k(r2, bytes), load(BPF_B, r3, r7, 2), call(BPF_FUNC_ringbuf_reserve), move(r9, r0),
    move_k(r8, 0));
  a.to("noted", jump_k(BPF_JEQ, r9, 0));
  a(move_k(r8, 1));
  if (bytes >= 8) a(load(BPF_DW, r2, r9, bytes - 8), alu(BPF_OR, r8, r2));
  for (int i = 0; i < bytes; ++i) a(load(BPF_B, r2, r7, 24 + i), store(BPF_B, r9, i, r2));
  if (bytes >= 8) a(load(BPF_DW, r2, r9, bytes - 8), atomically(BPF_DW, BPF_ADD, r9, 0, r2));
  a(load(BPF_B, r2, r7, 1), load(BPF_B, r3, r7, 0), move(r1, r9));
  a.to("discarded", jump_k(BPF_JNE, r3, 0));
  a(call(BPF_FUNC_ringbuf_submit)).to("noted", always());
  a.label("discarded")(call(BPF_FUNC_ringbuf_discard));
  // There is room again.
  a(map(r1, 1), move_k(r2, bytes), move_k(r3, 0), call(BPF_FUNC_ringbuf_reserve));
  a.to("noted", jump_k(BPF_JEQ, r0, 0));
  a(alu_k(BPF_OR, r8, 2), move(r1, r0), move_k(r2, 0), call(BPF_FUNC_ringbuf_submit));
  a.label("noted")(map_value(r1, 0, 0), store(BPF_DW, r1, 0, r8), move_k(r0, XDP_PASS), leave());
  a.label("short")(move_k(r0, XDP_DROP), leave());
  return a.code();
}

TEST_F(EventsTest, RecordsAreTheKernels) {
  dataplane::Random random(11);
  for (const int bytes : {0, 1, 7, 8, 9, 16, 100, 111, 112}) {
    Twins twins({kResults, kRing});
    const auto program = twins.add(reserving(bytes));
    ASSERT_TRUE(program) << twins.refusal();
    for (const u8 discards : {u8{0}, u8{1}})
      for (const u8 flags : std::initializer_list<u8>{0, 1, 2, 3, 200})
        for (const u8 reserved_with : std::initializer_list<u8>{0, 1, 255}) {
          Bytes packet(140);
          for (u8& byte : packet) byte = static_cast<u8>(random());
          packet[0] = discards;
          packet[1] = flags;
          packet[2] = reserved_with;
          ASSERT_EQ(twins.run(*program, {.bytes = packet}), "") << bytes;
          const auto records = twins.put_out(1);
          const auto& event = twins.answer().event;
          ASSERT_EQ(event.has_value(), reserved_with == 0);
          ASSERT_EQ(records.size(), event ? 1u : 0u);
          if (!event) continue;
          EXPECT_EQ(event->map, 1);
          if (discards == 0)
            EXPECT_EQ(records[0], Bytes(event->bytes, event->bytes + event->length)) << bytes;
          else
            EXPECT_EQ(records[0].size(), event->length);
        }
  }
}

}  // namespace
}  // namespace xdpgpu::test
