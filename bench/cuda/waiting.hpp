// SPDX-License-Identifier: MIT
//
// bench/cuda/waiting.hpp: waits for a stream, but not for ever.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>

#include "gpu/cuda/memory.hpp"

namespace xdpgpu::bench {

// Spins until everything in the stream is done; fails after five seconds.
inline gpu::Result<void> wait_for(cudaStream_t stream) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream);
    if (state == cudaSuccess) return {};
    if (state != cudaErrorNotReady) return gpu::cuda::failure("running a kernel", state);
    if (std::chrono::steady_clock::now() > end)
      return tl::unexpected(std::string("the GPU has not finished a kernel within 5 s"));
  }
}

}  // namespace xdpgpu::bench
