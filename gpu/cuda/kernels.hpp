// SPDX-License-Identifier: MIT
//
// gpu/cuda/kernels.hpp: the kernels, loaded from machine code. A build has code for the architectures it was
// built for, and of the others PTX, which the driver compiles; pipelines may bring code of their own.
//
// Code is not brought to a GPU while a kernel stays there (bench/link): see gpu/cuda/pauses.hpp.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <memory>

#include "gpu/device_code.hpp"
#include "gpu/gpu.hpp"

namespace xdpgpu::gpu::cuda {

// Each is a source file of its name, and a module.
inline constexpr std::array kModules{"kernel", "posted", "resident", "watch"};

enum class Kernel : u32 {
  decide,          // one block: gpu/cuda/kernel.hpp
  decide_alone,    // with tables, which the last block takes the packets to
  decide_team,     // with tables, to which `finish` takes them
  finish,          // by a team of blocks
  finish_crowded,  // where rounds are crowded
  posted,          // gpu/cuda/posted.hpp
  resident,        // gpu/cuda/resident.hpp
  watch,           // gpu/cuda/watch.hpp
};
inline constexpr u32 kKernels = 8;
inline constexpr Kernel kernel_at(u32 i) { return static_cast<Kernel>(i); }

class Kernels {
 public:
  // Reads the code, beside whatever runs; not yet for a GPU. The error says what is wrong with it.
  static Result<std::shared_ptr<Kernels>> read(std::shared_ptr<const DeviceCode> code);
  // Brings one to the calling thread's current GPU, at once rather than at its first launch: waits until no
  // kernel stays there.
  Result<void> bring(Kernel kernel);
  Kernels() = default;
  // Waits as bring() does.
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;

  const std::string& id() const noexcept { return code_->id; }
  const std::shared_ptr<const DeviceCode>& code() const noexcept { return code_; }
  // Of all that were loaded another one: by it kernels that stay tell their batches from others.
  u32 number() const noexcept { return number_; }
  // A batch may be launched before the one in front of it is over: what says when to wait is in the code,
  // which was compiled for compute capability 9.0 or later. Known once it is brought.
  bool overlaps() const noexcept { return overlaps_; }
  // As the runtime's calls take it.
  const void* operator[](Kernel kernel) const noexcept { return kernels_[static_cast<u32>(kernel)]; }
  // Lets go of them without a word to the driver.
  void abandon() const noexcept { abandoned_ = true; }

 private:
  std::shared_ptr<const DeviceCode> code_;
  std::array<cudaLibrary_t, kModules.size()> libraries_{};
  std::array<const void*, kKernels> kernels_{};
  u32 number_ = 0;
  bool overlaps_ = false;
  mutable bool abandoned_ = false;
};

}  // namespace xdpgpu::gpu::cuda
