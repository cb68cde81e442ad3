// SPDX-License-Identifier: MIT
//
// userspace/control/metrics.hpp: a queue's metrics (maps/metrics.h) as `status` tells them.
#pragma once

#include <string>

#include "userspace/control/protocol.hpp"
#include "userspace/dataplane/metrics.hpp"

namespace xdpgpu::control {

// {"count", "mean", "p50", "p99", "p99_9", "max"}, in ns but for the count.
Json to_json(const dataplane::Durations& durations);
// One queue's: "rings", "frames", "kernel_losses", "batches", "device_time_ns", "latency_ns".
Json metrics_json(const xg_queue_metrics& metrics);

// Of such a queue as JSON, with its "counters": some lines, each indented by four spaces. What never
// happened is left out.
std::string metrics_text(const Json& queue);
// What the stages of a report remember, one table after the other; empty where none does.
std::string tables_text(const Json& report);
// "p50 12 us, p99 80 us, p99.9 1.2 ms, at most 3 ms", from to_json(Durations).
std::string durations_text(const Json& durations);
// "850 ns", "12.3 us", "1.2 ms", "5.0 s".
std::string time_text(u64 ns);

}  // namespace xdpgpu::control
