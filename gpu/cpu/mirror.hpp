// SPDX-License-Identifier: MIT
//
// gpu/cpu/mirror.hpp: mirrored packets looked at by a thread of the CPU. It spins while packets come and
// sleeps ever longer, up to a millisecond, while none do, so that a quiet link costs no core.
#pragma once

#include "gpu/cpu/queue.hpp"

namespace xdpgpu::gpu::cpu {

// `device` outlives the Mirror. The options were checked (check_mirror_options). Throws
// where there is no memory or no thread to be had.
std::unique_ptr<Mirror> open_mirror(const Shared& device, const MirrorOptions& options);

}  // namespace xdpgpu::gpu::cpu
