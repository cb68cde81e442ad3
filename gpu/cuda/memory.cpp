// SPDX-License-Identifier: MIT
#include "gpu/cuda/memory.hpp"

#include <fmt/format.h>

#include <cstring>

namespace xdpgpu::gpu::cuda {

tl::unexpected<std::string> failure(const char* what, cudaError_t error) {
  // What this call left behind is not for the next one to report.
  (void)cudaGetLastError();
  return tl::unexpected(
      fmt::format("CUDA: {} failed: {} ({})", what, cudaGetErrorString(error), cudaGetErrorName(error)));
}

Result<Stream> Stream::create() {
  Stream stream;
  if (const cudaError_t error = cudaStreamCreateWithFlags(&stream.stream_, cudaStreamNonBlocking);
      error != cudaSuccess)
    return failure("creating a stream", error);
  return stream;
}

Stream::~Stream() {
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
}

Stream& Stream::operator=(Stream&& other) noexcept {
  std::swap(stream_, other.stream_);
  return *this;
}

Result<Pinned> Pinned::create(u64 bytes) {
  void* host = nullptr;
  if (const cudaError_t error = cudaHostAlloc(&host, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
      error != cudaSuccess)
    return failure("allocating pinned memory", error);
  Pinned pinned;
  pinned.host_ = static_cast<u8*>(host);
  void* device = nullptr;
  if (const cudaError_t error = cudaHostGetDevicePointer(&device, host, 0); error != cudaSuccess)
    return failure("mapping pinned memory", error);
  pinned.device_ = static_cast<u8*>(device);
  std::memset(host, 0, bytes);
  return pinned;
}

Pinned::~Pinned() {
  if (host_ != nullptr) (void)cudaFreeHost(host_);
}

Pinned& Pinned::operator=(Pinned&& other) noexcept {
  std::swap(host_, other.host_);
  std::swap(device_, other.device_);
  return *this;
}

Result<void> pin(Pinned& to, u64 bytes) {
  return Pinned::create(bytes).map([&](Pinned&& made) { to = std::move(made); });
}

Result<DeviceMemory> DeviceMemory::create(u64 bytes, const void* from, const Stream& stream) {
  void* memory = nullptr;
  if (const cudaError_t error = cudaMallocAsync(&memory, bytes, stream.get()); error != cudaSuccess)
    return failure("allocating device memory", error);
  DeviceMemory made;
  made.memory_ = static_cast<u8*>(memory);
  made.stream_ = stream.get();
  cudaError_t error = from != nullptr
                          ? cudaMemcpyAsync(memory, from, bytes, cudaMemcpyHostToDevice, stream.get())
                          : cudaMemsetAsync(memory, 0, bytes, stream.get());
  if (error == cudaSuccess) error = cudaStreamSynchronize(stream.get());
  if (error != cudaSuccess) return failure("filling device memory", error);
  return made;
}

cudaError_t DeviceMemory::write(u64 at, const void* from, u64 bytes) const noexcept {
  const cudaError_t error = cudaMemcpyAsync(memory_ + at, from, bytes, cudaMemcpyHostToDevice, stream_);
  return error != cudaSuccess ? error : cudaStreamSynchronize(stream_);
}

cudaError_t DeviceMemory::read(u64 at, void* to, u64 bytes) const noexcept {
  const cudaError_t error = cudaMemcpyAsync(to, memory_ + at, bytes, cudaMemcpyDeviceToHost, stream_);
  return error != cudaSuccess ? error : cudaStreamSynchronize(stream_);
}

DeviceMemory::~DeviceMemory() {
  if (memory_ != nullptr) (void)cudaFreeAsync(memory_, stream_);
}

DeviceMemory& DeviceMemory::operator=(DeviceMemory&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(stream_, other.stream_);
  return *this;
}

namespace {

// Whether this GPU, too, reaches the first and the last byte of what another one has registered, at one
// stretch.
bool whole(const void* base, u64 bytes) noexcept {
  cudaPointerAttributes first{}, last{};
  return cudaPointerGetAttributes(&first, base) == cudaSuccess && first.type == cudaMemoryTypeHost &&
         cudaPointerGetAttributes(&last, static_cast<const u8*>(base) + bytes - 1) == cudaSuccess &&
         last.type == cudaMemoryTypeHost && first.devicePointer != nullptr &&
         static_cast<const u8*>(first.devicePointer) + bytes - 1 == last.devicePointer;
}

}  // namespace

Result<Registration> Registration::create(void* base, u64 bytes) {
  Registration registration;
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, base) != cudaSuccess) (void)cudaGetLastError();
  if (attributes.type == cudaMemoryTypeManaged) {
    registration.device_ = static_cast<u8*>(attributes.devicePointer);
    return registration;
  }
  bytes = (bytes + 4095) & ~u64{4095};
  const cudaError_t registered =
      cudaHostRegister(base, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
  const bool borrowed = registered == cudaErrorHostMemoryAlreadyRegistered && whole(base, bytes);
  if (registered != cudaSuccess && !borrowed) return failure("registering host memory", registered);
  // The error of what is no failure is not for the next call to report.
  if (borrowed) (void)cudaGetLastError();
  if (!borrowed) registration.host_ = base;
  void* device = nullptr;
  if (const cudaError_t error = cudaHostGetDevicePointer(&device, base, 0); error != cudaSuccess)
    return failure("mapping host memory", error);
  registration.device_ = static_cast<u8*>(device);
  return registration;
}

Registration::~Registration() {
  if (host_ != nullptr) (void)cudaHostUnregister(host_);
}

Registration& Registration::operator=(Registration&& other) noexcept {
  std::swap(host_, other.host_);
  std::swap(device_, other.device_);
  return *this;
}

}  // namespace xdpgpu::gpu::cuda
