// SPDX-License-Identifier: MIT
//
// userspace/dataplane/one_writer.hpp: counts that one thread writes and any thread reads, without a locked
// instruction.
#pragma once

#include <atomic>

#include "maps/types.h"

namespace xdpgpu::dataplane {

inline void count(std::atomic<u64>& counter, u64 more = 1) noexcept {
  counter.store(counter.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
}

}  // namespace xdpgpu::dataplane
