// SPDX-License-Identifier: MIT
//
// gpu/cuda/memory.hpp: what the CUDA device owns of the runtime: streams, pinned memory, device memory,
// the registration of the frame region. Each gives itself back; on a device that hangs, abandon() first
// lets go of it without a word to the driver, which would wait for the device.
#pragma once

#include <cuda_runtime_api.h>

#include <utility>

#include "gpu/gpu.hpp"

namespace xdpgpu::gpu::cuda {

tl::unexpected<std::string> failure(const char* what, cudaError_t error);

class Stream {
 public:
  // One that does not wait for the default stream.
  static Result<Stream> create();
  Stream() = default;
  ~Stream();
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&& other) noexcept;
  void abandon() noexcept { stream_ = nullptr; }
  cudaStream_t get() const noexcept { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

// Host memory that the device reads and writes in place, at the same address or another; zeroed.
class Pinned {
 public:
  static Result<Pinned> create(u64 bytes);
  Pinned() = default;
  ~Pinned();
  Pinned(Pinned&& other) noexcept
      : host_(std::exchange(other.host_, nullptr)), device_(std::exchange(other.device_, nullptr)) {}
  Pinned& operator=(Pinned&& other) noexcept;
  void abandon() noexcept { host_ = nullptr; }
  u8* host() const noexcept { return host_; }
  u8* device() const noexcept { return device_; }

 private:
  u8* host_ = nullptr;
  u8* device_ = nullptr;
};

// Pinned::create() into `to`, which is empty.
Result<void> pin(Pinned& to, u64 bytes);

// Device memory, taken and given back in the order of a stream, which outlives it: the device is not
// stopped for it.
class DeviceMemory {
 public:
  // Filled with `bytes` from `from`, or with zeros; ready for every stream once this returns.
  static Result<DeviceMemory> create(u64 bytes, const void* from, const Stream& stream);
  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(DeviceMemory&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), stream_(other.stream_) {}
  DeviceMemory& operator=(DeviceMemory&& other) noexcept;
  void abandon() noexcept { memory_ = nullptr; }
  u8* get() const noexcept { return memory_; }
  // Done once they return.
  cudaError_t write(u64 at, const void* from, u64 bytes) const noexcept;
  cudaError_t read(u64 at, void* to, u64 bytes) const noexcept;

 private:
  u8* memory_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

// A region of the caller's memory, registered with the driver for all GPUs: the whole pages that it stands
// on, as a map's memory is. What another GPU has registered already, in the same bounds, is borrowed from it:
// it outlives the result. Managed memory needs no more than its address.
class Registration {
 public:
  static Result<Registration> create(void* base, u64 bytes);
  Registration() = default;
  ~Registration();
  Registration(Registration&& other) noexcept
      : host_(std::exchange(other.host_, nullptr)), device_(std::exchange(other.device_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept;
  void abandon() noexcept { host_ = nullptr; }
  u8* device() const noexcept { return device_; }

 private:
  void* host_ = nullptr;
  u8* device_ = nullptr;
};

}  // namespace xdpgpu::gpu::cuda
