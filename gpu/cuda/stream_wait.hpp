// SPDX-License-Identifier: MIT
//
// gpu/cuda/stream_wait.hpp: a stream that waits for a number in memory (the driver's stream memory
// operations). Found through the runtime, so that nothing is linked to the driver.
#pragma once

#include <cuda_runtime_api.h>

#include "gpu/gpu.hpp"

namespace xdpgpu::gpu::cuda {

// Whether the driver has them at all; a GPU may still refuse.
bool has_stream_wait() noexcept;

// What follows on the stream starts when (i32)(*at - number) >= 0. `at` is a device address of pinned memory.
// cudaErrorNotSupported where the driver or this GPU has no such thing.
cudaError_t wait_for(cudaStream_t stream, const u32* at, u32 number) noexcept;

}  // namespace xdpgpu::gpu::cuda
