// SPDX-License-Identifier: MIT
//
// userspace/control/eve_stats.hpp: what a log's statistics say: the counters of `status`.
#pragma once

#include "userspace/control/status_report.hpp"

namespace xdpgpu::control {

// "stats" of an event: uptime in seconds, and by the names of `status -o json`: "packets", "rules", "log"
// and, by interface, "kernel", "malformed", "rates" and "workers", which is the sum over its queues.
Json eve_stats_of(const StatusReport& report);

}  // namespace xdpgpu::control
