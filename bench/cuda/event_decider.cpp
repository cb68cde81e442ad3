// SPDX-License-Identifier: MIT
#include <algorithm>
#include <array>
#include <chrono>

#include "bench/cuda/ceilings.hpp"
#include "bench/cuda/kernels.hpp"
#include "bench/cuda/waiting.hpp"

namespace xdpgpu::bench {
namespace {

using gpu::Result;
using gpu::cuda::DeviceMemory;
using gpu::cuda::failure;
using gpu::cuda::Registration;
using gpu::cuda::Stream;

// Records that are copied together: enough for the copy engines' full rate, and few enough that the
// first copy in and the last copy out are short.
constexpr u64 kPart = 1 << 18;
constexpr std::size_t kStreams = 3;

template <class T>
Result<Registration> registered(std::span<T> memory) {
  return Registration::create(memory.data(), (memory.size_bytes() + 4095) & ~u64{4095});
}

class CudaEventDecider final : public EventDecider {
 public:
  static Result<std::unique_ptr<EventDecider>> create(u32 gpu, std::span<ParsedHeader> parsed,
                                                      std::span<CompactHeader> compact,
                                                      std::span<u32> verdicts) {
    if (const cudaError_t error = cudaSetDevice(static_cast<int>(gpu)); error != cudaSuccess)
      return failure("choosing the GPU", error);
    auto made = std::make_unique<CudaEventDecider>();
    made->count_ = parsed.size();
    made->host_parsed_ = parsed.data();
    made->host_verdicts_ = verdicts.data();
    for (Part& part : made->parts_) {
      auto ready =
          Stream::create()
              .map([&](Stream&& stream) { part.stream = std::move(stream); })
              .and_then(
                  [&] { return DeviceMemory::create(kPart * sizeof(ParsedHeader), nullptr, part.stream); })
              .map([&](DeviceMemory&& memory) { part.headers = std::move(memory); })
              .and_then([&] { return DeviceMemory::create(kPart * sizeof(u32), nullptr, part.stream); })
              .map([&](DeviceMemory&& memory) { part.verdicts = std::move(memory); });
      if (!ready) return tl::unexpected(ready.error());
    }
    auto ready = registered(parsed)
                     .map([&](Registration&& memory) { made->parsed_ = std::move(memory); })
                     .and_then([&] { return registered(compact); })
                     .map([&](Registration&& memory) { made->compact_ = std::move(memory); })
                     .and_then([&] { return registered(verdicts); })
                     .map([&](Registration&& memory) { made->verdicts_ = std::move(memory); });
    if (!ready) return tl::unexpected(ready.error());
    return made;
  }

  Result<double> parsed(EventStage stage) override {
    return timed([&] {
      return launch_parsed(stage, reinterpret_cast<const ParsedHeader*>(parsed_.device()), count_, verdicts(),
                           stream());
    });
  }

  Result<double> copied(EventStage stage) override {
    return timed([&] {
      cudaError_t error = cudaSuccess;
      for (u64 first = 0, turn = 0; first < count_ && error == cudaSuccess; first += kPart, ++turn)
        error = copy_part(parts_[turn % kStreams], stage, first, std::min(kPart, count_ - first));
      return error;
    });
  }

  Result<double> compact(EventStage stage) override {
    return timed([&] { return launch_compact(stage, compact_headers(), count_, verdicts(), stream()); });
  }

  Result<void> begin_compact(EventStage stage, u64 first, u64 count) override {
    if (const cudaError_t error =
            launch_compact(stage, compact_headers() + first, count, verdicts() + first, stream());
        error != cudaSuccess)
      return failure("starting a kernel that decides", error);
    return {};
  }
  Result<void> wait() override {
    for (const Part& part : parts_)
      if (auto done = wait_for(part.stream.get()); !done) return done;
    return {};
  }

  Result<double> read() override {
    return timed([&] {
      return launch_contiguous(parsed_.device(), count_ * sizeof(ParsedHeader) / 16 * 16,
                               reinterpret_cast<u32*>(parts_[0].verdicts.get()), stream());
    });
  }

 private:
  struct Part {
    Stream stream;
    DeviceMemory headers, verdicts;
  };

  // A stream's copies, kernel and copies back follow each other; those of different streams overlap.
  cudaError_t copy_part(Part& part, EventStage stage, u64 first, u64 count) {
    const cudaStream_t stream = part.stream.get();
    auto* const headers = reinterpret_cast<ParsedHeader*>(part.headers.get());
    auto* const out = reinterpret_cast<u32*>(part.verdicts.get());
    cudaError_t error = cudaMemcpyAsync(headers, host_parsed_ + first, count * sizeof(ParsedHeader),
                                        cudaMemcpyHostToDevice, stream);
    if (error == cudaSuccess) error = launch_parsed(stage, headers, count, out, stream);
    if (error == cudaSuccess)
      error =
          cudaMemcpyAsync(host_verdicts_ + first, out, count * sizeof(u32), cudaMemcpyDeviceToHost, stream);
    return error;
  }

  template <class Launch>
  Result<double> timed(Launch&& launch) {
    const auto start = std::chrono::steady_clock::now();
    if (const cudaError_t error = launch(); error != cudaSuccess)
      return failure("starting a kernel that decides", error);
    if (auto done = wait(); !done) return tl::unexpected(done.error());
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  cudaStream_t stream() const { return parts_[0].stream.get(); }
  u32* verdicts() const { return reinterpret_cast<u32*>(verdicts_.device()); }
  const CompactHeader* compact_headers() const {
    return reinterpret_cast<const CompactHeader*>(compact_.device());
  }

  u64 count_ = 0;
  const ParsedHeader* host_parsed_ = nullptr;
  u32* host_verdicts_ = nullptr;
  std::array<Part, kStreams> parts_;
  Registration parsed_, compact_, verdicts_;
};

}  // namespace

Result<std::unique_ptr<EventDecider>> EventDecider::open(u32 gpu, std::span<ParsedHeader> parsed,
                                                         std::span<CompactHeader> compact,
                                                         std::span<u32> verdicts) {
  return CudaEventDecider::create(gpu, parsed, compact, verdicts);
}

}  // namespace xdpgpu::bench
