// SPDX-License-Identifier: MIT
//
// userspace/dataplane/metrics.hpp: how long packets and batches take: what a worker counts into the map
// `queue_metrics`, and what a reader makes of it.
#pragma once

#include <algorithm>
#include <span>

#include "maps/metrics.h"
#include "userspace/dataplane/batcher.hpp"

namespace xdpgpu::dataplane {

// Counts a batch that was seen to be over at `done_ns`: batch size and device time at the port of its
// first packet, each packet's latency at its own; what the host sent counts nowhere. by_port[p] is there for
// every port that has a packet in the batch. For the worker that owns the records; no allocation, no system
// call.
inline void count_batch(const Batch& batch, u64 done_ns,
                        std::span<xg_queue_metrics* const> by_port) noexcept {
  const u32 packets = batch.packets();
  if (!packets) return;
  u32 at = 0;
  while (!Batch::is_received(batch.ports[at])) ++at;
  xg_queue_metrics& first = *by_port[batch.ports[at]];
  const u64 device_ns = done_ns > batch.submitted_ns ? done_ns - batch.submitted_ns : 0;
  ++first.batches;
  first.batch_packets += packets;
  first.device_ns_sum += device_ns;
  first.device_ns_most = std::max(first.device_ns_most, device_ns);
  ++first.batch_log2[xg_log2_bucket(packets, XG_BATCH_BUCKETS)];
  ++first.device_ns_log2[xg_log2_bucket(device_ns, XG_DEVICE_BUCKETS)];
  // Packets of one port tend to stand together: what is summed up stays in registers meanwhile.
  for (u32 i = at; i < batch.count;) {
    const u8 port = batch.ports[i];
    if (!Batch::is_received(port)) {
      ++i;
      continue;
    }
    xg_queue_metrics& metrics = *by_port[port];
    u64 sum = 0, most = 0;
    // So do those of one bucket, which is looked up for the first of them.
    u64 from = 0, width = 0, packets_there = 0;
    u32 bucket = 0;
    for (; i < batch.count && batch.ports[i] == port; ++i) {
      const u64 rx_ns = batch.rx_times_ns[i];
      const u64 ns = done_ns > rx_ns ? done_ns - rx_ns : 0;
      sum += ns;
      most = std::max(most, ns);
      if (ns - from >= width) {
        metrics.latency_ns[bucket] += packets_there;
        packets_there = 0;
        bucket = xg_latency_bucket(ns);
        if (i + 1 == batch.count) {
          ++i, ++packets_there;
          break;
        }
        from = xg_latency_floor(bucket);
        width = (bucket + 1 < XG_LATENCY_BUCKETS ? xg_latency_floor(bucket + 1) : ~u64{0}) - from;
      }
      ++packets_there;
    }
    metrics.latency_ns[bucket] += packets_there;
    metrics.latency_ns_sum += sum;
    metrics.latency_ns_most = std::max(metrics.latency_ns_most, most);
  }
}

// Of a histogram. A percentile is the middle of the bucket that it falls in, at most `most`: latencies are
// within 7 % of the true one, device times within a half.
struct Durations {
  u64 count = 0;
  u64 mean_ns = 0, p50_ns = 0, p99_ns = 0, p99_9_ns = 0;
  u64 most_ns = 0;
};
Durations latency_of(const xg_queue_metrics& metrics) noexcept;
Durations device_time_of(const xg_queue_metrics& metrics) noexcept;

// Adds counts and histograms of `other`, and keeps the larger of each `most`. Levels and frames stay.
void add_histograms(xg_queue_metrics& sum, const xg_queue_metrics& other) noexcept;

}  // namespace xdpgpu::dataplane
