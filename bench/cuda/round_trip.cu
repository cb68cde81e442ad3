// SPDX-License-Identifier: MIT
#include "bench/cuda/kernels.hpp"

namespace xdpgpu::bench {
namespace {

constexpr u64 kPatienceNs = 1'000'000'000;
constexpr u32 kLooksPerClock = 256;

__device__ u64 now_ns() {
  u64 now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__global__ void answer_words(const volatile u32* question, volatile u32* answer, u32 count) {
  for (u32 i = 1; i <= count; i++) {
    u64 since = 0;
    for (u32 looks = 1; *question != i; looks++) {
      if (looks % kLooksPerClock != 0) continue;
      const u64 now = now_ns();
      if (since == 0) since = now;
      if (now - since > kPatienceNs) return;
    }
    *answer = i;
    __threadfence_system();
  }
}

}  // namespace

cudaError_t launch_answering(const u32* question, u32* answer, u32 count, cudaStream_t stream) noexcept {
  answer_words<<<1, 1, 0, stream>>>(question, answer, count);
  return cudaGetLastError();
}

}  // namespace xdpgpu::bench
