// SPDX-License-Identifier: MIT
#include "userspace/dataplane/metrics.hpp"

#include <algorithm>
#include <numeric>

namespace xdpgpu::dataplane {
namespace {

// The value of which `per_mille` of the counted ones are not larger (nearest rank).
template <class Floor>
u64 percentile(std::span<const u64> buckets, u64 count, u64 per_mille, u64 most, Floor&& floor) noexcept {
  const u64 rank = count / 1000 * per_mille + (count % 1000 * per_mille + 999) / 1000;
  u64 passed = 0;
  for (u32 i = 0; i < buckets.size(); ++i) {
    passed += buckets[i];
    if (passed < rank || !buckets[i]) continue;
    if (i + 1 == buckets.size()) return most;
    return std::min(most, (floor(i) + floor(i + 1) - 1) / 2);
  }
  return most;
}

template <class Floor>
Durations summary(std::span<const u64> buckets, u64 sum_ns, u64 most_ns, Floor&& floor) noexcept {
  Durations out;
  out.count = std::accumulate(buckets.begin(), buckets.end(), u64{0});
  if (!out.count) return out;
  out.mean_ns = sum_ns / out.count;
  out.p50_ns = percentile(buckets, out.count, 500, most_ns, floor);
  out.p99_ns = percentile(buckets, out.count, 990, most_ns, floor);
  out.p99_9_ns = percentile(buckets, out.count, 999, most_ns, floor);
  out.most_ns = most_ns;
  out.sum_ns = sum_ns;
  return out;
}

}  // namespace

Durations latency_of(const xg_queue_metrics& metrics) noexcept {
  return summary(metrics.latency_ns, metrics.latency_ns_sum, metrics.latency_ns_most, xg_latency_floor);
}

Durations device_time_of(const xg_queue_metrics& metrics) noexcept {
  return summary(metrics.device_ns_log2, metrics.device_ns_sum, metrics.device_ns_most, xg_log2_floor);
}

std::array<u64, XG_DEVICE_BUCKETS> latency_log2(const xg_queue_metrics& metrics) noexcept {
  std::array<u64, XG_DEVICE_BUCKETS> log2{};
  for (u32 i = 0; i < XG_LATENCY_BUCKETS; ++i)
    log2[xg_log2_bucket(xg_latency_floor(i), XG_DEVICE_BUCKETS)] += metrics.latency_ns[i];
  return log2;
}

void add_histograms(xg_queue_metrics& sum, const xg_queue_metrics& other) noexcept {
  const auto add = [](auto& to, const auto& from) {
    for (std::size_t i = 0; i < std::size(to); ++i) to[i] += from[i];
  };
  sum.batches += other.batches;
  sum.batch_packets += other.batch_packets;
  sum.device_ns_sum += other.device_ns_sum;
  sum.device_ns_most = std::max(sum.device_ns_most, other.device_ns_most);
  sum.latency_ns_sum += other.latency_ns_sum;
  sum.latency_ns_most = std::max(sum.latency_ns_most, other.latency_ns_most);
  add(sum.batch_log2, other.batch_log2);
  add(sum.device_ns_log2, other.device_ns_log2);
  add(sum.latency_ns, other.latency_ns);
}

}  // namespace xdpgpu::dataplane
