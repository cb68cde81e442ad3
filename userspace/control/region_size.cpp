// SPDX-License-Identifier: MIT
#include "userspace/control/region_size.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "maps/packet.h"
#include "userspace/policy/policy.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::control {

Result<u32> burst_frames(const Burst& burst) {
  constexpr u64 kWireOverhead = 14 + 4 + 20;
  const u64 frame_ns_mbps = (burst.mtu + kWireOverhead) * 8'000;  // ns x Mbit/s that carry one frame
  const u64 divisor = frame_ns_mbps * burst.queues;
  const u64 frames = (burst.ns * burst.link_mbps + divisor - 1) / divisor * burst.buffers;
  if (frames > policy::kMaxFramesPerQueue)
    return Error(fmt::format(
        "io.burst {} at {} Gbit/s needs {} frames for each of {} queue{} ({} MiB), and a queue has at most "
        "{}; shorten the burst or spread it over more queues",
        policy::write_duration(burst.ns), static_cast<double>(burst.link_mbps) / 1000, frames, burst.queues,
        burst.queues == 1 ? "" : "s", frames * XG_CHUNK_SIZE >> 20, policy::kMaxFramesPerQueue));
  return std::max(static_cast<u32>(frames), burst.least);
}

}  // namespace xdpgpu::control
