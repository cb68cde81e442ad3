// SPDX-License-Identifier: MIT
//
// gpu/cuda/mirror.hpp: a GPU's look at mirrored packets, by a kernel that stays (gpu/cuda/watch.hpp).
#pragma once

#include "gpu/cuda/queue.hpp"

namespace xdpgpu::gpu::cuda {

// options: checked. The GPU is the calling thread's current one; `shared` outlives the mirror. Where the
// device publishes into the tables that the mirrors' shards are part of, both use one directory.
//
// The kernel ends within kLease when the process is gone or stopped, and is started again when it goes on.
Result<std::unique_ptr<Mirror>> open_mirror(Shared& shared, const std::string& name,
                                            const MirrorOptions& options);

}  // namespace xdpgpu::gpu::cuda
