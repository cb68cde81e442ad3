// SPDX-License-Identifier: MIT
//
// What programs put out for their packets, on every device: records, answers and what becomes of the packets
// are what the sequential definition says.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "gpu/program_counts.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"
#include "tests/backends/translating.hpp"
#include "tests/kernel/programs/assembler.hpp"
#include "tests/kernel/programs/twins.hpp"
#include "tests/unit/dataplane_random.hpp"

namespace xdpgpu::tests {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the assembler's words
using gpu::ProgramSettings;
using gpu::programs::Program;
using gpu::programs::Taking;

enum class Maps { none, counted, in_order };

ProgramSettings settings_of(Code code, std::vector<Map> maps) {
  ProgramSettings settings;
  settings.object = "here";
  settings.steps = 512;
  settings.program = std::make_shared<const Program>(
      Program{.name = "test", .instructions = std::move(code), .maps = std::move(maps), .license = "GPL"});
  return settings;
}

// R7 is the packet, R8 its end, R6 the context; a packet of less than `bytes` goes to "short".
void begin(Assembly& a, int bytes) {
  a(move(r6, r1), load(BPF_W, r7, r1, 0), load(BPF_W, r8, r1, 4), move(r2, r7), alu_k(BPF_ADD, r2, bytes));
  a.to("short", jump(BPF_JGT, r2, r8));
}

// Two outputs, each by four of the packet's bytes from `at` on:
//
//   0   bit 0 by a ring; bits 1 and 2 how much of the packet is asked for: nothing, 20 bytes, as much as byte
//       3 says four times, or more than there can be; bits 3 and 4 the index: its own, 0, 2, or 9
//   1   bits 0 to 1 from where: the packet, the stack, a map's value, or nowhere
//   2   bytes, modulo 160; or 128 and one more
//   3   flags of a ring; bytes that are asked for
//
// of_stack: always from there.
void put_out(Assembly& a, int at, const std::string& name, bool of_stack) {
  a(load(BPF_B, r3, r7, at + 2), alu_k(BPF_MOD, r3, 160), move(r9, r3));
  if (of_stack) a(move(r4, r10), alu_k(BPF_SUB, r4, 200)).to(name + "there", always());
  a(load(BPF_B, r2, r7, at + 1), alu_k(BPF_AND, r2, 3), move(r4, r7), alu_k(BPF_ADD, r4, at));
  a.to(name + "there", jump_k(BPF_JEQ, r2, 0));
  a(move(r4, r10), alu_k(BPF_SUB, r4, 200));
  a.to(name + "there", jump_k(BPF_JEQ, r2, 1));
  a(map_value(r4, 2, 1));
  a.to(name + "there", jump_k(BPF_JEQ, r2, 2));
  a(load(BPF_B, r4, r7, at + 3), alu_k(BPF_AND, r4, 1));
  // Two in three are somewhere.
  a.to(name + "there", jump_k(BPF_JEQ, r4, 0));
  a(move(r4, r10), alu_k(BPF_SUB, r4, 8));
  a.label(name + "there")(load(BPF_B, r2, r7, at), move(r5, r2), alu_k(BPF_AND, r5, 1));
  a.to(name + "ring", jump_k(BPF_JNE, r5, 0));
  // What is asked for.
  a(move(r5, r2), alu_k(BPF_RSH, r5, 1), alu_k(BPF_AND, r5, 3), move_k(r3, 0));
  a.to(name + "asked", jump_k(BPF_JEQ, r5, 0));
  a(move_k(r3, 20));
  a.to(name + "asked", jump_k(BPF_JEQ, r5, 1));
  a(load(BPF_B, r3, r7, at + 3), alu_k(BPF_MUL, r3, 4));
  a.to(name + "asked", jump_k(BPF_JEQ, r5, 2));
  a(move_k(r3, 0x100000));
  a.label(name + "asked")(alu_k(BPF_LSH, r3, 32), move(r5, r2), alu_k(BPF_RSH, r5, 3), alu_k(BPF_AND, r5, 3));
  a(number(r1, 0xffffffff));
  a.to(name + "index", jump_k(BPF_JEQ, r5, 0));
  a(move_k(r1, 0));
  a.to(name + "index", jump_k(BPF_JEQ, r5, 1));
  a(move_k(r1, 2));
  a.to(name + "index", jump_k(BPF_JEQ, r5, 2));
  a(move_k(r1, 9));
  a.label(name + "index")(alu(BPF_OR, r3, r1), move(r1, r6), map(r2, 0), move(r5, r9),
                          call(BPF_FUNC_perf_event_output));
  a.to(name + "done", always());
  a.label(name + "ring")(move(r2, r4), move(r3, r9), load(BPF_B, r4, r7, at + 3), alu_k(BPF_AND, r4, 7),
                         map(r1, 1), call(BPF_FUNC_ringbuf_output));
  a.label(name + "done");
}

// The first answer stands in the packet's first bytes, the second behind it, where they are changed, as the
// packet's last-but-one byte says; its last one says what becomes of it.
ProgramSettings putting_out(Maps maps, bool changes) {
  Assembly a;
  begin(a, 40);
  std::vector<Map> all{map_of("perf", BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, 8),
                       map_of("ring", BPF_MAP_TYPE_RINGBUF, 0, 0, 4096),
                       map_of("values", BPF_MAP_TYPE_ARRAY, 4, 130, 1, BPF_F_RDONLY_PROG)};
  for (u8 i = 0; i < 130; i++) all[2].contents.push_back(static_cast<u8>(i ^ 0x5a));
  for (int i = 1; i <= 25; i++) a(store_k(BPF_DW, r10, -8 * i, i * 0x01020304));
  if (maps != Maps::none) {
    all.push_back(map_of("counts", BPF_MAP_TYPE_ARRAY, 4, 8, 1));
    a(map_value(r1, 3, 0), move_k(r2, 1));
    if (maps == Maps::counted)
      a(atomically(BPF_DW, BPF_ADD, r1, 0, r2));
    else
      a(atomically(BPF_DW, BPF_ADD | BPF_FETCH, r1, 0, r2), store(BPF_DW, r10, -40, r2));
  }
  // Where each comes from is known of those whose packets go side by side.
  const bool of_stack = maps == Maps::counted;
  put_out(a, 26, "first", of_stack);
  a(store(BPF_DW, r10, -8, r0));
  put_out(a, 30, "second", of_stack);
  a(store(BPF_DW, r10, -16, r0));
  if (changes) {
    a(load(BPF_B, r2, r7, 35), alu_k(BPF_AND, r2, 1));
    a.to("kept", jump_k(BPF_JEQ, r2, 0));
    a(load(BPF_DW, r2, r10, -8), store(BPF_DW, r7, 0, r2), load(BPF_DW, r2, r10, -16),
      store(BPF_DW, r7, 8, r2));
    // And longer for another one, with what was changed: it is no event any more.
    put_out(a, 0, "third", of_stack);
  }
  a.label("kept")(load(BPF_B, r0, r7, 34), alu_k(BPF_AND, r0, 7));
  a.to("astray", jump_k(BPF_JEQ, r0, 5));
  a(leave());
  a.label("astray")(load(BPF_DW, r0, r8, 0), leave());
  a.label("short")(move_k(r0, XDP_DROP), leave());
  return settings_of(a.code(), all);
}

// Records of 8, 56 or 112 bytes, two at most, each by two of the packet's bytes from `at` on: whether it is
// submitted, and how long it is; how it is written to. What the program answers hangs on what it got.
void reserve(Assembly& a, int at, const std::string& name) {
  a(load(BPF_B, r2, r7, at), alu_k(BPF_AND, r2, 3), alu_k(BPF_MUL, r2, 56));
  a.to(name + "size", jump_k(BPF_JNE, r2, 0));
  a(move_k(r2, 8));
  a.label(name + "size")(map(r1, 1), move_k(r3, 0), move(r9, r2), call(BPF_FUNC_ringbuf_reserve));
  a.to(name + "none", jump_k(BPF_JEQ, r0, 0));
  a(load(BPF_DW, r2, r7, at), load(BPF_B, r3, r7, at + 1), store(BPF_DW, r0, 0, r2), store(BPF_B, r0, 6, r3),
    load(BPF_W, r4, r0, 3), move(r5, r0), alu(BPF_ADD, r5, r9), store(BPF_H, r5, -2, r4));
  a(load(BPF_B, r2, r7, at), alu_k(BPF_AND, r2, 12), move(r1, r0));
  a.to(name + "submits", jump_k(BPF_JNE, r2, 0));
  a(move_k(r2, 0), call(BPF_FUNC_ringbuf_discard)).to(name + "none", always());
  a.label(name + "submits")(move_k(r2, 0), call(BPF_FUNC_ringbuf_submit));
  a.label(name + "none");
}
ProgramSettings reserving(Maps maps, bool changes) {
  Assembly a;
  begin(a, 40);
  std::vector<Map> all{map_of("perf", BPF_MAP_TYPE_PERF_EVENT_ARRAY, 4, 4, 8),
                       map_of("ring", BPF_MAP_TYPE_RINGBUF, 0, 0, 4096),
                       map_of("counts", BPF_MAP_TYPE_ARRAY, 4, 8, 1)};
  if (maps != Maps::none) {
    a(map_value(r1, 2, 0), move_k(r2, 1));
    if (maps == Maps::counted)
      a(atomically(BPF_DW, BPF_ADD, r1, 0, r2));
    else
      a(atomically(BPF_DW, BPF_ADD | BPF_FETCH, r1, 0, r2), store(BPF_DW, r10, -40, r2));
  }
  reserve(a, 26, "first");
  reserve(a, 28, "second");
  if (changes) a(store_k(BPF_W, r7, 4, 7));
  a(load(BPF_B, r0, r7, 34), alu_k(BPF_AND, r0, 3));
  a.to("with perf", jump_k(BPF_JEQ, r0, 1));
  a(leave());
  a.label("with perf");
  a(move(r1, r6), map(r2, 0), number(r3, 0xffffffff), move(r4, r7), move_k(r5, 20),
    call(BPF_FUNC_perf_event_output), move_k(r0, XDP_PASS), leave());
  a.label("short")(move_k(r0, XDP_DROP), leave());
  return settings_of(a.code(), all);
}

class ProgramEvents : public testing::TestWithParam<Target> {
 protected:
  // As the reference judges them.
  void expect_judged(const std::vector<gpu::PipelineSettings>& settings, std::initializer_list<u32> batches,
                     u32 least_empty = 1) const {
    dataplane::Random random(static_cast<u32>(test_seed()));
    Random chance(test_seed());
    u32 events = 0, dropped = 0, long_ones = 0, asked = 0, empty = 0;
    std::map<u32, u32> by_map;
    for (const u32 batch : batches) {
      Traffic traffic = random_traffic(chance, 600, static_cast<u32>(settings.size()));
      // Most are neither fragments nor of IP; whatever they are, the program reads these bytes.
      for (const xg_descriptor& descriptor : traffic.descriptors) {
        const u64 end = traffic.region.size();
        if (descriptor.length < 40 || descriptor.length > end || descriptor.offset > end - descriptor.length)
          continue;
        u8* const bytes = traffic.region.base() + descriptor.offset;
        for (u32 at = 26; at < 36; at++) bytes[at] = static_cast<u8>(random());
        // Of the first output some are of no byte, and some of as many as there is room for.
        if (const u32 size = random() % 8; size < 2) bytes[28] = size == 0 ? u8{0} : u8{XG_EVENT_BYTES};
      }
      const auto should = expected(traffic, settings);
      for (const Answer& one : should) {
        if ((one.flags & XG_RES_EVENT) == 0) continue;
        events++;
        dropped += XG_VERDICT_ACTION(one.verdict) == XG_DROP;
        long_ones += one.event.length > 100;
        empty += one.event.length == 0;
        asked += one.event.asked != 0;
        by_map[one.event.map]++;
      }
      XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
      SCOPED_TRACE(fmt::format("{}, batches of {}, XDPGPU_TEST_SEED={}", device->info().description, batch,
                               test_seed()));
      const auto compiled = gpu::Pipelines::compile(settings);
      ASSERT_TRUE(compiled) << compiled.error();
      const auto loaded = device->load(kGeneration, *compiled);
      ASSERT_TRUE(loaded) << loaded.error();
      auto queue = device->open_queue(GetParam().queue(1024, 4));
      ASSERT_TRUE(queue) << queue.error();
      expect_equal(judge(**queue, traffic.descriptors, batch, kGeneration), should, traffic.descriptors);
      if (testing::Test::HasFailure()) return;
    }
    EXPECT_GT(events, 50u);
    EXPECT_GT(dropped, 10u);
    EXPECT_GT(long_ones, 0u);
    EXPECT_GE(empty, least_empty);
    EXPECT_GE(asked, least_empty * 5);
    EXPECT_GT(by_map[0], 10u);
    EXPECT_GT(by_map[1], 10u);
  }
};

TEST_P(ProgramEvents, AreThoseOfTheDefinition) {
  std::vector<gpu::PipelineSettings> settings;
  for (const auto& [maps, how] : {std::pair(Maps::none, Taking::side_by_side),
                                  {Maps::counted, Taking::counting},
                                  {Maps::in_order, Taking::in_order}}) {
    const ProgramSettings keeps = putting_out(maps, false);
    const auto taken = gpu::programs::how_taken(*keeps.program);
    ASSERT_EQ(taken.how, how) << taken.why;
    settings.push_back({"keeps", {keeps}});
    // A store to the packet may be one to a map, where nobody has followed it.
    settings.push_back({"changes", {putting_out(maps, true)}});
  }
  expect_judged(settings, {7u, 600u});
}

TEST_P(ProgramEvents, RecordsAreThoseOfTheDefinition) {
  std::vector<gpu::PipelineSettings> settings;
  for (const auto& [maps, how] :
       {std::pair(Maps::counted, Taking::counting), {Maps::in_order, Taking::in_order}}) {
    const ProgramSettings keeps = reserving(maps, false);
    const auto taken = gpu::programs::how_taken(*keeps.program);
    ASSERT_EQ(taken.how, how) << taken.why;
    settings.push_back({"keeps", {keeps}});
    settings.push_back({"changes", {reserving(maps, true)}});
  }
  settings.push_back({"no counts", {reserving(Maps::none, false)}});
  expect_judged(settings, {600u}, 0);
}

// Programs are run for packets that never come to them, too.
TEST_P(ProgramEvents, OnlyOfPacketsThatComeToTheirProgram) {
  Random random(test_seed());
  gpu::RateLimitSettings limit;
  limit.packets_per_second = 5;
  limit.burst_packets = 3;
  limit.table.entries = 64;
  Assembly passes;
  passes(move_k(r0, XDP_PASS), leave());
  const ProgramSettings other = settings_of(passes.code(), {});
  expect_judged({{"behind an acl", {mostly_next(random), putting_out(Maps::none, false)}},
                 {"in front", {putting_out(Maps::none, false), gpu::AclSettings{}}},
                 {"behind a table", {limit, putting_out(Maps::none, true)}},
                 {"behind another", {other, putting_out(Maps::counted, false), other}},
                 {"in order", {limit, putting_out(Maps::in_order, false), other}},
                 {"none", {other, limit}}},
                {64u});
}

INSTANTIATE_TEST_SUITE_P(Backends, ProgramEvents, testing::ValuesIn(all_targets()), target_name);

// As programs run where CUDA devices are attached.
INSTANTIATE_TEST_SUITE_P(Translated, ProgramEvents, testing::ValuesIn(translated_targets()), target_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(ProgramEvents);

TEST(ProgramStage, OneOfAPipelinePutsEventsOut) {
  const auto why = [](std::vector<gpu::StageSettings> stages) {
    const auto compiled = gpu::Pipelines::compile({{"p", std::move(stages)}});
    return compiled ? std::string() : compiled.error();
  };
  const ProgramSettings puts = putting_out(Maps::none, false);
  gpu::RateLimitSettings limit;
  limit.packets_per_second = 5;
  limit.burst_packets = 3;
  EXPECT_EQ(why({puts, gpu::AclSettings{}}), "");
  EXPECT_EQ(why({limit, puts}), "");
  EXPECT_NE(why({puts, gpu::AclSettings{}, puts})
                .find("its program puts events out, and so does that of stage 1: one of a pipeline can"),
            std::string::npos)
      << why({puts, puts});
  EXPECT_NE(why({puts, limit})
                .find("and stage 2 (rate_limit) behind it has a table, and would lose the "
                      "event: put it behind that one"),
            std::string::npos)
      << why({puts, limit});
}

}  // namespace
}  // namespace xdpgpu::tests
