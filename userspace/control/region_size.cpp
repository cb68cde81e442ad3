// SPDX-License-Identifier: MIT
#include "userspace/control/region_size.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "maps/packet.h"
#include "userspace/policy/policy.hpp"
#include "userspace/policy/values.hpp"

namespace xdpgpu::control {

Result<u32> burst_frames(const Burst& burst) {
  constexpr u64 kFrameNsMbps = kSmallestOnWire * 8'000;  // ns x Mbit/s that carry one frame
  const u64 divisor = kFrameNsMbps * burst.queues;
  const u64 frames = (burst.ns * burst.link_mbps + divisor - 1) / divisor;
  if (frames > policy::kMaxFramesPerQueue)
    return Error(fmt::format(
        "io.burst {} at {} Gbit/s, in the smallest frames, needs {} buffers for each of {} queue{} ({} "
        "MiB), and a queue has at most {}; shorten the burst, spread it over more queues, or say "
        "io.frames_per_queue",
        policy::write_duration(burst.ns), static_cast<double>(burst.link_mbps) / 1000, frames, burst.queues,
        burst.queues == 1 ? "" : "s", frames * XG_CHUNK_SIZE >> 20, policy::kMaxFramesPerQueue));
  return std::max(static_cast<u32>(frames), burst.least);
}

}  // namespace xdpgpu::control
