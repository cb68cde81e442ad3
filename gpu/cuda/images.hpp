// SPDX-License-Identifier: MIT
//
// gpu/cuda/images.hpp: which generations there are and where their images stand, for a kernel that meets
// generations by itself: a table in device memory that the host writes while kernels read it.
#pragma once

#include <array>

#include "gpu/cuda/memory.hpp"
#include "gpu/cuda/watch.hpp"
#include "gpu/generations.hpp"

namespace xdpgpu::gpu::cuda {

// From one thread at a time.
class Images {
 public:
  static Result<Images> create(const Stream& stream);
  Images() = default;

  // count() of them, device memory.
  const Image* device() const noexcept { return reinterpret_cast<const Image*>(table_.get()); }
  static constexpr u32 count() noexcept { return kMaxGenerations; }
  // Visible to kernels once it returns. Fails without effect.
  Result<void> add(u32 generation, const DeviceMemory& image, const Stream& stream);
  // Once it returns no kernel finds it any more; one that had found it may still be at work with it.
  void remove(u32 generation, const Stream& stream) noexcept;
  void abandon() noexcept { table_.abandon(); }

 private:
  cudaError_t write(std::size_t at, const Image& image, const Stream& stream) noexcept;

  DeviceMemory table_;
  std::array<Image, kMaxGenerations> host_{};
};

}  // namespace xdpgpu::gpu::cuda
