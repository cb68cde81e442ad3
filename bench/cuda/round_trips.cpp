// SPDX-License-Identifier: MIT
#include <atomic>
#include <chrono>

#include "bench/cuda/ceilings.hpp"
#include "bench/cuda/kernels.hpp"
#include "bench/cuda/waiting.hpp"

namespace xdpgpu::bench {

gpu::Result<std::vector<u64>> round_trips_ns(u32 gpu, u32 count) {
  using Clock = std::chrono::steady_clock;
  constexpr u64 kLine = 128;
  if (const cudaError_t error = cudaSetDevice(static_cast<int>(gpu)); error != cudaSuccess)
    return gpu::cuda::failure("choosing the GPU", error);
  auto stream = gpu::cuda::Stream::create();
  if (!stream) return tl::unexpected(stream.error());
  auto words = gpu::cuda::Pinned::create(2 * kLine);
  if (!words) return tl::unexpected(words.error());
  const std::atomic_ref question(*reinterpret_cast<u32*>(words->host()));
  const std::atomic_ref answer(*reinterpret_cast<u32*>(words->host() + kLine));
  if (const cudaError_t error =
          launch_answering(reinterpret_cast<u32*>(words->device()),
                           reinterpret_cast<u32*>(words->device() + kLine), count, stream->get());
      error != cudaSuccess)
    return gpu::cuda::failure("starting a kernel that answers", error);
  std::vector<u64> out;
  out.reserve(count);
  for (u32 i = 1; i <= count; ++i) {
    const auto start = Clock::now();
    question.store(i, std::memory_order_release);
    auto now = start;
    while (answer.load(std::memory_order_acquire) != i) {
      now = Clock::now();
      if (now - start > std::chrono::seconds(2))
        return tl::unexpected(std::string("the resident kernel has not answered within 2 s"));
    }
    out.push_back(static_cast<u64>((Clock::now() - start).count()));
  }
  if (auto done = wait_for(stream->get()); !done) return tl::unexpected(done.error());
  return out;
}

}  // namespace xdpgpu::bench
