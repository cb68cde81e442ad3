// SPDX-License-Identifier: MIT
//
// The histograms: every value in its bucket, percentiles against the sorted samples, and a batch counted
// where it belongs.
#include "userspace/dataplane/metrics.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <tuple>

namespace xdpgpu::dataplane {
namespace {

TEST(LatencyBuckets, FollowEachOtherWithoutAGapAndAreNarrow) {
  for (u32 bucket = 0; bucket < XG_LATENCY_BUCKETS; ++bucket) {
    const u64 first = xg_latency_floor(bucket), next = xg_latency_floor(bucket + 1);
    ASSERT_LT(first, next);
    EXPECT_EQ(xg_latency_bucket(first), bucket);
    EXPECT_EQ(xg_latency_bucket(next - 1), bucket);
    EXPECT_LE(next - first, std::max<u64>(1, first / 8)) << "bucket " << bucket;
  }
  EXPECT_EQ(xg_latency_floor(XG_LATENCY_BUCKETS), u64{1} << 36);
  EXPECT_EQ(xg_latency_bucket(u64{1} << 36), XG_LATENCY_BUCKETS - 1);
  EXPECT_EQ(xg_latency_bucket(~u64{0}), XG_LATENCY_BUCKETS - 1);
}

TEST(Log2Buckets, AreDoublings) {
  EXPECT_EQ(xg_log2_bucket(0, 16), 0u);
  EXPECT_EQ(xg_log2_bucket(1, 16), 1u);
  EXPECT_EQ(xg_log2_bucket(2, 16), 2u);
  EXPECT_EQ(xg_log2_bucket(3, 16), 2u);
  EXPECT_EQ(xg_log2_bucket(16383, XG_BATCH_BUCKETS), 14u);
  EXPECT_EQ(xg_log2_bucket(16384, XG_BATCH_BUCKETS), 15u);
  EXPECT_EQ(xg_log2_bucket(~u64{0}, XG_BATCH_BUCKETS), 15u);
  for (u32 bucket = 1; bucket < XG_DEVICE_BUCKETS; ++bucket)
    EXPECT_EQ(xg_log2_bucket(xg_log2_floor(bucket), XG_DEVICE_BUCKETS), bucket);
}

// A batch without a device's slot: what is counted needs none.
struct Counted {
  std::vector<xg_queue_metrics> records;
  std::vector<xg_queue_metrics*> by_port;
  explicit Counted(u32 ports) : records(ports) {
    for (auto& record : records) by_port.push_back(&record);
  }
  void batch(u64 submitted_ns, u64 done_ns, const std::vector<std::pair<u8, u64>>& packets, u32 later = 0) {
    Batch batch;
    batch.submitted_ns = submitted_ns;
    batch.count = static_cast<u32>(packets.size());
    batch.later = later;
    batch.arrivals.resize(packets.size());
    for (const auto& [port, rx_ns] : packets) {
      batch.ports.push_back(port);
      if (Batch::is_received(port)) batch.arrived({1, port, rx_ns, rx_ns});
    }
    count_batch(batch, done_ns, by_port);
  }
};

// Those of one bucket are counted together; the last one has no upper end.
TEST(Latencies, EachStandsInItsBucket) {
  constexpr u64 kDone = u64{1} << 40;
  const std::vector<u64> latencies{5, 5, 6,  1000, 1001, 7, kDone - 1, kDone - 2, 9, u64{1} << 36,
                                   9, 0, 70, 0,    0};
  Counted counted(1);
  std::vector<std::pair<u8, u64>> packets;
  std::vector<u64> expected(XG_LATENCY_BUCKETS);
  u64 sum = 0;
  for (const u64 latency : latencies) {
    packets.emplace_back(0, kDone - latency);
    ++expected[xg_latency_bucket(latency)];
    sum += latency;
  }
  counted.batch(kDone, kDone, packets);
  for (u32 i = 0; i < XG_LATENCY_BUCKETS; ++i) EXPECT_EQ(counted.records[0].latency_ns[i], expected[i]) << i;
  EXPECT_EQ(counted.records[0].latency_ns_sum, sum);
  EXPECT_EQ(counted.records[0].latency_ns_most, kDone - 1);
}

u64 nearest_rank(const std::vector<u64>& sorted, double q) {
  const auto rank = static_cast<std::size_t>(std::ceil(q * static_cast<double>(sorted.size())));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

struct Shape {
  const char* name;
  std::function<double(std::mt19937_64&)> draw;
};
class Percentiles : public testing::TestWithParam<Shape> {};

TEST_P(Percentiles, AreThoseOfTheSortedSamples) {
  for (const u32 count : {1u, 2u, 10u, 999u, 1000u, 1001u, 50'000u}) {
    std::mt19937_64 random(count);
    Counted counted(1);
    std::vector<u64> samples;
    for (u32 i = 0; i < count; ++i) {
      const auto ns = static_cast<u64>(std::clamp(GetParam().draw(random), 0.0, 6e10));
      samples.push_back(ns);
      counted.batch(100'000'000'000 - ns, 100'000'000'000, {{0, 100'000'000'000 - ns}});
    }
    std::sort(samples.begin(), samples.end());
    const Durations latency = latency_of(counted.records[0]);
    const auto near = [&](u64 got, double q, double tolerance) {
      const auto want = static_cast<double>(nearest_rank(samples, q));
      EXPECT_NEAR(static_cast<double>(got), want, std::max(1.0, want * tolerance))
          << "at " << q << " of " << count;
    };
    EXPECT_EQ(latency.count, count);
    near(latency.p50_ns, 0.5, 0.07);
    near(latency.p99_ns, 0.99, 0.07);
    near(latency.p99_9_ns, 0.999, 0.07);
    EXPECT_EQ(latency.most_ns, samples.back());
    EXPECT_EQ(latency.mean_ns, std::accumulate(samples.begin(), samples.end(), u64{0}) / count);
    const Durations device = device_time_of(counted.records[0]);
    near(device.p50_ns, 0.5, 0.5);
    near(device.p99_9_ns, 0.999, 0.5);
    EXPECT_EQ(device.most_ns, samples.back());
    EXPECT_EQ(device.count, count);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Percentiles,
    testing::Values(
        Shape{"uniform", [](auto& random) { return std::uniform_real_distribution<>(0, 1e6)(random); }},
        Shape{"exponential", [](auto& random) { return std::exponential_distribution<>(1e-4)(random); }},
        Shape{"lognormal", [](auto& random) { return std::lognormal_distribution<>(11, 2)(random); }},
        Shape{"two_peaks", [](auto& random) { return random() % 500 ? 12'345.0 : 7'654'321.0; }},
        Shape{"tiny", [](auto& random) { return static_cast<double>(random() % 20); }}),
    [](const auto& shape) { return shape.param.name; });

TEST(Durations, OfNothingAreNothing) {
  const xg_queue_metrics none{};
  EXPECT_EQ(latency_of(none).count, 0u);
  EXPECT_EQ(latency_of(none).p99_9_ns, 0u);
}

TEST(CountBatch, ABatchIsItsFirstPacketsPortsAndAPacketItsOwn) {
  Counted counted(3);
  counted.batch(1000, 1400, {{2, 900}, {0, 800}, {2, 1300}});
  const auto& [first, second, third] = std::tie(counted.records[0], counted.records[1], counted.records[2]);
  EXPECT_EQ(first.batches, 0u);
  EXPECT_EQ(second.batches, 0u);
  EXPECT_EQ(third.batches, 1u);
  EXPECT_EQ(third.batch_packets, 3u);
  EXPECT_EQ(third.batch_log2[xg_log2_bucket(3, XG_BATCH_BUCKETS)], 1u);
  EXPECT_EQ(third.device_ns_sum, 400u);
  EXPECT_EQ(third.device_ns_most, 400u);
  EXPECT_EQ(third.device_ns_log2[9], 1u);
  EXPECT_EQ(first.latency_ns[xg_latency_bucket(600)], 1u);
  EXPECT_EQ(third.latency_ns[xg_latency_bucket(500)], 1u);
  EXPECT_EQ(third.latency_ns[xg_latency_bucket(100)], 1u);
  EXPECT_EQ(first.latency_ns_most, 600u);
  EXPECT_EQ(third.latency_ns_most, 500u);
  EXPECT_EQ(third.latency_ns_sum, 600u);
  EXPECT_EQ(latency_of(second).count, 0u);
}

TEST(CountBatch, APacketOfSeveralBuffersIsOne) {
  Counted counted(2);
  constexpr u8 kLater = Batch::kLaterBuffer;
  counted.batch(1000, 1400, {{1, 900}, {kLater, 0}, {kLater, 0}, {1, 800}, {0, 1300}, {kLater, 0}}, 3);
  EXPECT_EQ(counted.records[1].batch_packets, 3u);
  EXPECT_EQ(counted.records[1].batch_log2[xg_log2_bucket(3, XG_BATCH_BUCKETS)], 1u);
  EXPECT_EQ(latency_of(counted.records[1]).count, 2u);
  EXPECT_EQ(counted.records[1].latency_ns_sum, 1100u);
  EXPECT_EQ(counted.records[1].latency_ns_most, 600u);
  EXPECT_EQ(latency_of(counted.records[0]).count, 1u);
  EXPECT_EQ(counted.records[0].latency_ns_sum, 100u);
}

TEST(CountBatch, WhatTheHostSentCountsNowhere) {
  Counted counted(2);
  constexpr u8 kSent = Batch::kEgress;
  counted.batch(1000, 1400, {{kSent, 0}, {kSent | 1, 0}}, 2);
  for (const auto& record : counted.records) {
    EXPECT_EQ(record.batches, 0u);
    EXPECT_EQ(latency_of(record).count, 0u);
  }
  counted.batch(1000, 1400, {{kSent, 0}, {1, 900}, {kSent, 0}, {1, 800}, {kSent | 1, 0}}, 3);
  EXPECT_EQ(counted.records[0].batches, 0u);
  EXPECT_EQ(counted.records[1].batches, 1u);
  EXPECT_EQ(counted.records[1].batch_packets, 2u);
  EXPECT_EQ(latency_of(counted.records[1]).count, 2u);
  EXPECT_EQ(counted.records[1].latency_ns_sum, 1100u);
}

// As if each had been counted at its own time.
TEST(CountBatch, ThoseBetweenTheEndsOfARunCountAsEvenlyBetween) {
  std::mt19937_64 random(11);
  for (u32 i = 0; i < 2000; ++i) {
    const u32 packets = 1 + static_cast<u32>(random() % 300);
    const u64 shortest = random() % (u64{1} << random() % 40);
    const u64 longest = packets == 1 ? shortest : shortest + random() % (u64{1} << random() % 40);
    std::vector<u64> expected(XG_LATENCY_BUCKETS);
    for (u32 p = 0; p < packets; ++p) {
      const u64 way = packets > 1 ? (longest - shortest) * p : 0, gaps = std::max(packets - 1, 1u);
      ++expected[xg_latency_bucket(longest - (way + gaps - 1) / gaps)];
    }
    xg_queue_metrics metrics{};
    count_latencies(metrics, packets, longest, shortest);
    for (u32 b = 0; b < XG_LATENCY_BUCKETS; ++b)
      ASSERT_EQ(metrics.latency_ns[b], expected[b])
          << packets << " from " << longest << " to " << shortest << ", " << b;
    ASSERT_EQ(metrics.latency_ns_most, longest);
    ASSERT_EQ(metrics.latency_ns_sum, packets * (longest + shortest) / 2);
  }
}

TEST(CountBatch, AClockThatSeemsToRunBackwardsCountsAsNoTime) {
  Counted counted(1);
  counted.batch(1000, 900, {{0, 950}});
  EXPECT_EQ(counted.records[0].latency_ns[0], 1u);
  EXPECT_EQ(counted.records[0].device_ns_log2[0], 1u);
  EXPECT_EQ(counted.records[0].latency_ns_most, 0u);
}

TEST(AddHistograms, IsAsIfOneHadCountedAll) {
  Counted apart(2), together(1);
  std::mt19937_64 random(7);
  for (u32 i = 0; i < 1000; ++i) {
    const u64 rx = random() % 1'000'000, submitted = rx + random() % 1000,
              done = submitted + random() % 100'000;
    apart.batch(submitted, done, {{static_cast<u8>(i % 2), rx}});
    together.batch(submitted, done, {{0, rx}});
  }
  xg_queue_metrics sum{};
  for (const auto& record : apart.records) add_histograms(sum, record);
  EXPECT_EQ(std::memcmp(&sum, &together.records[0], sizeof(sum)), 0);
}

}  // namespace
}  // namespace xdpgpu::dataplane
