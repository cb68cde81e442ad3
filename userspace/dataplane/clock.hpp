// SPDX-License-Identifier: MIT
//
// userspace/dataplane/clock.hpp: CLOCK_MONOTONIC, which is also the XDP program's clock. No system call.
#pragma once

#include <time.h>

#include "maps/types.h"

namespace xdpgpu::dataplane {

inline u64 monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}

}  // namespace xdpgpu::dataplane
