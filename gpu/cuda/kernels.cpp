// SPDX-License-Identifier: MIT
#include "gpu/cuda/kernels.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <atomic>
#include <cstring>
#include <span>

#include "gpu/cuda/memory.hpp"

namespace xdpgpu::gpu::cuda {
namespace {

// By Kernel: its name, and its module's place in kModules.
struct Named {
  const char* name;
  u32 module;
};
constexpr std::array<Named, kKernels> kNames{{{"xg_decide", 0},
                                              {"xg_decide_alone", 0},
                                              {"xg_decide_team", 0},
                                              {"xg_finish", 0},
                                              {"xg_finish_crowded", 0},
                                              {"xg_decide_posted", 1},
                                              {"xg_reside", 2},
                                              {"xg_watch", 3}}};

template <class T>
T value_at(std::span<const char> bytes, std::size_t at) noexcept {
  T value{};
  std::memcpy(&value, bytes.data() + at, sizeof(value));
  return value;
}

// The driver takes no size: what it is given it reads as far as the code's own heads say.
bool is_whole(std::span<const char> module) noexcept {
  // A fatbin's head: magic number, version, bytes of the head, bytes behind it.
  constexpr std::size_t kFatHead = 16;
  constexpr u32 kFat = 0xba55ed50;
  if (module.size() >= kFatHead && value_at<u32>(module, 0) == kFat) {
    const u64 head = value_at<u16>(module, 6), rest = value_at<u64>(module, 8);
    return head >= kFatHead && rest <= module.size() && head + rest <= module.size();
  }
  if (module.size() < sizeof(Elf64_Ehdr) || std::memcmp(module.data(), ELFMAG, SELFMAG) != 0) return false;
  const auto head = value_at<Elf64_Ehdr>(module, 0);
  const auto fits = [&](u64 at, u64 count, u64 size) {
    return at <= module.size() && count * size <= module.size() - at;
  };
  if (!fits(head.e_shoff, head.e_shnum, sizeof(Elf64_Shdr)) ||
      !fits(head.e_phoff, head.e_phnum, sizeof(Elf64_Phdr)))
    return false;
  for (u32 i = 0; i < head.e_shnum; i++) {
    const auto section = value_at<Elf64_Shdr>(module, head.e_shoff + i * sizeof(Elf64_Shdr));
    if (section.sh_type != SHT_NOBITS && !fits(section.sh_offset, section.sh_size, 1)) return false;
  }
  return true;
}

}  // namespace

Result<std::shared_ptr<Kernels>> Kernels::read(std::shared_ptr<const DeviceCode> code) {
  static std::atomic<u32> numbers{0};
  auto kernels = std::make_shared<Kernels>();
  kernels->code_ = std::move(code);
  kernels->number_ = ++numbers;
  const auto& modules = kernels->code_->modules;
  if (modules.size() != kModules.size())
    return tl::unexpected(
        fmt::format("the code {} has {} modules, not {}", kernels->id(), modules.size(), kModules.size()));
  for (std::size_t i = 0; i < modules.size(); i++) {
    if (!is_whole(modules[i]))
      return tl::unexpected(fmt::format("the code {} is none for a GPU, or a part is missing: module {}",
                                        kernels->id(), kModules[i]));
    if (const cudaError_t error = cudaLibraryLoadData(&kernels->libraries_[i], modules[i].data(), nullptr,
                                                      nullptr, 0, nullptr, nullptr, 0);
        error != cudaSuccess)
      return failure("reading the stages' code", error);
  }
  for (u32 i = 0; i < kKernels; i++) {
    cudaKernel_t found = nullptr;
    if (const cudaError_t error =
            cudaLibraryGetKernel(&found, kernels->libraries_[kNames[i].module], kNames[i].name);
        error != cudaSuccess)
      return failure("finding a stage's kernel", error);
    kernels->kernels_[i] = reinterpret_cast<const void*>(found);
  }
  return kernels;
}

Result<void> Kernels::bring(Kernel kernel) {
  cudaFuncAttributes attributes{};
  if (const cudaError_t error = cudaFuncGetAttributes(&attributes, (*this)[kernel]); error != cudaSuccess)
    return failure("loading the stages", error);
  // Code that is compiled for an earlier GPU keeps to what that one has, whichever it runs on.
  if (kernel == Kernel::decide) overlaps_ = attributes.ptxVersion >= 90;
  return {};
}

Kernels::~Kernels() {
  if (abandoned_) return;
  for (const cudaLibrary_t library : libraries_)
    if (library != nullptr) (void)cudaLibraryUnload(library);
}

}  // namespace xdpgpu::gpu::cuda
