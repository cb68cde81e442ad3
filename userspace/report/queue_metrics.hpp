// SPDX-License-Identifier: MIT
//
// userspace/report/queue_metrics.hpp: the families that are about interfaces and their queues.
#pragma once

#include "userspace/report/metrics.hpp"

namespace xdpgpu::report {

// Of the kernel's programs, by interface; of workers, rings, frames, batches and times, by queue.
void queue_metrics(Exposition& out, std::span<const Attach> attaches);

// "drop", "pass", "inspect"; of counts of something else "".
const char* outcome_name(xg_outcome outcome);

}  // namespace xdpgpu::report
