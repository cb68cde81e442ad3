// SPDX-License-Identifier: MIT
//
// Each helper by itself, with its errors and its limits, in the kernel and in the reference.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "tests/kernel/programs/twins.hpp"
#include "tests/unit/dataplane_random.hpp"

namespace xdpgpu::test {
namespace {

using dataplane::Random;

const Map kResults = map_of("results", BPF_MAP_TYPE_ARRAY, 4, 64, 1);

void put(Bytes& bytes, std::size_t at, u64 value, std::size_t count = 8) {
  for (std::size_t i = 0; i < count; ++i) bytes.at(at + i) = static_cast<u8>(value >> 8 * i);
}

Bytes random_bytes(std::size_t count, u32 seed) {
  Random random(seed);
  Bytes bytes(count);
  for (u8& byte : bytes) byte = static_cast<u8>(random());
  return bytes;
}

// The context in R6, and R7 where the packet has `bytes` at least; XDP_DROP where it has not.
void begin(Assembly& a, int bytes) {
  a(move(r6, r1), load(BPF_W, r7, r6, 0), load(BPF_W, r3, r6, 4), move(r4, r7), alu_k(BPF_ADD, r4, bytes));
  a.to("short", jump(BPF_JGT, r4, r3));
}
void end(Assembly& a) {
  a(move_k(r0, XDP_PASS), leave());
  a.label("short")(move_k(r0, XDP_DROP), leave());
}
// R0 becomes the n-th result. R1 is not kept.
Code note(int n) {
  Code code = map_value(r1, 0, static_cast<u32>(8 * n));
  code.push_back(store(BPF_DW, r1, 0, r0));
  return code;
}

class HelpersTest : public ProgramTest {};

// Calls three of the helpers, each by what the packet's first three numbers of 32 bits say.
Code adjusting(const std::array<int, 3>& helpers) {
  Assembly a;
  begin(a, 14);
  a(load(BPF_W, r8, r7, 4), load(BPF_W, r9, r7, 8), load(BPF_W, r7, r7, 0));
  const u8 amounts[]{r7, r8, r9};
  for (int i = 0; i < 3; ++i) {
    if (helpers[static_cast<std::size_t>(i)] == 0) continue;
    a(move(r1, r6), move(r2, amounts[i]), call(helpers[static_cast<std::size_t>(i)]), note(i));
  }
  end(a);
  return a.code();
}

Bytes packet_of(std::size_t size, std::array<std::int32_t, 3> amounts) {
  Bytes packet = random_bytes(size, static_cast<u32>(size));
  for (std::size_t i = 0; i < 3; ++i) put(packet, 4 * i, static_cast<u32>(amounts[i]), 4);
  return packet;
}

struct Adjusting {
  std::string name;
  std::array<int, 3> helpers;
  bool has_metadata() const { return std::ranges::count(helpers, int{BPF_FUNC_xdp_adjust_meta}) != 0; }
};
void PrintTo(const Adjusting& a, std::ostream* out) { *out << a.name; }
class AdjustTest : public HelpersTest, public testing::WithParamInterface<Adjusting> {};

TEST_P(AdjustTest, ByEveryAmount) {
  if (GetParam().has_metadata() && !lab::kernel_at_least(6, 6))
    GTEST_SKIP() << "before Linux 6.6 metadata is 32 bytes at most";
  Twins twins({kResults});
  const auto program = twins.add(adjusting(GetParam().helpers));
  ASSERT_TRUE(program) << twins.refusal();
  for (std::size_t size : {14u, 15u, 60u, 300u, 1514u, 3520u})
    for (std::int32_t by = -300; by <= 1700; ++by)
      ASSERT_EQ(twins.run(*program, {.bytes = packet_of(size, {by, 0, 0})}), "")
          << size << " bytes by " << by;
  for (std::int32_t by :
       {-0x7fffffff - 1, -0x7fffffff, -3600, -3506, -3507, -1500, 2000, 3506, 3507, 3520, 0x7fffffff})
    for (std::size_t size : {14u, 60u, 3519u, 3520u})
      ASSERT_EQ(twins.run(*program, {.bytes = packet_of(size, {by, 0, 0})}), "")
          << size << " bytes by " << by;
}

TEST_P(AdjustTest, OneAfterTheOther) {
  if (!lab::kernel_at_least(6, 6)) GTEST_SKIP() << "before Linux 6.6 metadata is 32 bytes at most";
  Twins twins({kResults});
  const auto program = twins.add(adjusting(GetParam().helpers));
  ASSERT_TRUE(program) << twins.refusal();
  Random random(5);
  const auto amount = [&](int most) {
    const auto by = static_cast<std::int32_t>(random() % static_cast<u32>(2 * most + 1)) - most;
    return random() % 2 == 0 ? by : by / 4 * 4;
  };
  for (int run = 0; run < 4000; ++run) {
    const std::array<std::int32_t, 3> amounts{amount(run % 2 == 0 ? 40 : 260), amount(60), amount(260)};
    const std::size_t metadata = random() % 3 == 0 ? random() % 55 * 4 : 0;
    ProgramPacket packet{.bytes = packet_of(14 + random() % 400, amounts),
                         .metadata = random_bytes(metadata, 3)};
    ASSERT_EQ(twins.run(*program, packet), "")
        << metadata << " of metadata, by " << amounts[0] << ", " << amounts[1] << ", " << amounts[2];
  }
}

constexpr int kHead = BPF_FUNC_xdp_adjust_head, kMeta = BPF_FUNC_xdp_adjust_meta,
              kTail = BPF_FUNC_xdp_adjust_tail;
const Adjusting kAdjusting[]{{"head", {kHead, 0, 0}},
                             {"meta", {kMeta, 0, 0}},
                             {"tail", {kTail, 0, 0}},
                             {"head_head", {kHead, kHead, 0}},
                             {"meta_meta", {kMeta, kMeta, 0}},
                             {"tail_tail", {kTail, kTail, kTail}},
                             {"head_meta", {kHead, kMeta, kHead}},
                             {"meta_head", {kMeta, kHead, kMeta}},
                             {"all", {kMeta, kTail, kHead}}};
INSTANTIATE_TEST_SUITE_P(Amounts, AdjustTest, testing::ValuesIn(kAdjusting),
                         [](const testing::TestParamInfo<Adjusting>& one) { return one.param.name; });

// Of two buffers in a map's value, as long as two of the packet's bytes say, with a seed from it.
TEST_F(HelpersTest, CsumDiff) {
  Twins twins({kResults, map_of("buffers", BPF_MAP_TYPE_ARRAY, 4, 512, 1)});
  Assembly a;
  begin(a, 14);
  a(load(BPF_B, r2, r7, 0), load(BPF_B, r4, r7, 1), load(BPF_W, r5, r7, 4));
  a(map_value(r1, 1, 0), map_value(r3, 1, 256), call(BPF_FUNC_csum_diff));
  // Before Linux 6.13 the result is not folded.
  for (int i = 0; i < 2; ++i)
    a(move(r1, r0), alu_k(BPF_RSH, r1, 16), alu_k(BPF_AND, r0, 0xffff), alu(BPF_ADD, r0, r1));
  a(note(0));
  end(a);
  const auto program = twins.add(a.code());
  ASSERT_TRUE(program) << twins.refusal();
  Random random(7);
  for (int run = 0; run < 3000; ++run) {
    Bytes buffers = random_bytes(512, random()), packet = random_bytes(60, 1);
    // Ones and zeros are where ones' complement has two names for nothing.
    if (run % 4 == 0) std::ranges::fill(buffers, u8{0xff});
    if (run % 8 == 1) std::ranges::fill(buffers, u8{0});
    if (run % 4 == 2) std::copy_n(buffers.begin(), 256, buffers.begin() + 256);
    ASSERT_TRUE(twins.update(1, bytes_of(u32{0}), buffers));
    u32 from = random() % 256, to = run % 3 == 0 ? from : random() % 256;
    if (!lab::kernel_at_least(6, 13)) from &= ~3u, to &= ~3u;
    put(packet, 0, run % 5 == 0 ? 0 : from, 1);
    put(packet, 1, run % 7 == 0 ? 0 : to, 1);
    const u32 seeds[]{0, random(), 0xffffffff, 0xffff0000, 0xffff};
    put(packet, 4, seeds[random() % 5], 4);
    ASSERT_EQ(twins.run(*program, {.bytes = packet}), "") << from << " and " << to << " bytes";
  }
}

// Where it goes is compared with the words of the kernel's bpf_xdp_redirect and __bpf_xdp_redirect_map.
TEST_F(HelpersTest, Redirect) {
  Twins twins({});
  Assembly a;
  begin(a, 16);
  a(load(BPF_W, r1, r7, 0), load(BPF_DW, r2, r7, 8), call(BPF_FUNC_redirect), leave());
  a.label("short")(move_k(r0, XDP_DROP), leave());
  const auto program = twins.add(a.code());
  ASSERT_TRUE(program) << twins.refusal();
  for (u64 flags : {0ull, 1ull, 8ull, 0x100000000ull}) {
    Bytes packet(60);
    put(packet, 0, 7, 4);
    put(packet, 8, flags);
    ASSERT_EQ(twins.run(*program, {.bytes = packet}), "");
    EXPECT_EQ(twins.answer().action, flags == 0 ? XDP_REDIRECT : XDP_ABORTED);
    ASSERT_EQ(twins.answer().redirect.has_value(), flags == 0);
    if (flags == 0) {
      EXPECT_EQ(twins.answer().redirect->ifindex, 7u);
    }
  }
}

TEST_F(HelpersTest, RedirectMap) {
  for (u32 type : {BPF_MAP_TYPE_DEVMAP, BPF_MAP_TYPE_DEVMAP_HASH})
    for (u32 value_bytes : {4u, 8u}) {
      Twins twins({map_of("ports", type, 4, value_bytes, 8)});
      Assembly a;
      begin(a, 32);
      a(map(r1, 0), load(BPF_DW, r2, r7, 0), load(BPF_DW, r3, r7, 8), call(BPF_FUNC_redirect_map), leave());
      a.label("short")(move_k(r0, XDP_DROP), leave());
      const auto program = twins.add(a.code());
      ASSERT_TRUE(program) << twins.refusal();
      Bytes loopback = bytes_of(u64{1});
      loopback.resize(value_bytes);
      ASSERT_TRUE(twins.update(0, bytes_of(u32{3}), loopback));
      for (u64 key : {0ull, 3ull, 7ull, 8ull, 0x100000003ull})
        for (u64 flags :
             {0ull, 1ull, 2ull, 3ull, 4ull, 8ull, 11ull, 16ull, 24ull, 27ull, 32ull, 0x100000000ull}) {
          Bytes packet(60);
          put(packet, 0, key);
          put(packet, 8, flags);
          ASSERT_EQ(twins.run(*program, {.bytes = packet}), "") << "key " << key << " flags " << flags;
          const bool known = (flags & ~27ull) == 0, found = static_cast<u32>(key) == 3;
          const bool broadcast = known && (flags & BPF_F_BROADCAST) != 0;
          ASSERT_EQ(twins.answer().action == XDP_REDIRECT, known && (found || broadcast));
          if (twins.answer().action != XDP_REDIRECT) continue;
          const auto& target = twins.answer().redirect;
          ASSERT_TRUE(target);
          EXPECT_EQ(target->map, 0u);
          EXPECT_EQ(target->key, static_cast<u32>(key));
          EXPECT_EQ(target->ifindex, broadcast ? 0u : 1u);
          EXPECT_EQ(target->flags, broadcast ? flags & 24 : 0);
        }
    }
}

// Where the map has something it is another processor's, or a socket's: here there are no sockets.
TEST_F(HelpersTest, RedirectMapToProcessorsAndSockets) {
  for (const u32 type : {BPF_MAP_TYPE_CPUMAP, BPF_MAP_TYPE_XSKMAP})
    for (const u32 value_bytes : {4u, 8u}) {
      if (type == BPF_MAP_TYPE_XSKMAP && value_bytes == 8) continue;
      Twins twins({map_of("others", type, 4, value_bytes, 2)});
      Assembly a;
      begin(a, 32);
      a(map(r1, 0), load(BPF_DW, r2, r7, 0), load(BPF_DW, r3, r7, 8), call(BPF_FUNC_redirect_map), leave());
      a.label("short")(move_k(r0, XDP_DROP), leave());
      const auto program = twins.add(a.code());
      ASSERT_TRUE(program) << twins.refusal();
      Bytes room = bytes_of(u64{192});
      room.resize(value_bytes);
      if (type == BPF_MAP_TYPE_CPUMAP) {
        ASSERT_TRUE(twins.update(0, bytes_of(u32{0}), room));
        EXPECT_TRUE(twins.update(0, bytes_of(u32{2}), room)) << "there is no such entry";
      }
      for (const u64 key : {0ull, 1ull, 2ull, 0x100000000ull})
        for (const u64 flags : {0ull, 1ull, 2ull, 3ull, 4ull, 8ull, 16ull, 27ull, 0x100000000ull}) {
          Bytes packet(60);
          put(packet, 0, key);
          put(packet, 8, flags);
          ASSERT_EQ(twins.run(*program, {.bytes = packet}), "") << "key " << key << " flags " << flags;
          const bool found = type == BPF_MAP_TYPE_CPUMAP && static_cast<u32>(key) == 0 && flags < 4;
          ASSERT_EQ(twins.answer().action, found ? u32{XDP_REDIRECT} : flags < 4 ? flags : 0);
        }
    }
  // What is looked up there is nothing.
  Twins twins({map_of("sockets", BPF_MAP_TYPE_XSKMAP, 4, 4, 2)});
  Assembly a;
  a(store_k(BPF_W, r10, -4, 1), map(r1, 0), move(r2, r10), alu_k(BPF_ADD, r2, -4),
    call(BPF_FUNC_map_lookup_elem));
  a.to("none", jump_k(BPF_JEQ, r0, 0));
  a(move_k(r0, XDP_DROP), leave());
  a.label("none")(move_k(r0, XDP_PASS), leave());
  const auto program = twins.add(a.code());
  ASSERT_TRUE(program) << twins.refusal();
  EXPECT_EQ(twins.run(*program, {.bytes = Bytes(60)}), "");
  EXPECT_EQ(twins.answer().action, u32{XDP_PASS});
}

// The last one that found something decides. One that finds nothing leaves the number of that as an
// interface's.
TEST_F(HelpersTest, RedirectsAreOfTheLastCall) {
  Twins twins({map_of("ports", BPF_MAP_TYPE_DEVMAP, 4, 4, 8)});
  const auto program_of = [&](u32 second, std::optional<u32> first = std::nullopt) {
    Assembly a;
    if (first)
      a(map(r1, 0), move_k(r2, static_cast<std::int32_t>(*first)), move_k(r3, 0),
        call(BPF_FUNC_redirect_map));
    else
      a(move_k(r1, 5), move_k(r2, 0), call(BPF_FUNC_redirect));
    a(map(r1, 0), move_k(r2, static_cast<std::int32_t>(second)), move_k(r3, 0), call(BPF_FUNC_redirect_map));
    a(move_k(r0, XDP_REDIRECT), leave());
    return twins.add(a.code());
  };
  ASSERT_TRUE(twins.update(0, bytes_of(u32{3}), bytes_of(u32{1})));
  const auto finds = program_of(3), finds_nothing = program_of(4), of_an_entry = program_of(4, 3);
  ASSERT_TRUE(finds && finds_nothing && of_an_entry) << twins.refusal();
  ASSERT_EQ(twins.run(*finds, {.bytes = Bytes(60)}), "");
  EXPECT_EQ(twins.answer().redirect->ifindex, 1u);
  ASSERT_EQ(twins.run(*finds_nothing, {.bytes = Bytes(60)}), "");
  ASSERT_TRUE(twins.answer().redirect.has_value());
  EXPECT_FALSE(twins.answer().redirect->map.has_value());
  EXPECT_EQ(twins.answer().redirect->ifindex, 5u);
  ASSERT_EQ(twins.run(*of_an_entry, {.bytes = Bytes(60)}), "");
  ASSERT_TRUE(twins.answer().redirect.has_value());
  EXPECT_FALSE(twins.answer().redirect->map.has_value());
  EXPECT_EQ(twins.answer().redirect->ifindex, 3u);
}

TEST_F(HelpersTest, TimeRandomAndProcessorAreThePackets) {
  Twins twins({kResults});
  Assembly a;
  int n = 0;
  for (int helper : {BPF_FUNC_ktime_get_ns, BPF_FUNC_get_prandom_u32, BPF_FUNC_get_smp_processor_id,
                     BPF_FUNC_ktime_get_ns})
    a(call(helper), note(n++));
  a(move_k(r0, XDP_TX), leave());
  const auto program = twins.add(a.code());
  ASSERT_TRUE(program) << twins.refusal();
  ASSERT_EQ(twins.run(*program,
                      {.bytes = Bytes(60), .queue = 0, .time_ns = 0x123456789abcdef0, .random = 0xfedcba98}),
            "");
  EXPECT_EQ(twins.answer().action, XDP_TX);
}

TEST_F(HelpersTest, TheContext) {
  Twins twins({kResults});
  Assembly a;
  begin(a, 14);
  a(load(BPF_W, r0, r6, 0), load(BPF_W, r2, r6, 4), alu(BPF_SUB, r2, r0), move(r0, r2), note(0));
  a(load(BPF_W, r0, r6, 0), load(BPF_W, r2, r6, 8), alu(BPF_SUB, r0, r2), note(1));
  a(load(BPF_W, r0, r6, 12), note(2), load(BPF_W, r0, r6, 16), note(3));
  end(a);
  const auto program = twins.add(a.code());
  ASSERT_TRUE(program) << twins.refusal();
  for (std::size_t metadata : {0u, 4u, 16u, lab::kernel_at_least(6, 6) ? 216u : 32u})
    ASSERT_EQ(twins.run(*program, {.bytes = Bytes(77), .metadata = Bytes(metadata, 3), .ingress_ifindex = 1}),
              "");
}

// Any number is an action to those who ask for it.
TEST_F(HelpersTest, UnknownActions) {
  Twins twins({});
  for (std::int32_t action : {0, 1, 2, 3, 4, 5, 77, -1}) {
    const auto program = twins.add({move_k(r0, action), leave()});
    ASSERT_TRUE(program) << twins.refusal();
    ASSERT_EQ(twins.run(*program, {.bytes = Bytes(60)}), "");
    EXPECT_EQ(twins.answer().action, static_cast<u32>(action));
  }
}

}  // namespace
}  // namespace xdpgpu::test
