// SPDX-License-Identifier: MIT
#include <charconv>
#include <chrono>
#include <cstring>

#include "bench/cuda/ceilings.hpp"
#include "bench/cuda/kernels.hpp"
#include "bench/cuda/waiting.hpp"
#include "gpu/cuda/memory.hpp"

namespace xdpgpu::bench {
namespace {

using gpu::Result;
using gpu::cuda::failure;

class CudaHostReader final : public HostReader {
 public:
  static Result<std::unique_ptr<HostReader>> create(u32 gpu, void* base, u64 bytes) {
    if (const cudaError_t error = cudaSetDevice(static_cast<int>(gpu)); error != cudaSuccess)
      return failure("choosing the GPU", error);
    auto reader = std::make_unique<CudaHostReader>();
    reader->bytes_ = bytes;
    auto made =
        gpu::cuda::Stream::create()
            .map([&](gpu::cuda::Stream&& stream) { reader->stream_ = std::move(stream); })
            .and_then([&] { return gpu::cuda::Registration::create(base, bytes); })
            .map([&](gpu::cuda::Registration&& region) { reader->region_ = std::move(region); })
            .and_then([&] { return gpu::cuda::DeviceMemory::create(sizeof(u32), nullptr, reader->stream_); })
            .map([&](gpu::cuda::DeviceMemory&& sum) { reader->sum_ = std::move(sum); });
    if (!made) return tl::unexpected(made.error());
    return reader;
  }

  Result<Reading> contiguous() override {
    return timed(1,
                 [&](u32* sum) { return launch_contiguous(region_.device(), bytes_, sum, stream_.get()); });
  }

  Result<Reading> lines(std::span<const u32> numbers, u32 bytes, u32 passes) override {
    auto copied = gpu::cuda::DeviceMemory::create(numbers.size_bytes(), numbers.data(), stream_);
    if (!copied) return tl::unexpected(copied.error());
    return timed(passes, [&](u32* sum) {
      return launch_lines(region_.device(), reinterpret_cast<const u32*>(copied->get()),
                          static_cast<u32>(numbers.size()), bytes, sum, stream_.get());
    });
  }

  Result<Reading> answers(std::span<const u32> numbers, std::span<xg_result> results, u32 passes) override {
    auto copied = gpu::cuda::DeviceMemory::create(numbers.size_bytes(), numbers.data(), stream_);
    if (!copied) return tl::unexpected(copied.error());
    auto written = gpu::cuda::Pinned::create(results.size_bytes());
    if (!written) return tl::unexpected(written.error());
    auto reading = timed(passes, [&](u32* sum) {
      return launch_answers(region_.device(), reinterpret_cast<const u32*>(copied->get()),
                            static_cast<u32>(numbers.size()), written->device(), sum, stream_.get());
    });
    if (reading) std::memcpy(results.data(), written->host(), results.size_bytes());
    return reading;
  }

  Result<Reading> frames(std::span<const xg_descriptor> frames, std::span<u32> sums) override {
    std::vector<u64> offsets;
    for (const xg_descriptor& frame : frames) offsets.push_back(frame.offset);
    auto copied = gpu::cuda::DeviceMemory::create(offsets.size() * sizeof(u64), offsets.data(), stream_);
    if (!copied) return tl::unexpected(copied.error());
    auto answers = gpu::cuda::Pinned::create(sums.size_bytes());
    if (!answers) return tl::unexpected(answers.error());
    auto reading = timed(1, [&](u32*) {
      return launch_frames(region_.device(), reinterpret_cast<const u64*>(copied->get()),
                           static_cast<u32>(offsets.size()), frames.front().length,
                           reinterpret_cast<u32*>(answers->device()), stream_.get());
    });
    if (!reading) return reading;
    std::memcpy(sums.data(), answers->host(), sums.size_bytes());
    for (const u32 sum : sums) reading->sum += sum;
    return reading;
  }

  Result<Reading> answered_frames(std::span<const xg_descriptor> frames, std::span<xg_result> results,
                                  u32 passes) override {
    std::vector<u64> offsets;
    for (const xg_descriptor& frame : frames) offsets.push_back(frame.offset);
    auto copied = gpu::cuda::DeviceMemory::create(offsets.size() * sizeof(u64), offsets.data(), stream_);
    if (!copied) return tl::unexpected(copied.error());
    auto written = gpu::cuda::Pinned::create(results.size_bytes());
    if (!written) return tl::unexpected(written.error());
    auto reading = timed(passes, [&](u32*) {
      return launch_answered_frames(region_.device(), reinterpret_cast<const u64*>(copied->get()),
                                    static_cast<u32>(offsets.size()), frames.front().length,
                                    written->device(), stream_.get());
    });
    if (reading) std::memcpy(results.data(), written->host(), results.size_bytes());
    return reading;
  }

 private:
  // By the host's clock, the first start and the end included.
  template <class Launch>
  Result<Reading> timed(u32 passes, Launch&& launch) {
    auto* const sum = reinterpret_cast<u32*>(sum_.get());
    if (const cudaError_t error = cudaMemsetAsync(sum, 0, sizeof(u32), stream_.get()); error != cudaSuccess)
      return failure("clearing a sum", error);
    if (auto ready = wait_for(stream_.get()); !ready) return tl::unexpected(ready.error());
    const auto start = std::chrono::steady_clock::now();
    for (u32 i = 0; i < passes; ++i)
      if (const cudaError_t error = launch(sum); error != cudaSuccess)
        return failure("starting a kernel that reads", error);
    if (auto done = wait_for(stream_.get()); !done) return tl::unexpected(done.error());
    Reading reading;
    reading.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / passes;
    u32 all = 0;
    if (const cudaError_t error = cudaMemcpy(&all, sum, sizeof(all), cudaMemcpyDeviceToHost);
        error != cudaSuccess)
      return failure("reading a sum", error);
    reading.sum = all;
    return reading;
  }

  gpu::cuda::Stream stream_;
  gpu::cuda::Registration region_;
  gpu::cuda::DeviceMemory sum_;
  u64 bytes_ = 0;
};

}  // namespace

int gpu_number(std::string_view device) {
  device = device.substr(0, device.find('/'));
  if (!device.starts_with("cuda")) return -1;
  int number = 0;
  if (const auto colon = device.find(':'); colon != std::string_view::npos)
    std::from_chars(device.data() + colon + 1, device.data() + device.size(), number);
  return number;
}

Result<std::unique_ptr<HostReader>> HostReader::open(u32 gpu, void* base, u64 bytes) {
  return CudaHostReader::create(gpu, base, bytes);
}

}  // namespace xdpgpu::bench
