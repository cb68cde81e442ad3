// SPDX-License-Identifier: MIT
#include "gpu/cuda/images.hpp"

#include <algorithm>

namespace xdpgpu::gpu::cuda {

Result<Images> Images::create(const Stream& stream) {
  auto table = DeviceMemory::create(sizeof(Image) * kMaxGenerations, nullptr, stream);
  if (!table) return tl::unexpected(table.error());
  Images images;
  images.table_ = *std::move(table);
  return images;
}

cudaError_t Images::write(std::size_t at, const Image& image, const Stream& stream) noexcept {
  const cudaError_t error = cudaMemcpyAsync(table_.get() + at * sizeof(Image), &image, sizeof(Image),
                                            cudaMemcpyHostToDevice, stream.get());
  return error != cudaSuccess ? error : cudaStreamSynchronize(stream.get());
}

Result<void> Images::add(u32 generation, const DeviceMemory& image, const Stream& stream) {
  const auto free =
      std::find_if(host_.begin(), host_.end(), [](const Image& one) { return one.address == 0; });
  if (free == host_.end()) return tl::unexpected(std::string("the device holds too many generations"));
  const Image fresh{reinterpret_cast<u64>(image.get()), generation, 0};
  if (const cudaError_t error = write(static_cast<std::size_t>(free - host_.begin()), fresh, stream);
      error != cudaSuccess)
    return failure("announcing the policy", error);
  *free = fresh;
  return {};
}

void Images::remove(u32 generation, const Stream& stream) noexcept {
  for (std::size_t at = 0; at < host_.size(); ++at) {
    if (host_[at].address == 0 || host_[at].generation != generation) continue;
    host_[at] = {};
    (void)write(at, {}, stream);
  }
}

}  // namespace xdpgpu::gpu::cuda
