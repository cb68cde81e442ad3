// SPDX-License-Identifier: MIT
#include "userspace/compiler/ptx.hpp"

#include <fmt/format.h>

#include <span>
#include <utility>

#include "userspace/compiler/nvjitlink.hpp"

namespace xdpgpu::compiler {

tl::expected<void, std::string> load_ptx_compiler() { return load_linker(); }
std::string ptx_compiler_version() { return linker_version(); }

tl::expected<gpu::DeviceCode, std::string> compile_ptx(const gpu::DeviceCode& ptx, u32 architecture) {
  gpu::DeviceCode code;
  code.id = fmt::format("made of {} for {}", ptx.id, architecture);
  code.architecture = architecture;
  for (const auto& module : ptx.modules) {
    const LinkInput input{module, "stages"};
    auto cubin = link_code(std::span(&input, 1), architecture);
    if (!cubin) return tl::unexpected(std::move(cubin.error()));
    code.modules.push_back(*std::move(cubin));
  }
  return code;
}

}  // namespace xdpgpu::compiler
