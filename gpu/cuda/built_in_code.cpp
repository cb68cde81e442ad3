// SPDX-License-Identifier: MIT
#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "gpu/cuda/kernels.hpp"
#include "gpu/device_code.hpp"

// As the build made them (cuda.cmake), the modules of an architecture one behind the other: kModules'; all
// but the last of them once more, for pipelines that run programs; and of machine code these a third time, as
// they can be linked, and the interpreter. What is not there is empty: of PTX the last four.
struct xg_cuda_module {
  const char* begin;
  const char* end;
  u32 architecture;
  u32 machine_code;  // 0: PTX; 2: of this architecture alone
};
extern "C" const xg_cuda_module xg_cuda_modules_begin[], xg_cuda_modules_end[];

namespace xdpgpu::gpu {
namespace {

constexpr std::size_t kModules = cuda::kModules.size(), kOfPrograms = kModules - 1;
constexpr std::size_t kBuiltModules = kModules + 2 * kOfPrograms + 1;

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

std::vector<char> bytes_of(const xg_cuda_module& module) { return {module.begin, module.end}; }

Result<const xg_cuda_module*> modules_for(u32 capability) {
  const xg_cuda_module* const first = best(capability);
  if (first != nullptr) return first;
  return tl::unexpected(
      fmt::format("this build has no code for a GPU of compute capability {}.{}: it was built for {} "
                  "(XDPGPU_CUDA_ARCHITECTURES)",
                  capability / 10, capability % 10, built_for()));
}

}  // namespace

Result<std::shared_ptr<const DeviceCode>> built_in_code(u32 capability, bool programs) {
  const auto first = modules_for(capability);
  if (!first) return tl::unexpected(first.error());
  if (programs && (*first)[kModules].begin == (*first)[kModules].end)
    return tl::unexpected(std::string("this build has no code that runs programs"));
  auto code = std::make_shared<DeviceCode>();
  code->id = fmt::format("built in{}, {} {}", programs ? " for programs" : "",
                         (*first)->machine_code != 0 ? "machine code" : "PTX", (*first)->architecture);
  code->architecture = capability;
  // Mirrored packets meet no program: what watches them there is once.
  for (std::size_t i = 0; i < kModules; i++)
    code->modules.push_back(bytes_of((*first)[programs && i < kOfPrograms ? kModules + i : i]));
  return code;
}

Result<LinkableCode> linkable_code(u32 capability) {
  const auto first = modules_for(capability);
  if (!first) return tl::unexpected(first.error());
  if ((*first)->machine_code == 0 || (*first)[kBuiltModules - 1].begin == (*first)[kBuiltModules - 1].end)
    return tl::unexpected(
        fmt::format("this build has no machine code for a GPU of compute capability {}.{}, which translated "
                    "programs are linked to: build it with {}-real among XDPGPU_CUDA_ARCHITECTURES",
                    capability / 10, capability % 10, capability));
  LinkableCode linkable;
  linkable.code.id = fmt::format("machine code {}", (*first)->architecture);
  linkable.code.architecture = capability;
  for (std::size_t i = 0; i < kModules; i++) {
    linkable.runs_programs.push_back(i < kOfPrograms);
    linkable.code.modules.push_back(bytes_of((*first)[i < kOfPrograms ? kModules + kOfPrograms + i : i]));
  }
  linkable.interpreter = bytes_of((*first)[kBuiltModules - 1]);
  return linkable;
}

bool has_machine_code(u32 capability) noexcept {
  const xg_cuda_module* const found = best(capability);
  return found != nullptr && found->machine_code != 0;
}

}  // namespace xdpgpu::gpu
