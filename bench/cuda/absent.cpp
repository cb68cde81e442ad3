// SPDX-License-Identifier: MIT
//
// bench/cuda/absent.cpp: stands in for the kernels in a build without CUDA.
#include "bench/cuda/ceilings.hpp"

namespace xdpgpu::bench {
namespace {

tl::unexpected<std::string> none() {
  return tl::unexpected(std::string("this build has no CUDA: build it where nvcc is installed"));
}

}  // namespace

int gpu_number(std::string_view) { return -1; }
gpu::Result<std::unique_ptr<HostReader>> HostReader::open(u32, void*, u64) { return none(); }
gpu::Result<std::unique_ptr<SharedMemory>> SharedMemory::create(u32, u64) { return none(); }
gpu::Result<std::unique_ptr<EventDecider>> EventDecider::open(u32, std::span<ParsedHeader>,
                                                              std::span<CompactHeader>, std::span<u32>) {
  return none();
}
gpu::Result<std::vector<u64>> round_trips_ns(u32, u32) { return none(); }

}  // namespace xdpgpu::bench
