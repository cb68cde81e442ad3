// SPDX-License-Identifier: MIT
//
// gpu/pause.hpp: what a device's thread does between two looks, and how it tells the time.
#pragma once

#include <time.h>

#include "maps/types.h"

namespace xdpgpu::gpu {

inline u64 monotonic_ns() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<u64>(now.tv_sec) * 1'000'000'000 + static_cast<u64>(now.tv_nsec);
}

inline void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#endif
}

}  // namespace xdpgpu::gpu
