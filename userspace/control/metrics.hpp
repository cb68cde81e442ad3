// SPDX-License-Identifier: MIT
//
// userspace/control/metrics.hpp: a queue's metrics (maps/metrics.h) as `status` tells them.
#pragma once

#include <string>

#include "userspace/control/status_report.hpp"

namespace xdpgpu::control {

MetricsReport metrics_report(const xg_queue_metrics& metrics);

// Of a queue that a data plane serves: some lines, each indented by four spaces. What never happened is left
// out.
std::string metrics_text(const QueueReport& queue);
// What the stages of a report remember, one table after the other; empty where none does.
std::string tables_text(const ServiceReport& service);
// What became of the packets of stages that run programs; empty where there are none.
std::string programs_text(const std::vector<ProgramReport>& programs);
// "p50 12 us, p99 80 us, p99.9 1.2 ms, at most 3 ms"
std::string durations_text(const dataplane::Durations& durations);
// "850 ns", "12.3 us", "1.2 ms", "5.0 s".
std::string time_text(u64 ns);

}  // namespace xdpgpu::control
