// SPDX-License-Identifier: MIT
//
// bpf_fib_lookup by the routes of `forward`, on every device: what a program is answered is what the
// sequential definition says, and that is what the kernel's helper would give for such routes.
#include <fmt/format.h>
#include <linux/bpf.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>

#include "gpu/program_counts.hpp"
#include "gpu/reference/program.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"
#include "tests/backends/translating.hpp"
#include "tests/kernel/programs/counting.hpp"
#include "tests/kernel/programs/random.hpp"

namespace xdpgpu::tests {
namespace {

using namespace test;  // NOLINT(google-build-using-namespace): the assembler's words
using gpu::ForwardSettings;
using gpu::ProgramSettings;
using gpu::programs::Taking;

constexpr u32 kSkipsNeighbours = 4;  // BPF_FIB_LOOKUP_SKIP_NEIGH

// Where a packet has what its program asks with, and how.
constexpr int kAsksAt = 14, kFlagsAt = 78, kSizeAt = 79, kWayAt = 13;
constexpr u32 kPacketBytes = 96;
// With what is between its members: all of it is the program's stack.
std::vector<u8> route_bytes(const bpf_fib_lookup& route) {
  std::vector<u8> bytes(sizeof(route));
  std::memcpy(bytes.data(), &route, sizeof(route));
  return bytes;
}

// What is known beforehand of the program: it does nothing to maps; it counts; it looks at its counts. The
// last one gives other things than its stack, where the packet's byte kWayAt says so.
ProgramSettings asking(Taking how) {
  Assembly a;
  a(move(r6, r1), load(BPF_W, r7, r1, 0), load(BPF_W, r8, r1, 4), move(r2, r7), alu_k(BPF_ADD, r2, 96));
  a.to("short", jump(BPF_JGT, r2, r8));
  std::vector<Map> maps;
  if (how != Taking::side_by_side) {
    maps.push_back(map_of("count", BPF_MAP_TYPE_ARRAY, 4, 8, 1));
    a(store_k(BPF_W, r10, -4, 0), map(r1, 0), move(r2, r10), alu_k(BPF_ADD, r2, -4),
      call(BPF_FUNC_map_lookup_elem), move(r9, r0));
    a.to("short", jump_k(BPF_JEQ, r0, 0));
    a(move_k(r1, 1), atomically(BPF_DW, how == Taking::counting ? BPF_ADD : BPF_ADD | BPF_FETCH, r0, 0, r1));
  }
  for (int at = 0; at < 64; at += 8) a(load(BPF_DW, r1, r7, kAsksAt + at), store(BPF_DW, r10, at - 72, r1));
  a(load(BPF_B, r4, r7, kFlagsAt), load(BPF_B, r3, r7, kSizeAt), load(BPF_B, r5, r7, kWayAt), move(r1, r6),
    move(r2, r10), alu_k(BPF_ADD, r2, -72));
  if (how == Taking::in_order) {
    a.to("packet", jump_k(BPF_JEQ, r5, 1)).to("value", jump_k(BPF_JEQ, r5, 2));
    a.to("beyond", jump_k(BPF_JEQ, r5, 3)).to("odd", jump_k(BPF_JEQ, r5, 4));
    a.to("no context", jump_k(BPF_JEQ, r5, 5));
  }
  a.label("ask")(call(BPF_FUNC_fib_lookup), store(BPF_DW, r7, 0, r0));
  for (int at = 0; at < 64; at += 8) a(load(BPF_DW, r1, r10, at - 72), store(BPF_DW, r7, 8 + at, r1));
  a(move_k(r0, XDP_PASS), leave());
  a.label("short")(move_k(r0, XDP_DROP), leave());
  if (how == Taking::in_order) {
    a.label("packet")(move(r2, r7)).to("ask", always());
    a.label("value")(move(r2, r9)).to("ask", always());
    a.label("beyond")(alu_k(BPF_ADD, r2, 12)).to("ask", always());
    a.label("odd")(alu_k(BPF_ADD, r2, 2)).to("ask", always());
    a.label("no context")(move(r1, r2)).to("ask", always());
  }
  gpu::ProgramSettings settings;
  settings.object = "here";
  settings.steps = 256;
  settings.interfaces = {{.ifindex = 3, .port = 0}, {.ifindex = 5, .port = 2}, {.ifindex = 6, .port = 2}};
  settings.program = std::make_shared<const gpu::programs::Program>(gpu::programs::Program{
      .name = "asking", .instructions = a.code(), .maps = std::move(maps), .license = "GPL"});
  const auto taken = gpu::programs::how_taken(*settings.program);
  EXPECT_EQ(taken.how, how) << taken.why;
  return settings;
}

gpu::Prefix prefix6(std::initializer_list<u8> first, u8 length) {
  gpu::Prefix prefix{.family = 6, .address = {}, .length = length};
  std::copy(first.begin(), first.end(), prefix.address.begin());
  return prefix;
}

// Next hops by their number: behind port 2; behind the port that is asked for, with an unknown address of its
// own; behind a port that has no number; behind the port that is asked for, with an MTU.
ForwardSettings routes(bool with_default) {
  ForwardSettings forward;
  forward.next_hops = {{.name = "other",
                        .mac = {2, 1, 2, 3, 4, 5},
                        .own_source = true,
                        .source = {2, 9, 8, 7, 6, 5},
                        .to_port = true,
                        .target = 2},
                       {.name = "back", .mac = {2, 1, 1, 1, 1, 1}},
                       {.name = "unnumbered",
                        .mac = {2, 2, 2, 2, 2, 2},
                        .own_source = true,
                        .source = {2, 3, 3, 3, 3, 3},
                        .to_port = true,
                        .target = 9},
                       {.name = "narrow",
                        .mac = {2, 4, 4, 4, 4, 4},
                        .own_source = true,
                        .source = {2, 5, 5, 5, 5, 5},
                        .mtu = 1'400}};
  forward.routes = {{prefix4(0x0a000000, 8), 0},
                    {prefix4(0x0a010000, 16), 1},
                    {prefix4(0x0a010200, 24), gpu::kRouteDrop},
                    {prefix4(0x0a010280, 25), gpu::kRoutePass},
                    {prefix4(0x0a020000, 16), 2},
                    {prefix4(0x0a030303, 32), 3},
                    {prefix4(0x0a030303, 32), 1},
                    {prefix6({0x20, 0x01, 0x0d, 0xb8}, 32), 0},
                    {prefix6({0x20, 0x01, 0x0d, 0xb8, 0, 1}, 48), 1},
                    {prefix6({0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2}, 64), gpu::kRouteDrop},
                    {prefix6({0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2, 0x80}, 65), gpu::kRoutePass},
                    {prefix6({0x20, 0x01, 0x0d, 0xb8, 0, 2}, 48), 2},
                    {prefix6({0x20, 0x01, 0x0d, 0xb8, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3}, 128), 3},
                    {prefix6({0xfe, 0x80}, 10), 0}};
  if (with_default) {
    forward.routes.push_back({prefix4(0, 0), 3});
    forward.routes.push_back({prefix6({}, 0), 3});
  }
  return forward;
}

std::vector<std::array<u8, 16>> destinations(u8 family) {
  if (family == AF_INET)
    return {{10, 9, 9, 9}, {10, 1, 1, 1},    {10, 1, 2, 1},  {10, 1, 2, 200}, {10, 2, 0, 1},
            {10, 3, 3, 3}, {192, 168, 1, 1}, {127, 0, 0, 1}, {224, 0, 0, 1}};
  return {{0x20, 0x01, 0x0d, 0xb8, 9},
          {0x20, 0x01, 0x0d, 0xb8, 0, 1, 7},
          {0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2, 1},
          {0x20, 0x01, 0x0d, 0xb8, 0, 1, 0, 2, 0x81},
          {0x20, 0x01, 0x0d, 0xb8, 0, 2, 1},
          {0x20, 0x01, 0x0d, 0xb8, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3},
          {0x20, 0x02},
          {0xfe, 0x80, 1},
          {0xff, 2, 1},
          {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
          {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
}

struct Asked {
  bpf_fib_lookup with{};
  u8 flags = 0, size = sizeof(bpf_fib_lookup), way = 0;
};
Asked some_question(Random& random) {
  const auto one_of = [&](std::initializer_list<u32> all) {
    return all.begin()[random.below(static_cast<u32>(all.size()))];
  };
  Asked asked;
  auto* const bytes = reinterpret_cast<u8*>(&asked.with);
  for (u32 i = 0; i < sizeof(asked.with); i++) bytes[i] = static_cast<u8>(random.below(256));
  asked.with.family = static_cast<u8>(one_of({AF_INET, AF_INET, AF_INET6, AF_INET6, AF_INET6, 0, 7}));
  asked.with.tot_len = static_cast<u16>(one_of({0, 60, 1'399, 1'400, 1'401, 65'535}));
  asked.with.ifindex = one_of({3, 3, 5, 6, 6, 0, 4, 0x80000003});
  const auto there = destinations(asked.with.family);
  std::memcpy(asked.with.ipv6_dst, there[random.below(static_cast<u32>(there.size()))].data(), 16);
  if (random.below(4) == 0) std::memcpy(asked.with.ipv6_src, there[random.below(9)].data(), 16);
  asked.flags = static_cast<u8>(one_of({0, 0, 0, 1, 4, 5, 2, 8, 16, 32}));
  asked.size = static_cast<u8>(one_of({64, 64, 64, 64, 64, 63, 65, 255}));
  asked.way = static_cast<u8>(random.below(12));
  return asked;
}

Traffic questions(Random& random, u32 packets, u32 pipelines) {
  Traffic traffic{FrameRegion{u64{packets} * XG_CHUNK_SIZE}, {}};
  for (u32 i = 0; i < packets; i++) {
    const Asked asked = some_question(random);
    const u64 at = u64{i} * XG_CHUNK_SIZE + XG_FRAME_DATA + i % 4;
    xg_metadata metadata{};
    metadata.generation = kGeneration;
    metadata.pipeline = static_cast<u16>(i % pipelines);
    std::memcpy(traffic.region.base() + at - sizeof(metadata), &metadata, sizeof(metadata));
    std::memcpy(traffic.region.base() + at + kAsksAt, &asked.with, sizeof(asked.with));
    traffic.region.base()[at + kFlagsAt] = asked.flags;
    traffic.region.base()[at + kSizeAt] = asked.size;
    traffic.region.base()[at + kWayAt] = asked.way;
    traffic.descriptors.push_back({at, i % 50 == 49 ? 80 : kPacketBytes, 0});
  }
  return traffic;
}

// Each how, with the routes of its own pipeline, or those of the first one that has any.
std::vector<gpu::PipelineSettings> asking_pipelines() {
  std::vector<gpu::PipelineSettings> all{{"first", {asking(Taking::side_by_side)}}};
  for (const Taking how : {Taking::side_by_side, Taking::counting, Taking::in_order}) {
    const auto name = fmt::format("{}", all.size());
    all.push_back({name + " by another's", {asking(how)}});
    all.push_back({name + " by its own", {routes(true), asking(how)}});
  }
  all.insert(all.begin() + 1, {"routes", {routes(false)}});
  return all;
}

class ProgramsWithRoutes : public testing::TestWithParam<Target> {};

TEST_P(ProgramsWithRoutes, AreAnsweredAsTheDefinitionSays) {
  Random random(test_seed());
  const auto settings = asking_pipelines();
  const Traffic traffic = questions(random, 4'000, static_cast<u32>(settings.size()));
  const Answers should = expected(traffic, settings);
  std::map<std::int64_t, u32> answers;  // R0, which the program writes first
  std::map<u32, u32> ended;
  for (const Answer& one : should) {
    std::int64_t answer = 0;
    std::memcpy(&answer, reinterpret_cast<const u8*>(&one.patch) + offsetof(xg_patch, bytes), sizeof(answer));
    if ((one.flags & XG_RES_PATCH) != 0) answers[answer]++;
    if (XG_VERDICT_ACTION(one.verdict) == XG_DROP) ended[XG_VERDICT_RULE(one.verdict)]++;
  }
  for (const int answer : std::initializer_list<int>{
           0, BPF_FIB_LKUP_RET_BLACKHOLE, BPF_FIB_LKUP_RET_NOT_FWDED, BPF_FIB_LKUP_RET_NO_NEIGH,
           BPF_FIB_LKUP_RET_FRAG_NEEDED, -EINVAL, -ENODEV, -EAFNOSUPPORT})
    EXPECT_GT(answers[answer], 4u) << answer;
  EXPECT_EQ(answers.size(), 8u);
  EXPECT_GT(ended[2 + static_cast<u32>(gpu::ProgramEnd::out_of_bounds)], 20u);
  XDPGPU_OPEN_OR_SKIP(GetParam(), traffic.region.base(), traffic.region.size());
  SCOPED_TRACE(fmt::format("{}, XDPGPU_TEST_SEED={}", device->info().description, test_seed()));
  const auto loaded = device->load(kGeneration, gpu::Pipelines::compile(settings).value());
  ASSERT_TRUE(loaded) << loaded.error();
  auto queue = device->open_queue(GetParam().queue(1024, 2)).value();
  for (const u32 batch : {1'000u, 7u}) {
    const bool few = batch == 7;
    const std::vector<xg_descriptor> some(traffic.descriptors.begin(),
                                          few ? traffic.descriptors.begin() + 60 : traffic.descriptors.end());
    const Answers those(should.begin(), few ? should.begin() + 60 : should.end());
    expect_equal(judge(*queue, some, batch, kGeneration), those, some);
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, ProgramsWithRoutes, testing::ValuesIn(all_targets()), target_name);
INSTANTIATE_TEST_SUITE_P(Translated, ProgramsWithRoutes, testing::ValuesIn(translated_targets()),
                         target_name);

// What is answered, in so many words.
TEST(ProgramRoutes, AnswerWhatTheKernelWould) {
  using gpu::reference::ProgramRoutes;
  const auto program = *asking(Taking::side_by_side).program;
  gpu::reference::ProgramMaps maps(program.maps);
  gpu::reference::ProgramSet set(maps);
  set.add(program);
  const ProgramRoutes::NextHop there{
      .mac = {2, 1, 2, 3, 4, 5}, .source = {{2, 9, 8, 7, 6, 5}}, .ifindex = 5, .mtu = 1'500};
  const ProgramRoutes known{
      .routes = {{.family = 4, .address = {10}, .length = 8, .leads = {}, .hop = there},
                 {.family = 6, .address = {0x20}, .length = 8, .leads = {}, .hop = there}},
      .interfaces = {3, 5}};
  const auto ask = [&](const bpf_fib_lookup& asked, u8 flags, bpf_fib_lookup& answered) {
    std::vector<u8> packet(kPacketBytes);
    std::memcpy(&packet[kAsksAt], &asked, sizeof(asked));
    packet[kFlagsAt] = flags;
    packet[kSizeAt] = sizeof(asked);
    const auto answer = set.run(0, {.bytes = packet, .routes = &known});
    EXPECT_EQ(answer.fault, ProgramFault::none);
    std::memcpy(&answered, &answer.packet[8], sizeof(answered));
    std::int64_t r0 = 0;
    std::memcpy(&r0, answer.packet.data(), sizeof(r0));
    return r0;
  };
  for (const u8 family : {u8{AF_INET}, u8{AF_INET6}}) {
    SCOPED_TRACE(u32{family});
    bpf_fib_lookup asked{}, is{};
    std::memset(static_cast<void*>(&asked), 0x77, sizeof(asked));
    asked.family = family;
    asked.ifindex = 3;
    asked.tot_len = 1'500;
    const u8 destination[] = {static_cast<u8>(family == AF_INET ? 10 : 0x20), 1, 2, 3};
    std::memcpy(&asked.ipv4_dst, destination, 4);
    bpf_fib_lookup should = asked;
    should.ifindex = 5;
    should.rt_metric = 0;
    should.h_vlan_TCI = should.h_vlan_proto = 0;
    bpf_fib_lookup without = should;
    const u8 macs[] = {2, 9, 8, 7, 6, 5, 2, 1, 2, 3, 4, 5};
    std::memcpy(should.smac, macs, 6);
    std::memcpy(should.dmac, macs + 6, 6);
    EXPECT_EQ(ask(asked, 0, is), 0);
    EXPECT_EQ(route_bytes(is), route_bytes(should));
    EXPECT_EQ(ask(asked, BPF_FIB_LOOKUP_DIRECT, is), 0);
    EXPECT_EQ(route_bytes(is), route_bytes(should));
    EXPECT_EQ(ask(asked, kSkipsNeighbours, is), 0);
    EXPECT_EQ(route_bytes(is), route_bytes(without));
    EXPECT_EQ(ask(asked, BPF_FIB_LOOKUP_OUTPUT, is), -EINVAL);
    EXPECT_EQ(route_bytes(is), route_bytes(asked));
    asked.tot_len = 1'501;
    EXPECT_EQ(ask(asked, 0, is), BPF_FIB_LKUP_RET_FRAG_NEEDED);
    should = asked;
    should.tot_len = 1'500;
    EXPECT_EQ(route_bytes(is), route_bytes(should));
    asked.ifindex = 4;
    EXPECT_EQ(ask(asked, 0, is), -ENODEV);
    EXPECT_EQ(route_bytes(is), route_bytes(asked));
  }
}

TEST(ProgramRoutes, ArePartOfThePolicy) {
  const auto why = [](std::vector<gpu::PipelineSettings> settings) {
    const auto compiled = gpu::Pipelines::compile(std::move(settings));
    return compiled ? std::string() : compiled.error();
  };
  const auto program = asking(Taking::side_by_side);
  EXPECT_EQ(why({{"p", {program}}, {"q", {routes(false)}}}), "");
  EXPECT_EQ(why({{"p", {routes(false), program}}}), "");
  EXPECT_EQ(
      why({{"q", {}}, {"p", {program}}}),
      "pipeline \"p\", stage 1 (program): its program \"asking\" looks up routes, at instruction 28, and "
      "no pipeline of the policy has any: put a stage \"forward\" with them into one");
  auto unnumbered = program;
  unnumbered.interfaces.clear();
  EXPECT_EQ(
      why({{"p", {routes(false), unnumbered}}}),
      "pipeline \"p\", stage 2 (program): its program \"asking\" looks up routes, at instruction 28, and "
      "no interface has a number that a route could lead to: give \"interfaces\"");
  // Also where only a tail of it does.
  auto tails = *program.program;
  tails.tails = {{.name = "asks", .instructions = tails.instructions}};
  tails.instructions = {move_k(r0, XDP_PASS), leave()};
  auto with_tail = program;
  with_tail.program = std::make_shared<const gpu::programs::Program>(tails);
  EXPECT_NE(why({{"p", {with_tail}}}).find("its program \"asks\" looks up routes"), std::string::npos);
}

}  // namespace
}  // namespace xdpgpu::tests
