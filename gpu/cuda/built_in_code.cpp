// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "gpu/cuda/kernels.hpp"
#include "gpu/device_code.hpp"

// As the build made them (cuda.cmake), the modules of an architecture one behind the other: kModules', and
// all but the last of them once more, for pipelines that run programs.
struct xg_cuda_module {
  const char* begin;
  const char* end;
  u32 architecture;
  u32 machine_code;  // 0: PTX; 2: of this architecture alone
};
extern "C" const xg_cuda_module xg_cuda_modules_begin[], xg_cuda_modules_end[];

namespace xdpgpu::gpu {
namespace {

constexpr std::size_t kBuiltModules = 2 * cuda::kModules.size() - 1;

// Machine code runs on GPUs of the same major capability, from its own minor one on; PTX on all later ones.
bool suits(const xg_cuda_module& module, u32 capability) noexcept {
  if (module.machine_code == 2) return module.architecture == capability;
  return module.architecture <= capability &&
         (module.machine_code == 0 || module.architecture / 10 == capability / 10);
}

// The first of the modules that suit best: machine code before PTX, then the later architecture.
const xg_cuda_module* best(u32 capability) noexcept {
  const xg_cuda_module* found = nullptr;
  for (const xg_cuda_module* at = xg_cuda_modules_begin; at < xg_cuda_modules_end; at += kBuiltModules) {
    if (!suits(*at, capability)) continue;
    const auto rank = [](const xg_cuda_module& module) {
      return std::min(module.machine_code, 1u) * 1000 + module.architecture;
    };
    if (found == nullptr || rank(*at) > rank(*found)) found = at;
  }
  return found;
}

std::string built_for() {
  std::string all;
  for (const xg_cuda_module* at = xg_cuda_modules_begin; at < xg_cuda_modules_end; at += kBuiltModules)
    all += fmt::format("{}{}.{}{}", all.empty() ? "" : ", ", at->architecture / 10, at->architecture % 10,
                       at->machine_code != 0 ? "" : " and later");
  return all;
}

}  // namespace

Result<std::shared_ptr<const DeviceCode>> built_in_code(u32 capability, bool programs) {
  const xg_cuda_module* const first = best(capability);
  if (first == nullptr)
    return tl::unexpected(
        fmt::format("this build has no code for a GPU of compute capability {}.{}: it was built for {} "
                    "(XDPGPU_CUDA_ARCHITECTURES)",
                    capability / 10, capability % 10, built_for()));
  auto code = std::make_shared<DeviceCode>();
  code->id = fmt::format("built in{}, {} {}", programs ? " for programs" : "",
                         first->machine_code != 0 ? "machine code" : "PTX", first->architecture);
  code->architecture = capability;
  // Mirrored packets meet no program: what watches them there is once.
  for (std::size_t i = 0; i < cuda::kModules.size(); i++) {
    const bool again = programs && i + 1 < cuda::kModules.size();
    const xg_cuda_module& module = first[again ? cuda::kModules.size() + i : i];
    code->modules.emplace_back(module.begin, module.end);
  }
  return code;
}

bool has_machine_code(u32 capability) noexcept {
  const xg_cuda_module* const found = best(capability);
  return found != nullptr && found->machine_code != 0;
}

}  // namespace xdpgpu::gpu
