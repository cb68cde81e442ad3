// SPDX-License-Identifier: MIT
//
// userspace/dataplane/clock.hpp: CLOCK_MONOTONIC, which is also the XDP program's clock. No system call.
#pragma once

#include "gpu/thread.hpp"

namespace xdpgpu::dataplane {

using gpu::monotonic_ns;

}  // namespace xdpgpu::dataplane
