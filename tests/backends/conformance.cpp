// SPDX-License-Identifier: MIT
//
// Every stage on every device, byte for byte what the sequential reference says, however the stream is cut
// into batches.
#include <fmt/format.h>

#include <set>

#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

// What reaches the stages of a case.
Traffic traffic_for(const std::string& name, Random& random, u32 packets, u32 pipelines) {
  if (name == "inner") return packets_in_tunnels(random, packets, pipelines);
  return name == "decapsulate" ? tunnels(random, packets, pipelines)
                               : random_traffic(random, packets, pipelines);
}

constexpr u32 kCapacity = 8192 + 64;
constexpr std::array<u32, 5> kCuts{1, 7, 64, 1024, 8192};

class Conformance : public testing::TestWithParam<std::tuple<Target, std::string>> {
 protected:
  // Judges the traffic in every cut.
  void check(Traffic traffic, const std::vector<gpu::PipelineSettings>& settings) {
    const Target& target = std::get<0>(GetParam());
    const auto pipelines = gpu::Pipelines::compile(settings);
    ASSERT_TRUE(pipelines) << pipelines.error();
    const auto should = expected(traffic, settings);
    const std::vector<u8> before(traffic.region.bytes().begin(), traffic.region.bytes().end());

    XDPGPU_OPEN_OR_SKIP(target, traffic.region.base(), traffic.region.size());
    ASSERT_TRUE(device->load(kGeneration, *pipelines));
    auto queue = device->open_queue(target.queue(kCapacity, 4));
    ASSERT_TRUE(queue) << queue.error();
    for (u32 batch : kCuts) {
      SCOPED_TRACE(fmt::format("{}, batches of {}, XDPGPU_TEST_SEED={}", device->info().description, batch,
                               test_seed()));
      expect_equal(judge(**queue, traffic.descriptors, batch, kGeneration), should, traffic.descriptors);
      if (HasFailure()) return;
    }
    EXPECT_TRUE(std::equal(before.begin(), before.end(), traffic.region.bytes().begin()))
        << "the device changed the frames";
  }
};

TEST_P(Conformance, RandomPackets) {
  Random random(test_seed());
  const auto settings = policy_case(std::get<1>(GetParam()), random);
  check(traffic_for(std::get<1>(GetParam()), random, 10000, static_cast<u32>(settings.size())), settings);
}

TEST_P(Conformance, CapturedPackets) {
  Random random(test_seed());
  const auto settings = policy_case(std::get<1>(GetParam()), random);
  const char* directory = std::getenv("XDPGPU_TEST_CAPTURES");
  check(captured_traffic(directory != nullptr ? directory : XDPGPU_TEST_CAPTURES,
                         static_cast<u32>(settings.size())),
        settings);
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance,
                         testing::Combine(testing::ValuesIn(all_targets()),
                                          testing::ValuesIn(policy_cases())),
                         [](const auto& test) {
                           return std::get<0>(test.param).name() + "_" + std::get<1>(test.param);
                         });

// The comparison is worth something only if the traffic reaches what it is meant to reach.
class Variety : public testing::TestWithParam<std::string> {};

TEST_P(Variety, TrafficMeetsTheStages) {
  SCOPED_TRACE(fmt::format("XDPGPU_TEST_SEED={}", test_seed()));
  Random random(test_seed());
  const auto settings = policy_case(GetParam(), random);
  // Fewer of their packets are sent on, or meet a rule of their own.
  const u32 packets = GetParam() == "forward" || GetParam() == "acl_flags" ? 15'000 : 10'000;
  const Traffic traffic = traffic_for(GetParam(), random, packets, static_cast<u32>(settings.size()));
  std::set<u32> verdicts;
  u32 aborted = 0;
  u32 cached = 0;
  u32 rewritten = 0;
  u32 swapped = 0;
  u32 ttls = 0;
  u32 encapsulated = 0;
  u32 too_long = 0;
  u32 decapsulated = 0;
  u32 congested = 0;
  for (const Answer& result : expected(traffic, settings)) {
    verdicts.insert(result.verdict);
    aborted += XG_VERDICT_ACTION(result.verdict) == XG_ABORTED ? 1 : 0;
    cached += (result.flags & XG_RES_CACHE) != 0 ? 1 : 0;
    rewritten += (result.edit.sets & XG_EDIT_DST_MAC) != 0 ? 1 : 0;
    swapped += (result.flags & XG_RES_SWAP_MACS) != 0 ? 1 : 0;
    ttls += (result.edit.sets & XG_EDIT_TTL) != 0 ? 1 : 0;
    encapsulated += result.adjust.pushed != 0 ? 1 : 0;
    decapsulated += result.adjust.popped != 0 ? 1 : 0;
    congested += (result.edit.sets & XG_EDIT_CE) != 0 ? 1 : 0;
    too_long += (result.flags & XG_RES_TOO_LONG) != 0 ? 1 : 0;
  }
  EXPECT_GT(aborted, 300u);
  EXPECT_LT(aborted, 3000u);
  const std::string& name = GetParam();
  if (name == "l2fwd" || name == "acl_edges") {
    EXPECT_GT(cached, 500u);
    EXPECT_LT(cached, 9000u);
  }
  if (name == "load_balance" || name == "maglev") {
    EXPECT_GT(rewritten, 5000u);
  }
  if (name == "l2fwd") {
    EXPECT_GT(swapped, 5000u);
  }
  const std::map<std::string, std::size_t> at_least{
      {"acl_edges", 9},    {"acl_flags", 150},     {"acl_overlapping", 100},
      {"acl_random", 40},  {"acl_thousands", 300}, {"load_balance", 10},
      {"l2fwd", 4},        {"composed", 8},        {"reputation", 15},
      {"forward", 14},     {"maglev", 10},         {"encapsulated", 12},
      {"decapsulate", 12}, {"inner", 25}};
  EXPECT_GE(verdicts.size(), at_least.at(name));
  if (name == "encapsulated") {
    EXPECT_GT(encapsulated, 2000u);
    EXPECT_GT(too_long, 50u);
    EXPECT_TRUE(verdicts.contains(XG_VERDICT(XG_DROP, 0u, 1u, gpu::balance_rule::kMalformed)));
  }
  if (name == "decapsulate") {
    EXPECT_GT(decapsulated, 1000u);
    EXPECT_GT(congested, 100u);
    for (u32 rule : {gpu::decapsulate_rule::kMalformed, gpu::decapsulate_rule::kCongested})
      EXPECT_TRUE(verdicts.contains(XG_VERDICT(XG_DROP, 0u, 1u, rule))) << rule;
  }
  if (name != "forward") return;
  EXPECT_GT(ttls, 1500u);
  EXPECT_GT(cached, 300u);
  for (u32 rule = gpu::forward_rule::kInvalid; rule <= gpu::forward_rule::kChecksum; rule++)
    EXPECT_TRUE(verdicts.contains(XG_VERDICT(XG_PASS, 0u, 1u, rule))) << std::hex << rule;
}

INSTANTIATE_TEST_SUITE_P(Backends, Variety, testing::ValuesIn(policy_cases()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace xdpgpu::tests
