// SPDX-License-Identifier: MIT
//
// userspace/dataplane/metrics.hpp: how long packets and batches take: what a worker counts into the map
// `queue_metrics`, and what a reader makes of it.
#pragma once

#include <algorithm>
#include <array>
#include <span>

#include "maps/metrics.h"
#include "userspace/dataplane/batcher.hpp"

namespace xdpgpu::dataplane {

// Counts packets whose latencies go evenly from `longest_ns` down to `shortest_ns`.
inline void count_latencies(xg_queue_metrics& metrics, u32 packets, u64 longest_ns,
                            u64 shortest_ns) noexcept {
  metrics.latency_ns_sum += packets * (longest_ns + shortest_ns) / 2;
  metrics.latency_ns_most = std::max(metrics.latency_ns_most, longest_ns);
  const u32 last = xg_latency_bucket(shortest_ns);
  u32 counted = 0;
  // The i-th packet's latency is that of the first less i / (packets - 1) of the whole way.
  for (u32 bucket = xg_latency_bucket(longest_ns); bucket > last && counted < packets; --bucket) {
    const u64 way = longest_ns - shortest_ns;
    const u64 down_to = (longest_ns - xg_latency_floor(bucket)) * (packets - 1) / way;
    const u32 so_far = std::min(packets, static_cast<u32>(down_to) + 1);
    metrics.latency_ns[bucket] += so_far - counted;
    counted = so_far;
  }
  metrics.latency_ns[last] += packets - counted;
}

// Counts a batch that was seen to be over at `done_ns`: batch size and device time at the port of its
// first packet, each packet's latency at its own; what the host sent counts nowhere. by_port[p] is there for
// every port that has a packet in the batch. For the worker that owns the records; no allocation, no system
// call.
inline void count_batch(const Batch& batch, u64 done_ns,
                        std::span<xg_queue_metrics* const> by_port) noexcept {
  const u32 packets = batch.packets();
  if (!packets) return;
  xg_queue_metrics& first = *by_port[batch.arrivals[0].port];
  const u64 device_ns = done_ns > batch.submitted_ns ? done_ns - batch.submitted_ns : 0;
  ++first.batches;
  first.batch_packets += packets;
  first.device_ns_sum += device_ns;
  first.device_ns_most = std::max(first.device_ns_most, device_ns);
  ++first.batch_log2[xg_log2_bucket(packets, XG_BATCH_BUCKETS)];
  ++first.device_ns_log2[xg_log2_bucket(device_ns, XG_DEVICE_BUCKETS)];
  for (u32 i = 0; i < batch.arrivals_count; ++i) {
    const Arrivals& run = batch.arrivals[i];
    const u64 longest = done_ns > run.first_ns ? done_ns - run.first_ns : 0;
    const u64 shortest = done_ns > run.last_ns ? done_ns - run.last_ns : 0;
    count_latencies(*by_port[run.port], run.packets, longest, shortest);
  }
}

// Of a histogram. A percentile is the middle of the bucket that it falls in, at most `most`: latencies are
// within 7 % of the true one, device times within a half.
struct Durations {
  u64 count = 0;
  u64 mean_ns = 0, p50_ns = 0, p99_ns = 0, p99_9_ns = 0;
  u64 most_ns = 0;
  u64 sum_ns = 0;
};
Durations latency_of(const xg_queue_metrics& metrics) noexcept;
Durations device_time_of(const xg_queue_metrics& metrics) noexcept;
// Latencies in the buckets of device times, for those who want few. No packet changes its side of a bound.
std::array<u64, XG_DEVICE_BUCKETS> latency_log2(const xg_queue_metrics& metrics) noexcept;

// Adds counts and histograms of `other`, and keeps the larger of each `most`. Levels and frames stay.
void add_histograms(xg_queue_metrics& sum, const xg_queue_metrics& other) noexcept;

}  // namespace xdpgpu::dataplane
