// SPDX-License-Identifier: MIT
#include <cstring>
#include <utility>

#include "bench/cuda/ceilings.hpp"
#include "bench/cuda/waiting.hpp"
#include "gpu/cuda/memory.hpp"

namespace xdpgpu::bench {
namespace {

using gpu::Result;
using gpu::cuda::failure;

class ManagedMemory final : public SharedMemory {
 public:
  static Result<std::unique_ptr<SharedMemory>> create(u32 gpu, u64 bytes) {
    const int number = static_cast<int>(gpu);
    int concurrent = 0;
    if (const cudaError_t error =
            cudaDeviceGetAttribute(&concurrent, cudaDevAttrConcurrentManagedAccess, number);
        error != cudaSuccess)
      return failure("asking for managed memory", error);
    if (concurrent == 0)
      return tl::unexpected(
          std::string("this GPU does not move managed memory while it works: frames in its own memory are "
                      "measured on others"));
    if (const cudaError_t error = cudaSetDevice(number); error != cudaSuccess)
      return failure("choosing the GPU", error);
    auto stream = gpu::cuda::Stream::create();
    if (!stream) return tl::unexpected(stream.error());
    auto memory = std::make_unique<ManagedMemory>(number, *std::move(stream));
    void* base = nullptr;
    if (const cudaError_t error = cudaMallocManaged(&base, bytes); error != cudaSuccess)
      return failure("allocating managed memory", error);
    memory->base_ = static_cast<u8*>(base);
    memory->bytes_ = bytes;
    std::memset(base, 0, bytes);
    return memory;
  }
  ManagedMemory(int gpu, gpu::cuda::Stream stream) : gpu_(gpu), stream_(std::move(stream)) {}
  ~ManagedMemory() override {
    if (base_ != nullptr) (void)cudaFree(base_);
  }
  ManagedMemory(const ManagedMemory&) = delete;
  ManagedMemory& operator=(const ManagedMemory&) = delete;

  u8* base() const override { return base_; }
  u64 bytes() const override { return bytes_; }
  Result<void> settle() override {
#if CUDART_VERSION >= 13000
    const cudaMemLocation there{cudaMemLocationTypeDevice, gpu_};
    const cudaError_t error = cudaMemPrefetchAsync(base_, bytes_, there, 0, stream_.get());
#else
    const cudaError_t error = cudaMemPrefetchAsync(base_, bytes_, gpu_, stream_.get());
#endif
    if (error != cudaSuccess) return failure("moving memory to the GPU", error);
    return wait_for(stream_.get());
  }

 private:
  int gpu_;
  gpu::cuda::Stream stream_;
  u8* base_ = nullptr;
  u64 bytes_ = 0;
};

}  // namespace

Result<std::unique_ptr<SharedMemory>> SharedMemory::create(u32 gpu, u64 bytes) {
  return ManagedMemory::create(gpu, bytes);
}

}  // namespace xdpgpu::bench
