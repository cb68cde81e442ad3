// SPDX-License-Identifier: MIT
//
// userspace/dataplane/lost.hpp: the packets that a worker took with it when it died.
#pragma once

#include "userspace/dataplane/counters.hpp"

namespace xdpgpu::dataplane {

// Of a queue that nobody serves: it had taken some of the packets that the XDP program sent it, and the
// others stood in rings that went with it. What has no outcome yet is counted as lost_with_worker, once,
// however often this is asked.
inline void count_lost(u32 admitted, xg_worker_counters& c) noexcept {
  const auto never_taken = static_cast<std::int32_t>(admitted - static_cast<u32>(packets_handed(c)));
  if (never_taken > 0) c.received += static_cast<u32>(never_taken);
  const u64 over = packets_over(c);
  if (c.received > over) c.lost_with_worker += c.received - over;
}

}  // namespace xdpgpu::dataplane
