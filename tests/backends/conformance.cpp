// SPDX-License-Identifier: MIT
//
// Every stage on every device, byte for byte what the sequential reference says, however the stream is cut
// into batches.
#include <fmt/format.h>

#include <set>

#include "tests/backends/captures.hpp"
#include "tests/backends/judge.hpp"
#include "tests/backends/policies.hpp"
#include "tests/backends/targets.hpp"

namespace xdpgpu::tests {
namespace {

constexpr u32 kCapacity = 8192 + 64;
constexpr std::array<u32, 5> kCuts{1, 7, 64, 1024, 8192};

class Conformance : public testing::TestWithParam<std::tuple<Target, ConformanceCase>> {
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
  const ConformanceCase& which = std::get<1>(GetParam());
  const auto settings = which.pipelines(random);
  check(which.traffic(random, std::min(which.packets, 10'000u), static_cast<u32>(settings.size())), settings);
}

TEST_P(Conformance, CapturedPackets) {
  Random random(test_seed());
  const auto settings = std::get<1>(GetParam()).pipelines(random);
  check(captured_traffic(captures_directory(), static_cast<u32>(settings.size())), settings);
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance,
                         testing::Combine(testing::ValuesIn(all_targets()),
                                          testing::ValuesIn(conformance_cases())),
                         [](const auto& test) {
                           return std::get<0>(test.param).name() + "_" + std::get<1>(test.param).name;
                         });

// The comparison is worth something only if the traffic reaches what it is meant to reach.
class Variety : public testing::TestWithParam<ConformanceCase> {};

TEST_P(Variety, TrafficMeetsTheStages) {
  SCOPED_TRACE(fmt::format("XDPGPU_TEST_SEED={}", test_seed()));
  Random random(test_seed());
  const ConformanceCase& which = GetParam();
  const auto settings = which.pipelines(random);
  const Traffic traffic = which.traffic(random, which.packets, static_cast<u32>(settings.size()));
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
  u32 alerts = 0;
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
    alerts += (result.flags & XG_RES_ALERTS) != 0 ? 1 : 0;
    too_long += (result.flags & XG_RES_TOO_LONG) != 0 ? 1 : 0;
  }
  EXPECT_GT(aborted, 300u);
  EXPECT_LT(aborted, 3000u);
  const Reached& least = which.reached;
  EXPECT_GE(verdicts.size(), least.verdicts);
  for (u32 verdict : least.of_these) EXPECT_TRUE(verdicts.contains(verdict)) << std::hex << verdict;
  const auto more_than = [](const char* what, u32 count, u32 wanted) {
    if (wanted != 0) {
      EXPECT_GT(count, wanted) << what;
    }
  };
  more_than("cached", cached, least.cached);
  more_than("told of", alerts, least.alerts);
  more_than("rewritten", rewritten, least.rewritten);
  more_than("swapped", swapped, least.swapped);
  more_than("another TTL", ttls, least.ttls);
  more_than("encapsulated", encapsulated, least.encapsulated);
  more_than("too long", too_long, least.too_long);
  more_than("decapsulated", decapsulated, least.decapsulated);
  more_than("congested", congested, least.congested);
  if (least.cached_below != 0) {
    EXPECT_LT(cached, least.cached_below);
  }
}

INSTANTIATE_TEST_SUITE_P(Backends, Variety, testing::ValuesIn(conformance_cases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace xdpgpu::tests
