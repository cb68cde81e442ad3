// SPDX-License-Identifier: MIT
//
// A queue's metrics in words and as JSON.
#include "userspace/control/metrics.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace xdpgpu::control {
namespace {

using testing::HasSubstr;
using testing::Not;

QueueReport served(const xg_queue_metrics& metrics) {
  QueueReport queue;
  queue.service.emplace().metrics = metrics_report(metrics);
  return queue;
}

TEST(ControlMetrics, TimesHaveTheUnitThatFits) {
  EXPECT_EQ(time_text(0), "0 ns");
  EXPECT_EQ(time_text(999), "999 ns");
  EXPECT_EQ(time_text(1'000), "1.0 us");
  EXPECT_EQ(time_text(12'345), "12.3 us");
  EXPECT_EQ(time_text(999'949), "999.9 us");
  EXPECT_EQ(time_text(999'951), "1.0 ms");
  EXPECT_EQ(time_text(5'000'000'000), "5.0 s");
}

TEST(ControlMetrics, AQuietQueueHasRingsAndNothingElse) {
  xg_queue_metrics metrics{};
  metrics.ring_size = 2048;
  metrics.send_ring_size = 4096;
  metrics.fill = {2048, 2048};
  metrics.fill_least = 2000;
  EXPECT_EQ(metrics_text(served(metrics)),
            "    rings of 2048, now/most: RX 0/0, fill 2048/2048 (least 2000); rings of 4096: TX 0/0, "
            "completion 0/0, reinjection 0/0\n");
}

TEST(ControlMetrics, ABusyQueueTellsItsTimesAndLosses) {
  xg_queue_metrics metrics{};
  metrics.rx = {3, 700};
  metrics.reinject_tx = {1, 64};
  metrics.batches = 2;
  metrics.batch_packets = 1000;
  metrics.batch_log2[9] = 2;
  metrics.device_ns_log2[xg_log2_bucket(5000, XG_DEVICE_BUCKETS)] = 2;
  metrics.device_ns_most = 6000;
  metrics.latency_ns[xg_latency_bucket(20'000)] = 999;
  metrics.latency_ns[xg_latency_bucket(3'000'000)] = 1;
  metrics.latency_ns_most = 3'000'000;
  metrics.latency_ns_sum = 999 * 20'000 + 3'000'000;
  metrics.kernel_rx_ring_full = 4;
  metrics.reinject_refused = 6;
  QueueReport queue = served(metrics);
  queue.counters.dropped = 500;
  queue.counters.lost_in_kernel = 4;
  queue.counters.error_refused = 6;
  const std::string text = metrics_text(queue);
  EXPECT_THAT(text, HasSubstr("RX 3/700"));
  EXPECT_THAT(text, HasSubstr("reinjection 1/64"));
  EXPECT_THAT(text, HasSubstr("latency: p50 19."));
  EXPECT_THAT(text, HasSubstr("at most 3.0 ms"));
  EXPECT_THAT(text, HasSubstr("2 of 500.0 packets"));
  EXPECT_THAT(text, HasSubstr("drops: 500 dropped by a pipeline, 4 lost between redirect and RX ring, "
                              "6 refused by the kernel behind user space\n"));
  EXPECT_THAT(text, Not(HasSubstr("device's failure")));
  const Json json = as_json(queue).at("metrics");
  EXPECT_EQ(json.at("latency_ns").at("count"), 1000);
  EXPECT_EQ(json.at("latency_ns").at("max"), 3'000'000);
  EXPECT_EQ(json.at("latency_ns").at("mean"), 22'980);
  EXPECT_EQ(json.at("device_time_ns").at("log2").size(), std::size_t{XG_DEVICE_BUCKETS});
  EXPECT_EQ(json.at("batches").at("log2").at(9), 2);
  EXPECT_EQ(json.at("kernel_losses").at("rx_ring_full"), 4);
  EXPECT_EQ(json.at("kernel_losses").at("reinject_refused"), 6);
}

TEST(ControlMetrics, EachLossOfTheTableIsToldUnderItsName) {
  xg_queue_metrics metrics{};
  u64 number = 0;
#define XG_X(name, unit, outcome, words, member) metrics.member = ++number;
  XG_QUEUE_LOSSES(XG_X)
#undef XG_X
  const Json losses = as_json(metrics_report(metrics).kernel_losses);
  EXPECT_EQ(losses.size(), number);
  number = 0;
#define XG_X(name, ...) EXPECT_EQ(losses.at(#name), ++number);
  XG_QUEUE_LOSSES(XG_X)
#undef XG_X
}

}  // namespace
}  // namespace xdpgpu::control
