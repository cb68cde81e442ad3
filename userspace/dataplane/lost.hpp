// SPDX-License-Identifier: MIT
//
// userspace/dataplane/lost.hpp: the packets that a worker took with it when it died.
#pragma once

#include "maps/control.h"

namespace xdpgpu::dataplane {

// Packets that came to an end, of those `received`.
inline u64 packets_over(const xg_worker_counters& c) noexcept {
  return c.dropped + c.passed + c.transmitted + c.redirected + c.error_device + c.error_generation +
         c.error_target + c.error_too_long + c.error_hand_over + c.error_ring_full + c.error_refused +
         c.lost_with_worker + __atomic_load_n(&c.error_invalid, __ATOMIC_ACQUIRE);
}

// Of a queue that nobody serves: it had taken some of the packets that the XDP program sent it, and the
// others stood in rings that went with it. What has no outcome yet is counted as lost_with_worker, once,
// however often this is asked.
inline void count_lost(u32 admitted, xg_worker_counters& c) noexcept {
  const auto never_taken =
      static_cast<std::int32_t>(admitted - static_cast<u32>(c.received + c.lost_in_kernel));
  if (never_taken > 0) c.received += static_cast<u32>(never_taken);
  const u64 over = packets_over(c);
  if (c.received > over) c.lost_with_worker += c.received - over;
}

}  // namespace xdpgpu::dataplane
